/* A folder for the store of one test, and the store in it. Include after cmocka. */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/store/store.h"

struct folder {
	char path[64];
};

/* As cmocka's setup: *state is the folder. */
static inline int folder_setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->path, "/tmp/unit_store.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	*state = f;
	return 0;
}

static inline int folder_teardown(void **state)
{
	static const char *const names[] = {"head.db", "head.db-wal", "head.db-shm", "lock"};
	struct folder *f = *state;
	char path[128];

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", f->path, names[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(f->path), 0);
	free(f);
	return 0;
}

static inline struct gs_store *open_store(const struct folder *f, enum gs_store_mode mode)
{
	struct gs_store *s = NULL;
	struct gs_err err;

	if (gs_store_open(f->path, mode, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

#endif
