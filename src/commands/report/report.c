/* gpuscope report: reads a .gst file back and shows its summary, or writes it in another format. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/rules/trace.h"
#include "core/base/fmt.h"
#include "core/base/map.h"
#include "commands/common/cli.h"
#include "output/findings/findings.h"
#include "commands/common/shared.h"
#include "commands/common/spans.h"
#include "commands/common/summary.h"
#include "commands/report/damage.h"
#include "commands/report/report_compare.h"
#include "commands/report/report_import.h"
#include "commands/report/report_page.h"
#include "output/trace_export/export.h"
#include "commands/job/job_compare.h"
#include "pipeline/recording/recording.h"
#include "core/text/text.h"
#include "model/node/record.h"
#include "output/plot/plot.h"
#include "pipeline/correlate/python_glob.h"
#include "pipeline/aggregate/kernel_choose.h"
#include "pipeline/aggregate/under.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define COMPARE_MAX      4096
#define LINE_FILTERS_MAX 32
#define KERNELS_MAX      32
#define OUTPUTS_MAX      4 /* as of trace */
#define BASES_MAX        32

struct report_options {
	const char *path;
	const char *outputs[OUTPUTS_MAX]; /* files to convert it into; none: only the summary */
	size_t n_outputs;
	const char *pages[OUTPUTS_MAX]; /* of them, .html and .pdf */
	size_t n_pages;
	const char *import; /* the output that is a .gst; NULL: none */
	bool compare;
	struct compare_from from; /* of --compare: a head */
	const char *plot;         /* NULL: no figure */
	unsigned panels;
	char *reports[COMPARE_MAX];     /* of --compare; borrowed from argv */
	size_t n_reports, n_recordings; /* of them */
	char *bases[BASES_MAX];         /* --base; borrowed from argv */
	size_t n_bases;
	const char *format_name;
	enum gs_flame_by flame_by;
	bool flame_by_given;
	struct gs_py_glob within[GS_PY_GLOB_MAX];
	size_t n_within;
	const char *line_filters[LINE_FILTERS_MAX]; /* --python-filter */
	size_t n_line_filters;
	const char *kernels[KERNELS_MAX]; /* --kernel; none: all */
	size_t n_kernels;
	enum gs_report_summary_format format;
	struct gs_report_summary_style style;
	bool top_given;
	int width; /* --width; -1: as the terminal */
	struct gs_activity_config stream_limits;
};

static bool names_twice(const char *const *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(paths[i], paths[j]) == 0)
				return true;
	return false;
}

/* What one recording is written into. */
static const char *find_output_conflict(const struct report_options *o)
{
	bool is_flame = false;

	if (o->n_reports > 1)
		return "one file at a time (--compare takes several)";
	if (o->import && (o->n_outputs || o->n_pages || o->format_name))
		return "-o FILE.gst imports a trace of another profiler, or a session: convert or print the recording afterwards";
	if (o->import && cmd_is_recording(o->reports[0]))
		return "this is a recording already: -o FILE.gst imports traces of other profilers, and sessions";
	for (size_t i = 0; i < o->n_outputs; i++) {
		if (!gs_export_knows(o->outputs[i]) && !gs_cli_spans_knows(o->outputs[i]))
			return "--output takes a file ending in one of .html, .pdf, " GS_EXPORT_SUFFIXES
			       ", " GS_CLI_SPANS_TAKES;
		is_flame |= gs_export_is_flame(o->outputs[i]);
	}
	if (names_twice(o->outputs, o->n_outputs) || names_twice(o->pages, o->n_pages))
		return "-o names the same file twice";
	if (o->n_pages && (o->n_within || o->n_kernels))
		return "a page shows all of a run: --within and --kernel are for summaries and other files";
	if (o->flame_by_given && !is_flame)
		return "--flame is for flame graphs: add -o FILE.svg or -o FILE.folded";
	return NULL;
}

/* What goes with one file of calls and with reports of jobs differs: the text for the user. */
static const char *find_conflict(const struct report_options *o)
{
	bool chooses = o->from.user || o->from.name || o->from.job || o->from.last;
	bool has_head = o->from.remote.head != NULL;

	if (!o->n_reports && !(o->compare && has_head))
		return o->compare ? "which reports? give files or --head, or set GPUSCOPE_HEAD"
				  : "which .gst file?";
	if (!o->compare && (has_head || chooses))
		return "--head and its options are for --compare";
	if (o->n_bases && !o->compare)
		return "--base is for --compare";
	if (o->n_recordings && (has_head || o->n_recordings < o->n_reports + o->n_bases))
		return "--compare takes either recordings or job reports, not both";
	if (o->n_bases && !o->n_recordings)
		return "--base takes recordings; job reports are compared with each other";
	if (!has_head && chooses)
		return "--user, --name, --job-id and --last select reports from --head";
	if (o->compare && o->plot)
		return "--compare and --plot exclude each other";
	if (o->panels && !o->plot)
		return "--panels is for --plot";
	if (o->plot && (o->n_outputs || o->n_pages || o->format_name))
		return "--plot writes a figure: -o and --format are for summaries";
	if (o->compare && o->n_outputs > 1)
		return "--compare writes one file: give -o once";
	if (o->compare || o->plot)
		return NULL;
	return find_output_conflict(o);
}

/* A page is no conversion of the recording, nor is what becomes one. */
static void take_pages(struct report_options *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_outputs; i++)
		if (cmd_is_page(o->outputs[i]))
			o->pages[o->n_pages++] = o->outputs[i];
		else if (cmd_is_import(o->outputs[i]))
			o->import = o->outputs[i];
		else
			o->outputs[n++] = o->outputs[i];
	o->n_outputs = n;
}

static int check_options(void *target, struct gs_err *err)
{
	struct report_options *o = target;
	const char *conflict;

	for (size_t i = 0; o->compare && i < o->n_reports; i++)
		o->n_recordings += cmd_is_recording(o->reports[i]);
	for (size_t i = 0; o->compare && i < o->n_bases; i++)
		o->n_recordings += cmd_is_recording(o->bases[i]);
	if (!o->compare)
		take_pages(o);
	if (o->compare && !o->n_reports &&
	    remote_head_from_environment(&o->from.remote.head, err) < 0)
		return -EINVAL;
	conflict = find_conflict(o);
	if (conflict)
		return gs_err_set(err, -EINVAL, "%s", conflict);
	if (!o->compare && !o->plot)
		o->path = o->reports[0];
	if (o->path && o->format_name &&
	    gs_report_summary_format_parse(o->format_name, &o->format) < 0)
		return gs_err_set(err, -EINVAL,
				  "--format takes table, json, csv or yaml, not \"%s\"",
				  o->format_name);
	return 0;
}

static int add_report(void *target, char **words, struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_reports == COMPARE_MAX)
		return gs_err_set(err, -EINVAL, "at most %d files", COMPARE_MAX);
	o->reports[o->n_reports++] = words[0];
	return 0;
}

static int add_base(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_bases == BASES_MAX)
		return gs_err_set(err, -EINVAL, "--base: at most %d files", BASES_MAX);
	o->bases[o->n_bases++] = argument;
	return 0;
}

static int add_glob(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_within == GS_PY_GLOB_MAX)
		return -EINVAL;
	return gs_correlate_parse_py_glob(argument, &o->within[o->n_within++]);
}

static int add_kernel(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_kernels == KERNELS_MAX)
		return -EINVAL;
	o->kernels[o->n_kernels++] = argument;
	return 0;
}

static int add_filter(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_line_filters == LINE_FILTERS_MAX)
		return -EINVAL;
	o->line_filters[o->n_line_filters++] = argument;
	return 0;
}

static int add_panel(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	unsigned panel = gs_plot_panel_by_name(argument);

	((struct report_options *)target)->panels |= panel;
	return panel ? 0 : -EINVAL;
}

static int set_output(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct report_options *o = target;

	if (o->n_outputs == OUTPUTS_MAX)
		return gs_err_set(err, -EINVAL, "-o: at most %d files", OUTPUTS_MAX);
	o->outputs[o->n_outputs++] = argument;
	return 0;
}

static int set_flame(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	return gs_flame_by_parse(argument, &((struct report_options *)target)->flame_by);
}

static int set_plot(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	((struct report_options *)target)->plot = argument;
	return gs_plot_knows(argument) ? 0 : -EINVAL;
}

static int set_threads(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	((struct report_options *)target)->style.view = GS_SUMMARY_THREADS;
	return 0;
}

/* Samples of GPUs, machine and processes in the file, which no summary of calls shows. */
struct samples {
	uint64_t n_snapshots;
	int64_t first_ns, last_ns; /* wall: each machine's boot clock is its own */
	uint64_t n_gpus;           /* of the last snapshots of all machines */
	uint32_t n_processes;      /* on GPUs of a machine, the most at once */
	struct gs_map gpus;        /* of each machine, by the hash of its name */
	char host[GS_HOST_NAME_BYTES];
};

static void count_samples(struct samples *s, const struct gs_batch *batch)
{
	gs_records_for_each (batch, r) {
		const struct gs_rec_host_sample *h = (const void *)r;
		uint64_t before = 0, key;
		size_t n;

		if (r->kind != GS_REC_HOST_SAMPLE)
			continue;
		if (!s->n_snapshots++ || h->wall_ns < s->first_ns)
			s->first_ns = h->wall_ns;
		if (h->wall_ns > s->last_ns)
			s->last_ns = h->wall_ns;
		if (h->n_gpu_processes > s->n_processes)
			s->n_processes = h->n_gpu_processes;
		n = h->text_bytes[GS_TEXT_HOST_NAME];
		if (n < sizeof(s->host) && n <= r->bytes - sizeof(*h)) {
			memcpy(s->host, h + 1, n);
			s->host[n] = '\0';
		}
		key = gs_hash_bytes(s->host, strlen(s->host));
		(void)gs_map_get(&s->gpus, key, &before);
		if (gs_map_put(&s->gpus, key, h->n_gpus) == 0)
			s->n_gpus += h->n_gpus - before;
	}
}

/* The whole of it when there is nothing but samples; else a line of its own beside the summary. */
static void report_samples(const struct report_options *o, const struct samples *s, bool only)
{
	FILE *out = only && o->format == GS_SUMMARY_TABLE ? stdout : stderr;
	GS_CLEANUP(gs_buf_fini) struct gs_buf host = GS_BUF_INIT(1024);
	char age[GS_FMT_BYTES];

	if (s->gpus.n_used > 1) {
		char nodes[32];

		snprintf(nodes, sizeof(nodes), "%zu nodes", s->gpus.n_used);
		(void)gs_buf_put(&host, nodes, strlen(nodes));
	} else if (gs_text_line(&host, s->host) < 0) {
		return;
	}
	if (gs_buf_put(&host, "", 1) < 0)
		return;
	fprintf(out,
		"%s%s: %llu samples of %s over %s: %llu GPU%s, at most %u processes on %s; `gpuscope top --replay %s` shows them\n",
		out == stderr ? "gpuscope: " : "", o->path, (unsigned long long)s->n_snapshots,
		host.bytes > 1 ? (const char *)host.data : "a machine",
		gs_fmt_ns(age, (uint64_t)(s->last_ns - s->first_ns)), (unsigned long long)s->n_gpus,
		s->n_gpus == 1 ? "" : "s", s->n_processes,
		s->gpus.n_used > 1 ? "those of one" : "them", o->path);
}

/* Who is under which function is known when the whole file has been read. */
static int collect_under(const char *path, struct gs_aggregate_under *under)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_err err = {{0}};
	struct gs_batch batch;
	int r = gs_recording_open(path, &reader, &err);

	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0)
		r = gs_aggregate_under_scan(under, &batch);
	gs_recording_reader_close(&reader);
	if (r < 0 && !err.text[0])
		gs_err_set(&err, r, "cannot read %s: %s", path, strerror(-r));
	if (r < 0)
		gs_cli_print_message("%s", err.text);
	return r < 0 ? r : 0;
}

/* What of a file is shown; NULL: of that kind all. */
struct choice {
	struct gs_aggregate_under *under;
	struct gs_aggregate_kernels *kernels;
};

static int choose_records(const struct choice *choice, struct gs_batch *batch)
{
	int r = choice->under ? gs_aggregate_under_choose(choice->under, batch, batch) : 0;

	if (r == 0 && choice->kernels)
		r = gs_aggregate_kernels_choose(choice->kernels, batch, batch);
	return r;
}

/* The files that are written, and spans. */
struct report_files {
	struct gs_export *at[OUTPUTS_MAX]; /* owned */
	const char *paths[OUTPUTS_MAX];
	size_t n;
	struct gs_cli_spans *spans[OUTPUTS_MAX]; /* owned */
	size_t n_spans;
};

static int push_files(const struct report_files *files, const struct gs_batch *batch)
{
	int r = 0;

	for (size_t i = 0; i < files->n && r == 0; i++) {
		const struct gs_sink *file = gs_export_sink(files->at[i]);

		r = file->push(file->ctx, batch);
		if (r < 0)
			gs_cli_print_message("cannot write %s: %s", files->paths[i], strerror(-r));
	}
	return r;
}

static int replay_file(const struct report_options *o, struct gs_recording_reader *reader,
		       const struct choice *choice, const struct gs_sink *view,
		       const struct report_files *files, struct samples *samples)
{
	struct gs_batch batch;
	int r;

	while ((r = gs_recording_next(reader, &batch)) == 0) {
		count_samples(samples, &batch);
		r = choose_records(choice, &batch);
		if (r == 0)
			r = view->push(view->ctx, &batch);
		if (r == 0)
			r = push_files(files, &batch);
		if (r < 0)
			return r;
	}
	if (r < 0)
		gs_cli_print_message("cannot read %s: %s", o->path, strerror(-r));
	return r < 0 ? r : 0;
}

static void report_under(const struct report_options *o, const struct gs_aggregate_under *under)
{
	if (!gs_aggregate_under_n_chosen(under))
		gs_cli_print_message(
			"%s: nothing ran under these functions: their calls were not traced (--python-calls), and no Python stack contains them (--python-at, --python-hz)",
			o->path);
	if (gs_aggregate_under_n_added_up(under))
		gs_cli_print_message(
			"%s: %llu calls were added up in the kernel and are left out: some may have been under these functions",
			o->path, (unsigned long long)gs_aggregate_under_n_added_up(under));
}

static void report_kernels(const struct report_options *o,
			   const struct gs_aggregate_kernels *kernels)
{
	if (!gs_aggregate_kernels_n_chosen(kernels))
		gs_cli_print_message(
			"%s: none of its %llu launches matches; --by kernel shows the names of the kernels",
			o->path, (unsigned long long)gs_aggregate_kernels_n_left_out(kernels));
}

/* Findings beside a summary that is data, and spans. */
struct report_findings {
	const struct report_files *files;
	struct gs_findings *findings; /* owned; NULL: not wanted */
	const struct gs_sink *view;   /* whose steps they are of */
	const char *path;
	struct gs_explain_result result;
};

static int push_both(void *ctx, const struct gs_batch *batch)
{
	struct report_findings *f = ctx;
	int r = 0;

	for (size_t i = 0; i < f->files->n_spans && r == 0; i++) {
		const struct gs_sink *spans = gs_cli_spans_sink(f->files->spans[i]);

		r = spans->push(spans->ctx, batch);
	}
	if (r == 0)
		r = f->view->push(f->view->ctx, batch);
	return r == 0 && f->findings ? gs_findings_push(f->findings, batch) : r;
}

static void put_findings(void *ctx, struct gs_doc *doc)
{
	struct report_findings *f = ctx;

	gs_findings_put(doc, f->findings, &f->result, f->path);
}

/* They come of a recording: the parent is that of this command. */
static int begin_spans(const struct report_options *o, struct gs_aggregate *view,
		       struct report_files *files)
{
	struct gs_err err = {{0}};
	struct stat st;
	int r = 0;

	for (size_t i = 0; i < o->n_outputs && r == 0; i++) {
		if (!gs_cli_spans_knows(o->outputs[i]))
			continue;
		r = gs_cli_spans_open(o->outputs[i], getenv("TRACEPARENT"),
				      o->path && stat(o->path, &st) == 0 && !(st.st_mode & 077),
				      view, &files->spans[files->n_spans], &err);
		files->n_spans += r == 0;
	}
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	return r;
}

static int close_spans(struct report_files *files)
{
	int r = 0;

	for (size_t i = 0; i < files->n_spans; i++) {
		int closed = gs_cli_spans_close(&files->spans[i], false);

		r = r < 0 ? r : closed;
	}
	return r;
}

/* Of a part of the calls nothing follows. */
static int begin_findings(const struct report_options *o, struct gs_aggregate *view,
			  struct report_findings *f)
{
	bool is_data = o->format == GS_SUMMARY_JSON || o->format == GS_SUMMARY_YAML;

	return is_data && o->format_name && !o->n_within && !o->n_kernels
		       ? gs_findings_new(view, &f->findings)
		       : 0;
}

/* After the last record: what the summary is written with. 0 or -ENOMEM. */
static int finish_findings(struct report_findings *f, const struct gs_summary *summary,
			   struct gs_report_summary_style *style)
{
	if (!f->findings)
		return 0;
	style->put_more = put_findings;
	style->more_ctx = f;
	return gs_findings_finish(f->findings, summary->steps.slot, summary->steps.run, &f->result);
}

static void take_span(void *ctx, const struct gs_activity_span *span)
{
	const struct report_files *files = ctx;

	for (size_t i = 0; i < files->n; i++)
		gs_export_take_span(files->at[i], span);
}

static int begin_view(const struct report_options *o, struct report_files *files,
		      struct gs_aggregate **ret_view)
{
	bool no_filter = o->n_line_filters == 1 && strcmp(o->line_filters[0], "none") == 0;
	int r = gs_aggregate_new(ret_view);

	if (r == 0)
		r = gs_activity_set_bounds(gs_aggregate_activity(*ret_view), &o->stream_limits);
	if (r == 0 && files->n)
		gs_activity_set_sink(gs_aggregate_activity(*ret_view), take_span, files);
	if (r == 0 && o->n_line_filters)
		r = gs_aggregate_set_line_filter(*ret_view, o->line_filters,
						 no_filter ? 0 : o->n_line_filters);
	return r;
}

/* *ret_samples: the file has samples. */
static int run_report(const struct report_options *o, struct gs_recording_reader *reader,
		      struct report_files *files, bool *ret_samples)
{
	struct gs_report_summary_style style = o->style;
	struct gs_summary *summary = NULL;
	struct gs_recording_stats stats;
	struct samples samples = {.gpus = GS_MAP_INIT(1u << 20)};
	struct gs_aggregate_under *under =
		o->n_within ? gs_aggregate_under_new(o->within, o->n_within) : NULL;
	struct choice choice = {
		.under = under,
		.kernels =
			o->n_kernels ? gs_aggregate_kernels_new(o->kernels, o->n_kernels) : NULL};
	struct gs_aggregate *view = NULL;
	struct report_findings findings = {.path = o->path, .files = files};
	const struct gs_sink both = {.push = push_both, .ctx = &findings};
	bool only_samples;
	bool no_memory = (o->n_within && !under) || (o->n_kernels && !choice.kernels);
	int r = no_memory ? -ENOMEM : 0;

	style.part = o->n_within || o->n_kernels;
	if (r == 0)
		r = begin_view(o, files, &view);
	if (r == 0 && under)
		r = collect_under(o->path, under);
	if (r == 0)
		r = begin_findings(o, view, &findings);
	if (r == 0)
		r = begin_spans(o, view, files);
	if (r == 0) {
		findings.view = gs_aggregate_sink(view);
		r = replay_file(o, reader, &choice, &both, files, &samples);
	}
	if (r == 0 && files->n)
		gs_activity_report_pending(gs_aggregate_activity(view),
					   gs_export_now_ns(files->at[0]));
	gs_recording_stats(reader, &stats);
	if (r == 0) {
		cmd_report_damage(o->path, &stats);
		if (under)
			report_under(o, under);
		if (choice.kernels)
			report_kernels(o, choice.kernels);
	}
	if (r == 0)
		r = gs_aggregate_make_summary(view, &summary);
	if (r == 0)
		r = close_spans(files);
	if (r == 0)
		r = finish_findings(&findings, summary, &style);
	*ret_samples = samples.n_snapshots > 0;
	only_samples = samples.n_snapshots && r == 0 && summary->mode == GS_SESSION_SAMPLES;
	/* Of a trace they stand beside the calls. */
	if (r == 0 && samples.n_snapshots && (only_samples || o->style.verbose))
		report_samples(o, &samples, only_samples);
	/* A conversion prints no summary unless its format is asked for. */
	if (r == 0 && (!o->n_outputs || o->format_name) &&
	    !(only_samples && o->format == GS_SUMMARY_TABLE)) {
		if (!style.part)
			gs_verdict_trace(summary);
		gs_cli_summary_page(stdout, NULL, true, o->width, &style);
		r = gs_cli_summary_write(NULL, 0, stdout, summary, o->format, &style);
	}
	gs_map_fini(&samples.gpus);
	gs_summary_free(&summary);
	gs_findings_free(&findings.findings);
	for (size_t i = 0; i < files->n_spans; i++)
		gs_cli_spans_abandon(&files->spans[i]);
	gs_aggregate_free(&view);
	gs_aggregate_under_free(&under);
	gs_aggregate_kernels_free(&choice.kernels);
	return r;
}

/* r: how the reading went. A file that would show nothing is not written. */
static int close_export(const char *path, struct gs_export **export, int r, bool has_samples)
{
	const char *reason;
	struct gs_err err = {{0}};

	gs_export_end(*export);
	reason = gs_export_is_empty(*export);
	if (r < 0 || reason) {
		gs_export_abandon(export);
		if (r < 0)
			return r;
		gs_cli_print_message(
			"%s is not written, as it would be empty: %s%s", path, reason,
			has_samples
				? "; samples of GPUs can be seen in a .pftrace or .json file, and drawn by --plot FIGURE.svg"
				: "");
		return -ENODATA;
	}
	r = gs_export_close(export, &err);
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	else
		gs_cli_report_written(path, GS_CLI_OPENS_TRACE);
	return r;
}

#define AT(member) GS_CLI_AT(struct report_options, member)

static const struct gs_cli_option option_table[] = {
	{"output", 'o', "FILE", "write a page (.html, .pdf) or convert, by suffix", GS_CLI_SET,
	 .set = set_output},
	{"flame", 0, "WHAT", "flame graphs: wall, time, launches, bytes, memory, samples",
	 GS_CLI_SET, GS_CLI_GIVEN(struct report_options, flame_by_given),
	 .words = "wall time launches bytes memory samples auto", .set = set_flame},
	{"format", 0, "FORMAT", "summary format; with -o, also print the summary", GS_CLI_TEXT,
	 AT(format_name)},
	GS_CLI_JSON,
	GS_CLI_BY(struct report_options, style),
	GS_CLI_MEMORY(struct report_options, style),
	{"threads", 0, NULL, "same as --by thread", GS_CLI_SET, .set = set_threads},
	GS_CLI_TOP(struct report_options, style.n_top, top_given),
	GS_CLI_STREAM_LIMITS(struct report_options, stream_limits),
	GS_CLI_WIDTH(struct report_options, width),
	{"verbose", 'v', NULL, "print every block of the summary", GS_CLI_FLAG, AT(style.verbose)},
	GS_CLI_QUIET,
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	{"within", 0, "GLOB[,GLOB]", "only what ran in these Python functions", GS_CLI_LIST,
	 .takes =
		 "at most 8 functions or patterns of at most 128 characters, such as forward or 'train.py:*'",
	 .set = add_glob},
	{"kernel", 0, "GLOB[,GLOB]", "only launches of these kernels", GS_CLI_LIST,
	 .takes = "at most 32 names or patterns of kernels, such as '*gemm*'", .set = add_kernel},
	{"python-filter", 0, "GLOB[,GLOB]", "files to skip in one-line stacks, as in trace",
	 GS_CLI_LIST, .takes = "at most 32 patterns, such as '*/torch/*', or none",
	 .set = add_filter},
	{"compare", 0, NULL, "compare recordings, or job reports", GS_CLI_FLAG, AT(compare)},
	{"base", 0, "FILE.gst", "run to compare the others with (repeatable)", GS_CLI_SET,
	 .set = add_base},
	{"plot", 0, "FILE", "plot recorded samples over time: .pdf, .svg or .png", GS_CLI_SET,
	 .takes = "a file ending in one of " GS_PLOT_SUFFIXES, .set = set_plot},
	{"panels", 0, "NAME[,NAME]", "panels to plot (all)", GS_CLI_LIST,
	 .words = "utilization memory pcie nvlink dram power bubble devices", .set = add_panel},
	GS_CLI_TITLE("Job reports from a head (--compare):"),
	REMOTE_HEAD(struct report_options, from.remote),
	{"user", 'u', "USER", "only jobs of this user", GS_CLI_TEXT, AT(from.user)},
	{"name", 0, "NAME", "jobs with this name (NAME* matches a prefix)", GS_CLI_TEXT,
	 AT(from.name)},
	{"job-id", 'j', "ID", "only this job ID", GS_CLI_TEXT, AT(from.job)},
	{"last", 0, "N", "the N most recent reports (100)", GS_CLI_COUNT, AT(from.last), .min = 1,
	 .max = 100000},
	GS_CLI_END};

_Static_assert(GS_PY_GLOB_MAX == 8 && GS_PY_GLOB_CHARS == 128 && LINE_FILTERS_MAX == 32 &&
		       KERNELS_MAX == 32,
	       "the texts above say so");

const struct gs_cli_command gs_cli_report = {
	.name = "gpuscope report",
	.usage = "FILE.gst\n"
		 "TRACE.json -o FILE.gst\n"
		 "--compare BASE.gst NEW.gst...\n"
		 "--compare REPORT.json...\n"
		 "--compare --head HOST:PORT\n"
		 "--plot FIGURE FILE...",
	.about =
		"Prints the summary of a recording, as `gpuscope trace` printed it; converts, compares and plots recordings.",
	.notes =
		"Exit status: 0 done (also when only part of a damaged file could be read, which is reported), 1 failed, 2 wrong usage, 4 nothing to show in that format, or no such report.",
	.brief = "output format json by memory top verbose compare base plot head quiet",
	.options = option_table,
	.groups = {GS_CLI_CONNECTION(struct report_options, from.remote.connection)},
	.take_word = add_report,
	.check = check_options,
};

/* Read it once, for the summary or for all files. */
static int report_recording(const struct report_options *o)
{
	struct gs_export_options eo = {.size = sizeof(eo)};
	struct gs_recording_reader *reader = NULL;
	struct report_files files = {.n = 0};
	struct gs_err err = {{0}};
	bool has_samples = false;
	struct stat st;
	int r = gs_recording_open(o->path, &reader, &err), status = 0;

	eo.flame_by = o->flame_by;
	eo.when_whole = true;
	/* What was for one user's eyes stays so in another format. */
	eo.is_private = o->path && stat(o->path, &st) == 0 && !(st.st_mode & 077);
	for (size_t i = 0; i < o->n_outputs && r == 0; i++) {
		if (!gs_export_knows(o->outputs[i]))
			continue;
		files.paths[files.n] = o->outputs[i];
		r = gs_export_open(o->outputs[i], &eo, &files.at[files.n], &err);
		files.n += r == 0;
	}
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	if (!reader && o->path)
		cmd_hint_import(o->path);
	if (r == 0)
		r = run_report(o, reader, &files, &has_samples);
	for (size_t i = 0; i < files.n; i++) {
		int closed = close_export(files.paths[i], &files.at[i], r, has_samples);

		status = status < 0 ? status : closed;
	}
	gs_recording_reader_close(&reader);
	return r < 0 ? r : status;
}

static int write_pages(const struct report_options *o)
{
	int r = 0;

	for (size_t i = 0; i < o->n_pages && r == 0; i++)
		r = cmd_write_page(o->path, o->pages[i]);
	return r;
}

/* A file that cannot be read, for whatever reason, has failed. */
static int exit_of(int r)
{
	if (r == -ENODATA)
		return GS_EXIT_NOTHING;
	return r == -ENOPKG ? GS_EXIT_NOT_PERMITTED : r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

int gs_cmd_report(int argc, char **argv)
{
	static struct report_options o = {
		.style = {.size = sizeof(o.style), .view = GS_SUMMARY_SHORT}, .width = -1};
	int r;

	if (!gs_cli_parse(&gs_cli_report, argc, argv, &o, &r))
		return r;
	gs_cli_summary_settle(&o.style, o.top_given);
	o.style.recording = o.path;
	o.style.gpus = true;
	if (o.compare && o.n_recordings)
		return gs_cmd_compare_runs(&(struct cmd_compare_runs){o.bases, o.n_bases, o.reports,
								      o.n_reports, o.outputs[0],
								      o.format_name, o.width});
	if (o.compare)
		return gs_cmd_compare(o.reports, o.n_reports, &o.from, o.outputs[0], o.format_name);
	if (o.plot)
		return gs_cmd_plot(o.reports, o.n_reports, o.plot, o.panels);
	if (o.import)
		return cmd_import_trace(o.path, o.import) < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
	r = write_pages(&o);
	if (r < 0 || (o.n_pages && !o.n_outputs && !o.format_name))
		return exit_of(r);
	return exit_of(report_recording(&o));
}
