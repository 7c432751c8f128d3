/*
 * What --max-overhead decides: how dearly each function may be traced so that no traced thread
 * spends more than a part of its time in probes. Knows nothing of the kernel: it is told hits and
 * the time, and answers with steps. One thread.
 *
 * The cost of a hit is its price (probe/price.h) in the mode that the function has. The cost that
 * counts is that of the busiest thread: a loop that is slowed down runs in one thread. When it
 * passes the limit in an interval, the functions that cost most in it go down, one step at a time,
 * until what the same hits would cost now is below. The last step takes the probes off, which takes
 * a while: hits that come until then are added up, but no reason for further steps. No function
 * ever goes up again: a program that is in a quiet phase would be taken for one that calls little,
 * and be slowed down again when it is not.
 */
#ifndef GS_BUDGET_BUDGET_H
#define GS_BUDGET_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "model/kernel_side.h"
#include "model/price.h"

#define GS_BUDGET_MAX_THREADS 4096 /* counted apart in one interval; others are added to one */

struct gs_budget;

/* max_ratio 0: only add up the cost. NULL: no memory. */
struct gs_budget *gs_budget_new(const struct gs_prices *prices, double max_ratio);
void gs_budget_free(struct gs_budget **budget);

/* The function is never touched: what it tells is needed to understand the rest. */
void gs_budget_pin(struct gs_budget *budget, unsigned func);

/* Calls of the function pass this probe; of several ones at its entry the dearest counts, and so of
 * those where it is left. Until told, it is a GS_PRICE_CALL of emulated probes, and has none of its
 * own to be taken off (spans, whose names share probes). Any thread. */
void gs_budget_place(struct gs_budget *budget, unsigned func, const struct gs_hit *hit);

/* What a call of it costs in a mode; whether any of its probes is single-stepped. */
double gs_budget_price_ns(const struct gs_budget *budget, unsigned func, enum gs_mode mode);
bool gs_budget_is_stepped(const struct gs_budget *budget, unsigned func);

/* Since the last tick a thread made so many calls of the function that were traced, and so many
 * that were only counted. */
void gs_budget_hits(struct gs_budget *budget, uint32_t tid, unsigned func, uint64_t traced,
		    uint64_t counted);

/* One function goes down. */
struct gs_budget_step {
	unsigned func;
	enum gs_mode mode;
	double hits_per_s;
	double ratio; /* what it cost until now, of all traced threads' time as below */
};

/* An interval has ended: *ret_ratio is what the busiest thread spent in probes in it. step is
 * called for each step to be made; NULL: none is made. The first call only starts the clock. */
void gs_budget_tick(struct gs_budget *budget, uint64_t now_ns, double *ret_ratio,
		    void (*step)(void *ctx, const struct gs_budget_step *step), void *ctx);

enum gs_mode gs_budget_mode(const struct gs_budget *budget, unsigned func);

/* Of the whole run, for tables. */
uint64_t gs_budget_func_hits(const struct gs_budget *budget, unsigned func);
double gs_budget_func_cost_ns(const struct gs_budget *budget, unsigned func);
double gs_budget_worst_ratio(const struct gs_budget *budget); /* of all intervals */
double gs_budget_mean_ratio(const struct gs_budget *budget);  /* of the run, busiest each time */

#endif
