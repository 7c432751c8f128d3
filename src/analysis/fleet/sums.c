/* Sums of ranks, and the roundest number among the calls since the last record as their mark. */
#include "analysis/fleet/fleet_int.h"
#include "analysis/fleet/sums_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/base/map.h"
#include "model/trace/func.h"
#include "model/nccl/rank.h"

struct gs_fleet_sums *gs_fleet_sums_new(void)
{
	return calloc(1, sizeof(struct gs_fleet_sums));
}

void gs_fleet_sums_free(struct gs_fleet_sums **sums)
{
	if (!*sums)
		return;
	for (uint32_t i = 0; i < (*sums)->n_sums; i++) {
		free((*sums)->sums[i].newest);
		free((*sums)->sums[i].times);
	}
	free((*sums)->sums);
	free((*sums)->queues);
	free(*sums);
	*sums = NULL;
}

static struct sum *find_sum(const struct gs_fleet_sums *f, uint32_t member)
{
	return member < f->n_sums && f->sums[member].id ? &f->sums[member] : NULL;
}

bool gs_fleet_sums_has_member(const struct gs_fleet_sums *sums, uint32_t member)
{
	return find_sum(sums, member) != NULL;
}

void gs_fleet_sums_set_member(struct gs_fleet_sums *f, uint32_t member, uint32_t pid, uint64_t id,
			      int32_t rank, int32_t n_ranks, const char *job)
{
	struct sum *s;

	if (member >= GS_FLEET_MAX_MEMBERS || !id || rank < 0 || n_ranks < 2 || rank >= n_ranks ||
	    find_sum(f, member) || !gs_vec_reach(&f->sums, &f->n_sums, member))
		return;
	s = &f->sums[member];
	*s = (struct sum){.id = id, .rank = rank, .n_ranks = n_ranks, .pid = pid};
	snprintf(s->job, sizeof(s->job), "%s", job);
}

/* Every rank takes the mark at the same numbers, wherever its records begin and end: 8 rather than 7 or 9. */
static void take_mark(struct sum *s)
{
	if (s->has_mark && __builtin_ctzll(s->calls) < __builtin_ctzll(s->mark))
		return;
	s->has_mark = true;
	s->mark = s->calls;
	s->mark_ns = s->last_ns;
	s->mark_arrivals_ns = s->arrivals_ns;
	s->mark_inside_ns = s->inside_ns;
	s->mark_calls_hash = s->calls_hash;
}

/* Without memory it is not listed. */
static void keep_call(struct sum *s, const struct gs_hang_op *op)
{
	const struct gs_hang_op normal = gs_hang_op_normal(op);
	struct gs_rank_call call = {.count = normal.count,
				    .aux = normal.aux,
				    .function_hash = fleet_function_hash(normal.function)};
	const uint64_t what[3] = {s->calls, call.count,
				  (uint64_t)call.function_hash << 32 | call.aux};

	s->calls_hash += gs_hash_bytes(what, sizeof(what));
	if (!s->newest)
		s->newest = calloc(GS_RANK_CALLS, sizeof(*s->newest));
	if (s->newest)
		s->newest[s->calls & (GS_RANK_CALLS - 1)] = call;
}

void gs_fleet_sums_take_call(struct gs_fleet_sums *f, uint32_t member,
			     const struct gs_hang_call *call, uint64_t dur_ns, bool is_inside)
{
	struct sum *s = find_sum(f, member);
	bool is_known = s && s->calls && s->last_ns == call->start_ns;

	if (!s || s->is_over)
		return;
	if (!is_known) {
		s->calls++;
		s->last_ns = call->start_ns;
		s->arrivals_ns += call->start_ns;
		s->function = call->op.function;
		keep_call(s, &call->op);
		take_mark(s);
	}
	/* One that came before as not returned is counted when it has. */
	if (!is_inside && (!is_known || s->flags & GS_RANK_INSIDE))
		s->inside_ns += dur_ns;
	fleet_sum_keep_time(s);
	s->flags = (s->flags & ~(uint32_t)GS_RANK_INSIDE) | (is_inside ? GS_RANK_INSIDE : 0);
}

uint64_t gs_fleet_sums_number_of(const struct gs_fleet_sums *f, uint32_t member, uint64_t start_ns)
{
	const struct sum *s = find_sum(f, member);

	return s && s->last_ns == start_ns ? s->calls : 0;
}

void gs_fleet_sums_take_stay(struct gs_fleet_sums *f, uint32_t member, uint64_t number,
			     uint64_t entered_ns, uint64_t left_ns)
{
	struct sum *s = find_sum(f, member);

	if (!s || !number || left_ns < entered_ns ||
	    (s->stay_number && __builtin_ctzll(number) < __builtin_ctzll(s->stay_number)))
		return;
	s->stay_number = number;
	s->stay_entered_ns = entered_ns;
	s->stay_left_ns = left_ns;
}

void gs_fleet_sums_end_member(struct gs_fleet_sums *f, uint32_t member)
{
	struct sum *s = find_sum(f, member);

	if (s)
		s->flags |= GS_RANK_LEFT;
}

static void set_flags(struct gs_fleet_sums *f, uint32_t pid, uint32_t flags)
{
	for (uint32_t i = 0; i < f->n_sums; i++)
		if (f->sums[i].id && (!pid || f->sums[i].pid == pid))
			f->sums[i].flags |= flags;
}

void gs_fleet_sums_end_process(struct gs_fleet_sums *f, uint32_t pid)
{
	if (pid)
		set_flags(f, pid, GS_RANK_ENDED);
}

void gs_fleet_sums_lose_calls(struct gs_fleet_sums *f, uint32_t pid)
{
	set_flags(f, pid, GS_RANK_LOST);
}

bool gs_fleet_sums_is_quiet(const struct gs_fleet_sums *f, uint64_t now_ns)
{
	uint64_t newest_ns = 0;
	bool any = false;

	for (uint32_t i = 0; i < f->n_sums; i++) {
		const struct sum *s = &f->sums[i];

		if (!s->id || s->flags & (GS_RANK_ENDED | GS_RANK_LEFT | GS_RANK_LOST))
			continue;
		any = true;
		if (s->last_ns > newest_ns)
			newest_ns = s->last_ns;
	}
	return any && now_ns > newest_ns && now_ns - newest_ns >= GS_FLEET_QUIET_NS;
}

static void put_stay(struct sum *s, struct gs_buf *out)
{
	struct gs_rec_rank_stay *r = gs_record_put(out, GS_REC_RANK_STAY, sizeof(*r), 0);

	if (!r)
		return;
	r->id_hash = s->id;
	r->rank = s->rank;
	r->n_ranks = s->n_ranks;
	r->number = s->stay_number;
	r->entered_ns = s->stay_entered_ns;
	r->left_ns = s->stay_left_ns;
	s->stay_number = 0;
}

static void put_sum(struct sum *s, uint64_t now_ns, int64_t wall_minus_boot_ns, bool is_last,
		    struct gs_buf *out)
{
	const struct gs_func *func = s->calls ? gs_func_by_id(s->function) : NULL;
	uint64_t n_new = s->newest ? s->calls - s->n_put : 0;
	uint32_t n_listed = n_new < GS_RANK_CALLS ? (uint32_t)n_new : GS_RANK_CALLS;
	struct gs_rec_rank *r =
		gs_record_put(out, GS_REC_RANK, sizeof(*r), n_listed * sizeof(r->listed[0]));

	if (!r)
		return;
	for (uint32_t i = 0; i < n_listed; i++)
		r->listed[i] = s->newest[(s->calls - n_listed + 1 + i) & (GS_RANK_CALLS - 1)];
	r->n_listed = n_listed;
	s->n_put = s->calls;
	r->head.flags = s->flags | (is_last ? GS_RANK_UNTRACED : 0);
	r->id_hash = s->id;
	r->rank = s->rank;
	r->n_ranks = s->n_ranks;
	r->pid = s->pid;
	r->time_ns = now_ns;
	r->wall_minus_boot_ns = wall_minus_boot_ns;
	r->calls = s->calls;
	r->last_ns = s->last_ns;
	r->mark = s->mark;
	r->mark_ns = s->mark_ns;
	r->arrivals_ns = s->mark_arrivals_ns;
	r->inside_ns = s->mark_inside_ns;
	r->calls_hash = s->mark_calls_hash;
	snprintf(r->last_name, sizeof(r->last_name), "%s", func ? func->name : "");
	memcpy(r->job, s->job, sizeof(r->job));
	s->has_mark = false;
	if (s->stay_number)
		put_stay(s, out);
	s->is_over = s->flags & (GS_RANK_ENDED | GS_RANK_LEFT);
}

bool gs_fleet_sums_put(struct gs_fleet_sums *f, uint64_t now_ns, int64_t wall_minus_boot_ns,
		       bool is_last, struct gs_buf *out)
{
	if (!is_last && f->put_ns && now_ns - f->put_ns < GS_FLEET_EVERY_NS)
		return false;
	f->put_ns = now_ns;
	for (uint32_t i = 0; i < f->n_sums; i++)
		if (f->sums[i].id && !f->sums[i].is_over)
			put_sum(&f->sums[i], now_ns, wall_minus_boot_ns, is_last, out);
	return true;
}
