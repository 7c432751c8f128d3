/* Libraries that are loaded into other programs. */
#include "commands/common/library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

static bool is_library(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int gs_cli_find_library(const char *name, char *out, size_t bytes, struct gs_err *err)
{
	static const char *const places[] = {("../" GS_LIBDIR "/gpuscope/"),
					     "../lib/gpuscope/",
					     "companion/calls/",
					     "companion/gpu/",
					     "companion/nccl/",
					     "companion/ops/",
					     "companion/python/"};
	char self[PATH_MAX], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	if (n > 0)
		*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
		if (snprintf(out, bytes, "%s%s%s", self, places[i], name) >= (int)bytes ||
		    !is_library(out) || !realpath(out, real) || strpbrk(real, ": \t"))
			continue;
		if (snprintf(out, bytes, "%s", real) < (int)bytes)
			return 0;
	}
	out[0] = '\0';
	return gs_err_set(
		err, -ENOENT,
		"%s was not found next to gpuscope (run make in gpuscope's sources, or make install; packages of gpuscope include it)",
		name);
}
