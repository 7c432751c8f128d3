/* Starts the command that is traced, and looks at what may be seen of processes. */
#include "sources/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"

/* As shells have them. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127

static void become_command(const struct gs_program_options *o, int go_fd, int error_fd)
{
	char go;
	int e;

	/* A tracer that dies before the start must not leave a child behind; afterwards the command
	 * must not die with us. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go_fd, &go, 1) != 1)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, 0);
	if (o->enter)
		o->enter(o->enter_ctx);
	sigprocmask(SIG_SETMASK, o->mask, NULL);
	execvp(o->words[0], o->words);
	e = errno;
	if (write(error_fd, &e, sizeof(e)) != sizeof(e))
		_exit(1);
	_exit(e == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

int gs_program_prepare(const struct gs_program_options *options, struct gs_program *program)
{
	int go[2] = {-1, -1}, error[2] = {-1, -1};
	int r;

	*program = GS_PROGRAM_INIT;
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	r = pipe2(error, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0) {
		program->pid = fork();
		r = program->pid < 0 ? -errno : 0;
	}
	if (r == 0 && program->pid == 0) {
		close(go[1]);
		become_command(options, go[0], error[1]);
	}
	close(go[0]);
	gs_close_p(&error[1]);
	if (r < 0) {
		close(go[1]);
		gs_close_p(&error[0]);
		return r;
	}
	program->go_fd = go[1];
	program->error_fd = error[0];
	return 0;
}

int gs_program_start(struct gs_program *program, const char *name, struct gs_err *err)
{
	int e = 0;

	if (write(program->go_fd, "g", 1) != 1)
		return gs_err_set(err, -errno, "the command could not be started: %s",
				  strerror(errno));
	gs_close_p(&program->go_fd);
	if (read(program->error_fd, &e, sizeof(e)) != sizeof(e))
		e = 0;
	gs_close_p(&program->error_fd);
	if (!e)
		return 0;
	waitpid(program->pid, NULL, 0);
	program->pid = -1;
	if (e == ENOENT)
		return gs_err_set(err, -ENOENT, "%s: command not found", name);
	return gs_err_set(err, -e, "%s: cannot be executed: %s", name, strerror(e));
}

void gs_program_abandon(struct gs_program *program)
{
	gs_close_p(&program->go_fd);
	gs_close_p(&program->error_fd);
	if (program->pid > 0) {
		kill(program->pid, SIGKILL);
		waitpid(program->pid, NULL, 0);
	}
	program->pid = -1;
}
