/* What NCCL says of itself, as processes report it (model/companion/nccl.h): checked, and handed on. */
#include "pipeline/inside/nccl.h"

#include <stdio.h>

#include "model/companion/nccl.h"

/* A member of a record, up to a zero or its end. */
#define COPY_TEXT(out, member) snprintf(out, sizeof(out), "%.*s", (int)sizeof(member), member)

static bool take_comm(struct gs_ingest *feed, struct gs_companion_ticks *ticks,
		      const struct gs_companion_thread *from,
		      const struct gs_companion_nccl_comm *r)
{
	const struct gs_rec_nccl_comm comm = {.number = r->number,
					      .time_ns =
						      gs_companion_thread_ns(ticks, from, r->time),
					      .hash = r->hash,
					      .what = r->what,
					      .rank = r->rank,
					      .n_ranks = r->n_ranks,
					      .n_nodes = r->n_nodes,
					      .abi = r->abi,
					      .nccl = r->nccl};
	char name[GS_COMPANION_NCCL_NAME_BYTES + 1];
	size_t bytes = r->head.bytes - sizeof(*r);

	if (!r->number || r->what < GS_NCCL_COMM_BEGUN || r->what > GS_NCCL_COMM_NO_WINDOWS ||
	    !r->abi || r->abi > GS_NCCL_ABI_MAX || r->rank < -1 || r->n_ranks < 0 || r->n_nodes < 0)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)bytes, r->name);
	gs_ingest_nccl_comm(feed, from->pid, &comm, name);
	return true;
}

static bool take_op(struct gs_ingest *feed, struct gs_companion_ticks *ticks,
		    const struct gs_companion_thread *from, const struct gs_companion_nccl_op *r)
{
	char func[sizeof(r->func) + 1], datatype[sizeof(r->datatype) + 1],
		algorithm[sizeof(r->algorithm) + 1], protocol[sizeof(r->protocol) + 1];
	const struct gs_ingest_nccl_words words = {func, datatype, algorithm, protocol};
	struct gs_rec_nccl_op op = {.start_ns = gs_companion_thread_ns(ticks, from, r->start),
				    .end_ns = gs_companion_thread_ns(ticks, from, r->end),
				    .hash = r->hash,
				    .seq = r->seq,
				    .count = r->count,
				    .number = r->number,
				    .comm = r->comm,
				    .group = r->group,
				    .rank = r->rank,
				    .peer = r->peer,
				    .channels = r->channels,
				    .warps = r->warps,
				    .what = r->what};

	if (!r->number || !r->what || r->what >= GS_NCCL_OP_KINDS)
		return false;
	if (op.end_ns < op.start_ns)
		op.end_ns = op.start_ns;
	COPY_TEXT(func, r->func);
	COPY_TEXT(datatype, r->datatype);
	COPY_TEXT(algorithm, r->algorithm);
	COPY_TEXT(protocol, r->protocol);
	gs_ingest_nccl_op(feed, from->pid, from->tid, &op, &words);
	return true;
}

static bool take_channel(struct gs_ingest *feed, struct gs_companion_ticks *ticks,
			 const struct gs_companion_thread *from,
			 const struct gs_companion_nccl_channel *r)
{
	struct gs_rec_nccl_channel channel = {.op = r->op,
					      .start_ns =
						      gs_companion_thread_ns(ticks, from, r->start),
					      .end_ns = gs_companion_thread_ns(ticks, from, r->end),
					      .gpu_start_ns = r->gpu_start_ns,
					      .gpu_end_ns = r->gpu_end_ns,
					      .what = r->what,
					      .channel = r->channel,
					      .is_send = r->is_send,
					      .peer = r->peer,
					      .steps = r->steps,
					      .chunk_bytes = r->chunk_bytes};

	if (!r->what || r->what >= GS_NCCL_CHANNEL_KINDS || r->is_send > 1)
		return false;
	if (channel.end_ns < channel.start_ns)
		channel.end_ns = channel.start_ns;
	/* One that NCCL mistakes for another has an end before its begin: its time is not known. */
	if (!channel.gpu_start_ns || channel.gpu_end_ns < channel.gpu_start_ns)
		channel.gpu_start_ns = channel.gpu_end_ns = 0;
	gs_ingest_nccl_channel(feed, from->pid, &channel);
	return true;
}

bool gs_inside_take_nccl(struct gs_ingest *feed, struct gs_companion_ticks *ticks,
			 const struct gs_companion_thread *from,
			 const struct gs_companion_record *r)
{
	switch (r->kind) {
	case GS_COMPANION_NCCL_COMM:
		return take_comm(feed, ticks, from, (const void *)r);
	case GS_COMPANION_NCCL_OP:
		return take_op(feed, ticks, from, (const void *)r);
	case GS_COMPANION_NCCL_CHANNEL:
		return take_channel(feed, ticks, from, (const void *)r);
	}
	return true;
}
