/*
 * The short form of bench/detection: detectors and rules of others on runs with labelled faults, with
 * seeds that its table does not use. What is compared holds by a wide margin for any seeds: it is a
 * detector that is broken, not an unlucky run, that fails here. Also the scores themselves.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../../bench/detection/baselines.h"
#include "../../../bench/detection/score.h"

#define FIRST_SEED 101
#define N_SEEDS    3

/* All runs of one load: an hour with faults, or ten without when the severity is 0. */
static struct score try_load(const struct gs_detector *detector, enum synthetic_fault fault,
			     enum synthetic_load load, double severity)
{
	struct score_contender contender = {
		.name = detector->name,
		.detector = detector,
		.of_rises = fault == SYNTHETIC_SLOW || fault == SYNTHETIC_DRIFT ||
			    fault == SYNTHETIC_LEAK,
	};
	struct score score = {0};

	for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + N_SEEDS; seed++) {
		struct synthetic_options o = {fault, load, severity, severity > 0 ? 3600 : 36000,
					      seed};
		struct synthetic_run run;

		assert_int_equal(synthetic_make_run(&o, &run), 0);
		assert_int_equal(score_add_run(&score, &contender, &run, NULL), 0);
		synthetic_free_run(&run);
	}
	return score;
}

static double f1_of(const struct gs_detector *detector, enum synthetic_fault fault,
		    enum synthetic_load load, double severity)
{
	struct score s = try_load(detector, fault, load, severity);
	double f1 = score_f1(&s.counts);

	score_fini(&s);
	return f1;
}

static double false_alarms_a_day(const struct gs_detector *detector, enum synthetic_fault fault,
				 enum synthetic_load load)
{
	struct score s = try_load(detector, fault, load, 0);
	double rate = s.counts.n_false / s.days;

	score_fini(&s);
	return rate;
}

static void slow_steps_are_found(void **state)
{
	struct score s;

	for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++) {
		assert_true(f1_of(&gs_detect_change, SYNTHETIC_SLOW, load, 1.1) >= 0.9);
		assert_true(f1_of(&gs_detect_change, SYNTHETIC_SLOW, load, 2) >= 0.95);
		if (load != SYNTHETIC_LENGTHS)
			assert_true(f1_of(&gs_detect_change, SYNTHETIC_SLOW, load, 1.05) >= 0.9);
		assert_true(false_alarms_a_day(&gs_detect_change, SYNTHETIC_SLOW, load) <= 1);
		assert_true(false_alarms_a_day(&gs_detect_density, SYNTHETIC_SLOW, load) <= 1);
		assert_true(false_alarms_a_day(&gs_detect_drift, SYNTHETIC_SLOW, load) <= 1);
		assert_true(false_alarms_a_day(&gs_detect_stall, SYNTHETIC_STALL, load) <= 1);
	}
	assert_true(f1_of(&gs_detect_density, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.5) >= 0.8);
	assert_true(f1_of(&gs_detect_drift, SYNTHETIC_DRIFT, SYNTHETIC_STEADY, 1.5) >= 0.8);
	s = try_load(&gs_detect_change, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.1);
	assert_true(score_delay(&s, 0.95) <= 10);
	score_fini(&s);
}

static void other_faults_are_found(void **state)
{
	struct score s = try_load(&gs_detect_stall, SYNTHETIC_STALL, SYNTHETIC_PAUSES, 1);

	assert_true(s.counts.n_events == N_SEEDS && s.counts.n_found == N_SEEDS);
	assert_true(score_delay(&s, 1) <= 35);
	score_fini(&s);
	for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++) {
		assert_true(f1_of(&gs_detect_leak, SYNTHETIC_LEAK, load, 5) >= 0.6);
		assert_true(false_alarms_a_day(&gs_detect_leak, SYNTHETIC_LEAK, load) <= 2);
		assert_true(f1_of(&gs_detect_fragmentation, SYNTHETIC_FRAGMENTS, load, 0.5) >=
			    0.95);
		assert_true(false_alarms_a_day(&gs_detect_fragmentation, SYNTHETIC_FRAGMENTS,
					       load) == 0);
		assert_true(f1_of(&gs_detect_gpu_density, SYNTHETIC_POWER, load, 0.5) >= 0.8);
	}
}

/* Shares and errors: found where there is enough of them, and not where there is less than the least of them, none that
 * matters, or much of them for a moment. */
static void shares_and_errors_are_found(void **state)
{
	const struct {
		const struct gs_detector *detector;
		enum synthetic_fault fault;
		double much, too_little;
	} trials[] = {
		{&gs_detect_launches, SYNTHETIC_LAUNCHES, 0.7, 0.3},
		{&gs_detect_tiny, SYNTHETIC_TINY, 0.95, 0.6},
		{&gs_detect_pageable, SYNTHETIC_PAGEABLE, 0.9, 0.3},
		{&gs_detect_throttle, SYNTHETIC_THROTTLE, 1, 0.05},
		{&gs_detect_idle, SYNTHETIC_IDLE, 1, 0.8},
		{&gs_detect_overlap, SYNTHETIC_OVERLAP, 1, 0.5},
		{&gs_detect_xid, SYNTHETIC_XID, 1, 0},
		{&gs_detect_link_errors, SYNTHETIC_LINKS, 60, 1},
	};

	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++) {
			assert_true(f1_of(trials[i].detector, trials[i].fault, load,
					  trials[i].much) >= 0.95);
			if (trials[i].too_little > 0)
				assert_true(f1_of(trials[i].detector, trials[i].fault, load,
						  trials[i].too_little) <= 0.1);
			assert_true(false_alarms_a_day(trials[i].detector, trials[i].fault, load) <=
				    2);
		}
}

/* What follows of how the rules are written, on any series. */
static void rules_of_others(void **state)
{
	assert_true(f1_of(&baseline_three_medians, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 2) == 0);
	assert_true(f1_of(&baseline_average, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.2) == 0);
	assert_true(f1_of(&baseline_average, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 2) >= 0.9);
	assert_true(f1_of(&baseline_reference, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.2) == 0);
	assert_true(f1_of(&baseline_reference, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 2) >= 0.9);
	assert_true(f1_of(&baseline_bayes, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.05) == 0);
	assert_true(f1_of(&baseline_bayes, SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.5) >= 0.9);
	assert_true(f1_of(&baseline_quiet, SYNTHETIC_STALL, SYNTHETIC_STEADY, 1) == 0);
	assert_true(false_alarms_a_day(&baseline_three_sigma, SYNTHETIC_SLOW, SYNTHETIC_STEADY) >
		    100);
}

/* Labels: in order, apart, in the run, and steps in them are as much longer as the severity says. */
static void runs_are_as_labelled(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct synthetic_options o = {SYNTHETIC_SLOW, SYNTHETIC_STEADY, 1.2, 3600, seed};
		double sum[2] = {0};
		size_t n[2] = {0}, label = 0;
		struct synthetic_run run, again;

		assert_int_equal(synthetic_make_run(&o, &run), 0);
		assert_true(run.n_labels >= 2);
		for (size_t i = 0; i < run.n_labels; i++) {
			assert_true(run.labels[i].end_ns - run.labels[i].start_ns >=
				    30000000000ull);
			assert_true(run.labels[i].end_ns < run.end_ns);
			if (i)
				assert_true(run.labels[i].start_ns - run.labels[i - 1].end_ns >=
					    60000000000ull);
		}
		for (size_t i = 100; i < run.n_samples; i++) {
			uint64_t start_ns = run.samples[i - 1].time_ns;
			unsigned slow;

			while (label < run.n_labels && start_ns >= run.labels[label].end_ns)
				label++;
			slow = label < run.n_labels && start_ns >= run.labels[label].start_ns;
			sum[slow] += run.samples[i].values[0];
			n[slow]++;
		}
		assert_true(fabs(sum[1] / (double)n[1] / (sum[0] / (double)n[0]) - 1.2) < 0.01);
		assert_int_equal(synthetic_make_run(&o, &again), 0);
		assert_int_equal(run.n_samples, again.n_samples);
		assert_memory_equal(run.samples, again.samples,
				    run.n_samples * sizeof(*run.samples));
		synthetic_free_run(&run);
		synthetic_free_run(&again);
	}
}

static void scores_of_counts(void **state)
{
	struct score_counts c = {.n_events = 10, .n_found = 8, .n_false = 2}, none = {0};
	struct score_counts runs[6];
	double low, high;

	assert_true(fabs(score_precision(&c) - 0.8) < 1e-12);
	assert_true(fabs(score_recall(&c) - 0.8) < 1e-12);
	assert_true(fabs(score_f1(&c) - 0.8) < 1e-12);
	assert_true(score_precision(&none) == 1 && score_f1(&none) == 1);
	for (unsigned i = 0; i < 6; i++)
		runs[i] = c;
	score_interval(runs, 2, 3, &low, &high);
	assert_true(fabs(low - 0.8) < 1e-12 && fabs(high - 0.8) < 1e-12);
	runs[0].n_found = 0;
	score_interval(runs, 2, 3, &low, &high);
	assert_true(low < 0.7 && high > 0.79);
	/* Garwood, 1936: 95 % of no event, and of three. */
	score_rate_interval(0, 1, &low, &high);
	assert_true(low == 0 && fabs(high - 3.689) < 1e-3);
	score_rate_interval(3, 1, &low, &high);
	assert_true(fabs(low - 0.619) < 1e-3 && fabs(high - 8.767) < 1e-3);
	score_rate_interval(10000, 10, &low, &high);
	assert_true(low > 970 && high < 1030);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_steps_are_found),
		cmocka_unit_test(other_faults_are_found),
		cmocka_unit_test(shares_and_errors_are_found),
		cmocka_unit_test(rules_of_others),
		cmocka_unit_test(runs_are_as_labelled),
		cmocka_unit_test(scores_of_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
