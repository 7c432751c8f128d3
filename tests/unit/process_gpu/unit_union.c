/* Time that intervals cover, beside a count of each nanosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "pipeline/process_gpu/union.h"

static void test_overlaps(void **state)
{
	struct process_gpu_union u = {0};

	process_gpu_union_add(&u, 10, 20);
	process_gpu_union_add(&u, 15, 30); /* overlaps */
	process_gpu_union_add(&u, 40, 50);
	process_gpu_union_add(&u, 30, 35); /* touches, and comes late */
	process_gpu_union_add(&u, 60, 60); /* nothing */
	assert_int_equal(process_gpu_union_seal(&u, 45), 30);
	process_gpu_union_add(&u, 0, 44); /* was counted */
	assert_int_equal(process_gpu_union_seal(&u, 100), 35);
	process_gpu_union_add(&u, 5, 200); /* what is after the last seal */
	process_gpu_union_add(&u, 90, 210);
	assert_int_equal(process_gpu_union_seal(&u, 300), 145);
}

static void test_random(void **state)
{
	static struct process_gpu_union u;
	static uint8_t covered[20000];
	uint64_t random = 1, sealed = 0, sum = 0;

	for (uint64_t end = 100; end < 19000; end += 7) {
		uint64_t late, start, until;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		late = end - (random >> 40) % 30;
		start = late - (random >> 50) % 60;
		process_gpu_union_add(&u, start, late);
		for (uint64_t t = start < sealed ? sealed : start; t < late; t++)
			covered[t] = 1;
		if ((random >> 33) % 40)
			continue;
		until = end - 20;
		for (uint64_t t = sealed; t < until; t++)
			sum += covered[t];
		sealed = until;
		assert_int_equal(process_gpu_union_seal(&u, until), sum);
	}
	assert_true(sum > 1000);
}

static void test_no_room(void **state)
{
	struct process_gpu_union u = {0};

	for (uint64_t i = 1; i <= 10 * PROCESS_GPU_INTERVALS; i++)
		process_gpu_union_add(&u, 10 * i, 10 * i + 4);
	assert_int_equal(u.n, PROCESS_GPU_INTERVALS);
	/* The oldest are in the sum for good: one that is before them has no effect, of one that
	 * reaches beyond them the rest has. */
	process_gpu_union_add(&u, 11, 29);
	assert_int_equal(process_gpu_union_seal(&u, 100000), 4 * 10 * PROCESS_GPU_INTERVALS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
