/*
 * Channels come some time after their operation, in the threads of proxies, and now and then before it. The last
 * operations are kept in a table where a newer one takes the place of an older one with the same remainder.
 */
#include "pipeline/nccl_ops/nccl_ops_int.h"

#include <errno.h>
#include <stdlib.h>

#define RECENT 16384u /* a power of two */

static void settle_one(struct gs_nccl_ops *o, struct nccl_ops_recent *r)
{
	if (r->process && !r->choice)
		o->sums.unplaced += r->n_channels;
	if (r->process && r->choice && r->first_ns) {
		struct gs_nccl_choice *c = &o->choices[r->choice - 1].c;
		uint64_t ns = r->last_ns - r->first_ns;

		c->timed++;
		c->gpu_ns += ns;
		c->timed_bytes += r->bytes;
		if (ns > c->gpu_max_ns)
			c->gpu_max_ns = ns;
	}
	*r = (struct nccl_ops_recent){0};
}

/* The place of an operation; NULL: no memory. */
static struct nccl_ops_recent *find_recent(struct gs_nccl_ops *o, uint32_t process, uint32_t number)
{
	struct nccl_ops_recent *r;

	if (!o->recent)
		o->recent = calloc(RECENT, sizeof(*o->recent));
	if (!o->recent)
		return NULL;
	r = &o->recent[(number + process * 2654435761u) & (RECENT - 1)];
	if (r->process != process || r->number != number) {
		settle_one(o, r);
		r->process = process;
		r->number = number;
	}
	return r;
}

int nccl_ops_expect_channels(struct gs_nccl_ops *o, const struct gs_rec_nccl_op *op,
			     uint32_t choice, uint64_t link_bytes)
{
	struct nccl_ops_recent *r = find_recent(o, op->process, op->number);

	if (!r)
		return -ENOMEM;
	r->choice = choice + 1;
	r->bytes = link_bytes;
	return 0;
}

int nccl_ops_take_channel(struct gs_nccl_ops *o, const struct gs_rec_nccl_channel *c)
{
	struct nccl_ops_recent *r;

	*(c->what == GS_NCCL_CHANNEL_PROXY ? &o->sums.proxies : &o->sums.channels) += 1;
	if (!c->op || !c->process) {
		o->sums.unplaced++;
		return 0;
	}
	r = find_recent(o, c->process, c->op);
	if (!r)
		return -ENOMEM;
	r->n_channels++;
	if (c->what != GS_NCCL_CHANNEL_KERNEL || !c->gpu_start_ns ||
	    c->gpu_end_ns < c->gpu_start_ns)
		return 0;
	if (!r->first_ns || c->gpu_start_ns < r->first_ns)
		r->first_ns = c->gpu_start_ns;
	if (c->gpu_end_ns > r->last_ns)
		r->last_ns = c->gpu_end_ns;
	return 0;
}

void nccl_ops_settle(struct gs_nccl_ops *o)
{
	for (uint32_t i = 0; o->recent && i < RECENT; i++)
		settle_one(o, &o->recent[i]);
}
