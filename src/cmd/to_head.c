/* Folders of those that deliver to a head. */
#include "cmd/to_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int to_head_state_folder(char *out, size_t bytes, const char *option, struct gs_err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		snprintf(out, bytes, "/var/lib/gpuscope");
	else if (state && state[0] == '/')
		snprintf(out, bytes, "%s/gpuscope", state);
	else if (home && home[0] == '/')
		snprintf(out, bytes, "%s/.local/state/gpuscope", home);
	else
		return gs_err_set(err, -ENOENT, "no home folder for the spool: give %s DIR",
				  option);
	for (char *p = out + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			(void)mkdir(out, 0755);
			*p = '/';
		}
	if (mkdir(out, 0755) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make %s for the spool: %s; give %s DIR", out,
				  strerror(errno), option);
	return 0;
}
