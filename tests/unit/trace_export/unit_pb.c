/* The protobuf encoder, against bytes worked out by hand from the encoding's definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/text/pb.h"

static uint8_t memory[65536];

#define expect_bytes(pb, ...)                                                                      \
	do {                                                                                       \
		static const uint8_t want[] = {__VA_ARGS__};                                       \
		assert_int_equal((pb).at - memory, sizeof(want));                                  \
		assert_memory_equal(memory, want, sizeof(want));                                   \
	} while (0)

static void varints(void **state)
{
	struct gs_pb pb = {memory};

	gs_pb_varint(&pb, 0);
	gs_pb_varint(&pb, 127);
	gs_pb_varint(&pb, 128);
	gs_pb_varint(&pb, 300);
	expect_bytes(pb, 0x00, 0x7f, 0x80, 0x01, 0xac, 0x02);

	pb.at = memory;
	gs_pb_varint(&pb, UINT64_MAX);
	expect_bytes(pb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
}

static void fields(void **state)
{
	struct gs_pb pb = {memory};

	gs_pb_uint(&pb, 1, 150);
	gs_pb_uint(&pb, 58, 6);
	gs_pb_bytes(&pb, 2, "testing", 7);
	expect_bytes(pb, 0x08, 0x96, 0x01, 0xd0, 0x03, 0x06, 0x12, 0x07, 't', 'e', 's', 't', 'i',
		     'n', 'g');

	pb.at = memory;
	gs_pb_int(&pb, 30, -2);
	expect_bytes(pb, 0xf0, 0x01, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
}

static void texts(void **state)
{
	struct gs_pb pb = {memory};

	gs_pb_text(&pb, 1, "", 10);
	gs_pb_text(&pb, 1, "a\xff", 10);
	gs_pb_text(&pb, 1, "abcdef", 3);
	expect_bytes(pb, 0x0a, 0x00, 0x0a, 0x04, 'a', 0xef, 0xbf, 0xbd, 0x0a, 0x03, 'a', 'b', 'c');
}

static void nested(void **state)
{
	struct gs_pb pb = {memory};
	uint8_t *a = gs_pb_open(&pb, 1, GS_PB_LARGE), *b = gs_pb_open(&pb, 3, GS_PB_SMALL);

	gs_pb_uint(&pb, 1, 5);
	gs_pb_close(&pb, b, GS_PB_SMALL);
	gs_pb_close(&pb, a, GS_PB_LARGE);
	/* The outer length is padded to two bytes. */
	expect_bytes(pb, 0x0a, 0x84, 0x00, 0x1a, 0x02, 0x08, 0x05);
}

/* A message longer than the room kept for its length is moved, with what is in it, and so is the
 * length of the one around it. */
static void nested_long(void **state)
{
	static const size_t sizes[] = {0, 1, 127, 128, 129, 16383, 16384, 16385, 40000};
	static uint8_t body[40000];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7);
	for (unsigned room = GS_PB_SMALL; room <= GS_PB_LARGE; room++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct gs_pb pb = {memory};
			uint8_t *a = gs_pb_open(&pb, 1, GS_PB_LARGE);
			uint8_t *b = gs_pb_open(&pb, 2, room), *p = memory;
			uint64_t outer = 0, inner = 0;
			int shift;

			memcpy(pb.at, body, sizes[i]);
			pb.at += sizes[i];
			gs_pb_close(&pb, b, room);
			gs_pb_close(&pb, a, GS_PB_LARGE);

			assert_int_equal(*p++, 0x0a);
			for (shift = 0; p[0] & 0x80; shift += 7)
				outer |= (uint64_t)(*p++ & 0x7f) << shift;
			outer |= (uint64_t)*p++ << shift;
			assert_int_equal(outer, pb.at - p);
			assert_int_equal(*p++, 0x12);
			for (shift = 0; p[0] & 0x80; shift += 7)
				inner |= (uint64_t)(*p++ & 0x7f) << shift;
			inner |= (uint64_t)*p++ << shift;
			assert_int_equal(inner, sizes[i]);
			assert_ptr_equal(p + inner, pb.at);
			assert_memory_equal(p, body, sizes[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints), cmocka_unit_test(fields),      cmocka_unit_test(texts),
		cmocka_unit_test(nested),  cmocka_unit_test(nested_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
