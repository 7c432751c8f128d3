/* What sources/overhead/overhead.h decides, with a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/overhead/overhead.h"

#define MS 1000000ull

/* An event 1,000 ns, added up 900, sampled 400, counted 390. */
static const struct gs_costs costs = {.ns = {[GS_COST_CALL] = {1000, 900, 400, 390}}};

struct steps {
	char text[512];
	unsigned n;
};

static void note(void *ctx, const struct gs_overhead_step *s)
{
	struct steps *steps = ctx;
	size_t n = strlen(steps->text);

	steps->n++;
	snprintf(steps->text + n, sizeof(steps->text) - n, "%u>%d(%.0f/s %.2f%%) ", s->func,
		 (int)s->mode, s->hits_per_s, 100 * s->ratio);
}

#define BUDGET GS_CLEANUP(gs_overhead_free) struct gs_overhead

static void place(struct gs_overhead *b, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++)
		gs_overhead_place(b, i, &(struct gs_hit){.kind = GS_COST_CALL});
}

/* All threads are of one process. */
static void hits(struct gs_overhead *b, uint32_t tid, unsigned func, uint64_t traced,
		 uint64_t counted)
{
	gs_overhead_add_hits(
		b,
		&(struct gs_overhead_hits){
			.pid = 9, .tid = tid, .func = func, .traced = traced, .counted = counted});
}

static void cpu(struct gs_overhead *b, uint32_t tid, uint64_t ms)
{
	gs_overhead_add_cpu(b, 9, tid, ms * MS);
}

static double tick(struct gs_overhead *b, uint64_t now_ms, struct steps *steps)
{
	double ratio;

	steps->text[0] = '\0';
	steps->n = 0;
	gs_overhead_tick(b, 1000 * MS + now_ms * MS, &ratio, note, steps);
	return ratio;
}

static void near(double got, double want)
{
	if (got < want - 1e-9 || got > want + 1e-9)
		fail_msg("%.9f, not %.9f", got, want);
}

/* A share is of time on processors; the largest counts in an interval, all of them in the run. */
static void share_of_processor_time(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0);
	struct steps steps;

	assert_non_null(b);
	near(tick(b, 0, &steps), 0);
	hits(b, 1, 7, 10000, 0); /* 10 ms */
	hits(b, 1, 8, 0, 10000); /* 3.9 ms */
	hits(b, 2, 7, 12000, 0);
	cpu(b, 1, 500);
	cpu(b, 2, 100);
	near(tick(b, 500, &steps), 0.12); /* of thread 2 */
	cpu(b, 1, 400);
	near(tick(b, 1000, &steps), 0);
	assert_int_equal(steps.n, 0); /* no limit, no step */
	near(gs_overhead_mean_ratio(b), 0.0259);
	assert_int_equal(gs_overhead_func_hits(b, 7), 22000);
	near(gs_overhead_func_cost_ns(b, 7), 22e6);
	near(gs_overhead_func_cost_ns(b, 8), 3.9e6);
	near(gs_overhead_func_cost_in(b, 7, GS_MODE_COUNT), 22000 * 390);
	assert_int_equal(gs_overhead_func_hits(b, 9), 0);
}

/* Costs are measured, and so never quite right; nothing costs more than all. */
static void never_more_than_all(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0);
	struct steps steps;

	near(gs_overhead_mean_ratio(b), -1);
	tick(b, 0, &steps);
	hits(b, 1, 7, 700000, 0);
	cpu(b, 1, 39); /* as much as the kernel's sums may lag behind */
	near(gs_overhead_mean_ratio(b), -1);
	cpu(b, 1, 461);
	near(tick(b, 500, &steps), 1);
	near(gs_overhead_mean_ratio(b), 1);
}

/* Threads that wait for a processor: each had 5 ms of 500, and spent 4 of them in probes. */
static void more_threads_than_processors(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.05);
	struct steps steps;

	place(b, 7, 7);
	tick(b, 0, &steps);
	for (uint32_t tid = 1; tid <= 200; tid++) {
		hits(b, tid, 7, 4000, 0);
		cpu(b, tid, 5);
	}
	near(tick(b, 500, &steps), 0.8); /* of the process */
	assert_string_equal(steps.text, "7>4(1600000/s 80.00%) ");
}

/* Another thread of the process that only computes does not hide one that calls. */
static void busy_neighbour(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.05);
	struct steps steps;

	place(b, 7, 7);
	tick(b, 0, &steps);
	hits(b, 1, 7, 60000, 0);
	cpu(b, 1, 100);
	for (uint32_t tid = 2; tid <= 60; tid++)
		cpu(b, tid, 100);
	near(tick(b, 100, &steps), 0.6);
	assert_string_equal(steps.text, "7>4(600000/s 60.00%) ");
}

/* What sleeps is not slowed down: 2 ms of probes in 3 ms of work in half a second. */
static void idle_program(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.05);
	struct steps steps;

	tick(b, 0, &steps);
	for (unsigned i = 1; i <= 100; i++) {
		hits(b, 1, 7, 2000, 0);
		cpu(b, 1, 3);
		near(tick(b, 500 * i, &steps), 0.04);
		assert_int_equal(steps.n, 0);
	}
}

static void below_the_limit(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	for (unsigned i = 1; i <= 100; i++) {
		hits(b, 1, 7, 10000, 0); /* 2 % of 500 ms, and no more */
		cpu(b, 1, 500);
		tick(b, 500 * i, &steps);
		assert_int_equal(steps.n, 0);
	}
	assert_int_equal(gs_overhead_mode(b, 7), GS_MODE_EVENTS);
}

/* A second's part may be spent at once; what is more is answered in that very interval, of 50 ms.
 */
static void burst(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.05);
	struct steps steps;

	place(b, 7, 7);
	tick(b, 0, &steps);
	hits(b, 1, 7, 45000, 0); /* 45 of 50 ms */
	cpu(b, 1, 50);
	near(tick(b, 50, &steps), 0.9);
	assert_int_equal(steps.n, 0); /* 7.5 ms are left */
	hits(b, 1, 7, 45000, 0);
	cpu(b, 1, 50);
	tick(b, 100, &steps);
	assert_string_equal(steps.text, "7>4(900000/s 90.00%) ");
}

/* After a step what is left is judged by more than one short interval: here 0.5 ms too much of 10
 * that may be spent again; going on, it is answered too. */
static void one_interval_after_a_step(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.05);
	struct steps steps;
	unsigned i = 0;

	place(b, 7, 8);
	tick(b, 0, &steps);
	hits(b, 1, 7, 90000, 0);
	cpu(b, 1, 100);
	tick(b, 100, &steps);
	assert_string_equal(steps.text, "7>4(900000/s 90.00%) ");
	do {
		hits(b, 1, 8, 3000, 0); /* 6 % */
		cpu(b, 1, 50);
		near(tick(b, 100 + 50 * ++i, &steps), 0.06);
	} while (!steps.n && i < 100);
	assert_int_equal(i, 21);
	assert_string_equal(steps.text, "8>2(60000/s 6.00%) ");
}

/* Slightly too much is answered too, when it goes on. */
static void slow_excess(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;
	unsigned i = 0;

	tick(b, 0, &steps);
	do {
		hits(b, 1, 7, 11000, 0); /* 2.2 %: 1 ms too much of 20 that may be spent at once */
		cpu(b, 1, 500);
		tick(b, 500 * ++i, &steps);
	} while (!steps.n && i < 100);
	assert_int_equal(i, 21);
	assert_string_equal(steps.text, "7>1(22000/s 2.20%) ");
}

static void spend_all(struct gs_overhead *b, struct steps *steps)
{
	gs_overhead_pin(b, 99);
	tick(b, 0, steps);
	hits(b, 1, 99, 100000, 0);
	cpu(b, 1, 1);
	tick(b, 1, steps);
	assert_int_equal(steps->n, 0);
}

/* Only as far as needed: what costs most first, the others stay. */
static void one_step(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	spend_all(b, &steps);
	hits(b, 1, 7, 10400, 0);
	hits(b, 1, 8, 100, 0);
	cpu(b, 1, 500);
	near(tick(b, 501, &steps), 0.021);
	assert_string_equal(steps.text, "7>1(20800/s 2.08%) ");
	/* Added up, the same is below: nothing more. */
	hits(b, 1, 7, 10400, 0);
	hits(b, 1, 8, 100, 0);
	cpu(b, 1, 500);
	near(tick(b, 1001, &steps), 0.01892);
	assert_int_equal(steps.n, 0);
	/* Twice as much: sampled. */
	hits(b, 1, 7, 20800, 0);
	hits(b, 1, 8, 100, 0);
	cpu(b, 1, 500);
	tick(b, 1501, &steps);
	assert_string_equal(steps.text, "7>2(41600/s 3.74%) ");
	/* Sampled: 1 in 64 traced. */
	hits(b, 1, 7, 325, 20475);
	hits(b, 1, 8, 100, 0);
	cpu(b, 1, 500);
	near(tick(b, 2001, &steps), (325 * 900 + 20475 * 390 + 100 * 1000) / 500e6);
	assert_int_equal(steps.n, 0);
	/* Quiet for long: nothing goes up again. */
	for (unsigned i = 0; i < 100; i++)
		tick(b, 2501 + 500 * i, &steps);
	assert_int_equal(gs_overhead_mode(b, 7), GS_MODE_SAMPLE);
	assert_int_equal(gs_overhead_mode(b, 8), GS_MODE_EVENTS);
}

/* Far too much: all the way at once, the lesser one too. */
static void all_the_way(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	place(b, 7, 9);
	spend_all(b, &steps);
	hits(b, 1, 7, 400000, 0);
	hits(b, 1, 8, 30000, 0);
	hits(b, 1, 9, 100, 0);
	cpu(b, 1, 500);
	tick(b, 501, &steps);
	assert_string_equal(steps.text, "7>4(800000/s 80.00%) 8>4(60000/s 6.00%) ");
	/* Until the probes are off, hits go on being counted: they cost, and are no reason for
	 * steps. */
	hits(b, 1, 7, 0, 400000);
	hits(b, 1, 9, 100, 0);
	cpu(b, 1, 500);
	near(tick(b, 1001, &steps), (400000 * 390 + 100 * 1000) / 500e6);
	assert_int_equal(steps.n, 0);
	hits(b, 1, 9, 100, 0);
	cpu(b, 1, 500);
	near(tick(b, 1501, &steps), 0.0002);
	assert_int_equal(steps.n, 0);
	assert_int_equal(gs_overhead_mode(b, 9), GS_MODE_EVENTS);
}

/* Counting is enough: it stays. */
static void counting_is_enough(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.35);
	struct steps steps;

	spend_all(b, &steps);
	for (unsigned i = 0; i < 3 && !gs_overhead_mode(b, 7); i++) {
		hits(b, 1, 7, 440000, 0);
		cpu(b, 1, 500);
		tick(b, 501 + 500 * i, &steps);
	}
	assert_string_equal(steps.text, "7>3(880000/s 88.00%) ");
	hits(b, 1, 7, 0, 440000);
	cpu(b, 1, 500);
	near(tick(b, 2501, &steps), 0.3432);
	assert_int_equal(steps.n, 0);
}

/* Of several names that share probes none can be taken off. */
static void shared_probes(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	spend_all(b, &steps);
	hits(b, 1, 7, 400000, 0);
	cpu(b, 1, 500);
	tick(b, 501, &steps);
	assert_string_equal(steps.text, "7>3(800000/s 80.00%) ");
	hits(b, 1, 7, 0, 400000);
	cpu(b, 1, 500);
	tick(b, 1001, &steps);
	assert_int_equal(steps.n, 0);
}

static double cost_of(unsigned func, const struct gs_costs *p, const struct gs_hit *hit,
		      struct gs_overhead_hits h, enum gs_mode mode)
{
	BUDGET *b = gs_overhead_new(p, 0);

	h.func = func;
	gs_overhead_place(b, func, hit);
	gs_overhead_add_hits(b, &h);
	return gs_overhead_func_cost_in(b, func, mode);
}

/* Each function has the cost of its probes, and single steps are counted as they are taken: a file
 * that has the function and is not run makes nothing expensive. */
static void costs_of_places(void **state)
{
	const struct gs_costs p = {.ns = {[GS_COST_CALL] = {1000, 900, 400, 390},
					  [GS_COST_PLACE] = {500, 450, 300, 290},
					  [GS_COST_SCOPE] = {1200, 1100, 700, 690},
					  [GS_COST_USER] = {2000, 1900, 600, 590},
					  [GS_COST_PYTHON] = {1500, 1400, 900, 800}},
				   .step_ns = 10000,
				   .value_ns = 50,
				   .text_ns = 70};
	const struct gs_hit call = {.kind = GS_COST_CALL}, scope = {.kind = GS_COST_SCOPE},
			    user = {.kind = GS_COST_USER, .n_values = 3, .n_texts = 2},
			    python = {.kind = GS_COST_PYTHON};
	const struct gs_overhead_hits one = {.pid = 9, .tid = 1, .traced = 1},
				      stepped = {.pid = 9,
						 .tid = 1,
						 .traced = 1,
						 .stepped = 1,
						 .stepped_exits = 1},
				      exits = {.pid = 9, .tid = 1, .traced = 1, .stepped_exits = 1};
	BUDGET *b = gs_overhead_new(&p, 0);
	struct steps steps;

	near(cost_of(7, &p, &call, one, GS_MODE_EVENTS), 1000);
	near(cost_of(7, &p, &call, stepped, GS_MODE_EVENTS), 21000);
	near(cost_of(7, &p, &call, exits, GS_MODE_EVENTS), 11000);
	near(cost_of(7, &p, &call, exits, GS_MODE_SAMPLE), 10400);
	near(cost_of(7, &p, &call, exits, GS_MODE_COUNT), 390); /* its ret has no probe then */
	near(cost_of(7, &p, &scope, one, GS_MODE_EVENTS), 1200);
	near(cost_of(7, &p, &scope, stepped, GS_MODE_SAMPLE), 20700);
	near(cost_of(7, &p, &scope, stepped, GS_MODE_COUNT), 10690); /* one of them is off then */
	near(cost_of(7, &p, &scope, stepped, GS_MODE_OFF), 0);
	near(cost_of(8, &p, &user, one, GS_MODE_EVENTS), 2000 + 150 + 140);
	near(cost_of(8, &p, &user, one, GS_MODE_COUNT), 590); /* nothing is read */
	near(cost_of(9, &p, &python, stepped, GS_MODE_AGGREGATE), 21400);
	near(cost_of(9, &p, &python, stepped, GS_MODE_COUNT), 10800);
	gs_overhead_place(b, GS_FUNC_MAX, &user);
	near(gs_overhead_func_cost_in(b, GS_FUNC_MAX, GS_MODE_EVENTS), 0);
	gs_overhead_place(b, 7, &scope);
	tick(b, 0, &steps);
	hits(b, 1, 7, 10, 5);
	gs_overhead_add_hits(
		b, &(struct gs_overhead_hits){
			   .pid = 9, .tid = 1, .func = 7, .stepped = 10, .stepped_exits = 5});
	cpu(b, 1, 500);
	near(tick(b, 500, &steps), (10 * 1200 + 5 * 690 + 15 * 10000) / 500e6);
	assert_int_equal(gs_overhead_func_steps(b, 7), 15);
	assert_int_equal(gs_overhead_func_hits(b, 7), 15);
}

/* Probes on the ret of a function that is only counted are taken off: until they are, what they
 * cost shows, and is no reason to take off those at its entry. */
static void steps_where_left(void **state)
{
	const struct gs_costs p = {.ns = {[GS_COST_CALL] = {1000, 900, 400, 390}},
				   .step_ns = 10000};
	BUDGET *b = gs_overhead_new(&p, 0.05);
	struct steps steps;

	place(b, 7, 7);
	tick(b, 0, &steps);
	hits(b, 1, 7, 6000, 0);
	gs_overhead_add_hits(b, &(struct gs_overhead_hits){
					.pid = 9, .tid = 1, .func = 7, .stepped_exits = 6000});
	cpu(b, 1, 100);
	near(tick(b, 100, &steps), 0.66);
	assert_string_equal(steps.text, "7>3(60000/s 66.00%) ");
	hits(b, 1, 7, 0, 6000);
	gs_overhead_add_hits(b, &(struct gs_overhead_hits){
					.pid = 9, .tid = 1, .func = 7, .stepped_exits = 6000});
	cpu(b, 1, 100);
	near(tick(b, 200, &steps), 0.6234);
	assert_int_equal(steps.n, 0);
	near(gs_overhead_func_cost_ns(b, 7), 66e6 + 62.34e6);
}

/* What the safety of the traced program needs is only counted at last, and not taken off; what was
 * not chosen costs as much as counting, has no steps of its own, and others pay for it. */
static void kept_and_watched(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	gs_overhead_place(b, 7, &(struct gs_hit){.kind = GS_COST_CALL, .is_kept = true});
	gs_overhead_place(
		b, 8, &(struct gs_hit){.kind = GS_COST_CALL, .is_kept = true, .is_watched = true});
	place(b, 9, 9);
	assert_false(gs_overhead_is_watched(b, 7));
	assert_true(gs_overhead_is_watched(b, 8));
	assert_false(gs_overhead_is_watched(b, GS_FUNC_MAX));
	tick(b, 0, &steps);
	hits(b, 1, 7, 100000, 0);
	hits(b, 1, 8, 0, 200000);
	hits(b, 1, 9, 1000, 0);
	cpu(b, 1, 500);
	near(tick(b, 500, &steps), (100000 * 1000 + 200000 * 390 + 1000 * 1000) / 500e6);
	assert_string_equal(steps.text, "7>3(200000/s 20.00%) 9>4(2000/s 0.20%) ");
	for (unsigned mode = GS_MODE_EVENTS; mode < GS_MODE_OFF; mode++)
		near(gs_overhead_func_cost_in(b, 8, mode), 200000 * 390);
	assert_int_equal(gs_overhead_mode(b, 8), GS_MODE_EVENTS);
	hits(b, 1, 7, 0, 100000);
	hits(b, 1, 8, 0, 200000);
	cpu(b, 1, 500);
	tick(b, 1000, &steps);
	assert_int_equal(steps.n, 0);
}

/* What must be understood is not touched, whatever it costs. */
static void pinned(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	gs_overhead_pin(b, 7);
	gs_overhead_pin(b, GS_FUNC_MAX + 7);
	place(b, 7, 8);
	tick(b, 0, &steps);
	hits(b, 1, 7, 400000, 0);
	hits(b, 1, 8, 1, 0);
	cpu(b, 1, 500);
	tick(b, 500, &steps);
	assert_string_equal(steps.text, "8>4(2/s 0.00%) ");
	assert_int_equal(gs_overhead_mode(b, 7), GS_MODE_EVENTS);
}

/* Threads with a processor each are judged one by one: ten at 1 % each are no thread at 10 %. */
static void many_threads(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;

	tick(b, 0, &steps);
	for (uint32_t tid = 1; tid <= 10; tid++) {
		hits(b, tid, 7, 5000, 0);
		cpu(b, tid, 500);
	}
	near(tick(b, 500, &steps), 0.01);
	assert_int_equal(steps.n, 0);
	/* More than are kept apart: the rest counts in the process and in all. */
	for (uint32_t tid = 1; tid <= GS_OVERHEAD_MAX_UNITS + 100; tid++) {
		hits(b, tid, 7, 100, 0);
		cpu(b, tid, 1);
	}
	near(tick(b, 1000, &steps), 0.1);
	/* Those are forgotten, and there is room for others. */
	for (unsigned i = 0; i < 100; i++)
		tick(b, 1500 + 500 * i, &steps);
	hits(b, GS_OVERHEAD_MAX_UNITS + 500, 7, 25000, 0);
	cpu(b, GS_OVERHEAD_MAX_UNITS + 500, 100);
	cpu(b, 1, 400);
	near(tick(b, 51500, &steps), 0.225); /* added up by now */
}

/* The end comes a moment after an interval's: that moment decides nothing. */
static void short_intervals(void **state)
{
	BUDGET *b = gs_overhead_new(&costs, 0.02);
	struct steps steps;
	double ratio;

	tick(b, 0, &steps);
	tick(b, 500, &steps);
	hits(b, 1, 7, 100000, 0);
	cpu(b, 1, 1);
	near(tick(b, 501, &steps), 1.0);
	assert_int_equal(steps.n, 0);
	hits(b, 1, 7, 100000, 0);
	cpu(b, 1, 500);
	gs_overhead_tick(b, 2000 * MS, &ratio, NULL, NULL); /* no one to make steps */
	assert_int_equal(gs_overhead_mode(b, 7), GS_MODE_EVENTS);
	hits(b, 1, GS_FUNC_MAX, 1, 1);
	assert_int_equal(gs_overhead_func_hits(b, GS_FUNC_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_of_processor_time),
		cmocka_unit_test(never_more_than_all),
		cmocka_unit_test(more_threads_than_processors),
		cmocka_unit_test(busy_neighbour),
		cmocka_unit_test(idle_program),
		cmocka_unit_test(below_the_limit),
		cmocka_unit_test(burst),
		cmocka_unit_test(one_interval_after_a_step),
		cmocka_unit_test(slow_excess),
		cmocka_unit_test(one_step),
		cmocka_unit_test(all_the_way),
		cmocka_unit_test(counting_is_enough),
		cmocka_unit_test(shared_probes),
		cmocka_unit_test(costs_of_places),
		cmocka_unit_test(steps_where_left),
		cmocka_unit_test(pinned),
		cmocka_unit_test(kept_and_watched),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(short_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
