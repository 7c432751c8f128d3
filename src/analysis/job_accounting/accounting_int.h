/* Among the files of account: the jobs, their processes, and what has been added up. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_ACCOUNTING_INT_H
#define GS_ANALYSIS_JOB_ACCOUNTING_ACCOUNTING_INT_H

#include "analysis/job_accounting/accounting.h"
#include "analysis/job_accounting/gpu_use.h"
#include "analysis/job_accounting/ranks.h"
#include "analysis/job_rows/rows.h"
#include "analysis/job_accounting/scan.h"
#include "analysis/job_accounting/window.h"
#include "core/base/map.h"
#include "sources/host/taskstats.h"
#include "sources/identity/job.h"

struct accounting_call {
	uint32_t id; /* GS_TASKSTATS_CALL() */
	bool shown;  /* once among the longest, always reported: a series that comes and goes would
			step back */
	uint64_t calls, errors, total_ns;
};

struct accounting_job {
	bool used;
	/* The last search that found a process of it: one that is counted, or one that only starts
	 * others (a holder). No other job gets its place while the last whole search found it. */
	uint64_t found_ns;
	struct gs_job_account account;    /* all that can be reported; calls is not used */
	struct gs_accounting_mark total;  /* now */
	struct gs_accounting_mark before; /* at the reading before */
	struct gs_accounting_window window;
	bool is_turn;                                         /* the window turns at this reading */
	struct gs_job_pace pace;                              /* in the window; with probes */
	int64_t anonymous_peak, cache_peak, reclaimable_peak; /* of its group; -1 unknown */
	struct gs_taskstats host_last; /* without probes: what was read before */
	uint32_t any_pid;              /* one that lives; 0 none */
	int64_t rss_bytes;             /* of its processes; -1 not read */
	struct accounting_call *calls; /* owned */
	uint32_t n_calls, room_calls;
	struct gs_accounting_ranks ranks;               /* owned */
	int64_t pressure_last_ns[GS_PRESSURE_COUNT][2]; /* negative: not read yet */
	struct gs_accounting_gpu_use gpus;
};

struct gs_accounting {
	struct gs_accounting_options options;
	char proc_root[256], cgroup_root[256];
	struct gs_rules *own_rules; /* owned; NULL when rules were lent */
	const struct gs_rules *rules;
	struct gs_jobs *jobs;
	struct gs_host_taskstats *host; /* without probes */
	struct gs_rows *rows;           /* with them */
	char why[256];
	int64_t machine_bytes;
	bool first_scan_done;
	bool is_counting; /* there was a job: one of host and rows is open */

	struct accounting_job *job; /* owned; n_places */
	uint32_t max_jobs;          /* that are proven; claims come on top */
	uint32_t n_places;
	struct gs_job_process *process; /* owned; of the last reading */
	uint32_t n_processes, room_processes;

	struct gs_map job_of;   /* pid -> job, of those that live */
	struct gs_map *scanned; /* the next one, during a search; else NULL */
	struct gs_accounting_scan scan;
	uint64_t scan_ns;              /* when the last whole search began; 0 none */
	struct gs_map left_out;        /* hash of a job's id -> 1 */
	struct gs_map claims_left_out; /* likewise */
	uint64_t ended[64];            /* hashes of the jobs that had a place last */
	uint64_t n_ended;
	struct gs_job_account_trouble trouble;
};

/* --- accounting_find.c --- */

/* Whose are the processes of this machine: new ones are followed. */
int accounting_scan(struct gs_accounting *a, uint64_t now_ns);

/* The job of a process, made when it is new; GS_ROWS_NO_JOB. */
uint32_t accounting_job_of(struct gs_accounting *a, uint32_t pid, uint64_t now_ns);

/* A place is given back: its job was reported, and has ended. */
void accounting_end_job(struct gs_accounting *a, struct accounting_job *j);

/* --- accounting_count.c --- */

/* The first job is there: begin to count, by probes or without them. */
int accounting_begin_counting(struct gs_accounting *a);

/* Add up what their processes did. */
int accounting_count(struct gs_accounting *a, struct gs_err *err);

/* --- accounting_rank.c --- */

/* The rank of a process of the job, as find_rank of rows.h. */
uint32_t accounting_find_rank(void *account, uint32_t job, uint32_t pid);

/* The ranks' processes on GPUs, for ns. */
void accounting_add_rank_gpus(struct gs_accounting *a, const struct gs_gpu_snapshot *gpus,
			      uint64_t now_ns);

/* A copy for the report of the job. 0 or -ENOMEM. */
int accounting_report_ranks(const struct accounting_job *j, struct gs_job_account *to);

/* --- accounting_gpu.c --- */

/* 0 or -ENOMEM. */
int accounting_gpus(struct gs_accounting *a, const struct gs_gpu_snapshot *gpus, uint64_t now_ns);

/* What grew since the last reading is added to sum, and last becomes now: a counter that was read
 * lower than before adds nothing. */
void accounting_add_growth(struct gs_taskstats *sum, struct gs_taskstats *last,
			   const struct gs_taskstats *now);

#endif
