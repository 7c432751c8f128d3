/*
 * From which files a command that is not running yet may load the libraries we trace.
 *
 *	command --PATH--> script --"#!"--> interpreter = the executable
 *	executable --> DT_NEEDED, LD_PRELOAD --> each by the loader's rules --> what that needs ...
 *	folders of those rules, toolkit and driver folders, site-packages --> by file name
 *
 * The loader's rules (ld.so(8)), for a name without a slash: DT_RPATH of the object that needs it
 * and of those that led to it, unless it has DT_RUNPATH; LD_LIBRARY_PATH; its DT_RUNPATH; the
 * cache; the default folders. Each name is looked for once, as the loader does. Not followed:
 * glibc-hwcaps below folders (below those of the cache it is, by the cache), LD_AUDIT, "nodeflib".
 */
#include "sources/elf/code.h"
#include "sources/elf/library_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/elf/elf_int.h"

#define MAX_PRELOAD_BYTES 16384u
#define MAX_OBJECTS       1024u /* more are not followed */
#define MAX_SCRIPTS       5     /* the kernel's own limit of "#!" after "#!" */
#define NO_PARENT         SIZE_MAX

struct object { /* a file that the loader would load */
	struct gs_elf_needs needs;
	char *origin; /* its folder */
	size_t parent;
};

struct loader {
	struct gs_elf_walk *walk;
	struct gs_ldcache cache;
	struct object *objects;
	size_t n_objects;
	struct gs_map names; /* hashes of the names that have been looked for */
	struct gs_elf_seen files;
	const char *library_path;
};

static const char *const default_folders[] = {
	"/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu",
	"/lib64",
	"/usr/lib64",
	"/lib",
	"/usr/lib",
};

/* Where toolkits and drivers are put, beyond those; /usr/local/cuda* is looked for. */
static const char *const driver_folders[] = {
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/usr/lib/wsl/lib",
	"/usr/local/lib",
};

static void loader_fini(struct loader *l)
{
	for (size_t i = 0; i < l->n_objects; i++) {
		gs_elf_needs_fini(&l->objects[i].needs);
		free(l->objects[i].origin);
	}
	free(l->objects);
	gs_map_fini(&l->names);
	gs_elf_seen_fini(&l->files);
	gs_ldcache_fini(&l->cache);
}

static void walk_fini(struct gs_elf_walk *walk)
{
	gs_elf_seen_fini(&walk->files);
	gs_elf_seen_fini(&walk->folders);
	gs_elf_seen_fini(&walk->sites);
}

/* ---- one object ------------------------------------------------------------------------ */

static const char *lib_token(void)
{
	struct stat st;

	return stat("/lib/x86_64-linux-gnu", &st) == 0 ? "lib/x86_64-linux-gnu" : "lib64";
}

/* Replace $ORIGIN, $LIB and $PLATFORM; false when the result is too long. */
static bool expand_tokens(const char *text, const char *origin, char out[PATH_MAX])
{
	const struct {
		const char *name;
		const char *value;
	} tokens[] = {{"ORIGIN", origin}, {"LIB", lib_token()}, {"PLATFORM", "x86_64"}};
	size_t n = 0;

	while (*text) {
		const char *value = NULL;

		for (size_t i = 0; *text == '$' && !value && i < GS_ARRAY_LEN(tokens); i++) {
			size_t bytes = strlen(tokens[i].name);
			bool braced = text[1] == '{';
			const char *end = text + 1 + braced + bytes;

			if (strncmp(text + 1 + braced, tokens[i].name, bytes) != 0 ||
			    (braced && *end != '}'))
				continue;
			value = tokens[i].value;
			text = end + braced;
		}
		if (value) {
			n += (size_t)snprintf(out + n, PATH_MAX - n, "%s", value);
		} else {
			out[n++] = *text++;
		}
		if (n >= PATH_MAX)
			return false;
	}
	out[n] = 0;
	return true;
}

/* Look through the folders of a list for libraries that we trace. */
static int walk_list(struct loader *l, const char *list, const char *separators, const char *origin)
{
	char part[PATH_MAX], folder[PATH_MAX];
	int r = 0;

	while (r == 0 && gs_elf_list_next(&list, separators, part)) {
		if (expand_tokens(part, origin, folder))
			r = gs_elf_walk_folder(l->walk, folder);
	}
	return r;
}

/* musl's loader is its libc: no list of needed libraries has it. */
static int walk_musl(struct gs_elf_walk *walk, struct gs_elf *elf)
{
	char path[PATH_MAX] = "", real[PATH_MAX];
	struct gs_elf_part part;

	if (gs_elf_section_bytes(elf, ".interp", &part) < 0 || part.bytes >= sizeof(path) ||
	    gs_elf_read(elf, part.off, (uint8_t *)path, part.bytes) != (long)part.bytes ||
	    strncmp(gs_elf_path_name(path), "ld-musl", 7) != 0 || !realpath(path, real))
		return 0;
	return gs_elf_walk_file(walk, real, false);
}

/* Take a file as one that the loader loads, unless it is none that it could load. Of the same file
 * under two names the first counts. */
static int add_object(struct loader *l, const char *path, size_t parent, bool *ret_found)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct object *o;
	char origin[PATH_MAX], real[PATH_MAX];
	struct stat st;
	int r;

	*ret_found = false;
	if (stat(path, &st) < 0 || gs_elf_open(path, &elf, NULL) < 0)
		return 0;
	*ret_found = true;
	r = gs_elf_seen_add(&l->files, gs_elf_file_id_of(&st));
	if (r <= 0 || l->n_objects >= MAX_OBJECTS)
		return r < 0 ? r : 0;
	/* The kernel gives the loader the target of a link to a program. */
	gs_elf_path_folder(parent == NO_PARENT && realpath(path, real) ? real : path, origin);
	if (!gs_vec_reserve_next(&l->objects, l->n_objects))
		return -ENOMEM;
	o = &l->objects[l->n_objects];
	*o = (struct object){.parent = parent, .origin = strdup(origin)};
	if (!o->origin)
		return -ENOMEM;
	l->n_objects++;
	if (gs_elf_read_needs(elf, &o->needs) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_FILES, "%s: its dynamic segment is malformed", path);
	r = gs_elf_walk_file(l->walk, path, parent == NO_PARENT);
	if (r == 0 && parent == NO_PARENT)
		r = walk_musl(l->walk, elf);
	if (r == 0 && o->needs.rpath)
		r = walk_list(l, o->needs.rpath, ":", o->origin);
	if (r == 0 && o->needs.runpath)
		r = walk_list(l, o->needs.runpath, ":", o->origin);
	return r;
}

/* ---- one name -------------------------------------------------------------------------- */

static int search_folder(struct loader *l, const char *folder, const char *name, size_t parent,
			 bool *ret_found)
{
	char path[PATH_MAX];

	*ret_found = false;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return 0;
	return add_object(l, path, parent, ret_found);
}

static int search_list(struct loader *l, const char *list, const char *separators,
		       const char *origin, const char *name, size_t parent, bool *ret_found)
{
	char part[PATH_MAX], folder[PATH_MAX];
	int r = 0;

	*ret_found = false;
	while (r == 0 && !*ret_found && gs_elf_list_next(&list, separators, part)) {
		if (expand_tokens(part, origin, folder))
			r = search_folder(l, folder, name, parent, ret_found);
	}
	return r;
}

/* All of one name: which the loader takes of those for several kinds of processor is its choice. */
static int search_cache(struct loader *l, const char *name, size_t parent, bool *ret_found)
{
	long first = gs_ldcache_find(&l->cache, name);
	const char *found, *path;
	int r = 0;

	*ret_found = false;
	for (size_t i = (size_t)first; first >= 0 && r == 0 && i < l->cache.n_entries; i++) {
		bool loaded;

		if (!gs_ldcache_get(&l->cache, i, &found, &path) || strcmp(found, name) != 0)
			break;
		r = add_object(l, path, parent, &loaded);
		*ret_found |= loaded;
	}
	return r;
}

static int search_by_rules(struct loader *l, const char *name, size_t from, bool *ret_found)
{
	const char *runpath = l->objects[from].needs.runpath;
	bool found = false;
	int r = 0;

	for (size_t i = from; !runpath && r == 0 && !found && i != NO_PARENT;
	     i = l->objects[i].parent) {
		const struct object *o = &l->objects[i];

		if (o->needs.rpath && !o->needs.runpath)
			r = search_list(l, o->needs.rpath, ":", o->origin, name, from, &found);
	}
	if (r == 0 && !found && l->library_path)
		r = search_list(l, l->library_path, ":;", l->objects[from].origin, name, from,
				&found);
	if (r == 0 && !found && runpath)
		r = search_list(l, runpath, ":", l->objects[from].origin, name, from, &found);
	if (r == 0 && !found)
		r = search_cache(l, name, from, &found);
	for (size_t i = 0; r == 0 && !found && i < GS_ARRAY_LEN(default_folders); i++)
		r = search_folder(l, default_folders[i], name, from, &found);
	*ret_found = found;
	return r;
}

/* What object from needs under this name. */
static int load_needed(struct loader *l, const char *name, size_t from)
{
	uint64_t hash = gs_hash_bytes(name, strlen(name)), ignored;
	char path[PATH_MAX];
	bool found;
	int r;

	if (strchr(name, '/')) {
		if (!expand_tokens(name, l->objects[from].origin, path))
			return 0;
		return add_object(l, path, from, &found);
	}
	if (gs_map_get(&l->names, hash, &ignored))
		return 0;
	r = gs_map_put(&l->names, hash, 1);
	if (r == 0)
		r = search_by_rules(l, name, from, &found);
	if (r == 0 && !found)
		gs_log(GS_LOG_DEBUG, GS_LOG_FILES, "%s: not where the dynamic loader searches",
		       name);
	return r;
}

static int load_preloads(struct loader *l)
{
	const char *list = gs_elf_walk_getenv(l->walk, "LD_PRELOAD"), *at;
	char part[PATH_MAX], text[MAX_PRELOAD_BYTES], line[PATH_MAX];
	int r = 0;

	if (list && !*list)
		list = NULL;
	while (r == 0 && gs_elf_list_next(&list, " :", part)) {
		if (strcmp(part, ".") != 0) /* an empty part */
			r = load_needed(l, part, 0);
	}
	at = gs_foreign_read_text("/etc/ld.so.preload", NULL, text, sizeof(text)) > 0 ? text : NULL;
	while (r == 0 && gs_elf_list_next(&at, "\n", line)) {
		line[strcspn(line, "#")] = 0;
		for (list = line; r == 0 && gs_elf_list_next(&list, " \t:", part);) {
			if (strcmp(part, ".") != 0)
				r = load_needed(l, part, 0);
		}
	}
	return r;
}

/* Visit the executable and all that it makes the loader load. */
static int load_program(struct loader *l, const char *path)
{
	bool found;
	int r = add_object(l, path, NO_PARENT, &found);

	if (r != 0 || !found)
		return r;
	r = load_preloads(l);
	for (size_t i = 0; r == 0 && i < l->n_objects; i++) {
		for (size_t k = 0; r == 0 && k < l->objects[i].needs.n_needed; k++)
			r = load_needed(l, l->objects[i].needs.needed[k], i);
	}
	return r;
}

/* ---- folders and the cache ------------------------------------------------------------- */

static int walk_toolkits(struct gs_elf_walk *walk)
{
	static const char *const libs[] = {"lib64", "lib", "compat", "targets/x86_64-linux/lib"};
	DIR *dir = opendir("/usr/local");
	int r = 0;

	for (struct dirent *d; dir && r == 0 && (d = readdir(dir));) {
		char folder[PATH_MAX];

		for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(libs); i++) {
			if (strncmp(d->d_name, "cuda", 4) != 0)
				break;
			snprintf(folder, sizeof(folder), "/usr/local/%s/%s", d->d_name, libs[i]);
			r = gs_elf_walk_folder(walk, folder);
		}
	}
	if (dir)
		closedir(dir);
	return r;
}

static int walk_system(struct loader *l)
{
	const char *name, *path;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->cache.n_entries; i++) {
		if (gs_ldcache_get(&l->cache, i, &name, &path) && gs_elf_is_traced_library(name))
			r = gs_elf_walk_file(l->walk, path, false);
	}
	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(default_folders); i++)
		r = gs_elf_walk_folder(l->walk, default_folders[i]);
	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(driver_folders); i++)
		r = gs_elf_walk_folder(l->walk, driver_folders[i]);
	return r == 0 ? walk_toolkits(l->walk) : r;
}

/* ---- the command ----------------------------------------------------------------------- */

static bool can_run(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* 0, or -ENOENT: there is no such command. */
static int find_command(const struct gs_elf_walk *walk, const char *command, char out[PATH_MAX])
{
	const char *list = gs_elf_walk_getenv(walk, "PATH");
	char folder[PATH_MAX];

	if (strlen(command) >= PATH_MAX || !*command)
		return -ENOENT;
	if (strchr(command, '/')) {
		strcpy(out, command);
		return can_run(out) ? 0 : -ENOENT;
	}
	if (!list)
		list = "/bin:/usr/bin";
	while (gs_elf_list_next(&list, ":", folder)) {
		if ((size_t)snprintf(out, PATH_MAX, "%s/%s", folder, command) < PATH_MAX &&
		    can_run(out))
			return 0;
	}
	return -ENOENT;
}

/* The first bytes of a file; 0 when it cannot be read. */
static size_t read_head(const char *path, char *out, size_t bytes)
{
	ssize_t n = gs_foreign_read_text(path, NULL, out, bytes);

	return n < 0 ? 0 : (size_t)n;
}

/* pyenv puts a shell script in the place of each command ("<root>/shims/python3"), which chooses a
 * version when it runs: any of "<root>/versions/<any>/bin/python3" may be the interpreter. */
static int walk_shim(struct gs_elf_walk *walk, const char *path)
{
	char folder[PATH_MAX], versions[PATH_MAX], python[PATH_MAX];
	DIR *dir;
	int r = 0;

	gs_elf_path_folder(path, folder);
	if (strcmp(gs_elf_path_name(folder), "shims") != 0 ||
	    (size_t)snprintf(versions, sizeof(versions), "%s/../versions", folder) >= PATH_MAX)
		return 0;
	dir = opendir(versions);
	for (struct dirent *d; dir && r == 0 && (d = readdir(dir));) {
		if (d->d_name[0] == '.' ||
		    (size_t)snprintf(python, sizeof(python), "%s/%s/bin/python", versions,
				     d->d_name) >= PATH_MAX)
			continue;
		r = gs_elf_walk_python(walk, python);
	}
	if (dir)
		closedir(dir);
	return r;
}

/* Follow "#!" until an executable is reached, whose path is put into path. */
static int follow_scripts(struct gs_elf_walk *walk, char path[PATH_MAX])
{
	for (int i = 0; i < MAX_SCRIPTS; i++) {
		struct gs_script script;
		char head[4096];
		size_t bytes = read_head(path, head, sizeof(head));
		int r;

		if (!gs_elf_parse_script(head, bytes, &script))
			return 0;
		r = walk_shim(walk, path);
		if (r != 0)
			return r;
		if (script.in_path) {
			r = find_command(walk, script.interpreter, path);
			if (r < 0)
				return r;
		} else {
			strcpy(path, script.interpreter);
		}
	}
	return 0;
}

int gs_library_candidates(const char *command, char *const environment[], gs_mapped_file_fn fn,
			  void *ctx)
{
	GS_CLEANUP(walk_fini)
	struct gs_elf_walk walk = {
		.fn = fn,
		.ctx = ctx,
		.environment = environment,
		.files = GS_ELF_SEEN_INIT,
		.folders = GS_ELF_SEEN_INIT,
		.sites = GS_ELF_SEEN_INIT,
	};
	GS_CLEANUP(loader_fini)
	struct loader l = {
		.walk = &walk,
		.cache = GS_LDCACHE_INIT,
		.names = GS_MAP_INIT(GS_ELF_SEEN_MAX),
		.files = GS_ELF_SEEN_INIT,
	};
	char path[PATH_MAX];
	int r = find_command(&walk, command, path);

	if (r < 0)
		return r;
	r = gs_ldcache_load(&l.cache, "/etc/ld.so.cache");
	if (r < 0)
		gs_log(GS_LOG_INFO, GS_LOG_FILES, "/etc/ld.so.cache: %s", strerror(-r));
	l.library_path = gs_elf_walk_getenv(&walk, "LD_LIBRARY_PATH");
	if (l.library_path && !*l.library_path)
		l.library_path = NULL;

	r = follow_scripts(&walk, path);
	if (r == 0)
		r = load_program(&l, path);
	if (r == 0 && l.library_path)
		r = walk_list(&l, l.library_path, ":;", ".");
	if (r == 0 && gs_elf_is_python(gs_elf_path_name(path)))
		r = gs_elf_walk_python(&walk, path);
	walk.in_system = true;
	return r == 0 ? walk_system(&l) : r;
}
