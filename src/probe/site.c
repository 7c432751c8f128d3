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
#include "probe/site.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define INSN_MAX_BYTES 15
#define WALK_MAX_INSNS 8
#define WALK_MAX_BYTES 32

enum prefix {
	PFX_66 = 1,
	PFX_67 = 2,
	PFX_F2 = 4,
	PFX_F3 = 8,
	PFX_LOCK = 16,
	PFX_ES_CS_SS_DS = 32,
	PFX_FS_GS = 64,
};

enum encoding { ENC_LEGACY, ENC_VEX, ENC_EVEX };

struct insn {
	uint8_t length_bytes;
	uint8_t prefixes; /* enum prefix; of VEX and EVEX also the implied 66, F2 or F3 */
	uint8_t rex;      /* the byte as it stands; 0 none */
	uint8_t encoding; /* enum encoding */
	uint8_t map;      /* 0 one byte, 1 0f, 2 0f 38, 3 0f 3a, 5 and 6 EVEX only */
	uint8_t opcode;   /* the last opcode byte */
	uint8_t wide;     /* REX.W */
	uint8_t has_modrm;
	uint8_t mod;   /* 3: rm is a register, else memory */
	uint8_t group; /* the three bits of reg, where they extend the opcode */
	uint8_t reg;   /* 0-15 (0-31 with EVEX, where it is a vector) */
	uint8_t rm;    /* 0-15, only when mod is 3 */
	int32_t rel;   /* of relative branches */
};

/* What follows each opcode: . nothing, m ModRM, b/w/z/v/d an immediate of 1/2/2-4/2-8/4 bytes,
 * M and Z ModRM and b or z, t and T the same for /0 and /1 only, a an address, e of enter,
 * p a prefix or escape that was handled before, x not valid. */
static const char *const one_byte[16] = {
	"mmmmbzxxmmmmbzxp", "mmmmbzxxmmmmbzxx", "mmmmbzpxmmmmbzpx", "mmmmbzpxmmmmbzpx",
	"pppppppppppppppp", "................", "xxpmppppzZbM....", "bbbbbbbbbbbbbbbb",
	"MZxMmmmmmmmmmmmm", "..........x.....", "aaaa....bz......", "bbbbbbbbvvvvvvvv",
	"MMw.ppMZe.w..bx.", "mmmmxxx.mmmmmmmm", "bbbbbbbbddxb....", "p.pp..tT......mm",
};

static const char *const two_byte[16] = {
	"mmmmx.....x.xm.M", "mmmmmmmmmmmmmmmm", "mmmmxxxxmmmmmmmm", "......x.pxpxxxxx",
	"mmmmmmmmmmmmmmmm", "mmmmmmmmmmmmmmmm", "mmmmmmmmmmmmmmmm", "MMMMmmm.mmxxmmmm",
	"dddddddddddddddd", "mmmmmmmmmmmmmmmm", "...mMmxx...mMmmm", "mmmmmmmmmmMmmmmm",
	"mmMmMMMm........", "mmmmmmmmmmmmmmmm", "mmmmmmmmmmmmmmmm", "mmmmmmmmmmmmmmmm",
};

/* ---- length ---- */

struct cursor {
	const uint8_t *code;
	size_t bytes; /* at most INSN_MAX_BYTES */
	size_t at;
	bool ended; /* a read went past the end; what was read is 0 */
};

static uint8_t take(struct cursor *c)
{
	if (c->at >= c->bytes) {
		c->ended = true;
		return 0;
	}
	return c->code[c->at++];
}

static uint32_t take_le(struct cursor *c, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint32_t)take(c) << 8 * (i & 3);
	return v;
}

static uint8_t prefix_of(uint8_t byte)
{
	switch (byte) {
	case 0x66:
		return PFX_66;
	case 0x67:
		return PFX_67;
	case 0xf2:
		return PFX_F2;
	case 0xf3:
		return PFX_F3;
	case 0xf0:
		return PFX_LOCK;
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
		return PFX_ES_CS_SS_DS;
	case 0x64:
	case 0x65:
		return PFX_FS_GS;
	}
	return 0;
}

/* VEX.pp and EVEX.pp stand for a prefix. */
static const uint8_t implied_prefix[4] = {0, PFX_66, PFX_F3, PFX_F2};

/* The bytes after c4, c5 or 62. The register bits in them are inverted; r2, x and b extend like
 * REX. False: not valid. */
static bool take_vex(struct cursor *c, uint8_t lead, struct insn *in)
{
	uint8_t p0 = take(c), p1 = p0;

	/* A REX or 66/F2/F3/LOCK in front is an invalid instruction. */
	if (in->rex || in->prefixes & (PFX_66 | PFX_F2 | PFX_F3 | PFX_LOCK))
		return false;
	in->rex = 0x40 | (p0 & 0x80 ? 0 : 4);
	in->map = 1;
	in->encoding = lead == 0x62 ? ENC_EVEX : ENC_VEX;
	if (lead != 0xc5) {
		in->rex |= (p0 & 0x40 ? 0 : 2) | (p0 & 0x20 ? 0 : 1);
		in->map = p0 & (lead == 0x62 ? 0x0f : 0x1f);
		p1 = take(c);
		in->wide = p1 >> 7;
	}
	if (lead == 0x62) {
		take(c);
		if (!(p1 & 4) || p0 & 8)
			return false;
	}
	in->prefixes |= implied_prefix[p1 & 3];
	in->opcode = take(c);
	return in->map >= 1 &&
	       (in->map <= 3 || (in->encoding == ENC_EVEX && (in->map == 5 || in->map == 6)));
}

static void take_modrm(struct cursor *c, struct insn *in)
{
	uint8_t modrm = take(c), rm = modrm & 7, sib;
	unsigned disp_bytes = 0;

	in->has_modrm = 1;
	in->mod = modrm >> 6;
	in->group = modrm >> 3 & 7;
	in->reg = in->group | (in->rex & 4 ? 8 : 0);
	in->rm = rm | (in->rex & 1 ? 8 : 0);
	if (in->mod == 3)
		return;
	if (in->mod == 1)
		disp_bytes = 1;
	else if (in->mod == 2 || rm == 5)
		disp_bytes = 4; /* mod 0, rm 5: relative to rip */
	if (rm == 4) {
		sib = take(c);
		if (in->mod == 0 && (sib & 7) == 5)
			disp_bytes = 4;
	}
	take_le(c, disp_bytes);
}

static char shape_of(const struct insn *in)
{
	char shape;

	switch (in->map) {
	case 0:
		return one_byte[in->opcode >> 4][in->opcode & 15];
	case 1:
		shape = two_byte[in->opcode >> 4][in->opcode & 15];
		if (in->encoding == ENC_LEGACY) /* 66/F2 0f 78: SSE4a, with two immediates */
			return in->opcode == 0x78 && in->prefixes & (PFX_66 | PFX_F2) ? 'x' : shape;
		if (in->opcode == 0x77)
			return '.'; /* vzeroupper */
		if (in->encoding == ENC_EVEX && (in->opcode == 0x7a || in->opcode == 0x7b))
			return 'm';
		return shape == 'm' || shape == 'M' ? shape : 'x';
	case 3:
		return 'M';
	}
	return 'm';
}

/* Instructions with a ModRM byte that is not valid, or that may only stand elsewhere. */
static bool is_valid(const struct insn *in)
{
	if (in->map != 0 || in->encoding != ENC_LEGACY)
		return true;
	switch (in->opcode) {
	case 0x8d: /* lea of a register */
		return in->mod != 3;
	case 0x8f: /* pop is /0; the others begin AMD's XOP */
	case 0xc6: /* mov is /0; c6 f8 and c7 f8 are xabort and xbegin */
	case 0xc7:
		return in->group == 0;
	case 0xfe:
		return in->group <= 1;
	case 0xff:
		return in->group <= 6;
	}
	return true;
}

static void take_operands(struct cursor *c, struct insn *in)
{
	char shape = shape_of(in);
	unsigned z_bytes = in->prefixes & PFX_66 && !in->wide ? 2 : 4;

	switch (shape) {
	case 'm':
	case 'M':
	case 'Z':
	case 't':
	case 'T':
		take_modrm(c, in);
		break;
	case 'p':
	case 'x':
		c->ended = true;
		return;
	}
	switch (shape) {
	case 'b':
		in->rel = (int8_t)take(c);
		break;
	case 'd':
		in->rel = (int32_t)take_le(c, 4);
		break;
	case 'M':
		take(c);
		break;
	case 'Z':
	case 'z':
		take_le(c, z_bytes);
		break;
	case 'v':
		take_le(c, in->wide ? 8 : z_bytes);
		break;
	case 'w':
		take_le(c, 2);
		break;
	case 'e':
		take_le(c, 3);
		break;
	case 'a':
		take_le(c, in->prefixes & PFX_67 ? 4 : 8);
		break;
	case 't':
		take_le(c, in->group <= 1 ? 1 : 0);
		break;
	case 'T':
		take_le(c, in->group <= 1 ? z_bytes : 0);
		break;
	}
}

/* False, and *ret_in untouched, when the bytes are cut off or are no instruction. */
static bool decode(const uint8_t *code, size_t bytes, struct insn *ret_in)
{
	struct cursor c = {code, bytes < INSN_MAX_BYTES ? bytes : INSN_MAX_BYTES, 0, false};
	struct insn in = {0};
	uint8_t byte;

	while (c.at < c.bytes && prefix_of(c.code[c.at]))
		in.prefixes |= prefix_of(take(&c));
	byte = take(&c);
	if ((byte & 0xf0) == 0x40) {
		in.rex = byte;
		in.wide = byte >> 3 & 1;
		byte = take(&c);
	}
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
		if (!take_vex(&c, byte, &in))
			return false;
	} else if (byte == 0x0f) {
		byte = take(&c);
		in.map = byte == 0x38 ? 2 : byte == 0x3a ? 3 : 1;
		in.opcode = in.map == 1 ? byte : take(&c);
	} else {
		in.opcode = byte;
	}
	if (c.ended)
		return false;
	take_operands(&c, &in);
	if (c.ended || !is_valid(&in))
		return false;
	in.length_bytes = (uint8_t)c.at;
	*ret_in = in;
	return true;
}

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

static enum effect effect_of(const struct insn *in)
{
	/* A lock prefix stores; a segment override on a nop or a load changes nothing. */
	if (in->prefixes & PFX_LOCK)
		return EFFECT_STORE;
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
 * has 0f as good, and the opcode byte that it tests is the one behind a VEX or EVEX prefix: so
 * vmovdqa (VEX 6f) is refused for outs (6f). */
static const uint16_t good_insns_64[16] = {
	0xfcfd, 0xfcfc, 0xfefe, 0xfefe, 0xffff, 0xffff, 0x1ff0, 0xffff,
	0xdfff, 0xffdf, 0xffff, 0xffff, 0xfff0, 0xf1ff, 0xf0d0, 0xb7cf,
};

static bool is_relative_branch(const struct insn *in)
{
	if (in->encoding != ENC_LEGACY)
		return false;
	if (in->map == 1)
		return (in->opcode & 0xf0) == 0x80;
	return in->map == 0 && ((in->opcode & 0xf0) == 0x70 || in->opcode == 0xe8 ||
				in->opcode == 0xe9 || in->opcode == 0xeb);
}

/* Why the kernel refuses a probe on it, or a single step of it would go wrong; else NULL. */
static const char *refusal(const struct insn *in)
{
	uint8_t op = in->opcode;

	if (in->prefixes & PFX_LOCK)
		return "begins with a lock prefix, on which the kernel allows no probe";
	if (in->prefixes & PFX_ES_CS_SS_DS)
		return "begins with a segment prefix, on which the kernel allows no probe";
	if (in->map == 0 || in->encoding != ENC_LEGACY) {
		if (in->map == 0 && op == 0xcc)
			return "a breakpoint is there already, of a debugger or another tracer";
		if (!(good_insns_64[op >> 4] >> (15 - (op & 15)) & 1))
			return "begins with an instruction on which the kernel allows no probe";
	}
	if (is_relative_branch(in) && in->prefixes & PFX_66)
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
			const struct gs_site_rules *rules)
{
	if (refusal(in))
		return false;
	if (is_relative_branch(in) || (rules->nop5_is_call && is_nop5(in)))
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
 * one straight line: behind a jump table or padding the reading may go wrong or end. Compilers put
 * neither into the middle of a loop, and a site in a loop that was not seen is hit more than once a
 * call, nothing worse; so what cannot be read does not count. */
static bool is_jumped_to(const uint8_t *code, size_t bytes, size_t low, size_t high)
{
	struct insn in;

	for (size_t at = 0; at < bytes && decode(code + at, bytes - at, &in);
	     at += in.length_bytes) {
		int64_t target = (int64_t)at + in.length_bytes + in.rel;
		bool loops = in.map == 0 && in.encoding == ENC_LEGACY && in.opcode >= 0xe0 &&
			     in.opcode <= 0xe3; /* loop, jrcxz */

		if ((is_relative_branch(&in) || loops) && target >= (int64_t)low &&
		    target <= (int64_t)high)
			return true;
	}
	return false;
}

/* Would a probe be right here, once for each call? A jump back to the first byte itself is a tail
 * call of the function by itself and counts like any call. */
static bool is_once_per_call(const uint8_t *code, size_t bytes, size_t at, const struct insn *in,
			     const struct gs_site_rules *rules)
{
	/* As a call, a nop5 overwrites the word below the stack pointer, where a function that
	 * calls nobody may keep a value (the red zone). Up to here nothing has been stored, as the
	 * walk passes no store: only a jump back could come with something there. */
	if (rules->nop5_is_call && is_nop5(in))
		return !is_jumped_to(code, bytes, 0, at);
	return at == 0 || !is_jumped_to(code, bytes, 1, at);
}

static const char *reason_of_end(enum effect effect)
{
	switch (effect) {
	case EFFECT_NONE:
		break;
	case EFFECT_REG:
		return "an argument register or the stack pointer changes before any instruction "
		       "that the kernel emulates";
	case EFFECT_STORE:
		return "memory is written before any instruction that the kernel emulates";
	case EFFECT_LEAVE:
		return "the function is left before any instruction that the kernel emulates";
	case EFFECT_UNKNOWN:
		return "an instruction of unknown effect comes before any that the kernel emulates";
	}
	return "none of the first eight instructions is one that the kernel emulates";
}

struct gs_site gs_site_choose_x86_64(const uint8_t *code, size_t bytes, uint64_t function_bytes,
				     const struct gs_site_rules *rules)
{
	const char *refused = "begins with bytes that are no known instruction, or are cut off";
	const char *reason = NULL;
	size_t at = 0;

	if (function_bytes && function_bytes < bytes)
		bytes = (size_t)function_bytes;
	for (unsigned n = 0; n <= WALK_MAX_INSNS && at < WALK_MAX_BYTES; n++) {
		enum effect effect;
		struct insn in;

		if (at == bytes && at > 0) {
			reason =
				"the function ends before any instruction that the kernel emulates";
			break;
		}
		if (!decode(code + at, bytes - at, &in)) {
			reason = reason_of_end(EFFECT_UNKNOWN);
			break;
		}
		if (at == 0)
			refused = refusal(&in);
		effect = effect_of(&in);
		if (is_emulated(code + at, &in, rules)) {
			if (is_once_per_call(code, bytes, at, &in, rules))
				return (struct gs_site){at ? GS_SITE_MOVED : GS_SITE_EMULATED,
							(unsigned)at, NULL};
			reason = "a jump leads back to the instruction that the kernel emulates";
			if (at == 0)
				refused = "begins with a nop that the kernel makes a call, and a "
					  "jump leads back to it";
		}
		if (effect != EFFECT_NONE) {
			if (!reason)
				reason = reason_of_end(effect);
			break;
		}
		at += in.length_bytes;
	}
	if (refused)
		return (struct gs_site){GS_SITE_REFUSED, 0, refused};
	return (struct gs_site){GS_SITE_STEPPED, 0, reason ? reason : reason_of_end(EFFECT_NONE)};
}
