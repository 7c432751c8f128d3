/*
 * What chosen processes ask of GPUs, while they run: probes on the calls of CUDA's libraries, whose sums
 * the kernel keeps by stream; only calls that order work, allocations, and one launch of many come here
 * one by one. Out come the sums of pipeline/process_gpu for each process and GPU, what the process has
 * allocated, and what the driver says of it.
 *
 * Times are bounds that the host sees, counts are exact as long as nothing is lost, memory by kind is what
 * was allocated while it was watched, and the driver's figure is measured by the device.
 *
 * Processes of jobs that have their calls reported from inside are taken from there (gs_gpu_meter_read_inside), without probes
 * and with the same figures.
 *
 * One thread.
 */
#ifndef GS_PIPELINE_GPU_METER_GPU_METER_H
#define GS_PIPELINE_GPU_METER_GPU_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "model/node/gpu.h"
#include "model/trace/record_memory.h"
#include "pipeline/process_gpu/process_gpu.h"

#define GS_GPU_METER_PROCESSES_MAX 512 /* traced at one time */

/* A process on a GPU. */
struct gs_gpu_meter_row {
	uint32_t pid;
	bool ended;                     /* the process: its sums stay as they are */
	char comm[16];                  /* as in /proc/PID/comm */
	char gpu[80];                   /* UUID; "" not known */
	struct gs_process_gpu_row sums; /* of all contexts of the process on that GPU */
	int64_t driver_bytes;           /* device memory as the driver has it; -1 not known */
	int64_t driver_peak_bytes;      /* of the times that it was read; -1 */
};

/* What calls of a process have allocated and not freed, since it was watched. */
struct gs_gpu_meter_memory {
	uint32_t pid;
	bool ended;    /* the process */
	char comm[16]; /* as in /proc/PID/comm */
	char gpu[80];  /* UUID; "" not known, or memory of the host */
	uint32_t kind; /* enum gs_memory_kind; no sums */
	uint64_t live_bytes, peak_bytes;
};

struct gs_gpu_meter;

/* -EPERM, -ENOTSUP: this kernel or user cannot, with a text. */
int gs_gpu_meter_open(struct gs_gpu_meter **ret_meter, struct gs_err *err);
void gs_gpu_meter_close(struct gs_gpu_meter **meter);

/* Look into a folder (NULL: /dev/shm) for those that users have shared for reports from inside (sources/companion). Before
 * the first choice. A negative errno with err: all is seen by probes. */
int gs_gpu_meter_read_inside(struct gs_gpu_meter *meter, const char *folder, struct gs_err *err);

/* Functions whose calls that takes, by id: GS_FUNC_FIXED of them. */
void gs_gpu_meter_functions(bool *ret_wanted);

/* Chosen processes that report from inside now. */
unsigned gs_gpu_meter_inside(const struct gs_gpu_meter *meter);

/* Reports from inside that could not be read, and why the first could not (a negative errno). */
unsigned gs_gpu_meter_unread(const struct gs_gpu_meter *meter, int *ret_reason);

/* Trace these processes, and what they start from now on, and no other ones. Where one is left out
 * all probes are made again. What was summed up stays. A negative errno with err. */
int gs_gpu_meter_choose(struct gs_gpu_meter *meter, const pid_t *pids, size_t n,
			struct gs_err *err);

/* The GPUs and what the driver knows of processes; NULL: nothing new. */
void gs_gpu_meter_see_gpus(struct gs_gpu_meter *meter, const struct gs_gpu_snapshot *gpus);

/* Takes what has come in; some times a second. */
void gs_gpu_meter_poll(struct gs_gpu_meter *meter);

/* The sums are brought up to now. */
void gs_gpu_meter_tick(struct gs_gpu_meter *meter);

/* What there was at the last tick: rows, memory and GPUs by index. */
size_t gs_gpu_meter_count(const struct gs_gpu_meter *meter);
void gs_gpu_meter_read(const struct gs_gpu_meter *meter, size_t index,
		       struct gs_gpu_meter_row *ret_row);
size_t gs_gpu_meter_count_memory(const struct gs_gpu_meter *meter);
void gs_gpu_meter_read_memory(const struct gs_gpu_meter *meter, size_t index,
			      struct gs_gpu_meter_memory *ret_memory);
size_t gs_gpu_meter_count_gpus(const struct gs_gpu_meter *meter);

/* False: nothing that is traced ran there. *ret_uuid is lent. */
bool gs_gpu_meter_read_gpu(const struct gs_gpu_meter *meter, size_t index, const char **ret_uuid,
			   struct gs_process_gpu_total *ret_total);

/* Probes that are in place, and calls and events that are missing in the sums. */
unsigned gs_gpu_meter_probes(const struct gs_gpu_meter *meter);
uint64_t gs_gpu_meter_lost(const struct gs_gpu_meter *meter);

#endif
