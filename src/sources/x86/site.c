/*
 * Where a breakpoint is cheap. The decoder below knows the length of every x86-64 instruction of
 * the legacy, VEX and EVEX maps, and for those that begin real functions also what they write. From
 * the first byte it walks the straight line,
 *
 *     endbr64 ; xor %eax,%eax ; test %rdi,%rdi ; push %rbx ...
 *     passed    passed          passed           emulated: the site, at +9
 *
 * over instructions that leave alone all that a probe reads or a return probe patches: rsp, the six
 * argument registers and memory. Everything not positively known to be harmless ends the walk, so a
 * gap in the tables costs speed, never correctness.
 *
 * What the kernel does with an instruction is copied from arch/x86/kernel/uprobes.c:
 * branch_setup_xol_ops() and push_setup_xol_ops() are the emulated ones, uprobe_init_insn() with
 * its tables good_insns_64 and is_prefix_bad() the refused ones (5.8 to 6.18 agree but for nops).
 */
#include "sources/x86/site.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/mem.h"
#include "sources/x86/insn.h"

#define WALK_MAX_INSNS 8
#define WALK_MAX_BYTES 32

/* ---- what an instruction changes ---- */

enum effect {
	EFFECT_NONE, /* nothing that a probe reads */
	EFFECT_REG,  /* rsp or an argument register */
	EFFECT_STORE,
	EFFECT_LEAVE, /* the straight line ends or forks */
	EFFECT_UNKNOWN,
};

/* rcx rdx rsp rsi rdi r8 r9 */
#define KEPT_REGS (1u << 1 | 1u << 2 | 1u << 4 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9)

static enum effect to_reg(unsigned reg)
{
	return KEPT_REGS >> reg & 1 ? EFFECT_REG : EFFECT_NONE;
}

/* Of byte registers: without REX, 4 to 7 are ah, ch, dh and bh. */
static enum effect to_reg8(const struct insn *in, unsigned reg)
{
	return to_reg(!in->rex && reg >= 4 && reg <= 7 ? reg - 4 : reg);
}

static enum effect to_rm(const struct insn *in)
{
	return in->mod == 3 ? to_reg(in->rm) : EFFECT_STORE;
}

static enum effect to_rm8(const struct insn *in)
{
	return in->mod == 3 ? to_reg8(in, in->rm) : EFFECT_STORE;
}

/* add or adc sbb and sub xor cmp: 00-05, 08-0d, ... 38-3d. */
static enum effect effect_of_arithmetic(const struct insn *in)
{
	if (in->opcode >> 3 == 7)
		return EFFECT_NONE; /* cmp */
	switch (in->opcode & 7) {
	case 0:
		return to_rm8(in);
	case 1:
		return to_rm(in);
	case 2:
		return to_reg8(in, in->reg);
	case 3:
		return to_reg(in->reg);
	}
	return EFFECT_NONE; /* al, eax, rax */
}

static enum effect effect_of_one_byte(const struct insn *in)
{
	uint8_t op = in->opcode;

	if (op < 0x40)
		return effect_of_arithmetic(in);
	if ((op & 0xf0) == 0x50)
		return EFFECT_REG; /* push, pop */
	if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3) || (op >= 0xe8 && op <= 0xeb))
		return EFFECT_LEAVE;
	if ((op & 0xf8) == 0x90)
		/* xchg with rax; 90 itself is a nop unless REX.B makes it r8 */
		return op == 0x90 && !(in->rex & 1) ? EFFECT_NONE
						    : to_reg((op & 7) | (in->rex & 1 ? 8 : 0));
	if ((op & 0xf8) == 0xb0)
		return in->rex ? to_reg((op & 7) | (in->rex & 1 ? 8 : 0)) : to_reg(op & 3);
	if ((op & 0xf8) == 0xb8)
		return to_reg((op & 7) | (in->rex & 1 ? 8 : 0));
	switch (op) {
	case 0x63: /* movsxd */
	case 0x69: /* imul */
	case 0x6b:
	case 0x8b: /* mov */
	case 0x8d: /* lea */
		return to_reg(in->reg);
	case 0x8a:
		return to_reg8(in, in->reg);
	case 0x80:
		return in->group == 7 ? EFFECT_NONE : to_rm8(in);
	case 0x81:
	case 0x83:
		return in->group == 7 ? EFFECT_NONE : to_rm(in);
	case 0x84: /* test */
	case 0x85:
	case 0xa8:
	case 0xa9:
	case 0x98: /* cdqe */
	case 0xa0: /* mov from an address to al, rax */
	case 0xa1:
	case 0xf5: /* cmc, clc, stc, cld */
	case 0xf8:
	case 0xf9:
	case 0xfc:
		return EFFECT_NONE;
	case 0x88:
	case 0xc0: /* shifts and rotates */
	case 0xc6: /* mov of an immediate */
	case 0xd0:
	case 0xd2:
	case 0xfe: /* inc, dec */
		return to_rm8(in);
	case 0x89:
	case 0xc1:
	case 0xc7:
	case 0xd1:
	case 0xd3:
		return to_rm(in);
	case 0xf6:
	case 0xf7:
		if (in->group <= 1)
			return EFFECT_NONE; /* test */
		if (in->group <= 3)
			return op == 0xf6 ? to_rm8(in) : to_rm(in);
		return EFFECT_REG; /* mul and div write rdx */
	case 0x99:                 /* cqo writes rdx */
		return EFFECT_REG;
	case 0x8f:
		return EFFECT_REG; /* pop */
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
		return EFFECT_LEAVE;
	case 0xc8:
	case 0xc9:
		return EFFECT_REG; /* enter, leave */
	case 0x68:
	case 0x6a:
		return EFFECT_REG; /* push of an immediate */
	case 0xff:
		if (in->group <= 1)
			return to_rm(in);
		return in->group == 6 ? EFFECT_REG : EFFECT_LEAVE;
	}
	return EFFECT_UNKNOWN;
}

/* The SSE and AVX part of map 0f: nearly all write a vector register only. */
static enum effect effect_of_vector(const struct insn *in)
{
	uint8_t op = in->opcode;

	switch (op) {
	case 0x11: /* moves in the direction of r/m */
	case 0x29:
	case 0x7f:
	case 0xd6:
		return in->mod == 3 ? EFFECT_NONE : EFFECT_STORE;
	case 0x13:
	case 0x17:
	case 0x2b:
	case 0xe7:
	case 0xf7: /* maskmov: a store through rdi */
		return EFFECT_STORE;
	case 0x2c: /* conversions to a general register, with F2 and F3 */
	case 0x2d:
		return in->prefixes & (PFX_F2 | PFX_F3) ? to_reg(in->reg & 15) : EFFECT_NONE;
	case 0x50: /* movmskps, pextrw, pmovmskb */
	case 0xc5:
	case 0xd7:
		return to_reg(in->reg & 15);
	case 0x7e: /* movq to a vector with F3, else movd from one */
		return in->prefixes & PFX_F3 ? EFFECT_NONE : to_rm(in);
	case 0x78:
	case 0x79: /* EVEX: conversions, some to a general register; else of virtual machines */
	case 0x7a:
	case 0x7b:
		return EFFECT_UNKNOWN;
	}
	if (op == 0x10 || op == 0x12 || (op >= 0x14 && op <= 0x16) || op == 0x28 ||
	    (op >= 0x2a && op <= 0x2f) || (op >= 0x51 && op <= 0x7d) || op == 0xc2 || op == 0xc4 ||
	    op == 0xc6 || (op >= 0xd0 && op <= 0xfe))
		return EFFECT_NONE;
	return EFFECT_UNKNOWN;
}

static enum effect effect_of_two_byte(const struct insn *in)
{
	uint8_t op = in->opcode;

	if ((op & 0xf0) == 0x40)
		return to_reg(in->reg); /* cmov */
	if ((op & 0xf0) == 0x80)
		return EFFECT_LEAVE; /* jcc */
	if ((op & 0xf0) == 0x90)
		return to_rm8(in); /* setcc */
	if ((op & 0xf8) == 0xc8)
		return to_reg((op & 7) | (in->rex & 1 ? 8 : 0)); /* bswap */
	switch (op) {
	case 0x05:
	case 0x34:
		return EFFECT_LEAVE; /* syscall, sysenter */
	case 0x0d:                   /* prefetch */
		return in->mod == 3 ? EFFECT_UNKNOWN : EFFECT_NONE;
	case 0x18:
		return in->mod == 3 || in->group > 3 ? EFFECT_UNKNOWN : EFFECT_NONE;
	case 0x1e: /* endbr64, endbr32; others read the shadow stack */
		return in->prefixes & PFX_F3 && in->mod == 3 && in->group == 7 &&
				       (in->rm == 2 || in->rm == 3)
			       ? EFFECT_NONE
			       : EFFECT_UNKNOWN;
	case 0x1f: /* nop */
		return in->group == 0 ? EFFECT_NONE : EFFECT_UNKNOWN;
	case 0xa3: /* bt */
		return EFFECT_NONE;
	case 0xba:
		if (in->group < 4)
			return EFFECT_UNKNOWN;
		return in->group == 4 ? EFFECT_NONE : to_rm(in);
	case 0xa4: /* shld, bts, shrd, btr, btc */
	case 0xa5:
	case 0xab:
	case 0xac:
	case 0xad:
	case 0xb3:
	case 0xbb:
		return to_rm(in);
	case 0xaf: /* imul, movzx, movsx, bsf and tzcnt, bsr and lzcnt */
	case 0xb6:
	case 0xb7:
	case 0xbc:
	case 0xbd:
	case 0xbe:
	case 0xbf:
		return to_reg(in->reg);
	case 0xb8:
		return in->prefixes & PFX_F3 ? to_reg(in->reg) : EFFECT_UNKNOWN; /* popcnt */
	}
	return effect_of_vector(in);
}

static enum effect effect_of_three_byte(const struct insn *in)
{
	uint8_t op = in->opcode;

	if (in->encoding == ENC_VEX && in->map == 2 && (op == 0xf2 || op == 0xf5 || op == 0xf7))
		return to_reg(in->reg); /* andn; bzhi, pdep, pext; bextr, shlx, shrx, sarx */
	if (in->encoding == ENC_VEX && in->map == 3 && op == 0xf0)
		return to_reg(in->reg); /* rorx */
	if (in->map == 2 && (op == 0x18 || op == 0x19 || op == 0x58 || op == 0x59 || op == 0x78))
		return in->encoding == ENC_LEGACY ? EFFECT_UNKNOWN : EFFECT_NONE; /* broadcasts */
	if (in->encoding == ENC_LEGACY && in->map == 2)
		return op <= 0x41 ? EFFECT_NONE : EFFECT_UNKNOWN;
	if (in->encoding == ENC_LEGACY && in->map == 3)
		return (op >= 0x08 && op <= 0x0f) || (op >= 0x20 && op <= 0x22) ? EFFECT_NONE
										: EFFECT_UNKNOWN;
	return EFFECT_UNKNOWN;
}

/* A lock prefix stores. What it counts up or down in a variable of the library's own is nothing
 * that a probe reads; the old value may go to a register. */
static enum effect effect_of_locked(const struct insn *in)
{
	uint8_t op = in->opcode;

	if (!in->of_rip || in->encoding != ENC_LEGACY || in->prefixes & PFX_67)
		return EFFECT_STORE;
	if ((in->map == 0 && op == 0x87) || (in->map == 1 && op == 0xc1))
		return to_reg(in->reg); /* xchg; xadd */
	if ((in->map == 0 && op == 0x86) || (in->map == 1 && op == 0xc0))
		return to_reg8(in, in->reg);
	if (in->map == 0)
		return EFFECT_NONE;
	/* cmpxchg changes rax; bts, btr, btc */
	return in->map == 1 && (op == 0xb0 || op == 0xb1 || op == 0xab || op == 0xb3 ||
				op == 0xbb || op == 0xba)
		       ? EFFECT_NONE
		       : EFFECT_STORE;
}

static enum effect effect_of(const struct insn *in)
{
	/* A segment override on a nop or a load changes nothing. */
	if (in->prefixes & PFX_LOCK)
		return effect_of_locked(in);
	switch (in->map) {
	case 0:
		return effect_of_one_byte(in);
	case 1:
		return in->encoding == ENC_LEGACY ? effect_of_two_byte(in) : effect_of_vector(in);
	case 2:
	case 3:
		return effect_of_three_byte(in);
	}
	return EFFECT_UNKNOWN;
}

/* ---- what the kernel does with an instruction under a probe ---- */

/* good_insns_64 of arch/x86/kernel/uprobes.c, a bit per opcode, bit 15 of a row is opcode x0. It
 * has 0f as good, and the opcode byte that it tests is the one after a VEX or EVEX prefix: so
 * vmovdqa (VEX 6f) is refused for outs (6f). */
static const uint16_t good_insns_64[16] = {
	0xfcfd, 0xfcfc, 0xfefe, 0xfefe, 0xffff, 0xffff, 0x1ff0, 0xffff,
	0xdfff, 0xffdf, 0xffff, 0xffff, 0xfff0, 0xf1ff, 0xf0d0, 0xb7cf,
};

/* Why the kernel refuses a probe on it, or a single step of it would go wrong; else NULL. */
const char *gs_x86_insn_refusal(const struct insn *in)
{
	uint8_t op = in->opcode;

	if (in->prefixes & PFX_LOCK)
		return "begins with a lock prefix, on which the kernel allows no probe";
	if (in->prefixes & PFX_ES_CS_SS_DS)
		return "begins with a segment prefix, on which the kernel allows no probe";
	if (in->map == 0 || in->encoding != ENC_LEGACY) {
		if (in->map == 0 && op == 0xcc)
			return "a debugger or another tracer has already set a breakpoint there";
		if (!(good_insns_64[op >> 4] >> (15 - (op & 15)) & 1))
			return "begins with an instruction on which the kernel allows no probe";
	}
	if (gs_x86_insn_is_relative_branch(in) && in->prefixes & PFX_66)
		return "begins with a word-sized jump, on which the kernel allows no probe";
	if (in->encoding != ENC_LEGACY)
		return NULL;
	if (in->map == 0) {
		/* insn_masking_exception(): the trap of the single step would come late. */
		if (op == 0x8e && in->group == 2)
			return "begins with a load of ss, on which the kernel allows no probe";
		/* The saved flags would have the trap flag of the single step, and restoring them
		 * would kill the program. */
		if (op == 0x9c)
			return "begins with pushf, which must not be single-stepped";
		/* Up to 6.18 the kernel takes any 90 for a nop. */
		if (op == 0x90 && in->rex & 1)
			return "begins with xchg of r8 and rax, which the kernel takes for a nop";
		if (op == 0xca || op == 0xcb || (op == 0xff && (in->group == 3 || in->group == 5)))
			return "begins with a far jump, call or return";
	}
	/* The kernel lets these pass, because 0f is good in its first table; what its second table
	 * (good_2byte_insns) means to keep out must not be stepped all the same. */
	if (in->map == 1 && (op <= 0x01 || (op >= 0x05 && op <= 0x09) || op == 0x0b || op == 0x30 ||
			     op == 0x34 || op == 0x35 || op == 0x37 || op == 0x78 || op == 0x79 ||
			     op == 0xaa || op == 0xb9 || op == 0xff))
		return "begins with a system call or an instruction of the system";
	return NULL;
}

/* The nops that the kernel knows by heart (x86_nops[], Linux 6.16). From nine bytes on they have a
 * segment prefix, which is refused; other forms of 0f 1f are single-stepped until 6.18. */
static bool is_known_long_nop(const uint8_t *code, const struct insn *in)
{
	static const struct {
		uint8_t bytes;
		uint8_t code[8];
	} nops[] = {
		{2, {0x66, 0x90}},
		{3, {0x0f, 0x1f, 0x00}},
		{4, {0x0f, 0x1f, 0x40, 0}},
		{5, {0x0f, 0x1f, 0x44, 0, 0}},
		{6, {0x66, 0x0f, 0x1f, 0x44, 0, 0}},
		{7, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}},
		{8, {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(nops); i++)
		if (in->length_bytes == nops[i].bytes && !memcmp(code, nops[i].code, nops[i].bytes))
			return true;
	return false;
}

/* can_optimize() of Linux 6.18: any five-byte nop, not only the usual one. */
static bool is_nop5(const struct insn *in)
{
	return in->encoding == ENC_LEGACY && in->length_bytes == 5 &&
	       ((in->map == 0 && in->opcode == 0x90) ||
		(in->map == 1 && in->opcode == 0x1f && in->group == 0));
}

static bool is_emulated(const uint8_t *code, const struct insn *in,
			const struct gs_x86_site_rules *rules)
{
	if (gs_x86_insn_refusal(in))
		return false;
	if (rules->nop5_is_call && is_nop5(in))
		return false;
	if (gs_x86_insn_is_relative_branch(in))
		return true;
	if (is_known_long_nop(code, in))
		return rules->long_nop_is_emulated || rules->nop5_is_call;
	if (in->map != 0 || in->encoding != ENC_LEGACY)
		return false;
	if (in->opcode == 0x90)
		return in->length_bytes == 1;
	/* push_setup_xol_ops(), Linux 5.0: no prefix but REX.B alone */
	return (in->opcode & 0xf8) == 0x50 &&
	       (in->length_bytes == 1 || (in->length_bytes == 2 && in->rex == 0x41));
}

/* ---- the choice ---- */

/* True when a relative jump or call within the bytes leads into [low, high]. The bytes are read as
 * one straight line, up to what cannot be decoded (a jump table, padding). An indirect jump does
 * not count: it leads to where its table says, which is after the instructions that choose the
 * entry, and no site that a push of a word could harm is ever chosen. */
static bool is_jumped_to(const uint8_t *code, size_t bytes, size_t low, size_t high)
{
	struct insn in;

	for (size_t at = 0; at < bytes && gs_x86_insn_decode(code + at, bytes - at, &in);
	     at += in.length_bytes) {
		int64_t target = (int64_t)at + in.length_bytes + in.rel;
		bool loops = in.map == 0 && in.encoding == ENC_LEGACY && in.opcode >= 0xe0 &&
			     in.opcode <= 0xe3; /* loop, jrcxz */

		if ((gs_x86_insn_is_relative_branch(&in) || loops) && target >= (int64_t)low &&
		    target <= (int64_t)high)
			return true;
	}
	return false;
}

/* Would a probe be right here, once for each call? A jump back to the first byte itself is a tail
 * call of the function by itself and counts like any call. */
static bool is_once_per_call(const uint8_t *code, size_t bytes, size_t at)
{
	return at == 0 || !is_jumped_to(code, bytes, 1, at);
}

#define JUMPED_TO "a jump leads back to the instruction that the kernel emulates"
#define NOP5_REFUSED                                                                               \
	"begins with a five-byte nop, which this kernel turns into a call that crashes forked children"

static const char *reason_of_end(enum effect effect)
{
	switch (effect) {
	case EFFECT_NONE:
		break;
	case EFFECT_REG:
		return "an argument register or the stack pointer changes before any instruction that the kernel emulates";
	case EFFECT_STORE:
		return "memory is written before any instruction that the kernel emulates";
	case EFFECT_LEAVE:
		return "the function is left before any instruction that the kernel emulates";
	case EFFECT_UNKNOWN:
		return "an instruction of unknown effect comes before any that the kernel emulates";
	}
	return "none of the first eight instructions is one that the kernel emulates";
}

const char *gs_x86_site_refusal(const uint8_t *code, size_t bytes,
				const struct gs_x86_site_rules *rules)
{
	struct insn in;

	if (!gs_x86_insn_decode(code, bytes, &in))
		return "begins with bytes that are no known instruction, or are cut off";
	return rules->nop5_is_call && is_nop5(&in) ? NOP5_REFUSED : gs_x86_insn_refusal(&in);
}

struct gs_x86_site gs_x86_choose_site(const uint8_t *code, size_t bytes, uint64_t function_bytes,
				      const struct gs_x86_site_rules *rules)
{
	const char *refused, *reason = NULL;
	size_t at = 0;

	if (function_bytes && function_bytes < bytes)
		bytes = (size_t)function_bytes;
	refused = gs_x86_site_refusal(code, bytes, rules);
	for (unsigned n = 0; n <= WALK_MAX_INSNS && at < WALK_MAX_BYTES; n++) {
		enum effect effect;
		struct insn in;

		if (at == bytes && at > 0) {
			reason =
				"the function ends before any instruction that the kernel emulates";
			break;
		}
		if (!gs_x86_insn_decode(code + at, bytes - at, &in)) {
			reason = reason_of_end(EFFECT_UNKNOWN);
			break;
		}
		effect = effect_of(&in);
		if (is_emulated(code + at, &in, rules)) {
			if (is_once_per_call(code, bytes, at))
				return (struct gs_x86_site){at ? GS_X86_SITE_MOVED
							       : GS_X86_SITE_EMULATED,
							    (unsigned)at, NULL};
			reason = JUMPED_TO;
		}
		if (effect != EFFECT_NONE) {
			if (!reason)
				reason = reason_of_end(effect);
			break;
		}
		at += in.length_bytes;
	}
	if (refused)
		return (struct gs_x86_site){GS_X86_SITE_REFUSED, 0, refused};
	return (struct gs_x86_site){GS_X86_SITE_STEPPED, 0,
				    reason ? reason : reason_of_end(EFFECT_NONE)};
}

bool gs_x86_site_is_nop5(const uint8_t *code, size_t bytes)
{
	struct insn in;

	return gs_x86_insn_decode(code, bytes, &in) && is_nop5(&in);
}

/* ---- the whole function ---- */

#define FIRST_BYTES 64u
#define MAX_BYTES   (1u << 20)
/* Where no size is known. What follows the function's end are other functions: no harm. */
#define UNSIZED_BYTES 4096u
#define APART_BYTES   2048u
#define MAX_APARTS    16

static int32_t displacement_at(const uint8_t *code)
{
	int32_t value;

	memcpy(&value, code, sizeof(value));
	return value;
}

/* Does any byte begin a jump of 32 bits into [1, high]? Needs no knowledge of where instructions
 * begin: other bytes hardly ever look like one of these few jumps. */
static bool may_jump_to(const uint8_t *code, size_t bytes, int64_t offset, int64_t high)
{
	for (size_t i = 0; i + 5 <= bytes; i++) {
		bool jcc = i > 0 && code[i - 1] == 0x0f && (code[i] & 0xf0) == 0x80;
		int64_t target = offset + (int64_t)i + 5 + displacement_at(code + i + 1);

		if ((code[i] == 0xe9 || jcc) && target >= 1 && target <= high)
			return true;
	}
	return false;
}

/* The first place from this one on to which the function jumps, outside of it. */
static bool next_outside(const uint8_t *code, size_t bytes, int64_t from, int64_t *ret_at)
{
	bool found = false;
	struct insn in;

	for (size_t at = 0; at < bytes && gs_x86_insn_decode(code + at, bytes - at, &in);
	     at += in.length_bytes) {
		int64_t target = (int64_t)at + in.length_bytes + in.rel;

		if (!gs_x86_insn_is_relative_branch(&in) || (in.map == 0 && in.opcode == 0xe8) ||
		    (target >= 0 && target < (int64_t)bytes) || target < from ||
		    (found && target >= *ret_at))
			continue;
		*ret_at = target;
		found = true;
	}
	return found;
}

/* Compilers put what is rarely run apart and jump from there back into the function. */
static bool is_jumped_to_from_apart(const struct gs_x86_site_source *source, const uint8_t *code,
				    size_t bytes, int64_t high)
{
	int64_t from = INT64_MIN;
	uint8_t *apart = malloc(APART_BYTES);
	bool found = !apart;

	for (int k = 0; !found && next_outside(code, bytes, from, &from); k++) {
		size_t n;

		/* A function with so many ways to the outside is not searched whole. */
		if (k == MAX_APARTS) {
			found = true;
			break;
		}
		n = source->read(source->ctx, from, apart, APART_BYTES);
		found = may_jump_to(apart, n, from, high);
		from += APART_BYTES;
	}
	free(apart);
	return found;
}

static const char *why_not_moved(const struct gs_x86_site_source *source, unsigned offset_bytes)
{
	size_t bytes = source->function_bytes ? source->function_bytes : UNSIZED_BYTES, n, read_to;
	const char *why = NULL;
	struct insn in;
	uint8_t *code;

	if (source->function_bytes > MAX_BYTES)
		return "too large to be searched for jumps back to an instruction that the kernel emulates";
	code = malloc(bytes);
	n = code ? source->read(source->ctx, 0, code, bytes) : 0;
	for (read_to = 0; read_to < n && gs_x86_insn_decode(code + read_to, n - read_to, &in);)
		read_to += in.length_bytes;
	if (!n || n < source->function_bytes)
		why = "not all of it can be read";
	else if (is_jumped_to(code, n, 1, offset_bytes) ||
		 may_jump_to(code + read_to, n - read_to, (int64_t)read_to, offset_bytes) ||
		 is_jumped_to_from_apart(source, code, n, offset_bytes))
		why = JUMPED_TO;
	free(code);
	return why;
}

struct gs_x86_site gs_x86_find_site(const struct gs_x86_site_source *source,
				    const struct gs_x86_site_rules *rules)
{
	uint8_t first[FIRST_BYTES];
	size_t n = source->read(source->ctx, 0, first, sizeof(first));
	struct gs_x86_site site = gs_x86_choose_site(first, n, source->function_bytes, rules);
	const char *why = NULL, *refused;

	if (site.kind == GS_X86_SITE_MOVED)
		why = why_not_moved(source, site.offset_bytes);
	if (!why)
		return site;
	refused = gs_x86_site_refusal(first, n, rules);
	if (refused)
		return (struct gs_x86_site){GS_X86_SITE_REFUSED, 0, refused};
	return (struct gs_x86_site){GS_X86_SITE_STEPPED, 0, why};
}

/* An unreadable version counts as the newest: the rules then are the most careful ones. */
static unsigned kernel_version(void)
{
	unsigned major, minor;
	struct utsname u;

	if (uname(&u) != 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return UINT_MAX;
	return major << 8 | (minor < 255 ? minor : 255);
}

void gs_x86_site_rules_here(struct gs_x86_site_rules *rules)
{
	rules->long_nop_is_emulated = kernel_version() >= (6 << 8 | 16);
	rules->nop5_is_call = kernel_version() >= (6 << 8 | 18);
}
