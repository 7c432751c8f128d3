#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"

static void set_and_prefix(void **state)
{
	struct gs_err err = {""};

	assert_int_equal(gs_err_set(&err, -ENOENT, "no %s at %d", "file", 7), -ENOENT);
	assert_string_equal(err.text, "no file at 7");
	assert_string_equal(gs_err_text(&err, -ENOENT), "no file at 7");
	assert_int_equal(gs_err_prefix(&err, -EIO, "reading %c", 'x'), -EIO);
	assert_string_equal(err.text, "reading x: no file at 7");
}

static void system_words_when_nobody_set_any(void **state)
{
	struct gs_err err = {""};

	assert_string_equal(gs_err_text(NULL, -EACCES), strerror(EACCES));
	assert_string_equal(gs_err_text(&err, -EACCES), strerror(EACCES));
	assert_string_equal(gs_err_text(&err, EACCES), strerror(EACCES));
	assert_int_equal(gs_err_prefix(&err, -EACCES, "/x"), -EACCES);
	assert_non_null(strstr(err.text, "/x: "));
	assert_non_null(strstr(err.text, strerror(EACCES)));
}

static void nobody_asked(void **state)
{
	assert_int_equal(gs_err_set(NULL, -EPERM, "x"), -EPERM);
	assert_int_equal(gs_err_prefix(NULL, -EPERM, "x"), -EPERM);
}

static void long_texts_are_cut(void **state)
{
	struct gs_err err = {""};
	char text[2000];

	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	gs_err_set(&err, -1, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	for (int i = 0; i < 5; i++)
		gs_err_prefix(&err, -1, "p%d%s", i, text);
	assert_true(strlen(err.text) < sizeof(err.text));
	assert_memory_equal(err.text, "p4t", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_and_prefix),
		cmocka_unit_test(system_words_when_nobody_set_any),
		cmocka_unit_test(nobody_asked),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
