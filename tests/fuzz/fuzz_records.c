/*
 * Records as a damaged or hostile file may hold them, through span into view and its summary.
 * They come in two batches and then all again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "replay_main.h"
#include "span/span.h"
#include "view/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	GS_CLEANUP(gs_span_free) struct gs_span *span = NULL;
	GS_CLEANUP(gs_view_free) struct gs_view *view = NULL;
	/* A copy of the exact size and alignment: reading past the end is caught. */
	GS_FREE uint8_t *copy = malloc(bytes ? bytes : 1);
	const struct gs_sink *sink;

	if (!copy || gs_view_new(&view) < 0 || gs_span_new(gs_view_sink(view), &span) < 0)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	sink = gs_span_sink(span);
	/* In two halves at a record's border, then all once more: handles and ids come again. */
	for (unsigned round = 0; round < 3; round++) {
		size_t middle = 0, from = round == 1 ? bytes / 16 * 8 : 0;
		struct gs_batch b = {copy, bytes};

		while (middle < from && gs_record_next(&b, &middle))
			;
		b = round == 0 ? (struct gs_batch){copy, bytes / 16 * 8}
			       : (struct gs_batch){copy + middle, bytes - middle};
		sink->push(sink->ctx, &b);
	}
	if (gs_view_summary(view, &summary) < 0)
		abort();
	return 0;
}
