/* One measurement (gpuscope job): which process is of which rank, and what each rank did. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_RANKS_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_RANKS_H

#include "analysis/job_rows/rows.h"
#include "sources/host/taskstats.h"
#include "analysis/job_report/report.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct gs_accounting_measure_ranks;

/* 0 or -ENOMEM. */
int gs_accounting_measure_ranks_new(struct gs_accounting_measure_ranks **ret_ranks);
void gs_accounting_measure_ranks_free(struct gs_accounting_measure_ranks **ranks);

/* The rank of the process of this job: index plus one, or one of the two values of rows.h. */
uint32_t gs_accounting_measure_ranks_find(struct gs_accounting_measure_ranks *ranks, uint32_t job,
					  const struct gs_job_task *task);

/* Without probes: the process of this job is of that rank from now on. */
void gs_accounting_measure_ranks_note(struct gs_accounting_measure_ranks *ranks, uint32_t pid,
				      uint32_t job, uint32_t rank);

/* With them: see add_ended in rows.h. */
void gs_accounting_measure_ranks_add_ended(struct gs_accounting_measure_ranks *ranks, uint32_t job,
					   uint32_t rank, const struct gs_taskstats *work);

/* Processes whose rank has no row, as their job has too many. */
uint64_t gs_accounting_measure_ranks_left_out(const struct gs_accounting_measure_ranks *ranks);

/* Once a second: processes on GPUs, and without probes what the processes used so far. Of rows and
 * host one is NULL. */
void gs_accounting_measure_ranks_sample(struct gs_accounting_measure_ranks *ranks,
					const struct gs_gpu_snapshot *gpus,
					const struct gs_rows *rows,
					const struct gs_host_taskstats *host, uint64_t now_ns);

/* The ranks of the job's largest step into its report, with their imbalance. rows: what was read
 * last, or NULL. 0 or -ENOMEM. */
int gs_accounting_measure_ranks_report(struct gs_accounting_measure_ranks *ranks, uint32_t job,
				       const struct gs_rows *rows, struct gs_job_report *report);

#endif
