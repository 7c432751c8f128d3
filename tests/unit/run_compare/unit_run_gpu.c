/*
 * GPU time in comparisons of runs: what counts as busy, idle and a gap, of which steps, and how sure a difference is.
 * A step is 10 ms: a kernel of 4 ms from 1 ms on, one of NCCL beside its last 2 ms and 1 ms longer, a copy of 1 ms from 8 ms on.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../detect/random.h"
#include "analysis/run_compare/run_compare.h"
#include "model/summary/gpu_time.h"

#define START_NS 5000000000ull
#define MS       1000000ull
#define STEP_NS  (10 * MS)
#define N_STEPS  200u

struct plan {
	uint64_t kernel_ns; /* what is longer than 4 ms makes the step longer */
	double noise;       /* of the kernel */
	unsigned every, of; /* a window holds the first `of` steps of `every`; 0: no windows */
	bool no_copy, is_reversed;
	uint32_t device;
	uint64_t n_dropped;
};

static const struct plan usual = {.kernel_ns = 4 * MS, .noise = 0.01, .every = 10, .of = 4};

static struct gs_gpu_work make_work(const struct plan *plan, unsigned what, uint32_t stream,
				    uint64_t start_ns, uint64_t dur_ns)
{
	return (struct gs_gpu_work){.what = what,
				    .device = plan->device,
				    .stream = stream,
				    .start_ns = start_ns,
				    .end_ns = start_ns + dur_ns};
}

/* Of the steps that a window holds; what comes late or early in it is of another step. */
static void take_step(const struct plan *plan, struct gs_run_compare_run *run, uint64_t start_ns,
		      uint64_t kernel_ns)
{
	struct gs_gpu_work sgemm = make_work(plan, GS_WORK_KERNEL, 7, start_ns + MS, kernel_ns);
	struct gs_gpu_work nccl =
		make_work(plan, GS_WORK_KERNEL, 20, sgemm.end_ns - 2 * MS, 3 * MS);
	struct gs_gpu_work copy = make_work(plan, GS_WORK_COPY, 7, nccl.end_ns + 2 * MS, MS);
	struct gs_gpu_work wait = make_work(plan, GS_WORK_SYNC, 7, start_ns, STEP_NS);
	struct gs_gpu_work unknown = {.what = GS_WORK_KERNEL, .device = plan->device};

	if (!plan->no_copy)
		assert_int_equal(gs_run_compare_take_work(run, &copy, ""), 0);
	assert_int_equal(gs_run_compare_take_work(run, &nccl, "ncclDevKernel_AllReduce"), 0);
	assert_int_equal(gs_run_compare_take_work(run, &sgemm, "sgemm"), 0);
	assert_int_equal(gs_run_compare_take_work(run, &wait, ""), 0);
	assert_int_equal(gs_run_compare_take_work(run, &unknown, "sgemm"), 0);
}

static struct gs_run_compare_run *make_run(const char *file, const struct plan *plan, uint64_t seed)
{
	struct gs_gpu_time time = {.dropped = plan->n_dropped};
	struct gs_summary whole = {.complete = 1, .gpu_time = &time}, none = {0};
	struct gs_run_compare_step steps[N_STEPS];
	struct gs_run_compare_window windows[N_STEPS];
	uint64_t kernel_ns[N_STEPS], at_ns = START_NS;
	struct gs_run_compare_run *run = NULL;
	size_t n_windows = 0;

	for (unsigned i = 0; i < N_STEPS; i++) {
		kernel_ns[i] = (uint64_t)((double)plan->kernel_ns *
					  (1 + plan->noise * draw_normal(&seed)));
		steps[i] = (struct gs_run_compare_step){at_ns, STEP_NS + kernel_ns[i] - 4 * MS};
		at_ns += steps[i].dur_ns;
	}
	for (unsigned i = 0; plan->every && i + plan->of < N_STEPS; i += plan->every)
		/* It begins within the step before. */
		windows[n_windows++] = (struct gs_run_compare_window){
			steps[i].start_ns - MS, steps[i + plan->of].start_ns + MS};
	assert_int_equal(gs_run_compare_new_run(file, &run), 0);
	assert_int_equal(gs_run_compare_set_steps(run, steps, N_STEPS, &whole), 0);
	assert_int_equal(gs_run_compare_set_windows(run, windows, n_windows, steps, N_STEPS), 0);
	for (unsigned i = 0; i < gs_run_compare_n_bounds(run); i++)
		assert_int_equal(gs_run_compare_take(run, i, &none, &none), 0);
	for (unsigned k = 0; plan->every && k < N_STEPS; k++) {
		unsigned i = plan->is_reversed ? N_STEPS - 1 - k : k;

		if (i % plan->every < plan->of)
			take_step(plan, run, steps[i].start_ns, kernel_ns[i]);
	}
	assert_int_equal(gs_run_compare_end_work(run), 0);
	return run;
}

struct trial {
	struct gs_run_compare_run *base, *changed;
	struct gs_run_compare_result result;
};

static void try(const struct plan *base, const struct plan *changed, uint64_t seed,
		struct trial *ret)
{
	ret->base = make_run("base.gst", base, seed);
	ret->changed = make_run("new.gst", changed, seed + 1000);
	assert_int_equal(gs_run_compare_make((const void *)&ret->base, 1,
					     (const void *)&ret->changed, 1, &ret->result),
			 0);
}

static void end_trial(struct trial *t)
{
	gs_run_compare_result_fini(&t->result);
	gs_run_compare_free_run(&t->base);
	gs_run_compare_free_run(&t->changed);
}

static const struct gs_run_compare_item *find_item(const struct trial *t,
						   enum gs_run_compare_kind kind, const char *name)
{
	for (size_t i = 0; i < t->result.n_items; i++)
		if (t->result.items[i].kind == kind && strcmp(t->result.items[i].name, name) == 0)
			return &t->result.items[i];
	return NULL;
}

static void expect(const struct trial *t, enum gs_run_compare_kind kind, const char *name,
		   double base_ms, double calls)
{
	const struct gs_run_compare_item *item = find_item(t, kind, name);

	assert_non_null(item);
	if (fabs(item->base_ns - base_ms * 1e6) > 0.02e6)
		fail_msg("%s: %f ns, not %f ms", name, item->base_ns, base_ms);
	if (fabs(item->base_calls - calls) > 1e-9)
		fail_msg("%s: %f times, not %f", name, item->base_calls, calls);
}

static bool has_note(const struct trial *t, const char *part)
{
	for (size_t i = 0; i < t->result.n_notes; i++)
		if (strstr(t->result.notes[i], part))
			return true;
	return false;
}

static void a_step_is_busy_idle_and_by_stream(void **state)
{
	struct plan reversed = usual;
	struct trial t;

	(void)state;
	reversed.is_reversed = true; /* records come in no order */
	for (int i = 0; i < 2; i++) {
		try(i ? &reversed : &usual, &usual, 1, &t);
		expect(&t, GS_RUN_COMPARE_GPU, "GPU 0 busy", 6, 2);
		expect(&t, GS_RUN_COMPARE_GPU, "GPU 0 computing", 4, 1);
		expect(&t, GS_RUN_COMPARE_GPU, "GPU 0 in kernels of NCCL", 3, 1);
		expect(&t, GS_RUN_COMPARE_GPU, "GPU 0 copying and filling", 1, 1);
		expect(&t, GS_RUN_COMPARE_KERNEL, "sgemm", 4, 1);
		expect(&t, GS_RUN_COMPARE_KERNEL, "ncclDevKernel_AllReduce", 3, 1);
		expect(&t, GS_RUN_COMPARE_STREAM, "GPU 0, stream 7", 5, 2);
		expect(&t, GS_RUN_COMPARE_STREAM, "GPU 0, stream 20", 3, 1);
		/* Of four steps the last one's second gap ends with the window: it is none between work. */
		expect(&t, GS_RUN_COMPARE_GPU, "GPU 0 idle", 4, 1.75);
		assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SAME);
		assert_true(gs_run_compare_has_row(
			&t.result, find_item(&t, GS_RUN_COMPARE_GPU, "GPU 0 busy")));
		end_trial(&t);
	}
}

static void a_slower_kernel_is_named(void **state)
{
	struct plan slow = usual;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];
	const struct gs_run_compare_item *item;
	struct trial t;

	(void)state;
	slow.kernel_ns = 5 * MS;
	try(&usual, &slow, 1, &t);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SLOWER);
	item = find_item(&t, GS_RUN_COMPARE_KERNEL, "sgemm");
	assert_ptr_equal(t.result.cause[GS_RUN_COMPARE_KERNEL], item);
	assert_true(fabs(item->ns.mean - 1e6) <= item->ns.plus_minus);
	assert_true(item->ns.plus_minus > 0 && item->ns.plus_minus < 0.1e6);
	assert_true(item->share > 0.9 && item->share < 1.1);
	assert_non_null(strstr(
		gs_run_compare_headline(&t.result, text),
		"not known: no place makes half of the difference; on the GPU in sgemm +1.0"));
	end_trial(&t);
	/* What the GPU does is the same, and there is less time between: the GPU cannot be why. */
	slow = usual;
	slow.no_copy = true;
	try(&usual, &slow, 1, &t);
	item = find_item(&t, GS_RUN_COMPARE_GPU, "GPU 0 idle");
	assert_true(fabs(item->ns.mean - 1e6) < 1e3);
	assert_null(t.result.cause[GS_RUN_COMPARE_GPU]);
	end_trial(&t);
}

/* How often the interval of equal kernels does not hold 0. */
static void intervals_are_wide_enough(void **state)
{
	struct plan noisy = usual;
	unsigned misses = 0;

	(void)state;
	noisy.noise = 0.05;
	for (uint64_t i = 0; i < 200; i++) {
		const struct gs_run_compare_item *item;
		struct trial t;

		try(&noisy, &noisy, 10 + i, &t);
		item = find_item(&t, GS_RUN_COMPARE_KERNEL, "sgemm");
		misses += fabs(item->ns.mean) > item->ns.plus_minus;
		end_trial(&t);
	}
	assert_true(misses <= 10); /* 5 % of 200 */
}

static void what_is_not_known_is_not_compared(void **state)
{
	struct plan none = usual, few = usual, short_windows = usual, torn = usual, other = usual;
	struct trial t;

	(void)state;
	none.every = 0;
	try(&usual, &none, 1, &t);
	assert_null(find_item(&t, GS_RUN_COMPARE_KERNEL, "sgemm"));
	assert_true(has_note(&t, "not both sides have GPU time"));
	end_trial(&t);
	try(&none, &none, 1, &t);
	assert_false(has_note(&t, "GPU time"));
	end_trial(&t);
	few.every = 100;
	try(&usual, &few, 1, &t);
	assert_null(find_item(&t, GS_RUN_COMPARE_KERNEL, "sgemm"));
	assert_true(has_note(&t, "8 steps of new.gst lie within windows of GPU time: too few"));
	end_trial(&t);
	short_windows.of = 0; /* 2 ms each */
	try(&usual, &short_windows, 1, &t);
	assert_true(has_note(&t, "0 steps of new.gst"));
	end_trial(&t);
	torn.n_dropped = 12;
	try(&usual, &torn, 1, &t);
	assert_true(has_note(&t, "new.gst lacks GPU work of 12 records"));
	end_trial(&t);
	/* Of a GPU that the other run does not use it is not known how long that was idle. */
	other.device = 3;
	try(&usual, &other, 1, &t);
	assert_null(find_item(&t, GS_RUN_COMPARE_GPU, "GPU 3 idle"));
	assert_true(fabs(find_item(&t, GS_RUN_COMPARE_GPU, "GPU 0 busy")->changed_ns) < 1e-9);
	assert_true(find_item(&t, GS_RUN_COMPARE_GPU, "GPU 3 busy")->changed_ns > 5e6);
	end_trial(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_busy_idle_and_by_stream),
		cmocka_unit_test(a_slower_kernel_is_named),
		cmocka_unit_test(intervals_are_wide_enough),
		cmocka_unit_test(what_is_not_known_is_not_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
