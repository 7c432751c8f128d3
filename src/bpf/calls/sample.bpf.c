/*
 * The timer: a software event on each processor that finds out who runs there. A thread is entered
 * into the table of followed ones only when the timer met it outside of the kernel: inside, our own
 * probe may be about to do the same.
 */
#include "decide.bpf.h"
#include "native.bpf.h"
#include "python.bpf.h"

struct bpf_perf_event_data {
	struct pt_regs regs;
};

#define SCOPE_MASK (GS_SCOPE_MAX - 1)

static __always_inline void send_sample(struct gs_thread *t, __u32 py_stack, __u32 native_stack)
{
	struct gs_event_sample *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_STACK);
		return;
	}
	e->head.kind = GS_EV_SAMPLE;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->time_ns = bpf_ktime_get_ns();
	e->period_ns = gs_config.sample_period_ns;
	e->pid = t->pid;
	e->tid = t->tid;
	e->py_stack = py_stack;
	e->native_stack = native_stack;
	e->cpu = bpf_get_smp_processor_id();
	e->scope = t->scope_depth ? t->scope[(t->scope_depth - 1) & SCOPE_MASK].func : 0;
	e->pad = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* The stack of user space; where the timer met the thread in the kernel, that with which it came
 * there. Not inlined: its registers shall not stand on the stack beneath the walk of Python's
 * frames, which together is more than the 512 bytes that Linux 6.1 allows. */
static __noinline __u32 native_of_sample(const struct pt_regs *regs)
{
	struct native_regs to;
	struct pt_regs user;

	if (regs->cs & 3) {
		native_take_regs(&to, regs);
		return native_send(&to, GS_LAYER_PYTHON, 0);
	}
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs) ||
	    bpf_probe_read_kernel(&user, sizeof(user),
				  (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf()))) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_STACK);
		return 0;
	}
	native_take_regs(&to, &user);
	return native_send(&to, GS_LAYER_PYTHON, 0);
}

SEC("?perf_event")
int gs_sample(struct bpf_perf_event_data *ctx)
{
	__u64 id = current_ids();
	__u32 pid = id >> 32, slot, py_stack = 0, native_stack = 0;
	struct gs_kernel_state *s = state_get();
	struct gs_thread *t;

	if (!pid || !s || s->stopped)
		return 0;
	/* Who is no interpreter is sampled for its native stack alone. */
	if (!(gs_config.native_stack_at & GS_AT_SAMPLE) && !bpf_map_lookup_elem(&gs_py_procs, &pid))
		return 0;
	t = thread_same(&slot);
	if (!t) {
		struct gs_task_mark *m = mark_get(false);

		if (!(ctx->regs.cs & 3) && (!m || !m->slot))
			return 0;
		t = thread_find(s, GS_LAYER_PYTHON, &slot);
	}
	if (!t)
		return 0;
	if (gs_config.py_stack_at & GS_AT_SAMPLE)
		py_stack = py_stack_of(slot);
	if (gs_config.native_stack_at & GS_AT_SAMPLE)
		native_stack = native_of_sample(&ctx->regs);
	send_sample(t, py_stack, native_stack);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
