/*
 * A summary: plain values, made by pipeline/aggregate and rendered by output/report. Everything
 * hangs off one allocation family and is freed by gs_summary_free(); strings are owned by the
 * summary, and "" when unknown.
 *
 * Fields that many have: comm: name of a process or thread as in /proc/PID/comm; layer: enum
 * gs_layer; name, function, path; calls, errors and failed: of calls those that failed; launches,
 * copies, allocs, collectives, others, received_calls, allocations, frees, blocks, count, n: how
 * many; unsized: calls whose bytes are not known; ns_pid: as the process numbers itself;
 * parent_pid, uid, exe, cmdline (scrubbed); device: as CUDA numbers it for the process; functions:
 * of that process or thread.
 */
#ifndef GS_MODEL_SUMMARY_SUMMARY_H
#define GS_MODEL_SUMMARY_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "model/summary/account.h"
#include "model/summary/collectives.h"
#include "model/summary/hang.h"
#include "model/summary/python.h"
#include "model/summary/step.h"

/* One function, in one thread, in one process or over all. */
struct gs_function_stats {
	uint16_t layer;      /* enum gs_layer */
	uint16_t func_class; /* enum gs_func_class */
	const char *name;
	uint64_t calls;
	uint64_t errors;
	uint64_t n_timed; /* of the calls: those whose time is known, to which the times belong */
	uint64_t total_ns;
	uint64_t mean_ns;
	uint64_t p50_ns, p95_ns, p99_ns; /* off by GS_HIST_ERROR_PCT at most */
	uint64_t max_ns;
	uint64_t bytes;  /* of calls that succeeded */
	uint64_t inner;  /* further entries from inside a call that is counted */
	uint8_t stepped; /* the kernel single-stepped its probes, which is part of the times */
	uint8_t partial; /* calls were let pass, only counted or not seen, to keep --max-overhead */
};

struct gs_function_list {
	struct gs_function_stats *items; /* by layer, then by total time, most first */
	size_t n;
};

struct gs_thread_summary {
	uint32_t tid;
	const char *comm;
	struct gs_function_list functions;
};

struct gs_process_summary {
	uint32_t pid;
	uint32_t ns_pid;
	uint32_t parent_pid;
	uint32_t uid;
	const char *comm;
	const char *exe;
	const char *cmdline;
	const char *container; /* "" outside of one */
	struct gs_function_list functions;
	struct gs_thread_summary *threads; /* those that made calls, most time first */
	size_t n_threads;
};

/* What calls of CUDA and NCCL did under one function of a layer above them, the innermost around
 * each. */
struct gs_use_summary {
	uint16_t layer;
	const char *name;
	uint64_t launches, copies, allocs, collectives, others;
	uint64_t total_ns; /* of these calls, on the host */
	uint64_t bytes;    /* of those that succeeded; frees count none */
};

/* A code that a function returned, and how often. */
struct gs_error_count {
	uint16_t layer;
	const char *function;
	int32_t code; /* 0 with name "other": codes beyond the few that the kernel side counts one by one */
	const char *name;
	uint64_t count;
};

struct gs_attach_status {
	const char *path;
	const char *function; /* "" the whole file */
	const char *reason;   /* of a failure; "" attached */
	int32_t status;       /* 0, or a negative errno */
	uint32_t n_probes, n_moved, n_stepped;
};

struct gs_lost_count {
	uint16_t layer;     /* enum gs_layer, 0: not of one layer */
	uint16_t cause;     /* enum gs_loss */
	const char *detail; /* "" none */
	uint64_t count;
};

/* A call that had not returned at the end. */
struct gs_open_call {
	uint32_t pid, tid;
	uint16_t layer;
	const char *comm;
	const char *function;
	uint64_t age_ns;
	uint8_t depth; /* traced calls of this thread around it */
};

struct gs_comm_summary {
	uint32_t pid;
	int32_t rank, n_ranks;          /* -1 unknown */
	int32_t color, key;             /* of a split; color GS_COMM_NO_SPLIT: of none */
	uint64_t comm, id_hash, parent; /* handle; the same for all ranks; handle, 0 none */
	const char *origin;             /* the call that made it */
	uint64_t calls, bytes;          /* of collectives and p2p on it; 0 in summary-only mode */
};

struct gs_native_count {    /* of native stacks */
	uint64_t taken;     /* calls and samples that carry one */
	uint64_t different; /* stacks */
	uint64_t cut;       /* of these, whose outermost frames are missing */
	uint64_t unnamed;   /* places in code without the name of a function */
};

/* So many values from from to below to. */
struct gs_hist_range {
	uint64_t from, to, count; /* count: how many values */
};

/* What the calls of a described probe add up to in one process. */
struct gs_aggregate_summary {
	uint32_t pid;
	uint16_t layer;
	const char *comm;
	const char *function;
	uint16_t aggregate;            /* enum gs_user_aggregate, model/trace/user_probe.h */
	uint8_t is_signed;             /* of sum, min and max */
	uint16_t value_type;           /* enum gs_value_type */
	const char *value;             /* its name; "" of a count; "duration" is in ns */
	uint64_t count, sum, min, max; /* of the values; count: how many of them */
	uint64_t p50, p95, p99; /* off by GS_HIST_ERROR_PCT at most; 0 when there is no hist */
	struct gs_hist_range *ranges; /* powers of two that are not empty */
	size_t n_ranges;
};

/* PyTorch's caching allocator of a process and device. */
struct gs_allocator_summary {
	uint32_t pid;
	const char *comm;
	int32_t device;
	uint64_t live_bytes, peak_bytes, total_bytes;
	uint64_t allocations, frees;
	uint64_t unknown_frees;  /* of blocks from before tracing, on any device */
	uint64_t reserved_bytes; /* from CUDA, by the process for all devices; 0 not known */
	uint64_t peak_reserved_bytes;
	uint64_t process_live_bytes; /* all devices, to compare with reserved_bytes */
};

/* Blocks of it that were never freed. */
struct gs_leak_summary {
	uint32_t pid;
	int32_t device;
	const char *site;  /* the operator, Python function or probe around; "" none */
	uint32_t py_stack; /* id of a STACK record; 0 none */
	uint64_t blocks, bytes;
};

/* A process that called MPI. */
struct gs_mpi_rank_summary {
	uint32_t pid;
	int32_t rank, n_ranks; /* of its largest communicator, as it asked for them; -1 unknown */
	const char *comm;      /* the process's name */
	uint64_t calls;
	uint64_t total_ns; /* in MPI, of all its threads */
	uint64_t span_ns;  /* from the begin of the first call to the end of the last */
	uint64_t sent_calls, sent_bytes; /* to peers: not by collectives */
	uint64_t received_calls, received_bytes;
	uint64_t room_calls; /* of those received: their bytes are the room, the message may be
			      * shorter */
	uint64_t unsized;    /* calls whose bytes are not known */
};

/* What it moved to or from one of them. */
struct gs_mpi_peer_summary {
	uint32_t pid;
	int32_t rank;       /* of the process; -1 unknown */
	int32_t peer;       /* in the communicator; -1: any */
	uint64_t comm;      /* handle of the communicator or window */
	uint32_t direction; /* enum gs_mpi_direction */
	uint64_t calls, bytes, unsized;
};

/* A kernel by its launches that were recorded one by one. */
struct gs_kernel_summary {
	const char *name;       /* demangled; "" not known */
	const char *short_name; /* likewise, for a narrow place */
	const char *symbol;     /* as the compiler mangled it; "" not known */
	const char *file;       /* that it was found by; "" none */
	unsigned how;           /* enum gs_kernel_how */
	uint32_t pid;           /* of one process that launched it, */
	uint64_t function;      /* and the function there */
	uint64_t launches, failed;
	uint64_t graph_runs;      /* by launches of graphs that hold it, as far as is known */
	uint64_t host_ns;         /* in its launches */
	uint64_t blocks, threads; /* sums over launches: blocks of the grid, threads of a block */
	uint64_t dynamic_shared_bytes; /* likewise */
	uint32_t sm; /* what follows is for this compute capability (times ten); 0: not known */
	/* registers and local_bytes: of a thread. */
	uint32_t registers, static_shared_bytes, constant_bytes, local_bytes;
	uint64_t code_bytes;
	uint32_t max_threads; /* by launch bounds; 0: none */
};

/* What is slow and why, in one answer (analysis/rules/trace.h). */
struct gs_verdict_summary {
	const char *class_name; /* "gpu_bound"; NULL: there is none */
	const char *title;      /* the same for people */
	const char *evidence;   /* the figures that decided it, as a sentence */
	const char *advice;     /* what to do next */
	const char *command;    /* that shows more */
	double share;           /* of the pace-setting thread's wall time; -1: not by time */
	double confidence;      /* 0 to 1; 0: no cause is named */
	uint8_t is_unknown;     /* no cause is named */
};

struct gs_summary {
	const char *command;     /* the traced one, or how targets were chosen */
	const char *host;        /* the machine's name */
	const char *kernel;      /* its release */
	const char *attach_mode; /* how calls were caught, as -v prints it */
	const char *end_reason;  /* why tracing ended */
	uint32_t mode;           /* enum gs_session_mode */
	int32_t exit_status;     /* of the command; -1 there was none */
	int64_t start_wall_ns;
	uint64_t start_boot_ns; /* the same, of the boot clock */
	uint64_t duration_ns;
	/* What tracing cost, in millionths of processor time: of the run, and at most of a thread,
	 * a process or all in an interval; what a call cost, and a single-stepped probe more.
	 * call_cost_ns 0: all unknown; cost_known false: the shares, of too little processor time. */
	bool cost_known;
	uint64_t cost_ppm, cost_worst_ppm, call_cost_ns, step_ns;
	/* Of the CPU quota of the traced processes' cgroup while they were traced: periods, those
	 * in which it stopped tasks, and for how long, summed over CPUs. 0: none, or not known. */
	uint64_t quota_periods, throttled_periods, throttled_ns;
	uint8_t complete; /* 0: the stream stopped without its END record (killed, torn file) */
	struct gs_function_list functions;    /* over all processes */
	struct gs_process_summary *processes; /* those that made calls, most time first */
	size_t n_processes;
	struct gs_use_summary *uses; /* most time first */
	size_t n_uses;
	struct gs_error_count *errors; /* most first */
	size_t n_errors;
	struct gs_attach_status *attached; /* status 0 */
	size_t n_attached;
	struct gs_attach_status *attach_failures;
	size_t n_attach_failures;
	struct gs_lost_count *lost;
	size_t n_lost;
	struct gs_open_call *open_calls; /* oldest first */
	size_t n_open_calls;
	struct gs_hang_summary *hangs; /* in the order in which they were found */
	size_t n_hangs;
	struct gs_comm_summary *comms;
	size_t n_comms;
	struct gs_native_count native;
	uint8_t has_python; /* Python stacks were asked for, and something was seen */
	struct gs_line_stats *python_lines; /* by time, most first */
	size_t n_python_lines;
	struct gs_python_function *python_functions; /* by total time, most first */
	size_t n_python_functions;
	uint64_t python_bare_samples;                      /* of threads in no Python function */
	uint64_t python_bare_wait_ns, python_many_wait_ns; /* of these; not looked at one by one */
	struct gs_loader_summary loader;
	struct gs_aggregate_summary *aggregates; /* by described probe */
	size_t n_aggregates;
	struct gs_allocator_summary *allocators; /* by process and device */
	size_t n_allocators;
	struct gs_leak_summary *leaks; /* most bytes first */
	size_t n_leaks;
	struct gs_mpi_rank_summary *mpi_ranks; /* by rank */
	size_t n_mpi_ranks;
	struct gs_mpi_peer_summary *mpi_peers; /* most bytes first */
	size_t n_mpi_peers;
	struct gs_memory_summary *memory; /* NULL: nothing was allocated, or calls were added up */
	struct gs_activity_summary *activity; /* activity.h; NULL: no work was queued */
	struct gs_gpu_time *gpu_time;         /* gpu_time.h; NULL: nothing is known of it */
	struct gs_nccl_summary *nccl;         /* nccl.h; NULL: NCCL said nothing of itself */
	struct gs_gpu_summary *gpus;          /* activity.h; of which samples were taken */
	size_t n_gpus;
	struct gs_kernel_summary *kernels; /* most launches first */
	size_t n_kernels;
	uint64_t kernel_launches,
		unknown_launches;          /* of all of them, and of those without a name */
	struct gs_account_summary account; /* no threads: there is none */
	struct gs_step_summary steps;      /* none found: its n_steps is 0 */
	struct gs_collectives_summary *collectives; /* NULL: there were no calls */
	struct gs_verdict_summary verdict;          /* what is slow, and why */

	void **allocations; /* every block above; owned */
	size_t n_allocations;
};

/* A zeroed block that lives as long as the summary; NULL when there is no memory. */
void *gs_summary_alloc(struct gs_summary *summary, size_t bytes);

/* A copy of text that lives as long as the summary; "" when there is no memory. */
const char *gs_summary_text(struct gs_summary *summary, const char *text);

/* How each layer was traced, in words: from inside, by probes, by CUPTI; "": all of it by probes. */
void gs_summary_doors(const struct gs_summary *summary, char *out, size_t bytes);

/* Frees all that hangs off it; NULL inside: nothing. */
void gs_summary_free(struct gs_summary **summary);

#endif
