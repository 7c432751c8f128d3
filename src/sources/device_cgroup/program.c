/*
 * A program of class cgroup_device, kept and added to.
 *
 * Who attached it has its source; the kernel shows its instructions as they are after the verifier
 * (bpf_prog_info.xlated_prog_insns). Of this class they are nearly what was loaded: the kernel does
 * not rewrite how it reads its context (kernel/bpf/cgroup.c: cg_dev_verifier_ops has no
 * convert_ctx_access, from 4.15 to 6.18). What does change is undone here:
 *
 * - constants hidden by net.core.bpf_jit_harden=2: "r11 = A; r11 ^= B; use r11" (core.c,
 *   bpf_jit_blind_insn()) becomes "use A ^ B" again;
 * - "r1 ^= r1", which the same setting makes of "r1 = 0" and which the verifier takes for a read of a
 *   register that may hold nothing;
 * - "w1 = w1" with an immediate of 1, by which the verifier extends to 64 bits for some
 *   architectures, and which it does not take itself (verifier.c: BPF_ZEXT_REG);
 * - jumps to the next instruction, which the verifier removes when it loads a program: they are left
 *   out here as well, so that a program reads the same however often it has been loaded.
 *
 * What refers to something outside of it is not kept: calls have addresses in place of the helper's
 * number. Programs of systemd, runc, crun, containerd, LXC and libnvidia-container have none.
 *
 * The head that is put in front allows NVIDIA's devices at once, for opening and not for mknod:
 *
 *   r2 = access_type                      the upper half is the access, the lower the type
 *   r3 = r2 & 0xffff; if r3 != CHAR goto old
 *   r2 = r2 >> 16 & MKNOD; if r2 != 0 goto old
 *   r3 = major; r4 = minor
 *   if r3 == 195 goto allow               for each rule; with a minor number two jumps
 *   goto old
 *   allow: r0 = 1; exit
 *   old: ...
 *
 * The registers that it changes hold nothing for the old program, which begins with the context in r1
 * alone; the verifier has made sure that it reads no other before writing it.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/device_cgroup/device_int.h"

#define HIDDEN_REGISTER 11 /* BPF_REG_AX, which only the kernel uses */

/* Where access_type, major and minor are. */
#define CTX_OFFSET(member) ((int16_t)offsetof(struct bpf_cgroup_dev_ctx, member))

#define INSN(c, d, s, o, i)                                                                        \
	((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})

static bool is_class(const struct bpf_insn *i, unsigned class)
{
	return BPF_CLASS(i->code) == class;
}

static bool is_alu(const struct bpf_insn *i)
{
	return is_class(i, BPF_ALU) || is_class(i, BPF_ALU64);
}

/* One that has a target in its offset. */
static bool is_jump(const struct bpf_insn *i)
{
	unsigned op = BPF_OP(i->code);

	return (is_class(i, BPF_JMP) || is_class(i, BPF_JMP32)) && op != BPF_CALL && op != BPF_EXIT;
}

static bool is_pair(const struct bpf_insn *i)
{
	return i->code == (BPF_LD | BPF_IMM | BPF_DW);
}

static bool sets_hidden(const struct bpf_insn *i, unsigned op)
{
	return is_alu(i) && BPF_OP(i->code) == op && BPF_SRC(i->code) == BPF_K &&
	       i->dst_reg == HIDDEN_REGISTER;
}

/* Three instructions become two that do nothing and one with its constant: jumps stay right. */
static void show_constants(struct bpf_insn *insns, size_t n)
{
	for (size_t i = 0; i + 2 < n; i++) {
		struct bpf_insn *a = &insns[i], *b = a + 1, *use = a + 2;
		int32_t constant = a->imm ^ b->imm;

		if (!sets_hidden(a, BPF_MOV) || !sets_hidden(b, BPF_XOR) ||
		    use->src_reg != HIDDEN_REGISTER)
			continue;
		if ((is_alu(use) || is_jump(use)) && BPF_SRC(use->code) == BPF_X)
			use->code = (uint8_t)(use->code & ~BPF_X);
		else if (is_class(use, BPF_STX) && BPF_MODE(use->code) == BPF_MEM)
			use->code = (uint8_t)((use->code & ~7) | BPF_ST);
		else
			continue;
		use->src_reg = 0;
		use->imm = constant;
		*a = *b = INSN(BPF_JMP | BPF_JA, 0, 0, 0, 0);
	}
}

static const char *find_unkept(const struct bpf_insn *insns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct bpf_insn *in = &insns[i];

		if ((is_class(in, BPF_JMP) || is_class(in, BPF_JMP32)) &&
		    BPF_OP(in->code) == BPF_CALL)
			return "it calls functions of the kernel";
		if (in->dst_reg > 10 || in->src_reg > 10)
			return "it has instructions that only the kernel generates";
		if (is_class(in, BPF_JMP32) && BPF_OP(in->code) == BPF_JA)
			return "it has far jumps";
		if (is_jump(in) &&
		    ((int64_t)i + 1 + in->off < 0 || (int64_t)i + 1 + in->off >= (int64_t)n))
			return "it jumps out of the program";
		if (is_class(in, BPF_LD) && (!is_pair(in) || i + 1 == n))
			return "it reads packets";
		if (is_pair(in) && in->src_reg)
			return "it uses maps";
		i += is_pair(in);
	}
	return NULL;
}

/* Leave out what does nothing. */
static int drop_nops(struct bpf_insn *insns, size_t *n, const char **ret_why)
{
	GS_FREE uint32_t *place = calloc(*n + 1, sizeof(*place));
	size_t kept = 0;

	if (!place) {
		*ret_why = "no memory";
		return -ENOMEM;
	}
	for (size_t i = 0; i < *n; i++) {
		place[i] = (uint32_t)kept;
		if (is_pair(&insns[i]))
			place[++i] = (uint32_t)++kept;
		else if (insns[i].code == (BPF_JMP | BPF_JA) && insns[i].off == 0)
			continue;
		kept++;
	}
	place[*n] = (uint32_t)kept;
	for (size_t i = 0; i < *n; i++) {
		struct bpf_insn in = insns[i];

		if (is_pair(&in)) {
			insns[place[i]] = in;
			insns[place[i + 1]] = insns[i + 1];
			i++;
			continue;
		}
		if (in.code == (BPF_JMP | BPF_JA) && in.off == 0)
			continue;
		if (is_jump(&in))
			in.off = (int16_t)((int64_t)place[(int64_t)i + 1 + in.off] -
					   (int64_t)place[i] - 1);
		insns[place[i]] = in;
	}
	*n = kept;
	return 0;
}

int device_program_normalize(struct bpf_insn *insns, size_t *n, const char **ret_why)
{
	show_constants(insns, *n);
	*ret_why = *n ? find_unkept(insns, *n) : "the kernel does not show its instructions";
	if (*ret_why)
		return -ENOTSUP;
	for (size_t i = 0; i < *n; i++) {
		struct bpf_insn *in = &insns[i];

		if (in->code == (BPF_ALU | BPF_MOV | BPF_X) && in->src_reg == in->dst_reg &&
		    in->imm == 1)
			in->imm = 0;
		if (is_alu(in) && BPF_OP(in->code) == BPF_XOR && BPF_SRC(in->code) == BPF_X &&
		    in->src_reg == in->dst_reg)
			*in = INSN(BPF_CLASS(in->code) | BPF_MOV | BPF_K, in->dst_reg, 0, 0, 0);
		i += is_pair(in);
	}
	return drop_nops(insns, n, ret_why);
}

size_t device_program_write_head(const struct device_rules *rules, struct bpf_insn *out)
{
	size_t n = 0, jumps[3], n_rules = 0, end;

	for (unsigned i = 0; i < rules->n; i++)
		n_rules += rules->rule[i].minor == DEVICE_ANY_MINOR ? 1 : 2;
	out[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 1, CTX_OFFSET(access_type), 0);
	out[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 2, 0, 0);
	out[n++] = INSN(BPF_ALU | BPF_AND | BPF_K, 3, 0, 0, 0xffff);
	jumps[0] = n;
	out[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 0, BPF_DEVCG_DEV_CHAR);
	out[n++] = INSN(BPF_ALU | BPF_RSH | BPF_K, 2, 0, 0, 16);
	out[n++] = INSN(BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, BPF_DEVCG_ACC_MKNOD);
	jumps[1] = n;
	out[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 0, 0);
	out[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 3, 1, CTX_OFFSET(major), 0);
	out[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 4, 1, CTX_OFFSET(minor), 0);
	end = n + n_rules; /* where "goto old" is */
	for (unsigned i = 0; i < rules->n; i++) {
		const struct device_rule *r = &rules->rule[i];

		if (r->minor != DEVICE_ANY_MINOR)
			out[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 1, (int32_t)r->major);
		out[n] = INSN(BPF_JMP | BPF_JEQ | BPF_K, r->minor == DEVICE_ANY_MINOR ? 3 : 4, 0,
			      (int16_t)(end - n),
			      (int32_t)(r->minor == DEVICE_ANY_MINOR ? r->major : r->minor));
		n++;
	}
	jumps[2] = n;
	out[n++] = INSN(BPF_JMP | BPF_JA, 0, 0, 0, 0);
	out[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
	out[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	for (size_t i = 0; i < GS_ARRAY_LEN(jumps); i++)
		out[jumps[i]].off = (int16_t)(n - jumps[i] - 1);
	return n;
}

size_t device_program_read_head(const struct bpf_insn *insns, size_t n, struct device_rules *ret)
{
	static const uint8_t jump_if = BPF_JMP | BPF_JEQ | BPF_K,
			     jump_not = BPF_JMP | BPF_JNE | BPF_K;
	struct bpf_insn head[DEVICE_HEAD_MAX];
	struct device_rules rules = {0};
	size_t at = 9, bytes;

	while (at + 1 < n && rules.n < DEVICE_RULES_MAX) {
		if (insns[at].code == jump_if && insns[at].dst_reg == 3) {
			rules.rule[rules.n++] =
				(struct device_rule){(uint32_t)insns[at].imm, DEVICE_ANY_MINOR};
			at++;
		} else if (insns[at].code == jump_not && insns[at + 1].code == jump_if) {
			rules.rule[rules.n++] = (struct device_rule){(uint32_t)insns[at].imm,
								     (uint32_t)insns[at + 1].imm};
			at += 2;
		} else {
			break;
		}
	}
	if (!rules.n)
		return 0;
	at = device_program_write_head(&rules, head);
	bytes = at * sizeof(head[0]);
	/* At least one instruction of the old program follows. */
	if (n <= at || memcmp(head, insns, bytes) != 0)
		return 0;
	*ret = rules;
	return at;
}
