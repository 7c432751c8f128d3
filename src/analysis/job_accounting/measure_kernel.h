/* One measurement (gpuscope job): the kernel's counters of the processes of jobs. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_KERNEL_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_KERNEL_H

#include <stdbool.h>

#include "core/base/err.h"
#include "analysis/job_report/report.h"

struct gs_accounting_measure_kernel;

/* families: enum gs_taskstats_family, ored. Negative with the reason: not permitted, or not supported by
 * this kernel. */
int gs_accounting_measure_kernel_open(uint32_t families,
				      struct gs_accounting_measure_kernel **ret_kernel,
				      struct gs_err *err);
void gs_accounting_measure_kernel_close(struct gs_accounting_measure_kernel **kernel);

/* The process belongs to this job; its children follow by themselves. It is followed from the next
 * gs_accounting_measure_kernel_flush() on: all of a search at once, for each time the kernel looks at every task. */
void gs_accounting_measure_kernel_follow(struct gs_accounting_measure_kernel *kernel, uint32_t pid,
					 uint32_t job);

/* The process starts those of this job and is none of them: its children count, it does not. */
void gs_accounting_measure_kernel_follow_holder(struct gs_accounting_measure_kernel *kernel,
						uint32_t pid, uint32_t job);

/* Follow those, too. The moment (boot clock) from which they count; 0: there were none. */
uint64_t gs_accounting_measure_kernel_flush(struct gs_accounting_measure_kernel *kernel);

/* Read the counters of all. 0, or a negative errno. */
int gs_accounting_measure_kernel_read(struct gs_accounting_measure_kernel *kernel);

/* Once in a while: what processes did that have ended is added up here, and the kernel has their
 * room for others. It has room for some thousands. rank_of: pid -> rank; add
 * gets what such a process did whose rank, or that of its nearest ancestor, stands there. */
struct gs_map;
typedef void gs_accounting_measure_kernel_add(void *ctx, uint64_t rank,
					      const struct gs_taskstats *work);
void gs_accounting_measure_kernel_fold(struct gs_accounting_measure_kernel *kernel,
				       const struct gs_map *rank_of,
				       gs_accounting_measure_kernel_add *add, void *ctx);

/* The moment (boot clock) that the last reading is of; 0 before the first. */
uint64_t gs_accounting_measure_kernel_read_ns(const struct gs_accounting_measure_kernel *kernel);

/* Since when (boot clock) the threads that a job has were counted at the last reading, in the mean:
 * on a busy machine it takes a while until all are followed. 0: their times are not counted. */
uint64_t gs_accounting_measure_kernel_since_ns(const struct gs_accounting_measure_kernel *kernel,
					       uint32_t job);

/* What was read, of one job: its usage, with the families known, its calls, tables and the number
 * of processes seen. */
void gs_accounting_measure_kernel_take(const struct gs_accounting_measure_kernel *kernel,
				       uint32_t job, struct gs_job_report *report);

/* Bytes of requests to devices that have not ended, as far as was seen. */
uint64_t gs_accounting_measure_kernel_open_bytes(const struct gs_accounting_measure_kernel *kernel);

/* The same of the processes that the last reading has, which were not given to add yet. */
void gs_accounting_measure_kernel_add_by(const struct gs_accounting_measure_kernel *kernel,
					 const struct gs_map *rank_of,
					 gs_accounting_measure_kernel_add *add, void *ctx);

/* What was lost, in words; "" nothing. And what this kernel cannot count. */
void gs_accounting_measure_kernel_losses(const struct gs_accounting_measure_kernel *kernel,
					 char *out, size_t bytes);
const char *gs_accounting_measure_kernel_missing(const struct gs_accounting_measure_kernel *kernel);

#endif
