/*
 * What processes hold of memory for GPUs, and pinned of the host, by device, kind and call site. In
 * come the calls of processes in the order in which they returned; each sum has its peak. All of it is
 * the host's view: a block is live from the return of the call that gave it to that of the call that
 * freed it, with the bytes that were asked for (padding of rows included). What the driver adds to
 * that (contexts, code, its own rounding, what a pool keeps) no call shows.
 *
 *     cudaMalloc ----------------------> block by its address ------------> cudaFree, by any thread
 *     cuMemCreate -> handle --cuMemMap-> mapping by its address --cuMemUnmap-> handle
 *                    `- cuMemRelease: freed when it is released and mapped nowhere
 *
 * Calls of threads may be reported late: a block can be given to one thread before the call is
 * reported by which another freed the block that was there. So where a known address is given again,
 * a free that began before that is taken for the old block's.
 *
 * The end of a process's first call on a device may not be seen, and so not its address: it counts as
 * held until a block is freed that nothing is known of.
 *
 * A call costs O(1), amortised, but the end of a program or a reset of a device: these look at all
 * blocks. Memory is bounded: GS_MEMORY_MAX_BLOCKS live blocks, mappings and reserved ranges in
 * at most 64 MiB, the pages that they lie in in 32 MiB, GS_MEMORY_MAX_SITES call sites in
 * 8 MiB, freed addresses in 512 KiB. Allocations past the first of these bounds are counted in
 * gs_memory_untracked(), those past the second are taken for pages of their own, those past the third share one site. One thread.
 */
#ifndef GS_PIPELINE_GPU_MEMORY_GPU_MEMORY_H
#define GS_PIPELINE_GPU_MEMORY_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "model/trace/dict.h"
#include "model/trace/record_memory.h"

#define GS_MEMORY_MAX_BLOCKS  (1u << 20)
#define GS_MEMORY_MAX_SITES   (1u << 16)
#define GS_MEMORY_MAX_HOLDERS (1u << 16) /* sums by process, device and kind */
#define GS_MEMORY_PAGE_BYTES  (2ull << 20)

/* What a function means for memory. */
enum gs_memory_verb {
	GS_MEMORY_NOTHING = 0,
	GS_MEMORY_ALLOC,
	GS_MEMORY_ALLOC_NCCL, /* over other calls, or not */
	GS_MEMORY_FREE,
	GS_MEMORY_FREE_NCCL,
	GS_MEMORY_RESERVE, /* addresses */
	GS_MEMORY_UNRESERVE,
	GS_MEMORY_MAP,
	GS_MEMORY_UNMAP,
	GS_MEMORY_RELEASE, /* a handle */
	GS_MEMORY_RETAIN,  /* the handle of an address, once more */
	GS_MEMORY_RESET,   /* of a device: all that was on it is gone */
};

struct gs_memory_function {
	uint8_t verb;   /* enum gs_memory_verb */
	uint8_t kind;   /* of ALLOC: enum gs_memory_kind; of FREE: DEVICE, ARRAY or PINNED */
	bool of_thread; /* of RESET: of the calling thread's device, else of the one in aux */
};

/* By its layer, its class and its name. */
struct gs_memory_function gs_memory_function_of(unsigned layer, unsigned func_class,
						const char *name);

struct gs_memory;

/* 0 or -ENOMEM. */
int gs_memory_new(struct gs_memory **ret_memory);
void gs_memory_free(struct gs_memory **memory);

/* A call that has returned, of a known process. Returns the bytes of the block that it freed, else 0. */
uint64_t gs_memory_take(struct gs_memory *memory, uint32_t process, const struct gs_rec_call *call,
			struct gs_memory_function function);

/* The thread of the process has chosen a device, or is on one that is not known
 * (GS_MEMORY_DEVICE_UNKNOWN). */
void gs_memory_set_device(struct gs_memory *memory, uint32_t process, uint32_t thread,
			  uint32_t device);

/* Threads of the process may have chosen a device before they were seen: those that choose none from
 * now on are on one that is not known. */
void gs_memory_set_late(struct gs_memory *memory, uint32_t process, bool is_late);

/* The process runs another program: what it held is gone, and was not leaked. */
void gs_memory_drop_process(struct gs_memory *memory, uint32_t process);

/* The process has ended: what it holds is left over. */
void gs_memory_end_process(struct gs_memory *memory, uint32_t process);

/* The block that begins there (or the reserved range that it lies in) is one of those that PyTorch's
 * caching allocator hands out parts of; nothing when none is known. */
void gs_memory_mark_segment(struct gs_memory *memory, uint32_t process, uint64_t pointer);

struct gs_memory_segments {
	uint64_t live_bytes, peak_bytes;
};

/* Of a process; zeros when it has none. */
struct gs_memory_segments gs_memory_read_segments(const struct gs_memory *memory, uint32_t process);

/* A sum that changed since it was returned the last time. */
struct gs_memory_change {
	uint32_t process, device; /* as struct gs_rec_memory has them */
	uint32_t kind;            /* likewise */
	uint64_t live_bytes;
	uint64_t *time_ns; /* the caller's, of that sum; 0 at first. Lent until the next call */
};

/* False: there are no more. */
bool gs_memory_next_change(struct gs_memory *memory, struct gs_memory_change *ret_change);

/* Allocations that were not followed: too many, no memory, or an address that could not be read. */
uint64_t gs_memory_untracked(const struct gs_memory *memory);

/* Nothing was asked for, and nothing freed. */
bool gs_memory_is_empty(const struct gs_memory *memory);

/* Append MEMORY and MEMORY_SITE records of all that was found. 0 or a negative errno. */
int gs_memory_put_records(const struct gs_memory *memory, struct gs_buf *out);

#endif
