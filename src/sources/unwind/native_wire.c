#include "sources/unwind/native_wire.h"

#include <string.h>

#define SEGMENT_BYTES 24

void native_put_segments(struct gs_wire_out *out, const struct gs_elf_segments *segments)
{
	gs_wire_put_u32(out, segments->n);
	for (unsigned i = 0; i < segments->n; i++) {
		gs_wire_put_u64(out, segments->parts[i].vaddr);
		gs_wire_put_u64(out, segments->parts[i].off);
		gs_wire_put_u64(out, segments->parts[i].bytes);
	}
}

bool native_take_segments(struct gs_wire_in *in, struct gs_elf_segments *ret)
{
	uint32_t n = gs_wire_count(in, SEGMENT_BYTES);

	if (n > GS_ELF_SEGMENTS_MAX)
		return false;
	ret->n = n;
	for (uint32_t i = 0; i < n; i++) {
		ret->parts[i].vaddr = gs_wire_u64(in);
		ret->parts[i].off = gs_wire_u64(in);
		ret->parts[i].bytes = gs_wire_u64(in);
	}
	return !in->bad;
}

static void put_value(struct gs_wire_out *out, const struct gs_cfi_value *v)
{
	gs_wire_put_u8(out, v->rule);
	gs_wire_put_u16(out, v->expr_bytes);
	gs_wire_put_u64(out, (uint64_t)v->arg);
}

void native_put_row(struct gs_wire_out *out, const struct gs_cfi_row *row)
{
	gs_wire_put_u8(out, row->signal);
	gs_wire_put_u8(out, row->cfa_is_expr);
	gs_wire_put_u8(out, row->cfa_reg);
	gs_wire_put_u16(out, row->cfa_expr_bytes);
	gs_wire_put_u64(out, (uint64_t)row->cfa_arg);
	for (unsigned i = 0; i < GS_REG_COUNT; i++)
		put_value(out, &row->reg[i]);
	gs_wire_put_u16(out, row->n_exprs);
	gs_wire_put(out, row->exprs, row->n_exprs);
}

/* An expression lies in those of the row: gs_cfi_step() looks again, but a row that cannot be is no
 * mistake of a compiler. */
static bool is_inside(const struct gs_cfi_row *row, int64_t at, uint16_t bytes)
{
	return at >= 0 && at <= row->n_exprs && bytes && bytes <= row->n_exprs - at;
}

static bool is_value(const struct gs_cfi_row *row, const struct gs_cfi_value *v)
{
	if (v->rule == GS_CFI_EXPR || v->rule == GS_CFI_VAL_EXPR)
		return is_inside(row, v->arg, v->expr_bytes);
	return v->rule <= GS_CFI_REGISTER;
}

bool native_take_row(struct gs_wire_in *in, struct gs_cfi_row *row)
{
	const void *exprs;

	row->signal = gs_wire_u8(in);
	row->cfa_is_expr = gs_wire_u8(in);
	row->cfa_reg = gs_wire_u8(in);
	row->cfa_expr_bytes = gs_wire_u16(in);
	row->cfa_arg = (int64_t)gs_wire_u64(in);
	for (unsigned i = 0; i < GS_REG_COUNT; i++) {
		row->reg[i].rule = gs_wire_u8(in);
		row->reg[i].expr_bytes = gs_wire_u16(in);
		row->reg[i].arg = (int64_t)gs_wire_u64(in);
	}
	row->n_exprs = gs_wire_u16(in);
	exprs = row->n_exprs <= GS_CFI_EXPRS_BYTES ? gs_wire_bytes(in, row->n_exprs) : NULL;
	if (!exprs || in->bad)
		return false;
	memcpy(row->exprs, exprs, row->n_exprs);
	for (unsigned i = 0; i < GS_REG_COUNT; i++)
		if (!is_value(row, &row->reg[i]))
			return false;
	return row->cfa_is_expr ? is_inside(row, row->cfa_arg, row->cfa_expr_bytes)
				: row->cfa_reg < GS_REG_COUNT;
}
