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
		gs_cli_say("the summary: %s", err.text[0] ? err.text : strerror(-r));
	return r;
}
