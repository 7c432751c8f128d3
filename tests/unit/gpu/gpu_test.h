/* What the tests of the room share: a reader of the stand-in library, told what it pretends. */
#ifndef TESTS_UNIT_GPU_GPU_TEST_H
#define TESTS_UNIT_GPU_GPU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sources/gpu/gpu.h"
#include "sources/gpu/gpu_int.h"

static char pretend_path[64];

/* From now on the stand-in pretends this. */
static inline void pretend(const char *words)
{
	char temporary[80];
	FILE *f;

	if (!pretend_path[0]) {
		int fd;

		strcpy(pretend_path, "/tmp/gpuscope_nvml_XXXXXX");
		fd = mkstemp(pretend_path);
		assert_true(fd >= 0);
		close(fd);
		setenv("FAKE_NVML_FILE", pretend_path, 1);
	}
	/* Replaced as a whole: the library reads it at any moment. */
	snprintf(temporary, sizeof(temporary), "%s.new", pretend_path);
	f = fopen(temporary, "we");
	assert_non_null(f);
	fputs(words, f);
	fclose(f);
	assert_int_equal(rename(temporary, pretend_path), 0);
}

static inline struct gs_gpu *open_with(const char *library, struct gs_gpu_options o)
{
	struct gs_gpu *gpu = NULL;
	struct gs_err err;

	o.size = sizeof(o);
	o.nvml_path = library;
	if (!o.sysfs_root)
		o.sysfs_root = "/nonexistent";
	if (!o.kmsg_path)
		o.kmsg_path = "/nonexistent";
	if (!o.retry_ns)
		o.retry_ns = 1;
	if (!o.hang_ns) /* a machine that stands still for a moment is no driver that hangs */
		o.hang_ns = 60000000000ull;
	assert_int_equal(gs_gpu_open(&o, &gpu, &err), 0);
	return gpu;
}

static inline struct gs_gpu_snapshot *read_one(struct gs_gpu *gpu)
{
	struct gs_gpu_snapshot *s = NULL;

	assert_int_equal(gs_gpu_read(gpu, &s), 0);
	assert_non_null(s);
	return s;
}

/* Read and throw away. */
static inline void skip_one(struct gs_gpu *gpu)
{
	struct gs_gpu_snapshot *s = read_one(gpu);

	gs_gpu_snapshot_free(&s);
}

#define assert_value(sample, field, expected)                                                      \
	do {                                                                                       \
		assert_int_equal((sample)->why[GS_GPU_##field], GS_GPU_REASON_OK);                 \
		assert_float_equal((sample)->value[GS_GPU_##field], (expected), 1e-6);             \
	} while (0)

#define assert_why(sample, field, reason)                                                          \
	assert_int_equal((sample)->why[GS_GPU_##field], GS_GPU_REASON_##reason)

static inline int clean_up(void **state)
{
	(void)state;
	if (pretend_path[0])
		unlink(pretend_path);
	return 0;
}

#endif
