/*
 * What only a sequence of calls shows: the bytes of a freed pointer, the live memory of a
 * process, which call waited for which launch, rank and size of a communicator that was split or
 * shrunk. Takes records and passes all of them on, in order, completed (bytes of a free, flow of
 * launches and waits, a communicator) and joined by COUNTER and COMM
 * records of its own. One thread.
 *
 * push returns what next returns. The engine itself never fails: what it has no memory for, it
 * passes on as it came. A malformed record and what stands after it are passed on unread.
 *
 * The names of its counters are STRING records of its own, with ids far above those that ingest has
 * given; when ingest comes near, they are announced again under higher ones.
 */
#ifndef GS_PIPELINE_CORRELATE_CORRELATE_H
#define GS_PIPELINE_CORRELATE_CORRELATE_H

#include "model/trace/record.h"

#define GS_CORRELATE_MAX_BLOCKS                                                                    \
	(1u << 20) /* live blocks remembered; more are not followed, and counted */
#define GS_CORRELATE_MAX_COMMS                                                                     \
	(1u                                                                                        \
	 << 16) /* communicators; when full, those that ended or were waiting                   \
		    * for ranks never seen make room, and a new one that finds                     \
		    * none is passed on as it came */

#define GS_CORRELATE_DEVICE_COUNTER "CUDA device memory allocated"
#define GS_CORRELATE_HOST_COUNTER   "CUDA pinned host memory"
#define GS_CORRELATE_KIND_COUNTER   "CUDA memory of device "    /* its number, and the kind */
#define GS_CORRELATE_TORCH_COUNTER  "PyTorch memory of device " /* and its number */

struct gs_correlate;

int gs_correlate_new(const struct gs_sink *next,
		     struct gs_correlate **ret_span); /* next is copied */
void gs_correlate_free(struct gs_correlate **span);   /* nothing more is pushed */

/* The sink to push to; lent as long as the engine lives. */
const struct gs_sink *gs_correlate_sink(struct gs_correlate *span);

/* Blocks that could not be followed: too many, no memory, or a pointer that could not be read. */
uint64_t gs_correlate_untracked(const struct gs_correlate *span);

#endif
