/*
 * What processes hold of memory for GPUs (pipeline/gpu_memory has the rules), as records that stand
 * before END. A running total is in no other record: a stream that was cut has none.
 */
#ifndef GS_MODEL_TRACE_RECORD_MEMORY_H
#define GS_MODEL_TRACE_RECORD_MEMORY_H

#include "model/trace/record.h"

/* How memory was asked for. The numbers are stored. */
enum gs_memory_kind {
	GS_MEMORY_INVALID = 0,
	GS_MEMORY_DEVICE = 1,
	GS_MEMORY_PITCHED = 2,    /* rows with padding: cudaMallocPitch, cudaMalloc3D */
	GS_MEMORY_ARRAY = 3,      /* for textures */
	GS_MEMORY_POOL = 4,       /* out of a pool, in the order of a stream */
	GS_MEMORY_MANAGED = 5,    /* moves between host and device */
	GS_MEMORY_VIRTUAL = 6,    /* physical memory to map: cuMemCreate */
	GS_MEMORY_PINNED = 7,     /* of the host */
	GS_MEMORY_REGISTERED = 8, /* of the program, pinned: cudaHostRegister */
	GS_MEMORY_ON_DEVICE = 9,  /* the sum of 1 to 6 */
	GS_MEMORY_ON_HOST = 10,   /* of 7 and 8 */
	GS_MEMORY_KINDS
};

#define GS_MEMORY_DEVICE_UNKNOWN UINT32_MAX       /* chosen before the trace began */
#define GS_MEMORY_DEVICE_ALL     (UINT32_MAX - 1) /* a sum over devices, or memory of none */

/* The numbers are stored. */
enum gs_memory_flag {
	GS_MEMORY_PROCESS_ENDED = 1, /* what is live was held when the process ended */
};

/* Of a process, a device and a kind. Counts of frees that found no block are in the row of
 * ON_DEVICE and DEVICE_ALL alone. */
struct gs_rec_memory {
	struct gs_record head; /* flags: enum gs_memory_flag */
	uint32_t process;      /* id */
	uint32_t device;       /* as the process numbers it, or one of the above */
	uint32_t kind;         /* enum gs_memory_kind */
	uint32_t pad;
	uint64_t live_bytes, live_blocks; /* allocated and not freed */
	uint64_t peak_bytes, peak_ns;     /* and when it was reached first */
	uint64_t total_bytes;             /* of all allocations */
	uint64_t allocations, frees;      /* that succeeded */
	uint64_t failed;                  /* allocations that the library refused */
	/* Of ON_DEVICE and one device: the pages that live blocks of DEVICE and PITCHED lie in. */
	uint64_t page_bytes, peak_page_bytes;
	uint64_t mapped_bytes;  /* of VIRTUAL: of the live ones, mapped now */
	uint64_t double_frees;  /* of blocks that had been freed */
	uint64_t unknown_frees; /* that succeeded: blocks from before the trace, or lost calls */
	uint64_t bad_frees;     /* that failed, of what was never seen */
	uint64_t unseen_frees;  /* an address was given again, and its free was not seen */
	uint64_t untracked;     /* allocations that found no room, or whose address was not read */
};

/* The same by where it was asked for; those that nothing is left of too. */
struct gs_rec_memory_site {
	struct gs_record head;
	uint32_t process;      /* id; 0: sites that found no room */
	uint32_t device;       /* as in struct gs_rec_memory, as are the others */
	uint32_t kind;         /* enum gs_memory_kind */
	uint32_t function;     /* id */
	uint32_t scope;        /* as in CALL, as are the next two */
	uint32_t py_stack;     /* id; 0 none */
	uint32_t native_stack; /* likewise */
	uint32_t pad;
	uint64_t live_bytes, live_blocks; /* allocated here and not freed */
	uint64_t peak_bytes;
	uint64_t total_bytes;
	uint64_t allocations; /* that succeeded */
};

_Static_assert(sizeof(struct gs_rec_memory) == 152, "memory");
_Static_assert(sizeof(struct gs_rec_memory_site) == 80, "memory site");

#endif
