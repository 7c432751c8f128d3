/*
 * The frame of an open call of a described probe (user.bpf.c), the values that are read into it,
 * and the filter that is asked of them.
 */
#ifndef GS_BPF_CALLS_USER_FRAME_BPF_H
#define GS_BPF_CALLS_USER_FRAME_BPF_H

#include "bpf/calls/cell.bpf.h"
#include "bpf/calls/ids.bpf.h"

#include "model/trace/user_probe.h"

#define OPEN_MASK (GS_USER_DEPTH_MAX - 1)
#define VALUE_STR 5 /* GS_VALUE_STR of model/trace/record_stack.h */

#define OPERAND_MASK (GS_USER_STACK_MAX - 1)
#define N_REGS       21 /* of struct pt_regs */
#define REG_AX       10
#define REG_SP       19

struct user_frame {
	__u64 start_ns;
	__u64 sp; /* 0: closed, but others of the same call above it are not */
	__u64 ip;
	__u64 reg[N_REGS];                /* as they were when the probe was hit */
	__u64 operand[GS_USER_STACK_MAX]; /* of the filter */
	volatile __u64 n_operands;        /* lest it be kept in a register */
	struct gs_event_values e;
};

struct user_thread {
	__u32 tid;
	__u32 depth;
	struct user_frame frame[GS_USER_DEPTH_MAX];
};

/* Filled by user space, a row before the first probe that names it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GS_USER_ROW_MAX);
	__type(key, __u32);
	__type(value, struct gs_user_row);
} gs_user_rows SEC(".maps");

/* By the slot of the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GS_THREAD_MAX);
	__type(key, __u32);
	__type(value, struct user_thread);
} gs_user_threads SEC(".maps");

/* --- values --- */

/* What is not in memory at this moment, such as a constant that was not read before, reads
 * as not there: a program that may wait for it (BPF_F_SLEEPABLE) may not use the queue of free
 * thread slots, nor the map of cgroups. */
static __always_inline bool read_memory(void *to, __u32 bytes, __u64 from)
{
	return bpf_probe_read_user(to, bytes, (void *)from) == 0;
}

static __always_inline __u64 narrow_value(__u64 v, __u32 bytes, bool is_signed)
{
	__u32 shift = (64 - bytes * 8) & 63;

	v <<= shift;
	return is_signed ? (__u64)((__s64)v >> shift) : v >> shift;
}

static __always_inline __u64 read_register(const struct user_frame *f, __u32 reg)
{
	return reg < N_REGS ? f->reg[reg] : 0;
}

/* Where the way to the value begins. */
static __always_inline bool value_start(const struct user_frame *f, const struct gs_user_value *v,
					__u64 *ret)
{
	if (v->from == GS_FROM_STACK)
		return read_memory(ret, sizeof(*ret), f->reg[REG_SP] + v->add);
	/* No register is one beyond the last; a constant has none. */
	*ret = (read_register(f, v->reg) >> (v->shift & 63)) +
	       (read_register(f, v->index_reg) << (v->index_shift & 3)) + v->add;
	return true;
}

/* From there to the value itself. */
static __always_inline bool value_follow(const struct gs_user_value *v, __u64 a, __u64 *ret)
{
	for (int i = 0; i < GS_USER_CHAIN_MAX; i++) {
		__u32 bytes = i + 1 == v->n_chain ? v->bytes : 8;
		__u64 next = 0;

		if (i >= v->n_chain)
			break;
		if (bytes > 8)
			bytes = 8;
		if (!read_memory(&next, bytes, a + v->chain[i]))
			return false;
		a = next;
	}
	*ret = narrow_value(a, v->bytes, v->is_signed);
	return true;
}

/* As gs_user_hash() of model/trace/user_probe.h. */
static __always_inline __u64 hash_text(const struct user_frame *f, __u32 slot)
{
	__u64 h = 0xcbf29ce484222325ull;

	for (int i = 0; i < GS_USER_TEXT_BYTES - 1; i++) {
		__u8 c = f->e.text[slot][i];

		if (!c)
			break;
		h = (h ^ c) * 0x100000001b3ull;
	}
	return h;
}

/* The string that value i points to, or, in place, so many bytes of memory or fewer. */
static __always_inline bool read_text(struct user_frame *f, const struct gs_user_value *v, __u32 i,
				      bool hash)
{
	__u32 slot = v->text;
	__u64 from = f->e.value[i];
	char *text;

	if (slot >= GS_USER_TEXT_MAX)
		return false;
	text = f->e.text[slot];
	f->e.value[i] = 0;
	if (v->text_bytes) {
		__u32 n = v->text_bytes & (GS_USER_TEXT_BYTES - 1);

		if (bpf_probe_read_user(text, n, (void *)(from + v->text_add)))
			return false;
		text[n] = 0;
	} else if (bpf_probe_read_user_str(text, GS_USER_TEXT_BYTES, (void *)from) < 0) {
		return false;
	}
	if (hash)
		f->e.value[i] = hash_text(f, slot);
	return true;
}

static __always_inline struct user_frame *frame_of(__u32 slot, __u32 depth)
{
	struct user_thread *u = bpf_map_lookup_elem(&gs_user_threads, &slot);

	return u ? &u->frame[depth & OPEN_MASK] : NULL;
}

static __always_inline bool read_value(struct user_frame *f, const struct gs_user_row *row, __u32 i,
				       bool is_return)
{
	const struct gs_user_value *v = &row->values[i];
	__u64 x = f->e.value[i];

	if (!(is_return && v->when == GS_WHEN_MEMORY_LATER) && !value_start(f, v, &x))
		return false;
	f->e.value[i] = x;
	if (!is_return && v->when == GS_WHEN_MEMORY_LATER)
		return true;
	if (!value_follow(v, x, &x))
		return false;
	f->e.value[i] = x;
	return v->value_type != VALUE_STR || read_text(f, v, i, row->flags & GS_USER_HASH);
}

/* Those values that are to be read now. */
__noinline int user_read_values(__u32 slot, __u32 depth, __u32 row_id, __u32 is_return)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = frame_of(slot, depth);

	if (!row || !f)
		return 0;
	for (__u32 i = 0; i < GS_USER_VALUE_MAX; i++) {
		const struct gs_user_value *v = &row->values[i];

		if (i >= row->n_values)
			break;
		if (v->when == (is_return ? GS_WHEN_ENTRY : GS_WHEN_RETURN))
			continue;
		if (read_value(f, row, i, is_return))
			continue;
		f->e.value[i] = 0;
		f->e.unread |= 1u << i;
		if (v->value_type == VALUE_STR && v->text < GS_USER_TEXT_MAX)
			f->e.text[v->text][0] = 0;
	}
	return 0;
}

/* --- filters --- */

static __always_inline __u64 divide_values(__u64 a, __u64 b, bool is_signed, bool rest)
{
	bool minus_a = is_signed && (__s64)a < 0, minus_b = is_signed && (__s64)b < 0;
	__u64 r;

	/* The instruction set has no signed division before v4. By zero is zero, as it defines. */
	if (!b)
		return 0;
	a = minus_a ? -a : a;
	b = minus_b ? -b : b;
	r = rest ? a % b : a / b;
	return (rest ? minus_a : minus_a != minus_b) ? -r : r;
}

static __always_inline __u64 apply_operator(__u32 code, __u64 a, __u64 b)
{
	__s64 sa = a, sb = b;

	switch (code) {
	case GS_OP_ADD:
		return a + b;
	case GS_OP_SUB:
		return a - b;
	case GS_OP_MUL:
		return a * b;
	case GS_OP_DIV:
	case GS_OP_DIV_S:
		return divide_values(a, b, code == GS_OP_DIV_S, false);
	case GS_OP_MOD:
	case GS_OP_MOD_S:
		return divide_values(a, b, code == GS_OP_MOD_S, true);
	case GS_OP_BIT_AND:
		return a & b;
	case GS_OP_BIT_OR:
		return a | b;
	case GS_OP_BIT_XOR:
		return a ^ b;
	case GS_OP_SHL:
		return b < 64 ? a << (b & 63) : 0;
	case GS_OP_SHR:
		return b < 64 ? a >> (b & 63) : 0;
	case GS_OP_SHR_S:
		return sa >> (b < 64 ? b & 63 : 63);
	case GS_OP_EQ:
		return a == b;
	case GS_OP_NE:
		return a != b;
	case GS_OP_LT:
		return a < b;
	case GS_OP_LT_S:
		return sa < sb;
	case GS_OP_LE:
		return a <= b;
	case GS_OP_LE_S:
		return sa <= sb;
	case GS_OP_GT:
		return a > b;
	case GS_OP_GT_S:
		return sa > sb;
	case GS_OP_GE:
		return a >= b;
	case GS_OP_GE_S:
		return sa >= sb;
	case GS_OP_AND:
		return a && b;
	case GS_OP_OR:
		return a || b;
	}
	return 0;
}

static __always_inline __u64 push_operand(const struct gs_user_op *op, const struct user_frame *f,
					  __u64 dur_ns)
{
	switch (op->code) {
	case GS_OP_VALUE:
		return f->e.value[op->arg & (GS_USER_VALUE_MAX - 1)];
	case GS_OP_DURATION:
		return dur_ns;
	case GS_OP_PID:
		return current_ids() >> 32;
	case GS_OP_TID:
		return (__u32)current_ids();
	}
	return op->imm;
}

/* The operands and how many there are, are in the frame, whose content the verifier does not
 * follow: in registers each step would multiply the states it has to look at. */
__noinline int user_filter_passes(__u32 slot, __u32 depth, __u32 row_id, __u64 dur_ns)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = frame_of(slot, depth);

	if (!row || !f)
		return 0;
	f->n_operands = 0;
	for (int i = 0; i < GS_USER_OP_MAX; i++) {
		const struct gs_user_op *op = &row->ops[i];
		__u32 n = f->n_operands, top = (n - 1) & OPERAND_MASK;
		__u64 a;

		if (i >= row->n_ops)
			break;
		if (op->code <= GS_OP_TID) {
			f->operand[n & OPERAND_MASK] = push_operand(op, f, dur_ns);
			f->n_operands = n + 1;
			continue;
		}
		a = f->operand[top];
		if (op->code <= GS_OP_NEGATE) {
			f->operand[top] = op->code == GS_OP_NOT      ? !a
					  : op->code == GS_OP_INVERT ? ~a
								     : -a;
			continue;
		}
		n = (n - 2) & OPERAND_MASK;
		f->operand[n] = apply_operator(op->code, f->operand[n], a);
		f->n_operands = n + 1;
	}
	return f->operand[0] != 0;
}

#endif
