/*
 * Operators of PyTorch, as processes report them from inside of themselves (model/companion/ops.h): their numbers of names
 * become ids of functions, and calls that come by other ways get the operator around them. In come records of a
 * process's file, of which any byte may be wrong: each is checked.
 */
#ifndef GS_PIPELINE_INSIDE_OPS_H
#define GS_PIPELINE_INSIDE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"
#include "model/companion/ops.h"
#include "model/trace/func_set.h"
#include "sources/companion/companion.h"

struct inside_open_op {    /* as of the last reading */
	uint64_t start_ns; /* monotonic */
	uint16_t func;     /* id */
	bool is_span;      /* no operator */
};

struct inside_sum { /* calls that were added up, before their name is known */
	struct gs_companion_thread from;
	struct gs_companion_sum before, now;
};

struct inside_ops {
	struct gs_func_set *funcs; /* borrowed; NULL: operators are not seen from inside */
	struct gs_map ids;         /* file and number of a name -> id of the function */
	struct gs_map open_at; /* process and thread -> index of its first one << 8 | how many */
	struct inside_open_op *open; /* owned */
	uint32_t n_open;
	struct inside_sum *sums; /* owned */
	uint32_t n_sums;
};

/* funcs gets the names of operators; borrowed. */
void inside_ops_init(struct inside_ops *ops, struct gs_func_set *funcs);
void inside_ops_fini(struct inside_ops *ops);

/* A name; false: it is malformed, or there are too many. */
bool inside_ops_take_name(struct inside_ops *ops, const struct gs_companion_thread *from,
			  const struct gs_companion_op_name *record);

/* The id of the function that a number of a file's names is; 0 not known. */
uint16_t inside_ops_id(const struct inside_ops *ops, uint64_t file, uint32_t number);

/* What is open in a thread; all is forgotten by inside_ops_forget_open(). */
void inside_ops_take_open(struct inside_ops *ops, struct gs_companion_ticks *ticks,
			  const struct gs_companion_thread *from,
			  const struct gs_companion_scope *scopes, unsigned n);
void inside_ops_forget_open(struct inside_ops *ops);

/* The open ones of a thread, the innermost last; good until the next reading. */
const struct inside_open_op *inside_ops_open(const struct inside_ops *ops, uint32_t pid,
					     uint32_t tid, unsigned *ret_n);

/* Calls that were added up: kept until they are handed on, as their name may come later in the same reading. False: no
 * memory. */
bool inside_ops_take_sum(struct inside_ops *ops, const struct gs_companion_thread *from,
			 const struct gs_companion_sum *before, const struct gs_companion_sum *now);

#endif
