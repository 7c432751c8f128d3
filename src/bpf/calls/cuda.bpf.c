/* CUDA runtime and driver calls: more than the common engine are sizes that lie in memory, first calls,
 * which are left alone, and names of kernels. */
#define GS_WITH_CUDA
#define GS_WITH_FIRST_CALLS
#define GS_WITH_GPU_QUEUE
#include "call.bpf.h"
#include "session.bpf.h"
#include "kernel_name.bpf.h"

SEC("?uprobe")
int gs_cuda_session(struct pt_regs *ctx)
{
	__u64 *place = bpf_session_cookie();
	__u32 depth;

	if (session_is_return(place)) {
		/* Else these functions have their ends at their exits: spare launches the question. */
		if (!gs_config.first_calls)
			kernel_note_end(*place >> 32);
		call_leave(ctx, *place, true);
		return 0;
	}
	if (call_is_exit(ctx)) {
		kernel_note_end(bpf_get_attach_cookie(ctx));
		call_leave_by_ret(ctx, &depth, true);
		return SESSION_NO_RETURN;
	}
	kernel_note(ctx);
	return call_enter(ctx, place, true) && !call_has_exits(ctx) ? 0 : SESSION_NO_RETURN;
}

SEC("?uprobe")
int gs_cuda_enter(struct pt_regs *ctx)
{
	__u64 place;
	__u32 depth;

	if (call_is_exit(ctx)) {
		kernel_note_end(bpf_get_attach_cookie(ctx));
		call_leave_by_ret(ctx, &depth, false);
		return 0;
	}
	kernel_note(ctx);
	call_enter(ctx, &place, false);
	return 0;
}

SEC("?uprobe")
int gs_cuda_leave(struct pt_regs *ctx)
{
	__u32 depth;

	kernel_note_end(bpf_get_attach_cookie(ctx));
	call_leave_unpaired(ctx, &depth);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
