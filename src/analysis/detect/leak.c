/*
 * A leak: memory of a process or of an allocator that grows without an end. What a program takes and
 * gives back within a bucket is no leak, so a point is the least of its bucket. A cache that fills
 * grows, too, but its last third does not.
 *
 * What it cannot know: whether a growth that goes on for the whole window would have ended later. A
 * program that frees by garbage collection every few minutes needs buckets of that length.
 */
#include "analysis/detect/detect_int.h"

#define SCALES  2
#define COARSER 16 /* times a bucket of the second scale is longer */

struct leak {
	uint64_t begin_ns;           /* of the series; 0: no sample yet */
	struct trend trends[SCALES]; /* the second one is for what grows too slowly for the first */
	struct trend_hold hold;
	uint32_t scale; /* that the finding is of */
};

static size_t leak_bytes(const void *options)
{
	return sizeof(struct leak);
}

static void begin_leak(void *state, const void *options)
{
}

/* A point more of this scale. */
static enum gs_detect_outcome judge_scale(struct leak *l, const struct gs_detect_leak_options *o,
					  uint32_t scale, uint64_t time_ns,
					  struct gs_detect_finding *ret)
{
	const struct trend *t = &l->trends[scale];
	enum gs_detect_outcome outcome;
	struct trend_judgement j;

	if (t->n_points < (uint32_t)o->min_buckets || (l->hold.holds && l->scale != scale))
		return GS_DETECT_NOTHING;
	j = detect_trend_judge(t, o->min_z);
	outcome = detect_trend_decide(&l->hold, &j, j.growth >= o->min_growth_bytes);
	l->scale = l->hold.holds ? scale : l->scale;
	if (outcome)
		detect_trend_report(t, &j, o->min_z, time_ns, ret);
	/* What was reported once is not found again, in the same points or in coarser ones. */
	for (uint32_t i = 0; i < SCALES && outcome == GS_DETECT_ENDED; i++)
		l->trends[i].n_points = 0;
	return outcome;
}

static enum gs_detect_outcome feed_leak(void *state, const void *options, uint64_t time_ns,
					const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_leak_options *o = options;
	struct leak *l = state;

	enum gs_detect_outcome found = GS_DETECT_NOTHING;
	bool more[SCALES];

	if (!l->begin_ns)
		l->begin_ns = time_ns;
	if (time_ns - l->begin_ns < o->skipped_ns)
		return found;
	for (uint32_t scale = 0; scale < SCALES; scale++) {
		struct trend_rule rule = {.bucket_ns = o->bucket_ns * (scale ? COARSER : 1),
					  .max_buckets = (uint32_t)o->max_buckets,
					  .of_least = true};

		more[scale] = detect_trend_add(&l->trends[scale], &rule, time_ns, values[0]);
	}
	for (uint32_t scale = 0; scale < SCALES && !found; scale++)
		if (more[scale])
			found = judge_scale(l, o, scale, time_ns, ret);
	return found;
}

static const struct gs_conf_key leak_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_leak_options, field)
	{"skipped", GS_CONF_DURATION, OPTION(skipped_ns), "2m",
	 "Time at the start that is ignored, while a program loads and its caches fill.", 0,
	 86400000000000},
	{"bucket", GS_CONF_DURATION, OPTION(bucket_ns), "5s",
	 "Time whose minimum is one point of the trend.", 1000000, 86400000000000},
	{"max_buckets", GS_CONF_NUMBER, OPTION(max_buckets), "64", "Points that are kept.", 9,
	 TREND_MAX_BUCKETS},
	{"min_buckets", GS_CONF_NUMBER, OPTION(min_buckets), "24", "Fewer show no trend.", 9,
	 TREND_MAX_BUCKETS},
	{"min_growth_bytes", GS_CONF_REAL, OPTION(min_growth_bytes), "67108864",
	 "Smallest growth over the points to report.", 1, 1000000000000000},
	{"min_z", GS_CONF_REAL, OPTION(min_z), "4.5",
	 "Minimum significance: z of the Mann-Kendall test.", 1, 100},
};

DETECT_SCHEMA(leak, struct gs_detect_leak_options, "Detector of leaks.");

const struct gs_detector gs_detect_leak = {
	.name = "leak",
	.reads = "bytes of memory in use, of a process, a device or an allocator",
	.finds = "memory grows steadily",
	.score = "z of Mann and Kendall's test for a trend",
	.n_values = 1,
	.options = &leak_schema,
	.state_bytes = leak_bytes,
	.begin = begin_leak,
	.feed = feed_leak,
};
