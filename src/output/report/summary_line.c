/* The lines of Python code in the table: only the columns that have something. */
#include "output/report/summary_table.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/func.h"

#define N_LINES       20
#define GAP           2
#define CELL_COLUMNS  8  /* of a number with its unit */
#define PLACE_COLUMNS 40 /* that a line keeps at least */

enum column {
	COL_SAMPLES,
	COL_SELF,
	COL_TOTAL,
	COL_SLOW_OPS,
	COL_OP_TIME,
	COL_LAUNCHES,
	COL_COLLECTIVES,
	COL_ALLOCS,
	COL_COPIES,
	COL_CALL_TIME,
	COL_BYTES,
	N_COLUMNS
};

static const char *const heads[N_COLUMNS] = {"samples",  "running",  "with callees", "slow ops",
					     "in these", "launches", "collectives",  "allocs",
					     "copies",   "in calls", "bytes"};

static uint64_t value_of(const struct gs_line_stats *l, enum column column)
{
	switch (column) {
	case COL_SAMPLES:
		return l->samples;
	case COL_SELF:
		return l->sample_ns;
	case COL_TOTAL:
		return l->total_ns;
	case COL_SLOW_OPS:
		return l->slow_ops;
	case COL_OP_TIME:
		return l->op_ns;
	case COL_LAUNCHES:
		return l->launches;
	case COL_COLLECTIVES:
		return l->collectives;
	case COL_ALLOCS:
		return l->allocs;
	case COL_COPIES:
		return l->copies;
	case COL_CALL_TIME:
		return l->call_ns;
	case COL_BYTES:
		return l->bytes;
	default:
		return 0;
	}
}

static void put_cell(struct gs_grid *g, const struct gs_line_stats *l, enum column column)
{
	char out[GS_FMT_BYTES];
	uint64_t v = value_of(l, column);

	if (!v)
		gs_grid_right(g, GS_INK_DIM, "-");
	else if (column == COL_SELF || column == COL_TOTAL || column == COL_CALL_TIME ||
		 column == COL_OP_TIME)
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, v));
	else if (column == COL_BYTES)
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_bytes(out, v));
	else
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_count(out, v));
}

static void put_line(struct gs_grid *g, const struct gs_line_stats *l, const bool shown[N_COLUMNS])
{
	char text[1024];

	for (unsigned c = 0; c < N_COLUMNS; c++)
		if (shown[c])
			put_cell(g, l, c);
	snprintf(text, sizeof(text), "%.600s:%" PRIu32 "  %.300s", *l->file ? l->file : "?",
		 l->line, *l->function ? l->function : "?");
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_START);
}

static void put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

/* Leaves columns out, the least telling first, until the lines have room on the page. */
static void leave_columns(const struct gs_page *page, bool shown[N_COLUMNS])
{
	static const enum column order[] = {COL_COPIES, COL_SAMPLES, COL_OP_TIME,     COL_BYTES,
					    COL_ALLOCS, COL_TOTAL,   COL_COLLECTIVES, COL_SLOW_OPS};

	for (size_t i = 0; i <= GS_ARRAY_LEN(order); i++) {
		size_t columns = PLACE_COLUMNS;

		for (unsigned c = 0; c < N_COLUMNS; c++)
			if (shown[c])
				columns += GAP + (strlen(heads[c]) > CELL_COLUMNS ? strlen(heads[c])
										  : CELL_COLUMNS);
		if (columns <= page->width || i == GS_ARRAY_LEN(order))
			return;
		shown[order[i]] = false;
	}
}

void gs_report_summary_lines(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	size_t most = n_top ? n_top : N_LINES, n = s->n_python_lines;
	struct gs_grid g = {.page = page, .measuring = true};
	bool shown[N_COLUMNS] = {0};
	char text[160], out[GS_FMT_BYTES];

	if (!s->has_python)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "by Python line", GS_CUT_END);
	gs_page_line(page);
	if (n_top && n > most + 1)
		n = most;
	for (size_t i = 0; i < s->n_python_lines; i++)
		for (unsigned c = 0; c < N_COLUMNS; c++)
			shown[c] |= value_of(&s->python_lines[i], c) != 0;
	leave_columns(page, shown);
	for (int pass = 0; pass < 2 && n; pass++) {
		for (unsigned c = 0; c < N_COLUMNS; c++)
			if (shown[c])
				gs_grid_right(&g, GS_INK_DIM, heads[c]);
		gs_grid_rest(&g, GS_INK_DIM, "line", GS_CUT_END);
		for (size_t i = 0; i < n; i++)
			put_line(&g, &s->python_lines[i], shown);
		if (pass == 0)
			gs_grid_fit(&g, 0, 40);
	}
	if (n < s->n_python_lines) {
		snprintf(text, sizeof(text), "... and %zu more lines", s->n_python_lines - n);
		put_remark(page, text);
	}
	if (!s->n_python_lines)
		put_remark(page, "No Python stack was seen.");
	if (s->python_bare_samples) {
		snprintf(text, sizeof(text),
			 "%s samples of threads that were in no Python function",
			 gs_fmt_count(out, s->python_bare_samples));
		put_remark(page, text);
	}
}
