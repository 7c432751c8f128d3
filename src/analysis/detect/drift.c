/*
 * Drift: the times of a series grow or shrink slowly, over minutes: heat, a growing list, a disk that
 * fills. Points are medians of buckets, so single pauses do not count.
 */
#include <math.h>

#include "analysis/detect/detect_int.h"

struct drift {
	struct trend trend;
	struct trend_hold hold;
};

static size_t drift_bytes(const void *options)
{
	return sizeof(struct drift);
}

static void begin_drift(void *state, const void *options)
{
}

static enum gs_detect_outcome feed_drift(void *state, const void *options, uint64_t time_ns,
					 const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_drift_options *o = options;
	struct trend_rule rule = {.bucket_ns = o->bucket_ns,
				  .max_buckets = (uint32_t)o->max_buckets};
	struct drift *d = state;
	struct trend_judgement j;
	enum gs_detect_outcome outcome;

	if (!detect_trend_add(&d->trend, &rule, time_ns, values[0]) ||
	    d->trend.n_points < (uint32_t)o->min_buckets)
		return GS_DETECT_NOTHING;
	j = detect_trend_judge(&d->trend, o->min_z);
	outcome = detect_trend_decide(&d->hold, &j, fabs(j.growth) >= o->min_change * j.first);
	if (outcome)
		detect_trend_report(&d->trend, &j, o->min_z, time_ns, ret);
	if (outcome == GS_DETECT_ENDED) /* the same points are not reported again */
		d->trend.n_points = 0;
	return outcome;
}

static const struct gs_conf_key drift_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_drift_options, field)
	{"bucket", GS_CONF_DURATION, OPTION(bucket_ns), "15s",
	 "Time whose median is one point of the trend.", 1000000, 86400000000000},
	{"max_buckets", GS_CONF_NUMBER, OPTION(max_buckets), "40", "Points that are kept.", 9,
	 TREND_MAX_BUCKETS},
	{"min_buckets", GS_CONF_NUMBER, OPTION(min_buckets), "16", "Fewer show no trend.", 9,
	 TREND_MAX_BUCKETS},
	{"min_change", GS_CONF_RATIO, OPTION(min_change), "3%",
	 "Smallest change over the points to report."},
	{"min_z", GS_CONF_REAL, OPTION(min_z), "4.5",
	 "Minimum significance: z of the Mann-Kendall test.", 1, 100},
};

DETECT_SCHEMA(drift, struct gs_detect_drift_options, "Detector of drift.");

const struct gs_detector gs_detect_drift = {
	.name = "drift",
	.reads = "times of steps or of calls",
	.finds = "times grow or shrink slowly",
	.score = "z of Mann and Kendall's test for a trend",
	.n_values = 1,
	.takes_logarithm = true,
	.options = &drift_schema,
	.state_bytes = drift_bytes,
	.begin = begin_drift,
	.feed = feed_drift,
};
