/*
 * Jobs as families of Prometheus. Series carry the one label jobid; who and what a job is stands
 * in gpuscope_job_info, to be joined: sum by (user) (rate(x[5m]) * on (jobid) group_left (user)
 * gpuscope_job_info). It is not called job, for that is Prometheus's own label of the target, and
 * what is scraped under that name becomes exported_job.
 */
#ifndef GS_OUTPUT_METRICS_JOB_H
#define GS_OUTPUT_METRICS_JOB_H

#include "model/node/job_account.h"
#include "output/metrics/metrics.h"

enum gs_metrics_job_names {
	GS_METRICS_JOBS_NATIVE = 0,
	GS_METRICS_JOBS_HPC_MONITOR =
		1, /* hpc_monitor_ and the names of ebpf-hpc-monitor's metrics */
	GS_METRICS_JOBS_BOTH = 2,
};

/* All of them (may be NULL: nothing was read yet). gpus: for the labels of their GPUs; may be NULL.
 */
void gs_metrics_jobs(struct gs_metrics *p, const struct gs_job_accounts *accounts,
		     const struct gs_gpu_snapshot *gpus, enum gs_metrics_job_names names);

#endif
