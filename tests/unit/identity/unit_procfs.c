/* The parsers of /proc/PID texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sources/identity/identity_int.h"

#define REST " S 7 42 42 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0 123456 0 0\n"

static bool parse(const char *text, struct gs_identity_stat *s)
{
	*s = (struct gs_identity_stat){0};
	return gs_identity_parse_stat(text, strlen(text), s);
}

static void stat_with_any_name(void **state)
{
	static const struct {
		const char *text, *comm;
	} cases[] = {
		{"42 (cat)" REST, "cat"},
		{"42 (a b)" REST, "a b"},
		{"42 ((sd-pam))" REST, "(sd-pam)"},
		{"42 (a) S 1 (b)" REST, "a) S 1 (b"},
		{"42 (x)\n9 (y)" REST, "x)?9 (y"},
		{"42 ()" REST, ""},
		{"42 (kworker/u16:1-events)" REST, "kworker/u16:1-e"},
	};
	struct gs_identity_stat s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(parse(cases[i].text, &s));
		assert_string_equal(s.comm, cases[i].comm);
		assert_int_equal(s.parent_pid, 7);
		assert_int_equal(s.start_ticks, 123456);
	}
}

static void stat_of_no_process(void **state)
{
	const char whole[] = "42 (cat) S 7 42 42 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0 123456 ";
	struct gs_identity_stat s;

	assert_false(parse("", &s));
	assert_false(parse("42", &s));
	assert_false(parse(") (", &s));
	assert_false(parse("42 (cat)", &s));
	assert_false(parse("42 (cat) S x 42 42 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0 5 0\n", &s));
	assert_false(parse("42 (cat) S 7 42 42 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0\n5 0\n", &s));
	/* Cut anywhere, it is refused rather than read wrong. */
	assert_true(gs_identity_parse_stat(whole, sizeof(whole) - 1, &s));
	for (size_t n = 0; n < sizeof(whole) - 1; n++)
		assert_false(gs_identity_parse_stat(whole, n, &s));
}

static void status_tells_user_and_namespace_pid(void **state)
{
	const char text[] = "Name:\tUid:\\n\nPid:\t42\nUid:\t1000\t0\t0\t0\nNSpid:\t42\t17\t3\n"
			    "NSpgid:\t42\t99\n";
	const char bare[] = "Name:\tx\nUid:\nNSpid:";
	uint32_t uid = 5, ns_pid = 6;

	gs_identity_parse_status(bare, strlen(bare), &uid, &ns_pid);
	assert_int_equal(uid, 5);
	assert_int_equal(ns_pid, 6);
	gs_identity_parse_status(text, strlen(text), &uid, &ns_pid);
	assert_int_equal(uid, 1000);
	assert_int_equal(ns_pid, 3);
}

static void cmdline_is_joined(void **state)
{
	char out[16];

	gs_identity_parse_cmdline("a\0b c\0\0d\0\0", 10, out, sizeof(out));
	assert_string_equal(out, "a b c  d");
	gs_identity_parse_cmdline("a\nb\x7f\0\x1b[", 8, out, sizeof(out));
	assert_string_equal(out, "a?b? ?[");
	gs_identity_parse_cmdline("", 0, out, sizeof(out));
	assert_string_equal(out, "");
	gs_identity_parse_cmdline("0123456789abcdefgh", 18, out, sizeof(out));
	assert_string_equal(out, "0123456789abcde");
}

static void cut_between_characters(void **state)
{
	char out[6];

	gs_identity_copy_clean(out, sizeof(out), "abc\xc3\xa4z", 6);
	assert_string_equal(out, "abc\xc3\xa4");
	gs_identity_copy_clean(out, sizeof(out), "abcd\xc3\xa4", 6);
	assert_string_equal(out, "abcd");
	gs_identity_copy_clean(out, sizeof(out), "ab\xf0\x9f\x98\x80", 6);
	assert_string_equal(out, "ab");
	/* Not UTF-8 at all: cut where the room ends, give or take three bytes. */
	gs_identity_copy_clean(out, sizeof(out), "\x80\x80\x80\x80\x80\x80\x80", 7);
	assert_string_equal(out, "\x80\x80");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_with_any_name),
		cmocka_unit_test(stat_of_no_process),
		cmocka_unit_test(status_tells_user_and_namespace_pid),
		cmocka_unit_test(cmdline_is_joined),
		cmocka_unit_test(cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
