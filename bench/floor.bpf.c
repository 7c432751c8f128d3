/*
 * What tracing a call costs at least on this kernel: programs that do nothing, and ones that only
 * read the clock at both ends. Nothing that measures durations with uprobes can cost less.
 */
#include "kernel.bpf.h"
#include "model/trace/hist.h"
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
	record = bpf_ringbuf_reserve(&floor_ring, 104, 0);
	if (!record)
		return 0;
	record[0] = *start;
	record[1] = bpf_ktime_get_ns() - *start;
	for (int i = 2; i < 13; i++)
		record[i] = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The least that says what a call was: which function, thread and processor, its result and the
 * arguments that are in registers; in a record or added up. No nesting, no choice of processes, no
 * account of what is lost. And the same with what a call such as cudaMalloc returns through its
 * first argument: one read of the process's memory. */
struct floor_record {
	__u64 start_ns, dur_ns;
	__u32 pid, tid, cpu, ret;
	__u64 func, arg[3], out[2];
	__u64 rest[3];
};
_Static_assert(sizeof(struct floor_record) == 104, "floor_record");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 512 * 64);
	__type(key, __u32);
	__type(value, __u64);
} floor_hist SEC(".maps");

static __always_inline int floor_write_record(struct pt_regs *ctx, _Bool read)
{
	__u64 *start = bpf_session_cookie(), now;
	struct task_struct *task;
	struct floor_record *record;

	if (!*start) {
		*start = bpf_ktime_get_ns();
		return 0;
	}
	now = bpf_ktime_get_ns();
	task = (void *)bpf_get_current_task_btf();
	record = bpf_ringbuf_reserve(&floor_ring, sizeof(*record), 0);
	if (!record)
		return 0;
	record->start_ns = *start;
	record->dur_ns = now - *start;
	record->pid = task->tgid;
	record->tid = task->pid;
	record->cpu = bpf_get_smp_processor_id();
	record->ret = (__u32)ctx->ax;
	record->func = bpf_get_attach_cookie(ctx);
	record->arg[0] = ctx->di;
	record->arg[1] = ctx->si;
	record->arg[2] = ctx->dx;
	record->out[0] = 0;
	record->out[1] = 0;
	record->rest[0] = 0;
	record->rest[1] = 0;
	record->rest[2] = 0;
	/* The stack is as good as any other memory here: what costs is the read. */
	if (read)
		bpf_probe_read_user(record->out, 8, (void *)ctx->sp);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("?uprobe")
int floor_session_record(struct pt_regs *ctx)
{
	return floor_write_record(ctx, 0);
}

SEC("?uprobe")
int floor_session_record_read(struct pt_regs *ctx)
{
	return floor_write_record(ctx, 1);
}

SEC("?uprobe")
int floor_session_hist(struct pt_regs *ctx)
{
	__u64 *start = bpf_session_cookie(), now, *count;
	__u32 key;

	if (!*start) {
		*start = bpf_ktime_get_ns();
		return 0;
	}
	now = bpf_ktime_get_ns();
	key = (bpf_get_attach_cookie(ctx) & 511) * 64 + (gs_log2_u64(now - *start) & 63);
	count = bpf_map_lookup_elem(&floor_hist, &key);
	if (count)
		(*count)++;
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

/* At two places of a function, where it is entered and where it is left, as operators are seen. */
SEC("?uprobe")
int floor_sites(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int floor_sites_clock(struct pt_regs *ctx)
{
	bpf_ktime_get_ns();
	return 0;
}

/* The least that identifies an operator: which it is, which thread, when it began (kept by the stack
 * pointer), and one bucket of a histogram. No nesting beyond that, no choice of processes. */
struct floor_open {
	__u64 sp, start_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct floor_open);
} floor_opens SEC(".maps");

SEC("?uprobe")
int floor_sites_hist(struct pt_regs *ctx)
{
	struct floor_open *open = bpf_task_storage_get(&floor_opens, bpf_get_current_task_btf(), 0,
						       BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 cookie = bpf_get_attach_cookie(ctx), *count;
	__u32 key;

	if (!open)
		return 0;
	if (cookie & 1) {
		open->sp = ctx->sp;
		open->start_ns = bpf_ktime_get_ns();
		return 0;
	}
	if (open->sp != ctx->sp)
		return 0;
	key = (cookie & 511) * 64 + (gs_log2_u64(bpf_ktime_get_ns() - open->start_ns) & 63);
	count = bpf_map_lookup_elem(&floor_hist, &key);
	if (count)
		(*count)++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
