/*
 * What tracing a call costs at least on this kernel: programs that do nothing, and ones that only
 * read the clock at both ends. Nothing that measures durations with uprobes can cost less.
 */
#include "kernel.bpf.h"
#include "session.bpf.h"

SEC("?uprobe")
int floor_session(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int floor_session_clock(struct pt_regs *ctx)
{
	__u64 *start = bpf_session_cookie();

	if (session_is_return(start))
		*start = bpf_ktime_get_ns() - *start;
	else
		*start = bpf_ktime_get_ns();
	return 0;
}

/* In pairs: for the entry and for the return. */
SEC("?uprobe")
int floor_pair(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int floor_pair_clock(struct pt_regs *ctx)
{
	bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
