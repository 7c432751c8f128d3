/*
 * By when a rank had left a collective, as far as its host learned: the end of the first call that waited for the work of the
 * collective, as pipeline/gpu_activity knows it, and began after the collective was launched. NCCL launches calls of a group at
 * its end (nccl 2.27, src/group.cc), so a wait inside of one says nothing.
 */
#include "pipeline/collectives/stays.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "model/trace/class.h"

#define STAYS_MAX 4096
#define GROUPS_MAX                                                                                 \
	256 /* open at one time; more are taken for none, and their collectives for unknown */

/* The newest collective of a member. */
struct stay {
	uint32_t member, process;
	uint32_t group;    /* the thread whose open group it is in; 0 none */
	uint64_t start_ns; /* 0: it is over, or not known */
	uint64_t ready_ns; /* it was launched by then */
	struct gs_activity_place place;
};

/* Of a thread. */
struct group_of_calls {
	uint32_t thread, depth;
};

struct gs_collectives_stays {
	struct stay *stays; /* owned */
	uint32_t n_stays, n_stays_room;
	struct group_of_calls *groups; /* owned; open ones */
	uint32_t n_groups, n_groups_room;
};

struct gs_collectives_stays *gs_collectives_stays_new(void)
{
	return calloc(1, sizeof(struct gs_collectives_stays));
}

void gs_collectives_stays_free(struct gs_collectives_stays **stays)
{
	if (!*stays)
		return;
	free((*stays)->stays);
	free((*stays)->groups);
	free(*stays);
	*stays = NULL;
}

/* No rank can leave these before the last has entered: each needs something of every other. */
static bool is_meeting(const char *name, const struct gs_rec_call *call)
{
	return call->bytes &&
	       (strcmp(name, "ncclAllReduce") == 0 || strcmp(name, "ncclAllGather") == 0 ||
		strcmp(name, "ncclReduceScatter") == 0 || strcmp(name, "ncclAlltoAll") == 0);
}

static struct group_of_calls *find_group(const struct gs_collectives_stays *s, uint32_t thread)
{
	for (uint32_t i = 0; i < s->n_groups; i++)
		if (s->groups[i].thread == thread)
			return &s->groups[i];
	return NULL;
}

/* NULL: no place. */
static struct stay *need_stay(struct gs_collectives_stays *s, uint32_t member)
{
	for (uint32_t i = 0; i < s->n_stays; i++)
		if (s->stays[i].member == member)
			return &s->stays[i];
	if (s->n_stays == STAYS_MAX || !gs_vec_reserve(&s->stays, &s->n_stays_room, s->n_stays + 1))
		return NULL;
	return &s->stays[s->n_stays++];
}

static void take_collective(struct gs_collectives_stays *s,
			    const struct gs_collectives_stays_call *c, const char *name)
{
	struct stay *stay = c->member ? need_stay(s, c->member) : NULL;
	const struct group_of_calls *g = find_group(s, c->call->thread);

	if (!stay)
		return;
	*stay = (struct stay){.member = c->member,
			      .process = c->process,
			      .group = g ? g->thread : 0,
			      .start_ns = c->call->start_ns,
			      .ready_ns = c->call->start_ns + c->call->dur_ns,
			      .place = gs_activity_last_place(c->activity)};
	if (c->call->ret || !stay->place.stream || !is_meeting(name, c->call))
		stay->start_ns = 0;
}

static void begin_group(struct gs_collectives_stays *s, uint32_t thread)
{
	struct group_of_calls *g = find_group(s, thread);

	if (!g) {
		if (s->n_groups == GROUPS_MAX ||
		    !gs_vec_reserve(&s->groups, &s->n_groups_room, s->n_groups + 1))
			return;
		g = &s->groups[s->n_groups++];
		*g = (struct group_of_calls){.thread = thread};
	}
	g->depth++;
}

static void end_group(struct gs_collectives_stays *s, const struct gs_collectives_stays_call *c)
{
	struct group_of_calls *g = find_group(s, c->call->thread);

	if (!g || --g->depth)
		return;
	*g = s->groups[--s->n_groups];
	for (uint32_t i = 0; i < s->n_stays; i++) {
		struct stay *stay = &s->stays[i];

		if (!stay->start_ns || stay->group != c->call->thread)
			continue;
		stay->group = 0;
		stay->ready_ns = c->call->start_ns + c->call->dur_ns;
		/* It failed, or is launched some time later; or a wait between has been taken for one for it. */
		if (c->call->ret || gs_activity_is_done(c->activity, &stay->place))
			stay->start_ns = 0;
	}
}

static void take_wait(struct gs_collectives_stays *s, const struct gs_collectives_stays_call *c,
		      gs_collectives_stays_fn *left, void *ctx)
{
	for (uint32_t i = 0; i < s->n_stays; i++) {
		struct stay *stay = &s->stays[i];

		if (!stay->start_ns || stay->process != c->process ||
		    !gs_activity_is_done(c->activity, &stay->place))
			continue;
		if (!stay->group && c->call->start_ns >= stay->ready_ns && !c->call->ret)
			left(ctx, stay->member, stay->start_ns,
			     c->call->start_ns + c->call->dur_ns);
		stay->start_ns = 0;
	}
}

void gs_collectives_stays_take(struct gs_collectives_stays *s,
			       const struct gs_collectives_stays_call *c,
			       gs_collectives_stays_fn *left, void *ctx)
{
	switch (c->func_class) {
	case GS_CLASS_COLLECTIVE:
		take_collective(s, c, c->name);
		break;
	case GS_CLASS_GROUP:
		if (strcmp(c->name, "ncclGroupStart") == 0)
			begin_group(s, c->call->thread);
		else if (strcmp(c->name, "ncclGroupEnd") == 0)
			end_group(s, c);
		break;
	case GS_CLASS_SYNC:
		take_wait(s, c, left, ctx);
		break;
	default:
		break;
	}
}
