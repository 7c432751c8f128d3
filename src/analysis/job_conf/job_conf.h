/*
 * The configuration of `gpuscope job`: thresholds, rules, output. The keys are those of
 * ebpf-hpc-monitor's README and of the file it ships, so that either is read as it is; sections of
 * it that this command does not use are reported by line.
 */
#ifndef GS_ANALYSIS_JOB_CONF_JOB_CONF_H
#define GS_ANALYSIS_JOB_CONF_JOB_CONF_H

#include "core/base/buf.h"
#include "core/base/conf.h"
#include "core/base/err.h"
#include "analysis/rules/verdict.h"

#define GS_JOB_THRESHOLDS_MAX 32
#define GS_JOB_FOREIGN_MAX    24

struct gs_job_conf {
	double threshold[GS_JOB_THRESHOLDS_MAX]; /* by gs_threshold_get() */
	double alias[5];                         /* other names of some; NAN not given */
	struct gs_conf_rows custom, advice;      /* rules of the user: classes, advice */
	int filter;                              /* 0 all, then as the choices of ebpf.filter */
	/* probes: of system calls, the scheduler, I/O, the network */
	bool ebpf, probes[4], probe_cuda, probe_mpi;
	int64_t poll_ms;
	int format;                        /* index of json, csv, yaml, table */
	bool syscalls, advise;             /* the report has system calls, advice */
	int64_t precision;                 /* digits; -1 as they are */
	int64_t refresh_s, jobs_displayed; /* of live views: jobs_displayed: at most */
	int64_t slurm_cache_s, slurm_timeout_s, max_jobs; /* max_jobs: without Slurm, at most */
	bool slurm_fallback; /* without Slurm pods, units and users take the place of jobs */
	uint32_t foreign[GS_JOB_FOREIGN_MAX]; /* lines of keys of others */
};

extern const char *const gs_job_filters[];

/* The table of keys; made at the first call, since thresholds are a table of their own. */
const struct gs_conf_schema *gs_job_conf_schema(void);

/* The rules that a configuration (already read) makes. NULL: no memory. */
struct gs_rules *gs_job_conf_rules(const struct gs_job_conf *conf);

/* The names of keys that were found and are not read, with their lines, in one line; "" none. */
void gs_job_conf_foreign(const struct gs_job_conf *conf, char *out, size_t bytes);

#endif
