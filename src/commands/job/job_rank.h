/* The ranks of jobs, for `gpuscope job`: which process is of which, and what each rank did. */
#ifndef GS_COMMANDS_JOB_JOB_RANK_H
#define GS_COMMANDS_JOB_JOB_RANK_H

#include "commands/job/job_kernel.h"
#include "sources/host/taskstats.h"
#include "analysis/job_report/report.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct job_ranks;

int job_ranks_new(struct job_ranks **ret_ranks);
void job_ranks_free(struct job_ranks **ranks);

/* The process of this job is of this task; those that are of none are passed over. */
void job_ranks_note(struct job_ranks *ranks, uint32_t pid, uint32_t job,
		    const struct gs_job_task *task);

/* Processes whose rank has no row, as their job has too many. */
uint64_t job_ranks_left_out(const struct job_ranks *ranks);

/* Now and then: job_kernel_fold(), with the ranks of what has ended. */
void job_ranks_fold(struct job_ranks *ranks, struct job_kernel *kernel);

/* Once a second: processes on GPUs, and without probes what the processes used so far. */
void job_ranks_poll(struct job_ranks *ranks, const struct gs_gpu_snapshot *gpus,
		    const struct gs_host_taskstats *host, uint64_t now_ns);

/* The ranks of the job's largest step into its report, with their imbalance. kernel: what was read
 * last, or NULL. 0 or -ENOMEM. */
int job_ranks_report(const struct job_ranks *ranks, uint32_t job, const struct job_kernel *kernel,
		     struct gs_job_report *report);

#endif
