/*
 * Matching. Each member has a ring of the calls that are not matched yet; the group has the number
 * of the next one. When every member has a call at the head of its ring, these are one collective.
 */
#include "pipeline/collectives/collectives_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"

#define RING_LEAST 16

struct gs_collectives *gs_collectives_new(void)
{
	struct gs_collectives *c = calloc(1, sizeof(*c));

	if (c) {
		c->by_id = GS_MAP_INIT(GS_COLLECTIVES_MAX_MEMBERS);
		c->n_members = c->n_groups = 1;
	}
	return c;
}

void gs_collectives_free(struct gs_collectives **collectives)
{
	struct gs_collectives *c = *collectives;

	if (!c)
		return;
	for (uint32_t i = 1; i < c->n_members; i++) {
		free(c->members[i].ring);
		free(c->members[i].figures);
	}
	for (uint32_t i = 1; i < c->n_groups; i++)
		free(c->groups[i].members);
	free(c->members);
	free(c->groups);
	gs_map_fini(&c->by_id);
	free(c);
	*collectives = NULL;
}

uint32_t gs_collectives_add_member(struct gs_collectives *c, uint32_t pid)
{
	if (c->n_members > GS_COLLECTIVES_MAX_MEMBERS ||
	    !gs_vec_reach(&c->members, &c->n_members_room, c->n_members))
		return 0;
	c->members[c->n_members].pid = pid;
	return c->n_members++;
}

static struct member *member_find(const struct gs_collectives *c, uint32_t member)
{
	return member && member < c->n_members ? &c->members[member] : NULL;
}

/* --- the ring of a member --- */

static const struct arrival *ring_oldest(const struct member *m)
{
	return &m->ring[m->head];
}

/* Forget the oldest n. */
static void ring_drop_oldest(struct gs_collectives *c, struct member *m, uint32_t n)
{
	m->head = m->n_room ? (m->head + n) & (m->n_room - 1) : 0;
	m->n -= n;
	m->head_seq += n;
	c->n_arrivals -= n;
}

static bool ring_grow_room(struct member *m)
{
	uint32_t n_new = m->n_room ? m->n_room * 2 : RING_LEAST;
	struct arrival *ring;

	if (n_new > GS_COLLECTIVES_MAX_AHEAD)
		return false;
	ring = malloc(n_new * sizeof(*ring));
	if (!ring)
		return false;
	for (uint32_t i = 0; i < m->n; i++)
		ring[i] = m->ring[(m->head + i) & (m->n_room - 1)];
	free(m->ring);
	m->ring = ring;
	m->n_room = n_new;
	m->head = 0;
	return true;
}

static bool ring_put_newest(struct gs_collectives *c, struct member *m,
			    const struct gs_collectives_call *call)
{
	if (c->n_arrivals >= GS_COLLECTIVES_MAX_ARRIVALS)
		return false;
	if (m->n == m->n_room && !ring_grow_room(m))
		return false;
	m->ring[(m->head + m->n++) & (m->n_room - 1)] =
		(struct arrival){call->start_ns, call->what};
	c->n_arrivals++;
	return true;
}

/* --- groups --- */

static struct group *group_of(const struct gs_collectives *c, const struct member *m)
{
	return m->group ? &c->groups[m->group] : NULL;
}

/* From here on it is not known which calls belong together: what is kept is left out, too. */
static void group_break_order(struct gs_collectives *c, struct group *g,
			      enum gs_collectives_cause cause)
{
	if (g->broken)
		return;
	g->broken = true;
	g->broken_cause = cause;
	g->n_filled = 0;
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &c->members[g->members[i]];

		c->left_out[cause] += m->n;
		ring_drop_oldest(c, m, m->n);
		free(m->ring);
		m->ring = NULL;
		m->n_room = 0;
	}
}

/* Calls of a member that come before the group's next: the others were not waited for any longer. */
static void member_drop_passed(struct gs_collectives *c, const struct group *g, struct member *m)
{
	uint64_t n_passed = g->base_seq > m->head_seq ? g->base_seq - m->head_seq : 0;
	uint32_t n = n_passed < m->n ? (uint32_t)n_passed : m->n;

	ring_drop_oldest(c, m, n);
	c->left_out[g->n_members > 1 ? GS_COLLECTIVES_MISSING : GS_COLLECTIVES_ALONE] += n;
}

static void group_fill_again(struct gs_collectives *c, struct group *g)
{
	g->n_filled = 0;
	g->ready_ns = 0;
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &c->members[g->members[i]];

		member_drop_passed(c, g, m);
		g->n_filled += m->n != 0;
	}
}

/* The n-th calls of all are one collective: were they the same call? Else the order is broken. */
static bool group_agrees(const struct gs_collectives *c, const struct group *g)
{
	uint64_t what = ring_oldest(&c->members[g->members[0]])->what;

	for (uint32_t i = 1; i < g->n_members; i++)
		if (ring_oldest(&c->members[g->members[i]])->what != what)
			return false;
	return true;
}

static void union_add_interval(struct union_time *u, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < u->until_ns)
		from_ns = u->until_ns;
	if (to_ns <= from_ns)
		return;
	u->ns += to_ns - from_ns;
	u->until_ns = to_ns;
}

static void member_add_lateness(struct member *m, uint64_t first_ns, uint64_t arrival_ns)
{
	struct member_figures *f = m->figures;
	uint64_t late_ns = arrival_ns - first_ns;

	union_add_interval(&f->late_time, first_ns, arrival_ns);
	f->late[gs_hist_bucket(late_ns)]++;
	f->late_max_ns = late_ns > f->late_max_ns ? late_ns : f->late_max_ns;
}

static void member_add_margin(struct member *m, uint64_t before_ns, uint64_t last_ns)
{
	struct member_figures *f = m->figures;
	uint64_t margin_ns = last_ns - before_ns;

	union_add_interval(&f->missing, before_ns, last_ns);
	f->n_last++;
	f->margin[gs_hist_bucket(margin_ns)]++;
	f->margin_sum_ns += margin_ns;
	f->margin_max_ns = margin_ns > f->margin_max_ns ? margin_ns : f->margin_max_ns;
}

static bool group_has_figures(struct gs_collectives *c, const struct group *g)
{
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &c->members[g->members[i]];

		if (!m->figures)
			m->figures = calloc(1, sizeof(*m->figures));
		if (!m->figures)
			return false;
	}
	return true;
}

static void group_match_next(struct gs_collectives *c, struct group *g)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0, before_ns = 0;
	struct member *last = NULL;

	if (!group_agrees(c, g)) {
		group_break_order(c, g, GS_COLLECTIVES_DIFFERS);
		return;
	}
	if (!group_has_figures(c, g)) {
		group_break_order(c, g, GS_COLLECTIVES_NO_ROOM);
		return;
	}
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &c->members[g->members[i]];
		uint64_t ns = ring_oldest(m)->time_ns;

		first_ns = ns < first_ns ? ns : first_ns;
		if (!last || ns > last_ns) {
			before_ns = last_ns;
			last_ns = ns;
			last = m;
		} else if (ns > before_ns) {
			before_ns = ns;
		}
	}
	g->n_filled = 0;
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &c->members[g->members[i]];

		member_add_lateness(m, first_ns, ring_oldest(m)->time_ns);
		ring_drop_oldest(c, m, 1);
		g->n_filled += m->n != 0;
	}
	member_add_margin(last, before_ns, last_ns);
	g->first_ns = g->n_matched ? g->first_ns : first_ns;
	g->last_ns = last_ns;
	g->n_matched++;
	g->base_seq++;
	g->ready_ns = 0;
	c->n_matched += g->n_members;
}

static uint64_t group_last_arrival_ns(const struct gs_collectives *c, const struct group *g)
{
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct arrival *a = ring_oldest(&c->members[g->members[i]]);

		last_ns = a->time_ns > last_ns ? a->time_ns : last_ns;
	}
	return last_ns;
}

static bool group_can_match(const struct group *g)
{
	return !g->broken && g->n_members > 1 && g->n_filled == g->n_members;
}

static void group_match_ready(struct gs_collectives *c, struct group *g)
{
	while (g->n_members == (uint32_t)g->n_ranks && group_can_match(g)) {
		if (!g->ready_ns)
			g->ready_ns = group_last_arrival_ns(c, g) + GS_COLLECTIVES_HOLD_NS;
		if (c->newest_ns < g->ready_ns)
			return;
		group_match_next(c, g);
	}
}

void collectives_settle_group(struct gs_collectives *c, struct group *g)
{
	while (group_can_match(g))
		group_match_next(c, g);
}

/* A member has no room for its next call: match what the others have of the oldest, or give it up. */
static void group_make_room(struct gs_collectives *c, struct group *g, struct member *m)
{
	if (group_can_match(g)) {
		group_match_next(c, g);
		return;
	}
	g->base_seq = m->head_seq + 1;
	group_fill_again(c, g);
}

/* --- what comes in --- */

static bool group_has_rank(const struct gs_collectives *c, const struct group *g, int32_t rank)
{
	for (uint32_t i = 0; i < g->n_members; i++)
		if (c->members[g->members[i]].rank == rank)
			return true;
	return false;
}

static uint32_t group_make_new(struct gs_collectives *c, uint64_t id, int32_t n_ranks)
{
	if (!gs_vec_reach(&c->groups, &c->n_groups_room, c->n_groups))
		return 0;
	c->groups[c->n_groups] = (struct group){.id = id, .n_ranks = n_ranks};
	return c->n_groups++;
}

/* The group of this id that the rank has no place in yet: of one id there are several only when a
 * program uses the id again. 0: no memory. */
static uint32_t group_find_free(struct gs_collectives *c, uint64_t id, int32_t rank,
				int32_t n_ranks)
{
	uint32_t last = 0, made;
	uint64_t first;

	if (gs_map_get(&c->by_id, id, &first)) {
		for (last = (uint32_t)first;; last = c->groups[last].next) {
			const struct group *g = &c->groups[last];

			if (g->n_ranks == n_ranks && !group_has_rank(c, g, rank))
				return last;
			if (!g->next)
				break;
		}
	}
	made = group_make_new(c, id, n_ranks);
	if (made && last)
		c->groups[last].next = made;
	else if (made && gs_map_put(&c->by_id, id, made) < 0)
		return 0;
	return made;
}

void gs_collectives_set_identity(struct gs_collectives *c, uint32_t member, uint64_t id,
				 int32_t rank, int32_t n_ranks)
{
	struct member *m = member_find(c, member);
	uint32_t *members, index;
	struct group *g;

	if (!m || m->group || !id || rank < 0 || n_ranks <= rank)
		return;
	index = group_find_free(c, id, rank, n_ranks);
	if (!index)
		return;
	g = &c->groups[index];
	members = realloc(g->members, (g->n_members + 1) * sizeof(*members));
	if (!members)
		return;
	g->members = members;
	members[g->n_members++] = member;
	m->rank = rank;
	m->group = index;
	g->ready_ns = 0;
	if (m->lost && !g->broken)
		group_break_order(c, g, GS_COLLECTIVES_LOST);
	if (g->broken) {
		c->left_out[g->broken_cause] += m->n;
		ring_drop_oldest(c, m, m->n);
		return;
	}
	member_drop_passed(c, g, m);
	g->n_filled += m->n != 0;
	group_match_ready(c, g);
}

/* Place for the member's next call; false: its order is lost with it. */
static bool member_put_call(struct gs_collectives *c, struct group *g, struct member *m,
			    const struct gs_collectives_call *call)
{
	if (ring_put_newest(c, m, call))
		return true;
	if (m->n && g) {
		group_make_room(c, g, m);
		if (g->broken)
			return false;
	} else if (m->n) {
		ring_drop_oldest(c, m, 1);
		c->left_out[GS_COLLECTIVES_UNKNOWN]++;
	}
	if (ring_put_newest(c, m, call))
		return true;
	m->lost = true;
	if (g)
		group_break_order(c, g, GS_COLLECTIVES_NO_ROOM);
	return false;
}

void gs_collectives_add_call(struct gs_collectives *c, uint32_t member,
			     const struct gs_collectives_call *call)
{
	struct member *m = member_find(c, member);
	struct group *g;

	if (!m)
		return;
	g = group_of(c, m);
	c->n_calls++;
	m->calls++;
	m->calls_ns += call->dur_ns;
	if (call->start_ns + call->dur_ns > c->newest_ns)
		c->newest_ns = call->start_ns + call->dur_ns;
	if (g && g->n_ranks == 1) {
		c->left_out[GS_COLLECTIVES_ALONE]++;
		return;
	}
	if ((g && g->broken) || !member_put_call(c, g, m, call)) {
		c->left_out[g ? g->broken_cause : GS_COLLECTIVES_NO_ROOM]++;
		return;
	}
	if (!g)
		return;
	member_drop_passed(c, g, m);
	g->n_filled += m->n == 1;
	group_match_ready(c, g);
}

void gs_collectives_leave_out(struct gs_collectives *c, enum gs_collectives_cause cause, uint64_t n)
{
	c->n_calls += n;
	c->left_out[cause] += n;
}

void gs_collectives_lose_calls(struct gs_collectives *c, uint32_t pid)
{
	for (uint32_t i = 1; i < c->n_members; i++) {
		struct member *m = &c->members[i];
		struct group *g = group_of(c, m);

		if (pid && m->pid != pid)
			continue;
		m->lost = true;
		if (g)
			group_break_order(c, g, GS_COLLECTIVES_LOST);
	}
}
