/* Values in messages: what was put is taken, and what was cut or forged is bad. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/reader/wire.h"

static void put_sample(struct gs_buf *buf)
{
	struct gs_wire_out out = {.buf = buf};

	gs_wire_put_u8(&out, 0xab);
	gs_wire_put_u16(&out, 0x1234);
	gs_wire_put_u32(&out, 0xdeadbeef);
	gs_wire_put_u64(&out, UINT64_MAX - 1);
	gs_wire_put_text(&out, "a name");
	gs_wire_put_text(&out, "");
	gs_wire_put_text(&out, NULL);
	assert_int_equal(out.r, 0);
}

static void test_all_comes_back(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(4096);
	struct gs_wire_in in;

	put_sample(&buf);
	in = GS_WIRE_IN(buf.data, buf.bytes);
	assert_int_equal(gs_wire_u8(&in), 0xab);
	assert_int_equal(gs_wire_u16(&in), 0x1234);
	assert_int_equal(gs_wire_u32(&in), 0xdeadbeef);
	assert_true(gs_wire_u64(&in) == UINT64_MAX - 1);
	assert_string_equal(gs_wire_text(&in), "a name");
	assert_false(gs_wire_is_done(&in));
	assert_string_equal(gs_wire_text(&in), "");
	assert_null(gs_wire_text(&in));
	assert_true(gs_wire_is_done(&in));
	assert_int_equal(gs_wire_u8(&in), 0);
	assert_true(in.bad);
}

static void test_what_is_cut_is_bad(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(4096);

	put_sample(&buf);
	for (size_t n = 0; n < buf.bytes; n++) {
		struct gs_wire_in in = GS_WIRE_IN(buf.data, n);

		gs_wire_u8(&in);
		gs_wire_u16(&in);
		gs_wire_u32(&in);
		gs_wire_u64(&in);
		gs_wire_text(&in);
		gs_wire_text(&in);
		gs_wire_text(&in);
		assert_true(in.bad);
	}
}

static void test_forged_texts(void **state)
{
	static uint8_t no_end[] = {2, 0, 0, 0, 'a', 'b'}, inner[] = {3, 0, 0, 0, 'a', 0, 0},
		       empty[] = {0, 0, 0, 0}, huge[] = {0xfe, 0xff, 0xff, 0xff, 'a', 0};
	struct gs_wire_in in = GS_WIRE_IN(no_end, sizeof(no_end));

	assert_null(gs_wire_text(&in));
	assert_true(in.bad);
	in = GS_WIRE_IN(inner, sizeof(inner));
	assert_null(gs_wire_text(&in));
	assert_true(in.bad);
	in = GS_WIRE_IN(empty, sizeof(empty));
	assert_null(gs_wire_text(&in));
	assert_true(in.bad);
	in = GS_WIRE_IN(huge, sizeof(huge));
	assert_null(gs_wire_text(&in));
	assert_true(in.bad);
}

static void test_counts_that_cannot_be(void **state)
{
	static uint8_t two[] = {2, 0, 0, 0, 1, 2, 3, 4}, many[] = {0xff, 0xff, 0xff, 0xff, 1};
	struct gs_wire_in in = GS_WIRE_IN(two, sizeof(two));

	assert_int_equal(gs_wire_count(&in, 2), 2);
	in = GS_WIRE_IN(two, sizeof(two));
	assert_int_equal(gs_wire_count(&in, 3), 0);
	assert_true(in.bad);
	in = GS_WIRE_IN(many, sizeof(many));
	assert_int_equal(gs_wire_count(&in, 1), 0);
	assert_true(in.bad);
}

static void test_a_full_buffer_is_an_error(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(8);
	struct gs_wire_out out = {.buf = &buf};

	gs_wire_put_u32(&out, 1);
	gs_wire_put_u64(&out, 2);
	assert_int_equal(out.r, -ENOBUFS);
	gs_wire_put_u8(&out, 3);
	assert_int_equal(out.r, -ENOBUFS);
}

static void test_lines_are_clean(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(4096);
	struct gs_wire_out out = {.buf = &buf};
	struct gs_wire_in in;

	gs_wire_put_text(&out, "red \033[31m\r\n\177 \303\244");
	gs_wire_put_text(&out, "");
	gs_wire_put_text(&out, NULL);
	in = GS_WIRE_IN(buf.data, buf.bytes);
	assert_string_equal(gs_wire_line(&in), "red ?[31m??? \303\244");
	assert_string_equal(gs_wire_line(&in), "");
	assert_null(gs_wire_line(&in));
	assert_true(gs_wire_is_done(&in));
	assert_null(gs_wire_line(&in));
	assert_true(in.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_comes_back),
		cmocka_unit_test(test_what_is_cut_is_bad),
		cmocka_unit_test(test_forged_texts),
		cmocka_unit_test(test_lines_are_clean),
		cmocka_unit_test(test_counts_that_cannot_be),
		cmocka_unit_test(test_a_full_buffer_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
