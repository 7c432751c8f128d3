#include "commands/common/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/fmt.h"

void gs_cli_print_message(const char *fmt, ...)
{
	va_list ap;

	fputs("gpuscope: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void gs_cli_print_text(const char *text)
{
	gs_cli_print_message("%s", text);
}

void gs_cli_print_failure(const struct gs_err *err, int r)
{
	bool is_missing = gs_cli_exit_status_of(r) == GS_EXIT_NOT_PERMITTED;

	gs_cli_print_message("%s%s", gs_err_text(err, r),
			     is_missing ? "; `gpuscope doctor` shows what else is missing" : "");
}

/* What opens a file of this name; NULL: the suffix does not say. */
static const char *opener_of(const char *path)
{
	static const struct {
		const char *suffix, *opener;
	} openers[] = {
		{".pftrace", "open it in ui.perfetto.dev"},
		{".gst", "gpuscope report FILE shows it, gpuscope open FILE in a browser"},
		{".svg", "open it in a web browser"},
		{".html", "open it in a web browser"},
		{".folded", "open it in speedscope.app or flamegraph.pl"},
		{".csv", "open it in a spreadsheet"},
		{".pdf", "open it in a PDF viewer"},
	};
	size_t n = strlen(path);

	for (size_t i = 0; i < GS_ARRAY_LEN(openers); i++) {
		size_t tail = strlen(openers[i].suffix);

		if (n > tail && strcmp(path + n - tail, openers[i].suffix) == 0)
			return openers[i].opener;
	}
	return NULL;
}

static bool is_quiet; /* set once, before threads are started */

void gs_cli_be_quiet(void)
{
	is_quiet = true;
}

static void report_file(const char *path, const char *opener)
{
	char size[GS_FMT_BYTES];
	struct stat st;

	if (is_quiet || stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    strncmp(path, "/dev/", 5) == 0)
		return;
	gs_fmt_bytes(size, (uint64_t)st.st_size);
	if (opener)
		gs_cli_print_message("wrote %s (%s): %s", path, size, opener);
	else
		gs_cli_print_message("wrote %s (%s)", path, size);
}

void gs_cli_report_written(const char *path, const char *opener)
{
	const char *known = opener_of(path);

	report_file(path, known ? known : opener);
}

void gs_cli_report_samples_written(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && strcmp(dot, ".gst") == 0)
		report_file(
			path,
			"gpuscope top --replay FILE shows it, gpuscope report --plot FIGURE.svg FILE draws it");
	else
		gs_cli_report_written(path, NULL);
}

int gs_cli_exit_status_of(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
	case -ENOTSUP:
		return GS_EXIT_NOT_PERMITTED;
	case -ESRCH:
	case -ENODATA:
		return GS_EXIT_NOTHING;
	default:
		return GS_EXIT_FAILED;
	}
}

static sigset_t signals_before; /* that were blocked before the first was held */

void gs_cli_hold_signals(void)
{
	sigset_t held;

	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigprocmask(SIG_BLOCK, &held, &signals_before);
}

void gs_cli_release_signals(void)
{
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
}
