/* gpuscope report TRACE.json -o FILE.gst, and SESSION.json. */
#include "commands/report/report_import.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "core/base/mem.h"
#include "model/node/record.h"
#include "pipeline/kineto/kineto.h"
#include "pipeline/recording/recording.h"
#include "pipeline/session_file/session_file.h"

#define RECORDS_MAX (8u << 20) /* of one snapshot */

bool cmd_is_import(const char *output)
{
	size_t n = strlen(output);

	return n > 4 && strcmp(output + n - 4, ".gst") == 0;
}

void cmd_hint_import(const char *path)
{
	GS_FCLOSE FILE *file = fopen(path, "re");
	int c = file ? getc(file) : EOF;

	/* No recording begins with a letter or a bracket. */
	if (c != EOF && (isprint(c) || isspace(c)) && !cmd_is_import(path))
		gs_cli_print_message(
			"a trace of PyTorch's profiler or of eACGM, or a session, becomes a recording by `gpuscope report %s -o FILE.gst`; a job report is for --compare",
			path);
}

static void report_stats(const char *trace, const struct gs_kineto_stats *s)
{
	gs_cli_print_message("%s: %llu calls and %llu operations of GPUs", trace,
			     (unsigned long long)s->n_calls, (unsigned long long)s->n_gpu_work);
	if (s->n_bad || s->n_left_out)
		gs_cli_print_message(
			"%s: %llu events have no name or time, %llu were left out: too many", trace,
			(unsigned long long)s->n_bad, (unsigned long long)s->n_left_out);
	if (s->n_unpaired)
		gs_cli_print_message("%s: %llu begin or end events have no counterpart", trace,
				     (unsigned long long)s->n_unpaired);
}

static int import_trace(FILE *file, const char *trace, const struct gs_sink *sink,
			struct gs_err *err)
{
	struct gs_kineto_stats stats = {0};
	int r = gs_kineto_read(file, trace, sink, &stats, err);

	if (r == 0)
		report_stats(trace, &stats);
	return r;
}

/* --- sessions --- */

struct session_import {
	const struct gs_sink *sink; /* lent */
	const char *file;           /* its name */
	struct gs_buf records;
	uint64_t last_ns; /* 0: nothing has come yet */
};

static int push_records(struct session_import *in)
{
	struct gs_batch batch = {in->records.data, in->records.bytes};
	int r = in->sink->push(in->sink->ctx, &batch);

	gs_buf_reset(&in->records);
	return r;
}

static int take_snapshot(void *ctx, const struct gs_node_snapshot *snapshot)
{
	struct session_import *in = ctx;
	struct gs_recording_samples about = {
		.start_ns = snapshot->time_ns, .host = snapshot->name, .command = in->file};
	int r = in->last_ns ? 0 : gs_recording_put_samples_begin(&in->records, &about);

	/* Local times may go back. */
	if (snapshot->time_ns > in->last_ns)
		in->last_ns = snapshot->time_ns;
	if (r == 0)
		r = gs_node_encode(&in->records, snapshot);
	return r < 0 ? r : push_records(in);
}

static void report_session(const char *file, const struct gs_session_file_stats *s)
{
	char away[64] = "";

	if (s->n_absent)
		snprintf(away, sizeof(away), "; %llu were missing in it",
			 (unsigned long long)s->n_absent);
	gs_cli_print_message("%s: %llu samples of GPUs in %llu frames%s", file,
			     (unsigned long long)s->n_samples, (unsigned long long)s->n_frames,
			     away);
	cmd_report_swapped(file, s);
}

void cmd_report_swapped(const char *file, const struct gs_session_file_stats *s)
{
	if (s->n_foreign)
		gs_cli_print_message(
			"%s: written by gswarm-profiler, which swaps PCIe rx and tx: they are corrected",
			file);
}

static int import_session(FILE *file, const char *name, const struct gs_sink *sink,
			  struct gs_err *err)
{
	struct session_import in = {
		.sink = sink, .file = name, .records = GS_BUF_INIT(RECORDS_MAX)};
	struct gs_session_file_stats stats;
	int r = gs_session_file_read(file, take_snapshot, &in, &stats, err);

	if (r == 0 && !in.last_ns)
		r = gs_err_set(err, -ENODATA, "no GPU has a sample in it");
	if (r == 0)
		r = gs_recording_put_samples_end(&in.records, in.last_ns);
	if (r == 0)
		r = push_records(&in);
	gs_buf_fini(&in.records);
	if (r == 0)
		report_session(name, &stats);
	return r;
}

int cmd_import_trace(const char *trace, const char *output)
{
	GS_FCLOSE FILE *file = fopen(trace, "re");
	struct gs_recording *recording = NULL;
	struct gs_err err = {{0}}, close_err = {{0}};
	bool is_session;
	int closed, r;

	if (!file) {
		r = -errno;
		gs_cli_print_message("cannot open %s: %s", trace, strerror(-r));
		return r;
	}
	r = gs_recording_create(output, NULL, &recording, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return r;
	}
	is_session = gs_session_file_is_one(file);
	if (is_session)
		r = import_session(file, trace, gs_recording_sink(recording), &err);
	else
		r = import_trace(file, trace, gs_recording_sink(recording), &err);
	closed = gs_recording_close(&recording, &close_err);
	if (r == 0 && closed < 0)
		err = close_err;
	if (r < 0 || closed < 0) {
		r = r < 0 ? r : closed;
		gs_cli_print_message("cannot import %s: %s", trace, gs_err_text(&err, r));
		(void)unlink(output);
		return r;
	}
	if (is_session)
		gs_cli_report_samples_written(output);
	else
		gs_cli_report_written(output, NULL);
	return 0;
}
