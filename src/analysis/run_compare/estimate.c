/*
 * Trimmed means and how sure they are. Yuen (1974): the mean of the values that are not trimmed, its
 * variance out of the winsorized ones (trimmed values take the place of the outermost kept ones), and
 * for two of them Welch's degrees of freedom.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"

#define TRIMMED_SHARE 0.2
#define MOST_LIKENESS 0.8
/* Of single runs: the variance between equal runs, in that of the mean of one. It is not known, and not nothing: of
 * equal programs on a machine with other work a quarter of all pairs would differ without it. */
#define BETWEEN_SINGLE 1

unsigned run_compare_n_trimmed(unsigned n_blocks)
{
	return (unsigned)(TRIMMED_SHARE * n_blocks);
}

static int compare_rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The 97.5 % quantile of Student's t, at whole degrees rounded down: never too small. */
static double quantile_of_t(double freedom)
{
	static const double to_30[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
				       2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
				       2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
				       2.060,  2.056, 2.052, 2.048, 2.045, 2.042};

	if (freedom < 1)
		return to_30[0];
	return freedom < 31 ? to_30[(unsigned)freedom - 1] : 1.96 + 2.5 / freedom;
}

double run_compare_plus_minus(double variance, double freedom)
{
	return isnan(variance) ? NAN : quantile_of_t(freedom) * sqrt(variance);
}

/* By how much the variance of a mean is larger when neighbours are alike: of the first order, and only where they
 * are (Kalibera and Jones have runs long enough that they are not). */
static double likeness_factor(const double *values, unsigned n, double mean)
{
	double together = 0, squares = 0, likeness;

	for (unsigned i = 0; i < n; i++) {
		squares += (values[i] - mean) * (values[i] - mean);
		together += i ? (values[i] - mean) * (values[i - 1] - mean) : 0;
	}
	likeness = squares > 0 ? fmin(fmax(together / squares, 0), MOST_LIKENESS) : 0;
	return (1 + likeness) / (1 - likeness);
}

struct run_estimate run_compare_estimate(const double *values, const bool *kept, unsigned n)
{
	unsigned trimmed = run_compare_n_trimmed(n), n_kept = n - 2 * trimmed;
	double ordered[GS_RUN_COMPARE_BLOCKS], pulled[GS_RUN_COMPARE_BLOCKS],
		mean = 0, winsorized = 0, squares = 0, spread = 0;

	for (unsigned i = 0; i < n; i++)
		mean += kept[i] ? values[i] / n_kept : 0;
	memcpy(ordered, values, n * sizeof(*ordered));
	qsort(ordered, n, sizeof(*ordered), compare_rising);
	for (unsigned i = 0; i < n; i++) {
		pulled[i] = fmin(fmax(values[i], ordered[trimmed]), ordered[n - 1 - trimmed]);
		winsorized += pulled[i] / n;
	}
	for (unsigned i = 0; i < n; i++)
		squares += (pulled[i] - winsorized) * (pulled[i] - winsorized);
	/* What is long in few blocks can be so in kept ones: then the mean is as unsure as these say. */
	for (unsigned i = 0; i < n; i++)
		spread += kept[i] ? (values[i] - mean) * (values[i] - mean) : 0;
	return (struct run_estimate){mean,
				     fmax(squares, spread) / ((double)n_kept * (n_kept - 1)) *
					     likeness_factor(pulled, n, winsorized),
				     n_kept - 1.0};
}

static double mean_of(const struct run_estimate *runs, size_t n)
{
	double mean = 0;

	for (size_t i = 0; i < n; i++)
		mean += runs[i].mean / (double)n;
	return mean;
}

/* Of single runs, around their mean. */
static double variance_between(const struct run_estimate *runs, size_t n)
{
	double mean = mean_of(runs, n), squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += (runs[i].mean - mean) * (runs[i].mean - mean);
	return squares / (double)(n - 1);
}

struct run_estimate run_compare_combine(const struct run_estimate *runs, size_t n,
					const struct run_estimate *other, size_t n_other)
{
	struct run_estimate e = {mean_of(runs, n), 0, INFINITY};
	double between = NAN, freedom = 0;

	for (size_t i = 0; i < n; i++) {
		e.variance += runs[i].variance / (double)(n * n); /* NAN stays */
		e.freedom = fmin(e.freedom, runs[i].freedom);
	}
	if (n > 1) {
		between = variance_between(runs, n) / (double)n;
		freedom = (double)(n - 1);
	} else if (n_other > 1) {
		between = variance_between(other, n_other);
		freedom = (double)(n_other - 1);
	}
	if (isnan(between))
		e.variance *= 1 + BETWEEN_SINGLE;
	/* Runs that agree by chance do not make each of them surer than it is. */
	if (!isnan(between)) {
		e.variance = isnan(e.variance) ? between : fmax(between, e.variance);
		e.freedom = freedom;
	}
	return e;
}

struct gs_run_compare_value run_compare_percent(struct run_estimate base,
						struct run_estimate changed)
{
	double part = changed.mean / base.mean;
	struct gs_run_compare_value ns;

	/* The relative difference: how unsure the base is counts by as much as it is scaled. */
	base.variance *= part * part;
	ns = run_compare_subtract(
		changed, (struct run_estimate){base.mean * part, base.variance, base.freedom});
	return (struct gs_run_compare_value){(part - 1) * 100, ns.plus_minus / base.mean * 100};
}

struct gs_run_compare_value run_compare_subtract(struct run_estimate a, struct run_estimate b)
{
	double variance = a.variance + b.variance;
	double parts = a.variance * a.variance / a.freedom + b.variance * b.variance / b.freedom;

	return (struct gs_run_compare_value){
		a.mean - b.mean,
		run_compare_plus_minus(variance, parts > 0 ? variance * variance / parts : 1000)};
}
