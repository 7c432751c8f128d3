#include "pipeline/process_gpu/occupancy.h"

#include <stddef.h>

#include "core/base/mem.h"

#define WARP_THREADS   32
#define SM_REGISTERS   65536u
#define SUB_PARTITIONS 4   /* of an SM: each has a quarter of its registers */
#define REGISTER_UNIT  256 /* of a warp, to which its registers are rounded up */
#define BLOCK_THREADS  1024

/* CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability". */
struct sm_limits {
	uint8_t major, minor;
	uint16_t threads, blocks, shared_kib;
};

static const struct sm_limits *limits_of(int major, int minor)
{
	static const struct sm_limits all[] = {
		{5, 0, 2048, 32, 64},   {5, 2, 2048, 32, 96},   {5, 3, 2048, 32, 64},
		{6, 0, 2048, 32, 64},   {6, 1, 2048, 32, 96},   {6, 2, 2048, 32, 64},
		{7, 0, 2048, 32, 96},   {7, 2, 2048, 32, 96},   {7, 5, 1024, 16, 64},
		{8, 0, 2048, 32, 164},  {8, 6, 1536, 16, 100},  {8, 7, 1536, 16, 164},
		{8, 9, 1536, 24, 100},  {9, 0, 2048, 32, 228},  {10, 0, 2048, 32, 228},
		{10, 3, 2048, 32, 228}, {11, 0, 1536, 24, 228}, {12, 0, 1536, 24, 100},
		{12, 1, 1536, 24, 100},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
		if (all[i].major == major && all[i].minor == minor)
			return &all[i];
	return NULL;
}

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint32_t gs_process_gpu_sm_threads(int major, int minor)
{
	const struct sm_limits *l = limits_of(major, minor);

	return l ? l->threads : 0;
}

uint32_t gs_process_gpu_sm_blocks(int major, int minor, const struct gs_process_gpu_launch *launch)
{
	const struct sm_limits *l = limits_of(major, minor);
	/* From Ampere on the system keeps 1 KiB of each block's shared memory for itself. */
	uint64_t own_bytes = major >= 8 ? 1024 : 0, unit = major >= 8 ? 128 : 256;
	uint64_t warps, blocks, warp_registers, shared;

	if (!l || !launch->block_threads || launch->block_threads > BLOCK_THREADS ||
	    launch->registers > SM_REGISTERS || launch->shared_bytes > SM_REGISTERS * 8)
		return 0;
	warps = round_up(launch->block_threads, WARP_THREADS) / WARP_THREADS;
	blocks = smaller_of(l->blocks, l->threads / WARP_THREADS / warps);
	if (launch->registers) {
		warp_registers =
			round_up((uint64_t)launch->registers * WARP_THREADS, REGISTER_UNIT);
		if (warp_registers * round_up(warps, SUB_PARTITIONS) > SM_REGISTERS)
			return 0;
		blocks = smaller_of(blocks, SM_REGISTERS / SUB_PARTITIONS / warp_registers *
						    SUB_PARTITIONS / warps);
	}
	shared = round_up(launch->shared_bytes + own_bytes, unit);
	if (shared)
		blocks = smaller_of(blocks, l->shared_kib * 1024u / shared);
	return (uint32_t)blocks;
}

double gs_process_gpu_resident_ratio(int major, int minor, uint32_t n_sms,
				     const struct gs_process_gpu_launch *launch)
{
	uint32_t sm_warps = gs_process_gpu_sm_threads(major, minor) / WARP_THREADS;
	uint64_t warps = round_up(launch->block_threads, WARP_THREADS) / WARP_THREADS, blocks;

	if (!sm_warps || !n_sms)
		return -1;
	blocks = (uint64_t)gs_process_gpu_sm_blocks(major, minor, launch) * n_sms;
	if (!blocks)
		return -1;
	blocks = smaller_of(blocks, launch->blocks);
	return (double)(blocks * warps) / ((double)sm_warps * n_sms);
}
