/*
 * The engine of every traced call: entry opens a frame in the thread's own stack of frames,
 * return closes it and either sends one event or adds the call to the thread's cell of that
 * function. An event that finds no room in the ring is added to the cell instead, so the summary
 * stays exact whatever is lost from the trace.
 *
 * A driver call made directly by a runtime call of the same class (cudaLaunchKernel enters the
 * exported cuLaunchKernel) is the same operation: it only marks the runtime's frame and is counted
 * as inner. So is a call of the same layer and kind that is made inside of another one: a library
 * that is interposed (LD_PRELOAD) exports the same function and passes the call on, possibly by
 * another function that does the same (an allocation as managed memory). A call that never returns
 * to its caller (longjmp, exception) is noticed by the stack pointer: open frames lie above the
 * present one.
 */
#ifndef GS_BPF_CALLS_CALL_BPF_H
#define GS_BPF_CALLS_CALL_BPF_H

#include "decide.bpf.h"
#include "mark.bpf.h"
#include "native.bpf.h"
#include "python.bpf.h"
#include "returns.bpf.h"
#include "model/call/inner.h"
#include "model/trace/class.h"
#include "post.bpf.h"
#ifdef GS_WITH_FIRST_CALLS
#include "first.bpf.h"
#endif
#ifdef GS_WITH_GPU_QUEUE
#include "gpu.bpf.h"
#endif

/* --- entry --- */

/* Is this call how the call around it does its work? */
static __always_inline bool is_inner(struct gs_thread *t, __u32 depth, __u32 id)
{
	struct gs_frame *parent;

	if (depth == 0)
		return false;
	parent = &t->frame[(depth - 1) & DEPTH_MASK];
	return gs_call_is_inner(&gs_desc[parent->func & FUNC_MASK], &gs_desc[id & FUNC_MASK],
				parent->func == id, &parent->flags);
}

/* At an entry: is the return address one that a return probe has replaced? Then a probed function
 * has come here by a jump and is still open (uprobe_get_trampoline_vaddr() of
 * kernel/events/uprobes.c). Mostly not asked. */
static __noinline bool return_is_probed(__u64 sp)
{
	unsigned long word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)sp))
		return false;
	return word && word == returns_trampoline();
}

/* Was the call of this frame left by a jump? So is a frame below the stack pointer, and one at the
 * same place of the same function, unless that has jumped to its namesake in another library
 * (another function there was left by a tail call). Then it is counted. */
__noinline int gs_frame_is_stale(struct gs_frame *f, __u64 sp, __u64 cookie)
{
	if (!f || f->sp > sp)
		return 0;
	if (f->sp == sp && (f->func != (cookie & FUNC_MASK) ||
			    (f->jumps && !(cookie & GS_COOKIE_JUMPS)) || return_is_probed(sp)))
		return 0;
	count_loss(gs_desc[f->func & FUNC_MASK].layer, GS_LOSS_UNMATCHED);
	return 1;
}

/* How many of the thread's open frames are not stale. This and what it asks are functions of their
 * own for the verifier, which would otherwise follow what comes after them once for each answer. */
__noinline __u32 gs_frames_left(__u32 slot, __u64 sp, __u64 cookie)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth;

	if (!t)
		return 0;
	depth = t->depth;
	for (int i = 0; i < GS_DEPTH_MAX && depth; i++) {
		if (!gs_frame_is_stale(&t->frame[(depth - 1) & DEPTH_MASK], sp, cookie))
			break;
		depth--;
	}
	return depth;
}

/* Of a collective: each call is sent, though calls are added up, to know which rank arrives last. */
static __always_inline bool sends_arrival(const volatile struct gs_func_desc *d)
{
#ifdef GS_WITH_ARRIVALS
	return gs_config.marks && d->op == GS_CLASS_COLLECTIVE;
#else
	return false;
#endif
}

/* Is the call's work for the GPU added up by stream, or does it say what of it is done? */
static __always_inline bool has_gpu_role(const volatile struct gs_func_desc *d)
{
#ifdef GS_WITH_GPU_QUEUE
	return gs_config.gpu_queue && d->gpu;
#else
	return false;
#endif
}

static __always_inline void save_arguments(struct pt_regs *ctx, struct gs_frame *f,
					   const volatile struct gs_func_desc *d)
{
	f->v[0] = ctx->di;
	f->v[1] = ctx->si;
	f->v[2] = ctx->dx;
	f->v[3] = ctx->cx;
	f->v[4] = ctx->r8;
	f->v[5] = ctx->r9;
	/* A read of user memory costs as much as all else here: only what is used, and in
	 * summaries only where the bytes are counted from the stack. */
	if (!d->n_stack)
		return;
	if (d->n_stack & GS_V_LOW) {
		for (int i = 0; i < GS_V_STACK; i++)
			if (d->n_stack & 1 << i)
				f->v[i] &= 0xffffffff;
		return;
	}
	if (!gs_config.events && d->layer != GS_LAYER_MPI && !sends_arrival(d) &&
	    !has_gpu_role(d) && d->post != GS_POST_COMM_INIT &&
	    (d->v_bytes < GS_V_STACK || d->v_bytes >= GS_V_NONE) &&
	    (d->v_bytes2 < GS_V_STACK || d->v_bytes2 >= GS_V_NONE))
		return;
	if (d->n_stack <= 3) {
		if (bpf_probe_read_user(&f->v[GS_V_STACK], 24, (void *)(ctx->sp + 8)))
			f->flags |= GS_CALL_ARGS_UNREAD;
	} else if (bpf_probe_read_user(&f->v[GS_V_STACK], 56, (void *)(ctx->sp + 8))) {
		f->flags |= GS_CALL_ARGS_UNREAD;
	}
}

/* A function whose end is not seen may have jumped to its namesake in another library (an
 * interposed one): then it is this call, which is counted where it is now. */
static __always_inline bool untimed_was_passed_on(struct pt_regs *ctx, struct gs_thread *t,
						  __u32 slot, __u32 id)
{
	bool passed_on =
		t->untimed_id == id && t->untimed_sp == ctx->sp && t->untimed_ip != ctx->ip;
	struct gs_kernel_state *s = state_get();
	struct gs_cell *c;

	t->untimed_id = 0;
	if (!passed_on || !s)
		return false;
	c = cell_get(t, slot, id);
	if (c)
		c->calls--;
	__sync_fetch_and_add(
		&s->lost[gs_desc[id & FUNC_MASK].layer & (GS_LAYER_MAX - 1)][GS_LOSS_UNTIMED], -1);
	return true;
}

/* A call whose end is not seen. passed_on: a jump led here. */
static __always_inline void untimed_count(struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
					  __u32 id, bool passed_on)
{
	struct gs_cell *c = cell_get(t, slot, id);

	if (c)
		c->calls++;
	count_loss(gs_desc[id & FUNC_MASK].layer, GS_LOSS_UNTIMED);
	if (passed_on)
		return;
	t->untimed_id = id;
	t->untimed_sp = ctx->sp;
	t->untimed_ip = ctx->ip;
}

/* A call of a function that was not chosen: what its probe costs is known by it. Where there is no cell
 * left, nothing that was asked for is lost. */
static __always_inline void watched_count(struct gs_thread *t, __u32 slot, __u64 cookie)
{
	struct gs_cell *c = cell_find(t, slot, cookie & FUNC_MASK);

	if (!c)
		return;
	c->watched++;
	if (cookie & GS_COOKIE_STEPPED)
		c->watched_stepped++;
}

/* One event into the ring; false when there was no room. */
static __always_inline bool send_call(struct gs_thread *t, __u32 slot, struct gs_frame *f,
				      const volatile struct gs_func_desc *d, __u32 depth,
				      struct gs_outcome *o)
{
	__u32 py_stack = py_stack_at_call(slot, d->op);
	struct gs_event_call *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	struct gs_scope *scope;

	if (!e)
		return false;
	e->head.kind = GS_EV_CALL;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->start_ns = o->now_ns - o->dur_ns;
	e->dur_ns = o->dur_ns;
	e->pid = t->pid;
	e->tid = t->tid;
	e->ret = o->ret;
	e->func = o->id;
	e->cpu = bpf_get_smp_processor_id();
	e->depth = depth;
	e->scope = scope_around(t, slot, f->sp, &scope) ? scope->func : 0;
	e->py_stack = py_stack;
	e->native_stack = o->native_stack;
	e->aux = gs_args_word(f, d->v_aux);
	e->bytes = o->bytes;
	e->stream = gs_args_word(f, d->v_stream);
	e->arg[0] = gs_args_word(f, d->v_arg[0]);
	e->arg[1] = gs_args_word(f, d->v_arg[1]);
	e->arg[2] = gs_args_word(f, d->v_arg[2]);
	e->arg[3] = gs_args_word(f, d->v_arg[3]);
	fill_post(e, f, d, o);
	e->flags = f->flags | o->flags;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return true;
}

/* Of a call that was added up: what of its work for the GPU is to be sent. */
static __always_inline void send_gpu_call(struct gs_thread *t, __u32 slot, struct gs_frame *f,
					  const volatile struct gs_func_desc *d, __u32 depth,
					  struct gs_outcome *o)
{
#ifdef GS_WITH_GPU_QUEUE
	int fate = gs_gpu_take(f, o, slot);

	if (fate == GPU_ADDED)
		return;
	if (fate == GPU_SAMPLE)
		o->flags |= GS_CALL_ADDED_UP;
	if (!send_call(t, slot, f, d, depth, o))
		count_loss(d->layer, GS_LOSS_NOTICE);
#endif
}

#ifdef GS_WITH_FIRST_CALLS
/* A call that is left alone. Whether it succeeds is not known, so its bytes are in no sum. */
static __always_inline void first_count(struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
					struct gs_frame *f, const volatile struct gs_func_desc *d,
					__u32 depth, __u32 id)
{
	struct gs_outcome o = {
		.now_ns = bpf_ktime_get_ns(), .id = id, .pid = t->pid, .flags = GS_CALL_UNTIMED};
	bool is_launch = d->op == GS_CLASS_LAUNCH || d->op == GS_CLASS_GRAPH_LAUNCH;
	struct gs_cell *c;

	count_loss(d->layer, GS_LOSS_FIRST);
	first_remember(ctx, &t->first, id, first_function(d, f, id));
	if (gs_config.py_func && is_launch)
		gs_launch_add(slot, f->sp);
	if (gs_config.events && mode_of(id) == GS_MODE_EVENTS && !gs_config.min_dur_ns) {
		call_bytes(f, d, &o);
		if (gs_config.native_stack_at)
			o.native_stack = native_at_return(ctx, d->layer, d->op, true);
		if (send_call(t, slot, f, d, depth, &o))
			return;
		count_loss(d->layer, GS_LOSS_RING_FULL);
	}
	c = cell_get(t, slot, id);
	if (c)
		c->calls++;
	mark_call(t, slot, c, &o, mark_counts(d));
	if (gs_config.scopes)
		gs_use_add(slot, f->sp, d->op, 0, 0);
	if (!has_gpu_role(d))
		return;
	f->start_ns = o.now_ns;
	call_bytes(f, d, &o);
	send_gpu_call(t, slot, f, d, depth, &o);
}
#endif

/* Opens a frame. True when it did: *ret_place then names it for call_leave(). first: a constant, true
 * in the one program that can leave single calls alone; in the others that code is not even there. */
static __always_inline bool call_enter(struct pt_regs *ctx, __u64 *ret_place, bool first)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 id = cookie & FUNC_MASK, depth, slot;
	const volatile struct gs_func_desc *d = &gs_desc[id];
	struct gs_kernel_state *s = state_get();
	struct gs_thread *t;
	struct gs_frame *f;

	if (!s || s->stopped)
		return false;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(s, d->layer, &slot);
	if (!t || turn_skips(t, cookie))
		return false;
#ifdef GS_WITH_FIRST_CALLS
	if (first && gs_config.first_calls) {
		if (t->first.id && first_goes_on(ctx, t, slot, id))
			return false;
		if (d->post >= GS_POST_SET_DEVICE)
			gs_first_again(slot, id, (__u32)ctx->di);
	}
#endif
	if (cookie & GS_COOKIE_WATCHED) {
		watched_count(t, slot, cookie);
		return false;
	}
	if (cookie & GS_COOKIE_STEPPED)
		gs_step_add(slot, id, d->layer, false);
	depth = t->depth;
	if (depth) {
		depth = gs_frames_left(slot, ctx->sp, cookie);
		if (is_inner(t, depth, id)) {
			struct gs_cell *c = cell_find(t, slot, id);

			if (c)
				c->inner++;
			t->depth = depth;
			return false;
		}
	}
	if (t->untimed_id || cookie & GS_COOKIE_NO_END) {
		bool passed_on = untimed_was_passed_on(ctx, t, slot, id);

		if (cookie & GS_COOKIE_NO_END) {
			untimed_count(ctx, t, slot, id, passed_on);
			t->depth = depth;
			return false;
		}
	}
	if (gs_config.modes && mode_skips(mode_of(id))) {
		struct gs_cell *c = cell_get(t, slot, id);

		if (c)
			c->skipped++;
		t->depth = depth;
		return false;
	}
	if (depth >= GS_DEPTH_MAX) {
		count_loss(d->layer, GS_LOSS_TOO_DEEP);
		return false;
	}
	f = &t->frame[depth & DEPTH_MASK];
	f->sp = ctx->sp;
	f->func = id;
	f->flags = 0;
	f->jumps = !!(cookie & GS_COOKIE_JUMPS);
	f->abi = cookie >> GS_COOKIE_MPI_SHIFT & GS_COOKIE_MPI_MASK;
	f->inside = d->inside;
	save_arguments(ctx, f, d);
#ifdef GS_WITH_FIRST_CALLS
	if (first && gs_config.first_calls && !(cookie & GS_COOKIE_BY_EXITS) &&
	    first_is_due(t, s, slot, first_layer(d), first_function(d, f, id))) {
		first_count(ctx, t, slot, f, d, depth, id);
		t->depth = depth;
		return false;
	}
#endif
	t->depth = depth + 1;
	*ret_place = slot | (__u64)depth << 16 | (__u64)id << 32;
	f->start_ns = bpf_ktime_get_ns();
	return true;
}

/* --- return --- */

/* Closes frame number depth of the thread and accounts for the call. */
static __always_inline void call_close(struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
				       __u32 depth, __u32 id, __u64 now, bool first)
{
	struct gs_frame *f = &t->frame[depth & DEPTH_MASK];
	const volatile struct gs_func_desc *d = &gs_desc[id & FUNC_MASK];
	struct gs_outcome o = {.now_ns = now, .dur_ns = now - f->start_ns, .id = id, .pid = t->pid};
	struct gs_cell *c;

	t->depth = depth;
	mark_cover(t, o.dur_ns);
	if (!depth)
		account_call(t, slot, d->inside, o.dur_ns);
	o.ret = (__s32)ctx->ax;
	o.failed = o.ret && o.ret != d->not_error;
	if (d->v_bytes != GS_V_NONE || d->post == GS_POST_COPY3D_RT ||
	    d->post == GS_POST_COPY2D_DRV || d->post == GS_POST_COPY3D_DRV)
		call_bytes(f, d, &o);
#ifdef GS_WITH_FIRST_CALLS
	if (first && gs_config.first_calls)
		first_learn(t, slot, f, d, id, o.failed);
#endif
	if (gs_config.py_func && !o.failed &&
	    (d->op == GS_CLASS_LAUNCH || d->op == GS_CLASS_GRAPH_LAUNCH))
		gs_launch_add(slot, f->sp);
	if (gs_config.events) {
		if (mode_of(id) != GS_MODE_EVENTS) {
			count_loss(d->layer, GS_LOSS_THINNED);
		} else if (o.dur_ns < gs_config.min_dur_ns) {
			count_loss(d->layer, GS_LOSS_SHORT);
		} else {
			if (gs_config.native_stack_at)
				o.native_stack =
					native_at_return(ctx, d->layer, d->op, ctx->sp == f->sp);
			if (send_call(t, slot, f, d, depth, &o))
				return;
			count_loss(d->layer, GS_LOSS_RING_FULL);
		}
	}
	c = cell_get(t, slot, id);
	gs_call_add(c, &o);
	mark_call(t, slot, c, &o, mark_counts(d));
	if (gs_config.scopes)
		gs_use_add(slot, f->sp, d->op, o.dur_ns, o.failed ? 0 : o.bytes);
	if (has_gpu_role(d))
		send_gpu_call(t, slot, f, d, depth, &o);
	if (!sends_arrival(d))
		return;
	o.flags |= GS_CALL_ADDED_UP;
	if (!send_call(t, slot, f, d, depth, &o))
		count_loss(d->layer, GS_LOSS_NOTICE);
}

/* A return caught by a session link: place is what call_enter() left in the link's cookie. Returns
 * the thread when the call was closed. */
static __always_inline struct gs_thread *call_leave(struct pt_regs *ctx, __u64 place, bool first)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = place & 0xffff, depth = place >> 16 & 0xffff, id = place >> 32 & FUNC_MASK;
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();

	if (!t || !s || s->stopped)
		return NULL;
	if (depth >= t->depth || t->frame[depth & DEPTH_MASK].func != id) {
		count_loss(gs_desc[id].layer, GS_LOSS_UNMATCHED);
		return NULL;
	}
	call_close(ctx, t, slot, depth, id, now, first);
	return t;
}

/* The number of the thread's frame that a function opened with this stack pointer; GS_DEPTH_MAX
 * when there is none. */
static __always_inline __u32 frame_of(struct gs_thread *t, __u64 sp, __u32 id)
{
	__u32 depth = t->depth;

	for (int i = 0; i < GS_DEPTH_MAX; i++) {
		struct gs_frame *f;

		if (depth == 0)
			break;
		depth--;
		f = &t->frame[depth & DEPTH_MASK];
		/* A call around this one: this one was inner, or too deep, and has no frame. */
		if (f->sp > sp)
			break;
		if (f->sp == sp && (f->func == id || f->jumps))
			return depth;
	}
	return GS_DEPTH_MAX;
}

/* A return caught by a probe of its own: the frame is the one that was opened with the same stack
 * pointer. */
static __always_inline struct gs_thread *call_leave_at(struct pt_regs *ctx, __u64 sp,
						       __u32 *ret_depth, bool first)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 id = bpf_get_attach_cookie(ctx) & FUNC_MASK, slot, depth;
	struct gs_kernel_state *s = state_get();
	struct gs_task_mark *m = mark_get(false);
	struct gs_thread *t;

	if (!m || !m->slot || !s || s->stopped)
		return NULL;
	slot = m->slot;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (!t)
		return NULL;
	depth = frame_of(t, sp, id);
	if (depth >= GS_DEPTH_MAX)
		return NULL;
	/* Else the compiler, which knows the bound, leaves out the mask that the verifier needs. */
	asm volatile("" : "+r"(depth));
	/* It may be that of a function that has jumped to this one. */
	id = t->frame[depth & DEPTH_MASK].func;
	call_close(ctx, t, slot, depth, id, now, first);
	*ret_depth = depth;
	return t;
}

/* By a return probe: the return address is gone. */
static __always_inline struct gs_thread *call_leave_unpaired(struct pt_regs *ctx, __u32 *ret_depth)
{
	return call_leave_at(ctx, ctx->sp - 8, ret_depth, false);
}

/* The ret is single-stepped, also of a call that has no frame. */
static __always_inline void call_step_exit(__u64 cookie)
{
	__u32 id = cookie & FUNC_MASK, slot;
	struct gs_kernel_state *s = state_get();
	struct gs_task_mark *m;
	struct gs_thread *t;

	if (!(cookie & GS_COOKIE_STEPPED) || !s || s->stopped)
		return;
	m = mark_get(false);
	if (!m || !m->slot)
		return;
	slot = m->slot;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (t && !turn_skips(t, cookie))
		gs_step_add(slot, id, gs_desc[id].layer, true);
}

/* By a probe on the ret. */
static __always_inline struct gs_thread *call_leave_by_ret(struct pt_regs *ctx, __u32 *ret_depth,
							   bool first)
{
	call_step_exit(bpf_get_attach_cookie(ctx));
	return call_leave_at(ctx, ctx->sp, ret_depth, first);
}

static __always_inline bool call_has_exits(struct pt_regs *ctx)
{
	return bpf_get_attach_cookie(ctx) & GS_COOKIE_BY_EXITS;
}

static __always_inline bool call_is_exit(struct pt_regs *ctx)
{
	return bpf_get_attach_cookie(ctx) & GS_COOKIE_EXIT;
}

#endif
