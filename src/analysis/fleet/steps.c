/*
 * Steps of ranks side by side. Each rank numbers its steps from where its trace began, so numbers say nothing; but the
 * collectives in them are numbered alike on all ranks. Steps are the same one where the middle collective of the one is in the other.
 * Ranks that meet in each step have steps of the same length, whichever is slow: the slowest is the rank whose collectives of the
 * step came last, by the measures of a late rank (late.c).
 */
#include "analysis/fleet/fleet_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"

/* Times of steps are less, so that sums of them and of offsets are times, too. */
#define STEP_NS_MAX (1ull << 60)

/* --- records in --- */

static bool is_step_valid(const struct gs_rank_step *s)
{
	return s->call && s->n_calls && s->call < STEP_NS_MAX && s->start_ns < STEP_NS_MAX &&
	       s->dur_ns && s->dur_ns < STEP_NS_MAX && s->inside_ns < STEP_NS_MAX;
}

static bool is_valid(const struct gs_rec_rank_steps *r)
{
	if (r->n_listed > GS_RANK_STEPS || r->n_steps < r->n_odd ||
	    r->n_listed > (r->head.bytes - sizeof(*r)) / sizeof(r->listed[0]))
		return false;
	for (uint32_t i = 0; i < r->n_listed; i++)
		if (!is_step_valid(&r->listed[i]))
			return false;
	return true;
}

void fleet_forget_compared(struct gs_fleet *f, struct comm *c)
{
	free(c->steps);
	c->steps = NULL;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank_steps *s = f->ranks[c->ranks[i]].steps;

		if (!s)
			continue;
		s->n_compared = s->n_slowest = s->n_late = 0;
		s->late_sum_ns = s->inside_sum_ns = s->dur_sum_ns = 0;
	}
}

static void keep_step(struct rank_steps *to, const struct gs_rank_step *step)
{
	const struct gs_rank_step *newest = to->n ? &to->steps[to->n - 1] : NULL;

	if (newest && step->call < newest->call + newest->n_calls)
		return; /* it is known, or out of order */
	if (to->n == STEPS)
		memmove(to->steps, to->steps + 1, --to->n * sizeof(to->steps[0]));
	to->steps[to->n++] = *step;
}

int gs_fleet_take_steps(struct gs_fleet *f, const struct gs_fleet_source *source,
			const struct gs_rec_rank_steps *r)
{
	struct rank *rank = fleet_find_rank(f, r->id_hash, r->n_ranks, r->rank);
	struct rank_steps *to;

	if (!is_valid(r))
		return -EINVAL;
	if (!rank || rank->node != source->node || rank->pid != r->pid)
		return -ENOENT;
	if (!rank->steps)
		rank->steps = calloc(1, sizeof(*rank->steps));
	to = rank->steps;
	if (!to)
		return -ENOMEM;
	if (to->run && to->run != r->run) {
		fleet_forget_compared(f, &f->comms[rank->comm - 1]);
		memset(to, 0, sizeof(*to));
	}
	to->run = r->run;
	to->n_steps = r->n_steps;
	to->n_odd = r->n_odd;
	to->median_ns = r->median_ns;
	to->p95_ns = r->p95_ns;
	for (uint32_t i = 0; i < r->n_listed; i++)
		keep_step(to, &r->listed[i]);
	return 0;
}

/* --- comparing --- */

static bool has_steps(const struct rank *r)
{
	return r->steps && r->steps->n && !rank_is_over(r);
}

/* NULL: none. ret_waits: none yet, for later collectives alone are missing. */
static const struct gs_rank_step *step_with(const struct rank_steps *s, uint64_t call,
					    bool *ret_waits)
{
	const struct gs_rank_step *newest = &s->steps[s->n - 1];

	*ret_waits = call >= newest->call + newest->n_calls;
	for (uint32_t i = s->n; i-- > 0 && !*ret_waits;)
		if (s->steps[i].call <= call)
			return call < s->steps[i].call + s->steps[i].n_calls ? &s->steps[i] : NULL;
	return NULL;
}

static int64_t end_of(const struct rank *r, const struct gs_rank_step *s)
{
	return (int64_t)(s->start_ns + s->dur_ns + (uint64_t)r->shift_ns);
}

/* The step of all ranks, in f->sides, but of those that sent nothing for long. -EAGAIN: others may come; -ENODATA: a rank has no
 * such step. */
static int gather_sides(struct gs_fleet *f, const struct comm *c, uint64_t call, bool may_wait,
			uint32_t *ret_n)
{
	uint32_t n = 0;

	if (!gs_vec_reserve(&f->sides, &f->n_sides_room, c->n))
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];
		const struct gs_rank_step *step;
		bool waits;

		if (!has_steps(r))
			continue;
		step = step_with(r->steps, call, &waits);
		if (!step && waits && may_wait)
			return -EAGAIN;
		/* It was not traced yet, or did something else then: who was slow is not known without it. */
		if (!step && !waits)
			return -ENODATA;
		if (step)
			f->sides[n++] = (struct side){.rank = r, .step = step};
	}
	*ret_n = n;
	return 0;
}

/* By how much times of the one may be wrong against those of ranks on other nodes. */
static double error_of(const struct side *sides, uint32_t n, const struct side *one)
{
	double its = 0, others = 0;
	bool is_alone = true;

	for (uint32_t i = 0; i < n; i++) {
		bool is_its = sides[i].rank->node == one->rank->node;

		is_alone &= is_its;
		if (is_its)
			its = fmax(its, sides[i].error_ns);
		else
			others = fmax(others, sides[i].error_ns);
	}
	return is_alone ? 0 : its + others;
}

/* Lengths of the step. False: ranks made other numbers of collectives in it. */
static bool measure_lengths(struct gs_fleet *f, const struct side *sides, uint32_t n,
			    struct gs_fleet_slow_step *ret)
{
	double least = INFINITY, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		double ns = (double)sides[i].step->dur_ns;

		if (sides[i].step->n_calls != sides[0].step->n_calls)
			return false;
		f->scratch[i] = ns;
		least = fmin(least, ns);
		most = fmax(most, ns);
	}
	ret->spread_ns = most - least;
	ret->dur_ns = fleet_median_of(f->scratch, n);
	return true;
}

/* Who was last in it, and how late all were. */
static void measure_lateness(struct gs_fleet *f, const struct comm *c, uint32_t n,
			     struct gs_fleet_slow_step *ret)
{
	const struct timing timing = fleet_choose_timing(f, c, c->compared);
	double *after = f->scratch + n, median, limit = GS_FLEET_LATE_RATIO * ret->dur_ns;
	struct side *last = &f->sides[0];
	uint64_t first_ns = 0;
	double most = -INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		struct side *s = &f->sides[i];
		const struct mark mark = {.shift_ns = s->rank->shift_ns};
		int64_t shift = fleet_shift_of_rank(f, c, &timing, s->rank, &mark, &s->error_ns);
		uint64_t sum = s->step->arrivals_ns + (uint64_t)shift * s->step->n_calls;

		if (s->step->call != f->sides[0].step->call)
			return; /* these are not the same collectives */
		first_ns = i ? first_ns : sum;
		f->scratch[i] = after[i] =
			(double)(int64_t)(sum - first_ns) / (double)s->step->n_calls;
		if (after[i] > most) {
			most = after[i];
			last = s;
		}
	}
	median = fleet_median_of(f->scratch, n);
	ret->late_ns = most - median;
	ret->error_ns = error_of(f->sides, n, last);
	if (ret->late_ns >= limit && ret->late_ns > ret->error_ns) {
		ret->slowest = GS_FLEET_SLOWEST_RANK;
		ret->rank = last->rank->rank;
		ret->pid = last->rank->pid;
		memcpy(ret->node, last->rank->name, sizeof(ret->node));
		last->rank->steps->n_slowest++;
	} else if (ret->late_ns + ret->error_ns < limit) {
		ret->slowest = GS_FLEET_SLOWEST_NONE;
	}
	/* Where clocks may be wrong by a whole step it would be meaningless. */
	for (uint32_t i = 0; i < n && ret->error_ns < ret->dur_ns; i++) {
		f->sides[i].rank->steps->late_sum_ns += after[i] - median;
		f->sides[i].rank->steps->n_late++;
	}
}

static void keep_slow(struct comm_steps *cs, const struct gs_fleet_slow_step *step)
{
	uint32_t at = cs->n_slow;

	while (at > 0 && cs->slow[at - 1].dur_ns < step->dur_ns)
		at--;
	if (at == GS_FLEET_SLOW_STEPS)
		return;
	cs->n_slow += cs->n_slow < GS_FLEET_SLOW_STEPS;
	memmove(&cs->slow[at + 1], &cs->slow[at], (cs->n_slow - at - 1) * sizeof(cs->slow[0]));
	cs->slow[at] = *step;
}

static void compare_sides(struct gs_fleet *f, struct comm *c, uint32_t n)
{
	const struct side *one = &f->sides[0];
	struct gs_fleet_slow_step step = {
		.call = one->step->call,
		.n_calls = one->step->n_calls,
		.begin_ns = (int64_t)(one->step->start_ns + (uint64_t)one->rank->shift_ns),
		.error_ns = GS_FLEET_UNKNOWN_NS,
		.rank = -1};
	struct comm_steps *cs = c->steps;

	if (n < 2 || !gs_vec_reserve(&f->scratch, &f->n_scratch, 2 * (size_t)n))
		return;
	if (!measure_lengths(f, f->sides, n, &step)) {
		cs->n_unlike++;
		return;
	}
	measure_lateness(f, c, n, &step);
	cs->n_compared++;
	cs->n_known += step.slowest != GS_FLEET_SLOWEST_UNKNOWN;
	if (step.error_ns < GS_FLEET_UNKNOWN_NS)
		cs->error_ns = step.error_ns;
	cs->spreads[gs_hist_bucket((uint64_t)step.spread_ns)]++;
	if (step.spread_ns > (double)cs->spread_max_ns)
		cs->spread_max_ns = (uint64_t)step.spread_ns;
	for (uint32_t i = 0; i < n; i++) {
		struct rank_steps *s = f->sides[i].rank->steps;

		s->n_compared++;
		s->inside_sum_ns += (double)f->sides[i].step->inside_ns;
		s->dur_sum_ns += (double)f->sides[i].step->dur_ns;
	}
	keep_slow(cs, &step);
}

/* Steps of some ranks may be found later than those of others: these are given some time. */
static bool are_all_there(const struct gs_fleet *f, const struct comm *c, int64_t now_ns)
{
	if (now_ns - c->steps->since_ns >= (int64_t)GS_FLEET_STALE_NS)
		return true;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (!has_steps(r) && !rank_is_over(r))
			return false;
	}
	return true;
}

/* Its steps are the ones that those of others are compared with. NULL: none. */
static const struct rank *reference_of(const struct gs_fleet *f, const struct comm *c)
{
	const struct rank *best = NULL;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (has_steps(r) && (!best || r->rank < best->rank))
			best = r;
	}
	return best;
}

void fleet_compare_steps(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	const struct rank *one = reference_of(f, c);

	if (!one)
		return;
	if (!c->steps) {
		c->steps = calloc(1, sizeof(*c->steps));
		if (!c->steps)
			return;
		c->steps->since_ns = now_ns;
		c->steps->error_ns = GS_FLEET_UNKNOWN_NS;
	}
	if (!are_all_there(f, c, now_ns))
		return;
	for (uint32_t i = 0; i < one->steps->n; i++) {
		const struct gs_rank_step *s = &one->steps->steps[i];
		uint64_t middle = s->call + s->n_calls / 2;
		/* A rank that has not sent it by then will not. */
		bool may_wait = now_ns - end_of(one, s) < (int64_t)GS_FLEET_STALE_NS;
		uint32_t n;
		int r;

		if (middle <= c->steps->compared)
			continue;
		r = gather_sides(f, c, middle, may_wait, &n);
		if (r < 0 && r != -ENODATA)
			return;
		c->steps->compared = middle;
		if (r == 0)
			compare_sides(f, c, n);
	}
}

/* --- what is known --- */

static struct gs_fleet_step_rank row_of(const struct rank *r)
{
	const struct rank_steps *s = r->steps;

	return (struct gs_fleet_step_rank){
		.rank = r->rank,
		.pid = r->pid,
		.node = r->name,
		.n_steps = s->n_steps,
		.n_odd = s->n_odd,
		.median_ns = s->median_ns,
		.p95_ns = s->p95_ns,
		.n_compared = s->n_compared,
		.n_slowest = s->n_slowest,
		.late_ns = s->n_late ? s->late_sum_ns / (double)s->n_late : NAN,
		.inside_ratio = s->dur_sum_ns > 0 ? s->inside_sum_ns / s->dur_sum_ns : NAN};
}

static double late_or_least(const struct gs_fleet_step_rank *r)
{
	return isfinite(r->late_ns) ? r->late_ns : -INFINITY;
}

static int by_slowness(const void *a, const void *b)
{
	const struct gs_fleet_step_rank *x = a, *y = b;

	if (x->n_slowest != y->n_slowest)
		return x->n_slowest > y->n_slowest ? -1 : 1;
	if (late_or_least(x) != late_or_least(y))
		return late_or_least(x) > late_or_least(y) ? -1 : 1;
	if (x->p95_ns != y->p95_ns)
		return x->p95_ns > y->p95_ns ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void fill_steps(const struct gs_fleet *f, const struct comm *c,
		       struct gs_fleet_step_rank *rows, struct gs_fleet_steps *ret)
{
	const struct comm_steps *cs = c->steps;

	*ret = (struct gs_fleet_steps){.id = c->id,
				       .n_ranks = c->n_ranks,
				       .n_seen = (int32_t)c->n,
				       .job = "",
				       .error_ns = GS_FLEET_UNKNOWN_NS,
				       .ranks = rows};
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->job[0] && !ret->job[0])
			ret->job = r->job;
		if (!r->steps)
			continue;
		if (!ret->n_with || r->steps->median_ns < ret->least_median_ns)
			ret->least_median_ns = r->steps->median_ns;
		if (r->steps->median_ns > ret->most_median_ns)
			ret->most_median_ns = r->steps->median_ns;
		rows[ret->n_with++] = row_of(r);
	}
	if (ret->n_with)
		qsort(rows, ret->n_with, sizeof(*rows), by_slowness);
	if (!cs)
		return;
	ret->since_ns = cs->since_ns;
	ret->n_compared = cs->n_compared;
	ret->n_known = cs->n_known;
	ret->n_unlike = cs->n_unlike;
	ret->spread_median_ns = gs_hist_quantile_ns(cs->spreads, 0.5, cs->spread_max_ns);
	ret->spread_p95_ns = gs_hist_quantile_ns(cs->spreads, 0.95, cs->spread_max_ns);
	ret->error_ns = cs->error_ns;
	ret->slow = cs->slow;
	ret->n_slow = cs->n_slow;
}

int gs_fleet_each_steps(const struct gs_fleet *f, const char *job, uint32_t max_ranks,
			void (*fn)(void *ctx, const struct gs_fleet_steps *steps), void *ctx)
{
	for (uint32_t i = 0; i < f->n_comms && max_ranks; i++) {
		const struct comm *c = &f->comms[i];
		struct gs_fleet_step_rank *rows;
		struct gs_fleet_steps steps;

		if (!c->id || !c->n)
			continue;
		rows = calloc(c->n, sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		fill_steps(f, c, rows, &steps);
		steps.n_listed = steps.n_with < max_ranks ? steps.n_with : max_ranks;
		if (steps.n_with && (!job || !*job || strcmp(job, steps.job) == 0)) {
			fn(ctx, &steps);
			max_ranks -= steps.n_listed;
		}
		free(rows);
	}
	return 0;
}
