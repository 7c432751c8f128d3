/* Tokens out of files: which line it is, and what is said where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"

static int read_of(const char *text, char *out, size_t bytes, struct gs_err *err)
{
	char path[] = "/tmp/unit_secret_XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	r = gs_token_read(path, "the token file", out, bytes, err);
	unlink(path);
	return r;
}

static void the_first_that_is_no_comment(void **state)
{
	struct gs_err err;
	char token[32];

	assert_int_equal(read_of("abc\n", token, sizeof(token), &err), 0);
	assert_string_equal(token, "abc");
	assert_int_equal(
		read_of("# whose it is\n\r\n\nabc def\r\nother\n", token, sizeof(token), &err), 0);
	assert_string_equal(token, "abc def");
	assert_int_equal(read_of("without an end", token, sizeof(token), &err), 0);
	assert_string_equal(token, "without an end");
	assert_int_equal(read_of("longer than there is room for, by far", token, 8, &err), 0);
	assert_string_equal(token, "longer ");
}

static void none(void **state)
{
	struct gs_err err;
	char token[32];

	assert_int_equal(read_of("# only this\n\n", token, sizeof(token), &err), -EINVAL);
	assert_non_null(strstr(err.text, "the token file /tmp/unit_secret_"));
	assert_non_null(strstr(err.text, " holds no token"));
	assert_int_equal(
		gs_token_read("/nonexistent/t", "the token file", token, sizeof(token), &err),
		-ENOENT);
	assert_string_equal(err.text,
			    "cannot read the token file /nonexistent/t: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_that_is_no_comment),
		cmocka_unit_test(none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
