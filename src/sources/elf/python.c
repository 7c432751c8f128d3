/*
 * Where a Python interpreter loads CUDA and NCCL from. Frameworks are wheels below site-packages
 * and do not use the loader's search path: they open libraries by path, when imported. Looked
 * through in each such folder:
 *
 *	nvidia/<any>/lib/	NVIDIA's own wheels
 *	torch/lib/		PyTorch
 *	<any>.libs/		copies that auditwheel put beside a wheel
 *
 * The folders themselves are those of the interpreter's prefix, of the virtual environment it
 * belongs to (a pyvenv.cfg beside or above the interpreter), of the interpreter that one was made
 * from, of the user, and those that PYTHONPATH names. Rather too many than too few: a file in which
 * a probe never fires costs nothing.
 */
#include "sources/elf/library_int.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"

#define MAX_CFG_BYTES 16384u

static void closedir_p(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Join folder and name; false when it is too long. */
static bool join_path(char out[PATH_MAX], const char *folder, const char *name)
{
	return (size_t)snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

bool gs_elf_is_python(const char *name)
{
	static const char *const heads[] = {"python", "pypy"};

	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++) {
		size_t bytes = strlen(heads[i]);

		if (strncmp(name, heads[i], bytes) == 0 &&
		    (name[bytes] == 0 || isdigit((uint8_t)name[bytes])))
			return true;
	}
	return false;
}

/* Call fn for each entry of a folder; a missing one has none. */
static int each_entry(struct gs_elf_walk *walk, const char *folder, const void *arg,
		      int (*fn)(struct gs_elf_walk *walk, const char *folder, const char *name,
				const void *arg))
{
	GS_CLEANUP(closedir_p) DIR *dir = opendir(folder);

	for (struct dirent *d; dir && (d = readdir(dir));) {
		int r;

		if (d->d_name[0] == '.')
			continue;
		r = fn(walk, folder, d->d_name, arg);
		if (r != 0)
			return r;
	}
	return 0;
}

static int walk_wheel(struct gs_elf_walk *walk, const char *folder, const char *name,
		      const void *arg)
{
	char wheel[PATH_MAX], lib[PATH_MAX];

	return join_path(wheel, folder, name) && join_path(lib, wheel, "lib")
		       ? gs_elf_walk_folder(walk, lib)
		       : 0;
}

static int walk_copies(struct gs_elf_walk *walk, const char *folder, const char *name,
		       const void *arg)
{
	size_t bytes = strlen(name);
	char libs[PATH_MAX];

	if (bytes <= 5 || strcmp(name + bytes - 5, ".libs") != 0 || !join_path(libs, folder, name))
		return 0;
	return gs_elf_walk_folder(walk, libs);
}

/* A folder from which modules are imported. */
static int walk_site(struct gs_elf_walk *walk, const char *site)
{
	char folder[PATH_MAX];
	struct stat st;
	int r;

	if (stat(site, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	r = gs_elf_seen_add(&walk->sites, gs_elf_file_id_of(&st));
	if (r <= 0)
		return r;
	r = join_path(folder, site, "nvidia") ? each_entry(walk, folder, NULL, walk_wheel) : 0;
	if (r == 0 && join_path(folder, site, "torch/lib"))
		r = gs_elf_walk_folder(walk, folder);
	return r == 0 ? each_entry(walk, site, NULL, walk_copies) : r;
}

/* A folder like "python3.11" in a prefix's lib; version is "python3.11", or "" when not known. */
static int walk_version(struct gs_elf_walk *walk, const char *folder, const char *name,
			const void *arg)
{
	const char *version = arg;
	size_t bytes = strlen(version);
	char python[PATH_MAX], site[PATH_MAX];
	int r = 0;

	if (!gs_elf_is_python(name) || !join_path(python, folder, name))
		return 0;
	/* "python3" is Debian's, for all versions; "python3.13t" the one without a global lock. */
	if (bytes && strcmp(name, "python3") != 0 &&
	    (strncmp(name, version, bytes) != 0 || isdigit((uint8_t)name[bytes])))
		return 0;
	if (join_path(site, python, "site-packages"))
		r = walk_site(walk, site);
	if (r == 0 && join_path(site, python, "dist-packages"))
		r = walk_site(walk, site);
	return r;
}

static int walk_prefix(struct gs_elf_walk *walk, const char *prefix, const char *version)
{
	static const char *const libs[] = {"lib", "lib64", "local/lib"};
	char lib[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(libs); i++) {
		if (!join_path(lib, prefix, libs[i]))
			continue;
		r = gs_elf_walk_folder(walk, lib); /* conda installs CUDA there */
		if (r == 0)
			r = each_entry(walk, lib, version, walk_version);
	}
	return r;
}

bool gs_elf_pyvenv_home(const char *text, size_t bytes, char out[PATH_MAX])
{
	const char *end = text + bytes;

	for (const char *line = text, *next; line < end; line = next) {
		const char *stop = memchr(line, '\n', end - line), *p = line;

		next = stop ? stop + 1 : end;
		stop = stop ? stop : end;
		while (p < stop && isblank((uint8_t)*p))
			p++;
		if (stop - p < 4 || memcmp(p, "home", 4) != 0)
			continue;
		for (p += 4; p < stop && isblank((uint8_t)*p); p++)
			;
		if (p == stop || *p != '=')
			continue;
		for (p++; p < stop && isblank((uint8_t)*p); p++)
			;
		while (stop > p && isspace((uint8_t)stop[-1]))
			stop--;
		if (stop == p || stop - p >= PATH_MAX || memchr(p, 0, stop - p))
			return false;
		memcpy(out, p, stop - p);
		out[stop - p] = 0;
		return true;
	}
	return false;
}

/* The base interpreter's folder, from the pyvenv.cfg of a folder; false when there is none. */
static bool read_home(const char *folder, char out[PATH_MAX])
{
	char path[PATH_MAX], text[MAX_CFG_BYTES];
	ssize_t n;

	if (!join_path(path, folder, "pyvenv.cfg"))
		return false;
	n = gs_foreign_read_text(path, NULL, text, sizeof(text));
	return n > 0 && gs_elf_pyvenv_home(text, (size_t)n, out);
}

/* "python3.11" where the name of the interpreter says so much. */
static void version_of(const char *name, char *out, size_t out_bytes)
{
	int bytes = 0;

	sscanf(name, "python%*[0-9].%*[0-9]%n", &bytes);
	snprintf(out, out_bytes, "%.*s", bytes, name);
}

/* What the environment adds. */
static int walk_environment(struct gs_elf_walk *walk, const char *version)
{
	const char *path = gs_elf_walk_getenv(walk, "PYTHONPATH");
	const char *user = gs_elf_walk_getenv(walk, "PYTHONUSERBASE");
	const char *home = gs_elf_walk_getenv(walk, "HOME");
	char folder[PATH_MAX];
	int r = 0;

	if (path && !*path)
		path = NULL;
	while (r == 0 && gs_elf_list_next(&path, ":", folder))
		r = walk_site(walk, folder);
	if (r == 0 && user && *user)
		r = walk_prefix(walk, user, version);
	else if (r == 0 && home && *home && join_path(folder, home, ".local"))
		r = walk_prefix(walk, folder, version);
	return r;
}

int gs_elf_walk_python(struct gs_elf_walk *walk, const char *path)
{
	char real[PATH_MAX], bin[PATH_MAX], prefix[PATH_MAX], home[PATH_MAX], version[32];
	int r;

	if (!realpath(path, real))
		return 0;
	version_of(gs_elf_path_name(real), version, sizeof(version));
	r = walk_environment(walk, version);
	if (r != 0)
		return r;

	/* As found, with the links of folders followed but not that of the file. */
	gs_elf_path_folder(path, prefix);
	if (!realpath(prefix, bin))
		return 0;
	gs_elf_path_folder(bin, prefix);
	r = walk_prefix(walk, prefix, version);
	if (r != 0)
		return r;
	if (read_home(bin, home) || read_home(prefix, home)) {
		if (realpath(home, bin)) {
			gs_elf_path_folder(bin, prefix);
			r = walk_prefix(walk, prefix, version);
			if (r != 0)
				return r;
		}
	}
	gs_elf_path_folder(real, bin);
	gs_elf_path_folder(bin, prefix);
	return walk_prefix(walk, prefix, version);
}
