/*
 * Ranks that make a communicator and never meet. Such a call returns when all ranks have made it: a rank is
 * missing when it is not among those that have been waiting in the call for long. The caller gives all open
 * calls again and again; a call that is not among them any more has returned, or its process has ended.
 */
#include "analysis/hang/hang_int.h"

#include <stdlib.h>

#include "core/base/vec.h"

#define LISTED_MAX 4096 /* ranks of a finding */

static struct join *find_join(struct gs_hang *h, const struct gs_hang_join *j)
{
	for (uint32_t i = 0; i < h->n_joins; i++)
		if (h->joins[i].key == j->key && h->joins[i].n_ranks == j->n_ranks)
			return &h->joins[i];
	return NULL;
}

/* How many are in each, and since when. */
static void count_joins(struct gs_hang *h, const struct gs_hang_join *list, size_t n)
{
	for (uint32_t i = 0; i < h->n_joins; i++) {
		h->joins[i].n_inside = 0;
		h->joins[i].newest_ns = 0;
		h->joins[i].oldest_ns = UINT64_MAX;
	}
	for (size_t i = 0; i < n; i++) {
		const struct gs_hang_join *it = &list[i];
		struct join *j = find_join(h, it);

		if (it->n_ranks < 2 || it->rank < 0 || it->rank >= it->n_ranks)
			continue;
		if (!j) {
			if (h->n_joins == GS_HANG_MAX_JOINS)
				continue;
			j = &h->joins[h->n_joins++];
			*j = (struct join){
				.key = it->key, .n_ranks = it->n_ranks, .oldest_ns = UINT64_MAX};
		}
		j->n_inside++;
		if (it->start_ns > j->newest_ns)
			j->newest_ns = it->start_ns;
		if (it->start_ns < j->oldest_ns)
			j->oldest_ns = it->start_ns;
	}
}

static int compare_join_ranks(const void *a, const void *b)
{
	const struct gs_hang_rank *x = a, *y = b;
	bool x_in = x->state == GS_HANG_ARRIVED, y_in = y->state == GS_HANG_ARRIVED;

	if (x_in != y_in)
		return x_in ? 1 : -1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Those that are in it, and, where these are most of all ranks, the others. */
static size_t fill_ranks(const struct join *j, const struct gs_hang_join *list, size_t n,
			 struct gs_hang_rank *ranks, size_t *ret_n_odd)
{
	bool lists_missing =
		2 * (size_t)j->n_inside >= (size_t)j->n_ranks && j->n_ranks <= LISTED_MAX;
	size_t n_listed = 0;

	for (size_t i = 0; i < n && n_listed < LISTED_MAX; i++)
		if (list[i].key == j->key && list[i].n_ranks == j->n_ranks)
			ranks[n_listed++] =
				(struct gs_hang_rank){.rank = list[i].rank,
						      .pid = list[i].pid,
						      .tid = list[i].tid,
						      .state = GS_HANG_ARRIVED,
						      .is_inside = true,
						      .last_ns = list[i].start_ns,
						      .last = {.function = list[i].function}};
	*ret_n_odd = 0;
	for (int32_t rank = 0; lists_missing && rank < j->n_ranks; rank++) {
		size_t i = 0;

		while (i < n_listed && ranks[i].rank != rank)
			i++;
		if (i < n_listed || n_listed == LISTED_MAX)
			continue;
		ranks[n_listed++] = (struct gs_hang_rank){.rank = rank, .state = GS_HANG_MISSING};
		(*ret_n_odd)++;
	}
	qsort(ranks, n_listed, sizeof(*ranks), compare_join_ranks);
	return n_listed;
}

static void add_finding(struct gs_hang *h, struct join *j, const struct gs_hang_join *list,
			size_t n, uint64_t now_ns)
{
	struct found *f = &h->found[h->n_found];
	struct gs_hang_rank *ranks = NULL;

	j->is_said = true;
	if (h->n_found < GS_HANG_MAX_FOUND)
		ranks = calloc(LISTED_MAX, sizeof(*ranks));
	if (!ranks) {
		h->n_left_out++;
		return;
	}
	*f = (struct found){.it = {.number = ++h->n_found,
				   .kind = GS_HANG_JOINS,
				   .id = j->key,
				   .n_ranks = j->n_ranks,
				   .since_ns = j->oldest_ns,
				   .found_ns = now_ns,
				   .ranks = ranks},
			    .is_due = true};
	f->it.n_seen = fill_ranks(j, list, n, ranks, &f->it.n_odd);
	f->it.op = f->it.ranks[f->it.n_seen - 1].last;
	j->found = h->n_found;
}

/* All that were in it have left it together, or have ended. */
static void end_join(struct gs_hang *h, struct join *j, uint64_t now_ns)
{
	struct gs_hang_found *it = j->found ? &h->found[j->found - 1].it : NULL;

	if (it) {
		it->ended_ns = now_ns;
		it->has_arrived = j->is_made || !j->has_ended;
		h->found[j->found - 1].is_due = true;
	}
	*j = h->joins[--h->n_joins];
}

void gs_hang_take_joins(struct gs_hang *h, const struct gs_hang_join *list, size_t n,
			uint64_t now_ns)
{
	h->joined_ns = now_ns;
	count_joins(h, list, n);
	for (uint32_t i = h->n_joins; i-- > 0;) {
		struct join *j = &h->joins[i];

		if (!j->n_inside)
			end_join(h, j, now_ns);
		else if (!j->is_said && now_ns >= j->newest_ns + h->quiet_ns)
			add_finding(h, j, list, n, now_ns);
	}
}

static bool is_about(const struct gs_hang *h, const struct join *j, uint32_t pid)
{
	const struct gs_hang_found *f = j->found ? &h->found[j->found - 1].it : NULL;

	for (size_t k = 0; f && k < f->n_seen; k++)
		if (f->ranks[k].pid == pid)
			return true;
	return false;
}

void hang_make_joins(struct gs_hang *h, uint32_t pid, int32_t n_ranks)
{
	for (uint32_t i = 0; i < h->n_joins; i++)
		h->joins[i].is_made |=
			h->joins[i].n_ranks == n_ranks && is_about(h, &h->joins[i], pid);
}

void hang_check_joins(struct gs_hang *h, uint64_t now_ns)
{
	for (uint32_t i = h->n_joins; i-- > 0;)
		if (h->joins[i].is_made)
			end_join(h, &h->joins[i], now_ns);
}

void hang_end_joins(struct gs_hang *h, uint32_t pid)
{
	for (uint32_t i = 0; i < h->n_joins; i++)
		h->joins[i].has_ended |= is_about(h, &h->joins[i], pid);
}

bool gs_hang_wants_joins(const struct gs_hang *h, uint64_t now_ns)
{
	return now_ns >= h->joined_ns + GS_HANG_HOLD_NS / 2;
}
