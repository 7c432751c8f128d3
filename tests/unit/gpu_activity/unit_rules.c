/* The rules of streams, events, captures and the default stream, call by call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_activity/script.h"

#define A 0x10
#define B 0x20
#define C 0x30
#define E 0x1000
#define F 0x2000

static void test_bounds_and_gaps(void **state)
{
	SCRIPT s = script_new(NULL);
	const struct gs_activity_span *span;
	struct gs_activity_stream a;
	struct gs_activity_context c;

	take(s, KERNEL(.stream = A, .threads = 100), 10, 12);
	take(s, KERNEL(.stream = A, .threads = 300), 14, 16);
	take(s, KERNEL(.stream = A, .threads = 200), 18, 20);
	take(s, CALL(WAIT_STREAM, .stream = A), 30, 100);
	take(s, KERNEL(.stream = A), 150, 151);
	take(s, CALL(WAIT_STREAM, .stream = A), 160, 165);
	/* Nothing is left to wait for. */
	take(s, CALL(WAIT_STREAM, .stream = A), 170, 171);
	a = stream_of(s, A);
	assert_int_equal(a.totals.n[GS_ACTIVITY_KERNELS], 4);
	assert_int_equal(a.totals.threads, 600);
	assert_int_equal(a.totals.busy_max_ns, 90 + 15);
	assert_int_equal(a.totals.busy_min_ns, 70 + 5);
	assert_int_equal(a.totals.n_gaps, 1);
	assert_int_equal(a.totals.gap_ns, 50);
	assert_int_equal(a.totals.gap_max_ns, 50);
	assert_int_equal(a.totals.n_syncs, 3);
	assert_int_equal(a.totals.wait_ns, 76);
	assert_int_equal(a.totals.call_ns, 6 + 1 + 70 + 5 + 1);
	assert_int_equal(a.totals.depth_max, 3);
	assert_int_equal(a.totals.depth_sum, 1 + 2 + 3 + 1);
	assert_int_equal(a.totals.n_spans, 2);
	assert_int_equal(a.totals.first_ns, 10);
	assert_int_equal(a.totals.last_ns, 151);
	assert_int_equal(a.n_pending, 0);
	gs_activity_read_context(s->a, 0, &c);
	assert_int_equal(c.busy_max_ns, 105);
	assert_int_equal(c.busy_min_ns, 75);
	assert_int_equal(c.gap_ns, 50);
	assert_int_equal(c.wait_ns, 76);
	assert_int_equal(c.first_ns, 10);

	span = span_of(s, GS_ACTIVITY_SPAN_WORK, 0);
	assert_int_equal(span->start_ns, 10);
	assert_int_equal(span->end_ns, 100);
	assert_int_equal(span->n, 3);
	assert_int_equal(span->threads, 200);
	assert_false(span->ended);
	span = span_of(s, GS_ACTIVITY_SPAN_GAP, 0);
	assert_int_equal(span->start_ns, 100);
	assert_int_equal(span->end_ns, 150);
	span = span_of(s, GS_ACTIVITY_SPAN_WAIT, 1);
	assert_int_equal(span->start_ns, 160);
	assert_int_equal(span->end_ns, 165);
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WAIT, 2)->end_ns, 171);
	assert_null(span_of(s, GS_ACTIVITY_SPAN_WAIT, 3));
}

/* Work that is not known to be done counts until the process's last call. */
static void test_pending_work_counts(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = A), 10, 12);
	take(s, KERNEL(.stream = B), 20, 50);
	assert_int_equal(stream_of(s, A).totals.busy_max_ns, 40);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(stream_of(s, B).totals.busy_max_ns, 30);
}

static void test_sorts_of_work(void **state)
{
	SCRIPT s = script_new(NULL);
	const struct gs_activity_span *span;
	struct gs_activity_stream a;

	take(s, WORK(COPIES + GS_COPY_H2D, .stream = A, .bytes = 100), 1, 2);
	take(s, KERNEL(.stream = A, .threads = 64), 3, 4);
	take(s, WORK(COPIES + GS_COPY_D2H, .stream = A, .bytes = 40), 5, 6);
	take(s, WORK(COPIES + GS_COPY_H2D, .stream = A, .bytes = 11), 7, 8);
	take(s, WORK(MEMSETS, .stream = A, .bytes = 7), 9, 10);
	take(s, WORK(GRAPHS, .stream = A), 11, 12);
	take(s, WORK(COLLECTIVES, .stream = A, .bytes = 9), 13, 14);
	take(s, WORK(HOST_FUNCTIONS, .stream = A), 15, 16);
	take(s, CALL(WAIT_STREAM, .stream = A), 20, 30);
	a = stream_of(s, A);
	assert_int_equal(gs_activity_totals_work(&a.totals), 8);
	assert_int_equal(a.totals.n[GS_ACTIVITY_COPIES + GS_COPY_H2D], 2);
	assert_int_equal(a.totals.bytes[GS_ACTIVITY_COPIES + GS_COPY_H2D], 111);
	assert_int_equal(a.totals.bytes[GS_ACTIVITY_COPIES + GS_COPY_D2H], 40);
	assert_int_equal(a.totals.bytes[GS_ACTIVITY_MEMSETS], 7);
	/* A span for each sort, in its order. */
	span = span_of(s, GS_ACTIVITY_SPAN_WORK, 0);
	assert_int_equal(span->work, GS_ACTIVITY_KERNELS);
	assert_int_equal(span->start_ns, 3);
	assert_int_equal(span->end_ns, 30);
	span = span_of(s, GS_ACTIVITY_SPAN_WORK, 5);
	assert_int_equal(span->work, GS_ACTIVITY_COPIES + GS_COPY_H2D);
	assert_int_equal(span->start_ns, 1);
	assert_int_equal(span->n, 2);
	assert_int_equal(span->bytes, 111);
	assert_non_null(span_of(s, GS_ACTIVITY_SPAN_WORK, 6));
	assert_null(span_of(s, GS_ACTIVITY_SPAN_WORK, 7));
}

static void test_event_divides_work(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream a;

	take(s, KERNEL(.stream = A), 10, 11);
	take(s, KERNEL(.stream = A), 12, 13);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 14, 15);
	take(s, KERNEL(.stream = A), 16, 17);
	take(s, CALL(WAIT_EVENT, .event = {E}), 20, 40);
	a = stream_of(s, A);
	assert_int_equal(a.n_pending, 1);
	assert_int_equal(a.totals.busy_min_ns, 20);
	assert_int_equal(a.totals.n_syncs, 1);
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 0)->n, 2);
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 0)->end_ns, 40);
	take(s, CALL(WAIT_STREAM, .stream = A), 50, 60);
	a = stream_of(s, A);
	assert_int_equal(a.totals.busy_max_ns, 50);
	assert_int_equal(a.totals.busy_min_ns, 30);
	assert_int_equal(a.totals.n_gaps, 0);
	/* Spans of a stream do not overlap. */
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 1)->start_ns, 40);
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 1)->end_ns, 60);
}

static void test_events_of_other_times(void **state)
{
	SCRIPT s = script_new(NULL);

	/* Never recorded; recorded before any work; recorded again. */
	take(s, CALL(WAIT_EVENT, .event = {F}), 1, 2);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 3, 4);
	take(s, KERNEL(.stream = A), 5, 6);
	take(s, CALL(WAIT_EVENT, .event = {E}), 7, 8);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 9, 10);
	take(s, CALL(ASK_EVENT, .event = {E}, .ret = 600), 11, 12);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	take(s, CALL(ASK_EVENT, .event = {E}), 13, 14);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, A).totals.busy_max_ns, 9);
	assert_int_equal(stream_of(s, A).totals.busy_min_ns, 0);
	/* Destroyed: another event may have its handle. */
	take(s, KERNEL(.stream = A), 15, 16);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 17, 18);
	take(s, CALL(EVENT_END, .event = {E}), 19, 20);
	take(s, CALL(WAIT_EVENT, .event = {E}), 21, 22);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	/* The time between two events is known when both are done. */
	take(s, CALL(RECORD, .stream = A, .event = {E}), 23, 24);
	take(s, KERNEL(.stream = B), 25, 26);
	take(s, CALL(RECORD, .stream = B, .event = {F}), 27, 28);
	take(s, CALL(ELAPSED, .event = {E, F}, .ret = 600), 29, 30);
	assert_int_equal(stream_of(s, B).n_pending, 1);
	take(s, CALL(ELAPSED, .event = {E, F}), 31, 32);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, B).n_pending, 0);
}

static void test_streams_wait_for_events(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 3, 4);
	take(s, CALL(STREAM_WAITS, .stream = B, .event = {E}), 5, 6);
	take(s, KERNEL(.stream = A), 7, 8);
	take(s, KERNEL(.stream = B), 9, 10);
	take(s, CALL(RECORD, .stream = B, .event = {F}), 11, 12);
	take(s, CALL(STREAM_WAITS, .stream = C, .event = {F}), 13, 14);
	/* Without work of its own: what it waits for is done when it is. */
	take(s, CALL(WAIT_STREAM, .stream = C), 20, 50);
	assert_int_equal(stream_of(s, C).totals.n_event_waits, 1);
	assert_int_equal(stream_of(s, B).n_pending, 0);
	assert_int_equal(stream_of(s, B).totals.busy_max_ns, 50 - 9);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(stream_of(s, A).totals.wait_ns, 30);
	/* Which of the two the host waited for is not known. */
	assert_int_equal(stream_of(s, B).totals.busy_min_ns, 0);
	take(s, CALL(STREAM_WAITS, .stream = A, .event = {F}), 51, 52);
	take(s, CALL(WAIT_STREAM, .stream = A), 60, 70);
	assert_int_equal(stream_of(s, A).totals.busy_min_ns, 10);
}

/* A ring of streams that wait for each other comes to an end. */
static void test_long_chain(void **state)
{
	SCRIPT s = script_new(NULL);
	uint64_t now = 1;

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t h = 0x100 + i % 3;

		if (i)
			take(s, CALL(STREAM_WAITS, .stream = h, .event = {E + i - 1}), now, now);
		take(s, KERNEL(.stream = h), now, now + 1);
		take(s, CALL(RECORD, .stream = h, .event = {E + i}), now + 1, now + 1);
		now += 2;
	}
	take(s, CALL(WAIT_EVENT, .event = {E + 2999}), now, now + 5);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(stream_of(s, 0x100 + i).n_pending, 0);
}

static void test_legacy_default_stream(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, NEW(A, 0), 1, 1);
	take(s, NEW(B, 1), 1, 1);
	take(s, KERNEL(.stream = A), 2, 3);
	take(s, KERNEL(.stream = B), 4, 5);
	take(s, KERNEL(.stream = C), 6, 7); /* created before the trace */
	take(s, KERNEL(.stream = 0), 8, 9);
	take(s, CALL(WAIT_STREAM, .stream = 1), 10, 20);
	assert_int_equal(stream_of(s, 0).n_pending, 0);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, B).n_pending, 1);
	assert_int_equal(stream_of(s, C).n_pending, 1);
	assert_int_equal(stream_of(s, A).blocking, GS_ACTIVITY_BLOCKING);
	assert_int_equal(stream_of(s, B).blocking, GS_ACTIVITY_NON_BLOCKING);
	assert_int_equal(stream_of(s, C).blocking, GS_ACTIVITY_BLOCKING_UNKNOWN);
	/* A's work is behind that of the default stream, which is behind its earlier one. */
	take(s, KERNEL(.stream = A), 21, 22);
	take(s, KERNEL(.stream = 0), 23, 24);
	take(s, KERNEL(.stream = 0x40), 25, 26);
	take(s, NEW(0x50, 0), 26, 26);
	take(s, KERNEL(.stream = 0x50), 27, 28);
	take(s, KERNEL(.stream = 0), 29, 30);
	take(s, CALL(WAIT_STREAM, .stream = 0x50), 31, 40);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, 0).n_pending, 1);
	assert_int_equal(stream_of(s, 0x40).n_pending, 1);
	assert_int_equal(stream_of(s, 0x50).n_pending, 0);
	/* An event in it is behind all of them. */
	take(s, KERNEL(.stream = A), 41, 42);
	take(s, CALL(RECORD, .stream = 0, .event = {E}), 43, 44);
	take(s, KERNEL(.stream = A), 45, 46);
	take(s, CALL(WAIT_EVENT, .event = {E}), 47, 48);
	assert_int_equal(stream_of(s, 0).n_pending, 0);
	assert_int_equal(stream_of(s, A).n_pending, 1);
}

/* Alone, the default stream is like any other: the host waited for it and nothing else. */
static void test_legacy_alone(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, NEW(B, 1), 1, 1);
	take(s, KERNEL(.stream = B), 1, 2);
	take(s, KERNEL(.stream = 0), 2, 3);
	take(s, CALL(WAIT_STREAM, .stream = 0), 10, 30);
	assert_int_equal(stream_of(s, 0).totals.busy_min_ns, 20);
	take(s, KERNEL(.stream = 0), 31, 32);
	take(s, CALL(RECORD, .stream = 0, .event = {E}), 33, 34);
	take(s, CALL(WAIT_EVENT, .event = {E}), 35, 40);
	assert_int_equal(stream_of(s, 0).totals.busy_min_ns, 25);
	take(s, NEW(A, 0), 41, 41);
	take(s, KERNEL(.stream = A), 42, 43);
	take(s, KERNEL(.stream = 0), 44, 45);
	take(s, CALL(WAIT_STREAM, .stream = 0), 50, 60);
	assert_int_equal(stream_of(s, 0).totals.busy_min_ns, 25);
}

static void test_per_thread_default_stream(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = 0, .function.per_thread = true), 1, 2);
	take(s, KERNEL(.stream = 2, .thread = 2), 3, 4);
	take(s, KERNEL(.stream = 1, .function.per_thread = true), 5, 6);
	assert_int_equal(stream_in(s, 0, 2, 1).n_pending, 1);
	assert_int_equal(stream_in(s, 0, 2, 2).n_pending, 1);
	assert_int_equal(stream_of(s, 0).n_pending, 1);
	take(s, CALL(WAIT_STREAM, .stream = 0, .function.per_thread = true, .thread = 2), 7, 9);
	assert_int_equal(stream_in(s, 0, 2, 2).n_pending, 0);
	assert_int_equal(stream_in(s, 0, 2, 1).n_pending, 1);
	/* The legacy default stream orders them. */
	take(s, CALL(WAIT_STREAM, .stream = 0), 10, 12);
	assert_int_equal(stream_in(s, 0, 2, 1).n_pending, 0);
}

static void test_devices(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_context c;

	take(s, KERNEL(.stream = 0), 1, 2);
	take(s, CALL(SET_DEVICE, .flags = 1), 3, 3);
	take(s, KERNEL(.stream = 0), 4, 5);
	take(s, KERNEL(.stream = A), 6, 7);
	/* A stream stays where it was met; another thread is on device 0. */
	take(s, KERNEL(.stream = A, .thread = 2), 8, 9);
	take(s, CALL(WAIT_DEVICE), 10, 20);
	assert_int_equal(stream_in(s, 1, 0, 0).n_pending, 0);
	assert_int_equal(stream_in(s, 1, A, 0).n_pending, 0);
	assert_int_equal(stream_in(s, 0, 0, 0).n_pending, 1);
	assert_int_equal(gs_activity_count_contexts(s->a), 2);
	gs_activity_read_context(s->a, 1, &c);
	assert_int_equal(c.context, 1);
	assert_int_equal(c.n_syncs, 1);
	assert_int_equal(c.wait_ns, 10);
	assert_int_equal(c.busy_max_ns, 16);
	assert_int_equal(c.n_streams, 2);
	/* A reset ends one of them. */
	take(s, KERNEL(.stream = A, .thread = 2), 21, 22);
	take(s, CALL(RESET, .flags = 1), 23, 24);
	assert_true(stream_in(s, 1, A, 0).ended);
	assert_false(stream_in(s, 0, 0, 0).ended);
	take(s, CALL(RESET, .thread = 2, .function.per_thread = true), 25, 26);
	assert_true(stream_in(s, 0, 0, 0).ended);
	assert_int_equal(stream_in(s, 0, 0, 0).n_pending, 0);
}

static void test_handles_come_again(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream a;

	take(s, NEW(A, 0), 1, 1);
	take(s, KERNEL(.stream = A), 2, 3);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 3, 3);
	take(s, CALL(STREAM_END, .stream = A), 4, 5);
	assert_true(stream_of(s, A).ended);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	take(s, NEW(A, 1), 6, 6);
	take(s, KERNEL(.stream = A), 7, 8);
	a = stream_of(s, A);
	assert_int_equal(a.totals.n[GS_ACTIVITY_KERNELS], 1);
	assert_int_equal(a.blocking, GS_ACTIVITY_NON_BLOCKING);
	/* Its event is still that of the first. */
	take(s, CALL(WAIT_EVENT, .event = {E}), 9, 20);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 0)->end_ns, 20);
	/* Its end was not seen. */
	take(s, NEW(A, 0), 21, 21);
	a = stream_of(s, A);
	assert_int_equal(a.nth, 1);
	assert_int_equal(a.n_pending, 0);
	assert_int_equal(a.blocking, GS_ACTIVITY_BLOCKING);
	/* Default streams have no end. */
	take(s, KERNEL(.stream = 0), 22, 23);
	take(s, CALL(STREAM_END, .stream = 0), 24, 24);
	assert_false(stream_of(s, 0).ended);
}

static void test_captured_work_does_not_run(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream a;

	take(s, CALL(CAPTURE_BEGIN, .stream = A), 1, 1);
	take(s, KERNEL(.stream = A), 2, 3);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 4, 4);
	take(s, CALL(STREAM_WAITS, .stream = B, .event = {E}), 5, 5);
	take(s, KERNEL(.stream = B), 6, 7);
	take(s, KERNEL(.stream = C), 8, 9);
	take(s, CALL(CAPTURE_END, .stream = A), 10, 10);
	a = stream_of(s, A);
	assert_int_equal(a.totals.n[GS_ACTIVITY_KERNELS], 0);
	assert_int_equal(a.totals.n_captured, 1);
	assert_int_equal(stream_of(s, B).totals.n_captured, 1);
	assert_int_equal(stream_of(s, C).n_pending, 1);
	take(s, KERNEL(.stream = B), 11, 12);
	take(s, WORK(GRAPHS, .stream = A), 13, 14);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(stream_of(s, B).n_pending, 1);
	/* A capture that broke is over, too. */
	take(s, CALL(CAPTURE_BEGIN, .stream = C), 15, 15);
	take(s, CALL(CAPTURE_END, .stream = C, .failed = true, .ret = 901), 16, 16);
	take(s, KERNEL(.stream = C), 17, 18);
	assert_int_equal(stream_of(s, C).n_pending, 2);
}

static void test_failures(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = A, .failed = true, .ret = 1), 1, 2);
	assert_int_equal(stream_of(s, A).totals.n_failed, 1);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	take(s, KERNEL(.stream = A), 3, 4);
	take(s, KERNEL(.stream = B), 3, 4);
	take(s, CALL(WAIT_STREAM, .stream = A, .failed = true, .ret = 1), 5, 6);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	/* An illegal address: nothing of the context runs any more. */
	take(s, CALL(WAIT_STREAM, .stream = A, .failed = true, .ret = 700), 7, 17);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, B).totals.busy_max_ns, 14);
	assert_int_equal(stream_of(s, A).totals.busy_min_ns, 0);
}

#define COPY_(kind_, ...)                                                                          \
	CALL(COPY, .function.work = GS_ACTIVITY_COPIES + GS_COPY_##kind_, __VA_ARGS__)

static void test_copies_that_wait(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream d;

	take(s, KERNEL(.stream = 0), 1, 2);
	take(s, COPY_(D2D, .bytes = 10), 3, 4);
	take(s, COPY_(H2D, .bytes = 65536), 5, 6);
	assert_int_equal(stream_of(s, 0).n_pending, 3);
	take(s, COPY_(D2H, .bytes = 10), 7, 30);
	d = stream_of(s, 0);
	assert_int_equal(d.n_pending, 0);
	assert_int_equal(d.totals.busy_max_ns, 29);
	assert_int_equal(d.totals.busy_min_ns, 23);
	assert_int_equal(d.totals.wait_ns, 23);
	take(s, COPY_(H2D, .bytes = 65537), 40, 50);
	assert_int_equal(stream_of(s, 0).n_pending, 0);
	assert_int_equal(stream_of(s, 0).totals.busy_min_ns, 33);
	assert_int_equal(stream_of(s, 0).totals.bytes[GS_ACTIVITY_COPIES + GS_COPY_H2D], 131073);
}

/* What is queued while another thread waits is not waited for. */
static void test_work_during_a_wait(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, KERNEL(.stream = A, .thread = 2), 20, 21);
	take(s, CALL(WAIT_STREAM, .stream = A), 10, 30);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	assert_int_equal(stream_of(s, A).totals.busy_min_ns, 20);
	take(s, KERNEL(.stream = A, .thread = 2), 40, 41);
	/* Of one that queues all the time: as far as it had come at the wait before. */
	take(s, CALL(WAIT_STREAM, .stream = A), 35, 50);
	assert_int_equal(stream_of(s, A).n_pending, 1);
	take(s, CALL(WAIT_STREAM, .stream = A), 51, 60);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	assert_int_equal(stream_of(s, A).totals.busy_max_ns, 59);
}

static void test_end_of_process(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream one;
	unsigned n = 0;

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, CALL(RECORD, .stream = A, .event = {E}), 3, 4);
	gs_activity_end_process(s->a, 1, 50);
	assert_int_equal(stream_of(s, A).totals.busy_max_ns, 49);
	assert_true(stream_of(s, A).ended);
	assert_true(span_of(s, GS_ACTIVITY_SPAN_WORK, 0)->ended);
	/* The program that it runs next has the same handles, on the first device. */
	take(s, CALL(SET_DEVICE, .flags = 1), 55, 55);
	gs_activity_end_process(s->a, 1, 56);
	take(s, KERNEL(.stream = A), 60, 61);
	take(s, CALL(WAIT_EVENT, .event = {E}), 62, 63);
	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++)
		if (gs_activity_read_stream(s->a, i, &one)) {
			n++;
			assert_int_equal(one.context, 0);
			assert_int_equal(one.n_pending, one.ended ? 0 : 1);
		}
	assert_int_equal(n, 2);
	/* Killed: its last call is the last that is known of it. */
	gs_activity_end_process(s->a, 1, 0);
	assert_int_equal(s->spans[s->n_spans - 1].end_ns, 63);
	gs_activity_end_process(s->a, 7, 0);
}

static void test_two_processes(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, KERNEL(.stream = A), 1, 2);
	take(s, KERNEL(.stream = A, .process = 2, .thread = 2), 3, 4);
	take(s, CALL(WAIT_DEVICE), 5, 6);
	assert_int_equal(stream_of(s, A).n_pending, 0);
	s->process = 2;
	assert_int_equal(stream_of(s, A).n_pending, 1);
}

/* A run of calls makes what its calls make one by one. */
static void test_run(void **state)
{
	SCRIPT s = script_new(NULL);
	SCRIPT one = script_new(NULL);
	struct gs_activity_pending pending;
	struct gs_activity_totals a, b;

	take(one, KERNEL(.stream = 5, .threads = 100), 10, 11);
	take(one, KERNEL(.stream = 5, .threads = 300), 20, 21);
	take(one, KERNEL(.stream = 5, .threads = 200), 30, 31);
	take(s, KERNEL(.stream = 5, .threads = 600, .n_run = 3), 10, 31);
	assert_true(gs_activity_read_pending(s->a, 1, &pending));
	assert_int_equal(pending.start_ns, 10);
	assert_int_equal(pending.n_kernels, 3);
	assert_int_equal(pending.threads, 200);
	assert_false(gs_activity_read_pending(s->a, 0, &pending));
	assert_false(gs_activity_read_pending(s->a, 2, &pending));
	take(one, CALL(WAIT_STREAM, .stream = 5), 40, 50);
	take(s, CALL(WAIT_STREAM, .stream = 5), 40, 50);
	a = stream_of(s, 5).totals;
	b = stream_of(one, 5).totals;
	/* Between its calls the program did something else. */
	assert_int_equal(a.call_ns, b.call_ns - 3);
	a.call_ns = b.call_ns;
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_equal(span_of(s, GS_ACTIVITY_SPAN_WORK, 0),
			    span_of(one, GS_ACTIVITY_SPAN_WORK, 0),
			    sizeof(struct gs_activity_span));
	assert_false(gs_activity_read_pending(s->a, 1, &pending));
	/* In a capture all of it goes into the graph. */
	take(s, CALL(CAPTURE_BEGIN, .stream = 5), 60, 60);
	take(s, KERNEL(.stream = 5, .n_run = 4), 61, 62);
	assert_int_equal(stream_of(s, 5).totals.n_captured, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_and_gaps),
		cmocka_unit_test(test_pending_work_counts),
		cmocka_unit_test(test_sorts_of_work),
		cmocka_unit_test(test_event_divides_work),
		cmocka_unit_test(test_events_of_other_times),
		cmocka_unit_test(test_streams_wait_for_events),
		cmocka_unit_test(test_long_chain),
		cmocka_unit_test(test_legacy_default_stream),
		cmocka_unit_test(test_legacy_alone),
		cmocka_unit_test(test_per_thread_default_stream),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_handles_come_again),
		cmocka_unit_test(test_captured_work_does_not_run),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_copies_that_wait),
		cmocka_unit_test(test_work_during_a_wait),
		cmocka_unit_test(test_end_of_process),
		cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_run),
	};

	return cmocka_run_group_tests_name("gpu_activity/rules", tests, NULL, NULL);
}
