/* Between the files of jobs. */
#ifndef GS_OUTPUT_METRICS_JOB_INT_H
#define GS_OUTPUT_METRICS_JOB_INT_H

#include "output/metrics/job.h"

/* The names that ebpf-hpc-monitor gives its metrics (its JSON keys), after hpc_monitor_. */
void gs_metrics_jobs_hpc_monitor(struct gs_metrics *p, const struct gs_job_accounts *accounts);

static inline bool gs_metrics_job_knows(const struct gs_job_account *a, enum gs_job_family family)
{
	return a->known >> family & 1;
}

#endif
