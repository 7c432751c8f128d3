/*
 * --keep-last: a trace that is kept in memory and written when there is a reason to. Asked for by any thread under the
 * output's lock; the consumer thread takes a copy when all events of before are in it, and the control thread writes
 * that without the lock.
 */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_KEEP_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/explain/explain.h"
#include "commands/trace_options/trace_options.h"
#include "core/base/err.h"
#include "model/trace/record.h"

struct trace_keep;
struct trace_keep_copy; /* to be written */

/* options are borrowed. *ret_keep stays NULL without --keep-last, which all of these take. 0 or a negative errno with
 * err. */
int trace_keep_new(const struct trace_options *options, bool is_private,
		   struct trace_keep **ret_keep, struct gs_err *err);
void trace_keep_free(struct trace_keep **keep);

/* Where all records go. keep is not NULL. */
const struct gs_sink *trace_keep_sink(struct trace_keep *keep);

/* There is a reason to write: one of enum trace_keep_on, which may not be wanted; 0: a user asks. why: in words. Files for
 * reasons of their own are at least the time that is kept apart: a later reason waits. */
void trace_keep_ask(struct trace_keep *keep, enum trace_keep_on on, const char *why);

/* SIGHUP or SIGUSR1 came: a user asks, or the agent's recorder for a finding of its own, which it sends along. */
struct signalfd_siginfo;
void trace_keep_ask_signal(struct trace_keep *keep, const struct signalfd_siginfo *signal);

/* A thread ended: of a process that was killed by a signal of a crash, or failed (its exit status is not 0), or not. */
void trace_keep_ask_ended(struct trace_keep *keep, const struct gs_account_reading *reading);

/* A finding that begins or ended, as gs_explain_report_fn has it; keep: of the trace. */
void trace_keep_ask_finding(void *keep, const struct gs_explain_finding *finding);

/* All events until then (boot clock) were handed over: a copy is taken where one is due. */
void trace_keep_tick(struct trace_keep *keep, uint64_t now_ns);

/* The copy that is to be written; NULL: none is. */
struct trace_keep_copy *trace_keep_take(struct trace_keep *keep);

/* Writes and frees it; says so, or what went wrong. Without the lock. */
int trace_keep_write(struct trace_keep_copy **copy);

/* The stream has ended: writes what is still asked for, and what is written at the end. 0 or the first error, said. */
int trace_keep_end(struct trace_keep *keep);

#endif
