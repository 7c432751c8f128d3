/*
 * Who is followed: a thread is when it carries a mark, which it gets at its birth from its parent's
 * mark, or from the walk over all tasks (taskstats_walk) when following begins.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_TASK_BPF_H
#define GS_BPF_TASKS_TASKSTATS_TASK_BPF_H

#include "bpf/common/task_mark.bpf.h"
#include "taskstats_maps.bpf.h"

/* The one place where a thread's time moves on (struct gs_taskstats_slot says how). */
static __always_inline void enter_state(struct gs_taskstats_slot *s, struct work_mark *m,
					__u8 state, __u64 now)
{
	__u8 old = m->state;
	__u64 from = old;

	if (old == state)
		return;
	m->state = state;
	add(s->begun, 1);
	/* The index and what it is compared with stay one register, for the verifier. */
	asm volatile("" : "+r"(from));
	if (from < GS_TIME_COUNT) {
		add(s->work.time_ns[from], now);
		add(s->in_state[from], -1);
	}
	if (state < GS_TIME_COUNT) {
		add(s->work.time_ns[state], -now);
		add(s->in_state[state], 1);
	}
	if (old == GS_TIME_LOCK) {
		add(s->lock_since, -m->lock_ns);
		if (now - m->lock_ns >= GS_TASKSTATS_IDLE_NS && now > m->lock_ns)
			add(s->work.idle_ns, now - m->lock_ns);
	}
	if (state == GS_TIME_LOCK) {
		add(s->lock_since, now);
		m->lock_ns = now;
	}
	if (old == GS_TIME_RUNQUEUE && state == GS_TIME_CPU)
		add(s->work.queue_hist[bucket_of(now > m->queue_ns ? now - m->queue_ns : 0)], 1);
	if (state == GS_TIME_RUNQUEUE)
		m->queue_ns = now;
	add(s->ended, 1);
}

/* Turns of the task on a processor; 0: this kernel does not count them. */
static __always_inline __u64 turns_of(struct task_struct *p)
{
	return bpf_core_field_exists(p->sched_info) ? p->sched_info.pcount : 0;
}

static __always_inline void count_turns(struct gs_taskstats_slot *s, struct work_mark *m,
					struct task_struct *p)
{
	__u64 turns = turns_of(p);

	if (!bpf_core_field_exists(p->sched_info)) {
		add(s->work.queue_waits, 1);
	} else if (turns != m->turns) {
		add(s->work.queue_waits, turns - m->turns);
		m->turns = turns;
	}
}

static __always_inline void count_faults(struct gs_taskstats_slot *s, struct work_mark *m,
					 struct task_struct *p)
{
	__u64 minor = p->min_flt, major = p->maj_flt;

	/* The kernel counts them per task: no probe on the fault itself is needed. */
	if (minor != m->faults_minor) {
		add(s->work.faults_minor, minor - m->faults_minor);
		m->faults_minor = minor;
	}
	if (major != m->faults_major) {
		add(s->work.faults_major, major - m->faults_major);
		m->faults_major = major;
	}
}

static __always_inline __u64 cgroup_of(struct task_struct *p)
{
	return BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, id);
}

/* Is the cgroup, or one above it, followed? A cgroup begins with its own subsystem state, whose
 * parent is the beginning of the cgroup above. */
GS_ALONE __u32 in_groups(__u64 cgroup)
{
	struct cgroup *c = (void *)cgroup;

	for (int depth = 0; depth < 32 && c; depth++) {
		__u64 id = BPF_CORE_READ(c, kn, id);

		if (bpf_map_lookup_elem(&gs_tasks_groups, &id))
			return 1;
		c = (struct cgroup *)BPF_CORE_READ(c, self.parent);
	}
	return 0;
}

/* The process as our own namespace calls it; 0: it is not in there. */
GS_ALONE __u32 id_inside(__u64 leader)
{
	struct task_struct *p = (void *)leader;

	return (__u32)id_in_namespace(BPF_CORE_READ(p, thread_pid),
				      gs_taskstats_config.pid_namespace);
}

static __always_inline __u32 process_id(struct task_struct *p)
{
	return gs_taskstats_config.pid_namespace ? id_inside((__u64)BPF_CORE_READ(p, group_leader))
						 : (__u32)BPF_CORE_READ(p, tgid);
}

static __always_inline void describe_slot(struct gs_taskstats_slot *s, struct task_struct *p)
{
	s->cgroup = cgroup_of(p);
	s->pid = process_id(p);
	s->parent_pid = process_id(BPF_CORE_READ(p, real_parent));
	s->uid = BPF_CORE_READ(p, real_cred, uid.val);
	BPF_CORE_READ_INTO(&s->comm, p, group_leader, comm);
}

/* The slot of a key, made when it is not there; 0: no room. */
static __noinline __u32 slot_make(struct gs_taskstats_key *key, struct task_struct *p)
{
	__u32 *found = bpf_map_lookup_elem(&gs_taskstats_slot_of, key), slot;
	struct gs_taskstats_slot *s;

	if (found)
		return *found;
	slot = take_place(&gs_tasks_free_slots, &gs_tasks_slots_given, gs_taskstats_config.n_slots);
	s = slot_get(slot);
	if (!slot || !s) {
		key->stripe = 0;
		found = bpf_map_lookup_elem(&gs_taskstats_slot_of, key);
		return found ? *found : 0;
	}
	s->key = *key;
	describe_slot(s, p);
	if (bpf_map_update_elem(&gs_taskstats_slot_of, key, &slot, BPF_NOEXIST)) {
		bpf_map_push_elem(&gs_tasks_free_slots, &slot, 0);
		found = bpf_map_lookup_elem(&gs_taskstats_slot_of, key);
		return found ? *found : 0;
	}
	asm volatile("" ::: "memory");
	s->used = 1;
	return slot;
}

static __always_inline __u32 slot_for(struct task_struct *p)
{
	struct gs_taskstats_key key = {};

	if (gs_taskstats_config.by_cgroup) {
		key.id = cgroup_of(p);
	} else {
		key.id = process_id(p);
		key.start_ns = BPF_CORE_READ(p, group_leader, start_boottime);
	}
	/* The leader has a stripe of its own, 0: as a rule it sets the pace of its process, and what
	 * its helpers wait for must be apart from that. */
	key.stripe = p->pid == p->tgid && !gs_taskstats_config.by_cgroup
			     ? 0
			     : 1 + ((__u32)p->pid & gs_taskstats_config.stripes_mask);
	return slot_make(&key, p);
}

/* Follow a thread that is in the state now. */
static __always_inline struct work_mark *mark_make(struct task_struct *p, __u8 state, __u64 now,
						   bool born)
{
	__u32 slot = slot_for(p);
	struct gs_taskstats_slot *s = slot_get(slot);
	struct work_mark *m;

	if (!slot || !s) {
		work_lose(GS_TASKSTATS_LOST_KEY);
		return NULL;
	}
	m = task_mark_make(&gs_tasks_marks, p);
	if (!m) {
		work_lose(GS_TASKSTATS_LOST_THREAD);
		return NULL;
	}
	if (m->slot)
		return m; /* another walk was first */
	m->state = STATE_NONE;
	m->enter_ns = now; /* it may be in a call: what is left of that is timed */
	m->faults_minor = born ? 0 : p->min_flt;
	m->faults_major = born ? 0 : p->maj_flt;
	m->turns = born ? 0 : turns_of(p);
	m->newborn = born;
	m->ran_ns = p->se.sum_exec_runtime;
	m->uring_wait = GS_TIME_OTHER;
	m->slot = slot;
	__sync_fetch_and_add(&gs_tasks_made, 1);
	add(s->work.threads_started, 1);
	enter_state(s, m, state, now);
	return m;
}

/* To the slot of the cgroup that it has moved to. */
static __always_inline void mark_move(struct work_mark *m, struct task_struct *p, __u64 now)
{
	__u32 slot = slot_for(p);
	struct gs_taskstats_slot *to = slot_get(slot), *from = slot_get(m->slot);
	__u8 state = m->state;

	if (!slot || !to || !from || slot == m->slot || state == STATE_NONE)
		return;
	enter_state(from, m, STATE_NONE, now);
	add(from->work.threads_ended, 1);
	m->slot = slot;
	__builtin_memset(m->files, 0, sizeof(m->files));
	__sync_fetch_and_add(&gs_tasks_made, 1);
	add(to->work.threads_started, 1);
	enter_state(to, m, state, now);
}

#endif
