/*
 * From records to the matching of collectives (pipeline/collectives): which call is one, whose
 * communicator it is of, and after which losses the calls of a rank have no number.
 */
#include "pipeline/collectives/collectives.h"
#include "pipeline/collectives/stays.h"
#include "pipeline/aggregate/tally.h"

#include <errno.h>
#include <string.h>

/* NULL: no memory. */
static struct gs_collectives *collectives_of(struct gs_aggregate *v)
{
	if (!v->collectives)
		v->collectives = gs_collectives_new();
	if (!v->collectives)
		v->n_left_out++;
	return v->collectives;
}

void gs_aggregate_take_member(struct gs_aggregate *v, struct view_comm *comm)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, comm->process);
	struct gs_collectives *c = collectives_of(v);

	if (!c)
		return;
	if (!comm->member && !comm->calls)
		comm->member = gs_collectives_add_member(c, p ? p->pid : 0);
	gs_collectives_set_identity(c, comm->member, comm->id_hash, comm->rank, comm->n_ranks);
	if (v->receiver.member && comm->member && p && comm->id_hash)
		v->receiver.member(v->receiver.ctx, comm->member, p->pid, comm->id_hash, comm->rank,
				   comm->n_ranks);
}

void gs_aggregate_take_member_end(struct gs_aggregate *v, struct view_comm *comm)
{
	if (v->receiver.end && comm->member && !comm->ended)
		v->receiver.end(v->receiver.ctx, comm->member);
	comm->ended = true;
}

void gs_aggregate_set_collectives(struct gs_aggregate *view,
				  const struct gs_aggregate_collectives *receiver)
{
	view->receiver = *receiver;
}

uint32_t gs_aggregate_find_member(const struct gs_aggregate *v, uint32_t pid, uint64_t handle)
{
	const struct view_comm *comms = v->comms.items;

	/* The newest first: a handle may be used again. */
	for (size_t i = v->comms.n; i-- > 0;) {
		const struct gs_rec_process *p;

		if (comms[i].comm != handle || comms[i].ended)
			continue;
		p = gs_dict_process(v->dict, comms[i].process);
		if (p && p->pid == pid)
			return comms[i].member;
	}
	return 0;
}

static void lose_calls(struct gs_aggregate *v, uint32_t pid)
{
	gs_collectives_lose_calls(v->collectives, pid);
	if (v->receiver.lose)
		v->receiver.lose(v->receiver.ctx, pid);
}

static void pass_call(struct gs_aggregate *v, const struct view_comm *comm,
		      const struct gs_rec_call *call)
{
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, call->thread);

	if (v->receiver.call)
		v->receiver.call(v->receiver.ctx, comm->member, t ? t->tid : 0, call);
}

/* Ranks agree on the function and on how much it moves: not on buffers, nor on streams. */
static uint64_t what_of(const struct gs_aggregate *v, const struct gs_rec_call *call)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, call->function);
	uint64_t what[2] = {f ? f->name_str : 0, call->bytes};

	return gs_hash_bytes(what, sizeof(what));
}

void gs_aggregate_take_arrival(struct gs_aggregate *v, const struct view_comm *comm,
			       const struct gs_rec_call *call)
{
	struct gs_collectives_call made = {
		.start_ns = call->start_ns, .dur_ns = call->dur_ns, .what = what_of(v, call)};
	struct gs_collectives *c = collectives_of(v);

	if (!c)
		return;
	if (call->failed)
		gs_collectives_leave_out(c, GS_COLLECTIVES_FAILED, 1);
	else if (!comm || !comm->announced)
		gs_collectives_leave_out(c, GS_COLLECTIVES_UNKNOWN, 1);
	else if (!comm->member)
		gs_collectives_leave_out(c, GS_COLLECTIVES_NO_ROOM, 1);
	else
		gs_collectives_add_call(c, comm->member, &made);
	if (!call->failed && comm && comm->announced && comm->member) {
		pass_call(v, comm, call);
		v->arrived = call->call_flags & GS_CALL_UNFINISHED ? 0 : comm->member;
	}
}

void gs_aggregate_take_stay(struct gs_aggregate *v, const struct gs_rec_call *call)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, call->function);
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, call->thread);
	struct gs_collectives_stays_call c = {
		.activity = v->activity, .call = call, .member = v->arrived};

	v->arrived = 0;
	if (!v->receiver.stay || !f || !t)
		return;
	if (!v->stays)
		v->stays = gs_collectives_stays_new();
	if (!v->stays) {
		v->n_left_out++;
		return;
	}
	c.name = gs_dict_string(v->dict, f->name_str);
	c.func_class = f->func_class;
	c.process = t->process;
	gs_collectives_stays_take(v->stays, &c, v->receiver.stay, v->receiver.ctx);
}

void gs_aggregate_take_added_up(struct gs_aggregate *v, const struct gs_rec_stats *s)
{
	const struct gs_rec_session *session = gs_dict_session(v->dict);
	const struct gs_rec_function *f = gs_dict_function(v->dict, s->function);
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, s->thread);
	const struct gs_rec_process *p = t ? gs_dict_process(v->dict, t->process) : NULL;
	struct gs_collectives *c;

	/* Where all calls are added up, collectives come one by one beside their sums. */
	if (session && session->mode == GS_SESSION_SUMMARY)
		return;
	if (!s->calls || !f || f->layer != GS_LAYER_NCCL || f->func_class != GS_CLASS_COLLECTIVE)
		return;
	c = collectives_of(v);
	if (!c)
		return;
	gs_collectives_leave_out(c, GS_COLLECTIVES_ADDED_UP, s->calls);
	lose_calls(v, p ? p->pid : 0);
}

/* Communicators are made by calls of the layer, too: a lost notice of one is a lost order. */
void gs_aggregate_take_lost_calls(struct gs_aggregate *v, const struct gs_rec_loss *r)
{
	if (!v->collectives || (r->layer && r->layer != GS_LAYER_NCCL))
		return;
	switch (r->cause) {
	case GS_LOSS_RING_FULL:
	case GS_LOSS_TOO_DEEP:
	case GS_LOSS_NO_THREAD:
	case GS_LOSS_NO_CELL:
	case GS_LOSS_UNMATCHED:
	case GS_LOSS_SHORT:
	case GS_LOSS_EVENT_BAD:
	case GS_LOSS_BUDGET:
	case GS_LOSS_THINNED:
	case GS_LOSS_OFF:
	case GS_LOSS_FULL:
	case GS_LOSS_KEPT:
	case GS_LOSS_NOTICE:
		lose_calls(v, 0);
		break;
	default:
		break;
	}
}

int gs_aggregate_add_arrivals(struct gs_aggregate *v, struct gs_summary *summary)
{
	return v->collectives ? gs_collectives_add_summary(v->collectives, summary) : 0;
}
