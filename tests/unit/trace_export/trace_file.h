/* What the tests of the trace writers share: a file of their own, its content, and a reader of
 * protobuf that knows nothing of the encoder under test. */
#ifndef GS_TESTS_EXPORT_TRACE_FILE_H
#define GS_TESTS_EXPORT_TRACE_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "output/trace_export/export.h"

/* A path with this suffix in a folder of this test run. */
GS_UNUSED static const char *test_path(const char *suffix)
{
	static char folder[] = "/tmp/gs-export-XXXXXX", path[4][128];
	static unsigned turn;

	if (strstr(folder, "XXXXXX"))
		assert_non_null(mkdtemp(folder));
	turn = (turn + 1) % 4;
	if (suffix)
		snprintf(path[turn], sizeof(path[turn]), "%s/trace%s", folder, suffix);
	else
		snprintf(path[turn], sizeof(path[turn]), "%s", folder);
	return path[turn];
}

GS_UNUSED static int remove_test_files(void **state)
{
	static const char *const suffixes[] = {".pftrace", ".json", ".csv", ".json.gz"};

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
		unlink(test_path(suffixes[i]));
	return rmdir(test_path(NULL));
}

/* All of a file; the caller frees with gs_buf_fini(). */
GS_UNUSED static struct gs_buf read_all(const char *path)
{
	struct gs_buf b = GS_BUF_INIT(1u << 30);
	GS_FCLOSE FILE *f = fopen(path, "re");
	char chunk[65536];
	size_t n;

	if (!f)
		fail_msg("cannot read %s", path);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		assert_int_equal(gs_buf_put(&b, chunk, n), 0);
	assert_int_equal(gs_buf_put(&b, "", 1), 0); /* for strstr() */
	b.bytes--;
	return b;
}

/* What a gzip file says, up to where it was cut; *ret_whole: it has its end. */
GS_UNUSED static struct gs_buf inflate_all(const struct gs_buf *file, bool *ret_whole)
{
	struct gs_buf b = GS_BUF_INIT(1u << 30);
	z_stream z = {.next_in = file->data, .avail_in = (uInt)file->bytes};
	uint8_t chunk[65536];
	int r;

	assert_int_equal(inflateInit2(&z, 31), Z_OK);
	do {
		z.next_out = chunk;
		z.avail_out = sizeof(chunk);
		r = inflate(&z, Z_NO_FLUSH);
		assert_true(r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR);
		assert_int_equal(gs_buf_put(&b, chunk, sizeof(chunk) - z.avail_out), 0);
	} while (r == Z_OK);
	assert_int_equal(z.avail_in, 0);
	*ret_whole = r == Z_STREAM_END;
	inflateEnd(&z);
	assert_int_equal(gs_buf_put(&b, "", 1), 0);
	b.bytes--;
	return b;
}

/* One field of a message. */
struct field {
	unsigned number, wire;
	uint64_t value;      /* varint, fixed64 */
	const uint8_t *data; /* length-delimited */
	size_t bytes;
};

GS_UNUSED static uint64_t take_varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		assert_true(*p < end && shift < 70);
		v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return v;
	}
}

GS_UNUSED static struct field take_field(const uint8_t **p, const uint8_t *end)
{
	uint64_t tag = take_varint(p, end);
	struct field f = {.number = (unsigned)(tag >> 3), .wire = tag & 7};

	assert_true(f.wire == 0 || f.wire == 1 || f.wire == 2);
	if (f.wire == 1) {
		assert_true(end - *p >= 8);
		memcpy(&f.value, *p, 8);
		*p += 8;
		return f;
	}
	f.value = take_varint(p, end);
	if (f.wire == 2) {
		assert_true(f.value <= (uint64_t)(end - *p));
		f.data = *p;
		f.bytes = f.value;
		*p += f.bytes;
	}
	return f;
}

/* The first field of that number in a message; number 0 when there is none. */
GS_UNUSED static struct field find_field(const void *data, size_t bytes, unsigned number)
{
	const uint8_t *p = data, *end = p + bytes;

	while (p < end) {
		struct field f = take_field(&p, end);

		if (f.number == number)
			return f;
	}
	return (struct field){0};
}

#endif
