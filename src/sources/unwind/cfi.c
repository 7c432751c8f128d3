/* The instructions of a function's entry, run up to one address: what holds there. */
#include "sources/unwind/cfi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/unwind/cfi_int.h"

#define MAX_REMEMBERED 16

struct run {
	struct gs_cfi_row row;
	struct gs_cfi_row initial; /* as the CIE leaves it */
	struct gs_cfi_row remembered[MAX_REMEMBERED];
	unsigned n_remembered;
	const struct gs_cie *cie;
	uint64_t at; /* address of the code that the present row is for */
};

/* NULL for a register that no table restores. */
static struct gs_cfi_value *value_of(struct run *run, uint64_t reg)
{
	return reg < GS_REG_COUNT ? &run->row.reg[reg] : NULL;
}

static void set_rule(struct run *run, uint64_t reg, enum gs_cfi_rule rule, int64_t arg)
{
	struct gs_cfi_value *v = value_of(run, reg);

	if (v)
		*v = (struct gs_cfi_value){.rule = (uint8_t)rule, .arg = arg};
}

static void set_expr(struct run *run, struct gs_cfi_cursor *c, uint64_t reg, enum gs_cfi_rule rule)
{
	uint64_t bytes = gs_cfi_cursor_uleb(c), at = gs_cfi_cursor_vaddr(c);
	struct gs_cfi_value *v = value_of(run, reg);

	gs_cfi_cursor_skip(c, bytes);
	if (bytes > UINT16_MAX)
		c->bad = true;
	if (v)
		*v = (struct gs_cfi_value){
			.rule = (uint8_t)rule, .expr_bytes = (uint16_t)bytes, .arg = (int64_t)at};
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset, struct gs_cfi_cursor *c)
{
	if (reg >= GS_REG_COUNT)
		c->bad = true;
	run->row.cfa_is_expr = false;
	run->row.cfa_reg = (uint8_t)reg;
	run->row.cfa_arg = offset;
}

static void restore_rule(struct run *run, uint64_t reg)
{
	if (reg < GS_REG_COUNT)
		run->row.reg[reg] = run->initial.reg[reg];
}

/* Offsets count in units of the CIE's factor; a product that overflows is damage, not ours. */
static int64_t factor_offset(const struct run *run, int64_t n)
{
	return (int64_t)((uint64_t)n * (uint64_t)run->cie->data_align);
}

static void remember_row(struct run *run, struct gs_cfi_cursor *c)
{
	if (run->n_remembered == MAX_REMEMBERED)
		c->bad = true;
	else
		run->remembered[run->n_remembered++] = run->row;
}

static void recall_row(struct run *run, struct gs_cfi_cursor *c)
{
	if (run->n_remembered == 0)
		c->bad = true;
	else
		run->row = run->remembered[--run->n_remembered];
}

static void advance_location(struct run *run, uint64_t units)
{
	run->at += units * run->cie->code_align;
}

static void set_cfa_expression(struct run *run, struct gs_cfi_cursor *c)
{
	uint64_t n = gs_cfi_cursor_uleb(c);

	run->row.cfa_is_expr = true;
	run->row.cfa_arg = (int64_t)gs_cfi_cursor_vaddr(c);
	run->row.cfa_expr_bytes = (uint16_t)n;
	c->bad |= n > UINT16_MAX;
	gs_cfi_cursor_skip(c, n);
}

/* Instructions without an operand in their first byte (DWARF 5 table 7.29, and GNU's). */
static void run_extended(struct run *run, struct gs_cfi_cursor *c, uint8_t op)
{
	uint64_t reg, n;

	switch (op) {
	case 0x00: /* nop */
		return;
	case 0x01: /* set_loc */
		run->at = gs_cfi_cursor_pointer(c, run->cie->fde_encoding, 0);
		return;
	case 0x02: /* advance_loc1, 2, 4 */
		advance_location(run, gs_cfi_cursor_uint(c, 1));
		return;
	case 0x03:
		advance_location(run, gs_cfi_cursor_uint(c, 2));
		return;
	case 0x04:
		advance_location(run, gs_cfi_cursor_uint(c, 4));
		return;
	case 0x05: /* offset_extended */
		reg = gs_cfi_cursor_uleb(c);
		set_rule(run, reg, GS_CFI_OFFSET,
			 factor_offset(run, (int64_t)gs_cfi_cursor_uleb(c)));
		return;
	case 0x06: /* restore_extended */
		restore_rule(run, gs_cfi_cursor_uleb(c));
		return;
	case 0x07:
		set_rule(run, gs_cfi_cursor_uleb(c), GS_CFI_UNDEFINED, 0);
		return;
	case 0x08:
		set_rule(run, gs_cfi_cursor_uleb(c), GS_CFI_SAME, 0);
		return;
	case 0x09: /* register */
		reg = gs_cfi_cursor_uleb(c);
		n = gs_cfi_cursor_uleb(c);
		c->bad |= n >= GS_REG_COUNT;
		set_rule(run, reg, GS_CFI_REGISTER, (int64_t)n);
		return;
	case 0x0a:
		remember_row(run, c);
		return;
	case 0x0b:
		recall_row(run, c);
		return;
	case 0x0c: /* def_cfa */
		reg = gs_cfi_cursor_uleb(c);
		set_cfa(run, reg, (int64_t)gs_cfi_cursor_uleb(c), c);
		return;
	case 0x0d: /* def_cfa_register */
		set_cfa(run, gs_cfi_cursor_uleb(c), run->row.cfa_arg, c);
		return;
	case 0x0e: /* def_cfa_offset */
		run->row.cfa_arg = (int64_t)gs_cfi_cursor_uleb(c);
		return;
	case 0x0f: /* def_cfa_expression */
		set_cfa_expression(run, c);
		return;
	case 0x10:
		set_expr(run, c, gs_cfi_cursor_uleb(c), GS_CFI_EXPR);
		return;
	case 0x11: /* offset_extended_sf */
		reg = gs_cfi_cursor_uleb(c);
		set_rule(run, reg, GS_CFI_OFFSET, factor_offset(run, gs_cfi_cursor_sleb(c)));
		return;
	case 0x12: /* def_cfa_sf */
		reg = gs_cfi_cursor_uleb(c);
		set_cfa(run, reg, factor_offset(run, gs_cfi_cursor_sleb(c)), c);
		return;
	case 0x13: /* def_cfa_offset_sf */
		run->row.cfa_arg = factor_offset(run, gs_cfi_cursor_sleb(c));
		return;
	case 0x14: /* val_offset */
		reg = gs_cfi_cursor_uleb(c);
		set_rule(run, reg, GS_CFI_VAL_OFFSET,
			 factor_offset(run, (int64_t)gs_cfi_cursor_uleb(c)));
		return;
	case 0x15: /* val_offset_sf */
		reg = gs_cfi_cursor_uleb(c);
		set_rule(run, reg, GS_CFI_VAL_OFFSET, factor_offset(run, gs_cfi_cursor_sleb(c)));
		return;
	case 0x16:
		set_expr(run, c, gs_cfi_cursor_uleb(c), GS_CFI_VAL_EXPR);
		return;
	case 0x2e: /* GNU_args_size */
		gs_cfi_cursor_uleb(c);
		return;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = gs_cfi_cursor_uleb(c);
		set_rule(run, reg, GS_CFI_OFFSET,
			 (int64_t)(0 -
				   (uint64_t)factor_offset(run, (int64_t)gs_cfi_cursor_uleb(c))));
		return;
	default:
		c->bad = true;
	}
}

/* Run the instructions at [from, to) of the file until they pass the address. */
static int execute_range(struct gs_cfi *cfi, struct run *run, uint64_t from, uint64_t to,
			 uint64_t vaddr)
{
	GS_FREE uint8_t *code = NULL;
	struct gs_cfi_cursor c;

	if (to <= from)
		return 0;
	code = malloc(to - from);
	if (!code)
		return -ENOMEM;
	if (gs_elf_read_vaddr(cfi->elf, from, code, to - from) != (long)(to - from))
		return -ENOEXEC;
	c = (struct gs_cfi_cursor){.p = code, .end = code + (to - from), .vaddr = to};
	while (c.p < c.end && !c.bad && run->at <= vaddr) {
		uint8_t op = (uint8_t)gs_cfi_cursor_uint(&c, 1), low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			advance_location(run, low);
			break;
		case 2: /* offset */
			set_rule(run, low, GS_CFI_OFFSET,
				 factor_offset(run, (int64_t)gs_cfi_cursor_uleb(&c)));
			break;
		case 3:
			restore_rule(run, low);
			break;
		default:
			run_extended(run, &c, op);
		}
	}
	return c.bad ? -ENOEXEC : 0;
}

/* Put an expression of the file into the row: *at becomes its place there. */
static int take_expr(const struct gs_cfi *cfi, struct gs_cfi_row *row, int64_t *at, uint16_t bytes)
{
	uint8_t *to = row->exprs + row->n_exprs;

	if (!bytes || bytes > GS_CFI_EXPRS_BYTES - row->n_exprs ||
	    gs_elf_read_vaddr(cfi->elf, (uint64_t)*at, to, bytes) != bytes)
		return -ENOEXEC;
	*at = row->n_exprs;
	row->n_exprs += bytes;
	return 0;
}

static int take_exprs(const struct gs_cfi *cfi, struct gs_cfi_row *row)
{
	int r = row->cfa_is_expr ? take_expr(cfi, row, &row->cfa_arg, row->cfa_expr_bytes) : 0;

	for (unsigned i = 0; r == 0 && i < GS_REG_COUNT; i++)
		if (row->reg[i].rule == GS_CFI_EXPR || row->reg[i].rule == GS_CFI_VAL_EXPR)
			r = take_expr(cfi, row, &row->reg[i].arg, row->reg[i].expr_bytes);
	return r;
}

int gs_cfi_find(struct gs_cfi *cfi, uint64_t vaddr, struct gs_cfi_row *ret_row)
{
	GS_FREE struct run *run = NULL;
	struct gs_fde fde;
	int r = gs_cfi_find_fde(cfi, vaddr, &fde);

	if (r < 0)
		return r;
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	run->cie = &fde.cie;
	run->row.signal = fde.cie.signal;
	run->row.reg[GS_REG_RIP].rule = GS_CFI_UNDEFINED;
	r = execute_range(cfi, run, fde.cie.insns, fde.cie.insns_end, UINT64_MAX);
	if (r < 0)
		return r;
	run->initial = run->row;
	run->at = fde.start;
	r = execute_range(cfi, run, fde.insns, fde.insns_end, vaddr);
	if (r < 0)
		return r;
	*ret_row = run->row;
	return take_exprs(cfi, ret_row);
}
