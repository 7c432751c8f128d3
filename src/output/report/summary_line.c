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
#define BOTH_COLUMNS  56 /* a line with its text and share of wall time */
#define TEXT_COLUMNS  24 /* of these the text's */

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

/* Whether a cause of waiting is worth its name: it took a tenth of what the line took, and a thousandth of the
 * wall time of its threads, without which a few microseconds are all of a line that hardly ran. */
static bool is_cause_named(const struct gs_line_stats *l, unsigned cause)
{
	uint64_t ns = l->wait_by_cause_ns[cause], line_ns = l->sample_ns + l->wait_ns;

	if (line_ns < l->call_ns)
		line_ns = l->call_ns;
	if (line_ns < l->op_ns)
		line_ns = l->op_ns;
	return ns * 10 >= line_ns && ns * 1000 >= l->wall_ns;
}

/* " [sleep, disk]": what the line waits for, in the order of time; "" when that is nothing to speak of. */
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
		if (!most || !is_cause_named(l, most) || n >= bytes)
			break;
		named[most] = true;
		n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : " [",
				      gs_account_wait_name(most));
	}
	if (n && n < bytes)
		snprintf(out + n, bytes - n, "]");
}

/* The end of the name of a file, enough beside its text: "model.py", "torch/__init__.py". */
static const char *file_tail(const char *file)
{
	const char *name = strrchr(file, '/'), *at = name;

	if (!name || !name[1])
		return file;
	if (strncmp(name + 1, "__", 2) == 0)
		while (at > file && at[-1] != '/')
			at--;
	return at == name ? name + 1 : at;
}

/* What the table has beside the columns of numbers. */
struct line_table {
	bool shown[N_COLUMNS];
	bool has_wall;  /* a column for the share of wall time */
	bool has_texts; /* of some lines */
};

static void put_line(struct gs_grid *g, const struct gs_line_stats *l, const struct line_table *t)
{
	char text[1100], causes[100], pct[GS_FMT_BYTES] = "-", at[16] = "";
	const char *file = *l->file ? l->file : "?";

	put_causes(causes, sizeof(causes), l);
	if (l->wall_ns)
		snprintf(pct, sizeof(pct), "%.1f",
			 100.0 * (double)(l->sample_ns + l->wait_ns) / (double)l->wall_ns);
	if (t->has_wall)
		gs_grid_right(g, l->wall_ns ? GS_INK_PLAIN : GS_INK_DIM, pct);
	for (unsigned c = 0; c < N_COLUMNS; c++)
		if (t->shown[c])
			put_cell(g, l, c);
	/* The row of imports is at no line. */
	if (l->line || *l->function)
		snprintf(at, sizeof(at), ":%" PRIu32, l->line);
	if (!t->has_texts) {
		snprintf(text, sizeof(text), "%.600s%s%s%.300s%s", file, at, *at ? "  " : "",
			 l->function, causes);
		gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_START);
		return;
	}
	/* The text says more than the function, which makes room for it. */
	snprintf(text, sizeof(text), "%.600s%s%s%s%.300s", file_tail(file), at, causes,
		 *at ? "  " : "", l->function);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	gs_grid_rest(g, GS_INK_DIM, gs_report_text_of(l->source), GS_CUT_END);
}

static void put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

/* Leaves columns out, the least telling first and the texts last, until the lines have room on the page. */
static void leave_columns(const struct gs_page *page, struct line_table *t)
{
	static const enum column order[] = {COL_COPIES, COL_SAMPLES, COL_OP_TIME,     COL_BYTES,
					    COL_ALLOCS, COL_TOTAL,   COL_COLLECTIVES, COL_SLOW_OPS};

	for (size_t i = 0; i <= GS_ARRAY_LEN(order); i++) {
		size_t columns = t->has_texts ? BOTH_COLUMNS : PLACE_COLUMNS;

		for (unsigned c = 0; c < N_COLUMNS; c++)
			if (t->shown[c])
				columns += GAP + (strlen(heads[c]) > CELL_COLUMNS ? strlen(heads[c])
										  : CELL_COLUMNS);
		if (columns <= page->width)
			return;
		if (i < GS_ARRAY_LEN(order))
			t->shown[order[i]] = false;
	}
	t->has_texts = false;
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
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s in waits without a stack",
				      n ? "; " : "", gs_fmt_ns(out, s->python_many_wait_ns));
	if (n)
		put_remark(page, text);
}

static void put_heads(struct gs_grid *g, const struct line_table *t)
{
	if (t->has_wall)
		gs_grid_right(g, GS_INK_DIM, "% wall");
	for (unsigned c = 0; c < N_COLUMNS; c++)
		if (t->shown[c])
			gs_grid_right(g, GS_INK_DIM, heads[c]);
	if (t->has_texts)
		gs_grid_left(g, GS_INK_DIM, "line", GS_CUT_END);
	gs_grid_rest(g, GS_INK_DIM, t->has_texts ? "text" : "line", GS_CUT_END);
}

void gs_report_summary_lines(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	size_t most = n_top ? n_top : N_LINES, n = s->n_python_lines;
	struct gs_grid g = {.page = page, .measuring = true};
	struct line_table t = {0};
	unsigned place; /* of the cell that names the line */
	char text[160];

	if (!s->has_python)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "by Python line", GS_CUT_END);
	gs_page_line(page);
	if (n_top && n > most + 1)
		n = most;
	for (size_t i = 0; i < s->n_python_lines; i++) {
		t.has_wall |= s->python_lines[i].wall_ns != 0;
		t.has_texts |= i < n && s->python_lines[i].source;
		for (unsigned c = 0; c < N_COLUMNS; c++)
			t.shown[c] |= value_of(&s->python_lines[i], c) != 0;
	}
	leave_columns(page, &t);
	place = t.has_wall;
	for (unsigned c = 0; c < N_COLUMNS; c++)
		place += t.shown[c];
	for (int pass = 0; pass < 2 && n; pass++) {
		put_heads(&g, &t);
		for (size_t i = 0; i < n; i++)
			put_line(&g, &s->python_lines[i], &t);
		if (pass == 0)
			gs_grid_fit(&g, t.has_texts ? place : 0,
				    t.has_texts ? TEXT_COLUMNS + 2 : PLACE_COLUMNS);
	}
	if (n < s->n_python_lines) {
		snprintf(text, sizeof(text), "... and %zu more lines", s->n_python_lines - n);
		put_remark(page, text);
	}
	if (!s->n_python_lines)
		put_remark(page, "No Python stack was seen.");
	put_lineless(page, s);
}
