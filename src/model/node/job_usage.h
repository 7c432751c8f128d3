/*
 * What a job used over an interval, as far as it could be learned: input of its figures. Made from
 * the kernel's counters or from procfs; which it was is said family by family.
 */
#ifndef GS_MODEL_NODE_JOB_USAGE_H
#define GS_MODEL_NODE_JOB_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/trace/taskstats.h"

/* What is learned together. X(id, key) */
#define GS_JOB_FAMILIES(X)                                                                         \
	X(TIME, "time")         /* on CPU, and off it */                                           \
	X(RUNQUEUE, "runqueue") /* of the time off CPU: waiting for one */                         \
	X(CAUSES, "waits")      /* of the rest: what for */                                        \
	X(SWITCHES, "switches")                                                                    \
	X(SYSCALLS, "syscalls")                                                                    \
	X(IO, "io")                                                                                \
	X(NET, "network")                                                                          \
	X(FAULTS, "faults")                                                                        \
	X(MEMORY, "memory")                                                                        \
	X(PRESSURE, "pressure") /* stalls for lack of processors, memory, I/O */                   \
	X(GPU, "gpu")                                                                              \
	X(CUDA, "cuda") /* launches, time in NCCL */                                               \
	X(MPI, "mpi")   /* calls of MPI: time, bytes, peers */

enum gs_job_family {
#define GS_JOB_FAMILY_ID(id, key) GS_JOB_KNOWS_##id,
	GS_JOB_FAMILIES(GS_JOB_FAMILY_ID)
#undef GS_JOB_FAMILY_ID
		GS_JOB_KNOWS_COUNT
};

/* What families of figures the kernel's counters give: families is of enum gs_taskstats_family, the
 * answer of enum gs_job_family. */
uint32_t gs_job_families_of(uint32_t families);

/* Time in which some task stalled for lack of it; full: all that were not idle did. */
enum gs_stall {
	GS_STALL_CPU_SOME,
	GS_STALL_MEMORY_SOME,
	GS_STALL_MEMORY_FULL,
	GS_STALL_IO_SOME,
	GS_STALL_IO_FULL,
	GS_STALL_COUNT
};

/* Sums over the processes of a job that did something or waited for something in particular: a
 * launcher that waits for the end, and threads that are parked, decide nothing. Each process counts
 * as at least one thread for as long as it lived. All only grow while the processes live. */
struct gs_job_pace {
	uint64_t n;         /* processes that count */
	uint64_t n_all;     /* all that were asked, */
	uint64_t n_related; /* and of them those of which it is known whom they have started */
	uint64_t wall_ns;   /* of those that count */
	uint64_t active_ns; /* of that: not asleep and not parked */
	/* Of that, each with its part of the waits for a processor. */
	uint64_t cpu_ns, disk_ns, network_ns, lock_ns, gpu_ns;
	uint64_t alone_ns; /* computing, without those waits, and all others as long as they were */
	/* Of processes that computed, and had data from workers that they had started: their time
	 * in all, and what of it they waited for that data. */
	uint64_t fed_wall_ns, input_ns;
	/* Of all that were asked: at work, or waiting for peers that answer; and the longest time for
	 * which one was followed. */
	uint64_t moved_ns, longest_ns;
	bool naps; /* threads of one sleep and wake up again, or it is not known */
};

struct gs_job_pace_process { /* one process of a job, and what is known of those around it */
	const struct gs_taskstats *work;      /* since it was followed; borrowed */
	const struct gs_taskstats_lead *lead; /* NULL: not known */
	uint64_t elapsed_ns;                  /* the most that it can have lived, followed */
	bool knows_net;                       /* bytes and calls of sockets were counted */
	bool knows_related;                   /* these are known: */
	bool has_workers;                     /* it has children that live about as long as it */
	bool is_worker;                       /* it is such a child */
	uint64_t workers_ns;                  /* what those were at work */
	bool naps; /* its threads sleep and wake up again, at least once a second, or it is not known */
	uint64_t others_ns; /* what the rest of its job worked; UINT64_MAX: not known */
};

/* Adds what this process did, if it sets the pace of its job; it counts in n_all in any case. */
void gs_job_pace_add(struct gs_job_pace *pace, const struct gs_job_pace_process *process);

/* What threads of the process did other than wait for locks and the network: on CPU, waiting for
 * one, for disks or a GPU, in ns. */
uint64_t gs_job_pace_busy_ns(const struct gs_taskstats *process);

/* The same without the time in which they could run and others did. */
uint64_t gs_job_pace_worked_ns(const struct gs_taskstats *process);

struct gs_job_pace_share { /* of the wall time of those that count, 0..1; idle: the rest */
	/* On CPU; waiting for disks, peers, locks, GPUs. */
	double idle, compute, disk, network, lock, gpu;
	double alone; /* computing at least, if it never had to wait for a processor */
	double input; /* of fed_wall_ns, waiting for data of own workers; 0 also without any */
};
/* All 0 but idle, 1, where no process counts. Where next to nothing moves, waits for locks are idle, too:
 * they are waits for work. */
void gs_job_pace_shares(const struct gs_job_pace *pace, struct gs_job_pace_share *ret_share);

struct gs_job_usage {
	uint64_t elapsed_ns;
	double cores;               /* that it may use; NAN unknown */
	struct gs_taskstats work;   /* sums over its processes, in the interval */
	struct gs_job_pace pace;    /* n_all 0: only the sums in work are known */
	uint32_t known;             /* 1 << enum gs_job_family, ored */
	bool io_rows;               /* the kernel side counted I/O by file system */
	bool sched_rows;            /* it counted wake-ups, migrations and each wait for a CPU */
	int64_t memory_peak_bytes;  /* -1 unknown */
	int64_t memory_limit_bytes; /* allocated; -1 unknown or without limit */
	/* Of its group, highest; -1 unknown. */
	int64_t memory_anonymous_bytes, memory_cache_bytes, memory_reclaimable_bytes;
	int64_t machine_bytes; /* memory of the machine; -1 unknown */
	/* By the quota of its group, in the interval: periods with something to run, of them those
	 * in which tasks were stopped, and for how long in all. 0 periods: no quota, or unknown. */
	uint64_t quota_periods, throttled_periods, throttled_ns;
	double pressure_ratio[GS_STALL_COUNT]; /* of the interval; NAN unknown */
	double n_gpus, gpus_idle;              /* these and the following: NAN unknown */
	double gpu_ratio, gpu_memory_ratio, sm_ratio, tensor_ratio, dram_ratio;
	double energy_joules; /* of its GPUs, in the interval */
	uint64_t gpu_mask;    /* which they are, by index in the snapshot; idle_mask: never used */
	uint64_t gpu_idle_mask;
	double launches; /* kernel launches in the interval, by GPU */
	double nccl_ratio, imbalance_ratio;
	double slowest_rank;   /* its number */
	double run_s, limit_s; /* since its start; asked for */
};

#endif
