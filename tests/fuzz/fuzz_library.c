/*
 * The small readers that find libraries. The first byte says which one reads the rest: the ld.so
 * cache, a line of /proc/PID/maps, a pyvenv.cfg, the head of a script, a list of folders.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sources/elf/library_int.h"
#include "replay_main.h"

static void read_cache(const uint8_t *data, size_t bytes)
{
	struct gs_ldcache cache = GS_LDCACHE_INIT;
	const char *name, *path;
	char file[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
	if (gs_ldcache_load(&cache, file) == 0) {
		for (size_t i = 0; i < cache.n_entries; i++) {
			if (gs_ldcache_get(&cache, i, &name, &path) && strlen(name) &&
			    *path == '/' && gs_ldcache_find(&cache, name) > (long)i)
				abort();
		}
		(void)gs_ldcache_find(&cache, "libc.so.6");
	}
	gs_ldcache_fini(&cache);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_maps_line line;
	struct gs_script script;
	char out[PATH_MAX], *text;
	const char *list;

	if (bytes == 0)
		return 0;
	if (data[0] % 5 == 0) {
		read_cache(data + 1, bytes - 1);
		return 0;
	}
	text = malloc(bytes); /* exactly so long, for the sanitizer to see what is behind */
	if (!text)
		abort();
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = 0;
	switch (data[0] % 5) {
	case 1:
		if (gs_elf_parse_maps(text, &line) && line.path)
			(void)strlen(line.path);
		break;
	case 2:
		(void)gs_elf_pyvenv_home(text, bytes - 1, out);
		break;
	case 3:
		if (gs_elf_parse_script(text, bytes - 1, &script) && !script.interpreter[0])
			abort();
		break;
	default:
		list = text;
		while (gs_elf_list_next(&list, ":;", out))
			gs_elf_path_folder(out, out);
	}
	free(text);
	return 0;
}
