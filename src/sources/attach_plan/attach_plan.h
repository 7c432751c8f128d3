/*
 * From a file to places: which of the wanted functions it defines, and where in each a probe is
 * cheap and safe. Files are read, nothing is attached: that is for sources/uprobe.
 */
#ifndef GS_SOURCES_ATTACH_PLAN_ATTACH_PLAN_H
#define GS_SOURCES_ATTACH_PLAN_ATTACH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/map.h"
#include "sources/x86/site.h"
#include "sources/elf/elf.h"
#include "sources/elf/library.h"
#include "model/trace/attach.h"
#include "model/trace/func_set.h"

enum gs_op_set {
	GS_OPS_DEFAULT = 0, /* all but those that start no work: properties, views, memory */
	GS_OPS_ALL,
	GS_OPS_EACGM, /* the 24 operators of eACGM, under its names */
};

/* Whose programs are at a place. */
enum gs_family {
	GS_FAMILY_CUDA,
	GS_FAMILY_NCCL,
	GS_FAMILY_MPI,
	GS_FAMILY_TORCH,
	GS_FAMILY_SPAN,
	GS_FAMILY_PYSPAN,
	GS_FAMILY_PYCALL,
	GS_FAMILY_USCOPE, /* described functions that may throw */
	GS_FAMILY_UNWIND, /* the last of those that gs_attach_plan_file() has places for */
	GS_FAMILY_USER,
	GS_N_FAMILIES
};

struct gs_attach_plan_place { /* one probe */
	uint64_t file_off;    /* where in the file */
	uint64_t ref_ctr_off; /* of a static probe's counter; 0 none */
	uint64_t cookie;      /* but for the group; func, of described probes the row, and
			       * GS_COOKIE_* */
	uint16_t func;        /* gs_func id; 0 of GS_FAMILY_UNWIND */
	uint8_t family;       /* enum gs_family */
	bool has_return;      /* its return is caught too, in families that can */
	bool is_stepped;      /* single-stepped by the kernel */
};

struct gs_attach_plan {
	struct gs_attach_plan_place *places; /* owned */
	size_t n, n_room;                    /* places in use, and how many have room */
	uint32_t n_moved, n_stepped;
	uint32_t layer; /* of all places, 0 when of several */
};

/* Frees the places; the plan is empty then. */
void gs_attach_plan_fini(struct gs_attach_plan *plan);

/* --- what is wanted --- */

struct gs_attach_plan_options {   /* all borrowed */
	uint32_t layers;          /* bit 1 << enum gs_layer; 0: CUDA and NCCL */
	const char *const *globs; /* functions by name; none: the default set */
	size_t n_globs;
	enum gs_op_set op_set;  /* operators, when none are chosen by name */
	const char *const *ops; /* operators by name: globs */
	size_t n_ops;
	/* Calls of functions; garbage collection; waits for the lock. */
	bool python_calls, python_gc, python_gil;
	bool described; /* probes are described beside, so that no function need be chosen */
	bool may_throw; /* some of them are on functions that may throw */
	struct gs_func_set *funcs; /* what is found gets its ids here; NULL: only the table's */

	/* What the kernel does; not for gs_attach_plan_select(). */
	struct gs_x86_site_rules sites;
	bool first_byte; /* always probe a function's first byte */
	bool many_links; /* one link for many places; without it only some operators are planned */
	bool returns_are_kept;     /* return probes do not get in the way of unwinders at all */
	bool returns_are_left_out; /* those of calls that may be cancelled, one by one */
	bool no_return_probes;     /* not for them either */

	/* Called for each function that cannot be probed; what is lent is good during the call. */
	void (*on_attach)(void *ctx, const struct gs_attach *attach);
	void *ctx;
};

/* Which functions are asked for, by id. */
struct gs_attach_plan_selection {
	bool wanted[GS_FUNC_FIXED];  /* by id */
	bool watched[GS_FUNC_FIXED]; /* not wanted; later calls of others are first ones again */
	unsigned n;                  /* of wanted */
	bool operators;              /* of PyTorch, chosen by op_set and ops */
	uint16_t span_first;         /* the first id of spans; 0 they are not asked for */
	bool unwind;                 /* functions that may throw are probed */
	bool python_gc, python_gil;  /* as in the options */
	uint16_t py_func; /* calls of Python functions: the id that stands for all; 0 none */
	bool scopes;      /* any of these */
};

/* -ENOENT: there is nothing by these names and layers. */
int gs_attach_plan_select(struct gs_attach_plan_selection *ret_selection,
			  const struct gs_attach_plan_options *options, struct gs_err *err);

/* --- where it is --- */

/* Fill plan (n 0: not a file of interest; *plan is the caller's to end). elf is the file, open; of
 * file only the name counts, and what it is. Negative errno: it could not be read. */
int gs_attach_plan_file(struct gs_attach_plan *plan,
			const struct gs_attach_plan_selection *selection,
			const struct gs_attach_plan_options *options,
			const struct gs_mapped_file *file, struct gs_elf *elf, struct gs_err *err);

#define GS_ATTACH_PLAN_CALLEES_MAX 65536u

/* A file that is being planned. */
struct gs_attach_plan_context {
	const struct gs_attach_plan_selection *selection; /* not for gs_attach_plan_add_scope() */
	const struct gs_attach_plan_options *options;     /* borrowed, as all of these */
	const char *path;                                 /* of the file, as the process names it */
	struct gs_elf *elf;                               /* the same file, open */
	/* File offset of what is called -> enum gs_callee; at first empty, for
	 * GS_ATTACH_PLAN_CALLEES_MAX. */
	struct gs_map *callees;
};

#define PLAN_NO_EXITS "where it returns cannot be seen in its code"
#define PLAN_NO_RETURNS                                                                            \
	"its code does not show where it returns, and a return probe would end a program that throws through it (return: false sees its calls)"

/* One function that may throw: a probe where it is cheap at the entry, and on what it is left by,
 * for a return probe would end the program. name is for messages. 0 also when it must not be probed
 * (reported to options->on_attach); -ENOMEM. */
int gs_attach_plan_add_scope(struct gs_attach_plan *plan,
			     const struct gs_attach_plan_context *context,
			     const struct gs_elf_symbol *symbol, const char *name,
			     enum gs_family family, unsigned layer, uint16_t func);

/* The same for a described function whose entry and end are both to be seen, with what is read
 * there: a place of GS_FAMILY_USER at its entry, and those where it is left (GS_COOKIE_BY_EXITS).
 * A return probe is taken only where nothing can unwind the function: when it calls nothing and
 * makes no system call. by_ret: the end has to be its very ret, where its result is known. */
int gs_attach_plan_add_call(struct gs_attach_plan *plan,
			    const struct gs_attach_plan_context *context,
			    const struct gs_elf_symbol *symbol, const char *name, bool by_ret);

/* Where in the function at that place of the file a probe is cheap and safe. */
struct gs_x86_site gs_attach_plan_site(struct gs_elf *elf, uint64_t file_off,
				       uint64_t function_bytes,
				       const struct gs_x86_site_rules *rules);

/* Why no probe may be on the function's first byte; else NULL. */
const char *gs_attach_plan_first_refusal(struct gs_elf *elf, uint64_t file_off,
					 const struct gs_x86_site_rules *rules);

#endif
