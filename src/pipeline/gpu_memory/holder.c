/* Who holds memory: processes, sums by device and kind, call sites; and which device a thread is on. */
#include <stdlib.h>

#include "core/base/vec.h"
#include "pipeline/gpu_memory/gpu_memory_int.h"

#define MAX_PROBES 4 /* places looked at when two keys are the same by chance */

struct memory_process *memory_process_find(const struct gs_memory *m, uint32_t process)
{
	return process < m->n_processes ? m->processes[process] : NULL;
}

struct memory_process *memory_process_make(struct gs_memory *m, uint32_t process)
{
	if (process >= GS_DICT_MAX_ID || !gs_vec_reach(&m->processes, &m->n_processes, process))
		return NULL;
	if (!m->processes[process])
		m->processes[process] = calloc(1, sizeof(**m->processes));
	return m->processes[process];
}

/* --- sums --- */

static bool is_of_host(unsigned kind)
{
	return kind == GS_MEMORY_PINNED || kind == GS_MEMORY_REGISTERED ||
	       kind == GS_MEMORY_ON_HOST;
}

static uint32_t find_holder(const struct gs_memory *m, const struct memory_process *p,
			    uint32_t device, unsigned kind)
{
	uint32_t i = p->holders;

	while (i && (m->holders[i].sums.kind != kind || m->holders[i].sums.device != device))
		i = m->holders[i].next;
	return i;
}

static uint32_t add_holder(struct gs_memory *m, struct memory_process *p, uint32_t process,
			   uint32_t device, unsigned kind)
{
	uint32_t i = m->n_holders;

	if (i > GS_MEMORY_MAX_HOLDERS || !gs_vec_reserve(&m->holders, &m->cap_holders, i + 1))
		return 0;
	m->holders[i] = (struct memory_holder){
		.sums = {.process = process, .device = device, .kind = kind}, .next = p->holders};
	p->holders = i;
	m->n_holders++;
	return i;
}

/* A sum over others. */
static uint32_t make_sum(struct gs_memory *m, struct memory_process *p, uint32_t process,
			 uint32_t device, unsigned kind)
{
	uint32_t i = find_holder(m, p, device, kind);

	return i ? i : add_holder(m, p, process, device, kind);
}

uint32_t memory_holder_make(struct gs_memory *m, uint32_t process, uint32_t device, unsigned kind)
{
	struct memory_process *p = memory_process_make(m, process);
	uint32_t of_process, of_device = 0, i;

	if (!p)
		return 0;
	i = find_holder(m, p, device, kind);
	if (i)
		return i;
	of_process = make_sum(m, p, process, GS_MEMORY_DEVICE_ALL,
			      is_of_host(kind) ? GS_MEMORY_ON_HOST : GS_MEMORY_ON_DEVICE);
	if (of_process && !is_of_host(kind))
		of_device = make_sum(m, p, process, device, GS_MEMORY_ON_DEVICE);
	if (!of_process || (!of_device && !is_of_host(kind)))
		return 0;
	i = find_holder(m, p, device, kind);
	if (!i)
		i = add_holder(m, p, process, device, kind);
	if (i && i != of_process && i != of_device) {
		m->holders[i].process_sum = of_process;
		m->holders[i].device_sum = of_device;
	}
	return i;
}

/* Kinds of device memory, and what a process has of it and of the host's. */
static bool is_reported(const struct gs_rec_memory *s)
{
	return s->kind < GS_MEMORY_PINNED ||
	       (s->kind >= GS_MEMORY_ON_DEVICE && s->device == GS_MEMORY_DEVICE_ALL);
}

static void note_change(struct gs_memory *m, uint32_t holder)
{
	struct memory_holder *h = &m->holders[holder];

	if (h->is_changed || !is_reported(&h->sums))
		return;
	h->is_changed = true;
	h->next_changed = m->changed;
	m->changed = holder;
}

static void add_to_sum(struct gs_memory *m, uint32_t holder, uint64_t bytes, uint64_t now_ns)
{
	struct gs_rec_memory *s = &m->holders[holder].sums;

	s->live_bytes += bytes;
	s->live_blocks++;
	s->total_bytes += bytes;
	s->allocations++;
	if (s->live_bytes > s->peak_bytes) {
		s->peak_bytes = s->live_bytes;
		s->peak_ns = now_ns;
	}
	note_change(m, holder);
}

static void take_from_sum(struct gs_memory *m, uint32_t holder, uint64_t bytes, bool is_freed)
{
	struct gs_rec_memory *s = &m->holders[holder].sums;

	s->live_bytes -= bytes;
	s->live_blocks--;
	s->frees += is_freed;
	note_change(m, holder);
}

void memory_holder_add(struct gs_memory *m, uint32_t holder, uint32_t site, uint64_t bytes,
		       uint64_t now_ns)
{
	const struct memory_holder h = m->holders[holder];
	struct memory_site *s = &m->sites[site];

	add_to_sum(m, holder, bytes, now_ns);
	add_to_sum(m, h.process_sum, bytes, now_ns);
	if (h.device_sum)
		add_to_sum(m, h.device_sum, bytes, now_ns);
	s->live_bytes += bytes;
	s->live_blocks++;
	s->total_bytes += bytes;
	s->allocations++;
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
}

void memory_holder_remove(struct gs_memory *m, uint32_t holder, uint32_t site, uint64_t bytes,
			  bool is_freed)
{
	const struct memory_holder h = m->holders[holder];

	take_from_sum(m, holder, bytes, is_freed);
	take_from_sum(m, h.process_sum, bytes, is_freed);
	if (h.device_sum)
		take_from_sum(m, h.device_sum, bytes, is_freed);
	m->sites[site].live_bytes -= bytes;
	m->sites[site].live_blocks--;
}

void memory_holder_map(struct gs_memory *m, uint32_t holder, int64_t bytes)
{
	const struct memory_holder h = m->holders[holder];

	m->holders[holder].sums.mapped_bytes += (uint64_t)bytes;
	m->holders[h.device_sum].sums.mapped_bytes += (uint64_t)bytes;
	m->holders[h.process_sum].sums.mapped_bytes += (uint64_t)bytes;
}

bool gs_memory_next_change(struct gs_memory *m, struct gs_memory_change *ret_change)
{
	while (m->changed) {
		struct memory_holder *h = &m->holders[m->changed];

		m->changed = h->next_changed;
		h->is_changed = false;
		if (h->sums.live_bytes == h->reported_bytes)
			continue;
		h->reported_bytes = h->sums.live_bytes;
		*ret_change = (struct gs_memory_change){.process = h->sums.process,
							.device = h->sums.device,
							.kind = h->sums.kind,
							.live_bytes = h->sums.live_bytes,
							.time_ns = &h->reported_ns};
		return true;
	}
	return false;
}

/* --- call sites --- */

static bool is_site_of(const struct memory_site *s, uint32_t holder, const struct gs_rec_call *c)
{
	return s->holder == holder && s->function == c->function && s->scope == c->scope &&
	       s->py_stack == c->py_stack && s->native_stack == c->native_stack;
}

static uint64_t hash_site(uint32_t holder, const struct gs_rec_call *c)
{
	uint64_t h = ((uint64_t)holder << 32 | c->function) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 29 ^ ((uint64_t)c->scope << 32 | c->py_stack)) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 32 ^ c->native_stack) * 0x94d049bb133111ebull;
	return h ^ h >> 29;
}

static uint32_t add_site(struct gs_memory *m, uint32_t holder, const struct gs_rec_call *c,
			 uint64_t place)
{
	uint32_t i = m->n_sites;

	if (i > GS_MEMORY_MAX_SITES || !gs_vec_reserve(&m->sites, &m->cap_sites, i + 1) ||
	    gs_map_put(&m->site_idx, place, i) < 0)
		return 0;
	m->sites[i] = (struct memory_site){.holder = holder,
					   .function = c->function,
					   .scope = c->scope,
					   .py_stack = c->py_stack,
					   .native_stack = c->native_stack};
	m->n_sites++;
	return i;
}

uint32_t memory_site_make(struct gs_memory *m, uint32_t holder, const struct gs_rec_call *c)
{
	uint64_t place, i;

	if (m->last_site && is_site_of(&m->sites[m->last_site], holder, c))
		return m->last_site;
	place = hash_site(holder, c);
	for (unsigned n = 0; n < MAX_PROBES; n++, place++) {
		if (!gs_map_get(&m->site_idx, place, &i))
			return m->last_site = add_site(m, holder, c, place);
		if (is_site_of(&m->sites[i], holder, c))
			return m->last_site = (uint32_t)i;
	}
	return 0;
}

/* --- devices --- */

uint32_t memory_device_of(const struct gs_memory *m, const struct memory_process *p,
			  uint32_t thread)
{
	const struct memory_thread *t = thread < m->n_threads ? &m->threads[thread] : NULL;

	if (t && t->run == p->run + 1)
		return t->device;
	return p->is_late ? GS_MEMORY_DEVICE_UNKNOWN : 0;
}

void gs_memory_set_device(struct gs_memory *m, uint32_t process, uint32_t thread, uint32_t device)
{
	struct memory_process *p = memory_process_make(m, process);

	if (!p || thread >= GS_DICT_MAX_ID || device == GS_MEMORY_DEVICE_ALL ||
	    !gs_vec_reach(&m->threads, &m->n_threads, thread))
		return;
	m->threads[thread] = (struct memory_thread){.device = device, .run = p->run + 1};
}
