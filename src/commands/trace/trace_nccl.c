/*
 * NCCL takes its variables from the environment, then from files; where none names a plug-in it loads one of the usual
 * name, if there is (NVIDIA/nccl, src/misc/param.cc and src/plugin/plugin_open.cc). All three may hold a user's own.
 */
#include "commands/trace/trace_nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/elf/library.h"

#define USUAL_NAME "libnccl-profiler.so"
#define LINES_MAX  4096

/* A line of a file of NCCL's variables that names a plug-in. */
static bool file_names_plugin(const char *path)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	GS_FCLOSE FILE *f = NULL;
	char line[1024];
	struct stat st;
	int n = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	f = fdopen(fd, "r");
	if (!f)
		return false;
	gs_take_fd(&fd);
	while (n++ < LINES_MAX && fgets(line, sizeof(line), f))
		if (strncmp(line, TRACE_NCCL_PLUGIN "=", strlen(TRACE_NCCL_PLUGIN "=")) == 0)
			return true;
	return false;
}

static bool find_file(char *out, size_t bytes)
{
	const char *own = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");

	if (own && *own)
		snprintf(out, bytes, "%s", own);
	else
		snprintf(out, bytes, "%s/.nccl.conf", home ? home : "");
	if (file_names_plugin(out))
		return true;
	snprintf(out, bytes, "/etc/nccl.conf");
	return file_names_plugin(out);
}

int trace_nccl_check_free(struct gs_err *err)
{
	const char *holder = getenv(TRACE_NCCL_PLUGIN);
	char path[PATH_MAX];

	if (holder && *holder)
		return gs_err_set(
			err, -EBUSY,
			TRACE_NCCL_PLUGIN
			"=%s is set, and NCCL loads only one profiler plug-in: NCCL is not traced from inside",
			holder);
	if (find_file(path, sizeof(path)))
		return gs_err_set(
			err, -EBUSY,
			"%s sets " TRACE_NCCL_PLUGIN
			", and NCCL loads only one profiler plug-in: NCCL is not traced from inside",
			path);
	if (gs_library_by_name(USUAL_NAME, getenv("LD_LIBRARY_PATH"), path) == 0)
		return gs_err_set(
			err, -EBUSY,
			"NCCL loads %s, and only one profiler plug-in: NCCL is not traced from inside",
			path);
	return 0;
}
