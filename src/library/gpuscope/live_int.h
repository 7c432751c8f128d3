/* A running trace, shared by live.c (threads, start and end), live_plan.c (options) and live_output.c (records). */
#ifndef GS_LIBRARY_GPUSCOPE_LIVE_INT_H
#define GS_LIBRARY_GPUSCOPE_LIVE_INT_H

#include <stdatomic.h>

#include "core/base/foreign.h"
#include "library/gpuscope/library_int.h"
#include "model/trace/func_set.h"
#include "model/trace/user_set.h"
#include "sources/program/program.h"
#include "sources/uprobe/uprobe.h"

#define LIVE_PIDS_MAX 64

/* What to trace, in the terms of the rooms below. */
struct live_plan {
	uint32_t layers;           /* bits 1 << enum gs_layer; 0: the default */
	struct gs_user_set *users; /* owned */
	const char *
		*globs; /* functions by name; the array is owned, the strings are the caller's */
	size_t n_globs;
	const char **ops; /* likewise: PyTorch operators */
	size_t n_ops;
	char target[1024]; /* description of the target for people */
};

/* --- live_plan.c --- */

/* Checks the options and makes a plan of them; free it with live_plan_fini(), also after an error. 0, or a negative errno
 * with err. */
int live_plan_make(const struct gs_trace_options *options, struct live_plan *ret_plan,
		   struct gs_err *err);
void live_plan_fini(struct live_plan *plan);

/* --- live_output.c --- */

/* Turns events of the kernel side into records, totals, findings, files and items. All functions but init and fini take its
 * lock, so they may be called from any thread. */
struct live_output {
	pthread_mutex_t lock;
	struct gs_identity *place;    /* names of processes; owned, as all up to queue */
	struct gs_ingest *feed;       /* makes records */
	struct gs_correlate *span;    /* completes them */
	struct gs_aggregate *view;    /* adds them up */
	struct gs_findings *findings; /* follows the steps */
	struct gs_hang_watch *hangs;  /* NULL: hangs are not looked for */
	struct output_files files;
	struct record_queue *queue;
	struct gs_uprobe_losses losses;
	int64_t boot_minus_mono_ns;
	bool ended;
};

/* Opens outputs and starts the session. funcs and the plan must outlive it. Free it with live_output_fini(), also after an
 * error. 0, or a negative errno with err. */
int live_output_init(struct live_output *o, const struct gs_trace_options *options,
		     const struct live_plan *plan, const struct gs_func_set *funcs,
		     const char *attach_mode, struct gs_err *err);
void live_output_fini(struct live_output *o);

/* Records: a file was probed or not, a loss, a new process. */
void live_output_attach(struct live_output *o, const struct gs_attach *attach);
void live_output_loss(struct live_output *o, enum gs_loss cause, const char *detail,
		      uint64_t count);
void live_output_process(struct live_output *o, pid_t pid);
/* Records what this thread's guard has refused to read. */
void live_output_refused(struct live_output *o, struct gs_guard *guard);
/* Consumes the ring; drain: also the accumulators of the kernel side. */
void live_output_poll(struct live_output *o, struct gs_uprobe *probe, bool drain);
/* Consumes the rest, ends the session and completes all files. 0, or the first error of a file, with err. */
int live_output_end(struct live_output *o, struct gs_uprobe *probe, int exit_status,
		    const char *reason, struct gs_err *err);

/* --- live.c --- */

struct live_trace {
	struct live_plan plan;
	struct live_output output;
	struct gs_func_set *funcs;               /* owned; outlives probe and output */
	struct gs_uprobe *probe;                 /* owned */
	struct gs_guard *guard, *consumer_guard; /* owned; of the two threads */
	struct gs_program program;               /* the command */
	int program_fd;                          /* owned; readable when it has ended; -1 none */
	int pid_fds[LIVE_PIDS_MAX];              /* owned; likewise of the chosen ones; -1 closed */
	size_t n_pids, n_pids_left;
	bool ends_with_pids; /* when all of these have ended */
	uint64_t duration_ns, start_ns;
	int wake_fd; /* owned; wakes the control thread */
	atomic_bool stop, consumer_stop;
	_Atomic uint64_t
		rest_until_ns; /* after the end: time limit for reading files; 0: tracing still runs */
	pthread_t control, consumer;
	bool control_runs, consumer_runs;
	int exit_status;
	char reason[96];

	pthread_mutex_t state_lock; /* protects the rest */
	pthread_cond_t changed;
	bool finished;
	int error; /* the first of an output; 0: none */
	struct gs_err error_text;
};

#endif
