/*
 * What matched collectives say: figures of each rank, and whether one of them is late so often and
 * for so long that the others wait for it.
 */
#include "pipeline/collectives/collectives_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define LATE_LEAST      20   /* matched collectives, for a rank to stand out */
#define LATE_DEVIATIONS 3    /* above how often each of equal ranks would be the last */
#define LATE_PART       0.01 /* of the time between the first and the last that the others wait */

static struct gs_collectives_rank rank_of_member(const struct member *m)
{
	const struct member_figures *f = m->figures;
	struct gs_collectives_rank r = {
		.rank = m->rank, .pid = m->pid, .calls = m->calls, .calls_ns = m->calls_ns};

	if (!f)
		return r;
	r.late_p50_ns = gs_hist_quantile_ns(f->late, 0.5, f->late_max_ns);
	r.late_p95_ns = gs_hist_quantile_ns(f->late, 0.95, f->late_max_ns);
	r.late_max_ns = f->late_max_ns;
	r.n_last = f->n_last;
	r.margin_p50_ns = gs_hist_quantile_ns(f->margin, 0.5, f->margin_max_ns);
	r.margin_sum_ns = f->margin_sum_ns;
	r.late_total_ns = f->late_time.ns;
	r.missing_ns = f->missing.ns;
	return r;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_collectives_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Last in more than half of what the others leave, and more often than chance makes one of equals
 * the last; and for a part of the time that matters. */
static bool rank_stands_out(const struct gs_collectives_comm *c,
			    const struct gs_collectives_rank *r)
{
	double n = (double)c->n_matched, equal = 1.0 / (double)c->n_seen;
	double chance = LATE_DEVIATIONS * sqrt(equal * (1 - equal) / n);
	double share = (double)r->n_last / n;

	return c->n_matched >= LATE_LEAST && share >= (1 + equal) / 2 && share >= equal + chance &&
	       (double)r->missing_ns >= LATE_PART * (double)c->span_ns;
}

static int fill_comm(const struct gs_collectives *c, struct gs_summary *s, const struct group *g,
		     struct gs_collectives_comm *ret_comm)
{
	struct gs_collectives_rank *ranks = gs_summary_alloc(s, g->n_members * sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_members; i++)
		ranks[i] = rank_of_member(&c->members[g->members[i]]);
	qsort(ranks, g->n_members, sizeof(*ranks), compare_ranks);
	*ret_comm = (struct gs_collectives_comm){.id = g->id,
						 .n_ranks = g->n_ranks,
						 .n_matched = g->n_matched,
						 .span_ns = g->last_ns - g->first_ns,
						 .ranks = ranks,
						 .n_seen = g->n_members};
	for (uint32_t i = 0; i < g->n_members; i++)
		if (rank_stands_out(ret_comm, &ranks[i]))
			ret_comm->late = &ranks[i];
	return 0;
}

static int compare_comms(const void *a, const void *b)
{
	const struct gs_collectives_comm *x = a, *y = b;
	uint64_t xs = x->late ? x->late->missing_ns : 0, ys = y->late ? y->late->missing_ns : 0;

	if (xs != ys)
		return xs > ys ? -1 : 1;
	if (x->n_matched != y->n_matched)
		return x->n_matched > y->n_matched ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Calls that are still kept will not be matched as things are. */
static void count_kept(const struct gs_collectives *c, uint64_t left_out[GS_COLLECTIVES_N_CAUSES])
{
	for (uint32_t i = 1; i < c->n_members; i++) {
		const struct member *m = &c->members[i];
		enum gs_collectives_cause cause = !m->group ? GS_COLLECTIVES_UNKNOWN
						  : c->groups[m->group].n_members > 1
							  ? GS_COLLECTIVES_MISSING
							  : GS_COLLECTIVES_ALONE;

		left_out[cause] += m->n;
	}
}

int gs_collectives_add_summary(struct gs_collectives *c, struct gs_summary *s)
{
	struct gs_collectives_summary *out;

	if (!c->n_calls)
		return 0;
	out = gs_summary_alloc(s, sizeof(*out));
	if (!out)
		return -ENOMEM;
	out->comms = gs_summary_alloc(s, c->n_groups * sizeof(*out->comms));
	if (!out->comms)
		return -ENOMEM;
	for (uint32_t i = 1; i < c->n_groups; i++) {
		struct group *g = &c->groups[i];

		collectives_settle_group(c, g);
		if (g->n_members < 2)
			continue;
		if (fill_comm(c, s, g, &out->comms[out->n_comms++]) < 0)
			return -ENOMEM;
	}
	qsort(out->comms, out->n_comms, sizeof(*out->comms), compare_comms);
	out->n_calls = c->n_calls;
	out->n_matched = c->n_matched;
	for (unsigned i = 0; i < GS_COLLECTIVES_N_CAUSES; i++)
		out->left_out[i] = c->left_out[i];
	count_kept(c, out->left_out);
	s->collectives = out;
	return 0;
}
