/*
 * One measurement of chosen jobs, for `gpuscope job`: finds the processes of the jobs asked for,
 * again and again, and adds up what they do from its beginning to its end. Processes, kernel
 * counters, ranks and GPUs are counted by the same code as the agent's totals (accounting.h).
 *
 * One thread at a time.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "analysis/job_conf/job_conf.h"
#include "analysis/job_report/report.h"

#define GS_ACCOUNTING_SELECT_MAX 64

enum gs_accounting_selection {
	GS_ACCOUNTING_OF_ALL,
	GS_ACCOUNTING_OF_IDS,
	GS_ACCOUNTING_OF_USER,
	GS_ACCOUNTING_OF_CGROUP,
	GS_ACCOUNTING_OF_PIDS
};

struct gs_accounting_measure_options {           /* all lent until the measurement is closed */
	enum gs_accounting_selection by;         /* which of the fields below choose */
	char *ids[GS_ACCOUNTING_SELECT_MAX];     /* as users write them: job_id.h */
	uint32_t pids[GS_ACCOUNTING_SELECT_MAX]; /* n_select of them */
	size_t n_select;                         /* of ids or pids */
	const char *user, *cgroup;               /* a name; a path below the mount */
	uint32_t uid;                            /* of the user */
	bool is_recorder;        /* it is there before its job: the first seconds count */
	uint32_t parent_pid;     /* all that this process starts is of the job; 0 none */
	const char *nvml;        /* a path; NULL: the usual library */
	char filter[32];         /* as it was given; the three below are what it means */
	uint32_t families;       /* enum gs_taskstats_family, ored */
	bool cuda, mpi;          /* those calls are counted */
	bool live;               /* only for the report: it is shown while it is made */
	struct gs_job_conf conf; /* thresholds, intervals, rules */
};

struct gs_accounting_measure;

/* Probes that cannot be had do not fail it: the report says what is not known. A negative errno
 * with err. */
int gs_accounting_measure_open(const struct gs_accounting_measure_options *options,
			       struct gs_accounting_measure **ret_measure, struct gs_err *err);
void gs_accounting_measure_close(struct gs_accounting_measure **measure);

/* Look now; call it every conf.poll_ms. */
void gs_accounting_measure_poll(struct gs_accounting_measure *measure);

/* How long to wait until the next look, so that looking stays cheap. */
uint64_t gs_accounting_measure_pause_ns(const struct gs_accounting_measure *measure);

/* The GPUs as they were read last; lent until the next look. NULL: there are none. */
const struct gs_gpu_snapshot *
gs_accounting_measure_gpus(const struct gs_accounting_measure *measure);

/* Which of the ids and pids that were asked for had processes: a bit each. */
uint64_t gs_accounting_measure_found(const struct gs_accounting_measure *measure);

size_t gs_accounting_measure_alive(const struct gs_accounting_measure *measure); /* processes */
size_t gs_accounting_measure_jobs(const struct gs_accounting_measure *measure);  /* jobs seen */

/* The measurement is over: what was asked of Slurm may still come, for a moment. */
void gs_accounting_measure_settle(struct gs_accounting_measure *measure);

/* What was learned so far, judged by the rules. The session is the caller's. 0, -ENOMEM, or the
 * error of gs_rows_read(). */
int gs_accounting_measure_report(struct gs_accounting_measure *measure,
				 const struct gs_rules *rules,
				 struct gs_job_report_session *ret_session);

/* The same of what the jobs do now: figures and verdicts are of the last half to whole window, when
 * this is called twice a window at least. Memory, ranks and all else are since the beginning. */
int gs_accounting_measure_recent(struct gs_accounting_measure *measure,
				 const struct gs_rules *rules, uint64_t window_ns,
				 struct gs_job_report_session *ret_session);

#endif
