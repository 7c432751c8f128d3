/* Garbage collections of Python and waits for its lock: nothing beyond the common engine. */
#include "scope.bpf.h"

SEC("?uprobe")
int gs_pyspan_site(struct pt_regs *ctx)
{
	scope_at_site(ctx, GS_LAYER_PYTHON);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
