/*
 * Names of kernels that programs ask for. A launch by the driver has a handle; which kernel that is, is known
 * when the program gets it by the kernel's name. The text is sent as that call begins, since of a
 * first call the end is not seen. It may lie in a page of a library that the program has not touched yet, and
 * a probe cannot wait for it: then it is sent at the call's end, when the driver has read it. A program may
 * also ask for the name of a kernel that it has (cuFuncGetName): that is there at the end.
 */
#ifndef GS_BPF_CALLS_KERNEL_NAME_BPF_H
#define GS_BPF_CALLS_KERNEL_NAME_BPF_H

#include "decide.bpf.h"

/* A function of its own for the verifier. from: where the name lies. */
__noinline int gs_kernel_send(__u64 from, __u32 id)
{
	struct gs_kernel_state *s = state_get();
	struct gs_event_kernel *e;
	struct gs_thread *t;
	__u32 slot;

	if (!s || s->stopped)
		return 0;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(s, GS_LAYER_CUDA_DRIVER, &slot);
	if (!t)
		return 0;
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	if (!e) {
		count_loss(GS_LAYER_CUDA_DRIVER, GS_LOSS_NOTICE);
		return 0;
	}
	e->head.kind = GS_EV_KERNEL;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->pid = t->pid;
	e->tid = t->tid;
	e->func = id;
	e->pad = 0;
	t->name_unread = bpf_probe_read_user_str(e->name, sizeof(e->name), (void *)from) <= 0;
	if (t->name_unread)
		e->name[0] = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* At the entry of each call of CUDA: mostly one comparison. */
static __always_inline void kernel_note(struct pt_regs *ctx)
{
	__u32 id = bpf_get_attach_cookie(ctx) & FUNC_MASK;

	if ((gs_config.events || gs_config.gpu_queue) && gs_desc[id].post == GS_POST_KERNEL_NAME)
		gs_kernel_send(ctx->dx, id);
}

/* Where the name lies at the end of the call that is open; 0: nothing is to be sent. Likewise a function of its
 * own, which does not send it itself: before Linux 6.13 all stacks of a chain of calls share 512 bytes. */
__noinline __u64 gs_kernel_again(__u32 id)
{
	bool is_said = gs_desc[id & FUNC_MASK].post == GS_POST_KERNEL_SAID;
	struct gs_frame *f;
	struct gs_thread *t;
	__u64 from = 0;
	__u32 slot;

	t = thread_same(&slot);
	if (!t || !t->depth || !(t->name_unread || is_said))
		return 0;
	f = &t->frame[(t->depth - 1) & DEPTH_MASK];
	if (f->func != id)
		return 0;
	if (!is_said)
		from = f->v[2];
	else if (bpf_probe_read_user(&from, sizeof(from), (void *)f->v[0]))
		return 0;
	return from;
}

/* At the end of each call of CUDA, before that is sent. id: with what else a cookie has. */
static __always_inline void kernel_note_end(__u32 id)
{
	__u32 func = id & FUNC_MASK, post = gs_desc[func].post;
	bool may = (gs_config.events || gs_config.gpu_queue) &&
		   (post == GS_POST_KERNEL_NAME || post == GS_POST_KERNEL_SAID);
	__u64 from = may ? gs_kernel_again(func) : 0;

	if (from)
		gs_kernel_send(from, func);
}

#endif
