/* Pressure stall information, of the machine and of cgroups. */
#include "sources/host/pressure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/host/host_int.h"

int64_t gs_host_parse_stalls(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *end, *at;
		char *stop;
		long long v;

		line += *line == '\n';
		end = strchrnul(line, '\n');
		if (strncmp(line, word, n) != 0 || line[n] != ' ')
			continue;
		at = strstr(line, "total=");
		if (!at || at >= end || at[6] < '0' || at[6] > '9')
			return -1;
		v = strtoll(at + 6, &stop, 10);
		return v;
	}
	return -1;
}

static bool read_all(const char *folder, const char *suffix, struct gs_host_stalls *ret)
{
	const struct {
		const char *file;
		int64_t *some_us, *full_us;
	} files[] = {
		{"cpu", &ret->total_us[GS_STALL_CPU_SOME], &ret->cpu_full_us},
		{"memory", &ret->total_us[GS_STALL_MEMORY_SOME],
		 &ret->total_us[GS_STALL_MEMORY_FULL]},
		{"io", &ret->total_us[GS_STALL_IO_SOME], &ret->total_us[GS_STALL_IO_FULL]},
	};
	bool any = false;

	for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
		char path[4096], text[512];
		GS_CLOSE int fd = -1;
		ssize_t n;

		*files[i].some_us = *files[i].full_us = -1;
		if (snprintf(path, sizeof(path), "%s/%s%s", folder, files[i].file, suffix) >=
		    (int)sizeof(path))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		if (n <= 0)
			continue;
		text[n] = '\0';
		*files[i].some_us = gs_host_parse_stalls(text, "some");
		*files[i].full_us = gs_host_parse_stalls(text, "full");
		any |= *files[i].some_us >= 0 || *files[i].full_us >= 0;
	}
	return any;
}

bool gs_host_stalls_read(const char *folder, struct gs_host_stalls *ret)
{
	return read_all(folder, "", ret);
}

bool gs_host_stalls_of_cgroup(const char *sysfs_root, const char *proc_root, uint32_t pid,
			      const char *path, struct gs_host_stalls *ret)
{
	char own[1024], folder[2300], text[8192];
	GS_CLOSE int fd = -1;
	ssize_t n;

	if (!path) {
		snprintf(folder, sizeof(folder), "%s/%u/cgroup", proc_root, pid);
		fd = open(folder, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		if (n <= 0)
			return false;
		text[n] = '\0';
		if (!gs_host_parse_cgroup(text, "", own, sizeof(own)))
			return false;
		path = own;
	}
	/* The root's is the machine's. */
	if (!path[0] || strcmp(path, "/") == 0)
		return false;
	snprintf(folder, sizeof(folder), "%s%s", sysfs_root, path);
	if (read_all(folder, ".pressure", ret))
		return true;
	snprintf(folder, sizeof(folder), "%s/unified%s", sysfs_root, path);
	return read_all(folder, ".pressure", ret);
}
