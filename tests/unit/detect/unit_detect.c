/*
 * Each detector on series whose answer is known: random ones over many seeds, those that are no finding,
 * and numbers that no series should have.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analysis/detect/detect.h"
#include "analysis/detect/robust.h"
#include "random.h"

#define S   1000000000ull
#define MIB 1048576.0
#define GIB (1024 * MIB)

struct follow { /* a detector, its series so far, and what it has found */
	struct gs_detect *d;
	uint64_t now_ns, random;
	unsigned n_begun, n_ended;
	struct gs_detect_finding begun, ended; /* the last ones */
};

static struct follow start_follow(const struct gs_detector *detector, const void *options,
				  uint64_t seed)
{
	struct follow f = {.now_ns = 1000 * S, .random = seed};

	assert_int_equal(gs_detect_new(detector, options, &f.d), 0);
	return f;
}

static void note_outcome(struct follow *f, enum gs_detect_outcome outcome,
			 const struct gs_detect_finding *finding)
{
	if (outcome == GS_DETECT_BEGUN) {
		f->n_begun++;
		f->begun = *finding;
	} else if (outcome == GS_DETECT_ENDED) {
		f->n_ended++;
		f->ended = *finding;
	}
	assert_true(f->n_begun == f->n_ended || f->n_begun == f->n_ended + 1);
}

static void feed_values(struct follow *f, uint64_t after_ns, const double *values)
{
	struct gs_detect_finding finding;

	f->now_ns += after_ns;
	note_outcome(f, gs_detect_feed(f->d, f->now_ns, values, &finding), &finding);
}

/* n times of steps around this one, with a deviation that is a share of it. */
static void feed_steps(struct follow *f, unsigned n, double step_ns, double deviation)
{
	for (unsigned i = 0; i < n; i++) {
		double v = step_ns * exp(deviation * draw_normal(&f->random));

		feed_values(f, (uint64_t)v, &v);
	}
}

static void table_of_detectors(void **state)
{
	for (size_t i = 0; gs_detectors[i]; i++) {
		const struct gs_detector *d = gs_detectors[i];
		struct gs_detect *one;

		assert_ptr_equal(gs_detect_find(d->name), d);
		assert_true(*d->reads && *d->finds && *d->score);
		assert_true(d->n_values <= GS_DETECT_MAX_VALUES);
		assert_true(d->options->bytes <= sizeof(union gs_detect_options));
		assert_true(gs_detect_bytes(d, NULL) < 32768);
		assert_int_equal(gs_detect_new(d, NULL, &one), 0);
		assert_int_equal(gs_detect_refused(one), 0);
		gs_detect_free(&one);
		assert_null(one);
	}
	assert_null(gs_detectors[GS_DETECT_N_DETECTORS]);
	assert_null(gs_detect_find("nothing"));
}

/* Options come by name, from a file or a command line, and are checked. */
static void options_by_name(void **state)
{
	struct gs_detect_change_options o;
	struct gs_err err;

	gs_detect_set_defaults(&gs_detect_change, &o);
	assert_int_equal(o.training_samples, 128);
	assert_int_equal(gs_conf_put(gs_detect_change.options, "training_samples", "64", &o, &err),
			 0);
	assert_int_equal(o.training_samples, 64);
	assert_true(gs_conf_put(gs_detect_change.options, "training_samples", "1", &o, &err) < 0);
}

/* A change of 5 % under noise of 1 %: soon found, dated, measured, and over when it is over. */
static void change_is_found(void **state)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		double factor = seed % 2 ? 1.05 : 1 / 1.05;
		struct follow f = start_follow(&gs_detect_change, NULL, seed);
		uint64_t changed_ns;

		feed_steps(&f, 600, 1e9, 0.01);
		assert_int_equal(f.n_begun, 0);
		changed_ns = f.now_ns;
		feed_steps(&f, 60, 1e9 * factor, 0.01);
		assert_int_equal(f.n_begun, 1);
		assert_true(f.begun.found_ns - changed_ns < 16 * S);
		/* A sum may be above 0 already by chance, as the change comes. */
		assert_true(f.begun.since_ns + 10 * S > changed_ns);
		assert_true(f.begun.since_ns < changed_ns + 3 * S);
		assert_true(fabs(f.begun.before / 1e9 - 1) < 0.005);
		assert_true(fabs(f.begun.after / 1e9 - factor) < 0.03);
		assert_true((f.begun.change_pct > 0) == (factor > 1));
		assert_true(f.begun.score > f.begun.limit);
		assert_true(f.begun.n_parameters > 0);
		feed_steps(&f, 60, 1e9, 0.01);
		assert_int_equal(f.n_ended, 1);
		assert_false(f.ended.became_usual);
		assert_true(fabs(f.ended.after / 1e9 - factor) < 0.01);
		feed_steps(&f, 600, 1e9, 0.01);
		assert_int_equal(f.n_begun, 1);
		gs_detect_free(&f.d);
	}
}

/* Warm-up, single long steps, and noise: no finding. Equal times: a change of 3 % is one, of 0.5 % none. */
static void change_is_not_found(void **state)
{
	struct follow f = start_follow(&gs_detect_change, NULL, 1);

	for (unsigned i = 0; i < 100; i++)
		feed_steps(&f, 1, 1e9 * (1 + 5 * exp(-(double)i / 20)), 0.01);
	for (unsigned i = 0; i < 100; i++) {
		feed_steps(&f, 49, 1e9, 0.01);
		feed_steps(&f, 1, 20e9, 0.01);
	}
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);

	f = start_follow(&gs_detect_change, NULL, 1);
	feed_steps(&f, 300, 1e9, 0);
	feed_steps(&f, 300, 1.005e9, 0);
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);

	f = start_follow(&gs_detect_change, NULL, 1);
	feed_steps(&f, 300, 1e9, 0);
	feed_steps(&f, 50, 1.03e9, 0);
	assert_int_equal(f.n_begun, 1);
	gs_detect_free(&f.d);
}

/* Times of a machine that others use for a while, again and again: 20 ms, or two to six times that. */
static void feed_busy_times(struct follow *f, unsigned n)
{
	double times = 1;

	for (unsigned i = 0; i < n; i++) {
		if (i % 25 == 0)
			times = i / 25 % 2 ? 2 + 4 * fabs(sin(i)) : 1;
		feed_steps(f, 1, 20e6 * times, 0.02);
	}
}

/* Ten times as long, after times that depend on the ones before so much that a sum of them says little:
 * found at once. As busy as before: no finding. */
static void change_on_a_busy_machine_is_found(void **state)
{
	struct follow f = start_follow(&gs_detect_change, NULL, 1);
	uint64_t changed_ns;

	feed_busy_times(&f, 1000);
	assert_int_equal(f.n_begun, 0);
	changed_ns = f.now_ns;
	feed_steps(&f, 40, 200e6, 0.02);
	assert_int_equal(f.n_begun, 1);
	assert_true(f.begun.since_ns + S > changed_ns && f.begun.since_ns < changed_ns + S);
	assert_true(fabs(f.begun.after / 200e6 - 1) < 0.02);
	assert_true(f.begun.score >= f.begun.limit);
	feed_steps(&f, 40, 20e6, 0.02);
	assert_int_equal(f.n_ended, 1);
	feed_busy_times(&f, 1000);
	assert_int_equal(f.n_begun, 1);
	gs_detect_free(&f.d);
}

static void change_becomes_usual(void **state)
{
	struct gs_detect_change_options o;
	struct follow f;

	gs_detect_set_defaults(&gs_detect_change, &o);
	o.usual_after_samples = 300;
	f = start_follow(&gs_detect_change, &o, 1);
	feed_steps(&f, 300, 1e9, 0.01);
	feed_steps(&f, 1000, 1.3e9, 0.01);
	assert_int_equal(f.n_begun, 1);
	assert_int_equal(f.n_ended, 1);
	assert_true(f.ended.became_usual);
	feed_steps(&f, 100, 1e9, 0.01); /* and now this is a change */
	assert_int_equal(f.n_begun, 2);
	assert_true(f.begun.change_pct < -20);
	gs_detect_free(&f.d);
}

/* The option says how often a usual series gives a false alarm; it is no more often than twice that, for
 * independent samples and for such as resemble the one before. */
static void change_false_alarms(void **state)
{
	for (unsigned depends = 0; depends < 2; depends++) {
		struct gs_detect_change_options o;
		struct follow f;
		double noise = 0;

		gs_detect_set_defaults(&gs_detect_change, &o);
		o.false_alarm_samples = 10000;
		f = start_follow(&gs_detect_change, &o, 3 + depends);
		for (unsigned i = 0; i < 300000; i++) {
			noise = depends ? 0.5 * noise + 0.866 * draw_normal(&f.random)
					: draw_normal(&f.random);
			feed_values(&f, S, &(double){1e9 * exp(0.05 * noise)});
		}
		assert_in_range(f.n_begun, 0, 60);
		gs_detect_free(&f.d);
	}
}

static void drift_is_found(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct follow f = start_follow(&gs_detect_drift, NULL, seed);
		double factor = seed % 2 ? 1.0002 : 1 / 1.0002, step = 1e9;

		feed_steps(&f, 900, step, 0.03);
		assert_int_equal(f.n_begun, 0);
		for (unsigned i = 0; i < 900; i++)
			feed_steps(&f, 1, step *= factor, 0.03);
		assert_int_equal(f.n_begun, 1);
		assert_true((f.begun.change_pct > 0) == (factor > 1));
		assert_true(f.begun.score > f.begun.limit);
		feed_steps(&f, 1200, step, 0.03);
		assert_int_equal(f.n_ended, 1);
		gs_detect_free(&f.d);
	}
}

/* A step in the middle is the business of another detector, and a pause of none. */
static void drift_is_not_found(void **state)
{
	struct follow f = start_follow(&gs_detect_drift, NULL, 5);

	for (unsigned i = 0; i < 3000; i++)
		feed_steps(&f, 1, i == 1500 ? 60e9 : i < 1000 ? 1e9 : 1.2e9, 0.02);
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);
}

static void leak_is_found(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct follow f = start_follow(&gs_detect_leak, NULL, seed);
		double kept = 10 * GIB;

		for (unsigned i = 0; i < 3000; i++) {
			/* A step takes up to 1 GiB and gives it back. */
			double used = kept + GIB * draw_uniform(&f.random);

			feed_values(&f, S / 2, &used);
			if (i >= 1500)
				kept += MIB;
			else
				assert_int_equal(f.n_begun, 0);
		}
		assert_int_equal(f.n_begun, 1);
		assert_true(f.begun.after > f.begun.before);
		/* It began after 750 s; the noise is of half a minute's growth. */
		assert_true(f.begun.since_ns > (1000 + 690) * S);
		assert_true(f.begun.since_ns < (1000 + 850) * S);
		/* 2 MiB a second. */
		assert_string_equal(f.begun.parameters[1].name, "growth_per_second");
		assert_true(f.begun.parameters[1].value > 0.5 * MIB);
		for (unsigned i = 0; i < 3000; i++)
			feed_values(&f, S / 2, &(double){kept + GIB * draw_uniform(&f.random)});
		assert_int_equal(f.n_ended, 1);
		gs_detect_free(&f.d);
	}
}

/* A cache that fills within minutes, and memory that is given back. */
static void leak_is_not_found(void **state)
{
	struct follow f = start_follow(&gs_detect_leak, NULL, 7);

	for (unsigned i = 0; i < 10000; i++) {
		double used = 10 * GIB + 2 * GIB * (1 - exp(-(double)i / 100)) + i % 40 * 64 * MIB;

		feed_values(&f, S / 2, &used);
	}
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);
}

static void wait_until(struct follow *f, uint64_t until_ns)
{
	struct gs_detect_finding finding;

	for (uint64_t t = f->now_ns + S; t <= until_ns; t += S)
		note_outcome(f, gs_detect_tick(f->d, t, &finding), &finding);
}

static void stall_is_found(void **state)
{
	struct follow f = start_follow(&gs_detect_stall, NULL, 1);

	wait_until(&f, f.now_ns + 1000 * S); /* no rhythm yet */
	assert_int_equal(f.n_begun, 0);
	for (unsigned i = 0; i < 100; i++)
		feed_values(&f, S, NULL);
	wait_until(&f, f.now_ns + 29 * S);
	assert_int_equal(f.n_begun, 0);
	wait_until(&f, f.now_ns + 100 * S);
	assert_int_equal(f.n_begun, 1);
	assert_int_equal(f.begun.found_ns, f.now_ns + 31 * S);
	assert_int_equal(f.begun.since_ns, f.now_ns);
	assert_true(fabs(f.begun.before - 1e9) < 1);
	assert_int_equal(f.n_ended, 0);
	feed_values(&f, 100 * S, NULL);
	assert_int_equal(f.n_ended, 1);
	gs_detect_free(&f.d);
}

/* A pause that comes again is part of the rhythm; slow series are not quiet. */
static void stall_is_not_found(void **state)
{
	struct follow f = start_follow(&gs_detect_stall, NULL, 1);

	for (unsigned turn = 0; turn < 6; turn++) {
		for (unsigned i = 0; i < 100; i++)
			feed_values(&f, S, NULL);
		wait_until(&f, f.now_ns + 40 * S);
		feed_values(&f, 40 * S, NULL);
		assert_int_equal(f.n_begun, turn < 2 ? turn + 1 : 2);
	}
	gs_detect_free(&f.d);

	f = start_follow(&gs_detect_stall, NULL, 1);
	for (unsigned i = 0; i < 50; i++) {
		wait_until(&f, f.now_ns + 60 * S);
		feed_values(&f, 60 * S, NULL);
	}
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);
}

static void fragmentation_is_found(void **state)
{
	struct follow f = start_follow(&gs_detect_fragmentation, NULL, 1);

	for (unsigned i = 0; i < 1000; i++) {
		double reserved = i < 500 ? 42 * GIB : 70 * GIB;
		/* Between peaks most of it is unused: that is as it should be. */
		double values[2] = {i % 4 ? 10 * GIB : 40 * GIB, reserved};

		feed_values(&f, S, values);
		assert_int_equal(f.n_begun, i < 500 + 63 ? 0 : 1);
	}
	assert_true(fabs(f.begun.score - 30.0 / 70) < 1e-9);
	for (unsigned i = 0; i < 100; i++)
		feed_values(&f, S, (double[]){40 * GIB, 42 * GIB});
	assert_int_equal(f.n_ended, 1);
	gs_detect_free(&f.d);
}

/* Latencies of two usual lengths; a third one between them is unusual, which no limit would find. */
static void feed_shares(struct follow *f, unsigned n, double share, double amount)
{
	for (unsigned i = 0; i < n; i++)
		feed_values(f, S, (double[]){share, amount});
}

/* Also from the begin on; not for moments, not of little, and once while it holds. */
static void shares_are_found(void **state)
{
	static const struct gs_detector *const rows[] = {&gs_detect_launches, &gs_detect_tiny,
							 &gs_detect_pageable, &gs_detect_idle,
							 &gs_detect_throttle, &gs_detect_overlap};

	for (unsigned k = 0; k < GS_ARRAY_LEN(rows); k++) {
		struct gs_detect_share_options o;
		struct follow f;
		unsigned window;

		gs_detect_set_defaults(rows[k], &o);
		window = (unsigned)o.window_samples;
		f = start_follow(rows[k], NULL, 1);
		feed_shares(&f, window - 1, 1, o.min_amount);
		assert_int_equal(f.n_begun, 0);
		feed_shares(&f, 1, 1, o.min_amount);
		assert_int_equal(f.n_begun, 1);
		assert_true(f.begun.since_ns == 1001 * S);
		assert_string_equal(f.begun.detector, rows[k]->name);
		assert_true(f.begun.score == 1 && f.begun.limit == o.min_share);
		/* A little less does not end it. */
		feed_shares(&f, 2 * window, o.min_share * 0.9, o.min_amount * 0.9);
		assert_int_equal(f.n_begun + f.n_ended, 1);
		feed_shares(&f, 2 * window, o.min_share * 0.7, o.min_amount);
		assert_int_equal(f.n_ended, 1);
		gs_detect_free(&f.d);

		f = start_follow(rows[k], NULL, 1);
		feed_shares(&f, 3 * window, o.min_share * 0.98, 100 * o.min_amount);
		for (unsigned i = 0; i < 3 * window; i++)
			feed_shares(&f, 1, i % 5 < 2, o.min_amount);
		assert_int_equal(f.n_begun, 0);
		gs_detect_free(&f.d);

		f = start_follow(rows[k], NULL, 1);
		feed_shares(&f, 3 * window, 1, o.min_amount * 0.98);
		assert_int_equal(f.n_begun, 0);
		gs_detect_free(&f.d);
	}
}

/* Ten within a minute, in any number of samples; over ten minutes after the last one, also without a sample. */
static void errors_are_found(void **state)
{
	struct gs_detect_finding finding;
	struct follow f = start_follow(&gs_detect_link_errors, NULL, 1);

	for (unsigned i = 0; i < 100; i++) /* one each 7 s, and one each minute */
		feed_values(&f, 7 * S, &(double){1});
	for (unsigned i = 0; i < 100; i++)
		feed_values(&f, S, &(double){i % 60 == 59});
	assert_int_equal(f.n_begun, 0);
	for (unsigned i = 0; i < 10; i++)
		feed_values(&f, 5 * S, &(double){1});
	assert_int_equal(f.n_begun, 1);
	assert_true(f.begun.score >= f.begun.limit);
	assert_true(f.begun.since_ns + 60 * S >= f.begun.found_ns);
	for (unsigned i = 0; i < 599; i++)
		feed_values(&f, S, &(double){0});
	assert_int_equal(f.n_ended, 0);
	feed_values(&f, S, &(double){0});
	assert_int_equal(f.n_ended, 1);
	feed_values(&f, S, &(double){500}); /* all in one sample */
	assert_int_equal(f.n_begun, 2);
	assert_true(f.begun.after == 500);
	assert_int_equal(gs_detect_tick(f.d, f.now_ns + 599 * S, &finding), GS_DETECT_NOTHING);
	assert_int_equal(gs_detect_tick(f.d, f.now_ns + 600 * S, &finding), GS_DETECT_ENDED);
	assert_int_equal(finding.found_ns, f.now_ns);
	gs_detect_free(&f.d);

	/* More samples with errors than are kept. */
	f = start_follow(&gs_detect_link_errors, NULL, 1);
	for (unsigned i = 0; i < 1000; i++)
		feed_values(&f, S / 10, &(double){0.01});
	assert_int_equal(f.n_begun, 0);
	gs_detect_free(&f.d);

	f = start_follow(&gs_detect_xid, NULL, 1);
	feed_values(&f, S, &(double){1});
	assert_int_equal(f.n_begun, 1);
	gs_detect_free(&f.d);
}

static void density_between_modes(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct follow f = start_follow(&gs_detect_density, NULL, seed);

		assert_null(gs_detect_mixture(f.d));
		for (unsigned i = 0; i < 3000; i++)
			feed_steps(&f, 1, draw_uniform(&f.random) < 0.5 ? 20e3 : 2e6, 0.2);
		assert_int_equal(f.n_begun, 0);
		assert_int_equal(gs_detect_mixture(f.d)->n_components, 2);
		feed_steps(&f, 100, 200e3, 0.1);
		assert_int_equal(f.n_begun, 1);
		assert_true(fabs(f.begun.after / 200e3 - 1) < 0.2);
		for (unsigned i = 0; i < 200; i++)
			feed_steps(&f, 1, draw_uniform(&f.random) < 0.5 ? 20e3 : 2e6, 0.2);
		assert_int_equal(f.n_ended, 1);
		gs_detect_free(&f.d);
	}
}

/* Which of memory, power and temperature left its place. */
static void density_of_gpu(void **state)
{
	static const double usual[3] = {0.6, 0.8, 65};

	for (unsigned moved = 0; moved < 3; moved++) {
		struct follow f = start_follow(&gs_detect_gpu_density, NULL, moved + 1);

		for (unsigned i = 0; i < 1200; i++) {
			double v[3] = {usual[0] + 0.01 * draw_normal(&f.random),
				       usual[1] + 0.03 * draw_normal(&f.random),
				       usual[2] + draw_normal(&f.random)};

			assert_int_equal(f.n_begun, i > 1032);
			if (i >= 1000)
				v[moved] *= 0.5;
			if (i == 1032 && f.n_begun == 0)
				fail();
			feed_values(&f, S, v);
			if (f.n_begun)
				break;
		}
		assert_int_equal(f.n_begun, 1);
		assert_int_equal(f.begun.value, moved);
		assert_true(fabs(f.begun.change_pct + 50) < 10);
		gs_detect_free(&f.d);
	}
}

/* Numbers that no series should have: counted or survived, and the detector goes on as before. */
static void hard_numbers(void **state)
{
	static const double hard[] = {NAN,     INFINITY, -INFINITY, 1e308,  -1e308, 5e-324,
				      -5e-324, 0,        -1,        1e-300, 1e300};

	for (size_t k = 0; gs_detectors[k]; k++) {
		struct follow f = start_follow(gs_detectors[k], NULL, 9);
		uint64_t random = 11, n_refused = 0;
		struct gs_detect_finding finding;

		for (unsigned i = 0; i < 20000; i++) {
			double v[3];

			for (unsigned j = 0; j < 3; j++)
				v[j] = draw_uniform(&random) < 0.3
					       ? hard[(unsigned)(draw_uniform(&random) * 11)]
					       : 1e9 * exp(draw_normal(&random));
			for (unsigned j = 0; j < gs_detectors[k]->n_values; j++)
				if (!isfinite(v[j]) ||
				    (gs_detectors[k]->takes_logarithm && v[j] <= 0)) {
					n_refused++;
					break;
				}
			feed_values(&f, S, v);
		}
		assert_int_equal(gs_detect_refused(f.d), n_refused);
		/* A sample that is older than the one before. */
		assert_int_equal(gs_detect_feed(f.d, 5, (double[]){1, 2, 3}, &finding),
				 GS_DETECT_NOTHING);
		assert_int_equal(gs_detect_refused(f.d), n_refused + 1);
		gs_detect_tick(f.d, UINT64_MAX, &finding);
		assert_int_equal(gs_detect_tick(f.d, 5, &finding), GS_DETECT_NOTHING);
		gs_detect_free(&f.d);
	}
}

/* Samples that cannot be used change nothing: found as without them. */
static void refused_samples_change_nothing(void **state)
{
	struct follow with = start_follow(&gs_detect_change, NULL, 4), without = with;

	without.d = NULL;
	assert_int_equal(gs_detect_new(&gs_detect_change, NULL, &without.d), 0);
	for (unsigned i = 0; i < 700; i++) {
		double step = i < 500 ? 1e9 : 1.1e9;

		feed_values(&with, 0, &(double){i % 2 ? NAN : -3});
		feed_steps(&with, 1, step, 0.01);
		feed_steps(&without, 1, step, 0.01);
	}
	assert_int_equal(with.n_begun, 1);
	assert_int_equal(with.begun.found_ns, without.begun.found_ns);
	assert_true(with.begun.score == without.begun.score);
	gs_detect_free(&with.d);
	gs_detect_free(&without.d);
}

static void robust_statistics(void **state)
{
	double odd[] = {5, 1, 1e9}, even[] = {4, 1, 3, 2}, spread[] = {1, 2, 3, 4, 1000};
	double line[] = {1, 3, 5, 7, 900, 11}, slopes[GS_DETECT_N_SLOPES(6)], flat[] = {2, 2, 2, 2};

	assert_true(gs_detect_median(odd, 3) == 5);
	assert_true(gs_detect_median(even, 4) == 2.5);
	assert_true(isnan(gs_detect_median(even, 0)));
	assert_true(fabs(gs_detect_spread(spread, 5, 3) - 1.4826) < 1e-12);
	assert_true(gs_detect_trend_slope(line, 6, slopes) == 2);
	assert_true(gs_detect_trend_z(flat, 4) == 0);
	/* 13 of 15 pairs rise: s = 14 - 1 = 13, variance 6 x 5 x 17 / 18. */
	assert_true(fabs(gs_detect_trend_z(line, 6) - 12 / sqrt(6 * 5 * 17 / 18.0)) < 1e-12);
	assert_true(gs_detect_quantile(even, 4, 0) == 1);
	assert_true(gs_detect_quantile(even, 4, 0.5) == 3);
	assert_true(gs_detect_quantile(even, 4, 1) == 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_of_detectors),
		cmocka_unit_test(options_by_name),
		cmocka_unit_test(change_is_found),
		cmocka_unit_test(change_is_not_found),
		cmocka_unit_test(change_on_a_busy_machine_is_found),
		cmocka_unit_test(change_becomes_usual),
		cmocka_unit_test(change_false_alarms),
		cmocka_unit_test(drift_is_found),
		cmocka_unit_test(drift_is_not_found),
		cmocka_unit_test(leak_is_found),
		cmocka_unit_test(leak_is_not_found),
		cmocka_unit_test(stall_is_found),
		cmocka_unit_test(stall_is_not_found),
		cmocka_unit_test(fragmentation_is_found),
		cmocka_unit_test(shares_are_found),
		cmocka_unit_test(errors_are_found),
		cmocka_unit_test(density_between_modes),
		cmocka_unit_test(density_of_gpu),
		cmocka_unit_test(hard_numbers),
		cmocka_unit_test(refused_samples_change_nothing),
		cmocka_unit_test(robust_statistics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
