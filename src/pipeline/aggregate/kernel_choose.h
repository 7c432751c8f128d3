/* Of a stream of records, of launches only those of chosen kernels; all that is no launch stays. */
#ifndef GS_PIPELINE_AGGREGATE_KERNEL_CHOOSE_H
#define GS_PIPELINE_AGGREGATE_KERNEL_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include "model/trace/record.h"

struct gs_aggregate_kernels;

/* Kernels whose name, short name or symbol matches one of the patterns (fnmatch(3)), which are borrowed.
 * NULL: no memory. */
struct gs_aggregate_kernels *gs_aggregate_kernels_new(const char *const *globs, size_t n);
void gs_aggregate_kernels_free(struct gs_aggregate_kernels **kernels);

/* What is left of a batch, lent until the next call; batches come in their order. A launch of a kernel that is not
 * known, or not yet, is left out. 0 or -ENOMEM. */
int gs_aggregate_kernels_choose(struct gs_aggregate_kernels *kernels, const struct gs_batch *batch,
				struct gs_batch *ret_batch);

/* Launches that were chosen, and those that were left out. */
uint64_t gs_aggregate_kernels_n_chosen(const struct gs_aggregate_kernels *kernels);
uint64_t gs_aggregate_kernels_n_left_out(const struct gs_aggregate_kernels *kernels);

#endif
