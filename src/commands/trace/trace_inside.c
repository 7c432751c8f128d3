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
#include "commands/trace/trace.h"
#include "commands/trace/trace_nccl.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/attach_plan/attach_plan.h"
#include "sources/companion/companion.h"

#define LIBRARY       "libgpuscope_companion.so"
#define GPU_LIBRARY   "libgpuscope_companion_gpu.so"
#define INJECTION     "CUDA_INJECTION64_PATH" /* the driver loads that library, and no other */
#define GPU_SETTINGS  "GPUSCOPE_COMPANION_GPU"
#define NCCL_LIBRARY  "libgpuscope_companion_nccl.so"
#define NCCL_NAME_MAX 254 /* of a plug-in: NCCL cuts longer names (plugin_open.cc) */
#define NCCL_SETTINGS "GPUSCOPE_COMPANION_NCCL"
#define NS_PER_MS     1000000u
#define LAYERS        (1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER | 1u << GS_LAYER_NCCL)

struct trace_inside {
	struct gs_companion_files *files;
	struct gs_inside *events;
	char library[PATH_MAX];     /* "": calls are not seen from inside */
	char gpu_library[PATH_MAX]; /* "": what GPUs do is not */
	char gpu_settings[64];
	char nccl_library[PATH_MAX]; /* "": what NCCL says of itself is not seen */
	char nccl_settings[64];
};

static bool is_library(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Where the program was installed to, or built. Names that LD_PRELOAD cannot hold are none. */
static bool find_library(const char *name, char *out, size_t bytes)
{
	static const char *const places[] = {("../" GS_LIBDIR "/gpuscope/"), "../lib/gpuscope/",
					     "companion/calls/", "companion/gpu/",
					     "companion/nccl/"};
	char self[PATH_MAX], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
		if (snprintf(out, bytes, "%s%s%s", self, places[i], name) >= (int)bytes ||
		    !is_library(out) || !realpath(out, real) || strpbrk(real, ": \t"))
			continue;
		return snprintf(out, bytes, "%s", real) < (int)bytes;
	}
	out[0] = '\0';
	return false;
}

/* Of the layers that are seen from inside, what the options choose. */
static int choose_functions(const struct trace_options *o, bool *wanted, struct gs_err *err)
{
	const struct gs_attach_plan_options po = {.layers = o->layers,
						  .globs = o->funcs.glob,
						  .n_globs = o->funcs.n,
						  .described = o->n_probe_files > 0};
	struct gs_attach_plan_selection selection;
	int r = gs_attach_plan_select(&selection, &po, err);
	unsigned n = 0;

	if (r < 0)
		return r;
	for (unsigned id = 1; id < GS_FUNC_FIXED && id <= gs_func_count(); id++) {
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

/* Of what GPUs do; it stays out where another library has the driver's one place. */
static int prepare_gpu(const struct trace_options *o, struct trace_inside *in, struct gs_err *why)
{
	const char *holder = getenv(INJECTION);

	if (holder && *holder)
		return gs_err_set(
			why, -EBUSY,
			INJECTION
			"=%s is already set, and CUDA's driver loads only one such library: GPU time is not recorded",
			holder);
	if (!find_library(GPU_LIBRARY, in->gpu_library, sizeof(in->gpu_library)))
		return gs_err_set(why, -ENOENT, GPU_LIBRARY " was not found next to gpuscope");
	put_windows(o, in->gpu_settings, sizeof(in->gpu_settings));
	return 0;
}

/* Of what NCCL says of itself; it stays out where another plug-in has NCCL's one place. Channels are looked at only
 * where windows are asked for, and not beside CUPTI, which has NCCL's kernels. */
static int prepare_nccl(const struct trace_options *o, struct trace_inside *in, struct gs_err *why)
{
	char path[PATH_MAX];
	int r = trace_nccl_check_free(why);

	if (r < 0)
		return r;
	if (!find_library(NCCL_LIBRARY, path, sizeof(path)))
		return gs_err_set(why, -ENOENT, NCCL_LIBRARY " was not found next to gpuscope");
	if (strlen(path) > NCCL_NAME_MAX)
		return gs_err_set(why, -ENAMETOOLONG, "%s: NCCL takes names of %d bytes at most",
				  path, NCCL_NAME_MAX);
	snprintf(in->nccl_library, sizeof(in->nccl_library), "%s", path);
	if (!in->gpu_library[0])
		put_windows(o, in->nccl_settings, sizeof(in->nccl_settings));
	return 0;
}

/* Of those that were asked for, each that can be; of GPUs and NCCL it is said why not. */
static int prepare_doors(const struct trace_options *o, struct trace_inside *in, const bool *wanted,
			 struct gs_err *why)
{
	struct gs_err gpu_why = {{0}}, nccl_why = {{0}};
	int gpu = o->inside_gpu ? prepare_gpu(o, in, &gpu_why) : 0;
	int nccl = o->inside_nccl ? prepare_nccl(o, in, &nccl_why) : 0;
	uint32_t doors = in->nccl_library[0] ? 1u << GS_COMPANION_NCCL : 0;

	if (gpu < 0)
		gs_cli_print_message("--inside=gpu: %s", gs_err_text(&gpu_why, gpu));
	if (nccl < 0)
		gs_cli_print_message("--inside=nccl: %s", gs_err_text(&nccl_why, nccl));
	if (o->inside_calls && !find_library(LIBRARY, in->library, sizeof(in->library)))
		return gs_err_set(why, -ENOENT, LIBRARY " was not found next to gpuscope");
	if (o->inside_calls)
		doors |= 1u << GS_COMPANION_CALLS;
	return doors ? gs_companion_files_plan(in->files, doors, wanted, ring_bytes_of(o), why) : 0;
}

int trace_inside_new(const struct trace_options *o, struct trace_inside **ret_inside,
		     struct gs_err *err)
{
	const struct gs_companion_files_options fo = {.size = sizeof(fo)};
	bool wanted[GS_FUNC_FIXED] = {false};
	struct trace_inside *in;
	struct gs_err why = {{0}};
	int r;

	if (!o->inside_calls && !o->inside_gpu && !o->inside_nccl)
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
	if (in->nccl_library[0] && !gs_inside_saw_nccl(in->events))
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
	if (in->gpu_library[0]) {
		/* Before the program's CUPTI, too, to know when its own profiler asks for that. */
		add_to_variable("LD_PRELOAD", in->gpu_library);
		setenv(INJECTION, in->gpu_library, 1);
	}
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
