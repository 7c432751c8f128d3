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
	COL_WAIT,
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

static const char *const heads[N_COLUMNS] = {"samples",  "running",  "waiting",  "with callees",
					     "slow ops", "in these", "launches", "collectives",
					     "allocs",   "copies",   "in calls", "bytes"};

static uint64_t value_of(const struct gs_line_stats *l, enum column column)
{
	switch (column) {
	case COL_SAMPLES:
		return l->samples;
	case COL_SELF:
		return l->sample_ns;
	case COL_WAIT:
		return l->wait_ns;
	case COL_TOTAL:
		return l->total_ns + l->total_wait_ns;
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
	else if (column == COL_SELF || column == COL_WAIT || column == COL_TOTAL ||
		 column == COL_CALL_TIME || column == COL_OP_TIME)
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, v));
	else if (column == COL_BYTES)
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_bytes(out, v));
	else
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_count(out, v));
}

/* " [sleep, disk]": what the line waits for, in the order of time; "" when it does not wait. A cause of less
 * than a tenth of its waits is left out. */
static void put_causes(char *out, size_t bytes, const struct gs_line_stats *l)
{
	bool named[GS_WAIT_COUNT] = {0};
	size_t n = 0;

	*out = '\0';
	for (;;) {
		unsigned most = 0;

		for (unsigned i = 1; i < GS_WAIT_COUNT; i++)
			if (!named[i] &&
			    l->wait_by_cause_ns[i] > (most ? l->wait_by_cause_ns[most] : 0))
				most = i;
		if (!most || l->wait_by_cause_ns[most] * 10 < l->wait_ns || n >= bytes)
			break;
		named[most] = true;
		n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : " [",
				      gs_account_wait_name(most));
	}
	if (n && n < bytes)
		snprintf(out + n, bytes - n, "]");
}

/* has_wall: there is a column for the share of wall time. */
static void put_line(struct gs_grid *g, const struct gs_line_stats *l, const bool shown[N_COLUMNS],
		     bool has_wall)
{
	char text[1100], causes[100], pct[GS_FMT_BYTES] = "-", at[16] = "";

	put_causes(causes, sizeof(causes), l);
	if (l->wall_ns)
		snprintf(pct, sizeof(pct), "%.1f",
			 100.0 * (double)(l->sample_ns + l->wait_ns) / (double)l->wall_ns);
	if (has_wall)
		gs_grid_right(g, l->wall_ns ? GS_INK_PLAIN : GS_INK_DIM, pct);
	for (unsigned c = 0; c < N_COLUMNS; c++)
		if (shown[c])
			put_cell(g, l, c);
	/* The row of imports is at no line. */
	if (l->line || *l->function)
		snprintf(at, sizeof(at), ":%" PRIu32 "  ", l->line);
	snprintf(text, sizeof(text), "%.600s%s%.300s%s", *l->file ? l->file : "?", at, l->function,
		 causes);
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

/* What has no line: one remark, since the whole of a summary is one screen. */
static void put_lineless(struct gs_page *page, const struct gs_summary *s)
{
	char text[200], out[GS_FMT_BYTES];
	size_t n = 0;

	if (s->python_bare_samples)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s samples",
				      gs_fmt_count(out, s->python_bare_samples));
	if (s->python_bare_wait_ns)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s of waiting",
				      n ? " and " : "", gs_fmt_ns(out, s->python_bare_wait_ns));
	if (n)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " in no Python function");
	if (s->python_many_wait_ns)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "%s%s in waits too many to look at", n ? "; " : "",
				      gs_fmt_ns(out, s->python_many_wait_ns));
	if (n)
		put_remark(page, text);
}

void gs_report_summary_lines(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	size_t most = n_top ? n_top : N_LINES, n = s->n_python_lines;
	struct gs_grid g = {.page = page, .measuring = true};
	bool shown[N_COLUMNS] = {0}, has_wall = false;
	char text[160];

	if (!s->has_python)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "by Python line", GS_CUT_END);
	gs_page_line(page);
	if (n_top && n > most + 1)
		n = most;
	for (size_t i = 0; i < s->n_python_lines; i++) {
		has_wall |= s->python_lines[i].wall_ns != 0;
		for (unsigned c = 0; c < N_COLUMNS; c++)
			shown[c] |= value_of(&s->python_lines[i], c) != 0;
	}
	leave_columns(page, shown);
	for (int pass = 0; pass < 2 && n; pass++) {
		if (has_wall)
			gs_grid_right(&g, GS_INK_DIM, "% wall");
		for (unsigned c = 0; c < N_COLUMNS; c++)
			if (shown[c])
				gs_grid_right(&g, GS_INK_DIM, heads[c]);
		gs_grid_rest(&g, GS_INK_DIM, "line", GS_CUT_END);
		for (size_t i = 0; i < n; i++)
			put_line(&g, &s->python_lines[i], shown, has_wall);
		if (pass == 0)
			gs_grid_fit(&g, 0, 40);
	}
	if (n < s->n_python_lines) {
		snprintf(text, sizeof(text), "... and %zu more lines", s->n_python_lines - n);
		put_remark(page, text);
	}
	if (!s->n_python_lines)
		put_remark(page, "No Python stack was seen.");
	put_lineless(page, s);
}
