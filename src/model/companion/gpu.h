/*
 * Records of the door to GPU activity (companion/gpu) in the file of a process: model/companion/file.h. Times in them
 * are CLOCK_MONOTONIC ns, not ticks: CUPTI's clock counts ns.
 */
#ifndef GS_MODEL_COMPANION_GPU_H
#define GS_MODEL_COMPANION_GPU_H

#include "model/companion/file.h"
#include "model/gpu_work/gpu_work.h"

enum gs_companion_gpu_kind {
	GS_COMPANION_GPU_NAME = GS_COMPANION_GPU_FIRST, /* struct gs_companion_gpu_name */
	GS_COMPANION_GPU_WORK,                          /* struct gs_companion_gpu_work */
	GS_COMPANION_GPU_STATE,                         /* struct gs_companion_gpu_state */
};

#define GS_COMPANION_GPU_NAMES 8192u /* different ones of one process */

/* A kernel's name (text), before the first record with its number: mangled, to the first zero or
 * the record's end, where it may be cut. */
struct gs_companion_gpu_name {
	struct gs_companion_record head;
	uint32_t id; /* 1 .. GS_COMPANION_GPU_NAMES */
	uint32_t pad;
	char text[];
};
_Static_assert(sizeof(struct gs_companion_gpu_name) == 16, "gs_companion_gpu_name");

struct gs_companion_gpu_work {
	struct gs_companion_record head;
	struct gs_gpu_work work; /* what was done, and when */
	uint32_t name;           /* of a kernel; 0: there were too many */
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_companion_gpu_work) == 120, "gs_companion_gpu_work");

enum gs_companion_gpu_what {
	GS_COMPANION_GPU_OPENED =
		1, /* from here on all is recorded. text: what is not as it was asked for */
	GS_COMPANION_GPU_CLOSED = 2,  /* up to here */
	GS_COMPANION_GPU_YIELDED = 3, /* closed, as the program's own profiler wants CUPTI */
	GS_COMPANION_GPU_REFUSED = 4, /* nothing is recorded; text says why */
};

/* text: to the first zero or the record's end. */
struct gs_companion_gpu_state {
	struct gs_companion_record head;
	uint64_t time_ns;
	uint32_t what;    /* enum gs_companion_gpu_what */
	uint32_t version; /* as CUPTI numbers itself; 0: none was found */
	/* So far. */
	uint64_t n_dropped;   /* records, by CUPTI */
	uint64_t n_discarded; /* buffers of records, as there were too many at one time */
	uint64_t n_bad;       /* records that cannot be as their kind says */
	char text[];
};
_Static_assert(sizeof(struct gs_companion_gpu_state) == 48, "gs_companion_gpu_state");

#endif
