/* Blocks on an SM, as cudaOccupancyMaxActiveBlocksPerMultiprocessor() gives them for these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "pipeline/process_gpu/occupancy.h"

static void test_blocks(void **state)
{
	static const struct {
		int major, minor;
		uint32_t registers, shared, threads, blocks;
	} cases[] = {
		{9, 0, 32, 0, 256, 8},      /* the threads */
		{9, 0, 16, 0, 32, 32},      /* the blocks */
		{9, 0, 128, 0, 256, 2},     /* the registers: 16 warps */
		{9, 0, 168, 0, 384, 1},     /* 3 warps in each quarter */
		{9, 0, 255, 0, 1024, 0},    /* too many for one block */
		{9, 0, 32, 100000, 128, 2}, /* the shared memory: 99 KiB and 1 KiB for the system */
		{9, 0, 32, 232448, 128, 1}, /* the most that a block may have: 227 KiB */
		{9, 0, 32, 233472, 128, 0}, /* 1 KiB more */
		{9, 0, 32, 0, 33, 32},      /* two warps */
		{8, 6, 32, 0, 256, 6},      /* 1,536 threads */
		{7, 5, 64, 32768, 128, 2},  /* 64 KiB, and nothing for the system */
		{9, 0, 0, 0, 1024, 2},      /* registers not known */
		{9, 0, 32, 0, 1025, 0},     /* no block is so large */
		{9, 9, 32, 0, 256, 0},      /* no such GPU */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_process_gpu_launch launch = {.registers = cases[i].registers,
						       .shared_bytes = cases[i].shared,
						       .block_threads = cases[i].threads};

		if (gs_process_gpu_sm_blocks(cases[i].major, cases[i].minor, &launch) !=
		    cases[i].blocks)
			fail_msg("case %zu", i);
	}
}

static void test_ratio(void **state)
{
	struct gs_process_gpu_launch launch = {
		.registers = 128, .block_threads = 256, .blocks = 100000};

	/* 512 of 2,048 threads on each SM. */
	assert_true(gs_process_gpu_resident_ratio(9, 0, 132, &launch) == 0.25);
	/* One block on the whole GPU. */
	launch.blocks = 1;
	assert_true(gs_process_gpu_resident_ratio(9, 0, 132, &launch) == 8.0 / (64 * 132));
	launch.blocks = 264;
	assert_true(gs_process_gpu_resident_ratio(9, 0, 132, &launch) == 0.25);
	assert_true(gs_process_gpu_resident_ratio(9, 0, 0, &launch) < 0);
	assert_true(gs_process_gpu_resident_ratio(3, 5, 13, &launch) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_ratio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
