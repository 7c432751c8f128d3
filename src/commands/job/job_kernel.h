/* The kernel's counters of the processes of jobs, for `gpuscope job`. */
#ifndef GS_COMMANDS_JOB_JOB_KERNEL_H
#define GS_COMMANDS_JOB_JOB_KERNEL_H

#include <stdbool.h>

#include "core/base/err.h"
#include "analysis/job_report/report.h"

struct job_kernel;

/* families: enum gs_taskstats_family, ored. Negative with the reason: not permitted, or not supported by
 * this kernel. */
int job_kernel_open(uint32_t families, struct job_kernel **ret_kernel, struct gs_err *err);
void job_kernel_close(struct job_kernel **kernel);

/* The process belongs to this job; its children follow by themselves. It is followed from the next
 * job_kernel_flush() on: all of a search at once, for each time the kernel looks at every task. */
void job_kernel_follow(struct job_kernel *kernel, uint32_t pid, uint32_t job);

/* The process starts those of this job and is none of them: its children count, it does not. */
void job_kernel_follow_holder(struct job_kernel *kernel, uint32_t pid, uint32_t job);

/* Follow those, too. The moment (boot clock) from which they count; 0: there were none. */
uint64_t job_kernel_flush(struct job_kernel *kernel);

/* Read the counters of all. 0, or a negative errno. */
int job_kernel_read(struct job_kernel *kernel);

/* Once in a while: what processes did that have ended is added up here, and the kernel has their
 * room for others. It has room for some thousands. rank_of: pid -> rank; add
 * gets what such a process did whose rank, or that of its nearest ancestor, stands there. */
struct gs_map;
typedef void job_kernel_add(void *ctx, uint64_t rank, const struct gs_taskstats *work);
void job_kernel_fold(struct job_kernel *kernel, const struct gs_map *rank_of, job_kernel_add *add,
		     void *ctx);

/* The moment (boot clock) that the last reading is of; 0 before the first. */
uint64_t job_kernel_read_ns(const struct job_kernel *kernel);

/* Since when (boot clock) the threads that a job has were counted at the last reading, in the mean:
 * on a busy machine it takes a while until all are followed. 0: their times are not counted. */
uint64_t job_kernel_since_ns(const struct job_kernel *kernel, uint32_t job);

/* What was read, of one job: its usage, with the families known, its calls, tables and the number
 * of processes seen. */
void job_kernel_take(const struct job_kernel *kernel, uint32_t job, struct gs_job_report *report);

/* Bytes of requests to devices that have not ended, as far as was seen. */
uint64_t job_kernel_open_bytes(const struct job_kernel *kernel);

/* The same of the processes that the last reading has, which were not given to add yet. */
void job_kernel_add_by(const struct job_kernel *kernel, const struct gs_map *rank_of,
		       job_kernel_add *add, void *ctx);

/* What was lost, in words; "" nothing. And what this kernel cannot tell. */
void job_kernel_losses(const struct job_kernel *kernel, char *out, size_t bytes);
const char *job_kernel_missing(const struct job_kernel *kernel);

#endif
