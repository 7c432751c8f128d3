/* The kernel's counters of the processes of jobs, for `gpuscope job`. */
#ifndef GS_CMD_JOB_KERNEL_H
#define GS_CMD_JOB_KERNEL_H

#include <stdbool.h>

#include "base/err.h"
#include "job/report.h"

struct job_kernel;

/* filter: as --filter. probes: of the configuration, in its order. Negative with the reason: not
 * permitted, or not supported by this kernel. */
int job_kernel_open(const char *filter, const bool probes[4], struct job_kernel **ret_kernel,
		    struct gs_err *err);
void job_kernel_close(struct job_kernel **kernel);

/* The process belongs to this job; its children follow by themselves. */
void job_kernel_follow(struct job_kernel *kernel, uint32_t pid, uint32_t job);

/* Read the counters of all. 0, or a negative errno. */
int job_kernel_read(struct job_kernel *kernel);

/* What was read, of one job: its usage, with the families known, its calls, tables and the number
 * of processes seen. */
void job_kernel_take(const struct job_kernel *kernel, uint32_t job, struct gs_job_report *report);

/* Bytes of requests to devices that have not ended, as far as was seen. */
uint64_t job_kernel_open_bytes(const struct job_kernel *kernel);

/* What was lost, in words; "" nothing. And what this kernel cannot tell. */
void job_kernel_losses(const struct job_kernel *kernel, char *out, size_t bytes);
const char *job_kernel_missing(const struct job_kernel *kernel);

#endif
