/*
 * What the ledger remembers. Blocks of all processes are in one hash table, by process, space and
 * address; each refers to its call site, and that to a holder, a sum. Holders and sites are in arrays
 * and refer to each other by index, 0 none:
 *
 *     block -> site -> holder (process, device, kind) -> sum of the device -> sum of the process
 */
#ifndef GS_PIPELINE_GPU_MEMORY_GPU_MEMORY_INT_H
#define GS_PIPELINE_GPU_MEMORY_GPU_MEMORY_INT_H

#include "core/base/map.h"
#include "pipeline/gpu_memory/gpu_memory.h"

/* What an address or handle is one of: the same number may be there in each. */
enum memory_space {
	MEMORY_SPACE_ADDRESS = 0, /* of device and managed memory */
	MEMORY_SPACE_HOST,
	MEMORY_SPACE_ARRAY,
	MEMORY_SPACE_HANDLE, /* of physical memory */
	MEMORY_SPACE_MAPPING,
	MEMORY_SPACE_PAGE,
};

enum memory_flag {
	MEMORY_IS_SEGMENT = 1, /* PyTorch's allocator hands out parts of it */
	MEMORY_IS_ALIAS = 2,   /* of physical memory, which is counted by its handle */
	MEMORY_HAS_PAGES = 4,  /* they are counted */
};

struct memory_block {
	uint64_t pointer; /* 0: the slot is free */
	uint64_t bytes;
	union {
		uint64_t handle; /* of a mapping, and of an alias */
		struct {
			uint32_t site, holder; /* of others */
		};
	};
	uint32_t process;
	uint16_t n_mappings;  /* of a handle */
	uint8_t n_references; /* likewise; 0: it was released */
	uint8_t space : 3, flags : 5;
};
_Static_assert(sizeof(struct memory_block) == 32, "64 MiB for GS_MEMORY_MAX_BLOCKS");

/* A free that was not seen yet, of a block whose address was given again. */
struct memory_owed {
	uint64_t pointer; /* 0: none */
	uint64_t bytes;
	uint64_t until_ns; /* when the address was given again: that free began before */
	uint32_t process;
	uint8_t space;
};

#define MEMORY_MAX_OWED    64 /* the oldest gives way */
#define MEMORY_FREED_SLOTS (1u << 16)
#define MEMORY_MAX_PAGES   (1u << 19) /* pages that several blocks may share */
#define MEMORY_MAX_RANGES  1024       /* of a process */

struct memory_holder {
	struct gs_rec_memory sums;
	uint32_t next; /* of the same process */
	uint32_t device_sum, process_sum;
	uint32_t next_changed;
	bool is_changed;
	uint64_t reported_bytes; /* live, as of the last struct gs_memory_change */
	uint64_t reported_ns;
	uint64_t live_pages;
};

struct memory_site {
	uint32_t holder;
	uint32_t function, scope, py_stack, native_stack;
	uint32_t pad;
	uint64_t live_bytes, live_blocks, peak_bytes, total_bytes, allocations;
};

/* A range of reserved addresses. */
struct memory_range {
	uint64_t start, bytes, mapped_bytes;
	bool is_segment;
};

/* A block whose address was not seen: the end of its call was not (bpf/calls/first.bpf.h). */
struct memory_blind {
	uint64_t bytes;
	uint32_t site, holder;
	uint8_t space;
};

#define MEMORY_MAX_BLIND 8 /* of a process: the first calls on its devices */

struct memory_process {
	uint32_t holders; /* the first */
	uint32_t sum;     /* the holder of its memory on all devices; never 0 once it made a call */
	uint32_t run;     /* how many programs it has run before */
	bool is_late;     /* threads may have chosen a device before they were seen */
	bool has_ended;
	struct gs_memory_segments segments;
	struct memory_blind blind[MEMORY_MAX_BLIND];
	uint32_t n_blind;
	struct memory_range *ranges; /* owned */
	uint32_t n_ranges, cap_ranges;
	/* The newest physical memory: ncclMemAlloc() makes one inside. */
	uint64_t inner_handle, inner_start_ns;
	uint32_t inner_thread;
};

/* What device a thread chose, in which program of its process. */
struct memory_thread {
	uint32_t device;
	uint32_t run; /* and 1; 0: it chose none */
};

/* A hash table by process, space and address. */
struct memory_table {
	struct memory_block *slots; /* owned */
	size_t n_slots;             /* a power of two, or 0 */
	size_t n_used, max_used;
};

struct gs_memory {
	struct memory_table blocks;
	struct memory_table pages; /* bytes: how many blocks lie in it */
	uint64_t *
		freed; /* owned, as all arrays; by the hash of an address: the newest freed one of that hash */
	struct memory_owed owed[MEMORY_MAX_OWED];
	unsigned n_owed, next_owed;
	struct memory_process **processes; /* and each element; by id */
	uint32_t n_processes;
	struct memory_holder *holders; /* [0] none */
	uint32_t n_holders, cap_holders;
	uint32_t changed;          /* the first of those that changed */
	struct memory_site *sites; /* [0]: those that found no room */
	uint32_t n_sites, cap_sites;
	struct gs_map site_idx;
	uint32_t last_site;
	struct memory_thread *threads; /* by id */
	uint32_t n_threads;
	uint32_t n_ended;
	uint64_t n_untracked;
};

/* --- table.c --- */

/* The block, or NULL. */
struct memory_block *memory_table_find(const struct memory_table *t, uint32_t process,
				       enum memory_space space, uint64_t pointer);

/* A place for a new one, zeroed but for what it is found by; it must not be there. NULL: no room. */
struct memory_block *memory_table_add(struct memory_table *t, uint32_t process,
				      enum memory_space space, uint64_t pointer);

/* Other blocks move: pointers to them are no longer valid. */
void memory_table_remove(struct memory_table *t, struct memory_block *block);

typedef bool memory_match_fn(struct gs_memory *m, const struct memory_block *block,
			     const void *ctx);

/* Remove the blocks for which match says so; each is looked at once. */
void memory_table_sweep(struct memory_table *t, memory_match_fn *match, struct gs_memory *m,
			const void *ctx);

/* Was an address freed, and given to no block since? Remembered for the newest ones. */
void memory_freed_note(struct gs_memory *m, uint32_t process, enum memory_space space,
		       uint64_t pointer);
bool memory_freed_has(const struct gs_memory *m, uint32_t process, enum memory_space space,
		      uint64_t pointer);

/* --- holder.c: processes, sums, call sites --- */

/* NULL: no memory, or the id is out of range. */
struct memory_process *memory_process_make(struct gs_memory *m, uint32_t process);
struct memory_process *memory_process_find(const struct gs_memory *m, uint32_t process);

/* The sum of a process and device; 0: no room. */
uint32_t memory_holder_make(struct gs_memory *m, uint32_t process, uint32_t device, unsigned kind);

/* The site of an allocation under that holder; 0: of those that found no room. */
uint32_t memory_site_make(struct gs_memory *m, uint32_t holder, const struct gs_rec_call *call);

/* A block of so many bytes came to a site of that holder, or left it. */
void memory_holder_add(struct gs_memory *m, uint32_t holder, uint32_t site, uint64_t bytes,
		       uint64_t now_ns);
void memory_holder_remove(struct gs_memory *m, uint32_t holder, uint32_t site, uint64_t bytes,
			  bool is_freed);

/* So many bytes more, or less, of what a holder has are mapped. */
void memory_holder_map(struct gs_memory *m, uint32_t holder, int64_t bytes);

/* The device that a thread is on. */
uint32_t memory_device_of(const struct gs_memory *m, const struct memory_process *p,
			  uint32_t thread);
/* --- blind.c: blocks whose address was not seen --- */

/* Of an allocation under that holder. False: too many. */
bool memory_blind_add(struct gs_memory *m, struct memory_process *p, uint32_t holder,
		      enum memory_space space, const struct gs_rec_call *call);

/* A block of no known address was freed: the oldest of these, whose bytes are returned; 0: none. */
uint64_t memory_blind_take(struct gs_memory *m, struct memory_process *p, enum memory_space space);

/* Those of a device are gone; GS_MEMORY_DEVICE_ALL: all of them. */
void memory_blind_drop(struct gs_memory *m, struct memory_process *p, uint32_t device);

/* --- page.c --- */

void memory_pages_add(struct gs_memory *m, uint32_t holder, struct memory_block *block);
void memory_pages_remove(struct gs_memory *m, uint32_t holder, const struct memory_block *block);

/* --- gpu_memory.c --- */

/* A free, or a release, found no block. */
void memory_count_stray(struct gs_memory *m, const struct memory_process *p, uint32_t process,
			enum memory_space space, const struct gs_rec_call *call);

/* The block is gone: its bytes. */
uint64_t memory_drop_block(struct gs_memory *m, struct memory_process *p,
			   struct memory_block *block);

/* --- virtual.c: reserved addresses, mappings and handles --- */

/* The bytes of physical memory that became free. */
uint64_t memory_virtual_take(struct gs_memory *m, struct memory_process *p, uint32_t process,
			     const struct gs_rec_call *call, enum gs_memory_verb verb);

/* The range with that address; NULL: none is known. */
struct memory_range *memory_range_find(const struct memory_process *p, uint64_t address);

#endif
