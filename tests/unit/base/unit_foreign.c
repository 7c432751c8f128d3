/* Files of others: what is opened, how much is read, who can end it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"

static char folder[] = "/tmp/gs_foreign_XXXXXX";

static const char *in_folder(const char *name)
{
	static char paths[4][128];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, name);
	return paths[i];
}

static const char *make(const char *name, const void *data, size_t bytes, off_t size)
{
	const char *path = in_folder(name);
	GS_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	assert_int_equal(ftruncate(fd, size), 0);
	return path;
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static void only_regular_files(void **state)
{
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	struct gs_foreign_want want = {.no_links = true};
	const char *file = make("file", "abc", 3, 3);
	struct stat st;

	assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
	assert_int_equal(gs_foreign_open(in_folder("fifo"), NULL, &f), -EINVAL);
	assert_int_equal(gs_foreign_open("/dev/zero", NULL, &f), -EINVAL);
	assert_int_equal(gs_foreign_open(folder, NULL, &f), -EINVAL);
	assert_int_equal(gs_foreign_open(in_folder("none"), NULL, &f), -ENOENT);
	assert_int_equal(f.fd, -1);
	assert_int_equal(symlink("file", in_folder("link")), 0);
	assert_int_equal(gs_foreign_open(in_folder("link"), &want, &f), -EINVAL);
	assert_int_equal(gs_foreign_open(in_folder("link"), NULL, &f), 0);
	gs_foreign_close(&f);
	assert_int_equal(stat(file, &st), 0);
	want = (struct gs_foreign_want){.dev = st.st_dev, .ino = st.st_ino};
	assert_int_equal(gs_foreign_open(file, &want, &f), 0);
	assert_int_equal(f.ino, st.st_ino);
	assert_int_equal(f.uid, getuid());
	gs_foreign_close(&f);
	want.ino++;
	assert_int_equal(gs_foreign_open(file, &want, &f), -ESTALE);
	want = (struct gs_foreign_want){.max_bytes = 2};
	assert_int_equal(gs_foreign_open(file, &want, &f), -EFBIG);
}

static void reads_what_is_there(void **state)
{
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	char text[8];

	assert_int_equal(gs_foreign_open(make("abc", "abc", 3, 3), NULL, &f), 0);
	assert_int_equal(gs_foreign_read(&f, 1, text, 8), 2);
	assert_memory_equal(text, "bc", 2);
	assert_int_equal(gs_foreign_read(&f, 3, text, 8), 0);
	assert_int_equal(gs_foreign_read_text(in_folder("abc"), NULL, text, 3), 2);
	assert_string_equal(text, "ab");
}

static void holes_are_passed_over(void **state)
{
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	const uint64_t size = 1ull << 30;
	uint64_t at;

	assert_int_equal(gs_foreign_open(make("hole", "x", 1, (off_t)size), NULL, &f), 0);
	assert_int_equal(gs_foreign_skip_hole(&f, 0, size), 0);
	at = gs_foreign_skip_hole(&f, 1 << 20, size);
	/* A file system without holes has data everywhere. */
	assert_true(at == size || at == 1 << 20);
	assert_int_equal(gs_foreign_skip_hole(&f, 5, 5), 5);
}

/* Read a file again and again: how many bytes it gave. */
static uint64_t read_all_it_gives(struct gs_foreign *f, uint64_t most, int *ret_r)
{
	static char block[1 << 20];
	uint64_t sum = 0;
	ssize_t n = 1;

	while (sum < most && (n = gs_foreign_read(f, 0, block, sizeof(block))) > 0)
		sum += (uint64_t)n;
	*ret_r = (int)n;
	return sum;
}

static void a_file_has_a_share(void **state)
{
	static char block[1 << 20];
	const struct gs_guard_options o = {.size = sizeof(o)};
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	GS_CLEANUP(gs_guard_free) struct gs_guard *g = NULL;
	char what[64];
	uint64_t sum;
	int r;

	assert_int_equal(gs_guard_new(&o, &g), 0);
	assert_null(gs_guard_enter(g));
	make("own", block, sizeof(block), sizeof(block));
	assert_int_equal(chown(in_folder("own"), 65534, 65534), 0);
	assert_int_equal(gs_foreign_open(in_folder("own"), NULL, &f), 0);
	sum = read_all_it_gives(&f, 1ull << 34, &r);
	assert_int_equal(r, -EDQUOT);
	/* 8 MiB at once, and what grew back while they were read. */
	assert_true(sum >= 8u << 20 && sum < 1ull << 33);
	assert_int_equal(gs_guard_refused(g, GS_REFUSED_FILE_BYTES, what, sizeof(what)), 1);
	assert_non_null(strstr(what, "of user 65534"));
	assert_int_equal(gs_guard_refused(g, GS_REFUSED_FILE_BYTES, what, sizeof(what)), 0);
	assert_true(gs_guard_bytes_read(g) >= sum);
	assert_ptr_equal(gs_guard_enter(NULL), g);
}

static bool stop_now(void *ctx)
{
	return *(bool *)ctx;
}

static void who_asks_for_the_end_gets_it(void **state)
{
	bool stop = false;
	const struct gs_guard_options o = {.size = sizeof(o), .stop = stop_now, .ctx = &stop};
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	GS_CLEANUP(gs_guard_free) struct gs_guard *g = NULL;
	ssize_t r = 3;
	char text[3];
	unsigned n;

	assert_int_equal(gs_guard_new(&o, &g), 0);
	gs_guard_enter(g);
	assert_int_equal(gs_foreign_open(make("text", "abc", 3, 3), NULL, &f), 0);
	for (n = 0; r == 3 && n < 1000; n++)
		r = gs_foreign_read(&f, 0, text, sizeof(text));
	assert_int_equal(r, 3);
	assert_false(gs_guard_stopped());
	stop = true;
	/* At the latest after 64 reads. */
	for (n = 0; r == 3 && n < 1000; n++)
		r = gs_foreign_read(&f, 0, text, sizeof(text));
	assert_int_equal(r, -ECANCELED);
	assert_true(n <= 65);
	stop = false;
	assert_true(gs_guard_stopped()); /* it stays so */
	gs_guard_set_deadline(g, 0);
	assert_false(gs_guard_stopped());
	gs_guard_set_deadline(g, gs_clock_mono_ns());
	assert_true(gs_guard_stopped());
	gs_guard_enter(NULL);
	assert_false(gs_guard_stopped());
}

/* A folder as the root of a path: links and ".." stay below it, also where the path would lead elsewhere
 * from our own root. */
static void a_root_is_not_left(void **state)
{
	GS_FOREIGN_CLOSE struct gs_foreign f = GS_FOREIGN_INIT;
	GS_CLOSE int root = -1;
	struct stat st;

	assert_int_equal(mkdir(in_folder("root"), 0755), 0);
	make("outside", "abc", 3, 3);
	make("root/inside", "abcd", 4, 4);
	root = open(in_folder("root"), O_PATH | O_CLOEXEC);
	assert_true(root >= 0);
	assert_int_equal(stat(in_folder("root/inside"), &st), 0);
	assert_int_equal(symlink("/inside", in_folder("root/absolute")), 0);
	assert_int_equal(symlink("../../outside", in_folder("root/up")), 0);
	assert_int_equal(mkfifo(in_folder("root/fifo"), 0666), 0);
	assert_int_equal(gs_foreign_open_under(root, "/absolute", NULL, &f), 0);
	assert_int_equal(f.ino, st.st_ino);
	gs_foreign_close(&f);
	assert_int_equal(gs_foreign_open_under(root, "/../../inside", NULL, &f), 0);
	assert_int_equal(f.ino, st.st_ino);
	gs_foreign_close(&f);
	assert_int_equal(gs_foreign_open_under(root, "/up", NULL, &f), -ENOENT);
	assert_int_equal(gs_foreign_open_under(root, in_folder("outside"), NULL, &f), -ENOENT);
	assert_int_equal(gs_foreign_open_under(root, "/fifo", NULL, &f), -EINVAL);
	assert_int_equal(f.fd, -1);
}

static void a_user_has_a_share_of_time(void **state)
{
	const struct gs_guard_options o = {.size = sizeof(o)};
	GS_CLEANUP(gs_guard_free) struct gs_guard *g = NULL;
	struct gs_guard_work w;
	char what[64];
	int r = 0;

	assert_int_equal(gs_guard_charge_time(7, 1ull << 40, NULL),
			 0); /* without a guard: no limit */
	assert_int_equal(gs_guard_new(&o, &g), 0);
	gs_guard_enter(g);
	assert_int_equal(gs_guard_charge_time(7, 5000000000u, "x"), 0);
	assert_true(gs_guard_time_ns(g) == 5000000000u);
	assert_int_equal(gs_guard_begin(&w, 7, "mappings of process 5"), 0);
	/* Some may have grown back since, where others have the processor. */
	while (r == 0) {
		assert_int_equal(gs_guard_charge_time(7, 1ull << 40, NULL), -EDQUOT);
		r = gs_guard_step(&w);
	}
	gs_guard_end(&w);
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(gs_guard_charge_time(7, 1ull << 40, NULL), -EDQUOT);
	assert_int_equal(gs_guard_refused(g, GS_REFUSED_USER_TIME, what, sizeof(what)), 1);
	assert_string_equal(what, "mappings of process 5");
	/* Others have theirs, and root more. */
	assert_int_equal(gs_guard_begin(&w, 8, "x"), 0);
	assert_int_equal(gs_guard_charge_time(0, 100000000000u, "x"), 0);
	gs_guard_enter(NULL);
	assert_int_equal(gs_foreign_process_uid(getpid()), getuid());
}

/* One that cannot be dumped: its folder in /proc is root's. */
static void whose_a_process_is(void **state)
{
	int ends[2], status;
	char byte = 0;
	pid_t pid;

	if (getuid())
		skip();
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		_exit(setuid(65534) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
		      write(ends[1], &byte, 1) != 1 || pause());
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(gs_foreign_process_uid(pid), 65534);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_regular_files),
		cmocka_unit_test(a_root_is_not_left),
		cmocka_unit_test(a_user_has_a_share_of_time),
		cmocka_unit_test(whose_a_process_is),
		cmocka_unit_test(reads_what_is_there),
		cmocka_unit_test(holes_are_passed_over),
		cmocka_unit_test(a_file_has_a_share),
		cmocka_unit_test(who_asks_for_the_end_gets_it),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
