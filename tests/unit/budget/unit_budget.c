/* What budget/budget.h decides, with a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "budget/budget.h"

#define MS 1000000ull

/* An event 1,000 ns, added up 900, sampled 400, counted 390. */
static const struct gs_prices prices = {.ns = {[GS_PRICE_CALL] = {1000, 900, 400, 390}}};

struct steps {
	char text[512];
	unsigned n;
};

static void note(void *ctx, const struct gs_budget_step *s)
{
	struct steps *steps = ctx;
	size_t n = strlen(steps->text);

	steps->n++;
	snprintf(steps->text + n, sizeof(steps->text) - n, "%u>%d(%.0f/s %.2f%%) ", s->func,
		 (int)s->mode, s->hits_per_s, 100 * s->ratio);
}

#define BUDGET GS_CLEANUP(gs_budget_free) struct gs_budget

static void place(struct gs_budget *b, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++)
		gs_budget_place(b, i, &(struct gs_hit){.kind = GS_PRICE_CALL});
}

static double tick(struct gs_budget *b, uint64_t now_ms, struct steps *steps)
{
	double ratio;

	steps->text[0] = '\0';
	steps->n = 0;
	gs_budget_tick(b, 1000 * MS + now_ms * MS, &ratio, note, steps);
	return ratio;
}

static void near(double got, double want)
{
	if (got < want - 1e-9 || got > want + 1e-9)
		fail_msg("%.9f, not %.9f", got, want);
}

static void cost_of_the_busiest(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0);
	struct steps steps;

	assert_non_null(b);
	near(tick(b, 0, &steps), 0);
	gs_budget_hits(b, 1, 7, 10000, 0); /* 10 ms */
	gs_budget_hits(b, 1, 8, 0, 10000); /* 3.9 ms */
	gs_budget_hits(b, 2, 7, 12000, 0);
	near(tick(b, 500, &steps), 0.0278);
	near(tick(b, 1000, &steps), 0);
	assert_int_equal(steps.n, 0); /* no limit, no step */
	near(gs_budget_worst_ratio(b), 0.0278);
	near(gs_budget_mean_ratio(b), 0.0139);
	assert_int_equal(gs_budget_func_hits(b, 7), 22000);
	near(gs_budget_func_cost_ns(b, 7), 22e6);
	near(gs_budget_func_cost_ns(b, 8), 3.9e6);
	assert_int_equal(gs_budget_func_hits(b, 9), 0);
}

static void below_the_limit(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	for (unsigned i = 1; i <= 100; i++) {
		gs_budget_hits(b, 1, 7, 10000, 0); /* 2 % of 500 ms, and no more */
		tick(b, 500 * i, &steps);
		assert_int_equal(steps.n, 0);
	}
	assert_int_equal(gs_budget_mode(b, 7), GS_MODE_EVENTS);
}

/* Only as far as needed: the dearest first, the others stay. */
static void one_step(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 10400, 0);
	gs_budget_hits(b, 1, 8, 100, 0);
	near(tick(b, 500, &steps), 0.021);
	assert_string_equal(steps.text, "7>1(20800/s 2.08%) ");
	/* Added up, the same is below: nothing more. */
	gs_budget_hits(b, 1, 7, 10400, 0);
	gs_budget_hits(b, 1, 8, 100, 0);
	near(tick(b, 1000, &steps), 0.01892);
	assert_int_equal(steps.n, 0);
	/* Twice as much: sampled. */
	gs_budget_hits(b, 1, 7, 20800, 0);
	gs_budget_hits(b, 1, 8, 100, 0);
	tick(b, 1500, &steps);
	assert_string_equal(steps.text, "7>2(41600/s 3.74%) ");
	/* Sampled: 1 in 64 traced. */
	gs_budget_hits(b, 1, 7, 325, 20475);
	gs_budget_hits(b, 1, 8, 100, 0);
	near(tick(b, 2000, &steps), (325 * 900 + 20475 * 390 + 100 * 1000) / 500e6);
	assert_int_equal(steps.n, 0);
	/* Quiet for long: nothing goes up again. */
	for (unsigned i = 0; i < 100; i++)
		tick(b, 2500 + 500 * i, &steps);
	assert_int_equal(gs_budget_mode(b, 7), GS_MODE_SAMPLE);
	assert_int_equal(gs_budget_mode(b, 8), GS_MODE_EVENTS);
}

/* Far too much: all the way at once, the lesser one too. */
static void all_the_way(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	place(b, 7, 9);
	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 400000, 0);
	gs_budget_hits(b, 1, 8, 30000, 0);
	gs_budget_hits(b, 1, 9, 100, 0);
	tick(b, 500, &steps);
	assert_string_equal(steps.text, "7>4(800000/s 80.00%) 8>4(60000/s 6.00%) ");
	/* Until the probes are off, hits go on being counted: they cost, and are no reason for
	 * steps. */
	gs_budget_hits(b, 1, 7, 0, 400000);
	gs_budget_hits(b, 1, 9, 100, 0);
	near(tick(b, 1000, &steps), (400000 * 390 + 100 * 1000) / 500e6);
	assert_int_equal(steps.n, 0);
	gs_budget_hits(b, 1, 9, 100, 0);
	near(tick(b, 1500, &steps), 0.0002);
	assert_int_equal(steps.n, 0);
	assert_int_equal(gs_budget_mode(b, 9), GS_MODE_EVENTS);
}

/* Counting is enough: it stays. */
static void counting_is_enough(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.35);
	struct steps steps;

	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 440000, 0);
	tick(b, 500, &steps);
	assert_string_equal(steps.text, "7>3(880000/s 88.00%) ");
	gs_budget_hits(b, 1, 7, 0, 440000);
	near(tick(b, 1000, &steps), 0.3432);
	assert_int_equal(steps.n, 0);
}

/* Of several names that share probes none can be taken off. */
static void shared_probes(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 400000, 0);
	tick(b, 500, &steps);
	assert_string_equal(steps.text, "7>3(800000/s 80.00%) ");
	gs_budget_hits(b, 1, 7, 0, 400000);
	tick(b, 1000, &steps);
	assert_int_equal(steps.n, 0);
}

/* Each function has the price of its own probes. */
static void prices_of_places(void **state)
{
	const struct gs_prices p = {.ns = {[GS_PRICE_CALL] = {1000, 900, 400, 390},
					   [GS_PRICE_PLACE] = {500, 450, 300, 290},
					   [GS_PRICE_SCOPE] = {1200, 1100, 700, 690},
					   [GS_PRICE_USER] = {2000, 1900, 600, 590},
					   [GS_PRICE_PYTHON] = {1500, 1400, 900, 800}},
				    .step_ns = 10000,
				    .value_ns = 50,
				    .text_ns = 70};
	BUDGET *b = gs_budget_new(&p, 0);
	struct steps steps;

	near(gs_budget_price_ns(b, 7, GS_MODE_EVENTS), 1000);
	assert_false(gs_budget_is_stepped(b, 7));
	gs_budget_place(b, 7, &(struct gs_hit){.kind = GS_PRICE_SCOPE});
	gs_budget_place(b, 7, &(struct gs_hit){.kind = GS_PRICE_SCOPE, .is_exit = true});
	near(gs_budget_price_ns(b, 7, GS_MODE_EVENTS), 1200);
	/* Of several ways out one is taken. */
	for (int i = 0; i < 3; i++)
		gs_budget_place(b, 7,
				&(struct gs_hit){.kind = GS_PRICE_SCOPE,
						 .is_exit = true,
						 .is_stepped = true});
	assert_true(gs_budget_is_stepped(b, 7));
	near(gs_budget_price_ns(b, 7, GS_MODE_SAMPLE), 10700);
	near(gs_budget_price_ns(b, 7, GS_MODE_COUNT), 690); /* that probe is off then */
	gs_budget_place(b, 7, &(struct gs_hit){.kind = GS_PRICE_SCOPE, .is_stepped = true});
	near(gs_budget_price_ns(b, 7, GS_MODE_AGGREGATE), 21100);
	near(gs_budget_price_ns(b, 7, GS_MODE_OFF), 0);
	gs_budget_place(b, 8, &(struct gs_hit){.kind = GS_PRICE_USER, .n_values = 3, .n_texts = 2});
	near(gs_budget_price_ns(b, 8, GS_MODE_EVENTS), 2000 + 150 + 140);
	near(gs_budget_price_ns(b, 8, GS_MODE_COUNT), 590); /* nothing is read */
	/* A Python function that is counted loses its second probe too. */
	gs_budget_place(b, 9, &(struct gs_hit){.kind = GS_PRICE_PYTHON});
	gs_budget_place(
		b, 9,
		&(struct gs_hit){.kind = GS_PRICE_PYTHON, .is_exit = true, .is_stepped = true});
	near(gs_budget_price_ns(b, 9, GS_MODE_AGGREGATE), 11400);
	near(gs_budget_price_ns(b, 9, GS_MODE_COUNT), 800);
	gs_budget_place(b, GS_FUNC_MAX, &(struct gs_hit){.kind = GS_PRICE_USER});
	near(gs_budget_price_ns(b, GS_FUNC_MAX, GS_MODE_EVENTS), 0);
	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 10, 5);
	near(tick(b, 500, &steps), (10 * 21200 + 5 * 10690) / 500e6);
}

/* What must be understood is not touched, whatever it costs. */
static void pinned(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	gs_budget_pin(b, 7);
	gs_budget_pin(b, GS_FUNC_MAX + 7);
	place(b, 7, 8);
	tick(b, 0, &steps);
	gs_budget_hits(b, 1, 7, 400000, 0);
	gs_budget_hits(b, 1, 8, 1, 0);
	tick(b, 500, &steps);
	assert_string_equal(steps.text, "8>4(2/s 0.00%) ");
	assert_int_equal(gs_budget_mode(b, 7), GS_MODE_EVENTS);
}

/* Threads are judged one by one: ten at 1 % each are no thread at 10 %. */
static void many_threads(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	for (uint32_t tid = 1; tid <= 10; tid++)
		gs_budget_hits(b, tid, 7, 5000, 0);
	near(tick(b, 500, &steps), 0.01);
	assert_int_equal(steps.n, 0);
	/* More than are kept apart: the rest is taken for one, so never too low. */
	for (uint32_t tid = 1; tid <= GS_BUDGET_MAX_THREADS + 100; tid++)
		gs_budget_hits(b, tid, 7, 100, 0);
	near(tick(b, 1000, &steps), 0.02);
}

/* The end comes a moment after an interval's: that moment decides nothing. */
static void short_intervals(void **state)
{
	BUDGET *b = gs_budget_new(&prices, 0.02);
	struct steps steps;
	double ratio;

	tick(b, 0, &steps);
	tick(b, 500, &steps);
	gs_budget_hits(b, 1, 7, 1000, 0);
	near(tick(b, 501, &steps), 1.0);
	assert_int_equal(steps.n, 0);
	near(gs_budget_worst_ratio(b), 0);
	gs_budget_hits(b, 1, 7, 100000, 0);
	gs_budget_tick(b, 2000 * MS, &ratio, NULL, NULL); /* nobody to make steps */
	assert_int_equal(gs_budget_mode(b, 7), GS_MODE_EVENTS);
	gs_budget_hits(b, 1, GS_FUNC_MAX, 1, 1);
	assert_int_equal(gs_budget_func_hits(b, GS_FUNC_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_of_the_busiest),
		cmocka_unit_test(below_the_limit),
		cmocka_unit_test(one_step),
		cmocka_unit_test(all_the_way),
		cmocka_unit_test(counting_is_enough),
		cmocka_unit_test(shared_probes),
		cmocka_unit_test(prices_of_places),
		cmocka_unit_test(pinned),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(short_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
