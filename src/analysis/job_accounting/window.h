/*
 * The last part of the totals of a job, for the agent and for `gpuscope job --alerts` alike: what it
 * does now, and not in the mean since its start. A mark of the totals is made every half window.
 * What is judged came since the mark before the last one: in half a window at least and a whole one
 * at most, once there are two.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_WINDOW_H
#define GS_ANALYSIS_JOB_ACCOUNTING_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/job_accounting/gpu_use.h"
#include "model/node/job_usage.h"
#include "sources/host/pressure.h"
#include "sources/host/taskstats.h"

struct gs_accounting_mark { /* the totals at a moment */
	uint64_t time_ns;
	struct gs_taskstats work;              /* so far, as are all totals here */
	struct gs_accounting_gpu_use_sums gpu; /* of its GPUs */
	struct gs_host_cgroup group;           /* of its quota; what is negative is not known */
	struct gs_host_stalls stalls;          /* of its group */
	double launches, nccl_ns;              /* by GPU; by process. NAN unknown */
};

struct gs_accounting_window {
	struct gs_accounting_mark base, last; /* the mark before the last, and the last */
};

/* Where totals and windows begin: nothing is known yet. */
struct gs_accounting_mark gs_accounting_mark_none(uint64_t time_ns);

/* Whether half a window is over since the last mark. */
bool gs_accounting_window_is_due(const struct gs_accounting_window *window, uint64_t now_ns,
				 uint64_t window_ns);

/* Make the next mark, of the totals as they are now. */
void gs_accounting_window_mark(struct gs_accounting_window *window,
			       const struct gs_accounting_mark *now);

/* What came in the window, into the usage: elapsed time, work, means of GPUs, quota, stalls,
 * launches and NCCL. All else, the pace too, is the caller's. */
void gs_accounting_window_usage(struct gs_accounting_window *window,
				const struct gs_accounting_mark *now, struct gs_job_usage *usage);

/* Quota and OOM kills, of what was read of the job's group before and after. */
void gs_accounting_use_of_group(const struct gs_host_cgroup *before,
				const struct gs_host_cgroup *now, struct gs_job_usage *usage);

/* What part of the time between two readings some task was stalled; NAN unknown. */
void gs_accounting_stalled_shares(const struct gs_host_stalls *before,
				  const struct gs_host_stalls *now, uint64_t elapsed_ns,
				  double ret_ratio[GS_STALL_COUNT]);

#endif
