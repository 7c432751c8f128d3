/* Files that are named to be written: what stands there, what somebody else put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/output.h"

#define OTHER 65534

static char folder[] = "/tmp/unit_output_XXXXXX", path[64];

static int make_folder(void **state)
{
	strcpy(strrchr(folder, '_') + 1, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/x.json", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static unsigned n_files(void)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	closedir(d);
	return n;
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void check_file(const char *name, const char *wanted)
{
	char text[64] = "";
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	(void)!fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	assert_string_equal(text, wanted);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(name, &st), 0);
	return st.st_mode & 07777;
}

static int write_to(unsigned flags, int how, struct gs_err *err)
{
	struct gs_output o;
	int r;

	*err = (struct gs_err){{0}};
	r = gs_output_open(path, flags, &o, err);
	if (r < 0)
		return r;
	assert_true(fputs("new", gs_output_stream(&o)) >= 0);
	return gs_output_close(&o, how, err);
}

static void takes_its_place_when_it_is_whole(void **state)
{
	struct gs_output o;
	struct gs_err err;

	umask(022);
	put_file(path, "old");
	assert_int_equal(gs_output_open(path, 0, &o, &err), 0);
	fputs("half", gs_output_stream(&o));
	fflush(o.file);
	check_file(path, "old");
	assert_int_equal(gs_output_close(&o, -ENOSPC, &err), -ENOSPC);
	check_file(path, "old");
	assert_int_equal(n_files(), 1);
	assert_int_equal(write_to(0, 0, &err), 0);
	check_file(path, "new");
	assert_int_equal(mode_of(path), 0644);
	assert_int_equal(write_to(GS_OUTPUT_PRIVATE, 0, &err), 0);
	assert_int_equal(mode_of(path), 0600);
	assert_int_equal(n_files(), 1);
	assert_int_equal(gs_output_try(path, &err), 0);
	check_file(path, "new");
	unlink(path);
	assert_int_equal(gs_output_try(path, &err), 0);
	assert_int_equal(n_files(), 0);
}

/* Whoever holds the old file open, or a hard link to it, sees nothing of the new one. */
static void what_grows_has_its_place_at_once(void **state)
{
	struct gs_output o;
	struct gs_err err;
	char other[80];

	put_file(path, "old");
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(gs_output_open(path, GS_OUTPUT_GROWS, &o, &err), 0);
	assert_int_equal(write(o.fd, "half", 4), 4);
	check_file(path, "half");
	check_file(other, "old");
	assert_int_equal(gs_output_close(&o, -ECANCELED, &err), -ECANCELED);
	check_file(path, "half");
	assert_int_equal(n_files(), 2);
}

static void links_of_others_are_refused(void **state)
{
	char target[80];
	struct gs_err err;

	snprintf(target, sizeof(target), "%s/target", folder);
	put_file(target, "precious");
	assert_int_equal(symlink(target, path), 0);
	/* Our own is followed. */
	assert_int_equal(write_to(0, 0, &err), 0);
	check_file(target, "new");
	/* Also where it leads to nothing yet. */
	unlink(target);
	assert_int_equal(write_to(GS_OUTPUT_GROWS, 0, &err), 0);
	check_file(target, "new");
	if (geteuid() != 0)
		return;
	put_file(target, "precious");
	assert_int_equal(lchown(path, OTHER, OTHER), 0);
	for (unsigned flags = 0; flags <= GS_OUTPUT_GROWS; flags++) {
		assert_int_equal(write_to(flags, 0, &err), -ELOOP);
		assert_non_null(strstr(err.text, "it is a symbolic link of user 65534"));
	}
	check_file(target, "precious");
}

static void devices_and_pipes_are_written_to(void **state)
{
	struct gs_output o;
	struct gs_err err;
	char text[16] = "";
	int reader;

	assert_int_equal(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK);
	assert_int_equal(write_to(0, 0, &err), 0);
	assert_int_equal(read(reader, text, sizeof(text)), 3);
	close(reader);
	assert_int_equal(n_files(), 1);
	assert_int_equal(gs_output_open("/dev/full", 0, &o, &err), 0);
	fputs("x", gs_output_stream(&o));
	assert_int_equal(gs_output_close(&o, 0, &err), -ENOSPC);
	assert_string_equal(err.text, "cannot write /dev/full: No space left on device");
	assert_int_equal(gs_output_open("/dev/stdout", GS_OUTPUT_GROWS, &o, &err), 0);
	assert_int_equal(gs_output_close(&o, 0, &err), 0);
	if (geteuid() != 0)
		return;
	/* One of somebody else's would hand it to them. */
	assert_int_equal(lchown(path, OTHER, OTHER), 0);
	assert_int_equal(gs_output_open(path, 0, &o, &err), -EPERM);
}

static void what_cannot_be_written_says_so(void **state)
{
	struct gs_output o;
	struct gs_err err;

	assert_int_equal(gs_output_open("/nonexistent/x", 0, &o, &err), -ENOENT);
	assert_string_equal(err.text, "cannot write /nonexistent/x: No such file or directory");
	assert_int_equal(gs_output_open(folder, 0, &o, &err), -EISDIR);
	assert_int_equal(gs_output_open("/tmp/", 0, &o, &err), -EISDIR);
	assert_int_equal(gs_output_open("", 0, &o, &err), -ENOENT);
	assert_int_equal(gs_output_close(&o, 0, &err), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(takes_its_place_when_it_is_whole), CASE(what_grows_has_its_place_at_once),
		CASE(links_of_others_are_refused),      CASE(devices_and_pipes_are_written_to),
		CASE(what_cannot_be_written_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
