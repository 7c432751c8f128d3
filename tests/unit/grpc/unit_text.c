#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "net/grpc/grpc_int.h"

static void percent(void **state)
{
	static const struct {
		const char *plain, *encoded;
	} cases[] = {
		{"", ""},
		{"no such node", "no such node"},
		{"100% \xc3\xa4\n", "100%25 %C3%A4%0A"},
		{"\x7f~", "%7F~"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		gs_grpc_percent_encode(cases[i].plain, out, sizeof(out));
		assert_string_equal(out, cases[i].encoded);
		gs_grpc_percent_decode(cases[i].encoded, strlen(cases[i].encoded), out,
				       sizeof(out));
		assert_string_equal(out, cases[i].plain);
	}
	/* What does not fit is cut before the character, not within it. */
	gs_grpc_percent_encode("ab\xc3\xa4", out, 6);
	assert_string_equal(out, "ab");
	gs_grpc_percent_encode("ab\xc3\xa4", out, 8);
	assert_string_equal(out, "ab");
	gs_grpc_percent_encode("ab\xc3\xa4", out, 9);
	assert_string_equal(out, "ab%C3%A4");
	/* What is no escape stays, and a zero does not cut the text. */
	gs_grpc_percent_decode("%zz %4 %00x%", 12, out, sizeof(out));
	assert_string_equal(out, "%zz %4 %00x%");
	gs_grpc_percent_decode("abcdef", 6, out, 4);
	assert_string_equal(out, "abc");
}

static void timeouts(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {{"1n", 1},
		    {"5u", 5000},
		    {"100m", 100000000},
		    {"3S", 3000000000},
		    {"2M", 120000000000ULL},
		    {"1H", 3600000000000ULL},
		    {"0m", 0},
		    {"99999999H", UINT64_MAX}};
	static const char *const bad[] = {"", "m", "1", "1x", "-1m", "123456789m", "1mm", " 1m"};
	char out[GS_GRPC_TIMEOUT_MAX];
	uint64_t ns = 7;

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
		assert_true(gs_grpc_timeout_parse(good[i].text, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		assert_false(gs_grpc_timeout_parse(bad[i], &ns));
	/* Never shorter than asked, and never more than a unit longer. */
	for (uint64_t n = 1; n < UINT64_MAX / 3; n = n * 3 + 1) {
		gs_grpc_timeout_format(n, out);
		assert_true(gs_grpc_timeout_parse(out, &ns));
		assert_true(ns >= n && (ns == UINT64_MAX || (double)ns <= (double)n * 1.00001 + 1));
	}
}

static void binary(void **state)
{
	uint8_t in[300], back[300];
	char text[420];

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 7 + 3);
	for (size_t n = 0; n < sizeof(in); n++) {
		size_t bytes = gs_grpc_bin_encode(in, n, text);

		assert_int_equal(bytes, strlen(text));
		assert_int_equal(gs_grpc_bin_decode(text, back, sizeof(back)), n);
		assert_memory_equal(in, back, n);
	}
	assert_int_equal(gs_grpc_bin_decode("AAE=", back, 2), 2);
	assert_int_equal(gs_grpc_bin_decode("AAE", back, 1), -ENOBUFS);
	assert_int_equal(gs_grpc_bin_decode("A", back, 9), -EINVAL);
	assert_int_equal(gs_grpc_bin_decode("A*", back, 9), -EINVAL);
	assert_int_equal(gs_grpc_bin_decode("AA=A", back, 9), -EINVAL);
}

static void names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < GS_GRPC_STATUS_COUNT; i++) {
		assert_non_null(gs_grpc_status_name(i));
		assert_true(i == GS_GRPC_UNKNOWN || strcmp(gs_grpc_status_name(i), "UNKNOWN") != 0);
	}
	assert_string_equal(gs_grpc_status_name(17), "UNKNOWN");
	for (int i = 1; i < GS_GRPC_REFUSAL_COUNT; i++) {
		assert_non_null(gs_grpc_refusal_name(i));
		assert_string_not_equal(gs_grpc_refusal_name(i), "unknown");
	}
	assert_string_equal(gs_grpc_refusal_name(0), "unknown");
	assert_int_equal(gs_grpc_status_of_http(503), GS_GRPC_UNAVAILABLE);
	assert_int_equal(gs_grpc_status_of_http(404), GS_GRPC_UNIMPLEMENTED);
	assert_int_equal(gs_grpc_status_of_http(418), GS_GRPC_UNKNOWN);
	assert_int_equal(gs_grpc_status_of_h2(NGHTTP2_REFUSED_STREAM), GS_GRPC_UNAVAILABLE);
	assert_int_equal(gs_grpc_status_of_h2(NGHTTP2_PROTOCOL_ERROR), GS_GRPC_INTERNAL);
}

static void metadata(void **state)
{
	struct gs_grpc_table t = {.max_bytes = 200};
	struct gs_grpc_metadata m;

	(void)state;
	assert_int_equal(gs_grpc_table_add_own(&t, "x-a", "1", 1), 0);
	assert_int_equal(gs_grpc_table_add_own(&t, "x-bin", "\0\xff", 2), 0);
	assert_int_equal(gs_grpc_table_add_own(&t, "x-a", "2", 1), 0);
	assert_string_equal(gs_grpc_table_get(&t, "x-a"), "1");
	assert_string_equal(gs_grpc_table_get(&t, "x-bin"), "AP8");
	assert_null(gs_grpc_table_get(&t, "x"));
	assert_true(gs_grpc_table_at(&t, 2, &m));
	assert_string_equal(m.value, "2");
	assert_false(gs_grpc_table_at(&t, 3, &m));
	assert_int_equal(gs_grpc_table_add_own(&t, "grpc-status", "0", 1), -EINVAL);
	assert_int_equal(gs_grpc_table_add_own(&t, "X-A", "0", 1), -EINVAL);
	assert_int_equal(gs_grpc_table_add_own(&t, "te", "0", 1), -EINVAL);
	assert_int_equal(gs_grpc_table_add_own(&t, "x-c", "a\nb", 3), -EINVAL);
	assert_int_equal(gs_grpc_table_add_own(&t, "x-c", "a ", 2), -EINVAL);
	assert_int_equal(gs_grpc_table_add(&t, "y", 1, NULL, 0), 0);
	assert_int_equal(gs_grpc_table_add(&t, "long", 4, "0123456789012345678901234567890", 31),
			 -ENOBUFS);
	assert_int_equal(t.n, 4);
	gs_grpc_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percent), cmocka_unit_test(timeouts), cmocka_unit_test(binary),
		cmocka_unit_test(names),   cmocka_unit_test(metadata),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
