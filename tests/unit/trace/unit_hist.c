#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/hist.h"

static void log2_of_all_powers(void **state)
{
	assert_int_equal(gs_log2_u64(0), 0);
	for (unsigned k = 0; k < 64; k++) {
		assert_int_equal(gs_log2_u64(1ull << k), k);
		assert_int_equal(gs_log2_u64((1ull << k) | ((1ull << k) - 1)), k);
	}
}

/* Buckets follow each other without gap, and each time lies in its own. */
static void buckets_tile_the_line(void **state)
{
	assert_int_equal(GS_HIST_N_BUCKETS, 336);
	assert_int_equal(gs_hist_bucket_start_ns(0), 0);
	for (unsigned b = 0; b < GS_HIST_N_BUCKETS; b++) {
		uint64_t start = gs_hist_bucket_start_ns(b), end = gs_hist_bucket_start_ns(b + 1);

		assert_true(end > start);
		assert_int_equal(gs_hist_bucket(start), b);
		assert_int_equal(gs_hist_bucket(start + (end - start) / 2), b);
		assert_int_equal(gs_hist_bucket(end - 1), b);
	}
	assert_true(gs_hist_bucket_start_ns(GS_HIST_N_BUCKETS) == 1ull << 44);
	assert_int_equal(gs_hist_bucket(1ull << 44), GS_HIST_N_BUCKETS - 1);
	assert_int_equal(gs_hist_bucket(UINT64_MAX), GS_HIST_N_BUCKETS - 1);
	assert_int_equal(gs_hist_bucket(7), 7);
	assert_int_equal(gs_hist_bucket(8), 8);
	assert_int_equal(gs_hist_bucket(1000), 8 * (9 - 2) + 7); /* 2^9 + 7 * 2^6 .. */
}

/* The error that outputs state holds for each duration that a bucket can stand for. */
static void the_error_is_as_stated(void **state)
{
	for (unsigned b = 1; b < GS_HIST_N_BUCKETS; b++) {
		double low = (double)gs_hist_bucket_start_ns(b);
		double high = (double)(gs_hist_bucket_start_ns(b + 1) - 1);
		double v = (double)gs_hist_bucket_value_ns(b);

		assert_true(v >= low && v <= high);
		assert_true((v - low) / low * 100 <= GS_HIST_ERROR_PCT);
		assert_true((high - v) / high * 100 <= GS_HIST_ERROR_PCT);
	}
	assert_int_equal(gs_hist_bucket_value_ns(0), 0);
	assert_int_equal(gs_hist_bucket_value_ns(5), 5);
	assert_int_equal(gs_hist_bucket_value_ns(15), 15);
}

static void quantiles(void **state)
{
	uint64_t counts[GS_HIST_N_BUCKETS] = {0};

	assert_int_equal(gs_hist_quantile_ns(counts, 0.5, 100), 0);
	/* 1 .. 10, each once, exact. */
	for (unsigned ns = 1; ns <= 10; ns++)
		counts[gs_hist_bucket(ns)]++;
	assert_int_equal(gs_hist_quantile_ns(counts, 0, 10), 1);
	assert_int_equal(gs_hist_quantile_ns(counts, 0.5, 10), 5);
	assert_int_equal(gs_hist_quantile_ns(counts, 0.51, 10), 6);
	assert_int_equal(gs_hist_quantile_ns(counts, 0.95, 10), 10);
	assert_int_equal(gs_hist_quantile_ns(counts, 1, 10), 10);

	/* One far out: the median does not move, the 99th does, and never past the maximum. */
	memset(counts, 0, sizeof(counts));
	counts[gs_hist_bucket(1000)] = 95;
	counts[gs_hist_bucket(1000000)] = 5;
	assert_in_range(gs_hist_quantile_ns(counts, 0.5, 1000000), 941, 1059);
	assert_in_range(gs_hist_quantile_ns(counts, 0.95, 1000000), 941, 1059);
	assert_in_range(gs_hist_quantile_ns(counts, 0.99, 1000000), 941000, 1000000);
	assert_int_equal(gs_hist_quantile_ns(counts, 0.5, 950), 950);
	/* Counts of many years of calls do not overflow. */
	counts[0] = 1ull << 60;
	counts[335] = 1ull << 60;
	assert_int_equal(gs_hist_quantile_ns(counts, 0.25, 1), 0);
	assert_int_equal(gs_hist_quantile_ns(counts, 0.75, 12345), 12345);
}

/* Against sorted values: off by the stated error at most, at every quantile. */
static void quantiles_of_a_spread(void **state)
{
	static uint64_t values[20000];
	uint64_t counts[GS_HIST_N_BUCKETS] = {0}, v = 3, max = 0;
	const double q[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999};

	for (unsigned i = 0; i < 20000; i++) {
		v += 1 + v / 1500; /* sorted as they are made */
		values[i] = v;
		counts[gs_hist_bucket(v)]++;
		max = v;
	}
	for (unsigned i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
		double real = (double)values[(unsigned)(q[i] * 20000 + 0.5) - 1];
		double read = (double)gs_hist_quantile_ns(counts, q[i], max);
		double off = (read > real ? read - real : real - read) / real * 100;

		assert_true(off <= GS_HIST_ERROR_PCT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log2_of_all_powers),     cmocka_unit_test(buckets_tile_the_line),
		cmocka_unit_test(the_error_is_as_stated), cmocka_unit_test(quantiles),
		cmocka_unit_test(quantiles_of_a_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
