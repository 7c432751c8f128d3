/*
 * Values of one interval: their mean, lowest and highest. What is not known is not counted,
 * so a bucket without values is a gap, never 0.
 *
 * Charts, rollups and the sums of a session are made of buckets; which values of a stretch go into
 * one is theirs. A value may itself be the mean of several: buckets of means have the mean, and the
 * highest, of what was measured.
 */
#ifndef GS_CORE_SERIES_BUCKET_H
#define GS_CORE_SERIES_BUCKET_H

#include <stdint.h>

struct gs_bucket {       /* begins as all 0 */
	double sum;      /* of the n values; a mean counts as often as it is of values */
	double min, max; /* min: of the values as they came, so of means where these are such */
	uint64_t n;      /* measured values */
};

/* n values of this mean, of which the highest is max. Nothing, when mean is not finite. */
void gs_bucket_add_mean(struct gs_bucket *bucket, double mean, double max, uint32_t n);
void gs_bucket_add(struct gs_bucket *bucket, double value);

/* NAN: there are none. */
double gs_bucket_mean(const struct gs_bucket *bucket);
double gs_bucket_min(const struct gs_bucket *bucket);
double gs_bucket_max(const struct gs_bucket *bucket);

#endif
