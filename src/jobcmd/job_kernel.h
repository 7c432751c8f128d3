/* The kernel's counters of the processes of jobs, for `gpuscope job`. */
#ifndef GS_JOBCMD_JOB_KERNEL_H
#define GS_JOBCMD_JOB_KERNEL_H

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

/* The process starts those of this job and is none of them: its children count, it does not. */
void job_kernel_follow_holder(struct job_kernel *kernel, uint32_t pid, uint32_t job);

/* Read the counters of all. 0, or a negative errno. */
int job_kernel_read(struct job_kernel *kernel);

/* What was read, of one job: its usage, with the families known, its calls, tables and the number
 * of processes seen. */
void job_kernel_take(const struct job_kernel *kernel, uint32_t job, struct gs_job_report *report);

/* Bytes of requests to devices that have not ended, as far as was seen. */
uint64_t job_kernel_open_bytes(const struct job_kernel *kernel);

/* Adds each process's counters to sums[i], where of says that it, or the nearest of its ancestors
 * that of knows, is i. */
struct gs_map;
void job_kernel_add_by(const struct job_kernel *kernel, const struct gs_map *of,
		       struct gs_work *sums, size_t n_sums);

/* What was lost, in words; "" nothing. And what this kernel cannot tell. */
void job_kernel_losses(const struct job_kernel *kernel, char *out, size_t bytes);
const char *job_kernel_missing(const struct job_kernel *kernel);

#endif
