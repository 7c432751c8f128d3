/*
 * The summary as a page for a person: first what ran and for how long, then for each layer its
 * functions by total time, the same for each process (and thread, when asked for), and at last what
 * needs attention: calls that never returned, errors, what was lost, what could not be attached to.
 *
 * All function tables share one set of columns, so that figures stand below each other from the
 * first block to the last. Their widths are found by walking the same blocks once with measuring
 * set. When the page is too narrow columns are left out in the order of the field "leave", then
 * names are cut; no line is longer than the page.
 */
#include "output/gpu_report/gpus.h"
#include "output/gpu_report/nccl.h"
#include "output/report/summary_step.h"
#include "output/report/summary_table.h"
#include "output/report/summary_account.h"
#include "output/report/summary_arrival.h"
#include "output/gpu_report/hangs.h"
#include "output/report/summary_python.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "core/base/fmt.h"
#include "core/text/page.h"
#include "model/trace/func.h"
#include "model/trace/hist.h"
#include "model/trace/record.h"

enum column {
	COL_CALLS,
	COL_ERRORS,
	COL_TOTAL,
	COL_SHARE,
	COL_MEAN,
	COL_P50,
	COL_P95,
	COL_P99,
	COL_MAX,
	COL_RATE,
	COL_BYTES,
	COL_BPS,
	N_COLUMNS
};

static const struct {
	const char *head;
	unsigned leave; /* those with 1 are left out first; 0 never */
} columns[N_COLUMNS] = {
	[COL_CALLS] = {"calls", 0},  [COL_ERRORS] = {"errors", 10}, [COL_TOTAL] = {"total", 0},
	[COL_SHARE] = {"%", 2},      [COL_MEAN] = {"mean", 9},      [COL_P50] = {"p50", 5},
	[COL_P95] = {"p95", 4},      [COL_P99] = {"p99", 8},        [COL_MAX] = {"max", 6},
	[COL_RATE] = {"calls/s", 3}, [COL_BYTES] = {"bytes", 7},    [COL_BPS] = {"bytes/s", 1},
};

#define LEAVE_OPTIONAL 6  /* left out before a name is cut below NAME_FAIR */
#define LEAVE_LAST     10 /* left out before a name is cut below NAME_MIN */
#define NAME_FAIR      28
#define NAME_MIN       14
#define GAP            2
#define N_PARTS        16 /* most processes, and threads of a process, unless all are asked for */

/* What a block of functions is of. */
enum part {
	PART_ALL,
	PART_PROCESS,
	PART_THREAD,
};

struct table {
	struct gs_page *page; /* borrowed */
	const struct gs_summary *s;
	const struct gs_report_summary_style *style;
	bool measuring;
	size_t name_columns;
	size_t columns[N_COLUMNS]; /* 0: left out */
};

/* A line of a block. */
struct row {
	const struct gs_function_stats *f;
	const char *name;
	enum gs_ink ink;
	unsigned indent;
	uint64_t layer_total_ns;
	bool sum; /* of several functions: there are no percentiles */
};

static const char *plural_ending(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static const char *format_time(char out[GS_FMT_BYTES], uint64_t ns, bool known)
{
	return known ? gs_fmt_ns(out, ns) : "-";
}

static const char *format_cell(const struct table *t, const struct row *row, enum column column,
			       char out[GS_FMT_BYTES])
{
	const struct gs_function_stats *f = row->f;
	/* Places, at which nothing takes time, nor do static probes; calls that were only counted. */
	bool passed =
		f->func_class == GS_CLASS_SITE || f->layer == GS_LAYER_TORCH_MEM || !f->total_ns;
	bool timed = f->calls && !passed, each = timed && !row->sum;

	switch (column) {
	case COL_CALLS:
		strcpy(out, f->partial ? ">=" : "");
		gs_fmt_count(out + strlen(out), f->calls);
		return out;
	case COL_ERRORS:
		return gs_fmt_count(out, f->errors);
	case COL_TOTAL:
		return format_time(out, f->total_ns, timed);
	case COL_SHARE:
		if (!row->layer_total_ns || !timed)
			return "-";
		snprintf(out, GS_FMT_BYTES, "%.1f",
			 100.0 * (double)f->total_ns / (double)row->layer_total_ns);
		return out;
	case COL_MEAN:
		return format_time(out, f->mean_ns, timed);
	case COL_P50:
		return row->sum ? "" : format_time(out, f->p50_ns, each);
	case COL_P95:
		return row->sum ? "" : format_time(out, f->p95_ns, each);
	case COL_P99:
		return row->sum ? "" : format_time(out, f->p99_ns, each);
	case COL_MAX:
		return format_time(out, f->max_ns, timed);
	case COL_RATE:
		return f->calls ? gs_fmt_rate(out, f->calls, t->s->duration_ns) : "-";
	case COL_BYTES:
		return f->bytes ? gs_fmt_bytes(out, f->bytes) : "-";
	case COL_BPS:
		return gs_fmt_bps(out, f->bytes, t->s->duration_ns);
	case N_COLUMNS:
		break;
	}
	return "";
}

static void measure_name(struct table *t, unsigned indent, const char *name)
{
	size_t n = indent + gs_page_columns(t->page, name);

	if (n > t->name_columns)
		t->name_columns = n;
}

static void put_row(struct table *t, const struct row *row)
{
	char out[GS_FMT_BYTES];

	if (t->measuring) {
		measure_name(t, row->indent, row->name);
	} else {
		gs_page_gap(t->page, row->indent);
		gs_page_left(t->page, row->ink, row->name, t->name_columns - row->indent,
			     row->sum ? GS_CUT_END : GS_CUT_MIDDLE);
	}
	for (unsigned i = 0; i < N_COLUMNS; i++) {
		const char *cell = format_cell(t, row, i, out);
		enum gs_ink ink = i == COL_ERRORS && row->f->errors ? GS_INK_RED : row->ink;

		if (t->measuring && strlen(cell) > t->columns[i])
			t->columns[i] = strlen(cell);
		if (t->measuring || !t->columns[i])
			continue;
		gs_page_gap(t->page, GAP);
		gs_page_right(t->page, ink, cell, t->columns[i]);
	}
	if (!t->measuring)
		gs_page_line(t->page);
}

/* Not the bytes: allocated, freed and copied ones have no sum that means anything. */
static void add_stats(struct gs_function_stats *sum, const struct gs_function_stats *f)
{
	sum->calls += f->calls;
	sum->errors += f->errors;
	sum->n_timed += f->n_timed;
	sum->total_ns += f->total_ns;
	sum->partial |= f->partial;
	if (f->max_ns > sum->max_ns)
		sum->max_ns = f->max_ns;
}

static struct gs_function_stats sum_of(const struct gs_function_stats *items, size_t n)
{
	struct gs_function_stats sum = {0};

	for (size_t i = 0; i < n; i++)
		add_stats(&sum, &items[i]);
	sum.mean_ns = sum.n_timed ? sum.total_ns / sum.n_timed : 0;
	return sum;
}

/* The functions of one layer, from the one with most time on; limit 0: all. */
static void put_rows(struct table *t, unsigned indent, const struct gs_function_stats *items,
		     size_t n, size_t limit, bool total)
{
	struct gs_function_stats all = sum_of(items, n);
	struct row row = {.indent = indent, .layer_total_ns = all.total_ns};
	char name[64], count[GS_FMT_BYTES];
	/* A line that says "1 more" would take the place of that one. */
	size_t shown = limit && n > limit + 1 ? limit : n;

	for (size_t i = 0; i < shown; i++) {
		row.f = &items[i];
		row.name = gs_report_text_of(items[i].name);
		put_row(t, &row);
	}
	row.sum = true;
	row.ink = GS_INK_DIM;
	row.name = name;
	if (shown < n) {
		struct gs_function_stats rest = sum_of(items + shown, n - shown);

		row.f = &rest;
		snprintf(name, sizeof(name), "... and %s more", gs_fmt_count(count, n - shown));
		put_row(t, &row);
	}
	if (total && n > 1) {
		row.ink = GS_INK_PLAIN;
		row.f = &all;
		snprintf(name, sizeof(name), "all %s functions", gs_fmt_count(count, n));
		put_row(t, &row);
	}
}

static void put_heads(struct table *t, unsigned indent, const char *title, bool of_columns)
{
	if (t->measuring) {
		measure_name(t, indent, title);
		return;
	}
	gs_page_gap(t->page, indent);
	gs_page_left(t->page, GS_INK_BOLD, title, t->name_columns - indent, GS_CUT_END);
	for (unsigned i = 0; i < N_COLUMNS; i++) {
		if (!t->columns[i] || !of_columns)
			continue;
		gs_page_gap(t->page, GAP);
		gs_page_right(t->page, GS_INK_DIM, columns[i].head, t->columns[i]);
	}
	gs_page_line(t->page);
}

#define N_INNER 3 /* most functions that a note names */

/* The function with most inner calls after those that are named already. */
static const struct gs_function_stats *next_inner(const struct gs_function_stats *items, size_t n,
						  const struct gs_function_stats **named,
						  unsigned n_named)
{
	const struct gs_function_stats *most = NULL;

	for (size_t i = 0; i < n; i++) {
		bool is_named = false;

		for (unsigned k = 0; k < n_named; k++)
			is_named |= named[k] == &items[i];
		if (!is_named && items[i].inner && (!most || items[i].inner > most->inner))
			most = &items[i];
	}
	return most;
}

static unsigned count_inner(const struct gs_function_stats *items, size_t n)
{
	unsigned n_inner = 0;

	for (size_t i = 0; i < n; i++)
		n_inner += items[i].inner != 0;
	return n_inner;
}

/* Functions that were reached from inside a call that is counted: in the rows they are not. */
static void put_inner(struct table *t, const struct gs_function_stats *items, size_t n)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	unsigned n_inner = count_inner(items, n);
	/* A note that says "1 more" would take the place of that one. */
	unsigned shown = n_inner > N_INNER + 1 ? N_INNER : n_inner;
	const struct gs_function_stats *named[N_INNER + 1];
	char count[GS_FMT_BYTES];
	int r;

	if (t->measuring || !n_inner)
		return;
	r = gs_buf_puts(&text, "entered from inside other calls, and counted there:");
	for (unsigned i = 0; i < shown && r == 0; i++) {
		named[i] = next_inner(items, n, named, i);
		r = gs_buf_printf(&text, "%s %s %s", i ? "," : "",
				  gs_report_text_of(named[i]->name),
				  gs_fmt_count(count, named[i]->inner));
		if (i == 0 && r == 0)
			r = gs_buf_printf(&text, " time%s", plural_ending(named[i]->inner));
	}
	if (shown < n_inner && r == 0)
		r = gs_buf_printf(&text, ", and %u more functions", n_inner - shown);
	gs_pen_check(t->page->pen, r);
	if (r < 0)
		return;
	gs_page_gap(t->page, GAP);
	gs_page_words(t->page, GS_INK_DIM, (const char *)text.data);
}

int gs_report_summary_add_stepped(struct gs_buf *names, const struct gs_function_stats *f)
{
	if (!f->stepped)
		return 0;
	return gs_buf_printf(names, "%s%s", names->bytes ? ", " : "", gs_report_text_of(f->name));
}

void gs_report_summary_put_stepped(struct gs_page *page, const struct gs_summary *s,
				   struct gs_buf *names)
{
	char step[GS_FMT_BYTES];
	int r;

	if (!names->bytes)
		return;
	if (s->step_ns)
		r = gs_buf_printf(names, ": some %s of each time is the single step of a probe",
				  gs_fmt_ns(step, s->step_ns));
	else
		r = gs_buf_printf(names, "%s", ": part of each time is the single step of a probe");
	gs_pen_check(page->pen, r);
	if (r < 0)
		return;
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, (const char *)names->data);
}

/* What some rows do not say by their figures. */
static void put_row_notes(struct table *t, const struct gs_function_stats *items, size_t n)
{
	struct gs_buf stepped GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	bool partial = false;

	for (size_t i = 0; i < n; i++) {
		partial |= items[i].partial;
		gs_pen_check(t->page->pen, gs_report_summary_add_stepped(&stepped, &items[i]));
	}
	if (t->measuring)
		return;
	if (partial) {
		gs_page_gap(t->page, GAP);
		gs_page_words(
			t->page, GS_INK_DIM,
			">= more calls were made: probes were thinned out or removed to keep --max-overhead, see Lost");
	}
	gs_report_summary_put_stepped(t->page, t->s, &stepped);
}

/* How many functions from the first on are of its layer. */
static size_t same_layer(const struct gs_function_stats *items, size_t n)
{
	size_t same = 0;

	while (same < n && items[same].layer == items[0].layer)
		same++;
	return same;
}

/* Without those at the end that were only reached from inside others, or did not return. */
static size_t without_idle(const struct gs_function_stats *items, size_t n)
{
	while (n && !items[n - 1].calls)
		n--;
	return n;
}

static void put_layers(struct table *t, unsigned indent, const struct gs_function_list *list,
		       size_t limit, enum part part)
{
	for (size_t i = 0, n; i < list->n; i += n) {
		const struct gs_function_stats *items = list->items + i;
		bool whole = part == PART_ALL;
		size_t n_rows;

		n = same_layer(items, list->n - i);
		n_rows = without_idle(items, n);
		if (!n_rows && !(whole && count_inner(items, n)))
			continue;
		if (whole && !t->measuring)
			gs_page_line(t->page);
		put_heads(t, indent, gs_layer_title(items[0].layer), n_rows && part != PART_THREAD);
		put_rows(t, indent + GAP, items, n_rows, limit, whole);
		if (whole) {
			put_inner(t, items, n);
			put_row_notes(t, items, n_rows);
		}
	}
}

/* Which process this is: "Process 4242 python, container 3f2a: python train.py --rank 0". */
static void put_process_head(struct table *t, const struct gs_process_summary *p)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	const char *container = gs_report_text_of(p->container),
		   *cmdline = gs_report_text_of(p->cmdline);
	char head[64];
	int r = 0;

	snprintf(head, sizeof(head), "Process %" PRIu32 " %.32s", p->pid,
		 gs_report_text_of(p->comm));
	/* A container's id as short as its tools show it. */
	if (*container)
		r = gs_buf_printf(&text, ", container %.12s", container);
	if (*container && p->ns_pid && p->ns_pid != p->pid && r == 0)
		r = gs_buf_printf(&text, ", pid %" PRIu32 " in it", p->ns_pid);
	if (r == 0)
		r = gs_buf_printf(&text, "%s%s", *cmdline ? ": " : "", cmdline);
	gs_pen_check(t->page->pen, r);
	gs_page_line(t->page);
	gs_page_rest(t->page, GS_INK_BOLD, head, GS_CUT_END);
	if (r == 0)
		gs_page_rest(t->page, GS_INK_DIM, (const char *)text.data, GS_CUT_END);
	gs_page_line(t->page);
}

static void put_thread(struct table *t, const struct gs_thread_summary *th, size_t limit)
{
	char text[64];

	if (!t->measuring) {
		gs_page_gap(t->page, GAP);
		snprintf(text, sizeof(text), "Thread %" PRIu32 " %.32s", th->tid,
			 gs_report_text_of(th->comm));
		gs_page_rest(t->page, GS_INK_BOLD, text, GS_CUT_END);
		gs_page_line(t->page);
	}
	put_layers(t, 2 * GAP, &th->functions, limit, PART_THREAD);
}

/* A part shows fewer functions than the whole: it is there to distinguish the parts. */
static size_t limit_of(const struct table *t, unsigned part)
{
	return t->style->n_top ? (t->style->n_top + part - 1) / part : 0;
}

/* How many processes, or threads of one, are shown: those with most time are the first. */
static size_t shown_of(const struct table *t, size_t n)
{
	return t->style->n_top && n > N_PARTS + 1 ? N_PARTS : n;
}

static void put_more(struct table *t, unsigned indent, size_t n, const char *what)
{
	char text[96], count[GS_FMT_BYTES];

	if (t->measuring || !n)
		return;
	snprintf(text, sizeof(text), "... and %s more %s%s with less time (--top 0 shows all)",
		 gs_fmt_count(count, n), what, what[0] == 'p' ? "es" : "s");
	gs_page_gap(t->page, indent);
	gs_page_words(t->page, GS_INK_DIM, text);
}

static void put_functions(struct table *t)
{
	bool several = t->s->n_processes > 1;
	size_t n;

	put_layers(t, 0, &t->s->functions, limit_of(t, 1), PART_ALL);
	if (!several && !t->style->threads)
		return;
	n = shown_of(t, t->s->n_processes);
	for (size_t i = 0; i < n; i++) {
		const struct gs_process_summary *p = &t->s->processes[i];
		size_t n_threads = t->style->threads ? shown_of(t, p->n_threads) : 0;

		if (!t->measuring)
			put_process_head(t, p);
		if (several)
			put_layers(t, GAP, &p->functions, limit_of(t, 2), PART_PROCESS);
		for (size_t j = 0; j < n_threads; j++)
			put_thread(t, &p->threads[j], limit_of(t, 4));
		if (n_threads)
			put_more(t, GAP, p->n_threads - n_threads, "thread");
	}
	if (n < t->s->n_processes && !t->measuring)
		gs_page_line(t->page);
	put_more(t, 0, t->s->n_processes - n, "process");
}

static size_t table_columns(const struct table *t, size_t name_columns)
{
	size_t all = name_columns;

	for (unsigned i = 0; i < N_COLUMNS; i++)
		all += t->columns[i] ? t->columns[i] + GAP : 0;
	return all;
}

/* Leave out what has no room. */
static void fit_columns(struct table *t)
{
	size_t want = t->name_columns < NAME_FAIR ? t->name_columns : NAME_FAIR;

	for (unsigned step = 1; step <= LEAVE_LAST; step++) {
		if (step > LEAVE_OPTIONAL && want > NAME_MIN)
			want = NAME_MIN;
		if (table_columns(t, want) <= t->page->width)
			break;
		for (unsigned i = 0; i < N_COLUMNS; i++)
			if (columns[i].leave == step)
				t->columns[i] = 0;
	}
	want = table_columns(t, 0);
	if (want + t->name_columns > t->page->width)
		t->name_columns =
			t->page->width > want + NAME_MIN ? t->page->width - want : NAME_MIN;
}

static void put_fact(struct table *t, const char *key, const char *fmt, ...) GS_PRINTF(3, 4);

static void put_fact(struct table *t, const char *key, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gs_page_gap(t->page, GAP);
	gs_page_left(t->page, GS_INK_DIM, key, 10, GS_CUT_END);
	gs_page_words(t->page, GS_INK_PLAIN, text);
}

void gs_report_summary_where(const struct gs_summary *s, char *out, size_t bytes)
{
	time_t seconds = (time_t)(s->start_wall_ns / 1000000000);
	const char *host = gs_report_text_of(s->host);
	char when[64] = "";
	struct tm tm;

	if (s->start_wall_ns > 0 && gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), " from %Y-%m-%d %H:%M:%S UTC", &tm);
	snprintf(out, bytes, "%s%s%.64s", when, *host ? " on " : "", host);
}

static void put_ran(struct table *t)
{
	const char *kernel = gs_report_text_of(t->s->kernel);
	char duration[GS_FMT_BYTES], where[160];

	gs_report_summary_where(t->s, where, sizeof(where));
	put_fact(t, "ran", "%s%s%s%.64s", gs_fmt_ns(duration, t->s->duration_ns), where,
		 *kernel ? ", Linux " : "", kernel);
}

static void put_native(struct table *t, const struct gs_native_count *n)
{
	char taken[GS_FMT_BYTES], different[GS_FMT_BYTES], cut[GS_FMT_BYTES], unnamed[GS_FMT_BYTES];

	if (n->taken || n->different)
		put_fact(
			t, "stacks",
			"native: %s taken, %s different, %s of these truncated, %s places without a name",
			gs_fmt_count(taken, n->taken), gs_fmt_count(different, n->different),
			gs_fmt_count(cut, n->cut), gs_fmt_count(unnamed, n->unnamed));
}

static void put_head(struct table *t)
{
	const struct gs_summary *s = t->s;
	const char *reason = gs_report_text_of(s->end_reason),
		   *attach_mode = gs_report_text_of(s->attach_mode);
	char status[32] = "", doors[400];
	size_t n_threads = 0;

	if (!s->complete)
		gs_page_words(
			t->page, GS_INK_WARN,
			"This trace was cut off (gpuscope was killed, or its file was truncated): the figures end there.");
	gs_page_rest(t->page, GS_INK_BOLD, *gs_report_text_of(s->command) ? s->command : "gpuscope",
		     GS_CUT_END);
	gs_page_line(t->page);
	put_ran(t);
	if (s->exit_status >= 0)
		snprintf(status, sizeof(status), "%sexit status %d", *reason ? ", " : "",
			 s->exit_status);
	if (*reason || *status)
		put_fact(t, "ended", "%.200s%s", reason, status);
	for (size_t i = 0; i < s->n_processes; i++)
		n_threads += s->processes[i].n_threads;
	put_fact(t, "traced", "%s%zu process%s, %zu thread%s made calls",
		 s->mode == GS_SESSION_SUMMARY  ? "sums only, no single events; "
		 : s->mode == GS_SESSION_EVENTS ? "every call; "
						: "",
		 s->n_processes, s->n_processes == 1 ? "" : "es", n_threads,
		 plural_ending(n_threads));
	gs_summary_doors(s, doors, sizeof(doors));
	if (*doors)
		put_fact(t, "traced by", "%s", doors);
	if (*attach_mode && gs_page_columns(t->page, attach_mode) <= 60)
		put_fact(t, "attached", "%s", attach_mode);
	put_native(t, &s->native);
	if (s->call_cost_ns && !s->cost_known)
		put_fact(
			t, "cost",
			"of tracing: %llu ns a call; its share is not known: too little processor time was used",
			(unsigned long long)s->call_cost_ns);
	else if (s->call_cost_ns)
		put_fact(
			t, "cost",
			"of tracing: about %.2f %% of processor time (at most %.2f %%), %llu ns a call",
			(double)s->cost_ppm / 1e4, (double)s->cost_worst_ppm / 1e4,
			(unsigned long long)s->call_cost_ns);
	put_fact(t, "times", "host calls, not the GPU work they start; percentiles within %.1f %%",
		 GS_HIST_ERROR_PCT);
}

/* Were there libraries whose first calls nothing could see? */
static bool came_late(const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_lost; i++)
		if (s->lost[i].cause == GS_LOSS_LATE && s->lost[i].count)
			return true;
	return false;
}

/* Which calls could have been seen, as an adjective. */
static const char *traced_calls(uint32_t layers)
{
	bool cuda = layers & (1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER);
	bool nccl = layers & 1u << GS_LAYER_NCCL;

	if (cuda || nccl || !layers)
		return cuda == nccl ? "CUDA or NCCL" : cuda ? "CUDA" : "NCCL";
	return layers & 1u << GS_LAYER_MPI ? "MPI" : "traced";
}

/* Why there is no function at all. */
void gs_report_summary_nothing(struct gs_page *page, const struct gs_summary *s,
			       const struct gs_report_summary_style *style)
{
	const char *calls = traced_calls(style->layers);
	uint64_t n_probes = 0;
	char text[192];

	for (size_t i = 0; i < s->n_attached; i++)
		n_probes += s->attached[i].n_probes;
	if (style->part)
		snprintf(text, sizeof(text), "The selection has no %s call.", calls);
	else if (s->n_open_calls)
		snprintf(
			text, sizeof(text),
			"No %s call returned while tracing; those that were open are listed below.",
			calls);
	else if (n_probes && came_late(s))
		snprintf(
			text, sizeof(text),
			"No %s call was seen: programs loaded their libraries before the probes were in place; earlier calls are not known.",
			calls);
	else if (n_probes)
		snprintf(text, sizeof(text),
			 "No %s call was seen: %" PRIu64
			 " probe%s in %zu file%s, but none of these functions was called.",
			 calls, n_probes, plural_ending(n_probes), s->n_attached,
			 plural_ending(s->n_attached));
	else if (s->n_attach_failures)
		snprintf(text, sizeof(text),
			 "No %s call was seen: probes could not be attached, see below.", calls);
	else
		snprintf(text, sizeof(text), "No %s call was seen: no %s library was loaded.",
			 calls, calls);
	gs_page_line(page);
	gs_page_words(page, GS_INK_BOLD, text);
}

/* Finds the columns that there is room for. */
static void table_measure(struct table *t)
{
	t->measuring = true;
	for (unsigned i = 0; i < N_COLUMNS; i++)
		t->columns[i] = strlen(columns[i].head);
	put_functions(t);
	fit_columns(t);
	t->measuring = false;
}

static bool has_functions(const struct gs_summary *s)
{
	return without_idle(s->functions.items, s->functions.n) ||
	       count_inner(s->functions.items, s->functions.n);
}

void gs_report_summary_blocks(struct gs_page *page, const struct gs_summary *s,
			      const struct gs_report_summary_style *style)
{
	struct table t = {.page = page, .s = s, .style = style};

	if (!has_functions(s))
		return;
	table_measure(&t);
	put_functions(&t);
}

void gs_report_summary_operators(struct gs_page *page, const struct gs_summary *s,
				 const struct gs_report_summary_style *style)
{
	struct gs_summary only = *s;

	only.n_processes = 0;
	only.functions.n = 0;
	for (size_t i = 0; i < s->functions.n; i++) {
		if (s->functions.items[i].layer != GS_LAYER_TORCH)
			continue;
		if (!only.functions.n++)
			only.functions.items = &s->functions.items[i];
	}
	gs_report_summary_blocks(page, &only, style);
	gs_report_summary_uses(page, s, style->n_top == 0);
	if (only.functions.n || s->n_uses)
		return;
	gs_page_line(page);
	gs_page_words(page, GS_INK_DIM, "No operator is known: add --layer torch or --op '*'.");
}

static void put_everything(struct gs_page *page, const struct gs_summary *s,
			   const struct gs_report_summary_style *style)
{
	struct table t = {.page = page, .s = s, .style = style};

	gs_report_summary_verdict_table(page, s);
	put_head(&t);
	if (!style->part)
		gs_report_summary_account_table(page, s, GS_SUMMARY_PARTS);
	if (!style->part) {
		gs_report_summary_step_table(page, s, true);
		gs_report_summary_arrival_table(page, s, true);
		gs_report_nccl(page, s, style->n_top == 0);
		gs_report_hangs_table(page, s, true);
	}
	if (has_functions(s))
		gs_report_summary_blocks(page, s, style);
	else if (!s->n_python_functions)
		gs_report_summary_nothing(page, s, style);
	gs_report_summary_python_table(page, s, style->n_top);
	gs_report_summary_lines(page, s, style->n_top);
	if (!style->part)
		gs_report_gpus(page, s);
	gs_report_summary_attention(page, s, style->n_top == 0);
}

void gs_report_summary_table(struct gs_pen *pen, const struct gs_summary *s,
			     const struct gs_report_summary_style *style)
{
	struct gs_page page;

	gs_page_init(&page, pen, style->width, style->color);
	if (style->view == GS_SUMMARY_ALL)
		put_everything(&page, s, style);
	else
		gs_report_summary_short(&page, s, style);
	gs_page_fini(&page);
}
