/*
 * Return probes, as the kernel makes them: the return address on the stack is replaced by that of a
 * trampoline, and the true one is kept in a list of the thread (prepare_uretprobe() of
 * kernel/events/uprobes.c). Those of other tracers are among them.
 */
#ifndef GS_BPF_CALLS_RETURNS_BPF_H
#define GS_BPF_CALLS_RETURNS_BPF_H

#include "kernel.bpf.h"

struct return_instance {
	unsigned long stack; /* of the stack pointer at the function's entry */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} GS_CORE;

struct uprobe_task {
	struct return_instance *return_instances;
} GS_CORE;

struct task_struct___probed {
	struct uprobe_task *utask;
} GS_CORE;

struct xol_area {
	unsigned long vaddr; /* where return probes have functions return to */
} GS_CORE;

struct uprobes_state {
	struct xol_area *xol_area;
} GS_CORE;

struct mm_struct___probed {
	struct uprobes_state uprobes_state;
} GS_CORE;

/* The innermost one of the present thread; NULL: none. */
static __always_inline struct return_instance *returns_first(void)
{
	struct task_struct___probed *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, utask, return_instances);
}

/* What stands in the place of a return address that a return probe has replaced
 * (uprobe_get_trampoline_vaddr()); 0: there is none in this process, or the kernel does not say.
 */
static __always_inline unsigned long returns_trampoline(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct mm_struct___probed *mm = (void *)BPF_CORE_READ(task, mm);

	if (!mm || !bpf_core_field_exists(mm->uprobes_state))
		return 0;
	return BPF_CORE_READ(mm, uprobes_state.xol_area, vaddr);
}

#endif
