/* A thread that waits for signals while another one ends the trace. */
#include "commands/trace/trace_quit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "core/base/clock.h"

#define PAUSE_NS 20000000
#define LAST_NS  1000000000ull /* for what is quick, once profilers are not waited for */
#define TWICE_NS                                                                                   \
	100000000ull /* as soon after the one that ended the trace it is the same, sent to a group too */

/* What there is of it, in one line; the process ends. */
static void quit_now(struct trace_quit *quit)
{
	enum trace_quit_stage stage = atomic_load(&quit->stage);
	char files[400] = "";
	size_t at = 0;

	for (unsigned i = 0; i < quit->n_files && at < sizeof(files); i++)
		at += (size_t)snprintf(files + at, sizeof(files) - at, "%s%s", i ? ", " : "",
				       quit->files[i]);
	if (stage == TRACE_QUIT_WRITTEN)
		gs_cli_print_message(
			"interrupted twice while probes were removed; all was written");
	else if (!quit->n_files)
		gs_cli_print_message("interrupted twice: the summary was not written");
	else if (stage == TRACE_QUIT_SUMMARY)
		gs_cli_print_message("interrupted twice: %s written, the summary was not", files);
	else
		gs_cli_print_message(
			"interrupted twice: the summary was not written, and %s may lack the last events (gpuscope report reads what is in a .gst)",
			files);
	_exit(128 + SIGINT);
}

/* A terminal that is closed, and who ends a job, may send the same signal twice: only Ctrl-C once more asks for the end
 * at once. */
static bool is_last(const struct trace_quit *quit, int number, uint64_t since_ns)
{
	unsigned n = atomic_load(&quit->n_signals) + quit->n_before;

	return number == SIGINT && n >= 2 && gs_clock_mono_ns() - since_ns >= TWICE_NS;
}

static void *wait_for_signals(void *ctx)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t since_ns = gs_clock_mono_ns(), until_ns = 0;
	struct trace_quit *quit = ctx;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	while (!atomic_load(&quit->is_over)) {
		int number = sigtimedwait(&set, NULL, &pause);

		if (number > 0) {
			atomic_fetch_add(&quit->n_signals, 1);
			atomic_store(&quit->gives_up, true);
		}
		if (number > 0 && is_last(quit, number, since_ns) && !until_ns)
			until_ns =
				gs_clock_mono_ns() +
				(atomic_load(&quit->stage) == TRACE_QUIT_PROFILERS ? LAST_NS : 0);
		if (until_ns && gs_clock_mono_ns() >= until_ns)
			quit_now(quit);
	}
	return NULL;
}

void trace_quit_begin(struct trace_quit *quit, unsigned n_before, const char *const *files,
		      unsigned n_files)
{
	quit->n_before = n_before;
	quit->files = files;
	quit->n_files = n_files;
	quit->has_thread = pthread_create(&quit->thread, NULL, wait_for_signals, quit) == 0;
}

void trace_quit_enter(struct trace_quit *quit, enum trace_quit_stage stage)
{
	atomic_store(&quit->stage, stage);
}

unsigned trace_quit_n_signals(const struct trace_quit *quit)
{
	return atomic_load(&quit->n_signals);
}

void trace_quit_end(struct trace_quit *quit)
{
	if (!quit->has_thread)
		return;
	atomic_store(&quit->is_over, true);
	pthread_join(quit->thread, NULL);
	quit->has_thread = false;
}
