/*
 * x86-64 instructions, as far as it takes to walk over code and to see what a probe needs to know:
 * lengths, opcodes, operands, targets of relative branches.
 */
#ifndef GS_SOURCES_X86_INSN_H
#define GS_SOURCES_X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	uint8_t prefixes;  /* enum prefix; of VEX and EVEX also the implied 66, F2 or F3 */
	uint8_t rex;       /* the byte as it stands; 0 none */
	uint8_t encoding;  /* enum encoding */
	uint8_t map;       /* 0 one byte, 1 0f, 2 0f 38, 3 0f 3a, 5 and 6 EVEX only */
	uint8_t opcode;    /* the last opcode byte */
	uint8_t wide;      /* REX.W */
	uint8_t has_modrm; /* mod, reg and rm are known */
	uint8_t mod;       /* 3: rm is a register, else memory */
	uint8_t of_rip;    /* memory at a distance from the instruction: a variable of the file */
	uint8_t group;     /* the three bits of reg, where they extend the opcode */
	uint8_t reg;       /* 0-15 (0-31 with EVEX, where it is a vector) */
	uint8_t rm;        /* 0-15, only when mod is 3 */
	int32_t rel;       /* of relative branches */
};

/* False, and *ret_in untouched, when the bytes are cut off or are no instruction. */
bool gs_x86_insn_decode(const uint8_t *code, size_t bytes, struct insn *ret_in);

/* A jump, conditional or not, or a call, to a place that the instruction names. */
bool gs_x86_insn_is_relative_branch(const struct insn *in);

/* Why the kernel refuses a probe on it, or a single step of it would go wrong; else NULL. Of
 * site.c. */
const char *gs_x86_insn_refusal(const struct insn *in);

#endif
