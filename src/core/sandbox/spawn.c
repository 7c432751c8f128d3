/*
 * Starting this program a second time, for a part of the work that is done without rights.
 * posix_spawn() neither copies the caller's page tables nor runs code of ours between the two
 * programs, so it does not matter which threads the caller has; and nothing of the caller's memory
 * is in the new process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/sandbox_int.h"

#define VARIABLES_MAX 32

#ifdef GS_SANITIZER
#define KEEPS_STDERR 1 /* their reports go there */
#else
#define KEEPS_STDERR 0
#endif

/* Its own files, and nothing else of ours: not even our terminal, which it could write to. */
static int set_files(posix_spawn_file_actions_t *files, const int *fds, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = posix_spawn_file_actions_adddup2(files, fds[i], GS_SANDBOX_FIRST_FILE + (int)i);
	for (int i = 0; r == 0 && i <= (KEEPS_STDERR ? STDOUT_FILENO : STDERR_FILENO); i++)
		r = posix_spawn_file_actions_addopen(files, i, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(files, GS_SANDBOX_FIRST_FILE + (int)n);
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

static unsigned add_variables(char **chosen, unsigned n, const char *const *names)
{
	for (; *names; names++)
		for (char **at = environ; at && *at && n < VARIABLES_MAX; at++)
			if (strncmp(*at, *names, strlen(*names)) == 0)
				chosen[n++] = *at;
	return n;
}

/* What the dynamic loader and sanitizers look for, and what the caller names; secrets may be in the
 * others. */
static void choose_environment(char *chosen[VARIABLES_MAX + 1], const char *const *names)
{
	static const char *const always[] = {
		"LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=", NULL};
	unsigned n = add_variables(chosen, 0, always);

	if (names)
		n = add_variables(chosen, n, names);
	chosen[n] = NULL;
}

static int spawn_with(char *const argv[], const int *fds, unsigned n, const char *const *variables,
		      pid_t *ret_pid)
{
	char *environment[VARIABLES_MAX + 1];
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
	choose_environment(environment, variables);
	r = set_files(&files, fds, n);
	if (r == 0)
		r = set_attributes(&attr);
	if (r == 0)
		r = posix_spawn(ret_pid, "/proc/self/exe", &files, &attr, argv, environment);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

int gs_sandbox_spawn(char *const argv[], const int *fds, unsigned n_fds,
		     const char *const *variables, pid_t *ret_pid)
{
	int above[GS_SANDBOX_FILES_MAX] = {0}, r = n_fds > GS_SANDBOX_FILES_MAX ? -EINVAL : 0;
	unsigned n = 0;

	/* Out of the way of the numbers that they get. */
	for (; r == 0 && n < n_fds; n++) {
		above[n] = fcntl(fds[n], F_DUPFD_CLOEXEC,
				 GS_SANDBOX_FIRST_FILE + GS_SANDBOX_FILES_MAX);
		if (above[n] < 0) {
			r = -errno;
			break;
		}
	}
	if (r == 0)
		r = spawn_with(argv, above, n_fds, variables, ret_pid);
	while (n > 0)
		close(above[--n]);
	return r;
}
