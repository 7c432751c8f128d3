/* Communicators: what each call that makes one tells, and what is learned later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingest_test.h"

static struct gs_event_comm make_comm(uint32_t pid, const char *function, uint64_t comm)
{
	return (struct gs_event_comm){
		.head = {.kind = GS_EV_COMM, .bytes = sizeof(struct gs_event_comm)},
		.time_ns = 1000,
		.pid = pid,
		.tid = pid,
		.func = func_id(function),
		.comm = comm,
		.n_ranks = -1,
		.rank = -1,
	};
}

static const struct gs_rec_comm *send(struct fixture *x, const struct gs_event_comm *ev)
{
	gs_ingest_event(x->feed, &ev->head);
	feed_take(x);
	return feed_record(x, GS_REC_COMM, -1);
}

static void init_rank(void **state)
{
	static const char *const calls[] = {"ncclCommInitRank", "ncclCommInitRankConfig",
					    "ncclCommInitRankScalable"};
	struct fixture *x = *state;
	uint64_t hash = 0;

	for (uint32_t i = 0; i < 3; i++) {
		struct gs_event_comm ev = make_comm(10 + i, calls[i], 0xc0 + i);
		const struct gs_rec_comm *c;

		ev.rank = (int)i;
		ev.n_ranks = 3;
		memset(ev.unique_id, 0x5a, sizeof(ev.unique_id));
		c = send(x, &ev);
		assert_int_equal(c->rank, i);
		assert_int_equal(c->n_ranks, 3);
		assert_int_equal(c->comm, 0xc0 + i);
		assert_int_equal(c->parent, 0);
		assert_int_equal(c->color, GS_COMM_NO_SPLIT);
		assert_int_equal(c->n_excluded, 0);
		assert_string_equal(text_of(x, c->origin_str), calls[i]);
		assert_int_equal(gs_dict_process(x->dict, c->process)->pid, 10 + i);
		assert_int_not_equal(c->id_hash, 0);
		/* One id, one hash, in every process. */
		if (i)
			assert_int_equal(c->id_hash, hash);
		hash = c->id_hash;
	}
	assert_int_equal(feed_count(x, GS_REC_COMM), 3);
}

static void every_byte_of_the_id_counts(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommInitRank", 0xc0);
	uint64_t last;

	last = send(x, &ev)->id_hash;
	assert_int_equal(last, 0); /* it could not be read */
	for (unsigned i = 0; i < GS_NCCL_ID_BYTES; i += 127) {
		uint64_t hash;

		ev.unique_id[i] = 1;
		hash = send(x, &ev)->id_hash;
		assert_int_not_equal(hash, last);
		last = hash;
	}
}

static void failed_calls_make_none(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommInitRank", 0xc0);

	ev.ret = 3;
	gs_ingest_event(x->feed, &ev.head);
	ev.ret = 0;
	ev.comm = 0;
	gs_ingest_event(x->feed, &ev.head);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_COMM), 0);
	/* Under way: the handle is there already. */
	ev.ret = 7;
	ev.comm = 0xc0;
	assert_int_equal(send(x, &ev)->comm, 0xc0);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 0);
}

static void init_all(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommInitAll", 0);
	const struct gs_rec_comm *c;
	uint64_t hash;

	ev.n_ranks = 3;
	ev.n_list = 3;
	for (unsigned i = 0; i < 3; i++)
		ev.list[i] = 0xa0 + i;
	hash = send(x, &ev)->id_hash;
	assert_int_not_equal(hash, 0);
	assert_int_equal(feed_count(x, GS_REC_COMM), 3);
	for (int i = 0; i < 3; i++) {
		c = feed_record(x, GS_REC_COMM, i);
		assert_int_equal(c->rank, i);
		assert_int_equal(c->n_ranks, 3);
		assert_int_equal(c->comm, 0xa0 + i);
		assert_int_equal(c->id_hash, hash);
		assert_string_equal(text_of(x, c->origin_str), "ncclCommInitAll");
	}
	/* The next one is another communicator; handles that could not be read are left out. */
	ev.time_ns++;
	ev.n_ranks = 40;
	ev.n_list = 40;
	for (unsigned i = 0; i < GS_COMM_LIST_MAX; i++)
		ev.list[i] = i == 2 ? 0 : 0xb0 + i;
	c = send(x, &ev);
	assert_int_not_equal(c->id_hash, hash);
	assert_int_equal(c->n_ranks, 40);
	assert_int_equal(c->rank, GS_COMM_LIST_MAX - 1);
	assert_int_equal(feed_count(x, GS_REC_COMM), 3 + GS_COMM_LIST_MAX - 1);
}

static void split(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommSplit", 0xd0);
	const struct gs_rec_comm *c;

	ev.parent = 0xc0;
	ev.color = 4;
	ev.key = -3;
	c = send(x, &ev);
	assert_int_equal(c->comm, 0xd0);
	assert_int_equal(c->parent, 0xc0);
	assert_int_equal(c->color, 4);
	assert_int_equal(c->key, -3);
	assert_int_equal(c->rank, -1);
	assert_int_equal(c->n_ranks, -1);
	assert_int_equal(c->id_hash, 0);
	/* A rank without a color gets none, and says so. */
	ev.comm = 0;
	ev.color = -1;
	c = send(x, &ev);
	assert_int_equal(c->comm, 0);
	assert_int_equal(c->color, -1);
	assert_int_equal(c->parent, 0xc0);
}

static void shrink(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommShrink", 0xd0);
	const struct gs_rec_comm *c;

	ev.parent = 0xc0;
	ev.n_list = 2;
	ev.list[0] = 1;
	ev.list[1] = 5;
	c = send(x, &ev);
	assert_int_equal(c->parent, 0xc0);
	assert_int_equal(c->rank, -1);
	assert_int_equal(c->color, GS_COMM_NO_SPLIT);
	assert_int_equal(c->n_excluded, 2);
	assert_int_equal(c->excluded[0], 1);
	assert_int_equal(c->excluded[1], 5);
	assert_int_equal(c->excluded[2], 0);
	ev.n_list = 500;
	ev.list[GS_COMM_LIST_MAX - 1] = 77;
	c = send(x, &ev);
	assert_int_equal(c->n_excluded, 500);
	assert_int_equal(c->excluded[GS_COMM_LIST_MAX - 1], 77);
}

static void learned_values_are_merged(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommSplit", 0xd0);
	struct gs_event_comm rank = make_comm(10, "ncclCommUserRank", 0xd0);
	struct gs_event_comm size = make_comm(10, "ncclCommCount", 0xd0);
	const struct gs_rec_comm *c;

	ev.parent = 0xc0;
	ev.color = 4;
	send(x, &ev);
	rank.rank = 2;
	c = send(x, &rank);
	assert_int_equal(c->rank, 2);
	assert_int_equal(c->n_ranks, -1);
	assert_int_equal(c->color, 4);
	assert_int_equal(c->parent, 0xc0);
	assert_string_equal(text_of(x, c->origin_str), "ncclCommSplit");
	size.n_ranks = 8;
	c = send(x, &size);
	assert_int_equal(c->rank, 2);
	assert_int_equal(c->n_ranks, 8);
	assert_int_equal(c->color, 4);
	assert_int_equal(feed_count(x, GS_REC_COMM), 3);

	/* Nothing new, nothing told; nor when the question failed or has no answer yet. */
	send(x, &rank);
	send(x, &size);
	rank.rank = 5;
	rank.ret = 4;
	send(x, &rank);
	rank.ret = 7;
	send(x, &rank);
	assert_int_equal(feed_count(x, GS_REC_COMM), 3);

	/* The same handle in another process is another one, of unknown making. */
	rank = make_comm(11, "ncclCommUserRank", 0xd0);
	rank.rank = 1;
	c = send(x, &rank);
	assert_int_equal(gs_dict_process(x->dict, c->process)->pid, 11);
	assert_int_equal(c->rank, 1);
	assert_int_equal(c->n_ranks, -1);
	assert_int_equal(c->color, GS_COMM_NO_SPLIT);
	assert_int_equal(c->origin_str, 0);

	/* A handle that is used again is known by its new making only. */
	ev = make_comm(10, "ncclCommInitRank", 0xd0);
	ev.rank = 0;
	ev.n_ranks = 2;
	send(x, &ev);
	size.n_ranks = 3;
	c = send(x, &size);
	assert_int_equal(c->rank, 0);
	assert_int_equal(c->n_ranks, 3);
	assert_int_equal(c->color, GS_COMM_NO_SPLIT);
}

/* More than are kept: the oldest are no longer merged, nothing else changes. */
static void many_communicators(void **state)
{
	struct fixture *x = *state;
	struct gs_event_comm ev = make_comm(10, "ncclCommInitRank", 0);
	struct gs_event_comm size = make_comm(10, "ncclCommCount", 1);
	const struct gs_rec_comm *c;
	const uint64_t n = 50000;

	ev.rank = 6;
	for (ev.comm = 1; ev.comm <= n; ev.comm++)
		gs_ingest_event(x->feed, &ev.head);
	size.n_ranks = 9;
	c = send(x, &size);
	assert_int_equal(c->rank, -1);
	assert_int_equal(c->n_ranks, 9);
	size.comm = n;
	c = send(x, &size);
	assert_int_equal(c->rank, 6);
	assert_int_equal(c->n_ranks, 9);
	size.comm = n - 16000;
	assert_int_equal(send(x, &size)->rank, 6);
	assert_int_equal(feed_count(x, GS_REC_COMM), n + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(init_rank),
		FEED_TEST(every_byte_of_the_id_counts),
		FEED_TEST(failed_calls_make_none),
		FEED_TEST(init_all),
		FEED_TEST(split),
		FEED_TEST(shrink),
		FEED_TEST(learned_values_are_merged),
		FEED_TEST(many_communicators),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
