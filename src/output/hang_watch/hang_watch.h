/*
 * From what is traced to the search for hangs (analysis/hang) and to the sums of ranks that a head compares
 * over nodes (analysis/fleet): communicators, collectives, ends of processes, and calls that have not
 * returned. All under the lock of the output.
 */
#ifndef GS_OUTPUT_HANG_WATCH_HANG_WATCH_H
#define GS_OUTPUT_HANG_WATCH_HANG_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "model/trace/account.h"
#include "model/trace/event.h"

struct gs_aggregate;
struct gs_ingest;
struct gs_frame;
struct gs_thread;
struct gs_uprobe;
struct gs_hang_found; /* analysis/hang/hang.h */
struct gs_hang_watch;

/* Takes the collectives of view, which is borrowed. quiet_ns: as of gs_hang_new(), 0: hangs are not looked for.
 * boot_minus_mono_ns: as the calls of view have it. NULL: no memory. */
struct gs_hang_watch *gs_hang_watch_new(uint64_t quiet_ns, bool wants_sums,
					struct gs_aggregate *view, int64_t boot_minus_mono_ns);
void gs_hang_watch_free(struct gs_hang_watch **hang);

/* These take NULL: nothing is looked for. An event and an account may say that a process ended. */
void gs_hang_watch_event(struct gs_hang_watch *hang, const struct gs_event *event);
void gs_hang_watch_account(struct gs_hang_watch *hang, const struct gs_account_reading *reading);

/* All events until now were handed over: look for hangs. */
void gs_hang_watch_tick(struct gs_hang_watch *hang, struct gs_uprobe *probe);

/* The end of tracing: all was handed over. */
void gs_hang_watch_stop(struct gs_hang_watch *hang);

/* Append what each rank adds up to, as RANK records, when a second has passed since the last time; is_last: tracing
 * ends. */
void gs_hang_watch_put_sums(struct gs_hang_watch *hang, bool is_last, struct gs_buf *out);

/* The next that was found or has ended; ranks are the caller's to free. False: none. */
bool gs_hang_watch_next(struct gs_hang_watch *hang, struct gs_hang_found *ret_found);

/* The stacks of a rank in words, the innermost frame first; NULL: not read. */
struct gs_hang_watch_stacks {
	char *python, *native; /* owned */
};

/* Record what was found, or that it is over; stacks of the first n_stacks ranks. */
void gs_hang_watch_record(struct gs_ingest *feed, const struct gs_hang_found *found,
			  const struct gs_hang_watch_stacks *stacks, size_t n_stacks);

/* The same of all that was found since the last time, or is over, without stacks. Takes NULL. */
void gs_hang_watch_record_all(struct gs_hang_watch *hang, struct gs_ingest *feed);

#endif
