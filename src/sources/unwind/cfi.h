/*
 * Call frame information: how to get from the registers at an address of a file's code to those of
 * its caller, as compilers write it into .eh_frame for exceptions (DWARF 5 section 6.4; Linux
 * Standard Base, "Exception Frames"). x86-64 only. Nothing in the tables is trusted.
 */
#ifndef GS_SOURCES_UNWIND_CFI_H
#define GS_SOURCES_UNWIND_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "sources/elf/elf.h"

enum { /* DWARF's numbers of registers (System V ABI for x86-64, 3.6.2) */
       GS_REG_RBX = 3,
       GS_REG_RBP = 6,
       GS_REG_RSP = 7,
       GS_REG_R12 = 12,
       GS_REG_R15 = 15,
       GS_REG_RIP = 16,
       GS_REG_COUNT = 17,
};

struct gs_regs {
	uint64_t value[GS_REG_COUNT]; /* by DWARF's number */
	uint32_t known;               /* bit n: register n */
};

enum gs_cfi_rule {
	GS_CFI_SAME = 0,
	GS_CFI_UNDEFINED = 1,
	GS_CFI_OFFSET = 2,     /* at CFA + arg */
	GS_CFI_VAL_OFFSET = 3, /* CFA + arg */
	GS_CFI_REGISTER = 4,   /* in register arg */
	GS_CFI_EXPR = 5,       /* at the address that the expression at arg gives */
	GS_CFI_VAL_EXPR = 6,   /* what the expression gives */
};

struct gs_cfi_value {
	uint8_t rule;        /* enum gs_cfi_rule */
	uint16_t expr_bytes; /* of an expression */
	int64_t arg;         /* an expression: where it begins in the row's */
};

#define GS_CFI_EXPRS_BYTES 256 /* of all expressions of a row: a signal frame has some 70 */

/* What holds at one address: all that is needed to step, without the file. */
struct gs_cfi_row {
	bool signal;      /* the frame of a signal: its caller was interrupted, not calling */
	bool cfa_is_expr; /* else it is register cfa_reg + cfa_arg */
	uint8_t cfa_reg;  /* number of a register */
	uint16_t cfa_expr_bytes;
	int64_t cfa_arg;                       /* offset, or where the expression begins */
	struct gs_cfi_value reg[GS_REG_COUNT]; /* those of the caller */
	uint16_t n_exprs;
	uint8_t exprs[GS_CFI_EXPRS_BYTES]; /* n_exprs bytes */
};

struct gs_cfi; /* the tables of one file */

/* elf is borrowed and has to live longer. -ENOENT: the file has no such tables; -ENOEXEC:
 * damaged. */
int gs_cfi_new(struct gs_elf *elf, struct gs_cfi **ret_cfi);
void gs_cfi_free(struct gs_cfi **cfi);

/* What its own tables take: nothing where the file has an index. */
size_t gs_cfi_bytes(const struct gs_cfi *cfi);

/* The row for the instruction at a virtual address of the file. -ENOENT: no table knows it;
 * -ENOEXEC: damaged. */
int gs_cfi_find(struct gs_cfi *cfi, uint64_t vaddr, struct gs_cfi_row *ret_row);

/* A word of the unwound stack. */
typedef bool (*gs_cfi_read_fn)(void *ctx, uint64_t addr, uint64_t *ret_value);

/* Replace regs by those of the caller; bias: where the file's address 0 is loaded. *ret_slot: where
 * the return address lay, 0 when it was in no memory. 0; 1 when the tables say that there is no
 * caller; -EFAULT when the stack could not be read; -ENOEXEC. */
int gs_cfi_step(const struct gs_cfi_row *row, uint64_t bias, gs_cfi_read_fn read, void *ctx,
		struct gs_regs *regs, uint64_t *ret_slot);

#endif
