/*
 * A recorded run, or a comparison of several, as one file for people: HTML, or PDF. HTML needs no other file: the summary as JSON in a page that draws it
 * (web/report.html, web/run.js), findings, and an excerpt of the timeline. Its size is bounded: each list
 * has its most expensive rows, and how many are left out is in it. Nothing of it is markup that a traced
 * program chose: all texts are JSON, and the page's own policy lets no other script run.
 */
#ifndef GS_OUTPUT_RUN_PAGE_RUN_PAGE_H
#define GS_OUTPUT_RUN_PAGE_RUN_PAGE_H

#include <stdio.h>

#include "analysis/run_compare/run_compare.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/text/doc.h"
#include "model/summary/summary.h"
#include "model/trace/record.h"

/* --- an excerpt of the timeline --- */

#define GS_RUN_PAGE_SPANS_MAX  6000 /* more are counted */
#define GS_RUN_PAGE_TRACKS_MAX 24

/* Calls and waits of threads, and work of GPUs by its own times, between two times. */
struct gs_run_page_timeline;

/* Times in ns from the start of the recording. 0 or -ENOMEM. */
int gs_run_page_new_timeline(uint64_t from_ns, uint64_t to_ns, struct gs_run_page_timeline **ret);
void gs_run_page_free_timeline(struct gs_run_page_timeline **timeline);

/* Records of the whole recording, lent for the call. 0, -EINVAL for a bad id, or -ENOMEM. */
int gs_run_page_push(struct gs_run_page_timeline *timeline, const struct gs_batch *batch);

/* --- the page --- */

struct gs_run_page {
	const char *file;                            /* its recording */
	const struct gs_run_page_timeline *timeline; /* NULL: none */
	/* As in struct gs_report_summary_style: findings. NULL: none. */
	void (*put_more)(void *ctx, struct gs_doc *doc);
	void *more_ctx;              /* of it */
	const char *const *findings; /* as lines of text, for the PDF */
	size_t n_findings;
};

/* 0 or a negative errno of writing, or -ENOMEM. */
int gs_run_page_write(FILE *out, const struct gs_summary *summary, const struct gs_run_page *page);

/* Likewise as a PDF of A4 pages, without the timeline. -ENOPKG: cairo is not here; else as
 * gs_plot_close_document(). */
int gs_run_page_write_pdf(struct gs_buf *out, const struct gs_summary *summary,
			  const struct gs_run_page *page, struct gs_err *err);

/* Comparisons of runs, as a page and as a PDF likewise. All items are in the page; a PDF has the first rows of each kind. */
int gs_run_page_write_comparison(FILE *out, const struct gs_run_compare_result *results, size_t n);
int gs_run_page_write_comparison_pdf(struct gs_buf *out,
				     const struct gs_run_compare_result *results, size_t n,
				     struct gs_err *err);

#endif
