/*
 * The verdict block: what was slow, why, what to do about it, and which command shows more. Both
 * `trace` and `job` begin with it; here is the only place that knows how it looks.
 */
#include "core/text/verdict.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define GAP 2

static void put_verdict_line(struct gs_page *page, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	gs_page_gap(page, GAP);
	gs_page_left(page, GS_INK_DIM, key, 6, GS_CUT_END);
	gs_page_words(page, GS_INK_PLAIN, text);
}

void gs_text_verdict_table(struct gs_page *page, const struct gs_verdict_text *v)
{
	const char *title = v->title ? v->title : "";
	char head[256];

	if (!v->class_name)
		return;
	if (v->is_unknown)
		snprintf(head, sizeof(head), "No verdict: %s", title);
	else if (v->share >= 0)
		snprintf(head, sizeof(head), "Verdict: %s (%.0f %% of wall time, confidence %.1f)",
			 title, 100 * v->share, v->confidence);
	else
		snprintf(head, sizeof(head), "Verdict: %s", title);
	gs_page_rest(page, GS_INK_BOLD, head, GS_CUT_END);
	gs_page_line(page);
	put_verdict_line(page, "why", v->evidence);
	put_verdict_line(page, "do", v->advice);
	put_verdict_line(page, "more", v->command);
	gs_page_line(page);
}

static double verdict_thousandths(double v)
{
	return (double)(int64_t)(v * 1000 + 0.5) / 1000;
}

void gs_text_verdict_doc(struct gs_doc *doc, const struct gs_verdict_text *v)
{
	if (!v->class_name) {
		gs_doc_put_text(doc, "verdict", NULL);
		return;
	}
	gs_doc_begin_map(doc, "verdict");
	gs_doc_put_text(doc, "class", v->class_name);
	gs_doc_put_text(doc, "title", v->title);
	gs_doc_put_double(doc, "share", v->share >= 0 ? verdict_thousandths(v->share) : NAN);
	gs_doc_put_double(doc, "confidence",
			  v->is_unknown ? NAN : verdict_thousandths(v->confidence));
	gs_doc_put_text(doc, "evidence", v->evidence);
	gs_doc_put_text(doc, "advice", v->advice);
	gs_doc_put_text(doc, "see", v->command);
	gs_doc_end(doc);
}
