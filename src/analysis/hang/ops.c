/* Calls that ranks make as one collective: whether they match, and which rank made another one. */
#include "analysis/hang/hang.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/trace/func.h"

/* ncclBcast is the older form of the same. */
static uint32_t function_of(const struct gs_hang_op *op)
{
	const struct gs_func *f = gs_func_by_id(op->function);
	uint32_t same;

	if (!f || strcmp(f->name, "ncclBcast") != 0)
		return op->function;
	for (same = 1; same < GS_FUNC_FIXED; same++) {
		f = gs_func_by_id(same);
		if (f && strcmp(f->name, "ncclBroadcast") == 0)
			return same;
	}
	return op->function;
}

/* Operations that programs make have numbers that may differ between ranks. */
static uint32_t operation_of(const struct gs_hang_op *op)
{
	const uint32_t n_known = 5; /* nccl.h: ncclNumOps */
	uint32_t operation = op->aux >> 8 & 0xff;

	return operation < n_known || operation == 0xff ? operation : n_known;
}

bool gs_hang_ops_agree(const struct gs_hang_op *a, const struct gs_hang_op *b)
{
	return (a->function == b->function || function_of(a) == function_of(b)) &&
	       a->count == b->count && (a->aux & 0xff) == (b->aux & 0xff) &&
	       a->aux >> 16 == b->aux >> 16 && operation_of(a) == operation_of(b);
}

struct gs_hang_op gs_hang_op_normal(const struct gs_hang_op *op)
{
	return (struct gs_hang_op){.function = function_of(op),
				   .aux = (op->aux & 0xffff00ff) | operation_of(op) << 8,
				   .count = op->count};
}

struct gs_hang_op gs_hang_op_of_most(const struct gs_hang_pair *pairs, size_t n,
				     struct gs_hang_op *ret_next)
{
	size_t n_votes = 0, n_called = 0, lead = 0;
	struct gs_hang_op op = {0};

	*ret_next = (struct gs_hang_op){0};
	for (size_t i = 0; i < n; i++) {
		if (!pairs[i].at[0].function)
			continue;
		n_called++;
		if (lead == 0)
			op = pairs[i].at[0];
		lead += gs_hang_ops_agree(&op, &pairs[i].at[0]) ? 1 : (size_t)-1;
	}
	for (size_t i = 0; i < n; i++) {
		if (!pairs[i].at[0].function || !gs_hang_ops_agree(&op, &pairs[i].at[0]))
			continue;
		n_votes++;
		if (!ret_next->function)
			*ret_next = pairs[i].at[1];
	}
	return 2 * n_votes > n_called ? op : (struct gs_hang_op){0};
}

enum gs_hang_state gs_hang_state_of_pair(const struct gs_hang_pair *pair,
					 const struct gs_hang_op *most,
					 const struct gs_hang_op *next)
{
	if (!most->function)
		return GS_HANG_ODD;
	if (gs_hang_ops_agree(&pair->at[0], most))
		return GS_HANG_ARRIVED;
	if (next->function && gs_hang_ops_agree(&pair->at[0], next))
		return GS_HANG_SKIPPED;
	return pair->at[1].function && gs_hang_ops_agree(&pair->at[1], most) ? GS_HANG_EXTRA
									     : GS_HANG_ODD;
}

bool gs_hang_has_shifted(const struct gs_hang_pair *pairs, size_t n)
{
	const struct gs_hang_pair *first = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!pairs[i].at[0].function)
			continue;
		if (!first)
			first = &pairs[i];
		if (gs_hang_ops_agree(&first->at[0], &pairs[i].at[0]))
			continue;
		if ((first->at[1].function && gs_hang_ops_agree(&first->at[1], &pairs[i].at[0])) ||
		    (pairs[i].at[1].function && gs_hang_ops_agree(&pairs[i].at[1], &first->at[0])))
			return true;
	}
	return false;
}

const char *gs_hang_op_text(const struct gs_hang_op *op, char out[GS_HANG_TEXT_BYTES])
{
	const struct gs_func *f = gs_func_by_id(op->function);
	unsigned operation = op->aux >> 8 & 0xff, root = op->aux >> 16;
	int n = snprintf(out, GS_HANG_TEXT_BYTES, "%s of %" PRIu64 " %s", f ? f->name : "no call",
			 op->count, gs_nccl_dtype_name(op->aux & 0xff));

	/* The sum is what nearly all calls ask for. */
	if (operation && operation != 0xff)
		n += snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, " (%s)",
			      gs_nccl_op_name(operation));
	if (root != 0xffff)
		snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, ", root %u", root);
	return out;
}
