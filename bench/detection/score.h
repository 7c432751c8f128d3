/*
 * How good a detector is on runs with labels. An event (a labelled fault) is found by an alarm from its
 * start to GRACE_NS after its end; more alarms of one event count once; an alarm outside of events is
 * false. Only alarms of the wanted direction count: a step that becomes shorter is no fault.
 */
#ifndef BENCH_DETECTION_SCORE_H
#define BENCH_DETECTION_SCORE_H

#include <stdbool.h>

#include "analysis/detect/detect.h"
#include "synthetic.h"

#define SCORE_GRACE_NS   15000000000ull
#define SCORE_MAX_DELAYS 65536

struct score_contender { /* a row of the table */
	const char *name;
	const struct gs_detector *detector;
	const void *options;  /* NULL: the defaults */
	bool of_rises;        /* only where after is more than before */
	const char *baseline; /* whose rule it is; NULL: gpuscope's own */
};

struct score_counts {
	unsigned n_events, n_found, n_false;
};

struct score {
	struct score_counts counts;
	float *delays_s; /* owned: from the start of each found event to its alarm */
	size_t n_delays;
	double days, cpu_ns;
	uint64_t n_samples;
};

/* Adds one run; ret_counts (may be NULL): of this run alone. 0 or -ENOMEM. */
int score_add_run(struct score *score, const struct score_contender *contender,
		  const struct synthetic_run *run, struct score_counts *ret_counts);
/* Adds all of other. 0 or -ENOMEM. */
int score_merge(struct score *score, const struct score *other);

void score_fini(struct score *score);

double score_precision(const struct score_counts *c); /* 1 when there was no alarm at all */
double score_recall(const struct score_counts *c);
double score_f1(const struct score_counts *c);

/* The delay below which this share of the found events lies; NAN: none found. Orders them. */
double score_delay(struct score *score, double share);

/* 95 % of F1, by drawing n runs out of the n of each stratum (kind of load) again and again
 * (bootstrap), with a fixed seed. runs: n_strata times n. */
void score_interval(const struct score_counts *runs, size_t n_strata, size_t n, double *ret_low,
		    double *ret_high);

/* 95 % of a rate, of n counted events in so many days (exact, after Garwood). */
void score_rate_interval(unsigned n, double days, double *ret_low, double *ret_high);

#endif
