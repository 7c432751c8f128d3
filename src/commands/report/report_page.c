/*
 * gpuscope report -o FILE.html, FILE.pdf. The recording is read twice: for its summary and findings, and, since
 * which step was the slowest is known then, once more for an excerpt of the timeline around that.
 */
#include "commands/report/report_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/rules/trace.h"
#include "commands/common/cli.h"
#include "output/findings/findings.h"
#include "commands/report/damage.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "output/run_page/run_page.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/recording/recording.h"

#define EXCERPT_NS    100000000ull /* of a run without steps */
#define FINDINGS_MAX  50           /* in a PDF */
#define FINDING_BYTES 800

struct page {
	const char *recording;
	struct gs_aggregate *view;    /* owned, like the following */
	struct gs_findings *findings; /* of the view's steps */
	struct gs_summary *summary;
	struct gs_run_page_timeline *timeline;
	struct gs_explain_result result; /* of the findings, which it is lent by */
};

static bool ends_in(const char *output, const char *suffix)
{
	size_t n = strlen(output), bytes = strlen(suffix);

	return n > bytes && strcmp(output + n - bytes, suffix) == 0;
}

bool cmd_is_page(const char *output)
{
	return ends_in(output, ".html") || ends_in(output, ".pdf");
}

static int read_summary(struct page *p, struct gs_err *err)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_recording_stats stats;
	struct gs_batch batch;
	int r = gs_recording_open(p->recording, &reader, err);

	if (r == 0)
		r = gs_aggregate_new(&p->view);
	if (r == 0)
		r = gs_findings_new(p->view, &p->findings);
	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0) {
		r = gs_aggregate_sink(p->view)->push(gs_aggregate_sink(p->view)->ctx, &batch);
		if (r == 0)
			r = gs_findings_push(p->findings, &batch);
	}
	r = r > 0 ? 0 : r;
	if (r == 0) {
		gs_recording_stats(reader, &stats);
		cmd_report_damage(p->recording, &stats);
		r = gs_aggregate_make_summary(p->view, &p->summary);
	}
	if (r == 0)
		r = gs_findings_finish(p->findings, p->summary->steps.slot, p->summary->steps.run,
				       &p->result);
	if (r == 0)
		gs_verdict_trace(p->summary);
	gs_recording_reader_close(&reader);
	return r;
}

/* The slowest step and one before and after it; without steps the middle of the run. */
static void choose_excerpt(const struct gs_summary *s, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	uint64_t around_ns = s->steps.median_ns, half_ns = EXCERPT_NS / 2;

	if (s->steps.n_steps) {
		*ret_from_ns =
			s->steps.max_start_ns > around_ns ? s->steps.max_start_ns - around_ns : 0;
		*ret_to_ns = s->steps.max_start_ns + s->steps.max_ns + around_ns;
		return;
	}
	*ret_from_ns = s->duration_ns / 2 > half_ns ? s->duration_ns / 2 - half_ns : 0;
	*ret_to_ns = *ret_from_ns + EXCERPT_NS;
}

static int read_timeline(struct page *p, struct gs_err *err)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_batch batch;
	uint64_t from_ns, to_ns;
	int r;

	choose_excerpt(p->summary, &from_ns, &to_ns);
	r = gs_run_page_new_timeline(from_ns, to_ns, &p->timeline);
	if (r == 0)
		r = gs_recording_open(p->recording, &reader, err);
	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0)
		r = gs_run_page_push(p->timeline, &batch);
	gs_recording_reader_close(&reader);
	return r < 0 ? r : 0;
}

static void put_findings(void *ctx, struct gs_doc *doc)
{
	struct page *p = ctx;

	gs_findings_put(doc, p->findings, &p->result, p->recording);
}

/* Each as a line of text; borrowed from texts. */
static const char **list_findings(const struct page *p, char (**ret_texts)[FINDING_BYTES],
				  size_t *ret_n)
{
	size_t n = p->result.n_findings < FINDINGS_MAX ? p->result.n_findings : FINDINGS_MAX;
	const char **lines = calloc(n + 1, sizeof(*lines));
	char what[GS_EXPLAIN_TEXT_BYTES], why[GS_FINDINGS_CAUSE_BYTES], since[GS_FMT_BYTES];
	uint64_t start_ns = gs_findings_start_ns(p->findings);

	*ret_texts = calloc(n + 1, sizeof(**ret_texts));
	*ret_n = lines && *ret_texts ? n : 0;
	for (size_t i = 0; i < *ret_n; i++) {
		const struct gs_explain_finding *f = &p->result.findings[i];
		uint64_t since_ns = f->begun.since_ns;

		snprintf((*ret_texts)[i], FINDING_BYTES, "After %s: %s; %s",
			 gs_fmt_ns(since, since_ns > start_ns ? since_ns - start_ns : 0),
			 gs_explain_text(f, what), gs_findings_cause(f, NULL, why));
		lines[i] = (*ret_texts)[i];
	}
	return lines;
}

static int write_pdf(const struct page *p, FILE *out, struct gs_run_page *page, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf pdf = GS_BUF_INIT(64u << 20);
	GS_FREE char(*texts)[FINDING_BYTES] = NULL;
	GS_FREE const char **lines = list_findings(p, &texts, &page->n_findings);
	int r;

	page->findings = lines;
	r = gs_run_page_write_pdf(&pdf, p->summary, page, err);
	if (r == 0 && fwrite(pdf.data, 1, pdf.bytes, out) != pdf.bytes)
		r = -EIO;
	return r;
}

static int write_file(struct page *p, const char *output, struct gs_err *err)
{
	struct gs_run_page page = {.file = p->recording,
				   .timeline = p->timeline,
				   .put_more = put_findings,
				   .more_ctx = p};
	struct gs_output file = GS_OUTPUT_INIT;
	struct stat st;
	/* What was for one user's eyes stays so. */
	bool is_private = stat(p->recording, &st) == 0 && !(st.st_mode & 077);
	int r = gs_output_open(output, is_private ? GS_OUTPUT_PRIVATE : 0, &file, err);
	FILE *out = r == 0 ? gs_output_stream(&file) : NULL;

	if (r == 0 && !out)
		r = -ENOMEM;
	if (r == 0)
		r = ends_in(output, ".pdf") ? write_pdf(p, out, &page, err)
					    : gs_run_page_write(out, p->summary, &page);
	return gs_output_close(&file, r, err);
}

int cmd_write_page(const char *recording, const char *output)
{
	struct page p = {.recording = recording};
	struct gs_err err = {{0}};
	int r = read_summary(&p, &err);

	if (r == 0 && p.summary->mode == GS_SESSION_SAMPLES)
		r = gs_err_set(
			&err, -ENODATA,
			"%s is not written, as it would be empty: %s has samples and no calls; --plot FIGURE.svg draws them",
			output, recording);
	if (r == 0)
		r = read_timeline(&p, &err);
	if (r < 0 && !err.text[0])
		gs_err_set(&err, r, "cannot read %s: %s", recording, strerror(-r));
	if (r == 0) {
		r = write_file(&p, output, &err);
		if (r < 0 && !err.text[0])
			gs_err_set(&err, r, "cannot write %s: %s", output, strerror(-r));
	}
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	else
		gs_cli_report_written(output, NULL);
	gs_run_page_free_timeline(&p.timeline);
	gs_summary_free(&p.summary);
	gs_findings_free(&p.findings);
	gs_aggregate_free(&p.view);
	return r;
}
