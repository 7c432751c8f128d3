/* Foreign text in each format. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/text/text.h"

typedef int (*put_fn)(struct gs_buf *buf, const char *text);

static void check(put_fn put, const char *text, const char *expected)
{
	struct gs_buf buf GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(4096);

	assert_int_equal(put(&buf, text), 0);
	assert_int_equal(gs_buf_put(&buf, "", 1), 0);
	assert_string_equal((char *)buf.data, expected);
}

static void test_decode(void **state GS_UNUSED)
{
	static const struct {
		const char *text;
		uint32_t c;
		size_t bytes;
	} cases[] = {
		{"a", 'a', 1},
		{"\xc3\xa9", 0xe9, 2},
		{"\xe2\x82\xac", 0x20ac, 3},
		{"\xf0\x9f\x98\x80", 0x1f600, 4},
		{"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
		{"\x80", 0xfffd, 1},             /* continuation first */
		{"\xc0\xaf", 0xfffd, 1},         /* longer than needed */
		{"\xe0\x80\xaf", 0xfffd, 1},     /* the same */
		{"\xf0\x80\x80\xaf", 0xfffd, 1}, /* the same */
		{"\xed\xa0\x80", 0xfffd, 1},     /* surrogate */
		{"\xf4\x90\x80\x80", 0xfffd, 1}, /* beyond the last */
		{"\xf8\x88\x80\x80\x80", 0xfffd, 1},
		{"\xff", 0xfffd, 1},
		{"\xc3", 0xfffd, 1},         /* cut */
		{"\xe2\x82", 0xfffd, 1},     /* cut */
		{"\xf0\x9f\x98", 0xfffd, 1}, /* cut */
		{"\xc3z", 0xfffd, 1},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		size_t bytes = 0;

		assert_int_equal(gs_text_decode(cases[i].text, &bytes), cases[i].c);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void test_utf8(void **state GS_UNUSED)
{
	check(gs_text_utf8, NULL, "");
	check(gs_text_utf8, "", "");
	check(gs_text_utf8, "gr\xc3\xb6\xc3\x9f\x65r", "gr\xc3\xb6\xc3\x9f\x65r");
	check(gs_text_utf8, "a\xffz\xe2\x82", "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_json(void **state GS_UNUSED)
{
	check(gs_text_json, NULL, "\"\"");
	check(gs_text_json, "a \"b\" \\ /", "\"a \\\"b\\\" \\\\ /\"");
	check(gs_text_json, "\b\f\n\r\t\001\033\177", "\"\\b\\f\\n\\r\\t\\u0001\\u001b\\u007f\"");
	check(gs_text_json, "\xff\xc3\xb6", "\"\xef\xbf\xbd\xc3\xb6\"");
	/* U+0085, U+2028, U+202E, U+FEFF, U+1FFFF */
	check(gs_text_json, "\xc2\x85\xe2\x80\xa8\xe2\x80\xae\xef\xbb\xbf\xf0\x9f\xbf\xbf",
	      "\"\\u0085\\u2028\\u202e\\ufeff\\ud83f\\udfff\"");
	check(gs_text_json, "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"");
}

static void test_yaml(void **state GS_UNUSED)
{
	static const char *const plain[] = {
		"cudaMalloc", "python train.py --rank 0", "/usr/bin/x", "_x", "nope", "a.b-c+d"};
	static const char *const quoted[] = {
		"y",   "No",   "TRUE", "off", "null", "~",  "1",        "0x1F",      ".5", "-",
		"- a", "a: b", "a:",   "a #", "#",    "[",  "{}",       "&a",        "*a", "!t",
		"|",   ">",    "%x",   "@",   "`",    "'",  " a",       "a ",        "?",  "=",
		"<<",  "1e3",  "---",  "...", "a,b",  "+1", "12:30:45", "2025-11-21"};

	for (size_t i = 0; i < GS_ARRAY_LEN(plain); i++)
		check(gs_text_yaml, plain[i], plain[i]);
	for (size_t i = 0; i < GS_ARRAY_LEN(quoted); i++) {
		char expected[64];

		snprintf(expected, sizeof(expected), "\"%s\"", quoted[i]);
		check(gs_text_yaml, quoted[i], expected);
	}
	check(gs_text_yaml, NULL, "\"\"");
	check(gs_text_yaml, "", "\"\"");
	check(gs_text_yaml, "a\n\"b\"\033\xff", "\"a\\n\\\"b\\\"\\u001b\xef\xbf\xbd\"");
	check(gs_text_yaml, "\xf0\x9f\xbf\xbf", "\"\\U0001ffff\"");
}

static void test_csv(void **state GS_UNUSED)
{
	check(gs_text_csv, NULL, "");
	check(gs_text_csv, "plain text", "plain text");
	check(gs_text_csv, "a,b", "\"a,b\"");
	check(gs_text_csv, "=1+cmd|'/C x'!A", "'=1+cmd|'/C x'!A");
	check(gs_text_csv, "+a", "'+a");
	check(gs_text_csv, "@x,y", "\"'@x,y\"");
	check(gs_text_csv, "-1.5e-3", "-1.5e-3");
	check(gs_text_csv, "-1+1", "'-1+1");
	check(gs_text_csv, "-", "-");
	check(gs_text_csv,
	      "a\xe2\x80\xae"
	      "b\xc2\x9b",
	      "a\xef\xbf\xbd"
	      "b\xef\xbf\xbd");
	check(gs_text_csv, "say \"x\"", "\"say \"\"x\"\"\"");
	check(gs_text_csv, "two\nlines\r", "\"two\nlines\r\"");
	check(gs_text_csv, "\tt\033\177\xff", "'\tt\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_line(void **state GS_UNUSED)
{
	check(gs_text_line, NULL, "");
	check(gs_text_line, "a\nb\tc", "a\\nb\\tc");
	check(gs_text_line, "\033[2J\r\177\xc2\x9b", "\\x1b[2J\\x0d\\x7f\\x9b");
	check(gs_text_line, "\xe2\x80\xae\xe2\x80\xa9 \xff",
	      "\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd");
}

static void test_columns(void **state GS_UNUSED)
{
	assert_int_equal(gs_text_columns(NULL), 0);
	assert_int_equal(gs_text_columns("abc"), 3);
	assert_int_equal(gs_text_columns("gr\xc3\xb6\xc3\x9f"), 4);
	assert_int_equal(gs_text_columns("\xe6\xa8\xa1\xe5\x9e\x8b"), 4); /* two ideographs */
	assert_int_equal(gs_text_columns("e\xcc\x81"), 1); /* e and a combining accent */
	assert_int_equal(gs_text_columns("\xf0\x9f\x98\x80"), 2);
	assert_int_equal(gs_text_columns("\xff"), 1);
	assert_int_equal(gs_text_char_columns(0xac00), 2);
	assert_int_equal(gs_text_char_columns(0x20000), 2);
	assert_int_equal(gs_text_char_columns(0x200b), 0);
}

static void test_full_buffer(void **state GS_UNUSED)
{
	static const put_fn puts[] = {gs_text_utf8, gs_text_json, gs_text_yaml, gs_text_csv,
				      gs_text_line};

	for (size_t i = 0; i < GS_ARRAY_LEN(puts); i++)
		for (size_t max = 0; max < 8; max++) {
			struct gs_buf buf GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(max);

			assert_int_equal(puts[i](&buf, "a\",\n\xff\xc3\xb6 z"), -ENOBUFS);
			assert_true(buf.bytes <= max);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),  cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_json),    cmocka_unit_test(test_yaml),
		cmocka_unit_test(test_csv),     cmocka_unit_test(test_line),
		cmocka_unit_test(test_columns), cmocka_unit_test(test_full_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
