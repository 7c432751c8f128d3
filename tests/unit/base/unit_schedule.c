#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/schedule.h"

#define MS 1000000ull
#define S  1000000000ull

/* Runs the schedule from its start to until_ns, as a reader that is never late. */
static uint64_t run_until(struct gs_schedule *s, uint64_t until_ns, uint64_t *missed)
{
	uint64_t n = 0;

	for (; s->next_ns <= until_ns; n++)
		*missed += gs_schedule_take(s, s->next_ns);
	return n;
}

static void a_turn_each_interval(void **state)
{
	struct gs_schedule s;
	uint64_t missed = 0;

	gs_schedule_start(&s, 100 * MS, 7 * S);
	assert_int_equal(s.next_ns, 7 * S);
	assert_int_equal(run_until(&s, 17 * S, &missed), 101);
	assert_int_equal(missed, 0);
}

/* kill -STOP for 5 s, or a machine that was suspended: one late turn, the rest is missed once. */
static void a_stall_is_counted_once(void **state)
{
	struct gs_schedule s;
	uint64_t missed = 0;

	gs_schedule_start(&s, 100 * MS, 0);
	(void)run_until(&s, 1 * S, &missed);
	assert_int_equal(gs_schedule_take(&s, 6 * S + 50 * MS), 49);
	assert_int_equal(s.next_ns, 6 * S + 100 * MS); /* on the grid, and no burst */
	/* Turns and missed turns together are what was due. */
	assert_int_equal(run_until(&s, 10 * S, &missed), 40);
	assert_int_equal(missed, 0);

	gs_schedule_start(&s, S, 0);
	(void)gs_schedule_take(&s, 0);
	assert_int_equal(gs_schedule_take(&s, 601 * S), 600);
	assert_int_equal(s.next_ns, 602 * S);
}

static void readings_that_take_too_long(void **state)
{
	struct gs_schedule s;
	uint64_t now = 0, missed = 0, n = 0;

	gs_schedule_start(&s, 100 * MS, 0);
	for (; now <= 100 * S; n++) {
		if (now < s.next_ns)
			now = s.next_ns;
		missed += gs_schedule_take(&s, now);
		now += 250 * MS; /* the reading itself */
	}
	/* Every turn up to the last one taken is either taken or missed. */
	assert_int_equal(n + missed, s.last_ns / (100 * MS) + 1);
	assert_true(missed > n);
}

static void a_shorter_interval_misses_nothing(void **state)
{
	struct gs_schedule s;
	uint64_t missed = 0;

	gs_schedule_start(&s, S, 0);
	(void)run_until(&s, 3 * S, &missed);
	gs_schedule_set_interval(&s, 50 * MS, 3 * S + 700 * MS);
	assert_int_equal(s.next_ns, 3 * S + 700 * MS);
	assert_int_equal(gs_schedule_take(&s, 3 * S + 701 * MS), 0);
	assert_int_equal(s.next_ns, 3 * S + 750 * MS);
	gs_schedule_set_interval(&s, 50 * MS, 3 * S + 702 * MS);
	assert_int_equal(s.next_ns, 3 * S + 750 * MS); /* the same: nothing moves */
}

static void a_longer_interval_counts_from_the_last_turn(void **state)
{
	struct gs_schedule s;
	uint64_t missed = 0;

	gs_schedule_start(&s, 50 * MS, 0);
	(void)run_until(&s, 1 * S, &missed);
	gs_schedule_set_interval(&s, 5 * S, 1 * S + 10 * MS);
	assert_int_equal(s.next_ns, 6 * S);
	assert_int_equal(missed, 0);
}

static void before_the_first_turn(void **state)
{
	struct gs_schedule s;

	gs_schedule_start(&s, S, 10 * S);
	gs_schedule_set_interval(&s, 50 * MS, 12 * S);
	assert_int_equal(s.next_ns, 10 * S);
	assert_int_equal(s.interval_ns, 50 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_each_interval),
		cmocka_unit_test(a_stall_is_counted_once),
		cmocka_unit_test(readings_that_take_too_long),
		cmocka_unit_test(a_shorter_interval_misses_nothing),
		cmocka_unit_test(a_longer_interval_counts_from_the_last_turn),
		cmocka_unit_test(before_the_first_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
