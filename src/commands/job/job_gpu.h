/* The GPUs of jobs, for `gpuscope job`. */
#ifndef GS_JOBCMD_JOB_GPU_H
#define GS_JOBCMD_JOB_GPU_H

#include "core/base/err.h"
#include "model/node/job.h"
#include "model/node/job_usage.h"

struct job_gpu;

struct job_gpu_sum {         /* of one job */
	uint64_t mask, used; /* GPUs allocated or seen in use; those that were ever used */
	double util, sm, tensor, dram, memory_peak;
	uint64_t n_util, n_sm, n_tensor, n_dram;
	double energy_first[64], energy_last[64]; /* counters of each; 0 not read */
};

/* nvml: a path, or NULL for the usual library. */
int job_gpu_open(const char *nvml, struct job_gpu **ret_gpu, struct gs_err *err);
void job_gpu_close(struct job_gpu **gpu);
void job_gpu_read(struct job_gpu *gpu);
void job_gpu_add(const struct job_gpu *gpu, const struct gs_job *job, const uint32_t *pids,
		 size_t n_pids, struct job_gpu_sum *sum);
void job_gpu_usage(const struct job_gpu *gpu, const struct job_gpu_sum *sum,
		   struct gs_job_usage *usage);
const char *job_gpu_source(const struct job_gpu *gpu);

/* The GPUs as they were read last; NULL none. */
struct gs_gpu_snapshot;
const struct gs_gpu_snapshot *job_gpu_snapshot(const struct job_gpu *gpu);

#endif
