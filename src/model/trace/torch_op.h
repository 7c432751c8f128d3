/* Names of PyTorch's operators, and which of them are chosen. */
#ifndef GS_MODEL_TRACE_TORCH_OP_H
#define GS_MODEL_TRACE_TORCH_OP_H

#include <stdbool.h>

#define GS_TORCH_NAME_BYTES 192 /* "add.Tensor", with its zero */

/* Chooses spans among operators, all or none; the name of those whose own ones are too many. */
#define GS_TORCH_SPANS "record_function"

/* Is the operator ("add.Tensor" without namespace) that one, in any overload? */
bool gs_torch_is_overload(const char *op, const char *base);

/* True for operators that start no work of their own: they ask for properties of a tensor, look at
 * its memory in another way, or get memory. They are most of all calls, and short. */
bool gs_torch_is_trivial(const char *op);

/* A glob against "aten::add.Tensor", "add.Tensor", "aten::add" and "add"; op as above. For a span
 * against its whole name. */
bool gs_torch_matches(const char *glob, const char *full_name);

#endif
