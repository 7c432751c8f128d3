/* Steps found by marks, which the kernel sends where it adds calls up; and runs that have none, or only seem to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "records.h"
#include "model/trace/record_mark.h"
#include "pipeline/aggregate/aggregate.h"

#define US 1000ull
#define MS 1000000ull

enum { LAUNCH = 1, SYNC, COPY, MALLOC, N_FUNCTIONS };

/* A run in the making, and what the kernel side keeps of its thread. */
struct run {
	struct stream s;
	struct gs_aggregate *v;
	uint64_t now_ns, called, covered_ns, cpu_ns;
	uint64_t returned_ns[N_FUNCTIONS], calls[N_FUNCTIONS];
};

static void run_begin(struct run *r)
{
	*r = (struct run){.s = STREAM_INIT, .now_ns = 1000 * MS};
	assert_int_equal(gs_aggregate_new(&r->v), 0);
	put_process(&r->s, 1, 100, "train");
	put_thread(&r->s, 1, 1, 100, "train");
	put_function(&r->s, LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(&r->s, SYNC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize");
	put_function(&r->s, COPY, GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpyAsync");
	put_function(&r->s, MALLOC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMalloc");
}

/* As src/bpf/calls/mark.bpf.h does. */
static void add_call(struct run *r, unsigned function, uint64_t dur_ns, bool runs)
{
	struct gs_rec_mark *m;

	r->now_ns += dur_ns;
	r->cpu_ns += runs ? dur_ns : 0;
	r->covered_ns += dur_ns;
	r->calls[function]++;
	if (function != MALLOC)
		r->called += GS_MARK_ONE_CALL + gs_mark_hash(function);
	if (r->now_ns - r->returned_ns[function] >= GS_MARK_APART_NS) {
		m = put_record(&r->s, GS_REC_MARK, sizeof(*m), 0);
		m->time_ns = r->now_ns;
		m->dur_ns = dur_ns;
		m->called = r->called;
		m->covered_ns = r->covered_ns;
		m->cpu_ns = r->cpu_ns;
		m->calls = r->calls[function];
		m->thread = 1;
		m->function = function;
		r->calls[function] = 0;
	}
	r->returned_ns[function] = r->now_ns;
}

static void launch_many(struct run *r, unsigned n, uint64_t dur_ns)
{
	for (unsigned i = 0; i < n; i++) {
		r->now_ns += US;
		r->cpu_ns += US;
		add_call(r, LAUNCH, dur_ns, true);
	}
}

static void wait_outside(struct run *r, uint64_t ns)
{
	r->now_ns += ns;
}

static struct gs_step_summary steps_of(struct run *r)
{
	static char longer[64];
	struct gs_summary *summary = NULL;
	struct gs_step_summary steps;

	assert_int_equal(stream_push(&r->s, gs_aggregate_sink(r->v)), 0);
	assert_int_equal(gs_aggregate_make_summary(r->v, &summary), 0);
	steps = summary->steps;
	if (steps.n_steps) {
		assert_true(steps.by_marks);
		assert_int_equal(steps.tid, 100);
		strncpy(longer, steps.longer, sizeof(longer) - 1);
		steps.longer = longer;
	}
	gs_summary_free(&summary);
	gs_aggregate_free(&r->v);
	stream_fini(&r->s);
	return steps;
}

/* Forty launches and one wait, 200 times; in the 120th something takes longer, each time another thing. */
static void what_was_longer(void **state)
{
	static const struct {
		uint64_t outside_ns, sync_ns, malloc_ns, launch_ns;
		const char *longer;
		uint64_t least_ns, off_ns;
	} rows[] = {
		{50 * MS, 0, 0, 0, "", 50 * MS, 50 * MS},
		{0, 50 * MS, 0, 0, "cudaStreamSynchronize", 50 * MS, 50 * MS},
		{0, 0, 20 * MS, 0, "cudaMalloc", 80 * MS, 0},
		{0, 0, 0, 800 * US, GS_STEP_SEVERAL, 19 * MS, 0}, /* too dense for marks */
	};

	for (size_t row = 0; row < GS_ARRAY_LEN(rows); row++) {
		struct gs_step_summary t;
		struct run r;

		run_begin(&r);
		for (int i = 0; i < 200; i++) {
			bool slow = i == 120;

			launch_many(&r, 20, 10 * US);
			if (slow && rows[row].launch_ns)
				launch_many(&r, 20, rows[row].launch_ns);
			else
				launch_many(&r, 20, 10 * US);
			for (int k = 0; k < 4 && slow && rows[row].malloc_ns; k++)
				add_call(&r, MALLOC, rows[row].malloc_ns, true);
			if (slow)
				wait_outside(&r, rows[row].outside_ns);
			add_call(&r, SYNC, slow && rows[row].sync_ns ? rows[row].sync_ns : 3 * MS,
				 false);
		}
		t = steps_of(&r);
		assert_int_equal(t.n_steps, 200);
		assert_int_equal(t.n_odd, 0);
		assert_true(t.median_ns > 3200 * US && t.median_ns < 3700 * US);
		assert_string_equal(t.longer, rows[row].longer);
		assert_true(t.longer_ns >= rows[row].least_ns &&
			    t.longer_ns < rows[row].least_ns + 5 * MS);
		assert_true(t.off_ns >= rows[row].off_ns && t.off_mean_ns < 4 * MS);
	}
}

/* Six steps are enough, five say nothing; nor do steps that are shorter than marks are apart. */
static void few_and_short_steps(void **state)
{
	for (unsigned n = 5; n <= 6; n++) {
		struct run r;

		run_begin(&r);
		for (unsigned i = 0; i < n; i++) {
			launch_many(&r, 10, 10 * US);
			add_call(&r, SYNC, 2 * MS, false);
		}
		assert_int_equal(steps_of(&r).n_steps, n == 6 ? 6 : 0);
	}
	for (unsigned us = 300; us <= 3000; us *= 10) {
		struct run r;

		run_begin(&r);
		for (unsigned i = 0; i < 2000; i++) {
			launch_many(&r, 10, 10 * US);
			add_call(&r, SYNC, us * US, false);
		}
		assert_int_equal(steps_of(&r).n_steps, us == 300 ? 0 : 2000);
	}
}

/* A server: as many calls as a request needs. Two loops in turn, for as long as it comes. Layers that are long. */
static void no_steps(void **state)
{
	struct run r;

	srandom(7);
	run_begin(&r);
	for (int i = 0; i < 3000; i++) {
		add_call(&r, COPY, 20 * US, true);
		launch_many(&r, 1 + (unsigned)(random() % 60), 10 * US);
		add_call(&r, SYNC, 2 * MS, false);
		wait_outside(&r, (uint64_t)(random() % 5000) * US);
	}
	assert_int_equal(steps_of(&r).n_steps, 0);
	run_begin(&r);
	for (int i = 0; i < 60; i++) {
		long n = 5 + random() % 50;
		bool second = i % 2;

		for (long k = 0; k < n; k++) {
			launch_many(&r, second ? 12 : 40, 10 * US);
			add_call(&r, SYNC, 2 * MS, false);
		}
	}
	assert_int_equal(steps_of(&r).n_steps, 0);
	run_begin(&r);
	for (int i = 0; i < 60; i++) {
		for (int layer = 0; layer < 40; layer++) {
			launch_many(&r, 9, 10 * US);
			add_call(&r, COPY, 2 * MS, true);
		}
		launch_many(&r, 30, 10 * US);
		add_call(&r, SYNC, 2 * MS, false);
	}
	assert_int_equal(steps_of(&r).n_steps, 60);
}

/* Calls that were sent are no marks, and where there are both, the first kind counts. */
static void calls_and_marks(void **state)
{
	struct gs_summary *summary = NULL;
	struct run r;

	run_begin(&r);
	for (unsigned i = 0; i < 20; i++) {
		launch_many(&r, 10, 10 * US);
		add_call(&r, SYNC, 2 * MS, false);
		put_call(&r.s, 1, SYNC, r.now_ns, 10);
	}
	assert_int_equal(steps_of(&r).n_steps, 20);
	run_begin(&r);
	put_call(&r.s, 1, SYNC, r.now_ns, 10);
	for (unsigned i = 0; i < 20; i++)
		add_call(&r, SYNC, 2 * MS, false);
	assert_int_equal(stream_push(&r.s, gs_aggregate_sink(r.v)), 0);
	assert_int_equal(gs_aggregate_make_summary(r.v, &summary), 0);
	assert_int_equal(summary->steps.n_steps, 0);
	gs_summary_free(&summary);
	gs_aggregate_free(&r.v);
	stream_fini(&r.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_longer),
		cmocka_unit_test(few_and_short_steps),
		cmocka_unit_test(no_steps),
		cmocka_unit_test(calls_and_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
