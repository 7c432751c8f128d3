/* What a program keeps of a task, in a map of BPF_MAP_TYPE_TASK_STORAGE. */
#ifndef GS_BPF_COMMON_TASK_MARK_BPF_H
#define GS_BPF_COMMON_TASK_MARK_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* The mark of a task in that map, made of zeros where there is none. NULL: no memory, or, on a kernel
 * with preemption, a task that was put off this processor within these helpers.
 *
 * Asked twice: of two processors that make a mark of one task at the same time, in one map or the
 * task's first two in different maps (another tracer's), the kernel gives one an error
 * (bpf_local_storage_update: -EEXIST, -EAGAIN), which the helper returns as NULL. By then the other's
 * is there. */
static __always_inline void *task_mark_make(void *map, void *task)
{
	void *mark = bpf_task_storage_get(map, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return mark ? mark : bpf_task_storage_get(map, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#endif
