/*
 * The wall-clock account: where the time of each followed thread goes, from its birth (or the
 * moment from which it is followed) to its end. The scheduler's own changes of state are counted,
 * as they happen; what a thread waits for is read from the system call that it is in, whose
 * registers stand at the end of its kernel stack, so that no call's entry needs a probe.
 */
#include "bpf/calls/decide.bpf.h"
#include "bpf/account/wait.bpf.h"

const volatile struct gs_account_config gs_account_config = {};

#define TASK_UNINTERRUPTIBLE   2 /* include/linux/sched.h */
#define TASK_STOPPED_OR_TRACED 0xc
#define TASK_DEAD              0x80
#define TS_COMPAT              2 /* arch/x86/include/asm/thread_info.h */
#define X32_BIT                0x40000000
#define S_IFMT                 0170000 /* include/uapi/linux/stat.h */
#define S_IFSOCK               0140000
#define S_IFREG                0100000
#define S_IFBLK                0060000
#define S_IFDIR                0040000
#define S_IFCHR                0020000
#define S_IFIFO                0010000
#define AF_UNIX                1
#define AF_NETLINK             16
#define FUTEX_COMMAND          0x7f /* include/uapi/linux/futex.h */
#define FUTEX_WAIT             0
#define FUTEX_LOCK_PI          6
#define FUTEX_LOCK_PI2         13
#define MUTEX_CONTENDED        2
#define CALL_POLL              7 /* of x86-64: its timeout is in ms, that of ppoll a struct timespec */
#define PSEUDO_MAGIC           0x9fa0 /* procfs: its files are made by the processor */

/* Functions of this shape, not static and with plain numbers only, are verified once by themselves
 * instead of at every place that calls them. */
#define ALONE __attribute__((noinline))

static __always_inline bool is_running(void)
{
	struct gs_kernel_state *s = state_get();

	return s && !s->stopped;
}

/* It is on a processor at the end of a turn, whatever is known of it. Now and then the kernel shows
 * neither a switch nor the wakeup before it (seen on 6.18, where ftrace misses the same ones: 37 of
 * 28,133 switches): then the turn's beginning was unseen, and the scheduler knows how long it was. */
static __always_inline void end_run(struct task_struct *p, struct gs_account *a, __u64 now,
				    bool with_python)
{
	__u64 ran = p->se.sum_exec_runtime, turn = ran - a->ran_ns, began = a->since_ns;

	a->ran_ns = ran;
	if (a->state == GS_STATE_CPU)
		return;
	if (turn < now && now - turn > began)
		began = now - turn;
	account_move(a, GS_STATE_CPU, GS_INSIDE_NONE, began);
	if (with_python)
		wait_end(a, began);
}

/* ---- what a thread waits for ---- */

ALONE __u32 gs_account_file(__u64 task, __u32 fd)
{
	struct task_struct *p = (void *)task;
	struct fdtable *t = BPF_CORE_READ(p, files, fdt);
	struct file **fds, *f = NULL;
	struct socket *socket;
	__u16 family;

	if (!t || fd >= BPF_CORE_READ(t, max_fds))
		return GS_STATE_OTHER;
	fds = BPF_CORE_READ(t, fd);
	bpf_probe_read_kernel(&f, sizeof(f), fds + fd);
	if (!f)
		return GS_STATE_OTHER;
	switch (BPF_CORE_READ(f, f_inode, i_mode) & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
		return (__u32)BPF_CORE_READ(f, f_inode, i_sb, s_magic) == PSEUDO_MAGIC
			       ? GS_STATE_OTHER
			       : GS_STATE_DISK;
	case S_IFBLK:
		return GS_STATE_DISK;
	case S_IFIFO:
	case S_IFCHR: /* terminals */
		return GS_STATE_PIPE;
	case S_IFSOCK:
		socket = BPF_CORE_READ(f, private_data);
		family = BPF_CORE_READ(socket, sk, __sk_common.skc_family);
		return family == AF_UNIX || family == AF_NETLINK ? GS_STATE_PIPE : GS_STATE_NETWORK;
	}
	return GS_STATE_OTHER;
}

/* The first file that is polled: what else is waited for there is mostly a way to be woken. */
ALONE __u32 gs_account_poll(__u64 task, __u64 fds, __u64 n)
{
	__u32 fd = 0, state;

	if (!n)
		return GS_STATE_SLEEP;
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)fds))
		return GS_STATE_POLL;
	state = gs_account_file(task, fd);
	return state == GS_STATE_PIPE || state == GS_STATE_NETWORK ? state : GS_STATE_POLL;
}

/* For how long a poll waits at most; 0: without end, or not known. */
ALONE __u64 gs_account_poll_ns(__u64 nr, __u64 timeout)
{
	struct {
		__s64 tv_sec, tv_nsec;
	} t = {};

	if (nr == CALL_POLL)
		return (__s32)timeout > 0 ? (__u64)(__u32)timeout * 1000000 : 0;
	if (!timeout || bpf_probe_read_user(&t, sizeof(t), (void *)timeout))
		return 0;
	return t.tv_sec >= 0 && t.tv_sec < 1 << 30 ? (__u64)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

/* A typed pointer as the number that such a function takes: to the verifier they are different types. */
static __always_inline __u64 number_of(const void *p)
{
	const void *volatile at = p;
	__u64 n = 0;

	bpf_probe_read_kernel(&n, sizeof(n), (const void *)&at);
	return n;
}

/* Does it wait for a mutex, not for an event? Those of glibc, and Go's, hold 2 while others wait
 * (nptl/lowlevellock.c, runtime/lock_futex.go); condition variables and semaphores wait by
 * FUTEX_WAIT_BITSET (sysdeps/nptl/futex-internal.c, glibc 2.21 on). A mutex with priority
 * inheritance has a call of its own. */
static __always_inline bool is_mutex(struct pt_regs *regs)
{
	__u32 command = (__u32)regs->si & FUTEX_COMMAND, value = (__u32)regs->dx;

	if (regs->orig_ax != WAIT_FUTEX)
		return false;
	return (command == FUTEX_WAIT && value == MUTEX_CONTENDED) || command == FUTEX_LOCK_PI ||
	       command == FUTEX_LOCK_PI2;
}

/* The thread sleeps in a call of that kind. own: it is the present task, whose memory can be read.
 */
static __noinline __u32 state_in_call(struct task_struct *p, __u32 kind, struct pt_regs *regs,
				      bool blocked, bool own)
{
	__u32 state;

	switch (kind) {
	case GS_ACCOUNT_WAIT_FD:
		state = gs_account_file(number_of(p), (__u32)regs->di);
		return state == GS_STATE_OTHER && blocked ? GS_STATE_DISK : state;
	case GS_ACCOUNT_WAIT_POLL:
		return own ? gs_account_poll(number_of(p), regs->di, regs->si) : GS_STATE_POLL;
	case GS_ACCOUNT_WAIT_SELECT:
		return regs->di ? GS_STATE_POLL : GS_STATE_SLEEP;
	case GS_ACCOUNT_WAIT_EPOLL:
		return GS_STATE_POLL;
	case GS_ACCOUNT_WAIT_LOCK:
		return is_mutex(regs) ? GS_STATE_MUTEX : GS_STATE_LOCK;
	case GS_ACCOUNT_WAIT_SLEEP:
		return GS_STATE_SLEEP;
	case GS_ACCOUNT_WAIT_NETWORK:
		state = gs_account_file(number_of(p), (__u32)regs->di);
		return state == GS_STATE_PIPE ? GS_STATE_PIPE : GS_STATE_NETWORK;
	case GS_ACCOUNT_WAIT_DISK:
		return GS_STATE_DISK;
	case GS_ACCOUNT_WAIT_PIPE:
		return GS_STATE_PIPE;
	case GS_ACCOUNT_WAIT_CHILD:
		return GS_STATE_CHILD;
	case GS_ACCOUNT_WAIT_MEMORY:
		return GS_STATE_FAULT;
	}
	return blocked ? GS_STATE_DISK : GS_STATE_OTHER;
}

/* Why a task that leaves its processor in this state does, and (ret_sp) where its stack was. */
static __always_inline __u32 state_of_wait(struct task_struct *p, __u64 task_state, bool own,
					   __u64 *ret_sp)
{
	bool blocked = task_state & TASK_UNINTERRUPTIBLE;
	struct pt_regs *regs;
	__u64 nr;

	if (!gs_account_config.has_regs)
		return GS_STATE_OTHER;
	regs = (void *)bpf_task_pt_regs(p);
	*ret_sp = regs->sp;
	nr = regs->orig_ax;
	if (task_state & TASK_STOPPED_OR_TRACED)
		return GS_STATE_OTHER;
	/* In no system call: a page fault, or the lock of the memory map that it takes. */
	if ((long)nr < 0)
		return GS_STATE_FAULT;
	if (BPF_CORE_READ_BITFIELD_PROBED(p, in_iowait))
		return GS_STATE_DISK;
	nr &= ~(__u64)X32_BIT;
	if (p->thread_info.status & TS_COMPAT || nr >= GS_ACCOUNT_CALLS)
		return blocked ? GS_STATE_DISK : GS_STATE_OTHER;
	return state_in_call(p, gs_account_config.wait[nr & (GS_ACCOUNT_CALLS - 1)], regs, blocked,
			     own);
}

/* Is an operator open whose frame holds that stack pointer? Ranges that the program named are not
 * asked: they may hold anything. */
ALONE __u32 gs_account_operator(__u32 slot, __u64 sp)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth = t ? t->scope_depth : 0;

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++, depth--) {
		struct gs_scope *s = &t->scope[(depth - 1) & (GS_SCOPE_MAX - 1)];

		if (s->layer == GS_LAYER_TORCH && s->sp >= sp &&
		    !gs_is_span(s->func, gs_config.span_first))
			return 1;
	}
	return 0;
}

/* Which traced call the thread is in whose stack in user space ends there. A call whose frame lies
 * below that was left by a jump. */
static __always_inline __u8 inside_of(const struct gs_account *a, __u64 sp)
{
	struct gs_thread *t = NULL;
	__u32 slot = a->thread;

	if (slot)
		t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (!t || t->ended || t->tid != a->tid)
		return GS_INSIDE_NONE;
	if (t->depth && t->frame[0].sp >= sp)
		return t->frame[0].inside;
	if (gs_config.scopes && t->scope_depth && gs_account_operator(slot, sp))
		return GS_INSIDE_OPERATOR;
	return GS_INSIDE_NONE;
}

/* ---- who is accounted for ---- */

static __always_inline bool in_cgroup(struct task_struct *p)
{
	struct cgroup *c = BPF_CORE_READ(p, cgroups, dfl_cgrp);

	for (int depth = 0; depth < 32 && c; depth++) {
		if (BPF_CORE_READ(c, kn, id) == gs_account_config.cgroup)
			return true;
		/* A cgroup begins with its own subsystem state. */
		c = (struct cgroup *)BPF_CORE_READ(c, self.parent);
	}
	return false;
}

/* As criteria_met(), of any task. */
static __always_inline bool meets_criteria(struct task_struct *p)
{
	if (gs_config.filter & GS_FILTER_ALL)
		return true;
	if (gs_config.filter == GS_FILTER_NONE)
		return false;
	if (gs_config.filter & GS_FILTER_UID &&
	    BPF_CORE_READ(p, real_cred, uid.val) != gs_config.uid)
		return false;
	if (gs_config.filter & GS_FILTER_CGROUP && !in_cgroup(p))
		return false;
	if (gs_config.filter & GS_FILTER_COMM) {
		char comm[16] = {};

		BPF_CORE_READ_INTO(&comm, p, group_leader, comm);
		return same_comm(comm, gs_config.comm);
	}
	return true;
}

static __always_inline bool is_wanted(struct task_struct *p)
{
	__u32 pid = ids_of(p) >> 32;

	return pid && (bpf_map_lookup_elem(&gs_procs, &pid) || meets_criteria(p));
}

/* Every task of the machine, when user space asks: those that are to be accounted for and are not
 * yet get an account; names are read again. */
SEC("?iter/task")
int gs_account_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct gs_account *a;
	__u32 state;
	__u64 sp;

	if (!p || p->flags & PF_KTHREAD)
		return 0;
	a = account_of(p);
	if (a) {
		account_describe(a, p);
		return 0;
	}
	if (!is_running() || !is_wanted(p))
		return 0;
	state = p->on_cpu    ? GS_STATE_CPU
		: p->__state ? state_of_wait(p, p->__state, false, &sp)
			     : GS_STATE_RUNQUEUE;
	account_begin(p, state, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/task_newtask")
int gs_account_newtask(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool thread = p->pid != p->tgid;

	if (p->flags & PF_KTHREAD || !is_running())
		return 0;
	if ((account_of(bpf_get_current_task_btf()) && (thread || gs_config.follow)) ||
	    meets_criteria(p))
		account_begin(p, GS_STATE_RUNQUEUE, bpf_ktime_get_ns());
	return 0;
}

/* One that takes over the first thread's id by exec is that thread from now on. */
SEC("?tp_btf/sched_process_exec")
int gs_account_exec(__u64 *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct gs_account *a = account_of(p);

	if (!is_running())
		return 0;
	if (a) {
		a->thread = 0;
		a->wait_is_python = 0;
		account_describe(a, p);
	} else if (is_wanted(p)) {
		account_begin(p, GS_STATE_CPU, bpf_ktime_get_ns());
	}
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int gs_account_exit(__u64 *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	__u32 *mark = bpf_task_storage_get(&gs_account_marks, p, 0, 0);
	struct gs_account *a = mark ? account_at(*mark) : NULL;
	__u64 now;

	if (!a || !is_running())
		return 0;
	now = bpf_ktime_get_ns();
	/* A last turn that began unseen has not ended the wait before it. Where waits of Python code are
	 * not asked for, nothing is sent. */
	end_run(p, a, now, true);
	account_move(a, GS_STATE_CPU, GS_INSIDE_NONE, now);
	BPF_CORE_READ_INTO(&a->comm, p, comm);
	*mark = 0;
	/* As of wait(2). */
	a->end_signal = p->exit_code & 0x7f;
	a->exit_status = p->exit_code >> 8 & 0xff;
	asm volatile("" ::: "memory");
	a->ended = 1;
	return 0;
}

/* ---- the scheduler ---- */

/* What was waited for is known when the wait ends: a poll whose time has passed brought nothing. It waited for
 * work, not for an answer. */
static __always_inline void end_wait(struct gs_account *a, __u64 now)
{
	if (a->state != GS_STATE_NETWORK || !a->wait_until_ns || now < a->wait_until_ns)
		return;
	a->sequence++;
	asm volatile("" ::: "memory");
	a->state = GS_STATE_POLL;
	asm volatile("" ::: "memory");
	a->sequence++;
	if (a->wait_cause == GS_STATE_NETWORK)
		a->wait_cause = GS_STATE_POLL;
}

/* The present task polls a socket: until when it may. It has been in the call for a while already, with which an
 * eighth less is as good as all. */
static __always_inline __u64 poll_until(struct task_struct *p, __u64 now)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(p);
	__u64 nr = regs->orig_ax & ~(__u64)X32_BIT, ns;

	if (nr >= GS_ACCOUNT_CALLS ||
	    gs_account_config.wait[nr & (GS_ACCOUNT_CALLS - 1)] != GS_ACCOUNT_WAIT_POLL)
		return 0;
	ns = gs_account_poll_ns(nr, regs->dx);
	return ns ? now + ns - ns / 8 : 0;
}

static __always_inline void leave_cpu(struct task_struct *p, struct gs_account *a, bool preempted,
				      __u64 task_state, __u64 now)
{
	__u64 sp = 0;
	__u32 state;

	if (task_state & TASK_DEAD)
		return;
	if (preempted || !task_state) {
		if (gs_account_config.has_regs)
			sp = ((struct pt_regs *)bpf_task_pt_regs(p))->sp;
		state = GS_STATE_RUNQUEUE;
	} else {
		state = state_of_wait(p, task_state, true, &sp);
	}
	account_move(a, state, inside_of(a, sp), now);
	a->wait_until_ns = state == GS_STATE_NETWORK ? poll_until(p, now) : 0;
}

/* with_python: the waits of Python code are asked for, too. */
static __always_inline void account_switch(__u64 *ctx, bool with_python)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 *slot = bpf_task_storage_get(&gs_account_marks, prev, 0, 0);
	struct gs_account *a = slot ? account_at(*slot) : NULL;
	__u64 task_state, now;

	if (a && is_running()) {
		now = bpf_ktime_get_ns();
		end_run(prev, a, now, with_python);
		if (gs_account_config.switch_state)
			task_state = (__u32)ctx[3];
		else
			task_state = prev->__state;
		leave_cpu(prev, a, ctx[0] & 1, task_state, now);
		if (with_python && a->state != GS_STATE_CPU)
			wait_begin(prev, a, *slot);
	}
	a = account_of(next);
	if (a && is_running()) {
		now = bpf_ktime_get_ns();
		end_wait(a, now);
		account_move(a, GS_STATE_CPU, GS_INSIDE_NONE, now);
		if (with_python)
			wait_end(a, now);
	}
}

SEC("?tp_btf/sched_switch")
int gs_account_switch(__u64 *ctx)
{
	account_switch(ctx, false);
	return 0;
}

SEC("?tp_btf/sched_switch")
int gs_account_switch_python(__u64 *ctx)
{
	account_switch(ctx, true);
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int gs_account_wakeup(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct gs_account *a = account_of(p);
	__u64 now;

	/* One that is woken before it has left its processor goes on there. */
	if (!a || a->state == GS_STATE_CPU || a->state == GS_STATE_RUNQUEUE || !is_running())
		return 0;
	now = bpf_ktime_get_ns();
	end_wait(a, now);
	account_move(a, GS_STATE_RUNQUEUE, a->inside, now);
	a->wait_woken_ns = a->since_ns;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
