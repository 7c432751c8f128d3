/* What a summary says of hangs and mismatches: as they were found while tracing. */
#ifndef GS_MODEL_SUMMARY_HANG_H
#define GS_MODEL_SUMMARY_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts are never NULL; "" is none. */
struct gs_hang_rank_summary {
	int32_t rank; /* in the communicator */
	uint32_t pid, tid;
	uint32_t signal;                       /* that ended its process; 0: none, or not known */
	const char *state;                     /* "missing" and others: model/trace/record_hang.h */
	uint64_t calls;                        /* collectives so far */
	uint64_t last_age_ns;                  /* since the last, as of when it was found */
	uint64_t last_count;                   /* elements of it */
	const char *last_function, *last_type; /* of the last; "" there was none */
	const char *text, *python, *native;    /* in words; its stacks, the innermost frame first */
};

struct gs_hang_summary {
	const char *kind, *text;               /* "waits", "differs" or "joins"; in words */
	uint64_t id;                           /* of the communicator: struct gs_rec_comm.id_hash */
	int32_t n_ranks;                       /* of it */
	uint64_t call;                         /* which collective, from 1 */
	uint32_t number;                       /* of this hang, from 1 */
	uint64_t since_ns, found_ns, ended_ns; /* since the trace began; ended_ns 0: not over */
	bool has_arrived;                      /* over since the last rank arrived */
	struct gs_hang_rank_summary *ranks;    /* those that matter first */
	size_t n_listed;
};

#endif
