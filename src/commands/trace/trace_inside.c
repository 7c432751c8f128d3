#include "commands/trace/trace_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/common/library.h"
#include "commands/trace/trace.h"
#include "commands/trace/trace_nccl.h"
#include "core/base/buf.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/attach_plan/attach_plan.h"
#include "sources/companion/companion.h"
#include "sources/elf/torch_name.h"

#define GPU_LIBRARY        "libgpuscope_companion_gpu.so"
#define INJECTION          "CUDA_INJECTION64_PATH" /* the driver loads that library, and no other */
#define GPU_SETTINGS       "GPUSCOPE_COMPANION_GPU"
#define NCCL_LIBRARY       "libgpuscope_companion_nccl.so"
#define NCCL_NAME_MAX      254 /* of a plug-in: NCCL cuts longer names (plugin_open.cc) */
#define NCCL_SETTINGS      "GPUSCOPE_COMPANION_NCCL"
#define OPS_LIBRARY        "libgpuscope_companion_ops.so"
#define OPS_SETTINGS       "GPUSCOPE_COMPANION_OPS"
#define OPS_SETTINGS_BYTES 8192 /* that the library takes (companion/ops) */
#define PYTHON_LIBRARY     "libgpuscope_companion_python.so"
#define NS_PER_MS          1000000u
#define LAYERS             (1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER | 1u << GS_LAYER_NCCL)

struct trace_inside {
	struct gs_companion_files *files;
	struct gs_inside *events;
	char library[PATH_MAX];     /* "": calls are not seen from inside */
	char gpu_library[PATH_MAX]; /* "": what GPUs do is not */
	char gpu_settings[64];
	char nccl_library[PATH_MAX]; /* "": what NCCL says of itself is not seen */
	char nccl_settings[64];
	bool names_nccl;            /* it was asked for by name */
	char ops_library[PATH_MAX]; /* "": operators are not seen */
	char ops_settings[OPS_SETTINGS_BYTES];
	bool names_ops;                /* likewise */
	char python_library[PATH_MAX]; /* "": Python functions are not seen from inside */
};

/* Of the layers that are seen from inside, what the options choose. */
static int choose_functions(const struct trace_options *o, bool *wanted, struct gs_err *err)
{
	const struct gs_attach_plan_options po = {.layers = o->layers & ~(1u << GS_LAYER_TORCH),
						  .globs = o->funcs.glob,
						  .n_globs = o->funcs.n,
						  .described = o->n_probe_files > 0};
	struct gs_attach_plan_selection selection;
	bool has_layers = !o->layers || po.layers;
	int r = has_layers ? gs_attach_plan_select(&selection, &po, err) : 0;
	unsigned n = 0;

	if (r < 0)
		return r;
	if (!has_layers && o->inside_all) /* operators alone */
		return 0;
	for (unsigned id = 1; has_layers && id < GS_FUNC_FIXED && id <= gs_func_count(); id++) {
		wanted[id] = selection.wanted[id] && LAYERS >> gs_func_by_id(id)->desc.layer & 1;
		n += wanted[id];
	}
	return n ? 0
		 : gs_err_set(err, -ENOENT,
			      "--inside=calls: no function of CUDA or NCCL is chosen");
}

static uint32_t ring_bytes_of(const struct trace_options *o)
{
	if (!o->ring_bytes)
		return GS_COMPANION_RING_BYTES;
	return o->ring_bytes < GS_COMPANION_RING_MAX ? o->ring_bytes : GS_COMPANION_RING_MAX;
}

/* As the libraries take them, when they are given; "" else. */
static void put_windows(const struct trace_options *o, char *out, size_t bytes)
{
	if (o->gpu_window_ns)
		snprintf(out, bytes, "%" PRIu64 "/%" PRIu64, o->gpu_window_ns / NS_PER_MS,
			 o->gpu_period_ns / NS_PER_MS);
}

int trace_inside_check_gpu_free(struct gs_err *err)
{
	const char *holder = getenv(INJECTION);

	return holder && *holder
		       ? gs_err_set(
				 err, -EBUSY,
				 INJECTION
				 "=%s is already set, and CUDA's driver loads only one such library: GPU time is not recorded",
				 holder)
		       : 0;
}

/* Of what GPUs do; it stays out where another library has the driver's one place. */
static int prepare_gpu(const struct trace_options *o, struct trace_inside *in, struct gs_err *why)
{
	int r = trace_inside_check_gpu_free(why);

	if (r == 0)
		r = gs_cli_find_library(GPU_LIBRARY, in->gpu_library, sizeof(in->gpu_library), why);
	if (r == 0)
		put_windows(o, in->gpu_settings, sizeof(in->gpu_settings));
	/* Which call asked for which work is in files alone, and costs each launch. */
	if (r == 0 && (o->n_outputs || o->head.n_addresses))
		snprintf(in->gpu_settings + strlen(in->gpu_settings),
			 sizeof(in->gpu_settings) - strlen(in->gpu_settings), " calls");
	return r;
}

/* Of what NCCL says of itself; it stays out where another plug-in has NCCL's one place. Channels are looked at only
 * where windows are asked for, and not beside CUPTI, which has NCCL's kernels. */
static int prepare_nccl(const struct trace_options *o, struct trace_inside *in, struct gs_err *why)
{
	char path[PATH_MAX];
	int r = trace_nccl_check_free(why);

	if (r == 0)
		r = gs_cli_find_library(NCCL_LIBRARY, path, sizeof(path), why);
	if (r < 0)
		return r;
	if (strlen(path) > NCCL_NAME_MAX)
		return gs_err_set(why, -ENAMETOOLONG, "%s: NCCL takes names of %d bytes at most",
				  path, NCCL_NAME_MAX);
	snprintf(in->nccl_library, sizeof(in->nccl_library), "%s", path);
	if (!in->gpu_library[0])
		put_windows(o, in->nccl_settings, sizeof(in->nccl_settings));
	in->names_nccl = !o->inside_all;
	return 0;
}

/* As the library takes it: a set, or lines. */
static int put_operators(const struct trace_options *o, char *out, size_t bytes, struct gs_err *why)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(bytes - 1);
	bool renames = !o->ops.n && o->op_set == GS_OPS_EACGM;
	const char *op, *name;
	int r = gs_buf_puts(&text, o->ops.n                  ? "names"
				   : renames                 ? "instead"
				   : o->op_set == GS_OPS_ALL ? "all"
							     : "default");

	for (size_t i = 0; r == 0 && i < o->ops.n; i++)
		r = gs_buf_printf(&text, "\n%s", o->ops.glob[i]);
	for (size_t i = 0; r == 0 && renames && gs_torch_eacgm_row(i, &op, &name); i++)
		r = gs_buf_printf(&text, "\n%s\n%s", op, name);
	if (r < 0)
		return gs_err_set(why, r, "the patterns of --op are longer than %zu bytes",
				  bytes - 1);
	memcpy(out, text.data, text.bytes);
	out[text.bytes] = '\0';
	return 0;
}

/* Of operators. */
static int prepare_ops(const struct trace_options *o, struct trace_inside *in, struct gs_err *why)
{
	int r = put_operators(o, in->ops_settings, sizeof(in->ops_settings), why);

	in->names_ops = !o->inside_all;
	return r < 0 ? r
		     : gs_cli_find_library(OPS_LIBRARY, in->ops_library, sizeof(in->ops_library),
					   why);
}

/* Of Python functions; also what is asked of that door. */
static int prepare_python(const struct trace_options *o, struct trace_inside *in,
			  struct gs_err *why)
{
	int r = gs_cli_find_library(PYTHON_LIBRARY, in->python_library, sizeof(in->python_library),
				    why);

	if (r == 0)
		r = gs_companion_plan_write_python(gs_companion_files_folder(in->files),
						   !o->summary_only, o->python_globs,
						   o->n_python_globs, why);
	if (r < 0)
		in->python_library[0] = '\0';
	return r;
}

/* Of those that were asked for, each that can be; of all but calls it is said why not. */
static int prepare_doors(const struct trace_options *o, struct trace_inside *in, const bool *wanted,
			 struct gs_err *why)
{
	struct gs_err gpu_why = {{0}}, nccl_why = {{0}}, ops_why = {{0}}, python_why = {{0}};
	int gpu = o->inside_gpu ? prepare_gpu(o, in, &gpu_why) : 0;
	int nccl = o->inside_nccl ? prepare_nccl(o, in, &nccl_why) : 0;
	int ops = o->inside_ops ? prepare_ops(o, in, &ops_why) : 0;
	int python = o->inside_python ? prepare_python(o, in, &python_why) : 0;
	uint32_t doors = (in->nccl_library[0] ? 1u << GS_COMPANION_NCCL : 0) |
			 (in->ops_library[0] ? 1u << GS_COMPANION_OPS : 0) |
			 (in->python_library[0] ? 1u << GS_COMPANION_PYTHON : 0);

	if (ops < 0)
		gs_cli_print_message("--inside=ops: %s; operators are traced by probes",
				     gs_err_text(&ops_why, ops));

	if (gpu < 0)
		gs_cli_print_message("--inside=gpu: %s", gs_err_text(&gpu_why, gpu));
	if (nccl < 0)
		gs_cli_print_message("--inside=nccl: %s", gs_err_text(&nccl_why, nccl));
	if (python < 0)
		gs_cli_print_message("--inside=python: %s; Python is traced by probes",
				     gs_err_text(&python_why, python));
	if (o->inside_calls) {
		int r = gs_cli_find_library(GS_CLI_COMPANION_CALLS, in->library,
					    sizeof(in->library), why);

		if (r < 0)
			return r;
		doors |= 1u << GS_COMPANION_CALLS;
	}
	return doors ? gs_companion_plan_write(gs_companion_files_folder(in->files), doors, wanted,
					       ring_bytes_of(o), why)
		     : 0;
}

int trace_inside_new(const struct trace_options *o, struct gs_func_set *funcs,
		     struct trace_inside **ret_inside, struct gs_err *err)
{
	const struct gs_companion_files_options fo = {.size = sizeof(fo)};
	bool wanted[GS_FUNC_FIXED] = {false};
	struct trace_inside *in;
	struct gs_err why = {{0}};
	int r;

	if (!o->inside_calls && !o->inside_ops && !o->inside_gpu && !o->inside_nccl &&
	    !o->inside_python)
		return 0;
	in = calloc(1, sizeof(*in));
	if (!in)
		return -ENOMEM;
	r = o->inside_calls ? choose_functions(o, wanted, err) : 0;
	if (r < 0) {
		trace_inside_free(&in);
		return r;
	}
	if (getenv(GS_COMPANION_FOLDER_ENV)) {
		gs_cli_print_message(
			"--inside: another gpuscope already traces this program from inside (" GS_COMPANION_FOLDER_ENV
			"=%s): it is traced by probes here",
			getenv(GS_COMPANION_FOLDER_ENV));
		trace_inside_free(&in);
		return 0;
	}
	r = gs_companion_files_new(&fo, &in->files, &why);
	if (r == 0)
		r = prepare_doors(o, in, wanted, &why);
	if (r == 0)
		r = gs_inside_new(in->files, wanted, &in->events);
	if (r == 0 && in->ops_library[0])
		gs_inside_set_ops(in->events, funcs);
	if (r == 0 && in->python_library[0])
		gs_inside_set_python(in->events, o->python_gc || o->python_gil);
	if (r < 0) {
		gs_cli_print_message("--inside: %s; everything is traced by probes",
				     gs_err_text(&why, r));
		trace_inside_free(&in);
		return 0;
	}
	*ret_inside = in;
	return 0;
}

void trace_inside_free(struct trace_inside **ref)
{
	struct trace_inside *in = *ref;

	if (!in)
		return;
	gs_inside_free(&in->events);
	gs_companion_files_free(&in->files);
	free(in);
	*ref = NULL;
}

struct gs_inside *trace_inside_events(struct trace_inside *in)
{
	return in ? in->events : NULL;
}

struct gs_companion_files *trace_inside_files(struct trace_inside *in,
					      const char **ret_python_library)
{
	if (!in || !in->python_library[0])
		return NULL;
	*ret_python_library = in->python_library;
	return in->files;
}

/* Whether a process's operators were seen, and why not. */
static void report_ops(const struct trace_inside *in)
{
	static const char *const reasons[GS_COMPANION_STATES] = {
		[GS_COMPANION_OLD] =
			"PyTorch is older than 1.12, whose observer gpuscope does not know",
		[GS_COMPANION_DIFFERS] =
			"PyTorch's observer is not as gpuscope knows it (1.12 to 2.11)"};
	uint32_t states = gs_companion_files_states(in->files);

	for (unsigned state = 0; state < GS_COMPANION_STATES; state++)
		if (states >> state & 1 && reasons[state])
			gs_cli_print_message("--inside=ops: %s: its operators are traced by probes",
					     reasons[state]);
	if (in->names_ops && !(states & ~(1u << GS_COMPANION_WAITS)))
		gs_cli_print_message("--inside=ops: no process loaded PyTorch");
}

void trace_inside_report(const struct trace_inside *in)
{
	unsigned n;
	int r;

	if (!in)
		return;
	n = gs_companion_files_refused(in->files, &r);
	if (n)
		gs_cli_print_message("--inside: the reports of %u process%s could not be read (%s)",
				     n, n == 1 ? "" : "es", strerror(-r));
	if (in->ops_library[0])
		report_ops(in);
	if (in->names_nccl && in->nccl_library[0] && !gs_inside_saw_nccl(in->events))
		gs_cli_print_message(
			"--inside=nccl: no process reported a communicator of NCCL (needs NCCL 2.23 or newer)");
}

/* After what the user has there, which comes first. */
static void add_to_variable(const char *name, const char *what)
{
	const char *others = getenv(name);
	GS_FREE char *list = NULL;

	if (asprintf(&list, "%s%s%s", others ? others : "", others && *others ? ":" : "", what) >=
	    0)
		setenv(name, list, 1);
}

void trace_inside_enter(const struct trace_inside *in)
{
	if (!in)
		return;
	if (in->library[0])
		add_to_variable("LD_PRELOAD", in->library);
	if (in->ops_library[0]) {
		add_to_variable("LD_PRELOAD", in->ops_library);
		setenv(OPS_SETTINGS, in->ops_settings, 1);
	}
	if (in->gpu_library[0]) {
		/* Before the program's CUPTI, too, to know when its own profiler asks for that. */
		add_to_variable("LD_PRELOAD", in->gpu_library);
		setenv(INJECTION, in->gpu_library, 1);
	}
	if (in->python_library[0])
		add_to_variable("LD_PRELOAD", in->python_library);
	if (in->gpu_settings[0])
		setenv(GPU_SETTINGS, in->gpu_settings, 1);
	if (in->nccl_library[0])
		setenv(TRACE_NCCL_PLUGIN, in->nccl_library, 1);
	if (in->nccl_settings[0])
		setenv(NCCL_SETTINGS, in->nccl_settings, 1);
	/* Else a program with AddressSanitizer ends where it finds any library before its own. */
	add_to_variable("ASAN_OPTIONS", "verify_asan_link_order=0");
	setenv(GS_COMPANION_FOLDER_ENV, gs_companion_files_folder(in->files), 1);
}
