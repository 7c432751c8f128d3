/*
 * The ledger of waits: which call waited for which launch. Work that the host gives to a stream
 * (launches, copies, memsets, collectives) carries the number of its stretch; a stretch ends when
 * the stream is waited for, or an event is recorded in it. The call that waits carries the number
 * of the stretch whose last piece of work it waited for:
 *
 *     stream 7:  launch(1) launch(1) record e   launch(2) launch(2)
 *     host:                                  EventSynchronize e (1)   StreamSynchronize (2)
 *
 * What was waited for already is waited for no second time: such a call carries nothing. A wait
 * for several streams (of the device) carries the number of the newest work among them.
 * Inside the room only.
 */
#ifndef GS_PIPELINE_CORRELATE_SYNC_H
#define GS_PIPELINE_CORRELATE_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "model/trace/record.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define SYNC_MAX_ENTRIES (1u << 14) /* streams and events; when full, all begins again */

struct sync_entry;

struct syncs {
	struct sync_entry *entries;   /* owned; the first is none */
	uint32_t n_entries, capacity; /* those in use, and how many have room */
	uint32_t *slots;              /* owned */
	uint32_t n_slots;
	uint64_t last_id; /* number of the last stretch that began */
};

void correlate_syncs_fini(struct syncs *syncs); /* not to be used after it */

/* A finished call that succeeded; its flow, 0 none. *ret_waited: it waited for that. */
uint64_t correlate_syncs_take(struct syncs *syncs, uint32_t process, const struct gs_rec_call *call,
			      enum gs_activity_kind kind, bool per_thread, bool *ret_waited);

/* The process runs a new program. */
void correlate_syncs_drop(struct syncs *syncs, uint32_t process);

#endif
