/*
 * The ranks of one job: the tasks of its steps (Slurm's, or what an MPI launcher set), each with
 * all that it started. One table for the agent and for `gpuscope job`.
 *
 * Every rank that runs on this node is counted, up to GS_RANKS_MAX: a job may start thousands of
 * steps, and each has ranks of its own. What is above that is for the owner to count as a loss; it
 * still counts to the job.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_RANKS_H
#define GS_ANALYSIS_JOB_ACCOUNTING_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/job_rows/rows.h"
#include "analysis/job_report/report.h"
#include "core/base/map.h"
#include "model/node/gpu.h"
#include "model/node/job.h"
#include "model/node/job_account.h"

#define GS_RANKS_MAX 16384

struct gs_accounting_rank_ended { /* processes whose rows were given back */
	struct gs_taskstats work; /* sums of these */
	uint32_t n_processes;
};

struct gs_accounting_ranks {            /* begins as all 0 */
	struct gs_job_rank_count *rank; /* owned; in the order in which they were seen first */
	struct gs_accounting_rank_ended *ended; /* owned; by rank */
	uint32_t n_ranks, capacity;             /* of both arrays */
	struct gs_map by_task;                  /* hash of step and rank -> index */
};

/* Frees what it holds; it is as at its begin then. */
void gs_accounting_ranks_fini(struct gs_accounting_ranks *ranks);

/* The rank of this task, made when it is new: its index plus one. 0: there is no room. */
uint32_t gs_accounting_ranks_find(struct gs_accounting_ranks *ranks,
				  const struct gs_job_task *task);

/* rank: its index plus one. A process of it ended, and its row was given back. */
void gs_accounting_ranks_add_ended(struct gs_accounting_ranks *ranks, uint32_t rank,
				   const struct gs_taskstats *work);

/* The ranks' work and processes as of the last reading of the job's rows; what was counted once
 * stays. 0 or -ENOMEM. */
int gs_accounting_ranks_count(struct gs_accounting_ranks *ranks, const struct gs_rows *rows,
			      uint32_t job);

/* Each counter that is larger now. */
void gs_accounting_raise_work(struct gs_taskstats *work, const struct gs_taskstats *now);

/* Its process was so on a GPU, for ns. */
void gs_accounting_rank_add_gpu(struct gs_job_rank_count *rank,
				const struct gs_gpu_process *process, uint64_t ns);

/* Ranks of the step that has most of them (of equals that of the rank seen last), by number, into
 * the report, with their imbalance. 0 or -ENOMEM. */
int gs_accounting_ranks_report(const struct gs_job_rank_count *ranks, size_t n_ranks,
			       struct gs_job_report *report);

#endif
