#include "commands/common/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/output.h"
#include "commands/common/cli.h"

void gs_cli_summary_style(FILE *stream, bool color_auto, struct gs_report_summary_style *style)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	struct winsize ws;

	if (!isatty(fileno(stream)))
		return;
	if (ioctl(fileno(stream), TIOCGWINSZ, &ws) == 0)
		style->width = ws.ws_col;
	if (color_auto)
		style->color = !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* What COLUMNS asks for, else what fits on a line of a log or a mail. */
static unsigned summary_columns(void)
{
	const char *columns = getenv("COLUMNS");
	char *end;
	long n;

	if (!columns || !*columns)
		return GS_CLI_COLUMNS;
	n = strtol(columns, &end, 10);
	return *end || n < 0 || n > GS_CLI_COLUMNS_MAX ? GS_CLI_COLUMNS : (unsigned)n;
}

void gs_cli_summary_page(FILE *stream, const char *path, bool color_auto, int width,
			 struct gs_report_summary_style *style)
{
	style->width = 0;
	if (!path)
		gs_cli_summary_style(stream, color_auto, style);
	if (!style->width)
		style->width = summary_columns();
	if (width >= 0)
		style->width = (unsigned)width;
}

void gs_cli_summary_settle(struct gs_report_summary_style *style, bool top_given)
{
	if (style->verbose && style->view == GS_SUMMARY_SHORT)
		style->view = GS_SUMMARY_ALL;
	if (!top_given)
		style->n_top =
			style->view == GS_SUMMARY_SHORT ? GS_SUMMARY_TOP_SHORT : GS_SUMMARY_TOP;
}

bool gs_cli_parse_width(const char *word, int *ret_width)
{
	char *end;
	long n = strtol(word, &end, 10);

	*ret_width = (int)n;
	return *word && !*end && (n == 0 || n >= GS_CLI_COLUMNS_MIN) && n <= GS_CLI_COLUMNS_MAX;
}

int gs_cli_summary_write(const char *path, unsigned flags, FILE *fallback,
			 const struct gs_summary *summary, enum gs_report_summary_format format,
			 const struct gs_report_summary_style *style)
{
	struct gs_output file = GS_OUTPUT_INIT;
	struct gs_err err = {{0}};
	FILE *out = fallback;
	int r = path ? gs_output_open(path, flags, &file, &err) : 0;

	if (r == 0 && path)
		out = gs_output_stream(&file);
	if (r == 0)
		r = out ? gs_report_summary_write(out, summary, format, style) : -ENOMEM;
	if (r == 0 && fflush(out) != 0)
		r = -errno;
	r = gs_output_close(&file, r, &err);
	if (r < 0)
		gs_cli_print_message("the summary: %s", err.text[0] ? err.text : strerror(-r));
	return r;
}
