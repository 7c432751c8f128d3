/*
 * Statistics that a few wild values do not move: the median, the median absolute deviation, and a
 * trend by Theil and Sen with the significance of Mann and Kendall. Values are finite.
 */
#ifndef GS_ANALYSIS_DETECT_ROBUST_H
#define GS_ANALYSIS_DETECT_ROBUST_H

#include <stddef.h>

/* The median; orders the values, so the first is then the least. NAN of none. */
double gs_detect_median(double *values, size_t n);

/* The value below which this share (0 to 1) of ordered values lies: one of them. n > 0. */
double gs_detect_quantile(const double *ordered, size_t n, double share);

/* 1.4826 times the median absolute deviation from centre: the standard deviation, where values are
 * normally distributed. The values are lost. NAN of none. */
double gs_detect_spread(double *values, size_t n, double centre);

/* Significance of a trend by Mann and Kendall: normally distributed when there is none and values do
 * not depend on each other; negative for falling ones. 0 of fewer than three. */
double gs_detect_trend_z(const double *values, size_t n);

/* Pairs of n values: as many slopes gs_detect_trend_slope() needs room for. */
#define GS_DETECT_N_SLOPES(n) ((n) * ((n)-1) / 2)

/* The slope of a trend, from one value to the next: the median over all pairs (Sen, 1968). 0 of fewer
 * than two. */
double gs_detect_trend_slope(const double *values, size_t n, double *slopes);

#endif
