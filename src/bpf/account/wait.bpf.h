/*
 * Where Python code waits: when a thread of an interpreter leaves its processor, its Python stack is
 * read, and when it comes back, how long that took is sent with the cause. Waiting for a processor is a
 * wait of its own, after that for the event.
 *
 * Reading stacks may take a share of a thread's wall time, and no more: what is beyond is added up
 * without a stack and sent as such. So a thread that switches all the time pays for that share and for
 * two readings of the clock a switch. Waits in no Python function are added up too, and those before
 * the process is known to run an interpreter, which is some ms after it has mapped it.
 */
#ifndef GS_BPF_ACCOUNT_WAIT_BPF_H
#define GS_BPF_ACCOUNT_WAIT_BPF_H

#include "bpf/calls/account.bpf.h"
#include "bpf/calls/python.bpf.h"

#define WAIT_SHARE 100 /* one part in so many of the wall time */
#define WAIT_CREDIT_NS                                                                             \
	10000000ll            /* that a thread which has waited may have saved, or a new one has */
#define WAIT_BARE_NS 50000000 /* of waits without a stack that are sent as one */
#define WAIT_FUTEX   202      /* arch/x86/entry/syscalls/syscall_64.tbl */

/* The interpreter's lock is a condition variable in _PyRuntime, or in the first interpreter, which is
 * in it from 3.12 on. How large that is, of the smallest release build of each version; 3.8 to 3.10
 * have little beside it (3.8 its list of pending calls). */
static __always_inline __u32 wait_runtime_bytes(__u16 version)
{
	if (version >= 0x030c)
		return 0x45000;
	if (version == 0x030b)
		return 0x28000;
	return version == 0x0308 ? 0x5b0 : 0x280;
}

/* Is the futex that it waits for the lock of its interpreter? */
static __always_inline bool wait_is_for_gil(const struct gs_py_proc *proc, struct task_struct *p)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(p);

	return regs->orig_ax == WAIT_FUTEX && !proc->is_free_threaded &&
	       regs->di - proc->runtime < wait_runtime_bytes(proc->version);
}

/* Its stack, as far as it may be read now. Global: verified by itself. */
__noinline __u32 gs_account_stack(__u32 slot)
{
	struct gs_account *a = account_at(slot);
	__u64 began = bpf_ktime_get_ns();
	__u32 stack;

	if (!a)
		return 0;
	a->py_credit_ns += (began - a->py_seen_ns) / WAIT_SHARE;
	a->py_seen_ns = began;
	if (a->py_credit_ns > WAIT_CREDIT_NS)
		a->py_credit_ns = WAIT_CREDIT_NS;
	if (a->py_credit_ns <= 0) {
		a->wait_cause = GS_WAIT_MANY;
		return 0;
	}
	stack = py_stack_now(a->pid, a->tid, &a->py_state, &a->py_retry_ns);
	a->py_credit_ns -= bpf_ktime_get_ns() - began;
	return stack;
}

/* The present thread leaves its processor; its account says why. */
static __always_inline void wait_begin(struct task_struct *p, struct gs_account *a, __u32 slot)
{
	struct gs_py_proc *proc;
	__u32 pid = a->pid;

	a->wait_woken_ns = 0;
	a->wait_stack = 0;
	a->wait_since_ns = a->since_ns;
	a->wait_cause = GS_WAIT_BARE;
	proc = bpf_map_lookup_elem(&gs_py_procs, &pid);
	if (!proc)
		return;
	a->wait_is_python = 1;
	a->wait_cause = a->state == GS_STATE_MUTEX ? GS_STATE_LOCK : a->state;
	if (a->inside == GS_INSIDE_GPU_WAIT && a->state != GS_STATE_RUNQUEUE)
		a->wait_cause = GS_WAIT_GPU;
	else if (a->state == GS_STATE_LOCK && wait_is_for_gil(proc, p))
		a->wait_cause = GS_WAIT_GIL;
	a->wait_stack = gs_account_stack(slot);
}

/* False: there is no room in the ring. */
static __always_inline bool wait_send(const struct gs_account *a, __u32 stack, __u32 cause,
				      __u64 wait_ns, __u64 now)
{
	struct gs_event_wait *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e)
		return false;
	e->head.kind = GS_EV_WAIT;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->time_ns = now;
	e->wait_ns = wait_ns;
	e->pid = a->pid;
	e->tid = a->tid;
	e->py_stack = stack;
	e->cause = cause;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return true;
}

/* A wait whose stack is known. Without room for it, its time counts among what was not looked at. */
static __always_inline void wait_report(struct gs_account *a, __u32 cause, __u64 wait_ns, __u64 now)
{
	if (wait_send(a, a->wait_stack, cause, wait_ns, now))
		return;
	a->wait_bare_ns[1] += wait_ns;
	count_loss(GS_LAYER_PYTHON, GS_LOSS_STACK);
}

/* The thread comes back to a processor. */
static __always_inline void wait_end(struct gs_account *a, __u64 now)
{
	__u64 since = a->wait_since_ns, woken = a->wait_woken_ns;

	if (!since || since > now)
		return;
	a->wait_since_ns = 0;
	if (!a->wait_stack) {
		a->wait_bare_ns[a->wait_cause == GS_WAIT_MANY] += now - since;
	} else if (woken > since && woken < now) {
		wait_report(a, a->wait_cause, woken - since, now);
		wait_report(a, GS_STATE_RUNQUEUE, now - woken, now);
	} else {
		wait_report(a, a->wait_cause, now - since, now);
	}
	for (int i = 0; i < 2 && a->wait_is_python; i++)
		if (a->wait_bare_ns[i] > WAIT_BARE_NS &&
		    wait_send(a, 0, i ? GS_WAIT_MANY : GS_WAIT_BARE, a->wait_bare_ns[i], now))
			a->wait_bare_ns[i] = 0;
}

#endif
