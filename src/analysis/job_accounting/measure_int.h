/* Among the files of one measurement: the jobs that are watched, and what counts them. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_INT_H
#define GS_ANALYSIS_JOB_ACCOUNTING_MEASURE_INT_H

#include "analysis/job_accounting/gpu_use.h"
#include "analysis/job_accounting/measure.h"
#include "analysis/job_accounting/measure_gpu.h"
#include "analysis/job_accounting/measure_ranks.h"
#include "analysis/job_accounting/measure_who.h"
#include "analysis/job_rows/rows.h"
#include "analysis/job_accounting/scan.h"
#include "analysis/job_accounting/window.h"
#include "core/base/map.h"
#include "sources/host/pressure.h"
#include "sources/host/taskstats.h"
#include "sources/launches/launches.h"

struct accounting_member { /* a job that is watched */
	struct gs_job job;
	struct gs_host_cgroup first, last;
	struct gs_host_stalls stall_first, stall_last;
	uint64_t stall_from_ns, stall_ns; /* between both */
	bool has_cgroup, seen_alive;
	bool is_limited;  /* limits were read, of a group that may hold others too */
	uint32_t any_pid; /* whose cgroup is read */
	char *groups;     /* owned; its /proc/PID/cgroup, for when it is gone; NULL: none */
	int64_t cgroup_peak, anonymous_peak, cache_peak, reclaimable_peak; /* -1 unknown */
	struct gs_accounting_gpu_use gpu;
	struct gs_accounting_window window;
	uint64_t start_ns, last_alive_ns; /* boot clock */
};

struct gs_accounting_measure {
	const struct gs_accounting_measure_options *options;
	struct gs_host_taskstats *work;
	struct accounting_who *who;
	struct accounting_gpu_reader *gpu;
	struct gs_launches *launches; /* of CUDA and MPI; NULL: not wanted */
	struct gs_accounting_measure_ranks *ranks;
	struct gs_rows *rows; /* NULL: no probes, why_no_rows has the reason */
	char why_no_rows[256];
	char slurm_version[32]; /* at the end */
	struct accounting_member member[GS_HOST_TASKSTATS_GROUPS];
	size_t n_members;
	struct gs_accounting_scan scan;
	uint64_t start_ns, scan_ns, group_ns, look_cost_ns, last_ns;
	int64_t start_wall_ns;
	uint64_t n_jobs_full;
	struct gs_host_stalls stall_first; /* of the machine */
	struct gs_map holders; /* pid -> nothing: slurmstepds that are followed, not counted */
	struct gs_map asked;   /* without probes: pid -> its job << 32 | times its rank was asked */
	bool first_scan_done;
};

/* --- measure.c --- */

/* Reads limits, memory, throttling, OOM kills and pressure of each job's cgroup as they are now.
 * Of a cgroup that is gone the last reading is kept. */
void accounting_measure_read_cgroups(struct gs_accounting_measure *m);

/* --- measure_report.c --- */

/* Families of figures that are asked for: 1 << enum gs_job_family, ored. */
uint32_t accounting_wanted_families(const struct gs_accounting_measure_options *options);

#endif
