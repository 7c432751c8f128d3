/* Allocations and frees: what each call does to the table of blocks and the sums. */
#include "pipeline/gpu_memory/gpu_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/func.h"
#include "pipeline/gpu_memory/gpu_memory_int.h"

#define OWED_NS 1000000000ull /* a call is reported no later than this after another */

int gs_memory_new(struct gs_memory **ret_memory)
{
	struct gs_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->blocks.max_used = GS_MEMORY_MAX_BLOCKS;
	m->pages.max_used = MEMORY_MAX_PAGES;
	m->site_idx = GS_MAP_INIT(GS_MEMORY_MAX_SITES);
	/* Index 0 is none, or the rest. */
	if (!gs_vec_reserve(&m->holders, &m->cap_holders, 8) ||
	    !gs_vec_reserve(&m->sites, &m->cap_sites, 8)) {
		gs_memory_free(&m);
		return -ENOMEM;
	}
	m->holders[0] = (struct memory_holder){0};
	m->sites[0] = (struct memory_site){0};
	m->n_holders = m->n_sites = 1;
	*ret_memory = m;
	return 0;
}

void gs_memory_free(struct gs_memory **memory)
{
	struct gs_memory *m = *memory;

	if (!m)
		return;
	for (uint32_t i = 0; i < m->n_processes; i++) {
		if (m->processes[i])
			free(m->processes[i]->ranges);
		free(m->processes[i]);
	}
	free(m->processes);
	free(m->blocks.slots);
	free(m->pages.slots);
	free(m->freed);
	free(m->holders);
	free(m->sites);
	free(m->threads);
	gs_map_fini(&m->site_idx);
	free(m);
	*memory = NULL;
}

uint64_t gs_memory_untracked(const struct gs_memory *m)
{
	return m->n_untracked;
}

/* --- blocks that go --- */

/* Out of the sums, not out of the table. */
static void settle_block(struct gs_memory *m, struct memory_process *p,
			 const struct memory_block *b, bool is_freed)
{
	uint32_t holder;

	if (b->space == MEMORY_SPACE_MAPPING || b->flags & MEMORY_IS_ALIAS)
		return;
	if (b->flags & MEMORY_IS_SEGMENT)
		p->segments.live_bytes -= b->bytes;
	holder = b->holder;
	memory_pages_remove(m, m->holders[holder].device_sum, b);
	memory_holder_remove(m, holder, b->site, b->bytes, is_freed);
}

uint64_t memory_drop_block(struct gs_memory *m, struct memory_process *p, struct memory_block *b)
{
	uint64_t bytes = b->bytes;

	settle_block(m, p, b, true);
	memory_table_remove(&m->blocks, b);
	return bytes;
}

struct sweep {
	struct memory_process *p;
	uint32_t process;
	uint32_t device; /* GS_MEMORY_DEVICE_ALL: of all, and of the host */
};

static bool is_swept(struct gs_memory *m, const struct memory_block *b, const void *ctx)
{
	const struct sweep *s = ctx;

	if (b->process != s->process)
		return false;
	if (s->device != GS_MEMORY_DEVICE_ALL &&
	    ((b->space != MEMORY_SPACE_ADDRESS && b->space != MEMORY_SPACE_ARRAY) ||
	     b->flags & MEMORY_IS_ALIAS || m->holders[b->holder].sums.device != s->device))
		return false;
	settle_block(m, s->p, b, false);
	return true;
}

void gs_memory_drop_process(struct gs_memory *m, uint32_t process)
{
	struct memory_process *p = memory_process_find(m, process);

	if (!p)
		return;
	memory_table_sweep(
		&m->blocks, is_swept, m,
		&(struct sweep){.p = p, .process = process, .device = GS_MEMORY_DEVICE_ALL});
	memory_blind_drop(m, p, GS_MEMORY_DEVICE_ALL);
	for (uint32_t i = p->holders; i; i = m->holders[i].next)
		m->holders[i].sums.mapped_bytes = 0;
	p->segments.live_bytes = 0;
	p->n_ranges = 0;
	p->inner_handle = 0;
	p->has_ended = p->is_late = false;
	p->run++;
}

static bool has_ended(struct gs_memory *m, const struct memory_block *b, const void *ctx GS_UNUSED)
{
	const struct memory_process *p = memory_process_find(m, b->process);

	return p && p->has_ended;
}

/* A free that was not seen, of the block that another one now replaces. */
static void owe_free(struct gs_memory *m, const struct memory_block *b, uint64_t now_ns)
{
	m->owed[m->next_owed] = (struct memory_owed){.pointer = b->pointer,
						     .bytes = b->bytes,
						     .until_ns = now_ns,
						     .process = b->process,
						     .space = b->space};
	m->next_owed = (m->next_owed + 1) % MEMORY_MAX_OWED;
	m->n_owed += m->n_owed < MEMORY_MAX_OWED;
}

/* Is the call that free? Then its bytes are in *ret_bytes. */
static bool pay_owed(struct gs_memory *m, uint32_t process, enum memory_space space,
		     const struct gs_rec_call *c, uint64_t *ret_bytes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MEMORY_MAX_OWED; i++) {
		struct memory_owed *o = &m->owed[i];

		if (o->pointer && c->start_ns > o->until_ns + OWED_NS)
			o->pointer = 0;
		n += o->pointer != 0;
		if (!o->pointer || o->pointer != c->arg[0] || o->process != process ||
		    o->space != space || c->start_ns >= o->until_ns)
			continue;
		*ret_bytes = o->bytes;
		o->pointer = 0;
		return true;
	}
	m->n_owed = n ? m->n_owed : 0;
	return false;
}

void memory_count_stray(struct gs_memory *m, const struct memory_process *p, uint32_t process,
			enum memory_space space, const struct gs_rec_call *c)
{
	struct gs_rec_memory *s = &m->holders[p->sum].sums;

	if (memory_freed_has(m, process, space, c->arg[0]))
		s->double_frees++;
	else if (c->failed)
		s->bad_frees++;
	else
		s->unknown_frees++;
}

/* --- calls --- */

static enum memory_space space_of(unsigned kind)
{
	switch (kind) {
	case GS_MEMORY_ARRAY:
		return MEMORY_SPACE_ARRAY;
	case GS_MEMORY_VIRTUAL:
		return MEMORY_SPACE_HANDLE;
	case GS_MEMORY_PINNED:
	case GS_MEMORY_REGISTERED:
		return MEMORY_SPACE_HOST;
	default:
		return MEMORY_SPACE_ADDRESS;
	}
}

/* Is there a kind of memory that another call of the room took for the same address? */
static bool replace_block(struct gs_memory *m, struct memory_process *p, uint32_t process,
			  enum memory_space space, const struct gs_rec_call *c)
{
	struct memory_block *b = memory_table_find(&m->blocks, process, space, c->arg[0]);

	if (!b)
		return false;
	m->holders[p->sum].sums.unseen_frees++;
	owe_free(m, b, c->start_ns + c->dur_ns);
	settle_block(m, p, b, false);
	memory_table_remove(&m->blocks, b);
	return true;
}

/* Room for a block; when there is none, programs that ended make it. */
static struct memory_block *add_block(struct gs_memory *m, uint32_t process,
				      enum memory_space space, uint64_t pointer)
{
	struct memory_block *b = memory_table_add(&m->blocks, process, space, pointer);

	if (b || m->blocks.n_used < m->blocks.max_used || !m->n_ended)
		return b;
	/* What they left stays in the sums. */
	memory_table_sweep(&m->blocks, has_ended, m, NULL);
	memory_table_sweep(&m->pages, has_ended, m, NULL);
	m->n_ended = 0;
	return memory_table_add(&m->blocks, process, space, pointer);
}

static void count_untracked(struct gs_memory *m, const struct memory_process *p)
{
	m->n_untracked++;
	if (p)
		m->holders[p->sum].sums.untracked++;
}

static void take_alloc(struct gs_memory *m, struct memory_process *p, uint32_t process,
		       const struct gs_rec_call *c, unsigned kind)
{
	bool on_host = kind == GS_MEMORY_PINNED || kind == GS_MEMORY_REGISTERED;
	uint32_t device = on_host ? GS_MEMORY_DEVICE_ALL : memory_device_of(m, p, c->thread);
	uint32_t holder = memory_holder_make(m, process, device, kind), site;
	enum memory_space space = space_of(kind);
	struct memory_block *b = NULL;

	if (c->failed) {
		m->holders[holder].sums.failed++;
		return;
	}
	if (!c->arg[0] && !c->bytes) /* an allocation of nothing */
		return;
	if (c->call_flags & GS_CALL_UNTIMED) { /* nor is its address known */
		if (!holder || !memory_blind_add(m, p, holder, space, c))
			count_untracked(m, p);
		return;
	}
	if (holder && c->arg[0]) {
		replace_block(m, p, process, space, c);
		b = add_block(m, process, space, c->arg[0]);
	}
	if (!b) {
		count_untracked(m, p);
		return;
	}
	site = memory_site_make(m, holder, c);
	b->bytes = c->bytes;
	b->site = site;
	b->holder = holder;
	memory_holder_add(m, holder, site, c->bytes, c->start_ns + c->dur_ns);
	if (kind == GS_MEMORY_DEVICE || kind == GS_MEMORY_PITCHED)
		memory_pages_add(m, m->holders[holder].device_sum, b);
	if (kind != GS_MEMORY_VIRTUAL)
		return;
	b->n_references = 1;
	p->inner_handle = c->arg[0];
	p->inner_start_ns = c->start_ns;
	p->inner_thread = c->thread;
}

/* ncclMemAlloc() allocates by a call of CUDA, which may have been seen: that one counts. */
static void take_nccl_alloc(struct gs_memory *m, struct memory_process *p, uint32_t process,
			    const struct gs_rec_call *c)
{
	struct memory_block *b;

	if (c->failed || memory_table_find(&m->blocks, process, MEMORY_SPACE_ADDRESS, c->arg[0]))
		return;
	if (!p->inner_handle || p->inner_thread != c->thread || p->inner_start_ns < c->start_ns) {
		take_alloc(m, p, process, c, GS_MEMORY_DEVICE);
		return;
	}
	b = add_block(m, process, MEMORY_SPACE_ADDRESS, c->arg[0]);
	if (!b)
		return;
	b->bytes = c->bytes;
	b->handle = p->inner_handle;
	b->flags = MEMORY_IS_ALIAS;
	p->inner_handle = 0;
}

/* The calls that it makes to free may have been seen, too. */
static uint64_t take_nccl_free(struct gs_memory *m, struct memory_process *p, uint32_t process,
			       const struct gs_rec_call *c)
{
	struct memory_block *b =
		memory_table_find(&m->blocks, process, MEMORY_SPACE_ADDRESS, c->arg[0]);
	uint64_t bytes = b ? b->bytes : 0, handle;

	if (!b || c->failed)
		return 0;
	handle = b->flags & MEMORY_IS_ALIAS ? b->handle : 0;
	memory_drop_block(m, p, b);
	b = memory_table_find(&m->blocks, process, MEMORY_SPACE_HANDLE, handle);
	if (b)
		memory_drop_block(m, p, b);
	return bytes;
}

static uint64_t take_free(struct gs_memory *m, struct memory_process *p, uint32_t process,
			  const struct gs_rec_call *c, unsigned kind)
{
	enum memory_space space = space_of(kind);
	struct memory_block *b = memory_table_find(&m->blocks, process, space, c->arg[0]);
	uint64_t bytes;

	if (!c->arg[0])
		return 0;
	if (c->failed) {
		if (!b && !gs_error_is_process_end(GS_LAYER_CUDA_RUNTIME, c->ret))
			memory_count_stray(m, p, process, space, c);
		return 0;
	}
	if (m->n_owed && pay_owed(m, process, space, c, &bytes)) {
		m->holders[p->sum].sums.unseen_frees--;
		return bytes;
	}
	if (!b && p->n_blind && !memory_freed_has(m, process, space, c->arg[0])) {
		bytes = memory_blind_take(m, p, space);
		if (bytes)
			return bytes;
	}
	if (!b) {
		memory_count_stray(m, p, process, space, c);
		return 0;
	}
	memory_freed_note(m, process, space, c->arg[0]);
	return memory_drop_block(m, p, b);
}

static void reset_device(struct gs_memory *m, struct memory_process *p, uint32_t process,
			 uint32_t device)
{
	const struct sweep sweep = {.p = p, .process = process, .device = device};

	memory_table_sweep(&m->blocks, is_swept, m, &sweep);
	memory_blind_drop(m, p, device);
}

/* The state of a process that has a sum; NULL: no room. */
static struct memory_process *enter_process(struct gs_memory *m, uint32_t process)
{
	struct memory_process *p = memory_process_make(m, process);

	if (p && !p->sum)
		p->sum = memory_holder_make(m, process, GS_MEMORY_DEVICE_ALL, GS_MEMORY_ON_DEVICE);
	if (!p || !p->sum)
		return NULL;
	m->n_ended -= p->has_ended && m->n_ended;
	p->has_ended = false;
	return p;
}

uint64_t gs_memory_take(struct gs_memory *m, uint32_t process, const struct gs_rec_call *c,
			struct gs_memory_function f)
{
	struct memory_process *p;

	if (c->call_flags & GS_CALL_UNFINISHED)
		return 0;
	p = enter_process(m, process);
	if (!p) {
		m->n_untracked += f.verb == GS_MEMORY_ALLOC && !c->failed;
		return 0;
	}
	switch (f.verb) {
	case GS_MEMORY_ALLOC:
		take_alloc(m, p, process, c, f.kind);
		return 0;
	case GS_MEMORY_ALLOC_NCCL:
		take_nccl_alloc(m, p, process, c);
		return 0;
	case GS_MEMORY_FREE:
		return take_free(m, p, process, c, f.kind);
	case GS_MEMORY_FREE_NCCL:
		return take_nccl_free(m, p, process, c);
	case GS_MEMORY_RESET:
		if (!c->failed)
			reset_device(m, p, process,
				     f.of_thread ? memory_device_of(m, p, c->thread) : c->aux);
		return 0;
	default:
		return memory_virtual_take(m, p, process, c, f.verb);
	}
}

void gs_memory_set_late(struct gs_memory *m, uint32_t process, bool is_late)
{
	struct memory_process *p =
		is_late ? memory_process_make(m, process) : memory_process_find(m, process);

	if (p)
		p->is_late = is_late;
}

void gs_memory_end_process(struct gs_memory *m, uint32_t process)
{
	struct memory_process *p = memory_process_find(m, process);

	if (!p || p->has_ended)
		return;
	p->has_ended = true;
	m->n_ended++;
}

/* --- PyTorch's allocator --- */

static void add_segment(struct memory_process *p, uint64_t bytes)
{
	p->segments.live_bytes += bytes;
	if (p->segments.live_bytes > p->segments.peak_bytes)
		p->segments.peak_bytes = p->segments.live_bytes;
}

void gs_memory_mark_segment(struct gs_memory *m, uint32_t process, uint64_t pointer)
{
	struct memory_process *p = memory_process_find(m, process);
	struct memory_block *b;
	struct memory_range *range;

	if (!p || !pointer)
		return;
	b = memory_table_find(&m->blocks, process, MEMORY_SPACE_ADDRESS, pointer);
	if (b && !(b->flags & (MEMORY_IS_SEGMENT | MEMORY_IS_ALIAS))) {
		b->flags |= MEMORY_IS_SEGMENT;
		add_segment(p, b->bytes);
	}
	range = b ? NULL : memory_range_find(p, pointer);
	if (range && !range->is_segment) {
		range->is_segment = true;
		add_segment(p, range->mapped_bytes);
	}
}

struct gs_memory_segments gs_memory_read_segments(const struct gs_memory *m, uint32_t process)
{
	const struct memory_process *p = memory_process_find(m, process);

	return p ? p->segments : (struct gs_memory_segments){0};
}
