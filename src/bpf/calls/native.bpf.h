/*
 * Native stacks: registers and the upper part of the stack are copied into the ring, and user space
 * unwinds them by the tables that compilers write for exceptions (.eh_frame). That is right for
 * code without frame pointers, where a walk in the kernel is not. What the copy is too short for
 * is found by frame pointers: they are followed here, and user space
 * believes each of them only where the tables say that the code there keeps one.
 *
 * Of return addresses that return probes have replaced, the kernel's list says what stood there.
 */
#ifndef GS_BPF_CALLS_NATIVE_BPF_H
#define GS_BPF_CALLS_NATIVE_BPF_H

#include "returns.bpf.h"
#include "stack.bpf.h"

/* What calls preserve, and where the thread is. */
struct native_regs {
	__u64 ip, sp, bp, bx, r12, r13, r14, r15;
};

#define NATIVE_GAP_MAX (4u << 20) /* between two frame pointers: larger is no stack */

static __always_inline __u32 native_returns(struct gs_event_stack_bytes *e)
{
	struct return_instance *ri = returns_first();
	__u32 n = 0;

	for (int i = 0; i < GS_NATIVE_RETURNS && ri; i++) {
		e->returns[i].at = BPF_CORE_READ(ri, stack);
		e->returns[i].value = BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
		n = i + 1;
	}
	return n;
}

/* Frame pointers from bp upward. */
static __always_inline __u32 native_links(struct gs_event_stack_bytes *e)
{
	struct gs_native_word pair;
	__u64 low = e->sp, fp = e->bp;
	__u32 n = 0;

	for (int i = 0; i < GS_NATIVE_LINKS; i++) {
		if (fp < low || fp - low > NATIVE_GAP_MAX || fp & 7)
			break;
		/* at: the next frame pointer; value: the return address above it. */
		if (bpf_probe_read_user(&pair, sizeof(pair), (void *)fp))
			break;
		e->links[i].at = fp;
		e->links[i].value = pair.value;
		n = i + 1;
		low = fp + 16;
		fp = pair.at;
	}
	return n;
}

/* Whole when it can be had at once; else up to the first unit that is not there (the end of the
 * stack's mapping). */
static __always_inline __u32 native_bytes(struct gs_event_stack_bytes *e)
{
	__u32 n = 0;

	if (bpf_probe_read_user(e->bytes, gs_config.native_units * GS_STACK_UNIT, (void *)e->sp) ==
	    0)
		return gs_config.native_units * GS_STACK_UNIT;
	for (int i = 0; i < 128; i++) {
		if (i >= gs_config.native_units ||
		    bpf_probe_read_user(e->bytes + i * GS_STACK_UNIT, GS_STACK_UNIT,
					(void *)(e->sp + i * GS_STACK_UNIT)))
			break;
		n = (i + 1) * GS_STACK_UNIT;
	}
	/* The stack's mapping ends at a page, the unit does not: the rest word by word. */
	if (n < gs_config.native_units * GS_STACK_UNIT)
		for (int i = 0; i < GS_STACK_UNIT / 8; i++) {
			if (n > gs_config.native_units * GS_STACK_UNIT - 8 ||
			    n > 127 * GS_STACK_UNIT ||
			    bpf_probe_read_user(e->bytes + n, 8, (void *)(e->sp + n)))
				break;
			n += 8;
		}
	return n;
}

/* Sends the present thread's stack; the id of the capture, 0 when it could not be. regs: its
 * registers; after_call: they are those of a return (the probe of a function's end). Not static:
 * the verifier looks at it once, whatever calls it. */
__noinline __u32 native_send(const struct native_regs *regs, __u32 layer, __u32 after_call)
{
	struct gs_kernel_state *s = state_get();
	struct gs_event_stack_bytes *e;
	__u64 *lost, id = current_ids();

	if (!s || !regs || !gs_config.native_units)
		return 0;
	lost = &s->lost[layer & (GS_LAYER_MAX - 1)][GS_LOSS_STACK];
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e) + gs_config.native_units * GS_STACK_UNIT, 0);
	if (!e) {
		__sync_fetch_and_add(lost, 1);
		return 0;
	}
	e->head.kind = GS_EV_STACK_BYTES;
	e->head.bytes = sizeof(*e) + gs_config.native_units * GS_STACK_UNIT;
	e->head.pad = 0;
	e->time_ns = bpf_ktime_get_ns();
	e->pid = id >> 32;
	e->tid = (__u32)id;
	e->id = __sync_fetch_and_add(&s->n_native, 1) + 1;
	if (!e->id)
		e->id = __sync_fetch_and_add(&s->n_native, 1) + 1;
	e->ip = regs->ip;
	e->sp = regs->sp;
	e->bp = regs->bp;
	e->bx = regs->bx;
	e->r12 = regs->r12;
	e->r13 = regs->r13;
	e->r14 = regs->r14;
	e->r15 = regs->r15;
	e->after_call = after_call & 1;
	e->pad[0] = e->pad[1] = e->pad[2] = 0;
	e->n_bytes = native_bytes(e);
	e->n_returns = native_returns(e);
	e->n_links = native_links(e);
	id = e->id;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return id;
}

static __always_inline void native_take_regs(struct native_regs *to, const struct pt_regs *from)
{
	to->ip = from->ip;
	to->sp = from->sp;
	to->bp = from->bp;
	to->bx = from->bx;
	to->r12 = from->r12;
	to->r13 = from->r13;
	to->r14 = from->r14;
	to->r15 = from->r15;
}

/* Registers at a ret become those that it leaves. */
static __always_inline bool native_after_ret(struct native_regs *regs)
{
	if (bpf_probe_read_user(&regs->ip, sizeof(regs->ip), (void *)regs->sp))
		return false;
	regs->sp += 8;
	return true;
}

/* The stack at the end of a call whose event is about to be sent. before_ret: at the ret, which is
 * still to be made. */
static __always_inline __u32 native_at_return(struct pt_regs *ctx, __u32 layer, __u32 op,
					      bool before_ret)
{
	struct native_regs regs;

	if (!(gs_config.native_stack_at & stack_at_of(op)))
		return 0;
	native_take_regs(&regs, ctx);
	if (before_ret && !native_after_ret(&regs))
		return 0;
	return native_send(&regs, layer, 1);
}

#endif
