/* A library by its name alone, where ld.so would find it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sources/elf/library.h"
#include "sources/elf/library_int.h"

/* Of ld.so on x86-64, Debian's first. */
#define DEFAULT_FOLDERS                                                                            \
	"/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib"

/* "libc.so.6" is asked for by that, and by "libc". */
static bool is_called(const char *name, const char *asked)
{
	size_t n = strlen(asked);

	return strncmp(name, asked, n) == 0 && (!name[n] || strncmp(name + n, ".so", 3) == 0);
}

/* Of a list of folders ("a:b") the first that has a file of exactly this name. */
static bool in_folders(const char *folders, const char *name, char path[PATH_MAX])
{
	while (folders && *folders) {
		size_t n = strcspn(folders, ":;");

		if (n && snprintf(path, PATH_MAX, "%.*s/%s", (int)n, folders, name) < PATH_MAX &&
		    access(path, R_OK) == 0)
			return true;
		folders += n + (folders[n] != '\0');
	}
	return false;
}

static bool in_cache(const char *asked, char path[PATH_MAX])
{
	struct gs_ldcache cache = GS_LDCACHE_INIT;
	const char *name, *file;
	size_t i = 0;
	bool found = false;

	if (gs_ldcache_load(&cache, "/etc/ld.so.cache") < 0)
		return false;
	while (i < cache.n_entries && !found) {
		if (gs_ldcache_get(&cache, i++, &name, &file) && is_called(name, asked) &&
		    access(file, R_OK) == 0)
			found = snprintf(path, PATH_MAX, "%s", file) < PATH_MAX;
	}
	gs_ldcache_fini(&cache);
	return found;
}

int gs_library_by_name(const char *name, const char *library_path, char path[PATH_MAX])
{
	if (!*name || strchr(name, '/'))
		return -ENOENT;
	if (in_folders(library_path, name, path) || in_cache(name, path) ||
	    in_folders(DEFAULT_FOLDERS, name, path))
		return 0;
	return -ENOENT;
}
