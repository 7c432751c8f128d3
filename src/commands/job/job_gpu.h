/* The GPUs of this machine, for `gpuscope job`. */
#ifndef GS_COMMANDS_JOB_JOB_GPU_H
#define GS_COMMANDS_JOB_JOB_GPU_H

#include "core/base/err.h"

struct job_gpu;

/* nvml: a path, or NULL for the usual library. */
int job_gpu_open(const char *nvml, struct job_gpu **ret_gpu, struct gs_err *err);
void job_gpu_close(struct job_gpu **gpu);
void job_gpu_read(struct job_gpu *gpu);
const char *job_gpu_source(const struct job_gpu *gpu);

/* The GPUs as they were read last; NULL none. */
struct gs_gpu_snapshot;
const struct gs_gpu_snapshot *job_gpu_snapshot(const struct job_gpu *gpu);

#endif
