/*
 * What counting system calls costs at least on this kernel: programs on the return of system calls,
 * or on both ends, that do nothing, find the thread's own memory, read the clock, or count.
 */
#include "bpf/tasks/taskstats_kernel.bpf.h"

struct note {
	__u64 enter_ns, calls, ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct note);
} floor_notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, __u64);
} floor_counts SEC(".maps");

/* The programs that end in _enter go with those of the same name without. */

SEC("?tp_btf/sys_exit")
int floor_exit(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sys_exit")
int floor_both(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sys_enter")
int floor_both_enter(__u64 *ctx)
{
	return 0;
}

/* All frequent places at which gpuscope job has programs. */

SEC("?tp_btf/sys_exit")
int floor_all(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sys_enter")
int floor_all_enter(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_switch")
int floor_all_switch(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int floor_all_wakeup(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/task_newtask")
int floor_all_new(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int floor_all_end(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_process_free")
int floor_all_free(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_migrate_task")
int floor_all_migrate(__u64 *ctx)
{
	return 0;
}

/* Which call it was, counted for each processor: threads are not distinguished. */
SEC("?tp_btf/sys_exit")
int floor_count(__u64 *ctx)
{
	__u32 nr = ((struct pt_regs *)ctx[0])->orig_ax & 511;
	__u64 *n = bpf_map_lookup_elem(&floor_counts, &nr);

	if (n)
		(*n)++;
	return 0;
}

/* The thread's own memory is looked up: the least that distinguishes threads. */
SEC("?tp_btf/sys_exit")
int floor_mark(__u64 *ctx)
{
	struct note *n = bpf_task_storage_get(&floor_notes, bpf_get_current_task_btf(), 0,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (n)
		n->calls++;
	return 0;
}

/* And the time between both ends: the least that times the calls of threads. */
SEC("?tp_btf/sys_exit")
int floor_time(__u64 *ctx)
{
	struct note *n = bpf_task_storage_get(&floor_notes, bpf_get_current_task_btf(), 0,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (n) {
		n->ns += bpf_ktime_get_ns() - n->enter_ns;
		n->calls++;
	}
	return 0;
}

SEC("?tp_btf/sys_enter")
int floor_time_enter(__u64 *ctx)
{
	struct note *n = bpf_task_storage_get(&floor_notes, bpf_get_current_task_btf(), 0, 0);

	if (n)
		n->enter_ns = bpf_ktime_get_ns();
	return 0;
}

/* Switches and wakeups instead of system calls: what a thread's account stands on. */
SEC("?tp_btf/sched_switch")
int floor_sched(__u64 *ctx)
{
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int floor_sched_enter(__u64 *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
