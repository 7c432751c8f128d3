/*
 * What the kernel side has added up, and the calls that are open: read from the shared arrays while
 * it goes on writing. A cell belongs to one thread, so every number in it is either the old or the
 * new one; numbers of one call may fall into two readings, and their sum is right.
 *
 * A thread that ended has its slot marked by the kernel side; its cells are handed over a last
 * time, cleared, and put back into the queues of free ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"
#include "model/trace/class.h"
#include "model/trace/func.h"
#include "sources/uprobe/account_int.h"
#include "sources/uprobe/uprobe_int.h"

/* The name of a Python function is in the ring since before its cell was made, but perhaps not
 * since before the ring was read. True: it is known, or nothing more can be done for it. */
static bool is_named(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
		     const struct gs_cell *cell, bool last)
{
	uint32_t pid = probe->kernel.threads[cell->thread_slot].pid;

	if (cell->func < GS_FUNC_MAX || gs_pyfunc_set_has(probe->pycalls, cell->func, pid))
		return true;
	gs_uprobe_poll(probe, h);
	return last || gs_pyfunc_set_has(probe->pycalls, cell->func, pid);
}

static bool is_launch(unsigned func)
{
	const struct gs_func *f = gs_func_by_id(func);

	return f && (f->desc.op == GS_CLASS_LAUNCH || f->desc.op == GS_CLASS_GRAPH_LAUNCH);
}

void uprobe_note_call(struct gs_uprobe *probe, unsigned func, uint32_t pid)
{
	if (!is_launch(func))
		return;
	for (unsigned i = 0; i < probe->n_launched; i++)
		if (probe->launched[i] == pid)
			return;
	if (probe->n_launched < UPROBE_LAUNCHED_MAX)
		probe->launched[probe->n_launched++] = pid;
}

/* last: its thread has ended, or tracing has. */
static void hand_over_cell(struct gs_uprobe *probe, const struct gs_uprobe_handler *h, unsigned idx,
			   bool last)
{
	const struct gs_cell *cell = &probe->kernel.cells[idx];
	struct gs_cell *before = &probe->before[idx], now;
	uint32_t slot = cell->thread_slot;

	if (!uprobe_thread_is_mapped(&probe->kernel, slot))
		return;
	if (cell->calls == before->calls && cell->inner == before->inner &&
	    cell->skipped == before->skipped && cell->refused == before->refused &&
	    cell->stepped == before->stepped &&
	    memcmp(&cell->use, &before->use, sizeof(cell->use)) == 0 &&
	    memcmp(&cell->py, &before->py, sizeof(cell->py)) == 0)
		return;
	if (!is_named(probe, h, cell, last))
		return;
	memcpy(&now, cell, sizeof(now));
	if (!before->calls)
		uprobe_note_call(probe, now.func, probe->kernel.threads[slot].pid);
	h->cell(h->ctx, &probe->kernel.threads[slot], before, &now);
	*before = now;
}

/* The user stack pointer of a thread that waits in the kernel; 0 when it runs or is gone. */
static uint64_t waiting_sp(uint32_t pid, uint32_t tid)
{
	GS_FCLOSE FILE *f = NULL;
	unsigned long long sp = 0, a[6];
	char path[64];
	long nr;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", pid, tid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%ld", &nr) != 1)
		return 0;
	/* "-1 sp pc" outside of a system call, else "nr six arguments sp pc". */
	if (nr >= 0 && fscanf(f, "%llx %llx %llx %llx %llx %llx", &a[0], &a[1], &a[2], &a[3], &a[4],
			      &a[5]) != 6)
		return 0;
	return fscanf(f, "%llx", &sp) == 1 ? sp : 0;
}

/* A call that was open when its function's probes were taken off: reported as unmatched. */
static bool lost_its_return(struct gs_uprobe *probe, uint16_t id)
{
	const struct gs_func *func;

	id = uprobe_placed_as(probe, id);
	if (!probe->off_reported[id])
		return false;
	func = gs_func_set_get(probe->options.funcs, id);
	if (func)
		__atomic_fetch_add(&probe->kernel.state->lost[func->desc.layer][GS_LOSS_UNMATCHED],
				   1, __ATOMIC_RELAXED);
	return true;
}

/* The frames of a thread that are open now. Those below its stack pointer were left by a jump. */
static void hand_over_open(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
			   const struct gs_thread *t, uint64_t now_ns)
{
	uint32_t depth = t->depth < GS_DEPTH_MAX ? t->depth : GS_DEPTH_MAX;
	uint32_t scopes = t->scope_depth < GS_SCOPE_MAX ? t->scope_depth : GS_SCOPE_MAX;
	uint64_t sp;

	if (!depth && !scopes)
		return;
	sp = waiting_sp(t->pid, t->tid);
	for (uint32_t i = 0; i < scopes; i++) {
		const struct gs_scope *s = &t->scope[i];

		if (lost_its_return(probe, s->func))
			continue;
		if (s->func && s->start_ns && s->start_ns <= now_ns && (!sp || s->sp > sp))
			h->open_scope(h->ctx, t, i, now_ns);
	}
	for (uint32_t i = 0; i < depth; i++) {
		const struct gs_frame *f = &t->frame[i];

		if (lost_its_return(probe, f->func))
			continue;
		if (f->func && f->start_ns && f->start_ns <= now_ns && (!sp || f->sp > sp))
			h->open_call(h->ctx, t, f, i, now_ns);
	}
}

static void hand_over_hits(struct gs_uprobe *probe, const struct gs_uprobe_handler *h, unsigned idx)
{
	const struct gs_cell *c = &probe->kernel.cells[idx];
	struct gs_hits *before = &probe->hits_before[idx], now = {.func = c->func}, more;
	uint32_t slot = c->thread_slot;

	if (!h->hits || !uprobe_thread_is_mapped(&probe->kernel, slot))
		return;
	now.traced = c->calls + c->refused;
	now.counted = c->inner + c->skipped + c->watched;
	now.stepped = c->stepped + c->watched_stepped;
	now.stepped_exits = c->stepped_exits;
	more = (struct gs_hits){.func = now.func,
				.traced = now.traced - before->traced,
				.counted = now.counted - before->counted,
				.stepped = now.stepped - before->stepped,
				.stepped_exits = now.stepped_exits - before->stepped_exits};
	if (more.traced | more.counted | more.stepped | more.stepped_exits)
		h->hits(h->ctx, &probe->kernel.threads[slot], &more);
	*before = now;
}

static void free_cell(struct gs_uprobe *probe, uint32_t idx)
{
	struct uprobe_kernel_side *k = &probe->kernel;

	memset(&k->cells[idx], 0, sizeof(k->cells[idx]));
	memset(&probe->before[idx], 0, sizeof(probe->before[idx]));
	memset(&probe->hits_before[idx], 0, sizeof(probe->hits_before[idx]));
	bpf_map_update_elem(k->free_cells_fd, NULL, &idx, BPF_ANY);
}

/* Cells that no array of the thread lists: those of functions found during the run. */
static void release_dynamic_cells(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
				  uint32_t slot)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	unsigned n_cells = uprobe_reach_cells(k);

	for (uint32_t idx = 1; idx < n_cells; idx++) {
		const struct gs_cell *c = &k->cells[idx];
		uint64_t key = gs_cell_key(slot, c->func);

		if (c->thread_slot != slot || c->func < GS_FUNC_FIXED)
			continue;
		hand_over_hits(probe, h, idx);
		hand_over_cell(probe, h, idx, true);
		bpf_map_delete_elem(k->cell_of_fd, &key);
		free_cell(probe, idx);
	}
}

/* The kernel side knows a thread's time as of its last hit. Of one that lives on when tracing ends,
 * the time since then counts too. */
static uint64_t cpu_now_ns(const struct gs_thread *t, bool last)
{
	GS_FCLOSE FILE *f = NULL;
	uint64_t known_ns = t->cpu_ns, now_ns;
	char path[64];

	if (!last || t->ended)
		return known_ns;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", t->pid, t->tid);
	f = fopen(path, "re");
	return f && fscanf(f, "%" SCNu64, &now_ns) == 1 && now_ns > known_ns ? now_ns : known_ns;
}

static void hand_over_cpu(struct gs_uprobe *probe, const struct gs_uprobe_handler *h, unsigned slot)
{
	const struct gs_thread *t = &probe->kernel.threads[slot];
	uint64_t *before_ns = &probe->cpu_before_ns[slot], now_ns;

	if (!h->cpu || !t->pid || !t->cpu_ns)
		return;
	now_ns = cpu_now_ns(t, probe->kernel.state->stopped);
	if (!*before_ns)
		*before_ns = t->cpu_first_ns;
	if (now_ns > *before_ns)
		h->cpu(h->ctx, t, now_ns - *before_ns);
	*before_ns = now_ns;
}

static void release_thread(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
			   uint32_t slot)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	struct gs_thread *t = &k->threads[slot];

	hand_over_open(probe, h, t, gs_clock_mono_ns());
	hand_over_cpu(probe, h, slot);
	for (unsigned func = 1; func < GS_FUNC_FIXED; func++) {
		uint32_t idx = t->cell[func];

		if (!idx || gs_window_reach(k->cell_window, idx + 1) <= idx)
			continue;
		hand_over_hits(probe, h, idx);
		hand_over_cell(probe, h, idx, true);
		free_cell(probe, idx);
	}
	if (probe->selection.scopes || probe->users)
		release_dynamic_cells(probe, h, slot);
	memset(t, 0, sizeof(*t));
	probe->cpu_before_ns[slot] = 0;
	bpf_map_update_elem(k->free_threads_fd, NULL, &slot, BPF_ANY);
}

void gs_uprobe_glance(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	unsigned n_cells = uprobe_reach_cells(k);
	unsigned n_threads = uprobe_reach_threads(k);

	for (unsigned i = 1; i < n_cells; i++)
		hand_over_hits(probe, h, i);
	for (unsigned i = 1; i < n_threads; i++)
		hand_over_cpu(probe, h, i);
	uprobe_users_drain(probe, h);
}

static void hand_over_mpi(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	const struct gs_mpi_row *rows = probe->kernel.mpi_rows;
	uint64_t n;

	if (!h->mpi || !rows || !gs_window_reach(probe->kernel.mpi_window, 1))
		return;
	n = __atomic_load_n(&rows[0].calls, __ATOMIC_ACQUIRE) + 1;
	n = gs_window_reach(probe->kernel.mpi_window,
			    n < GS_MPI_ROW_MAX ? (unsigned)n : GS_MPI_ROW_MAX);
	for (uint64_t i = 1; i < n; i++) {
		struct gs_mpi_row *before = &probe->mpi_before[i], now;

		if (rows[i].calls == before->calls)
			continue;
		memcpy(&now, &rows[i], sizeof(now));
		h->mpi(h->ctx, before, &now);
		*before = now;
	}
}

void gs_uprobe_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	unsigned n_cells = uprobe_reach_cells(k);
	unsigned n_threads = uprobe_reach_threads(k);

	gs_uprobe_glance(probe, h);
	for (unsigned i = 1; i < n_cells; i++)
		hand_over_cell(probe, h, i, probe->kernel.state->stopped);
	hand_over_mpi(probe, h);
	uprobe_gpu_drain(probe, h);
	uprobe_pycalls_drain(probe);
	uprobe_account_drain(probe, h, probe->kernel.state->stopped);
	for (unsigned i = 1; i < n_threads; i++)
		if (k->threads[i].ended)
			release_thread(probe, h, i);
}

/* Its entry was written before it began to age: a copy of it is whole unless it was closed meanwhile. */
static void peek_frame(const struct gs_uprobe_handler *h, const struct gs_thread *t, unsigned depth,
		       uint64_t now_ns, uint64_t min_age_ns)
{
	const volatile __u64 *start_ns = &t->frame[depth].start_ns;
	struct gs_frame f = t->frame[depth];
	uint64_t sp;

	if (!f.func || !f.start_ns || f.start_ns > now_ns || now_ns - f.start_ns < min_age_ns)
		return;
	sp = waiting_sp(t->pid, t->tid);
	if (*start_ns == f.start_ns && t->depth > depth && (!sp || f.sp > sp))
		h->open_call(h->ctx, t, &f, depth, now_ns);
}

void gs_uprobe_peek_open(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
			 uint64_t min_age_ns)
{
	unsigned n_threads = uprobe_reach_threads(&probe->kernel);
	uint64_t now_ns = gs_clock_mono_ns();

	for (unsigned i = 1; i < n_threads; i++) {
		const struct gs_thread *t = &probe->kernel.threads[i];
		uint32_t depth = t->depth < GS_DEPTH_MAX ? t->depth : GS_DEPTH_MAX;

		for (uint32_t k = 0; t->pid && !t->ended && k < depth; k++)
			peek_frame(h, t, k, now_ns, min_age_ns);
	}
}

void gs_uprobe_stop(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	unsigned n_threads;
	uint64_t now_ns;

	/* From here on no frame is opened or closed: what is open stays as it is to be read. A
	 * program that is just past its look at the flag finishes within the ring's last drain. */
	uprobe_account_walk(probe);
	__atomic_store_n(&k->state->stopped, 1, __ATOMIC_SEQ_CST);
	now_ns = gs_clock_mono_ns();
	while (gs_uprobe_poll(probe, h) > 0)
		;
	gs_uprobe_drain(probe, h);
	n_threads = uprobe_reach_threads(k);
	for (unsigned i = 1; i < n_threads; i++)
		if (k->threads[i].pid)
			hand_over_open(probe, h, &k->threads[i], now_ns);
}
