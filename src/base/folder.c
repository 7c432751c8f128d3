/* Folders that are chosen for who names none. */
#include "base/folder.h"

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
