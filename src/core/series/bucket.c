#include "core/series/bucket.h"

#include <math.h>

void gs_bucket_add_mean(struct gs_bucket *b, double mean, double max, uint32_t n)
{
	if (!isfinite(mean) || !n)
		return;
	b->sum += mean * n;
	b->min = b->n && b->min < mean ? b->min : mean;
	b->max = b->n && b->max > max ? b->max : max;
	b->n += n;
}

void gs_bucket_add(struct gs_bucket *b, double value)
{
	gs_bucket_add_mean(b, value, value, 1);
}

double gs_bucket_mean(const struct gs_bucket *b)
{
	return b->n ? b->sum / (double)b->n : NAN;
}

double gs_bucket_min(const struct gs_bucket *b)
{
	return b->n ? b->min : NAN;
}

double gs_bucket_max(const struct gs_bucket *b)
{
	return b->n ? b->max : NAN;
}
