/* What waits for the caller of gs_trace_next(), memory that is lent, and options of other versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/base/clock.h"
#include "library/gpuscope/library_int.h"

#define N_CALLS 20000u
#define NEVER   UINT64_MAX

static void put_call(struct gs_buf *b, bool with_values)
{
	struct gs_rec_values *v;

	if (with_values) {
		v = gs_record_put(b, GS_REC_VALUES, sizeof(*v), sizeof(v->values[0]));
		v->n_values = 1;
	}
	assert_non_null(gs_record_put(b, GS_REC_CALL, sizeof(struct gs_rec_call), 0));
}

static void push(struct record_queue *q, struct gs_buf *b)
{
	assert_int_equal(record_queue_push(q, &(struct gs_batch){b->data, b->bytes}), 0);
	gs_buf_reset(b);
}

static unsigned count(const struct gs_batch *batch, unsigned kind)
{
	unsigned n = 0;

	gs_records_for_each (batch, r)
		n += r->kind == kind;
	return n;
}

static bool is_readable(const struct record_queue *q)
{
	struct pollfd fd = {.fd = record_queue_fd(q), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void names_find_room(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1u << 20);
	struct record_queue *q;
	struct gs_batch batch;
	uint64_t lost;

	assert_int_equal(record_queue_new(3, &q), 0);
	assert_false(is_readable(q));
	assert_int_equal(record_queue_take(q, 0, &batch, &lost), GS_NEXT_TIMEOUT);
	for (int i = 0; i < 5; i++)
		put_call(&b, i % 2 == 1);
	push(q, &b);
	assert_true(is_readable(q));
	assert_int_equal(gs_record_put_string(&b, 1, "name", 4), 0);
	put_call(&b, true);
	push(q, &b);
	/* Nothing that items are made of: no batch. */
	assert_non_null(gs_record_put(&b, GS_REC_STACK, sizeof(struct gs_rec_stack), 0));
	push(q, &b);
	assert_int_equal(record_queue_take(q, NEVER, &batch, &lost), GS_NEXT_ITEM);
	assert_int_equal(count(&batch, GS_REC_CALL), 3);
	assert_int_equal(count(&batch, GS_REC_VALUES), 1); /* of no call that was dropped */
	assert_int_equal(lost, 0);
	assert_int_equal(record_queue_take(q, NEVER, &batch, &lost), GS_NEXT_ITEM);
	assert_int_equal(count(&batch, GS_REC_STRING), 1);
	assert_int_equal(count(&batch, GS_REC_CALL) + count(&batch, GS_REC_VALUES), 0);
	assert_int_equal(lost, 2);
	assert_int_equal(record_queue_take(q, 0, &batch, &lost), GS_NEXT_TIMEOUT);
	assert_false(is_readable(q));
	record_queue_end(q);
	assert_true(is_readable(q));
	assert_int_equal(record_queue_take(q, NEVER, &batch, &lost), GS_NEXT_END);
	assert_int_equal(lost, 1);
	assert_int_equal(record_queue_take(q, NEVER, &batch, &lost), GS_NEXT_END);
	assert_int_equal(lost, 0);
	record_queue_free(&q);
	gs_buf_fini(&b);
}

static void wants_none(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1u << 20);
	struct record_queue *q;
	struct gs_batch batch;
	uint64_t lost;

	assert_int_equal(record_queue_new(0, &q), 0);
	put_call(&b, false);
	push(q, &b);
	record_queue_discard(q);
	put_call(&b, false);
	push(q, &b);
	assert_int_equal(record_queue_take(q, 0, &batch, &lost), GS_NEXT_TIMEOUT);
	record_queue_end(q);
	assert_int_equal(record_queue_take(q, NEVER, &batch, &lost), GS_NEXT_END);
	assert_int_equal(lost, 0);
	record_queue_free(&q);
	gs_buf_fini(&b);
}

static void *push_calls(void *ctx)
{
	struct gs_buf b = GS_BUF_INIT(1u << 20);
	struct record_queue *q = ctx;

	for (unsigned i = 0; i < N_CALLS; i++) {
		put_call(&b, false);
		if (i % 7 == 6 || i == N_CALLS - 1)
			push(q, &b);
	}
	record_queue_end(q);
	gs_buf_fini(&b);
	return NULL;
}

/* The caller is woken for all of it, by waiting and by the descriptor. */
static void two_threads(void **state)
{
	for (int by_fd = 0; by_fd < 2; by_fd++) {
		struct record_queue *q;
		unsigned n = 0;
		uint64_t lost = 0, more;
		struct gs_batch batch;
		pthread_t pusher;
		int r = GS_NEXT_ITEM;

		assert_int_equal(record_queue_new(1000, &q), 0);
		assert_int_equal(pthread_create(&pusher, NULL, push_calls, q), 0);
		while (r != GS_NEXT_END) {
			struct pollfd fd = {.fd = record_queue_fd(q), .events = POLLIN};

			if (by_fd)
				assert_int_equal(poll(&fd, 1, -1), 1);
			r = record_queue_take(q, by_fd ? 0 : NEVER, &batch, &more);
			lost += more;
			if (r == GS_NEXT_ITEM)
				n += count(&batch, GS_REC_CALL);
		}
		pthread_join(pusher, NULL);
		assert_int_equal(n + lost, N_CALLS);
		record_queue_free(&q);
	}
}

static void lent(void **state)
{
	struct lent_memory m = {0};
	const char *first = lent_text(&m, "first");
	char *large;

	for (int i = 0; i < 10000; i++)
		assert_string_equal(lent_text(&m, "another text"), "another text");
	assert_string_equal(first, "first");
	large = lent_alloc(&m, 1u << 20);
	assert_non_null(large);
	for (size_t i = 0; i < 1u << 20; i++)
		assert_int_equal(large[i], 0);
	assert_string_equal(lent_text(&m, NULL), "");
	assert_int_equal((uintptr_t)lent_alloc(&m, 1) % 16, 0);
	assert_null(lent_alloc(&m, SIZE_MAX - 3));
	assert_true(m.failed);
	lent_reset(&m);
	assert_false(m.failed);
	assert_string_equal(lent_text(&m, "again"), "again");
	lent_fini(&m);
}

struct later { /* options of a later version */
	struct gs_monitor_options known;
	uint32_t more[2];
};

static void versions(void **state)
{
	struct gs_monitor_options got;
	struct later o = {.known = {.size = sizeof(o), .flags = 5}};
	struct gs_err err = {{0}};
	const size_t first = offsetof(struct gs_monitor_options, call_timeout_ns);

	assert_int_equal(options_take(&o, sizeof(got), &got, sizeof(got), &err), 0);
	assert_int_equal(got.flags, 5);
	o.more[1] = 1;
	assert_int_equal(options_take(&o, sizeof(got), &got, sizeof(got), &err), -E2BIG);
	assert_non_null(strstr(err.text, "use a newer library"));
	/* Of an earlier one: what it has not is 0. */
	o.known.size = first;
	o.known.call_timeout_ns = 7;
	assert_int_equal(options_take(&o, first, &got, sizeof(got), &err), 0);
	assert_int_equal(got.call_timeout_ns, 0);
	o.known.size = first - 1;
	assert_int_equal(options_take(&o, first, &got, sizeof(got), &err), -EINVAL);
	o.known.size = 1u << 30;
	assert_int_equal(options_take(&o, first, &got, sizeof(got), &err), -EINVAL);
	assert_int_equal(options_take(NULL, first, &got, sizeof(got), &err), -EINVAL);
	assert_string_equal(gs_library_version(), GS_VERSION);
	snprintf(err.text, sizeof(err.text), "%u.%u.%u", gs_library_version_number() / 1000000,
		 gs_library_version_number() / 1000 % 1000, gs_library_version_number() % 1000);
	assert_string_equal(err.text, GS_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_find_room), cmocka_unit_test(wants_none),
		cmocka_unit_test(two_threads),     cmocka_unit_test(lent),
		cmocka_unit_test(versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
