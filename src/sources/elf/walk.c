/*
 * Visiting files and folders in which libraries that we trace may lie, each once.
 */
#include "sources/elf/library_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/event.h"
#include "model/trace/library.h"

static void closedir_p(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

const char *gs_elf_walk_getenv(const struct gs_elf_walk *walk, const char *name)
{
	size_t bytes = strlen(name);

	for (char *const *e = walk->environment; e && *e; e++) {
		if (strncmp(*e, name, bytes) == 0 && (*e)[bytes] == '=')
			return *e + bytes + 1;
	}
	return NULL;
}

int gs_elf_walk_file(struct gs_elf_walk *walk, const char *path, bool is_exe)
{
	struct gs_mapped_file file = {.path = path, .is_exe = is_exe, .is_guess = walk->in_system};
	struct stat st;
	int r;

	if (strlen(path) >= sizeof(file.open_path) || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	file.id = gs_elf_file_id_of(&st);
	file.uid = st.st_uid;
	r = gs_elf_seen_add(&walk->files, file.id);
	if (r <= 0)
		return r;
	strcpy(file.open_path, path);
	return walk->fn(walk->ctx, &file);
}

bool gs_elf_is_traced_library(const char *name)
{
	/* Builds of PyTorch carry NCCL inside libtorch_cuda. The last one catches exceptions. */
	static const char *const heads[] = {"libtorch_cuda", "libtorch_cpu", "libstdc++.so"};

	if (gs_layer_file_is_cuda(name))
		return true;
	if (!strstr(name, ".so"))
		return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++) {
		if (strncmp(name, heads[i], strlen(heads[i])) == 0)
			return true;
	}
	return false;
}

int gs_elf_walk_folder(struct gs_elf_walk *walk, const char *path)
{
	GS_CLEANUP(closedir_p) DIR *dir = NULL;
	struct stat st;
	int r;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	r = gs_elf_seen_add(&walk->folders, gs_elf_file_id_of(&st));
	if (r <= 0)
		return r;
	dir = opendir(path);
	for (struct dirent *d; dir && (d = readdir(dir));) {
		char file[PATH_MAX];

		if (!gs_elf_is_traced_library(d->d_name))
			continue;
		if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, d->d_name) >= sizeof(file))
			continue;
		r = gs_elf_walk_file(walk, file, false);
		if (r != 0)
			return r;
	}
	return 0;
}

/* "/a//b/" is "/a/b": what lists hold is shown to people and compared. */
static void squeeze_slashes(char *path)
{
	char *out = path;

	for (const char *in = path; *in; in++) {
		if (*in != '/' || out == path || out[-1] != '/')
			*out++ = *in;
	}
	if (out > path + 1 && out[-1] == '/')
		out--;
	*out = 0;
}

bool gs_elf_list_next(const char **list, const char *separators, char out[PATH_MAX])
{
	while (*list) {
		const char *part = *list;
		size_t bytes = strcspn(part, separators);

		*list = part[bytes] ? part + bytes + 1 : NULL;
		if (bytes >= PATH_MAX)
			continue;
		memcpy(out, part, bytes);
		out[bytes] = 0;
		if (bytes == 0)
			strcpy(out, ".");
		squeeze_slashes(out);
		return true;
	}
	return false;
}

const char *gs_elf_path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void gs_elf_path_folder(const char *path, char out[PATH_MAX])
{
	size_t bytes = gs_elf_path_name(path) - path;

	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	if (bytes == 0 || bytes >= PATH_MAX) {
		strcpy(out, ".");
		return;
	}
	memmove(out, path, bytes);
	out[bytes] = 0;
}
