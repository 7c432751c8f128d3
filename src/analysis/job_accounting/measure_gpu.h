/* The GPUs of this machine, for `gpuscope job`. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_GPU_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_GPU_H

#include "core/base/err.h"

struct accounting_gpu_reader;

/* nvml: a path, or NULL for the usual library. -ENOMEM, or the error of gs_gpu_open() with err. */
int accounting_gpu_reader_open(const char *nvml, struct accounting_gpu_reader **ret_gpu,
			       struct gs_err *err);
void accounting_gpu_reader_close(struct accounting_gpu_reader **gpu);
void accounting_gpu_reader_read(struct accounting_gpu_reader *gpu);
const char *accounting_gpu_reader_source(const struct accounting_gpu_reader *gpu);

/* The GPUs as they were read last; NULL none. */
struct gs_gpu_snapshot;
const struct gs_gpu_snapshot *
accounting_gpu_reader_snapshot(const struct accounting_gpu_reader *gpu);

#endif
