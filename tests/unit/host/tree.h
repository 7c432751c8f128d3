/* Folders of files with given texts, below one that goes at the end. */
#ifndef GS_TEST_HOST_TREE_H
#define GS_TEST_HOST_TREE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char tree_root[64];

static inline void tree_make(void)
{
	snprintf(tree_root, sizeof(tree_root), "/tmp/gs_unit_XXXXXX");
	assert_non_null(mkdtemp(tree_root));
}

static inline void tree_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", tree_root);
	assert_int_equal(system(command), 0);
}

/* The file at a path below the root, with the folders that it needs. */
static inline void tree_put(const char *path, const char *text)
{
	char whole[512];
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/%s", tree_root, path);
	for (char *at = whole + strlen(tree_root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(whole, 0700);
		*at = '/';
	}
	f = fopen(whole, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static inline void tree_gone(const char *path)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s/%s", tree_root, path);
	assert_int_equal(remove(whole), 0);
}

#endif
