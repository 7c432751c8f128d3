/*
 * How many threads of a kernel an SM can hold at a time: by its registers, its shared memory and its
 * blocks, against what the SM has. As CUDA's occupancy calculator works it out. Pure.
 */
#ifndef GS_PIPELINE_PROCESS_GPU_OCCUPANCY_H
#define GS_PIPELINE_PROCESS_GPU_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

/* What one launch asks for. */
struct gs_process_gpu_launch {
	uint32_t registers;     /* of a thread */
	uint64_t shared_bytes;  /* of a block: static and dynamic */
	uint64_t block_threads; /* of a block */
	uint64_t blocks;        /* of the grid */
};

/* Threads that the SM of such a GPU can hold; 0: not known. */
uint32_t gs_process_gpu_sm_threads(int major, int minor);

/* Blocks of the launch that an SM holds at a time; 0: none fits, or the GPU is not known. */
uint32_t gs_process_gpu_sm_blocks(int major, int minor, const struct gs_process_gpu_launch *launch);

/* The share of the GPU's thread places that the launch fills at its best, 0 to 1: a grid that is too
 * small for all SMs fills less than its occupancy. Negative: not known. */
double gs_process_gpu_resident_ratio(int major, int minor, uint32_t n_sms,
				     const struct gs_process_gpu_launch *launch);

#endif
