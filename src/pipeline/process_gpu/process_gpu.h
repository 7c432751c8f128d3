/*
 * What each process asked of each GPU, as sums that only grow, so that any number of readers take
 * differences over windows of their own. In come the calls of processes (pipeline/gpu_activity) and, now
 * and then, the time; out come, for each process and GPU:
 *
 *   - active time: the union over streams of the time in which work was pending. Two bounds, as the host
 *     sees them (gpu_activity.h says how): not measured by the device.
 *   - cores used, as Datadog defines them: over the spans of kernels, time times the mean of their grids'
 *     threads, at most the GPU's cores; overlapping streams add up. A bound likewise.
 *   - their share: the same, divided where all processes together used more than the GPU has.
 *   - thread places filled: active time times the share of the SMs' threads that the launched kernels
 *     can fill at best, of those launches whose needs are known.
 *   - how much of what was queued, and how long the host waited.
 *
 * Work that is pending counts until the last tick, and as ended then; what comes in later goes on from
 * there. All sums change at ticks alone. Memory is bounded by struct gs_process_gpu_config and that of
 * the engine. One thread.
 */
#ifndef GS_PIPELINE_PROCESS_GPU_PROCESS_GPU_H
#define GS_PIPELINE_PROCESS_GPU_PROCESS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/gpu_activity/gpu_activity.h"
#include "pipeline/process_gpu/occupancy.h"

#define GS_PROCESS_GPU_DEVICES_MAX 256

/* A GPU, or a MIG instance, which is one to CUDA. */
struct gs_process_gpu_device {
	char uuid[80];        /* "GPU-..." or "MIG-..." */
	int32_t major, minor; /* compute capability; negative: not known */
	uint32_t n_sms;       /* of an instance: its own; 0 not known */
	uint32_t n_cores;     /* likewise */
};

struct gs_process_gpu_config {
	uint32_t max_rows;                  /* pairs of process and GPU; 0: 4,096 */
	struct gs_activity_config activity; /* of what follows its calls */
};

/* Of a process on a GPU, since it was seen first. */
struct gs_process_gpu_row {
	uint32_t process; /* the caller's number */
	uint32_t context; /* the number that CUDA gives the GPU in that process */
	int32_t device;   /* which of the devices it is; negative: not known */
	uint64_t active_max_ns, active_min_ns;
	uint64_t wait_ns, n_waits;   /* the host waited for the GPU */
	double core_s, core_share_s; /* core seconds; 0 where the device is not known */
	double place_s;              /* seconds times the filled share of thread places */
	uint64_t n_needs_known;      /* launches by which place_s is known */
	uint64_t threads;            /* of all kernels */
	/* Pieces of work by enum gs_activity_work, and their bytes. */
	uint64_t n[GS_ACTIVITY_WORKS], bytes[GS_ACTIVITY_WORKS];
	uint64_t n_pending; /* now; no sum */
};

/* Of a GPU: all its processes that are followed. */
struct gs_process_gpu_total {
	uint64_t active_max_ns; /* union over processes */
	double core_s, core_share_s;
	double core_factor; /* of the last tick's window: how much more was used than there is, at
			     * least 1 */
};

struct gs_process_gpu;

/* config NULL: the defaults. 0 or -ENOMEM. */
int gs_process_gpu_new(const struct gs_process_gpu_config *config, uint64_t now_ns,
		       struct gs_process_gpu **ret_gpu);
void gs_process_gpu_free(struct gs_process_gpu **gpu);

/* Which GPUs there are; copied. What rows say of devices by number refers to the last set: one that is
 * gone keeps its place. 0, -ENOMEM, or -E2BIG. */
int gs_process_gpu_set_devices(struct gs_process_gpu *gpu,
			       const struct gs_process_gpu_device *devices, size_t n);

/* The process sees these GPUs, by their UUIDs with commas in CUDA's order (sources/cuda_visible); before
 * its first call. late: it was there before it was traced. 0, -ENOMEM, or -ENOBUFS: too many. */
int gs_process_gpu_begin(struct gs_process_gpu *gpu, uint32_t process, const char *uuids,
			 bool late);

/* What a process uses whose choice of a device was not seen, or of which it is not known what it sees: the
 * UUID of the one GPU that it uses, as others say. */
void gs_process_gpu_guess(struct gs_process_gpu *gpu, uint32_t process, const char *uuid);

/* Its work is over; 0: at the end of its last call. Its rows stay. */
void gs_process_gpu_end(struct gs_process_gpu *gpu, uint32_t process, uint64_t time_ns);

/* A call, or a run of calls; by rising end. */
void gs_process_gpu_take(struct gs_process_gpu *gpu, const struct gs_activity_call *call);

/* The same of a call's record, whose thread is the number that the caller gave it. */
void gs_process_gpu_take_record(struct gs_process_gpu *gpu, uint32_t process,
				const struct gs_rec_call *record,
				struct gs_activity_function function);

/* A launch of the process on that context whose kernel's needs are known, among those taken. */
void gs_process_gpu_take_needs(struct gs_process_gpu *gpu, uint32_t process, uint32_t context,
			       const struct gs_process_gpu_launch *launch);

/* All calls that ended before that time have been taken. */
void gs_process_gpu_tick(struct gs_process_gpu *gpu, uint64_t now_ns);

/* Times are as of the last tick. index: 0 to the count - 1, which stays that of a row. */
size_t gs_process_gpu_count(const struct gs_process_gpu *gpu);
void gs_process_gpu_read(const struct gs_process_gpu *gpu, size_t index,
			 struct gs_process_gpu_row *ret_row);

/* Which device the process means by that number (GS_ACTIVITY_DEVICE_UNKNOWN too); negative: not known. */
int32_t gs_process_gpu_find_device(const struct gs_process_gpu *gpu, uint32_t process,
				   uint32_t context);

/* Devices that there are or were, by number; the UUID is lent, "": there is no such device. */
size_t gs_process_gpu_devices(const struct gs_process_gpu *gpu);
const char *gs_process_gpu_device_uuid(const struct gs_process_gpu *gpu, int32_t device);

/* False: no such device, or nothing ran on it. */
bool gs_process_gpu_read_total(const struct gs_process_gpu *gpu, size_t device,
			       struct gs_process_gpu_total *ret_total);

/* The engine inside, for its streams and its bounds. */
const struct gs_activity *gs_process_gpu_activity(const struct gs_process_gpu *gpu);

/* Calls of processes that found no row. */
uint64_t gs_process_gpu_left_out(const struct gs_process_gpu *gpu);

#endif
