/*
 * Where the wall time went. For people: the thread that sets the pace, its parts by size, each with
 * its source, and how many other threads there were. For programs: every thread, every cell.
 */
#include "output/report/summary_account.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/text/verdict.h"

#define GAP           2
#define MIN_TENTHS    5 /* smaller parts are added up: tenths of a per cent */
#define TITLE_COLUMNS 30

struct row {
	const char *title, *source;
	uint64_t ns;
};

static unsigned tenths_of(uint64_t ns, uint64_t wall_ns)
{
	return wall_ns ? (unsigned)((double)ns * 1000 / (double)wall_ns + 0.5) : 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void put_row(struct gs_page *page, const struct row *row, uint64_t wall_ns)
{
	char time[GS_FMT_BYTES], percent[16];
	unsigned tenths = tenths_of(row->ns, wall_ns);

	snprintf(percent, sizeof(percent), "%u.%u %%", tenths / 10, tenths % 10);
	gs_page_gap(page, GAP);
	gs_page_right(page, GS_INK_PLAIN, percent, 7);
	gs_page_gap(page, GAP);
	gs_page_right(page, GS_INK_PLAIN, gs_fmt_ns(time, row->ns), 8);
	gs_page_gap(page, GAP);
	gs_page_left(page, GS_INK_PLAIN, row->title, TITLE_COLUMNS, GS_CUT_END);
	gs_page_gap(page, GAP);
	gs_page_rest(page, GS_INK_DIM, row->source, GS_CUT_END);
	gs_page_line(page);
}

/* The largest parts; what is small or has no row is one. */
static size_t rows_of(const struct gs_account_thread *t, size_t most,
		      struct row rows[GS_PART_COUNT + 1])
{
	uint64_t part_ns[GS_PART_COUNT], small_ns = 0;
	size_t n = 0, shown = 0;

	gs_account_parts(t->time_ns, part_ns);
	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		if (part_ns[i])
			rows[n++] = (struct row){gs_account_part_title(i),
						 gs_account_part_source(i), part_ns[i]};
	qsort(rows, n, sizeof(*rows), compare_rows);
	while (shown < n && shown < most && tenths_of(rows[shown].ns, t->wall_ns) >= MIN_TENTHS)
		shown++;
	for (size_t i = shown; i < n; i++)
		small_ns += rows[i].ns;
	if (tenths_of(small_ns, t->wall_ns))
		rows[shown++] = (struct row){"everything else", "", small_ns};
	return shown;
}

static void put_others(struct gs_page *page, const struct gs_summary *s)
{
	uint64_t n = s->account.n_threads - 1 + s->account.n_rest, n_idle = 0;
	char count[GS_FMT_BYTES], idle[GS_FMT_BYTES], text[160];

	for (size_t i = 0; i < s->account.n_threads; i++)
		n_idle += s->account.threads[i].idle && !s->account.threads[i].critical;
	if (!n)
		return;
	snprintf(text, sizeof(text), "%s other thread%s, %s of them idle (--format json)",
		 gs_fmt_count(count, n), n == 1 ? "" : "s", gs_fmt_count(idle, n_idle));
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, text);
}

void gs_report_summary_account_table(struct gs_page *page, const struct gs_summary *s,
				     size_t n_parts)
{
	const struct gs_account_thread *t = gs_summary_critical_thread(&s->account);
	struct row rows[GS_PART_COUNT + 1];
	char head[160], time[GS_FMT_BYTES];
	size_t n;

	if (!t || !t->wall_ns)
		return;
	n = rows_of(t, n_parts, rows);
	snprintf(head, sizeof(head),
		 "Where the time went: %s of wall time of thread %" PRIu32 " %.16s",
		 gs_fmt_ns(time, t->wall_ns), t->tid, gs_report_text_of(t->comm));
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, head, GS_CUT_END);
	gs_page_line(page);
	for (size_t i = 0; i < n; i++)
		put_row(page, &rows[i], t->wall_ns);
	put_others(page, s);
}

static struct gs_verdict_text verdict_text_of(const struct gs_summary *s)
{
	const struct gs_verdict_summary *v = &s->verdict;

	return (struct gs_verdict_text){.class_name = v->class_name,
					.title = v->title,
					.evidence = v->evidence,
					.advice = v->advice,
					.command = v->command,
					.share = v->share,
					.confidence = v->confidence,
					.is_unknown = v->is_unknown};
}

void gs_report_summary_verdict_table(struct gs_page *page, const struct gs_summary *s)
{
	const struct gs_verdict_text text = verdict_text_of(s);

	gs_text_verdict_table(page, &text);
}

/* --- the tree --- */

void gs_report_summary_verdict_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	const struct gs_verdict_text text = verdict_text_of(s);

	gs_text_verdict_doc(doc, &text);
}

static void put_parts(struct gs_doc *doc, const uint64_t part_ns[GS_PART_COUNT], uint64_t wall_ns)
{
	size_t n = 0;

	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		n += part_ns[i] != 0;
	gs_doc_begin_list(doc, "components", n);
	for (unsigned i = 0; i < GS_PART_COUNT; i++) {
		if (!part_ns[i])
			continue;
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "component", gs_account_part_name(i));
		gs_doc_put_u64(doc, "ns", part_ns[i]);
		gs_doc_put_tenths(doc, "share_pct", tenths_of(part_ns[i], wall_ns));
		gs_doc_put_text(doc, "source", gs_account_part_source(i));
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_cells(struct gs_doc *doc, const uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT])
{
	size_t n = 0;

	for (unsigned i = 0; i < GS_STATE_COUNT * GS_INSIDE_COUNT; i++)
		n += time_ns[i / GS_INSIDE_COUNT][i % GS_INSIDE_COUNT] != 0;
	gs_doc_begin_list(doc, "cells", n);
	for (unsigned i = 0; i < GS_STATE_COUNT * GS_INSIDE_COUNT; i++) {
		unsigned state = i / GS_INSIDE_COUNT, inside = i % GS_INSIDE_COUNT;

		if (!time_ns[state][inside])
			continue;
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "state", gs_account_state_name(state));
		gs_doc_put_text(doc, "inside", gs_account_inside_name(inside));
		gs_doc_put_u64(doc, "ns", time_ns[state][inside]);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_thread(struct gs_doc *doc, const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT];

	gs_account_parts(t->time_ns, part_ns);
	gs_doc_begin_map(doc, NULL);
	gs_doc_put_u64(doc, "pid", t->pid);
	gs_doc_put_u64(doc, "tid", t->tid);
	gs_doc_put_u64_if(doc, "parent_pid", t->parent_pid, t->parent_pid);
	gs_doc_put_text(doc, "process", t->process);
	gs_doc_put_text(doc, "comm", t->comm);
	gs_doc_put_u64(doc, "start_ns", t->start_ns);
	gs_doc_put_u64(doc, "wall_ns", t->wall_ns);
	gs_doc_put_bool(doc, "ended", t->ended);
	gs_doc_put_bool(doc, "idle", t->idle);
	gs_doc_put_bool(doc, "critical", t->critical);
	gs_doc_put_u64(doc, "launches", t->launches);
	gs_doc_put_u64(doc, "collectives", t->collectives);
	put_parts(doc, part_ns, t->wall_ns);
	put_cells(doc, t->time_ns);
	gs_doc_end(doc);
}

void gs_report_summary_account_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	const struct gs_account_summary *a = &s->account;
	const struct gs_account_thread *critical = gs_summary_critical_thread(&s->account);
	uint64_t rest_ns[GS_PART_COUNT];

	if (!a->n_threads) {
		gs_doc_put_text(doc, "account", NULL);
		return;
	}
	gs_doc_begin_map(doc, "account");
	gs_doc_put_u64_if(doc, "critical_pid", critical ? critical->pid : 0, critical);
	gs_doc_put_u64_if(doc, "critical_tid", critical ? critical->tid : 0, critical);
	gs_doc_put_u64(doc, "threads_not_listed", a->n_rest);
	gs_doc_put_u64(doc, "not_listed_ns", gs_account_parts(a->rest_ns, rest_ns));
	gs_doc_begin_list(doc, "threads", a->n_threads);
	for (size_t i = 0; i < a->n_threads; i++)
		put_thread(doc, &a->threads[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}
