/* Described functions of C++, which may throw: nothing beyond the common engine. */
#include "bpf/calls/scope.bpf.h"

SEC("?uprobe")
int gs_uscope_site(struct pt_regs *ctx)
{
	scope_at_site(ctx, GS_LAYER_USER);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
