/* A hang or a mismatch as it was found while tracing (analysis/hang), with what the ranks did then. */
#ifndef GS_MODEL_TRACE_RECORD_HANG_H
#define GS_MODEL_TRACE_RECORD_HANG_H

#include "model/trace/record.h"
#define GS_HANG_RANKS_MAX 128         /* of a record; those that matter come first */
struct gs_rec_hang_rank {             /* last_: of its newest collective, 0 none */
	int32_t rank;                 /* in the communicator */
	uint32_t pid, tid, state_str; /* arrived, missing, ended, left, differs, skipped, extra */
	uint64_t calls, last_ns, last_count; /* collectives of it so far; when made; its elements */
	/* As in CALL; the one that ended its process, 0 not known; all in words. */
	uint32_t last_function, last_type, signal, text_str;
	uint32_t python_str, native_str; /* its stacks, the innermost frame first; 0 not read */
};

/* May come again with the same number, then without ranks and texts: it is over. */
struct gs_rec_hang {
	struct gs_record head;
	uint64_t since_ns, found_ns, ended_ns; /* a rank waits, or differs; ended 0: not over */
	uint64_t id_hash, call;    /* of the communicator, as in COMM; which collective, from 1 */
	uint32_t number, kind_str; /* from 1; "waits", "differs", "joins" */
	int32_t n_ranks;           /* of the communicator */
	uint32_t has_arrived, text_str, n_listed; /* 1: the last rank came; the finding; ranks */
	struct gs_rec_hang_rank ranks[];
};
_Static_assert(sizeof(struct gs_rec_hang_rank) == 64 && sizeof(struct gs_rec_hang) == 72, "hang");

#endif
