/* Collectives of ranks matched by their number, and calls that cannot be: counted, never guessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/collectives/collectives.h"

#define MS    1000000ull
#define RANKS 3
#define STEP  (10 * MS)

enum { REDUCE = 7, GATHER = 8 };

struct run {
	struct gs_collectives *c;
	struct gs_summary *s;
	uint32_t member[RANKS];
};

static int run_begin(void **state)
{
	static struct run run;

	run = (struct run){.c = gs_collectives_new(), .s = calloc(1, sizeof(*run.s))};
	assert_non_null(run.c);
	for (uint32_t r = 0; r < RANKS; r++)
		run.member[r] = gs_collectives_add_member(run.c, 100 + r);
	*state = &run;
	return 0;
}

static int run_end(void **state)
{
	struct run *run = *state;

	gs_summary_free(&run->s);
	gs_collectives_free(&run->c);
	return 0;
}

static void identify(struct run *run, uint32_t rank)
{
	gs_collectives_set_identity(run->c, run->member[rank], 0xabc, (int32_t)rank, RANKS);
}

static void identify_all(struct run *run)
{
	for (uint32_t r = 0; r < RANKS; r++)
		identify(run, r);
}

/* Collective number step of a rank, that many ns after its time. */
static void call_late(struct run *run, uint32_t rank, uint64_t step, uint64_t what,
		      uint64_t late_ns)
{
	struct gs_collectives_call call = {
		.start_ns = (step + 1) * STEP + late_ns, .dur_ns = 1000, .what = what};

	gs_collectives_add_call(run->c, run->member[rank], &call);
}

static const struct gs_collectives_summary *summary_of(struct run *run)
{
	uint64_t n = 0;

	assert_int_equal(gs_collectives_add_summary(run->c, run->s), 0);
	assert_non_null(run->s->collectives);
	for (unsigned i = 0; i < GS_COLLECTIVES_N_CAUSES; i++)
		n += run->s->collectives->left_out[i];
	/* Each call is matched or left out. */
	assert_int_equal(run->s->collectives->n_calls, run->s->collectives->n_matched + n);
	return run->s->collectives;
}

/* Ranks 0 to 2 in steps from first on; rank 1 is 3 ms late. */
static void call_steps(struct run *run, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++)
		for (uint32_t r = 0; r < RANKS; r++)
			call_late(run, r, i, REDUCE, r == 1 ? 3 * MS : r * 1000);
}

static void late_rank_is_found(void **state)
{
	const struct gs_collectives_summary *s;
	const struct gs_collectives_comm *c;

	identify_all(*state);
	call_steps(*state, 0, 1000);
	s = summary_of(*state);
	assert_int_equal(s->n_matched, 1000 * RANKS);
	assert_int_equal(s->n_comms, 1);
	c = &s->comms[0];
	assert_int_equal(c->n_matched, 1000);
	assert_int_equal(c->span_ns, 999 * STEP + 3 * MS);
	assert_ptr_equal(c->late, &c->ranks[1]);
	assert_int_equal(c->late->n_last, 1000);
	assert_int_equal(c->late->late_max_ns, 3 * MS);
	assert_in_range(c->late->late_p50_ns, 2800000, 3 * MS);
	assert_int_equal(c->late->margin_sum_ns, 1000 * (3 * MS - 2000));
	assert_int_equal(c->ranks[0].late_max_ns, 0);
	assert_int_equal(c->ranks[2].late_max_ns, 2000);
	assert_int_equal(c->ranks[2].n_last, 0);
	assert_int_equal(c->ranks[0].calls_ns, 1000 * 1000);
}

/* Always the last, but by what matters to nobody; and by much, but each in its turn. */
static void near_misses_do_not_stand_out(void **state)
{
	struct run *run = *state;

	identify_all(run);
	for (uint64_t i = 0; i < 300; i++)
		for (uint32_t r = 0; r < RANKS; r++)
			call_late(run, r, i, REDUCE, r == 2 ? 90000 : 0);
	assert_null(summary_of(run)->comms[0].late);
	for (uint64_t i = 300; i < 1000; i++)
		for (uint32_t r = 0; r < RANKS; r++)
			call_late(run, r, i, REDUCE, i % RANKS == r ? 5 * MS : 0);
	assert_null(summary_of(run)->comms[0].late);
	assert_int_equal(run->s->collectives->comms[0].n_matched, 1000);
}

/* Who they are becomes known after their first calls, as of a split. */
static void calls_wait_for_identity(void **state)
{
	struct run *run = *state;

	identify(run, 0);
	call_steps(run, 0, 30);
	identify(run, 1);
	call_steps(run, 30, 30);
	identify(run, 2);
	call_steps(run, 60, 40);
	assert_int_equal(summary_of(run)->comms[0].n_matched, 100);
}

static void unknown_ranks_are_counted(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;

	call_steps(run, 0, GS_COLLECTIVES_MAX_AHEAD + 10);
	s = summary_of(run);
	assert_int_equal(s->n_comms, 0);
	assert_int_equal(s->left_out[GS_COLLECTIVES_UNKNOWN],
			 (GS_COLLECTIVES_MAX_AHEAD + 10) * RANKS);
}

/* A lost call moves the numbers of all that follow: none is matched that came close before the loss
 * was reported or later; a communicator made after it is. */
static void lost_calls_end_the_matching(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;

	identify_all(run);
	call_steps(run, 0, 1000);
	for (uint64_t i = 1000; i < 1050; i++)
		for (uint32_t r = 0; r < RANKS; r++)
			if (r != 2 || i != 1000)
				call_late(run, r, i, REDUCE, 0);
	gs_collectives_lose_calls(run->c, 102);
	call_steps(run, 1050, 100);
	s = summary_of(run);
	assert_in_range(s->comms[0].n_matched, 700, 1000);
	assert_int_equal(s->left_out[GS_COLLECTIVES_LOST], s->n_calls - s->n_matched);
	/* No figure is of a wrong match, which would be late by a whole step. */
	for (uint32_t r = 0; r < RANKS; r++)
		assert_true(s->comms[0].ranks[r].late_max_ns <= 3 * MS);
	for (uint32_t r = 0; r < RANKS; r++) {
		run->member[r] = gs_collectives_add_member(run->c, 100 + r);
		gs_collectives_set_identity(run->c, run->member[r], 0xdef, (int32_t)r, RANKS);
	}
	call_steps(run, 2000, 50);
	s = summary_of(run);
	assert_int_equal(s->n_comms, 2);
	assert_int_equal(s->comms[0].n_matched + s->comms[1].n_matched,
			 50 + s->n_matched / RANKS - 50);
	assert_int_equal(s->comms[1].n_matched, 50);
}

static void lost_of_others_do_not(void **state)
{
	struct run *run = *state;

	identify_all(run);
	call_steps(run, 0, 10);
	gs_collectives_lose_calls(run->c, 999);
	call_steps(run, 10, 10);
	assert_int_equal(summary_of(run)->comms[0].n_matched, 20);
}

static void different_calls_end_the_matching(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;

	identify_all(run);
	call_steps(run, 0, 40);
	for (uint32_t r = 0; r < RANKS; r++)
		call_late(run, r, 40, r == 0 ? GATHER : REDUCE, 0);
	call_steps(run, 41, 10);
	s = summary_of(run);
	assert_int_equal(s->comms[0].n_matched, 40);
	assert_int_equal(s->left_out[GS_COLLECTIVES_DIFFERS], 11 * RANKS);
}

/* A rank stops: what the others do then is unmatched, in bounded memory, however long. */
static void dead_rank_is_missing(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;
	const uint64_t n = 3ull * GS_COLLECTIVES_MAX_AHEAD;

	identify_all(run);
	call_steps(run, 0, 40);
	for (uint64_t i = 40; i < 40 + n; i++)
		for (uint32_t r = 0; r < 2; r++)
			call_late(run, r, i, REDUCE, 0);
	s = summary_of(run);
	assert_int_equal(s->comms[0].n_matched, 40);
	assert_int_equal(s->left_out[GS_COLLECTIVES_MISSING], 2 * n);
	/* It was only slow: what has a partner still is matched, with the right one. */
	for (uint64_t i = 40; i < 40 + n; i++)
		call_late(run, 2, i, REDUCE, 2 * MS);
	s = summary_of(run);
	assert_int_equal(s->comms[0].n_matched, 40 + GS_COLLECTIVES_MAX_AHEAD);
	assert_int_equal(s->comms[0].ranks[2].late_max_ns, 2 * MS);
}

/* Of three ranks two are traced. */
static void some_ranks_are_compared(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;

	identify(run, 0);
	identify(run, 1);
	for (uint64_t i = 0; i < 50; i++)
		for (uint32_t r = 0; r < 2; r++)
			call_late(run, r, i, REDUCE, r * MS);
	s = summary_of(run);
	assert_int_equal(s->comms[0].n_seen, 2);
	assert_int_equal(s->comms[0].n_ranks, RANKS);
	assert_int_equal(s->comms[0].n_matched, 50);
	assert_int_equal(s->comms[0].late->rank, 1);
}

/* A program that uses an id twice has two communicators. */
static void same_id_again_is_another(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_summary *s;

	identify_all(run);
	call_steps(run, 0, 30);
	for (uint32_t r = 0; r < RANKS; r++)
		run->member[r] = gs_collectives_add_member(run->c, 100 + r);
	identify_all(run);
	call_steps(run, 30, 20);
	s = summary_of(run);
	assert_int_equal(s->n_comms, 2);
	assert_int_equal(s->comms[0].n_matched, 30);
	assert_int_equal(s->comms[1].n_matched, 20);
}

/* Identities out of foreign bytes, and more members than there is room for. */
static void bounds_hold(void **state)
{
	struct run *run = *state;
	struct gs_collectives_call call = {.start_ns = 1};

	gs_collectives_set_identity(run->c, run->member[0], 5, 3, 3);
	gs_collectives_set_identity(run->c, run->member[0], 5, -1, 3);
	gs_collectives_set_identity(run->c, run->member[0], 0, 0, 3);
	gs_collectives_set_identity(run->c, 12345, 5, 0, 3);
	gs_collectives_add_call(run->c, 0, &call);
	gs_collectives_add_call(run->c, 12345, &call);
	gs_collectives_set_identity(run->c, run->member[0], UINT64_MAX, INT32_MAX - 1, INT32_MAX);
	gs_collectives_add_call(run->c, run->member[0], &call);
	for (int i = RANKS; i < GS_COLLECTIVES_MAX_MEMBERS; i++)
		assert_int_not_equal(gs_collectives_add_member(run->c, 1), 0);
	assert_int_equal(gs_collectives_add_member(run->c, 1), 0);
	assert_int_equal(summary_of(run)->left_out[GS_COLLECTIVES_ALONE], 1);
}

/* All places are taken by calls that wait: those that find none end the matching of their own. */
static void no_room_is_counted(void **state)
{
	struct run *run = *state;
	uint32_t members[GS_COLLECTIVES_MAX_ARRIVALS / GS_COLLECTIVES_MAX_AHEAD];
	struct gs_collectives_call call = {.start_ns = 1, .what = REDUCE};
	const struct gs_collectives_summary *s;

	identify_all(run);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		members[i] = gs_collectives_add_member(run->c, 7);
		for (unsigned n = 0; n < GS_COLLECTIVES_MAX_AHEAD; n++)
			gs_collectives_add_call(run->c, members[i], &call);
	}
	call_steps(run, 0, 10);
	s = summary_of(run);
	assert_int_equal(s->n_matched, 0);
	assert_int_equal(s->left_out[GS_COLLECTIVES_NO_ROOM], 10 * RANKS);
	assert_int_equal(s->left_out[GS_COLLECTIVES_UNKNOWN], GS_COLLECTIVES_MAX_ARRIVALS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, run_begin, run_end)

/* Four collectives in flight at a time, each 3 ms late: the time counts once. */
static void time_counts_once(void **state)
{
	struct run *run = *state;
	const struct gs_collectives_comm *c;

	identify_all(run);
	for (uint64_t step = 0; step < 100; step++)
		for (uint64_t k = 0; k < 4; k++)
			for (uint32_t r = 0; r < RANKS; r++)
				call_late(run, r, step, REDUCE,
					  k * 1000 + (r == 2 ? 3 * MS : r * 100));
	c = summary_of(run)->comms;
	assert_int_equal(c->n_matched, 400);
	assert_ptr_equal(c->late, &c->ranks[2]);
	assert_int_equal(c->late->margin_sum_ns, 400 * (3 * MS - 100));
	assert_int_equal(c->late->late_total_ns, 100 * (3 * MS + 3000));
	assert_int_equal(c->late->missing_ns, 100 * (3 * MS + 3000 - 100));
	assert_int_equal(c->ranks[0].late_total_ns, 0);
	assert_int_equal(c->ranks[1].late_total_ns, 400 * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(late_rank_is_found),
		TEST(near_misses_do_not_stand_out),
		TEST(calls_wait_for_identity),
		TEST(unknown_ranks_are_counted),
		TEST(lost_calls_end_the_matching),
		TEST(lost_of_others_do_not),
		TEST(different_calls_end_the_matching),
		TEST(dead_rank_is_missing),
		TEST(some_ranks_are_compared),
		TEST(same_id_again_is_another),
		TEST(bounds_hold),
		TEST(no_room_is_counted),
		TEST(time_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
