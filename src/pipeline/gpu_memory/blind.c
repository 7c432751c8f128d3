/*
 * The first calls of a process on a device are left alone, so that they may be cancelled: their ends are
 * not seen (bpf/calls/first.bpf.h). Where such a call allocates, its bytes are known and its address is
 * not. The block counts as held, until a block is freed that nothing is known of.
 */
#include <string.h>

#include "pipeline/gpu_memory/gpu_memory_int.h"

bool memory_blind_add(struct gs_memory *m, struct memory_process *p, uint32_t holder,
		      enum memory_space space, const struct gs_rec_call *c)
{
	uint32_t site;

	if (p->n_blind == MEMORY_MAX_BLIND)
		return false;
	site = memory_site_make(m, holder, c);
	p->blind[p->n_blind++] = (struct memory_blind){
		.bytes = c->bytes, .site = site, .holder = holder, .space = (uint8_t)space};
	memory_holder_add(m, holder, site, c->bytes, c->start_ns);
	return true;
}

static uint64_t remove_blind(struct gs_memory *m, struct memory_process *p, uint32_t i,
			     bool is_freed)
{
	struct memory_blind b = p->blind[i];

	memory_holder_remove(m, b.holder, b.site, b.bytes, is_freed);
	p->n_blind--;
	memmove(&p->blind[i], &p->blind[i + 1], (p->n_blind - i) * sizeof(*p->blind));
	return b.bytes;
}

uint64_t memory_blind_take(struct gs_memory *m, struct memory_process *p, enum memory_space space)
{
	for (uint32_t i = 0; i < p->n_blind; i++)
		if (p->blind[i].space == space)
			return remove_blind(m, p, i, true);
	return 0;
}

void memory_blind_drop(struct gs_memory *m, struct memory_process *p, uint32_t device)
{
	for (uint32_t i = 0; i < p->n_blind;) {
		if (device == GS_MEMORY_DEVICE_ALL ||
		    m->holders[p->blind[i].holder].sums.device == device)
			remove_blind(m, p, i, false);
		else
			i++;
	}
}
