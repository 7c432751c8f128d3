/*
 * Steps of a rank's process, as collectives number them. Steps and collectives come from different threads, and not in the
 * order of time: so which collectives a step has is looked up when the records are made, among the newest calls.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/sums_int.h"

static struct call_time *time_of(const struct sum *s, uint64_t call)
{
	return &s->times[call & (SUM_TIMES - 1)];
}

void fleet_sum_keep_time(struct sum *s)
{
	if (!s->times)
		return;
	*time_of(s, s->calls) = (struct call_time){s->last_ns, s->arrivals_ns, s->inside_ns};
	if (s->calls - s->times_from >= SUM_TIMES)
		s->times_from = s->calls - SUM_TIMES + 1;
}

/* Without memory steps are not known. */
static void begin_times(struct gs_fleet_sums *f, uint32_t pid)
{
	for (uint32_t i = 0; i < f->n_sums; i++) {
		struct sum *s = &f->sums[i];

		if (!s->id || s->pid != pid || s->times || s->is_over)
			continue;
		s->times = calloc(SUM_TIMES, sizeof(*s->times));
		s->times_from = s->calls;
		fleet_sum_keep_time(s);
	}
}

void gs_fleet_sums_take_step(struct gs_fleet_sums *f, const struct gs_fleet_step *step)
{
	struct step_queue *q;

	if (!f->queues)
		f->queues = calloc(GS_FLEET_STEP_SLOTS, sizeof(*f->queues));
	if (!f->queues || !step->pid || step->slot >= GS_FLEET_STEP_SLOTS)
		return;
	q = &f->queues[step->slot];
	if (q->run != step->run || q->pid != step->pid) {
		q->run = step->run;
		q->pid = step->pid;
		q->n = 0;
		q->put = 0;
	}
	begin_times(f, step->pid);
	if (q->n == SUM_STEPS)
		memmove(&q->steps[0], &q->steps[1], --q->n * sizeof(q->steps[0]));
	q->steps[q->n].start_ns = step->start_ns;
	q->steps[q->n++].dur_ns = step->dur_ns;
}

/* The first call that was made at that time or later; calls + 1: none. */
static uint64_t first_call_from(const struct sum *s, uint64_t ns)
{
	uint64_t low = s->times_from, high = s->calls + 1;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (time_of(s, middle)->start_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* False: it has no collective, or which ones it has is not known. */
static bool fill_step(const struct sum *s, uint64_t start_ns, uint64_t dur_ns,
		      struct gs_rank_step *ret)
{
	uint64_t from = first_call_from(s, start_ns), to = first_call_from(s, start_ns + dur_ns);
	const struct call_time *before = time_of(s, from - 1), *last = time_of(s, to - 1);

	/* The call before the first must be known, too, and the last must have returned. */
	if (from <= s->times_from || to <= from ||
	    (to == s->calls + 1 && s->flags & GS_RANK_INSIDE))
		return false;
	*ret = (struct gs_rank_step){.call = from,
				     .n_calls = (uint32_t)(to - from),
				     .start_ns = start_ns,
				     .dur_ns = dur_ns,
				     .arrivals_ns = last->arrivals_ns - before->arrivals_ns,
				     .inside_ns = last->inside_ns - before->inside_ns};
	return true;
}

/* Does it have a call whose number is divisible by that power of two? */
static bool has_round(const struct gs_rank_step *step, unsigned power)
{
	return (step->call + step->n_calls - 1) >> power != (step->call - 1) >> power;
}

/* Leave out those that do not fit. Returns how many are left. */
static uint32_t thin_steps(struct gs_rank_step *steps, uint32_t n)
{
	for (unsigned power = 1; n > GS_RANK_STEPS && power < 64; power++) {
		uint32_t left = 0;

		for (uint32_t i = 0; i < n; i++)
			if (has_round(&steps[i], power))
				steps[left++] = steps[i];
		n = left;
	}
	return n;
}

/* Of the communicators of a process the one with most ranks, then most calls. NULL: none. */
static const struct sum *main_sum_of(const struct gs_fleet_sums *f, uint32_t pid)
{
	const struct sum *best = NULL;

	for (uint32_t i = 0; i < f->n_sums; i++) {
		const struct sum *s = &f->sums[i];

		if (!s->id || s->pid != pid || s->is_over || !s->times || !s->calls)
			continue;
		if (!best || s->n_ranks > best->n_ranks ||
		    (s->n_ranks == best->n_ranks && s->calls > best->calls))
			best = s;
	}
	return best;
}

void gs_fleet_sums_put_steps(struct gs_fleet_sums *f, const struct gs_fleet_step_figures *figures,
			     uint64_t now_ns, struct gs_buf *out)
{
	struct step_queue *q =
		f->queues && figures->slot < GS_FLEET_STEP_SLOTS ? &f->queues[figures->slot] : NULL;
	const struct sum *s = q ? main_sum_of(f, figures->pid) : NULL;
	struct gs_rank_step steps[SUM_STEPS];
	struct gs_rec_rank_steps *r;
	uint32_t n = 0;

	if (!s || q->run != figures->run || q->pid != figures->pid || q->put == figures->n_steps)
		return;
	for (uint32_t i = 0; i < q->n; i++)
		n += fill_step(s, q->steps[i].start_ns, q->steps[i].dur_ns, &steps[n]);
	n = thin_steps(steps, n);
	r = gs_record_put(out, GS_REC_RANK_STEPS, sizeof(*r), n * sizeof(steps[0]));
	if (!r)
		return;
	r->id_hash = s->id;
	r->rank = s->rank;
	r->n_ranks = s->n_ranks;
	r->pid = s->pid;
	r->n_listed = n;
	r->run = figures->run;
	r->time_ns = now_ns;
	r->n_steps = figures->n_steps;
	r->n_odd = figures->n_odd;
	r->median_ns = figures->median_ns;
	r->p95_ns = figures->p95_ns;
	memcpy(r->listed, steps, n * sizeof(steps[0]));
	q->put = figures->n_steps;
	q->n = 0;
}
