/* Operators of PyTorch: nothing beyond the common engine. */
#include "scope.bpf.h"

SEC("?uprobe")
int gs_torch_site(struct pt_regs *ctx)
{
	scope_at_site(ctx, GS_LAYER_TORCH);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
