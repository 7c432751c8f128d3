/* Many of everything, and what happens at each bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_activity/script.h"

#define A 0x10
#define B 0x20
#define E 0x1000

static void test_many_launches(void **state)
{
	SCRIPT s = script_new(NULL);
	const struct gs_activity_span *span;

	for (uint64_t i = 0; i < 5000; i++)
		take(s, KERNEL(.stream = A, .threads = 256), 10 * i + 1, 10 * i + 4);
	take(s, CALL(WAIT_STREAM, .stream = A), 50000, 60000);
	assert_int_equal(stream_of(s, A).totals.n[GS_ACTIVITY_KERNELS], 5000);
	assert_int_equal(stream_of(s, A).totals.busy_max_ns, 59999);
	assert_int_equal(stream_of(s, A).totals.depth_max, 5000);
	span = span_of(s, GS_ACTIVITY_SPAN_WORK, 0);
	assert_int_equal(span->n, 5000);
	assert_int_equal(span->threads, 256);
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		assert_int_equal(gs_activity_limit_hits(s->a, i), 0);
}

static void test_many_streams(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_context c;
	uint64_t pending = 0;

	for (uint64_t i = 0; i < 10000; i++) {
		take(s, NEW(0x10000 + 64 * i, i & 1), 2 * i, 2 * i);
		take(s, KERNEL(.stream = 0x10000 + 64 * i), 2 * i, 2 * i + 1);
	}
	/* The default stream orders every other one. */
	take(s, KERNEL(.stream = 0), 20000, 20001);
	take(s, CALL(WAIT_STREAM, .stream = 0), 20002, 20003);
	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++) {
		struct gs_activity_stream one;

		if (gs_activity_read_stream(s->a, i, &one))
			pending += one.n_pending;
	}
	assert_int_equal(pending, 5000);
	take(s, CALL(WAIT_DEVICE), 20004, 20005);
	gs_activity_read_context(s->a, 0, &c);
	assert_int_equal(c.n_streams, 10001);
	assert_int_equal(c.busy_max_ns, 20005);
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		assert_int_equal(gs_activity_limit_hits(s->a, i), 0);
}

static void test_streams_beyond(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_streams = 2});
	struct gs_activity_context c;

	take(s, NEW(A, 0), 1, 1);
	take(s, KERNEL(.stream = A, .bytes = 3), 1, 2);
	take(s, KERNEL(.stream = B), 3, 4);
	/* Both are in use: the third is counted, no more. */
	take(s, KERNEL(.stream = 0x30, .bytes = 5), 5, 6);
	take(s, CALL(WAIT_STREAM, .stream = 0x30), 7, 8);
	gs_activity_read_context(s->a, 0, &c);
	assert_int_equal(c.rest.n[GS_ACTIVITY_KERNELS], 1);
	assert_int_equal(c.rest.bytes[GS_ACTIVITY_KERNELS], 5);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_STREAMS), 2);
	/* One that has ended makes room when its work is done. */
	take(s, CALL(STREAM_END, .stream = A), 9, 9);
	take(s, KERNEL(.stream = 0x30), 10, 11);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_STREAMS), 3);
	take(s, CALL(WAIT_DEVICE), 12, 13);
	take(s, KERNEL(.stream = 0x30), 14, 15);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_STREAMS), 3);
	assert_int_equal(stream_of(s, 0x30).n_pending, 1);
	gs_activity_read_context(s->a, 0, &c);
	assert_int_equal(c.n_rest, 1);
	assert_int_equal(c.rest.n[GS_ACTIVITY_KERNELS], 3);
	assert_int_equal(c.rest.busy_max_ns, 12);
	assert_int_equal(c.rest.first_ns, 1);
}

static void test_events_beyond(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_events = 2});

	for (unsigned i = 0; i < 3; i++) {
		take(s, KERNEL(.stream = A), 10 * i, 10 * i + 1);
		take(s, CALL(RECORD, .stream = A, .event = {E + i}), 10 * i + 2, 10 * i + 3);
	}
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_EVENTS), 1);
	take(s, CALL(WAIT_EVENT, .event = {E}), 40, 50);
	assert_int_equal(stream_of(s, A).n_pending, 3);
	take(s, CALL(WAIT_EVENT, .event = {E + 1}), 51, 60);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	/* Those that are destroyed take no room. */
	for (unsigned i = 0; i < 100; i++) {
		take(s, CALL(EVENT_END, .event = {E + i + 1}), 61 + i, 61 + i);
		take(s, CALL(RECORD, .stream = A, .event = {E + i + 3}), 61 + i, 61 + i);
	}
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_EVENTS), 1);
}

/* Runs of work that became one are done when the later one is: never too early. */
static void test_segments_beyond(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_stream_segments = 3});

	for (unsigned i = 0; i < 5; i++) {
		take(s, KERNEL(.stream = A), 10 * i, 10 * i + 1);
		take(s, CALL(RECORD, .stream = A, .event = {E + i}), 10 * i + 2, 10 * i + 3);
	}
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_SEGMENTS), 2);
	take(s, CALL(WAIT_EVENT, .event = {E}), 60, 61);
	take(s, CALL(WAIT_EVENT, .event = {E + 1}), 62, 63);
	assert_int_equal(stream_of(s, A).n_pending, 5);
	take(s, CALL(WAIT_EVENT, .event = {E + 2}), 64, 65);
	assert_int_equal(stream_of(s, A).n_pending, 2);
	take(s, CALL(WAIT_EVENT, .event = {E + 3}), 66, 67);
	assert_int_equal(stream_of(s, A).n_pending, 1);
}

static void test_all_segments_in_use(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_segments = 2});

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 3, 3);
	take(s, KERNEL(.stream = B), 4, 5);
	take(s, KERNEL(.stream = A), 6, 7);    /* goes on in A's first one */
	take(s, KERNEL(.stream = 0x30), 8, 9); /* finds none */
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_SEGMENTS), 2);
	take(s, CALL(WAIT_EVENT, .event = {E}), 10, 11);
	assert_int_equal(stream_of(s, A).n_pending, 2);
	assert_int_equal(stream_of(s, 0x30).n_pending, 0);
	assert_int_equal(stream_of(s, 0x30).totals.n[GS_ACTIVITY_KERNELS], 1);
	take(s, CALL(WAIT_DEVICE), 12, 13);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, B).n_pending, 0);
}

static void test_waits_beyond(void **state)
{
	SCRIPT s = script_new(NULL);

	for (unsigned i = 0; i < 6; i++) {
		take(s, KERNEL(.stream = A + i), 10 * i, 10 * i + 1);
		take(s, CALL(RECORD, .stream = A + i, .event = {E + i}), 10 * i + 2, 10 * i + 3);
		take(s, CALL(STREAM_WAITS, .stream = B, .event = {E + i}), 10 * i + 4, 10 * i + 5);
	}
	take(s, CALL(WAIT_STREAM, .stream = B), 100, 101);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_WAITS), 2);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(stream_of(s, A + i).n_pending, i >= 4);
}

static void test_captures_beyond(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_captures = 1});

	take(s, CALL(CAPTURE_BEGIN, .stream = A), 1, 1);
	take(s, CALL(CAPTURE_BEGIN, .stream = B), 2, 2);
	take(s, KERNEL(.stream = A), 3, 4);
	take(s, KERNEL(.stream = B), 5, 6);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(stream_of(s, B).totals.n_captured, 1);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_CAPTURES), 1);
	/* The end of one that is not open any more ends no other. */
	take(s, CALL(CAPTURE_END, .stream = A), 7, 7);
	take(s, KERNEL(.stream = B), 8, 9);
	assert_int_equal(stream_of(s, B).totals.n_captured, 2);
}

static void test_processes_beyond(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_processes = 1});

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, KERNEL(.stream = A, .process = 2, .thread = 2), 3, 4);
	take(s, KERNEL(.stream = A, .thread = 1u << 30), 5, 6);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_PROCESSES), 2);
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		assert_non_null(gs_activity_limit_text(i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_launches),    cmocka_unit_test(test_many_streams),
		cmocka_unit_test(test_streams_beyond),   cmocka_unit_test(test_events_beyond),
		cmocka_unit_test(test_segments_beyond),  cmocka_unit_test(test_all_segments_in_use),
		cmocka_unit_test(test_waits_beyond),     cmocka_unit_test(test_captures_beyond),
		cmocka_unit_test(test_processes_beyond),
	};

	return cmocka_run_group_tests_name("gpu_activity/limits", tests, NULL, NULL);
}
