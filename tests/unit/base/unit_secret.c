/* Tokens out of files: which line it is, and what is said where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/secret.h"

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
	assert_int_equal(read_of("longer than there is room for", token, 8, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a secret has 1 to 7 bytes"));
	assert_int_equal(read_of("a\x1b[1m", token, sizeof(token), &err), -EINVAL);
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

/* A file with mode and owner in a folder with mode and owner; what is said of it. */
static int try_file(mode_t mode, uid_t owner, mode_t folder_mode, uid_t folder_owner,
		    struct gs_err *err)
{
	char folder[] = "/tmp/unit_secret_XXXXXX", path[64], token[32];
	int fd, r;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/t", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, "abc\n", 4), 4);
	assert_int_equal(fchown(fd, owner, (gid_t)-1), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	assert_int_equal(chown(folder, folder_owner, (gid_t)-1), 0);
	assert_int_equal(chmod(folder, folder_mode), 0);
	*err = (struct gs_err){{0}};
	r = gs_secret_read(path, "the key", token, sizeof(token), err);
	if (r == 0)
		assert_string_equal(token, "abc");
	unlink(path);
	rmdir(folder);
	return r;
}

static void others_have_no_part_in_it(void **state)
{
	uid_t own = geteuid(), other = own == 0 ? 65534 : own;
	struct gs_err err;
	char token[32];

	assert_int_equal(try_file(0600, own, 0700, own, &err), 0);
	assert_int_equal(try_file(0440, own, 0755, own, &err), 0);
	assert_int_equal(try_file(0600, own, 01777, own, &err), 0);
	assert_int_equal(try_file(0604, own, 0700, own, &err), -EPERM);
	assert_non_null(strstr(err.text, "/t: others can read or change it; chmod 0600 it"));
	assert_int_equal(try_file(0620, own, 0700, own, &err), -EPERM);
	assert_int_equal(try_file(0602, own, 0700, own, &err), -EPERM);
	assert_int_equal(try_file(0600, own, 0777, own, &err), -EPERM);
	assert_non_null(strstr(err.text, "everyone can replace files in /tmp/unit_secret_"));
	assert_int_equal(gs_secret_read("/dev/zero", "the key", token, sizeof(token), &err),
			 -EINVAL);
	assert_string_equal(err.text, "the key /dev/zero: not a regular file");
	if (own != 0)
		return;
	assert_int_equal(try_file(0600, other, 0700, own, &err), -EPERM);
	assert_non_null(strstr(err.text, "belongs to user 65534"));
	assert_int_equal(try_file(0600, own, 0700, other, &err), -EPERM);
	assert_non_null(strstr(err.text, "its folder belongs to user 65534"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_that_is_no_comment),
		cmocka_unit_test(none),
		cmocka_unit_test(others_have_no_part_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
