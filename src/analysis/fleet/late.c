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

static struct stretch stretch_of(struct rank *r, uint64_t from, uint64_t to)
{
	const struct mark *a = fleet_find_mark(r, from), *b = fleet_find_mark(r, to);
	struct stretch s = {.rank = r, .n = to - from};

	/* All between by the newest estimate of the clock: it is the better one. */
	s.arrivals_ns = b->arrivals_ns - a->arrivals_ns + (uint64_t)b->shift_ns * s.n;
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
static double median_of(double *values, uint32_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[(n - 1) / 2];
}

/* By how much times of the rank may be wrong against those of ranks on other nodes. */
static double error_of(const struct gs_fleet *f, const struct comm *c, const struct rank *rank)
{
	uint64_t most_ns = 0;
	bool is_alone = true;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->node == rank->node || !is_compared(r))
			continue;
		is_alone = false;
		if (r->error_ns > most_ns)
			most_ns = r->error_ns;
	}
	return is_alone ? 0 : (double)rank->error_ns + (double)most_ns;
}

struct verdict {
	struct rank *rank; /* the latest */
	double period_ns;  /* from one collective to the next */
	double late_ns, ratio, error_ns, inside_ratio, others_inside_ratio;
	bool is_late;
};

/* False: no memory, or less than two ranks. */
static bool judge_ranks(struct gs_fleet *f, struct comm *c, uint64_t from, uint64_t to,
			struct verdict *ret)
{
	struct stretch first = {0}, last = {0};
	double *after, *inside, most = -INFINITY;
	uint32_t n = 0;

	if (!gs_vec_reserve(&f->scratch, &f->n_scratch, 2 * (size_t)c->n))
		return false;
	after = f->scratch;
	inside = f->scratch + c->n;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];
		struct stretch s;

		if (!is_compared(r))
			continue;
		s = stretch_of(r, from, to);
		if (!n)
			first = s;
		after[n] = (double)(int64_t)(s.arrivals_ns - first.arrivals_ns) / (double)s.n;
		inside[n] = s.ns > 0 ? s.inside_ns / s.ns : 0;
		if (after[n] > most) {
			most = after[n];
			last = s;
		}
		n++;
	}
	if (n < 2 || first.ns <= 0 || !isfinite(most))
		return false;
	*ret = (struct verdict){.rank = last.rank};
	ret->late_ns = most - median_of(after, n);
	ret->others_inside_ratio = median_of(inside, n);
	ret->inside_ratio = last.ns > 0 ? last.inside_ns / last.ns : 0;
	ret->period_ns = first.ns / (double)first.n;
	ret->ratio = ret->late_ns / ret->period_ns;
	ret->error_ns = error_of(f, c, last.rank);
	ret->is_late = ret->ratio >= GS_FLEET_LATE_RATIO && ret->late_ns > ret->error_ns;
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
	c->n_not = holds ? 0 : c->n_not + 1;
	if (holds) {
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
	fleet_follow_pace(f, c, v.period_ns, now_ns);
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
