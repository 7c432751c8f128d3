/* Steps that were found in a run: as lines of the table and as part of the tree. */
#include "output/report/summary_step.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "model/trace/record.h"

#define GAP 2

/* Why there are none; NULL: there are. */
static const char *reason_of_none(const struct gs_summary *s)
{
	if (s->steps.n_steps)
		return NULL;
	return s->mode == GS_SESSION_EVENTS
		       ? "no call recurs at regular intervals of calls"
		       : "no call recurs regularly among those a millisecond or more apart; -o FILE records all calls";
}

/* Was the slowest longer because it had no processor for longer? By half of the difference at least. */
static bool was_off_for_longer(const struct gs_step_summary *t)
{
	return t->by_marks && t->off_ns > t->off_mean_ns &&
	       2 * (t->off_ns - t->off_mean_ns) >= t->longer_ns - t->longer_mean_ns &&
	       t->longer_ns > t->longer_mean_ns;
}

/* "; it was off the CPU for 805 ms, a mean one for 1.20 ms", or nothing. */
static void describe_off(const struct gs_step_summary *t, char out[96])
{
	char ns[GS_FMT_BYTES], mean[GS_FMT_BYTES];

	*out = 0;
	if (was_off_for_longer(t))
		snprintf(out, 96, "; it was off the CPU for %s, a mean one for %s",
			 gs_fmt_ns(ns, t->off_ns), gs_fmt_ns(mean, t->off_mean_ns));
}

static void put_longer(struct gs_page *page, const struct gs_step_summary *t)
{
	char ns[GS_FMT_BYTES], mean[GS_FMT_BYTES], off[96], text[300];

	describe_off(t, off);
	snprintf(text, sizeof(text), "the slowest spent %s %s%.80s, a mean one %s%s",
		 gs_fmt_ns(ns, t->longer_ns), *t->longer ? "in " : "outside of traced calls",
		 t->longer, gs_fmt_ns(mean, t->longer_mean_ns), off);
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_PLAIN, text);
}

static void put_all_of(struct gs_page *page, const struct gs_step_summary *t)
{
	char n[GS_FMT_BYTES], odd[GS_FMT_BYTES], time[4][GS_FMT_BYTES], text[256], others[64] = "";

	snprintf(text, sizeof(text),
		 "%s steps of thread %" PRIu32 " %.16s, each from one %.80s to the next",
		 gs_fmt_count(n, t->n_steps), t->tid, gs_report_text_of(t->comm), t->anchor);
	gs_page_rest(page, GS_INK_BOLD, text, GS_CUT_END);
	gs_page_line(page);
	if (t->n_odd)
		snprintf(others, sizeof(others), "; %s with other calls are left out",
			 gs_fmt_count(odd, t->n_odd));
	snprintf(text, sizeof(text), "median %s, p95 %s, slowest %s (%s after the start)%s",
		 gs_fmt_ns(time[0], t->median_ns), gs_fmt_ns(time[1], t->p95_ns),
		 gs_fmt_ns(time[2], t->max_ns), gs_fmt_ns(time[3], t->max_start_ns), others);
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_PLAIN, text);
	put_longer(page, t);
}

/* On the one screen there is room for two lines. */
static void put_in_short(struct gs_page *page, const struct gs_step_summary *t)
{
	char n[GS_FMT_BYTES], time[5][GS_FMT_BYTES], off[96], text[352];

	describe_off(t, off);
	snprintf(text, sizeof(text),
		 "%s steps of thread %" PRIu32
		 ": median %s, p95 %s, slowest %s (%s %s%.40s, a mean one %s%s)",
		 gs_fmt_count(n, t->n_steps), t->tid, gs_fmt_ns(time[0], t->median_ns),
		 gs_fmt_ns(time[1], t->p95_ns), gs_fmt_ns(time[2], t->max_ns),
		 gs_fmt_ns(time[3], t->longer_ns), *t->longer ? "in " : "outside of traced calls",
		 t->longer, gs_fmt_ns(time[4], t->longer_mean_ns), off);
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_PLAIN, text);
}

void gs_report_summary_step_table(struct gs_page *page, const struct gs_summary *s, bool verbose)
{
	char text[192];

	if (s->steps.n_steps && !verbose) {
		put_in_short(page, &s->steps);
	} else if (s->steps.n_steps) {
		gs_page_line(page);
		put_all_of(page, &s->steps);
	} else if (verbose && (s->mode == GS_SESSION_EVENTS || s->functions.n)) {
		snprintf(text, sizeof(text), "No steps found: %s.", reason_of_none(s));
		gs_page_line(page);
		gs_page_words(page, GS_INK_DIM, text);
	}
}

void gs_report_summary_step_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	const struct gs_step_summary *t = &s->steps;

	gs_doc_put_text(doc, "no_steps", reason_of_none(s));
	if (!t->n_steps) {
		gs_doc_put_text(doc, "steps", NULL);
		return;
	}
	gs_doc_begin_map(doc, "steps");
	gs_doc_put_u64(doc, "pid", t->pid);
	gs_doc_put_u64(doc, "tid", t->tid);
	gs_doc_put_text(doc, "comm", t->comm);
	gs_doc_put_text(doc, "begins_with", t->anchor);
	gs_doc_put_u64(doc, "count", t->n_steps);
	gs_doc_put_u64(doc, "odd", t->n_odd);
	gs_doc_put_u64(doc, "median_ns", t->median_ns);
	gs_doc_put_u64(doc, "p95_ns", t->p95_ns);
	gs_doc_put_u64(doc, "slowest_ns", t->max_ns);
	gs_doc_put_u64(doc, "slowest_start_ns", t->max_start_ns);
	gs_doc_put_text(doc, "longer", *t->longer ? t->longer : NULL);
	gs_doc_put_u64(doc, "longer_ns", t->longer_ns);
	gs_doc_put_u64(doc, "longer_mean_ns", t->longer_mean_ns);
	gs_doc_put_u64_if(doc, "off_cpu_ns", t->off_ns, t->by_marks);
	gs_doc_put_u64_if(doc, "off_cpu_mean_ns", t->off_mean_ns, t->by_marks);
	gs_doc_end(doc);
}
