/*
 * Streams of GPUs on a timeline: the spans of pipeline/gpu_activity, a track for each stream. Bounds as the
 * host sees them: a span begins with the call that queued its first work and ends with the call that
 * found it done.
 *
 * Spans come from who follows the calls for the summary, batch by batch, before the batch is pushed here:
 * they are kept until it is, since their processes and threads are named in it.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define MAX_KEPT  65536u /* spans; more are written at once */
#define KEEP_ROOM 1024u  /* of them between batches */

struct track {
	bool is_named;
	uint64_t stream;
};

struct gs_export_streams {
	struct gs_export *export;
	struct gs_activity_span *kept; /* owned */
	uint32_t n_kept, cap_kept;
	struct track *tracks; /* owned; by the index of the stream */
	uint32_t n_tracks;
};

/* NULL: the track has that name already. */
static const char *name_track(struct gs_export_streams *s, const struct gs_activity_span *span,
			      char *text, size_t bytes)
{
	const struct gs_rec_thread *t = gs_dict_thread(s->export->dict, span->thread);
	struct track *track;
	char device[16];

	if (!gs_vec_reach(&s->tracks, &s->n_tracks, span->index))
		return NULL;
	track = &s->tracks[span->index];
	if (track->is_named && track->stream == span->stream)
		return NULL;
	track->is_named = true;
	track->stream = span->stream;
	snprintf(device, sizeof(device), "%" PRIu32, span->context);
	if (span->context == GS_ACTIVITY_DEVICE_UNKNOWN)
		snprintf(device, sizeof(device), "?");
	if (!span->stream)
		snprintf(text, bytes, "GPU %s default stream", device);
	else if (span->thread)
		snprintf(text, bytes, "GPU %s default stream of %" PRIu32, device, t ? t->tid : 0);
	else
		snprintf(text, bytes, "GPU %s stream 0x%" PRIx64, device, span->stream);
	return text;
}

int gs_export_streams_new(struct gs_export *e)
{
	e->streams = calloc(1, sizeof(*e->streams));
	if (!e->streams)
		return -ENOMEM;
	e->streams->export = e;
	return 0;
}

void gs_export_streams_free(struct gs_export_streams **streams)
{
	struct gs_export_streams *s = *streams;

	if (!s)
		return;
	free(s->kept);
	free(s->tracks);
	free(s);
	*streams = NULL;
}

void gs_export_streams_write(struct gs_export_streams *s)
{
	char text[64];

	for (uint32_t i = 0; i < s->n_kept; i++)
		gs_export_write_span(s->export, &s->kept[i],
				     name_track(s, &s->kept[i], text, sizeof(text)));
	s->n_kept = 0;
	if (s->cap_kept > KEEP_ROOM) {
		free(s->kept);
		s->kept = NULL;
		s->cap_kept = 0;
	}
}

void gs_export_take_span(struct gs_export *e, const struct gs_activity_span *span)
{
	struct gs_export_streams *s = e->streams;

	if (!s || span->kind != GS_ACTIVITY_SPAN_WORK || e->finished || e->out.error)
		return;
	if (s->n_kept == MAX_KEPT)
		gs_export_streams_write(s);
	if (gs_vec_reserve(&s->kept, &s->cap_kept, s->n_kept + 1))
		s->kept[s->n_kept++] = *span;
}
