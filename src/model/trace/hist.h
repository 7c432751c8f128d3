/*
 * The histogram of durations, the same in the kernel and here: log-linear, eight buckets to each
 * power of two, so that a percentile read from it is at most 5.9 % off (the harmonic mean of the
 * bucket's two ends is reported, which halves the error of either end).
 *
 *   0..7 ns         bucket = ns
 *   2^k .. 2^(k+1)  bucket = 8 * (k - 2) + the next three bits below the top one
 *
 * The last bucket takes all from 2^44 ns (4.9 hours) on.
 */
#ifndef GS_MODEL_TRACE_HIST_H
#define GS_MODEL_TRACE_HIST_H

#ifndef __bpf__
#include <stdint.h>
#include <linux/types.h>
#endif

#define GS_HIST_SUB_BITS  3
#define GS_HIST_TOP_BIT   43
#define GS_HIST_N_BUCKETS ((GS_HIST_TOP_BIT - GS_HIST_SUB_BITS + 2) * (1 << GS_HIST_SUB_BITS))

/* The largest relative error of a percentile, in per cent (rounded up): the figure that outputs
 * state. (b - a) / (b + a) for a bucket [8, 9) * 2^k. */
#define GS_HIST_ERROR_PCT 5.9

/* Rounded down; of 0: 0. */
static inline __attribute__((always_inline)) unsigned gs_log2_u64(unsigned long long v)
{
#ifndef __bpf__
	return v ? 63 - (unsigned)__builtin_clzll(v) : 0;
#else
	unsigned r = 0;

	/* Written out: the kernel's instruction set has no count-leading-zeros before v4. */
	if (v >> 32) {
		v >>= 32;
		r += 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return v >> 1 ? r + 1 : r;
#endif
}

/* Where a duration is counted: 0 to GS_HIST_N_BUCKETS - 1. */
static inline __attribute__((always_inline)) unsigned gs_hist_bucket(unsigned long long ns)
{
	unsigned top;

	if (ns < (1 << GS_HIST_SUB_BITS))
		return (unsigned)ns;
	if (ns >> (GS_HIST_TOP_BIT + 1))
		return GS_HIST_N_BUCKETS - 1;
	top = gs_log2_u64(ns);
	return ((top - GS_HIST_SUB_BITS + 1) << GS_HIST_SUB_BITS) +
	       (unsigned)((ns >> (top - GS_HIST_SUB_BITS)) & ((1 << GS_HIST_SUB_BITS) - 1));
}

#ifndef __bpf__
/* First ns of a bucket; bucket GS_HIST_N_BUCKETS gives the end of the last one. */
uint64_t gs_hist_bucket_start_ns(unsigned bucket);

/* The value that stands for a bucket: the harmonic mean of its ends. */
uint64_t gs_hist_bucket_value_ns(unsigned bucket);

/* How many were counted, in all buckets. */
uint64_t gs_hist_count(const uint64_t counts[GS_HIST_N_BUCKETS]);

/* The q-th quantile (0..1) of counts; 0 when they are empty. Never more than max_ns. */
uint64_t gs_hist_quantile_ns(const uint64_t counts[GS_HIST_N_BUCKETS], double q, uint64_t max_ns);
#endif

#endif
