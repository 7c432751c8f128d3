/* The traced command and its signals: those that we were given (sources/program starts it). */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "commands/common/cli.h"
#include "commands/trace/trace.h"
#include "commands/trace/trace_inside.h"

int trace_open_signals(const struct trace_options *options, struct inherited_signals *ret_inherited,
		       int *ret_fd)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	if (options->keep_last_ns)
		sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, &ret_inherited->mask);
	/* An output that is no longer read and a file at its limit are errors, not deaths. */
	sigaction(SIGPIPE, &ignore, &ret_inherited->pipe);
	sigaction(SIGXFSZ, &ignore, &ret_inherited->file_size);
	*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

struct entering {
	const struct inherited_signals *signals;
	const struct trace_inside *inside;
};

static void enter_command(const void *ctx)
{
	const struct entering *e = ctx;

	sigaction(SIGPIPE, &e->signals->pipe, NULL);
	sigaction(SIGXFSZ, &e->signals->file_size, NULL);
	trace_inside_enter(e->inside);
}

int trace_child_prepare(struct gs_program *child, char **command,
			const struct inherited_signals *signals, const struct trace_inside *inside)
{
	const struct entering entering = {signals, inside};
	const struct gs_program_options o = {.size = sizeof(o),
					     .words = command,
					     .mask = &signals->mask,
					     .enter = enter_command,
					     .enter_ctx = &entering};

	return gs_program_prepare(&o, child);
}

int trace_child_start(struct gs_program *child, char **command)
{
	struct gs_err err = {{0}};
	int r = gs_program_start(child, command[0], &err);

	if (r == 0)
		return 0;
	gs_cli_print_message("%s", gs_err_text(&err, r));
	if (child->pid > 0)
		return GS_EXIT_FAILED;
	return r == -ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_NOT_EXECUTABLE;
}
