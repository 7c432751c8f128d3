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

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} floor_ring SEC(".maps");

/* The clock at both ends and a record of the size of ours for each call, which says nothing of it:
 * which function it was, which thread, which arguments. */
SEC("?uprobe")
int floor_session_ring(struct pt_regs *ctx)
{
	__u64 *start = bpf_session_cookie(), *record;

	if (!*start) {
		*start = bpf_ktime_get_ns();
		return 0;
	}
	record = bpf_ringbuf_reserve(&floor_ring, 96, 0);
	if (!record)
		return 0;
	record[0] = *start;
	record[1] = bpf_ktime_get_ns() - *start;
	for (int i = 2; i < 12; i++)
		record[i] = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
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
