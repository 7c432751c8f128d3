/* The search for processes: who is asked about again, and when. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/job_accounting/scan.h"

#define MS 1000000ull

struct seen {
	int n, n_asked;
	int stop;
};

static int note(void *ctx, uint32_t pid, bool ask)
{
	struct seen *s = ctx;

	assert_int_equal(pid, 4711);
	s->n++;
	s->n_asked += ask;
	return s->stop;
}

static int look(struct gs_accounting_scan *scan, const char *root, uint64_t at_ms)
{
	struct seen s = {0};

	assert_int_equal(gs_accounting_scan_processes(scan, root, at_ms * MS, note, &s), 0);
	assert_true(s.n_asked <= s.n);
	return s.n ? s.n_asked : -1;
}

static void who_is_asked_about(void **state)
{
	char root[] = "/tmp/unit_scan.XXXXXX", path[64];
	struct gs_accounting_scan scan = {0};
	struct seen stop = {.stop = -EIO};

	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/self", root);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(look(&scan, root, 0), -1);
	assert_int_equal(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/4711", root);
	assert_int_equal(mkdir(path, 0700), 0);
	/* New: at once, and soon again. */
	assert_int_equal(look(&scan, root, 10), 1);
	assert_int_equal(look(&scan, root, 60), 0);
	assert_int_equal(look(&scan, root, 90), 1);
	assert_int_equal(look(&scan, root, 150), 0);
	/* After a quarter of its age. */
	assert_int_equal(look(&scan, root, 8010), 1);
	assert_int_equal(look(&scan, root, 10000), 0);
	assert_int_equal(look(&scan, root, 10700), 1);
	/* And every 5 s, however old it is. */
	assert_int_equal(look(&scan, root, 1000000), 1);
	assert_int_equal(look(&scan, root, 1004999), 0);
	/* A search that was stopped changes nothing. */
	assert_int_equal(gs_accounting_scan_processes(&scan, root, 1005000 * MS, note, &stop),
			 -EIO);
	assert_int_equal(stop.n_asked, 1);
	assert_int_equal(look(&scan, root, 1005000), 1);
	/* Gone, and its number given to another one. */
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(look(&scan, root, 1005010), -1);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(look(&scan, root, 1005020), 1);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(gs_accounting_scan_processes(&scan, root, 1005030 * MS, note, &stop),
			 -ENOENT);
	gs_accounting_scan_fini(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_asked_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
