/*
 * Exceptions. Functions that were left on the way to where an exception is caught end here, as
 * failed. The probe is on __cxa_begin_catch of libstdc++, which the function that has caught calls
 * first of all.
 */
#include "scope.bpf.h"

/* A function of its own for the verifier, which would otherwise walk it for each open scope. */
__noinline int gs_unwind_close(__u32 slot, __u32 depth, __u64 now)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);

	if (t && t->scope[depth & SCOPE_MASK].resumed == SCOPE_OF_FRAME)
		t->scope_depth = depth;
	else if (t)
		scope_close(NULL, t, slot, depth, now, SCOPE_THREW);
	return 0;
}

SEC("?uprobe")
int gs_unwind_site(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct gs_kernel_state *state = state_get();
	struct gs_thread *t;
	__u32 slot, depth;

	if (!state || state->stopped)
		return 0;
	t = thread_known(&slot);
	if (!t)
		return 0;
	depth = t->scope_depth;
	for (int i = 0; i < GS_SCOPE_MAX && depth; i++) {
		depth--;
		/* The one who catches stands above the return address of this call. */
		if (t->scope[depth & SCOPE_MASK].sp > ctx->sp)
			break;
		gs_unwind_close(slot, depth, now);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
