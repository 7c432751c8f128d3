/*
 * Where a function is left, without return probes (src/bpf/calls/scope.bpf.h says why): the
 * cheapest set of instructions of which each call that returns passes exactly one. A ret itself is
 * single-stepped by the kernel, which costs ten times a probe in a virtual machine. But jumps and
 * direct calls are emulated. So, of each ret, the smallest part of the function is taken that
 *
 * - holds the ret, and whatever follows one of its instructions (who is in does not come out), and
 * - is entered by emulated instructions only: jumps, conditional ones, and calls of functions that
 *   give memory back.
 *
 * The probes are on the ways into these parts. A conditional jump is probed with its condition, and
 * without where both its sides lead in. What is between such a probe and the ret restores
 * registers: the function is reported to end some ns before it does, and before the call where it ends
 * with one, as in "je 1f; call free; 1: pop; ret". Where there is no such part, because it would
 * hold other calls, a jump back, or the beginning of the function, the ret has to be taken; so for
 * all of a function with jumps whose target is not known.
 */
#ifndef GS_SOURCES_X86_EXIT_H
#define GS_SOURCES_X86_EXIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_exit {
	int64_t offset_bytes; /* from the function's first byte; in a part apart it may be negative
			       */
	uint32_t frame_bytes; /* the stack pointer is at most so far below that at the entry; 0: as
			       * at the entry */
	int32_t depth_bytes;  /* how far below exactly; -1 not known */
	uint8_t condition;    /* of a conditional jump: low four bits of its opcode */
	bool when_taken, when_not_taken; /* the function is left when ...; both: always */
	bool is_stepped;                 /* the kernel single-steps the instruction there */
};

enum gs_callee {
	GS_CALLEE_WORK,      /* any */
	GS_CALLEE_RELEASE,   /* gives memory back, and throws nothing: no work of its caller's */
	GS_CALLEE_NO_RETURN, /* what stands after the call does not run after it */
};

/* What can be asked about what is not the function itself. Offsets are from its first byte. */
struct gs_exit_around {
	void *ctx; /* of both */
	/* The code there; how many bytes. Compilers put what is rarely run apart (.cold), and jump
	 * from there back into the function. */
	size_t (*read)(void *ctx, int64_t offset_bytes, uint8_t *buf, size_t bytes);
	enum gs_callee (*callee)(void *ctx, int64_t offset_bytes);
	/* The function is the loop of an interpreter: its indirect jumps go from one operation to
	 * the next, all with the same stack pointer, and none of them straight out. */
	bool is_loop;
};

/* The ways out of the x86-64 function that is code, whole. Without around, calls are work and no
 * part is apart. Returns how many, at most max; -EILSEQ: none, or not all of it could be decoded;
 * -E2BIG: more than max. A jump to another function in place of a return is one, too; an indirect
 * jump is taken for one within the function. */
int gs_x86_find_exits(const uint8_t *code, size_t bytes, const struct gs_exit_around *around,
		      struct gs_exit *ret_exits, size_t max);

#define GS_TAILS_MAX 4

struct gs_returns {
	bool jumps; /* it may also be left by a jump to a function that returns for it */
	bool calls; /* it calls others; if not, nothing is left of it after such a jump */
	bool alone; /* it calls nothing, makes no system call and runs no code that lies apart */
	int64_t indirect_jump; /* the only one of them, when it is indirect; else -1 */
	/* Where the others lead, from the function's first byte; each once. */
	int64_t tails[GS_TAILS_MAX];
	unsigned n_tails; /* more than GS_TAILS_MAX: not all are here */
};

/* Its ret instructions alone, where the result is known and the stack pointer is as at the entry.
 * Returns how many, 0 only with jumps; -EILSEQ: not all of it could be decoded, or it does not
 * return. -E2BIG: more than max. */
int gs_x86_find_returns(const uint8_t *code, size_t bytes, struct gs_exit *ret_exits, size_t max,
			struct gs_returns *ret_returns);

#endif
