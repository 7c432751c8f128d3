/* Numbers of Python functions: in use, and taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/trace/event.h"
#include "sources/sideband/pyfunc_set.h"

struct taken {
	unsigned n;
	uint32_t number[8];
	uint64_t code[8];
	uint32_t pid;
	bool still_there;
};

static bool is_gone(void *ctx, uint32_t pid)
{
	return !((struct taken *)ctx)->still_there;
}

static void take_back(void *ctx, uint32_t number, uint32_t pid, uint64_t code)
{
	struct taken *t = ctx;

	assert_true(t->n < 8);
	t->pid = pid;
	t->number[t->n] = number;
	t->code[t->n++] = code;
}

static void rounds(struct gs_pyfunc_set *s, struct taken *t, unsigned n)
{
	const struct gs_pyfunc_round round = {3, is_gone, take_back, t};

	while (n--)
		gs_pyfunc_set_round(s, &round);
}

static void numbers_belong_to_a_process(void **state)
{
	struct gs_pyfunc_set *s = gs_pyfunc_set_new();

	assert_non_null(s);
	assert_false(gs_pyfunc_set_has(NULL, GS_FUNC_MAX, 7));
	assert_false(gs_pyfunc_set_has(s, GS_FUNC_MAX, 7));
	gs_pyfunc_set_add(s, GS_FUNC_MAX, 7, 0x1000);
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX, 7));
	assert_false(gs_pyfunc_set_has(s, GS_FUNC_MAX, 8));
	assert_false(gs_pyfunc_set_has(s, GS_FUNC_MAX + 1, 7));
	/* In use by another one. */
	gs_pyfunc_set_add(s, GS_FUNC_MAX, 8, 0x2000);
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX, 7));
	gs_pyfunc_set_free(&s);
	assert_null(s);
}

static void what_is_no_number_is_refused(void **state)
{
	struct gs_pyfunc_set *s = gs_pyfunc_set_new();
	const uint32_t end = GS_FUNC_MAX + GS_PYFUNC_MAX;

	gs_pyfunc_set_add(s, GS_FUNC_MAX - 1, 7, 1);
	gs_pyfunc_set_add(s, end, 7, 1);
	gs_pyfunc_set_add(s, UINT32_MAX, 7, 1);
	gs_pyfunc_set_add(s, GS_FUNC_MAX, 0, 1);
	assert_false(gs_pyfunc_set_has(s, GS_FUNC_MAX - 1, 7));
	assert_false(gs_pyfunc_set_has(s, end, 7));
	assert_false(gs_pyfunc_set_has(s, UINT32_MAX, 7));
	gs_pyfunc_set_add(s, end - 1, 7, 1);
	assert_true(gs_pyfunc_set_has(s, end - 1, 7));
	gs_pyfunc_set_free(&s);
}

static void an_ended_process_gives_all_back(void **state)
{
	struct gs_pyfunc_set *s = gs_pyfunc_set_new();
	struct taken t = {0};

	for (uint32_t i = 0; i < 3; i++)
		gs_pyfunc_set_add(s, GS_FUNC_MAX + i, 7, 0x100 + i);
	gs_pyfunc_set_add(s, GS_FUNC_MAX + 3, 8, 0x200);
	gs_pyfunc_set_end(s, 7);
	gs_pyfunc_set_end(s, 9); /* has none */
	/* Until then their last calls may come. */
	rounds(s, &t, 2);
	assert_int_equal(t.n, 0);
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX, 7));
	rounds(s, &t, 1);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.pid, 7);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(t.number[i], GS_FUNC_MAX + 2 - i);
		assert_int_equal(t.code[i], 0x102 - i);
		assert_false(gs_pyfunc_set_has(s, GS_FUNC_MAX + i, 7));
	}
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX + 3, 8));
	/* And they can be given again. */
	gs_pyfunc_set_add(s, GS_FUNC_MAX + 1, 8, 0x300);
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX + 1, 8));
	rounds(s, &t, 5);
	assert_int_equal(t.n, 3);
	gs_pyfunc_set_free(&s);
}

static void one_with_threads_waits_for_them(void **state)
{
	struct gs_pyfunc_set *s = gs_pyfunc_set_new();
	struct taken t = {.still_there = true};

	gs_pyfunc_set_add(s, GS_FUNC_MAX, 7, 1);
	gs_pyfunc_set_end(s, 7);
	rounds(s, &t, 10);
	assert_int_equal(t.n, 0);
	/* The next one of this id, meanwhile. */
	gs_pyfunc_set_add(s, GS_FUNC_MAX + 1, 7, 2);
	t.still_there = false;
	rounds(s, &t, 1);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.number[0], GS_FUNC_MAX);
	assert_true(gs_pyfunc_set_has(s, GS_FUNC_MAX + 1, 7));
	gs_pyfunc_set_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_belong_to_a_process),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(an_ended_process_gives_all_back),
		cmocka_unit_test(one_with_threads_waits_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
