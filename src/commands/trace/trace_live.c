/*
 * The live line of `gpuscope trace` on a terminal: elapsed time, calls, their rate since the line
 * before, the share of its time that a thread waits for the GPU, what tracing costs, what is lost.
 * Nothing is written to a pipe or a file.
 *
 * The traced command writes to the same terminal at any time, also parts of a line. So the line
 * stands below the cursor, which stays where the command left it, and never takes two rows. When
 * the command has ended a line since, the old one is what the cursor stands on.
 */
#include "commands/trace/trace_live.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "commands/trace/trace.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"

#define TO_CLEAN                                                                                   \
	"\033[K\033D\033[A\0337\033[B\r\033[K" /* make room, keep the cursor, a row down           \
						*/
#define AND_BACK     "\0338"
#define LIVE_MIN_NS  200000000ull
#define START_MIN_NS 1000000000ull /* a start that is shorter is none to speak of */

/* Adds a part when the row has room for all of it. */
static void add_part(char *text, size_t columns, const char *part)
{
	size_t n = strlen(text);

	if (n + strlen(part) < columns)
		memcpy(text + n, part, strlen(part) + 1);
}

/* Columns that a line may take; 0: there is no place for one. */
static size_t live_columns(void)
{
	struct winsize ws = {0};

	if (!isatty(STDERR_FILENO) || ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_row < 2 ||
	    ws.ws_col < 2)
		return 0;
	return ws.ws_col;
}

void trace_live_show_start(struct trace_live *l, uint64_t elapsed_ns)
{
	char a[GS_FMT_BYTES], text[100];

	if (elapsed_ns < START_MIN_NS || elapsed_ns < l->elapsed_ns + LIVE_MIN_NS ||
	    live_columns() < sizeof(text) / 2)
		return;
	snprintf(text, sizeof(text), "looking through processes: %s", gs_fmt_ns(a, elapsed_ns));
	fprintf(stderr, TO_CLEAN "%s" AND_BACK, text);
	fflush(stderr);
	*l = (struct trace_live){.is_shown = true, .elapsed_ns = elapsed_ns};
}

void trace_live_show(struct trace_live *l, struct trace_output *output, double cost_ratio,
		     uint64_t elapsed_ns)
{
	char a[GS_FMT_BYTES], text[200] = "", part[100];
	struct trace_progress p;
	uint64_t calls;
	size_t columns = live_columns();

	if (elapsed_ns < LIVE_MIN_NS || !columns)
		return;
	columns = columns < sizeof(text) ? columns : sizeof(text);
	trace_output_progress(output, &p);
	calls = p.calls[GS_LAYER_NONE];
	snprintf(part, sizeof(part), "tracing %s", gs_fmt_ns(a, elapsed_ns));
	add_part(text, columns, part);
	snprintf(part, sizeof(part), ", %s calls", gs_fmt_count(a, calls));
	add_part(text, columns, part);
	if (elapsed_ns > l->elapsed_ns && calls >= l->calls) {
		snprintf(part, sizeof(part), ", now %s",
			 gs_fmt_rate(a, calls - l->calls, elapsed_ns - l->elapsed_ns));
		add_part(text, columns, part);
	}
	if (p.gpu_wait_ratio >= 0) {
		snprintf(part, sizeof(part), ", GPU wait %.0f %%", 100 * p.gpu_wait_ratio);
		add_part(text, columns, part);
	}
	if (cost_ratio >= 0) {
		snprintf(part, sizeof(part), ", tracing costs %.1f %%", 100 * cost_ratio);
		add_part(text, columns, part);
	}
	if (p.lost) {
		snprintf(part, sizeof(part), ", %s lost", gs_fmt_count(a, p.lost));
		add_part(text, columns, part);
	}
	fprintf(stderr, TO_CLEAN "%s" AND_BACK, text);
	fflush(stderr);
	*l = (struct trace_live){.is_shown = true, .calls = calls, .elapsed_ns = elapsed_ns};
}

void trace_live_clear(struct trace_live *l)
{
	if (l->is_shown)
		fputs(TO_CLEAN AND_BACK "\r", stderr);
	l->is_shown = false;
}

void trace_live_begin(struct trace_live *l)
{
	trace_live_clear(l);
	*l = (struct trace_live){0};
}
