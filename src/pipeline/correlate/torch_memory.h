/*
 * PyTorch's caching allocator: its live blocks, and sums by process and device. Inside the room
 * only. It hands out parts of what it got from CUDA (blocks of pipeline/gpu_memory): both together show how
 * much of that lies idle.
 */
#ifndef GS_PIPELINE_CORRELATE_TORCH_MEMORY_H
#define GS_PIPELINE_CORRELATE_TORCH_MEMORY_H

#include "core/base/map.h"
#include "model/trace/record.h"
#include "pipeline/gpu_memory/gpu_memory.h"

#define TORCH_MAX_DEVICES 16   /* with a counter track */
#define TORCH_MAX_SITES   1024 /* of blocks never freed, counted one by one */

struct torch_block {
	uint64_t pointer;    /* address */
	uint64_t bytes;      /* as they were asked for */
	uint32_t device_idx; /* into devices */
	uint32_t scope;      /* as in CALL */
	uint32_t py_stack;   /* likewise */
	uint32_t next_free;  /* of free ones: the next, plus 1 */
};

struct torch_device {
	uint32_t process; /* id */
	int32_t device;   /* as CUDA numbers it; -1: of frees of unknown blocks */
	uint64_t live_bytes, peak_bytes, total_bytes;
	/* So far; unknown_frees: of blocks from before the trace. */
	uint64_t allocations, frees, unknown_frees;
	uint64_t reported_ns; /* when the last counter was made */
};

struct torch_memory {
	struct gs_map index;                        /* of process and pointer -> block */
	struct torch_block *blocks;                 /* owned */
	uint32_t n_blocks, room_blocks, first_free; /* first_free: plus 1 */
	struct torch_device *devices;               /* owned */
	uint32_t n_devices, room_devices;           /* in use, and how many have room */
};

/* fini frees what it holds; it is as after init then. */
void correlate_torch_memory_init(struct torch_memory *m);
void correlate_torch_memory_fini(struct torch_memory *m);

/* Enter a block. NULL without memory, or when there are too many (*n_untracked counts). */
struct torch_device *correlate_torch_memory_alloc(struct torch_memory *m, uint32_t process,
						  const struct gs_rec_call *call,
						  uint64_t *n_untracked);

/* Take a block out; NULL when it is not known. */
struct torch_device *correlate_torch_memory_free(struct torch_memory *m, uint32_t process,
						 const struct gs_rec_call *call,
						 uint64_t *ret_bytes);

/* The process runs another program: its blocks are gone, and were not leaked. */
void correlate_torch_memory_drop(struct torch_memory *m, uint32_t process);

/* Append ALLOCATOR and LEAK records. 0 or a negative errno. */
int correlate_torch_memory_finish(const struct torch_memory *m, const struct gs_memory *memory,
				  struct gs_buf *out);

#endif
