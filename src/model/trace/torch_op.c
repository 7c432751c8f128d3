/* Which operators of PyTorch are chosen, by their names: for probes, and inside of traced programs. */
#include "model/trace/torch_op.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool gs_torch_is_overload(const char *op, const char *base)
{
	size_t n = strlen(base);

	return strncmp(op, base, n) == 0 && (op[n] == 0 || op[n] == '.');
}

bool gs_torch_is_trivial(const char *op)
{
	static const char *const trivial[] = {
		/* properties */
		"size", "sym_size", "stride", "sym_stride", "numel", "sym_numel", "dim",
		"storage_offset", "sym_storage_offset", "output_nr", "_version", "requires_grad_",
		"retain_grad", "retains_grad", "_fw_primal", "set_data", "data", "result_type",
		"can_cast", "promote_types", "resolve_conj", "resolve_neg", "_nested_tensor_size",
		"_has_compatible_shallow_copy_type", "qscheme", "dense_dim", "sparse_dim", "_dimI",
		"_dimV", "_nnz",
		/* other views of the same memory; a copy that some make is an operator of its own */
		"alias", "as_strided", "as_strided_", "chunk", "contiguous", "detach", "detach_",
		"diagonal", "expand", "expand_as", "flatten", "lift", "lift_fresh", "mT", "mH",
		"matrix_H", "movedim", "narrow", "numpy_T", "permute", "_reshape_alias", "reshape",
		"reshape_as", "select", "slice", "split", "split_with_sizes", "squeeze", "squeeze_",
		"swapaxes", "swapdims", "t", "t_", "to", "transpose", "transpose_", "unbind",
		"unflatten", "unsqueeze", "unsqueeze_", "_unsafe_view", "view", "view_as",
		"view_as_complex", "view_as_real",
		/* memory without work */
		"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_",
		"set_"};

	if (strncmp(op, "is_", 3) == 0 || strncmp(op, "_is_", 4) == 0)
		return true;
	for (size_t i = 0; i < sizeof(trivial) / sizeof(trivial[0]); i++)
		if (gs_torch_is_overload(op, trivial[i]))
			return true;
	return false;
}

bool gs_torch_matches(const char *glob, const char *full_name)
{
	const char *op = strncmp(full_name, "aten::", 6) == 0 ? full_name + 6 : NULL;
	char base[GS_TORCH_NAME_BYTES + 8];
	size_t n;

	if (fnmatch(glob, full_name, 0) == 0)
		return true;
	if (!op)
		return false;
	snprintf(base, sizeof(base), "%s", full_name);
	n = strcspn(base, ".");
	base[n] = 0;
	return fnmatch(glob, op, 0) == 0 || fnmatch(glob, base, 0) == 0 ||
	       fnmatch(glob, base + 6, 0) == 0;
}
