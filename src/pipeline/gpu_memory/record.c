/* What was found, as records. */
#include <errno.h>

#include "pipeline/gpu_memory/gpu_memory_int.h"

static bool is_blank(const struct gs_rec_memory *s)
{
	return !(s->allocations | s->failed | s->double_frees | s->unknown_frees | s->bad_frees |
		 s->untracked);
}

bool gs_memory_is_empty(const struct gs_memory *m)
{
	for (uint32_t i = 1; i < m->n_holders; i++)
		if (!is_blank(&m->holders[i].sums))
			return false;
	return true;
}

static int put_holder(const struct gs_memory *m, const struct memory_holder *h, struct gs_buf *out)
{
	const struct memory_process *p = memory_process_find(m, h->sums.process);
	struct gs_record head;
	struct gs_rec_memory *r;

	if (is_blank(&h->sums))
		return 0;
	r = gs_record_put(out, GS_REC_MEMORY, sizeof(*r), 0);
	if (!r)
		return -ENOMEM;
	head = r->head;
	*r = h->sums;
	r->head = head;
	r->head.flags = p && p->has_ended ? GS_MEMORY_PROCESS_ENDED : 0;
	return 0;
}

static int put_site(const struct gs_memory *m, const struct memory_site *s, struct gs_buf *out)
{
	struct gs_rec_memory_site *r = gs_record_put(out, GS_REC_MEMORY_SITE, sizeof(*r), 0);
	const struct gs_rec_memory *sums = &m->holders[s->holder].sums;

	if (!r)
		return -ENOMEM;
	r->process = sums->process;
	r->device = sums->device;
	r->kind = sums->kind;
	r->function = s->function;
	r->scope = s->scope;
	r->py_stack = s->py_stack;
	r->native_stack = s->native_stack;
	r->live_bytes = s->live_bytes;
	r->live_blocks = s->live_blocks;
	r->peak_bytes = s->peak_bytes;
	r->total_bytes = s->total_bytes;
	r->allocations = s->allocations;
	return 0;
}

int gs_memory_put_records(const struct gs_memory *m, struct gs_buf *out)
{
	int r = 0;

	for (uint32_t i = 1; r == 0 && i < m->n_holders; i++)
		r = put_holder(m, &m->holders[i], out);
	for (uint32_t i = m->sites[0].allocations ? 0 : 1; r == 0 && i < m->n_sites; i++)
		r = put_site(m, &m->sites[i], out);
	return r;
}
