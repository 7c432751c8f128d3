/*
 * Native stacks: registers and the upper part of the stack are copied into the ring, and user space
 * unwinds them by the tables that compilers write for exceptions (.eh_frame). That is right for
 * code without frame pointers, where a walk in the kernel is not. What the copy is too short for
 * is found by frame pointers: they are followed here, from where the copy ends, and user space
 * believes each of them only where the tables say that the code there keeps one.
 *
 * Return probes replace return addresses on the stack by the address of the kernel's trampoline.
 * The kernel knows what stood there (struct return_instance, kernel/events/uprobes.c); those of
 * other tracers are among them.
 */
#ifndef GS_BPF_NATIVE_H
#define GS_BPF_NATIVE_H

#include "thread.bpf.h"
#include "model/class.h"

struct return_instance {
	unsigned long stack; /* of the stack pointer at the function's entry */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} GS_CORE;

struct uprobe_task {
	struct return_instance *return_instances;
} GS_CORE;

struct task_struct___probed {
	struct uprobe_task *utask;
} GS_CORE;

#define NATIVE_GAP_MAX (4u << 20) /* between two frame pointers: larger is no stack */

/* When a stack is taken of a call of this class: enum gs_stack_at, 0 never. */
static __always_inline __u32 stack_at_class(__u32 op)
{
	switch (op) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
		return GS_AT_LAUNCH;
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		return GS_AT_COLLECTIVE;
	case GS_CLASS_ALLOC:
	case GS_CLASS_FREE:
		return GS_AT_ALLOC;
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
		return GS_AT_COPY;
	case GS_CLASS_SYNC:
		return GS_AT_SYNC;
	}
	return 0;
}

static __always_inline __u32 native_returns(struct gs_event_stack_bytes *e)
{
	struct task_struct___probed *task = (void *)bpf_get_current_task();
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);
	__u32 n = 0;

	for (int i = 0; i < GS_NATIVE_RETURNS && ri; i++) {
		e->returns[i].at = BPF_CORE_READ(ri, stack);
		e->returns[i].value = BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
		n = i + 1;
	}
	return n;
}

/* Frame pointers from bp upward; those that lie in the copied bytes are only followed. */
static __always_inline __u32 native_links(struct gs_event_stack_bytes *e, __u64 fp, __u64 copy_end)
{
	struct gs_native_word pair;
	__u64 low = e->sp;
	__u32 n = 0;

	for (int i = 0; i < 2 * GS_NATIVE_LINKS; i++) {
		if (fp < low || fp - low > NATIVE_GAP_MAX || fp & 7 || n >= GS_NATIVE_LINKS)
			break;
		/* at: the next frame pointer; value: the return address above it. */
		if (bpf_probe_read_user(&pair, sizeof(pair), (void *)fp))
			break;
		if (fp + 16 > copy_end) {
			e->links[n].at = fp;
			e->links[n].value = pair.value;
			n++;
		}
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

/* Sends the present thread's stack; the id of the capture, 0 when it could not be. from: its
 * registers; after_call: they are those of a return (the probe of a function's end). Not static:
 * the verifier looks at it once, whatever calls it. */
__noinline __u32 native_send(__u64 from, __u32 layer, __u32 after_call)
{
	struct gs_kernel_state *s = state_get();
	struct gs_event_stack_bytes *e;
	struct pt_regs r = {};
	__u64 id = bpf_get_current_pid_tgid();

	if (!s || !gs_config.native_units)
		return 0;
	if (bpf_probe_read_kernel(&r, sizeof(r), (void *)from)) {
		lose(layer, GS_LOSS_STACK);
		return 0;
	}
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e) + gs_config.native_units * GS_STACK_UNIT, 0);
	if (!e) {
		lose(layer, GS_LOSS_STACK);
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
	e->ip = r.ip;
	e->sp = r.sp;
	e->bp = r.bp;
	e->bx = r.bx;
	e->r12 = r.r12;
	e->r13 = r.r13;
	e->r14 = r.r14;
	e->r15 = r.r15;
	e->after_call = after_call & 1;
	e->pad[0] = e->pad[1] = e->pad[2] = 0;
	e->n_bytes = native_bytes(e);
	e->n_returns = native_returns(e);
	e->n_links = native_links(e, r.bp, r.sp + e->n_bytes);
	id = e->id;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return id;
}

/* The stack at the end of a call whose event is about to be sent. */
static __always_inline __u32 native_at_return(struct pt_regs *ctx, __u32 layer, __u32 op)
{
	if (!(gs_config.native_stack_at & stack_at_class(op)))
		return 0;
	return native_send((__u64)ctx, layer, 1);
}

#endif
