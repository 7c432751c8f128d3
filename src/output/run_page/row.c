/* Rows of a PDF's tables: figures as people read them, and texts of a program made harmless. */
#include "output/run_page/row.h"

#include <stdio.h>

#include "core/base/fmt.h"
#include "core/text/text.h"

void run_page_init_row(struct run_page_row *row, struct gs_plot_document *to)
{
	row->to = to;
	row->n = 0;
	for (unsigned i = 0; i < RUN_PAGE_CELLS; i++)
		row->names[i] = GS_BUF_INIT(1u << 16);
}

void run_page_fini_row(struct run_page_row *row)
{
	for (unsigned i = 0; i < RUN_PAGE_CELLS; i++)
		gs_buf_fini(&row->names[i]);
}

void run_page_add_name(struct run_page_row *row, const char *text)
{
	struct gs_buf *name = &row->names[row->n];

	gs_buf_reset(name);
	row->cells[row->n++] =
		gs_text_line(name, text ? text : "") == 0 && gs_buf_put(name, "", 1) == 0
			? (const char *)name->data
			: "?";
}

void run_page_add_ns(struct run_page_row *row, uint64_t ns)
{
	row->cells[row->n] = gs_fmt_ns(row->figures[row->n], ns);
	row->n++;
}

void run_page_add_count(struct run_page_row *row, uint64_t count)
{
	row->cells[row->n] = gs_fmt_count(row->figures[row->n], count);
	row->n++;
}

void run_page_add_id(struct run_page_row *row, uint64_t id)
{
	snprintf(row->figures[row->n], RUN_PAGE_CELL_BYTES, "%llu", (unsigned long long)id);
	row->cells[row->n] = row->figures[row->n];
	row->n++;
}

void run_page_add_bytes(struct run_page_row *row, uint64_t bytes)
{
	row->cells[row->n] = gs_fmt_bytes(row->figures[row->n], bytes);
	row->n++;
}

void run_page_add_percent(struct run_page_row *row, double share)
{
	if (share < 0)
		snprintf(row->figures[row->n], RUN_PAGE_CELL_BYTES, "-");
	else
		snprintf(row->figures[row->n], RUN_PAGE_CELL_BYTES, "%.1f %%", share * 100);
	row->cells[row->n] = row->figures[row->n];
	row->n++;
}

void run_page_end_row(struct run_page_row *row)
{
	gs_plot_put_row(row->to, row->cells);
	row->n = 0;
}

void run_page_begin_block(struct run_page_row *row, const char *heading,
			  const struct gs_plot_column *columns, size_t n)
{
	gs_plot_put_heading(row->to, heading);
	gs_plot_begin_table(row->to, columns, n);
}

void run_page_put_words(struct run_page_row *row, bool pale, const char *text)
{
	row->n = 0;
	run_page_add_name(row, text);
	gs_plot_put_paragraph(row->to, pale, row->cells[0]);
	row->n = 0;
}

void run_page_add_figure(struct run_page_row *row, const char *figure)
{
	snprintf(row->figures[row->n], RUN_PAGE_CELL_BYTES, "%s", figure);
	row->cells[row->n] = row->figures[row->n];
	row->n++;
}
