/*
 * gpuscope help COMMAND, or a topic: its man page, by man(1), which brings its own pager to a terminal. The page is the
 * one that belongs to this program: of its prefix, or of its source tree where it was built there. Where man
 * is missing, or finds no page, all options of a command are printed instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "commands/main/main.h"

extern char **environ;

/* The page of this name ("gpuscope-top") as a file of this installation. */
static bool find_page(const char *name, char *out, size_t bytes)
{
	/* %1$u: the section; the last one is of a source tree */
	static const char *const places[] = {"../share/man/man%1$u/%2$s.%1$u",
					     "../share/man/man%1$u/%2$s.%1$u.gz",
					     "../../man/%2$s.%1$u"};
	static const unsigned sections[] = {1, 8, 5, 7, 3};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	if (n > 0)
		*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(places) * GS_ARRAY_LEN(sections); i++) {
		unsigned section = sections[i / GS_ARRAY_LEN(places)];
		size_t at = (size_t)snprintf(out, bytes, "%s", self);

		if (at < bytes)
			at += (size_t)snprintf(out + at, bytes - at,
					       places[i % GS_ARRAY_LEN(places)], section, name,
					       section);
		if (at < bytes && access(out, R_OK) == 0)
			return true;
	}
	return false;
}

/* Whether man showed it. Its own errors are not for the user: the options are printed then. */
static bool show_page(char *const *words)
{
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;
	bool is_started;

	fflush(NULL);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return false;
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	is_started = posix_spawnp(&pid, "man", &actions, NULL, words, environ) == 0;
	posix_spawn_file_actions_destroy(&actions);
	if (is_started)
		(void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
	return is_started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool cmd_manual_show(const char *topic)
{
	bool is_library = strcmp(topic, CMD_MANUAL_LIBRARY) == 0;
	char page[PATH_MAX + 64], name[80], man[] = "man", local[] = "-l";
	char *file[] = {man, local, page, NULL};
	char *by_name[] = {man, name, NULL};

	snprintf(name, sizeof(name), "%s%.60s", is_library ? "" : "gpuscope-", topic);
	return show_page(find_page(name, page, sizeof(page)) ? file : by_name);
}
