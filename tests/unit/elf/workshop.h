/*
 * A temporary folder in which tests make real ELF files with the compiler, and what they do with
 * such files: copy, patch, list what was visited.
 */
#ifndef TESTS_UNIT_ELF_WORKSHOP_H
#define TESTS_UNIT_ELF_WORKSHOP_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/elf/library.h"

static char shop_dir[PATH_MAX]; /* real path, so that it compares with what maps says */

/* The path of a file in the folder; one of eight buffers, in turn. */
static inline const char *shop_path(const char *fmt, ...) GS_PRINTF(1, 2);
static inline const char *shop_path(const char *fmt, ...)
{
	static char paths[8][2 * PATH_MAX];
	static unsigned turn;
	char *out = paths[turn++ % 8];
	va_list ap;
	int n = snprintf(out, PATH_MAX + 1, "%s/", shop_dir);

	va_start(ap, fmt);
	vsnprintf(out + n, PATH_MAX - 1, fmt, ap);
	va_end(ap);
	return out;
}

/* Run a shell command in the folder; true when it ended with status 0. */
static inline int shop_run(const char *fmt, ...) GS_PRINTF(1, 2);
static inline int shop_run(const char *fmt, ...)
{
	char command[8192];
	va_list ap;
	int n = snprintf(command, sizeof(command), "cd '%s' && ", shop_dir);

	va_start(ap, fmt);
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

static inline void shop_write(const char *name, const void *data, size_t bytes)
{
	GS_FCLOSE FILE *f = fopen(shop_path("%s", name), "we");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
}

static inline void shop_write_text(const char *name, const char *text)
{
	shop_write(name, text, strlen(text));
}

/* The whole of a file; *ret_bytes long, the caller frees. */
static inline uint8_t *shop_read(const char *name, size_t *ret_bytes)
{
	GS_FCLOSE FILE *f = fopen(shop_path("%s", name), "re");
	uint8_t *data;
	struct stat st;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	*ret_bytes = fread(data, 1, (size_t)st.st_size, f);
	assert_int_equal(*ret_bytes, st.st_size);
	return data;
}

static inline int shop_open(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	/* The sanitizer's library would be asked for by the programs made here. */
	unsetenv("LD_PRELOAD");
	unsetenv("LD_LIBRARY_PATH");
	snprintf(name, sizeof(name), "%s/gs-elf-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	return mkdtemp(name) && realpath(name, shop_dir) ? 0 : -1;
}

static inline int shop_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static inline int shop_close(void **state)
{
	return nftw(shop_dir, shop_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- what a walk visited ---- */

struct visits {
	char *paths[4096];
	struct gs_file_id ids[4096];
	char *exe; /* of the one with is_exe */
	size_t n;
	int answer_at; /* answer 77 on this visit, counted from 1; 0: never */
};

static inline int visit(void *ctx, const struct gs_mapped_file *file)
{
	struct visits *v = ctx;
	struct stat st;

	assert_true(v->n < GS_ARRAY_LEN(v->paths));
	assert_int_equal(stat(file->open_path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_ino, file->id.ino);
	assert_int_equal(st.st_dev, file->id.dev);
	for (size_t i = 0; i < v->n; i++)
		assert_false(v->ids[i].ino == file->id.ino && v->ids[i].dev == file->id.dev);
	v->ids[v->n] = file->id;
	v->paths[v->n++] = strdup(file->path);
	if (file->is_exe) {
		assert_null(v->exe);
		v->exe = strdup(file->path);
	}
	return v->answer_at == (int)v->n ? 77 : 0;
}

static inline void visits_free(struct visits **v)
{
	for (size_t i = 0; *v && i < (*v)->n; i++)
		free((*v)->paths[i]);
	if (*v)
		free((*v)->exe);
	free(*v);
	*v = NULL;
}

#define VISITS GS_CLEANUP(visits_free) struct visits *

static inline int visited(const struct visits *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++) {
		if (strcmp(v->paths[i], path) == 0)
			return 1;
	}
	return 0;
}

#define assert_visited(v, path)                                                                    \
	do {                                                                                       \
		if (!visited(v, path))                                                             \
			fail_msg("not visited: %s", path);                                         \
	} while (0)
#define assert_not_visited(v, path)                                                                \
	do {                                                                                       \
		if (visited(v, path))                                                              \
			fail_msg("visited: %s", path);                                             \
	} while (0)

#endif
