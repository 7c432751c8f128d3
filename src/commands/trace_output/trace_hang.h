/*
 * From what is traced to the search for hangs (analysis/hang) and to the sums of ranks that a head compares
 * over nodes (analysis/fleet): communicators, collectives, ends of processes, and calls that have not
 * returned. All under the lock of the output.
 */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_HANG_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/hang/hang.h"
#include "core/base/buf.h"
#include "model/trace/account.h"
#include "model/trace/event.h"

struct gs_aggregate;
struct gs_ingest;
struct gs_frame;
struct gs_thread;
struct gs_uprobe;
struct trace_hang;

/* Takes the collectives of view, which is borrowed. quiet_ns: as of gs_hang_new(), 0: hangs are not looked for.
 * boot_minus_mono_ns: as the calls of view have it. NULL: no memory. */
struct trace_hang *trace_hang_new(uint64_t quiet_ns, bool wants_sums, struct gs_aggregate *view,
				  int64_t boot_minus_mono_ns);
void trace_hang_free(struct trace_hang **hang);

/* These take NULL: nothing is looked for. An event and an account may say that a process ended. */
void trace_hang_event(struct trace_hang *hang, const struct gs_event *event);
void trace_hang_account(struct trace_hang *hang, const struct gs_account_reading *reading);

/* All events until now were handed over: look for hangs. */
void trace_hang_tick(struct trace_hang *hang, struct gs_uprobe *probe);

/* The end of tracing: all was handed over. */
void trace_hang_stop(struct trace_hang *hang);

/* Append what each rank adds up to, as RANK records, when a second has passed since the last time; is_last: tracing
 * ends. */
void trace_hang_put_sums(struct trace_hang *hang, bool is_last, struct gs_buf *out);

/* The next that was found or has ended; ranks are the caller's to free. False: none. */
bool trace_hang_next(struct trace_hang *hang, struct gs_hang_found *ret_found);

/* The stacks of a rank in words, the innermost frame first; NULL: not read. */
struct trace_hang_stacks {
	char *python, *native; /* owned */
};

/* Record what was found, or that it is over; stacks of the first n_stacks ranks. */
void trace_hang_record(struct gs_ingest *feed, const struct gs_hang_found *found,
		       const struct trace_hang_stacks *stacks, size_t n_stacks);

#endif
