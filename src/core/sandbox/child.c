/*
 * Processes without rights, as their holders see them: a process and the socket on which it
 * answers. Readers, senders and the process that serves HTTP are such; what is said on the socket
 * is theirs.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox.h"

#define WAIT_MIN_NS 100000000ull
#define WAIT_MAX_NS 5000000000ull
#define SOON_NS     10000000000ull

int gs_sandbox_start_child(const struct gs_sandbox_program *program, struct gs_sandbox_child *ret,
			   struct gs_err *err)
{
	char *argv[] = {(char *)(uintptr_t) "gpuscope", (char *)(uintptr_t)program->arguments[0],
			(char *)(uintptr_t)program->arguments[1], NULL};
	int ends[2], files[GS_SANDBOX_FILES_MAX], r;

	*ret = GS_SANDBOX_NO_CHILD;
	if (program->n_fds >= GS_SANDBOX_FILES_MAX)
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return gs_err_set(err, -errno, "cannot make a socket for the %s: %s", program->name,
				  strerror(errno));
	files[0] = ends[1];
	for (unsigned i = 0; i < program->n_fds; i++)
		files[i + 1] = program->fds[i];
	r = gs_sandbox_spawn(argv, files, program->n_fds + 1, program->variables, &ret->pid);
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		ret->pid = 0;
		return gs_err_set(err, r,
				  "cannot start a %s from /proc/self/exe: %s; is /proc mounted?",
				  program->name, strerror(-r));
	}
	ret->fd = ends[0];
	return 0;
}

int gs_sandbox_end_child(struct gs_sandbox_child *child)
{
	int status = 0;
	pid_t r;

	gs_close_p(&child->fd);
	if (!child->pid)
		return 0;
	r = waitpid(child->pid, &status, WNOHANG);
	if (r == 0 && kill(child->pid, SIGKILL) == 0)
		while ((r = waitpid(child->pid, &status, 0)) < 0 && errno == EINTR)
			;
	child->pid = 0;
	return r > 0 ? status : 0;
}

uint64_t gs_sandbox_restart_wait_ns(unsigned *n_failures, uint64_t lived_ns)
{
	uint64_t wait_ns;

	*n_failures = lived_ns < SOON_NS ? *n_failures + 1 : 0;
	if (!*n_failures)
		return 0;
	wait_ns = WAIT_MIN_NS << (*n_failures < 7 ? *n_failures - 1 : 6);
	return wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS;
}

bool gs_sandbox_trusts_child(const char *work, unsigned held, enum gs_log_topic topic)
{
	char names[128];

	gs_log(GS_LOG_INFO, topic, "the process that %s: %s", work,
	       gs_sandbox_names(held & GS_SANDBOX_ALL, names, sizeof(names)));
	return held & GS_SANDBOX_SECCOMP;
}
