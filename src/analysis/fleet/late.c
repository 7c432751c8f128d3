/*
 * Who arrives late. Between two marks that all ranks have, the sums of two ranks differ by the lateness
 * of the one after the other, added up over the collectives between: no single arrival need be known.
 */
#include "analysis/fleet/fleet_int.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/vec.h"

#define AGAIN_NS                                                                                   \
	30000000000ll /* a finding that holds is handed out again so often, with its newest figures */

/* What two marks of a rank say. */
struct stretch {
	struct rank *rank;
	uint64_t n;           /* collectives */
	uint64_t arrivals_ns; /* sum of their times by the head's clock, which wraps */
	double inside_ns, ns; /* time in them, and all time */
	double error_ns;      /* by which the head's clock less the rank's may be wrong */
};

const struct mark *fleet_find_mark(const struct rank *r, uint64_t number)
{
	for (uint32_t i = r->n_marks; i-- > 0 && r->marks[i].number >= number;)
		if (r->marks[i].number == number)
			return &r->marks[i];
	return NULL;
}

/* Ranks that are over and did not come as far are compared no more. */
static bool is_compared(const struct rank *r)
{
	return !rank_is_over(r);
}

static bool all_have(const struct gs_fleet *f, const struct comm *c, uint64_t number)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (is_compared(r) && !fleet_find_mark(r, number))
			return false;
	}
	return true;
}

/* The newest two marks that all have, the older one that of the last comparison where that is still known.
 * False: there is nothing new to compare. */
static bool find_marks(const struct gs_fleet *f, const struct comm *c, uint64_t *ret_from,
		       uint64_t *ret_to)
{
	const struct rank *first = NULL;

	*ret_from = *ret_to = 0;
	for (uint32_t i = 0; i < c->n && !first; i++)
		if (is_compared(&f->ranks[c->ranks[i]]))
			first = &f->ranks[c->ranks[i]];
	for (uint32_t i = first ? first->n_marks : 0; i-- > 0;) {
		uint64_t number = first->marks[i].number;

		if (!*ret_to && number <= c->compared)
			return false;
		if (!all_have(f, c, number))
			continue;
		if (!*ret_to)
			*ret_to = number;
		else
			*ret_from = number;
		if (*ret_from && *ret_from <= c->compared)
			break;
	}
	return *ret_from && *ret_to;
}

static struct stretch stretch_of(const struct gs_fleet *f, const struct comm *c,
				 const struct timing *timing, struct rank *r, uint64_t from,
				 uint64_t to)
{
	const struct mark *a = fleet_find_mark(r, from), *b = fleet_find_mark(r, to);
	struct stretch s = {.rank = r, .n = to - from};
	/* All between by the newest estimate of the clock: it is the better one. */
	int64_t shift_ns = fleet_shift_of_rank(f, c, timing, r, b, &s.error_ns);

	s.arrivals_ns = b->arrivals_ns - a->arrivals_ns + (uint64_t)shift_ns * s.n;
	s.inside_ns = (double)(b->inside_ns - a->inside_ns);
	s.ns = (double)(b->at_ns - a->at_ns);
	return s;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The lower one of two. */
double fleet_median_of(double *values, uint32_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[(n - 1) / 2];
}

/* By how much times of the rank may be wrong against those of ranks on other nodes. errors: of the ranks compared, in
 * their order. */
static double error_of(const struct gs_fleet *f, const struct comm *c, const struct rank *rank,
		       const double *errors)
{
	double its = 0, others = 0;
	bool is_alone = true;

	for (uint32_t i = 0, n = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];
		double *most = r->node == rank->node ? &its : &others;

		if (!is_compared(r))
			continue;
		is_alone &= r->node == rank->node;
		if (errors[n] > *most)
			*most = errors[n];
		n++;
	}
	return is_alone ? 0 : its + others;
}

/* False: no memory, or less than two ranks. */
static bool judge_ranks(struct gs_fleet *f, struct comm *c, uint64_t from, uint64_t to,
			struct verdict *ret)
{
	const struct timing timing = fleet_choose_timing(f, c, to);
	struct stretch first = {0}, last = {0};
	double *after, *inside, *errors, most = -INFINITY;
	uint32_t n = 0;

	if (!gs_vec_reserve(&f->scratch, &f->n_scratch, 3 * (size_t)c->n))
		return false;
	after = f->scratch;
	inside = after + c->n;
	errors = inside + c->n;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];
		struct stretch s;

		if (!is_compared(r))
			continue;
		s = stretch_of(f, c, &timing, r, from, to);
		if (!n)
			first = s;
		after[n] = (double)(int64_t)(s.arrivals_ns - first.arrivals_ns) / (double)s.n;
		inside[n] = s.ns > 0 ? s.inside_ns / s.ns : 0;
		errors[n] = s.error_ns;
		if (after[n] > most) {
			most = after[n];
			last = s;
		}
		n++;
	}
	if (n < 2 || first.ns <= 0 || !isfinite(most))
		return false;
	*ret = (struct verdict){.rank = last.rank, .has_clocks = timing.has_clocks};
	ret->late_ns = most - fleet_median_of(after, n);
	ret->others_inside_ratio = fleet_median_of(inside, n);
	ret->inside_ratio = last.ns > 0 ? last.inside_ns / last.ns : 0;
	ret->period_ns = first.ns / (double)first.n;
	ret->ratio = ret->late_ns / ret->period_ns;
	ret->error_ns = error_of(f, c, last.rank, errors);
	ret->is_late = ret->ratio >= GS_FLEET_LATE_RATIO && ret->late_ns > ret->error_ns;
	ret->is_known =
		ret->is_late || ret->late_ns + ret->error_ns < GS_FLEET_LATE_RATIO * ret->period_ns;
	return true;
}

static void fill_finding(struct gs_fleet_finding *finding, const struct comm *c,
			 const struct verdict *v)
{
	finding->n_about = 0;
	fleet_list_rank(finding, v->rank, 0);
	finding->n_seen = (int32_t)c->n;
	finding->late_ns = v->late_ns;
	finding->ratio = v->ratio;
	finding->error_ns = v->error_ns;
	finding->has_clocks = v->has_clocks;
	finding->is_known = true;
	finding->inside_ratio = v->inside_ratio;
	finding->others_inside_ratio = v->others_inside_ratio;
}

/* Of the rank whose finding holds. */
static void follow_finding(struct gs_fleet *f, struct comm *c, const struct verdict *v,
			   int64_t now_ns)
{
	struct gs_fleet_finding *finding = &f->found[c->late_find - 1].it;
	bool holds = v->is_late && v->rank->rank == finding->about[0].rank;

	finding->n_compared++;
	finding->n_late += holds;
	/* What clocks may explain is no end of it, nor is it late for sure. */
	if (!v->is_known) {
		if (finding->is_known)
			fleet_touch_finding(f, c->late_find);
		finding->is_known = false;
		finding->error_ns = v->error_ns;
		finding->has_clocks = v->has_clocks;
		return;
	}
	c->n_not = holds ? 0 : c->n_not + 1;
	if (holds) {
		if (!finding->is_known)
			fleet_touch_finding(f, c->late_find);
		fill_finding(finding, c, v);
		if (now_ns - finding->found_ns > AGAIN_NS) {
			finding->found_ns = now_ns;
			fleet_touch_finding(f, c->late_find);
		}
	}
	if (c->n_not < GS_FLEET_LATE_TIMES)
		return;
	fleet_end_finding(f, &c->late_find, now_ns);
	c->late_rank = -1;
}

void fleet_compare_ranks(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	struct gs_fleet_finding *finding;
	uint64_t from, to;
	struct verdict v;

	if (!find_marks(f, c, &from, &to))
		return;
	fleet_compare_calls(f, c, from, to, now_ns);
	if (fleet_is_consequence(f, c, to)) {
		fleet_end_finding(f, &c->late_find, now_ns);
		c->late_rank = -1;
		c->compared = to;
		return;
	}
	if (!judge_ranks(f, c, from, to, &v))
		return;
	c->compared = to;
	if (!v.is_late && !c->late_find)
		c->late_rank = -1;
	fleet_follow_pace(f, c, &v, now_ns);
	if (c->late_find) {
		follow_finding(f, c, &v, now_ns);
		return;
	}
	if (!v.is_late)
		return;
	if (c->late_rank != v.rank->rank) {
		c->late_rank = v.rank->rank;
		c->n_late = 0;
		c->late_since_ns = now_ns;
	}
	if (++c->n_late < GS_FLEET_LATE_TIMES ||
	    now_ns - c->late_since_ns < (int64_t)GS_FLEET_LATE_NS)
		return;
	finding = fleet_add_finding(f, c, GS_FLEET_LATE, c->late_since_ns, now_ns, &c->late_find);
	if (!finding)
		return;
	fill_finding(finding, c, &v);
	finding->n_late = finding->n_compared = c->n_late;
	c->n_not = 0;
}
