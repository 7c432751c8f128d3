/* What detectors share. Inside the room only. */
#ifndef GS_ANALYSIS_DETECT_DETECT_INT_H
#define GS_ANALYSIS_DETECT_DETECT_INT_H

#include "analysis/detect/detect.h"
#include "analysis/detect/robust.h"

/* NAME_schema: the options of a detector, which NAME_keys are, in their struct. */
#define DETECT_SCHEMA(name, type, text)                                                            \
	static const struct gs_conf_section name##_sections[] = {                                  \
		{"", "", 0, name##_keys, GS_ARRAY_LEN(name##_keys)}};                              \
	static const struct gs_conf_schema name##_schema = {                                       \
		.comment = (text),                                                                 \
		.bytes = sizeof(type),                                                             \
		.sections = name##_sections,                                                       \
		.n_sections = GS_ARRAY_LEN(name##_sections),                                       \
	}

/* A parameter of the model into a finding; what does not fit is a bug, and is left out. */
void detect_add_parameter(struct gs_detect_finding *f, const char *name, double value);

/* before, after and change_pct. */
void detect_set_medians(struct gs_detect_finding *f, double before, double after);

/* Points of a trend: one for each bucket of time, in a ring. */
#define TREND_MAX_BUCKETS 64
#define TREND_MAX_SAMPLES 64

struct trend {
	uint64_t begin_ns; /* of the bucket that is being filled; 0: none */
	/* Its samples; when they become too many every second one is dropped, and of those that
	 * follow every stride-th is taken: spread evenly over the bucket. */
	double samples[TREND_MAX_SAMPLES];
	uint32_t n_samples, stride, n_skipped;
	double least;                     /* of all of its samples */
	double points[TREND_MAX_BUCKETS]; /* in order, the newest last */
	uint64_t times_ns[TREND_MAX_BUCKETS];
	uint32_t n_points;
};

struct trend_rule {
	uint64_t bucket_ns;
	uint32_t max_buckets;
	bool of_least; /* a point is the least of its bucket, else the median */
};

/* True when the sample finished a bucket, and so a point more is there. Buckets without a sample
 * have no point. */
bool detect_trend_add(struct trend *t, const struct trend_rule *rule, uint64_t time_ns,
		      double value);

/* What the points say. */
struct trend_judgement {
	double z;           /* of Mann and Kendall */
	double growth;      /* over all points, by the slope of Theil and Sen; 0: not significant */
	double first, last; /* medians of the first and of the last third of the points */
	/* It is significant, and each third is further on than the one before by a share of the
	 * whole: no single step, nor a growth that is over. */
	bool steady;
	bool goes_on; /* enough for a trend that was steady once */
};

struct trend_judgement detect_trend_judge(const struct trend *t, double min_z);

/* A trend that is reported, and for how many points it has not gone on. */
struct trend_hold {
	bool holds;
	uint32_t n_without;
};

/* What follows of a point more. large: the growth is large enough to report. */
enum gs_detect_outcome detect_trend_decide(struct trend_hold *hold, const struct trend_judgement *j,
					   bool large);

/* The finding of a trend; score and limit are z. */
void detect_trend_report(const struct trend *t, const struct trend_judgement *j, double min_z,
			 uint64_t now_ns, struct gs_detect_finding *ret);

#endif
