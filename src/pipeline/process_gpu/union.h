/*
 * How much time a set of intervals covers, whatever overlaps. Intervals come roughly in the order in
 * which they end; those of a running window are kept apart, what is older is a sum. Bounded: when there
 * is no room, the oldest interval becomes part of the sum, and what is before its end from then on has
 * no effect. Inside the room only.
 */
#ifndef GS_PIPELINE_PROCESS_GPU_UNION_H
#define GS_PIPELINE_PROCESS_GPU_UNION_H

#include <stdint.h>

#define PROCESS_GPU_INTERVALS 64

struct process_gpu_interval {
	uint64_t start_ns, end_ns;
};

struct process_gpu_union {
	uint64_t sum_ns;                                       /* covered before sealed_ns */
	uint64_t sealed_ns;                                    /* what is before it is in the sum */
	uint32_t n;                                            /* intervals in at */
	struct process_gpu_interval at[PROCESS_GPU_INTERVALS]; /* apart, rising, after sealed_ns */
};

/* What lies before sealed_ns of it, or is covered already, adds nothing. */
void process_gpu_union_add(struct process_gpu_union *u, uint64_t start_ns, uint64_t end_ns);

/* Time until then becomes the sum, which is returned. */
uint64_t process_gpu_union_seal(struct process_gpu_union *u, uint64_t until_ns);

#endif
