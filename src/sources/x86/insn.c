#include "sources/x86/insn.h"

#include "core/base/mem.h"

#define INSN_MAX_BYTES 15

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

static uint8_t take_byte(struct cursor *c)
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
		v |= (uint32_t)take_byte(c) << 8 * (i & 3);
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
	uint8_t p0 = take_byte(c), p1 = p0;

	/* A REX or 66/F2/F3/LOCK in front is an invalid instruction. */
	if (in->rex || in->prefixes & (PFX_66 | PFX_F2 | PFX_F3 | PFX_LOCK))
		return false;
	in->rex = 0x40 | (p0 & 0x80 ? 0 : 4);
	in->map = 1;
	in->encoding = lead == 0x62 ? ENC_EVEX : ENC_VEX;
	if (lead != 0xc5) {
		in->rex |= (p0 & 0x40 ? 0 : 2) | (p0 & 0x20 ? 0 : 1);
		in->map = p0 & (lead == 0x62 ? 0x0f : 0x1f);
		p1 = take_byte(c);
		in->wide = p1 >> 7;
	}
	if (lead == 0x62) {
		take_byte(c);
		if (!(p1 & 4) || p0 & 8)
			return false;
	}
	in->prefixes |= implied_prefix[p1 & 3];
	in->opcode = take_byte(c);
	return in->map >= 1 &&
	       (in->map <= 3 || (in->encoding == ENC_EVEX && (in->map == 5 || in->map == 6)));
}

static void take_modrm(struct cursor *c, struct insn *in)
{
	uint8_t modrm = take_byte(c), rm = modrm & 7, sib;
	unsigned disp_bytes = 0;

	in->has_modrm = 1;
	in->mod = modrm >> 6;
	in->of_rip = in->mod == 0 && rm == 5;
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
		sib = take_byte(c);
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
		in->rel = (int8_t)take_byte(c); /* NOLINT(bugprone-signed-char-misuse) */
		break;
	case 'd':
		in->rel = (int32_t)take_le(c, 4);
		break;
	case 'M':
		take_byte(c);
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

bool gs_x86_insn_decode(const uint8_t *code, size_t bytes, struct insn *ret_in)
{
	struct cursor c = {code, bytes < INSN_MAX_BYTES ? bytes : INSN_MAX_BYTES, 0, false};
	struct insn in = {0};
	uint8_t byte;

	while (c.at < c.bytes && prefix_of(c.code[c.at]))
		in.prefixes |= prefix_of(take_byte(&c));
	byte = take_byte(&c);
	if ((byte & 0xf0) == 0x40) {
		in.rex = byte;
		in.wide = byte >> 3 & 1;
		byte = take_byte(&c);
	}
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
		if (!take_vex(&c, byte, &in))
			return false;
	} else if (byte == 0x0f) {
		byte = take_byte(&c);
		in.map = byte == 0x38 ? 2 : byte == 0x3a ? 3 : 1;
		in.opcode = in.map == 1 ? byte : take_byte(&c);
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

bool gs_x86_insn_is_relative_branch(const struct insn *in)
{
	if (in->encoding != ENC_LEGACY)
		return false;
	if (in->map == 1)
		return (in->opcode & 0xf0) == 0x80;
	return in->map == 0 && ((in->opcode & 0xf0) == 0x70 || in->opcode == 0xe8 ||
				in->opcode == 0xe9 || in->opcode == 0xeb);
}
