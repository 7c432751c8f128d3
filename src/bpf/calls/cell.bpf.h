/*
 * Cells: what is added up for one function in one thread. Functions of the fixed table have theirs
 * in an array of the thread; those that got their ids during the run are found by a hash, once for
 * each time they are open. A cell of the second kind also takes what calls of CUDA and NCCL did
 * while its function was the innermost open one, as far as these calls were not sent whole: sent
 * calls name it themselves.
 */
#ifndef GS_BPF_CALLS_CELL_BPF_H
#define GS_BPF_CALLS_CELL_BPF_H

#include "decide.bpf.h"
#include "model/call/outcome.h"
#include "model/trace/class.h"

const volatile struct gs_func_desc gs_desc[GS_FUNC_FIXED] = {};

#define FUNC_MASK  (GS_FUNC_FIXED - 1)
#define SCOPE_MASK (GS_SCOPE_MAX - 1)
#define DEPTH_MASK (GS_DEPTH_MAX - 1)

/* The function's mode; the first where functions have none. */
static __always_inline __u32 mode_of(__u32 id)
{
	struct gs_modes *m;
	__u32 zero = 0;

	if (!gs_config.modes)
		return GS_MODE_EVENTS;
	if (id >= GS_FUNC_MAX)
		id = gs_config.py_func;
	m = bpf_map_lookup_elem(&gs_modes, &zero);
	return m ? m->mode[id & (GS_FUNC_MAX - 1)] : GS_MODE_EVENTS;
}

/* True when a hit is another link's to count: the probe's group is being replaced. */
static __always_inline bool turn_skips(struct gs_thread *t, __u64 cookie)
{
	__u32 group = cookie >> GS_COOKIE_GROUP_SHIFT & GS_COOKIE_GROUP_MASK, zero = 0;
	struct gs_modes *m;
	__u8 turn;

	if (!gs_config.modes)
		return false;
	m = bpf_map_lookup_elem(&gs_modes, &zero);
	if (!m)
		return false;
	turn = *(volatile __u8 *)&m->turn[group >> 1 & (GS_GROUP_MAX - 1)];
	if ((turn & 1) == (group & 1)) {
		if (turn & GS_TURN_BOTH)
			t->turned = 1;
		return false;
	}
	if (!(turn & GS_TURN_BOTH))
		return true;
	if (!t->turned)
		return false;
	t->turned = 0;
	return true;
}

/* True when this call of a function with the mode is only counted. */
static __always_inline bool mode_skips(__u32 mode)
{
	return mode >= GS_MODE_COUNT ||
	       (mode == GS_MODE_SAMPLE && bpf_get_prandom_u32() & (GS_MODE_SAMPLE_N - 1));
}

static __noinline __u32 cell_take(__u32 slot, __u32 id)
{
	struct gs_kernel_state *s = state_get();
	struct gs_cell *c;
	__u32 idx = 0;

	if (bpf_map_pop_elem(&gs_free_cells, &idx)) {
		if (!s || s->n_cells >= gs_config.n_cells - 1)
			return 0;
		idx = __sync_fetch_and_add(&s->n_cells, 1) + 1;
	}
	c = bpf_map_lookup_elem(&gs_cells, &idx);
	if (!c || !idx)
		return 0;
	c->func = id;
	c->thread_slot = slot;
	return idx;
}

/* NULL: there is none left. */
static __always_inline struct gs_cell *cell_find(struct gs_thread *t, __u32 slot, __u32 id)
{
	__u32 idx = t->cell[id & FUNC_MASK];

	if (!idx) {
		idx = cell_take(slot, id);
		if (!idx)
			return NULL;
		t->cell[id & FUNC_MASK] = idx;
	}
	return bpf_map_lookup_elem(&gs_cells, &idx);
}

/* Of a call that is wanted: without one it is lost. */
static __always_inline struct gs_cell *cell_get(struct gs_thread *t, __u32 slot, __u32 id)
{
	struct gs_cell *c = cell_find(t, slot, id);

	if (!c)
		count_loss(gs_desc[id & FUNC_MASK].layer, GS_LOSS_NO_CELL);
	return c;
}

static __always_inline void count_error(struct gs_cell *c, __s32 ret)
{
	c->errors++;
	for (int i = 0; i < GS_ERR_CODES; i++) {
		if (c->err_code[i] == 0)
			c->err_code[i] = ret;
		if (c->err_code[i] == ret) {
			c->err_count[i]++;
			return;
		}
	}
}

/* Its branches give 64 answers, with each of which the verifier would follow what comes after: a function
 * of its own. */
__noinline __u32 gs_bucket_of(__u64 ns)
{
	return gs_hist_bucket(ns);
}

/* A function of its own for the verifier. c may be NULL. */
__noinline int gs_call_add(struct gs_cell *c, const struct gs_outcome *o)
{
	__u32 bucket;

	if (!c || !o)
		return 0;
	bucket = gs_bucket_of(o->dur_ns);
	c->calls++;
	c->total_ns += o->dur_ns;
	if (o->dur_ns > c->max_ns)
		c->max_ns = o->dur_ns;
	if (bucket < GS_HIST_N_BUCKETS)
		c->hist[bucket]++;
	if (o->failed)
		count_error(c, o->ret);
	else
		c->bytes += o->bytes;
	return 0;
}

/* --- functions whose ids were given during the run --- */

static __noinline __u32 dynamic_cell_find(__u32 slot, __u32 func, __u32 layer)
{
	__u64 key = gs_cell_key(slot, func);
	__u32 *known = bpf_map_lookup_elem(&gs_cell_of, &key), idx;

	if (known)
		return *known;
	idx = cell_take(slot, func);
	if (idx && bpf_map_update_elem(&gs_cell_of, &key, &idx, BPF_ANY) == 0)
		return idx;
	/* A cell that was taken and has no key is free again when its thread ends. */
	count_loss(layer, GS_LOSS_NO_CELL);
	return 0;
}

static __always_inline struct gs_cell *scope_cell(__u32 slot, struct gs_scope *s)
{
	__u32 idx = s->cell;

	if (!idx) {
		idx = dynamic_cell_find(slot, s->func, s->layer);
		if (!idx)
			return NULL;
		s->cell = idx;
	}
	return bpf_map_lookup_elem(&gs_cells, &idx);
}

/* A probe was passed whose instruction the kernel single-steps. A function of its own for the
 * verifier. */
__noinline int gs_step_add(__u32 slot, __u32 id, __u32 layer, __u32 is_exit)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_cell *c;
	__u32 idx;

	if (!t)
		return 0;
	if (id < GS_FUNC_FIXED) {
		c = cell_find(t, slot, id); /* a call that is lost is counted where it is */
	} else {
		idx = dynamic_cell_find(slot, id, layer);
		c = idx ? bpf_map_lookup_elem(&gs_cells, &idx) : NULL;
	}
	if (c && is_exit)
		c->stepped_exits++;
	else if (c)
		c->stepped++;
	return 0;
}

/* Which of the thread's open scopes is around a call that was entered with this stack pointer, from
 * 1 on; 0: none. Those below it were left by a jump and wait to be dropped. A function of its own
 * for the verifier. */
__noinline __u32 gs_scope_around(__u32 slot, __u64 sp)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth = t ? t->scope_depth : 0;

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++, depth--)
		if (t->scope[(depth - 1) & SCOPE_MASK].sp > sp)
			return depth;
	return 0;
}

static __always_inline bool scope_around(struct gs_thread *t, __u32 slot, __u64 sp,
					 struct gs_scope **ret_scope)
{
	__u32 depth = gs_config.scopes && t->scope_depth ? gs_scope_around(slot, sp) : 0;

	if (!depth)
		return false;
	*ret_scope = &t->scope[(depth - 1) & SCOPE_MASK];
	return true;
}

/* An operator of PyTorch, as its thread's time knows it: not a range that the program named, which
 * may hold anything. */
__noinline int gs_scope_is_operator(const struct gs_scope *s)
{
	return s && s->layer == GS_LAYER_TORCH && !gs_is_span(s->func, gs_config.span_first);
}

/* Is one of the scopes below that depth an operator? This and what it asks are functions of their own
 * for the verifier. */
__noinline int gs_operator_open(__u32 slot, __u32 depth)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++, depth--)
		if (gs_scope_is_operator(&t->scope[(depth - 1) & SCOPE_MASK]))
			return 1;
	return 0;
}

/* An outermost call has ended: whose time that was. The operator around it did not run itself. */
static __always_inline void account_call(struct gs_thread *t, __u32 slot, __u32 inside,
					 __u64 dur_ns)
{
	struct gs_account *a;

	if (!gs_config.account || !t->account || !inside)
		return;
	a = account_at(t->account);
	/* Else the two bounds become one comparison of a difference, from which the verifier of
	 * Linux 6.1 learns nothing about the index. */
	barrier_var(inside);
	if (!a || inside >= GS_INSIDE_COUNT)
		return;
	a->busy_ns[inside] += dur_ns;
	if (gs_config.scopes && t->scope_depth && gs_operator_open(slot, t->scope_depth))
		a->busy_ns[GS_INSIDE_OPERATOR] -= dur_ns;
}

/* A scope has ended that was number depth of its thread. */
static __always_inline void account_scope(struct gs_thread *t, __u32 slot, const struct gs_scope *s,
					  __u32 depth, __u64 dur_ns)
{
	struct gs_account *a;

	if (!gs_config.account || !t->account || !gs_scope_is_operator(s))
		return;
	if (depth && gs_operator_open(slot, depth))
		return;
	a = account_at(t->account);
	if (a)
		a->busy_ns[GS_INSIDE_OPERATOR] += dur_ns;
}

/* A scope has ended after so long: what is added to the one around it. Python functions ask for
 * it: what they caused, and how long they were in others. */
static __always_inline void scope_settle(struct gs_thread *t, __u32 depth, __u64 dur_ns)
{
	struct gs_scope *around;

	if (!gs_config.py_func || !depth)
		return;
	around = &t->scope[(depth - 1) & SCOPE_MASK];
	around->inside_ns += dur_ns;
	around->launches += t->scope[depth & SCOPE_MASK].launches;
}

/* A launch, for the scope around it and those around that. A function of its own for the verifier.
 */
__noinline int gs_launch_add(__u32 slot, __u64 sp)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_scope *s;

	if (t && scope_around(t, slot, sp, &s))
		s->launches++;
	return 0;
}

/* A call of CUDA or NCCL that was not sent, counted for the scope around it. A function of its own
 * for the verifier, which would otherwise walk it once for each way that leads here. */
__noinline int gs_use_add(__u32 slot, __u64 sp, __u32 class, __u64 dur_ns, __u64 bytes)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_scope *s;
	struct gs_cell *c;

	if (!t || !scope_around(t, slot, sp, &s))
		return 0;
	c = scope_cell(slot, s);
	if (!c)
		return 0;
	switch (class) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
		c->use.launches++;
		break;
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
		c->use.copies++;
		break;
	case GS_CLASS_ALLOC:
		c->use.allocs++;
		break;
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		c->use.collectives++;
		break;
	default:
		c->use.others++;
	}
	c->use.total_ns += dur_ns;
	c->use.bytes += bytes;
	return 0;
}

#endif
