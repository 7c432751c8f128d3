/*
 * A proc folder made by hand, for tests of what reads one. Include after cmocka.h.
 */
#ifndef GS_TEST_FAKE_PROC_H
#define GS_TEST_FAKE_PROC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/identity/identity.h"

#define TICK_NS (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK))

struct fake {
	char root[64];
	struct gs_identity *place;
};

static inline int fake_setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	/* Thousands of files are written: in memory where there is such a place. */
	snprintf(f->root, sizeof(f->root), "%s/gs-place-XXXXXX",
		 access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(f->root))
		return -1;
	f->place = gs_identity_new(f->root);
	*state = f;
	return f->place ? 0 : -1;
}

static inline int fake_run(const char *fmt, const char *arg)
{
	char command[256];

	snprintf(command, sizeof(command), fmt, arg);
	return system(command);
}

static inline int fake_teardown(void **state)
{
	struct fake *f = *state;
	int r = fake_run("rm -rf %s", f->root);

	gs_identity_free(&f->place);
	assert_null(f->place);
	free(f);
	return r;
}

static inline void fake_put(const struct fake *f, unsigned pid, const char *name, const char *data,
			    size_t bytes)
{
	char path[512];
	GS_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "%s/%u", f->root, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%u/%s", f->root, pid, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
}

/* flags: as of sched.h. */
static inline void fake_put_stat_flags(const struct fake *f, unsigned pid, const char *comm,
				       unsigned parent, unsigned long long ticks, unsigned flags)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "%u (%s) S %u 1 1 0 -1 %u 1 0 0 0 1 2 3 4 20 0 1 0 %llu 0 0 0\n", pid, comm,
		 parent, flags, ticks);
	fake_put(f, pid, "stat", text, strlen(text));
}

static inline void fake_put_stat(const struct fake *f, unsigned pid, const char *comm,
				 unsigned parent, unsigned long long ticks)
{
	fake_put_stat_flags(f, pid, comm, parent, ticks, 4);
}

static inline void fake_put_task(const struct fake *f, unsigned pid, unsigned tid, const char *comm)
{
	char path[256];

	snprintf(path, sizeof(path), "mkdir -p %s/%u/task/%u", f->root, pid, tid);
	assert_int_equal(fake_run("%s", path), 0);
	snprintf(path, sizeof(path), "task/%u/comm", tid);
	fake_put(f, pid, path, comm, strlen(comm));
}

static inline void fake_put_exe(const struct fake *f, unsigned pid, const char *target)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%u/exe", f->root, pid);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static inline void fake_drop(const struct fake *f, unsigned pid)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%u", f->root, pid);
	assert_int_equal(fake_run("rm -rf %s", path), 0);
}

#endif
