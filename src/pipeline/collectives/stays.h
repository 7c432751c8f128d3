/*
 * By when a rank had left a collective, as far as its host learned. In come calls, in the order in which they returned:
 * collectives, groups of NCCL, and waits for GPUs; each rank's newest collective is followed. Memory is bounded: 4,096
 * ranks. One thread.
 */
#ifndef GS_PIPELINE_COLLECTIVES_STAYS_H
#define GS_PIPELINE_COLLECTIVES_STAYS_H

#include "model/trace/record.h"
#include "pipeline/gpu_activity/gpu_activity.h"

struct gs_collectives_stays;

struct gs_collectives_stays_call {
	const struct gs_activity *activity; /* borrowed; it has taken the call */
	const struct gs_rec_call *call;     /* lent; finished */
	const char *name;                   /* of its function, lent */
	unsigned func_class;                /* likewise */
	uint32_t process;                   /* the caller's number */
	uint32_t member; /* of a collective: a rank's communicator, from 1; 0: not known */
};

/* The member's newest collective, entered then, was over at left_ns at the latest. No rank leaves it before the last has entered. */
typedef void gs_collectives_stays_fn(void *ctx, uint32_t member, uint64_t entered_ns,
				     uint64_t left_ns);

struct gs_collectives_stays *gs_collectives_stays_new(void); /* NULL: no memory */

/* NULL inside: nothing happens. */
void gs_collectives_stays_free(struct gs_collectives_stays **stays);

/* Calls that have nothing to do with it are passed over. */
void gs_collectives_stays_take(struct gs_collectives_stays *stays,
			       const struct gs_collectives_stays_call *call,
			       gs_collectives_stays_fn *left, void *ctx);

#endif
