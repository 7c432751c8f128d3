/* Shared among the files of this room. */
#ifndef GS_SOURCES_ATTACH_PLAN_ATTACH_PLAN_INT_H
#define GS_SOURCES_ATTACH_PLAN_ATTACH_PLAN_INT_H

#include "sources/x86/exit.h"
#include "sources/elf/usdt.h"
#include "sources/attach_plan/attach_plan.h"

/* --- attach_plan.c --- */

/* Why something of the file is not traced. */
void attach_plan_report(const struct gs_attach_plan_context *context, const char *function,
			const char *reason, int status, unsigned layer);

/* Does the dynamic string table have this text? Names of needed libraries are in it. */
bool attach_plan_dynstr_has(struct gs_elf *elf, const char *text);

/* The places of a static probe. 0 or -ENOMEM. */
int attach_plan_add_probes(struct gs_attach_plan *plan, const struct gs_usdt_places *probe,
			   enum gs_family family, uint64_t cookie, uint16_t func);

/* Put a probe where it is cheap into a function; name is for messages. 0 also when the function
 * must not be probed (reported to options->on_attach); -ENOMEM. */
int attach_plan_add(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
		    const struct gs_elf_symbol *symbol, const char *name, enum gs_family family,
		    unsigned layer, uint16_t func);

/* Places of a function of the fixed table, unless another name of it has them. */
int attach_plan_add_fixed(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
			  const struct gs_elf_symbol *symbol, uint16_t id);

enum gs_family attach_plan_fixed_family(uint16_t id);

/* As gs_attach_plan_add_scope() for the loop of an interpreter (gs_exit_around.is_loop); cookies of its
 * ways out have the exact distance of the stack pointer to that at the entry. What cannot be seen
 * in its code is -EILSEQ or -E2BIG and not reported, with the entry alone in the plan. */
int attach_plan_add_loop(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
			 const struct gs_elf_symbol *symbol, const char *name,
			 enum gs_family family, unsigned layer, uint16_t func);

/* --- around.c: what is around a function, for gs_x86_find_exits() --- */

struct around {
	const struct gs_attach_plan_context *context;
	uint64_t file_off; /* of the function */
};

size_t attach_plan_read_around(void *around, int64_t offset_bytes, uint8_t *buf, size_t bytes);
enum gs_callee attach_plan_around_callee(void *around, int64_t offset_bytes);

/* --- torch.c: operators of PyTorch --- */

/* Checks op_set and ops. */
int attach_plan_select_torch(struct gs_attach_plan_selection *s,
			     const struct gs_attach_plan_options *options, struct gs_err *err);

/* Add the chosen operators that the file defines; nothing when it defines none. */
int attach_plan_torch(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
		      struct gs_err *err);

/* Call fn for each operator that the file defines, in the order of its symbols; names are lent. 0,
 * what fn returned, or a negative errno. */
typedef int (*attach_plan_operator_fn)(void *ctx, const char *name, bool by_default);
int attach_plan_each_operator(struct gs_elf *elf, const char *path, attach_plan_operator_fn fn,
			      void *ctx, struct gs_err *err);

/* --- mpi.c --- */

#define PLAN_MPI_MARKER "PMPI_Init" /* a file that defines it is a library of MPI */

int attach_plan_mpi(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
		    bool is_exe, struct gs_err *err);

/* --- pyspan.c: what an interpreter does beside running code --- */

int attach_plan_pyspan(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
		       struct gs_err *err);

/* --- pycall.c: calls of Python functions --- */

int attach_plan_pycall(struct gs_attach_plan *plan, const struct gs_attach_plan_context *context,
		       struct gs_err *err);

#endif
