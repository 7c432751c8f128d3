/*
 * Starting and ending readers. posix_spawn() neither copies the holder's page tables nor runs code
 * of ours between the two programs, so it does not matter which threads the holder has.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/mem.h"
#include "reader/reader_int.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEPS_STDERR 1 /* their reports go there */
#else
#define KEEPS_STDERR 0
#endif

/* Its socket, and nothing else of ours: not even our terminal, which it could write to. */
static int set_files(posix_spawn_file_actions_t *files, int fd)
{
	int r = posix_spawn_file_actions_adddup2(files, fd, READER_SOCKET);

	for (int i = 0; r == 0 && i <= (KEEPS_STDERR ? STDOUT_FILENO : STDERR_FILENO); i++)
		r = posix_spawn_file_actions_addopen(files, i, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(files, READER_SOCKET + 1);
	return r;
}

/* A group of its own: a terminal's Ctrl-C is not for it. */
static int set_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setsigmask(attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attr, &all);
	if (r == 0)
		r = posix_spawnattr_setpgroup(attr, 0);
	if (r == 0)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
							   POSIX_SPAWN_SETPGROUP);
	return r;
}

#define MAX_VARIABLES 4

/* What the dynamic loader and sanitizers look for; secrets may be in the others. */
static void choose_environment(char *chosen[MAX_VARIABLES + 1])
{
	static const char *const names[MAX_VARIABLES] = {
		"LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS="};
	unsigned n = 0;

	for (unsigned k = 0; k < MAX_VARIABLES; k++)
		for (char **at = environ; at && *at && n < MAX_VARIABLES; at++)
			if (strncmp(*at, names[k], strlen(names[k])) == 0)
				chosen[n++] = *at;
	chosen[n] = NULL;
}

static int spawn_reader(int fd, pid_t *ret_pid)
{
	char level[2] = {(char)('0' + gs_log_level()), 0};
	char *argv[] = {(char *)(uintptr_t) "gpuscope", (char *)(uintptr_t)READER_ARGUMENT, level,
			NULL};
	char *environment[MAX_VARIABLES + 1];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&files);

	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r != 0) {
		posix_spawn_file_actions_destroy(&files);
		return -r;
	}
	choose_environment(environment);
	r = set_files(&files, fd);
	if (r == 0)
		r = set_attributes(&attr);
	if (r == 0)
		r = posix_spawn(ret_pid, "/proc/self/exe", &files, &attr, argv, environment);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

int reader_process_start(struct reader_process *process, struct gs_err *err)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return gs_err_set(err, -errno, "cannot make a socket for the reader: %s",
				  strerror(errno));
	r = spawn_reader(ends[1], &process->pid);
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
