/* Shared among the files of this room. */
#ifndef GS_PLAN_PLAN_INT_H
#define GS_PLAN_PLAN_INT_H

#include "sources/x86/exit.h"
#include "sources/elf/usdt.h"
#include "sources/attach_plan/plan.h"

/* --- plan.c --- */

/* Why something of the file is not traced. */
void plan_tell(const struct gs_plan_context *context, const char *function, const char *reason,
	       int status, unsigned layer);

/* The places of a static probe. 0 or -ENOMEM. */
int plan_add_probes(struct gs_plan *plan, const struct gs_usdt_places *probe, enum gs_family family,
		    uint64_t cookie, uint16_t func);

/* Put a probe where it is cheap into a function; name is for messages. 0 also when the function
 * must not be probed (told to options->on_attach); -ENOMEM. */
int plan_add(struct gs_plan *plan, const struct gs_plan_context *context,
	     const struct gs_elf_symbol *symbol, const char *name, enum gs_family family,
	     unsigned layer, uint16_t func);

/* Places of a function of the fixed table, unless another name of it has them. */
int plan_add_fixed(struct gs_plan *plan, const struct gs_plan_context *context,
		   const struct gs_elf_symbol *symbol, uint16_t id);

enum gs_family plan_fixed_family(uint16_t id);

/* As gs_plan_add_scope() for the loop of an interpreter (gs_exit_around.is_loop); cookies of its
 * ways out have the exact distance of the stack pointer to that at the entry. What cannot be told
 * from its code is -EILSEQ or -E2BIG and not told, with the entry alone in the plan. */
int plan_add_loop(struct gs_plan *plan, const struct gs_plan_context *context,
		  const struct gs_elf_symbol *symbol, const char *name, enum gs_family family,
		  unsigned layer, uint16_t func);

/* --- around.c: what is around a function, for gs_exits_x86_64() --- */

struct around {
	const struct gs_plan_context *context;
	uint64_t file_off; /* of the function */
};

size_t around_read(void *around, int64_t offset_bytes, uint8_t *buf, size_t bytes);
enum gs_callee around_callee(void *around, int64_t offset_bytes);

/* --- torch.c: operators of PyTorch --- */

/* Checks op_set and ops. */
int torch_select(struct gs_plan_selection *s, const struct gs_plan_options *options,
		 struct gs_err *err);

/* Add the chosen operators that the file defines; nothing when it defines none. */
int torch_plan(struct gs_plan *plan, const struct gs_plan_context *context, struct gs_err *err);

/* --- mpi.c --- */

#define PLAN_MPI_MARKER "PMPI_Init" /* whoever defines it is a library of MPI */

int mpi_plan(struct gs_plan *plan, const struct gs_plan_context *context, bool is_exe,
	     struct gs_err *err);

/* --- pyspan.c: what an interpreter does beside running code --- */

int pyspan_plan(struct gs_plan *plan, const struct gs_plan_context *context, struct gs_err *err);

/* --- pycall.c: calls of Python functions --- */

int pycall_plan(struct gs_plan *plan, const struct gs_plan_context *context, struct gs_err *err);

#endif
