/* The clocks against the kernel's own readings: order, and what the differences bridge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "core/base/clock.h"

static uint64_t kernel_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void readings_lie_between_the_kernels(void **state)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t a = kernel_ns(CLOCK_MONOTONIC), m = gs_clock_mono_ns();
		uint64_t b = kernel_ns(CLOCK_MONOTONIC);

		assert_true(a <= m && m <= b);
		a = kernel_ns(CLOCK_BOOTTIME);
		m = gs_clock_boot_ns();
		b = kernel_ns(CLOCK_BOOTTIME);
		assert_true(a <= m && m <= b);
	}
	/* The time of day may be set while this runs; it is this century's. */
	assert_true(gs_clock_wall_ns() > 1700000000ull * 1000000000ull);
}

static void differences_bridge_the_clocks(void **state)
{
	int64_t d = gs_clock_boot_minus_mono_ns();
	uint64_t mono_ns = gs_clock_mono_ns();
	uint64_t boot_ns = gs_clock_boot_ns();
	uint64_t mono_after_ns = gs_clock_mono_ns();

	/* Never negative: boot time has the suspended time in addition. Small ones are none. */
	assert_true(d == 0 || d >= 1000000);
	assert_true(mono_ns + (uint64_t)d <= boot_ns + 1000000);
	assert_true(boot_ns <= mono_after_ns + (uint64_t)d + 1000000);
}

static void the_time_of_day(void **state)
{
	int64_t d = gs_clock_wall_minus_boot_ns();
	uint64_t wall_ns = gs_clock_wall_ns(), boot_ns = gs_clock_boot_ns();
	int64_t off = (int64_t)(wall_ns - boot_ns) - d;

	/* A minute of patience for a machine that is busy or being set. */
	assert_true(off > -60000000000ll && off < 60000000000ll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readings_lie_between_the_kernels),
		cmocka_unit_test(differences_bridge_the_clocks),
		cmocka_unit_test(the_time_of_day),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
