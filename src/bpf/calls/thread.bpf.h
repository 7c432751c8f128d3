/*
 * The way from the current task to its struct gs_thread: on the hot path one look into the task's
 * own storage and one into an array.
 */
#ifndef GS_BPF_CALLS_THREAD_BPF_H
#define GS_BPF_CALLS_THREAD_BPF_H

#include "bpf/common/task_mark.bpf.h"
#include "ids.bpf.h"

static __always_inline struct gs_kernel_state *state_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gs_state, &zero);
}

static __always_inline void count_loss(__u32 layer, __u32 cause)
{
	struct gs_kernel_state *s = state_get();

	if (!s || layer >= GS_LAYER_MAX || cause >= GS_LOSS_COUNT)
		return;
	/* The verifier of Linux 6.1 forgets the bound of a word that was put on the stack. */
	barrier_var(layer);
	__sync_fetch_and_add(&s->lost[layer & (GS_LAYER_MAX - 1)][cause], 1);
}

static __always_inline struct gs_task_mark *mark_get(bool create)
{
	if (gs_config.task_storage) {
		struct task_struct *task = (void *)bpf_get_current_task_btf();

		return create ? task_mark_make(&gs_marks, task)
			      : bpf_task_storage_get(&gs_marks, task, 0, 0);
	} else {
		__u32 tid = (__u32)bpf_get_current_pid_tgid();
		struct gs_task_mark *m = bpf_map_lookup_elem(&gs_marks_by_tid, &tid);
		struct gs_task_mark none = {};

		if (m || !create)
			return m;
		bpf_map_update_elem(&gs_marks_by_tid, &tid, &none, BPF_NOEXIST);
		return bpf_map_lookup_elem(&gs_marks_by_tid, &tid);
	}
}

/* How long the calling thread has had a processor. */
static __always_inline __u64 task_cpu_ns(void)
{
	if (gs_config.task_storage) {
		struct task_struct *task = (void *)bpf_get_current_task_btf();

		return task->se.sum_exec_runtime;
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();

		return BPF_CORE_READ(task, se.sum_exec_runtime);
	}
}

static __always_inline void mark_forget(void)
{
	if (gs_config.task_storage) {
		bpf_task_storage_delete(&gs_marks, (void *)bpf_get_current_task_btf());
	} else {
		__u32 tid = (__u32)bpf_get_current_pid_tgid();

		bpf_map_delete_elem(&gs_marks_by_tid, &tid);
	}
}

#endif
