/* From the registers of a function to those of its caller, by a row; and the stack machine of
 * expressions (DWARF 5 section 2.5), which PLT entries and signal frames use. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sources/unwind/cfi_int.h"

#define MAX_EXPR_STEPS 2048u
#define EXPR_STACK     64u

struct machine {
	uint64_t stack[EXPR_STACK];
	unsigned n;
	const struct gs_regs *regs;
	gs_cfi_read_fn read;
	void *ctx;
	uint64_t bias;
	int error;
};

static void push_value(struct machine *m, uint64_t v)
{
	if (m->n == EXPR_STACK)
		m->error = -ENOEXEC;
	else
		m->stack[m->n++] = v;
}

static uint64_t pop_value(struct machine *m)
{
	if (m->n == 0) {
		m->error = -ENOEXEC;
		return 0;
	}
	return m->stack[--m->n];
}

static uint64_t reg_value(struct machine *m, uint64_t reg)
{
	if (reg >= GS_REG_COUNT || !(m->regs->known >> reg & 1)) {
		m->error = -EFAULT;
		return 0;
	}
	return m->regs->value[reg];
}

static void deref_top(struct machine *m, unsigned bytes)
{
	uint64_t v = 0, addr = pop_value(m);

	if (m->error)
		return;
	if (bytes == 0 || bytes > 8 || !m->read(m->ctx, addr, &v))
		m->error = -EFAULT;
	else if (bytes < 8)
		v &= (1ull << (8 * bytes)) - 1;
	push_value(m, v);
}

static void apply_binary(struct machine *m, uint8_t op)
{
	uint64_t b = pop_value(m), a = pop_value(m), v = 0;
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case 0x1a: /* and */
		v = a & b;
		break;
	case 0x1b: /* div; the quotient of the least number by -1 does not fit */
		if (b == 0 || (sb == -1 && sa == INT64_MIN))
			m->error = -ENOEXEC;
		else
			v = (uint64_t)(sa / sb);
		break;
	case 0x1c: /* minus */
		v = a - b;
		break;
	case 0x1d: /* mod */
		if (b == 0)
			m->error = -ENOEXEC;
		else
			v = a % b;
		break;
	case 0x1e: /* mul */
		v = a * b;
		break;
	case 0x21: /* or */
		v = a | b;
		break;
	case 0x22: /* plus */
		v = a + b;
		break;
	case 0x24: /* shl */
		v = b < 64 ? a << b : 0;
		break;
	case 0x25: /* shr */
		v = b < 64 ? a >> b : 0;
		break;
	case 0x26: /* shra */
		v = (uint64_t)(sa >> (b < 63 ? b : 63));
		break;
	case 0x27: /* xor */
		v = a ^ b;
		break;
	case 0x29: /* eq ge gt le lt ne */
		v = sa == sb;
		break;
	case 0x2a:
		v = sa >= sb;
		break;
	case 0x2b:
		v = sa > sb;
		break;
	case 0x2c:
		v = sa <= sb;
		break;
	case 0x2d:
		v = sa < sb;
		break;
	case 0x2e:
		v = sa != sb;
		break;
	}
	push_value(m, v);
}

static void pick_value(struct machine *m, uint64_t depth)
{
	if (depth >= m->n)
		m->error = -ENOEXEC;
	else
		push_value(m, m->stack[m->n - 1 - depth]);
}

static void rotate_top(struct machine *m)
{
	uint64_t a = pop_value(m), b = pop_value(m), c = pop_value(m);

	push_value(m, a);
	push_value(m, c);
	push_value(m, b);
}

static void push_constant(struct machine *m, struct gs_cfi_cursor *c, uint8_t op)
{
	static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8};

	switch (op) {
	case 0x03: /* addr */
		push_value(m, gs_cfi_cursor_uint(c, 8) + m->bias);
		return;
	case 0x10: /* constu */
		push_value(m, gs_cfi_cursor_uleb(c));
		return;
	case 0x11: /* consts */
		push_value(m, (uint64_t)gs_cfi_cursor_sleb(c));
		return;
	default: /* const1u, const1s, const2u, ... const8s */
		op -= 0x08;
		push_value(m, op & 1 ? (uint64_t)gs_cfi_cursor_int(c, bytes[op])
				     : gs_cfi_cursor_uint(c, bytes[op]));
	}
}

static void jump_by(struct gs_cfi_cursor *c, const uint8_t *begin, int64_t by)
{
	if (by < begin - c->p || by > c->end - c->p)
		c->bad = true;
	else
		c->p += by;
}

static void run_operation(struct machine *m, struct gs_cfi_cursor *c, const uint8_t *begin,
			  uint8_t op)
{
	uint64_t v, w;
	int64_t by;

	if (op >= 0x30 && op <= 0x4f) { /* lit0.. */
		push_value(m, op - 0x30u);
		return;
	}
	if (op >= 0x70 && op <= 0x8f) { /* breg0.. */
		by = gs_cfi_cursor_sleb(c);
		push_value(m, reg_value(m, op - 0x70u) + (uint64_t)by);
		return;
	}
	if (op == 0x03 || (op >= 0x08 && op <= 0x11)) {
		push_constant(m, c, op);
		return;
	}
	switch (op) {
	case 0x06:
		deref_top(m, 8);
		return;
	case 0x94: /* deref_size */
		deref_top(m, (unsigned)gs_cfi_cursor_uint(c, 1));
		return;
	case 0x12: /* dup */
		pick_value(m, 0);
		return;
	case 0x13: /* drop */
		pop_value(m);
		return;
	case 0x14: /* over */
		pick_value(m, 1);
		return;
	case 0x15:
		pick_value(m, gs_cfi_cursor_uint(c, 1));
		return;
	case 0x16: /* swap */
		v = pop_value(m);
		w = pop_value(m);
		push_value(m, v);
		push_value(m, w);
		return;
	case 0x17:
		rotate_top(m);
		return;
	case 0x19: /* abs */
		v = pop_value(m);
		push_value(m, (int64_t)v < 0 ? 0 - v : v);
		return;
	case 0x1f: /* neg */
		push_value(m, 0 - pop_value(m));
		return;
	case 0x20: /* not */
		push_value(m, ~pop_value(m));
		return;
	case 0x23: /* plus_uconst */
		v = gs_cfi_cursor_uleb(c);
		push_value(m, pop_value(m) + v);
		return;
	case 0x28: /* bra */
		by = gs_cfi_cursor_int(c, 2);
		if (pop_value(m))
			jump_by(c, begin, by);
		return;
	case 0x2f: /* skip */
		by = gs_cfi_cursor_int(c, 2);
		jump_by(c, begin, by);
		return;
	case 0x92: /* bregx */
		v = gs_cfi_cursor_uleb(c);
		by = gs_cfi_cursor_sleb(c);
		push_value(m, reg_value(m, v) + (uint64_t)by);
		return;
	case 0x96: /* nop */
		return;
	}
	if ((op >= 0x1a && op <= 0x27) || (op >= 0x29 && op <= 0x2e))
		apply_binary(m, op);
	else
		m->error = -ENOEXEC;
}

/* What the expression of the row leaves; with cfa it begins with that on its stack. */
static int evaluate_expression(const struct gs_cfi_row *row, struct machine *m, int64_t at,
			       uint16_t bytes, const uint64_t *cfa, uint64_t *ret)
{
	const uint8_t *code = row->exprs + at;
	struct gs_cfi_cursor c = {.p = code, .end = code + bytes};

	if (at < 0 || at > row->n_exprs || bytes == 0 || bytes > row->n_exprs - at)
		return -ENOEXEC;
	m->n = 0;
	m->error = 0;
	if (cfa)
		push_value(m, *cfa);
	for (unsigned steps = 0; c.p < c.end && !c.bad && !m->error; steps++) {
		if (steps == MAX_EXPR_STEPS)
			return -ENOEXEC;
		run_operation(m, &c, code, (uint8_t)gs_cfi_cursor_uint(&c, 1));
	}
	if (c.bad)
		return -ENOEXEC;
	*ret = pop_value(m);
	return m->error;
}

static int find_cfa(const struct gs_cfi_row *row, struct machine *m, uint64_t *ret_cfa)
{
	if (row->cfa_is_expr)
		return evaluate_expression(row, m, row->cfa_arg, row->cfa_expr_bytes, NULL,
					   ret_cfa);
	m->error = 0;
	*ret_cfa = reg_value(m, row->cfa_reg) + (uint64_t)row->cfa_arg;
	return m->error;
}

/* One register of the caller. -EFAULT: it cannot be known. */
static int find_value(const struct gs_cfi_row *row, struct machine *m, const struct gs_cfi_value *v,
		      unsigned reg, uint64_t cfa, uint64_t *ret, uint64_t *ret_slot)
{
	uint64_t at = cfa + (uint64_t)v->arg;
	int r;

	*ret_slot = 0;
	m->error = 0;
	switch (v->rule) {
	case GS_CFI_UNDEFINED:
		return -EFAULT;
	case GS_CFI_VAL_OFFSET:
		*ret = at;
		return 0;
	case GS_CFI_REGISTER:
		*ret = reg_value(m, (uint64_t)v->arg);
		return m->error;
	case GS_CFI_EXPR:
		r = evaluate_expression(row, m, v->arg, v->expr_bytes, &cfa, &at);
		if (r < 0)
			return r;
		break;
	case GS_CFI_VAL_EXPR:
		return evaluate_expression(row, m, v->arg, v->expr_bytes, &cfa, ret);
	case GS_CFI_OFFSET:
		break;
	default:
		*ret = reg_value(m, reg);
		return m->error;
	}
	*ret_slot = at;
	return m->read(m->ctx, at, ret) ? 0 : -EFAULT;
}

int gs_cfi_step(const struct gs_cfi_row *row, uint64_t bias, gs_cfi_read_fn read, void *ctx,
		struct gs_regs *regs, uint64_t *ret_slot)
{
	struct machine m = {.regs = regs, .read = read, .ctx = ctx, .bias = bias};
	struct gs_regs caller = {.known = 0};
	uint64_t cfa, slot;
	int r;

	/* Expressions count in addresses of the process but for DW_OP_addr: the bias is added
	 * there. */
	r = find_cfa(row, &m, &cfa);
	if (r < 0)
		return r;
	if (row->reg[GS_REG_RIP].rule == GS_CFI_UNDEFINED)
		return 1;
	*ret_slot = 0;
	for (unsigned i = 0; i < GS_REG_COUNT; i++) {
		if (i == GS_REG_RSP && row->reg[i].rule == GS_CFI_SAME) {
			caller.value[i] = cfa;
			caller.known |= 1u << i;
			continue;
		}
		r = find_value(row, &m, &row->reg[i], i, cfa, &caller.value[i], &slot);
		if (r == 0)
			caller.known |= 1u << i;
		else if (r != -EFAULT || i == GS_REG_RIP)
			return r;
		if (i == GS_REG_RIP)
			*ret_slot = slot;
	}
	*regs = caller;
	return 0;
}
