/* Which context a thread's calls are for, rule by rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_activity/script.h"

#define PRIMARY(handle, device) CALL(CONTEXT_PRIMARY, .event = {handle}, .flags = (device))
#define MAKE(handle, device)    CALL(CONTEXT_NEW, .event = {handle}, .flags = (device))
#define SET(handle)             CALL(CONTEXT_SET, .event = {handle})
#define PUSH(handle)            CALL(CONTEXT_PUSH, .event = {handle})
#define POP()                   CALL(CONTEXT_POP)
#define P0                      0x5000
#define P1                      0x5001
#define OWN                     0x6000

/* Pieces of work in the default stream of a context, by its handle; 0 the device's primary one. */
static uint64_t work_in(struct script *s, uint32_t device, uint64_t handle)
{
	struct gs_activity_stream one;
	uint64_t n = 0;

	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++)
		if (gs_activity_read_stream(s->a, i, &one) && one.process == s->process &&
		    one.context == device && one.context_handle == handle)
			n += gs_activity_totals_work(&one.totals);
	return n;
}

/* Of these, in a context of device 0. */
static uint64_t pending_in(struct script *s, uint64_t handle)
{
	struct gs_activity_stream one;
	uint64_t n = 0;

	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++)
		if (gs_activity_read_stream(s->a, i, &one) && one.context == 0 &&
		    one.context_handle == handle)
			n += one.n_pending;
	return n;
}

static void launch(struct script *s, uint32_t thread)
{
	static uint64_t now_ns;

	now_ns += 2;
	take(s, KERNEL(.stream = 0, .thread = thread), now_ns, now_ns + 1);
}

static void test_primary_contexts(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, PRIMARY(P0, 0), 1, 1);
	take(s, PRIMARY(P1, 1), 1, 1);
	take(s, SET(P1), 1, 1);
	launch(s, 1);
	/* The same as that of the runtime. */
	take(s, CALL(SET_DEVICE, .flags = 1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 2);
	take(s, SET(P0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 1);
	/* None: what the runtime chose last. */
	take(s, SET(0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 3);
	/* Of this thread alone. */
	launch(s, 2);
	assert_int_equal(work_in(s, 0, 0), 2);
}

static void test_stack(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, PRIMARY(P1, 1), 1, 1);
	take(s, PUSH(P1), 1, 1);
	launch(s, 1);
	take(s, MAKE(OWN, 1), 1, 1);
	launch(s, 1);
	launch(s, 1);
	take(s, POP(), 1, 1);
	launch(s, 1);
	take(s, POP(), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 2);
	assert_int_equal(work_in(s, 1, OWN), 2);
	assert_int_equal(work_in(s, 0, 0), 1);
	/* Deeper than is remembered: what is below that is not known. */
	for (unsigned i = 0; i < 8; i++)
		take(s, PUSH(P1), 1, 1);
	for (unsigned i = 0; i < 8; i++)
		take(s, POP(), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0), 1);
}

/* Contexts of one device have default streams of their own, and are waited for apart. */
static void test_apart(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_context c;
	unsigned n = 0;

	launch(s, 1);
	take(s, MAKE(OWN, 0), 1, 1);
	launch(s, 1);
	take(s, CALL(WAIT_DEVICE), 100, 110);
	for (uint32_t i = 0; i < gs_activity_count_contexts(s->a); i++) {
		gs_activity_read_context(s->a, i, &c);
		assert_int_equal(c.context, 0);
		n += c.handle == OWN && c.n_syncs == 1 && c.wait_ns == 10;
		n += c.handle == 0 && c.n_syncs == 0;
	}
	assert_int_equal(n, 2);
	assert_int_equal(pending_in(s, 0), 1);
	assert_int_equal(pending_in(s, OWN), 0);
	/* By its handle, from another thread. */
	launch(s, 1);
	take(s, CALL(WAIT_DEVICE, .thread = 2, .event = {0, OWN}), 120, 130);
	take(s, POP(), 131, 131);
	take(s, CALL(WAIT_DEVICE), 140, 150);
	for (uint32_t i = 0; i < gs_activity_count_contexts(s->a); i++) {
		gs_activity_read_context(s->a, i, &c);
		assert_int_equal(c.n_syncs, c.handle == OWN ? 2 : 1);
	}
}

static void test_destroyed(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_stream one;
	unsigned n_ended = 0;

	take(s, MAKE(OWN, 1), 1, 1);
	launch(s, 1);
	take(s, SET(OWN), 1, 1);
	take(s, CALL(CONTEXT_END, .event = {OWN}, .thread = 2), 1000, 1000);
	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++)
		n_ended += gs_activity_read_stream(s->a, i, &one) && one.ended && !one.n_pending;
	assert_int_equal(n_ended, 1);
	/* The thread is in none that is known; another context has the handle. */
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0), 1);
	take(s, MAKE(OWN, 2), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 2, OWN), 1);
	assert_int_equal(work_in(s, 1, OWN), 1);
	/* That of the device is not destroyed so. */
	take(s, PRIMARY(P0, 0), 1, 1);
	take(s, CALL(CONTEXT_END, .event = {P0}), 2000, 2000);
	take(s, SET(P0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 1);
}

static void test_unknown_handles(void **state)
{
	SCRIPT s = script_new(NULL);

	/* Of before the trace: apart, of no device that is known, until it is asked for. */
	take(s, SET(P1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, P1), 1);
	take(s, PRIMARY(P1, 1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 2);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, P1), 0);
	assert_int_equal(gs_activity_count_contexts(s->a), 1);
}

/* What the runtime of CUDA 13.0 does in a thread that chose no device: PyTorch with two GPUs. */
static void test_chosen_before_retained(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, SET(P0), 1, 1);
	take(s, PRIMARY(P0, 0), 1, 1);
	assert_int_equal(gs_activity_thread_context(s->a, 1), 0);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 1);
	take(s, PRIMARY(P1, 1), 1, 1); /* inside of cudaSetDevice */
	take(s, CALL(SET_DEVICE, .flags = 1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 1);
	take(s, CALL(SET_DEVICE, .flags = 0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 2);
	assert_int_equal(gs_activity_count_contexts(s->a), 2);
}

/* The same after another device, whose handle was seen (P1) or not (0). */
static void check_second_device(uint64_t first_handle)
{
	SCRIPT s = script_new(NULL);

	take(s, PRIMARY(first_handle, 1), 1, 1);
	take(s, SET(P0), 1, 1);
	take(s, CALL(CONTEXT_SET, .event = {P0}, .thread = 2), 1, 1);
	take(s, PRIMARY(P0, 0), 1, 1);
	launch(s, 1);
	launch(s, 2);
	assert_int_equal(work_in(s, 0, 0), 2);
	take(s, SET(P1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 1);
	assert_int_equal(gs_activity_count_contexts(s->a), 2);
}

static void test_second_device(void **state)
{
	check_second_device(P1);
	check_second_device(0);
}

/* The thread chose the device's context itself, and then another handle is that device's. */
static void test_wrong_guess(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, PRIMARY(0, 1), 1, 1);
	take(s, SET(0x7000), 1, 1);
	take(s, PRIMARY(P1, 1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 0);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0), 1);
	take(s, SET(P1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 1);
	/* By cudaSetDevice it is there whatever handles are. */
	take(s, CALL(SET_DEVICE, .flags = 1), 1, 1);
	take(s, PRIMARY(0x7000, 2), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 2);
}

static void test_not_clear(void **state)
{
	SCRIPT s = script_new(NULL);

	/* Both handles are known: this is neither. */
	take(s, PRIMARY(P0, 0), 1, 1);
	take(s, PRIMARY(P1, 1), 1, 1);
	take(s, SET(0x7000), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0x7000), 1);
	/* Both were not seen: it may be either, until it is asked for. */
	s->process = 2;
	take(s, PRIMARY(0, 0), 1, 1);
	take(s, PRIMARY(0, 1), 1, 1);
	take(s, SET(P1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, P1), 1);
	take(s, PRIMARY(P1, 1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 1, 0), 2);
	/* That leaves one. */
	take(s, SET(P0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 1);
	/* Attached to late: a context was made before, which no primary one is. */
	s->process = 3;
	gs_activity_begin_late(s->a, 3);
	take(s, SET(OWN), 1, 1);
	take(s, PRIMARY(P0, 0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, OWN), 1);
}

/* A handle that was not seen is that of a context that was made, and not the one chosen next. */
static void test_made_unseen(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, MAKE(0, 2), 1, 1);
	launch(s, 1);
	take(s, POP(), 1, 1);
	take(s, SET(P0), 1, 1);
	take(s, PRIMARY(P0, 0), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 0, 0), 1);
	take(s, SET(OWN), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 2, OWN), 2);
}

/* Known too late to be one with the device's context: of that device all the same. */
static void test_two_of_one(void **state)
{
	SCRIPT s = script_new(NULL);

	launch(s, 2);
	take(s, SET(P0), 1, 1);
	launch(s, 1);
	take(s, PUSH(P1), 1, 1);
	take(s, PRIMARY(P0, 0), 1, 1);
	take(s, POP(), 1, 1);
	launch(s, 1);
	take(s, CALL(CONTEXT_SET, .event = {P0}, .thread = 3), 1, 1);
	launch(s, 3);
	assert_int_equal(work_in(s, 0, 0), 4);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, P0), 0);
}

/* It was below another, and is no more when that is popped. */
static void test_destroyed_below(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, MAKE(OWN, 1), 1, 1);
	take(s, PUSH(P1), 1, 1);
	take(s, CALL(CONTEXT_END, .event = {OWN}, .thread = 2), 5, 5);
	take(s, CALL(CONTEXT_NEW, .event = {0x6001}, .flags = 3, .thread = 2), 6, 6);
	take(s, POP(), 7, 7);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0), 1);
}

/* Of cuCtxGetCurrent, chosen in another thread: by the stream that it uses. */
static void test_learned_by_stream(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, CALL(SET_DEVICE, .flags = 3), 1, 1);
	take(s, KERNEL(.stream = 0x990), 1, 2);
	take(s, CALL(CONTEXT_SET, .event = {P1}, .thread = 2), 1, 1);
	launch(s, 2);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, P1), 1);
	take(s, KERNEL(.stream = 0x990, .thread = 2), 3, 4);
	launch(s, 2);
	assert_int_equal(work_in(s, 3, 0), 3);
	/* And of all that choose it. */
	take(s, CALL(CONTEXT_SET, .event = {P1}, .thread = 4), 1, 1);
	launch(s, 4);
	assert_int_equal(work_in(s, 3, 0), 4);
}

/* First calls: the handle was not seen. */
static void test_unseen_handles(void **state)
{
	SCRIPT s = script_new(NULL);

	take(s, PRIMARY(0, 3), 1, 1);
	take(s, PUSH(P1), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 3, 0), 1);
	take(s, MAKE(0, 2), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 2, 0), 1);
	take(s, SET(OWN), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, 2, OWN), 2);
	/* Two of other threads: which of them is not clear. */
	take(s, CALL(CONTEXT_NEW, .flags = 4, .thread = 2), 1, 1);
	take(s, CALL(CONTEXT_NEW, .flags = 5, .thread = 3), 1, 1);
	take(s, SET(0x7000), 1, 1);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0x7000), 1);
}

static void test_bounded(void **state)
{
	SCRIPT s = script_new(&(struct gs_activity_config){.max_contexts = 4});

	for (unsigned i = 0; i < 100; i++)
		take(s, SET(0x9000 + i), 1, 1);
	assert_int_equal(gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_PROCESSES), 96);
	launch(s, 1);
	assert_int_equal(work_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0), 1);
	/* An ended process makes room. */
	gs_activity_end_process(s->a, 1, 10);
	s->process = 2;
	take(s, CALL(CONTEXT_PRIMARY, .event = {P1}, .flags = 1, .thread = 2), 20, 20);
	take(s, CALL(CONTEXT_SET, .event = {P1}, .thread = 2), 20, 20);
	launch(s, 2);
	assert_int_equal(work_in(s, 1, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_primary_contexts),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_destroyed),
		cmocka_unit_test(test_unknown_handles),
		cmocka_unit_test(test_unseen_handles),
		cmocka_unit_test(test_chosen_before_retained),
		cmocka_unit_test(test_second_device),
		cmocka_unit_test(test_wrong_guess),
		cmocka_unit_test(test_not_clear),
		cmocka_unit_test(test_made_unseen),
		cmocka_unit_test(test_two_of_one),
		cmocka_unit_test(test_destroyed_below),
		cmocka_unit_test(test_learned_by_stream),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests_name("gpu_activity/contexts", tests, NULL, NULL);
}
