/*
 * The functions of one run: the fixed table of model/trace/func.c, and those found during the run
 * (operators, Python functions, probes of the user), which get ids from GS_FUNC_FIXED on. Any
 * thread adds, once ids have been reserved, and looks up; nothing is ever taken out.
 */
#ifndef GS_MODEL_TRACE_FUNC_SET_H
#define GS_MODEL_TRACE_FUNC_SET_H

#include "model/trace/func.h"

struct gs_func_set;

struct gs_func_set *gs_func_set_new(void); /* NULL: no memory */
/* With the functions that were added; NULL inside: nothing. */
void gs_func_set_free(struct gs_func_set **set);

/* The id of the function of this layer and name, a new one when there is none yet. The name is
 * copied. -ENOBUFS after GS_FUNC_MAX, -ENOMEM. */
int gs_func_set_add(struct gs_func_set *set, unsigned layer, unsigned func_class, const char *name,
		    uint16_t *ret_id);

/* As many ids in a row for functions whose names come later, the first one's name now. -ENOBUFS,
 * -ENOMEM. */
int gs_func_set_reserve(struct gs_func_set *set, unsigned layer, unsigned func_class, unsigned n,
			const char *first_name, uint16_t *ret_first);

/* The name of a reserved id, once. -EINVAL: it has one, or is not reserved. */
int gs_func_set_name(struct gs_func_set *set, unsigned id, const char *name);

/* NULL when there is none, or it has no name yet; set may be NULL: the fixed table alone. Lent as
 * long as the set lives.
 */
const struct gs_func *gs_func_set_get(const struct gs_func_set *set, unsigned id);

/* One more than the largest id given so far. */
unsigned gs_func_set_end(const struct gs_func_set *set);

#endif
