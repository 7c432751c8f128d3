/*
 * Where a function is left, without return probes (src/bpf/scope.bpf.h tells why): the cheapest set
 * of instructions of which each call that returns passes exactly one. A ret itself is
 * single-stepped by the kernel, which costs ten times a probe in a virtual machine. But the block
 * that ends with it is entered by jumps, and these are emulated: a probe on each of them, and the
 * flags, tell when it is. Only where a block is entered behind a call the ret has to be taken.
 */
#ifndef GS_CODE_EXIT_H
#define GS_CODE_EXIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_exit {
	uint32_t offset_bytes;
	uint32_t frame_bytes; /* the stack pointer is at most so far below that at the entry; 0: as
			       * at the entry */
	uint8_t condition;    /* of a conditional jump: low four bits of its opcode */
	bool when_taken, when_not_taken; /* the function is left when ...; both: always */
	bool is_stepped;
};

/* The ways out of the x86-64 function that is code, whole. Returns how many, at most max; -EILSEQ:
 * none, or not all of it could be decoded; -E2BIG: more than max. A jump to another function in
 * place of a return is one, too; an indirect jump is taken for one within the function. */
int gs_exits_x86_64(const uint8_t *code, size_t bytes, struct gs_exit *ret_exits, size_t max);

#endif
