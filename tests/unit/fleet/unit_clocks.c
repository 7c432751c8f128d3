/* Two clocks that are a known time apart and drift, and collectives between ranks that have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "../detect/random.h"
#include "analysis/fleet/clocks.h"

#define S  1000000000ll
#define MS 1000000ll
#define US 1000ll

/* What a node's clock shows at a time of the first one's. */
struct world {
	uint64_t random;
	int64_t offset_ns; /* first's less the other's, at second 0 */
	double drift;      /* seconds a second by which the other goes fast */
	int64_t most_work_ns; /* between two collectives a rank is at most so much longer busy than the other */
	int64_t late_ns; /* the other one is always so much later */
};

static int64_t other_of(const struct world *w, int64_t first_ns)
{
	return first_ns - w->offset_ns + (int64_t)(w->drift * (double)first_ns);
}

static int64_t up_to(struct world *w, int64_t ns)
{
	return (int64_t)(draw_uniform(&w->random) * (double)ns);
}

/* Both enter when they have done their work; neither leaves before the last has entered, and each learns of its end some time
 * later. */
static void meet(struct world *w, int64_t at_ns, struct gs_fleet_clock *clock)
{
	int64_t one = at_ns + up_to(w, w->most_work_ns);
	int64_t other = at_ns + up_to(w, w->most_work_ns) + w->late_ns;
	int64_t last = one > other ? one : other;
	const struct gs_fleet_stay its = {one, last + 20 * US + up_to(w, 2 * MS)};
	const struct gs_fleet_stay others = {other_of(w, other),
					     other_of(w, last + 20 * US + up_to(w, 2 * MS))};

	gs_fleet_clock_take(clock, &its, &others);
}

static struct world make_world(unsigned seed)
{
	struct world w = {.random = seed};

	w.offset_ns = up_to(&w, 200 * S) - 100 * S;
	w.drift = (draw_uniform(&w.random) - 0.5) * 2 * GS_FLEET_CLOCK_DRIFT_PPM * 1e-6;
	w.most_work_ns = up_to(&w, 100 * MS);
	w.late_ns = seed % 3 ? 0 : up_to(&w, 50 * MS);
	return w;
}

/* The true offset is inside at each time, also where nobody met for a while and where one side is always the last; and the bounds are
 * not much wider than what ranks need to leave and what clocks may have drifted. */
static void test_true_offset_is_inside(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 400; seed++) {
		struct world w = make_world(seed);
		struct gs_fleet_clock clock = {0};
		double widths = 0;
		unsigned n = 0;

		for (int64_t second = 1; second < 600; second++) {
			int64_t at_ns = second * S, low, high, truth;

			if (second % 100 < 80)
				meet(&w, at_ns, &clock);
			at_ns += S / 2;
			if (!gs_fleet_clock_read(&clock, at_ns, &low, &high))
				fail_msg("seed %u, second %lld: not known", seed,
					 (long long)second);
			truth = at_ns - other_of(&w, at_ns);
			if (truth < low || truth > high)
				fail_msg("seed %u, second %lld: %lld is not in %lld to %lld", seed,
					 (long long)second, (long long)truth, (long long)low,
					 (long long)high);
			if (second > 60 && second % 100 < 80) {
				widths += (double)(high - low);
				n++;
			}
		}
		assert_int_equal(clock.n_set, 0);
		/* Who is always the last is what the other's wait hides. */
		assert_true(widths / n < 4e6 + (double)w.late_ns + 0.2 * (double)w.most_work_ns);
	}
}

/* A clock that is set: what was known is forgotten, and the new offset is inside. */
static void test_clock_is_set(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 100; seed++) {
		struct world w = make_world(seed);
		struct gs_fleet_clock clock = {0};
		int64_t low, high;

		w.late_ns = 0;
		for (int64_t second = 1; second < 60; second++)
			meet(&w, second * S, &clock);
		w.offset_ns += seed % 2 ? 3 * S : -3 * S;
		meet(&w, 60 * S, &clock);
		assert_int_equal(clock.n_set, 1);
		for (int64_t second = 61; second < 100; second++) {
			int64_t at_ns = second * S, truth;

			meet(&w, at_ns, &clock);
			truth = at_ns - other_of(&w, at_ns);
			assert_true(gs_fleet_clock_read(&clock, at_ns, &low, &high));
			assert_true(truth >= low && truth <= high);
		}
	}
}

/* Nothing is known before the first, nor after the window; what comes late, or makes no sense, spoils nothing. */
static void test_window(void **state)
{
	const struct gs_fleet_stay stay = {1000 * S, 1000 * S + MS}, wrong = {1000 * S, 999 * S};
	const struct gs_fleet_stay old = {800 * S, 800 * S + MS};
	struct gs_fleet_clock clock = {0};
	int64_t low, high;

	(void)state;
	assert_false(gs_fleet_clock_read(&clock, 1000 * S, &low, &high));
	gs_fleet_clock_take(&clock, &wrong, &stay);
	gs_fleet_clock_take(&clock, &stay, &wrong);
	assert_false(gs_fleet_clock_read(&clock, 1000 * S, &low, &high));
	gs_fleet_clock_take(&clock, &stay, &stay);
	assert_true(gs_fleet_clock_read(&clock, 1000 * S, &low, &high));
	assert_true(low < 0 && high > 0 && high - low < 2 * MS + US);
	assert_true(gs_fleet_clock_read(&clock, 1060 * S, &low, &high));
	/* Two clocks may be 200 us a second further apart, each way. */
	assert_true(high - low >= 2 * MS + 2 * 60 * 200 * US &&
		    high - low < 2 * MS + 2 * 60 * 201 * US);
	gs_fleet_clock_take(&clock, &old, &old);
	assert_true(gs_fleet_clock_read(&clock, 1060 * S, &low, &high));
	assert_int_equal(clock.n_set, 0);
	assert_false(gs_fleet_clock_read(&clock, 1200 * S, &low, &high));
}

/* An estimate is worth less the older it is. */
static void test_age(void **state)
{
	(void)state;
	assert_int_equal(gs_fleet_clock_aged_error(1000, 0), 1001);
	assert_int_equal(gs_fleet_clock_aged_error(1000, S), 1001 + 200 * US);
	assert_int_equal(gs_fleet_clock_aged_error(50 * US, 600 * S), 50 * US + 120 * MS + 1);
	assert_true(gs_fleet_clock_aged_error(0, UINT64_MAX) > 1000000 * (uint64_t)S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_true_offset_is_inside),
		cmocka_unit_test(test_clock_is_set),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
