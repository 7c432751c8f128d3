/* Tables of ranks, communicators and findings; what a record must be like to be believed. */
#include "analysis/fleet/fleet_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define RANKS_MAX (1 << 20)          /* of a communicator that is believed */
#define TIME_MAX  ((int64_t)1 << 61) /* ns; further than that is no time */

struct gs_fleet *gs_fleet_new(void)
{
	struct gs_fleet *f = calloc(1, sizeof(*f));

	if (f) {
		f->by_rank = GS_MAP_INIT(GS_FLEET_MAX_RANKS);
		f->by_comm = GS_MAP_INIT(GS_FLEET_MAX_COMMS);
		f->by_pair = GS_MAP_INIT(GS_FLEET_MAX_CLOCKS);
		fleet_learn_functions(f);
	}
	return f;
}

void gs_fleet_free(struct gs_fleet **fleet)
{
	struct gs_fleet *f = *fleet;

	if (!f)
		return;
	for (uint32_t i = 0; i < f->n_comms; i++) {
		free(f->comms[i].ranks);
		free(f->comms[i].first);
		free(f->comms[i].steps);
		gs_detect_free(&f->comms[i].pace);
	}
	for (uint32_t i = 0; i < f->n_ranks; i++) {
		free(f->ranks[i].ops);
		free(f->ranks[i].steps);
	}
	free(f->sides);
	free(f->comms);
	free(f->ranks);
	free(f->pairs);
	free(f->scratch);
	gs_map_fini(&f->by_rank);
	gs_map_fini(&f->by_comm);
	gs_map_fini(&f->by_pair);
	free(f);
	*fleet = NULL;
}

/* --- findings --- */

struct gs_fleet_finding *fleet_add_finding(struct gs_fleet *f, const struct comm *comm,
					   enum gs_fleet_kind kind, int64_t begin_ns,
					   int64_t now_ns, uint32_t *ret_place)
{
	uint32_t i = 0;

	while (i < GS_FLEET_MAX_FINDINGS && f->found[i].is_used)
		i++;
	if (i == GS_FLEET_MAX_FINDINGS) {
		f->n_left_out++;
		return NULL;
	}
	f->found[i] = (struct slot){.is_used = true,
				    .is_due = true,
				    .it = {.number = ++f->n_numbers,
					   .kind = kind,
					   .id = comm->id,
					   .n_ranks = comm->n_ranks,
					   .n_seen = (int32_t)comm->n,
					   .begin_ns = begin_ns,
					   .found_ns = now_ns}};
	*ret_place = i + 1;
	return &f->found[i].it;
}

void fleet_touch_finding(struct gs_fleet *f, uint32_t place)
{
	f->found[place - 1].is_due = true;
}

void fleet_end_finding(struct gs_fleet *f, uint32_t *place, int64_t end_ns)
{
	if (!*place)
		return;
	f->found[*place - 1].it.end_ns = end_ns;
	fleet_touch_finding(f, *place);
	*place = 0;
}

void fleet_list_rank(struct gs_fleet_finding *finding, const struct rank *rank,
		     enum gs_fleet_state state)
{
	struct gs_fleet_rank *to;

	if (!finding->job[0])
		memcpy(finding->job, rank->job, sizeof(finding->job));
	if (finding->n_about++ >= GS_FLEET_MAX_LISTED)
		return;
	to = &finding->about[finding->n_about - 1];
	*to = (struct gs_fleet_rank){
		.rank = rank->rank, .pid = rank->pid, .state = state, .calls = rank->calls};
	memcpy(to->node, rank->name, sizeof(to->node));
	memcpy(to->last_name, rank->last_name, sizeof(to->last_name));
}

const struct gs_fleet_finding *gs_fleet_next(struct gs_fleet *f)
{
	for (uint32_t i = 0; i < GS_FLEET_MAX_FINDINGS; i++) {
		struct slot *s = &f->found[i];

		if (!s->is_used || !s->is_due)
			continue;
		s->is_due = false;
		s->is_used = !s->it.end_ns; /* it was handed out for the last time */
		return &s->it;
	}
	return NULL;
}

void gs_fleet_each_holding(const struct gs_fleet *f,
			   void (*fn)(void *ctx, const struct gs_fleet_finding *finding), void *ctx)
{
	for (uint32_t i = 0; i < GS_FLEET_MAX_FINDINGS; i++)
		if (f->found[i].is_used && !f->found[i].it.end_ns)
			fn(ctx, &f->found[i].it);
}

void gs_fleet_counts(const struct gs_fleet *f, struct gs_fleet_counts *ret)
{
	*ret = (struct gs_fleet_counts){.n_ranks = f->n_used_ranks,
					.n_comms = f->n_used_comms,
					.n_left_out = f->n_left_out,
					.n_clocks = f->n_used_pairs};
	for (uint32_t i = 0; i < GS_FLEET_MAX_FINDINGS; i++)
		ret->n_holding += f->found[i].is_used && !f->found[i].it.end_ns;
}

/* --- ranks and communicators --- */

static uint64_t key_of(uint64_t id, int32_t n_ranks, int32_t rank)
{
	const uint64_t what[2] = {id, (uint64_t)(uint32_t)n_ranks << 32 | (uint32_t)rank};

	return gs_hash_bytes(what, sizeof(what));
}

/* The place of the communicator, made when it is new; UINT32_MAX: none. */
static uint32_t place_comm(struct gs_fleet *f, uint64_t id, int32_t n_ranks)
{
	uint64_t key = key_of(id, n_ranks, -1), known;
	uint32_t i = 0;

	if (gs_map_get(&f->by_comm, key, &known))
		return f->comms[known].id == id && f->comms[known].n_ranks == n_ranks
			       ? (uint32_t)known
			       : UINT32_MAX;
	while (i < f->n_comms && f->comms[i].id)
		i++;
	if (i == GS_FLEET_MAX_COMMS ||
	    (i == f->n_comms && !gs_vec_reserve(&f->comms, &f->n_comms_room, i + 1)) ||
	    gs_map_put(&f->by_comm, key, i) < 0)
		return UINT32_MAX;
	if (i == f->n_comms)
		f->n_comms++;
	f->comms[i] = (struct comm){.id = id, .n_ranks = n_ranks, .late_rank = -1};
	f->n_used_comms++;
	return i;
}

/* A place for a rank that is new. NULL: none. */
static struct rank *add_rank(struct gs_fleet *f, const struct gs_rec_rank *record, uint64_t key)
{
	uint32_t place, i = 0;
	struct comm *c;

	if (f->n_used_ranks == GS_FLEET_MAX_RANKS)
		return NULL;
	place = place_comm(f, record->id_hash, record->n_ranks);
	if (place == UINT32_MAX)
		return NULL;
	c = &f->comms[place];
	for (i = f->n_used_ranks < f->n_ranks ? 0 : f->n_ranks; i < f->n_ranks; i++)
		if (!f->ranks[i].comm)
			break;
	if (!gs_vec_reserve(&c->ranks, &c->n_room, c->n + 1) ||
	    (i == f->n_ranks && !gs_vec_reserve(&f->ranks, &f->n_ranks_room, i + 1)) ||
	    gs_map_put(&f->by_rank, key, i) < 0)
		return NULL;
	if (i == f->n_ranks)
		f->n_ranks++;
	f->n_used_ranks++;
	c->ranks[c->n++] = i;
	f->ranks[i] = (struct rank){.comm = place + 1u, .rank = record->rank};
	return &f->ranks[i];
}

static void remove_rank(struct gs_fleet *f, struct comm *c, uint32_t index)
{
	struct rank *r = &f->ranks[c->ranks[index]];

	gs_map_del(&f->by_rank, key_of(c->id, c->n_ranks, r->rank));
	free(r->steps);
	free(r->ops);
	*r = (struct rank){0};
	f->n_used_ranks--;
	c->ranks[index] = c->ranks[--c->n];
}

void fleet_forget_calls(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	fleet_end_finding(f, &c->differs_find, now_ns);
	gs_free_p(&c->first);
	c->differs_from = c->differs_to = 0;
	c->has_said_differs = false;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];

		r->pair = (struct gs_hang_pair){0};
		r->is_odd = false;
		r->ops_from = r->ops_to = 0;
	}
}

static void remove_comm(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	while (c->n)
		remove_rank(f, c, c->n - 1);
	fleet_forget_calls(f, c, now_ns);
	fleet_forget_pace(f, c, now_ns);
	fleet_end_finding(f, &c->late_find, now_ns);
	fleet_end_finding(f, &c->hang_find, now_ns);
	gs_map_del(&f->by_comm, key_of(c->id, c->n_ranks, -1));
	free(c->ranks);
	free(c->steps);
	*c = (struct comm){0};
	f->n_used_comms--;
}

/* --- records in --- */

static bool is_text(const char *text, size_t bytes)
{
	size_t n = strnlen(text, bytes);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return n < bytes;
}

static bool is_time(int64_t ns)
{
	return ns > -TIME_MAX && ns < TIME_MAX;
}

static bool is_record_valid(const struct gs_fleet_source *source, const struct gs_rec_rank *r)
{
	return r->id_hash && r->n_ranks >= 2 && r->n_ranks <= RANKS_MAX && r->rank >= 0 &&
	       r->rank < r->n_ranks && r->time_ns < (uint64_t)TIME_MAX &&
	       is_time(r->wall_minus_boot_ns) && is_time(source->offset_ns) &&
	       r->n_listed <= GS_RANK_CALLS && r->n_listed <= r->calls &&
	       r->n_listed <= (r->head.bytes - sizeof(*r)) / sizeof(r->listed[0]) &&
	       r->last_ns <= r->time_ns && r->mark_ns <= r->time_ns && r->mark <= r->calls &&
	       is_text(r->last_name, sizeof(r->last_name)) && is_text(r->job, sizeof(r->job));
}

static void take_mark(struct rank *to, const struct gs_rec_rank *r, int64_t shift_ns)
{
	if (!r->mark || (to->n_marks && r->mark <= to->marks[to->n_marks - 1].number))
		return;
	if (to->n_marks == MARKS)
		memmove(to->marks, to->marks + 1, --to->n_marks * sizeof(to->marks[0]));
	to->marks[to->n_marks++] = (struct mark){.number = r->mark,
						 .arrivals_ns = r->arrivals_ns,
						 .inside_ns = r->inside_ns,
						 .at_ns = r->mark_ns,
						 .calls_hash = r->calls_hash,
						 .shift_ns = shift_ns};
}

/* Another process has the place now: what is known of others of its communicator that ended is of an earlier
 * run. */
static void begin_again(struct gs_fleet *f, struct rank *rank, int64_t now_ns)
{
	struct comm *c = &f->comms[rank->comm - 1];

	for (uint32_t i = c->n; i-- > 0;)
		if (&f->ranks[c->ranks[i]] != rank && rank_is_over(&f->ranks[c->ranks[i]]))
			remove_rank(f, c, i);
	fleet_forget_calls(f, c, now_ns);
	fleet_forget_pace(f, c, now_ns);
	fleet_forget_compared(f, c);
	free(rank->steps);
	free(rank->ops);
	*rank = (struct rank){.comm = rank->comm, .rank = rank->rank};
	c->compared = 0;
	c->one = 0; /* its node may be another one now, too */
	memset(c->stays, 0, sizeof(c->stays));
}

struct rank *fleet_find_rank(const struct gs_fleet *f, uint64_t id, int32_t n_ranks, int32_t rank)
{
	struct rank *r;
	uint64_t place;

	if (!gs_map_get(&f->by_rank, key_of(id, n_ranks, rank), &place))
		return NULL;
	r = &f->ranks[place];
	return f->comms[r->comm - 1].id == id && r->rank == rank ? r : NULL;
}

int gs_fleet_take(struct gs_fleet *f, const struct gs_fleet_source *source,
		  const struct gs_rec_rank *r, int64_t now_ns)
{
	uint64_t key = key_of(r->id_hash, r->n_ranks, r->rank), place;
	int64_t shift_ns, as_of_ns;
	struct rank *rank;

	if (!is_record_valid(source, r))
		return -EINVAL;
	shift_ns = r->wall_minus_boot_ns + source->offset_ns;
	as_of_ns = (int64_t)r->time_ns + shift_ns;
	if (as_of_ns > now_ns)
		as_of_ns = now_ns;
	rank = gs_map_get(&f->by_rank, key, &place) ? &f->ranks[place] : add_rank(f, r, key);
	if (!rank || f->comms[rank->comm - 1].id != r->id_hash || rank->rank != r->rank) {
		f->n_left_out++;
		return -ENOBUFS;
	}
	if (rank->node && rank->node != source->node && !rank_is_over(rank) &&
	    now_ns - rank->as_of_ns < (int64_t)GS_FLEET_STALE_NS) {
		f->n_left_out++;
		return -EEXIST;
	}
	if (rank->node && (rank->node != source->node || rank->pid != r->pid))
		begin_again(f, rank, now_ns);
	else if (rank->node && as_of_ns < rank->as_of_ns)
		return 0; /* it was overtaken */
	rank->node = source->node;
	rank->error_ns = source->error_ns;
	rank->shift_ns = shift_ns;
	rank->pid = r->pid;
	rank->flags = r->head.flags;
	rank->as_of_ns = as_of_ns;
	rank->last_ns = r->last_ns ? (int64_t)r->last_ns + shift_ns : 0;
	rank->calls = r->calls;
	snprintf(rank->name, sizeof(rank->name), "%s", source->name);
	memcpy(rank->last_name, r->last_name, sizeof(rank->last_name));
	memcpy(rank->job, r->job, sizeof(rank->job));
	take_mark(rank, r, shift_ns);
	fleet_take_calls(f, rank, r, now_ns);
	return 0;
}

/* --- time --- */

/* What is over goes when all of its communicator is, or nothing was heard of it for long. */
static void forget_ranks(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	bool all_over = true;

	for (uint32_t i = c->n; i-- > 0;) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->flags & GS_RANK_UNTRACED || now_ns - r->as_of_ns > (int64_t)GS_FLEET_GONE_NS)
			remove_rank(f, c, i);
		else
			all_over &= rank_is_over(r);
	}
	if (all_over)
		remove_comm(f, c, now_ns);
}

static bool has_lost(const struct gs_fleet *f, const struct comm *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (f->ranks[c->ranks[i]].flags & GS_RANK_LOST)
			return true;
	return false;
}

void gs_fleet_tick(struct gs_fleet *f, int64_t now_ns)
{
	fleet_forget_pairs(f, now_ns);
	for (uint32_t i = 0; i < f->n_comms; i++) {
		struct comm *c = &f->comms[i];

		if (c->id)
			forget_ranks(f, c, now_ns);
		if (!c->id)
			continue;
		if (has_lost(f, c)) {
			fleet_end_finding(f, &c->late_find, now_ns);
			fleet_end_finding(f, &c->hang_find, now_ns);
			fleet_forget_calls(f, c, now_ns);
			fleet_forget_pace(f, c, now_ns);
			fleet_forget_compared(f, c);
			continue;
		}
		fleet_compare_ranks(f, c, now_ns);
		fleet_compare_steps(f, c, now_ns);
		fleet_seek_mismatch(f, c, now_ns);
		fleet_seek_hang(f, c, now_ns);
	}
}
