/*
 * A command of Slurm, run in the background: without a shell, with an environment of the caller's
 * making, no input, bounded output and a time limit. It is a process group of its own, so that what
 * it starts ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "sources/identity/job_int.h"

#define PIECE_BYTES 16384
#define PATH_BYTES  4096

bool gs_command_find(const char *folders, const char *program, char *out, size_t bytes)
{
	while (*folders) {
		size_t n = strcspn(folders, ":");
		struct stat st;

		/* Relative folders would mean another program in each working directory. */
		if (n && folders[0] == '/' &&
		    snprintf(out, bytes, "%.*s/%s", (int)n, folders, program) < (int)bytes &&
		    stat(out, &st) == 0 && S_ISREG(st.st_mode) && access(out, X_OK) == 0)
			return true;
		folders += n + (folders[n] == ':');
	}
	return false;
}

int gs_command_start(struct gs_command *c, char *const argv[], char *const envp[],
		     uint64_t limit_ns)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int pipes[2], r;

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigfillset(&all);
	/* Standard output only: it may block there, as commands expect. */
	r = fcntl(pipes[1], F_SETFL, 0) < 0 ? errno : 0;
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, pipes[1], 1);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	if (r == 0)
		r = posix_spawn(&c->pid, argv[0], &files, &attr, argv, envp);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	close(pipes[1]);
	if (r != 0) {
		close(pipes[0]);
		c->pid = 0;
		return -r;
	}
	c->fd = pipes[0];
	c->end_ns = gs_clock_boot_ns() + limit_ns;
	c->has_ended = c->is_long = false;
	gs_buf_reset(&c->out);
	return 0;
}

static void stop_command(struct gs_command *c)
{
	if (c->pid > 0) {
		kill(-c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	c->pid = 0;
	gs_close_p(&c->fd);
}

void gs_command_fini(struct gs_command *c)
{
	stop_command(c);
	gs_buf_fini(&c->out);
}

/* What is there to be read. */
static void read_on(struct gs_command *c)
{
	char piece[PIECE_BYTES];

	while (!c->has_ended && !c->is_long) {
		ssize_t n = read(c->fd, piece, sizeof(piece));

		if (n > 0)
			c->is_long = gs_buf_put(&c->out, piece, (size_t)n) < 0;
		else if (n == 0)
			c->has_ended = true;
		else if (errno != EINTR)
			break;
	}
}

enum gs_command_state gs_command_poll(struct gs_command *c, uint64_t wait_ns)
{
	uint64_t until = gs_clock_boot_ns() + wait_ns;
	enum gs_command_state state = GS_COMMAND_RUNS;
	int status;

	while (state == GS_COMMAND_RUNS) {
		uint64_t now = gs_clock_boot_ns(), left = until > now ? until - now : 0;
		struct pollfd p = {.fd = c->fd, .events = POLLIN};

		if (!c->has_ended) {
			poll(&p, 1, (int)((left + 999999) / 1000000));
			read_on(c);
		}
		now = gs_clock_boot_ns();
		/* It closes its output when it ends, or a moment before. */
		if (c->has_ended && waitpid(c->pid, &status, WNOHANG) == c->pid) {
			c->pid = 0;
			state = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? GS_COMMAND_DONE
									      : GS_COMMAND_FAILED;
		} else if (c->is_long) {
			state = GS_COMMAND_LONG;
		} else if (now >= c->end_ns) {
			state = GS_COMMAND_LATE;
		} else if (now >= until) {
			return state;
		} else if (c->has_ended) {
			poll(NULL, 0, 1);
		}
	}
	stop_command(c);
	return state;
}
