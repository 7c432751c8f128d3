/* Patterns of Python functions: what the kernel side is given to compare with. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/correlate/python_glob.h"

static void names_and_files(void **state)
{
	static const uint32_t any = GS_PY_GLOB_ANY;
	struct gs_py_glob g;

	assert_int_equal(gs_correlate_parse_py_glob("fib", &g), 0);
	assert_int_equal(g.file.n, 0);
	assert_int_equal(g.name.n, 3);
	assert_int_equal(g.name.chars[2], 'b');
	/* The end of a path. */
	assert_int_equal(gs_correlate_parse_py_glob("m/x.py:f?", &g), 0);
	assert_int_equal(g.file.n, 2 + 6);
	assert_int_equal(g.file.chars[0], any);
	assert_int_equal(g.file.chars[1], '/');
	assert_int_equal(g.file.chars[7], 'y');
	assert_int_equal(g.name.chars[1], GS_PY_GLOB_ONE);
	/* A whole one, and any name. */
	assert_int_equal(gs_correlate_parse_py_glob("/m/x.py:*", &g), 0);
	assert_int_equal(g.file.n, 7);
	assert_int_equal(g.file.chars[0], '/');
	assert_int_equal(g.name.n, 0);
	/* Stars that follow each other are one; one alone is nothing to compare. */
	assert_int_equal(gs_correlate_parse_py_glob("**:**a***", &g), 0);
	assert_int_equal(g.file.n, 0);
	assert_int_equal(g.name.n, 3);
	assert_int_equal(gs_correlate_parse_py_glob("<string>:f", &g), 0);
	assert_int_equal(g.file.n, 2 + 8);
}

static void characters_of_all_lengths(void **state)
{
	struct gs_py_glob g;

	assert_int_equal(gs_correlate_parse_py_glob("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", &g), 0);
	assert_int_equal(g.name.n, 3);
	assert_int_equal(g.name.chars[0], 0xe9);
	assert_int_equal(g.name.chars[1], 0x4e2d);
	assert_int_equal(g.name.chars[2], 0x1f600);
	/* What is no UTF-8 stands for itself. */
	assert_int_equal(gs_correlate_parse_py_glob("\xe4z\xff", &g), 0);
	assert_int_equal(g.name.n, 3);
	assert_int_equal(g.name.chars[0], 0xe4);
	assert_int_equal(g.name.chars[2], 0xff);
}

static void what_matches(void **state)
{
	static const struct {
		const char *glob, *file, *name;
		bool matches;
	} cases[] = {
		{"fib", "/a/x.py", "fib", true},
		{"fib", "/a/x.py", "fibs", false},
		{"f*b", "/a/x.py", "fbbbab", true},
		{"f*b*c", "/a/x.py", "fbc", true},
		{"f*b*c", "/a/x.py", "fcb", false},
		{"???", "x", "abc", true},
		{"???", "x", "ab", false},
		{"*", "x", "", true},
		{"x.py:*", "/a/x.py", "f", true},
		{"x.py:*", "x.py", "f", true},
		{"x.py:*", "/a/xx.py", "f", false},
		{"a/*.py:f", "/b/a/c/d.py", "f", true},
		{"/a/x.py:f", "/b/a/x.py", "f", false},
		{"<string>:f", "<string>", "f", true},
		{"\xe4\xb8\xad?", "x", "\xe4\xb8\xad\xc3\xa9", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gs_py_glob g;

		assert_int_equal(gs_correlate_parse_py_glob(cases[i].glob, &g), 0);
		if (gs_correlate_matches_py_glob(&g, cases[i].file, cases[i].name) !=
		    cases[i].matches)
			fail_msg("%s and %s:%s", cases[i].glob, cases[i].file, cases[i].name);
	}
}

static void too_long_or_empty(void **state)
{
	char text[2 * GS_PY_GLOB_CHARS + 3];
	struct gs_py_glob g;

	memset(text, 'a', sizeof(text));
	text[GS_PY_GLOB_CHARS] = 0;
	assert_int_equal(gs_correlate_parse_py_glob(text, &g), 0);
	text[GS_PY_GLOB_CHARS] = 'a';
	text[GS_PY_GLOB_CHARS + 1] = 0;
	assert_int_equal(gs_correlate_parse_py_glob(text, &g), -E2BIG);
	assert_int_equal(gs_correlate_parse_py_glob("", &g), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_files),
		cmocka_unit_test(characters_of_all_lengths),
		cmocka_unit_test(what_matches),
		cmocka_unit_test(too_long_or_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
