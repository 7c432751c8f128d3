/* Folders that are chosen for who names none. */
#include "core/base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int gs_folder_state(char *out, size_t bytes, const char *what, const char *option,
		    struct gs_err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		snprintf(out, bytes, "/var/lib/gpuscope");
	else if (state && state[0] == '/')
		snprintf(out, bytes, "%s/gpuscope", state);
	else if (home && home[0] == '/')
		snprintf(out, bytes, "%s/.local/state/gpuscope", home);
	else
		return gs_err_set(err, -ENOENT, "no home folder for %s: give %s DIR", what, option);
	for (char *p = out + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			(void)mkdir(out, 0755);
			*p = '/';
		}
	if (mkdir(out, 0755) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make %s for %s: %s; give %s DIR", out, what,
				  strerror(errno), option);
	return 0;
}

bool gs_folder_config(char *out, size_t bytes)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	if (config && config[0] == '/')
		n = snprintf(out, bytes, "%s/gpuscope", config);
	else if (home && home[0] == '/')
		n = snprintf(out, bytes, "%s/.config/gpuscope", home);
	return n > 0 && (size_t)n < bytes;
}

bool gs_folder_sockets(size_t i, char *out, size_t bytes)
{
	const char *service = getenv("RUNTIME_DIRECTORY"), *run = getenv("XDG_RUNTIME_DIR");
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	size_t n = 0;
	int written = -1;

	/* Of a service it is what systemd has made for it: one folder, as our unit has it. */
	if (service && service[0] == '/' && !strchr(service, ':') && i == n++)
		written = snprintf(out, bytes, "%s", service);
	else if (geteuid() == 0 && i == n++)
		written = snprintf(out, bytes, GS_FOLDER_SOCKETS_SYSTEM);
	else if (geteuid() != 0 && run && run[0] == '/' && i == n++)
		written = snprintf(out, bytes, "%s/gpuscope", run);
	else if (geteuid() != 0 && state && state[0] == '/' && i == n++)
		written = snprintf(out, bytes, "%s/gpuscope", state);
	else if (geteuid() != 0 && home && home[0] == '/' && i == n++)
		written = snprintf(out, bytes, "%s/.local/state/gpuscope", home);
	else if (geteuid() != 0 && i == n)
		written = snprintf(out, bytes, GS_FOLDER_SOCKETS_SYSTEM);
	return written > 0 && (size_t)written < bytes;
}
