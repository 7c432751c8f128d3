/*
 * Comparison of reports of jobs: ours and those of ebpf-hpc-monitor. Robust statistics only: a
 * single wild job moves neither a median nor what counts as an outlier. Nothing is made up: what a
 * report does not have is left out of the statistics that need it.
 */
#ifndef GS_ANALYSIS_JOB_REPORT_COMPARE_H
#define GS_ANALYSIS_JOB_REPORT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "analysis/job_report/report.h"

/* What is compared. X(id, key, title, from which deviation on it can be an outlier) */
#define GS_JOB_COMPARED(X)                                                                         \
	X(SCORE, "efficiency_score", "Score", 5)                                                   \
	X(CPU, "cpu_percent", "CPU %", 5)                                                          \
	X(IO, "io_percent", "I/O %", 5)                                                            \
	X(WAIT, "wait_percent", "Wait %", 5)                                                       \
	X(NET, "net_percent", "Net %", 5)                                                          \
	X(MEMORY, "memory_usage", "Memory %", 5)                                                   \
	X(GPU, "gpu_percent", "GPU %", 5)                                                          \
	X(RANKS, "rank_imbalance_percent", "Ranks %", 10)                                          \
	X(SWITCHES, "context_switches_per_second", "Switches/s", 100)                              \
	X(SYSCALLS, "syscalls_per_second", "Calls/s", 100)                                         \
	X(DURATION, "duration_seconds", "Seconds", 1)

enum gs_job_report_compared {
#define GS_JOB_COMPARED_ID(id, ...) GS_JOB_COMPARED_##id,
	GS_JOB_COMPARED(GS_JOB_COMPARED_ID)
#undef GS_JOB_COMPARED_ID
		GS_JOB_COMPARED_COUNT
};

struct gs_job_report_row { /* one job of one report */
	/* As the report has them; "" not there. */
	char file[256], id[64], user[64], name[128], job_class[64];
	double v[GS_JOB_COMPARED_COUNT]; /* NAN: the report does not have it */
	double cores;                    /* that it could use; NAN */
	double start_s;                  /* of the measurement, time of day; NAN */
};

struct gs_job_report_stat {
	size_t n; /* jobs that know it; below 1 all others are NAN */
	/* mad: median absolute deviation; stddev: standard deviation */
	double median, mad, mean, stddev, min, max;
};

struct gs_job_report_outlier {
	size_t row;                       /* index in rows */
	enum gs_job_report_compared what; /* which of its values */
	double score;                     /* modified z: (value - median) / (1.4826 MAD) */
};

struct gs_job_report_trend { /* of runs of one name by one user, in the order of time */
	size_t first_row, n; /* index in rows; runs */
	double slope;        /* points of score from one run to the next, the median of all pairs */
	double probability;  /* that chance alone makes such an order (Mann and Kendall) */
	int direction;       /* 1 improving, -1 declining, 0 neither */
};

struct gs_job_report_user {
	char name[64];                      /* the user's */
	size_t n;                           /* jobs */
	double median_score, wasted_core_s; /* NAN: no job has one */
};

#define GS_JOB_CLASSES_MAX 256 /* different ones; further ones count as "other" */

struct gs_job_report_class {
	char name[64]; /* the class */
	size_t n;      /* jobs */
};

struct gs_job_report_comparison {
	struct gs_job_report_row *rows; /* owned; in the order given */
	size_t n_rows, capacity;        /* rows in use, and how many have room */
	struct gs_job_report_stat stat[GS_JOB_COMPARED_COUNT]; /* by enum gs_job_report_compared */
	struct gs_job_report_outlier *outliers;                /* owned; the farthest first */
	size_t n_outliers;
	struct gs_job_report_trend *trends; /* owned */
	size_t n_trends;
	struct gs_job_report_class *classes; /* owned; the most common first */
	size_t n_classes;
	struct gs_job_report_user *users; /* owned; the most wasted first */
	size_t n_users;
};

#define GS_JOB_COMPARE_MAX 100000 /* jobs in all */

/* Frees what it holds; it is all zero then, as it has to be at its begin. */
void gs_job_report_comparison_fini(struct gs_job_report_comparison *c);

/* Add the jobs of a report. name is for messages and the column "file". -EINVAL with
 * FILE:LINE:COLUMN and what is wrong. -E2BIG: more than GS_JOB_COMPARE_MAX; of a file also -EFBIG:
 * above 64 MiB, or the error of reading it. */
int gs_job_report_compare_text(struct gs_job_report_comparison *c, const char *name,
			       const char *text, size_t bytes, struct gs_err *err);
int gs_job_report_compare_file(struct gs_job_report_comparison *c, const char *path,
			       struct gs_err *err);

/* The same of reports that are no files: a measurement of this program, or what another machine
 * sent (a text that it sent is one for gs_job_report_compare_text()). -E2BIG, -ENOMEM. */
int gs_job_report_compare_session(struct gs_job_report_comparison *c, const char *name,
				  const struct gs_job_report_session *session);

/* Statistics, outliers, trends and users of what was added. -ENOMEM. */
int gs_job_report_compare_finish(struct gs_job_report_comparison *c);

/* Table, JSON or HTML. 0, or the first error of writing. */
int gs_job_report_compare_write(FILE *out, const struct gs_job_report_comparison *c,
				const struct gs_job_report_style *style);

/* For programs, for people; "" no such value. */
const char *gs_job_report_compared_key(unsigned what);
const char *gs_job_report_compared_title(unsigned what);

#endif
