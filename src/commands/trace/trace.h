/* What the files of `gpuscope trace` share. */
#ifndef GS_COMMANDS_TRACE_TRACE_H
#define GS_COMMANDS_TRACE_TRACE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "commands/head/to_head.h"
#include "output/trace_export/export.h"
#include "pipeline/ingest/ingest.h"
#include "pipeline/recording/recording.h"
#include "sources/identity/identity.h"
#include "sources/attach_plan/attach_plan.h"
#include "sources/uprobe/uprobe.h"
#include "output/report/summary.h"
#include "pipeline/correlate/correlate.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define TRACE_MAX_PIDS    64
#define TRACE_MAX_GLOBS   32
#define TRACE_MAX_OUTPUTS 4

struct trace_globs {
	const char *glob[TRACE_MAX_GLOBS]; /* borrowed from argv */
	size_t n;
};

struct trace_options {
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
	bool inside_calls; /* calls of CUDA and NCCL by the library in the command's processes */
	bool inside_gpu;   /* what GPUs did, likewise */
	uint64_t gpu_window_ns, gpu_period_ns; /* 0, 0: the usual ones; period 0: always */
	const char *outputs[TRACE_MAX_OUTPUTS];
	size_t n_outputs;
	enum gs_flame_by flame_by;
	bool flame_by_given;
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
	struct gs_user_set *users; /* what they describe; owned, freed by trace_options_free() */
};

/* Fills options from the command line. 0, or an exit status after having said what is wrong;
 * *ret_done: --help or --list has been served. */
int trace_options_parse(int argc, char **argv, struct trace_options *options, bool *ret_done);

void trace_options_free(struct trace_options *options);

/* "process 12, and processes of user 5": whose calls are traced. */
void trace_describe_target(const struct trace_options *options, char *out, size_t bytes);

/* --- trace_check.c: 0, or GS_EXIT_USAGE after having said what is wrong --- */

int trace_check(const struct trace_options *options);
int trace_check_stacks(
	const struct trace_options *options); /* when all that ask for them is known */

/* May what the chosen processes use be seen? 0 or -EPERM, said. */
int trace_check_sight(const struct trace_options *options);
/* Can the summary be written there? 0 or the error, said. */
int trace_check_summary(const char *path);
/* As many open files as we may have: probes are files. */
void trace_raise_file_limit(void);
/* Says that there is no such process. */
void trace_report_no_process(pid_t id);

/* --- trace_list.c: --list, its exit status --- */

int trace_list(const struct trace_options *options);

/* --- trace_output.c: from events to files and totals --- */

struct trace_output;
struct gs_reader;

/* stacks reads files for native stacks; borrowed, may be NULL. */
int trace_output_new(const struct trace_options *options, const char *attach_mode,
		     const char *target, const struct gs_func_set *funcs, struct gs_reader *stacks,
		     struct trace_output **ret_output, struct gs_err *err);

struct trace_budget; /* trace_budget.h */
struct gs_inside;
struct trace_inside; /* trace_inside.h */

/* What is seen from inside, for the output; borrowed. Before the first event. */
void trace_output_set_inside(struct trace_output *output, struct gs_inside *inside);

/* gs_inside_attaches(), _next_late() and _exec(). Control thread. */
int trace_output_attaches(struct trace_output *output, pid_t pid, const char *path);
pid_t trace_output_next_late(struct trace_output *output);
void trace_output_exec(struct trace_output *output, pid_t pid, uint64_t mono_ns);

/* Hand it what comes from now on; borrowed. */
/* enum gs_output_flag of files of this trace: root traces others, unless it runs the command. */
unsigned trace_output_flags(const struct trace_options *options);

void trace_output_set_budget(struct trace_output *output, struct trace_budget *budget);

/* Everything from the probe goes here; any thread, serialised inside. */
void trace_output_attach(struct trace_output *output, const struct gs_attach *attach);
void trace_output_loss(struct trace_output *output, unsigned layer, enum gs_loss cause,
		       const char *detail, uint64_t count);

/* A followed process was born or runs a new program: read its names while it lives. */
void trace_output_process(struct trace_output *output, pid_t pid);

/* Have calls of the process been recorded? Any thread. */
bool trace_output_has_process(struct trace_output *output, uint32_t pid);

/* Records that were made elsewhere, whole ones that name nothing else: samples. Any thread. */
void trace_output_records(struct trace_output *output, const void *data, size_t bytes);

/* It runs an interpreter whose stacks are read. Control thread. */
void trace_output_python(struct trace_output *output, pid_t pid);

/* It has mapped code. */
void trace_output_map(struct trace_output *output, pid_t pid, uint64_t mono_ns,
		      const struct gs_mapping *mapping);

/* Read what the kernel side has; harvest: also its cells, losses, and flush. */
void trace_output_glance(struct trace_output *output, struct gs_uprobe *probe); /* for the budget */
/* True: there is much of it, come back soon. */
bool trace_output_poll(struct trace_output *output, struct gs_uprobe *probe, bool harvest);
void trace_output_stop(struct trace_output *output, struct gs_uprobe *probe);

struct trace_progress { /* as of the last harvest */
	uint64_t calls[GS_LAYER_COUNT];
	uint64_t lost; /* calls that are missing from the trace */
	/* Of the thread that has waited longest for the GPU: of its wall time, 0 to 1; negative: none
	 * has, or it is not looked at. */
	double gpu_wait_ratio;
};

void trace_output_progress(struct trace_output *output, struct trace_progress *ret_progress);

/* From now on the wait for the GPU is looked at with each harvest. Before the first event. */
void trace_output_want_gpu_wait(struct trace_output *output);

/* What --estimate found, where the summary would go. 0, or the error (said already). */
int trace_output_write_plan(const struct trace_output *output);

/* Ends the stream and closes the files. 0, or the first error (said already). */
int trace_output_end(struct trace_output *output, int exit_status, const char *reason);

/* With --head: waits for delivery, some seconds at most. 0, or -ENOBUFS when records are lost (said
 * already). */
int trace_output_deliver(struct trace_output *output);

/* Writes the summary where the options want it. 0 or negative errno (said already). */
int trace_output_summary(struct trace_output *output);

void trace_output_free(struct trace_output **output);

/* --- trace_command.c --- */

/* Attach to the files that the command, or a program that is named in its words, may load. */
void trace_command_attach(struct gs_uprobe *probe, char *const *command, char *const *environment);

/* --- trace_python.c --- */

/* Words of --python-hz and --python-at; false: wrong. Then what follows from all options. */
bool trace_python_take_hz(struct trace_options *options, const char *word);
bool trace_python_take_at(struct trace_options *options, const char *word);
bool trace_python_take_call(struct trace_options *options, const char *word); /* one pattern */
void trace_python_settle(struct trace_options *options);

/* What the probe has to know for --python-calls. */
void trace_python_calls(const struct trace_options *options, struct gs_uprobe_options *probe);

/* --python-filter. 0 or -ENOMEM. */
int trace_python_filter(const struct trace_options *options, struct gs_aggregate *view);

/* Reports interpreters to the probe. Stays NULL when no stacks are asked for, which all these take.
 */
struct trace_python;

int trace_python_new(const struct trace_options *options, struct gs_uprobe *probe,
		     struct gs_reader *reader, struct trace_output *output,
		     struct trace_python **ret_python);
void trace_python_free(struct trace_python **python);

/* A process may have got an interpreter; all may. */
void trace_python_find(struct trace_python *python, pid_t pid);
void trace_python_find_all(struct trace_python *python);

/* Asks again for those that were not ready. In how many ms it is to be called next; -1 none. */
int trace_python_tick(struct trace_python *python);
unsigned trace_python_n_found(const struct trace_python *python);

/* --- trace_stacks.c: --stacks and --stack-bytes --- */

bool trace_stacks_take(struct trace_options *options, char *words);
bool trace_stacks_take_bytes(struct trace_options *options, const char *word);
/* What follows from all options. */
void trace_stacks_settle(struct trace_options *options);

/* --- child.c: the command that is traced --- */

struct child {
	pid_t pid;
	int go_fd;    /* a byte lets it start */
	int error_fd; /* the errno of a failed exec; closed by a successful one */
};

/* What a command inherits from our parent, kept before we change it for ourselves. */
struct inherited_signals {
	sigset_t mask;
	struct sigaction pipe, file_size; /* SIGPIPE, SIGXFSZ */
};

/* A child that waits before it becomes the command, with these signals. inside: what its environment
 * is to have, NULL: nothing else. Negative errno. */
int trace_child_prepare(struct child *child, char **command,
			const struct inherited_signals *signals, const struct trace_inside *inside);

/* Lets it run. 0, or an exit status (126, 127) after having said why it could not be started. */
int trace_child_start(struct child *child, char **command);

/* Ends a child that never started. */
void trace_child_abandon(struct child *child);

#endif
