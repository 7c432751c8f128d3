/*
 * What a summary says of collectives: calls matched across the ranks of their communicators
 * (pipeline/collectives), so who comes last, how often, and by how much. All ranks are of one host,
 * whose clock says when each of them called.
 */
#ifndef GS_MODEL_SUMMARY_COLLECTIVES_H
#define GS_MODEL_SUMMARY_COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

/* Why a call is not matched. */
enum gs_collectives_cause {
	GS_COLLECTIVES_ADDED_UP, /* in the kernel: it is not known when it was made */
	GS_COLLECTIVES_FAILED,   /* it returned an error */
	GS_COLLECTIVES_UNKNOWN,  /* it is not known which ranks belong together: the communicator
				  * was made before the trace, or not all ranks of its split are seen */
	GS_COLLECTIVES_ALONE,    /* no other rank of the communicator is in the trace */
	GS_COLLECTIVES_MISSING,  /* a rank did not arrive until the end, or came far later */
	GS_COLLECTIVES_DIFFERS,  /* ranks made different calls, here or before */
	GS_COLLECTIVES_LOST,     /* calls of a rank were lost, so their number is not known */
	GS_COLLECTIVES_NO_ROOM,  /* past the limits of pipeline/collectives */
	GS_COLLECTIVES_N_CAUSES
};

/* "added_up"; what it means for people: "were added up in the kernel". */
const char *gs_collectives_cause_name(enum gs_collectives_cause cause);
const char *gs_collectives_cause_title(enum gs_collectives_cause cause);

struct gs_collectives_rank {
	int32_t rank; /* in the communicator */
	uint32_t pid;
	uint64_t calls, calls_ns; /* all of this communicator, and the host's time in them */
	/* After the first rank to arrive; percentiles off by GS_HIST_ERROR_PCT at most. */
	uint64_t late_p50_ns, late_p95_ns, late_max_ns;
	uint64_t n_last; /* how often it was the last, and then after the one before it: */
	uint64_t margin_p50_ns, margin_sum_ns;
	/* For how long the first had arrived at one or more and it had not, and all others had: where several
	 * are in flight the time counts once. */
	uint64_t late_total_ns, missing_ns;
};

struct gs_collectives_comm {
	uint64_t id; /* the same for all ranks: struct gs_rec_comm.id_hash */
	int32_t n_ranks;
	uint64_t n_matched;                /* collectives */
	uint64_t span_ns;                  /* from the first to the last of them */
	struct gs_collectives_rank *ranks; /* those in the trace, by rank */
	size_t n_seen;
	const struct gs_collectives_rank *late; /* one of ranks that stands out, or NULL */
};

struct gs_collectives_summary {
	struct gs_collectives_comm *comms; /* of more than one rank; where a rank stands out first,
					    * by the time that it takes, then by n_matched */
	size_t n_comms;
	uint64_t n_calls, n_matched; /* of these calls: matched ones, all others are left out */
	uint64_t left_out[GS_COLLECTIVES_N_CAUSES]; /* calls, by enum gs_collectives_cause */
};

#endif
