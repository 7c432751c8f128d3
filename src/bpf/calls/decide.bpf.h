/*
 * Is the calling thread followed? Decided at its first call and kept in its mark; decided again
 * when the choice of processes changes.
 */
#ifndef GS_BPF_CALLS_DECIDE_BPF_H
#define GS_BPF_CALLS_DECIDE_BPF_H

#include "account.bpf.h"

static __always_inline bool same_comm(const char *a, const volatile char *b)
{
	for (int i = 0; i < 16; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			return true;
	}
	return true;
}

static __always_inline bool criteria_met(void)
{
	if (gs_config.filter & GS_FILTER_ALL)
		return true;
	if (gs_config.filter == GS_FILTER_NONE)
		return false;
	if (gs_config.filter & GS_FILTER_UID && (__u32)bpf_get_current_uid_gid() != gs_config.uid)
		return false;
	if (gs_config.filter & GS_FILTER_CGROUP &&
	    bpf_current_task_under_cgroup(&gs_cgroup, 0) != 1)
		return false;
	if (gs_config.filter & GS_FILTER_COMM) {
		struct task_struct *t = (void *)bpf_get_current_task();
		char comm[16] = {};

		BPF_CORE_READ_INTO(&comm, t, group_leader, comm);
		if (!same_comm(comm, gs_config.comm))
			return false;
	}
	return true;
}

static __always_inline bool is_followed(__u32 pid)
{
	__u32 one = 1;

	if (bpf_map_lookup_elem(&gs_procs, &pid))
		return true;
	if (!pid || !criteria_met())
		return false;
	if (gs_config.follow)
		bpf_map_update_elem(&gs_procs, &pid, &one, BPF_ANY);
	return true;
}

/* A free slot, cleared; 0 when there is none. */
static __always_inline __u32 slot_take(void)
{
	struct gs_kernel_state *s = state_get();
	__u32 slot = 0;

	if (bpf_map_pop_elem(&gs_free_threads, &slot) == 0)
		return slot;
	if (!s || s->n_threads >= GS_THREAD_MAX - 1)
		return 0;
	slot = __sync_fetch_and_add(&s->n_threads, 1) + 1;
	return slot < GS_THREAD_MAX ? slot : 0;
}

/* The account of a thread that makes traced calls. It has none yet where it is chosen by what it
 * has become since the last walk over all tasks. */
static __always_inline void account_join(struct gs_thread *t, __u32 slot)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct gs_account *a;
	__u32 *mark;

	account_begin(task, GS_STATE_CPU, bpf_ktime_get_ns());
	mark = bpf_task_storage_get(&gs_account_marks, task, 0, 0);
	a = mark ? account_at(*mark) : NULL;
	if (!a)
		return;
	t->account = *mark;
	a->thread = slot;
}

/* The first call of a thread, or the first since the choice of processes changed. Returns its slot,
 * 0 when it is not followed. Not inlined: it runs once a thread. */
static __noinline __u32 thread_decide(__u32 layer)
{
	__u64 id = current_ids();
	struct gs_kernel_state *s = state_get();
	struct gs_task_mark *m;
	struct gs_thread *t;
	__u32 slot = 0;

	if (!s)
		return 0;
	m = mark_get(true);
	if (!m) {
		count_loss(layer, GS_LOSS_NO_THREAD);
		return 0;
	}
	m->filter_gen = s->filter_gen;
	if (m->slot || !is_followed(id >> 32))
		return m->slot;
	slot = slot_take();
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (!slot || !t) {
		m->filter_gen = s->filter_gen - 1; /* ask again: a slot may be free by then */
		count_loss(layer, GS_LOSS_NO_THREAD);
		return 0;
	}
	t->pid = id >> 32;
	t->tid = (__u32)id;
	t->cpu_first_ns = task_cpu_ns();
	bpf_get_current_comm(t->comm, sizeof(t->comm));
	m->slot = slot;
	if (gs_config.account)
		account_join(t, slot);
	return slot;
}

/* The slot of the followed thread that called last on this processor. Mostly it is the one that
 * calls now, and its struct shows it: that is cheaper than to ask the task's storage. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gs_last_slot SEC(".maps");

/* The struct of the calling thread when it is also the one that called last here; else NULL. A slot
 * that was given back has no tid any more, or another's. */
static __always_inline struct gs_thread *thread_same(__u32 *ret_slot)
{
	__u32 zero = 0, *last = bpf_map_lookup_elem(&gs_last_slot, &zero);
	__u64 id = current_ids();
	struct gs_thread *t;

	if (!last || !*last)
		return NULL;
	*ret_slot = *last;
	t = bpf_map_lookup_elem(&gs_threads, ret_slot);
	if (!t || !id || t->tid != (__u32)id || t->pid != id >> 32 || t->ended)
		return NULL;
	t->cpu_ns = task_cpu_ns();
	return t;
}

/* The struct of the calling thread; NULL when it is not followed. */
static __always_inline struct gs_thread *thread_find(struct gs_kernel_state *s, __u32 layer,
						     __u32 *ret_slot)
{
	struct gs_task_mark *m = mark_get(false);
	__u32 zero = 0, *last;
	struct gs_thread *t;

	if (m && (m->slot || m->filter_gen == s->filter_gen))
		*ret_slot = m->slot;
	else
		*ret_slot = thread_decide(layer);
	if (!*ret_slot)
		return NULL;
	last = bpf_map_lookup_elem(&gs_last_slot, &zero);
	if (last)
		*last = *ret_slot;
	t = bpf_map_lookup_elem(&gs_threads, ret_slot);
	if (t)
		t->cpu_ns = task_cpu_ns();
	return t;
}

#endif
