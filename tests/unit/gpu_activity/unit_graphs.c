/* Which kernels graphs hold, and how often they were launched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_activity/script.h"

#define A 0x10
#define B 0x20
#define G 0x7000
#define X 0x8000

#define BEGIN(stream_)       CALL(CAPTURE_BEGIN, .stream = (stream_))
#define END(stream_, graph)  CALL(CAPTURE_END, .stream = (stream_), .event = {graph})
#define MAKE(exec, graph)    CALL(GRAPH_MAKE, .event = {exec, graph})
#define NODE(function, to)   CALL(GRAPH_KERNEL, .event = {function, to})
#define RUN(exec)            WORK(GRAPHS, .stream = A, .event = {exec})
#define LAUNCH(function, on) KERNEL(.stream = (on), .event = {function})

/* How often graphs of the process ran that function. */
static uint64_t runs_of(struct script *s, uint64_t function)
{
	struct gs_activity_graph g;
	uint64_t f, count, n = 0;

	for (uint32_t i = 0; i < gs_activity_count_graphs(s->a); i++) {
		if (!gs_activity_read_graph(s->a, i, &g) || g.process != s->process)
			continue;
		while (gs_activity_next_graph_kernel(s->a, &g.first_kernel, &f, &count))
			if (f == function)
				n += g.is_sum ? count : count * g.launches;
	}
	return n;
}

static void do_calls(struct script *s, struct gs_activity_call call, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		take(s, call, 1, 2);
}

static void test_captured(void **state)
{
	SCRIPT s = script_new(NULL);

	do_calls(s, BEGIN(A), 1);
	do_calls(s, LAUNCH(1, A), 3);
	/* The other stream belongs to it from here on. */
	do_calls(s, CALL(RECORD, .stream = A, .event = {0x99}), 1);
	do_calls(s, CALL(STREAM_WAITS, .stream = B, .event = {0x99}), 1);
	do_calls(s, LAUNCH(2, B), 2);
	do_calls(s, LAUNCH(1, 0x30), 5); /* none of it */
	do_calls(s, END(A, G), 1);
	do_calls(s, LAUNCH(1, A), 7);
	do_calls(s, MAKE(X, G), 1);
	assert_int_equal(runs_of(s, 1), 0);
	do_calls(s, RUN(X), 4);
	assert_int_equal(runs_of(s, 1), 12);
	assert_int_equal(runs_of(s, 2), 8);
	/* A launch of a graph that is captured is a child. */
	do_calls(s, BEGIN(A), 1);
	do_calls(s, RUN(X), 2);
	do_calls(s, END(A, G + 1), 1);
	do_calls(s, MAKE(X + 1, G + 1), 1);
	do_calls(s, RUN(X + 1), 1);
	assert_int_equal(runs_of(s, 1), 12 + 6);
	/* One that is not valid any more gives no graph. */
	do_calls(s, BEGIN(A), 1);
	do_calls(s, LAUNCH(3, A), 1);
	do_calls(s, CALL(CAPTURE_END, .stream = A, .failed = true, .ret = 901), 1);
	do_calls(s, RUN(0x9999), 1);
	assert_int_equal(runs_of(s, 3), 0);
}

static void test_nodes(void **state)
{
	SCRIPT s = script_new(NULL);

	do_calls(s, NODE(1, G), 2);
	do_calls(s, MAKE(X, G), 1);
	do_calls(s, NODE(2, G), 1); /* too late for that one */
	do_calls(s, CALL(GRAPH_COPY, .event = {G + 1, G}), 1);
	do_calls(s, CALL(GRAPH_CHILD, .event = {G, G + 2}), 1);
	do_calls(s, MAKE(X + 1, G + 1), 1);
	do_calls(s, MAKE(X + 2, G + 2), 1);
	do_calls(s, CALL(GRAPH_END, .event = {G}), 1);
	for (unsigned i = 0; i < 3; i++)
		do_calls(s, RUN(X + i), 1);
	assert_int_equal(runs_of(s, 1), 6);
	assert_int_equal(runs_of(s, 2), 2);
	/* The handle is another's; and an update. */
	do_calls(s, NODE(3, G), 1);
	do_calls(s, MAKE(X, G), 1);
	do_calls(s, RUN(X), 10);
	assert_int_equal(runs_of(s, 3), 10);
	assert_int_equal(runs_of(s, 1), 6);
	/* Destroyed: what it ran stays. Another of its handle has nothing that is known. */
	do_calls(s, CALL(GRAPH_EXEC_END, .event = {X}), 1);
	do_calls(s, RUN(X), 10);
	assert_int_equal(runs_of(s, 3), 10);
	s->process = 2;
	assert_int_equal(runs_of(s, 3), 0);
}

/* First calls: the handle was not seen. */
static void test_unseen(void **state)
{
	SCRIPT s = script_new(NULL);

	do_calls(s, BEGIN(A), 1);
	do_calls(s, LAUNCH(1, A), 3);
	do_calls(s, END(A, 0), 1);
	do_calls(s, MAKE(0, G), 1);
	do_calls(s, RUN(X), 2);
	assert_int_equal(runs_of(s, 1), 6);
	do_calls(s, MAKE(X + 1, G), 1);
	do_calls(s, RUN(X + 1), 1);
	assert_int_equal(runs_of(s, 1), 9);
	/* Two: which it is, is not clear. */
	do_calls(s, MAKE(0, G), 2);
	do_calls(s, RUN(X + 2), 1);
	assert_int_equal(runs_of(s, 1), 9);
}

static void test_bounded(void **state)
{
	SCRIPT s =
		script_new(&(struct gs_activity_config){.max_graphs = 8, .max_graph_kernels = 40});
	struct gs_activity_graph g;
	uint64_t launches = 0;

	/* Each is destroyed: the oldest make room, and what they ran is added up. */
	for (unsigned i = 0; i < 100; i++) {
		do_calls(s, NODE(1, G), 2);
		do_calls(s, NODE(2 + i % 3, G), 1);
		do_calls(s, MAKE(X + i, G), 1);
		do_calls(s, CALL(GRAPH_END, .event = {G}), 1);
		do_calls(s, RUN(X + i), 3);
		do_calls(s, CALL(GRAPH_EXEC_END, .event = {X + i}), 1);
	}
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_GRAPHS), 0);
	assert_int_equal(runs_of(s, 1), 600);
	assert_int_equal(runs_of(s, 2), 102);
	for (uint32_t i = 0; i < gs_activity_count_graphs(s->a); i++)
		if (gs_activity_read_graph(s->a, i, &g))
			launches += g.launches;
	assert_int_equal(launches, 300);
	/* More kernels, and more graphs at once, than there is room for. */
	for (unsigned i = 0; i < 50; i++)
		do_calls(s, NODE(1000 + i, G), 1);
	assert_true(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_GRAPHS) > 10);
	for (unsigned i = 0; i < 50; i++)
		do_calls(s, NODE(1, G + 100 + i), 1);
	assert_true(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_GRAPHS) > 40);
	gs_activity_end_process(s->a, 1, 100);
	assert_int_equal(runs_of(s, 1), 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captured),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_unseen),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests_name("gpu_activity/graphs", tests, NULL, NULL);
}
