/* Names of code made at run time: lines of /tmp/perf-PID.map. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/unwind/perf_map.h"

static const char *name_of(struct gs_perf_map *m, uint64_t pc)
{
	static char name[64];

	return gs_perf_map_name(m, pc, name, sizeof(name)) ? name : NULL;
}

static void lines_are_taken(void **state)
{
	static const char text[] = "1000 10 py::f:/a b.py\n"
				   "0x2000 0x8 with\n"
				   "1000 8 newer\n"
				   "zz 1 no\n"
				   "3000 0 empty\n"
				   "ffffffffffffffff 2 wraps\n"
				   "4000 8\n"
				   "5000 8 ";
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *m = gs_perf_map_new(all);

	assert_non_null(m);
	/* A line that is not whole yet waits. */
	assert_int_equal(gs_perf_map_parse(m, text, sizeof(text) - 1), sizeof(text) - 1 - 7);
	assert_null(name_of(m, 0xfff));
	assert_string_equal(name_of(m, 0x1000), "newer");
	assert_string_equal(name_of(m, 0x1007), "newer");
	assert_null(name_of(m, 0x1010));
	assert_string_equal(name_of(m, 0x2007), "with");
	assert_null(name_of(m, 0x2008));
	assert_null(name_of(m, 0x3000));
	assert_null(name_of(m, 0x4000));
	assert_int_equal(gs_perf_map_parse(m, "5000 8 later\n", 13), 13);
	assert_string_equal(name_of(m, 0x5001), "later");
	gs_perf_map_free(&m);
	gs_perf_maps_free(&all);
	assert_null(m);
}

/* What its file has now. */
static void read_file(struct gs_perf_map *m, pid_t pid, uint64_t now_ns)
{
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;

	assert_int_equal(gs_perf_map_open((uint32_t)pid, &file), 0);
	gs_perf_map_read(m, &file, now_ns);
}

/* This process's own file, which grows. */
static void a_file_is_read_as_it_grows(void **state)
{
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *m = gs_perf_map_new(all);
	struct gs_foreign none;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	assert_int_equal(gs_perf_map_open((uint32_t)getpid(), &none), -ENOENT);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs("1000 10 first\n20", f);
	fflush(f);
	read_file(m, getpid(), 1000000000000);
	assert_string_equal(name_of(m, 0x1000), "first");
	fputs("00 10 second\n", f);
	fclose(f);
	/* Not before it is worth looking again. */
	read_file(m, getpid(), 1000000000001);
	assert_null(name_of(m, 0x2000));
	read_file(m, getpid(), 2000000000000);
	assert_string_equal(name_of(m, 0x2000), "second");
	unlink(path);
	gs_perf_map_free(&m);
	gs_perf_maps_free(&all);
}

/* A process of the user that does nothing. */
static pid_t idle_process(uid_t uid)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setuid(uid) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* One file of 40 MB under the names of several processes: kept once, within the user's share. */
static void links_of_one_file_are_one(void **state)
{
	enum { N = 4, UID = 65534 };
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *maps[N];
	const struct gs_guard_options o = {.size = sizeof(o)};
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	char path[N][64], name[64];
	pid_t pids[N];
	size_t first = 0;
	FILE *f;

	if (getuid() != 0)
		skip();
	assert_int_equal(gs_guard_new(&o, &guard), 0);
	gs_guard_enter(guard);
	for (unsigned i = 0; i < N; i++) {
		pids[i] = idle_process(UID);
		snprintf(path[i], sizeof(path[i]), "/tmp/perf-%d.map", (int)pids[i]);
		unlink(path[i]);
	}
	f = fopen(path[0], "we");
	assert_non_null(f);
	for (unsigned i = 1; i < 1000000; i++)
		fprintf(f, "%x 10 a_function_of_generated_code_%07u\n", i << 4, i);
	fclose(f);
	assert_int_equal(chown(path[0], UID, UID), 0);
	for (unsigned i = 0; i < N; i++) {
		if (i)
			assert_int_equal(link(path[0], path[i]), 0);
		maps[i] = gs_perf_map_new(all);
		read_file(maps[i], pids[i], 1);
		assert_string_equal(name_of(maps[i], 0x10), "a_function_of_generated_code_0000001");
		assert_null(name_of(maps[i], 999999 << 4));
		if (!i)
			first = gs_perf_maps_bytes(all);
		assert_int_equal(gs_perf_maps_bytes(all), first);
	}
	assert_true(first > 1u << 20 && first <= GS_PERF_MAPS_USER_BYTES);
	assert_int_equal(gs_guard_refused(guard, GS_REFUSED_NAMES, name, sizeof(name)), 1);
	assert_true(gs_guard_bytes_read(guard) < 2 * (size_t)GS_PERF_MAPS_USER_BYTES);
	for (unsigned i = 0; i < N; i++) {
		gs_perf_map_free(&maps[i]);
		unlink(path[i]);
		end_process(pids[i]);
	}
	assert_int_equal(gs_perf_maps_bytes(all), 0);
	gs_perf_maps_free(&all);
}

/* 8 GiB of nothing before a line and behind it: little is read, and the lines are known. */
static void holes_cost_nothing(void **state)
{
	const off_t hole = 8ll << 30;
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *m = gs_perf_map_new(all);
	const struct gs_guard_options o = {.size = sizeof(o)};
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	GS_CLOSE int fd = memfd_create("perf_map", MFD_CLOEXEC);
	static const char first[] = "1000 10 first\n", second[] = "2000 10 second\n";
	char path[64];

	assert_int_equal(gs_guard_new(&o, &guard), 0);
	gs_guard_enter(guard);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (pwrite(fd, first, sizeof(first) - 1, 0) < 0 ||
	    pwrite(fd, second, sizeof(second) - 1, hole) < 0 || ftruncate(fd, 2 * hole) < 0)
		skip();
	assert_int_equal(gs_foreign_open(path, NULL, &file), 0);
	gs_perf_map_read(m, &file, 1000000000000);
	assert_string_equal(name_of(m, 0x1000), "first");
	assert_string_equal(name_of(m, 0x2000), "second");
	assert_true(gs_guard_bytes_read(guard) < 1u << 20);
	gs_guard_enter(NULL);
	gs_perf_map_free(&m);
	gs_perf_maps_free(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_taken),
		cmocka_unit_test(a_file_is_read_as_it_grows),
		cmocka_unit_test(links_of_one_file_are_one),
		cmocka_unit_test(holes_cost_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
