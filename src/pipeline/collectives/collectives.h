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

#include "model/summary/summary.h"

#define GS_COLLECTIVES_MAX_MEMBERS  4096
#define GS_COLLECTIVES_MAX_AHEAD    (1u << 14) /* calls by which a rank may be ahead of another */
#define GS_COLLECTIVES_MAX_ARRIVALS (1u << 20) /* kept at one time, of all members */
#define GS_COLLECTIVES_HOLD_NS      2000000000ull

struct gs_collectives;

struct gs_collectives *gs_collectives_new(void);               /* NULL: no memory */
void gs_collectives_free(struct gs_collectives **collectives); /* NULL inside: nothing */

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

/* Sets summary->collectives: NULL when there were no calls. What follows may be put in afterwards.
 * 0 or -ENOMEM. */
int gs_collectives_add_summary(struct gs_collectives *collectives, struct gs_summary *summary);

#endif
