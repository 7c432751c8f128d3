/* Which processes `gpuscope job` was asked for, and whose job each is. */
#ifndef GS_COMMANDS_JOB_JOB_WHO_H
#define GS_COMMANDS_JOB_JOB_WHO_H

#include <stdbool.h>

#include "core/base/err.h"
#include "commands/job/job.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct job_who;

int job_who_open(const struct job_options *options, struct job_who **ret_who, struct gs_err *err);
void job_who_close(struct job_who **who);

/* A new search begins. */
void job_who_scan(struct job_who *who);

/* Whether the process is of what was asked for, and the job that it counts to. */
bool job_who_is(struct job_who *who, uint32_t pid, struct gs_job *ret_job);

/* Which task of a step the process is. */
void job_who_task(struct job_who *who, uint32_t pid, struct gs_job_task *ret_task);

/* Which of the ids and pids that were asked for had processes: a bit each. */
uint64_t job_who_found(const struct job_who *who);

/* What a tree's root is called with, as it was when it was found; "" of other jobs. Lent. */
const char *job_who_command(const struct job_who *who, const struct gs_job *job);

/* What was learned of the job since: names, limits. */
void job_who_refresh(struct job_who *who, struct gs_job *job);

/* Wait for what was asked of Slurm, for wait_ns at most: names and limits belong into the report of
 * a short measurement too. */
void job_who_settle(struct job_who *who, uint64_t wait_ns);

/* The path of the job's own cgroup below the mount, when a process of it is known; NULL. Lent until
 * the next call. */
const char *job_who_cgroup(struct job_who *who, const struct gs_job *job);
const char *job_who_cgroup_of(struct job_who *who, uint32_t pid);

/* A set of gs_job_unanswered() in words, with how many questions Slurm left unanswered; "" when there is nothing. */
void job_who_losses(const struct job_who *who, unsigned unknown, char *out, size_t bytes);

void job_who_slurm_version(const struct job_who *who, char *out, size_t bytes);

void job_who_gpus(struct job_who *who, const struct gs_gpu_snapshot *gpus);

#endif
