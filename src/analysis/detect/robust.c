/*
 * Robust statistics. Arrays here are small (a training window, some dozens of buckets), so that
 * sorting them and looking at all pairs is cheap beside what fills them.
 */
#include "analysis/detect/robust.h"

#include <math.h>
#include <stdlib.h>

#define NORMAL_SPREAD 1.4826 /* 1 / the third quartile of the normal distribution */

static int compare_rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gs_detect_median(double *values, size_t n)
{
	if (!n)
		return NAN;
	qsort(values, n, sizeof(*values), compare_rising);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double gs_detect_quantile(const double *ordered, size_t n, double share)
{
	double at = share * (double)n;

	return ordered[at < 1 ? 0 : at >= (double)n ? n - 1 : (size_t)at];
}

double gs_detect_spread(double *values, size_t n, double centre)
{
	for (size_t i = 0; i < n; i++)
		values[i] = fabs(values[i] - centre);
	return NORMAL_SPREAD * gs_detect_median(values, n);
}

double gs_detect_trend_z(const double *values, size_t n)
{
	double count = (double)n, s = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			s += (values[k] > values[i]) - (values[k] < values[i]);
	if (n < 3 || s == 0)
		return 0;
	/* One less: s is a whole number, the normal distribution is not. */
	return (s - (s > 0 ? 1 : -1)) / sqrt(count * (count - 1) * (2 * count + 5) / 18);
}

double gs_detect_trend_slope(const double *values, size_t n, double *slopes)
{
	size_t n_slopes = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			slopes[n_slopes++] = (values[k] - values[i]) / (double)(k - i);
	return n_slopes ? gs_detect_median(slopes, n_slopes) : 0;
}
