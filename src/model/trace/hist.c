#include "model/trace/hist.h"

uint64_t gs_hist_bucket_start_ns(unsigned bucket)
{
	unsigned octave = bucket >> GS_HIST_SUB_BITS, sub = bucket & ((1 << GS_HIST_SUB_BITS) - 1);

	if (octave == 0)
		return sub;
	return (uint64_t)((1 << GS_HIST_SUB_BITS) + sub) << (octave - 1);
}

uint64_t gs_hist_bucket_value_ns(unsigned bucket)
{
	double a = (double)gs_hist_bucket_start_ns(bucket);
	double b = (double)gs_hist_bucket_start_ns(bucket + 1);

	/* Buckets of one nanosecond hold one value. */
	if (b - a <= 1)
		return (uint64_t)a;
	/* Rounded down: a duration is at most b - 1, and rounding up of a bucket of few nanoseconds
	 * would take its lowest value 6.25 % off. */
	return (uint64_t)(2 * a * b / (a + b));
}

uint64_t gs_hist_count(const uint64_t counts[GS_HIST_N_BUCKETS])
{
	uint64_t total = 0;

	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		total += counts[i];
	return total;
}

uint64_t gs_hist_quantile_ns(const uint64_t counts[GS_HIST_N_BUCKETS], double q, uint64_t max_ns)
{
	uint64_t total = gs_hist_count(counts), seen = 0, rank;

	if (!total)
		return 0;
	/* Nearest rank: the smallest value that at least q of all values do not pass. */
	rank = (uint64_t)(q * (double)total);
	if ((double)rank < q * (double)total || rank == 0)
		rank++;
	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++) {
		seen += counts[i];
		if (seen >= rank) {
			uint64_t v = gs_hist_bucket_value_ns(i);

			return v < max_ns ? v : max_ns;
		}
	}
	return max_ns;
}
