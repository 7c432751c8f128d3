/*
 * Each rank has a count of its calls and the newest of them; a group has what the first rank called by
 * number, with which the others are compared. A group waits when one of its ranks has made more calls
 * than another: for the call after the last one that all have made.
 */
#include "analysis/hang/hang_int.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/func.h"

#define N_SAME 8 /* newest calls of a rank among which one may be that comes again */

struct gs_hang *gs_hang_new(uint64_t quiet_ns)
{
	struct gs_hang *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->quiet_ns = quiet_ns > GS_HANG_HOLD_NS ? quiet_ns : GS_HANG_HOLD_NS;
	h->by_id = GS_MAP_INIT(GS_HANG_MAX_MEMBERS);
	h->n_groups = 1;
	return h;
}

void gs_hang_free(struct gs_hang **hang)
{
	struct gs_hang *h = *hang;

	if (!h)
		return;
	for (uint32_t i = 0; i < h->n_members; i++)
		free(h->members[i].calls);
	for (uint32_t i = 1; i < h->n_groups; i++)
		free(h->groups[i].members);
	for (uint32_t i = 0; i < h->n_found; i++)
		free(h->found[i].it.ranks);
	free(h->members);
	free(h->groups);
	gs_map_fini(&h->by_id);
	free(h);
	*hang = NULL;
}

/* --- ranks and groups --- */

static struct member *member_find(const struct gs_hang *h, uint32_t member)
{
	return member < h->n_members && h->members[member].group ? &h->members[member] : NULL;
}

static bool group_has_rank(const struct gs_hang *h, const struct group *g, int32_t rank)
{
	for (uint32_t i = 0; i < g->n_members; i++)
		if (h->members[g->members[i]].rank == rank)
			return true;
	return false;
}

/* The group of this id in which the rank has no place yet: a program may use an id again. 0: no memory. */
static uint32_t group_find_free(struct gs_hang *h, uint64_t id, int32_t rank, int32_t n_ranks)
{
	uint32_t last = 0, made;
	uint64_t first;

	if (gs_map_get(&h->by_id, id, &first)) {
		for (last = (uint32_t)first;; last = h->groups[last].next) {
			const struct group *g = &h->groups[last];

			if (g->n_ranks == n_ranks && !group_has_rank(h, g, rank))
				return last;
			if (!g->next)
				break;
		}
	}
	if (!gs_vec_reach(&h->groups, &h->n_groups_room, h->n_groups))
		return 0;
	made = h->n_groups++;
	h->groups[made] = (struct group){.id = id, .n_ranks = n_ranks};
	if (last)
		h->groups[last].next = made;
	else if (gs_map_put(&h->by_id, id, made) < 0)
		return 0;
	return made;
}

void gs_hang_set_member(struct gs_hang *h, uint32_t member, uint32_t pid, uint64_t id, int32_t rank,
			int32_t n_ranks)
{
	struct member *m;
	struct group *g;
	uint32_t index;

	hang_make_joins(h, pid, n_ranks);
	if (member >= GS_HANG_MAX_MEMBERS || !id || rank < 0 || n_ranks <= rank || n_ranks < 2 ||
	    member_find(h, member) || !gs_vec_reach(&h->members, &h->n_members, member))
		return;
	index = group_find_free(h, id, rank, n_ranks);
	if (!index)
		return;
	g = &h->groups[index];
	if (!gs_vec_reserve_next(&g->members, g->n_members))
		return;
	g->members[g->n_members++] = member;
	m = &h->members[member];
	*m = (struct member){.pid = pid, .rank = rank, .group = index, .calls = m->calls};
}

/* --- calls --- */

const struct call *hang_member_call(const struct member *m, uint64_t number)
{
	if (!number || number > m->n_calls || m->n_calls - number >= GS_HANG_KEPT)
		return NULL;
	return &m->calls[number & (GS_HANG_KEPT - 1)];
}

/* The first difference: what the ranks have called there so far is kept. */
static void note_difference(struct gs_hang *h, struct group *g, uint64_t number, uint64_t ns)
{
	g->differs_at = number;
	g->differs_ns = ns;
	for (uint32_t i = 0; i < g->n_members; i++) {
		struct member *m = &h->members[g->members[i]];

		for (unsigned k = 0; k < 2; k++) {
			const struct call *c = hang_member_call(m, number + k);

			m->pair.at[k] = c ? c->op : (struct gs_hang_op){0};
		}
	}
}

static void compare_call(struct gs_hang *h, struct group *g, struct member *m,
			 const struct gs_hang_call *call)
{
	uint64_t number = m->n_calls, place = number & (GS_HANG_KEPT - 1);

	if (g->differs_at) {
		if (number - g->differs_at < 2)
			m->pair.at[number - g->differs_at] = call->op;
		return;
	}
	if (g->first[place].number < number) {
		g->first[place].number = number;
		g->first[place].op = call->op;
	} else if (g->first[place].number == number &&
		   !gs_hang_ops_agree(&g->first[place].op, &call->op)) {
		note_difference(h, g, number, call->start_ns);
	}
}

/* One that was put in before its return; true. */
static bool is_known_call(struct member *m, const struct gs_hang_call *call, bool is_inside)
{
	for (uint64_t i = 0; i < N_SAME && i < m->n_calls; i++) {
		if (hang_member_call(m, m->n_calls - i)->start_ns != call->start_ns)
			continue;
		if (i == 0)
			m->is_inside = is_inside;
		return true;
	}
	return false;
}

void gs_hang_take_call(struct gs_hang *h, uint32_t member, const struct gs_hang_call *call,
		       bool is_inside)
{
	struct member *m = member_find(h, member);
	struct group *g;

	if (!m || is_known_call(m, call, is_inside))
		return;
	g = &h->groups[m->group];
	if (!m->calls)
		m->calls = calloc(GS_HANG_KEPT, sizeof(*m->calls));
	if (!m->calls) {
		g->is_lost = true;
		return;
	}
	m->n_calls++;
	m->calls[m->n_calls & (GS_HANG_KEPT - 1)] = (struct call){call->op, call->start_ns};
	m->tid = call->tid;
	m->is_inside = is_inside;
	if (call->start_ns > g->newest_ns)
		g->newest_ns = call->start_ns;
	compare_call(h, g, m, call);
}

void gs_hang_end_member(struct gs_hang *h, uint32_t member)
{
	struct member *m = member_find(h, member);

	if (m)
		m->has_left = true;
}

void gs_hang_end_process(struct gs_hang *h, uint32_t pid, uint8_t signal, uint64_t end_ns)
{
	hang_end_joins(h, pid);
	for (uint32_t i = 0; i < h->n_members; i++) {
		struct member *m = &h->members[i];

		if (!m->group || m->pid != pid)
			continue;
		if (!m->has_ended || end_ns < m->ended_ns)
			m->ended_ns = end_ns;
		m->has_ended = true;
		if (signal)
			m->end_signal = signal;
	}
}

void gs_hang_lose_calls(struct gs_hang *h, uint32_t pid)
{
	for (uint32_t i = 0; i < h->n_members; i++)
		if (h->members[i].group && (!pid || h->members[i].pid == pid))
			h->groups[h->members[i].group].is_lost = true;
}

/* --- what time says --- */

bool gs_hang_is_quiet(const struct gs_hang *h, uint64_t now_ns)
{
	for (uint32_t i = 1; i < h->n_groups; i++)
		if (!h->groups[i].is_lost && h->groups[i].newest_ns + GS_HANG_HOLD_NS / 2 <= now_ns)
			return true;
	return false;
}

/* For the call after the last one that all ranks have made. */
struct waiting {
	uint64_t call;
	bool any;              /* a rank that runs waits */
	uint64_t since_ns;     /* the first arrived at it */
	uint64_t progress_ns;  /* newest call of those that have not arrived */
	uint64_t hopeless_ns;  /* one of these ended; 0: none has */
	uint64_t crashed_ns;   /* one of these was ended by a fault or killed; 0: none was */
	uint64_t first_end_ns; /* of those that wait; UINT64_MAX: none has ended */
};

/* By which people and launchers stop what they started. */
static bool is_request_to_stop(uint8_t signal)
{
	return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void add_waiter(const struct member *m, struct waiting *w)
{
	const struct call *c = hang_member_call(m, w->call);

	/* Far ahead: it has waited for longer than is known. */
	if (!c)
		c = hang_member_call(m, m->n_calls - (GS_HANG_KEPT - 1));
	if (c->start_ns < w->since_ns)
		w->since_ns = c->start_ns;
	w->any |= !m->has_ended && !m->has_left;
	if (m->has_ended && m->ended_ns < w->first_end_ns)
		w->first_end_ns = m->ended_ns;
}

static void add_missing(const struct member *m, struct waiting *w)
{
	const struct call *c = hang_member_call(m, m->n_calls);

	if (c && c->start_ns > w->progress_ns)
		w->progress_ns = c->start_ns;
	if (m->has_ended && (!w->hopeless_ns || m->ended_ns < w->hopeless_ns))
		w->hopeless_ns = m->ended_ns;
	if (m->end_signal && !is_request_to_stop(m->end_signal) &&
	    (!w->crashed_ns || m->ended_ns < w->crashed_ns))
		w->crashed_ns = m->ended_ns;
}

static struct waiting find_waiting(const struct gs_hang *h, const struct group *g)
{
	struct waiting w = {.since_ns = UINT64_MAX, .first_end_ns = UINT64_MAX};
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < g->n_members; i++)
		if (h->members[g->members[i]].n_calls < least)
			least = h->members[g->members[i]].n_calls;
	w.call = least + 1;
	for (uint32_t i = 0; g->n_members > 1 && i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];

		if (m->n_calls > least)
			add_waiter(m, &w);
		else
			add_missing(m, &w);
	}
	return w;
}

/* The others ended because of it: NCCL gives them an error when a rank is gone. */
static bool was_crash_first(const struct waiting *w)
{
	return w->crashed_ns && w->first_end_ns != UINT64_MAX && w->crashed_ns < w->first_end_ns;
}

static bool wait_is_due(const struct gs_hang *h, const struct waiting *w, uint64_t now_ns,
			bool is_last)
{
	uint64_t from_ns = w->since_ns > w->progress_ns ? w->since_ns : w->progress_ns;
	uint64_t hopeless_ns = w->since_ns > w->hopeless_ns ? w->since_ns : w->hopeless_ns;

	if (!w->any && !was_crash_first(w))
		return false;
	return (is_last && !w->any) || now_ns >= from_ns + h->quiet_ns ||
	       (w->hopeless_ns && now_ns >= hopeless_ns + GS_HANG_HOLD_NS);
}

static bool has_shifted(const struct gs_hang *h, const struct group *g)
{
	GS_FREE struct gs_hang_pair *pairs = calloc(g->n_members, sizeof(*pairs));

	for (uint32_t i = 0; pairs && i < g->n_members; i++)
		pairs[i] = h->members[g->members[i]].pair;
	return !pairs || gs_hang_has_shifted(pairs, g->n_members);
}

/* Where ranks called different things, some wait in vain, which is no second finding: soon after it, and for good
 * where the calls of a rank have other numbers since. That a rank was killed is one. */
static bool is_consequence(const struct gs_hang *h, const struct group *g, const struct waiting *w)
{
	if (!g->differs_at || w->call < g->differs_at || w->crashed_ns)
		return false;
	return w->call - g->differs_at < GS_HANG_KEPT || has_shifted(h, g);
}

static void check_waits(struct gs_hang *h, struct group *g, uint64_t now_ns, bool is_last)
{
	struct waiting w = find_waiting(h, g);
	struct found *f = g->waits ? &h->found[g->waits - 1] : NULL;

	if (f && (w.call > f->it.call || !w.any)) {
		f->it.ended_ns = now_ns;
		f->it.has_arrived = w.call > f->it.call;
		f->is_due = true;
		g->waits = 0;
		g->has_said_crash = !w.any;
	} else if (!f && !g->has_said_crash && !is_consequence(h, g, &w) &&
		   wait_is_due(h, &w, now_ns, is_last)) {
		f = hang_add_found(h, g, GS_HANG_WAITS, w.call, w.since_ns, now_ns);
		g->waits = f && w.any ? (uint32_t)(f - h->found) + 1 : 0;
		g->has_said_crash = !w.any;
	}
}

/* Once for a group: what comes after it has other numbers. As soon as all ranks have called. */
static void check_difference(struct gs_hang *h, struct group *g, uint64_t now_ns, bool is_last)
{
	uint64_t wait_ns = GS_HANG_HOLD_NS;

	if (!g->differs_at || g->has_said_differs)
		return;
	for (uint32_t i = 0; i < g->n_members; i++)
		if (!h->members[g->members[i]].pair.at[0].function)
			wait_ns = h->quiet_ns;
	if (!is_last && now_ns < g->differs_ns + wait_ns)
		return;
	g->has_said_differs = true;
	hang_add_found(h, g, GS_HANG_DIFFERS, g->differs_at, g->differs_ns, now_ns);
}

void gs_hang_check(struct gs_hang *h, uint64_t now_ns, bool is_last)
{
	hang_check_joins(h, now_ns);
	for (uint32_t i = 1; i < h->n_groups; i++) {
		if (h->groups[i].is_lost)
			continue;
		check_difference(h, &h->groups[i], now_ns, is_last);
		check_waits(h, &h->groups[i], now_ns, is_last);
	}
}
