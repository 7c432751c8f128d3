/*
 * The GPUs of one job, for the agent and for `gpuscope job` alike.
 *
 * A job holds the GPUs that its batch system gave it, and those on which its processes are. Each
 * reading stands for the time since the reading before, so a mean is weighted by time: readings
 * come when they can, and on a busy node some come late. A value that a GPU did not have at a
 * reading adds no time to its mean. Time in which the job did not hold a GPU is not of that job.
 *
 * A GPU that several jobs share counts to each of them: the driver does not divide its energy.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_GPU_USE_H
#define GS_ANALYSIS_JOB_ACCOUNTING_GPU_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/series/energy.h"
#include "core/base/map.h"
#include "model/node/gpu.h"
#include "model/node/job_usage.h"

#define GS_ACCOUNTING_GPU_USE_GPUS_MAX 64 /* of a node */

enum gs_accounting_gpu_use_value {
	GS_ACCOUNTING_GPU_USE_UTIL,
	GS_ACCOUNTING_GPU_USE_SM,
	GS_ACCOUNTING_GPU_USE_TENSOR,
	GS_ACCOUNTING_GPU_USE_DRAM,
	GS_ACCOUNTING_GPU_USE_VALUES
};

struct gs_accounting_gpu_use_sums { /* these only grow; begin as 0 */
	uint64_t held_ns, idle_ns;  /* of all GPUs: held, and of that at no work */
	uint64_t known_ns[GS_ACCOUNTING_GPU_USE_VALUES];
	double value_ns[GS_ACCOUNTING_GPU_USE_VALUES]; /* integral of the value over that time */
};

struct gs_accounting_gpu_use {                  /* begins as all 0 */
	struct gs_accounting_gpu_use_sums sums; /* over all its GPUs; only grow */
	uint64_t mask, seen, used; /* held now; ever; of those, ever at work or with a process */
	uint32_t n_now, n_idle; /* held now; of them, unused for as long as the reader asked for */
	int64_t memory_bytes;   /* of its processes on GPUs now; -1 unknown */
	double memory_ratio;    /* highest use of a GPU's memory */
	double joules;          /* only grows; NAN: no reading had a counter or a power */
	bool is_read;           /* at least once */
	uint64_t read_ns;
	struct gs_gpu_held {
		uint64_t since_ns, used_ns; /* held since; 0 not held */
		double joules;              /* of earlier times that it was held */
		struct gs_energy energy;    /* since then */
	} gpu[GS_ACCOUNTING_GPU_USE_GPUS_MAX];
};

/* One reading of all jobs. jobs: n_jobs of them, NULL for places without a job; allotted: by job,
 * what the batch system gave; job_of: pid -> job. gpus NULL: none could be read, and the time until
 * the next reading counts to no GPU. */
void gs_accounting_gpu_use_read(struct gs_accounting_gpu_use *const *jobs, const uint64_t *allotted,
				size_t n_jobs, const struct gs_map *job_of,
				const struct gs_gpu_snapshot *gpus, uint64_t now_ns,
				uint64_t idle_after_ns);

/* The mean of a value since before (NULL: since the job was first seen); NAN unknown. */
double gs_accounting_gpu_use_mean(const struct gs_accounting_gpu_use_sums *now,
				  const struct gs_accounting_gpu_use_sums *before,
				  enum gs_accounting_gpu_use_value which);

/* The GPU part of a job's usage since it was first seen: counts, means, memory, energy, masks and
 * the family. */
void gs_accounting_gpu_use_usage(const struct gs_accounting_gpu_use *gpus,
				 struct gs_job_usage *usage);

#endif
