/*
 * Names of PyTorch's operators. The library exports each as a class `at::_ops::<part>`, where part
 * is the operator's name and, after a `_`, that of its overload: add_Tensor. Names have `_` of
 * their own, so the part alone does not show where the overload begins; the schemas that the
 * library registers at its start ("add.Tensor(Tensor self, ...) -> Tensor") do, and lie in its
 * constant data.
 */
#ifndef GS_SOURCES_ELF_TORCH_NAME_H
#define GS_SOURCES_ELF_TORCH_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "model/trace/torch_op.h"

/* The part of a mangled `at::_ops::<part>::call(...)`: *ret_part points into symbol. False for any
 * other symbol. */
bool gs_torch_part(const char *symbol, const char **ret_part, size_t *ret_bytes);

/* How many bytes at the start of text are the name of a schema ("add.Tensor"); 0: text is none. */
size_t gs_torch_schema_name(const char *text);

/* What is neither an operator nor exported as one: the span that runs a backward pass, an
 * optimizer's step in C++. NULL: not such a symbol. */
const char *gs_torch_span(const char *symbol);

/* Which of the functions that do the work of record_function() a symbol is (enum gs_span_site); 0 none. */
unsigned gs_torch_span_site(const char *symbol);

/* eACGM's name of an operator ("add.Tensor" without namespace); NULL: not one of its 24. */
const char *gs_torch_eacgm_name(const char *op);

/* These, from 0 on; false: there is none of that number. */
bool gs_torch_eacgm_row(size_t i, const char **ret_op, const char **ret_name);

#endif
