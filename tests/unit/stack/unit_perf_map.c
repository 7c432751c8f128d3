/* Names of code made at run time: lines of /tmp/perf-PID.map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stack/perf_map.h"

/* No process has this id, so nothing is read from one. */
#define PID 0x3ffffff0u

static const char *name_of(struct gs_perf_map *m, uint64_t pc)
{
	static char name[64];

	return gs_perf_map_name(m, pc, 1, name, sizeof(name)) ? name : NULL;
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
	struct gs_perf_map *m = gs_perf_map_new(PID);

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
	assert_null(m);
}

/* This process's own file, which grows. */
static void a_file_is_read_as_it_grows(void **state)
{
	struct gs_perf_map *m = gs_perf_map_new((uint32_t)getpid());
	char path[64], name[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	assert_false(gs_perf_map_name(m, 0x1000, 1, name, sizeof(name)));
	f = fopen(path, "we");
	assert_non_null(f);
	fputs("1000 10 first\n20", f);
	fflush(f);
	/* Not before it is worth looking again. */
	assert_false(gs_perf_map_name(m, 0x1000, 2, name, sizeof(name)));
	assert_true(gs_perf_map_name(m, 0x1000, 100000000, name, sizeof(name)));
	assert_string_equal(name, "first");
	fputs("00 10 second\n", f);
	fclose(f);
	assert_true(gs_perf_map_name(m, 0x2000, 200000000, name, sizeof(name)));
	assert_string_equal(name, "second");
	unlink(path);
	gs_perf_map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_taken),
		cmocka_unit_test(a_file_is_read_as_it_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
