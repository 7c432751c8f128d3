/* Runs of which a part is start-up: what is judged is what comes then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/event.h"
#include "analysis/rules/trace.h"

#define MS 1000000ull

/* A thread that computes start_ms until it launches, and then waits for the GPU and computes. */
struct shape {
	uint64_t start_ms, gpu_ms, cpu_ms;
};

static struct gs_summary *judge(struct shape shape, struct gs_account_thread *t)
{
	struct gs_summary *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	*t = (struct gs_account_thread){
		.pid = 100, .tid = 100, .comm = "app", .process = "app", .critical = true};
	t->start_up_ns[GS_STATE_CPU][GS_INSIDE_NONE] = shape.start_ms * MS;
	t->time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = (shape.start_ms + shape.cpu_ms) * MS;
	t->time_ns[GS_STATE_OTHER][GS_INSIDE_GPU_WAIT] = shape.gpu_ms * MS;
	t->wall_ns = (shape.start_ms + shape.cpu_ms + shape.gpu_ms) * MS;
	s->end_reason = "the command ended";
	s->duration_ns = t->wall_ns;
	s->account.threads = t;
	s->account.n_threads = 1;
	gs_verdict_trace(s);
	assert_ptr_equal(s->account.threads, t);
	assert_true(t->wall_ns == s->duration_ns);
	return s;
}

static void expect(struct shape shape, const char *class_name, double share, const char *left_out)
{
	struct gs_account_thread t;
	struct gs_summary *s = judge(shape, &t);
	double difference = s->verdict.share - share;

	assert_string_equal(s->verdict.class_name, class_name);
	assert_true(difference < 0.01 && difference > -0.01);
	if (left_out)
		assert_non_null(strstr(s->verdict.evidence, left_out));
	else
		assert_null(strstr(s->verdict.evidence, "start-up"));
	gs_summary_free(&s);
}

static void the_rest_is_judged(void **state)
{
	(void)state;
	expect((struct shape){5500, 1400, 100}, "gpu_bound", 0.933,
	       "its start-up of 5.50 s, until it launched work first, is not counted");
	/* It computes then, too. */
	expect((struct shape){5500, 100, 1400}, "cpu_bound", 0.933, "start-up of 5.50 s");
}

static void what_changes_nothing_is_no_start_up(void **state)
{
	(void)state;
	/* It launches from the beginning, or nearly so. */
	expect((struct shape){0, 2000, 8000}, "cpu_bound", 0.8, NULL);
	expect((struct shape){500, 1500, 8000}, "cpu_bound", 0.85, NULL);
	/* Less than a second is left to judge. */
	expect((struct shape){5500, 900, 0}, "cpu_bound", 0.859, NULL);
	/* A minute and a half is no start-up, but what the run mostly does. */
	expect((struct shape){90000, 10000, 0}, "cpu_bound", 0.9, NULL);
}

/* Another process computes through the start-up of the first one, and is none of it. */
static void processors_in_use(void **state)
{
	struct gs_account_thread t[2] = {{.pid = 100,
					  .tid = 100,
					  .comm = "app",
					  .process = "app",
					  .critical = true,
					  .wall_ns = 7000 * MS},
					 {.pid = 101, .tid = 101, .comm = "a", .process = "a"}};
	struct gs_summary *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	t[0].start_up_ns[GS_STATE_SLEEP][GS_INSIDE_NONE] = 5000 * MS;
	t[0].time_ns[GS_STATE_SLEEP][GS_INSIDE_NONE] = 5000 * MS;
	t[0].time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = 2000 * MS;
	t[1].wall_ns = t[1].time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = 5600 * MS;
	s->end_reason = "the command ended";
	s->duration_ns = 7000 * MS;
	s->account.threads = t;
	s->account.n_threads = 2;
	gs_verdict_trace(s);
	assert_non_null(strstr(s->verdict.evidence, "start-up of 5.00 s"));
	/* 2 of the 2 s that are judged, and 5.6 of 7. */
	assert_non_null(strstr(s->verdict.evidence, "used 1.8 CPUs"));
	gs_summary_free(&s);
}

static void an_account_that_is_read_late(void **state)
{
	struct gs_account_thread t[2];
	struct gs_summary *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	for (uint32_t i = 0; i < 2; i++) {
		t[i] = (struct gs_account_thread){
			.pid = 100 + i, .tid = 100 + i, .comm = "app", .process = "app"};
		t[i].wall_ns = t[i].time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = 1500 * MS;
	}
	t[0].critical = true;
	s->end_reason = "the command ended";
	s->duration_ns = 1000 * MS;
	s->account.threads = t;
	s->account.n_threads = 2;
	gs_verdict_trace(s);
	assert_non_null(strstr(s->verdict.evidence, "used 2.0 CPUs"));
	gs_summary_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rest_is_judged),
		cmocka_unit_test(what_changes_nothing_is_no_start_up),
		cmocka_unit_test(processors_in_use),
		cmocka_unit_test(an_account_that_is_read_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
