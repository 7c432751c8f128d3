/*
 * The timer's samples of native stacks: on each processor, whenever the clock of a perf event has
 * run for the period, the thread that runs there is asked whether it is followed, and its stack is
 * taken.
 */
#include "decide.bpf.h"
#include "native.bpf.h"

struct bpf_perf_event_data_head { /* struct bpf_perf_event_data begins with the registers */
	struct pt_regs regs;
};

/* The registers with which the thread left user space. */
static __always_inline struct pt_regs *user_regs(struct pt_regs *regs)
{
	if ((regs->cs & 3) == 3)
		return regs;
	return (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
}

SEC("?perf_event")
int gs_native_sample(struct bpf_perf_event_data_head *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct gs_kernel_state *s = state_get();
	struct gs_event_sample *e;
	struct gs_thread *t;
	__u32 slot, stack;

	if (!s || s->stopped || !(id >> 32))
		return 0;
	t = thread_find(s, GS_LAYER_NONE, &slot);
	if (!t)
		return 0;
	stack = gs_config.native_stack_at & GS_AT_SAMPLE
			? native_send((__u64)user_regs(&ctx->regs), GS_LAYER_NONE, 0)
			: 0;
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	if (!e) {
		lose(GS_LAYER_NONE, GS_LOSS_RING_FULL);
		return 0;
	}
	e->head.kind = GS_EV_SAMPLE;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->time_ns = bpf_ktime_get_ns();
	e->period_ns = gs_config.sample_period_ns;
	e->pid = id >> 32;
	e->tid = (__u32)id;
	e->py_stack = 0;
	e->native_stack = stack;
	e->cpu = bpf_get_smp_processor_id();
	e->scope = t->scope_depth && t->scope_depth <= GS_SCOPE_MAX
			   ? t->scope[(t->scope_depth - 1) & (GS_SCOPE_MAX - 1)].func
			   : 0;
	e->pad = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
