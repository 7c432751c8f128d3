/*
 * The ledger of waits: which call waited for which launch. Work that the host gives to a stream
 * (launches, copies, memsets, collectives) carries the number of its stretch; a stretch ends when
 * the stream is waited for, or an event is recorded in it. The call that waits carries the number
 * of the stretch whose last piece of work it waited for:
 *
 *     stream 7:  launch(1) launch(1) record e   launch(2) launch(2)
 *     host:                                            EventSynchronize e (1)   StreamSynchronize
 * (2)
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

#define SYNC_MAX_ENTRIES (1u << 14) /* streams and events; when full, all begins again */

enum sync_kind {
	SYNC_NONE = 0,
	SYNC_WORK,
	SYNC_WAIT_STREAM,
	SYNC_WAIT_EVENT,
	SYNC_WAIT_DEVICE,
	SYNC_COPY,         /* a copy without a stream: the host may wait for it */
	SYNC_RECORD,       /* an event in a stream */
	SYNC_STREAM_WAITS, /* a stream, for an event */
	SYNC_ASK_STREAM,   /* cudaStreamQuery: "done" ends a stretch as waiting does */
	SYNC_ASK_EVENT,
	SYNC_STREAM_END,
	SYNC_EVENT_END,
	SYNC_CAPTURE_BEGIN, /* what follows is remembered, not run */
	SYNC_CAPTURE_END,
	SYNC_COUNT
};

/* What a function means here. */
enum sync_kind correlate_sync_kind_of(unsigned layer, unsigned func_class, const char *name);

/* Names that end so take the calling thread's own default stream for stream 0. */
bool correlate_sync_is_per_thread(const char *name);

struct sync_entry;

struct syncs {
	struct sync_entry *entries; /* owned; the first is none */
	uint32_t n_entries, capacity;
	uint32_t *slots; /* owned */
	uint32_t n_slots;
	uint64_t last_id;
};

void correlate_syncs_fini(struct syncs *syncs);

/* A finished call that succeeded; its flow, 0 none. *ret_waited: it waited for that. */
uint64_t correlate_syncs_take(struct syncs *syncs, uint32_t process, const struct gs_rec_call *call,
			      enum sync_kind kind, bool per_thread, bool *ret_waited);

/* The process runs a new program. */
void correlate_syncs_drop(struct syncs *syncs, uint32_t process);

#endif
