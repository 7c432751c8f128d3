/* Starting and ending readers. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/reader/reader_int.h"
#include "core/sandbox/sandbox.h"

int reader_process_start(struct reader_process *process, struct gs_err *err)
{
	char log[GS_LOG_SETTINGS_BYTES];
	char *argv[] = {(char *)(uintptr_t) "gpuscope", (char *)(uintptr_t)READER_ARGUMENT, log,
			NULL};
	int ends[2], r;

	gs_log_put_settings(log);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return gs_err_set(err, -errno, "cannot make a socket for the reader: %s",
				  strerror(errno));
	r = gs_sandbox_spawn(argv, &ends[1], 1, NULL, &process->pid);
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		process->pid = 0;
		return gs_err_set(
			err, r, "cannot start a reader from /proc/self/exe: %s; is /proc mounted?",
			strerror(-r));
	}
	process->fd = ends[0];
	return 0;
}

int reader_process_end(struct reader_process *process)
{
	int status = 0;
	pid_t r;

	gs_close_p(&process->fd);
	if (!process->pid)
		return 0;
	r = waitpid(process->pid, &status, WNOHANG);
	if (r == 0) {
		kill(process->pid, SIGKILL);
		while ((r = waitpid(process->pid, &status, 0)) < 0 && errno == EINTR)
			;
	}
	process->pid = 0;
	return r > 0 ? status : 0;
}
