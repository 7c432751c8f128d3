/*
 * Ids as the pid namespace of gpuscope has them: the kernel's own, unless it runs in a container,
 * where tasks outside of it have none and are not followed; up to 8 deep in ours are found. A
 * process is in the upper half.
 */
#ifndef GS_BPF_CALLS_IDS_BPF_H
#define GS_BPF_CALLS_IDS_BPF_H

#include "maps.bpf.h"

static __always_inline __u64 ids_of(struct task_struct *task)
{
	if (!gs_config.pid_namespace)
		return (__u64)task->tgid << 32 | (__u32)task->pid;
	return id_in_namespace(BPF_CORE_READ(task, group_leader, thread_pid),
			       gs_config.pid_namespace)
		       << 32 |
	       id_in_namespace(BPF_CORE_READ(task, thread_pid), gs_config.pid_namespace);
}

static __always_inline __u64 current_ids(void)
{
	if (gs_config.task_storage) /* cheaper than the helper */
		return ids_of((void *)bpf_get_current_task_btf());
	return gs_config.pid_namespace ? ids_of((void *)bpf_get_current_task())
				       : bpf_get_current_pid_tgid();
}

#endif
