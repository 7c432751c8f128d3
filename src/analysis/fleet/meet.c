/*
 * Clocks of nodes from the collectives in which their ranks meet. Each communicator refers to one node, that of the first rank whose
 * stay came, so that n nodes need n - 1 bounds: of two others the errors add up.
 */
#include "analysis/fleet/fleet_int.h"

#include <errno.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define TIME_MAX        ((int64_t)1 << 61)
#define CONTRADICTED_NS 1e18 /* no error that clocks have */

/* --- pairs of nodes --- */

static uint64_t key_of_pair(int64_t one, int64_t other)
{
	const int64_t nodes[2] = {one, other};

	return gs_hash_bytes(nodes, sizeof(nodes));
}

static struct pair *find_pair(const struct gs_fleet *f, int64_t one, int64_t other)
{
	uint64_t place;
	struct pair *p;

	if (!gs_map_get(&f->by_pair, key_of_pair(one, other), &place))
		return NULL;
	p = &f->pairs[place];
	return p->one == one && p->other == other ? p : NULL;
}

/* Made when it is new. NULL: no place. */
static struct pair *need_pair(struct gs_fleet *f, int64_t one, int64_t other)
{
	struct pair *p = find_pair(f, one, other);
	uint32_t i = 0;

	if (p)
		return p;
	while (i < f->n_pairs && f->pairs[i].one)
		i++;
	if (i == GS_FLEET_MAX_CLOCKS || !gs_vec_reserve(&f->pairs, &f->n_pairs_room, i + 1) ||
	    gs_map_put(&f->by_pair, key_of_pair(one, other), i) < 0)
		return NULL;
	f->pairs[i] = (struct pair){.one = one, .other = other};
	if (i == f->n_pairs)
		f->n_pairs++;
	f->n_used_pairs++;
	return &f->pairs[i];
}

void fleet_forget_pairs(struct gs_fleet *f, int64_t now_ns)
{
	for (uint32_t i = 0; i < f->n_pairs; i++) {
		struct pair *p = &f->pairs[i];

		if (!p->one || now_ns - p->heard_ns < (int64_t)GS_FLEET_GONE_NS)
			continue;
		gs_map_del(&f->by_pair, key_of_pair(p->one, p->other));
		*p = (struct pair){0};
		f->n_used_pairs--;
	}
}

/* --- stays in --- */

/* The one of that number, or the oldest to be written over. */
static struct stay *place_stay(struct stay stays[STAYS], uint64_t number)
{
	struct stay *oldest = &stays[0];

	for (unsigned i = 0; i < STAYS; i++) {
		if (stays[i].number == number)
			return &stays[i];
		if (stays[i].number < oldest->number)
			oldest = &stays[i];
	}
	return oldest;
}

static void compare_stays(struct gs_fleet *f, const struct comm *c, const struct rank *other,
			  const struct stay *one, const struct stay *its)
{
	struct pair *p = need_pair(f, c->one, other->node);

	if (!p) {
		f->n_left_out++;
		return;
	}
	p->heard_ns = other->as_of_ns;
	gs_fleet_clock_take(&p->clock, &one->it, &its->it);
}

/* One more rank of the communicator's node: the last of them to come and the first to go say most. */
static void add_to_node(struct gs_fleet *f, struct comm *c, const struct stay *stay)
{
	struct stay *at = place_stay(c->stays, stay->number);

	if (at->number > stay->number)
		return;
	if (at->number < stay->number)
		*at = *stay;
	if (stay->it.entered_ns > at->it.entered_ns)
		at->it.entered_ns = stay->it.entered_ns;
	if (stay->it.left_ns < at->it.left_ns)
		at->it.left_ns = stay->it.left_ns;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];
		const struct stay *its = place_stay(r->stays, stay->number);

		if (r->node != c->one && its->number == stay->number)
			compare_stays(f, c, r, at, its);
	}
}

int gs_fleet_take_stay(struct gs_fleet *f, const struct gs_fleet_source *source,
		       const struct gs_rec_rank_stay *r)
{
	struct rank *rank = fleet_find_rank(f, r->id_hash, r->n_ranks, r->rank);
	struct stay stay = {.number = r->number}, *place;
	struct comm *c;

	if (!r->number || r->left_ns >= (uint64_t)TIME_MAX || r->entered_ns > r->left_ns)
		return -EINVAL;
	if (!rank || rank->node != source->node)
		return -ENOENT;
	stay.it = (struct gs_fleet_stay){(int64_t)r->entered_ns, (int64_t)r->left_ns};
	c = &f->comms[rank->comm - 1];
	place = place_stay(rank->stays, stay.number);
	if (place->number >= stay.number)
		return 0; /* it is older than all, or known */
	*place = stay;
	if (!c->one)
		c->one = rank->node;
	if (rank->node == c->one) {
		add_to_node(f, c, &stay);
		return 0;
	}
	place = place_stay(c->stays, stay.number);
	if (place->number == stay.number)
		compare_stays(f, c, rank, place, &stay);
	return 0;
}

/* --- times compared --- */

int64_t fleet_shift_of_rank(const struct gs_fleet *f, const struct comm *c, const struct timing *t,
			    const struct rank *r, const struct mark *mark, double *ret_error_ns)
{
	const struct pair *p;
	int64_t low, high, head, error;

	*ret_error_ns = (double)r->error_ns;
	if (!t->has_clocks)
		return mark->shift_ns;
	*ret_error_ns = 0;
	if (r->node == c->one)
		return t->shift_ns;
	/* As the head has it; bounds are within that where both are right. */
	head = mark->shift_ns - t->shift_ns;
	error = (int64_t)(r->error_ns + t->error_ns);
	p = find_pair(f, c->one, r->node);
	if (!p || !gs_fleet_clock_read(&p->clock, t->at_ns, &low, &high)) {
		*ret_error_ns = (double)error;
		return mark->shift_ns;
	}
	if (head > TIME_MAX || head < -TIME_MAX || low > head + error || high < head - error) {
		/* One of both is wrong, and it is not known which. */
		*ret_error_ns = CONTRADICTED_NS;
		return mark->shift_ns;
	}
	low = low > head - error ? low : head - error;
	high = high < head + error ? high : head + error;
	*ret_error_ns = (double)(high - low) / 2 + 1;
	return t->shift_ns + low + (high - low) / 2;
}

/* Two ranks of different nodes are compared with an error of so much at most. */
static double worst_error(const struct gs_fleet *f, const struct comm *c, const struct timing *t,
			  uint64_t to)
{
	double most = 0, second = 0;
	int64_t node = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];
		const struct mark *mark = rank_is_over(r) ? NULL : fleet_find_mark(r, to);
		double error;

		if (!mark)
			continue;
		(void)fleet_shift_of_rank(f, c, t, r, mark, &error);
		if (r->node == node) {
			most = error > most ? error : most;
		} else if (error > most || !node) {
			second = most;
			most = error;
			node = r->node;
		} else if (error > second) {
			second = error;
		}
	}
	return most + second;
}

struct timing fleet_choose_timing(const struct gs_fleet *f, const struct comm *c, uint64_t to)
{
	struct timing by_head = {0}, t = {.has_clocks = true};
	const struct mark *mark = NULL;
	double error;

	for (uint32_t i = 0; i < c->n && c->one && !mark; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->node != c->one || rank_is_over(r))
			continue;
		mark = fleet_find_mark(r, to);
		if (!mark)
			continue;
		t.shift_ns = mark->shift_ns;
		t.at_ns = (int64_t)mark->at_ns;
		t.error_ns = r->error_ns;
	}
	if (!mark)
		return by_head;
	error = worst_error(f, c, &t, to);
	/* Where collectives contradict the head, neither is taken for right. */
	return error >= CONTRADICTED_NS || error <= worst_error(f, c, &by_head, to) ? t : by_head;
}
