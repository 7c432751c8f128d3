/*
 * What fuzz targets of records that processes report share: records, as a process may write them, through ingest into a
 * summary. The input is a ring; each record is given its position here, which its reader checks, and lies in memory of
 * its own length. take_record(): hands one on, before this file is included.
 */
#ifndef TESTS_FUZZ_INSIDE_RECORDS_H
#define TESTS_FUZZ_INSIDE_RECORDS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/companion/file.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/ingest/ingest.h"
#include "replay_main.h"

#define MAX_BYTES (1u << 20)

/* A copy in which a record that is none is 8 bytes long, so that what stands after it is looked at, too. */
static uint8_t *number_records(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes);

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	for (size_t at = 0; at < bytes;) {
		struct gs_companion_record *r = (void *)(copy + at);

		r->at = (uint32_t)(at / 8);
		r->bytes &= ~7u;
		if (r->bytes < sizeof(*r) || r->bytes > bytes - at ||
		    r->bytes < gs_companion_min_bytes(r->kind)) {
			r->kind = GS_COMPANION_PAD;
			r->bytes = sizeof(*r);
		}
		at += r->bytes;
	}
	return copy;
}

static void take_all(struct gs_ingest *feed, const uint8_t *copy, size_t bytes)
{
	const struct gs_companion_record *r;
	size_t offset = 0;

	while ((r = gs_companion_next(copy, bytes, 0, &offset))) {
		struct gs_companion_record *alone = malloc(r->bytes);

		if (!alone)
			abort();
		memcpy(alone, r, r->bytes);
		take_record(feed, alone);
		free(alone);
	}
	if (offset != bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct gs_identity *place; /* of a /proc that has no process */
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	GS_CLEANUP(gs_aggregate_free) struct gs_aggregate *view = NULL;
	GS_CLEANUP(gs_ingest_free) struct gs_ingest *feed = NULL;
	struct gs_ingest_options io = {.size = sizeof(io), .mode = GS_SESSION_EVENTS};
	GS_FREE uint8_t *copy = NULL;

	bytes &= ~(size_t)7;
	if (!bytes || bytes > MAX_BYTES)
		return 0;
	if (!place)
		place = gs_identity_new("/nonexistent");
	io.place = place;
	if (gs_aggregate_new(&view) < 0 || gs_ingest_new(&io, &feed) < 0 ||
	    gs_ingest_add_sink(feed, "view", gs_aggregate_sink(view)) < 0)
		abort();
	copy = number_records(data, bytes);
	take_all(feed, copy, bytes);
	gs_ingest_end(feed, -1, "");
	if (gs_aggregate_make_summary(view, &summary) < 0)
		abort();
	return 0;
}

#endif
