/*
 * What the kernel does for followed threads, added up where it happens (model/trace/taskstats.h). Only
 * tracepoints by type information: nothing is copied into a record to be picked apart again.
 */
#include "taskstats_block.bpf.h"
#include "taskstats_call.bpf.h"
#include "taskstats_net.bpf.h"
#include "taskstats_task.bpf.h"
#include "taskstats_wait.bpf.h"

/* ---- who is followed ---- */

/* Where a thread stands that was not seen going there. */
static __always_inline __u8 state_now(struct task_struct *p)
{
	__u64 state = p->__state;

	if (p->on_cpu)
		return GS_TIME_CPU;
	if (!state)
		return GS_TIME_RUNQUEUE;
	/* What poll's array holds cannot be read here: it is in another process's memory. */
	return wait_of_task(p, state, NULL);
}

/* Neither a thread of the kernel nor, where processes are chosen by their ids, one without. */
static __always_inline bool may_be_followed(struct task_struct *p, __u32 pid)
{
	return !(p->flags & PF_KTHREAD) && (pid || gs_taskstats_config.by_cgroup);
}

static __always_inline bool is_wanted(struct task_struct *p)
{
	__u32 pid = process_id(p);

	if (!may_be_followed(p, pid))
		return false;
	if (gs_taskstats_config.all || bpf_map_lookup_elem(&gs_tasks_pids, &pid))
		return true;
	return in_groups((__u64)BPF_CORE_READ(p, cgroups, dfl_cgrp));
}

/* Every task of the machine, one after the other, when user space asks: marks those that are to be
 * followed and are not yet. */
SEC("?iter/task")
int gs_tasks_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct work_mark *m;
	__u64 now;

	if (!p)
		return 0;
	m = mark_of(p);
	now = bpf_ktime_get_ns();
	if (m) {
		if (gs_taskstats_config.by_cgroup)
			mark_move(m, p, now);
		return 0;
	}
	if (is_wanted(p))
		mark_make(p, state_now(p), now, false);
	return 0;
}

SEC("?tp_btf/task_newtask")
int gs_tasks_newtask(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0], *parent = bpf_get_current_task_btf();
	bool thread = p->pid != p->tgid;

	if (p->flags & PF_KTHREAD)
		return 0;
	/* Workers of io_uring come this way too: threads that never return to user space. */
	if (mark_of(parent) && (thread || gs_taskstats_config.follow)) {
		mark_make(p, GS_TIME_RUNQUEUE, bpf_ktime_get_ns(), true);
		return 0;
	}
	if (is_wanted(p))
		mark_make(p, GS_TIME_RUNQUEUE, bpf_ktime_get_ns(), true);
	return 0;
}

SEC("?tp_btf/cgroup_attach_task")
int gs_tasks_attach(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[2];
	struct gs_taskstats_state *s = work_state();
	struct work_mark *m = mark_of(p);
	__u64 now = bpf_ktime_get_ns();

	if (m && gs_taskstats_config.by_cgroup)
		mark_move(m, p, now);
	else if (!m && may_be_followed(p, process_id(p)) && in_groups(number_of((void *)ctx[0])))
		mark_make(p, state_now(p), now, false);
	else
		return 0;
	/* A whole process moves, but only its first thread is reported: a walk finds the others. */
	if (s)
		add(s->rescan, 1);
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int gs_tasks_exec(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct work_mark *m = mark_of(p);
	struct gs_taskstats_slot *s;

	if (!m || gs_taskstats_config.by_cgroup)
		return 0;
	s = slot_get(m->slot);
	if (s && m->slot)
		bpf_probe_read_kernel(&s->comm, sizeof(s->comm), &p->comm);
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int gs_tasks_exit(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct work_mark *m = mark_of(p);
	struct gs_taskstats_slot *s;

	if (!m)
		return 0;
	s = slot_get(m->slot);
	if (s)
		count_faults(s, m, p);
	return 0;
}

/* Its last switch may have been passed over (wake_unseen()): it would be on a processor for ever. Who
 * is reaped is on none. */
SEC("?tp_btf/sched_process_free")
int gs_tasks_free(__u64 *ctx)
{
	struct work_mark *m = mark_of((struct task_struct *)ctx[0]);
	struct gs_taskstats_slot *s;

	if (!m || m->state == STATE_NONE)
		return 0;
	s = slot_get(m->slot);
	if (!s)
		return 0;
	enter_state(s, m, STATE_NONE, bpf_ktime_get_ns());
	add(s->work.threads_ended, 1);
	return 0;
}

SEC("?tp_btf/mark_victim")
int gs_tasks_oom(__u64 *ctx)
{
	struct work_mark *m = mark_of((struct task_struct *)ctx[0]);
	struct gs_taskstats_slot *s = m ? slot_get(m->slot) : NULL;

	if (s)
		add(s->work.oom_kills, 1);
	return 0;
}

/* ---- the scheduler ---- */

/* A turn on a processor begins. Now and then the kernel passes over a probe that it meets within
 * another's (seen on 6.18, and not in recursion_misses): who runs was woken all the same. */
static __always_inline void wake_unseen(struct gs_taskstats_slot *s, struct work_mark *m)
{
	if (m->state != GS_TIME_RUNQUEUE && m->state != GS_TIME_CPU &&
	    wants_family(GS_TASKSTATS_SCHED))
		add(s->work.wakeups, 1);
}

static __always_inline void leave_cpu(struct task_struct *p, struct work_mark *m, bool preempted,
				      __u64 state, __u64 now)
{
	struct gs_taskstats_slot *s = slot_get(m->slot);
	__u64 ran = p->se.sum_exec_runtime;

	if (!s || m->state == STATE_NONE)
		return;
	/* Its turn began unseen (the program was skipped): the scheduler knows how long it was. */
	wake_unseen(s, m);
	if (m->state != GS_TIME_CPU && ran - m->ran_ns < now)
		enter_state(s, m, GS_TIME_CPU, now - (ran - m->ran_ns));
	m->ran_ns = ran;
	count_turns(s, m, p);
	count_faults(s, m, p);
	if (state & TASK_DEAD) {
		/* Later than its parent hears of the end, but taking memory apart may be long. */
		enter_state(s, m, STATE_NONE, now);
		add(s->work.threads_ended, 1);
		return;
	}
	if (preempted || !state) {
		add(s->work.switches_forced, 1);
		enter_state(s, m, GS_TIME_RUNQUEUE, now);
		return;
	}
	add(s->work.switches_voluntary, 1);
	enter_state(s, m, wait_of_task(p, state, m), now);
}

/* What the processor knew of a call that the thread leaves it in. */
static __always_inline void cool_call(struct work_hot *h, struct work_mark *from, __u64 now)
{
	if (h && h->task) {
		if (from && h->task == bpf_get_current_task()) {
			from->enter_ns = h->enter_ns;
			from->away_ns = 0;
		}
		h->task = 0;
	}
	if (from)
		from->off_ns = now;
}

SEC("?tp_btf/sched_switch")
int gs_tasks_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 made = marks_made();
	struct work_mark *from = mark_of(prev), *to = mark_of(next);
	struct work_hot *h = hot_here();
	struct gs_taskstats_slot *s;
	__u64 state, now;

	/* The clock is most of what a switch costs here, and no thread that is not followed needs it.
	 * Nor need its calls look for what it has not. */
	if (!from) {
		/* Else the compiler ors both pointers, which the verifier refuses. */
		asm volatile("");
		if (!to) {
			if (h)
				warm_call(h, (__u64)next, NULL, made);
			return 0;
		}
	}
	now = bpf_ktime_get_ns();
	cool_call(h, from, now);
	if (from) {
		if (gs_taskstats_config.switch_state)
			state = (__u32)ctx[3];
		else
			state = prev->__state;
		leave_cpu(prev, from, ctx[0] & 1, state, now);
	}
	if (!to || to->state == STATE_NONE)
		return 0;
	if (to->off_ns)
		to->away_ns += now - to->off_ns;
	to->off_ns = 0;
	s = slot_get(to->slot);
	if (!s)
		return 0;
	wake_unseen(s, to);
	enter_state(s, to, GS_TIME_CPU, now);
	return 0;
}

static __always_inline void wake_task(struct task_struct *p)
{
	struct work_mark *m = mark_of(p);
	struct gs_taskstats_slot *s;

	if (!m || m->state == STATE_NONE)
		return;
	s = slot_get(m->slot);
	if (!s)
		return;
	add(s->work.wakeups, 1);
	/* One that is woken before it has left its processor goes on there. */
	if (m->state != GS_TIME_CPU)
		enter_state(s, m, GS_TIME_RUNQUEUE, bpf_ktime_get_ns());
}

SEC("?tp_btf/sched_wakeup")
int gs_tasks_wakeup(__u64 *ctx)
{
	wake_task((struct task_struct *)ctx[0]);
	return 0;
}

SEC("?tp_btf/sched_migrate_task")
int gs_tasks_migrate(__u64 *ctx)
{
	struct work_mark *m = mark_of((struct task_struct *)ctx[0]);
	struct gs_taskstats_slot *s = m ? slot_get(m->slot) : NULL;

	if (s)
		add(s->work.migrations, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
