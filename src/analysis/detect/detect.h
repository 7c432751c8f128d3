/*
 * Detectors: each follows one series of numbers (times of steps, latencies of one function, bytes of
 * memory) as they come, and reports when it is not as it was. Pure: no clock, no I/O, no threads;
 * what time it is comes with the samples. Which detectors there are is a table, gs_detectors; a new
 * one is a file with a struct gs_detector and a line in that table.
 *
 *     struct gs_detect_change_options options;
 *     struct gs_detect *d;
 *
 *     gs_detect_set_defaults(&gs_detect_change, &options);
 *     gs_detect_new(&gs_detect_change, &options, &d);
 *     for (each step)
 *             if (gs_detect_feed(d, end_ns, &duration_ns, &finding) == GS_DETECT_BEGUN)
 *                     (finding.change_pct more since finding.since_ns)
 *     gs_detect_free(&d);
 *
 * Memory is what gs_detect_bytes() says, allocated once; feeding allocates nothing. A sample that a
 * detector cannot use (not finite, not above 0 where a logarithm is taken, older than the one
 * before) is left out and counted.
 */
#ifndef GS_ANALYSIS_DETECT_DETECT_H
#define GS_ANALYSIS_DETECT_DETECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/conf.h"
#include "analysis/detect/mixture.h"

enum gs_detect_outcome {
	GS_DETECT_NOTHING = 0,
	GS_DETECT_BEGUN = 1, /* a finding begins */
	GS_DETECT_ENDED = 2, /* the one that began last is over, or has become usual */
};

#define GS_DETECT_MAX_PARAMETERS 8

struct gs_detect_parameter { /* of a model that a finding rests on */
	const char *name;    /* static; with its unit, "training_spread_pct" */
	double value;        /* in the unit of the name */
};

struct gs_detect_finding {
	const char *detector; /* static; the row's name */
	uint64_t since_ns;    /* first sample that is unlike those before, as far as can be seen */
	uint64_t found_ns;    /* the sample or the tick at which it was found, or ended */
	/* Medians in the unit of the series: of the time that is taken as usual, and since since_ns.
	 * For a stall: of the time between samples, and the time since the last one, in ns. */
	double before, after;
	double change_pct;   /* of before; negative when after is less */
	unsigned value;      /* of a sample with several, the one that before and after are of */
	double score, limit; /* found from limit on; what they are is the detector's */
	uint32_t n_before, n_after;
	bool became_usual; /* of GS_DETECT_ENDED: it did not go back, it is what is usual now */
	uint32_t n_parameters;
	struct gs_detect_parameter parameters[GS_DETECT_MAX_PARAMETERS];
};

/* A row of the table. The functions are called by those below alone. */
struct gs_detector {
	const char *name;     /* lower case, one word */
	const char *reads;    /* which series it is for */
	const char *finds;    /* what a finding means */
	const char *score;    /* what score and limit of its findings are */
	unsigned n_values;    /* of a sample, 0 (its time alone) to GS_DETECT_MAX_VALUES */
	bool takes_logarithm; /* values must be above 0 */
	const struct gs_conf_schema
		*options; /* keys, defaults and ranges of its struct of options */
	size_t (*state_bytes)(const void *options);
	void (*begin)(void *state, const void *options); /* the state is all 0 */
	/* The next sample: n_values of them, at this time of the series, which never goes back. */
	enum gs_detect_outcome (*feed)(void *state, const void *options, uint64_t time_ns,
				       const double *values, struct gs_detect_finding *ret);
	/* Time has passed without a sample. NULL: nothing comes of that. */
	enum gs_detect_outcome (*tick)(void *state, const void *options, uint64_t now_ns,
				       struct gs_detect_finding *ret);
	/* NULL: it has none. Returns NULL before it is trained. */
	const struct gs_detect_mixture *(*mixture)(const void *state);
};

#define GS_DETECT_N_DETECTORS 15

extern const struct gs_detector *const gs_detectors[GS_DETECT_N_DETECTORS + 1]; /* ends with NULL */

const struct gs_detector *gs_detect_find(const char *name); /* NULL: no such detector */

/* The defaults of a row's struct of options. */
void gs_detect_set_defaults(const struct gs_detector *detector, void *ret_options);

struct gs_detect;

/* options (NULL: the defaults) are copied. 0 or -ENOMEM. */
int gs_detect_new(const struct gs_detector *detector, const void *options, struct gs_detect **ret);
void gs_detect_free(struct gs_detect **d);

/* All memory that one detector takes, for good. options: NULL for the defaults. */
size_t gs_detect_bytes(const struct gs_detector *detector, const void *options);

/* A sample with the detector's n_values, in the order of time. ret is set unless nothing is found.
 * Also while a finding holds, which ends before the next one begins. */
enum gs_detect_outcome gs_detect_feed(struct gs_detect *d, uint64_t time_ns, const double *values,
				      struct gs_detect_finding *ret);

/* No sample came until now_ns: for a caller that asks about once a second. */
enum gs_detect_outcome gs_detect_tick(struct gs_detect *d, uint64_t now_ns,
				      struct gs_detect_finding *ret);

uint64_t gs_detect_refused(const struct gs_detect *d); /* samples that could not be used */

/* The mixture that a trained detector judges by, lent until the next sample; NULL: none. */
const struct gs_detect_mixture *gs_detect_mixture(const struct gs_detect *d);

/* ------------------------------------------------------------------ the detectors */

/* change: an abrupt, lasting change of a series of times, by two cumulative sums of robust scores. */
struct gs_detect_change_options {
	int64_t training_samples;    /* taken as usual before anything is judged */
	int64_t baseline_samples;    /* of the last usual ones, what is usual is renewed from */
	double min_change;           /* smallest relative change that is looked for, 0.02 = 2 % */
	int64_t false_alarm_samples; /* mean number of usual samples from one false alarm to the next,
				       * where they are independent */
	int64_t usual_after_samples; /* a change that lasts so long is what is usual from then on */
};

/* drift: a slow, steady change of a series of times over minutes. */
struct gs_detect_drift_options {
	uint64_t bucket_ns;  /* of so much time the median is one point of the trend */
	int64_t max_buckets; /* the newest are kept; so long is the longest time that is looked at */
	int64_t min_buckets; /* fewer show no trend */
	double min_change;   /* over the buckets, relative */
	double min_z;        /* of Mann and Kendall */
};

/* leak: memory that grows and grows. A point of the trend is the least of a bucket, since what is
 * given back within it is no leak. */
struct gs_detect_leak_options {
	uint64_t skipped_ns;     /* of the begin of the series, in which memory grows anyway */
	uint64_t bucket_ns;      /* a point of the trend is the least value of such a stretch */
	int64_t max_buckets;     /* that are kept, the newest */
	int64_t min_buckets;     /* with fewer nothing is reported */
	double min_growth_bytes; /* over the buckets */
	double min_z;            /* of the test of Mann and Kendall: how sure the trend is */
};

/* density, gpu_density: many samples where a Gaussian mixture of the usual ones has a low density. */
struct gs_detect_density_options {
	int64_t skipped_samples;  /* at the begin, as warm-up */
	int64_t training_samples; /* the model is fitted to */
	int64_t max_components;   /* the number is chosen by BIC */
	int covariance;           /* enum gs_detect_covariance */
	int start;                /* enum gs_detect_start */
	int64_t seed;             /* of random starts: the same series has the same model */
	/* Added to variances (squared logarithms, or squared units): series that stand still would
	 * else be unusual by their last digits. */
	double floor;
	double tolerance;        /* ends EM */
	int64_t max_iterations;  /* of EM */
	double density_quantile; /* the density below which this share of the training samples has
				   * theirs is low */
	int64_t window_samples;  /* up to 64: of the newest so many ... */
	double flagged_share;    /* ... this share must have a low density */
	int64_t usual_after_samples; /* trained again when a finding lasts so long */
};

/* stall: no sample for longer than the series' own rhythm explains. */
struct gs_detect_stall_options {
	uint64_t quiet_ns;      /* never earlier than this */
	double period_factor;   /* nor before so many times the usual time between samples ... */
	double pause_factor;    /* ... and so many times the longest one in the window */
	int64_t window_samples; /* of the newest so many times */
	int64_t min_samples;    /* with fewer there is no rhythm */
};

/* fragmentation: an allocator that keeps memory which not even the peaks of use need. */
struct gs_detect_fragmentation_options {
	int64_t window_samples; /* over which peaks are looked for */
	double unused_share;    /* of what is reserved */
	double unused_bytes;    /* and at least so much */
};

/* launches, tiny, pageable, idle, throttle, overlap: a share of what happens in an interval is large. */
struct gs_detect_share_options {
	int64_t window_samples; /* intervals that are judged together */
	double min_share;       /* of all that was in them */
	double min_amount;      /* and so much was in each of half of them */
};

/* xid, link_errors: errors since the sample before. */
struct gs_detect_errors_options {
	int64_t min_errors; /* in the window */
	uint64_t window_ns;
	uint64_t quiet_ns; /* without an error, until a finding is over */
};

union gs_detect_options { /* of any row: the member that its detector is named for */
	struct gs_detect_change_options change;
	struct gs_detect_drift_options drift;
	struct gs_detect_leak_options leak;
	struct gs_detect_density_options density;
	struct gs_detect_stall_options stall;
	struct gs_detect_fragmentation_options fragmentation;
	struct gs_detect_share_options share;
	struct gs_detect_errors_options errors;
};

extern const struct gs_detector gs_detect_change, gs_detect_drift, gs_detect_leak,
	gs_detect_density, gs_detect_gpu_density, gs_detect_stall, gs_detect_fragmentation,
	gs_detect_launches, gs_detect_tiny, gs_detect_pageable, gs_detect_idle, gs_detect_throttle,
	gs_detect_overlap, gs_detect_xid, gs_detect_link_errors;

#endif
