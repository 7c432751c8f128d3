/*
 * Between the files of this door, which sees what GPUs did through CUPTI. door.c begins with the driver and has the
 * thread that does all work; find.c finds the library and says which version is fit; buffer.c has the memory that
 * records come in; record.c writes them into this process's file; yield.c stands before CUPTI for the rest of the
 * program, whose own profiler gets it the moment that it asks.
 *
 * CUPTI is never subscribed to: others may be, at any time. Threads of the program are given buffers, and nothing
 * else is done in them. Nothing here may fail loudly.
 */
#ifndef GS_COMPANION_GPU_GPU_INT_H
#define GS_COMPANION_GPU_GPU_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "companion/gpu/layout.h"
#include "model/companion/gpu.h"

/* CUptiResult. */
enum gpu_result {
	GPU_CUPTI_OK = 0,
	GPU_CUPTI_NOT_INITIALIZED = 15,
	GPU_CUPTI_NO_RIGHTS = 35,
	GPU_CUPTI_HELD = 39, /* MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
};

typedef void (*gpu_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*gpu_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				size_t valid);

/* --- find.c --- */

struct gpu_cupti {
	void *library;
	uint32_t version;
	int (*get_version)(uint32_t *);
	int (*get_timestamp)(uint64_t *);
	int (*register_callbacks)(gpu_request_fn, gpu_complete_fn);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*flush_all)(uint32_t flag);
	int (*next_record)(uint8_t *buffer, size_t valid, uint8_t **record);
	int (*n_dropped)(void *context, uint32_t stream, size_t *count);
	/* NULL in versions that lack them. */
	int (*get_thread_ids)(int *type);
	int (*set_thread_ids)(int type);
	int (*callback_name)(int domain, uint32_t number, const char **name);
	int (*enable_driver_call)(uint32_t number, uint8_t enable);
	int (*enable_runtime_call)(uint32_t number, uint8_t enable);
};

/* The copy that the process has, or that belongs to its CUDA. False: text says why there is none to be used. */
bool gpu_cupti_find(struct gpu_cupti *ret_cupti, char *text, size_t text_bytes);

/* A function of the process's CUPTI for a call that the program makes; NULL: there is none. */
void *gpu_cupti_function(const char *name);

/* --- buffer.c --- */

#define GPU_BUFFERS      64u
#define GPU_BUFFER_BYTES (1u << 20)

/* What is registered with CUPTI. Buffers go back to whom they came from. */
void gpu_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records);
void gpu_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			 size_t valid);

/* The program's own profiler takes records by these while this door does not keep them to itself. */
void gpu_buffer_lend(gpu_request_fn request, gpu_complete_fn complete);
void gpu_buffer_keep(bool keep);

struct gpu_buffer {
	uint8_t *data;
	size_t valid;
	struct gpu_buffer *next;
	uint32_t out; /* CUPTI or the list of whole ones has it */
};

/* All that came back since the last time, the oldest first. To be given back one by one. */
struct gpu_buffer *gpu_buffer_take(void);
void gpu_buffer_free(struct gpu_buffer *buffer);

/* Does CUPTI have any? What is in them has not come back yet. */
bool gpu_buffer_is_out(void);

/* Have some in reserve, so that threads of the program need not make them. */
void gpu_buffer_prepare(unsigned n);

/* Of all so far. */
struct gpu_buffer_counts {
	uint64_t n_dropped, n_discarded;
	uint64_t first_ns; /* when CUPTI first asked, monotonic; 0 not yet. May be set to that */
};
extern struct gpu_buffer_counts gpu_buffer_counts;

/* --- record.c --- */

extern uint64_t gpu_n_bad; /* records that were not believed */

/* Write what is in these buffers, and give them back. */
void gpu_record_all(const struct gpu_cupti *cupti, struct gpu_buffer *list);
void gpu_record_state(enum gs_companion_gpu_what what, uint64_t time_ns, uint32_t version,
		      const char *text);

/* --- yield.c --- */

/* Are others' kinds of records switched on? */
bool gpu_yield_is_held(void);

/* --- door.c --- */

extern struct gpu_cupti gpu_cupti; /* library NULL: none is used */

/* Does the calling process use CUPTI by this door: it has begun, and this is not a child of it? */
bool gpu_door_is_open(void);

/* Another one in this process wants CUPTI: it is free when this returns. Nothing is done where it is already. */
void gpu_door_yield(void);

/* What is left to be known of it: does it hold CUPTI still? When not, it is taken back after a while. */
void gpu_door_note(bool holds);

#endif
