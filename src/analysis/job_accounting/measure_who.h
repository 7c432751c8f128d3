/* Which processes `gpuscope job` was asked for, and whose job each is. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_WHO_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_WHO_H

#include <stdbool.h>

#include "core/base/err.h"
#include "analysis/job_accounting/measure.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct accounting_who;

/* The options are borrowed until close. A negative errno with err. */
int accounting_who_open(const struct gs_accounting_measure_options *options,
			struct accounting_who **ret_who, struct gs_err *err);
void accounting_who_close(struct accounting_who **who);

/* A new search begins. */
void accounting_who_scan(struct accounting_who *who);

/* Whether the process is of what was asked for, and the job that it counts to. */
bool accounting_who_is(struct accounting_who *who, uint32_t pid, struct gs_job *ret_job);

/* Which task of a step the process is. */
void accounting_who_task(struct accounting_who *who, uint32_t pid, struct gs_job_task *ret_task);

/* Which of the ids and pids that were asked for had processes: a bit each. */
uint64_t accounting_who_found(const struct accounting_who *who);

/* What a tree's root is called with, as it was when it was found; "" of other jobs. Lent. */
const char *accounting_who_command(const struct accounting_who *who, const struct gs_job *job);

/* What was learned of the job since: names, limits. */
void accounting_who_refresh(struct accounting_who *who, struct gs_job *job);

/* Wait for what was asked of Slurm, for wait_ns at most: names and limits belong into the report of
 * a short measurement too. */
void accounting_who_settle(struct accounting_who *who, uint64_t wait_ns);

/* The path of the job's own cgroup below the mount, when a process of it is known; NULL. Lent until
 * the next call. */
const char *accounting_who_cgroup(struct accounting_who *who, const struct gs_job *job);
const char *accounting_who_cgroup_of(struct accounting_who *who, uint32_t pid);

/* A set of gs_job_unanswered() in words, with how many questions Slurm left unanswered; "" when there is nothing. */
void accounting_who_losses(const struct accounting_who *who, unsigned unknown, char *out,
			   size_t bytes);

/* As gs_jobs_slurm_version(). */
void accounting_who_slurm_version(const struct accounting_who *who, char *out, size_t bytes);

/* Which GPUs there are, for those that jobs were given; NULL: not known. */
void accounting_who_gpus(struct accounting_who *who, const struct gs_gpu_snapshot *gpus);

#endif
