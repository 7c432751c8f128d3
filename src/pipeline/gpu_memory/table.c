/*
 * The table of blocks. Programs that allocate without a caching allocator add and remove blocks for as
 * long as they run. So that the table neither fills with tombstones nor is rebuilt again and again,
 * removing a block moves those after it back into the gap (linear probing, Knuth 6.4, algorithm R):
 * after warm-up nothing is allocated.
 */
#include <stdlib.h>

#include "pipeline/gpu_memory/gpu_memory_int.h"

#define FIRST_SLOTS 256

static uint64_t mix_key(uint32_t process, unsigned space, uint64_t pointer)
{
	uint64_t x = pointer ^ (uint64_t)process << 40 ^ (uint64_t)space << 61;

	/* Pointers are aligned: without mixing, all would share their low bits. */
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

static size_t home_of(const struct memory_table *t, const struct memory_block *b)
{
	return mix_key(b->process, b->space, b->pointer) & (t->n_slots - 1);
}

/* The slot of the block, or the free one where it would go. */
static struct memory_block *find_slot(const struct memory_table *t, uint32_t process,
				      enum memory_space space, uint64_t pointer)
{
	size_t i = mix_key(process, space, pointer) & (t->n_slots - 1);

	while (t->slots[i].pointer &&
	       (t->slots[i].pointer != pointer || t->slots[i].process != process ||
		t->slots[i].space != space))
		i = (i + 1) & (t->n_slots - 1);
	return &t->slots[i];
}

static bool grow_table(struct memory_table *t)
{
	size_t n_before = t->n_slots, n = n_before ? n_before * 2 : FIRST_SLOTS;
	struct memory_block *before = t->slots, *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	t->slots = slots;
	t->n_slots = n;
	for (size_t i = 0; i < n_before; i++)
		if (before[i].pointer)
			*find_slot(t, before[i].process, before[i].space, before[i].pointer) =
				before[i];
	free(before);
	return true;
}

struct memory_block *memory_table_find(const struct memory_table *t, uint32_t process,
				       enum memory_space space, uint64_t pointer)
{
	struct memory_block *b;

	if (!t->n_slots || !pointer)
		return NULL;
	b = find_slot(t, process, space, pointer);
	return b->pointer ? b : NULL;
}

struct memory_block *memory_table_add(struct memory_table *t, uint32_t process,
				      enum memory_space space, uint64_t pointer)
{
	struct memory_block *b;

	if (!pointer || t->n_used >= t->max_used)
		return NULL;
	if (t->n_used + 1 > t->n_slots / 4 * 3 && !grow_table(t))
		return NULL;
	b = find_slot(t, process, space, pointer);
	*b = (struct memory_block){.pointer = pointer, .process = process, .space = space};
	t->n_used++;
	return b;
}

void memory_table_remove(struct memory_table *t, struct memory_block *block)
{
	size_t mask = t->n_slots - 1, i = (size_t)(block - t->slots);

	for (size_t j = (i + 1) & mask; t->slots[j].pointer; j = (j + 1) & mask) {
		/* It may move back to i unless its home is after i. */
		if (((j - home_of(t, &t->slots[j])) & mask) >= ((j - i) & mask)) {
			t->slots[i] = t->slots[j];
			i = j;
		}
	}
	t->slots[i] = (struct memory_block){0};
	t->n_used--;
}

void memory_table_sweep(struct memory_table *t, memory_match_fn *match, struct gs_memory *m,
			const void *ctx)
{
	/* What moves into the gap is looked at next. What moves over the table's end was looked at
	 * before, at its beginning, and did not match. */
	for (size_t i = 0; i < t->n_slots;) {
		if (t->slots[i].pointer && match(m, &t->slots[i], ctx))
			memory_table_remove(t, &t->slots[i]);
		else
			i++;
	}
}

/* --- addresses that were freed --- */

void memory_freed_note(struct gs_memory *m, uint32_t process, enum memory_space space,
		       uint64_t pointer)
{
	uint64_t key = mix_key(process, space, pointer);

	/* Without memory, a second free is one of an unknown block. */
	if (!m->freed)
		m->freed = calloc(MEMORY_FREED_SLOTS, sizeof(*m->freed));
	if (m->freed)
		m->freed[key & (MEMORY_FREED_SLOTS - 1)] = key;
}

bool memory_freed_has(const struct gs_memory *m, uint32_t process, enum memory_space space,
		      uint64_t pointer)
{
	uint64_t key = mix_key(process, space, pointer);

	return m->freed && m->freed[key & (MEMORY_FREED_SLOTS - 1)] == key;
}
