#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/timer.h"

#define N 1000

static struct gs_timers timers;
static struct gs_timer all[N];
static uint64_t last_ns;
static unsigned n_fired;

static void in_order(struct gs_timer *t)
{
	assert_true(t->due_ns >= last_ns);
	assert_int_equal(t->index, 0);
	last_ns = t->due_ns;
	n_fired++;
}

static void order(void **state)
{
	uint64_t random = 1;
	unsigned removed = 0;

	(void)state;
	for (unsigned i = 0; i < N * 5; i++) {
		struct gs_timer *t = &all[i % N];

		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		t->fire = in_order;
		assert_int_equal(gs_timer_set(&timers, t, random >> 40), 0);
	}
	for (unsigned i = 0; i < N; i += 7, removed++)
		assert_int_equal(gs_timer_set(&timers, &all[i], UINT64_MAX), 0);
	gs_timer_set(&timers, &all[0], UINT64_MAX); /* not in it */
	assert_int_equal(timers.n, N - removed);
	while (gs_timers_next_ns(&timers) != UINT64_MAX)
		gs_timers_run(&timers, gs_timers_next_ns(&timers) + 100000);
	assert_int_equal(n_fired, N - removed);
	assert_null(timers.heap);
}

static void again(struct gs_timer *t)
{
	n_fired++;
	gs_timer_set(&timers, t, t->due_ns);
}

/* One that sets itself again, due already, does not hold the others up. */
static void set_again(void **state)
{
	struct gs_timer t = {.fire = again};

	(void)state;
	n_fired = 0;
	assert_int_equal(gs_timer_set(&timers, &t, 5), 0);
	gs_timers_run(&timers, 4);
	assert_int_equal(n_fired, 0);
	gs_timers_run(&timers, 10);
	assert_int_equal(n_fired, 1);
	gs_timer_set(&timers, &t, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),
		cmocka_unit_test(set_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
