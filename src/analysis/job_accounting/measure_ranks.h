/* One measurement (gpuscope job): which process is of which rank, and what each rank did. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_RANKS_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_RANKS_H

#include "analysis/job_accounting/measure_kernel.h"
#include "sources/host/taskstats.h"
#include "analysis/job_report/report.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct gs_accounting_measure_ranks;

int gs_accounting_measure_ranks_new(struct gs_accounting_measure_ranks **ret_ranks);
void gs_accounting_measure_ranks_free(struct gs_accounting_measure_ranks **ranks);

/* The process of this job is of this task; those that are of none are passed over. */
void gs_accounting_measure_ranks_note(struct gs_accounting_measure_ranks *ranks, uint32_t pid,
				      uint32_t job, const struct gs_job_task *task);

/* Processes whose rank has no row, as their job has too many. */
uint64_t gs_accounting_measure_ranks_left_out(const struct gs_accounting_measure_ranks *ranks);

/* Now and then: gs_accounting_measure_kernel_fold(), with the ranks of what has ended. */
void gs_accounting_measure_ranks_fold(struct gs_accounting_measure_ranks *ranks,
				      struct gs_accounting_measure_kernel *kernel);

/* Once a second: processes on GPUs, and without probes what the processes used so far. */
void gs_accounting_measure_ranks_look(struct gs_accounting_measure_ranks *ranks,
				      const struct gs_gpu_snapshot *gpus,
				      const struct gs_host_taskstats *host, uint64_t now_ns);

/* The ranks of the job's largest step into its report, with their imbalance. kernel: what was read
 * last, or NULL. 0 or -ENOMEM. */
int gs_accounting_measure_ranks_report(const struct gs_accounting_measure_ranks *ranks,
				       uint32_t job,
				       const struct gs_accounting_measure_kernel *kernel,
				       struct gs_job_report *report);

#endif
