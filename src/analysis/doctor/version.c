/*
 * Versions by names of files: NCCL's carries it, and the libraries of Python's packages have a folder beside them that does.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/mem.h"

#define ENTRIES_MAX 65536
#define LEVELS_MAX  4 /* site-packages/nvidia/nccl/lib/FILE */

/* "2.27.5" at the begin of text. */
static bool read_version(const char *text, struct doctor_version *v)
{
	*v = (struct doctor_version){-1, -1, -1};
	return sscanf(text, "%5d.%5d.%5d", &v->major, &v->minor, &v->update) >= 2;
}

/* A folder below site-packages that is named after the wheel and its version, as pip leaves it. */
static bool find_wheel(const char *folder, const char *wheel, struct doctor_version *ret)
{
	DIR *dir = opendir(folder);
	size_t bytes = strlen(wheel);
	struct dirent *e;
	bool found = false;

	for (unsigned n = 0; dir && !found && n < ENTRIES_MAX && (e = readdir(dir)) != NULL; n++) {
		const char *dash = strchr(e->d_name, '-');

		/* nvidia_nccl_cu12-2.27.5.dist-info */
		found = dash && strncmp(e->d_name, wheel, bytes) == 0 &&
			(e->d_name[bytes] == '-' || strncmp(e->d_name + bytes, "_cu", 3) == 0) &&
			strstr(dash, ".dist-info") && read_version(dash + 1, ret);
	}
	if (dir)
		closedir(dir);
	return found;
}

bool doctor_version_of(const char *path, const char *wheel, struct doctor_version *ret)
{
	char folder[PATH_MAX], *slash;
	const char *name = strrchr(path, '/'), *so;

	so = strstr(name ? name : path, ".so.");
	if (so && read_version(so + 4, ret))
		return true;
	snprintf(folder, sizeof(folder), "%s", path);
	for (int level = 0; level < LEVELS_MAX && (slash = strrchr(folder, '/')) != NULL; level++) {
		*slash = '\0';
		slash = strrchr(folder, '/');
		if (slash && strcmp(slash, "/site-packages") != 0 &&
		    strcmp(slash, "/dist-packages") != 0)
			continue;
		return find_wheel(folder, wheel, ret);
	}
	return false;
}
