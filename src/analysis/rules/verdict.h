/*
 * What a job is short of and how well it uses what it has: class, score and advice, each with the
 * figures that it rests on. Pure: values in, values out; thresholds and rules come from a
 * configuration, built-in defaults otherwise.
 */
#ifndef GS_ANALYSIS_RULES_VERDICT_H
#define GS_ANALYSIS_RULES_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/text/verdict.h"

/* The figures of a job over an interval, all normalised: by core-second, by second, or as a share.
 * NAN where not known: a rule that needs it does not match. X(id, key, help) */
#define GS_FIGURES(X)                                                                                 \
	X(DURATION, "duration_seconds", "Length of the interval.")                                    \
	X(CORES, "cores", "Processors that the job may use.")                                         \
	X(CPU, "cpu_percent", "Time on CPU, percent of its cores' time.")                             \
	X(CPU_DEMAND, "cpu_demand_percent",                                                           \
	  "Time on CPU or in the run queue, percent of its cores' time.")                             \
	X(CPUS, "cpus_busy", "Mean number of busy processors.")                                       \
	X(RUNQUEUE, "runqueue_percent",                                                               \
	  "Time in the run queue, percent of its threads' busy time.")                                \
	X(WAIT, "wait_percent",                                                                       \
	  "Time for which its cores had none of its threads to run, percent.")                        \
	X(TAKEN, "cpu_taken_percent",                                                                 \
	  "CPU time that other processes took from it, percent of what it could have used.")          \
	X(IDLE, "idle_percent", "Time for which its processes slept or waited for work, percent.")    \
	X(COMPUTE, "compute_percent", "Time computing, percent of its threads' time.")                \
	X(ALONE, "compute_alone_percent",                                                             \
	  "Time computing if it never had to wait for a processor (lower bound), percent.")           \
	X(IO, "io_percent",                                                                           \
	  "Time blocked on disks and file systems, percent of its threads' time.")                    \
	X(NET, "net_percent", "Time blocked on the network, percent of its threads' time.")           \
	X(LOCK, "lock_percent", "Time blocked on locks, percent of its threads' time.")               \
	X(GPU_SYNC, "gpu_sync_percent", "Time blocked on the GPU, percent of its threads' time.")     \
	X(INPUT, "input_percent",                                                                     \
	  "Time for which computing processes waited for data from their own workers, percent.")      \
	X(SLEEP, "sleep_percent", "Time asleep on purpose, percent of its threads' time.")            \
	X(SWITCHES, "context_switches_per_core_second", "Context switches per core and second.")      \
	X(FORCED, "forced_switches_per_core_second",                                                  \
	  "Involuntary context switches per core and second.")                                        \
	X(SYSCALLS, "syscalls_per_core_second", "System calls per core and second.")                  \
	X(READ_BPS, "read_bytes_per_second", "Bytes read from files.")                                \
	X(WRITE_BPS, "write_bytes_per_second", "Bytes written to files.")                             \
	X(IO_SIZE, "io_bytes_per_operation", "Mean size of file reads and writes.")                   \
	X(NET_BPS, "net_bytes_per_second", "Bytes sent and received over the network.")               \
	X(NET_OPS, "net_operations", "Number of calls that sent or received.")                        \
	X(MEMORY, "memory_usage",                                                                     \
	  "Peak memory in use, percent of the memory allocated (without a limit: of the machine's).") \
	X(MEMORY_HELD, "memory_held_percent",                                                         \
	  "Peak memory in use with page cache, percent of the memory allocated.")                     \
	X(MEMORY_USED, "memory_used_bytes", "Peak memory in use, without page cache.")                \
	X(MEMORY_ANONYMOUS, "memory_anonymous_bytes", "Peak anonymous memory of its cgroup.")         \
	X(MEMORY_CACHE, "memory_cache_bytes", "Peak page cache of its cgroup.")                       \
	X(MEMORY_RECLAIMABLE, "memory_reclaimable_bytes",                                             \
	  "Peak memory of its cgroup that the kernel could reclaim.")                                 \
	X(MEMORY_ALLOCATED, "memory_allocated_bytes",                                                 \
	  "Memory allocated to the job: its request or its cgroup's limit.")                          \
	X(FAULTS_MINOR, "minor_faults_per_second", "Minor page faults: served without a disk.")       \
	X(FAULTS_MAJOR, "major_faults_per_second", "Major page faults: waited for a disk.")           \
	X(CPU_PRESSURE, "cpu_pressure_percent",                                                       \
	  "Time in which at least one task stalled for a CPU (PSI some), percent.")                   \
	X(MEMORY_PRESSURE, "memory_pressure_percent",                                                 \
	  "Time in which at least one task stalled for memory (PSI some), percent.")                  \
	X(IO_PRESSURE, "io_pressure_percent",                                                         \
	  "Time in which at least one task stalled for I/O (PSI some), percent.")                     \
	X(THROTTLED, "cpu_throttled_percent",                                                         \
	  "Periods of its cgroup's CPU quota in which it was throttled, percent.")                    \
	X(THROTTLED_S, "cpu_throttled_seconds", "Total time throttled by the CPU quota.")             \
	X(OOM_KILLS, "oom_kills", "Processes killed for lack of memory (OOM).")                       \
	X(RETRANSMITS, "retransmits_per_second", "TCP segments retransmitted.")                       \
	X(N_GPUS, "gpus", "GPUs allocated.")                                                          \
	X(GPUS_IDLE, "gpus_idle", "GPUs allocated and never used.")                                   \
	X(GPU, "gpu_percent", "Mean utilisation of its GPUs.")                                        \
	X(GPU_MEMORY, "gpu_memory_percent", "Peak memory in use on its GPUs, percent.")               \
	X(SM, "sm_percent", "Mean SM activity, percent.")                                             \
	X(TENSOR, "tensor_percent", "Mean tensor pipe activity, percent.")                            \
	X(DRAM, "dram_percent", "Mean use of device memory bandwidth, percent.")                      \
	X(GPU_ENERGY, "gpu_energy_joules", "Energy consumed by its GPUs.")                            \
	X(LAUNCHES, "launches_per_second", "Kernel launches per GPU.")                                \
	X(NCCL, "collective_percent", "Host time in collectives, percent of the interval.")           \
	X(IMBALANCE, "rank_imbalance_percent",                                                        \
	  "Work of the slowest rank above the mean of all ranks, percent.")                           \
	X(SLOWEST_RANK, "slowest_rank", "Rank with the most work.")                                   \
	X(RUN_TIME, "run_seconds", "Time since the job started.")                                     \
	X(TIME_LIMIT, "time_limit_percent", "Run time, percent of the requested time limit.")

enum gs_figure {
#define GS_FIGURE_ID(id, ...) GS_FIGURE_##id,
	GS_FIGURES(GS_FIGURE_ID)
#undef GS_FIGURE_ID
		GS_FIGURE_COUNT
};

struct gs_figures {
	double v[GS_FIGURE_COUNT]; /* NAN: not known */
};

const char *gs_figure_key(unsigned figure);        /* "" no such figure */
int gs_figure_by_key(const char *key);             /* -1: none */
void gs_figures_clear(struct gs_figures *figures); /* all NAN */

/* What shows the calls of a job. */
#define GS_VERDICT_ITS_CALLS "gpuscope trace -p PID"

#define GS_VERDICT_EVIDENCE_MAX 6
#define GS_VERDICT_ADVICE_MAX   16

/* Of the score: what was used of what there was earns up to 100 points, what went wrong takes some
 * away. */
struct gs_verdict_part {
	const char *name;  /* what is judged; static */
	double points;     /* earned; below 0: taken away */
	double max_points; /* the most that it could have been, with the same sign */
	char because[160]; /* the figure that says so */
};

struct gs_advice {
	char rule[64];     /* name of the rule */
	char fact[256];    /* with the number */
	char cause[256];   /* likely cause */
	char next[256];    /* exact directive to use next time */
	char benefit[160]; /* what that would bring; "" not known */
};

struct gs_verdict {
	char job_class[48]; /* "CPU-bound", ...; a custom rule's own name */
	double confidence;  /* 0..1: how far the deciding figures are from their thresholds */
	/* Figures that decided the class, a sentence each. */
	char evidence[GS_VERDICT_EVIDENCE_MAX][160];
	size_t n_evidence;
	double score;                    /* 0..100; NAN: nothing is known */
	struct gs_verdict_part part[12]; /* what the score consists of */
	size_t n_parts;
	struct gs_advice advice[GS_VERDICT_ADVICE_MAX]; /* in the order of the rules */
	size_t n_advice;

	/* The same in short: what is slow and why. */
	bool is_custom;         /* the class is of a rule of the user */
	bool is_unknown;        /* no cause is named: too short, or nothing stands out */
	const char *class_name; /* "io_bound", as of traces; "custom" */
	char title[96];         /* the same for people */
	char why[256];
	char next[256];      /* what to do next */
	const char *command; /* that shows more */
	double share;        /* of wall time, 0..1; NAN: it is not by time */
};

struct gs_rules; /* thresholds, weights, custom rules, advice */

/* The built-in ones. NULL: no memory. */
struct gs_rules *gs_rules_new(void);
void gs_rules_free(struct gs_rules **rules);

/* A threshold of the rules, for listings. */
struct gs_threshold {
	const char *key;  /* of the configuration: "cpu_bound_threshold" */
	double value;     /* the built-in one */
	double min, max;  /* what can be set */
	const char *help; /* for people */
};
/* NULL: there are no more; lent for ever. */
const struct gs_threshold *gs_threshold_get(size_t i);

/* Set one by its key. -ENOENT, -ERANGE. */
int gs_rules_set(struct gs_rules *rules, const char *key, double value, struct gs_err *err);

/* A rule: `condition` over figures ("memory_usage > 80 && cpu_percent < 20"), which names a class.
 * Later ones come before earlier ones and before the built-in classes. -EINVAL, or -ENOSPC: too
 * many; with err. */
int gs_rules_add_class(struct gs_rules *rules, const char *name, const char *condition,
		       struct gs_err *err);

/* Advice: what is between braces in a text is an expression over figures, with a form after a
 * colon: {memory_used_bytes*1.2:bytes}, {cores*cpu_percent/100:ceil}, {cpu_percent:1}. -EINVAL with
 * the place of the error; -ENOSPC: too many. Rules of the same name replace earlier ones; condition
 * "false" ends one. */
int gs_rules_add_advice(struct gs_rules *rules, const char *name, const char *condition,
			const char *fact, const char *cause, const char *next, const char *benefit,
			struct gs_err *err);

/* Class, score and advice by these rules. Any thread. */
void gs_verdict_of(const struct gs_rules *rules, const struct gs_figures *figures,
		   struct gs_verdict *ret_verdict);

/* As every command writes it. */
struct gs_verdict_text gs_verdict_text_of(const struct gs_verdict *verdict);

#endif
