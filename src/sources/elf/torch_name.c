#include "sources/elf/torch_name.h"

#include <ctype.h>
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
		if (gs_torch_is_overload(op, eacgm[i].base))
			return eacgm[i].name;
	return NULL;
}

bool gs_torch_eacgm_row(size_t i, const char **ret_op, const char **ret_name)
{
	if (i >= GS_ARRAY_LEN(eacgm))
		return false;
	*ret_op = eacgm[i].base;
	*ret_name = eacgm[i].name;
	return true;
}
