/*
 * What a summary says of memory for GPUs, of which pipeline/gpu_memory has the rules: the host's view,
 * by the calls that allocate and free.
 */
#ifndef GS_MODEL_SUMMARY_MEMORY_H
#define GS_MODEL_SUMMARY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/record_memory.h"

/* "device", "pool"; "" of a number that is none. */
const char *gs_memory_kind_name(unsigned kind);

/* A sum of a process, by device and kind; those over kinds and devices among them. */
struct gs_memory_row {
	uint32_t pid;
	const char *comm;          /* of the process */
	const char *gpu;           /* UUID of the device; "" not known */
	bool has_ended;            /* the process: what is live was left over */
	struct gs_rec_memory sums; /* fields as there, but for head and process */
};

/* Memory by the place where it was asked for. */
struct gs_memory_place {
	uint32_t pid;         /* 0: of all places that found no room */
	const char *comm;     /* of the process */
	const char *function; /* the call */
	const char *place; /* "FILE:LINE FUNCTION", "FUNCTION (FILE)", "unknown"; "" with pid 0 */
	struct gs_rec_memory_site sums; /* fields as there, but for ids */
};

/* What the driver says that a process has on a GPU: measured by the device, by samples. With contexts, code and
 * everything from before the trace. */
struct gs_memory_measured {
	uint32_t pid;
	const char *comm; /* of the process */
	const char *gpu;  /* UUID */
	uint32_t device;  /* as the process numbers it; GS_MEMORY_DEVICE_UNKNOWN */
	bool is_late;     /* it was there before the trace: the first sample is what it had then */
	uint64_t first_bytes, last_bytes, peak_bytes;
	uint64_t live_bytes; /* of the rows of that device: the host's view; 0: not known */
	uint64_t n_readings; /* that these are of */
	/* At most, from the last reading until it was not there, or the last sample. */
	uint64_t unread_ns;
};

/* Fewer readings say nothing of how it went, and what was read so long before the end is not what it had
 * there: twice the time between two readings that a trace keeps to. */
#define GS_MEMORY_READINGS_LEAST 3
#define GS_MEMORY_UNREAD_NS      4000000000ull

/* Whether last_bytes is what the process had at its end: read often enough, and lately enough. */
static inline bool gs_memory_knows_last(const struct gs_memory_measured *m)
{
	return m->n_readings >= GS_MEMORY_READINGS_LEAST && m->unread_ns <= GS_MEMORY_UNREAD_NS;
}

struct gs_memory_summary {
	struct gs_memory_row *rows; /* by process, device and kind; a sum is after what it is of */
	size_t n_rows;
	struct gs_memory_place *places; /* most live bytes first, then by their peak */
	size_t n_places;
	struct gs_memory_measured *measured; /* by process and GPU */
	size_t n_measured;
};

#endif
