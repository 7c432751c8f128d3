/* Between the files of comparisons. */
#ifndef GS_ANALYSIS_JOB_REPORT_COMPARE_INT_H
#define GS_ANALYSIS_JOB_REPORT_COMPARE_INT_H

#include "analysis/job_report/compare.h"
#include "core/text/pen.h"

/* Groups that people look for, by ebpf-hpc-monitor's limits. X(id, key, words) */
#define GS_JOB_PATTERNS(X)                                                                         \
	X(EFFICIENT, "efficient", "score above 70")                                                \
	X(POOR, "poor", "score below 30")                                                          \
	X(HIGH_CPU, "high_cpu", "more than 80 % CPU")                                              \
	X(HIGH_IO, "high_io", "more than 50 % I/O")                                                \
	X(BALANCED, "balanced", "30 to 80 % CPU and 10 to 40 % I/O")                               \
	X(UNDERUSED, "underutilized", "less than 30 % CPU and less than 20 % I/O")

enum gs_job_report_pattern {
#define GS_JOB_PATTERN_ID(id, ...) GS_JOB_PATTERN_##id,
	GS_JOB_PATTERNS(GS_JOB_PATTERN_ID)
#undef GS_JOB_PATTERN_ID
		GS_JOB_PATTERN_COUNT
};

const char *gs_job_report_pattern_key(unsigned pattern);
bool gs_job_report_row_is(const struct gs_job_report_row *row, unsigned pattern);

/* What follows for all jobs together: text i, false past the last one. */
bool gs_job_report_compare_advice(const struct gs_job_report_comparison *c, size_t i, char *out,
				  size_t bytes);

/* Room for one more job, all zero; NULL: no memory. */
struct gs_job_report_row *gs_job_report_new_row(struct gs_job_report_comparison *c);

#endif
