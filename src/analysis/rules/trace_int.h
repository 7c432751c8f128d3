/* What the rules about traced programs ask for: gathered once out of a summary (trace_facts.c), judged by trace.c. */
#ifndef GS_ANALYSIS_RULES_TRACE_INT_H
#define GS_ANALYSIS_RULES_TRACE_INT_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "model/summary/summary.h"

struct facts {
	struct gs_summary *s;
	const struct gs_account_thread *pace; /* NULL: no account */
	double share[GS_PART_COUNT];          /* of its wall time */
	double seconds;
	uint64_t start_up_ns;                 /* left out of all that; 0: nothing */
	uint64_t launches, waits;             /* calls of the pace setter and its helper */
	uint64_t callbacks;                   /* host functions that they enqueued */
	uint64_t copies, copy_ns, copy_bytes; /* of the pace setter alone */
	uint64_t collectives;
	size_t n_workers;
	double worker_share[GS_PART_COUNT]; /* of the workers' time, all together */
	double cpus;                        /* processors that all traced threads used, mean */
	double others_active; /* what the other threads of its process did, of one thread's time */
	double others_ran;    /* and of them those that do not launch: on processors */
	/* The wait for a data loader that a program marked (PyTorch does). */
	const struct gs_account_thread *loader_thread;
	const char *loader_name; /* NULL: none */
	double loader_share;     /* of that thread's wall time */
	uint64_t loader_calls;
	bool has_torch; /* PyTorch is loaded, so there may be a loader that marks nothing */
	/* Threads of the process of the pace setter that took turns: ran and waited for locks, and the processors
	 * that all its threads used. */
	size_t n_contending;
	double process_busy;
	/* Threads of that process of which one at a time runs or sleeps, as those do that share one lock, however seldom most of
	 * them get it; 0: there are none. */
	size_t n_taking_turns;
	/* The same of processes that the parent of its process started as it did it: they share a lock in shared memory. */
	size_t n_processes_in_turn;
	/* The longest that a thread of that process waited for a mutex, of the pace setter's time, and how many waited at all. */
	double mutex_share;
	size_t n_at_mutex;
	/* Of the other threads of that process the one that slept most; NULL: none mostly sleeps. */
	const struct gs_account_thread *sleeper;
	double sleeper_share; /* of the pace setter's time */
	const struct gs_account_thread
		*crashed;    /* a process that a signal of a fault ended, or NULL */
	size_t n_not_locked; /* traced threads that do anything but wait for locks */
	/* Ranks at collectives; each NULL where it is not known or there is none. */
	const struct gs_collectives_comm *arrivals;  /* a communicator with matched ones */
	const struct gs_collectives_rank *late;      /* the rank of it that stands out, */
	const struct gs_account_thread *late_thread; /* the thread that sets its pace, */
	double late_waits; /* and how long its process waits for GPU and NCCL, of the pace setter's time */
};

#define RULES_INPUT_BOUND   0.30 /* of its time a thread waits for input, */
#define RULES_COMMUNICATION 0.30 /* in NCCL's calls, or with a late rank for the GPU too, */
#define RULES_MPI_BOUND     0.40 /* in MPI's calls, */
#define RULES_GPU_BOUND     0.50 /* for the GPU, */
#define RULES_HOST_AHEAD                                                                           \
	0.20 /* the same, after so many launches each time: it was ahead of the GPU, */
#define RULES_COPY_BOUND    0.40 /* in calls that copy, */
#define RULES_SYNC_HEAVY    0.20 /* in many calls that wait, */
#define RULES_LAUNCH_BUSY   0.70 /* it is busy with the host's side of launches */
#define RULES_ASLEEP        0.50 /* it sleeps on purpose */
#define RULES_TURNS         1.10 /* processors that threads with one lock use, at most */
#define RULES_OTHERS_ACTIVE 0.10 /* of one CPU, by the other threads of its process */

/* Does a rule hold? Writes evidence and sets *ret_share, -1: it is not by time. */
typedef bool rules_holds_fn(const struct facts *facts, struct gs_buf *evidence, double *ret_share);

void rules_gather_facts(struct facts *facts);

/* 0 for no time at all. */
double rules_share_of(uint64_t ns, uint64_t wall_ns);

/* Words for the run in a sentence: "this run", or that it is another profiler's trace. */
const char *rules_name_run(const struct gs_summary *s);

/* Does a Python set the pace? */
bool rules_is_python(const struct facts *facts);

/* Adds to a sentence; without memory it is cut. */
void rules_add_text(struct gs_buf *text, const char *fmt, ...) GS_PRINTF(2, 3);

/* --- trace_start.c --- */

/* Takes start-up out of the account of the process that sets the pace: s->account.threads is another
 * array then, whose start_up_ns is what was left out of each thread. How long it was; 0: nothing is left
 * out. */
uint64_t rules_leave_out_start_up(struct gs_summary *s);

/* Of a thread, with what was left out: of what was counted during the whole run. */
uint64_t rules_whole_ns(const struct gs_account_thread *thread);

/* --- trace_input.c --- */

rules_holds_fn rules_holds_loader, rules_holds_loader_samples, rules_holds_input;

/* --- trace_gpu.c --- */

rules_holds_fn rules_holds_sync_heavy, rules_holds_gpu, rules_holds_host_ahead,
	rules_holds_gpu_callbacks, rules_holds_copies, rules_holds_launch,
	rules_holds_launch_held_up;

/* --- trace_ranks.c --- */

rules_holds_fn rules_holds_late_rank, rules_holds_nccl, rules_holds_collectives, rules_holds_mpi;

/* Which rank is late, and what its process does; the pace setter is known. */
void rules_find_late(struct facts *facts);

/* Of a wait for the GPU, on which collectives may run until the last rank has come. */
void rules_describe_collectives(const struct facts *facts, struct gs_buf *text);

/* Which rank the others wait for, of the pace setter's process or of another: where it costs them a tenth of the time of
 * their collectives, and was not said. */
void rules_describe_late_rank(const struct facts *facts, struct gs_buf *text);

/* Is it a rule about ranks, and is the one known that the others wait for? */
bool rules_is_of_ranks(const struct facts *facts, rules_holds_fn *holds);

#endif
