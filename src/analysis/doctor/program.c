/*
 * One program: which of its files can be traced and how well, by the plan that `gpuscope trace` makes of them; who has the
 * places that CUDA's driver and NCCL give to one library alone; its interpreter.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/reader/reader.h"
#include "model/trace/func_set.h"
#include "sources/attach_plan/remote.h"
#include "sources/device_cgroup/device_cgroup.h"
#include "sources/unwind/python.h"

#define ENVIRON_BYTES (256u << 10)
#define TIME_LIMIT_NS 20000000000ull
/* NVIDIA/nccl, src/include/plugin/profiler/profiler_v1.h */
#define NCCL_PLUGIN_MINOR 23
#define PYTHON_3_14       0x030e
#define PYTHON_3_15       0x030f /* the last that sources/python_attach knows */
#define FILES_MAX         256    /* that are shown; others are planned as well, and counted */

enum library_class {
	CLASS_RUNTIME,
	CLASS_DRIVER,
	CLASS_NCCL,
	CLASS_TORCH,
	CLASS_MPI,
	CLASS_CUPTI,
	CLASS_NONE
};

static const struct {
	const char *name, *prefix; /* of a file's name */
	unsigned layer;
} classes[CLASS_NONE] = {
	[CLASS_RUNTIME] = {"CUDA runtime", "libcudart", GS_LAYER_CUDA_RUNTIME},
	[CLASS_DRIVER] = {"CUDA driver", "libcuda.so", GS_LAYER_CUDA_DRIVER},
	[CLASS_NCCL] = {"NCCL", "libnccl", GS_LAYER_NCCL},
	[CLASS_TORCH] = {"PyTorch", "libtorch", GS_LAYER_TORCH},
	[CLASS_MPI] = {"MPI", "libmpi", GS_LAYER_MPI},
	[CLASS_CUPTI] = {"CUPTI", "libcupti.so", GS_LAYER_NONE},
};

/* Tools that take CUPTI or the driver's one place for themselves, by names of their libraries. */
static const struct {
	const char *prefix, *tool;
} holders[] = {
	{"libToolsInjection", "Nsight Systems"},
	{"libTreeLauncherTargetInjection", "Nsight Compute"},
	{"libInterceptorInjectionTarget", "Nsight Compute"},
	{"libcuda-injection", "Nsight Compute"},
	{"libsanitizer-collection", "compute-sanitizer"},
	{"libparcagpucupti", "parcagpu"},
	{"libgpuscope_companion_gpu", "gpuscope trace --inside=gpu"},
};

struct program {
	struct gs_doctor *doctor;
	pid_t pid;                /* 0: a command that does not run */
	char *environment;        /* owned; a zero after each variable, and one more */
	struct gs_reader *reader; /* borrowed */
	struct gs_func_set *funcs;
	struct gs_attach_plan_options options;
	struct gs_attach_plan_selection selection;
	/* Of the file that is planned. */
	unsigned n_refused;
	char refused[192]; /* the first */
	/* Of all. */
	unsigned n_shown, n_planned;
	bool has[CLASS_NONE]; /* a file of this class has places */
	bool maps_driver, has_python;
	char exe[256];
	char cupti[PATH_MAX];  /* a path that works from here */
	char cuptis[2][120];   /* names of the first and the last copy that are loaded */
	char driver[PATH_MAX]; /* of CUDA's compatibility package; "": the machine's own is used */
	bool knows_nccl;
	struct doctor_version nccl;
	const char *tool; /* holder of CUPTI; NULL: none is seen */
};

static void put_program(struct program *p, enum gs_doctor_state state, const char *name,
			const char *found, const char *without, const char *mend)
{
	gs_doctor_put(p->doctor, &(struct gs_doctor_row){.group = GS_DOCTOR_PROGRAM,
							 .state = state,
							 .name = name,
							 .found = found,
							 .without = without,
							 .mend = mend});
}

/* --- its files --- */

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	struct program *p = ctx;

	if (attach->status == 0)
		return;
	if (!p->n_refused++)
		snprintf(p->refused, sizeof(p->refused), "%.60s: %.120s",
			 attach->function ? attach->function : "the file",
			 attach->reason ? attach->reason : strerror(-attach->status));
}

static enum library_class class_of_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (unsigned i = 0; i < CLASS_NONE; i++)
		if (strncmp(name, classes[i].prefix, strlen(classes[i].prefix)) == 0)
			return i;
	return CLASS_NONE;
}

/* What it has most of, and which layers there are at all. */
static enum library_class class_of_places(struct program *p, const struct gs_attach_plan *plan)
{
	unsigned n[CLASS_NONE] = {0}, best = CLASS_NONE;

	for (size_t i = 0; i < plan->n; i++) {
		const struct gs_func *f = gs_func_set_get(p->funcs, plan->places[i].func);

		for (unsigned c = 0; f && c < CLASS_CUPTI; c++)
			n[c] += classes[c].layer == f->desc.layer;
	}
	for (unsigned c = 0; c < CLASS_NONE; c++) {
		p->has[c] |= n[c] > 0;
		if (n[c] && (best == CLASS_NONE || n[c] > n[best]))
			best = c;
	}
	return best;
}

/* The copy of CUPTI that Python's packages beside this file bring. */
static void find_packaged(const char *path, char *out, size_t bytes)
{
	static const char *const places[] = {"nvidia/cu13/lib/libcupti.so.13",
					     "nvidia/cuda_cupti/lib/libcupti.so.12"};
	const char *at = strstr(path, "-packages/");

	for (size_t i = 0; at && i < GS_ARRAY_LEN(places); i++) {
		snprintf(out, bytes, "%.*s%s", (int)(at - path) + 10, path, places[i]);
		if (access(out, F_OK) == 0)
			return;
	}
	out[0] = '\0';
}

/* It may be loaded, but nothing says that it will: of a command alone, a process has it mapped. */
static bool is_guessed(const struct program *p, const struct gs_mapped_file *file)
{
	return !p->pid && file->is_guess;
}

static void note_names(struct program *p, const struct gs_mapped_file *file)
{
	const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;

	p->maps_driver |= class_of_name(file->path) == CLASS_DRIVER;
	if (class_of_name(file->path) == CLASS_NCCL && !is_guessed(p, file))
		p->knows_nccl = doctor_version_of(file->open_path, "nvidia_nccl", &p->nccl);
	p->has_python |= strncmp(name, "libpython", 9) == 0 ||
			 (file->is_exe && strncmp(name, "python", 6) == 0);
	if (file->is_exe)
		snprintf(p->exe, sizeof(p->exe), "%s", file->path);
	if (class_of_name(file->path) == CLASS_CUPTI && !is_guessed(p, file)) {
		snprintf(p->cupti, sizeof(p->cupti), "%.*s", PATH_MAX - 1, file->open_path);
		snprintf(p->cuptis[p->cuptis[0][0] ? 1 : 0], sizeof(p->cuptis[0]), "%.119s",
			 file->path);
	}
	/* cuda-compat-*: a newer driver's library above the kernel's own, which NVML does not see. */
	if (class_of_name(file->path) == CLASS_DRIVER && !is_guessed(p, file) &&
	    strstr(file->path, "/compat/"))
		snprintf(p->driver, sizeof(p->driver), "%.*s", PATH_MAX - 1, file->path);
	if (!p->cupti[0] && !p->pid && !is_guessed(p, file))
		find_packaged(file->path, p->cupti, sizeof(p->cupti));
	for (size_t i = 0; i < GS_ARRAY_LEN(holders) && !p->tool; i++)
		if (strncmp(name, holders[i].prefix, strlen(holders[i].prefix)) == 0)
			p->tool = holders[i].tool;
}

/* As trace plans it; a process without rights reads it. */
static int plan_file(struct program *p, const struct gs_mapped_file *file,
		     struct gs_attach_plan *plan, struct gs_err *err)
{
	const struct gs_foreign_want want = {.dev = file->id.dev, .ino = file->id.ino};
	GS_FOREIGN_CLOSE struct gs_foreign opened = GS_FOREIGN_INIT;
	int r = gs_foreign_open(file->open_path, &want, &opened);

	if (r < 0)
		return gs_err_set(err, r, "%s", gs_foreign_reason(r));
	return gs_attach_plan_ask(plan, p->reader, &p->selection, &p->options, file, opened.fd,
				  err);
}

static void put_file(struct program *p, const struct gs_mapped_file *file, enum library_class class,
		     const struct gs_attach_plan *plan, const char *error)
{
	enum gs_doctor_state state = error || !plan->n ? GS_DOCTOR_FAILS
				     : p->n_refused    ? GS_DOCTOR_LIMITED
						       : GS_DOCTOR_WORKS;
	char found[GS_DOCTOR_TEXT_BYTES];
	int k = snprintf(found, sizeof(found), "%.120s%s: ", file->path,
			 is_guessed(p, file) ? " (if loaded)" : "");

	if (error || !plan->n)
		snprintf(found + k, sizeof(found) - (size_t)k, "%.200s",
			 error ? error : "it has no function to trace");
	else
		snprintf(
			found + k, sizeof(found) - (size_t)k,
			p->n_refused
				? "%zu probes fit, %u single-stepped; %u functions cannot be probed (%.130s)"
				: "%zu probes fit, %u single-stepped",
			plan->n, plan->n_stepped, p->n_refused, p->refused);
	/* Of a file that it need not load nothing fails. */
	if (state == GS_DOCTOR_FAILS && is_guessed(p, file))
		state = GS_DOCTOR_LIMITED;
	put_program(p, state, classes[class].name, found,
		    state == GS_DOCTOR_FAILS     ? "calls of this library are not traced"
		    : state == GS_DOCTOR_LIMITED ? "calls of these functions are not traced"
						 : "",
		    state == GS_DOCTOR_FAILS || state == GS_DOCTOR_LIMITED
			    ? class == CLASS_TORCH ? "gpuscope trace --inside=ops -- COMMAND"
						   : "gpuscope trace --inside=calls -- COMMAND"
			    : "");
}

static int on_file(void *ctx, const struct gs_mapped_file *file)
{
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	struct program *p = ctx;
	enum library_class named = class_of_name(file->path), placed;
	struct gs_err err = {{0}};
	int r;

	if (gs_guard_stopped())
		return -ETIME;
	note_names(p, file);
	if (named == CLASS_CUPTI)
		return 0;
	p->n_planned++;
	p->n_refused = 0;
	r = plan_file(p, file, &plan, &err);
	placed = class_of_places(p, &plan);
	if (placed == CLASS_NONE)
		placed = named;
	/* libtorch_python.so and its like have no operators; nor is a name alone a reason where it may not be loaded. */
	if (placed == CLASS_NONE ||
	    (!plan.n && (placed == CLASS_TORCH || placed == CLASS_MPI || is_guessed(p, file))))
		return 0;
	if (p->n_shown++ < FILES_MAX)
		put_file(p, file, placed, &plan, r < 0 ? gs_err_text(&err, r) : NULL);
	return 0;
}

static int prepare_plan(struct program *p, struct gs_err *err)
{
	const struct gs_doctor *d = p->doctor;
	int r;

	doctor_ask_features(p->doctor);
	p->funcs = gs_func_set_new();
	if (!p->funcs)
		return -ENOMEM;
	p->options = (struct gs_attach_plan_options){
		.layers = GS_LAYERS_DEFAULT | 1u << GS_LAYER_TORCH,
		.funcs = p->funcs,
		.many_links = d->features.multi,
		.returns_are_kept = d->tried.returns_kept,
		.returns_are_left_out = d->features.session,
		.on_attach = on_attach,
		.ctx = p,
	};
	gs_x86_site_rules_here(&p->options.sites);
	r = gs_attach_plan_select(&p->selection, &p->options, err);
	p->reader = doctor_get_reader(p->doctor, err);
	return r < 0 ? r : p->reader ? 0 : -EAGAIN;
}

static void program_fini(struct program *p)
{
	gs_func_set_free(&p->funcs);
	free(p->environment);
}

/* --- what follows from them --- */

static void ask_runtime(struct program *p)
{
	if (p->has[CLASS_RUNTIME] || !p->maps_driver || !p->pid)
		return;
	put_program(
		p, GS_DOCTOR_LIMITED, "CUDA runtime",
		"not found, but the CUDA driver is loaded: the runtime is linked into a stripped program, or only the driver API is used",
		"runtime calls (cudaMalloc, cudaMemcpyAsync, ...) are not traced; driver calls are",
		"link the program with nvcc -cudart shared, or do not strip it");
}

static void ask_anything(struct program *p)
{
	char mend[96];

	for (unsigned i = 0; i < CLASS_CUPTI; i++)
		if (p->has[i])
			return;
	if (p->has_python && p->pid)
		snprintf(mend, sizeof(mend), "gpuscope trace --layer python -p %d", (int)p->pid);
	else if (p->has_python)
		snprintf(mend, sizeof(mend), "gpuscope trace --layer python -- COMMAND");
	else if (p->pid)
		snprintf(mend, sizeof(mend), "gpuscope job -p %d", (int)p->pid);
	else
		snprintf(mend, sizeof(mend), "run gpuscope doctor -p PID once it runs");
	put_program(
		p, p->has_python || !p->pid ? GS_DOCTOR_LIMITED : GS_DOCTOR_FAILS,
		"libraries to trace",
		p->pid ? "no CUDA, NCCL, MPI or PyTorch library is loaded"
		       : "no CUDA, NCCL, MPI or PyTorch library is linked, or in the usual folders",
		p->pid ? "a trace shows no calls until the process loads one"
		       : "a trace shows calls only if the program loads one later",
		mend);
}

static const char *variable_of(const struct program *p, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = p->environment; at && *at; at += strlen(at) + 1)
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return at[n + 1] ? at + n + 1 : NULL;
	return NULL;
}

static void ask_cupti(struct program *p)
{
	const char *injected = variable_of(p, "CUDA_INJECTION64_PATH");
	bool is_ours = injected && strstr(injected, "libgpuscope_companion_gpu.so");
	char found[GS_DOCTOR_TEXT_BYTES];

	if (injected && !is_ours)
		snprintf(found, sizeof(found), "CUDA_INJECTION64_PATH=%.160s%s%s", injected,
			 p->tool ? ", " : "", p->tool ? p->tool : "");
	else
		snprintf(found, sizeof(found), "%s", p->tool && !is_ours ? p->tool : "");
	put_program(p, found[0] ? GS_DOCTOR_LIMITED : GS_DOCTOR_WORKS, "CUDA injection slot",
		    found[0]  ? found
		    : is_ours ? "gpuscope's"
			      : "free",
		    found[0] ? "no times of kernels and copies on GPUs (--inside=gpu)" : "",
		    found[0] ? "env -u CUDA_INJECTION64_PATH gpuscope trace --inside=gpu -- COMMAND"
			     : "");
	gs_doctor_ask_nvtx(p->doctor, GS_DOCTOR_PROGRAM, variable_of(p, "NVTX_INJECTION64_PATH"));
	doctor_put_cupti(p->doctor, GS_DOCTOR_PROGRAM, p->cupti, p->driver);
	if (!p->pid || !p->cuptis[1][0])
		return;
	snprintf(found, sizeof(found), "%s and %s", p->cuptis[0], p->cuptis[1]);
	put_program(
		p, GS_DOCTOR_LIMITED, "copies of CUPTI", found,
		"two copies in one process disturb each other: profilers (torch.profiler, --inside=gpu) may fail, wait for ever, or record no GPU times",
		"load one copy only: take the folder of the other out of LD_LIBRARY_PATH, or uninstall it");
}

static void ask_nccl(struct program *p)
{
	const char *plugin = variable_of(p, "NCCL_PROFILER_PLUGIN");
	const char *address = variable_of(p, "NCCL_RAS_ADDR");
	bool is_ours = plugin && strstr(plugin, "libgpuscope_companion_nccl.so"), is_old, is_taken;
	char found[GS_DOCTOR_TEXT_BYTES];

	if (!p->has[CLASS_NCCL] && !plugin)
		return;
	is_old = p->knows_nccl && p->nccl.major == 2 && p->nccl.minor < NCCL_PLUGIN_MINOR;
	if (plugin)
		snprintf(found, sizeof(found), "NCCL_PROFILER_PLUGIN=%.200s", plugin);
	else if (p->knows_nccl)
		snprintf(found, sizeof(found),
			 is_old ? "NCCL %d.%d has no profiler plug-ins (2.23 is the first that has)"
				: "free (NCCL %d.%d)",
			 p->nccl.major, p->nccl.minor);
	else
		snprintf(found, sizeof(found), "free");
	is_taken = plugin && !is_ours;
	put_program(p, is_taken || is_old ? GS_DOCTOR_LIMITED : GS_DOCTOR_WORKS,
		    "NCCL profiler slot", found,
		    is_taken || is_old ? "no --inside=nccl; NCCL calls are still traced by probes"
				       : "",
		    is_taken ? "env -u NCCL_PROFILER_PLUGIN gpuscope trace --inside=nccl -- COMMAND"
		    : is_old ? "use NCCL 2.23 or newer"
			     : "");
	/* Any other is a machine that a stranger's environment names. */
	if (p->pid && (!address || strncmp(address, "localhost:", 10) == 0 ||
		       strncmp(address, "127.0.0.1:", 10) == 0))
		doctor_ask_ras(p->doctor, GS_DOCTOR_PROGRAM, address);
}

/* --- Python --- */

/* Is an option of the interpreter on its command line? */
static bool has_argument(pid_t pid, const char *text)
{
	char path[64], *all = malloc(ENVIRON_BYTES);
	bool found = false;
	ssize_t n = -1;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	{
		GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && all)
			n = read(fd, all, ENVIRON_BYTES);
	}
	found = n > 0 && memmem(all, (size_t)n, text, strlen(text)) != NULL;
	free(all);
	return found;
}

/* PEP 768; what a build leaves out is not to be seen. */
void doctor_put_remote_debugging(struct gs_doctor *d, uint16_t version, bool by_variable,
				 bool by_option)
{
	bool is_off = by_variable || by_option;
	char found[192];

	snprintf(
		found, sizeof(found),
		"Python %u.%u does not have it (3.14 is the first that has): trace --inside=python works from its start only, -- COMMAND",
		version >> 8, version & 0xff);
	if (version >= PYTHON_3_14)
		snprintf(found, sizeof(found), "%s",
			 by_variable ? "disabled by PYTHON_DISABLE_REMOTE_DEBUG"
			 : by_option ? "disabled by -X disable-remote-debug"
			 : version <= PYTHON_3_15
				 ? "enabled: trace --inside=python works while it runs"
				 : "enabled, in a version that gpuscope does not use it of");
	else
		is_off = false;
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_PROGRAM,
			.state = version < PYTHON_3_14 ? GS_DOCTOR_NOT_NEEDED
				 : is_off              ? GS_DOCTOR_LIMITED
						       : GS_DOCTOR_WORKS,
			.name = "Python remote debugging",
			.found = found,
			.without =
				is_off ? "trace -p PID --inside=python uses probes; sys.remote_exec(), pdb -p and memray attach do not work"
				       : "",
			.mend = !is_off ? ""
				: by_variable
					? "env -u PYTHON_DISABLE_REMOTE_DEBUG COMMAND"
					: "start the program without -X disable-remote-debug"});
}

static void ask_python(struct program *p)
{
	struct gs_pythons *pythons = gs_pythons_new(p->reader);
	struct gs_py_proc proc = {0};
	struct gs_err err = {{0}};
	char found[GS_DOCTOR_TEXT_BYTES];
	int r = pythons ? gs_pythons_find(pythons, p->pid, &proc, &err) : -ENOMEM;

	gs_pythons_free(&pythons);
	/* Of a program that has just begun it is not known yet whether it has one. */
	if (r == -ENOENT || r == -ESRCH || (r == -EAGAIN && !p->has_python))
		return;
	p->has_python = true;
	if (r == -EAGAIN) {
		put_program(p, GS_DOCTOR_NOT_ASKED, "Python",
			    "the interpreter is still starting: run doctor again", "", "");
		return;
	}
	if (r == 0)
		snprintf(found, sizeof(found), "%u.%u: stacks and lines can be read",
			 proc.version >> 8, proc.version & 0xff);
	else
		snprintf(found, sizeof(found), "%s", gs_err_text(&err, r));
	put_program(p, r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED, "Python", found,
		    r == 0 ? ""
			   : "no Python lines for calls, and no Python samples (--layer python)",
		    r == 0 ? "" : "use CPython 3.8 to 3.14");
	if (proc.version)
		doctor_put_remote_debugging(p->doctor, proc.version,
					    variable_of(p, "PYTHON_DISABLE_REMOTE_DEBUG") != NULL,
					    has_argument(p->pid, "disable-remote-debug"));
}

/* --- a process --- */

static void read_environment(struct program *p)
{
	char path[64];
	ssize_t n = 0, k = 0;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)p->pid);
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	p->environment = calloc(1, ENVIRON_BYTES + 2);
	while (fd >= 0 && p->environment && n < (ssize_t)ENVIRON_BYTES &&
	       (k = read(fd, p->environment + n, ENVIRON_BYTES - (size_t)n)) > 0)
		n += k;
}

static void ask_memory(struct program *p)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)p->pid);
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ESRCH) /* it has ended */
		return;
	put_program(p, fd >= 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED, "its memory",
		    fd >= 0 ? "can be read" : strerror(errno),
		    fd >= 0 ? ""
			    : "no Python stacks, and the GPUs that it selects itself are unknown",
		    fd >= 0 ? "" : "sudo gpuscope doctor -p PID");
}

static void ask_access(struct program *p)
{
	const struct gs_device_options options = {.size = sizeof(options),
						  .choice = GS_DEVICE_HELD};
	GS_FREE struct gs_device_result *result = calloc(1, sizeof(*result));
	struct gs_err err = {{0}};
	int r = result ? gs_device_check((int)p->pid, &options, result, &err) : -ENOMEM;
	char mend[64];

	if (r == -ENODEV || r == -ENOENT)
		return;
	snprintf(mend, sizeof(mend), "sudo gpuscope devices grant %d", (int)p->pid);
	if (r < 0)
		put_program(p, GS_DOCTOR_NOT_ASKED, "device rules", gs_err_text(&err, r), "", "");
	else if (gs_device_is_open(result))
		put_program(p, GS_DOCTOR_WORKS, "device rules", result->devices, "", "");
	else
		put_program(
			p, GS_DOCTOR_FAILS, "device rules", result->reason,
			"the process cannot open its GPUs again, and NVML may report \"Unknown Error\"",
			mend);
}

static int under_guard(struct program *p, int (*work)(struct program *p, struct gs_err *err),
		       struct gs_err *err)
{
	const struct gs_guard_options options = {
		.size = sizeof(options), .deadline_mono_ns = gs_clock_mono_ns() + TIME_LIMIT_NS};
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	struct gs_guard *before;
	int r = gs_guard_new(&options, &guard);

	if (r < 0)
		return r;
	before = gs_guard_enter(guard);
	r = prepare_plan(p, err);
	if (r == 0)
		r = work(p, err);
	gs_guard_enter(before);
	program_fini(p);
	return r;
}

static int read_process(struct program *p, struct gs_err *err)
{
	int r = gs_library_may_scan(p->pid, err);

	if (r == -EPERM) {
		put_program(p, GS_DOCTOR_FAILS, "its libraries", err->text,
			    "this process cannot be traced", "sudo gpuscope doctor -p PID");
		return 0;
	}
	if (r == 0)
		r = gs_library_scan_process(p->pid, on_file, p);
	if (r == -ESRCH)
		return gs_err_set(err, r, "no process with id %d", (int)p->pid);
	if (r < 0)
		put_program(p, GS_DOCTOR_LIMITED, "its libraries",
			    r == -ETIME ? "reading its files took more than 20 s" : strerror(-r),
			    "some libraries are not shown", "gpuscope doctor -p PID");
	read_environment(p);
	ask_runtime(p);
	ask_python(p);
	ask_anything(p);
	ask_cupti(p);
	ask_nccl(p);
	ask_memory(p);
	ask_access(p);
	return 0;
}

int gs_doctor_ask_process(struct gs_doctor *d, pid_t pid, struct gs_err *err)
{
	struct program p = {.doctor = d, .pid = pid};

	return under_guard(&p, read_process, err);
}

/* --- a command --- */

struct command {
	struct program program;
	const char *path;
	char *const *environment;
};

static int read_command(struct program *p, struct gs_err *err)
{
	const struct command *c = (const struct command *)p;
	size_t bytes = 1, at = 0;
	int r = gs_library_candidates(c->path, c->environment, on_file, p);

	if (r < 0 && r != -ETIME)
		return gs_err_set(err, r, "%s: %s", c->path,
				  r == -ENOENT ? "no such command" : strerror(-r));
	for (size_t i = 0; c->environment[i]; i++)
		bytes += strlen(c->environment[i]) + 1;
	p->environment = calloc(1, bytes);
	for (size_t i = 0; p->environment && c->environment[i]; i++) {
		size_t n = strlen(c->environment[i]) + 1;

		memcpy(p->environment + at, c->environment[i], n);
		at += n;
	}
	ask_anything(p);
	ask_cupti(p);
	ask_nccl(p);
	return 0;
}

int gs_doctor_ask_command(struct gs_doctor *d, const char *command, char *const environment[],
			  struct gs_err *err)
{
	struct command c = {.program = {.doctor = d}, .path = command, .environment = environment};

	return under_guard(&c.program, read_command, err);
}
