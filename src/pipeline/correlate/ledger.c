/*
 * Programs that allocate without a caching allocator put and take blocks for as long as they run.
 * So that the table neither fills with tombstones nor is rebuilt again and again, taking a block
 * moves the ones behind it back into the gap (linear probing, Knuth 6.4, algorithm R): after
 * warm-up nothing is allocated.
 */
#include "pipeline/correlate/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace/dict.h"
#include "pipeline/correlate/correlate.h"
#include "core/base/vec.h"

#define FIRST_SLOTS 256

void correlate_ledger_fini(struct ledger *l)
{
	for (uint32_t i = 0; i < l->n_processes; i++)
		free(l->processes[i]);
	free(l->processes);
	free(l->slots);
	*l = (struct ledger){0};
}

struct correlate_ledger_process *correlate_ledger_find_process(const struct ledger *l,
							       uint32_t process)
{
	return process < l->n_processes ? l->processes[process] : NULL;
}

struct correlate_ledger_process *correlate_ledger_process(struct ledger *l, uint32_t process)
{
	if (process >= GS_DICT_MAX_ID)
		return NULL;
	if (!gs_vec_reach(&l->processes, &l->n_processes, process))
		return NULL;
	if (!l->processes[process])
		l->processes[process] = calloc(1, sizeof(**l->processes));
	return l->processes[process];
}

static size_t home_of(const struct ledger *l, uint32_t process, uint32_t space, uint64_t pointer)
{
	uint64_t x = pointer ^ (uint64_t)process << 40 ^ (uint64_t)space << 63;

	/* Pointers are aligned: without mixing, all would share their low bits. */
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15ull;
	return (x ^ x >> 29) & (l->n_slots - 1);
}

/* The slot of the block, or the free one where it would go. */
static size_t find_slot(const struct ledger *l, uint32_t process, uint32_t space, uint64_t pointer)
{
	size_t i = home_of(l, process, space, pointer);

	while (l->slots[i].pointer &&
	       (l->slots[i].pointer != pointer || l->slots[i].process != process ||
		l->slots[i].space != space))
		i = (i + 1) & (l->n_slots - 1);
	return i;
}

static int grow_ledger(struct ledger *l)
{
	struct ledger bigger = *l;

	bigger.n_slots = l->n_slots ? l->n_slots * 2 : FIRST_SLOTS;
	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_slots; i++) {
		const struct block *b = &l->slots[i];

		if (b->pointer)
			bigger.slots[find_slot(&bigger, b->process, b->space, b->pointer)] = *b;
	}
	free(l->slots);
	*l = bigger;
	return 0;
}

static void see_peak(struct correlate_ledger_process *p, enum space space)
{
	if (p->live_bytes[space] > p->peak_bytes[space])
		p->peak_bytes[space] = p->live_bytes[space];
}

int correlate_ledger_put(struct ledger *l, uint32_t process, enum space space, uint64_t pointer,
			 uint64_t bytes)
{
	struct correlate_ledger_process *p = correlate_ledger_find_process(l, process);
	struct block *b;

	if (!l->n_slots && grow_ledger(l) < 0)
		return -ENOMEM;
	b = &l->slots[find_slot(l, process, space, pointer)];
	if (b->pointer) {
		p->live_bytes[space] += bytes - b->bytes;
		if (b->is_segment)
			p->segment_bytes -= b->bytes;
		b->bytes = bytes;
		b->is_segment = 0;
		see_peak(p, space);
		return 0;
	}
	if (l->n_used >= GS_CORRELATE_MAX_BLOCKS)
		return -ENOBUFS;
	if (l->n_used + 1 > l->n_slots / 4 * 3) {
		if (grow_ledger(l) < 0)
			return -ENOMEM;
		b = &l->slots[find_slot(l, process, space, pointer)];
	}
	*b = (struct block){pointer, bytes, process, (uint16_t)space, 0};
	l->n_used++;
	p->live_bytes[space] += bytes;
	see_peak(p, space);
	return 0;
}

/* Empty slot i and close the gap. */
static void vacate_slot(struct ledger *l, size_t i)
{
	size_t mask = l->n_slots - 1;

	for (size_t j = (i + 1) & mask; l->slots[j].pointer; j = (j + 1) & mask) {
		const struct block *b = &l->slots[j];

		/* It may move back to i unless its home lies behind i. */
		if (((j - home_of(l, b->process, b->space, b->pointer)) & mask) >=
		    ((j - i) & mask)) {
			l->slots[i] = *b;
			i = j;
		}
	}
	l->slots[i] = (struct block){0};
	l->n_used--;
}

bool correlate_ledger_take(struct ledger *l, uint32_t process, enum space space, uint64_t pointer,
			   uint64_t *ret_bytes)
{
	struct correlate_ledger_process *p = correlate_ledger_find_process(l, process);
	size_t i;

	if (!p || !l->n_slots || !pointer)
		return false;
	i = find_slot(l, process, space, pointer);
	if (!l->slots[i].pointer)
		return false;
	*ret_bytes = l->slots[i].bytes;
	p->live_bytes[space] -= *ret_bytes;
	if (l->slots[i].is_segment)
		p->segment_bytes -= *ret_bytes;
	vacate_slot(l, i);
	return true;
}

void correlate_ledger_mark_segment(struct ledger *l, uint32_t process, uint64_t pointer)
{
	struct correlate_ledger_process *p = correlate_ledger_find_process(l, process);
	struct block *b;

	if (!p || !l->n_slots || !pointer)
		return;
	b = &l->slots[find_slot(l, process, SPACE_DEVICE, pointer)];
	if (!b->pointer || b->is_segment)
		return;
	b->is_segment = 1;
	p->segment_bytes += b->bytes;
	if (p->segment_bytes > p->peak_segment_bytes)
		p->peak_segment_bytes = p->segment_bytes;
}

void correlate_ledger_drop(struct ledger *l, uint32_t process)
{
	struct correlate_ledger_process *p = correlate_ledger_find_process(l, process);

	if (!p)
		return;
	/* What moves into the gap is looked at again. What moves over the table's end was looked at
	 * already, at its beginning. */
	for (size_t i = 0; i < l->n_slots;) {
		if (l->slots[i].pointer && l->slots[i].process == process)
			vacate_slot(l, i);
		else
			i++;
	}
	memset(p->live_bytes, 0, sizeof(p->live_bytes));
	p->segment_bytes = 0;
	p->physical = 0;
}
