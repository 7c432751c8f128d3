/* Which renderer a view and a format of GPUs are, and rows of cells in every format. */
#include "output/node_report/gpu.h"

#include <math.h>
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/node_report/gpu_int.h"
#include "core/text/text.h"

typedef unsigned (*row_fn)(const struct gs_gpu_snapshot *s, unsigned i,
			   const struct gs_report_gpu_style *style,
			   struct gs_report_gpu_cell *cells, char texts[][32]);

static void rows_csv(struct gs_pen *pen, const struct gs_gpu_snapshot *s,
		     const struct gs_report_gpu_style *style, row_fn row, unsigned n_rows)
{
	struct gs_report_gpu_cell cells[GS_GPU_CELLS_MAX];
	bool head = style->head;
	char texts[4][32];

	for (unsigned i = 0; i < n_rows; i++) {
		unsigned n = row(s, i, style, cells, texts);

		for (unsigned j = 0; head && j < n; j++) {
			gs_pen_puts(pen, j ? "," : "");
			gs_pen_puts(pen, cells[j].name);
		}
		gs_pen_puts(pen, head ? GS_TEXT_CSV_EOL : "");
		head = false;
		for (unsigned j = 0; j < n; j++) {
			gs_pen_puts(pen, j ? "," : "");
			if (cells[j].number)
				gs_pen_double(pen, cells[j].value);
			else
				gs_pen_check(pen, gs_text_csv(&pen->buf, cells[j].text));
		}
		gs_pen_puts(pen, GS_TEXT_CSV_EOL);
		gs_pen_yield(pen);
	}
}

static void rows_doc(struct gs_doc *doc, const char *key, const struct gs_gpu_snapshot *s,
		     const struct gs_report_gpu_style *style, row_fn row, unsigned n_rows)
{
	struct gs_report_gpu_cell cells[GS_GPU_CELLS_MAX];
	char texts[4][32];

	gs_doc_begin_list(doc, key, n_rows);
	for (unsigned i = 0; i < n_rows; i++) {
		unsigned n = row(s, i, style, cells, texts);

		gs_doc_begin_flat(doc, NULL);
		for (unsigned j = 0; j < n; j++) {
			if (cells[j].number)
				gs_doc_put_double(doc, cells[j].name, cells[j].value);
			else
				gs_doc_put_text(doc, cells[j].name, cells[j].text);
		}
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_rows(struct gs_grid *g, const struct gs_gpu_snapshot *s,
		     const struct gs_report_gpu_style *style, row_fn row, unsigned n_rows)
{
	struct gs_report_gpu_cell cells[GS_GPU_CELLS_MAX];
	char texts[4][32], text[32];

	for (unsigned i = 0; i < n_rows; i++) {
		unsigned n = row(s, i, style, cells, texts);

		for (unsigned j = 0; i == 0 && j < n; j++)
			gs_grid_right(g, GS_INK_BOLD, cells[j].name);
		if (i == 0)
			gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
		for (unsigned j = 0; j < n; j++) {
			/* Bytes to the last digit, other values as they are known. */
			snprintf(text, sizeof(text), fabs(cells[j].value) >= 1e6 ? "%.0f" : "%.6g",
				 cells[j].value);
			gs_grid_right(g, GS_INK_PLAIN,
				      cells[j].number ? text
				      : cells[j].text ? cells[j].text
						      : "-");
		}
		gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
	}
}

static void rows_table(struct gs_page *page, const struct gs_gpu_snapshot *s,
		       const struct gs_report_gpu_style *style, row_fn row, unsigned n_rows)
{
	struct gs_grid g = {.page = page, .measuring = true};

	put_rows(&g, s, style, row, n_rows);
	while (n_rows && gs_grid_piece(&g, 0))
		put_rows(&g, s, style, row, n_rows);
}

static unsigned parts_of(const struct gs_report_gpu_style *style)
{
	if (style->view == GS_GPU_VIEW_GSWARM)
		return GS_GPU_SHOW_DEVICES; /* it has no processes */
	return style->parts ? style->parts : GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES;
}

static void put_doc(struct gs_pen *pen, const struct gs_gpu_snapshot *s,
		    const struct gs_report_gpu_style *style)
{
	bool yaml = style->format == GS_SUMMARY_YAML;
	struct gs_doc doc = {.ops = yaml ? &gs_doc_yaml : &gs_doc_json, .pen = pen};
	unsigned parts = parts_of(style);

	if (yaml && style->stream)
		gs_pen_puts(pen, "---\n");
	if (style->view == GS_GPU_VIEW_ALL) {
		gs_report_gpu_doc(&doc, s, style);
	} else {
		gs_doc_begin_map(&doc, NULL);
		gs_doc_put_version(&doc);
		gs_doc_put_time(&doc, "time", s->wall_ns);
		if (parts & GS_GPU_SHOW_DEVICES)
			rows_doc(&doc, "gpus", s, style, gs_report_gpu_row_device, s->n_gpus);
		if (parts & GS_GPU_SHOW_PROCESSES)
			rows_doc(&doc, "processes", s, style, gs_report_gpu_row_process,
				 s->n_processes);
		gs_doc_end(&doc);
	}
	gs_pen_puts(pen, "\n");
}

static void put_table(struct gs_pen *pen, const struct gs_gpu_snapshot *s,
		      const struct gs_report_gpu_style *style)
{
	bool scrolls = style->view == GS_GPU_VIEW_DMON || style->view == GS_GPU_VIEW_PMON;
	unsigned parts = parts_of(style);
	struct gs_page page;

	/* A line that scrolls is a line for scripts too: the terminal wraps it, nothing cuts it. */
	gs_page_init(&page, pen, scrolls ? 0 : style->width, style->color);
	switch (style->view) {
	case GS_GPU_VIEW_ALL:
		gs_report_gpu_table(&page, s, style);
		break;
	case GS_GPU_VIEW_DMON:
	case GS_GPU_VIEW_PMON:
		gs_report_gpu_scroll(&page, s, style);
		break;
	case GS_GPU_VIEW_EACGM:
	case GS_GPU_VIEW_GSWARM:
		if (parts & GS_GPU_SHOW_DEVICES)
			rows_table(&page, s, style, gs_report_gpu_row_device, s->n_gpus);
		if (parts == (GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES) && s->n_processes)
			gs_page_line(&page);
		if (parts & GS_GPU_SHOW_PROCESSES)
			rows_table(&page, s, style, gs_report_gpu_row_process, s->n_processes);
		break;
	}
	gs_page_fini(&page);
}

int gs_report_gpu_write(FILE *out, const struct gs_gpu_snapshot *s,
			const struct gs_report_gpu_style *style)
{
	struct gs_pen pen;

	if (style->size < sizeof(*style))
		return -EINVAL;
	gs_pen_open(&pen, out);
	switch (style->format) {
	case GS_SUMMARY_TABLE:
		put_table(&pen, s, style);
		break;
	case GS_SUMMARY_JSON:
	case GS_SUMMARY_YAML:
		put_doc(&pen, s, style);
		break;
	case GS_SUMMARY_CSV:
		/* One kind of row in a file: GPUs, but for where only processes are asked for. */
		if (parts_of(style) & GS_GPU_SHOW_DEVICES)
			rows_csv(&pen, s, style, gs_report_gpu_row_device, s->n_gpus);
		else
			rows_csv(&pen, s, style, gs_report_gpu_row_process, s->n_processes);
		break;
	}
	return gs_pen_close(&pen);
}

int gs_report_gpu_write_fields(FILE *out)
{
	struct gs_pen pen;

	gs_pen_open(&pen, out);
	for (unsigned i = 0; i < GS_GPU_FIELD_COUNT; i++) {
		const struct gs_gpu_field_info *f = gs_gpu_field_info(i);

		gs_pen_printf(&pen, "%-36s %s%s%s%s\n", f->key, f->label_value,
			      f->label_value[0] ? ": " : "", f->help,
			      f->counter ? " Counter." : "");
	}
	return gs_pen_close(&pen);
}
