/*
 * The NVML library: found, opened, started and ended, and how each of its calls is made.
 *
 * A call that the library does not have is NVML_FUNCTION_NOT_FOUND and thereby "not supported", so
 * that an old driver shows less and nothing breaks. What calls say about the session (a GPU lost,
 * the driver gone) is noted here, once, and acted on between two samples.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define RETRY_FIRST_NS 1000000000ull
#define RETRY_MAX_NS   60000000000ull

/* Where drivers and their containers put it when the loader does not know (NVIDIA's packages, the
 * GPU operator's driver container, WSL). */
static const char *const usual_places[] = {
	"libnvidia-ml.so.1",
	"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/usr/lib64/libnvidia-ml.so.1",
	"/usr/lib/libnvidia-ml.so.1",
	"/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
	"/host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
};

static const struct symbol {
	const char *names[4];
	size_t offset;
	bool needed;
} symbols[] = {
#define ROW(need, member, args, ...)                                                               \
	{{__VA_ARGS__}, offsetof(struct nvml_api, member), NVML_##need},
	NVML_CALLS(ROW)
#undef ROW
};

void gs_nvml_enter(struct gs_nvml *nv, enum nvml_call call)
{
	gs_nvml_part_begin(&nv->in_call);
	atomic_store(&nv->watch->call, (unsigned)call);
	atomic_fetch_add(&nv->watch->n_calls, 1);
	atomic_store(&nv->watch->call_since_ns, nv->in_call.wall_ns);
}

const char *gs_nvml_call_name(enum nvml_call call)
{
	return call < NVML_CALL_COUNT ? symbols[call].names[0] : "opening its library";
}

nvml_return gs_nvml_leave(struct gs_nvml *nv, enum nvml_call call, nvml_return r)
{
	struct gs_nvml_cost *cost = &nv->call_cost[call];
	struct gs_nvml_meter now;

	atomic_store(&nv->watch->call_since_ns, 0);
	gs_nvml_part_begin(&now);
	cost->n++;
	cost->wall_ns += now.wall_ns - nv->in_call.wall_ns;
	cost->cpu_ns += now.cpu_ns - nv->in_call.cpu_ns;
	switch (r) {
	case NVML_OK:
	case NVML_NOT_SUPPORTED:
	case NVML_NO_PERMISSION:
	case NVML_NOT_FOUND: /* of lists: empty */
	case NVML_INSUFFICIENT_SIZE:
	case NVML_FUNCTION_NOT_FOUND:
	case NVML_DEPRECATED:
	case NVML_NO_DATA:
		break;
	case NVML_GPU_IS_LOST:
	case NVML_RESET_REQUIRED:
		nv->lost = true;
		atomic_fetch_add(&nv->watch->failed_calls, 1);
		break;
	case NVML_UNINITIALIZED:
	case NVML_DRIVER_NOT_LOADED:
	case NVML_LIB_RM_VERSION_MISMATCH:
		nv->changed = true;
		atomic_fetch_add(&nv->watch->failed_calls, 1);
		break;
	default:
		atomic_fetch_add(&nv->watch->failed_calls, 1);
	}
	return r;
}

bool gs_nvml_skip(const struct gs_nvml_device *dev, enum nvml_call call)
{
	return dev->unsupported[call / 64] >> (call % 64) & 1;
}

nvml_return gs_nvml_note(struct gs_nvml *nv, struct gs_nvml_device *dev, enum nvml_call call,
			 nvml_return r)
{
	if (r == NVML_NOT_SUPPORTED || r == NVML_FUNCTION_NOT_FOUND || r == NVML_DEPRECATED)
		dev->unsupported[call / 64] |= 1ull << (call % 64);
	else if (r == NVML_GPU_IS_LOST)
		dev->sample.lost = 1;
	/* The handle of a part is stale once the GPU's MIG instances changed; memory is what every part
	 * has. Other calls say the same when they are not made for parts. */
	else if (dev->parent && (r == NVML_NOT_FOUND || r == NVML_INVALID_ARGUMENT)) {
		if (call == NVML_CALL_memory_v2 || call == NVML_CALL_memory)
			nv->changed = true;
		else if (r == NVML_INVALID_ARGUMENT)
			dev->unsupported[call / 64] |= 1ull << (call % 64);
	}
	return r;
}

enum gs_gpu_reason gs_nvml_why(nvml_return r)
{
	switch (r) {
	case NVML_OK:
		return GS_GPU_REASON_OK;
	case NVML_NOT_SUPPORTED:
	case NVML_FUNCTION_NOT_FOUND:
	case NVML_DEPRECATED:
	case NVML_ARGUMENT_VERSION_MISMATCH:
		return GS_GPU_REASON_NOT_SUPPORTED;
	case NVML_NO_PERMISSION:
		return GS_GPU_REASON_NOT_PERMITTED;
	case NVML_GPU_IS_LOST:
		return GS_GPU_REASON_LOST;
	case NVML_TIMEOUT:
		return GS_GPU_REASON_TIMED_OUT;
	default:
		return GS_GPU_REASON_FAILED;
	}
}

void gs_nvml_put(struct gs_nvml_device *dev, enum gs_gpu_field field, nvml_return r, double value)
{
	if (r == NVML_OK)
		gs_gpu_set_checked(&dev->sample, field, value);
	else if (r != NVML_GPU_IS_LOST) /* what was known last stays */
		dev->sample.why[field] = (uint8_t)gs_nvml_why(r);
}

void gs_nvml_library_unref(struct gs_nvml_library **ref)
{
	struct gs_nvml_library *library = *ref;

	*ref = NULL;
	if (library && atomic_fetch_sub(&library->refs, 1) == 1) {
		dlclose(library->handle);
		free(library);
	}
}

/* Fill the table of calls; the name of one that is needed and missing, NULL: all are there. */
static const char *resolve_calls(struct gs_nvml_library *library)
{
	const char *missing = NULL;

	for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
		void *found = NULL;

		for (unsigned j = 0; j < 4 && symbols[i].names[j] && !found; j++)
			found = dlsym(library->handle, symbols[i].names[j]);
		memcpy((char *)&library->api + symbols[i].offset, &found, sizeof(found));
		if (!found)
			gs_log(GS_LOG_DEBUG, GS_LOG_GPU, "nvml: %s is missing",
			       symbols[i].names[0]);
		if (!found && symbols[i].needed && !missing)
			missing = symbols[i].names[0];
	}
	return missing;
}

/* Opening runs the library's constructors: watched like a call. */
static void *open_at(struct gs_nvml *nv, const char *path)
{
	void *handle;

	gs_nvml_enter(nv, NVML_CALL_COUNT);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	atomic_store(&nv->watch->call_since_ns, 0);
	return handle;
}

static void fail_nvml(struct gs_nvml *nv, enum gs_gpu_state state, const char *fmt, ...)
	GS_PRINTF(3, 4);

static void fail_nvml(struct gs_nvml *nv, enum gs_gpu_state state, const char *fmt, ...)
{
	va_list ap;

	nv->session_state = state;
	va_start(ap, fmt);
	vsnprintf(nv->text, sizeof(nv->text), fmt, ap);
	va_end(ap);
}

static bool load_library(struct gs_nvml *nv)
{
	const char *given = nv->options->nvml_path, *missing, *path = given;
	struct gs_nvml_library *library;
	void *handle = NULL;

	if (given)
		handle = open_at(nv, given);
	for (size_t i = 0; !given && !handle && i < GS_ARRAY_LEN(usual_places); i++)
		handle = open_at(nv, path = usual_places[i]);
	if (!handle && given) {
		const char *why = dlerror();

		fail_nvml(nv, GS_GPU_STATE_NO_LIBRARY, "cannot open the NVML library: %s",
			  why ? why : given);
		return false;
	}
	if (!handle) {
		const char *option = nv->options->nvml_option;

		fail_nvml(nv, GS_GPU_STATE_NO_LIBRARY,
			  "libnvidia-ml.so.1 was not found: NVIDIA's driver is not installed%s%s",
			  option ? ", or its library is elsewhere: set " : "",
			  option ? option : "");
		return false;
	}
	library = calloc(1, sizeof(*library));
	if (!library) {
		dlclose(handle);
		fail_nvml(nv, GS_GPU_STATE_FAILED, "out of memory");
		return false;
	}
	library->handle = handle;
	atomic_store(&library->refs, 1);
	snprintf(library->path, sizeof(library->path), "%s", path);
	missing = resolve_calls(library);
	if (missing) {
		fail_nvml(nv, GS_GPU_STATE_FAILED,
			  "%s has no %s: the driver is too old, or this is not the NVML library",
			  path, missing);
		gs_nvml_library_unref(&library);
		return false;
	}
	nv->library = library;
	return true;
}

static void report_init(struct gs_nvml *nv, nvml_return r)
{
	switch (r) {
	case NVML_DRIVER_NOT_LOADED:
		fail_nvml(
			nv, GS_GPU_STATE_NO_DRIVER,
			"NVIDIA's kernel module is not loaded: `modprobe nvidia` (or this machine has no such GPU)");
		break;
	case NVML_LIB_RM_VERSION_MISMATCH:
		fail_nvml(
			nv, GS_GPU_STATE_NO_DRIVER,
			"NVIDIA's library and kernel module are of different versions: the driver was updated, reboot or reload the module");
		break;
	case NVML_NO_PERMISSION:
		fail_nvml(nv, GS_GPU_STATE_FAILED,
			  "no permission to open /dev/nvidiactl: join its group, or run as root");
		break;
	default:
		fail_nvml(nv, GS_GPU_STATE_FAILED, "NVML does not start (its error %d)", r);
	}
}

static void read_versions(struct gs_nvml *nv)
{
	char version[96] = "";
	unsigned major = 0, minor = 0;
	int cuda = 0;

	nv->driver_version[0] = nv->cuda_version[0] = '\0';
	if (NVML(nv, driver_version, version, (unsigned)sizeof(version) - 1) == NVML_OK)
		snprintf(nv->driver_version, sizeof(nv->driver_version), "%.31s", version);
	if (NVML(nv, cuda_version, &cuda) == NVML_OK && cuda > 0)
		snprintf(nv->cuda_version, sizeof(nv->cuda_version), "%d.%d", cuda / 1000,
			 cuda % 1000 / 10);
	/* 535.43 to 535.86 put one more member into the rows of the calls _v3, and took it out in
	 * 535.98 (nvitop 1.2.0 found it); the calls _v2 are as they were. */
	nv->odd_v3 = sscanf(nv->driver_version, "%u.%u", &major, &minor) == 2 && major == 535 &&
		     minor < 98;
}

void gs_nvml_start(struct gs_nvml *nv, uint64_t now_ns)
{
	nvml_return r;

	if (nv->started || now_ns < nv->retry_ns)
		return;
	nv->retry_after_ns = !nv->retry_after_ns                     ? RETRY_FIRST_NS
			     : nv->retry_after_ns < RETRY_MAX_NS / 2 ? nv->retry_after_ns * 2
								     : RETRY_MAX_NS;
	if (nv->options->retry_ns)
		nv->retry_after_ns = nv->options->retry_ns;
	nv->retry_ns = now_ns + nv->retry_after_ns;
	if (!nv->library && !load_library(nv))
		return;
	r = NVML(nv, init);
	if (r != NVML_OK) {
		report_init(nv, r);
		/* A library that was replaced on disk is opened again. */
		gs_nvml_library_unref(&nv->library);
		return;
	}
	nv->started = true;
	nv->lost = nv->changed = false;
	read_versions(nv);
	if (gs_nvml_enumerate(nv) < 0) {
		fail_nvml(nv, GS_GPU_STATE_FAILED, "NVML starts but reports no GPUs");
		gs_nvml_stop(nv, true);
		return;
	}
	if (nv->n_devices)
		fail_nvml(nv, GS_GPU_STATE_OK, "%s", "");
	else
		fail_nvml(nv, GS_GPU_STATE_NO_GPU, "NVIDIA's driver is loaded and finds no GPU");
	if (nv->options->groups & GS_GPU_READ_EVENTS)
		gs_nvml_events_start(nv);
	nv->next_layout_ns = now_ns + nv->options->slow_ns;
	gs_log(GS_LOG_INFO, GS_LOG_GPU, "nvml: %s, driver %s, %u GPUs and MIG instances",
	       nv->library->path, nv->driver_version, nv->n_devices);
}

void gs_nvml_stop(struct gs_nvml *nv, bool keep)
{
	if (nv->started) {
		bool quiet = gs_nvml_events_stop(nv);

		for (unsigned i = 0; i < nv->n_devices; i++) {
			struct gs_nvml_device *dev = &nv->device[i];

			for (unsigned j = 0; j < 2; j++)
				if (dev->gpm[j])
					NVML(nv, gpm_free, dev->gpm[j]);
			dev->gpm[0] = dev->gpm[1] = NULL;
			dev->gpm_state = 0;
			dev->gpm_time_ns = 0;
			dev->handle = dev->parent = NULL;
		}
		if (quiet)
			NVML(nv, shutdown);
		nv->started = false;
	}
	if (!keep) {
		for (unsigned i = 0; i < nv->n_devices; i++)
			gs_nvml_device_fini(nv, &nv->device[i]);
		gs_free_p(&nv->device);
		gs_free_p(&nv->topology);
		nv->n_devices = 0;
	}
	gs_nvml_library_unref(&nv->library);
}

void gs_nvml_fini(struct gs_nvml *nv)
{
	gs_nvml_stop(nv, false);
	gs_free_p(&nv->process_room);
	gs_free_p(&nv->gpm_room);
}
