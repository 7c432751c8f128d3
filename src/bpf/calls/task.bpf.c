/*
 * Births, new programs and ends of followed processes. A child is followed from its first
 * instruction on, since this runs inside fork().
 */
#include "thread.bpf.h"
#include "gpu_maps.bpf.h"
#include "model/trace/exec.h"

/* include/linux/binfmts.h: what is really run, of a script its interpreter. */
struct linux_binprm {
	const char *interp;
} GS_CORE;

static __always_inline void fill_task(struct gs_event_task *e, __u16 bytes, struct task_struct *p,
				      __u32 change, __u32 parent_pid, __u32 slot)
{
	__u64 id = ids_of(p);

	e->head.kind = GS_EV_TASK;
	e->head.bytes = bytes;
	e->head.pad = 0;
	e->time_ns = bpf_ktime_get_ns();
	e->pid = id >> 32;
	e->tid = (__u32)id;
	e->parent_pid = parent_pid;
	e->change = change;
	e->thread_slot = slot;
	e->pad = 0;
	__builtin_memcpy(e->comm, p->comm, sizeof(e->comm));
}

static __always_inline void send_task(struct task_struct *p, __u32 change, __u32 parent_pid,
				      __u32 slot)
{
	struct gs_event_task *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e) {
		count_loss(GS_LAYER_NONE, GS_LOSS_NOTICE);
		return;
	}
	fill_task(e, sizeof(*e), p, change, parent_pid, slot);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline void send_exec(struct task_struct *p, struct linux_binprm *program,
				      __u32 slot)
{
	struct gs_event_exec *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e) {
		count_loss(GS_LAYER_NONE, GS_LOSS_NOTICE);
		return;
	}
	fill_task(&e->task, sizeof(*e), p, GS_TASK_EXEC, 0, slot);
	if (bpf_probe_read_kernel_str(e->file, sizeof(e->file), program->interp) < 0)
		e->file[0] = '\0';
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* A copy of a process has its interpreter at the same address. */
static __always_inline void python_inherit(__u32 parent_pid, __u32 pid)
{
	struct gs_py_proc *of_parent, copy;

	if (!gs_config.py_stack_at)
		return;
	of_parent = bpf_map_lookup_elem(&gs_py_procs, &parent_pid);
	if (!of_parent)
		return;
	copy = *of_parent;
	bpf_map_update_elem(&gs_py_procs, &pid, &copy, BPF_ANY);
}

SEC("?tp_btf/sched_process_fork")
int gs_task_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	__u32 pid = ids_of(child) >> 32, parent_pid = ids_of(parent) >> 32, one = 1;

	if (child->pid != child->tgid || !gs_config.follow)
		return 0;
	if (!bpf_map_lookup_elem(&gs_procs, &parent_pid))
		return 0;
	bpf_map_update_elem(&gs_procs, &pid, &one, BPF_ANY);
	python_inherit(parent_pid, pid);
	send_task(child, GS_TASK_FORK, parent_pid, 0);
	return 0;
}

/* The slot that the present thread holds, given back: it reports no more calls under it. */
static __always_inline __u32 leave_slot(void)
{
	struct gs_task_mark *m = mark_get(false);
	__u32 slot = m ? m->slot : 0;
	struct gs_thread *t;

	if (!slot)
		return 0;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (t) {
		t->cpu_ns = task_cpu_ns();
		t->ended = 1;
	}
	mark_forget();
	return slot;
}

/* What was known of the program before is forgotten. The new one's interpreter may already have
 * been found: user space sees the new program before its mapping, this comes after it. */
static __always_inline void python_exec(struct task_struct *p, __u32 pid)
{
	struct gs_py_proc *known = bpf_map_lookup_elem(&gs_py_procs, &pid);
	struct mm_struct *mm = p->mm;

	if (known && !(mm && known->image == mm->env_end))
		bpf_map_delete_elem(&gs_py_procs, &pid);
}

SEC("?tp_btf/sched_process_exec")
int gs_task_exec(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct linux_binprm *program = (void *)ctx[2];
	__u32 pid = ids_of(p) >> 32, slot = leave_slot();

	if (gs_config.py_stack_at)
		python_exec(p, pid);
	if (slot || bpf_map_lookup_elem(&gs_procs, &pid))
		send_exec(p, program, slot);
	return 0;
}

/* The process's sums are complete: user space takes them, and the place. */
static __always_inline void gpu_leave(__u32 pid)
{
	__u32 *index = bpf_map_lookup_elem(&gs_gpu_process_of, &pid);
	struct gs_gpu_queue_process *p =
		index ? bpf_map_lookup_elem(&gs_gpu_processes, index) : NULL;

	if (!p)
		return;
	bpf_map_delete_elem(&gs_gpu_process_of, &pid);
	p->ended = 1;
}

SEC("?tp_btf/sched_process_exit")
int gs_task_exit(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u32 pid = ids_of(p) >> 32, slot = leave_slot();
	bool last = p->signal->live.counter == 0;
	bool known = bpf_map_lookup_elem(&gs_procs, &pid);

	if (last && known)
		bpf_map_delete_elem(&gs_procs, &pid);
	if (last && gs_config.py_stack_at)
		bpf_map_delete_elem(&gs_py_procs, &pid);
	if (last && gs_config.gpu_queue)
		gpu_leave(pid);
	if (slot || (last && known))
		send_task(p, GS_TASK_EXIT, 0, slot);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
