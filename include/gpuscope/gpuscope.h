/*
 * libgpuscope: trace CUDA, NCCL, MPI, PyTorch and any other library, sample GPUs and processes, and
 * read gpuscope's recordings, from your own program. C11 and C++.
 *
 *     struct gs_trace *trace;
 *     const struct gs_item *item;
 *     const char *command[] = {"python3", "train.py", NULL};
 *     struct gs_trace_options options = {.size = sizeof(options), .command = command};
 *
 *     if (gs_trace_new(&trace) < 0 || gs_trace_start(trace, &options) < 0)
 *             fail(gs_trace_error(trace));
 *     while (gs_trace_next(trace, GS_FOREVER, &item) == GS_NEXT_ITEM)
 *             if (item->kind == GS_ITEM_CALL)
 *                     print_call((const struct gs_call *)item);
 *     gs_trace_free(trace);
 *
 * Rules for all functions:
 * - Results. Functions return 0 or a documented positive value on success, and a negative errno on
 *   failure. gs_trace_error() and gs_monitor_error() then return one line that describes the failure.
 *   Common values: -EINVAL: an argument or option is wrong, or the handle is NULL; -EPERM: a
 *   privilege is missing; -ENOMEM: out of memory; -ENODATA: the handle was not started or opened.
 *   After a failure, read the error and free the handle. Pointers for results (ret_...) must not be
 *   NULL unless the function says so; they are written on success only, gs_trace_new() and
 *   gs_monitor_new() excepted.
 * - Threads. Use a handle from one thread at a time. Different handles are independent and may be
 *   used by different threads at once. Exceptions are documented at the function.
 * - Lifetimes. The library owns the items, samples, results and strings that it returns. They are
 *   valid until the next call with the same handle, unless the function gives another lifetime.
 *   gs_trace_error(), gs_trace_fd() and gs_monitor_error() invalidate nothing. Arguments (options,
 *   paths, names) are copied or used before the call returns; you may free them then.
 * - Strings are UTF-8, or the bytes that the traced program used. They are never NULL unless the
 *   member says so; "" means unknown or none.
 * - Side effects. The library prints nothing, installs no signal handler, never exits, and calls no
 *   callbacks. Its threads block all signals. It ignores gpuscope's environment variables. A child
 *   made by fork(2) must not use its parent's handles.
 * - Versions. Each options struct begins with its size, which you set to sizeof. Later versions add
 *   members at the end; 0 there keeps the old behaviour. A member that the library in use does not
 *   know must be 0 (-E2BIG). Structs that the library returns begin with their size, too: do not
 *   read members beyond it, and do not copy such a struct by sizeof. Arrays of them are arrays of
 *   pointers.
 * - Units. Names ending in _ns are nanoseconds. Times of events are of the boot clock
 *   (CLOCK_BOOTTIME); struct gs_clock has the offsets to other clocks. Names ending in _ratio are
 *   shares, where 1 is all, and _bytes are bytes. A double that is unknown is NAN, unless the member
 *   says so. Unless marked otherwise, members called pad are 0.
 *
 * Privileges: tracing needs root, or CAP_BPF and CAP_PERFMON, and CAP_SYS_PTRACE for processes of other
 * users. Samples and recordings need none.
 */
#ifndef GPUSCOPE_GPUSCOPE_H
#define GPUSCOPE_GPUSCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GS_PUBLIC __attribute__((visibility("default")))
#else
#define GS_PUBLIC
#endif

/* Version of this header. While MAJOR is 0, MINOR grows when something is changed or removed, and PATCH
 * when something is added. */
#define GS_HEADER_MAJOR 0
#define GS_HEADER_MINOR 1
#define GS_HEADER_PATCH 0

/* Version of the library in use, such as "0.1.0". Valid for ever. Thread-safe. */
GS_PUBLIC const char *gs_library_version(void);

/* The same as a number: major * 1000000 + minor * 1000 + patch. Thread-safe. */
GS_PUBLIC uint32_t gs_library_version_number(void);

#define GS_FOREVER (-1) /* a timeout_ns that never expires; so is any other negative value */

/* ---- traces: calls in running programs, or from a recording ---- */

struct gs_trace; /* opaque */
struct gs_item;
struct gs_result;

/* Offsets from the clock of events to other clocks: add them to a time of an event. */
struct gs_clock {
	size_t size;
	int64_t to_monotonic_ns; /* to CLOCK_MONOTONIC of this machine; 0 for a recording */
	int64_t to_wall_ns; /* to nanoseconds since 1970 (UTC), as measured when tracing began */
	uint32_t has_monotonic; /* 1: to_monotonic_ns is known, as for a trace on this machine */
	uint32_t pad;
};

/* A function to trace, in any program or library. */
struct gs_probe {
	size_t size;
	/* The file: a path, a file name, an fnmatch(3) pattern of one ("libfoo.so*"), or "exe" for the
	 * program itself. NULL: any file that a traced process maps. */
	const char *path;
	const char *symbol; /* the function, or a pattern ("foo_*"); required */
	const char *name;   /* how its calls are named; NULL: the symbol */
	uint32_t flags;     /* enum gs_probe_flag, combined by or */
	/* How many of the first six integer and pointer arguments to save, 0 to 6. They are the values "arg1",
	 * "arg2", ... of its calls (struct gs_call.values). */
	uint32_t n_args;
};

enum gs_probe_flag {
	/* Record the entry only: dur_ns and ret of the calls are 0, at less than half the cost. Excludes
	 * GS_PROBE_RESULT. */
	GS_PROBE_ENTRY_ONLY = 1,
	GS_PROBE_RESULT = 2, /* also save the return value, as the 64-bit value "ret" */
};

enum gs_trace_flag {
	GS_TRACE_ALL = 1, /* every process of the machine */
	/* Also children of the processes in pids, running and future ones. Requires pids. */
	GS_TRACE_FOLLOW = 2,
	/* Add calls up in the kernel: items are GS_ITEM_SUM instead of GS_ITEM_CALL, at a third of the cost. */
	GS_TRACE_SUMMARY_ONLY = 4,
	/* Trace only the probes given here, and none of the functions that gpuscope knows. Excludes layers. */
	GS_TRACE_PROBES_ONLY = 8,
	/* Make no items, only outputs and the result. gs_trace_next() then only waits for the end. */
	GS_TRACE_NO_ITEMS = 16,
};

/* Set size, and exactly one of command, pids, comm, cgroup and GS_TRACE_ALL. All else may be 0. */
struct gs_trace_options {
	size_t size;
	/* A command to start: words as for execvp(3), ended by NULL. It is traced from its first instruction,
	 * with all its children, and has the descriptors, environment, working directory and signal mask of the
	 * caller. */
	const char *const *command;
	const int32_t *pids; /* running processes */
	size_t n_pids;       /* at most 64 */
	const char *comm;    /* processes of this name (/proc/PID/comm) */
	const char *cgroup;  /* processes in this cgroup directory and below it */
	uint32_t flags;      /* enum gs_trace_flag, combined by or */
	uint32_t pad;
	/* Layers to trace, separated by commas, as for `gpuscope trace --layer` ("cuda,nccl"). NULL: its
	 * default. -ENOTSUP: "python" and "torchmem", which only the program traces. */
	const char *layers;
	/* Trace only functions of these layers that match one of these fnmatch(3) patterns. Patterns with "::"
	 * are PyTorch operators ("aten::conv*"; "aten::add" with all its overloads) and select operators only.
	 * At most 1024. */
	const char *const *functions;
	size_t n_functions; /* 0: the default */
	const struct gs_probe *const *probes;
	size_t n_probes; /* at most 1024 */
	/* More probes, as text in the format of gpuscope-probes(1): values of any kind, filters, static probes.
	 * Probes that take stacks: -ENOTSUP. NULL: none. */
	const char *probes_yaml;
	uint64_t
		min_dur_ns; /* shorter calls are added up (GS_ITEM_SUM), without a GS_ITEM_CALL; 0: none */
	uint32_t ring_bytes; /* size of the ring, a power of two, at least 64 KiB; 0: 16 MiB */
	uint32_t
		queue_items; /* how many items may wait for gs_trace_next(); more are lost; 0: 262144 */
	/* Files to write during the trace: .gst, .pftrace (Perfetto), .json (Trace Event), .csv, .svg,
	 * .folded. At most 4. */
	const char *const *outputs;
	size_t n_outputs;
	uint64_t duration_ns; /* stop after this time; 0: do not */
	/* Look for hangs, as `gpuscope trace --hang-after`: ranks that wait this long for another one in an NCCL
	 * collective; a rank that ended or made another call is found without that wait. Each is a GS_ITEM_HANG
	 * mostly within 5 s, and is in hangs of the result. Only traced ranks count. Less than 2 s counts as 2 s.
	 * 0: do not look. */
	uint64_t hang_after_ns;
};

/* Set size. All else may be 0. */
struct gs_open_options {
	size_t size;
	/* 1: the file may still be written: at its end gs_trace_next() waits for more, until the recording is
	 * complete or gs_trace_stop() is called. 0: stop at the end of the file. */
	uint32_t follow;
	uint32_t pad;
	const char *const *outputs; /* as in struct gs_trace_options, without .gst */
	size_t n_outputs;
};

/* Creates a handle. Free *ret_trace with gs_trace_free(). 0 or -ENOMEM, which sets *ret_trace to NULL; the
 * other functions accept NULL and return -EINVAL. */
GS_PUBLIC int gs_trace_new(struct gs_trace **ret_trace);

/* Stops a running trace, removes every probe, and frees the handle with all that it returned. A command that
 * still runs goes on untraced. NULL: does nothing. May take some 100 ms. */
GS_PUBLIC void gs_trace_free(struct gs_trace *trace);

/* Why the last call with this handle failed: one line without a line feed; "" if it did not. Valid until the
 * next call with this handle, other calls of this function excepted. */
GS_PUBLIC const char *gs_trace_error(const struct gs_trace *trace);

/* Starts tracing. Probes are attached when it returns; a library that is loaded later gets its probes then.
 * Two threads of the library run until the trace ends. Turns off libbpf's messages in the whole process.
 * Once per handle, else -EBUSY. -EPERM; -ENOTSUP: this kernel, or the library, cannot do it; -ESRCH: no such
 * process; -ENOENT: no such function, or the command was not found; -E2BIG, -EINVAL, -ENOMEM, or the error of
 * a system call. */
GS_PUBLIC int gs_trace_start(struct gs_trace *trace, const struct gs_trace_options *options);

/* Opens a recording (.gst). options may be NULL. Starts no thread. Once per handle, else -EBUSY. -EBADMSG: not
 * a recording, or one of a later version; -E2BIG, -EINVAL, -ENOMEM, or the error of open(2). */
GS_PUBLIC int gs_trace_open(struct gs_trace *trace, const char *path,
			    const struct gs_open_options *options);

/* What gs_trace_next() returns. */
enum gs_next {
	GS_NEXT_ITEM = 0,
	GS_NEXT_TIMEOUT = 1, /* no item within the time */
	GS_NEXT_END = 2,     /* there will be no more */
};

/* Gets the next item into *ret_item (written for GS_NEXT_ITEM only). Waits for at most timeout_ns; 0: does not
 * wait; GS_FOREVER: waits until the trace ends. enum gs_next, or a negative errno: the file cannot be read, or
 * an output of a recording cannot be written. */
GS_PUBLIC int gs_trace_next(struct gs_trace *trace, int64_t timeout_ns,
			    const struct gs_item **ret_item);

/* Gets 1 to max items, those that are there (65536 at most): (*ret_items)[0] to (*ret_items)[*ret_n - 1]. All
 * are valid until the next call. max of 0: -EINVAL. Else as gs_trace_next(). */
GS_PUBLIC int gs_trace_next_many(struct gs_trace *trace, int64_t timeout_ns, size_t max,
				 const struct gs_item *const **ret_items, size_t *ret_n);

/* A descriptor for poll(2), of a trace that was started: readable when items may wait. Get items with a timeout
 * of 0 until GS_NEXT_TIMEOUT before you poll again. Do not read or close it; gs_trace_free() does. -EBADF: a
 * recording, or nothing was started. */
GS_PUBLIC int gs_trace_fd(const struct gs_trace *trace);

/* Stops tracing. Probes are removed and outputs are complete when it returns; a command that still runs goes on
 * untraced. You can still get the waiting items: the last ones are the calls that had not returned, and
 * GS_ITEM_END. Of a recording with follow: gs_trace_next() ends at the end of the file. Does nothing if tracing
 * has ended by itself. Another thread may be in gs_trace_next() of the same handle. 0, or the first error of an
 * output; -ENODATA. */
GS_PUBLIC int gs_trace_stop(struct gs_trace *trace);

/* Gets the offsets between clocks. *ret_clock is valid as long as the handle. -EAGAIN: nothing was started, or
 * no item of the recording has been read yet. */
GS_PUBLIC int gs_trace_clock(struct gs_trace *trace, const struct gs_clock **ret_clock);

/* Gets the totals until now, and what was slow and why. Of a recording they cover what has been read, so read
 * it to GS_NEXT_END first, or use gs_trace_finish(). 0, -ENODATA or -ENOMEM. */
GS_PUBLIC int gs_trace_result(struct gs_trace *trace, const struct gs_result **ret_result);

/* Gets the same as JSON, as `gpuscope report --format json` prints it. *ret_text ends in a NUL after *ret_bytes
 * bytes; ret_bytes may be NULL. Errors as for gs_trace_result(). */
GS_PUBLIC int gs_trace_result_json(struct gs_trace *trace, const char **ret_text,
				   size_t *ret_bytes);

/* Gets the findings as JSON, as `gpuscope explain --format json` prints them; none before the trace has ended.
 * Else as gs_trace_result_json(). */
GS_PUBLIC int gs_trace_findings_json(struct gs_trace *trace, const char **ret_text,
				     size_t *ret_bytes);

/* Reads a recording to its end, or waits until tracing has ended by itself (the command or the processes have
 * ended, or duration_ns is over). Drops all items, also future ones. timeout_ns as for gs_trace_next().
 * GS_NEXT_END, GS_NEXT_TIMEOUT, or a negative errno. Errors of outputs of a running trace come from
 * gs_trace_stop(). */
GS_PUBLIC int gs_trace_finish(struct gs_trace *trace, int64_t timeout_ns);

/* ---- items ---- */

/* Kind of an item. Numbers never change; skip kinds that you do not know. */
enum gs_item_kind {
	GS_ITEM_CALL = 1,    /* struct gs_call */
	GS_ITEM_PROCESS = 2, /* struct gs_process */
	GS_ITEM_ATTACH = 3,  /* struct gs_attached */
	GS_ITEM_LOST = 4,    /* struct gs_lost */
	GS_ITEM_COUNTER = 5, /* struct gs_counter */
	GS_ITEM_WORK = 6,    /* struct gs_work */
	GS_ITEM_SUM = 7,     /* struct gs_sum */
	GS_ITEM_SAMPLE = 8,  /* struct gs_sample, from a recording of samples */
	GS_ITEM_END = 9,     /* struct gs_end, the last item */
	GS_ITEM_HANG = 10,   /* struct gs_hang */
};

/* The first member of every item: cast to the struct of its kind. */
struct gs_item {
	size_t size;   /* of the whole struct */
	uint32_t kind; /* enum gs_item_kind */
	uint32_t pad;
};

enum gs_call_bit {
	GS_CALL_BIT_UNFINISHED =
		1, /* had not returned when tracing ended: dur_ns is the time until then */
	GS_CALL_BIT_INSTANT = 2, /* only the entry was recorded */
	GS_CALL_BIT_FAILED =
		4, /* returned an error of its library; error names it if it is known */
};

enum gs_value_kind {
	GS_VALUE_UNSIGNED = 1,
	GS_VALUE_SIGNED = 2,
	GS_VALUE_DOUBLE = 3,
	GS_VALUE_TEXT = 4
};

/* A value that a probe read in a call. */
struct gs_value {
	size_t size;
	const char *name; /* "arg1", "ret", or the name in the description of the probe */
	uint32_t kind;    /* enum gs_value_kind: which member is set; the others are 0 or "" */
	uint32_t pad;
	uint64_t u;
	int64_t i;
	double f;
	const char *text;
};

/* A call. Items of calls come when the call returns, so inner calls come before the outer one. */
struct gs_call {
	struct gs_item head;
	uint64_t start_ns, dur_ns; /* entry, and time until the return */
	uint32_t pid, tid;         /* in the pid namespace of the tracer */
	uint32_t cpu;              /* where it returned */
	uint32_t depth;            /* how many traced calls of this thread it is in */
	uint32_t bits;             /* enum gs_call_bit, combined by or */
	int32_t ret;               /* return value, the lower 32 bits */
	const char *name;          /* of the function */
	const char *layer;         /* "cuda-runtime", "nccl", ...; "user": one of your probes */
	const char *thread;        /* name of the thread (/proc/PID/task/TID/comm) */
	const char *process;       /* name of the process (/proc/PID/comm) */
	const char *scope; /* innermost operator or function of a layer above around it; "" none */
	const char
		*error; /* name of the error returned, such as "cudaErrorInvalidValue"; "" none */
	/* Set for functions that gpuscope knows; gpuscope-trace(1) says what they mean for each. */
	uint64_t bytes;  /* moved, allocated or freed; for a collective: of one rank */
	uint64_t stream; /* handle; 0: the default stream */
	uint64_t arg[4];
	uint32_t aux;
	uint32_t n_values;
	const struct gs_value *const *values; /* read by your probes */
};

/* A traced process. Repeated when more is known of it, and after execve(2). */
struct gs_process {
	struct gs_item head;
	uint64_t start_ns;        /* 0: unknown */
	uint32_t pid, ns_pid;     /* ns_pid: in its own pid namespace */
	uint32_t parent_pid, uid; /* uid: UINT32_MAX: unknown */
	const char *comm, *exe;
	const char *cmdline;   /* secrets removed */
	const char *container; /* its id; "" outside of a container */
};

/* Probes were attached to a file, or a file or a function could not be probed. */
struct gs_attached {
	struct gs_item head;
	const char *path;
	const char *function; /* "": the whole file */
	int32_t status;       /* 0, or a negative errno */
	uint32_t n_probes;
	const char *reason; /* of a failure, or a remark */
};

/* What was lost since the last GS_ITEM_LOST. Nothing is lost without such an item. */
struct gs_lost {
	struct gs_item head;
	uint64_t count;     /* how many, of the kind that text names */
	const char *cause;  /* a word: "ring_full"; "queue_full": call gs_trace_next() more often */
	const char *text;   /* description for people */
	const char *layer;  /* "": all */
	const char *detail; /* which file or process; "" none */
};

/* A value of a process, or of the machine (pid 0), at one time. */
struct gs_counter {
	struct gs_item head;
	uint64_t time_ns;
	int64_t value;
	uint32_t pid;
	uint32_t is_bytes; /* 1: value is in bytes */
	const char *name;
};

/* Work of a GPU, with times measured by the GPU. In recordings made with --inside=gpu or --gpu-time, or
 * imported from PyTorch's profiler. */
struct gs_work {
	struct gs_item head;
	uint64_t start_ns, dur_ns;
	uint32_t pid, device; /* device: the CUDA device number in the process */
	uint64_t stream;      /* its number within the context; 0: the default stream */
	const char *sort;     /* "kernel", "copy", "fill", "graph", "sync", "overhead" */
	const char *name;     /* of a kernel; "" none */
	uint64_t bytes;
};

/* Calls of one function in one thread, added up since the last such item (GS_TRACE_SUMMARY_ONLY,
 * min_dur_ns). */
struct gs_sum {
	struct gs_item head;
	uint64_t time_ns; /* end of the interval */
	uint64_t calls, errors, total_ns, bytes;
	uint32_t pid, tid;
	const char *name, *layer, *thread, *process;
};

/* What a rank did when a hang was found. Stacks have the innermost frame
 * first, with " < " between them; "" not read, as in traces of the library, which reads none. */
struct gs_hang_rank {
	size_t size;
	int32_t rank;                          /* in the communicator */
	uint32_t pid, tid;                     /* as gpuscope's pid namespace numbers them */
	uint32_t signal;                       /* that ended its process; 0: none, or not known */
	uint64_t calls;                        /* collectives of it so far */
	uint64_t last_ns;                      /* when it made the last one; 0: it made none */
	uint64_t last_count;                   /* elements of that, */
	const char *last_function, *last_type; /* its function and their type; "" not known */
	/* "arrived", "missing", "ended", "left", "differs", "skipped", "extra" */
	const char *state;
	const char *text; /* the same for people */
	const char *python_stack, *native_stack;
};

/* Ranks of NCCL wait for others, or their calls do not match, as found in a trace with hang_after_ns, or while a
 * recording was made (`gpuscope trace --hang-after`). When it is over, the item comes again with the same number,
 * without ranks and texts. */
struct gs_hang {
	struct gs_item head;
	uint32_t number;                       /* from 1 */
	int32_t n_comm_ranks;                  /* ranks of the communicator */
	uint64_t begun_ns, found_ns, ended_ns; /* ended_ns 0: it is not over */
	uint64_t comm;    /* the communicator: the same number in all of its ranks */
	uint64_t call;    /* which of its collectives, from 1 */
	const char *sort; /* "waits", "differs", "joins" */
	const char *text; /* one line */
	const struct gs_hang_rank *const *ranks; /* those that matter first, 128 at most */
	size_t n_ranks;
	uint32_t has_arrived; /* 1: it is over since the last rank arrived */
	uint32_t pad;
};

/* The end of the trace. */
struct gs_end {
	struct gs_item head;
	uint64_t time_ns;
	int32_t exit_status; /* of the command; 128 + N: killed by signal N; -1: unknown, or no command */
	uint32_t pad;
	const char *reason; /* why tracing ended */
};

/* ---- results ---- */

/* Totals of a function. Times cover n_timed of its calls; percentiles are off by 5.9 % at most. */
struct gs_function {
	size_t size;
	const char *name, *layer;
	uint64_t calls, errors, n_timed; /* n_timed: calls whose time is known */
	uint64_t total_ns, mean_ns, p50_ns, p95_ns, p99_ns, max_ns;
	uint64_t bytes; /* of calls that succeeded */
};

/* Totals of a process that made calls. */
struct gs_process_result {
	size_t size;
	uint32_t pid, parent_pid;
	const char *comm, *cmdline, *container;
	const struct gs_function *const *functions; /* by layer, longest total first */
	size_t n_functions;
	uint32_t uid; /* its user; UINT32_MAX not known */
	uint32_t pad;
};

/* The verdict: what was slow and why. */
struct gs_verdict_result {
	size_t size;
	const char *class_name; /* such as "gpu_bound"; "": no verdict */
	const char *title;      /* the class for people */
	const char *evidence;   /* the figures that decided it, as a sentence */
	const char *advice;     /* what to do next */
	const char *command;    /* the gpuscope command that shows more */
	double share_ratio; /* of the wall time of the thread that sets the pace; NAN: unknown */
	double confidence;  /* 0 to 1; 0: no verdict */
};

/* A change during the run, found by a detector. */
struct gs_finding {
	size_t size;
	const char *subject; /* a word: "steps", "gpu_state", ... */
	const char *text;    /* one line: "steps take 12.1 % longer (100 ms -> 112 ms)" */
	const char *cause;   /* one line; "": unknown */
	const char *advice;  /* "": none */
	const char *command; /* the gpuscope command that shows more */
	uint64_t begun_ns;
	uint64_t ended_ns; /* 0: it lasted until the end */
	uint32_t pid, tid; /* 0: not of one process or thread, or unknown */
	int32_t gpu;       /* index of the GPU in samples; -1: not of one GPU */
	uint32_t pad;
	double before, after;    /* the usual value, and the new one; NAN: unknown */
	const char *unit;        /* of both: "ns", "bytes", "ratio", "celsius", "count" */
	double cause_confidence; /* share of the difference that the cause accounts for, 0 to 1 */
};

/* Everything about a trace. */
struct gs_result {
	size_t size;
	const char *command, *host, *kernel, *end_reason;
	int64_t start_wall_ns; /* since 1970 (UTC) */
	uint64_t duration_ns;
	int32_t exit_status; /* as in struct gs_end */
	/* 0: the recording lacks its end (killed, damaged, or still being written). */
	uint32_t complete;
	const struct gs_function *const *functions; /* over all processes */
	size_t n_functions;
	const struct gs_process_result *const *processes; /* longest total first */
	size_t n_processes;
	const struct gs_attached *const *attached; /* failed ones have a negative status */
	size_t n_attached;
	const struct gs_lost *const *lost;
	size_t n_lost;
	const struct gs_verdict_result *verdict; /* never NULL */
	/* In order of begun_ns; none before the trace has ended (GS_NEXT_END, or gs_trace_stop()). */
	const struct gs_finding *const *findings;
	size_t n_findings;
	const struct gs_hang *const *hangs; /* in the order in which they were found */
	size_t n_hangs;
};

/* ---- samples: GPUs, the processes on them, the machine ---- */

struct gs_monitor; /* opaque */
struct gs_sample;

enum gs_monitor_flag {
	GS_MONITOR_HOST = 1, /* also the machine */
	GS_MONITOR_PROCESSES =
		2, /* also the machine and all its processes, not only those on GPUs */
	GS_MONITOR_NAMES =
		4, /* also users, containers, jobs and command lines; jobs of processes on GPUs, too */
};

/* Set size. All else may be 0. */
struct gs_monitor_options {
	size_t size;
	uint32_t flags; /* enum gs_monitor_flag, combined by or */
	uint32_t pad;
	const char *nvml_path;    /* NVIDIA's library; NULL: the usual places */
	uint64_t call_timeout_ns; /* a driver call that takes longer counts as hung; 0: 5 s */
};

/* Creates a handle. Free *ret_monitor with gs_monitor_free(). 0 or -ENOMEM, which sets it to NULL. */
GS_PUBLIC int gs_monitor_new(struct gs_monitor **ret_monitor);

/* Closes and frees the handle with all that it returned. NULL: does nothing. */
GS_PUBLIC void gs_monitor_free(struct gs_monitor *monitor);

/* Why the last call with this handle failed, as gs_trace_error(). */
GS_PUBLIC const char *gs_monitor_error(const struct gs_monitor *monitor);

/* Opens the GPUs. Also succeeds without GPUs: state_text of samples then says why there are none. A thread of the
 * library makes all calls of NVIDIA's driver until gs_monitor_free(). options may be NULL. Once per handle, else
 * -EBUSY. -E2BIG, -EINVAL, -ENOMEM, or the error of a system call. */
GS_PUBLIC int gs_monitor_open(struct gs_monitor *monitor, const struct gs_monitor_options *options);

/* Reads a sample now. Rates and shares of processes cover the time since the last read; the first sample has
 * none. Usually takes 1 to 50 ms per GPU; waits for a hung driver for at most four times call_timeout_ns. 0, also
 * without GPUs; -ENODATA: not open; or another negative errno. */
GS_PUBLIC int gs_monitor_read(struct gs_monitor *monitor, const struct gs_sample **ret_sample);

/* Gets the last sample as JSON, as `gpuscope gpu --format json` prints it. *ret_text ends in a NUL after
 * *ret_bytes bytes; ret_bytes may be NULL. The sample itself stays valid. -ENODATA: none was read; -ENOMEM. */
GS_PUBLIC int gs_monitor_json(struct gs_monitor *monitor, const char **ret_text, size_t *ret_bytes);

/* The key of values[number] of struct gs_device, such as "power_watts"; NULL: there is no such number. The end
 * of the key is the unit. Keys never change; their numbers may, with another version of the library. Valid for
 * ever. Thread-safe. */
GS_PUBLIC const char *gs_device_key(uint32_t number);

/* A GPU, or a MIG instance of one. */
struct gs_device {
	size_t size;
	uint32_t index;           /* number of the driver; of a MIG instance: of its GPU */
	uint32_t is_mig;          /* 1: a MIG instance */
	int32_t gpu_instance;     /* id of the MIG instance; else -1 */
	int32_t compute_instance; /* likewise */
	uint32_t is_lost;         /* 1: it no longer responds; all values are NAN */
	uint32_t n_values;
	const double *values; /* named by gs_device_key(); NAN: not reported */
	uint64_t time_ns;     /* when it was read, boot clock */
	const char *name, *uuid, *pci_bus_id, *vendor; /* vendor: "nvidia", "amd" */
	const char *driver_version;
	/* The most used of these values; NAN: not reported. */
	double utilization_ratio, memory_activity_ratio, encoder_ratio, decoder_ratio;
	double memory_total_bytes, memory_used_bytes;
	double temperature_celsius, fan_ratio;
	double power_watts, power_limit_watts;
};

/* A process on a GPU. Ratios cover the time since the last sample; NAN: unknown. */
struct gs_device_process {
	size_t size;
	uint32_t pid;
	uint32_t device;    /* index of its GPU in struct gs_sample.devices */
	uint32_t gpu_index; /* struct gs_device.index of that GPU */
	uint32_t uid;       /* UINT32_MAX: unknown */
	int64_t used_bytes; /* GPU memory; -1: unknown */
	double sm_ratio, memory_ratio, encoder_ratio, decoder_ratio;
	double jpeg_ratio, optical_flow_ratio;
	uint64_t start_ns; /* boot clock; 0: unknown */
	const char *
		kind; /* "compute", "graphics", "compute+graphics", "mps", "mps+graphics"; "": unknown */
	const char *comm;
	/* job: with GS_MONITOR_NAMES, else ""; cmdline: secrets removed. */
	const char *user, *container, *job, *cmdline;
};

/* The machine. Unknown integers are -1, unknown doubles NAN. */
struct gs_machine {
	size_t size;
	int32_t n_cpus, n_tasks, n_running; /* threads: all; running or waiting for a processor */
	uint32_t pad;
	double cpu_ratio, iowait_ratio, load1, load5, load15; /* ratios of all processors */
	int64_t memory_total_bytes, memory_used_bytes, swap_total_bytes, swap_used_bytes;
	double disk_read_bytes_per_s, disk_write_bytes_per_s;
	double net_receive_bytes_per_s, net_send_bytes_per_s;
};

/* A process of the machine. */
struct gs_machine_process {
	size_t size;
	uint32_t pid, parent_pid, uid; /* uid: UINT32_MAX: unknown */
	int32_t n_threads;
	double cpu_ratio; /* of one processor: 2.5 is two and a half; NAN: unknown */
	int64_t rss_bytes;
	uint64_t cpu_ns;   /* processor time so far, user and system */
	uint64_t start_ns; /* boot clock */
	const char *state; /* a letter, as in /proc/PID/stat */
	const char *comm;
	const char *user, *container, *job, *cmdline; /* with GS_MONITOR_NAMES, else "" */
};

/* An event that the driver or the kernel reported for a GPU. */
struct gs_device_event {
	size_t size;
	uint64_t time_ns; /* boot clock */
	uint32_t xid;     /* number of the XID; 0: another event */
	uint32_t pad;
	const char *pci_bus_id, *uuid, *text;
};

/* A sample of the GPUs and the machine. Also an item of a recording of samples. */
struct gs_sample {
	struct gs_item head; /* kind: GS_ITEM_SAMPLE */
	uint64_t time_ns;    /* boot clock */
	int64_t wall_ns;     /* since 1970 (UTC) */
	const char *host;
	const char
		*state; /* of the driver: "ok", "no_library", "no_driver", "no_gpu", "hung", ... */
	const char *state_text;                 /* what is wrong and what to do; "": nothing */
	const struct gs_device *const *devices; /* MIG instances follow their GPU */
	size_t n_devices;
	const struct gs_device_process *const *device_processes;
	size_t n_device_processes;
	const struct gs_device_event *const *events; /* since the last sample */
	size_t n_events;
	/* NULL without GS_MONITOR_HOST and GS_MONITOR_PROCESSES. */
	const struct gs_machine *machine;
	const struct gs_machine_process *const *processes; /* none without GS_MONITOR_PROCESSES */
	size_t n_processes;
};

/* ---- NVIDIA's devices and control groups ---- */

/* A container loses its GPUs when the rules of its control group are written again by a program that does not
 * know of them, such as systemd after `systemctl daemon-reload`. These functions give the group of a process
 * lasting access, as `gpuscope devices` does: in the rules of version 1, in the eBPF program of version 2, which
 * is replaced and never detached, and in a drop-in of systemd. They have no handle and no state, and are
 * thread-safe. gpuscope-devices(8) lists the rights that they need. */

enum gs_devices_flag {
	GS_DEVICES_HELD = 1,       /* the devices that the process has open, not all of NVIDIA's */
	GS_DEVICES_ANCESTORS = 2,  /* also in the groups above, where their rules forbid */
	GS_DEVICES_NO_DROP_IN = 4, /* leave systemd's configuration as it is */
};

/* Set size. All else may be 0. */
struct gs_devices_options {
	size_t size;
	uint32_t flags; /* enum gs_devices_flag, combined by or */
	uint32_t pad;
	const char *host_root; /* where the root of the host is mounted; NULL: "/" */
};

/* Set size. States are "none", "unrestricted", "allowed", "granted", "forbidden", "revoked" and "unknown",
 * valid for ever. */
struct gs_devices_result {
	size_t size;
	const char *cgroup_v1,
		*cgroup_v2;  /* state of the group in each version of control groups */
	const char *drop_in; /* state of systemd's drop-in */
	uint32_t is_open;    /* 1: nothing is known to forbid the devices; 0 after a revocation */
	uint32_t n_changes;  /* rules, programs and files that this call changed */
	char devices[512];   /* such as "195:* 511:0" */
	/* Why a state is "forbidden" or "unknown", or why the call failed; "": nothing. */
	char reason[512];
};

/* Checks whether the rules of the group of a process allow the devices; changes nothing. pid: as in /proc below
 * host_root. options may be NULL. *ret_result is filled on failure, too. 0; -EINVAL: an option or a path is
 * refused; -E2BIG; -ESRCH: no such process; -ENODEV: NVIDIA's driver is not loaded, or with GS_DEVICES_HELD the
 * process has none of its devices open; -EPERM, -EACCES: a right is missing; -ENOTSUP: the group's program
 * cannot be kept. */
GS_PUBLIC int gs_devices_check(uint32_t pid, const struct gs_devices_options *options,
			       struct gs_devices_result *ret_result);

/* Allows the devices. Does what it can, also when it fails: *ret_result shows what. 0 and a state "forbidden":
 * the rules of a group above still forbid them. Else as gs_devices_check(). */
GS_PUBLIC int gs_devices_grant(uint32_t pid, const struct gs_devices_options *options,
			       struct gs_devices_result *ret_result);

/* Undoes what gs_devices_grant() did to this group, and only that. Else as gs_devices_check(). */
GS_PUBLIC int gs_devices_revoke(uint32_t pid, const struct gs_devices_options *options,
				struct gs_devices_result *ret_result);

#ifdef __cplusplus
}
#endif

#endif
