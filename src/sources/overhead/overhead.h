/*
 * What --max-overhead decides: how each function may be traced so that the traced program spends no
 * more than a part of its processor time in probes. Knows nothing of the kernel: it is given hits,
 * processor time and the clock, and answers with steps. One thread.
 *
 * The cost of a hit is that of its probe (sources/uprobe/cost.h) in the mode that the function has, and
 * that of the single steps it took. A share is cost over time on processors, as the kernel counts
 * it: a thread that waits for a processor does not look cheap by that. Three shares have the same
 * limit: that of each thread (a loop that is slowed down runs in one thread), of each process and
 * of all. Who used less than a tenth of a processor counts as having used that: what sleeps is not
 * slowed down.
 *
 * Each of them has what the limit grants for GS_OVERHEAD_BURST_NS to spend at once, and then the
 * limit's part of its time. Who has spent more makes the functions that cost most in the interval
 * go down, one step at a time, until the same hits would cost less than the limit, and has again
 * what the limit grants for GS_OVERHEAD_AGAIN_NS: no function goes down for what one short interval
 * happens to have in it. The last step takes the probes off, which takes a while: hits that come
 * until then are added up, but no reason for further steps. No function ever goes up again: a
 * program that is in a quiet phase would be taken for one that calls little, and be slowed down
 * again when it is not.
 */
#ifndef GS_SOURCES_OVERHEAD_OVERHEAD_H
#define GS_SOURCES_OVERHEAD_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "model/trace/kernel_side.h"
#include "model/trace/cost.h"

#define GS_OVERHEAD_MAX_UNITS   4096 /* threads and processes at one time; others count in the sum */
#define GS_OVERHEAD_BURST_NS    1e9
#define GS_OVERHEAD_MEAN_CPU_NS 40000000 /* ten ticks of 4 ms (CONFIG_HZ=250) */
#define GS_OVERHEAD_AGAIN_NS    0.2e9    /* four intervals */

struct gs_overhead;

/* max_ratio 0: only add up the cost. NULL: no memory. */
struct gs_overhead *gs_overhead_new(const struct gs_costs *costs, double max_ratio);
void gs_overhead_free(struct gs_overhead **budget);

/* The function is never touched: what it reports is needed to understand the rest. */
void gs_overhead_pin(struct gs_overhead *budget, unsigned func);

/* Calls of the function pass such a probe; of several the most expensive counts. Until then it is a
 * GS_COST_CALL, and has no probes of its own to be taken off (spans, whose names share probes).
 * Probes that are kept are never taken off, and no step is made for a function that is watched.
 * Any thread. */
void gs_overhead_place(struct gs_overhead *budget, unsigned func, const struct gs_hit *hit);

/* Since the last tick a thread made so many calls of the function that were traced and so many that
 * were only counted, and passed so many probes that the kernel single-steps, at entries and where
 * functions are left (traced, counted, stepped, stepped_exits). */
struct gs_overhead_hits {
	uint32_t pid, tid;
	unsigned func; /* id */
	uint64_t traced, counted, stepped, stepped_exits;
};

/* Before the tick that they belong to; an unknown function is passed over. */
void gs_overhead_add_hits(struct gs_overhead *budget, const struct gs_overhead_hits *hits);

/* Since the last tick it had a processor for so long. */
void gs_overhead_add_cpu(struct gs_overhead *budget, uint32_t pid, uint32_t tid, uint64_t cpu_ns);

/* One function goes down. */
struct gs_overhead_step {
	unsigned func;     /* id */
	enum gs_mode mode; /* how it is to be traced from now on */
	double hits_per_s;
	double ratio; /* what it cost until now, of processor time */
};

/* An interval has ended: *ret_ratio is the largest share in it. step is called for each step to be
 * made; NULL: none is made. The first call only starts the clock. */
void gs_overhead_tick(struct gs_overhead *budget, uint64_t now_ns, double *ret_ratio,
		      void (*step)(void *ctx, const struct gs_overhead_step *step), void *ctx);

/* How it is to be traced as of the last tick; an unknown function: as events. */
enum gs_mode gs_overhead_mode(const struct gs_overhead *budget, unsigned func);

/* Was the function not chosen, and is it probed for what comes after its calls (gs_hit.is_watched)? */
bool gs_overhead_is_watched(const struct gs_overhead *budget, unsigned func);

/* Of the whole run, for tables. */
uint64_t gs_overhead_func_hits(const struct gs_overhead *budget, unsigned func);
uint64_t gs_overhead_func_steps(const struct gs_overhead *budget, unsigned func);
double gs_overhead_func_cost_ns(const struct gs_overhead *budget, unsigned func);
/* What all hits of it would have cost in a mode. */
double gs_overhead_func_cost_in(const struct gs_overhead *budget, unsigned func, enum gs_mode mode);
/* Of all, over all processor time; negative: too little of that was used (GS_OVERHEAD_MEAN_CPU_NS) for a
 * share that says something, as the kernel's sums are late by up to a tick. */
double gs_overhead_mean_ratio(const struct gs_overhead *budget);

#endif
