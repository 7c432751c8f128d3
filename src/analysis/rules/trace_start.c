/*
 * Start-up: what a process does before it launches work on a GPU first (imports, contexts, models that
 * are read). A short run is mostly that, and it says nothing of the loop that comes then: what limits
 * the run is judged from there on, and it is said how much was left out.
 */
#include <string.h>

#include "analysis/rules/trace_int.h"

#define START_UP_LEAST 0.10           /* of the wall time; less changes nothing */
#define START_UP_MOST  60000000000ull /* what takes longer is work of its own, and is judged */
#define STEADY_LEAST   1000000000ull

static uint64_t sum_ns(const uint64_t ns[GS_STATE_COUNT][GS_INSIDE_COUNT])
{
	uint64_t sum = 0;

	for (unsigned state = 0; state < GS_STATE_COUNT; state++)
		for (unsigned in = 0; in < GS_INSIDE_COUNT; in++)
			sum += ns[state][in];
	return sum;
}

uint64_t rules_whole_ns(const struct gs_account_thread *t)
{
	return t->wall_ns + sum_ns(t->start_up_ns);
}

static void leave_out(struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT];

	for (unsigned state = 0; state < GS_STATE_COUNT; state++)
		for (unsigned in = 0; in < GS_INSIDE_COUNT; in++) {
			uint64_t *ns = &t->time_ns[state][in], start = t->start_up_ns[state][in];

			*ns = *ns > start ? *ns - start : 0;
		}
	t->wall_ns = gs_account_parts(t->time_ns, part_ns);
	t->idle = gs_account_parked_ns(part_ns) > t->wall_ns / 100 * GS_ACCOUNT_IDLE_PCT;
}

uint64_t rules_leave_out_start_up(struct gs_summary *s)
{
	struct gs_account_summary *a = &s->account;
	const struct gs_account_thread *pace = gs_summary_critical_thread(a);
	uint64_t start_ns = pace ? sum_ns(pace->start_up_ns) : 0;
	struct gs_account_thread *threads;
	bool is_long;

	if (!start_ns)
		return 0;
	threads = gs_summary_alloc(s, a->n_threads * sizeof(*threads));
	if (!threads)
		return 0;
	memcpy(threads, a->threads, a->n_threads * sizeof(*threads));
	is_long = start_ns <= START_UP_MOST &&
		  rules_share_of(start_ns, pace->wall_ns) >= START_UP_LEAST &&
		  pace->wall_ns >= start_ns + STEADY_LEAST;
	for (size_t i = 0; i < a->n_threads; i++) {
		if (is_long && threads[i].pid == pace->pid)
			leave_out(&threads[i]);
		else
			memset(threads[i].start_up_ns, 0, sizeof(threads[i].start_up_ns));
	}
	a->threads = threads;
	return is_long ? start_ns : 0;
}
