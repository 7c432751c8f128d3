#include "sources/elf/torch_name.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/kernel_side.h"

#define OPS_PREFIX "_ZN2at4_ops"
#define CALL       "4callE"

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

bool gs_torch_part(const char *symbol, const char **ret_part, size_t *ret_bytes)
{
	const char *p = symbol + strlen(OPS_PREFIX);
	size_t bytes = 0;

	if (strncmp(symbol, OPS_PREFIX, strlen(OPS_PREFIX)) != 0 || *p < '1' || *p > '9')
		return false;
	for (; isdigit((unsigned char)*p); p++) {
		bytes = bytes * 10 + (size_t)(*p - '0');
		if (bytes >= GS_TORCH_NAME_BYTES)
			return false;
	}
	if (strnlen(p, bytes) < bytes || strncmp(p + bytes, CALL, strlen(CALL)) != 0)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!is_word(p[i]))
			return false;
	*ret_part = p;
	*ret_bytes = bytes;
	return true;
}

size_t gs_torch_schema_name(const char *text)
{
	size_t n = 0, dots = 0;

	if (!isalpha((unsigned char)text[0]) && text[0] != '_')
		return 0;
	for (; is_word(text[n]) || text[n] == '.'; n++) {
		dots += text[n] == '.';
		if (n + 1 >= GS_TORCH_NAME_BYTES)
			return 0;
	}
	return text[n] == '(' && dots <= 1 && text[n - 1] != '.' ? n : 0;
}

static const struct {
	const char *prefix; /* of the mangled name: its arguments differ between versions */
	const char *name;
} spans[] = {
	{"_ZN5torch8autograd6Engine7executeE", "autograd::execute"},
	{"_ZN5torch8autograd6Engine17evaluate_functionE", "autograd::evaluate_function"},
	{"_ZN5torch5optim7Adagrad4stepE", "optim::Adagrad.step"},
	{"_ZN5torch5optim4Adam4stepE", "optim::Adam.step"},
	{"_ZN5torch5optim5AdamW4stepE", "optim::AdamW.step"},
	{"_ZN5torch5optim5LBFGS4stepE", "optim::LBFGS.step"},
	{"_ZN5torch5optim7RMSprop4stepE", "optim::RMSprop.step"},
	{"_ZN5torch5optim3SGD4stepE", "optim::SGD.step"},
};

const char *gs_torch_span(const char *symbol)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(spans); i++)
		if (strncmp(symbol, spans[i].prefix, strlen(spans[i].prefix)) == 0)
			return spans[i].name;
	return NULL;
}

unsigned gs_torch_span_site(const char *symbol)
{
	static const char enter[] = "_ZN5torch8autograd8profiler25record_function_enter_new";

	if (strncmp(symbol, enter, sizeof(enter) - 1) == 0)
		return GS_SPAN_NAME;
	if (strcmp(symbol, "_ZN2at14RecordFunctionC1ENS_11RecordScopeE") == 0)
		return GS_SPAN_BEGIN;
	return strcmp(symbol, "_ZN2at14RecordFunction3endEv") == 0 ? GS_SPAN_END : 0;
}

/* Compares the operator's name without its overload. */
static bool base_is(const char *op, const char *base)
{
	size_t n = strlen(base);

	return strncmp(op, base, n) == 0 && (op[n] == 0 || op[n] == '.');
}

/* The operators that eACGM probes and what it calls them. */
static const struct {
	const char *base, *name;
} eacgm[] = {
	{"add", "TorchAdd"},
	{"sub", "TorchSub"},
	{"mul", "TorchMul"},
	{"matmul", "TorchMatmul"},
	{"div", "TorchDiv"},
	{"linear", "TorchLinear"},
	{"conv2d", "TorchConv2d"},
	{"relu", "TorchReLU"},
	{"sigmoid", "TorchSigmoid"},
	{"tanh", "TorchTanh"},
	{"softmax", "TorchSoftmax"},
	{"mse_loss", "TorchMSELoss"},
	{"binary_cross_entropy", "TorchBCELoss"},
	{"cross_entropy_loss", "TorchCrossEntropyLoss"},
	{"conv_transpose2d", "TorchConvTranspose2d"},
	{"max_unpool2d", "TorchMaxUnpool2d"},
	{"batch_norm", "TorchBatchNorm2d"},
	{"avg_pool2d", "TorchAvgPool2d"},
	{"max_pool2d", "TorchMaxPool2d"},
	{"dropout", "TorchDropout"},
	{"embedding", "TorchEmbedding"},
	{"lstm", "TorchLSTM"},
	{"adaptive_max_pool2d", "TorchAdaptiveMaxPool2d"},
	{"adaptive_avg_pool2d", "TorchAdaptiveAvgPool2d"},
};

const char *gs_torch_eacgm_name(const char *op)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(eacgm); i++)
		if (base_is(op, eacgm[i].base))
			return eacgm[i].name;
	return NULL;
}

bool gs_torch_is_trivial(const char *op)
{
	static const char *const trivial[] = {
		/* properties */
		"size",
		"sym_size",
		"stride",
		"sym_stride",
		"numel",
		"sym_numel",
		"dim",
		"storage_offset",
		"sym_storage_offset",
		"output_nr",
		"_version",
		"requires_grad_",
		"retain_grad",
		"retains_grad",
		"_fw_primal",
		"set_data",
		"data",
		"result_type",
		"can_cast",
		"promote_types",
		"resolve_conj",
		"resolve_neg",
		"_nested_tensor_size",
		"_has_compatible_shallow_copy_type",
		"qscheme",
		"dense_dim",
		"sparse_dim",
		"_dimI",
		"_dimV",
		"_nnz",
		/* other views of the same memory, and what asks for them; a copy that some of these
		 * make is an operator of its own (copy_, clone) */
		"alias",
		"as_strided",
		"as_strided_",
		"chunk",
		"contiguous",
		"detach",
		"detach_",
		"diagonal",
		"expand",
		"expand_as",
		"flatten",
		"lift",
		"lift_fresh",
		"mT",
		"mH",
		"matrix_H",
		"movedim",
		"narrow",
		"numpy_T",
		"permute",
		"_reshape_alias",
		"reshape",
		"reshape_as",
		"select",
		"slice",
		"split",
		"split_with_sizes",
		"squeeze",
		"squeeze_",
		"swapaxes",
		"swapdims",
		"t",
		"t_",
		"to",
		"transpose",
		"transpose_",
		"unbind",
		"unflatten",
		"unsqueeze",
		"unsqueeze_",
		"_unsafe_view",
		"view",
		"view_as",
		"view_as_complex",
		"view_as_real",
		/* memory without work */
		"empty",
		"empty_like",
		"empty_strided",
		"new_empty",
		"new_empty_strided",
		"resize_",
		"set_",
	};

	if (strncmp(op, "is_", 3) == 0 || strncmp(op, "_is_", 4) == 0)
		return true;
	for (size_t i = 0; i < GS_ARRAY_LEN(trivial); i++)
		if (base_is(op, trivial[i]))
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
