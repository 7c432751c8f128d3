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
	const struct gs_account_thread
		*crashed;    /* a process that a signal of a fault ended, or NULL */
	size_t n_not_locked; /* traced threads that do anything but wait for locks */
};

#define RULES_INPUT_BOUND 0.30 /* of its time a thread waits for input */

void rules_gather_facts(struct facts *facts);

/* 0 for no time at all. */
double rules_share_of(uint64_t ns, uint64_t wall_ns);

/* Adds to a sentence; without memory it is cut. */
void rules_add_text(struct gs_buf *text, const char *fmt, ...) GS_PRINTF(2, 3);

/* --- trace_start.c --- */

/* Takes start-up out of the account of the process that sets the pace: s->account.threads is another
 * array then, whose start_up_ns is what was left out of each thread. How long it was; 0: nothing is left
 * out. */
uint64_t rules_leave_out_start_up(struct gs_summary *s);

/* Of a thread, with what was left out: of what was counted during the whole run. */
uint64_t rules_whole_ns(const struct gs_account_thread *thread);

/* --- trace_input.c: as holds of struct rule in trace.c --- */

bool rules_holds_loader(const struct facts *facts, struct gs_buf *evidence, double *ret_share);
bool rules_holds_loader_samples(const struct facts *facts, struct gs_buf *evidence,
				double *ret_share);
bool rules_holds_input(const struct facts *facts, struct gs_buf *evidence, double *ret_share);

#endif
