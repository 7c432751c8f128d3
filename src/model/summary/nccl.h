/* What a summary has of NCCL's operations, as NCCL itself says them: what it chose, and how far each rank is. */
#ifndef GS_MODEL_SUMMARY_NCCL_H
#define GS_MODEL_SUMMARY_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operations for which NCCL chose the same. */
struct gs_nccl_choice {
	const char *func;              /* "AllReduce" */
	const char *algorithm;         /* "RING"; "" NCCL says none, as of transfers */
	const char *protocol;          /* "LL128"; likewise */
	uint32_t channels;             /* 0 not known */
	uint64_t ops;                  /* how many */
	uint64_t bytes;                /* of those whose bytes are known */
	uint64_t sized;                /* how many these are */
	uint64_t min_bytes, max_bytes; /* of one of them */
	uint64_t enqueue_ns;           /* of the host, until they were with the GPU; all together */
	/* Of those whose channels were looked at: from the first channel's begin to the last one's end. */
	uint64_t timed;
	uint64_t gpu_ns, gpu_max_ns;
	uint64_t
		timed_bytes; /* that cross each rank's links: as nccl-tests count for the bus bandwidth */
};

/* The ranks of one communicator that were seen. */
struct gs_nccl_ranks {
	uint64_t hash;    /* the same for all ranks of the communicator */
	const char *name; /* "" none */
	int32_t n_ranks;  /* 0 not known */
	uint32_t n_seen;  /* of these, ranks whose operations were reported */
	uint64_t ops;     /* of all of them */
	/* The rank that has handed over least of a function, of those seen: by how many operations it lags.
	 * 0: all are equally far. */
	uint64_t lag;
	int32_t lag_rank;
	uint32_t lag_pid;
	const char *lag_func;
	/* From its last operation to the end of the trace. */
	uint64_t quiet_ns;
	/* Some lag, and will not catch up: all ranks that were seen have ended it, or it was quiet for
	 * GS_NCCL_QUIET_NS. Ranks that run on are always some operations apart. */
	bool is_stalled;
};

#define GS_NCCL_QUIET_NS 2000000000ull

struct gs_nccl_summary {
	struct gs_nccl_choice *choices; /* most bytes first */
	size_t n_choices;
	struct gs_nccl_ranks *comms; /* those that are stalled first, then most operations */
	size_t n_comms;
	uint64_t collectives, transfers; /* operations of either sort */
	uint64_t bytes, unsized;    /* of all whose bytes are known; how many others there are */
	uint64_t lost;              /* operations that were not reported */
	uint64_t channels, proxies; /* how many were reported */
	uint64_t unplaced;          /* of these, those whose operation is not known */
	uint64_t left_out;          /* operations that found no room here */
	uint64_t unranked; /* those whose communicator found none: by them no ranks are compared */
	uint64_t
		no_windows; /* communicators whose channels are not looked at, as their NCCL would mistake them */
	uint32_t abi, nccl; /* of the last communicator that said it */
};

#endif
