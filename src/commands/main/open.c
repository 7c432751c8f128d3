/*
 * gpuscope open: shows a recording, or a page that another command wrote, in the local browser. Nothing of
 * it is loaded from a network: the page of a recording is one file with the summary and the flame graph.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/rules/trace.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/common/summary.h"
#include "commands/main/browser.h"
#include "core/base/output.h"
#include "core/text/put.h"
#include "output/trace_export/export.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/recording/recording.h"

#define PAGE_COLUMNS 120 /* of the summary */

struct open_options {
	const char *path;
	const char *output; /* NULL: a file in a folder of its own for temporary files */
	bool no_browser;
};

/* What a page is made of. */
struct open_page {
	char folder[PATH_MAX];      /* ours, 0700; "" none was made */
	char flame[PATH_MAX + 16];  /* in it: the graph, until it is in the page */
	struct gs_summary *summary; /* owned */
	const char *shows_no_flame; /* why there is no graph; NULL: there is one */
};

static int take_file(void *target, char **words, struct gs_err *err)
{
	struct open_options *o = target;

	if (o->path)
		return gs_err_set(err, -EINVAL, "one file at a time");
	o->path = words[0];
	return 0;
}

static int check_file(void *target, struct gs_err *err)
{
	return ((struct open_options *)target)->path ? 0 : gs_err_set(err, -EINVAL, "which file?");
}

static bool has_suffix(const char *path, const char *suffix)
{
	size_t n = strlen(path), bytes = strlen(suffix);

	return n > bytes && strcmp(path + n - bytes, suffix) == 0;
}

/* Formats that want a viewer which is not here. NULL: it is none of them. */
static const char *viewer_of(const char *path)
{
	if (has_suffix(path, ".pftrace"))
		return "Perfetto (https://ui.perfetto.dev)";
	if (has_suffix(path, ".json") || has_suffix(path, ".json.gz"))
		return "Perfetto (https://ui.perfetto.dev) or speedscope, or for a job's report the form `gpuscope job -o REPORT.html`";
	if (has_suffix(path, ".folded"))
		return "speedscope or flamegraph.pl";
	if (has_suffix(path, ".csv"))
		return "a spreadsheet";
	return NULL;
}

/* Where the temporary files are; the folder stays, as the browser reads the page when it likes. */
static int make_folder(struct open_page *page, struct gs_err *err)
{
	const char *tmp = getenv("TMPDIR");
	int n = snprintf(page->folder, sizeof(page->folder), "%s/gpuscope-XXXXXX",
			 tmp && *tmp == '/' ? tmp : "/tmp");

	if (n >= (int)sizeof(page->folder) || !mkdtemp(page->folder)) {
		int e = n >= (int)sizeof(page->folder) ? ENAMETOOLONG : errno;

		page->folder[0] = '\0';
		return gs_err_set(err, -e, "cannot make a folder in %s: %s", tmp ? tmp : "/tmp",
				  strerror(e));
	}
	snprintf(page->flame, sizeof(page->flame), "%s/flame.svg", page->folder);
	return 0;
}

static void remove_folder(struct open_page *page)
{
	if (*page->flame)
		unlink(page->flame);
	if (*page->folder)
		rmdir(page->folder); /* with the page in it, it stays */
}

/* Reads the recording once: its summary, and the flame graph into a file. */
static int read_recording(const char *path, struct open_page *page, struct gs_err *err)
{
	struct gs_export_options eo = {.size = sizeof(eo), .is_private = true};
	struct gs_recording_reader *reader = NULL;
	struct gs_aggregate *view = NULL;
	struct gs_export *export = NULL;
	struct gs_batch batch;
	int close_r = 0, r = gs_recording_open(path, &reader, err);

	if (r == 0)
		r = gs_aggregate_new(&view);
	if (r == 0)
		r = gs_export_open(page->flame, &eo, &export, err);
	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0) {
		const struct gs_sink *sinks[] = {gs_aggregate_sink(view), gs_export_sink(export)};

		for (size_t i = 0; i < GS_ARRAY_LEN(sinks) && r == 0; i++)
			r = sinks[i]->push(sinks[i]->ctx, &batch);
	}
	if (r > 0)
		r = gs_aggregate_make_summary(view, &page->summary);
	if (export) {
		gs_export_end(export);
		page->shows_no_flame = gs_export_is_empty(export);
		close_r = gs_export_close(&export, err);
	}
	gs_aggregate_free(&view);
	gs_recording_reader_close(&reader);
	return r < 0 ? r : close_r;
}

/* Text of a table, made harmless for a page. */
static int put_text(FILE *out, const char *text, size_t bytes)
{
	char line[GS_PUT_MAX + 1], escaped[6 * GS_PUT_MAX];

	while (bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t n = end ? (size_t)(end - text) : bytes,
		       kept = n < GS_PUT_MAX ? n : GS_PUT_MAX;

		memcpy(line, text, kept);
		line[kept] = '\0';
		fwrite(escaped, 1, (size_t)(gs_put_xml(escaped, line, GS_PUT_MAX) - escaped), out);
		fputc('\n', out);
		text += n + (end != NULL);
		bytes -= n + (end != NULL);
	}
	return ferror(out) ? -EIO : 0;
}

static int put_summary(FILE *out, const struct gs_summary *summary, const char *path)
{
	struct gs_report_summary_style style = {.size = sizeof(style),
						.view = GS_SUMMARY_SHORT,
						.width = PAGE_COLUMNS,
						.recording = path};
	GS_FREE char *text = NULL;
	size_t bytes = 0;
	FILE *table = open_memstream(&text, &bytes);
	int r;

	if (!table)
		return -ENOMEM;
	gs_cli_summary_settle(&style, false);
	r = gs_report_summary_write(table, summary, GS_SUMMARY_TABLE, &style);
	if (fclose(table) != 0 && r == 0)
		r = -ENOMEM;
	return r < 0 ? r : put_text(out, text, bytes);
}

/* The graph as a part of the page: without the line that says that it is XML. */
static int put_flame(FILE *out, const char *path)
{
	GS_FCLOSE FILE *in = fopen(path, "re");
	char part[65536];
	int c;
	size_t n;

	if (!in)
		return -errno;
	while ((c = fgetc(in)) != EOF && c != '\n')
		;
	while ((n = fread(part, 1, sizeof(part), in)) > 0)
		if (fwrite(part, 1, n, out) != n)
			return -EIO;
	return ferror(in) ? -EIO : 0;
}

/* The policy lets a browser load nothing but what is in the file. */
static int put_page(FILE *out, const struct open_page *page, const char *path)
{
	int r;

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>gpuscope: ",
	      out);
	put_text(out, path, strlen(path));
	fputs("</title>\n<style>:root { color-scheme: light dark; } body { margin: 0; } "
	      "pre { margin: 16px 1%; overflow-x: auto; font: 13px/1.4 ui-monospace, monospace; }"
	      "</style></head><body>\n<pre>",
	      out);
	r = put_summary(out, page->summary, path);
	fputs("</pre>\n", out);
	if (r == 0 && page->shows_no_flame)
		fprintf(out, "<p>No flame graph: %s.</p>\n", page->shows_no_flame);
	else if (r == 0)
		r = put_flame(out, page->flame);
	fputs("</body></html>\n", out);
	return r < 0 ? r : ferror(out) ? -EIO : 0;
}

static int write_page(const struct open_page *page, const char *from, const char *to,
		      unsigned flags, struct gs_err *err)
{
	struct gs_output file = GS_OUTPUT_INIT;
	int r = gs_output_open(to, flags, &file, err);
	FILE *out = r == 0 ? gs_output_stream(&file) : NULL;

	if (r == 0)
		r = out ? put_page(out, page, from) : -ENOMEM;
	if (r == 0 && fflush(out) != 0)
		r = -errno;
	return gs_output_close(&file, r, err);
}

/* "/tmp/gpuscope-a1b2c3/run.html" of "dir/run.gst". */
static void name_page(const struct open_page *page, const char *from, char *to, size_t bytes)
{
	const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from;
	int n = (int)strlen(name);

	n -= has_suffix(name, ".gst") ? 4 : 0;
	snprintf(to, bytes, "%s/%.*s.html", page->folder, n < 200 ? n : 200, name);
}

/* The page of a recording; to: its path, an out-parameter where none was asked for. */
static int render_page(const struct open_options *o, char *to, size_t bytes, struct gs_err *err)
{
	struct open_page page = {0};
	struct stat st;
	/* What was for the eyes of one user stays so; a folder of ours is for that user alone anyway. */
	bool is_private = !o->output || (stat(o->path, &st) == 0 && !(st.st_mode & 077));
	int r = make_folder(&page, err);

	if (r == 0)
		r = read_recording(o->path, &page, err);
	if (r == 0 && page.summary->mode == GS_SESSION_SAMPLES)
		r = gs_err_set(
			err, -ENODATA,
			"%s has samples and no calls: `gpuscope top --replay %s` shows them, `gpuscope report --plot FIGURE.svg %s` draws them",
			o->path, o->path, o->path);
	if (r == 0) {
		gs_verdict_trace(page.summary);
		if (o->output)
			snprintf(to, bytes, "%s", o->output);
		else
			name_page(&page, o->path, to, bytes);
		r = write_page(&page, o->path, to, is_private ? GS_OUTPUT_PRIVATE : 0, err);
	}
	gs_summary_free(&page.summary);
	remove_folder(&page);
	return r;
}

static int show_page(const struct open_options *o, const char *path)
{
	GS_FREE char *whole = realpath(path, NULL);
	struct gs_err err = {{0}};
	int r;

	if (!whole) {
		gs_cli_print_message("cannot open %s: %s", path, strerror(errno));
		return GS_EXIT_FAILED;
	}
	if (o->no_browser) {
		puts(whole);
		return GS_EXIT_DONE;
	}
	r = cmd_browser_show(whole, &err);
	if (r == -ENODEV) {
		puts(whole);
		gs_cli_print_message(
			"there is no display here (DISPLAY, WAYLAND_DISPLAY) and no $BROWSER: copy the file to a machine with a browser, it needs nothing else");
		return GS_EXIT_DONE;
	}
	if (r < 0) {
		puts(whole);
		gs_cli_print_message(
			"%s; open the file above yourself, or set BROWSER to a command",
			gs_err_text(&err, r));
		return GS_EXIT_FAILED;
	}
	return GS_EXIT_DONE;
}

#define AT(member) GS_CLI_AT(struct open_options, member)

static const struct gs_cli_option option_table[] = {
	{"output", 'o', "FILE", "write the page of a recording to this file", GS_CLI_TEXT,
	 AT(output)},
	{"no-browser", 0, NULL, "print the path of the page instead of opening it", GS_CLI_FLAG,
	 AT(no_browser)},
	GS_CLI_QUIET,
	GS_CLI_END};

const struct gs_cli_command gs_cli_open = {
	.name = "gpuscope open",
	.usage = "FILE.gst\nFILE.svg|FILE.html",
	.about =
		"Shows a recording, a flame graph or a report in the local browser, without a network.",
	.notes =
		"The browser is $BROWSER, or xdg-open where there is a display; without either, the path is printed.\n"
		"Exit status: 0 done, 1 failed, 2 wrong usage.",
	.brief = "output no-browser quiet",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = take_file,
	.check = check_file,
};

int gs_cmd_open(int argc, char **argv)
{
	struct open_options o = {0};
	bool is_page;
	char to[PATH_MAX + 256];
	struct gs_err err = {{0}};
	int r;

	if (!gs_cli_parse(&gs_cli_open, argc, argv, &o, &r))
		return r;
	is_page = has_suffix(o.path, ".svg") || has_suffix(o.path, ".html");
	if (is_page && o.output)
		return gs_cli_usage_error(&gs_cli_open,
					  "-o is for recordings: this is a page already");
	if (is_page)
		return show_page(&o, o.path);
	if (viewer_of(o.path)) {
		gs_cli_print_message(
			"%s needs %s; `gpuscope open` shows a recording (trace -o run.gst), .svg and .html",
			o.path, viewer_of(o.path));
		return GS_EXIT_USAGE;
	}
	r = render_page(&o, to, sizeof(to), &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return GS_EXIT_FAILED;
	}
	if (o.output)
		gs_cli_report_written(to, NULL);
	return show_page(&o, to);
}
