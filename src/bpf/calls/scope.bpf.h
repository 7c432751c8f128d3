/*
 * The engine of the layers above CUDA: operators, Python functions, probes of the user. Like
 * call.bpf.h, but lighter: there are no arguments to keep, so an open one is three words in the
 * thread's stack of scopes. Its end sends one event or adds to the thread's cell of the function.
 *
 * One that never returns to its caller is noticed by the stack pointer, as in call.bpf.h: it is
 * dropped and counted as unmatched when the next scope opens. One that was left by a C++ exception
 * is known to be (unwind.bpf.c) and ends as failed.
 *
 * Ends are not caught by return probes. These replace the return address on the stack, where the
 * C++ unwinder then takes it for the end of the stack and terminates the program: a return probe
 * kills every program that throws through the function. So probes stand on the instructions by
 * which the function is left for good, some ns before its ret (src/sources/x86/exit.h). Functions
 * that never throw may use either.
 */
#ifndef GS_BPF_CALLS_SCOPE_BPF_H
#define GS_BPF_CALLS_SCOPE_BPF_H

#include "mark.bpf.h"
#include "native.bpf.h"
#include "python.bpf.h"

#define SCOPE_OF_FRAME 2 /* in resumed: a described call's, which reports itself */

#define SCOPE_THREW 1 /* the result of a scope that an exception has left */

/* A Python function: its id is a number that was given during the run. */
static __always_inline bool is_pyfunc(__u32 id)
{
	return gs_config.py_func && id >= GS_FUNC_MAX;
}

/* What a Python function was busy with itself. */
static __always_inline __u64 self_ns(const struct gs_scope *s, __u64 dur_ns)
{
	return dur_ns > s->inside_ns ? dur_ns - s->inside_ns : 0;
}

static __always_inline bool scope_send(struct gs_thread *t, __u32 slot, const struct gs_scope *s,
				       __u32 depth, const struct gs_outcome *o)
{
	__u32 py_stack = is_pyfunc(s->func) ? 0 : py_stack_at_scope(slot, o->dur_ns);
	struct gs_event_call *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e)
		return false;
	__builtin_memset(e, 0, sizeof(*e));
	e->head.kind = GS_EV_CALL;
	e->head.bytes = sizeof(*e);
	e->start_ns = s->start_ns;
	e->dur_ns = o->dur_ns;
	e->pid = t->pid;
	e->tid = t->tid;
	e->ret = o->ret;
	e->func = s->func;
	e->cpu = bpf_get_smp_processor_id();
	e->depth = depth;
	e->scope = depth ? t->scope[(depth - 1) & SCOPE_MASK].func : 0;
	e->py_stack = py_stack;
	e->native_stack = o->native_stack;
	if (is_pyfunc(s->func)) {
		e->arg[0] = self_ns(s, o->dur_ns);
		e->arg[1] = s->launches;
		e->flags = s->resumed ? GS_CALL_RESUMED : 0;
	}
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return true;
}

/* The native stack at a scope's end, where one is asked for there; the probe stands inside of the
 * function, so its frame is the innermost one. */
static __always_inline __u32 native_at_scope(const struct pt_regs *ctx, __u32 layer, __u64 dur_ns)
{
	struct native_regs regs;

	if (!(gs_config.native_stack_at & GS_AT_SLOW_SCOPE) || dur_ns < gs_config.slow_scope_ns)
		return 0;
	native_take_regs(&regs, ctx);
	return native_send(&regs, layer, 0);
}

/* Ends scope number depth of the thread, and with it those inside that are still open. ctx: at the
 * end of the function; NULL when its frame is gone already. */
static __always_inline void scope_close(const struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
					__u32 depth, __u64 now, __s32 ret)
{
	struct gs_scope *s = &t->scope[depth & SCOPE_MASK];
	struct gs_outcome o = {.now_ns = now,
			       .dur_ns = now - s->start_ns,
			       .ret = ret,
			       .failed = ret,
			       .id = s->func};

	struct gs_cell *c;

	t->scope_depth = depth;
	scope_settle(t, depth, o.dur_ns);
	account_scope(t, slot, s, depth, o.dur_ns);
	mark_cover(t, o.dur_ns);
	if (gs_config.events) {
		if (mode_of(s->func) != GS_MODE_EVENTS) {
			count_loss(s->layer, GS_LOSS_THINNED);
		} else if (o.dur_ns < gs_config.min_dur_ns) {
			count_loss(s->layer, GS_LOSS_SHORT);
		} else {
			if (ctx && !is_pyfunc(s->func))
				o.native_stack = native_at_scope(ctx, s->layer, o.dur_ns);
			if (scope_send(t, slot, s, depth, &o))
				return;
			count_loss(s->layer, GS_LOSS_RING_FULL);
		}
	}
	c = scope_cell(slot, s);
	gs_call_add(c, &o);
	if (!is_pyfunc(s->func))
		mark_call(t, slot, c, &o, s->layer == GS_LAYER_TORCH);
	if (c && is_pyfunc(s->func)) {
		c->py.self_ns += self_ns(s, o.dur_ns);
		c->py.launches += s->launches;
		c->py.resumes += s->resumed;
	}
}

/* Was this scope left by a jump? Then it is counted. */
__noinline int gs_scope_is_stale(struct gs_scope *s, __u64 sp, __u32 id)
{
	if (!s || s->sp > sp ||
	    (s->sp == sp && s->func != id && !(is_pyfunc(s->func) && is_pyfunc(id))))
		return 0;
	if (s->resumed != SCOPE_OF_FRAME)
		count_loss(s->layer, GS_LOSS_UNMATCHED);
	return 1;
}

/* How many of the thread's open scopes are not stale: scope_drop_stale(). This and what it asks are
 * functions of their own for the verifier, which would otherwise walk what follows for each of their
 * ends. */
__noinline int gs_scope_trim(__u32 slot, __u64 sp, __u32 id)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth = t ? t->scope_depth : 0;

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++) {
		if (!gs_scope_is_stale(&t->scope[(depth - 1) & SCOPE_MASK], sp, id))
			break;
		depth--;
	}
	return depth;
}

/* Scopes below the present stack pointer were left by a jump; so was one at the same place of the
 * same function (another function there was left by a tail call). Python functions are all run by
 * one function. */
static __always_inline __u32 scope_drop_stale(struct gs_thread *t, __u32 slot, __u32 depth,
					      __u64 sp, __u32 id)
{
	/* Mostly there is none. */
	if (!depth || t->scope[(depth - 1) & SCOPE_MASK].sp > sp)
		return depth;
	return gs_scope_trim(slot, sp, id) & 0xff;
}

/* A call that is only counted. */
__noinline int gs_scope_skip(__u32 slot, __u32 id, __u32 layer, __u32 refused)
{
	__u32 idx = dynamic_cell_find(slot, id, layer);
	struct gs_cell *c = bpf_map_lookup_elem(&gs_cells, &idx);

	if (!c || !idx)
		return 0;
	if (refused)
		c->refused++;
	else
		c->skipped++;
	return 0;
}

/* A call of a Python function that finds no room in the stack of scopes: counted all the same. */
__noinline int gs_scope_untimed(__u32 slot, __u32 id, __u32 layer)
{
	__u32 idx = dynamic_cell_find(slot, id, layer);
	struct gs_cell *c = bpf_map_lookup_elem(&gs_cells, &idx);

	if (c && idx)
		c->calls++;
	count_loss(layer, GS_LOSS_UNTIMED);
	return 0;
}

/* Opens a scope of the function for a hit that is this link's (turn_skips()). True when it did:
 * *ret_place, never 0, then names it for scope_leave(). */
static __always_inline bool scope_begin(struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
					__u32 id, __u32 layer, __u64 *ret_place)
{
	__u32 depth = t->scope_depth;
	struct gs_scope *s;

	if (depth)
		depth = scope_drop_stale(t, slot, depth, ctx->sp, id);
	if (gs_config.modes && mode_skips(mode_of(id))) {
		gs_scope_skip(slot, id, layer, false);
		t->scope_depth = depth;
		return false;
	}
	if (depth >= GS_SCOPE_MAX) {
		if (is_pyfunc(id))
			gs_scope_untimed(slot, id, layer);
		else
			count_loss(layer, GS_LOSS_TOO_DEEP);
		return false;
	}
	s = &t->scope[depth & SCOPE_MASK];
	s->sp = ctx->sp;
	s->func = id;
	s->layer = layer;
	s->resumed = 0;
	s->cell = 0;
	s->inside_ns = 0;
	s->launches = 0;
	t->scope_depth = depth + 1;
	*ret_place = slot | (__u64)depth << 16 | (__u64)id << 32;
	s->start_ns = bpf_ktime_get_ns();
	return true;
}

/* The same of the function that the cookie names. */
static __always_inline bool scope_enter(struct pt_regs *ctx, __u64 cookie, __u32 layer,
					__u64 *ret_place)
{
	struct gs_kernel_state *state = state_get();
	struct gs_thread *t;
	__u32 slot;

	if (!state || state->stopped)
		return false;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(state, layer, &slot);
	if (!t || turn_skips(t, cookie))
		return false;
	if (cookie & GS_COOKIE_STEPPED)
		gs_step_add(slot, cookie & (GS_FUNC_MAX - 1), layer, false);
	return scope_begin(ctx, t, slot, cookie & (GS_FUNC_MAX - 1), layer, ret_place);
}

/* A return caught by a session link: place is what scope_enter() left in the link's cookie. */
static __always_inline void scope_leave(__u64 place, __u32 layer)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = place & 0xffff, depth = place >> 16 & 0xffff, id = place >> 32;
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *state = state_get();

	if (!t || !state || state->stopped)
		return;
	if (depth >= t->scope_depth || t->scope[depth & SCOPE_MASK].func != id) {
		count_loss(layer, GS_LOSS_UNMATCHED);
		return;
	}
	scope_close(NULL, t, slot, depth, now, 0);
}

/* The thread's struct, when it has one. */
static __always_inline struct gs_thread *thread_known(__u32 *ret_slot)
{
	struct gs_thread *t = thread_same(ret_slot);
	struct gs_task_mark *m;

	if (t)
		return t;
	m = mark_get(false);
	if (!m || !m->slot)
		return NULL;
	*ret_slot = m->slot;
	return bpf_map_lookup_elem(&gs_threads, ret_slot);
}

/* Ends the innermost scope of the function whose frame holds the stack pointer: it was opened with
 * this one or one up to frame_bytes above. Scopes inside that are still open were left by a jump.
 */
static __always_inline void scope_leave_at(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 id = cookie & (GS_FUNC_MAX - 1), frame_bytes = cookie >> GS_COOKIE_FRAME_SHIFT;
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp;
	struct gs_kernel_state *state = state_get();
	__u32 slot, depth, top;
	struct gs_thread *t;

	if (!state || state->stopped)
		return;
	t = thread_known(&slot);
	if (!t || turn_skips(t, cookie))
		return;
	top = t->scope_depth;
	depth = top;
	for (int i = 0; i < GS_SCOPE_MAX && depth; i++) {
		struct gs_scope *s = &t->scope[(depth - 1) & SCOPE_MASK];

		if (s->sp > sp + frame_bytes)
			return;
		depth--;
		if (s->func == id && s->sp >= sp) {
			if (top > depth + 1)
				count_loss(s->layer, GS_LOSS_UNMATCHED);
			scope_close(ctx, t, slot, depth, now, 0);
			return;
		}
	}
}

#define FLAG_CF 0x1
#define FLAG_PF 0x4
#define FLAG_ZF 0x40
#define FLAG_SF 0x80
#define FLAG_OF 0x800

/* Will a conditional jump with this condition be taken? As check_jmp_cond() of
 * arch/x86/kernel/uprobes.c. */
static __always_inline bool condition_holds(__u64 flags, __u32 cc)
{
	bool less = !!(flags & FLAG_SF) != !!(flags & FLAG_OF), holds = false;

	switch (cc >> 1 & 7) {
	case 0:
		holds = flags & FLAG_OF;
		break;
	case 1:
		holds = flags & FLAG_CF;
		break;
	case 2:
		holds = flags & FLAG_ZF;
		break;
	case 3:
		holds = flags & (FLAG_CF | FLAG_ZF);
		break;
	case 4:
		holds = flags & FLAG_SF;
		break;
	case 5:
		holds = flags & FLAG_PF;
		break;
	case 6:
		holds = less;
		break;
	case 7:
		holds = less || flags & FLAG_ZF;
		break;
	}
	return holds != (cc & 1);
}

/* Is the function left now, at a way out of it? */
static __always_inline bool cookie_leaves(const struct pt_regs *ctx, __u64 cookie)
{
	return (cookie & (GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN)) ==
		       (GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN) ||
	       condition_holds(ctx->flags, cookie >> GS_COOKIE_CC_SHIFT & 15) ==
		       !!(cookie & GS_COOKIE_TAKEN);
}

/* A way out is single-stepped, whether the function is left by it now or not. (While a group is
 * being replaced two links count the same step, for some ms.) */
static __always_inline void scope_step(__u64 cookie, __u32 layer)
{
	__u32 slot;

	if (thread_known(&slot))
		gs_step_add(slot, cookie & (GS_FUNC_MAX - 1), layer, !!(cookie & GS_COOKIE_EXIT));
}

/* A probe on the entry of a function or on a way out of it: the cookie says which. */
static __always_inline void scope_at_site(struct pt_regs *ctx, __u32 layer)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), place;

	if (!(cookie & GS_COOKIE_EXIT)) {
		scope_enter(ctx, cookie, layer, &place);
		return;
	}
	if (cookie & GS_COOKIE_STEPPED)
		scope_step(cookie, layer);
	if (!cookie_leaves(ctx, cookie))
		return;
	scope_leave_at(ctx, cookie);
}

#endif
