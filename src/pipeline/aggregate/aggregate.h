/*
 * The running totals that screens and summaries show: per function, over all, per process and per
 * thread, from CALL and STATS records alike (a call comes as one of them, never both). One thread.
 *
 * push returns -EBADMSG when a batch holds a malformed record (what stood before it is counted) and
 * -ENOMEM when something could not be counted; both leave the view usable.
 */
#ifndef GS_PIPELINE_AGGREGATE_AGGREGATE_H
#define GS_PIPELINE_AGGREGATE_AGGREGATE_H

#include <stdbool.h>

#include "model/trace/record.h"
#include "model/summary/summary.h"

/* Beyond these, calls are still counted, under fewer names: pairs of thread and function go to a
 * thread "unknown", functions to "unknown". Communicators, files and open calls past their limit
 * are left out and shown in the summary as GS_LOSS_SINK of "summary". */
#define GS_AGGREGATE_MAX_PAIRS     (1u << 15)
#define GS_AGGREGATE_MAX_FUNCTIONS GS_FUNCTION_ID_MAX
#define GS_AGGREGATE_MAX_ERRORS    64 /* codes by function; more are "other" */
#define GS_AGGREGATE_MAX_COMMS     (1u << 16)
#define GS_AGGREGATE_MAX_ATTACHED  (1u << 14)
#define GS_AGGREGATE_MAX_OPEN      (1u << 16)
#define GS_AGGREGATE_MAX_LOST      1024
#define GS_AGGREGATE_MAX_KERNELS   (1u << 16)
#define GS_AGGREGATE_MAX_ACCOUNTS  (1u << 14) /* threads beyond are added up as one */

struct gs_aggregate;
struct gs_activity; /* pipeline/gpu_activity */

/* 0 or -ENOMEM. */
int gs_aggregate_new(struct gs_aggregate **ret_view);
void gs_aggregate_free(struct gs_aggregate **view);

/* What follows streams of GPUs in it; lent as well. To it, from who shows their spans or sets its bounds. */
struct gs_activity *gs_aggregate_activity(struct gs_aggregate *view);

/* The sink to push to; lent as long as the view lives. */
const struct gs_sink *gs_aggregate_sink(struct gs_aggregate *view);

/* Everything so far; *ret_summary is the caller's to free. 0 or -ENOMEM. */
int gs_aggregate_make_summary(struct gs_aggregate *view, struct gs_summary **ret_summary);

/* Files whose lines are passed over when a Python stack is shown as one line: patterns of
 * fnmatch(3) instead of the usual ones (the standard library, installed packages); n 0: none. Once,
 * before the first summary. 0 or -ENOMEM. */
int gs_aggregate_set_line_filter(struct gs_aggregate *view, const char *const *globs, size_t n);

/* A step that ended. What begins steps is known only after a while, and may turn out to be wrong: then
 * the steps of its slot are void, and others come with another run, from the first call on. Which slot
 * and run the summary shows is in struct gs_step_summary. */
#define GS_AGGREGATE_STEP_SLOTS 16

struct gs_aggregate_step {
	unsigned slot;         /* below GS_AGGREGATE_STEP_SLOTS */
	uint32_t run;          /* from 1 */
	uint32_t process, tid; /* id of the thread's process; 0: not known */
	uint32_t pid;          /* of that process; 0: not known */
	uint64_t start_ns, dur_ns;
	bool regular; /* it has about as many calls as most; others are left out of the summary */
};

typedef void (*gs_aggregate_step_fn)(void *ctx, const struct gs_aggregate_step *step);

#define GS_AGGREGATE_STEP_RECEIVERS 6 /* four files of a trace, its findings, and its head */

/* Before the first record; one for each ctx. Some steps of a short run come when the summary is made.
 * take NULL: ctx receives none any more. */
void gs_aggregate_set_step_receiver(struct gs_aggregate *view, gs_aggregate_step_fn take,
				    void *ctx);

/* The steps of a process as far as they are known: of its thread that has spent most time in steps, the run that goes on, or
 * the longest one that ended. Found and added up as those of the summary are. */
struct gs_aggregate_process_steps {
	uint32_t pid, tid;
	unsigned
		slot; /* and run: which of those that receivers get, as in struct gs_aggregate_step */
	uint32_t run;
	uint64_t n_steps, n_odd;            /* as in struct gs_step_summary */
	uint64_t median_ns, p95_ns, max_ns; /* likewise */
};

/* Of each process that has steps; lent for the call. */
void gs_aggregate_each_process_steps(const struct gs_aggregate *view,
				     void (*fn)(void *ctx,
						const struct gs_aggregate_process_steps *steps),
				     void *ctx);

/* Collectives as they come, for who looks for ranks that wait for others. member: a rank's communicator, from
 * 1 on, as pipeline/collectives numbers them. Any may be NULL. */
struct gs_aggregate_collectives {
	/* What is known of a communicator: id is the same for all ranks of it; may come again. */
	void (*member)(void *ctx, uint32_t member, uint32_t pid, uint64_t id, int32_t rank,
		       int32_t n_ranks);
	/* A call of it that did not fail, lent; also one that has not returned at the end. */
	void (*call)(void *ctx, uint32_t member, uint32_t tid, const struct gs_rec_call *call);
	/* Its newest call, made at entered_ns, was over at left_ns at the latest, as the host learned; only of those that no
	 * rank can leave before the last has entered. Where calls come one by one. */
	void (*stay)(void *ctx, uint32_t member, uint64_t entered_ns, uint64_t left_ns);
	void (*end)(void *ctx,
		    uint32_t member); /* it was destroyed, as far as such calls come one by one */
	void (*lose)(void *ctx, uint32_t pid); /* calls of a process (0: of any) are missing */
	void *ctx;
};

/* Before the first record; copied. */
void gs_aggregate_set_collectives(struct gs_aggregate *view,
				  const struct gs_aggregate_collectives *receiver);

/* The member that a communicator of a process is now, by its handle; 0: none. */
uint32_t gs_aggregate_find_member(const struct gs_aggregate *view, uint32_t pid, uint64_t handle);

/* For a live line: calls so far of a layer (0: all), and calls lost to the trace so far. Calls left
 * out because --min-duration asked so are not lost. */
uint64_t gs_aggregate_calls(const struct gs_aggregate *view, unsigned layer);
uint64_t gs_aggregate_lost(const struct gs_aggregate *view);

#endif
