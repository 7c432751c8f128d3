/*
 * Streams of GPUs on a timeline: what pipeline/gpu_activity makes of the calls that pass, a track for
 * each stream. Bounds as the host sees them: a span begins with the call that queued its first work
 * and ends with the call that found it done.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

struct track {
	bool is_named;
	uint64_t stream;
};

struct gs_export_streams {
	struct gs_export *export;
	struct gs_activity *activity;
	struct track *tracks; /* owned; by the index of the stream */
	uint32_t n_tracks;
	uint32_t last_process;
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

static void take_span(void *ctx, const struct gs_activity_span *span)
{
	struct gs_export_streams *s = ctx;
	char text[64];

	if (span->kind == GS_ACTIVITY_SPAN_WORK)
		gs_export_write_span(s->export, span, name_track(s, span, text, sizeof(text)));
}

int gs_export_streams_new(struct gs_export *e)
{
	struct gs_export_streams *s = calloc(1, sizeof(*s));

	if (!s || gs_activity_new(NULL, &s->activity) < 0) {
		free(s);
		return -ENOMEM;
	}
	s->export = e;
	gs_activity_set_sink(s->activity, take_span, s);
	e->streams = s;
	return 0;
}

void gs_export_streams_free(struct gs_export_streams **streams)
{
	struct gs_export_streams *s = *streams;

	if (!s)
		return;
	gs_activity_free(&s->activity);
	free(s->tracks);
	free(s);
	*streams = NULL;
}

void gs_export_streams_take(struct gs_export_streams *s, const struct gs_record *r)
{
	if (r->kind == GS_REC_PROCESS && ((const struct gs_rec_process *)r)->id > s->last_process)
		s->last_process = ((const struct gs_rec_process *)r)->id;
	gs_activity_follow(s->activity, s->export->dict, r);
}

void gs_export_streams_end(struct gs_export_streams *s)
{
	for (uint32_t i = 1; i <= s->last_process && i < GS_DICT_MAX_ID; i++)
		gs_activity_end_process(s->activity, i, s->export->now_ns);
}
