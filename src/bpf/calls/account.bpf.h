/*
 * The way from a task to its struct gs_account, and the one place where its time moves on. Every
 * change of a thread's state happens under the lock of the run queue it is on, or of its wakeup, so
 * nothing here is atomic; user space reads by the sequence.
 */
#ifndef GS_BPF_CALLS_ACCOUNT_BPF_H
#define GS_BPF_CALLS_ACCOUNT_BPF_H

#include "thread.bpf.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

static __always_inline struct gs_account *account_at(__u32 slot)
{
	return slot ? bpf_map_lookup_elem(&gs_accounts, &slot) : NULL;
}

/* NULL: the task is not accounted for. */
static __always_inline struct gs_account *account_of(struct task_struct *p)
{
	__u32 *slot = bpf_task_storage_get(&gs_account_marks, p, 0, 0);

	return slot ? account_at(*slot) : NULL;
}

static __always_inline void account_move(struct gs_account *a, __u8 state, __u8 inside, __u64 now)
{
	__u32 old = a->state, in = a->inside;

	/* What is compared below is what the index is made of: the verifier follows no copy. */
	asm volatile("" : "+r"(old), "+r"(in));
	a->sequence++;
	asm volatile("" ::: "memory"); /* stores stay in order on x86 */
	if (old < GS_STATE_COUNT && in < GS_INSIDE_COUNT && now > a->since_ns)
		a->time_ns[old][in] += now - a->since_ns;
	a->state = state;
	a->inside = inside;
	a->since_ns = now;
	asm volatile("" ::: "memory");
	a->sequence++;
}

static __always_inline void account_describe(struct gs_account *a, struct task_struct *p)
{
	__u64 ids = ids_of(p);

	a->pid = ids >> 32;
	a->tid = (__u32)ids;
	a->uid = BPF_CORE_READ(p, real_cred, uid.val);
	BPF_CORE_READ_INTO(&a->comm, p, comm);
	BPF_CORE_READ_INTO(&a->process, p, group_leader, comm);
}

/* 0: no room. */
static __noinline __u32 account_take(void)
{
	struct gs_kernel_state *s = state_get();
	__u32 slot = 0;

	if (bpf_map_pop_elem(&gs_free_accounts, &slot) == 0)
		return slot;
	if (!s || s->n_accounts >= GS_ACCOUNT_MAX - 1)
		return 0;
	slot = __sync_fetch_and_add(&s->n_accounts, 1) + 1;
	return slot < GS_ACCOUNT_MAX ? slot : 0;
}

/* The mark of a task whose account is being made. No account has this number. */
#define GS_ACCOUNT_CLAIMED 0xffffffffU

/* Account for a task from now on, which is in that state. Not while a run queue is locked: memory
 * for the mark is allocated. A walk over all tasks and the task itself, or its parent, may both come
 * here: one claims the mark, and the other leaves it alone. */
static __always_inline void account_begin(struct task_struct *p, __u8 state, __u64 now)
{
	__u32 *mark = task_mark_make(&gs_account_marks, p), slot;
	struct gs_account *a;

	if (mark && __sync_val_compare_and_swap(mark, 0, GS_ACCOUNT_CLAIMED) != 0)
		return;
	slot = mark ? account_take() : 0;
	a = account_at(slot);
	if (!a) {
		if (mark)
			*mark = 0;
		count_loss(GS_LAYER_NONE, GS_LOSS_ACCOUNT);
		return;
	}
	a->parent_pid = ids_of(p->real_parent) >> 32;
	a->end_signal = 0;
	a->exit_status = 0;
	a->thread = 0;
	a->state = state;
	a->inside = GS_INSIDE_NONE;
	a->born_ns = now;
	a->since_ns = now;
	a->ran_ns = BPF_CORE_READ(p, se.sum_exec_runtime);
	a->wait_since_ns = state == GS_STATE_CPU ? 0 : now;
	a->wait_cause = GS_WAIT_BARE;
	account_describe(a, p);
	asm volatile("" ::: "memory");
	*mark = slot;
}

#endif
