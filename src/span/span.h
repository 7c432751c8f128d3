/*
 * What only a run of calls can tell: the bytes behind a freed pointer, the live memory of a
 * process, rank and size of a communicator that was split or shrunk. Takes records and passes all
 * of them on, in order, completed (bytes of a free) and joined by COUNTER and COMM records of its
 * own. One thread.
 */
#ifndef GS_SPAN_SPAN_H
#define GS_SPAN_SPAN_H

#include "model/record.h"

#define GS_SPAN_MAX_BLOCKS (1u << 20) /* live blocks remembered; more are not followed, and counted */

struct gs_span;

int gs_span_new(const struct gs_sink *next, struct gs_span **ret_span); /* next is copied */
void gs_span_free(struct gs_span **span);

/* The sink to push to; lent as long as the engine lives. */
const struct gs_sink *gs_span_sink(struct gs_span *span);

/* Blocks that could not be followed. */
uint64_t gs_span_untracked(const struct gs_span *span);

#endif
