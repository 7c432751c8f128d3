/* The page: its head with the script that draws it, the document, and its end. */
#include "output/run_page/run_page.h"

#include <string.h>

#include "core/base/mem.h"
#include "output/report/summary.h"
#include "output/run_page/run_page_int.h"
#include "run_page_text.h"

static const char place[] = "@REPORT@";

struct more { /* what stands in the document after the summary */
	const struct gs_run_page *page;
	const struct run_page_excerpt *excerpt;
};

static void put_more(void *ctx, struct gs_doc *doc)
{
	const struct more *m = ctx;

	if (m->page->put_more)
		m->page->put_more(m->page->more_ctx, doc);
	gs_doc_put_text(doc, "file", m->page->file);
	doc->ops->begin(doc, "left_out", false, m->excerpt->n_cuts == 0, false);
	for (size_t i = 0; i < m->excerpt->n_cuts; i++)
		gs_doc_put_u64(doc, m->excerpt->cuts[i].key, m->excerpt->cuts[i].n);
	gs_doc_end(doc);
	if (m->page->timeline)
		run_page_put_timeline(doc, m->page->timeline);
	else
		gs_doc_put_null(doc, "timeline");
}

int gs_run_page_write(FILE *out, const struct gs_summary *summary, const struct gs_run_page *page)
{
	GS_CLEANUP(run_page_fini_excerpt) struct run_page_excerpt excerpt;
	struct more more = {page, &excerpt};
	struct gs_report_summary_style style = {
		.size = sizeof(style), .gpus = true, .put_more = put_more, .more_ctx = &more};
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_script, .pen = &pen};
	int r = run_page_make_excerpt(summary, &excerpt);

	if (r < 0)
		return r;
	gs_pen_open(&pen, out);
	gs_pen_check(&pen, gs_buf_put(&pen.buf, run_page_text,
				      (size_t)(strstr(run_page_text, place) - run_page_text)));
	gs_report_summary_doc(&doc, &excerpt.summary, &style);
	gs_pen_puts(&pen, strstr(run_page_text, place) + sizeof(place) - 1);
	return gs_pen_close(&pen);
}
