#include "output/gpu_report/cells.h"

#include "core/base/fmt.h"

#define GAP 2

void report_put_count(struct gs_grid *g, uint64_t n)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, n ? GS_INK_PLAIN : GS_INK_DIM, n ? gs_fmt_count(out, n) : "-");
}

void report_put_bytes(struct gs_grid *g, uint64_t bytes)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, bytes ? GS_INK_PLAIN : GS_INK_DIM, bytes ? gs_fmt_bytes(out, bytes) : "-");
}

void report_put_time(struct gs_grid *g, uint64_t ns)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, ns ? GS_INK_PLAIN : GS_INK_DIM, ns ? gs_fmt_ns(out, ns) : "-");
}

void report_put_title(struct gs_page *page, const char *text)
{
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, text, GS_CUT_END);
	gs_page_line(page);
}

void report_put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, text);
}
