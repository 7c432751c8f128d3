/*
 * What a summary says of GPUs by their own times (CUPTI, from inside of processes): of windows, in which all that a
 * GPU did for a process is known. Nothing is estimated from them for the time between.
 */
#ifndef GS_MODEL_SUMMARY_GPU_TIME_H
#define GS_MODEL_SUMMARY_GPU_TIME_H

#include <stddef.h>
#include <stdint.h>

struct gs_gpu_time_kernel {     /* of all processes */
	const char *name;       /* demangled; "" not known */
	const char *short_name; /* likewise, for a narrow place */
	uint64_t runs;          /* on any GPU; the times below are of these */
	uint64_t total_ns, min_ns, max_ns;
};

/* Stretches in which at least one piece of the sort ran. */
enum gs_gpu_time_sort {
	GS_GPU_TIME_ANY = 0,
	GS_GPU_TIME_COMPUTE,      /* kernels but those of NCCL, graphs */
	GS_GPU_TIME_COMM,         /* kernels of NCCL */
	GS_GPU_TIME_COPY,         /* copies and fills */
	GS_GPU_TIME_COMPUTE_COMM, /* either of them */
	GS_GPU_TIME_COMPUTE_COPY, /* likewise */
	GS_GPU_TIME_SORTS
};

struct gs_gpu_time_device {
	uint32_t process; /* of a summary: its pid */
	uint32_t device;  /* as CUDA numbers it for the process */
	/* Pieces of work; copied_bytes: by copies. */
	uint64_t kernels, graphs, copies, fills, copied_bytes;
	uint64_t window_ns; /* of its process, for which it was looked at */
	uint64_t busy_ns[GS_GPU_TIME_SORTS];
	uint64_t gaps, gap_ns, gap_max_ns; /* between work within a window */
};

struct gs_gpu_time {
	struct gs_gpu_time_kernel *kernels; /* most time first */
	size_t n_kernels;
	struct gs_gpu_time_device *devices; /* by process and device */
	size_t n_devices;
	uint64_t kernel_ns;        /* of all kernels */
	uint64_t window_ns;        /* of all processes together */
	uint64_t windows, yielded; /* how many; of these, given up as another profiler came */
	uint64_t overhead_ns;      /* of looking, as CUPTI says */
	uint64_t untimed;          /* pieces of work whose times CUPTI does not know */
	uint64_t dropped, discarded, bad; /* records, buffers, records */
	uint64_t left_out;                /* pieces of work that found no room here */
	uint32_t version;                 /* of CUPTI, of the last process that said it */
	/* Why a process could not be looked at, or not as asked for; "" all could. */
	const char *refusal;
};

/* Time in which both ran. */
static inline uint64_t gs_gpu_time_both(const struct gs_gpu_time_device *d,
					enum gs_gpu_time_sort one, enum gs_gpu_time_sort other,
					enum gs_gpu_time_sort either)
{
	uint64_t sum = d->busy_ns[one] + d->busy_ns[other];

	return sum > d->busy_ns[either] ? sum - d->busy_ns[either] : 0;
}

#endif
