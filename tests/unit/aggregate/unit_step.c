/* Steps found in calls that nothing marks; and runs that have none, or only seem to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "records.h"
#include "pipeline/aggregate/aggregate.h"

#define MS 1000000ull

enum { LAUNCH = 1, SYNC, REDUCE, STEP, MM };

/* A run in the making. */
struct run {
	struct stream s;
	struct gs_aggregate *v;
	uint64_t now_ns;
};

static void run_begin(struct run *r)
{
	*r = (struct run){.s = STREAM_INIT, .now_ns = 1000 * MS};
	assert_int_equal(gs_aggregate_new(&r->v), 0);
	put_process(&r->s, 1, 100, "train");
	put_thread(&r->s, 1, 1, 100, "train");
	put_function(&r->s, LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(&r->s, SYNC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize");
	put_function(&r->s, REDUCE, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce");
	put_function(&r->s, STEP, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "Optimizer.step#SGD.step");
	put_function(&r->s, MM, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::mm");
}

/* A call of so long, and nothing for as long again. */
static void call_for(struct run *r, uint32_t function, uint64_t what, uint64_t us)
{
	struct gs_rec_call *c = put_call(&r->s, 1, function, r->now_ns, us * 1000);

	if (function == LAUNCH)
		c->arg[0] = what;
	else
		c->bytes = what;
	r->now_ns += 2 * us * 1000;
}

static struct gs_step_summary steps_of(struct run *r)
{
	struct gs_summary *summary = NULL;
	struct gs_step_summary steps;

	assert_int_equal(stream_push(&r->s, gs_aggregate_sink(r->v)), 0);
	assert_int_equal(gs_aggregate_make_summary(r->v, &summary), 0);
	steps = summary->steps;
	if (steps.n_steps) {
		assert_string_equal(steps.comm, "train");
		assert_int_equal(steps.tid, 100);
		steps.anchor = steps.anchor[0] == 'n'   ? "reduce"
			       : steps.anchor[0] == 'O' ? "step"
							: "call";
		steps.longer = !*steps.longer                                       ? "outside"
			       : strcmp(steps.longer, "cudaStreamSynchronize") == 0 ? "sync"
										    : "call";
	}
	gs_summary_free(&summary);
	gs_aggregate_free(&r->v);
	stream_fini(&r->s);
	return steps;
}

/* Ten launches and one wait, 1000 times; the 700th waits long. */
static void launches_and_a_wait(void **state)
{
	struct gs_step_summary t;
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 1000; i++) {
		for (int k = 0; k < 10; k++)
			call_for(&r, LAUNCH, 7, 10);
		call_for(&r, SYNC, 0, i == 700 ? 9000 : 100);
	}
	t = steps_of(&r);
	assert_int_equal(t.n_steps, 1000);
	assert_int_equal(t.n_odd, 0);
	assert_true(t.median_ns > 370000 && t.median_ns < 430000);
	assert_int_equal(t.max_ns, 18200000);
	assert_string_equal(t.longer, "sync");
	assert_int_equal(t.longer_ns, 9 * MS);
	assert_true(t.longer_mean_ns >= 100000 && t.longer_mean_ns < 120000);
}

/* Few steps, and what was longer is no call. */
static void a_short_run(void **state)
{
	struct gs_step_summary t;
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 12; i++) {
		call_for(&r, LAUNCH, 7, 10);
		call_for(&r, LAUNCH, 8, 10);
		call_for(&r, SYNC, 0, 10);
		r.now_ns += i == 5 ? 30 * MS : MS;
	}
	t = steps_of(&r);
	assert_int_equal(t.n_steps, 12);
	assert_string_equal(t.longer, "outside");
	assert_true(t.longer_ns > 30 * MS && t.longer_ns < 31 * MS);
}

/* Forty layers alike in each step: a layer is no step. Start-up has a rhythm of its own. */
static void layers_are_no_steps(void **state)
{
	struct gs_step_summary t;
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 400; i++) {
		call_for(&r, LAUNCH, 100, 1);
		call_for(&r, LAUNCH, 101, 1);
	}
	for (int i = 0; i < 60; i++) {
		for (int layer = 0; layer < 40; layer++)
			for (uint64_t k = 0; k < 6; k++)
				call_for(&r, LAUNCH, 10 + k, 10);
		for (uint64_t k = 0; k < 5; k++)
			call_for(&r, LAUNCH, 50 + k, 10);
		call_for(&r, REDUCE, 4096, 100);
	}
	t = steps_of(&r);
	assert_int_equal(t.n_steps, 60);
}

/* What comes before the first step is preparation where the program marks its steps: a model is compiled. Where
 * nothing is marked it may be what the program is for. */
static void a_long_preparation(void **state)
{
	struct gs_step_summary t;
	struct run r;

	for (int marked = 0; marked < 2; marked++) {
		run_begin(&r);
		call_for(&r, MM, 0, 500000);
		for (int i = 0; i < 20; i++) {
			call_for(&r, marked ? STEP : SYNC, 0, 100);
			for (int k = 0; k < 10; k++)
				call_for(&r, MM, 0, 10);
		}
		t = steps_of(&r);
		assert_int_equal(t.n_steps, marked ? 20 : 0);
	}
}

/* Every tenth step is logged: the step stays the step. Where the program marks it, that decides. */
static void logging_and_marks(void **state)
{
	struct gs_step_summary t;
	struct run r;

	for (int marked = 0; marked < 2; marked++) {
		run_begin(&r);
		for (int i = 0; i < 500; i++) {
			for (uint64_t k = 0; k < 8; k++)
				call_for(&r, LAUNCH, 10 + k, 10);
			if (marked && i % 2)
				call_for(&r, STEP, 0, 10);
			if (i % 10 == 9)
				call_for(&r, SYNC, 0, 10);
		}
		t = steps_of(&r);
		assert_int_equal(t.n_steps, marked ? 250 : 500);
		assert_string_equal(t.anchor, marked ? "step" : "call");
	}
}

/* Steps of so many calls that they are found only when there is no room for more, and go on. */
static void steps_of_many_calls(void **state)
{
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 20; i++)
		for (uint64_t k = 0; k < 2500; k++)
			call_for(&r, LAUNCH, 10 + k, 1);
	assert_int_equal(steps_of(&r).n_steps, 20);
}

/* What each step does twice, at even distances, is no step. */
static void what_comes_twice(void **state)
{
	struct gs_step_summary t;
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 300; i++) {
		for (uint64_t k = 0; k < 6; k++) {
			call_for(&r, MM, 5, 10);
			call_for(&r, LAUNCH, 10 + k / 3, 10);
			if (k % 3 == 0)
				call_for(&r, SYNC, 64, 10);
		}
	}
	t = steps_of(&r);
	assert_true(t.n_steps == 300 || t.n_steps == 0);
}

/* Numbers of calls without an order, calls that are all alike, and a start-up without what follows. */
static void no_steps(void **state)
{
	struct run r;

	srandom(7);
	run_begin(&r);
	for (int i = 0; i < 3000; i++) {
		for (long k = random() % 20; k >= 0; k--)
			call_for(&r, LAUNCH, (uint64_t)(random() % 5), 10);
		call_for(&r, SYNC, 0, 10);
	}
	assert_int_equal(steps_of(&r).n_steps, 0);
	run_begin(&r);
	for (int i = 0; i < 20000; i++)
		call_for(&r, LAUNCH, 7, 10);
	assert_int_equal(steps_of(&r).n_steps, 0);
	run_begin(&r);
	for (int i = 0; i < 4000; i++)
		call_for(&r, LAUNCH, (uint64_t)(i % 4), 1);
	for (int i = 0; i < 20000; i++)
		call_for(&r, MM, (uint64_t)random(), 10);
	assert_int_equal(steps_of(&r).n_steps, 0);
	run_begin(&r);
	assert_int_equal(steps_of(&r).n_steps, 0);
}

/* Training and, now and then, a long evaluation, whose time is no step's. */
static void other_phases_are_left_out(void **state)
{
	struct gs_step_summary t;
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 600; i++) {
		for (uint64_t k = 0; k < 8; k++)
			call_for(&r, LAUNCH, 10 + k, 10);
		call_for(&r, REDUCE, 4096, 10);
		for (uint64_t k = 0; (i == 250 || i == 480) && k < 40; k++)
			call_for(&r, LAUNCH, 70, 100);
	}
	t = steps_of(&r);
	assert_int_equal(t.n_steps, 600);
	assert_int_equal(t.n_odd, 2);
	assert_true(t.max_ns < MS);
}

/* Each step is reported as it ends; those of an attempt that turned out to be wrong are void. */
struct received {
	uint32_t run[GS_AGGREGATE_STEP_SLOTS], n[GS_AGGREGATE_STEP_SLOTS],
		n_odd[GS_AGGREGATE_STEP_SLOTS];
	uint64_t sum_ns[GS_AGGREGATE_STEP_SLOTS], end_ns[GS_AGGREGATE_STEP_SLOTS];
};

static void receive_step(void *ctx, const struct gs_aggregate_step *step)
{
	struct received *all = ctx;
	unsigned i = step->slot;

	assert_true(i < GS_AGGREGATE_STEP_SLOTS && step->run > 0);
	if (all->run[i] != step->run) {
		all->run[i] = step->run;
		all->n[i] = all->n_odd[i] = 0;
		all->sum_ns[i] = all->end_ns[i] = 0;
	}
	assert_true(step->start_ns >= all->end_ns[i]);
	assert_true(step->process && step->tid && step->pid);
	all->end_ns[i] = step->start_ns + step->dur_ns;
	all->sum_ns[i] += step->dur_ns;
	all->n[i]++;
	all->n_odd[i] += !step->regular;
}

struct process_steps {
	struct gs_aggregate_process_steps it;
	unsigned n;
};

static void receive_process(void *ctx, const struct gs_aggregate_process_steps *steps)
{
	struct process_steps *to = ctx;

	to->it = *steps;
	to->n++;
}

static void steps_one_by_one(void **state)
{
	struct process_steps process = {.n = 0};
	struct received all = {0};
	struct gs_step_summary t;
	uint64_t begin_ns = 0;
	struct run r;

	run_begin(&r);
	gs_aggregate_set_step_receiver(r.v, receive_step, &all);
	/* Start-up that repeats, too. */
	for (int i = 0; i < 600; i++) {
		call_for(&r, LAUNCH, 100, 1);
		call_for(&r, LAUNCH, 101, 1);
	}
	for (int i = 0; i < 1000; i++) {
		if (i == 0)
			begin_ns = r.now_ns;
		for (int k = 0; k < 10; k++)
			call_for(&r, LAUNCH, 7, 10);
		for (uint64_t k = 0; i == 500 && k < 20; k++)
			call_for(&r, LAUNCH, 70, 10);
		call_for(&r, REDUCE, 4096, 100);
	}
	/* While it goes on, what a head gets of the process is what the summary has. */
	assert_int_equal(stream_push(&r.s, gs_aggregate_sink(r.v)), 0);
	gs_aggregate_each_process_steps(r.v, receive_process, &process);
	t = steps_of(&r);
	assert_int_equal(process.n, 1);
	assert_int_equal(process.it.slot, t.slot);
	assert_int_equal(process.it.run, t.run);
	assert_int_equal(process.it.pid, t.pid);
	assert_int_equal(process.it.tid, t.tid);
	assert_int_equal(process.it.n_steps, t.n_steps);
	assert_int_equal(process.it.n_odd, t.n_odd);
	assert_int_equal(process.it.median_ns, t.median_ns);
	assert_int_equal(process.it.p95_ns, t.p95_ns);
	assert_int_equal(process.it.max_ns, t.max_ns);
	assert_int_equal(t.n_steps, 1000);
	assert_int_equal(all.run[t.slot], t.run);
	/* The last one has no end, as nothing begins after it. */
	assert_int_equal(all.n[t.slot], 999);
	assert_int_equal(all.n_odd[t.slot], t.n_odd);
	assert_true(all.sum_ns[t.slot] > (r.now_ns - begin_ns) / 100 * 99);
	assert_true(all.sum_ns[t.slot] <= r.now_ns - begin_ns);
}

/* A chain of three products with a fill before each, that is waited for by none of the calls. */
static void bursts_are_no_steps(void **state)
{
	struct run r;

	run_begin(&r);
	for (int i = 0; i < 900; i++) {
		call_for(&r, REDUCE, 4096, 5);
		call_for(&r, LAUNCH, 7, 5);
		r.now_ns += i % 3 == 2 ? 4 * MS : 0;
	}
	assert_int_equal(steps_of(&r).n_steps, 0);
	/* A step that is long now and then is one. */
	run_begin(&r);
	for (int i = 0; i < 900; i++) {
		call_for(&r, REDUCE, 4096, 5);
		call_for(&r, LAUNCH, 7, 5);
		r.now_ns += MS + (i % 50 == 49 ? 20 * MS : 0);
	}
	assert_int_equal(steps_of(&r).n_steps, 900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launches_and_a_wait),       cmocka_unit_test(a_short_run),
		cmocka_unit_test(layers_are_no_steps),       cmocka_unit_test(a_long_preparation),
		cmocka_unit_test(logging_and_marks),         cmocka_unit_test(steps_of_many_calls),
		cmocka_unit_test(what_comes_twice),          cmocka_unit_test(no_steps),
		cmocka_unit_test(other_phases_are_left_out), cmocka_unit_test(steps_one_by_one),
		cmocka_unit_test(bursts_are_no_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
