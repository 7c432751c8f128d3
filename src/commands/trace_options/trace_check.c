/*
 * Options of `gpuscope trace` that do not go together. An option that would do nothing is wrong
 * usage: who gave it expects something else than what would come out.
 */
#include <string.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/trace_options/trace_options_int.h"

static int refuse_trace(const char *text)
{
	gs_cli_print_message("%s", text);
	return GS_EXIT_USAGE;
}

/* Who is traced. */
static int check_target(const struct trace_options *o)
{
	bool others = o->all || o->uid >= 0 || o->cgroup;
	bool chosen = o->n_pids || o->comm || others;

	if (!o->command && !chosen)
		return refuse_trace(
			"nothing to trace: give a command (gpuscope trace -- python train.py), -p PID, -u USER, --comm NAME, --cgroup PATH or -a");
	if (o->command && chosen)
		return refuse_trace(
			"give either a command or a selection (-p, -u, --comm, --cgroup, -a), not both");
	if (o->all && (o->n_pids || o->uid >= 0 || o->comm || o->cgroup))
		return refuse_trace(
			"-a selects every process: do not combine it with -p, -u, --comm or --cgroup");
	if (o->follow && others && !o->n_pids && !o->comm)
		return refuse_trace(
			"--follow is for -p and --comm: -u, --cgroup and -a include children anyway");
	return 0;
}

static int check_plan(const struct trace_options *o)
{
	if (o->n_outputs || o->head.n_addresses || o->max_overhead > 0)
		return refuse_trace(
			"--estimate only counts: leave out -o, --head and --max-overhead");
	if (o->format == GS_SUMMARY_YAML)
		return refuse_trace("--estimate prints a table, json or csv");
	return 0;
}

/* What is sent only as events, or written only into files. */
static int check_events(const struct trace_options *o)
{
	if (o->summary_only && o->n_outputs) {
		gs_cli_print_message(
			"--summary-only sends no events, so there is nothing to write into %s: leave out one of the two",
			o->outputs[0]);
		return GS_EXIT_USAGE;
	}
	if (o->summary_only && o->min_dur_ns)
		return refuse_trace(
			"--min-duration selects the calls that are recorded: add -o FILE");
	if (o->max_bytes && !o->n_outputs)
		return refuse_trace("--max-size limits output files: add -o FILE");
	return 0;
}

static int check_keep(const struct trace_options *o)
{
	if (!o->keep_last_ns && (o->keep_on || o->keep_bytes))
		return refuse_trace("--keep-on and --keep-memory need --keep-last TIME");
	if (!o->keep_last_ns)
		return 0;
	if (o->n_outputs != 1 || gs_export_knows(o->outputs[0]))
		return refuse_trace(
			"--keep-last needs one -o FILE.gst, to which it writes (gpuscope report converts it)");
	if (o->max_bytes)
		return refuse_trace(
			"--max-size limits a file that grows: use --keep-memory with --keep-last");
	return 0;
}

static int check_files(const struct trace_options *o)
{
	bool flame = false;
	unsigned n_stdout = o->summary_to_stdout;

	for (size_t i = 0; i < o->n_outputs; i++) {
		flame |= gs_export_is_flame(o->outputs[i]);
		n_stdout += gs_export_is_stdout(o->outputs[i]);
		for (size_t j = 0; j < i; j++)
			if (strcmp(o->outputs[i], o->outputs[j]) == 0)
				return refuse_trace("-o names the same file twice");
		if (o->summary_path && strcmp(o->outputs[i], o->summary_path) == 0)
			return refuse_trace("--summary and -o name the same file");
	}
	if (n_stdout > 1)
		return refuse_trace("only one of -o - and --summary - can use standard output");
	if (o->flame_by_given && !flame)
		return refuse_trace(
			"--flame is for flame graphs: add -o FILE.svg or -o FILE.folded");
	return 0;
}

/* What needs both doors of one call. */
static int check_calls(const struct trace_options *o)
{
	const uint32_t above = 1u << GS_LAYER_PYTHON | 1u << GS_LAYER_USER |
			       (o->inside_ops ? 0 : 1u << GS_LAYER_TORCH);

	if (o->layers & above || (o->ops.n && !o->inside_ops) ||
	    (o->op_set_given && !o->inside_ops) || o->n_probe_files)
		return refuse_trace(
			"--inside=calls cannot trace described probes, and operators only from inside, too: leave out one of the two, or give --inside=calls,ops");
	if (o->python_calls && !o->inside_python)
		return refuse_trace(
			"--inside=calls needs Python functions to be traced from inside, too: --inside=calls,python");
	if (o->native_stack_at & ~(unsigned)GS_AT_SAMPLE ||
	    o->py_stack_at & ~(unsigned)GS_AT_SAMPLE)
		return refuse_trace(
			"--inside=calls cannot record stacks at calls: leave it out, or use --stacks and --python-at with samples only (at=sample)");
	return 0;
}

/* The same of one operator. */
static int check_inside_ops(const struct trace_options *o)
{
	if (o->n_probe_files)
		return refuse_trace(
			"--inside=ops cannot trace described probes: leave out one of it and --probes");
	if ((o->native_stack_at | o->py_stack_at) & GS_AT_SLOW_SCOPE)
		return refuse_trace(
			"--inside=ops cannot record stacks at operators: leave it out, or use --stacks and --python-at without slow-op");
	return 0;
}

/* Of calls of CUDA and NCCL, of operators, and of Python. */
static int check_inside(const struct trace_options *o)
{
	if (!o->command && (o->inside_calls || o->inside_ops))
		return refuse_trace(
			"--inside needs a command to load its library into: gpuscope trace --inside=calls -- COMMAND (a running process can have --inside=python alone)");
	if (!o->command && (!o->n_pids || o->comm || o->all || o->uid >= 0 || o->cgroup))
		return refuse_trace(
			"--inside=python needs a command, or the running processes by their numbers: -p PID");
	if (o->min_dur_ns)
		return refuse_trace(
			"--inside=calls, --inside=ops and --inside=python record every call: leave out one of them and --min-duration");
	if (o->estimate)
		return refuse_trace(
			"--estimate estimates the cost of probes, and --inside=calls, --inside=ops and --inside=python place none: leave out one of the two");
	return 0;
}

int trace_check(const struct trace_options *o)
{
	int r = check_target(o);

	if (r == 0 && o->estimate)
		r = check_plan(o);
	if (r == 0)
		r = check_events(o);
	if (r == 0)
		r = check_files(o);
	if (r == 0)
		r = check_keep(o);
	if (r == 0 && o->ops.n && o->op_set_given)
		r = refuse_trace(
			"--op and --op-set both choose operators: leave out one of the two");
	if (r == 0 && o->layers == 1u << GS_LAYER_USER && !o->n_probe_files)
		r = refuse_trace(
			"--layer user needs a probe file: add --probes FILE (gpuscope probes writes one)");
	return r;
}

int trace_check_stacks(const struct trace_options *o)
{
	int r;

	if (o->stack_bytes && !o->native_stack_at)
		return refuse_trace("--stack-bytes is for native stacks: add --stacks native");
	if (o->line_filters.n && !o->py_stack_at)
		return refuse_trace(
			"--python-filter is for Python stacks: add --layer python, --python-hz or --python-at");
	if ((o->inside_gpu || o->inside_nccl) && !o->command)
		return refuse_trace(
			"--inside needs a command to load its library into: gpuscope trace --inside=gpu,nccl -- COMMAND (a running process can have --inside=python alone)");
	if (o->nvml && strchr(o->nvml, '/') && access(o->nvml, R_OK) < 0)
		return refuse_trace("--nvml: the library does not exist or is not readable");
	if (o->gpu_time_ns && !o->n_pids)
		return refuse_trace(
			"--gpu-time needs a running process: give -p PID, or for a command use --inside=gpu -- COMMAND");
	if (o->gpu_window_ns && !o->inside_gpu && !o->inside_nccl)
		return refuse_trace("--gpu-window needs --inside=gpu or --inside=nccl");
	r = o->inside_calls || o->inside_ops || o->inside_python ? check_inside(o) : 0;
	if (r == 0 && o->inside_calls)
		r = check_calls(o);
	return r == 0 && o->inside_ops ? check_inside_ops(o) : r;
}
