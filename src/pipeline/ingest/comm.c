/*
 * Communicators. The call that makes one says what it was given; calls that ask for rank and size
 * later give these of one whose making was not seen, or of one that was split off. What is known of
 * a handle is kept, so that each record says all that is known, and so that a program that asks for
 * its rank before every collective does not fill the stream.
 *
 * The ranks of a communicator are found by id_hash: for the calls that are given a unique id, that
 * of the id; for InitAll, which makes all ranks in one process, one made up of process, time and
 * first handle.
 */
#include "pipeline/ingest/ingest_int.h"

#include <errno.h>
#include <string.h>

#define COMM_MAX         16384
#define NCCL_IN_PROGRESS 7

int gs_ingest_comms_init(struct gs_ingest *f)
{
	f->comm_of_key = GS_MAP_INIT(COMM_MAX + 1); /* a new one goes in before the old goes out */
	f->comms = calloc(COMM_MAX, sizeof(*f->comms));
	return f->comms ? 0 : -ENOMEM;
}

void gs_ingest_comms_fini(struct gs_ingest *f)
{
	gs_map_fini(&f->comm_of_key);
	free(f->comms);
}

static uint64_t comm_key(uint32_t process, uint64_t comm)
{
	uint64_t k[2] = {process, comm};

	return gs_hash_bytes(k, sizeof(k));
}

static struct gs_rec_comm *comm_get(const struct gs_ingest *f, uint32_t process, uint64_t comm)
{
	struct gs_rec_comm *c;
	uint64_t idx;

	if (!gs_map_get(&f->comm_of_key, comm_key(process, comm), &idx))
		return NULL;
	c = &f->comms[idx];
	return c->process == process && c->comm == comm ? c : NULL;
}

/* Keep a copy; one that cannot be kept is only not merged with later. */
static void comm_keep(struct gs_ingest *f, const struct gs_rec_comm *comm)
{
	struct gs_rec_comm *c = comm_get(f, comm->process, comm->comm);

	if (!c) {
		uint32_t idx = f->comm_hand;
		uint64_t holder;

		if (gs_map_put(&f->comm_of_key, comm_key(comm->process, comm->comm), idx) < 0)
			return;
		c = &f->comms[idx];
		if (c->comm &&
		    gs_map_get(&f->comm_of_key, comm_key(c->process, c->comm), &holder) &&
		    holder == idx)
			gs_map_del(&f->comm_of_key, comm_key(c->process, c->comm));
		f->comm_hand = (idx + 1) % COMM_MAX;
	}
	*c = *comm;
}

static void put_comm(struct gs_ingest *f, const struct gs_rec_comm *comm)
{
	struct gs_rec_comm *r = gs_ingest_put(f, GS_REC_COMM, sizeof(*r), 0);
	struct gs_record head = r->head;

	*r = *comm;
	r->head = head;
	if (comm->comm)
		comm_keep(f, comm);
}

static uint64_t id_hash(const uint8_t id[GS_NCCL_ID_BYTES])
{
	uint64_t h = gs_hash_bytes(id, GS_NCCL_ID_BYTES);

	for (unsigned i = 0; i < GS_NCCL_ID_BYTES; i++)
		if (id[i])
			return h ? h : 1;
	return 0; /* it could not be read */
}

static unsigned list_len(const struct gs_event_comm *ev)
{
	return ev->n_list < GS_COMM_LIST_MAX ? ev->n_list : GS_COMM_LIST_MAX;
}

static void init_all(struct gs_ingest *f, const struct gs_event_comm *ev, struct gs_rec_comm c)
{
	uint64_t k[3] = {ev->pid, ev->time_ns, ev->list[0]};

	c.n_ranks = ev->n_ranks;
	c.id_hash = gs_hash_bytes(k, sizeof(k));
	for (unsigned i = 0; i < list_len(ev); i++) {
		c.comm = ev->list[i];
		c.rank = (int32_t)i;
		if (c.comm)
			put_comm(f, &c);
	}
}

static void learn_comm(struct gs_ingest *f, const struct gs_event_comm *ev, struct gs_rec_comm c)
{
	const struct gs_rec_comm *known = comm_get(f, c.process, ev->comm);
	bool more = false;

	/* The call that made it was another one, perhaps not seen. Of MPI all are learned. */
	if (gs_func_by_id(ev->func)->desc.layer != GS_LAYER_MPI)
		c.origin_str = 0;
	if (known)
		c = *known;
	c.comm = ev->comm;
	if (ev->rank >= 0 && ev->rank != c.rank) {
		c.rank = ev->rank;
		more = true;
	}
	if (ev->n_ranks >= 0 && ev->n_ranks != c.n_ranks) {
		c.n_ranks = ev->n_ranks;
		more = true;
	}
	if (more)
		put_comm(f, &c);
}

bool gs_ingest_comm(struct gs_ingest *f, const struct gs_event_comm *ev)
{
	const struct gs_func *func = gs_func_by_id(ev->func);
	unsigned post = func ? func->desc.post : GS_POST_NONE;
	struct gs_rec_comm c = {.rank = -1, .n_ranks = -1, .color = GS_COMM_NO_SPLIT};

	if (post < GS_POST_COMM_INIT || post > GS_POST_COMM_SIZE || !ev->pid || !ev->tid)
		return false;
	/* A value that was asked for is there at once or not at all. */
	if (ev->ret != 0 &&
	    (ev->ret != NCCL_IN_PROGRESS || post == GS_POST_COMM_RANK || post == GS_POST_COMM_SIZE))
		return true;
	/* Without a handle there is nothing to speak of, but for a rank that got none in a split.
	 */
	if (!ev->comm && post != GS_POST_COMM_INIT_ALL && post != GS_POST_COMM_SPLIT)
		return true;
	if (!gs_ingest_thread(f, ev->pid, ev->tid)) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return true;
	}
	c.process = gs_ingest_process_id(f, ev->pid);
	c.origin_str = gs_ingest_intern(f, func->name);
	c.comm = ev->comm;
	c.parent = ev->parent;
	switch (post) {
	case GS_POST_COMM_INIT:
	case GS_POST_COMM_INIT_SCALABLE:
		c.rank = ev->rank;
		c.n_ranks = ev->n_ranks;
		c.id_hash = id_hash(ev->unique_id);
		put_comm(f, &c);
		break;
	case GS_POST_COMM_INIT_ALL:
		init_all(f, ev, c);
		break;
	case GS_POST_COMM_SPLIT:
		c.color = ev->color;
		c.key = ev->key;
		put_comm(f, &c);
		break;
	case GS_POST_COMM_SHRINK:
		c.n_excluded = ev->n_list;
		for (unsigned i = 0; i < list_len(ev); i++)
			c.excluded[i] = (int32_t)ev->list[i];
		put_comm(f, &c);
		break;
	default:
		learn_comm(f, ev, c);
	}
	return true;
}
