/*
 * Collectives matched across the ranks of their communicators: the n-th collective of one rank
 * belongs with the n-th of every other. Of each matched one it is known when each rank arrived
 * (called it), so who comes last, how often, and by how much.
 *
 * In come members (one rank's communicator), what is known of them, and their calls in the order in
 * which they were made; nothing else is asked for, so calls of several nodes can be put in when
 * their times are of one clock. Nothing is guessed: a call that cannot be matched for sure is
 * counted by the reason why. Because the loss of a call is reported up to half a second after it, a
 * collective is matched only when calls GS_COLLECTIVES_HOLD_NS newer are there, or at the summary.
 *
 * Memory is bounded by the limits below and never grows with the number of calls. One thread.
 */
#ifndef GS_PIPELINE_COLLECTIVES_COLLECTIVES_H
#define GS_PIPELINE_COLLECTIVES_COLLECTIVES_H

#include "model/trace/summary.h"

#define GS_COLLECTIVES_MAX_MEMBERS  4096
#define GS_COLLECTIVES_MAX_AHEAD    (1u << 14) /* calls by which a rank may be ahead of another */
#define GS_COLLECTIVES_MAX_ARRIVALS (1u << 20) /* kept at one time, of all members */
#define GS_COLLECTIVES_HOLD_NS      2000000000ull

/* Why a call is not matched. */
enum gs_collectives_cause {
	GS_COLLECTIVES_ADDED_UP, /* in the kernel: it is not known when it was made */
	GS_COLLECTIVES_FAILED,   /* it returned an error */
	GS_COLLECTIVES_UNKNOWN,  /* it is not known which ranks belong together: the communicator
				  * was made before the trace, or not all ranks of its split are seen */
	GS_COLLECTIVES_ALONE,    /* no other rank of the communicator is in the trace */
	GS_COLLECTIVES_MISSING,  /* a rank did not arrive until the end, or was too far behind */
	GS_COLLECTIVES_DIFFERS,  /* ranks made different calls, here or before */
	GS_COLLECTIVES_LOST,     /* calls of a rank were lost, so their number is not known */
	GS_COLLECTIVES_NO_ROOM,  /* past the limits above */
	GS_COLLECTIVES_N_CAUSES
};

/* "added_up"; what it means for people: "were added up in the kernel". */
const char *gs_collectives_cause_name(enum gs_collectives_cause cause);
const char *gs_collectives_cause_title(enum gs_collectives_cause cause);

struct gs_collectives;

struct gs_collectives *gs_collectives_new(void); /* NULL: no memory */
void gs_collectives_free(struct gs_collectives **collectives);

/* A rank's communicator, seen from its making on; returns its number, or 0: no room. */
uint32_t gs_collectives_add_member(struct gs_collectives *collectives, uint32_t pid);

/* id: the same for all ranks of the communicator; rank below n_ranks. Only the first time counts. */
void gs_collectives_set_identity(struct gs_collectives *collectives, uint32_t member, uint64_t id,
				 int32_t rank, int32_t n_ranks);

struct gs_collectives_call {
	uint64_t start_ns, dur_ns;
	uint64_t what; /* a hash of what all ranks must agree on: function, bytes */
};

/* member: not 0. */
void gs_collectives_add_call(struct gs_collectives *collectives, uint32_t member,
			     const struct gs_collectives_call *call);

/* n calls without a member, or without a place in its order. */
void gs_collectives_leave_out(struct gs_collectives *collectives, enum gs_collectives_cause cause,
			      uint64_t n);

/* Calls of a process (0: of any) were lost: its communicators of now are matched no more. */
void gs_collectives_lose_calls(struct gs_collectives *collectives, uint32_t pid);

/* --- what was found --- */

struct gs_collectives_rank {
	int32_t rank;
	uint32_t pid;
	uint64_t calls, calls_ns; /* all of this communicator, and the host's time in them */
	/* Behind the first rank to arrive; percentiles off by GS_HIST_ERROR_PCT at most. */
	uint64_t late_p50_ns, late_p95_ns, late_max_ns;
	uint64_t n_last; /* how often it was the last, and then behind the one before it: */
	uint64_t margin_p50_ns, margin_sum_ns;
};

struct gs_collectives_comm {
	uint64_t id;
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
	uint64_t left_out[GS_COLLECTIVES_N_CAUSES];
};

/* Sets summary->collectives: NULL when there were no calls. What follows may be put in afterwards.
 * 0 or -ENOMEM. */
int gs_collectives_add_summary(struct gs_collectives *collectives, struct gs_summary *summary);

#endif
