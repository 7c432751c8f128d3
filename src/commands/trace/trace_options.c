/* The command line of `gpuscope trace`. */
#include <argp.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/log.h"
#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "commands/trace/trace.h"
#include "model/trace/func.h"
#include "model/trace/record_stack.h"
#include "sources/identity/identity.h"
#include "sources/probefile/probefile.h"

#define PLAN_NS 2000000000ull

enum {
	OPT_CGROUP = 256,
	OPT_FOLLOW,
	OPT_LAYER,
	OPT_FUNC,
	OPT_MIN_DURATION,
	OPT_DURATION,
	OPT_MAX_SIZE,
	OPT_SUMMARY_ONLY,
	OPT_FORMAT,
	OPT_SUMMARY,
	OPT_RING_SIZE,
	OPT_THREADS,
	OPT_TOP,
	OPT_BY,
	OPT_WIDTH,
	OPT_AVOID,
	OPT_LIST,
	OPT_PYTHON_HZ,
	OPT_PYTHON_CALLS,
	OPT_PYTHON_GC,
	OPT_PYTHON_GIL,
	OPT_STACKS,
	OPT_STACK_BYTES,
	OPT_PYTHON_AT,
	OPT_PYTHON_FILTER,
	OPT_COLOR,
	OPT_FLAME,
	OPT_MAX_OVERHEAD,
	OPT_PLAN,
	OPT_COMMANDS,
	OPT_PROBES,
	OPT_OP,
	OPT_OP_SET,
};

static const struct argp_option option_table[] = {
	{NULL, 0, NULL, 0,
	 "What to trace (a command behind -- is started and followed with all its "
	 "children):",
	 1},
	{"pid", 'p', "PID[,PID]", 0, "running processes", 1},
	{"follow", OPT_FOLLOW, NULL, 0, "with -p or -c: their children too", 1},
	{"user", 'u', "USER", 0, "all processes of a user (name or number)", 1},
	{"comm", 'c', "NAME", 0, "all processes of this name (its first 15 characters)", 1},
	{"cgroup", OPT_CGROUP, "PATH", 0, "all processes below a cgroup folder", 1},
	{"all", 'a', NULL, 0, "every process of the machine", 1},
	{NULL, 0, NULL, 0, "Which calls:", 2},
	{"layer", OPT_LAYER, "LAYER[,LAYER]", 0,
	 "cuda (both of the next), cuda-runtime, cuda-driver, nccl, mpi, torch, torchmem "
	 "(PyTorch's "
	 "caching allocator), user (described probes alone); python: with Python stacks 99 times "
	 "a second and at launches, collectives and allocations",
	 2},
	{"op", OPT_OP, "GLOB[,GLOB]", 0,
	 "PyTorch operators by name, such as 'aten::conv*' or add.Tensor", 2},
	{"op-set", OPT_OP_SET, "SET", 0,
	 "PyTorch operators: default, all, eacgm (the 24 of eACGM, under its names)", 2},
	{"func", OPT_FUNC, "GLOB[,GLOB]", 0,
	 "functions by name instead of the default set, such as 'cudaMemcpy*'", 2},
	{"probes", OPT_PROBES, "FILE", 0,
	 "also the functions and static probes that a probe file describes (gpuscope probes makes "
	 "one); may be given more than once",
	 2},
	{"list", OPT_LIST, NULL, 0, "list the functions that can be traced, and stop", 2},
	{"min-duration", OPT_MIN_DURATION, "TIME", 0,
	 "only calls of at least this become events (50us, 2ms); the summary still counts all", 2},
	{"python-hz", OPT_PYTHON_HZ, "N", 0,
	 "note N times a second (99 is usual) what line of Python code each running thread is at",
	 2},
	{"python-at", OPT_PYTHON_AT, "WHEN[,WHEN]", 0,
	 "note the Python stack at each launch, collective, alloc, copy, sync, slow-op[=1ms], "
	 "sample",
	 2},
	{"python-filter", OPT_PYTHON_FILTER, "GLOB[,GLOB]", 0,
	 "files passed over when a stack is shown as one line (default: the standard library and "
	 "installed packages; 'none': no file)",
	 2},
	{"python-calls", OPT_PYTHON_CALLS, "GLOB[,GLOB]", OPTION_ARG_OPTIONAL,
	 "each call of a Python function (Python 3.8 to 3.10), or of those with such a name "
	 "(forward, 'test_*') or place ('train.py:*')",
	 2},
	{"python-gc", OPT_PYTHON_GC, NULL, 0,
	 "each garbage collection of Python, and how long it took", 2},
	{"python-gil", OPT_PYTHON_GIL, NULL, 0,
	 "each time a thread took Python's lock, and how long it waited", 2},
	{"stacks", OPT_STACKS, "native[,at=WHEN+WHEN]", 0,
	 "note who called: the functions on the stack at each launch, collective, alloc, copy, "
	 "sync, slow-op, sample (default launch+collective+alloc)",
	 2},
	{"stack-bytes", OPT_STACK_BYTES, "BYTES", 0,
	 "of the stack that are looked at for that (default 8K; up to 32K)", 2},
	{NULL, 0, NULL, 0, "What comes out:", 3},
	{"output", 'o', "FILE", 0,
	 "record whole calls: .pftrace (Perfetto), .json (Trace Event), .csv, .svg or .folded "
	 "(flame graph), .gst (gpuscope report reads it), - (CSV to standard output, or "
	 "-.json and so on); may be given more than once",
	 3},
	{"flame", OPT_FLAME, "WHAT", 0,
	 "what a flame graph shows: time, launches, bytes (moved), memory (allocated), samples "
	 "(default: samples if there are any, else time)",
	 3},
	{"summary-only", OPT_SUMMARY_ONLY, NULL, 0,
	 "add calls up in the kernel: no event crosses (the default without -o)", 3},
	{"format", OPT_FORMAT, "FORMAT", 0, "of the summary: table, json, csv, yaml", 3},
	{"summary", OPT_SUMMARY, "FILE", 0,
	 "write the summary to a file, or - (default: standard output; standard error with a "
	 "command)",
	 3},
	{"by", OPT_BY, "WHAT", 0,
	 "what the table is of instead of the ten most expensive things: process, thread, stream "
	 "(records every call), operator, line",
	 3},
	{"threads", OPT_THREADS, NULL, 0, "as --by thread", 3},
	{"top", OPT_TOP, "N", 0, "rows of the table (default 10; with --by or -v 20; 0 all)", 3},
	{"width", OPT_WIDTH, "COLUMNS", 0,
	 "of the table (default: of the terminal, else COLUMNS or 100; 0 no limit)", 3},
	{"color", OPT_COLOR, "WHEN", 0, "auto, always, never", 3},
	{"commands", OPT_COMMANDS, "WHAT", 0, "arguments of processes: scrubbed, name (none), full",
	 3},
	{"quiet", 'q', NULL, 0, "no live line, no line for each file that was written", 3},
	{"verbose", 'v', NULL, 0,
	 "every block of the summary; say what is attached where and how (twice: every probe)", 3},
	{NULL, 0, NULL, 0, "Limits:", 4},
	{"duration", OPT_DURATION, "TIME", 0,
	 "stop tracing after this time (10 is seconds; 500ms, 2m)", 4},
	{"max-size", OPT_MAX_SIZE, "BYTES", 0, "of each output file (64M, 2G)", 4},
	{"ring-size", OPT_RING_SIZE, "BYTES", 0,
	 "of the buffer between kernel and gpuscope (default 16M)", 4},
	{"max-overhead", OPT_MAX_OVERHEAD, "PERCENT", 0,
	 "of processor time (2%, 0.5%): the most expensive functions are added up in the kernel, "
	 "then sampled, then only counted, then not probed",
	 4},
	{"plan", OPT_PLAN, NULL, 0,
	 "count calls for two seconds (of a command from its first call on; or --duration), and "
	 "print what tracing each function would cost",
	 4},
	{"avoid", OPT_AVOID, "WHAT[,WHAT]", 0,
	 "do without: session, multi, task-storage, moved-sites, return-probes, account (to "
	 "compare, or to step "
	 "round a "
	 "kernel's fault)",
	 4},
	{0},
};

static int split_list(char *list, bool (*take)(struct trace_options *, const char *),
		      struct trace_options *o)
{
	char *save = NULL;
	int n = 0;

	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save), n++)
		if (!take(o, w))
			return -EINVAL;
	return n ? 0 : -EINVAL;
}

static bool take_pid(struct trace_options *o, const char *word)
{
	char *end;
	long pid = strtol(word, &end, 10);

	if (*end || pid <= 0 || pid > (1 << 22) || o->n_pids == TRACE_MAX_PIDS)
		return false;
	o->pids[o->n_pids++] = (pid_t)pid;
	return true;
}

static bool take_layer(struct trace_options *o, const char *word)
{
	if (strcmp(word, "cuda") == 0) {
		o->layers |= 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER;
		return true;
	}
	for (unsigned layer = 1; layer < GS_LAYER_COUNT; layer++) {
		if (strcmp(word, gs_layer_name(layer)) == 0) {
			o->layers |= 1u << layer;
			return true;
		}
	}
	return false;
}

static bool take_glob(struct trace_options *o, const char *word)
{
	if (o->n_globs == TRACE_MAX_GLOBS)
		return false;
	o->globs[o->n_globs++] = word;
	return true;
}

static bool take_line_filter(struct trace_options *o, const char *word)
{
	if (o->n_line_filters == TRACE_MAX_GLOBS)
		return false;
	o->line_filters[o->n_line_filters++] = word;
	return true;
}

static bool take_op(struct trace_options *o, const char *word)
{
	if (o->n_ops == TRACE_MAX_GLOBS)
		return false;
	o->ops[o->n_ops++] = word;
	return true;
}

static bool take_op_set(struct trace_options *o, const char *word)
{
	static const char *const names[] = {
		[GS_OPS_DEFAULT] = "default", [GS_OPS_ALL] = "all", [GS_OPS_EACGM] = "eacgm"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		if (strcmp(word, names[i]) == 0) {
			o->op_set = (enum gs_op_set)i;
			o->op_set_given = true;
			return true;
		}
	}
	return false;
}

static bool take_avoid(struct trace_options *o, const char *word)
{
	static const char *const names[] = {"session",     "multi",         "task-storage",
					    "moved-sites", "return-probes", "account"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		if (strcmp(word, names[i]) == 0) {
			o->avoid |= 1u << i;
			return true;
		}
	}
	return false;
}

static bool take_user(struct trace_options *o, const char *word)
{
	struct passwd *pw = getpwnam(word);
	char *end;

	if (pw) {
		o->uid = pw->pw_uid;
		return true;
	}
	o->uid = strtol(word, &end, 10);
	return *word && !*end && o->uid >= 0;
}

static bool take_ring_size(struct trace_options *o, const char *word)
{
	uint64_t bytes;

	if (gs_parse_bytes(word, &bytes) < 0 || bytes < 65536 || bytes > 1u << 30)
		return false;
	/* The kernel takes powers of two. */
	for (o->ring_bytes = 65536; o->ring_bytes < bytes;)
		o->ring_bytes *= 2;
	return true;
}

static bool take_output(struct trace_options *o, const char *path)
{
	const char *dot = strrchr(path, '.');

	o->outputs[o->n_outputs++] = path;
	o->output_to_stdout |= gs_export_is_stdout(path);
	if (strcmp(path, "-.gst") == 0)
		return false;
	return gs_export_knows(path) || (dot && strcmp(dot, ".gst") == 0);
}

static bool take_top(struct trace_options *o, const char *word)
{
	char *end;
	long n = strtol(word, &end, 10);

	o->style.n_top = (unsigned)n;
	o->top_given = true;
	return *word && !*end && n >= 0 && n < 100000;
}

static bool take_color(struct trace_options *o, const char *word)
{
	o->style.color = strcmp(word, "always") == 0;
	o->color_auto = strcmp(word, "auto") == 0;
	return o->style.color || o->color_auto || strcmp(word, "never") == 0;
}

static bool take_percent(const char *word, double *ret_ratio)
{
	char *end;

	*ret_ratio = strtod(word, &end) / 100;
	return end != word && (!*end || strcmp(end, "%") == 0) && *ret_ratio > 0 && *ret_ratio <= 1;
}

static bool take_option(struct trace_options *o, int key, char *arg)
{
	switch (key) {
	case 'p':
		return split_list(arg, take_pid, o) == 0;
	case 'u':
		return take_user(o, arg);
	case 'c':
		o->comm = arg;
		return *arg;
	case OPT_LAYER:
		return split_list(arg, take_layer, o) == 0;
	case OPT_FUNC:
		return split_list(arg, take_glob, o) == 0;
	case OPT_STACKS:
		return trace_stacks_take(o, arg);
	case OPT_STACK_BYTES:
		return trace_stacks_take_bytes(o, arg);
	case OPT_PYTHON_HZ:
		return trace_python_take_hz(o, arg);
	case OPT_PYTHON_AT:
		return split_list(arg, trace_python_take_at, o) == 0;
	case OPT_PYTHON_CALLS:
		o->python_calls = true;
		return !arg || split_list(arg, trace_python_take_call, o) == 0;
	case OPT_PYTHON_FILTER:
		return split_list(arg, take_line_filter, o) == 0;
	case OPT_OP:
		return split_list(arg, take_op, o) == 0;
	case OPT_OP_SET:
		return take_op_set(o, arg);
	case OPT_AVOID:
		return split_list(arg, take_avoid, o) == 0;
	case OPT_MIN_DURATION:
		return gs_parse_ns(arg, 1000, &o->min_dur_ns) == 0;
	case OPT_DURATION:
		return gs_parse_ns(arg, 1000000000, &o->duration_ns) == 0 && o->duration_ns;
	case OPT_MAX_SIZE:
		return gs_parse_bytes(arg, &o->max_bytes) == 0 && o->max_bytes;
	case OPT_RING_SIZE:
		return take_ring_size(o, arg);
	case OPT_FORMAT:
		return gs_report_summary_format_parse(arg, &o->format) == 0;
	case OPT_TOP:
		return take_top(o, arg);
	case OPT_BY:
		return gs_report_summary_view_parse(arg, &o->style.view) == 0;
	case OPT_WIDTH:
		return gs_cli_parse_width(arg, &o->width);
	case OPT_MAX_OVERHEAD:
		return take_percent(arg, &o->max_overhead);
	case OPT_FLAME:
		o->flame_by_given = true;
		return gs_flame_by_parse(arg, &o->flame_by) == 0;
	case OPT_COLOR:
		return take_color(o, arg);
	case 'o':
		return take_output(o, arg);
	default:
		return false;
	}
}

static const char *expected_value(int key)
{
	switch (key) {
	case 'p':
		return "process ids, such as 1234,1240 (at most 64)";
	case 'u':
		return "the name of a user of this machine, or a number";
	case 'c':
		return "the name of a program, such as python3";
	case OPT_LAYER:
		return "one or more of cuda, cuda-runtime, cuda-driver, nccl, mpi, torch, "
		       "torchmem, "
		       "python, user";
	case OPT_STACKS:
		return "native, or native,at= and one or more of launch, collective, alloc, copy, "
		       "sync, slow-op, sample joined by +";
	case OPT_STACK_BYTES:
		return "512 to 32K";
	case OPT_PYTHON_HZ:
		return "a number from 1 to 10000, such as 99";
	case OPT_PYTHON_AT:
		return "one or more of launch, collective, alloc, copy, sync, slow-op, "
		       "slow-op=TIME, sample";
	case OPT_PYTHON_CALLS:
		return "at most 8 patterns of at most 128 characters, such as forward or "
		       "'train.py:*'";
	case OPT_PYTHON_FILTER:
		return "at most 32 patterns, such as '*/torch/*', or none";
	case OPT_OP:
		return "at most 32 names or patterns of operators";
	case OPT_OP_SET:
		return "default, all or eacgm";
	case OPT_FUNC:
		return "at most 32 names or patterns";
	case OPT_AVOID:
		return "one or more of session, multi, task-storage, moved-sites, return-probes, "
		       "account";
	case OPT_FORMAT:
		return "table, json, csv or yaml";
	case OPT_COLOR:
		return "auto, always or never";
	case OPT_RING_SIZE:
		return "64K to 1G";
	case OPT_MAX_SIZE:
		return "a size, such as 64M or 2G";
	case OPT_MIN_DURATION:
		return "a time, such as 50us or 2ms (a plain number is microseconds)";
	case OPT_DURATION:
		return "a time, such as 10, 500ms or 2m (a plain number is seconds)";
	case OPT_TOP:
		return "a number; 0 is all";
	case OPT_BY:
		return "process, thread, stream, operator or line";
	case OPT_WIDTH:
		return "a number of columns, 40 or more; 0 is no limit";
	case OPT_MAX_OVERHEAD:
		return "a percentage above 0, such as 2% or 0.5%";
	case OPT_FLAME:
		return "time, launches, bytes, memory, samples or auto";
	case 'o':
		return "a file ending in one of " GS_EXPORT_SUFFIXES
		       " or .gst, or - (and one of these but .gst); the summary goes to a file by "
		       "--summary FILE";
	default:
		return "something else";
	}
}

static const char *option_name(int key)
{
	for (const struct argp_option *o = option_table; o->name || o->doc; o++)
		if (o->key == key && o->name)
			return o->name;
	return "";
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct trace_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->head;
		return 0;
	case 'a':
		o->all = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		gs_log_set_level(gs_log_level() + 1);
		o->style.verbose = true;
		return 0;
	case OPT_CGROUP:
		o->cgroup = arg;
		return 0;
	case OPT_PROBES:
		if (o->n_probe_files == GS_ARRAY_LEN(o->probe_files)) {
			gs_cli_say("--probes: at most %zu files", GS_ARRAY_LEN(o->probe_files));
			return EINVAL;
		}
		o->probe_files[o->n_probe_files++] = arg;
		return 0;
	case OPT_FOLLOW:
		o->follow = true;
		return 0;
	case OPT_SUMMARY_ONLY:
		o->summary_only = true;
		return 0;
	case OPT_SUMMARY:
		o->summary_path = arg;
		o->summary_to_stdout = strcmp(arg, "-") == 0;
		if (o->summary_to_stdout)
			o->summary_path = NULL;
		return 0;
	case OPT_THREADS:
		o->style.view = GS_SUMMARY_THREADS;
		return 0;
	case OPT_LIST:
		o->list = true;
		return 0;
	case OPT_PYTHON_CALLS:
		if (!take_option(o, key, arg)) {
			gs_cli_say("--python-calls takes %s", expected_value(key));
			return EINVAL;
		}
		return 0;
	case OPT_PYTHON_GC:
		o->python_gc = true;
		return 0;
	case OPT_PYTHON_GIL:
		o->python_gil = true;
		return 0;
	case OPT_COMMANDS:
		if (!gs_identity_choose_commands(arg))
			argp_error(state, "--commands takes scrubbed, name or full, not \"%s\"",
				   arg);
		return 0;
	case OPT_PLAN:
		o->plan = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The first word that is no option begins the command, with or without "--". */
		o->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	default:
		if (!arg)
			return ARGP_ERR_UNKNOWN;
		if (key == 'o' && o->n_outputs == TRACE_MAX_OUTPUTS) {
			gs_cli_say("-o may be given %d times at most; `gpuscope report` converts a "
				   ".gst file to the other formats",
				   TRACE_MAX_OUTPUTS);
			return EINVAL;
		}
		if (!take_option(o, key, arg)) {
			gs_cli_say("--%s takes %s", option_name(key), expected_value(key));
			return EINVAL;
		}
		return 0;
	}
}

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
		gs_cli_say("no memory");
		return GS_EXIT_FAILED;
	}
	for (size_t i = 0; i < o->n_probe_files; i++) {
		size_t n = gs_user_set_n_twice(o->users);
		int r = gs_probefile_read(o->probe_files[i], o->users, &err);

		if (r < 0) {
			gs_cli_say("%s", gs_err_text(&err, r));
			return r == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
		}
		n = gs_user_set_n_twice(o->users) - n;
		if (n > 0)
			gs_cli_say(
				"%s: %zu of its probes %s described before in the same way: a call "
				"is counted once",
				o->probe_files[i], n, n == 1 ? "was" : "were");
	}
	if (o->layers >> GS_LAYER_TORCH_MEM & 1 && add_torch_memory(o->users) < 0) {
		gs_cli_say("no memory");
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
		gs_cli_say("a probe of %s takes native stacks, and there is no file to write them "
			   "into: add -o FILE, or say \"stack: python\" there",
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
	static const struct argp_child children[] = {{&to_head_argp, 0, "Delivery to a head:", 5},
						     {0}};
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.children = children,
		.help_filter = gs_cli_help_filter,
		.args_doc = "-- COMMAND [ARGUMENT...]\n-p PID[,PID]...\n-a | -u USER | -c NAME | "
			    "--cgroup PATH",
		.doc = "Traces CUDA and NCCL calls and ends with a ranked summary.\v"
		       "Examples:\n"
		       "  gpuscope trace -- python train.py\n"
		       "  gpuscope trace -o run.pftrace -- torchrun --nproc-per-node 8 train.py\n"
		       "  gpuscope trace -p 4711 --duration 10 --format json > summary.json\n\n"
		       "Exit status: that of the command, if one was given (126 not executable, "
		       "127 not "
		       "found); else 0 done, 1 failed, 2 wrong usage, 3 not permitted or not "
		       "supported here, 4 nothing to trace: no such process, or none that "
		       "uses a library with functions to trace.",
	};

	int r;

	*o = (struct trace_options){.uid = -1, .color_auto = true};
	o->width = -1;
	o->style = (struct gs_report_summary_style){.size = sizeof(o->style),
						    .view = GS_SUMMARY_SHORT};
	*ret_done = false;
	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, o) != 0)
		return GS_EXIT_USAGE;
	if (o->list) {
		*ret_done = true;
		return trace_list(o);
	}
	gs_cli_summary_settle(&o->style, o->top_given);
	o->view_wants_calls = o->style.view == GS_SUMMARY_STREAMS;
	trace_stacks_settle(o);
	if (o->plan && !o->duration_ns) {
		o->duration_ns = PLAN_NS;
		o->plan_waits = o->command; /* which may have to import PyTorch first */
	}
	trace_python_settle(o);
	if (o->summary_only && o->python_wants_calls) {
		gs_cli_say(
			"--summary-only adds calls up in the kernel, so there are none to note a "
			"Python stack at: leave it out, or ask for --python-hz alone");
		return GS_EXIT_USAGE;
	}
	if (o->native_stack_at && !o->n_outputs && !o->head.n_addresses) {
		gs_cli_say("--stacks native notes a stack for each event, and there is no file to "
			   "write events into: add -o FILE");
		return GS_EXIT_USAGE;
	}
	if (o->summary_only && o->view_wants_calls) {
		gs_cli_say("--summary-only adds calls up in the kernel, where they name no stream: "
			   "leave it out, or --by stream");
		return GS_EXIT_USAGE;
	}
	if (!o->n_outputs && !o->head.n_addresses && !o->python_wants_calls && !o->view_wants_calls)
		o->summary_only = true;
	/* Who names operators wants them, beside what is traced anyway. */
	if (o->n_ops || o->op_set_given)
		o->layers = (o->layers ? o->layers : GS_LAYERS_DEFAULT) | 1u << GS_LAYER_TORCH;
	r = trace_check(o);
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
		n += (size_t)snprintf(out + n, bytes - n, "all processes");
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
