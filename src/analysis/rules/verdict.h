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
#define GS_FIGURES(X)                                                                                \
	X(DURATION, "duration_seconds", "Length of the interval.")                                   \
	X(CORES, "cores", "Processors that the job may use.")                                        \
	X(CPU, "cpu_percent", "Time on CPU, of all its cores' time.")                                \
	X(CPU_DEMAND, "cpu_demand_percent", "Time on CPU or waiting for one, of all its cores'.")    \
	X(CPUS, "cpus_busy", "Processors at work for it, mean.")                                     \
	X(RUNQUEUE, "runqueue_percent", "Time waiting for a CPU, of its threads' busy time.")        \
	X(WAIT, "wait_percent", "Time that its cores had nothing of it to run.")                     \
	X(TAKEN, "cpu_taken_percent", "Of the processors it could have used, those others had.")     \
	X(IDLE, "idle_percent", "Time that its processes slept or were parked.")                     \
	X(COMPUTE, "compute_percent", "Time computing, of its threads' time.")                       \
	X(ALONE, "compute_alone_percent",                                                            \
	  "Time computing at least, if it never had to wait for a processor.")                       \
	X(IO, "io_percent", "Time blocked on disks and file systems, of its threads' time.")         \
	X(NET, "net_percent", "Time blocked on the network, of its threads' time.")                  \
	X(LOCK, "lock_percent", "Time blocked on locks, of its threads' time.")                      \
	X(GPU_SYNC, "gpu_sync_percent", "Time blocked on the GPU, of its threads' time.")            \
	X(INPUT, "input_percent",                                                                    \
	  "Time that processes which compute waited for data of their own workers.")                 \
	X(SLEEP, "sleep_percent", "Time asleep on purpose, of its threads' time.")                   \
	X(SWITCHES, "context_switches_per_core_second", "Switches, by core and second.")             \
	X(FORCED, "forced_switches_per_core_second", "Switches against its will.")                   \
	X(SYSCALLS, "syscalls_per_core_second", "System calls, by core and second.")                 \
	X(READ_BPS, "read_bytes_per_second", "Bytes read from files.")                               \
	X(WRITE_BPS, "write_bytes_per_second", "Bytes written to files.")                            \
	X(IO_SIZE, "io_bytes_per_operation", "Mean size of reads and writes of files.")              \
	X(NET_BPS, "net_bytes_per_second", "Bytes sent and received.")                               \
	X(NET_OPS, "net_operations", "Calls that sent or received, in all.")                         \
	X(MEMORY, "memory_usage",                                                                    \
	  "Highest memory used, percent of what was allocated, of the machine's where nothing was.") \
	X(MEMORY_HELD, "memory_held_percent",                                                        \
	  "Highest memory with cached files, percent of what was allocated.")                        \
	X(MEMORY_USED, "memory_used_bytes", "Highest memory needed: page cache is not.")             \
	X(MEMORY_ANONYMOUS, "memory_anonymous_bytes", "Highest of its group: no file behind it.")    \
	X(MEMORY_CACHE, "memory_cache_bytes", "Highest of its group: cached pages of files.")        \
	X(MEMORY_RECLAIMABLE, "memory_reclaimable_bytes", "Highest that could be taken back.")       \
	X(MEMORY_ALLOCATED, "memory_allocated_bytes", "Memory that was asked for.")                  \
	X(FAULTS_MINOR, "minor_faults_per_second", "Page faults that waited for no disk.")           \
	X(FAULTS_MAJOR, "major_faults_per_second", "Page faults that waited for a disk.")            \
	X(CPU_PRESSURE, "cpu_pressure_percent", "Time in which a task of it stalled for a CPU.")     \
	X(MEMORY_PRESSURE, "memory_pressure_percent", "Time in which a task stalled for memory.")    \
	X(IO_PRESSURE, "io_pressure_percent", "Time in which a task of it stalled for I/O.")         \
	X(THROTTLED, "cpu_throttled_percent",                                                        \
	  "Periods of its cgroup's CPU quota in which tasks were stopped, percent.")                 \
	X(THROTTLED_S, "cpu_throttled_seconds", "Time that tasks were stopped by it, in all.")       \
	X(OOM_KILLS, "oom_kills", "Processes that the kernel killed for want of memory.")            \
	X(RETRANSMITS, "retransmits_per_second", "Segments of TCP sent again.")                      \
	X(N_GPUS, "gpus", "GPUs allocated.")                                                         \
	X(GPUS_IDLE, "gpus_idle", "GPUs allocated and never used.")                                  \
	X(GPU, "gpu_percent", "Utilisation of its GPUs, mean.")                                      \
	X(GPU_MEMORY, "gpu_memory_percent", "Highest memory of its GPUs used, percent.")             \
	X(SM, "sm_percent", "SMs active, mean.")                                                     \
	X(TENSOR, "tensor_percent", "Tensor pipes active, mean.")                                    \
	X(DRAM, "dram_percent", "Bandwidth of device memory used, mean.")                            \
	X(GPU_ENERGY, "gpu_energy_joules", "Energy of its GPUs, in all.")                            \
	X(LAUNCHES, "launches_per_second", "Kernel launches, by GPU.")                               \
	X(NCCL, "collective_percent", "Host time in collectives, of the interval.")                  \
	X(IMBALANCE, "rank_imbalance_percent", "How far the slowest rank is above the mean.")        \
	X(SLOWEST_RANK, "slowest_rank", "Number of the rank with most to do.")                       \
	X(RUN_TIME, "run_seconds", "Time since the job began.")                                      \
	X(TIME_LIMIT, "time_limit_percent", "Run time, of the time asked for.")

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
