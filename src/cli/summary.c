#include "cli/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"

void gs_cli_summary_style(FILE *stream, bool color_auto, struct gs_summary_style *style)
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

int gs_cli_summary_write(const char *path, FILE *fallback, const struct gs_summary *summary,
			 enum gs_summary_format format, const struct gs_summary_style *style)
{
	GS_FCLOSE FILE *file = path ? fopen(path, "we") : NULL;
	FILE *out = path ? file : fallback;
	int r;

	if (!out) {
		r = -errno;
		gs_say("cannot write the summary to %s: %s", path, strerror(errno));
		return r;
	}
	r = gs_summary_write(out, summary, format, style);
	if (r == 0 && fflush(out) != 0)
		r = -errno;
	if (r < 0)
		gs_say("cannot write the summary%s%s: %s", path ? " to " : "", path ? path : "",
		       strerror(-r));
	return r;
}
