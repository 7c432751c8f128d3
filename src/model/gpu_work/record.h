/* What GPUs did, by their own times, and when that was looked at: model/gpu_work/gpu_work.h. */
#ifndef GS_MODEL_GPU_WORK_RECORD_H
#define GS_MODEL_GPU_WORK_RECORD_H

#include "model/gpu_work/gpu_work.h"
#include "model/trace/record.h"

/* Come some time after the calls that asked for the work, in no order. */
struct gs_rec_gpu_work {
	struct gs_record head;
	uint32_t process;   /* id */
	uint32_t thread;    /* id of the one that asked for it; 0 not known */
	uint32_t name_str;  /* of a kernel, demangled; 0 not known */
	uint32_t short_str; /* the short form of it */
	struct gs_gpu_work work;
};
_Static_assert(sizeof(struct gs_rec_gpu_work) == 128, "gpu_work");

/* The numbers are stored. */
enum gs_gpu_window_what {
	GS_GPU_WINDOW_OPENED = 1, /* text: what is not as it was asked for, if anything */
	GS_GPU_WINDOW_CLOSED = 2,
	GS_GPU_WINDOW_YIELDED = 3, /* closed, as the program's own profiler wanted CUPTI */
	GS_GPU_WINDOW_REFUSED = 4, /* text says why */
};

/* All work of a process between OPENED and CLOSED or YIELDED is known, by records before the latter. */
struct gs_rec_gpu_window {
	struct gs_record head;
	uint32_t process; /* id */
	uint32_t what;    /* enum gs_gpu_window_what */
	uint64_t time_ns;
	uint32_t version;  /* of CUPTI; 0 not known */
	uint32_t text_str; /* why it could not be looked at; 0 it could */
	/* Of the process, so far. */
	uint64_t dropped;   /* records */
	uint64_t discarded; /* buffers of records */
	uint64_t bad;       /* records that cannot be */
};
_Static_assert(sizeof(struct gs_rec_gpu_window) == 56, "gpu_window");

#endif
