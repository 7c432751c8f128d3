/* Who has to go when there is no place left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/share.h"

#define ASK(owner) gs_shares_ask(&s, (owner), &victim)

static void an_owner_with_a_full_share_displaces_its_own(void **state)
{
	struct gs_shares s = GS_SHARES_INIT(10, 2);
	struct gs_share a[3] = {0}, *victim;

	(void)state;
	assert_int_equal(ASK(7), GS_SHARE_FREE);
	assert_int_equal(gs_share_take(&s, 7, &a[0]), 0);
	assert_int_equal(gs_share_take(&s, 7, &a[1]), 0);
	assert_int_equal(ASK(7), GS_SHARE_OWNER_FULL);
	assert_int_equal(ASK(8), GS_SHARE_FREE);
	gs_share_rest(&s, &a[0]);
	gs_share_rest(&s, &a[1]);
	assert_int_equal(ASK(7), GS_SHARE_EVICT);
	assert_ptr_equal(victim, &a[0]);
	gs_share_rest(&s, &a[0]); /* now it has rested for a shorter time */
	assert_int_equal(ASK(7), GS_SHARE_EVICT);
	assert_ptr_equal(victim, &a[1]);
	gs_share_work(&s, &a[1]);
	assert_int_equal(ASK(7), GS_SHARE_EVICT);
	assert_ptr_equal(victim, &a[0]);
	gs_share_leave(&s, &a[0]);
	gs_share_leave(&s, &a[0]); /* holds none */
	assert_int_equal(ASK(7), GS_SHARE_FREE);
	gs_share_leave(&s, &a[1]);
	assert_int_equal(s.n, 0);
	gs_shares_fini(&s);
}

static void without_places_the_greediest_gives_one(void **state)
{
	struct gs_shares s = GS_SHARES_INIT(6, 6);
	struct gs_share a[4] = {0}, b = {0}, c = {0}, *victim;

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(gs_share_take(&s, 1, &a[i]), 0);
		gs_share_rest(&s, &a[i]);
	}
	assert_int_equal(gs_share_take(&s, 2, &b), 0);
	gs_share_rest(&s, &b);
	assert_int_equal(gs_share_take(&s, 3, &c), 0);
	for (uint64_t owner = 1; owner <= 4; owner++) {
		assert_int_equal(ASK(owner), GS_SHARE_EVICT);
		assert_ptr_equal(victim, &a[0]);
	}
	for (int i = 0; i < 4; i++)
		gs_share_work(&s, &a[i]);
	/* The greediest works on all of them: somebody who is new comes before b, not before
	 * itself. */
	assert_int_equal(ASK(4), GS_SHARE_EVICT);
	assert_ptr_equal(victim, &b);
	assert_int_equal(ASK(3), GS_SHARE_FULL);
	assert_int_equal(ASK(1), GS_SHARE_FULL);
	gs_share_work(&s, &b);
	assert_int_equal(ASK(4), GS_SHARE_FULL);
	s.max = 7;
	assert_int_equal(ASK(4), GS_SHARE_FREE);
	for (int i = 0; i < 4; i++)
		gs_share_leave(&s, &a[i]);
	gs_share_leave(&s, &b);
	gs_share_leave(&s, &c);
	gs_shares_fini(&s);
}

/* Against a plain count: whatever happens, the victim rests, and no other owner with something at
 * rest has more. */
static void anything_in_any_order(void **state)
{
	enum { N = 200, OWNERS = 20 };
	static struct gs_share place[N];
	struct gs_shares s = GS_SHARES_INIT(N / 2, N / 4);
	unsigned n[OWNERS] = {0}, owner_of[N] = {0};
	struct gs_share *victim;

	(void)state;
	srandom(1);
	for (int round = 0; round < 100000; round++) {
		unsigned i = (unsigned)random() % N, o = (unsigned)random() % OWNERS,
			 resting[OWNERS] = {0};
		o = o * o / OWNERS; /* some have more than others */
		switch (random() % 4) {
		case 0:
			if (place[i].owner)
				break;
			assert_int_equal(gs_share_take(&s, o, &place[i]), 0);
			owner_of[i] = o;
			n[o]++;
			break;
		case 1:
			n[owner_of[i]] -= place[i].owner != NULL;
			gs_share_leave(&s, &place[i]);
			break;
		case 2:
			gs_share_rest(&s, &place[i]);
			break;
		case 3:
			gs_share_work(&s, &place[i]);
			break;
		}
		if (round % 100 || ASK(o) != GS_SHARE_EVICT)
			continue;
		assert_true(victim->resting);
		for (unsigned k = 0; k < N; k++)
			resting[owner_of[k]] += place[k].owner && place[k].resting;
		i = (unsigned)(victim - place);
		for (unsigned k = 0; k < OWNERS && owner_of[i] != o; k++)
			assert_true(!resting[k] || n[k] <= n[owner_of[i]]);
	}
	for (unsigned i = 0; i < N; i++)
		gs_share_leave(&s, &place[i]);
	assert_int_equal(s.n, 0);
	assert_int_equal(s.owners.n_used, 0);
	gs_shares_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_owner_with_a_full_share_displaces_its_own),
		cmocka_unit_test(without_places_the_greediest_gives_one),
		cmocka_unit_test(anything_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
