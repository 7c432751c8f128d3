/*
 * The traced command: forked before the probes are made, so that its pid can be followed, and held
 * at a pipe until they are in place. Its standard streams, environment and signals are those that
 * we were given.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

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

static void become_command(char **command, const struct inherited_signals *signals,
			   const struct trace_inside *inside, int go_fd, int error_fd)
{
	char go;
	int e;

	/* A tracer that dies before the start must not leave a child behind; afterwards the command
	 * must not die with us. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go_fd, &go, 1) != 1)
		_exit(GS_EXIT_FAILED);
	prctl(PR_SET_PDEATHSIG, 0);
	sigaction(SIGPIPE, &signals->pipe, NULL);
	sigaction(SIGXFSZ, &signals->file_size, NULL);
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
	trace_inside_enter(inside);
	execvp(command[0], command);
	e = errno;
	if (write(error_fd, &e, sizeof(e)) != sizeof(e))
		_exit(GS_EXIT_FAILED);
	_exit(e == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_NOT_EXECUTABLE);
}

int trace_child_prepare(struct child *child, char **command,
			const struct inherited_signals *signals, const struct trace_inside *inside)
{
	int go[2] = {-1, -1}, error[2] = {-1, -1};
	int r;

	*child = (struct child){.pid = -1, .go_fd = -1, .error_fd = -1};
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	r = pipe2(error, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0) {
		child->pid = fork();
		r = child->pid < 0 ? -errno : 0;
	}
	if (r == 0 && child->pid == 0) {
		close(go[1]);
		become_command(command, signals, inside, go[0], error[1]);
	}
	close(go[0]);
	gs_close_p(&error[1]);
	if (r < 0) {
		close(go[1]);
		gs_close_p(&error[0]);
		return r;
	}
	child->go_fd = go[1];
	child->error_fd = error[0];
	return 0;
}

int trace_child_start(struct child *child, char **command)
{
	int e = 0, status;

	if (write(child->go_fd, "g", 1) != 1) {
		gs_cli_print_message("the command could not be started: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	gs_close_p(&child->go_fd);
	if (read(child->error_fd, &e, sizeof(e)) != sizeof(e))
		e = 0;
	gs_close_p(&child->error_fd);
	if (!e)
		return 0;
	waitpid(child->pid, &status, 0);
	child->pid = -1;
	if (e == ENOENT) {
		gs_cli_print_message("%s: command not found", command[0]);
		return GS_EXIT_NOT_FOUND;
	}
	gs_cli_print_message("%s: cannot be executed: %s", command[0], strerror(e));
	return GS_EXIT_NOT_EXECUTABLE;
}

void trace_child_abandon(struct child *child)
{
	gs_close_p(&child->go_fd);
	gs_close_p(&child->error_fd);
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	child->pid = -1;
}
