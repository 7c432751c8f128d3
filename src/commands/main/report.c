/* gpuscope report: reads a .gst file back and shows its summary, or writes it in another format. */
#include <argp.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/rules/trace.h"
#include "core/base/fmt.h"
#include "core/base/map.h"
#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "output/trace_export/export.h"
#include "commands/job/job_compare.h"
#include "pipeline/recording/recording.h"
#include "core/text/text.h"
#include "model/node/record.h"
#include "output/plot/plot.h"
#include "pipeline/aggregate/python_glob.h"
#include "pipeline/aggregate/under.h"
#include "pipeline/aggregate/aggregate.h"

enum {
	OPT_FORMAT = 256,
	OPT_THREADS,
	OPT_TOP,
	OPT_BY,
	OPT_WIDTH,
	OPT_FLAME,
	OPT_COMPARE,
	OPT_USER,
	OPT_NAME,
	OPT_JOB,
	OPT_LAST,
	OPT_PLOT,
	OPT_PANELS,
	OPT_UNDER,
	OPT_PYTHON_FILTER
};

#define COMPARE_MAX      4096
#define LINE_FILTERS_MAX 32

struct report_options {
	const char *path;
	const char *output; /* NULL: only the summary */
	bool compare;
	struct compare_from from; /* of --compare: a head */
	const char *plot;         /* NULL: no figure */
	unsigned panels;
	char *reports[COMPARE_MAX]; /* of --compare; borrowed from argv */
	size_t n_reports;
	const char *format_name;
	enum gs_flame_by flame_by;
	bool flame_by_given;
	struct gs_py_glob under[GS_PY_GLOB_MAX];
	size_t n_under;
	const char *line_filters[LINE_FILTERS_MAX]; /* --python-filter */
	size_t n_line_filters;
	enum gs_report_summary_format format;
	struct gs_report_summary_style style;
	bool top_given;
	int width; /* --width; -1: as the terminal */
};

/* What goes with one file of calls and with reports of jobs differs. */
static void check_together(struct report_options *o, struct argp_state *state)
{
	if (!o->compare &&
	    (o->from.remote.head || o->from.user || o->from.name || o->from.job || o->from.last))
		argp_error(state, "--head and what goes with it are for --compare");
	if (!o->from.remote.head && (o->from.user || o->from.name || o->from.job || o->from.last))
		argp_error(state, "--user, --name, --job and --last choose reports of --head");
	if (o->compare && o->plot)
		argp_error(state, "--compare and --plot exclude each other");
	if (o->panels && !o->plot)
		argp_error(state, "--panels is for --plot");
	if (o->plot && (o->output || o->format_name))
		argp_error(state, "--plot writes a figure: -o and --format are for summaries");
	if (o->compare || o->plot)
		return;
	if (o->n_reports > 1)
		argp_error(state, "one file at a time (--compare takes reports of jobs)");
	o->path = o->reports[0];
	if (o->output && !gs_export_knows(o->output))
		argp_error(state, "-o takes a file ending in one of " GS_EXPORT_SUFFIXES);
	if (o->flame_by_given && !(o->output && gs_export_is_flame(o->output)))
		argp_error(state, "--flame is for flame graphs: add -o FILE.svg or -o FILE.folded");
	if (o->format_name && gs_report_summary_format_parse(o->format_name, &o->format) < 0)
		argp_error(state, "--format takes table, json, csv or yaml");
}

static void take_under(struct report_options *o, char *list, struct argp_state *state)
{
	char *save = NULL;

	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save))
		if (o->n_under == GS_PY_GLOB_MAX ||
		    gs_aggregate_parse_py_glob(w, &o->under[o->n_under++]) < 0)
			argp_error(state,
				   "--under takes at most %d functions or patterns of at "
				   "most %d characters, such as forward or 'train.py:*'",
				   GS_PY_GLOB_MAX, GS_PY_GLOB_CHARS);
	if (!o->n_under)
		argp_error(state, "--under takes a function or pattern, such as 'train.py:*'");
}

static void take_filters(struct report_options *o, char *list, struct argp_state *state)
{
	char *save = NULL;

	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		if (o->n_line_filters == LINE_FILTERS_MAX)
			argp_error(state, "--python-filter takes at most %d patterns",
				   LINE_FILTERS_MAX);
		o->line_filters[o->n_line_filters++] = w;
	}
	if (!o->n_line_filters)
		argp_error(state, "--python-filter takes patterns, such as '*/torch/*', or none");
}

static unsigned parse_panels(const char *text, struct argp_state *state)
{
	char words[256];
	unsigned panels = 0;

	snprintf(words, sizeof(words), "%s", text);
	for (char *save, *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		unsigned panel = gs_plot_panel_by_name(w);

		if (!panel)
			argp_error(state,
				   "--panels takes utilization, memory, pcie, nvlink, dram, power, "
				   "bubble, devices");
		panels |= panel;
	}
	return panels;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct report_options *o = state->input;
	char *end;
	long n;

	switch (key) {
	case 'o':
		if (o->output)
			argp_error(state, "-o: one file at a time");
		o->output = arg;
		return 0;
	case OPT_FLAME:
		o->flame_by_given = true;
		if (gs_flame_by_parse(arg, &o->flame_by) < 0)
			argp_error(state, "--flame takes time, launches, bytes, memory, samples or "
					  "auto");
		return 0;
	case OPT_FORMAT:
		o->format_name = arg;
		return 0;
	case OPT_UNDER:
		take_under(o, arg, state);
		return 0;
	case OPT_PYTHON_FILTER:
		take_filters(o, arg, state);
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->from.remote;
		return 0;
	case OPT_COMPARE:
		o->compare = true;
		return 0;
	case OPT_USER:
		o->from.user = arg;
		return 0;
	case OPT_NAME:
		o->from.name = arg;
		return 0;
	case OPT_JOB:
		o->from.job = arg;
		return 0;
	case OPT_LAST:
		n = strtol(arg, &end, 10);
		if (!*arg || *end || n < 1 || n > 100000)
			argp_error(state, "--last takes a number of reports, 1 to 100000");
		o->from.last = (uint32_t)n;
		return 0;
	case OPT_PLOT:
		if (!gs_plot_knows(arg))
			argp_error(state, "--plot takes a file ending in one of " GS_PLOT_SUFFIXES);
		o->plot = arg;
		return 0;
	case OPT_PANELS:
		o->panels = parse_panels(arg, state);
		return 0;
	case OPT_THREADS:
		o->style.view = GS_SUMMARY_THREADS;
		return 0;
	case OPT_BY:
		if (gs_report_summary_view_parse(arg, &o->style.view) < 0)
			argp_error(state, "--by takes process, thread, stream, operator or line");
		return 0;
	case OPT_WIDTH:
		if (!gs_cli_parse_width(arg, &o->width))
			argp_error(state, "--width takes a number of columns, 40 or more; 0 is no "
					  "limit");
		return 0;
	case 'v':
		o->style.verbose = true;
		return 0;
	case OPT_TOP:
		n = strtol(arg, &end, 10);
		if (!*arg || *end || n < 0 || n >= 100000)
			argp_error(state, "--top takes a number; 0 is all");
		o->style.n_top = (unsigned)n;
		o->top_given = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->n_reports == COMPARE_MAX)
			argp_error(state, "at most %d files", COMPARE_MAX);
		o->reports[o->n_reports++] = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!o->compare || !o->from.remote.head)
			argp_error(state, o->compare ? "which reports? give files or --head"
						     : "which .gst file?");
		return 0;
	case ARGP_KEY_END:
		check_together(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What reading found wrong, in a line each. */
static void report_damage(const char *path, const struct gs_recording_stats *s)
{
	char n[GS_FMT_BYTES];

	if (s->cut_bytes)
		gs_cli_say(
			"%s: torn at its end: the last %s could not be read, all %llu whole frames "
			"before were",
			path, gs_fmt_bytes(n, s->cut_bytes), (unsigned long long)s->n_frames);
	if (s->n_skipped_frames || s->skipped_bytes)
		gs_cli_say("%s: damaged: %llu frames (%s) were skipped", path,
			   (unsigned long long)s->n_skipped_frames,
			   gs_fmt_bytes(n, s->skipped_bytes));
}

/* Samples of GPUs, machine and processes in the file, which no summary of calls shows. */
struct samples {
	uint64_t n_moments;
	int64_t first_ns, last_ns; /* wall: each machine's boot clock is its own */
	uint64_t n_gpus;           /* of the last moments of all machines */
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
		if (!s->n_moments++ || h->wall_ns < s->first_ns)
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
		"%s%s: %llu samples of %s over %s: %llu GPU%s, at most %u processes on %s; "
		"`gpuscope top --replay %s` shows them\n",
		out == stderr ? "gpuscope: " : "", o->path, (unsigned long long)s->n_moments,
		host.bytes > 1 ? (const char *)host.data : "a machine",
		gs_fmt_ns(age, (uint64_t)(s->last_ns - s->first_ns)), (unsigned long long)s->n_gpus,
		s->n_gpus == 1 ? "" : "s", s->n_processes,
		s->gpus.n_used > 1 ? "those of one" : "them", o->path);
}

/* Who is under which function is known when the whole file has been read. */
static int look_under(const char *path, struct gs_aggregate_under *under)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_err err = {{0}};
	struct gs_batch batch;
	int r = gs_recording_open(path, &reader, &err);

	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0)
		r = gs_aggregate_under_scan(under, &batch);
	gs_recording_reader_close(&reader);
	if (r < 0)
		gs_cli_say("cannot read %s: %s", path, gs_err_text(&err, r));
	return r < 0 ? r : 0;
}

static int replay_file(const char *path, struct gs_recording_reader *reader,
		       struct gs_aggregate_under *under, const struct gs_sink *view,
		       const struct gs_sink *file, const char *file_path, struct samples *samples)
{
	struct gs_batch batch;
	int r;

	while ((r = gs_recording_next(reader, &batch)) == 0) {
		count_samples(samples, &batch);
		r = under ? gs_aggregate_under_choose(under, &batch, &batch) : 0;
		if (r == 0)
			r = view->push(view->ctx, &batch);
		if (r == 0 && file) {
			r = file->push(file->ctx, &batch);
			if (r < 0) {
				gs_cli_say("cannot write %s: %s", file_path, strerror(-r));
				return r;
			}
		}
		if (r < 0)
			return r;
	}
	if (r < 0)
		gs_cli_say("cannot read %s: %s", path, strerror(-r));
	return r < 0 ? r : 0;
}

static void report_under(const struct report_options *o, const struct gs_aggregate_under *under)
{
	if (!gs_aggregate_under_n_chosen(under))
		gs_cli_say(
			"%s: nothing ran under these functions: their calls were not traced "
			"(--python-calls), and no Python stack has them (--python-at, --python-hz)",
			o->path);
	if (gs_aggregate_under_n_added_up(under))
		gs_cli_say(
			"%s: %llu calls were added up in the kernel, and may have been under these "
			"functions: they are left out",
			o->path, (unsigned long long)gs_aggregate_under_n_added_up(under));
}

static int run_report(const struct report_options *o, struct gs_recording_reader *reader,
		      struct gs_export *export)
{
	struct gs_report_summary_style style = o->style;
	struct gs_summary *summary = NULL;
	struct gs_recording_stats stats;
	struct samples samples = {.gpus = GS_MAP_INIT(1u << 20)};
	struct gs_aggregate_under *under =
		o->n_under ? gs_aggregate_under_new(o->under, o->n_under) : NULL;
	bool no_filter = o->n_line_filters == 1 && strcmp(o->line_filters[0], "none") == 0;
	struct gs_aggregate *view = NULL;
	bool only_samples;
	int r = o->n_under && !under ? -ENOMEM : gs_aggregate_new(&view);

	style.part = o->n_under;
	if (r == 0 && o->n_line_filters)
		r = gs_aggregate_set_line_filter(view, o->line_filters,
						 no_filter ? 0 : o->n_line_filters);
	if (r == 0 && under)
		r = look_under(o->path, under);
	if (r == 0)
		r = replay_file(o->path, reader, under, gs_aggregate_sink(view),
				export ? gs_export_sink(export) : NULL, o->output, &samples);
	gs_recording_stats(reader, &stats);
	if (r == 0)
		report_damage(o->path, &stats);
	if (r == 0 && under)
		report_under(o, under);
	if (r == 0)
		r = gs_aggregate_make_summary(view, &summary);
	only_samples = samples.n_moments && r == 0 && summary->mode == GS_SESSION_SAMPLES;
	if (r == 0 && samples.n_moments)
		report_samples(o, &samples, only_samples);
	/* A conversion prints no summary unless its format is asked for. */
	if (r == 0 && (!export || o->format_name) &&
	    !(only_samples && o->format == GS_SUMMARY_TABLE)) {
		if (!style.part)
			gs_verdict_trace(summary);
		gs_cli_summary_page(stdout, NULL, true, o->width, &style);
		r = gs_cli_summary_write(NULL, 0, stdout, summary, o->format, &style);
	}
	gs_map_fini(&samples.gpus);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
	gs_aggregate_under_free(&under);
	return r;
}

int gs_cmd_report(int argc, char **argv)
{
	static const struct argp_option option_table[] = {
		{"output", 'o', "FILE", 0, "convert it to one of " GS_EXPORT_SUFFIXES, 0},
		{"flame", OPT_FLAME, "WHAT", 0,
		 "what .svg and .folded show: time, launches, bytes, memory, samples", 0},
		{"format", OPT_FORMAT, "FORMAT", 0,
		 "of the summary: table, json, csv, yaml; with -o, print it as well", 0},
		{"by", OPT_BY, "WHAT", 0,
		 "what the table is of instead of the ten most expensive things: process, thread, "
		 "stream, operator, line",
		 0},
		{"threads", OPT_THREADS, NULL, 0, "as --by thread", 0},
		{"top", OPT_TOP, "N", 0,
		 "rows of the table (default 10; with --by or -v 20; 0 all)", 0},
		{"width", OPT_WIDTH, "COLUMNS", 0,
		 "of the table (default: of the terminal, else COLUMNS or 100; 0 no limit)", 0},
		{"verbose", 'v', NULL, 0, "every block of the summary", 0},
		{"under", OPT_UNDER, "GLOB[,GLOB]", 0,
		 "only what ran under these Python functions, such as forward or 'train.py:*'", 0},
		{"python-filter", OPT_PYTHON_FILTER, "GLOB[,GLOB]", 0,
		 "files passed over when a Python stack is shown as one line (as gpuscope trace)",
		 0},
		{"compare", OPT_COMPARE, NULL, 0,
		 "compare reports of jobs (`gpuscope job -o FILE.json`, ebpf-hpc-monitor's JSON); "
		 "table, json, yaml or html",
		 0},
		{"plot", OPT_PLOT, "FILE", 0,
		 "draw recorded samples (.gst files, sessions of gswarm-profiler) over time: .pdf, "
		 ".svg "
		 "or .png",
		 0},
		{"panels", OPT_PANELS, "LIST", 0,
		 "of --plot: utilization, memory, pcie, nvlink, dram, power, bubble, devices (all)",
		 0},
		{"user", OPT_USER, "USER", 0, "with --head: only jobs of this user", 9},
		{"name", OPT_NAME, "NAME", 0, "of this name; a * at its end: that begin so", 9},
		{"job", OPT_JOB, "ID", 0, "of this number", 9},
		{"last", OPT_LAST, "N", 0, "the newest so many (100)", 9},
		{0},
	};
	static const struct argp_child children[] = {
		{&remote_argp, 0, "Reports of jobs from a head:", 8}, {0}};
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.children = children,
		.help_filter = gs_cli_help_filter,
		.args_doc = "FILE.gst\n--compare REPORT.json...\n--compare --head "
			    "HOST:PORT\n--plot FIGURE FILE...",
		.doc = "Prints the summary of a recorded file, as `gpuscope trace` printed it.\v"
		       "Exit status: 0 done (also when a torn or damaged file could be read in "
		       "part, "
		       "which is told), 1 failed, 2 wrong usage.",
	};
	static struct report_options o = {
		.style = {.size = sizeof(o.style), .view = GS_SUMMARY_SHORT}, .width = -1};
	struct gs_export_options eo = {.size = sizeof(eo)};
	struct gs_recording_reader *reader = NULL;
	struct gs_export *export = NULL;
	struct gs_err err = {{0}};
	struct stat st;
	int r, close_r = 0;

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return GS_EXIT_USAGE;
	gs_cli_summary_settle(&o.style, o.top_given);
	o.style.recording = o.path;
	if (o.compare)
		return gs_cmd_compare(o.reports, o.n_reports, &o.from, o.output, o.format_name);
	if (o.plot)
		return gs_cmd_plot(o.reports, o.n_reports, o.plot, o.panels);
	r = gs_recording_open(o.path, &reader, &err);
	eo.flame_by = o.flame_by;
	/* What was for one user's eyes stays so in another format. */
	eo.is_private = o.path && stat(o.path, &st) == 0 && !(st.st_mode & 077);
	if (r == 0 && o.output)
		r = gs_export_open(o.output, &eo, &export, &err);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		gs_recording_reader_close(&reader);
		return GS_EXIT_FAILED;
	}
	r = run_report(&o, reader, export);
	if (export) {
		gs_export_end(export);
		if (gs_export_is_empty(export))
			gs_cli_say("%s shows nothing: %s", o.output, gs_export_is_empty(export));
	}
	if (export)
		close_r = gs_export_close(&export, &err);
	if (r == 0 && close_r < 0)
		gs_cli_say("%s", gs_err_text(&err, close_r));
	else if (r == 0 && o.output)
		gs_cli_report_written(o.output);
	gs_recording_reader_close(&reader);
	return r < 0 || close_r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
