/* The end of a trace: its files are closed, its spans delivered, its summary and plan written. */
#include "commands/trace_output/trace_output_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "analysis/rules/trace.h"
#include "core/base/output.h"
#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "commands/trace_output/trace_budget.h"
#include "output/hang_watch/hang_watch.h"
#include "commands/trace_output/trace_head.h"
#include "commands/trace_output/trace_keep.h"
#include "commands/trace_output/trace_source.h"
#include "output/trace_export/export.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/aggregate/kernel_choose.h"
#include "pipeline/correlate/correlate.h"
#include "pipeline/ingest/ingest.h"
#include "pipeline/recording/recording.h"
#include "sources/identity/identity.h"

/* Closes one file; 0 or its error, said. */
static int close_file(struct file_output *f, bool is_quiet)
{
	struct gs_err err = {{0}};
	uint64_t left_out = 0;
	int r = 0;

	if (f->export) {
		gs_export_end(f->export);
		left_out = gs_export_left_out(f->export);
		if (gs_export_is_empty(f->export))
			gs_cli_print_message("%s shows nothing: %s", f->path,
					     gs_export_is_empty(f->export));
		r = gs_export_close(&f->export, &err);
	} else if (f->journal) {
		left_out = gs_recording_left_out(f->journal);
		r = gs_recording_close(&f->journal, &err);
	}
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	else if (left_out)
		gs_cli_print_message(
			"%s is full (--max-size): the last %llu records are not in it; the summary has them",
			f->path, (unsigned long long)left_out);
	if (r == 0 && !is_quiet)
		gs_cli_report_written(f->path, GS_CLI_OPENS_TRACE);
	return r;
}

static void report_kernels(const struct trace_output *o)
{
	uint64_t n = gs_aggregate_kernels_n_left_out(o->kernels);

	if (n && !gs_aggregate_kernels_n_chosen(o->kernels))
		gs_cli_print_message(
			"--kernel: none of %llu launches matched; --by kernel shows the names of the kernels",
			(unsigned long long)n);
}

int trace_output_end(struct trace_output *o, int exit_status, const char *reason)
{
	const char *name = NULL;
	int first, r;

	gs_ingest_end(o->feed, exit_status, reason);
	if (o->kernels)
		report_kernels(o);
	first = gs_ingest_sink_error(o->feed, &name);
	if (first < 0)
		gs_cli_print_message(
			"writing %s stopped: %s; the part written before is complete, and the summary counts all calls",
			name, strerror(-first));
	trace_output_report_pending(o);
	r = trace_keep_end(o->keep);
	if (first == 0)
		first = r;
	for (size_t i = 0; i < o->n_files; i++) {
		r = close_file(&o->files[i], o->options->quiet);
		if (first == 0)
			first = r;
	}
	return first;
}

int trace_output_deliver(struct trace_output *o)
{
	return trace_spans_close(&o->spans, o->options->quiet, trace_head_finish(&o->head));
}

int trace_output_summary(struct trace_output *o)
{
	const struct trace_options *options = o->options;
	bool to_stderr =
		options->output_to_stdout || (options->command && !options->summary_to_stdout);
	FILE *fallback = to_stderr ? stderr : stdout;
	struct gs_report_summary_style style = options->style;
	struct gs_summary *summary = NULL;
	int r = gs_aggregate_make_summary(o->view, &summary);

	if (r < 0) {
		gs_cli_print_message("no memory for the summary");
		return r;
	}
	if (o->source && trace_source_fill(o->source, summary) < 0)
		gs_cli_print_message("no memory for the text of Python lines");
	trace_stress_put_quota(&o->stress, summary);
	gs_verdict_trace(summary);
	style.layers = options->layers;
	gs_cli_summary_page(fallback, options->summary_path, options->color_auto, options->width,
			    &style);
	for (size_t i = 0; i < o->n_files; i++)
		if (!gs_export_knows(o->files[i].path))
			style.recording = o->files[i].path;
	r = gs_cli_summary_write(options->summary_path, trace_output_flags(options), fallback,
				 summary, options->format, &style);
	gs_summary_free(&summary);
	return r;
}

int trace_output_write_plan(const struct trace_output *o)
{
	const struct trace_options *options = o->options;
	const char *path = options->summary_path;
	FILE *out = options->command && !options->summary_to_stdout ? stderr : stdout;
	struct gs_output file = GS_OUTPUT_INIT;
	struct gs_err err = {{0}};
	int r = path ? gs_output_open(path, trace_output_flags(options), &file, &err) : 0;

	if (r == 0 && path)
		out = gs_output_stream(&file);
	if (r == 0)
		r = out ? trace_budget_plan(o->budget, out, options->format) : -ENOMEM;
	r = gs_output_close(&file, r, &err);
	if (r < 0)
		gs_cli_print_message("the plan: %s", gs_err_text(&err, r));
	return r;
}

void trace_output_free(struct trace_output **ref)
{
	struct trace_output *o = *ref;

	if (!o)
		return;
	for (size_t i = 0; i < o->n_files; i++) {
		if (o->files[i].export)
			gs_export_close(&o->files[i].export, NULL);
		if (o->files[i].journal)
			gs_recording_close(&o->files[i].journal, NULL);
	}
	trace_spans_abandon(&o->spans);
	trace_head_free(&o->head);
	gs_ingest_free(&o->feed);
	gs_correlate_free(&o->span);
	gs_aggregate_kernels_free(&o->kernels);
	gs_findings_free(&o->findings);
	gs_hang_watch_free(&o->hang); /* takes itself off the view */
	gs_aggregate_free(&o->view);
	trace_keep_free(&o->keep);
	trace_source_free(&o->source);
	gs_identity_free(&o->place);
	pthread_mutex_destroy(&o->lock);
	free(o);
	*ref = NULL;
}
