/* Ranks that wait for one that does not come, and ranks that call something else: named; ranks that are slow or idle: not. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/hang/hang.h"
#include "model/trace/func.h"

#define SECOND 1000000000ull
#define QUIET  (10 * SECOND)
#define RANKS  4
#define ID     0xabcull

enum { INT32 = 2, FLOAT32 = 7, NO_ROOT = 0xffff };

struct run {
	struct gs_hang *h;
	uint64_t now_ns;
	uint32_t reduce, gather, broadcast, bcast;
};

static uint32_t function_named(const char *name)
{
	for (uint32_t id = 1; id < GS_FUNC_FIXED; id++)
		if (gs_func_by_id(id) && strcmp(gs_func_by_id(id)->name, name) == 0)
			return id;
	fail_msg("no function %s", name);
	return 0;
}

static int run_begin(void **state)
{
	static struct run run;

	run = (struct run){.h = gs_hang_new(QUIET),
			   .now_ns = 100 * SECOND,
			   .reduce = function_named("ncclAllReduce"),
			   .gather = function_named("ncclAllGather"),
			   .broadcast = function_named("ncclBroadcast"),
			   .bcast = function_named("ncclBcast")};
	assert_non_null(run.h);
	for (uint32_t r = 0; r < RANKS; r++)
		gs_hang_set_member(run.h, r, 1000 + r, ID, (int32_t)r, RANKS);
	*state = &run;
	return 0;
}

static int run_end(void **state)
{
	struct run *run = *state;

	gs_hang_free(&run->h);
	return 0;
}

static struct gs_hang_op op_of(uint32_t function, uint64_t count, uint32_t type)
{
	return (struct gs_hang_op){
		.function = function, .aux = type | (uint32_t)NO_ROOT << 16, .count = count};
}

/* A rank calls now; each call is a microsecond after the one before it. */
static void call_op(struct run *run, uint32_t rank, struct gs_hang_op op)
{
	struct gs_hang_call call = {.op = op, .start_ns = run->now_ns, .tid = 2000 + rank};

	run->now_ns += 1000;
	gs_hang_take_call(run->h, rank, &call, false);
}

static void call_reduce(struct run *run, uint32_t rank)
{
	call_op(run, rank, op_of(run->reduce, 1024, FLOAT32));
}

static void step_all(struct run *run, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (uint32_t r = 0; r < RANKS; r++)
			call_reduce(run, r);
}

/* Half a second at a time, as the program looks; NULL: nothing is found. */
static const struct gs_hang_found *wait_for(struct run *run, uint64_t ns)
{
	for (uint64_t end_ns = run->now_ns + ns; run->now_ns < end_ns;) {
		const struct gs_hang_found *f;

		run->now_ns += SECOND / 2;
		gs_hang_check(run->h, run->now_ns, false);
		f = gs_hang_next(run->h);
		if (f)
			return f;
	}
	return NULL;
}

static void test_missing_rank(void **state)
{
	struct run *run = *state;
	char text[GS_HANG_TEXT_BYTES];
	const struct gs_hang_found *f;
	uint64_t began_ns;

	step_all(run, 40);
	began_ns = run->now_ns;
	for (uint32_t r = 0; r < RANKS; r++)
		if (r != 2)
			call_reduce(run, r);
	assert_null(wait_for(run, QUIET - SECOND));
	f = wait_for(run, 2 * SECOND);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_WAITS);
	assert_int_equal(f->since_ns, began_ns);
	assert_true(f->found_ns - began_ns <= QUIET + SECOND);
	assert_int_equal(f->call, 41);
	assert_int_equal(f->n_odd, 1);
	assert_int_equal(f->ranks[0].rank, 2);
	assert_int_equal(f->ranks[0].state, GS_HANG_MISSING);
	assert_int_equal(f->ranks[0].n_calls, 40);
	assert_int_equal(f->ranks[0].tid, 2002);
	assert_int_equal(f->ranks[1].state, GS_HANG_ARRIVED);
	assert_string_equal(
		gs_hang_text(f, text),
		"rank 2 (process 1002) has not arrived at collective 41 of communicator "
		"0xabc: 3 of 4 ranks waiting for 10.0 s in "
		"ncclAllReduce of 1024 float32");
	assert_string_equal(gs_hang_rank_text(f, &f->ranks[0], text),
			    "rank 2 (process 1002) last called ncclAllReduce of 1024 float32, "
			    "collective 40, 10.0 s ago");
	/* Once only; then it arrives. */
	assert_null(wait_for(run, 3 * QUIET));
	call_reduce(run, 2);
	f = wait_for(run, SECOND);
	assert_non_null(f);
	assert_int_equal(f->number, 1);
	assert_true(f->ended_ns > f->found_ns);
	assert_true(f->has_arrived);
	assert_null(wait_for(run, 3 * QUIET));
}

static void test_slow_and_idle(void **state)
{
	struct run *run = *state;

	for (unsigned i = 0; i < 20; i++) {
		for (uint32_t r = 0; r < RANKS; r++)
			if (r != 1)
				call_reduce(run, r);
		assert_null(wait_for(run, QUIET - SECOND));
		call_reduce(run, 1);
	}
	/* All have arrived: idle for as long as they like. */
	assert_null(wait_for(run, 100 * QUIET));
}

/* A rank that is many calls behind, and goes on. */
static void test_far_behind(void **state)
{
	struct run *run = *state;

	for (unsigned i = 0; i < 3 * GS_HANG_KEPT; i++)
		for (uint32_t r = 0; r < RANKS - 1; r++)
			call_reduce(run, r);
	for (unsigned i = 0; i < 3 * GS_HANG_KEPT; i++) {
		call_reduce(run, RANKS - 1);
		assert_null(wait_for(run, SECOND));
	}
	assert_null(wait_for(run, 10 * QUIET));
}

static void test_call_inside(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;
	struct gs_hang_call call = {.op = op_of(run->reduce, 1024, FLOAT32)};

	step_all(run, 1);
	for (uint32_t r = 0; r < 3; r++) {
		call.start_ns = run->now_ns + r;
		gs_hang_take_call(run->h, r, &call, true);
		gs_hang_take_call(run->h, r, &call, true);
	}
	f = wait_for(run, QUIET + SECOND);
	assert_non_null(f);
	assert_int_equal(f->call, 2);
	assert_int_equal(f->ranks[0].rank, 3);
	assert_true(f->ranks[1].is_inside);
	assert_int_equal(f->ranks[1].n_calls, 2);
}

static void test_dead_rank(void **state)
{
	struct run *run = *state;
	char text[GS_HANG_TEXT_BYTES];
	const struct gs_hang_found *f;

	step_all(run, 5);
	gs_hang_end_process(run->h, 1003, 0, run->now_ns);
	gs_hang_end_process(run->h, 1003, SIGKILL, run->now_ns);
	assert_null(wait_for(run, QUIET)); /* nobody waits for it */
	for (uint32_t r = 0; r < 3; r++)
		call_reduce(run, r);
	f = wait_for(run, 3 * SECOND); /* it is not waited for until all is quiet */
	assert_non_null(f);
	assert_int_equal(f->ranks[0].state, GS_HANG_ENDED);
	assert_string_equal(gs_hang_rank_text(f, &f->ranks[0], text),
			    "rank 3 (process 1003) was killed by signal 9 (Killed), last called "
			    "ncclAllReduce of 1024 float32, collective 5, 12.0 s ago");
}

/* Who waits is ended, too: nobody has arrived. */
static void test_given_up(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;

	for (uint32_t r = 0; r < 3; r++)
		call_reduce(run, r);
	assert_non_null(wait_for(run, QUIET + SECOND));
	for (uint32_t r = 0; r < RANKS; r++)
		gs_hang_end_process(run->h, 1000 + r, SIGTERM, run->now_ns);
	f = wait_for(run, SECOND);
	assert_non_null(f);
	assert_true(f->ended_ns);
	assert_false(f->has_arrived);
}

/* The job ends: those that wait have ended, too. */
static void test_all_end(void **state)
{
	struct run *run = *state;

	step_all(run, 5);
	call_reduce(run, 0);
	for (uint32_t r = 0; r < RANKS; r++)
		gs_hang_end_process(run->h, 1000 + r, 0, run->now_ns);
	assert_null(wait_for(run, 5 * QUIET));
}

/* NCCL gives an error to the others, which end by it; who asks a job to end has no such wish to hear. */
static void test_all_end_of_one(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;

	step_all(run, 5);
	call_reduce(run, 0);
	gs_hang_end_process(run->h, 1003, SIGTERM, run->now_ns);
	for (uint32_t r = 0; r < 3; r++)
		gs_hang_end_process(run->h, 1000 + r, SIGTERM, run->now_ns + SECOND);
	gs_hang_check(run->h, run->now_ns + 2 * SECOND, true);
	assert_null(gs_hang_next(run->h));
	gs_hang_end_process(run->h, 1003, SIGSEGV, run->now_ns);
	gs_hang_check(run->h, run->now_ns + SECOND, false);
	assert_null(gs_hang_next(run->h)); /* calls may come that are not known yet */
	gs_hang_check(run->h, run->now_ns + SECOND, true);
	f = gs_hang_next(run->h);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_WAITS);
	assert_int_equal(f->call, 6);
	for (size_t i = 0; i < f->n_odd; i++)
		if (f->ranks[i].rank == 3)
			assert_int_equal(f->ranks[i].end_signal, SIGSEGV);
	assert_null(wait_for(run, 5 * QUIET)); /* once */
}

/* One that waited crashed first: the others are asked to end, and what they would have called is not known. */
static void test_waiter_crashes(void **state)
{
	struct run *run = *state;

	step_all(run, 5);
	call_reduce(run, 0);
	gs_hang_end_process(run->h, 1000, SIGSEGV, run->now_ns);
	for (uint32_t r = 1; r < RANKS; r++)
		gs_hang_end_process(run->h, 1000 + r, SIGKILL, run->now_ns + 1);
	assert_null(wait_for(run, 5 * QUIET));
	gs_hang_check(run->h, run->now_ns, true);
	assert_null(gs_hang_next(run->h));
}

static void test_skipped(void **state)
{
	struct run *run = *state;
	char text[GS_HANG_TEXT_BYTES];
	const struct gs_hang_found *f;

	step_all(run, 9);
	for (uint32_t r = 0; r < RANKS; r++) {
		if (r != 1)
			call_op(run, r, op_of(run->gather, 512, FLOAT32));
		call_reduce(run, r);
	}
	f = wait_for(run, 3 * SECOND);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_DIFFERS);
	assert_int_equal(f->ranks[0].state, GS_HANG_SKIPPED);
	assert_string_equal(gs_hang_text(f, text),
			    "rank 1 (process 1001) skipped collective 10 of communicator "
			    "0xabc, ncclAllGather of 512 float32");
}

/* Who called something else waits, and so do the others: the mismatch is said, once, and no hang. */
static void test_differs_hangs(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;

	step_all(run, 9);
	for (uint32_t r = 0; r < RANKS; r++)
		if (r != 1)
			call_op(run, r, op_of(run->gather, 512, FLOAT32));
	call_reduce(run, 1);
	f = wait_for(run, QUIET);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_DIFFERS);
	assert_null(wait_for(run, 3 * QUIET));
	/* These go on, and the odd one does not come. */
	for (uint32_t r = 0; r < RANKS; r++)
		if (r != 1)
			call_op(run, r, op_of(run->gather, 512, FLOAT32));
	assert_null(wait_for(run, 3 * QUIET));
	/* Nobody left anything out, and it is long ago: a hang is one again. */
	call_reduce(run, 1);
	step_all(run, GS_HANG_KEPT);
	call_reduce(run, 0);
	f = wait_for(run, QUIET + SECOND);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_WAITS);
}

/* One that was left out: at any time later its rank is a call behind, which is no hang; a rank that is killed is one. */
static void test_skipped_hangs(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;

	for (uint32_t r = 0; r < RANKS; r++)
		if (r != 1)
			call_op(run, r, op_of(run->gather, 512, FLOAT32));
	step_all(run, 3 * GS_HANG_KEPT);
	f = wait_for(run, 3 * QUIET);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_DIFFERS);
	assert_null(wait_for(run, 3 * QUIET));
	gs_hang_end_process(run->h, 1001, SIGKILL, run->now_ns);
	f = wait_for(run, 3 * SECOND);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_WAITS);
	assert_int_equal(f->ranks[0].end_signal, SIGKILL);
}

/* Ranks in the call that makes a communicator, all but some; then none of them. */
static const struct gs_hang_found *join_for(struct run *run, uint64_t ns, uint64_t from_ns,
					    int first, int n_ranks)
{
	for (uint64_t end_ns = run->now_ns + ns; run->now_ns < end_ns;) {
		struct gs_hang_join list[RANKS];
		const struct gs_hang_found *f;
		size_t n = 0;

		for (int r = first; r < RANKS; r++)
			list[n++] = (struct gs_hang_join){
				.key = 77,
				.rank = r,
				.n_ranks = n_ranks,
				.pid = 1000u + (uint32_t)r,
				.tid = 1,
				.function = function_named("ncclCommInitRank"),
				.start_ns = from_ns + (uint64_t)r};
		run->now_ns += SECOND;
		gs_hang_take_joins(run->h, list, n, run->now_ns);
		gs_hang_check(run->h, run->now_ns, false);
		f = gs_hang_next(run->h);
		if (f)
			return f;
	}
	return NULL;
}

static void test_join(void **state)
{
	struct run *run = *state;
	char text[GS_HANG_TEXT_BYTES];
	const struct gs_hang_found *f;
	uint64_t from_ns = run->now_ns;

	assert_null(join_for(run, QUIET - SECOND, from_ns, 1, RANKS));
	f = join_for(run, 3 * SECOND, from_ns, 1, RANKS);
	assert_non_null(f);
	assert_int_equal(f->kind, GS_HANG_JOINS);
	assert_int_equal(f->n_odd, 1);
	assert_int_equal(f->ranks[0].rank, 0);
	assert_int_equal(f->ranks[0].state, GS_HANG_MISSING);
	assert_string_equal(
		gs_hang_text(f, text),
		"rank 0 has not called ncclCommInitRank in this trace: 3 of 4 ranks waiting in it for 11.0 s");
	assert_string_equal(gs_hang_rank_text(f, &f->ranks[1], text),
			    "rank 1 (process 1001) is in ncclCommInitRank for 11.0 s");
	/* Once; then it comes, and they have the communicator. */
	assert_null(join_for(run, 3 * QUIET, from_ns, 1, RANKS));
	gs_hang_take_joins(run->h, NULL, 0, run->now_ns);
	f = gs_hang_next(run->h);
	assert_non_null(f);
	assert_true(f->ended_ns && f->has_arrived);
	/* All are in it; or few of many, of whom nothing is known. */
	f = join_for(run, 2 * QUIET, run->now_ns, 0, RANKS);
	assert_non_null(f);
	assert_int_equal(f->n_odd, 0);
	assert_non_null(strstr(gs_hang_text(f, text), "all 4 ranks have called ncclCommInitRank"));
	gs_hang_end_process(run->h, 1002, SIGKILL, run->now_ns);
	gs_hang_take_joins(run->h, NULL, 0, run->now_ns);
	f = gs_hang_next(run->h);
	assert_non_null(f);
	assert_false(f->has_arrived);
	f = join_for(run, 2 * QUIET, run->now_ns, 0, 1000);
	assert_non_null(f);
	assert_int_equal(f->n_seen, RANKS);
	assert_non_null(strstr(gs_hang_text(f, text), "4 of 1000 ranks wait in ncclCommInitRank"));
	gs_hang_set_member(run->h, 50, 1003, 99, 3, 1000);
	gs_hang_check(run->h, run->now_ns, true);
	f = gs_hang_next(run->h);
	assert_non_null(f);
	assert_true(f->has_arrived);
}

static void test_differs(void **state)
{
	struct run *run = *state;
	const struct {
		struct gs_hang_op odd;
		const char *said;
	} cases[] = {
		{op_of(run->reduce, 2048, FLOAT32), "ncclAllReduce of 2048 float32"},
		{op_of(run->reduce, 1024, INT32), "ncclAllReduce of 1024 int32"},
		{op_of(run->gather, 1024, FLOAT32), "ncclAllGather of 1024 float32"},
	};

	for (uint32_t i = 0; i < 3; i++) {
		char text[GS_HANG_TEXT_BYTES], want[GS_HANG_TEXT_BYTES];
		const struct gs_hang_found *f;

		for (uint32_t r = 0; r < RANKS; r++)
			gs_hang_set_member(run->h, 10 * (i + 1) + r, 1000 + r, i + 1, (int32_t)r,
					   RANKS);
		for (uint32_t r = 0; r < RANKS; r++)
			call_op(run, 10 * (i + 1) + r,
				r == 3 ? cases[i].odd : op_of(run->reduce, 1024, FLOAT32));
		f = wait_for(run, 3 * SECOND);
		assert_non_null(f);
		snprintf(want, sizeof(want),
			 "rank 3 (process 1003) called %s as collective 1 of communicator "
			 "0x%x, the others ncclAllReduce of 1024 float32",
			 cases[i].said, i + 1);
		assert_string_equal(gs_hang_text(f, text), want);
		assert_int_equal(f->ranks[0].state, GS_HANG_ODD);
		assert_int_equal(f->n_odd, 1);
		assert_null(wait_for(run, 2 * QUIET));
	}
}

/* Of two nobody is the odd one; the other form of a function is the same. */
static void test_two_ranks(void **state)
{
	struct run *run = *state;
	const struct gs_hang_found *f;
	char text[GS_HANG_TEXT_BYTES];

	for (uint32_t r = 0; r < 2; r++) {
		gs_hang_set_member(run->h, 20 + r, 1000 + r, 7, (int32_t)r, 2);
		call_op(run, 20 + r, op_of(r ? run->bcast : run->broadcast, 1, INT32));
	}
	assert_null(wait_for(run, 2 * QUIET));
	call_op(run, 20, op_of(run->gather, 1, INT32));
	call_op(run, 21, op_of(run->reduce, 1, INT32));
	gs_hang_check(run->h, run->now_ns, false);
	assert_null(gs_hang_next(run->h)); /* a loss may yet be reported */
	gs_hang_check(run->h, run->now_ns, true);
	f = gs_hang_next(run->h);
	assert_non_null(f);
	assert_int_equal(f->n_odd, 0);
	assert_string_equal(gs_hang_text(f, text),
			    "ranks make different calls as collective 2 of communicator "
			    "0x7");
	assert_string_equal(gs_hang_rank_text(f, &f->ranks[1], text),
			    "rank 1 (process 1001) called ncclAllReduce of 1 int32 here");
}

static void test_lost_calls(void **state)
{
	struct run *run = *state;

	step_all(run, 3);
	call_reduce(run, 0);
	gs_hang_lose_calls(run->h, 1001);
	assert_null(wait_for(run, 5 * QUIET));
}

/* A rank of another node has not been put in. */
static void test_other_node(void **state)
{
	struct run *run = *state;

	gs_hang_set_member(run->h, 30, 1, 9, 0, 2);
	call_op(run, 30, op_of(run->reduce, 1, INT32));
	assert_null(wait_for(run, 5 * QUIET));
}

static void test_limits(void **state)
{
	struct run *run = *state;
	unsigned n = 0;

	gs_hang_set_member(run->h, GS_HANG_MAX_MEMBERS, 1, 1, 0, 2);
	for (uint32_t i = 0; i < 2 * (GS_HANG_MAX_FOUND + 6); i++)
		gs_hang_set_member(run->h, 100 + i, 1, 100 + i / 2, (int32_t)(i % 2), 2);
	for (uint32_t i = 0; i < GS_HANG_MAX_FOUND + 6; i++)
		call_op(run, 100 + 2 * i, op_of(run->reduce, 1, INT32));
	run->now_ns += 2 * QUIET;
	gs_hang_check(run->h, run->now_ns, false);
	while (gs_hang_next(run->h))
		n++;
	assert_int_equal(n, GS_HANG_MAX_FOUND);
	assert_int_equal(gs_hang_n_left_out(run->h), 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, run_begin, run_end)
	const struct CMUnitTest tests[] = {
		TEST(test_missing_rank),  TEST(test_slow_and_idle),  TEST(test_far_behind),
		TEST(test_call_inside),   TEST(test_dead_rank),      TEST(test_all_end),
		TEST(test_given_up),      TEST(test_skipped),        TEST(test_differs),
		TEST(test_differs_hangs), TEST(test_skipped_hangs),  TEST(test_join),
		TEST(test_two_ranks),     TEST(test_lost_calls),     TEST(test_other_node),
		TEST(test_limits),        TEST(test_all_end_of_one), TEST(test_waiter_crashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
