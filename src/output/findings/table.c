/* The findings of a recording for people: see table.h. */
#include "output/findings/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/text/fit.h"
#include "output/findings/findings.h"

#define N_KEEP_HANGS 12 /* lines, of those of one screen */
#define ROW_BYTES    1024

static const char *put_since(char out[GS_FMT_BYTES], const struct gs_findings_table *t, uint64_t ns)
{
	return gs_fmt_ns(out, ns > t->start_ns ? ns - t->start_ns : 0);
}

static void put_words(struct gs_page *page, unsigned gap, const char *text)
{
	gs_page_gap(page, gap);
	gs_page_words(page, GS_INK_PLAIN, text);
}

/* What began near a finding: how long before or after it. */
static void put_beside(struct gs_page *page, const struct gs_explain_finding *f,
		       const struct gs_explain_finding *other)
{
	uint64_t at = f->begun.since_ns, begun = other->begun.since_ns;
	char text[GS_EXPLAIN_TEXT_BYTES], distance[GS_FMT_BYTES], line[ROW_BYTES];

	gs_fmt_ns(distance, begun > at ? begun - at : at - begun);
	snprintf(line, sizeof(line), "%s %s: %s", distance, begun > at ? "later" : "before",
		 gs_explain_text(other, text));
	put_words(page, 4, line);
}

/* When it began and what it is, with how it ended. more: of the same kind and name, merged with it. */
static void put_head(struct gs_page *page, const struct gs_findings_table *t,
		     const struct gs_explain_finding *f, size_t more)
{
	char text[GS_EXPLAIN_TEXT_BYTES], since[GS_FMT_BYTES], until[GS_FMT_BYTES], end[64] = "";
	char times[48] = "", line[ROW_BYTES];

	if (!f->ended_ns)
		snprintf(end, sizeof(end), ", until the end");
	else
		snprintf(end, sizeof(end), ", %s after %s", f->became_usual ? "usual" : "over",
			 put_since(until, t, f->ended_ns));
	if (more)
		snprintf(times, sizeof(times), " (and %zu more such)", more);
	snprintf(line, sizeof(line), "after %s: %s%s%s", put_since(since, t, f->begun.since_ns),
		 gs_explain_text(f, text), end, times);
	put_words(page, 2, line);
}

static void put_cause(struct gs_page *page, const struct gs_findings_table *t,
		      const struct gs_explain_finding *f)
{
	char cause[GS_FINDINGS_CAUSE_BYTES], line[ROW_BYTES];

	put_words(page, 4, gs_findings_cause(f, t->file, cause));
	if (!*gs_explain_advice(f))
		return;
	snprintf(line, sizeof(line), "do: %s", gs_explain_advice(f));
	put_words(page, 4, line);
}

static void put_finding(struct gs_page *page, const struct gs_findings_table *t,
			const struct gs_explain_finding *f)
{
	char line[ROW_BYTES];

	gs_page_line(page);
	put_head(page, t, f, 0);
	put_cause(page, t, f);
	snprintf(line, sizeof(line), "%s: score %.3g, limit %.3g, medians of %u and %u",
		 f->begun.detector, f->begun.score, f->begun.limit, f->begun.n_before,
		 f->begun.n_after);
	put_words(page, 4, line);
	for (uint32_t i = 0; i < f->n_beside; i++)
		put_beside(page, f, &t->result->findings[f->beside[i]]);
}

/* As found while tracing; without the ranks that did as they should. */
static void put_hang(struct gs_page *page, const struct gs_hang_summary *h)
{
	char since[GS_FMT_BYTES], line[4352];

	gs_page_line(page);
	snprintf(line, sizeof(line), "after %s: %s", gs_fmt_ns(since, h->since_ns), h->text);
	put_words(page, 2, line);
	for (size_t i = 0; i < h->n_listed; i++) {
		const struct gs_hang_rank_summary *r = &h->ranks[i];

		if (strcmp(r->state, "arrived") == 0)
			continue;
		put_words(page, 4, r->text);
		if (*r->python) {
			snprintf(line, sizeof(line), "Python: %s", r->python);
			put_words(page, 6, line);
		}
		if (*r->native) {
			snprintf(line, sizeof(line), "native: %s", r->native);
			put_words(page, 6, line);
		}
	}
}

static void put_title(struct gs_page *page, const struct gs_findings_table *t)
{
	char findings[GS_FMT_BYTES], steps[GS_FMT_BYTES], samples[GS_FMT_BYTES], line[4352];
	size_t n = t->result->n_findings + t->summary->n_hangs;

	gs_fmt_count(findings, n);
	snprintf(line, sizeof(line), "%s: %s finding%s in %s steps and %s samples", t->file,
		 n ? findings : "no", n == 1 ? "" : "s", gs_fmt_count(steps, t->result->n_steps),
		 gs_fmt_count(samples, t->result->n_samples));
	put_words(page, 0, line);
}

static void put_all(struct gs_page *page, const struct gs_findings_table *t)
{
	put_title(page, t);
	for (size_t i = 0; i < t->summary->n_hangs; i++)
		put_hang(page, &t->summary->hangs[i]);
	for (size_t i = 0; i < t->result->n_findings; i++)
		put_finding(page, t, &t->result->findings[i]);
}

/* --- one screen of many --- */

struct group {
	const struct gs_explain_finding *f; /* the one with the highest score over its limit */
	size_t n_more;
};

/* The less, the sooner one wants to know of it. */
static int order_of(enum gs_explain_subject subject)
{
	switch (subject) {
	case GS_EXPLAIN_XID:
	case GS_EXPLAIN_PCIE:
	case GS_EXPLAIN_NVLINK:
		return 0;
	case GS_EXPLAIN_STEPS:
		return 1;
	case GS_EXPLAIN_THROTTLED:
	case GS_EXPLAIN_GPU_STATE:
		return 2;
	case GS_EXPLAIN_GPU_MEMORY:
	case GS_EXPLAIN_NODE_MEMORY:
	case GS_EXPLAIN_PROCESS:
	case GS_EXPLAIN_ALLOCATED:
		return 3;
	case GS_EXPLAIN_CALLS:
		return 5;
	default:
		return 4;
	}
}

static double weight_of(const struct gs_explain_finding *f)
{
	return f->begun.limit > 0 ? f->begun.score / f->begun.limit : f->begun.score;
}

static int compare_groups(const void *a, const void *b)
{
	const struct gs_explain_finding *x = ((const struct group *)a)->f,
					*y = ((const struct group *)b)->f;
	int order = order_of(x->subject) - order_of(y->subject);

	if (order)
		return order;
	if (weight_of(x) != weight_of(y))
		return weight_of(x) > weight_of(y) ? -1 : 1;
	return x->begun.since_ns < y->begun.since_ns ? -1 : x->begun.since_ns > y->begun.since_ns;
}

/* A cause of its own makes a finding one of its own. */
static bool is_same_kind(const struct gs_explain_finding *a, const struct gs_explain_finding *b)
{
	const char *x = a->cause.key ? a->cause.key : "", *y = b->cause.key ? b->cause.key : "";

	return a->subject == b->subject && a->begun.value == b->begun.value &&
	       strcmp(a->name, b->name) == 0 && strcmp(x, y) == 0;
}

/* Returns how many there are. */
static size_t merge_findings(const struct gs_explain_result *result, struct group *groups)
{
	size_t n = 0;

	for (size_t i = 0; i < result->n_findings; i++) {
		const struct gs_explain_finding *f = &result->findings[i];
		size_t k = 0;

		while (k < n && !is_same_kind(groups[k].f, f))
			k++;
		if (k == n) {
			groups[n++] = (struct group){.f = f};
			continue;
		}
		groups[k].n_more++;
		if (weight_of(f) > weight_of(groups[k].f))
			groups[k].f = f;
	}
	qsort(groups, n, sizeof(*groups), compare_groups);
	return n;
}

static size_t lines_in(const struct gs_pen *pen, size_t from)
{
	size_t n = 0;

	for (size_t i = from; i < pen->buf.bytes; i++)
		n += pen->buf.data[i] == '\n';
	return n;
}

/* As many groups as have room, each with its cause; the page writes into a draft. */
static void put_groups(struct gs_page *page, const struct gs_findings_table *t, size_t n_lines)
{
	GS_FREE struct group *groups = calloc(t->result->n_findings + 1, sizeof(*groups));
	size_t n = groups ? merge_findings(t->result, groups) : 0, shown = 0, n_rest = 0;
	size_t begin = page->pen->buf.bytes;
	char line[ROW_BYTES];

	gs_pen_check(page->pen, groups ? 0 : -ENOMEM);
	for (; shown < n; shown++) {
		size_t before = page->pen->buf.bytes;

		put_head(page, t, groups[shown].f, groups[shown].n_more);
		put_cause(page, t, groups[shown].f);
		/* Two lines are for what follows. */
		if (lines_in(page->pen, begin) + 2 <= n_lines)
			continue;
		page->pen->buf.bytes = before;
		break;
	}
	for (size_t i = shown; i < n; i++)
		n_rest += 1 + groups[i].n_more;
	if (n_rest)
		snprintf(line, sizeof(line), "... and %zu more findings; ", n_rest);
	else
		line[0] = '\0';
	strcat(line, "--all shows each one, in the order of time");
	put_words(page, 2, line);
}

void gs_findings_put_table(struct gs_page *page, const struct gs_findings_table *t)
{
	struct gs_pen *pen = page->pen, draft;
	struct gs_fit fit;
	size_t n;

	gs_pen_open(&draft, NULL);
	page->pen = &draft;
	put_all(page, t);
	page->pen = pen;
	n = lines_in(&draft, 0);
	if (t->all || n <= GS_FIT_SCREEN_LINES) {
		gs_pen_check(pen, draft.r);
		gs_pen_check(pen, gs_buf_put(&pen->buf, draft.buf.data, draft.buf.bytes));
		gs_pen_yield(pen);
		gs_buf_fini(&draft.buf);
		return;
	}
	gs_buf_fini(&draft.buf);
	gs_page_fit_begin(&fit, page);
	gs_page_fit_section(&fit, 3, NULL);
	put_title(page, t);
	gs_page_fit_section(&fit, N_KEEP_HANGS, "--all");
	/* The newest are the ones to look at. */
	for (size_t i = t->summary->n_hangs; i-- > 0;)
		put_hang(page, &t->summary->hangs[i]);
	gs_page_fit_section(&fit, GS_FIT_SCREEN_LINES, NULL);
	if (t->result->n_findings) {
		size_t used = lines_in(page->pen, 0), most = t->summary->n_hangs ? N_KEEP_HANGS : 0;

		gs_page_line(page);
		used = used > 3 + most ? 3 + most : used;
		put_groups(page, t, GS_FIT_SCREEN_LINES - used - 1);
	}
	gs_page_fit_end(&fit, GS_FIT_SCREEN_LINES);
}
