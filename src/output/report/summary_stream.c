/* What each stream was asked for. */
#include "output/report/summary_stream.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"

static void put_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"launches", "copies", "collectives", "bytes",
					    "syncs",    "waited", "in calls"};

	gs_grid_left(g, GS_INK_DIM, "stream", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "process", GS_CUT_END);
}

static void put_count(struct gs_grid *g, uint64_t n)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, n ? GS_INK_PLAIN : GS_INK_DIM, n ? gs_fmt_count(out, n) : "-");
}

static void put_stream(struct gs_grid *g, const struct gs_stream_summary *s)
{
	char text[32], out[GS_FMT_BYTES];

	if (s->stream)
		snprintf(text, sizeof(text), "0x%" PRIx64, s->stream);
	else
		snprintf(text, sizeof(text), "default");
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_START);
	put_count(g, s->launches);
	put_count(g, s->copies);
	put_count(g, s->collectives);
	gs_grid_right(g, GS_INK_PLAIN, s->bytes ? gs_fmt_bytes(out, s->bytes) : "-");
	put_count(g, s->syncs);
	gs_grid_right(g, GS_INK_PLAIN, s->syncs ? gs_fmt_ns(out, s->sync_ns) : "-");
	gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, s->host_ns));
	snprintf(text, sizeof(text), "%" PRIu32, s->pid);
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

void gs_report_summary_streams(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	size_t n = n_top && s->n_streams > (size_t)n_top + 1 ? n_top : s->n_streams;
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "Streams, by the host time of the calls that name them",
		     GS_CUT_END);
	gs_page_line(page);
	for (int pass = 0; pass < 2 && n; pass++) {
		put_heads(&g);
		for (size_t i = 0; i < n; i++)
			put_stream(&g, &s->streams[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 10);
	}
	if (n < s->n_streams)
		snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)",
			 s->n_streams - n);
	else
		snprintf(text, sizeof(text), "%s",
			 s->n_streams ? ""
				      : "No call that names a stream was recorded: streams are "
					"not known of calls that were added up.");
	if (!*text)
		return;
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

void gs_report_summary_stream_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	char handle[24];

	gs_doc_begin_list(doc, "streams", s->n_streams);
	for (size_t i = 0; i < s->n_streams; i++) {
		const struct gs_stream_summary *t = &s->streams[i];

		snprintf(handle, sizeof(handle), "0x%" PRIx64, t->stream);
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "pid", t->pid);
		gs_doc_put_text(doc, "stream", handle);
		gs_doc_put_u64(doc, "calls", t->calls);
		gs_doc_put_u64(doc, "launches", t->launches);
		gs_doc_put_u64(doc, "copies", t->copies);
		gs_doc_put_u64(doc, "collectives", t->collectives);
		gs_doc_put_u64(doc, "syncs", t->syncs);
		gs_doc_put_u64(doc, "bytes", t->bytes);
		gs_doc_put_u64(doc, "total_ns", t->host_ns);
		gs_doc_put_u64(doc, "sync_ns", t->sync_ns);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}
