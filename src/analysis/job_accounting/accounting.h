/*
 * Running totals of every job of this node, for those who watch for days: `gpuscope agent` and the
 * jobs of `gpuscope top`. Finds the jobs by itself, follows their processes with the kernel's
 * counters where probes are permitted and reads procfs where they are not, and adds up. A total
 * never steps back: not when processes end, not when a job is requeued, not when a reading was
 * torn.
 *
 * One thread at a time.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_ACCOUNTING_H
#define GS_ANALYSIS_JOB_ACCOUNTING_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/node/gpu.h"
#include "model/node/job_account.h"
#include "analysis/rules/verdict.h"

#define GS_ACCOUNTING_JOBS_MAX 256

struct gs_accounting_options {
	size_t size;                  /* of this struct */
	uint32_t kinds;               /* 1 << GS_JOB_..., ored; 0: jobs of Slurm and pods */
	uint32_t max_jobs;            /* at once; 0: GS_ACCOUNTING_JOBS_MAX, which is the most */
	bool probes;                  /* count in the kernel, where that is permitted */
	bool ask;                     /* ask Slurm's controller for names and limits */
	uint32_t n_calls;             /* system calls reported by name, of each job; 0 none */
	uint64_t linger_ns;           /* how long an ended job is still reported; 0: 5 min */
	uint64_t window_ns;           /* what class and score are of: the last so many; 0: 30 s */
	uint64_t gpu_idle_ns;         /* a GPU unused for so long is idle; 0: 1 min */
	const char *proc_root;        /* NULL: "/proc"; another folder only without probes */
	const char *cgroup_root;      /* NULL: "/sys/fs/cgroup" */
	const struct gs_rules *rules; /* lent; NULL: the built-in ones */
	uint32_t trusted_uid;         /* as in sources/identity/job.h */
};

struct gs_accounting;

/* 0 also without probes: the totals say so. -ENOMEM, or the error of gs_jobs_new(). */
int gs_accounting_new(const struct gs_accounting_options *options,
		      struct gs_accounting **ret_account, struct gs_err *err);
void gs_accounting_free(struct gs_accounting **account);

/* Look for new processes and read everything. gpus: as they are now, or NULL. The totals are the
 * caller's. -ENOMEM or what reading the probes failed with. */
int gs_accounting_read(struct gs_accounting *account, const struct gs_gpu_snapshot *gpus,
		       struct gs_job_accounts **ret_accounts, struct gs_err *err);

#endif
