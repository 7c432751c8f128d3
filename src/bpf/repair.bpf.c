/*
 * Unwinders and return probes. An unwinder reads return addresses from the stack. Where a return
 * probe has put the address of the kernel's trampoline, it finds no table, takes that for the end
 * of the stack, and a program that throws is terminated, a thread that is cancelled loses its
 * clean-up. So there are probes where unwinding begins (_Unwind_RaiseException and its like of
 * libgcc_s and of other unwinders), and at each the true addresses are written back: to the very
 * words that hold the trampoline's address, above the stack pointer of the calling thread, from the
 * kernel's own list.
 *
 * After that these calls return without a probe. The kernel drops what it kept of them as it does
 * after a longjmp (cleanup_return_instances()); their ends are not seen, which is counted.
 */
#include "thread.bpf.h"
#include "returns.bpf.h"

#define REPAIR_MAX 64 /* MAX_URETPROBE_DEPTH of kernel/events/uprobes.c */

SEC("?uprobe")
int gs_repair_site(struct pt_regs *ctx)
{
	struct return_instance *ri = returns_first();
	unsigned long trampoline, word, at, address;
	struct gs_kernel_state *s = state_get();

	if (!ri)
		return 0;
	trampoline = returns_trampoline();
	if (!trampoline)
		return 0;
	for (int i = 0; i < REPAIR_MAX && ri; i++) {
		at = BPF_CORE_READ(ri, stack);
		address = BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
		if (at <= ctx->sp || !address ||
		    bpf_probe_read_user(&word, sizeof(word), (void *)at) || word != trampoline)
			continue;
		if (bpf_probe_write_user((void *)at, &address, sizeof(address)) == 0 && s)
			__sync_fetch_and_add(&s->n_repaired, 1);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
