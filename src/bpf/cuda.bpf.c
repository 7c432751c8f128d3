/* CUDA runtime and driver calls: nothing beyond the common engine. */
#include "call.bpf.h"
#include "session.bpf.h"

SEC("?uprobe")
int gs_cuda_session(struct pt_regs *ctx)
{
	__u64 *place = bpf_session_cookie();

	if (session_is_return(place)) {
		call_leave(ctx, *place);
		return 0;
	}
	return call_enter(ctx, place) ? 0 : SESSION_NO_RETURN;
}

SEC("?uprobe")
int gs_cuda_enter(struct pt_regs *ctx)
{
	__u64 place;

	call_enter(ctx, &place);
	return 0;
}

SEC("?uprobe")
int gs_cuda_leave(struct pt_regs *ctx)
{
	__u32 depth;

	call_leave_unpaired(ctx, &depth);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
