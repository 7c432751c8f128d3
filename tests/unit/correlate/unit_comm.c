/* What pipeline/correlate/correlate.h says of communicators that were split or shrunk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/correlate/collect.h"

#define ROOT_HASH 0xfeedull
#define ROOT(p)   (0x1000ull + (p)) /* handle of process p's root communicator */
#define CHILD(p)  (0x2000ull + (p))
#define NEXT(p)   (0x3000ull + (p))

enum function { DESTROY = 1, ABORT, FINALIZE };

static void put_world(struct stream *s, uint32_t n_processes)
{
	for (uint32_t p = 1; p <= n_processes; p++) {
		put_process(s, p, 100 + p, "rank");
		put_thread(s, p, p, 100 + p, "rank"); /* thread p is of process p */
	}
	put_function(s, DESTROY, GS_LAYER_NCCL, GS_CLASS_COMM, "ncclCommDestroy");
	put_function(s, ABORT, GS_LAYER_NCCL, GS_CLASS_COMM, "ncclCommAbort");
	put_function(s, FINALIZE, GS_LAYER_NCCL, GS_CLASS_COMM, "ncclCommFinalize");
}

/* Processes 1..n, process p is rank p - 1 of the root. */
static void put_roots(struct stream *s, uint32_t n)
{
	for (uint32_t p = 1; p <= n; p++)
		put_comm(s, p, ROOT(p), (int32_t)p - 1, (int32_t)n, ROOT_HASH);
}

static void put_split(struct stream *s, uint32_t process, uint64_t parent, uint64_t comm,
		      int32_t color, int32_t key)
{
	struct gs_rec_comm *c = put_comm(s, process, comm, -1, -1, 0);

	c->parent = parent;
	c->color = color;
	c->key = key;
}

static void put_shrink(struct stream *s, uint32_t process, uint64_t parent, uint64_t comm,
		       const int32_t *excluded, uint32_t n)
{
	struct gs_rec_comm *c = put_comm(s, process, comm, -1, -1, 0);

	c->parent = parent;
	c->n_excluded = n;
	for (uint32_t i = 0; i < n && i < GS_COMM_LIST_MAX; i++)
		c->excluded[i] = excluded[i];
}

static void put_end(struct stream *s, uint32_t process, enum function function, uint64_t comm,
		    bool failed)
{
	struct gs_rec_call *c = put_call(s, process, function, 0, 1);

	c->arg[0] = comm;
	c->failed = failed;
}

static void push(struct gs_correlate *span, struct stream *s)
{
	assert_int_equal(stream_push(s, gs_correlate_sink(span)), 0);
}

static const struct gs_rec_comm *comm_of(const struct collect *c, uint32_t process, uint64_t comm)
{
	const struct gs_rec_comm *r = gs_dict_comm(c->dict, process, comm);

	assert_non_null(r);
	return r;
}

static void is(const struct collect *c, uint32_t process, uint64_t comm, int32_t rank,
	       int32_t n_ranks)
{
	const struct gs_rec_comm *r = comm_of(c, process, comm);

	assert_int_equal(r->rank, rank);
	assert_int_equal(r->n_ranks, n_ranks);
	if (rank < 0)
		assert_int_equal(r->id_hash, 0);
	else
		assert_int_not_equal(r->id_hash, 0);
}

static uint64_t hash(const struct collect *c, uint32_t process, uint64_t comm)
{
	return comm_of(c, process, comm)->id_hash;
}

static void split_by_color(void **state)
{
	/* New ranks by key, then by rank in the parent; process 4 gets no communicator. */
	static const int32_t color[] = {0, 7, 3, 7, -1, 7, 3}, key[] = {0, 5, 1, 4, 0, 5, 1};
	static const int32_t rank[] = {0, 1, 0, 0, 0, 2, 1}, n_ranks[] = {0, 3, 2, 3, 0, 3, 2};
	static const uint32_t orders[][6] = {
		{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {4, 6, 1, 3, 5, 2}};

	for (size_t o = 0; o < GS_ARRAY_LEN(orders); o++) {
		STREAM s = STREAM_INIT;
		COLLECT c;
		SPAN *span = collect_span(&c);

		put_world(&s, 6);
		put_roots(&s, 6);
		for (unsigned i = 0; i < 6; i++) {
			uint32_t p = orders[o][i];

			put_split(&s, p, ROOT(p), color[p] < 0 ? 0 : CHILD(p), color[p], key[p]);
			push(span, &s); /* ranks tell it in batches of their own */
			if (i < 5 && color[p] >= 0)
				is(&c, p, CHILD(p), -1, -1);
		}
		for (uint32_t p = 1; p <= 6; p++)
			if (color[p] >= 0)
				is(&c, p, CHILD(p), rank[p], n_ranks[p]);
		assert_int_equal(hash(&c, 1, CHILD(1)), hash(&c, 3, CHILD(3)));
		assert_int_equal(hash(&c, 1, CHILD(1)), hash(&c, 5, CHILD(5)));
		assert_int_equal(hash(&c, 2, CHILD(2)), hash(&c, 6, CHILD(6)));
		assert_int_not_equal(hash(&c, 1, CHILD(1)), hash(&c, 2, CHILD(2)));
		assert_int_not_equal(hash(&c, 1, CHILD(1)), ROOT_HASH);
		assert_int_equal(comm_of(&c, 1, CHILD(1))->color, 7);
		assert_int_equal(comm_of(&c, 1, CHILD(1))->key, 5);
		assert_int_equal(comm_of(&c, 1, CHILD(1))->parent, ROOT(1));
	}
}

/* The n-th split of one rank goes with the n-th of the others, however far one is ahead. */
static void splits_in_generations(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 2);
	put_roots(&s, 2);
	put_split(&s, 1, ROOT(1), 0x21, 0, 0);
	put_split(&s, 1, ROOT(1), 0x31, 0, 9);
	put_split(&s, 1, ROOT(1), 0x41, 1, 0);
	push(span, &s);
	is(&c, 1, 0x21, -1, -1);
	put_split(&s, 2, ROOT(2), 0x22, 0, 0);
	push(span, &s);
	is(&c, 1, 0x21, 0, 2);
	is(&c, 2, 0x22, 1, 2);
	is(&c, 1, 0x31, -1, -1);
	put_split(&s, 2, ROOT(2), 0x32, 0, 1);
	put_split(&s, 2, ROOT(2), 0x42, 2, 0);
	push(span, &s);
	is(&c, 1, 0x31, 1, 2);
	is(&c, 2, 0x32, 0, 2);
	is(&c, 1, 0x41, 0, 1);
	is(&c, 2, 0x42, 0, 1);
	assert_int_not_equal(hash(&c, 1, 0x21), hash(&c, 1, 0x31));
	assert_int_equal(hash(&c, 1, 0x31), hash(&c, 2, 0x32));
}

/* Two jobs at once do not mix. */
static void two_jobs(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 4);
	for (uint32_t p = 1; p <= 4; p++)
		put_comm(&s, p, ROOT(p), (int32_t)(p - 1) / 2, 2, p % 2 ? 11 : 22);
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	put_split(&s, 2, ROOT(2), CHILD(2), 0, 0);
	put_split(&s, 3, ROOT(3), CHILD(3), 0, -1);
	push(span, &s);
	is(&c, 1, CHILD(1), 1, 2);
	is(&c, 3, CHILD(3), 0, 2);
	is(&c, 2, CHILD(2), -1, -1);
	put_split(&s, 4, ROOT(4), CHILD(4), 0, 0);
	push(span, &s);
	is(&c, 2, CHILD(2), 0, 2);
	is(&c, 4, CHILD(4), 1, 2);
	assert_int_not_equal(hash(&c, 1, CHILD(1)), hash(&c, 2, CHILD(2)));
}

/* Splits of splits, all told before what they come from is known. */
static void grandchildren_wait(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const int32_t out = 0;

	put_world(&s, 2);
	for (uint32_t p = 1; p <= 2; p++) {
		put_split(&s, p, ROOT(p), CHILD(p), 0, -(int32_t)p);
		put_split(&s, p, CHILD(p), NEXT(p), 5, 0);
		if (p == 1) /* its rank in CHILD is 1: 0 goes */
			put_shrink(&s, p, CHILD(p), 0x77, &out, 1);
		push(span, &s);
	}
	is(&c, 1, NEXT(1), -1, -1);
	put_comm(&s, 1, ROOT(1), 0, 2, ROOT_HASH);
	push(span, &s);
	is(&c, 1, CHILD(1), -1, -1);
	put_comm(&s, 2, ROOT(2), 1, 2, ROOT_HASH);
	push(span, &s);
	is(&c, 1, ROOT(1), 0, 2);
	is(&c, 1, CHILD(1), 1, 2);
	is(&c, 2, CHILD(2), 0, 2);
	is(&c, 1, NEXT(1), 1, 2);
	is(&c, 2, NEXT(2), 0, 2);
	is(&c, 1, 0x77, 0, 1);
	assert_int_equal(hash(&c, 1, NEXT(1)), hash(&c, 2, NEXT(2)));
	assert_int_not_equal(hash(&c, 1, NEXT(1)), hash(&c, 1, CHILD(1)));
}

static void shrink(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const int32_t out[] = {3, 1}, same[] = {1, 3}, other[] = {0};

	put_world(&s, 5);
	put_roots(&s, 5);
	put_shrink(&s, 1, ROOT(1), CHILD(1), out, 2);
	put_shrink(&s, 3, ROOT(3), CHILD(3), same, 2); /* the list in another order */
	put_shrink(&s, 5, ROOT(5), CHILD(5), out, 2);
	push(span, &s);
	is(&c, 1, CHILD(1), 0, 3);
	is(&c, 3, CHILD(3), 1, 3);
	is(&c, 5, CHILD(5), 2, 3);
	assert_int_equal(hash(&c, 1, CHILD(1)), hash(&c, 3, CHILD(3)));
	assert_int_equal(hash(&c, 1, CHILD(1)), hash(&c, 5, CHILD(5)));
	/* Known at once: the record itself was completed and no other added. */
	assert_int_equal(got_count(&c, GS_REC_COMM), 8);

	/* Process 2 was out of the first: its first shrink is still the same as the others' second.
	 */
	for (uint32_t p = 2; p <= 5; p++)
		put_shrink(&s, p, ROOT(p), NEXT(p), other, 1);
	put_shrink(&s, 1, ROOT(1), 0x99, out, 2); /* again: not the same communicator */
	push(span, &s);
	is(&c, 2, NEXT(2), 0, 4);
	is(&c, 5, NEXT(5), 3, 4);
	assert_int_equal(hash(&c, 2, NEXT(2)), hash(&c, 3, NEXT(3)));
	assert_int_not_equal(hash(&c, 1, 0x99), hash(&c, 1, CHILD(1)));
}

static void shrink_that_cannot_be_known(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	int32_t many[GS_COMM_LIST_MAX + 1] = {0};
	const int32_t itself[] = {0}, twice[] = {1, 1}, beyond[] = {2}, below[] = {-1};

	put_world(&s, 1);
	put_comm(&s, 1, ROOT(1), 0, 2, ROOT_HASH);
	for (int32_t i = 0; i <= GS_COMM_LIST_MAX; i++)
		many[i] = i + 1;
	put_shrink(&s, 1, ROOT(1), 0x21, many, GS_ARRAY_LEN(many));
	put_shrink(&s, 1, ROOT(1), 0x22, itself, 1);
	put_shrink(&s, 1, ROOT(1), 0x23, twice, 2);
	put_shrink(&s, 1, ROOT(1), 0x24, beyond, 1);
	put_shrink(&s, 1, ROOT(1), 0x25, below, 1);
	put_shrink(&s, 1, ROOT(1), 0x26, NULL, 0);
	push(span, &s);
	for (uint64_t h = 0x21; h <= 0x26; h++)
		is(&c, 1, h, -1, -1);
}

/* A parent known without its hash: rank and size of a shrink follow all the same. */
static void without_a_hash(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const int32_t out[] = {0};

	put_world(&s, 2);
	put_comm(&s, 1, ROOT(1), 1, 2, 0);
	put_shrink(&s, 1, ROOT(1), CHILD(1), out, 1);
	put_split(&s, 1, ROOT(1), NEXT(1), 0, 0); /* the others cannot be found */
	put_comm(&s, 2, ROOT(2), 0, 1, 0);
	put_split(&s, 2, ROOT(2), NEXT(2), 0, 0); /* there are none */
	push(span, &s);
	assert_int_equal(comm_of(&c, 1, CHILD(1))->rank, 0);
	assert_int_equal(comm_of(&c, 1, CHILD(1))->n_ranks, 1);
	assert_int_equal(hash(&c, 1, CHILD(1)), 0);
	assert_int_equal(comm_of(&c, 1, NEXT(1))->n_ranks, -1);
	assert_int_equal(comm_of(&c, 2, NEXT(2))->rank, 0);
	assert_int_equal(comm_of(&c, 2, NEXT(2))->n_ranks, 1);
	assert_int_equal(hash(&c, 2, NEXT(2)), 0);
	/* The hash comes later: now its split is a matter of two. */
	put_comm(&s, 1, ROOT(1), 1, 2, ROOT_HASH);
	put_comm(&s, 2, 0x55, 0, 2, ROOT_HASH);
	put_split(&s, 2, 0x55, 0x56, 0, 0);
	push(span, &s);
	is(&c, 1, NEXT(1), 1, 2);
	is(&c, 2, 0x56, 0, 2);
}

static void told_piece_by_piece(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 1);
	put_comm(&s, 1, ROOT(1), 0, -1, 0); /* ncclCommUserRank */
	put_comm(&s, 1, ROOT(1), -1, 1, 0); /* ncclCommCount */
	put_comm(&s, 1, ROOT(1), -1, -1, ROOT_HASH);
	push(span, &s);
	/* Each is completed by what was known before. */
	is(&c, 1, ROOT(1), 0, 1);
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	push(span, &s);
	is(&c, 1, CHILD(1), 0, 1);
	put_comm(&s, 1, CHILD(1), 0, -1, 0);
	push(span, &s);
	is(&c, 1, CHILD(1), 0, 1);
}

static void init_all(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	uint32_t origin;

	put_world(&s, 2);
	origin = put_text(&s, "ncclCommInitAll");
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t p = 1; p <= 2; p++)
			for (int32_t rank = 0; rank < 3; rank++)
				put_comm(&s, p, 0x100 * (round + 1) + (uint64_t)rank, rank, 3, 0)
					->origin_str = origin;
	for (int32_t rank = 2; rank >= 0; rank--)
		put_split(&s, 1, 0x100 + (uint64_t)rank, 0x900 + (uint64_t)rank, rank > 0, 0);
	push(span, &s);
	for (uint64_t i = 1; i < 3; i++)
		assert_int_equal(hash(&c, 1, 0x100), hash(&c, 1, 0x100 + i));
	is(&c, 1, 0x102, 2, 3);
	assert_int_not_equal(hash(&c, 1, 0x100), hash(&c, 2, 0x100));
	assert_int_not_equal(hash(&c, 1, 0x100), hash(&c, 1, 0x200));
	is(&c, 1, 0x900, 0, 1);
	is(&c, 1, 0x901, 0, 2);
	is(&c, 1, 0x902, 1, 2);
	/* Out of the run: left as it is. */
	put_comm(&s, 1, 0x303, 2, 3, 0)->origin_str = origin;
	push(span, &s);
	assert_int_equal(hash(&c, 1, 0x303), 0);
}

static void handles_are_used_again(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 2);
	put_roots(&s, 2);
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	put_end(&s, 1, FINALIZE, CHILD(1), false);
	put_end(&s, 1, DESTROY, CHILD(1), true);
	push(span, &s);
	put_split(&s, 2, ROOT(2), CHILD(2), 0, 0);
	push(span, &s);
	is(&c, 1, CHILD(1), 0, 2); /* it was not destroyed */
	put_end(&s, 1, DESTROY, CHILD(1), false);
	put_end(&s, 2, ABORT, CHILD(2), false);
	put_comm(&s, 1, CHILD(1), -1, -1, 0); /* nothing is known of the new one */
	push(span, &s);
	is(&c, 1, CHILD(1), -1, -1);
	/* The old one's ranks are not taken for the new one's: its split waits. */
	put_split(&s, 1, CHILD(1), NEXT(1), 0, 0);
	push(span, &s);
	is(&c, 1, NEXT(1), -1, -1);

	/* The end was not seen: what contradicts is a new one. */
	put_comm(&s, 2, ROOT(2), 0, 1, 0xbeef);
	put_split(&s, 2, ROOT(2), NEXT(2), 0, 0);
	push(span, &s);
	is(&c, 2, ROOT(2), 0, 1);
	is(&c, 2, NEXT(2), 0, 1);
	/* A child whose handle another child takes. */
	put_split(&s, 2, ROOT(2), NEXT(2), 4, 0);
	push(span, &s);
	is(&c, 2, NEXT(2), 0, 1);
	assert_int_equal(comm_of(&c, 2, NEXT(2))->color, 4);
	/* A child whose handle a root takes. */
	put_comm(&s, 2, NEXT(2), 0, 1, 0xabc);
	push(span, &s);
	assert_int_equal(hash(&c, 2, NEXT(2)), 0xabc);
}

/* One that is gone before its group was complete is not told as if it were there. */
static void destroyed_before_known(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 2);
	put_roots(&s, 2);
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	put_end(&s, 1, ABORT, CHILD(1), false);
	put_comm(&s, 1, CHILD(1), 4, 8, 0x88);
	put_split(&s, 2, ROOT(2), CHILD(2), 0, 0);
	push(span, &s);
	is(&c, 2, CHILD(2), 1, 2);
	is(&c, 1, CHILD(1), 4, 8);
	assert_int_equal(hash(&c, 1, CHILD(1)), 0x88);
}

static void exec_ends_all(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 1);
	put_comm(&s, 1, ROOT(1), 0, 1, ROOT_HASH);
	put_process(&s, 1, 100, "exec'd");
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	push(span, &s);
	is(&c, 1, CHILD(1), -1, -1);
}

static void nonsense(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 3);
	put_comm(&s, 1, 0, 0, 1, 1);        /* no handle */
	put_split(&s, 1, 0x50, 0x50, 0, 0); /* its own parent */
	put_split(&s, 1, 0x61, 0x62, 0, 0); /* each the other's */
	put_split(&s, 1, 0x62, 0x61, 0, 0);
	put_comm(&s, 1, 0x70, 5, 2, 0x70); /* rank out of range */
	put_split(&s, 1, 0x70, 0x71, 0, 0);
	put_comm(&s, 1, 0x80, INT32_MAX, INT32_MIN, 0x80);
	put_split(&s, 1, 0x80, 0x81, INT32_MAX, INT32_MIN);
	put_end(&s, 1, DESTROY, 0x999, false);
	put_end(&s, 99, DESTROY, 0x50, false);
	push(span, &s);
	is(&c, 1, 0x50, -1, -1);
	is(&c, 1, 0x61, -1, -1);
	is(&c, 1, 0x71, -1, -1);
	is(&c, 1, 0x81, -1, -1);
	/* A rank that is there twice: nobody gets a number. */
	for (uint32_t p = 2; p <= 3; p++) {
		put_comm(&s, p, ROOT(p), 0, 2, 0x333);
		put_split(&s, p, ROOT(p), CHILD(p), 0, 0);
	}
	push(span, &s);
	is(&c, 2, CHILD(2), -1, -1);
	is(&c, 3, CHILD(3), -1, -1);
	/* One that disagrees on the size stays out. */
	put_comm(&s, 1, ROOT(1), 0, 2, 0x444);
	put_split(&s, 1, ROOT(1), CHILD(1), 0, 0);
	put_comm(&s, 2, NEXT(2), 1, 3, 0x444);
	put_split(&s, 2, NEXT(2), 0x90, 0, 0);
	put_comm(&s, 3, NEXT(3), 1, 2, 0x444);
	put_split(&s, 3, NEXT(3), 0x91, 0, 0);
	push(span, &s);
	is(&c, 1, CHILD(1), 0, 2);
	is(&c, 2, 0x90, -1, -1);
	is(&c, 3, 0x91, 1, 2);
}

#define RANKS 5
#define COMMS 60 /* communicators of a random job, the root included */

/* A communicator of a random job, worked out from the outside: who is which rank. */
struct expected {
	uint32_t process[RANKS];
	int32_t n_ranks;
};

static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

/* Handle of communicator i in any process. */
#define HANDLE(i) (0x10000ull + 16 * (uint64_t)(i))

/* All ranks of parent split it into two colors or none; streams take each process's record.
 * Returns the number of communicators afterwards. */
static unsigned split_at_random(struct expected e[COMMS], unsigned n, unsigned parent,
				struct stream streams[RANKS + 1])
{
	struct {
		int32_t color, key;
	} given[RANKS];
	const struct expected *p = &e[parent];
	uint64_t handle[2] = {HANDLE(n), HANDLE(n + 1)};

	for (int32_t r = 0; r < p->n_ranks; r++) {
		given[r].color = dice(6) ? (int32_t)dice(2) : -1;
		given[r].key = (int32_t)dice(3) - 1;
		put_split(&streams[p->process[r]], p->process[r], HANDLE(parent),
			  given[r].color < 0 ? 0 : handle[given[r].color], given[r].color,
			  given[r].key);
	}
	for (int32_t color = 0; color < 2; color++) {
		struct expected *child = &e[n + (unsigned)color];

		for (int32_t key = -1; key < 2; key++)
			for (int32_t r = 0; r < p->n_ranks; r++)
				if (given[r].color == color && given[r].key == key)
					child->process[child->n_ranks++] = p->process[r];
	}
	return n + 2;
}

static unsigned shrink_at_random(struct expected e[COMMS], unsigned n, unsigned parent,
				 struct stream streams[RANKS + 1])
{
	const struct expected *p = &e[parent];
	int32_t out = (int32_t)dice((uint32_t)p->n_ranks);

	for (int32_t r = 0; r < p->n_ranks; r++) {
		if (r == out)
			continue;
		put_shrink(&streams[p->process[r]], p->process[r], HANDLE(parent), HANDLE(n), &out,
			   1);
		e[n].process[e[n].n_ranks++] = p->process[r];
	}
	return n + 1;
}

/* Push the processes' streams record by record, in any order between processes. */
static void interleave(struct gs_correlate *span, struct stream streams[RANKS + 1])
{
	const struct gs_sink *sink = gs_correlate_sink(span);
	size_t at[RANKS + 1] = {0}, left = 0;

	for (unsigned p = 1; p <= RANKS; p++)
		left += streams[p].buf.bytes;
	while (left) {
		unsigned p = 1 + dice(RANKS);
		struct gs_batch b = {streams[p].buf.data + at[p], streams[p].buf.bytes - at[p]};
		size_t bytes = 0;

		if (!gs_record_next(&b, &bytes))
			continue;
		b.bytes = bytes;
		assert_int_equal(sink->push(sink->ctx, &b), 0);
		at[p] += bytes;
		left -= bytes;
	}
}

static void random_jobs(void **state)
{
	seed = 99;
	for (unsigned job = 0; job < 40; job++) {
		struct stream streams[RANKS + 1];
		struct expected e[COMMS] = {{.n_ranks = RANKS}};
		uint64_t hashes[COMMS];
		STREAM s = STREAM_INIT;
		COLLECT c;
		SPAN *span = collect_span(&c);
		unsigned n = 1;

		put_world(&s, RANKS);
		push(span, &s);
		for (uint32_t p = 1; p <= RANKS; p++) {
			streams[p] = STREAM_INIT;
			e[0].process[p - 1] = p;
			put_comm(&streams[p], p, HANDLE(0), (int32_t)p - 1, RANKS, ROOT_HASH);
		}
		while (n + 2 <= COMMS) {
			unsigned parent = dice(n < 6 ? n : 6);

			if (e[parent].n_ranks > 1 && dice(4) == 0)
				n = shrink_at_random(e, n, parent, streams);
			else
				n = split_at_random(e, n, parent, streams);
		}
		interleave(span, streams);
		for (unsigned i = 0; i < n; i++) {
			hashes[i] = 0;
			for (int32_t r = 0; r < e[i].n_ranks; r++) {
				uint32_t p = e[i].process[r];

				is(&c, p, HANDLE(i), r, e[i].n_ranks);
				if (r == 0)
					hashes[i] = hash(&c, p, HANDLE(i));
				assert_int_equal(hash(&c, p, HANDLE(i)), hashes[i]);
			}
			for (unsigned j = 0; hashes[i] && j < i; j++)
				assert_int_not_equal(hashes[i], hashes[j]);
		}
		for (uint32_t p = 1; p <= RANKS; p++)
			stream_fini(&streams[p]);
	}
}

/* Half of a job is traced, for long: what never becomes known makes room. */
static void places_are_given_back(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s, 2);
	put_comm(&s, 1, ROOT(1), 0, 2, ROOT_HASH);
	push(span, &s);
	c.deaf = true;
	for (unsigned i = 0; i < 3 * GS_CORRELATE_MAX_COMMS; i++) {
		uint32_t kind = i % 3;

		if (kind == 0)
			put_split(&s, 1, ROOT(1), CHILD(1), 0, 0); /* its group lacks rank 1 */
		else if (kind == 1)
			put_split(&s, 1, ROOT(1), 0, -1, 0);
		else
			put_split(&s, 1, 0x5000 + i, CHILD(1), 0, 0); /* a parent never seen */
		put_end(&s, 1, DESTROY, CHILD(1), false);
		if (kind == 2)
			put_end(&s, 1, DESTROY, 0x5000 + i, false);
		if (i % 1000 == 0)
			push(span, &s);
	}
	push(span, &s);
	c.deaf = false;
	put_comm(&s, 2, ROOT(2), 0, 1, 0x777);
	put_split(&s, 2, ROOT(2), CHILD(2), 0, 0);
	push(span, &s);
	is(&c, 2, CHILD(2), 0, 1);
	/* All in use: new ones pass as they came. */
	for (uint64_t i = 1; i <= GS_CORRELATE_MAX_COMMS; i++)
		put_comm(&s, 1, i << 16, 0, 1, i);
	put_comm(&s, 1, 0xffff0, 0, 1, 0x5);
	put_split(&s, 1, 0xffff0, 0xffff1, 0, 0);
	push(span, &s);
	is(&c, 1, 0xffff0, 0, 1);
	is(&c, 1, 0xffff1, -1, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_by_color),
		cmocka_unit_test(splits_in_generations),
		cmocka_unit_test(two_jobs),
		cmocka_unit_test(grandchildren_wait),
		cmocka_unit_test(shrink),
		cmocka_unit_test(shrink_that_cannot_be_known),
		cmocka_unit_test(without_a_hash),
		cmocka_unit_test(told_piece_by_piece),
		cmocka_unit_test(init_all),
		cmocka_unit_test(handles_are_used_again),
		cmocka_unit_test(destroyed_before_known),
		cmocka_unit_test(exec_ends_all),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(random_jobs),
		cmocka_unit_test(places_are_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
