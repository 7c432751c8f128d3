/* The command line of `gpuscope trace`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/log.h"
#include "commands/common/spans.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/common/summary.h"
#include "commands/trace_options/trace_options_int.h"
#include "model/trace/func.h"
#include "model/trace/record_stack.h"
#include "pipeline/inside/gpu.h"
#include "sources/identity/identity.h"
#include "sources/probefile/probefile.h"

#define HANG_AFTER_NS   60000000000ull /* checkpoints and first batches take some tens of seconds */
#define PLAN_NS         2000000000ull
#define KEEP_BYTES      (64ull << 20)
#define NS_PER_S        1000000000ull
#define GPU_TIME_MIN_NS (NS_PER_S / 10)
#define GPU_TIME_MAX_NS (60 * NS_PER_S)

/* --- what no kind of option converts --- */

static int add_pid(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	struct trace_options *o = target;
	uint32_t pid;

	if (o->n_pids == TRACE_MAX_PIDS || gs_cli_parse_pid(argument, &pid) < 0)
		return -EINVAL;
	o->pids[o->n_pids++] = (pid_t)pid;
	return 0;
}

static int set_user(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct trace_options *o = target;
	uint32_t uid;
	int r = gs_cli_parse_user(argument, &uid);

	o->uid = uid;
	return r;
}

static int set_comm(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	((struct trace_options *)target)->comm = argument;
	return *argument ? 0 : -EINVAL;
}

static int add_layer(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	return gs_layer_add_word(argument, &((struct trace_options *)target)->layers);
}

static int add_glob(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct trace_globs *globs = (struct trace_globs *)((char *)target + option->offset);

	if (globs->n == TRACE_MAX_GLOBS)
		return -EINVAL;
	globs->glob[globs->n++] = argument;
	return 0;
}

static int add_feature(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	struct trace_options *o = target;
	unsigned i = 0;

	for (const char *w = option->words; *w; w += strcspn(w, " "), w += *w == ' ', i++) {
		if (strcspn(w, " ") == strlen(argument) &&
		    strncmp(w, argument, strlen(argument)) == 0) {
			o->disabled_features |= 1u << i;
			return 0;
		}
	}
	return -EINVAL;
}

static int add_probe_file(void *target, const struct gs_cli_option *option, char *argument,
			  struct gs_err *err)
{
	struct trace_options *o = target;

	if (o->n_probe_files == GS_ARRAY_LEN(o->probe_files))
		return gs_err_set(err, -EINVAL, "--probes: at most %zu files",
				  GS_ARRAY_LEN(o->probe_files));
	o->probe_files[o->n_probe_files++] = argument;
	return 0;
}

/* The kernel takes powers of two. */
static int set_ring_size(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err)
{
	struct trace_options *o = target;
	uint64_t bytes;

	if (gs_parse_bytes(argument, &bytes) < 0 || bytes < 65536 || bytes > 1u << 30)
		return -EINVAL;
	for (o->ring_bytes = 65536; o->ring_bytes < bytes;)
		o->ring_bytes *= 2;
	return 0;
}

static int add_output(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct trace_options *o = target;
	const char *dot = strrchr(argument, '.');

	if (o->n_outputs == TRACE_MAX_OUTPUTS)
		return gs_err_set(
			err, -EINVAL,
			"--output may be given %d times at most; `gpuscope report` converts a .gst file to the other formats",
			TRACE_MAX_OUTPUTS);
	o->outputs[o->n_outputs++] = argument;
	o->output_to_stdout |= gs_export_is_stdout(argument);
	if (strcmp(argument, "-.gst") == 0)
		return -EINVAL;
	return gs_export_knows(argument) || gs_cli_spans_knows(argument) ||
			       (dot && strcmp(dot, ".gst") == 0)
		       ? 0
		       : -EINVAL;
}

static int add_keep_on(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	static const char *const words[] = {"end", "hang", "finding", "death"};
	struct trace_options *o = target;

	for (unsigned i = 0; i < GS_ARRAY_LEN(words); i++) {
		if (strcmp(argument, words[i]) != 0)
			continue;
		o->keep_on |= 1u << i;
		return 0;
	}
	return -EINVAL;
}

static int set_summary(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	struct trace_options *o = target;

	o->summary_to_stdout = strcmp(argument, "-") == 0;
	o->summary_path = o->summary_to_stdout ? NULL : argument;
	return 0;
}

static int set_threads(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	((struct trace_options *)target)->style.view = GS_SUMMARY_THREADS;
	return 0;
}

static int set_color(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	struct trace_options *o = target;

	o->style.color = strcmp(argument, "always") == 0;
	o->color_auto = strcmp(argument, "auto") == 0;
	return o->style.color || o->color_auto || strcmp(argument, "never") == 0 ? 0 : -EINVAL;
}

static int set_verbose(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	((struct trace_options *)target)->style.verbose = true;
	return gs_cli_raise_log_level(target, option, argument, err);
}

static int set_max_overhead(void *target, const struct gs_cli_option *option, char *argument,
			    struct gs_err *err)
{
	double *ratio = &((struct trace_options *)target)->max_overhead;
	char *end;

	*ratio = strtod(argument, &end) / 100;
	return end != argument && (!*end || strcmp(end, "%") == 0) && *ratio > 0 && *ratio <= 1
		       ? 0
		       : -EINVAL;
}

static int set_flame(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	return gs_flame_by_parse(argument, &((struct trace_options *)target)->flame_by);
}

static int set_stacks(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	return trace_stacks_take(target, argument) ? 0 : -EINVAL;
}

static int set_stack_bytes(void *target, const struct gs_cli_option *option, char *argument,
			   struct gs_err *err)
{
	return trace_stacks_take_bytes(target, argument) ? 0 : -EINVAL;
}

static int set_python_hz(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err)
{
	return trace_python_take_hz(target, argument) ? 0 : -EINVAL;
}

static int add_python_at(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err)
{
	return trace_python_take_at(target, argument) ? 0 : -EINVAL;
}

static int add_python_call(void *target, const struct gs_cli_option *option, char *argument,
			   struct gs_err *err)
{
	((struct trace_options *)target)->python_calls = true;
	return !argument || trace_python_take_call(target, argument) ? 0 : -EINVAL;
}

static int add_inside(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct trace_options *o = target;

	if (!argument)
		o->inside_calls = o->inside_ops = o->inside_gpu = o->inside_nccl = o->inside_all =
			true;
	else if (strcmp(argument, "calls") == 0)
		o->inside_calls = true;
	else if (strcmp(argument, "ops") == 0)
		o->inside_ops = true;
	else if (strcmp(argument, "gpu") == 0)
		o->inside_gpu = true;
	else if (strcmp(argument, "nccl") == 0)
		o->inside_nccl = true;
	else if (strcmp(argument, "python") == 0)
		o->inside_python = true;
	else
		return -EINVAL;
	return 0;
}

static int set_gpu_window(void *target, const struct gs_cli_option *option, char *argument,
			  struct gs_err *err)
{
	struct trace_options *o = target;

	return gs_inside_gpu_window(argument, &o->gpu_window_ns, &o->gpu_period_ns);
}

static int set_gpu_time(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err)
{
	struct trace_options *o = target;
	uint64_t ns = NS_PER_S;
	int r = argument ? gs_parse_ns(argument, NS_PER_S, &ns) : 0;

	if (r < 0 || ns < GPU_TIME_MIN_NS || ns > GPU_TIME_MAX_NS)
		return -EINVAL;
	o->gpu_time_ns = ns;
	return 0;
}

/* The first word that is no option begins the command, with or without "--". */
static int set_command(void *target, char **words, struct gs_err *err)
{
	((struct trace_options *)target)->command = words;
	return 0;
}

/* --- the table --- */

#define AT(member) GS_CLI_AT(struct trace_options, member)
#define LAYERS     "cuda cuda-runtime cuda-driver nccl mpi torch torchmem python user"
#define WHEN       "launch, collective, alloc, copy, sync, slow-op"
#define WHEN_WORDS "launch collective alloc copy sync slow-op sample"

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("What to trace (a command is followed with all its children):"),
	{"pid", 'p', "PID[,PID]", "running processes", GS_CLI_LIST,
	 .takes = "process ids, such as 1234,1240 (at most 64)", .set = add_pid},
	{"follow", 'f', NULL, "with --pid or --comm: also children", GS_CLI_FLAG, AT(follow)},
	{"user", 'u', "USER", "all processes of a user (name or number)", GS_CLI_SET,
	 .takes = "the name of a user of this machine, or a number", .set = set_user},
	{"comm", 0, "NAME", "all processes of this name (first 15 characters)", GS_CLI_SET,
	 .takes = "the name of a program, such as python3", .set = set_comm},
	{"cgroup", 0, "PATH", "all processes in a cgroup and below it", GS_CLI_TEXT, AT(cgroup)},
	{"all-processes", 'a', NULL, "every process of the machine", GS_CLI_FLAG, AT(all)},
	GS_CLI_TITLE("Which calls:"),
	{"layer", 0, "LAYER[,LAYER]", "layers to trace instead of CUDA and NCCL", GS_CLI_LIST,
	 .words = LAYERS, .set = add_layer},
	{"op", 0, "GLOB[,GLOB]", "PyTorch operators, such as 'aten::conv*' or add", GS_CLI_LIST,
	 AT(ops), .takes = "at most 32 names or patterns of operators", .set = add_glob},
	{"op-set", 0, "SET", "PyTorch operators: default, all, eacgm", GS_CLI_WORD, AT(op_set),
	 GS_CLI_GIVEN(struct trace_options, op_set_given), .words = "default all eacgm"},
	{"func", 0, "GLOB[,GLOB]", "functions by name instead of the default set", GS_CLI_LIST,
	 AT(funcs), .takes = "at most 32 names or patterns", .set = add_glob},
	{"kernel", 0, "GLOB[,GLOB]", "only launches of these kernels", GS_CLI_LIST, AT(kernels),
	 .takes = "at most 32 names or patterns of kernels, such as '*gemm*'", .set = add_glob},
	{"probes", 0, "FILE", "also trace the probes of this file; may be repeated", GS_CLI_SET,
	 .set = add_probe_file},
	{"list", 0, NULL, "list the functions that can be traced", GS_CLI_FLAG, AT(list)},
	{"inside", 0, "[WHAT[,WHAT]]", "trace calls, ops, gpu, nccl, python by loaded libraries",
	 GS_CLI_LIST, .words = "calls ops gpu nccl python", .set = add_inside},
	{"gpu-time", 0, "[TIME]", "have PyTorch's profiler of -p processes record GPU work (1s)",
	 GS_CLI_SET, .takes = "a time from 100ms to 60s", .set = set_gpu_time},
	{"gpu-window", 0, "TIME/TIME", "GPU tracing window/period (1s/20s), or always", GS_CLI_SET,
	 .takes =
		 "two times, such as 1s/20s (100ms at least, and shorter than the second), or always",
	 .set = set_gpu_window},
	{"min-duration", 0, "TIME", "record only calls that took at least this (50us, 2ms)",
	 GS_CLI_TIME, AT(min_dur_ns)},
	{"python-hz", 0, "N", "sample Python stacks N times a second (99 is usual)", GS_CLI_SET,
	 .takes = "a number from 1 to 10000, such as 99", .set = set_python_hz},
	{"python-at", 0, "WHEN[,WHEN]", "record the Python stack at these calls", GS_CLI_LIST,
	 .takes = "one or more of " WHEN ", slow-op=TIME, sample", .near_words = WHEN_WORDS,
	 .set = add_python_at},
	{"python-filter", 0, "GLOB[,GLOB]", "files to skip in one-line stacks ('none': no file)",
	 GS_CLI_LIST, AT(line_filters),
	 .takes = "at most 32 patterns, such as '*/torch/*', or none", .set = add_glob},
	{"python-calls", 0, "[GLOB[,GLOB]]", "trace calls of Python functions, all or those named",
	 GS_CLI_LIST,
	 .takes = "at most 8 patterns of at most 128 characters, such as forward or 'train.py:*'",
	 .set = add_python_call},
	{"python-gc", 0, NULL, "trace garbage collections of Python", GS_CLI_FLAG, AT(python_gc)},
	{"python-gil", 0, NULL, "trace waits for Python's global lock", GS_CLI_FLAG,
	 AT(python_gil)},
	{"stacks", 0, "native[,at=WHEN+WHEN]", "record the native stack at these calls", GS_CLI_SET,
	 .takes = "native, or native,at= and one or more of " WHEN ", sample joined by +",
	 .near_words = "native at " WHEN_WORDS, .set = set_stacks},
	{"stack-bytes", 0, "BYTES", "bytes of stack copied for unwinding (8K; up to 32K)",
	 GS_CLI_SET, .takes = "512 to 32K", .set = set_stack_bytes},
	{"hang-after", 0, "TIME", "report ranks that others wait for this long (60s; 0: off)",
	 GS_CLI_TIME, AT(hang_after_ns)},
	GS_CLI_TITLE("Output:"),
	{"output", 'o', "FILE", "record calls, by the file's suffix; may be repeated", GS_CLI_SET,
	 .takes = "a file ending in one of " GS_EXPORT_SUFFIXES
		  " or .gst, or - (and one of these but .gst), " GS_CLI_SPANS_TAKES
		  "; the summary goes to a file by --summary FILE",
	 .set = add_output},
	{"keep-last", 0, "TIME", "keep only the last TIME, in memory, until a reason to write",
	 GS_CLI_TIME, AT(keep_last_ns), .min = 1},
	{"keep-on", 0, "WHEN[,WHEN]", "write it at these (all): end, hang, finding, death",
	 GS_CLI_LIST, .words = "end hang finding death", .set = add_keep_on},
	{"keep-memory", 0, "BYTES", "memory for --keep-last (64M)", GS_CLI_BYTES, AT(keep_bytes),
	 .min = 1 << 20},
	{"no-gpu", 0, NULL, "do not sample GPUs", GS_CLI_FLAG, AT(no_gpu)},
	GS_CLI_NVML(struct trace_options, nvml),
	{"flame", 0, "WHAT", "flame graphs: wall, time, launches, bytes, memory, samples",
	 GS_CLI_SET, GS_CLI_GIVEN(struct trace_options, flame_by_given),
	 .words = "wall time launches bytes memory samples auto", .set = set_flame},
	{"summary-only", 0, NULL, "aggregate in the kernel (the default without -o)", GS_CLI_FLAG,
	 AT(summary_only)},
	GS_CLI_FORMAT(struct trace_options, format, "summary format: table, json, csv, yaml"),
	GS_CLI_JSON,
	{"summary", 0, "FILE", "write the summary to a file, or - (standard output)", GS_CLI_SET,
	 .set = set_summary},
	GS_CLI_BY(struct trace_options, style),
	GS_CLI_MEMORY(struct trace_options, style),
	{"threads", 0, NULL, "same as --by thread", GS_CLI_SET, .set = set_threads},
	GS_CLI_TOP(struct trace_options, style.n_top, top_given),
	GS_CLI_STREAM_LIMITS(struct trace_options, stream_limits),
	GS_CLI_WIDTH(struct trace_options, width),
	{"color", 0, "WHEN", "auto, always, never", GS_CLI_SET, .words = "auto always never",
	 .set = set_color},
	GS_CLI_COMMANDS,
	GS_CLI_NO_ARGS,
	{"quiet", 'q', NULL, "print no live line and no line for each written file", GS_CLI_FLAG,
	 AT(quiet)},
	{"verbose", 'v', NULL, "print every block of the summary; log what is attached", GS_CLI_SET,
	 .set = set_verbose},
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_TITLE("Limits:"),
	{"duration", 'd', "TIME", "stop tracing after this time (10 is seconds; 500ms)",
	 GS_CLI_TIME, AT(duration_ns), .min = 1},
	{"max-size", 0, "BYTES", "limit for each output file (64M, 2G)", GS_CLI_BYTES,
	 AT(max_bytes), .min = 1},
	{"ring-size", 0, "BYTES", "buffer between kernel and gpuscope (16M)", GS_CLI_SET,
	 .takes = "64K to 1G", .set = set_ring_size},
	{"max-overhead", 0, "PERCENT", "limit tracing overhead per thread (2%, 0.5%)", GS_CLI_SET,
	 .takes = "a percentage above 0, such as 2% or 0.5%", .set = set_max_overhead},
	{"estimate", 0, NULL, "only estimate what tracing each function would cost", GS_CLI_FLAG,
	 AT(estimate)},
	{"disable-feature", 0, "WHAT[,WHAT]", "disable features, for comparison or kernel bugs",
	 GS_CLI_LIST, .words = "session multi task-storage moved-sites return-probes account",
	 .set = add_feature},
	GS_CLI_END};

const struct gs_cli_command gs_cli_trace = {
	.name = "gpuscope trace",
	.usage = "-- COMMAND [ARGUMENT...]\n"
		 "-p PID[,PID]...\n"
		 "-a | -u USER | --comm NAME | --cgroup PATH",
	.about = "Traces CUDA and NCCL calls and ends with a ranked summary.",
	.notes =
		"Examples:\n"
		"  gpuscope trace -- python train.py\n"
		"  gpuscope trace -o run.pftrace -- torchrun --nproc-per-node 8 train.py\n"
		"  gpuscope trace -p 4711 --duration 10 --format json > summary.json\n"
		"\n"
		"Exit status: that of the command, if one was given (126 not executable, 127 not found); else 0 done, 1 failed, 2 wrong usage, 3 not permitted or not supported here, 4 nothing to trace: no such process, or none that uses a library with functions to trace.",
	.brief =
		"pid follow all-processes layer python-hz inside output format by verbose duration head",
	.options = option_table,
	.groups = {TO_HEAD_GROUPS(struct trace_options, head)},
	.stops_at_word = true,
	.take_word = set_command,
};

/* The static probes of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): malloc has
 * the pointer, the device, the bytes and the stream's number, free the pointer. */
static int add_torch_memory(struct gs_user_set *users)
{
	static const struct gs_user_value word = {
		.value_type = GS_VALUE_U64, .bytes = 8, .text = GS_USER_NONE};
	struct gs_user_spec spec = {.provider = "pytorch",
				    .probe = "malloc",
				    .layer = GS_LAYER_TORCH_MEM,
				    .func_class = GS_CLASS_ALLOC};
	int r;

	spec.row.flags = GS_USER_ALWAYS | GS_USER_FIELDS;
	spec.row.aggregate_value = GS_USER_NONE;
	spec.row.n_values = 4;
	for (unsigned i = 0; i < 4; i++) {
		spec.row.values[i] = word;
		spec.starts[i].arg = (uint8_t)(i + 1);
	}
	spec.row.v_arg0 = 0;
	spec.row.v_aux = 1;
	spec.row.v_bytes = 2;
	spec.row.v_stream = 3;
	r = gs_user_set_add(users, &spec);
	spec.probe = "free";
	spec.func_class = GS_CLASS_FREE;
	spec.row.n_values = 1;
	spec.row.v_aux = spec.row.v_bytes = spec.row.v_stream = GS_USER_NONE;
	return r < 0 ? r : gs_user_set_add(users, &spec);
}

/* The probe files, read; 0 or an exit status, said. */
static int read_probes(struct trace_options *o)
{
	struct gs_err err = {{0}};

	o->users = gs_user_set_new();
	if (!o->users) {
		gs_cli_print_message("no memory");
		return GS_EXIT_FAILED;
	}
	for (size_t i = 0; i < o->n_probe_files; i++) {
		size_t n = gs_user_set_n_twice(o->users);
		int r = gs_probefile_read(o->probe_files[i], o->users, &err);

		if (r < 0) {
			gs_cli_print_message("%s", gs_err_text(&err, r));
			return r == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
		}
		n = gs_user_set_n_twice(o->users) - n;
		if (n > 0)
			gs_cli_print_message(
				"%s: %zu of its probes %s already described; each call is counted once",
				o->probe_files[i], n, n == 1 ? "was" : "were");
	}
	if (o->layers >> GS_LAYER_TORCH_MEM & 1 && add_torch_memory(o->users) < 0) {
		gs_cli_print_message("no memory");
		return GS_EXIT_FAILED;
	}
	return 0;
}

/* What the probes ask for, and whether it can be had. 0 or an exit status, said. */
static int settle_probes(struct trace_options *o)
{
	for (size_t i = 0; i < gs_user_set_n(o->users); i++) {
		unsigned flags = gs_user_set_spec(o->users, i)->row.flags;

		if (flags & GS_USER_PY_STACK)
			o->py_stack_at |= GS_AT_PROBE;
		if (flags & GS_USER_NATIVE_STACK)
			o->native_stack_at |= GS_AT_PROBE;
	}
	if (o->native_stack_at & GS_AT_PROBE && !o->n_outputs) {
		gs_cli_print_message(
			"a probe of %s takes native stacks, which need an output file: add -o FILE, or write \"stack: python\" there",
			o->probe_files[0]);
		return GS_EXIT_USAGE;
	}
	trace_stacks_settle(o);
	return 0;
}

void trace_options_free(struct trace_options *o)
{
	gs_user_set_free(&o->users);
}

int trace_options_parse(int argc, char **argv, struct trace_options *o, bool *ret_done)
{
	int r;

	*o = (struct trace_options){.uid = -1, .color_auto = true, .hang_after_ns = HANG_AFTER_NS};
	o->width = -1;
	o->style = (struct gs_report_summary_style){.size = sizeof(o->style),
						    .view = GS_SUMMARY_SHORT};
	*ret_done = false;
	if (!gs_cli_parse(&gs_cli_trace, argc, argv, o, &r)) {
		*ret_done = r == GS_EXIT_DONE;
		return r;
	}
	if (o->list) {
		*ret_done = true;
		return trace_list(o);
	}
	gs_cli_summary_settle(&o->style, o->top_given);
	o->view_wants_calls = o->style.view == GS_SUMMARY_STREAMS ||
			      o->style.view == GS_SUMMARY_KERNELS ||
			      o->style.view == GS_SUMMARY_MEMORY || o->kernels.n;
	/* Whose call sites an allocation's stacks name. */
	if (o->style.view == GS_SUMMARY_MEMORY && !o->summary_only) {
		o->py_stack_at |= GS_AT_ALLOC;
		o->native_stack_at |= GS_AT_ALLOC;
	}
	trace_stacks_settle(o);
	if (o->estimate && !o->duration_ns) {
		o->duration_ns = PLAN_NS;
		o->estimate_waits = o->command; /* which may have to import PyTorch first */
	}
	trace_python_settle(o);
	if (o->summary_only && o->python_wants_calls) {
		gs_cli_print_message(
			"--summary-only adds calls up in the kernel, without Python stacks: leave it out, or use --python-hz alone");
		return GS_EXIT_USAGE;
	}
	if (o->native_stack_at && !o->n_outputs && !o->head.n_addresses &&
	    o->style.view != GS_SUMMARY_MEMORY) {
		gs_cli_print_message(
			"--stacks native records a stack with each event, which needs an output file: add -o FILE");
		return GS_EXIT_USAGE;
	}
	if (o->summary_only && o->view_wants_calls) {
		gs_cli_print_message(
			"--summary-only adds calls up in the kernel, without streams, kernels and memory: leave it out, or --by, --memory and --kernel");
		return GS_EXIT_USAGE;
	}
	/* Who gives layers and all of --inside wants operators only as one of them. */
	if (o->inside_all && o->layers && !(o->layers >> GS_LAYER_TORCH & 1) && !o->ops.n &&
	    !o->op_set_given)
		o->inside_ops = false;
	/* Calls that are added up in the kernel do not say which operator, seen from inside, made them. */
	if (!o->n_outputs && !o->head.n_addresses && !o->python_wants_calls &&
	    !o->view_wants_calls && (!o->inside_ops || o->inside_calls))
		o->summary_only = true;
	/* Who names operators wants them, beside what is traced anyway. */
	if (o->ops.n || o->op_set_given || o->inside_ops)
		o->layers = (o->layers ? o->layers : GS_LAYERS_DEFAULT) | 1u << GS_LAYER_TORCH;
	r = trace_check(o);
	if (o->keep_last_ns && !o->keep_on)
		o->keep_on =
			TRACE_KEEP_END | TRACE_KEEP_HANG | TRACE_KEEP_FINDING | TRACE_KEEP_DEATH;
	if (o->keep_last_ns && !o->keep_bytes)
		o->keep_bytes = KEEP_BYTES;
	if (r == 0)
		r = read_probes(o);
	if (r == 0)
		r = settle_probes(o);
	return r ? r : trace_check_stacks(o);
}

/* As the command lines of all processes are shown. */
static void describe_command(char **command, char *out, size_t bytes)
{
	char arguments[4096];
	size_t n = 0;

	for (char **w = command; *w && n < sizeof(arguments); w++)
		n += (size_t)snprintf(arguments + n, sizeof(arguments) - n, "%s", *w) + 1;
	gs_identity_command_line(arguments, n < sizeof(arguments) ? n : sizeof(arguments), out,
				 bytes);
	if (!out[0])
		snprintf(out, bytes, "%s", command[0]);
}

void trace_describe_target(const struct trace_options *o, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	if (o->command) {
		describe_command(o->command, out, bytes);
		return;
	}
	for (size_t i = 0; i < o->n_pids && n < bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%d",
				      i               ? ", "
				      : o->n_pids > 1 ? "processes "
						      : "process ",
				      (int)o->pids[i]);
	if (o->all && n < bytes)
		n += (size_t)snprintf(out + n, bytes - n, GS_SESSION_OF_MACHINE);
	/* Who meets all of these. */
	if ((o->uid >= 0 || o->comm || o->cgroup) && n < bytes)
		n += (size_t)snprintf(out + n, bytes - n, "%sprocesses", n ? ", and " : "");
	if (o->uid >= 0 && n < bytes)
		n += (size_t)snprintf(out + n, bytes - n, " of user %lld", (long long)o->uid);
	if (o->comm && n < bytes)
		n += (size_t)snprintf(out + n, bytes - n, " named %s", o->comm);
	if (o->cgroup && n < bytes)
		snprintf(out + n, bytes - n, " in %s", o->cgroup);
}
