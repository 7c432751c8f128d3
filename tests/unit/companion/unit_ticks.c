/* Ticks to ns: known answers between pairs, beyond them, and when pairs were left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "sources/companion/companion.h"

static void between_pairs(void **state)
{
	struct gs_companion_ticks t = {0};

	assert_int_equal(gs_companion_ticks_ns(&t, 1000), 0);
	gs_companion_ticks_add(&t, 1000, 5000000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 1000), 0);
	gs_companion_ticks_add(&t, 31000, 5010000000ull); /* 3 ticks in a us */
	gs_companion_ticks_add(&t, 31001, 5010000001ull); /* too soon */
	gs_companion_ticks_add(&t, 71000, 5020000000ull); /* 4 ticks in a us from there on */
	assert_int_equal(t.n, 3);
	assert_int_equal(gs_companion_ticks_ns(&t, 1000), 5000000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 16000), 5005000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 31000), 5010000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 51000), 5015000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 111000), 5030000000ull); /* goes on so */
	assert_int_equal(gs_companion_ticks_ns(&t, 400), 4999800000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 16000), 5005000000ull);
	/* A clock that went back is not noted. */
	gs_companion_ticks_add(&t, 70000, 5030000000ull);
	assert_int_equal(t.n, 3);
	/* Whatever a process writes is some time. */
	assert_true(gs_companion_ticks_ns(&t, UINT64_MAX) > 5020000000ull);
	assert_int_equal(gs_companion_ticks_ns(&t, 0), 4999666667ull);
}

/* For days: pairs are thinned out, the answers stay. */
static void over_long_times(void **state)
{
	struct gs_companion_ticks t = {0};

	for (uint64_t i = 0; i < 100000; i++)
		gs_companion_ticks_add(&t, i * 30000000, i * 10000000);
	assert_true(t.n <= GS_COMPANION_PAIRS);
	for (uint64_t i = 0; i < 100000; i += 7)
		assert_int_equal(gs_companion_ticks_ns(&t, i * 30000000 + 3), i * 10000000 + 1);
}

/* This machine's, where it can be one. */
static void the_real_counter(void **state)
{
	struct gs_companion_ticks t = {0};
	uint64_t from, now, ns;

	if (!gs_companion_tsc_is_clock())
		skip();
	gs_companion_ticks_note(&t);
	gs_companion_ticks_note(&t);
	assert_int_equal(t.n, 1);
	usleep(20000);
	gs_companion_ticks_note(&t);
	assert_int_equal(t.n, 2);
	from = gs_clock_mono_ns();
	ns = gs_companion_ticks_ns(&t, __builtin_ia32_rdtsc());
	now = gs_clock_mono_ns();
	assert_true(ns + 100000 > from && ns < now + 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_pairs),
		cmocka_unit_test(over_long_times),
		cmocka_unit_test(the_real_counter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
