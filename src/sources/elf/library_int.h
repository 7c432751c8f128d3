/*
 * What the files that find libraries share: a set of visited files, the walk that calls the
 * caller's function, the ld.so cache, and the readers of small texts (apart, so that they can be
 * tested and fuzzed).
 */
#ifndef GS_SOURCES_ELF_LIBRARY_INT_H
#define GS_SOURCES_ELF_LIBRARY_INT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/base/map.h"
#include "sources/elf/library.h"

/* ---- files that have been visited ------------------------------------------------------- */

struct gs_elf_seen {
	struct gs_file_id *ids; /* owned */
	size_t n_ids;
	size_t capacity;
	struct gs_map by_hash; /* hash of an id -> its index */
};

#define GS_ELF_SEEN_MAX  65536
#define GS_ELF_SEEN_INIT ((struct gs_elf_seen){.by_hash = GS_MAP_INIT(GS_ELF_SEEN_MAX)})

void gs_elf_seen_fini(struct gs_elf_seen *seen);

/* 1: it is new and added; 0: it was there; -ENOMEM, or -ENOBUFS after GS_ELF_SEEN_MAX files. */
int gs_elf_seen_add(struct gs_elf_seen *seen, struct gs_file_id id);

/* It was added. */
bool gs_elf_seen_has(const struct gs_elf_seen *seen, struct gs_file_id id);

struct gs_file_id gs_elf_file_id_of(const struct stat *st);

/* ---- /proc/PID/maps --------------------------------------------------------------------- */

struct gs_maps_line {
	uint64_t start;
	uint64_t end;
	bool executable;
	bool vdso;         /* the page of code that the kernel gives to each process */
	uint64_t file_off; /* of its first byte */
	uint64_t ino;
	char *path; /* inside the line, newlines unescaped; NULL when it names no file by path */
};

/* Takes the line apart in place. False when it is not such a line. */
bool gs_elf_parse_maps(char *line, struct gs_maps_line *ret_line);

/* ---- the ld.so cache -------------------------------------------------------------------- */

struct gs_ldcache {
	char *data; /* owned, ends with a NUL of ours */
	size_t bytes;
	size_t base;    /* offsets of texts count from here */
	size_t entries; /* offset of the first */
	size_t n_entries;
	struct gs_map by_name; /* hash of a name -> the first of its entries, which are adjacent */
};

#define GS_LDCACHE_MAX  65536
#define GS_LDCACHE_INIT ((struct gs_ldcache){.by_name = GS_MAP_INIT(GS_LDCACHE_MAX)})

/* 0, or a negative errno (-EINVAL: malformed); the cache is empty then. */
int gs_ldcache_load(struct gs_ldcache *cache, const char *path);
void gs_ldcache_fini(struct gs_ldcache *cache);

/* True when entry i is a library for x86-64; its name and path are lent. */
bool gs_ldcache_get(const struct gs_ldcache *cache, size_t i, const char **ret_name,
		    const char **ret_path);

/* Index of the first entry of that name, or -1. */
long gs_ldcache_find(const struct gs_ldcache *cache, const char *name);

/* ---- a walk over candidates ------------------------------------------------------------- */

/* A non-zero answer of what follows is the visitor's own or a negative errno, and ends the walk. */
struct gs_elf_walk {
	gs_mapped_file_fn fn;
	void *ctx;
	char *const *environment;   /* may be NULL */
	struct gs_elf_seen files;   /* visited */
	struct gs_elf_seen folders; /* looked through for libraries that we trace */
	struct gs_elf_seen sites;   /* looked through as site-packages */
	bool in_system;             /* what is found from now on is a guess */
};

/* The value of a variable in the environment of the command, or NULL. */
const char *gs_elf_walk_getenv(const struct gs_elf_walk *walk, const char *name);

/* Visit the file if it is one and is new. */
int gs_elf_walk_file(struct gs_elf_walk *walk, const char *path, bool is_exe);

/* Visit those files of a folder that are libraries of CUDA or NCCL, or hold a copy of one. */
int gs_elf_walk_folder(struct gs_elf_walk *walk, const char *path);

/* True for the file names that gs_elf_walk_folder() looks for. */
bool gs_elf_is_traced_library(const char *name);

/* The next part of a list with separators (any byte of the text), copied to out; an empty part
 * becomes ".". False at the end. A part that is too long is left out. */
bool gs_elf_list_next(const char **list, const char *separators, char out[PATH_MAX]);

/* out = the folder of a path, "." when it names none. */
void gs_elf_path_folder(const char *path, char out[PATH_MAX]);
const char *gs_elf_path_name(const char *path);

/* ---- Python ----------------------------------------------------------------------------- */

/* True for the file name of a Python interpreter. */
bool gs_elf_is_python(const char *name);

/* Visit the folders from which the interpreter loads extension modules. path is the interpreter as
 * it was found (a link in a virtual environment is not followed). */
int gs_elf_walk_python(struct gs_elf_walk *walk, const char *path);

/* The value of "home" in the text of a pyvenv.cfg (bytes long); false when it has none. */
bool gs_elf_pyvenv_home(const char *text, size_t bytes, char out[PATH_MAX]);

/* ---- scripts ---------------------------------------------------------------------------- */

struct gs_script {
	char interpreter[PATH_MAX]; /* a path, or with in_path a name to look up in PATH */
	bool in_path;
};

/* What runs a file that begins with these bytes: its "#!" line, through env, and the two-line form
 * that pip writes where a path does not fit into one. False when it is not a script. */
bool gs_elf_parse_script(const char *text, size_t bytes, struct gs_script *ret_script);

#endif
