/*
 * The ledger of live blocks: (process, space, pointer) -> bytes, and the sum by process and space.
 * Inside the room only.
 */
#ifndef GS_PIPELINE_CORRELATE_LEDGER_H
#define GS_PIPELINE_CORRELATE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum space {
	SPACE_DEVICE = 0, /* managed memory too */
	SPACE_HOST = 1,   /* pinned */
	SPACE_COUNT
};

struct block {
	uint64_t pointer; /* 0: the slot is free */
	uint64_t bytes;
	uint32_t process;
	uint16_t space;
	uint16_t is_segment; /* PyTorch's caching allocator hands out parts of it */
};

struct correlate_ledger_process {
	uint64_t live_bytes[SPACE_COUNT];
	uint64_t peak_bytes[SPACE_COUNT];
	uint64_t segment_bytes, peak_segment_bytes; /* of blocks that are segments */
	uint64_t reported_ns[SPACE_COUNT];          /* time of the last counter */
	/* The newest block of physical memory (cuMemCreate): ncclMemAlloc() makes one inside. */
	uint64_t physical;
	uint64_t physical_start_ns;
	uint32_t physical_thread;
};

struct ledger {
	struct block *slots; /* owned */
	size_t n_slots;      /* a power of two, or 0 */
	size_t n_used;
	struct correlate_ledger_process **processes; /* owned, and each element; by id */
	uint32_t n_processes;
};

void correlate_ledger_fini(struct ledger *ledger);

/* The sums of a process, made when missing; NULL: no memory, or the id is out of range. */
struct correlate_ledger_process *correlate_ledger_process(struct ledger *ledger, uint32_t process);

/* The same when it is there, else NULL. */
struct correlate_ledger_process *correlate_ledger_find_process(const struct ledger *ledger,
							       uint32_t process);

/* Enter a block of a known process; one with the same pointer is replaced (its free was not seen).
 * 0, -ENOMEM or -ENOBUFS. */
int correlate_ledger_put(struct ledger *ledger, uint32_t process, enum space space,
			 uint64_t pointer, uint64_t bytes);

/* Take a block out; false when it is not known. */
bool correlate_ledger_take(struct ledger *ledger, uint32_t process, enum space space,
			   uint64_t pointer, uint64_t *ret_bytes);

/* A block of device memory turned out to be a segment; one that is not known is left alone. */
void correlate_ledger_mark_segment(struct ledger *ledger, uint32_t process, uint64_t pointer);

/* All blocks of the process are gone. */
void correlate_ledger_drop(struct ledger *ledger, uint32_t process);

#endif
