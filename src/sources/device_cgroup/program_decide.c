/*
 * What a program of class cgroup_device answers, found by running it here: by that it is known whether
 * a group's rules allow a device, and which of several programs forbids it, without opening anything
 * in that group.
 *
 * The instructions are the kernel's own and verified, but they are foreign bytes all the same: each
 * access is checked, each step counted. What is not known here (atomic operations, newer
 * instructions) ends with "not known", never with a guess.
 */
#include <errno.h>
#include <string.h>

#include "sources/device_cgroup/device_int.h"

#define CTX_ADDRESS   (1ull << 40)
#define STACK_ADDRESS (2ull << 40) /* its upper end, as r10 has it */
#define STACK_BYTES   512
#define STEPS_MAX     (16u << 20)

struct machine {
	uint64_t reg[11];
	uint8_t stack[STACK_BYTES];
	struct bpf_cgroup_dev_ctx ctx;
};

/* The bytes at an address; NULL: it may not be read or written there. */
static uint8_t *memory_at(struct machine *m, uint64_t address, unsigned bytes, bool write)
{
	if (!write && address >= CTX_ADDRESS && address - CTX_ADDRESS <= sizeof(m->ctx) - bytes &&
	    bytes <= sizeof(m->ctx))
		return (uint8_t *)&m->ctx + (address - CTX_ADDRESS);
	if (address < STACK_ADDRESS && address >= STACK_ADDRESS - STACK_BYTES &&
	    address <= STACK_ADDRESS - bytes)
		return m->stack + (address - (STACK_ADDRESS - STACK_BYTES));
	return NULL;
}

static unsigned size_of(const struct bpf_insn *i)
{
	switch (BPF_SIZE(i->code)) {
	case BPF_B:
		return 1;
	case BPF_H:
		return 2;
	case BPF_W:
		return 4;
	default:
		return 8;
	}
}

static int load_value(struct machine *m, const struct bpf_insn *i)
{
	unsigned bytes = size_of(i);
	const uint8_t *at =
		BPF_MODE(i->code) == BPF_MEM
			? memory_at(m, m->reg[i->src_reg] + (uint64_t)(int64_t)i->off, bytes, false)
			: NULL;
	uint64_t value = 0;

	if (!at)
		return -ENOTSUP;
	memcpy(&value, at,
	       bytes); /* the low bytes: all machines that are supported have these first */
	m->reg[i->dst_reg] = value;
	return 0;
}

static int store_value(struct machine *m, const struct bpf_insn *i)
{
	unsigned bytes = size_of(i);
	uint8_t *at =
		BPF_MODE(i->code) == BPF_MEM
			? memory_at(m, m->reg[i->dst_reg] + (uint64_t)(int64_t)i->off, bytes, true)
			: NULL;
	uint64_t value =
		BPF_CLASS(i->code) == BPF_ST ? (uint64_t)(int64_t)i->imm : m->reg[i->src_reg];

	if (!at)
		return -ENOTSUP;
	memcpy(at, &value, bytes);
	return 0;
}

static uint64_t shift_signed(uint64_t value, unsigned by, unsigned bits)
{
	bool negative = value >> (bits - 1) & 1;

	value >>= by;
	return negative && by ? value | ~0ull << (bits - by) : value;
}

static int calculate_value(struct machine *m, const struct bpf_insn *i)
{
	bool wide = BPF_CLASS(i->code) == BPF_ALU64;
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX, a = m->reg[i->dst_reg] & mask;
	uint64_t b =
		(BPF_SRC(i->code) == BPF_X ? m->reg[i->src_reg] : (uint64_t)(int64_t)i->imm) & mask;
	unsigned bits = wide ? 64 : 32, by = (unsigned)(b & (bits - 1));

	if (i->off)
		return -ENOTSUP;
	switch (BPF_OP(i->code)) {
	case BPF_ADD:
		a += b;
		break;
	case BPF_SUB:
		a -= b;
		break;
	case BPF_MUL:
		a *= b;
		break;
	case BPF_DIV:
		a = b ? a / b : 0;
		break;
	case BPF_MOD:
		a = b ? a % b : a;
		break;
	case BPF_OR:
		a |= b;
		break;
	case BPF_AND:
		a &= b;
		break;
	case BPF_XOR:
		a ^= b;
		break;
	case BPF_LSH:
		a <<= by;
		break;
	case BPF_RSH:
		a >>= by;
		break;
	case BPF_ARSH:
		a = shift_signed(a, by, bits);
		break;
	case BPF_NEG:
		a = 0 - a;
		break;
	case BPF_MOV:
		a = b;
		break;
	default:
		return -ENOTSUP;
	}
	m->reg[i->dst_reg] = a & mask;
	return 0;
}

/* 1 the jump is taken, 0 it is not. */
static int compare_values(const struct machine *m, const struct bpf_insn *i)
{
	bool wide = BPF_CLASS(i->code) == BPF_JMP;
	uint64_t a = m->reg[i->dst_reg];
	uint64_t b = BPF_SRC(i->code) == BPF_X ? m->reg[i->src_reg] : (uint64_t)(int64_t)i->imm;
	int64_t sa = wide ? (int64_t)a : (int32_t)a, sb = wide ? (int64_t)b : (int32_t)b;

	if (!wide) {
		a &= UINT32_MAX;
		b &= UINT32_MAX;
	}
	switch (BPF_OP(i->code)) {
	case BPF_JA:
		return wide ? 1 : -ENOTSUP;
	case BPF_JEQ:
		return a == b;
	case BPF_JNE:
		return a != b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case BPF_JLT:
		return a < b;
	case BPF_JLE:
		return a <= b;
	case BPF_JSET:
		return (a & b) != 0;
	case BPF_JSGT:
		return sa > sb;
	case BPF_JSGE:
		return sa >= sb;
	case BPF_JSLT:
		return sa < sb;
	case BPF_JSLE:
		return sa <= sb;
	default:
		return -ENOTSUP;
	}
}

/* One instruction; *at becomes that of the next. */
static int step_over(struct machine *m, const struct bpf_insn *insns, size_t n, size_t *at)
{
	const struct bpf_insn *i = &insns[*at];
	int64_t next = (int64_t)*at + 1;
	int r = 0;

	if (i->dst_reg > 10 || i->src_reg > 10)
		return -ENOTSUP;
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		if (i->code != (BPF_LD | BPF_IMM | BPF_DW) || i->src_reg || *at + 1 >= n)
			return -ENOTSUP;
		m->reg[i->dst_reg] = (uint32_t)i->imm | (uint64_t)(uint32_t)insns[*at + 1].imm
								<< 32;
		next++;
		break;
	case BPF_LDX:
		r = load_value(m, i);
		break;
	case BPF_ST:
	case BPF_STX:
		r = store_value(m, i);
		break;
	case BPF_JMP:
	case BPF_JMP32:
		r = compare_values(m, i);
		if (r > 0)
			next += i->off;
		break;
	default:
		r = calculate_value(m, i);
	}
	if (r < 0 || next < 0 || next >= (int64_t)n)
		return -ENOTSUP;
	*at = (size_t)next;
	return 0;
}

int device_program_decide(const struct bpf_insn *insns, size_t n, uint32_t access_type,
			  uint32_t major, uint32_t minor, uint32_t *steps)
{
	struct machine m = {.ctx = {access_type, major, minor}};
	size_t at = 0;
	int r = 0;

	m.reg[1] = CTX_ADDRESS;
	m.reg[10] = STACK_ADDRESS;
	while (n && r == 0) {
		if (!*steps)
			return -ELOOP;
		--*steps;
		if (insns[at].code == (BPF_JMP | BPF_EXIT))
			return m.reg[0] & 1; /* which is all that the kernel looks at */
		r = step_over(&m, insns, n, &at);
	}
	return n ? r : -ENOTSUP;
}

/* Minor numbers that stand for all of a driver: GPUs and their control devices have numbers up to 255,
 * MIG capabilities some hundreds. */
static const uint32_t far_minors[] = {256, 511, 1023, 65535, 0xfffff};

int device_program_allows(const struct bpf_insn *insns, size_t n, const struct device_rules *rules,
			  struct device_rule *ret_forbidden)
{
	const uint32_t access =
		(BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE) << 16 | BPF_DEVCG_DEV_CHAR;
	uint32_t steps = STEPS_MAX;

	for (unsigned i = 0; i < rules->n; i++) {
		const struct device_rule *rule = &rules->rule[i];
		bool any = rule->minor == DEVICE_ANY_MINOR;
		size_t n_minors = any ? 256 + GS_ARRAY_LEN(far_minors) : 1;

		for (size_t k = 0; k < n_minors; k++) {
			uint32_t minor = !any      ? rule->minor
					 : k < 256 ? (uint32_t)k
						   : far_minors[k - 256];
			int r = device_program_decide(insns, n, access, rule->major, minor, &steps);

			if (r == 1)
				continue;
			if (ret_forbidden)
				*ret_forbidden = (struct device_rule){rule->major, minor};
			return r;
		}
	}
	return 1;
}
