/*
 * Who arrives late at collectives. What counts is when the host made the call: a GPU that is slow
 * shows here only where its host waits for it.
 */
#include "output/report/summary_arrival.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"

#define GAP       2
#define N_COMMS   8   /* with -v */
#define LEFT_PART 100 /* one in so many calls left out is worth a line */

static double percent_of(uint64_t n, uint64_t all)
{
	return all ? 100 * (double)n / (double)all : 0;
}

static int compare_latest(const void *a, const void *b)
{
	const struct gs_collectives_rank *const *x = a, *const *y = b;

	if ((*x)->n_last != (*y)->n_last)
		return (*x)->n_last > (*y)->n_last ? -1 : 1;
	return ((*x)->rank > (*y)->rank) - ((*x)->rank < (*y)->rank);
}

/* n_left: calls that are worth a word here; 0 none. */
static void put_line(struct gs_page *page, const struct gs_collectives_comm *c, uint64_t n_left)
{
	char n[GS_FMT_BYTES], ns[GS_FMT_BYTES], seen[64] = "", left[64] = "", text[256];
	const struct gs_collectives_rank *r = c->late;

	if (c->n_seen < (size_t)c->n_ranks)
		snprintf(seen, sizeof(seen), " (%zu traced)", c->n_seen);
	if (n_left)
		snprintf(left, sizeof(left), "; %s unmatched", gs_fmt_count(n, n_left));
	gs_fmt_count(n, c->n_matched);
	if (r)
		snprintf(text, sizeof(text),
			 "rank %" PRId32 " is last at %.1f %% of %s collectives of %" PRId32
			 " ranks%s, by %s (median)%s",
			 r->rank, percent_of(r->n_last, c->n_matched), n, c->n_ranks, seen,
			 gs_fmt_ns(ns, r->margin_p50_ns), left);
	else
		snprintf(text, sizeof(text),
			 "no rank stands out as late at %s collectives of %" PRId32 " ranks%s%s", n,
			 c->n_ranks, seen, left);
	gs_page_gap(page, GAP);
	gs_page_words(page, r ? GS_INK_WARN : GS_INK_PLAIN, text);
}

static void put_time(struct gs_grid *g, uint64_t ns, bool known)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, known ? GS_INK_PLAIN : GS_INK_DIM, known ? gs_fmt_ns(out, ns) : "-");
}

static void put_heads(struct gs_grid *g)
{
	gs_grid_left(g, GS_INK_DIM, "rank", GS_CUT_END);
	gs_grid_right(g, GS_INK_DIM, "behind first");
	gs_grid_right(g, GS_INK_DIM, "p95");
	gs_grid_right(g, GS_INK_DIM, "% last");
	gs_grid_right(g, GS_INK_DIM, "then late by");
	gs_grid_right(g, GS_INK_DIM, "in the calls");
	gs_grid_rest(g, GS_INK_DIM, "process", GS_CUT_END);
}

static void put_rank(struct gs_grid *g, const struct gs_collectives_comm *c,
		     const struct gs_collectives_rank *r)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId32, r->rank);
	gs_grid_left(g, r == c->late ? GS_INK_WARN : GS_INK_PLAIN, text, GS_CUT_END);
	put_time(g, r->late_p50_ns, true);
	put_time(g, r->late_p95_ns, true);
	snprintf(text, sizeof(text), "%.1f", percent_of(r->n_last, c->n_matched));
	gs_grid_right(g, GS_INK_PLAIN, text);
	put_time(g, r->margin_p50_ns, r->n_last);
	put_time(g, r->calls_ns, true);
	snprintf(text, sizeof(text), "%" PRIu32, r->pid);
	gs_grid_rest(g, GS_INK_DIM, text, GS_CUT_END);
}

/* Those that were the last most often first. */
static void put_ranks(struct gs_page *page, const struct gs_collectives_comm *c)
{
	const struct gs_collectives_rank **ranks GS_FREE = calloc(c->n_seen, sizeof(*ranks));
	struct gs_grid g = {.page = page, .measuring = true};

	if (!ranks) {
		gs_pen_check(page->pen, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < c->n_seen; i++)
		ranks[i] = &c->ranks[i];
	qsort(ranks, c->n_seen, sizeof(*ranks), compare_latest);
	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g);
		for (size_t i = 0; i < c->n_seen; i++)
			put_rank(&g, c, ranks[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, strlen("process"));
	}
}

static int list_causes(struct gs_buf *text, const struct gs_collectives_summary *s)
{
	const char *separator = "";
	char n[GS_FMT_BYTES];
	int r = gs_buf_puts(text, "calls not matched: ");

	for (unsigned i = 0; i < GS_COLLECTIVES_N_CAUSES && r == 0; i++) {
		if (!s->left_out[i])
			continue;
		r = gs_buf_printf(text, "%s%s %s", separator, gs_fmt_count(n, s->left_out[i]),
				  gs_collectives_cause_title(i));
		separator = ", ";
	}
	return r == 0 ? gs_buf_put(text, "", 1) : r;
}

static void put_left_out(struct gs_page *page, const struct gs_collectives_summary *s)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	int r = list_causes(&text, s);

	gs_pen_check(page->pen, r);
	if (r < 0)
		return;
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, (const char *)text.data);
}

static void put_all_of(struct gs_page *page, const struct gs_collectives_summary *s)
{
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "Arrival of ranks at collectives", GS_CUT_END);
	gs_page_line(page);
	for (size_t i = 0; i < s->n_comms && i < N_COMMS; i++) {
		if (!s->comms[i].n_matched)
			continue;
		put_line(page, &s->comms[i], 0);
		put_ranks(page, &s->comms[i]);
	}
	if (s->n_matched < s->n_calls)
		put_left_out(page, s);
}

void gs_report_summary_arrival_table(struct gs_page *page, const struct gs_summary *summary,
				     bool verbose)
{
	const struct gs_collectives_summary *s = summary->collectives;
	uint64_t n_left = s ? s->n_calls - s->n_matched : 0;

	if (s && verbose)
		put_all_of(page, s);
	/* On the one screen nothing is said where nothing was matched. */
	if (s && !verbose && s->n_comms && s->comms[0].n_matched)
		put_line(page, &s->comms[0], n_left > s->n_calls / LEFT_PART ? n_left : 0);
}

/* --- the tree --- */

static void put_rank_doc(struct gs_doc *doc, const struct gs_collectives_comm *c,
			 const struct gs_collectives_rank *r)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_i64_if(doc, "rank", r->rank, true);
	gs_doc_put_u64(doc, "pid", r->pid);
	gs_doc_put_u64(doc, "calls", r->calls);
	gs_doc_put_u64(doc, "calls_ns", r->calls_ns);
	gs_doc_put_u64_if(doc, "late_p50_ns", r->late_p50_ns, c->n_matched);
	gs_doc_put_u64_if(doc, "late_p95_ns", r->late_p95_ns, c->n_matched);
	gs_doc_put_u64_if(doc, "late_max_ns", r->late_max_ns, c->n_matched);
	gs_doc_put_u64_if(doc, "late_ns", r->late_total_ns, c->n_matched);
	gs_doc_put_u64(doc, "last", r->n_last);
	gs_doc_put_u64_if(doc, "last_by_p50_ns", r->margin_p50_ns, r->n_last);
	gs_doc_put_u64(doc, "last_by_ns", r->margin_sum_ns);
	gs_doc_put_u64(doc, "missing_ns", r->missing_ns);
	gs_doc_end(doc);
}

static void put_comm_doc(struct gs_doc *doc, const struct gs_collectives_comm *c)
{
	char id[24];

	snprintf(id, sizeof(id), "0x%" PRIx64, c->id);
	gs_doc_begin_map(doc, NULL);
	gs_doc_put_text(doc, "id", id);
	gs_doc_put_i64_if(doc, "ranks", c->n_ranks, true);
	gs_doc_put_u64(doc, "matched", c->n_matched);
	gs_doc_put_u64_if(doc, "span_ns", c->span_ns, c->n_matched);
	gs_doc_put_i64_if(doc, "late_rank", c->late ? c->late->rank : 0, c->late);
	gs_doc_begin_list(doc, "by_rank", c->n_seen);
	for (size_t i = 0; i < c->n_seen; i++)
		put_rank_doc(doc, c, &c->ranks[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

void gs_report_summary_arrival_doc(struct gs_doc *doc, const struct gs_summary *summary)
{
	const struct gs_collectives_summary *s = summary->collectives;

	if (!s) {
		gs_doc_put_text(doc, "collectives", NULL);
		return;
	}
	gs_doc_begin_map(doc, "collectives");
	gs_doc_put_u64(doc, "calls", s->n_calls);
	gs_doc_put_u64(doc, "matched_calls", s->n_matched);
	gs_doc_begin_map(doc, "left_out");
	for (unsigned i = 0; i < GS_COLLECTIVES_N_CAUSES; i++)
		gs_doc_put_u64(doc, gs_collectives_cause_name(i), s->left_out[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "communicators", s->n_comms);
	for (size_t i = 0; i < s->n_comms; i++)
		put_comm_doc(doc, &s->comms[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}
