/* Findings in the store: put, put again, listed, and removed when they are old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/store/finding.h"
#include "store_folder.h"

static struct gs_store_finding finding_of(uint64_t number, const char *job, int64_t begin)
{
	struct gs_store_finding f = {.run = 1ull << 63,
				     .number = number,
				     .kind = "late_rank",
				     .node = "n1",
				     .communicator = UINT64_MAX - 1,
				     .rank = 3,
				     .n_ranks = 8,
				     .begin_wall_ns = begin,
				     .found_wall_ns = begin + 5};

	snprintf(f.job, sizeof(f.job), "%s", job);
	snprintf(f.text, sizeof(f.text), "rank 3 of 8");
	return f;
}

struct list {
	struct gs_store_finding items[8];
	char data[8][32];
	size_t n;
};

static int add(void *ctx, const struct gs_store_finding *f, const char *data)
{
	struct list *l = ctx;

	assert_true(l->n < GS_ARRAY_LEN(l->items));
	snprintf(l->data[l->n], sizeof(l->data[0]), "%s", data);
	l->items[l->n++] = *f;
	return 0;
}

static struct list list_of(struct gs_store *s, const struct gs_store_finding_query *q)
{
	struct list l = {.n = 0};

	assert_int_equal(gs_store_findings(s, q, add, &l), 0);
	return l;
}

static void test_put_and_list(void **state)
{
	struct gs_store *s = open_store(*state, GS_STORE_WRITE);
	struct gs_store_finding f = finding_of(1, "4711", 100);
	const struct gs_store_finding_query all = {.job = NULL};
	struct list l;

	assert_int_equal(gs_store_finding_put(s, &f, "{\"a\":1}"), 0);
	f = finding_of(2, "4712", 200);
	assert_int_equal(gs_store_finding_put(s, &f, "{}"), 0);
	f = finding_of(1, "4711", 100);
	f.end_wall_ns = 300;
	strcpy(f.text, "it ended");
	assert_int_equal(gs_store_finding_put(s, &f, "{\"a\":2}"), 0);
	l = list_of(s, &all);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.items[0].job, "4712");
	assert_string_equal(l.items[1].job, "4711");
	assert_string_equal(l.items[1].text, "it ended");
	assert_string_equal(l.data[1], "{\"a\":2}");
	assert_true(l.items[1].run == 1ull << 63);
	assert_true(l.items[1].communicator == UINT64_MAX - 1);
	assert_int_equal(l.items[1].rank, 3);
	assert_int_equal(l.items[1].end_wall_ns, 300);

	l = list_of(s, &(struct gs_store_finding_query){.job = "4711"});
	assert_int_equal(l.n, 1);
	l = list_of(s, &(struct gs_store_finding_query){.kind = "hang"});
	assert_int_equal(l.n, 0);
	l = list_of(s, &(struct gs_store_finding_query){.holding = true});
	assert_int_equal(l.n, 1);
	assert_string_equal(l.items[0].job, "4712");
	l = list_of(s, &(struct gs_store_finding_query){.from_wall_ns = 301});
	assert_int_equal(l.n, 1);
	l = list_of(s, &(struct gs_store_finding_query){.to_wall_ns = 200});
	assert_int_equal(l.n, 1);
	l = list_of(s, &(struct gs_store_finding_query){.after_id = l.items[0].id + 1});
	assert_int_equal(l.n, 1);
	assert_string_equal(l.items[0].job, "4711");

	f.number = 0;
	assert_int_equal(gs_store_finding_put(s, &f, "{}"), -EINVAL);
	gs_store_close(&s);
}

static void test_interrupted_and_old(void **state)
{
	struct gs_store *s = open_store(*state, GS_STORE_WRITE);
	const struct gs_store_finding_query all = {.job = NULL};
	struct gs_store_finding f;
	struct list l;

	for (uint64_t i = 1; i <= 4; i++) {
		f = finding_of(i, "1", (int64_t)i * 100);
		assert_int_equal(gs_store_finding_put(s, &f, "{}"), 0);
	}
	assert_int_equal(gs_store_finding_expire(s, INT64_MAX, 10), 0);
	assert_int_equal(gs_store_findings_interrupted(s), 0);
	l = list_of(s, &all);
	assert_int_equal(l.items[0].end_wall_ns, 405);
	assert_int_equal(gs_store_finding_expire(s, 305, 1), 1);
	assert_int_equal(gs_store_finding_expire(s, 305, 10), 1);
	l = list_of(s, &all);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.items[1].number, 3);
	gs_store_close(&s);
	s = open_store(*state, GS_STORE_READ);
	l = list_of(s, &all);
	assert_int_equal(l.n, 2);
	gs_store_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put_and_list, folder_setup, folder_teardown),
		cmocka_unit_test_setup_teardown(test_interrupted_and_old, folder_setup,
						folder_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
