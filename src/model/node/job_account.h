/*
 * What the jobs of a node have used since they were first seen: running totals that only grow, and
 * how they are now. Plain values, made by analysis/job_accounting, written by output/metrics and shown by output/tui.
 */
#ifndef GS_MODEL_NODE_JOB_ACCOUNT_H
#define GS_MODEL_NODE_JOB_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/node/job.h"
#include "model/node/job_usage.h"

enum gs_pressure {
	GS_PRESSURE_CPU = 0,
	GS_PRESSURE_MEMORY = 1,
	GS_PRESSURE_IO = 2,
	GS_PRESSURE_COUNT
};

#define GS_JOB_FIGURES_MAX 64 /* room for every figure of analysis/rules/verdict.h */

struct gs_job_call_count { /* a system call, by its name */
	char name[48];
	uint64_t calls, errors, total_ns; /* total_ns: of all calls; errors: calls that failed */
};

struct gs_job_rank_count { /* a task of a step, with all that it started */
	char step[24];
	int32_t rank;             /* -1 unknown */
	bool launched;            /* by an MPI launcher or torchrun, not by srun alone */
	uint32_t n_processes;     /* seen so far */
	struct gs_taskstats work; /* sums of its processes, ended ones too */
	/* Its processes on GPUs: time in which their share was known, and its integral. */
	uint64_t gpu_known_ns;
	double gpu_value_ns;
	int64_t gpu_memory_peak_bytes; /* -1 unknown */
};

/* Numbers that are not known are -1, ratios and rates NAN. */
struct gs_job_account {
	struct gs_job job;          /* who it is */
	uint64_t first_ns, last_ns; /* boot clock: seen first, and alive last */
	uint32_t n_processes;       /* now; 0: it has ended */
	uint32_t known;             /* 1 << enum gs_job_family, ored */

	/* Since it was first seen; each only grows. */
	struct gs_taskstats work;
	struct gs_job_pace pace;                   /* with probes; else all 0 */
	int64_t pressure_ns[GS_PRESSURE_COUNT][2]; /* some of its tasks, all of them stood still */
	uint64_t gpu_ns, gpu_busy_ns, gpu_idle_ns; /* of all its GPUs: held, at work, never used */
	uint64_t gpu_seen_mask, gpu_used_mask;     /* held at any time; of these, ever at work */
	double gpu_memory_ratio;                   /* highest use of a GPU's memory; NAN */
	double energy_joules;                      /* of its GPUs; NAN unknown */
	/* Means over the time in which each was known; NAN. */
	double util_ratio, sm_ratio, tensor_ratio, dram_ratio;
	struct gs_job_call_count *calls; /* owned; by time, longest first */
	uint32_t n_calls;
	struct gs_job_rank_count *ranks; /* owned; of all steps; none without probes */
	uint32_t n_ranks;

	/* Now. */
	double cores; /* that it may use */
	int64_t memory_bytes, memory_peak_bytes, memory_limit_bytes;
	uint64_t gpu_mask;         /* its GPUs, by index in the snapshot of sources/gpu */
	int32_t n_gpus, gpus_idle; /* idle: held, and unused for as long as was asked for */
	int64_t gpu_memory_bytes;
	double gpu_ratio; /* mean over its GPUs, since the reading before, as the following */
	double cpus;      /* processors at work for it */
	double io_bps;    /* read and written, of files */
	double net_bps;   /* sent and received */

	/* Of the last half minute, unless jobs.window says otherwise. */
	char job_class[48]; /* "" not known yet */
	double confidence, score;
	double cpu_percent, io_percent, wait_percent, net_percent, memory_percent;
	double figure[GS_JOB_FIGURES_MAX]; /* by enum gs_figure; all of them when the class is known
					    */
};

#define GS_JOB_PROCESSES_MAX 4096

struct gs_job_process { /* one that lives, and where the time of its threads went so far */
	uint32_t pid;
	uint64_t start_ns; /* boot clock */
	uint64_t part_ns[GS_TASKSTATS_PARTS];
};

/* What went wrong or was left out since the start. */
struct gs_job_account_trouble {
	uint64_t jobs_left_out;    /* distinct ones, for the configured maximum */
	uint64_t claims_left_out;  /* likewise, of jobs that are only claimed */
	uint64_t not_followed;     /* processes that the probes had no room for */
	uint64_t lost;             /* events, rows and calls that the probes lost */
	uint64_t ranks_left_out;   /* processes of ranks above GS_RANKS_MAX */
	uint64_t failed_reads;     /* of /proc and of groups */
	uint64_t questions_failed; /* to Slurm: failed, late, or not to be read */
};

struct gs_job_accounts {  /* immutable once handed out */
	uint64_t time_ns; /* boot clock */
	bool probes;      /* counted by the kernel; else read out of procfs */
	char why[256];    /* why there are no probes, or what they cannot see; "" */
	uint64_t read_ns; /* how long reading took */
	struct gs_job_account_trouble trouble; /* what could not be read or kept, so far */
	/* Jobs that run of which it is not known, as Slurm was asked and has not answered. */
	uint32_t unanswered[GS_JOB_ASKED_COUNT];
	struct gs_job_account *account; /* owned; by id */
	uint32_t n_accounts;
	struct gs_job_process *process; /* owned; of these jobs, with probes; by pid */
	uint32_t n_processes;
};

/* With all that hangs off it; NULL inside: nothing. */
void gs_job_accounts_free(struct gs_job_accounts **accounts);

/* Of n, by pid; NULL: it is not among them. */
const struct gs_job_process *gs_job_process_of(const struct gs_job_process *processes, uint32_t n,
					       uint32_t pid, uint64_t start_ns);

/* A deep copy; NULL: no memory. */
struct gs_job_accounts *gs_job_accounts_copy(const struct gs_job_accounts *accounts);

/* "slurm", "pod", ...; "" for other numbers. */
const char *gs_job_kind_name(unsigned kind);

/* "cpu", "memory", "io". */
const char *gs_pressure_name(unsigned pressure);

#endif
