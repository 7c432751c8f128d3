#include "pipeline/correlate/torch_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/record_stack.h"
#include "pipeline/correlate/correlate.h"

void correlate_torch_memory_init(struct torch_memory *m)
{
	*m = (struct torch_memory){.index = GS_MAP_INIT(GS_CORRELATE_MAX_BLOCKS)};
}

void correlate_torch_memory_fini(struct torch_memory *m)
{
	gs_map_fini(&m->index);
	free(m->blocks);
	free(m->devices);
	correlate_torch_memory_init(m);
}

/* Addresses of user space have 47 bits. */
static uint64_t key_of(uint32_t process, uint64_t pointer)
{
	return pointer ^ (uint64_t)process << 47;
}

static struct torch_device *device_of(struct torch_memory *m, uint32_t process, int32_t device)
{
	for (uint32_t i = 0; i < m->n_devices; i++)
		if (m->devices[i].process == process && m->devices[i].device == device)
			return &m->devices[i];
	if (!gs_vec_reserve(&m->devices, &m->room_devices, m->n_devices + 1))
		return NULL;
	m->devices[m->n_devices] = (struct torch_device){.process = process, .device = device};
	return &m->devices[m->n_devices++];
}

static struct torch_block *block_new(struct torch_memory *m)
{
	struct torch_block *b;

	if (m->first_free) {
		b = &m->blocks[m->first_free - 1];
		m->first_free = b->next_free;
		return b;
	}
	if (m->n_blocks == GS_CORRELATE_MAX_BLOCKS ||
	    !gs_vec_reserve(&m->blocks, &m->room_blocks, m->n_blocks + 1))
		return NULL;
	return &m->blocks[m->n_blocks++];
}

static void block_free(struct torch_memory *m, struct torch_block *b)
{
	*b = (struct torch_block){.next_free = m->first_free};
	m->first_free = (uint32_t)(b - m->blocks) + 1;
}

/* Out of the sums and the index. */
static uint64_t take_out(struct torch_memory *m, uint64_t key, uint64_t i)
{
	struct torch_block *b = &m->blocks[i];
	uint64_t bytes = b->bytes;

	m->devices[b->device_idx].live_bytes -= bytes;
	gs_map_del(&m->index, key);
	block_free(m, b);
	return bytes;
}

struct torch_device *correlate_torch_memory_alloc(struct torch_memory *m, uint32_t process,
						  const struct gs_rec_call *c,
						  uint64_t *n_untracked)
{
	struct torch_device *d = device_of(m, process, (int32_t)c->aux);
	uint64_t key = key_of(process, c->arg[0]), old;
	struct torch_block *b;

	if (!d || !c->arg[0])
		return NULL;
	/* The same address again: its free was not seen. */
	if (gs_map_get(&m->index, key, &old))
		take_out(m, key, old);
	d->allocations++;
	d->total_bytes += c->bytes;
	b = block_new(m);
	if (!b || gs_map_put(&m->index, key, (uint64_t)(b - m->blocks)) < 0) {
		if (b)
			block_free(m, b);
		(*n_untracked)++;
		return NULL;
	}
	*b = (struct torch_block){.pointer = c->arg[0],
				  .bytes = c->bytes,
				  .device_idx = (uint32_t)(d - m->devices),
				  .scope = c->scope,
				  .py_stack = c->py_stack};
	d->live_bytes += c->bytes;
	if (d->live_bytes > d->peak_bytes)
		d->peak_bytes = d->live_bytes;
	return d;
}

struct torch_device *correlate_torch_memory_free(struct torch_memory *m, uint32_t process,
						 const struct gs_rec_call *c, uint64_t *ret_bytes)
{
	uint64_t key = key_of(process, c->arg[0]), i;
	struct torch_device *d;

	if (!gs_map_get(&m->index, key, &i)) {
		d = device_of(m, process, -1);
		if (d && c->arg[0])
			d->unknown_frees++;
		return NULL;
	}
	d = &m->devices[m->blocks[i].device_idx];
	d->frees++;
	*ret_bytes = take_out(m, key, i);
	return d;
}

void correlate_torch_memory_drop(struct torch_memory *m, uint32_t process)
{
	for (uint32_t i = 0; i < m->n_blocks; i++) {
		const struct torch_block *b = &m->blocks[i];

		if (b->pointer && m->devices[b->device_idx].process == process)
			take_out(m, key_of(process, b->pointer), i);
	}
}

/* --- the end --- */

struct site {
	uint32_t device_idx, scope, py_stack;
	uint64_t blocks, bytes;
};

static void add_to_site(struct site *sites, size_t *n, const struct torch_block *b)
{
	struct site *s = NULL;

	for (size_t i = 0; i < *n && !s; i++)
		if (sites[i].device_idx == b->device_idx && sites[i].scope == b->scope &&
		    sites[i].py_stack == b->py_stack)
			s = &sites[i];
	/* Those past the last are shown together, under its name. */
	if (!s && *n < TORCH_MAX_SITES) {
		s = &sites[(*n)++];
		*s = (struct site){b->device_idx, b->scope, b->py_stack, 0, 0};
	} else if (!s) {
		s = &sites[TORCH_MAX_SITES - 1];
		s->scope = s->py_stack = 0;
	}
	s->blocks++;
	s->bytes += b->bytes;
}

static int put_device(const struct torch_device *d, const struct gs_memory *memory,
		      struct gs_buf *out)
{
	struct gs_memory_segments segments = gs_memory_read_segments(memory, d->process);
	struct gs_rec_allocator *a = gs_record_put(out, GS_REC_ALLOCATOR, sizeof(*a), 0);

	if (!a)
		return -ENOMEM;
	a->process = d->process;
	a->device = d->device;
	a->live_bytes = d->live_bytes;
	a->peak_bytes = d->peak_bytes;
	a->total_bytes = d->total_bytes;
	a->allocations = d->allocations;
	a->frees = d->frees;
	a->unknown_frees = d->unknown_frees;
	a->reserved_bytes = segments.live_bytes;
	a->peak_reserved_bytes = segments.peak_bytes;
	return 0;
}

int correlate_torch_memory_finish(const struct torch_memory *m, const struct gs_memory *memory,
				  struct gs_buf *out)
{
	GS_FREE struct site *sites = calloc(TORCH_MAX_SITES, sizeof(*sites));
	size_t n = 0;
	int r = sites ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < m->n_devices; i++)
		r = put_device(&m->devices[i], memory, out);
	for (uint32_t i = 0; r == 0 && i < m->n_blocks; i++)
		if (m->blocks[i].pointer)
			add_to_site(sites, &n, &m->blocks[i]);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct gs_rec_leak *l = gs_record_put(out, GS_REC_LEAK, sizeof(*l), 0);

		if (!l)
			return -ENOMEM;
		l->process = m->devices[sites[i].device_idx].process;
		l->device = m->devices[sites[i].device_idx].device;
		l->scope = sites[i].scope;
		l->py_stack = sites[i].py_stack;
		l->blocks = sites[i].blocks;
		l->bytes = sites[i].bytes;
	}
	return r;
}
