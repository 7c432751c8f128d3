/*
 * Where inside a function a breakpoint is cheap and safe. The kernel emulates some instructions
 * under a breakpoint (about 0.5 us) and single-steps all others, which costs about 10 us in a
 * virtual machine. Where the first instruction is not one of these, but one follows on the straight
 * line before anything that a probe reads has changed (argument registers, stack pointer, the
 * stack), the probe is put there instead. doc/overhead.md has the measurements.
 */
#ifndef GS_SOURCES_X86_SITE_H
#define GS_SOURCES_X86_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_x86_site_kind {
	GS_X86_SITE_EMULATED = 1, /* at the first byte, emulated */
	GS_X86_SITE_MOVED = 2,    /* some bytes in, emulated */
	GS_X86_SITE_STEPPED = 3,  /* at the first byte, single-stepped: correct, but slow */
	GS_X86_SITE_REFUSED = 4,  /* must not be probed */
};

struct gs_x86_site {
	enum gs_x86_site_kind kind; /* what a probe there costs, or that it must not be */
	unsigned offset_bytes;      /* to add to the function's first byte; 0 unless MOVED */
	const char *reason;         /* static text: of STEPPED and REFUSED, why; else NULL */
};

struct gs_x86_site_rules {
	/* The kernel turns a five-byte nop under a probe into a call (since Linux 6.18) of a page
	 * that forked children do not have, and which writes a word below the stack pointer, where
	 * a jump or a tail call may have left a value: no such nop is ever chosen. */
	uint8_t nop5_is_call;
	/* Nops of two to eight bytes are emulated (since Linux 6.16); before, they were
	 * single-stepped or refused. nop5_is_call implies it. */
	uint8_t long_nop_is_emulated;
};

/* What the running kernel does. */
void gs_x86_site_rules_here(struct gs_x86_site_rules *ret_rules);

/* Why no probe may be on the first instruction of code; else NULL. */
const char *gs_x86_site_refusal(const uint8_t *code, size_t bytes,
				const struct gs_x86_site_rules *rules);

/* Is it an instruction that nop5_is_call is about? */
bool gs_x86_site_is_nop5(const uint8_t *code, size_t bytes);

/* Decide for the x86-64 function that begins with code. Jumps back to the site are looked for in
 * all of the bytes, and nowhere else. function_bytes is its size by the symbol table, 0 unknown: no
 * site is chosen after its end. */
struct gs_x86_site gs_x86_choose_site(const uint8_t *code, size_t bytes, uint64_t function_bytes,
				      const struct gs_x86_site_rules *rules);

/* Where the code of a function comes from. */
struct gs_x86_site_source {
	void *ctx; /* borrowed */
	/* The code at so many bytes from the function's first one; how many were read. */
	size_t (*read)(void *ctx, int64_t offset_bytes, uint8_t *buf, size_t bytes);
	uint64_t function_bytes; /* by the symbol table; 0 unknown */
};

/* The same for all of the function and the parts of it that lie apart (.cold). A site some bytes in
 * to which one of them jumps back, or that cannot be searched for such jumps, is not taken. */
struct gs_x86_site gs_x86_find_site(const struct gs_x86_site_source *source,
				    const struct gs_x86_site_rules *rules);

#endif
