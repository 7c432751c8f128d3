/*
 * Virtual memory: addresses are reserved, physical memory has a handle, and is mapped to addresses.
 * Physical memory is what counts. It is there from cuMemCreate until its handle was released as often
 * as it was got, and nothing of it is mapped (cuda.h, cuMemRelease).
 */
#include "core/base/vec.h"
#include "pipeline/gpu_memory/gpu_memory_int.h"

struct memory_range *memory_range_find(const struct memory_process *p, uint64_t address)
{
	for (uint32_t i = 0; i < p->n_ranges; i++)
		if (address - p->ranges[i].start < p->ranges[i].bytes)
			return &p->ranges[i];
	return NULL;
}

/* Ranges past MEMORY_MAX_RANGES are not known: what is mapped in them is no segment. */
static void add_range(struct memory_process *p, const struct gs_rec_call *c)
{
	if (!c->arg[0] || p->n_ranges == MEMORY_MAX_RANGES ||
	    !gs_vec_reserve(&p->ranges, &p->cap_ranges, p->n_ranges + 1))
		return;
	p->ranges[p->n_ranges++] = (struct memory_range){.start = c->arg[0], .bytes = c->bytes};
}

static void remove_range(struct memory_process *p, const struct gs_rec_call *c)
{
	struct memory_range *r = memory_range_find(p, c->arg[0]);

	if (r && r->start == c->arg[0])
		*r = p->ranges[--p->n_ranges];
}

/* So much more, or less, is mapped at that address. */
static void note_mapped(struct memory_process *p, uint64_t address, int64_t bytes)
{
	struct memory_range *r = memory_range_find(p, address);

	if (!r)
		return;
	r->mapped_bytes += (uint64_t)bytes;
	if (!r->is_segment)
		return;
	p->segments.live_bytes += (uint64_t)bytes;
	if (p->segments.live_bytes > p->segments.peak_bytes)
		p->segments.peak_bytes = p->segments.live_bytes;
}

/* A handle without references and mappings is freed: its bytes, else 0. */
static uint64_t settle_handle(struct gs_memory *m, struct memory_process *p, struct memory_block *b)
{
	if (b->n_references || b->n_mappings)
		return 0;
	memory_freed_note(m, b->process, MEMORY_SPACE_HANDLE, b->pointer);
	return memory_drop_block(m, p, b);
}

static uint64_t remove_mapping(struct gs_memory *m, struct memory_process *p,
			       struct memory_block *mapping)
{
	const struct memory_block was = *mapping;
	struct memory_block *b;

	note_mapped(p, was.pointer, -(int64_t)was.bytes);
	memory_table_remove(&m->blocks, mapping);
	b = memory_table_find(&m->blocks, was.process, MEMORY_SPACE_HANDLE, was.handle);
	if (!b)
		return 0;
	memory_holder_map(m, b->holder, -(int64_t)was.bytes);
	b->n_mappings -= b->n_mappings > 0;
	return settle_handle(m, p, b);
}

static void take_map(struct gs_memory *m, struct memory_process *p, uint32_t process,
		     const struct gs_rec_call *c)
{
	struct memory_block *mapping =
		memory_table_find(&m->blocks, process, MEMORY_SPACE_MAPPING, c->arg[0]);
	struct memory_block *b;

	if (!c->arg[0] || !c->arg[1])
		return;
	if (mapping) /* its end was not seen */
		remove_mapping(m, p, mapping);
	mapping = memory_table_add(&m->blocks, process, MEMORY_SPACE_MAPPING, c->arg[0]);
	if (!mapping) {
		m->n_untracked++;
		m->holders[p->sum].sums.untracked++;
		return;
	}
	mapping->bytes = c->bytes;
	mapping->handle = c->arg[1];
	note_mapped(p, c->arg[0], (int64_t)c->bytes);
	b = memory_table_find(&m->blocks, process, MEMORY_SPACE_HANDLE, c->arg[1]);
	if (!b)
		return;
	b->n_mappings += b->n_mappings < UINT16_MAX;
	memory_holder_map(m, b->holder, (int64_t)c->bytes);
}

/* A range of whole mappings. */
static uint64_t take_unmap(struct gs_memory *m, struct memory_process *p, uint32_t process,
			   const struct gs_rec_call *c)
{
	uint64_t at = c->arg[0], end = c->arg[0] + c->bytes, freed = 0;
	struct memory_block *mapping;

	while (at && at < end) {
		mapping = memory_table_find(&m->blocks, process, MEMORY_SPACE_MAPPING, at);
		if (!mapping || !mapping->bytes)
			break;
		at += mapping->bytes;
		freed += remove_mapping(m, p, mapping);
	}
	return freed;
}

static uint64_t take_release(struct gs_memory *m, struct memory_process *p, uint32_t process,
			     const struct gs_rec_call *c)
{
	struct memory_block *b =
		memory_table_find(&m->blocks, process, MEMORY_SPACE_HANDLE, c->arg[0]);

	if (!b && !c->failed && p->n_blind &&
	    !memory_freed_has(m, process, MEMORY_SPACE_HANDLE, c->arg[0])) {
		uint64_t bytes = memory_blind_take(m, p, MEMORY_SPACE_HANDLE);

		if (bytes)
			return bytes;
	}
	if (!b || !b->n_references) {
		if (c->arg[0])
			memory_count_stray(m, p, process, MEMORY_SPACE_HANDLE, c);
		return 0;
	}
	if (c->failed)
		return 0;
	b->n_references--;
	return settle_handle(m, p, b);
}

static void take_retain(struct gs_memory *m, uint32_t process, const struct gs_rec_call *c)
{
	struct memory_block *b =
		memory_table_find(&m->blocks, process, MEMORY_SPACE_HANDLE, c->arg[0]);

	if (b)
		b->n_references += b->n_references < UINT8_MAX;
}

uint64_t memory_virtual_take(struct gs_memory *m, struct memory_process *p, uint32_t process,
			     const struct gs_rec_call *c, enum gs_memory_verb verb)
{
	if (verb == GS_MEMORY_RELEASE)
		return take_release(m, p, process, c);
	if (c->failed)
		return 0;
	switch (verb) {
	case GS_MEMORY_RESERVE:
		add_range(p, c);
		return 0;
	case GS_MEMORY_UNRESERVE:
		remove_range(p, c);
		return 0;
	case GS_MEMORY_MAP:
		take_map(m, p, process, c);
		return 0;
	case GS_MEMORY_UNMAP:
		return take_unmap(m, p, process, c);
	case GS_MEMORY_RETAIN:
		take_retain(m, process, c);
		return 0;
	default:
		return 0;
	}
}
