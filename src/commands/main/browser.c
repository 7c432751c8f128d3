#include "commands/main/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"

#define MAX_WORDS      32
#define MAX_URL_BYTES  (3 * 4096 + 8)
#define SOON_MS        2000 /* what has not failed by then has started */
#define DEFAULT_OPENER "xdg-open"

int cmd_browser_address(const char *path, char *ret_url, unsigned bytes)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	unsigned n = (unsigned)snprintf(ret_url, bytes, "file://");

	for (; *path && n + 4 < bytes; path++) {
		if (strchr(plain, *path))
			ret_url[n++] = *path;
		else
			n += (unsigned)sprintf(ret_url + n, "%%%02X", (unsigned char)*path);
	}
	ret_url[n] = '\0';
	return *path ? -ENAMETOOLONG : 0;
}

/* A word of $BROWSER with the address in the place of %s; owned, NULL: no memory. */
static char *fill_word(const char *word, const char *url, bool *filled)
{
	const char *at = strstr(word, "%s");
	char *text;

	if (!at)
		return strdup(word);
	*filled = true;
	return asprintf(&text, "%.*s%s%s", (int)(at - word), word, url, at + 2) < 0 ? NULL : text;
}

/* The words of one command; written to. How many, or -ENOMEM. */
static int split_command(char *command, const char *url, char *ret_words[MAX_WORDS + 2])
{
	bool filled = false;
	char *rest = command, *word;
	int n = 0;

	while ((word = strsep(&rest, " ")) != NULL && n < MAX_WORDS) {
		if (!*word)
			continue;
		ret_words[n] = fill_word(word, url, &filled);
		if (!ret_words[n++])
			return -ENOMEM;
	}
	if (n && !filled) {
		ret_words[n] = strdup(url);
		if (!ret_words[n++])
			return -ENOMEM;
	}
	return n;
}

static void become_browser(char *const *words, bool has_window, int error_fd)
{
	int e;

	if (has_window) { /* it outlives us and our terminal */
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		setsid();
		if (null >= 0)
			for (int fd = 0; fd < 3; fd++)
				dup2(null, fd);
	}
	execvp(words[0], words);
	e = errno;
	if (write(error_fd, &e, sizeof(e)) < 0)
		_exit(126);
	_exit(127);
}

/* Waits until the browser has ended, or, of one with a window, until it has lived long enough. */
static int await_browser(pid_t pid, bool has_window, const char *name, struct gs_err *err)
{
	GS_CLOSE int fd = has_window ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int status = 0;

	if (fd >= 0 && poll(&p, 1, SOON_MS) == 0)
		return 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status))
		return gs_err_set(err, -EIO, "the browser %s failed: exit status %d", name,
				  WEXITSTATUS(status));
	return gs_err_set(err, -EIO, "the browser %s was killed by signal %d", name,
			  WTERMSIG(status));
}

static int start_browser(char *const *words, bool has_window, struct gs_err *err)
{
	GS_CLOSE int from_fd = -1;
	GS_CLOSE int to_fd = -1;
	int fds[2], e = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	from_fd = fds[0];
	to_fd = fds[1];
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become_browser(words, has_window, to_fd);
	gs_close_p(&to_fd);
	do {
		n = read(from_fd, &e, sizeof(e));
	} while (n < 0 && errno == EINTR);
	if (n == sizeof(e)) {
		waitpid(pid, NULL, 0);
		return gs_err_set(err, -e, "cannot start the browser %s: %s", words[0],
				  strerror(e));
	}
	return await_browser(pid, has_window, words[0], err);
}

static int try_command(char *command, const char *url, bool has_window, struct gs_err *err)
{
	char *words[MAX_WORDS + 2] = {NULL};
	int n = split_command(command, url, words), r = n < 0 ? n : -ENOENT;

	if (n > 0)
		r = start_browser(words, has_window, err);
	for (unsigned i = 0; i < MAX_WORDS + 2; i++)
		free(words[i]);
	return r;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

int cmd_browser_show(const char *path, struct gs_err *err)
{
	bool has_window = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
	GS_FREE char *commands = NULL;
	char url[MAX_URL_BYTES], *rest, *command;
	int r = cmd_browser_address(path, url, sizeof(url));

	if (r < 0)
		return gs_err_set(err, r, "%s: the path is too long", path);
	if (!is_set("BROWSER") && !has_window)
		return -ENODEV;
	commands = strdup(is_set("BROWSER") ? getenv("BROWSER") : DEFAULT_OPENER);
	if (!commands)
		return -ENOMEM;
	rest = commands;
	r = -ENODEV;
	while (r < 0 && (command = strsep(&rest, ":")) != NULL)
		if (command[strspn(command, " ")])
			r = try_command(command, url, has_window, err);
	return r;
}
