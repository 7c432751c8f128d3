/*
 * What ran under chosen Python functions, and nothing else: of a recorded stream, in two passes. A
 * call belongs to them when its Python stack has one of them, or when it was made, on their thread,
 * while a traced call of one of them was open.
 */
#ifndef GS_PIPELINE_AGGREGATE_UNDER_H
#define GS_PIPELINE_AGGREGATE_UNDER_H

#include <stdint.h>

#include "model/trace/python.h"
#include "model/trace/record.h"

struct gs_aggregate_under;

/* Functions by any of the patterns, which are copied. NULL: no memory. */
struct gs_aggregate_under *gs_aggregate_under_new(const struct gs_py_glob *globs, size_t n);
void gs_aggregate_under_free(struct gs_aggregate_under **under);

/* The first pass: all batches, in their order. 0 or -ENOMEM. */
int gs_aggregate_under_scan(struct gs_aggregate_under *under, const struct gs_batch *batch);

/* The second: what is left of a batch, lent until the next call. Definitions, losses and files
 * stay; calls, samples, their values and blocks never freed are chosen; of what was added up in the
 * kernel it is not known where it ran, so it goes. 0 or -ENOMEM. */
int gs_aggregate_under_choose(struct gs_aggregate_under *under, const struct gs_batch *batch,
			      struct gs_batch *ret_batch);

/* Of the second pass: how many calls and samples were chosen, and how many calls went because they
 * had been added up. */
uint64_t gs_aggregate_under_n_chosen(const struct gs_aggregate_under *under);
uint64_t gs_aggregate_under_n_added_up(const struct gs_aggregate_under *under);

#endif
