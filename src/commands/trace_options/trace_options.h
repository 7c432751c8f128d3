/* What is asked of `gpuscope trace`: its command line, read and checked. */
#ifndef GS_COMMANDS_TRACE_OPTIONS_TRACE_OPTIONS_H
#define GS_COMMANDS_TRACE_OPTIONS_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "output/findings/findings.h"
#include "commands/head/to_head.h"
#include "model/trace/kernel_side.h"
#include "model/trace/python.h"
#include "model/trace/user_set.h"
#include "output/report/summary.h"
#include "output/trace_export/export.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "sources/attach_plan/attach_plan.h"

#define TRACE_MAX_PIDS    64
#define TRACE_MAX_GLOBS   32
#define TRACE_MAX_OUTPUTS 4

/* When a trace that is kept in memory is written (--keep-on), ored. */
enum trace_keep_on {
	TRACE_KEEP_END = 1,     /* of tracing */
	TRACE_KEEP_HANG = 2,    /* ranks that do not arrive, or make another call */
	TRACE_KEEP_FINDING = 4, /* of analysis/explain */
	TRACE_KEEP_DEATH = 8,   /* a process is killed by a signal that does not ask it to end */
};

struct trace_globs {
	const char *glob[TRACE_MAX_GLOBS]; /* borrowed from argv */
	size_t n;                          /* of glob */
};

struct trace_options {  /* Fields as the options of trace_options.c that set them */
	char **command; /* NULL: none; borrowed from argv */
	pid_t pids[TRACE_MAX_PIDS];
	size_t n_pids;
	bool follow;
	bool all;
	int64_t uid; /* -1: any */
	const char *comm, *cgroup;
	uint32_t layers;
	struct trace_globs funcs, ops; /* functions and operators by name */
	struct trace_globs kernels;    /* none: launches of all */
	enum gs_op_set op_set;
	bool op_set_given;
	uint64_t min_dur_ns, duration_ns, max_bytes;
	uint32_t ring_bytes;
	unsigned disabled_features; /* enum gs_disabled_feature, ored */
	bool python_gc, python_gil;
	bool python_calls; /* of all functions, or those of python_globs */
	struct gs_py_glob python_globs[GS_PY_GLOB_MAX];
	size_t n_python_globs;
	unsigned py_stack_at;     /* enum gs_stack_at */
	unsigned native_stack_at; /* likewise */
	uint32_t stack_bytes;     /* copied of each */
	unsigned python_hz;       /* 0: no samples */
	uint64_t slow_scope_ns;
	bool python_wants_calls;         /* stacks belong to calls: these come one by one */
	struct trace_globs line_filters; /* none: the usual one */
	bool summary_only;
	bool inside_calls;  /* calls of CUDA and NCCL by the library in the command's processes */
	bool inside_gpu;    /* what GPUs did, likewise */
	bool inside_nccl;   /* what NCCL says of its operations, likewise */
	bool inside_ops;    /* operators of PyTorch, likewise */
	bool inside_python; /* calls of Python functions, likewise */
	bool inside_all; /* all of these were asked for by no name: what a program has not is no news */
	uint64_t
		gpu_time_ns; /* for so long PyTorch's profiler of each process is to record; 0: not */
	uint64_t gpu_window_ns, gpu_period_ns; /* 0, 0: the usual ones; period 0: always */
	const char *outputs[TRACE_MAX_OUTPUTS];
	size_t n_outputs;
	uint64_t keep_last_ns; /* 0: files are written as it comes */
	uint64_t keep_bytes;   /* of memory for it */
	unsigned keep_on;      /* enum trace_keep_on, ored; 0 without --keep-last */
	enum gs_flame_by flame_by;
	bool flame_by_given;
	uint64_t hang_after_ns;   /* ranks may wait so long for another; 0: for ever */
	double max_overhead;      /* part of processor time; 0: no limit */
	bool estimate;            /* only count, and report what tracing would cost */
	bool estimate_waits;      /* from the first call on */
	const char *summary_path; /* NULL: stdout, or stderr with a command */
	bool summary_to_stdout;   /* also with a command */
	bool output_to_stdout;    /* a trace is written there: the summary goes to stderr */
	enum gs_report_summary_format format;
	struct gs_report_summary_style style;
	int width; /* --width; -1: as the terminal */
	struct gs_activity_config stream_limits;
	bool top_given;
	bool view_wants_calls; /* --by stream, kernel, memory: calls that are added up name none */
	bool color_auto;       /* colours when the summary goes to a terminal */
	bool list;             /* only list the functions */
	bool no_gpu;           /* no samples of GPUs beside the calls */
	const char *nvml;      /* NULL: the usual library */
	bool quiet;            /* no live line */
	const char *probe_files[TRACE_MAX_OUTPUTS];
	size_t n_probe_files;
	struct to_head_options head;
	const struct gs_findings_options
		*findings;         /* borrowed; in place of the summary; NULL: none */
	struct gs_user_set *users; /* what they describe; owned, freed by trace_options_free() */
};

/* Fills options from the command line. 0, or an exit status after having said what is wrong;
 * *ret_done: --help or --list has been served. */
int trace_options_parse(int argc, char **argv, struct trace_options *options, bool *ret_done);

void trace_options_free(struct trace_options *options); /* what is owned by it */

/* "process 12, and processes of user 5": whose calls are traced. */
void trace_describe_target(const struct trace_options *options, char *out, size_t bytes);

#endif
