#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "net/grpc/grpc_int.h"

#define N_MESSAGES 40

/* Messages of 0, 1, 2, 4, ... bytes, so that some are larger and some smaller than a chunk. */
static size_t bytes_of(size_t i)
{
	return i % 8 == 0 ? 0 : (size_t)1 << (i % 8 * 2);
}

static void fill(uint8_t *out, size_t i)
{
	for (size_t n = 0; n < bytes_of(i); n++)
		out[n] = (uint8_t)(n * 13 + i);
}

static size_t make_stream(uint8_t *out, size_t max)
{
	struct gs_grpc_outbox box = {0};
	uint64_t messages, message_bytes;
	uint8_t data[65536];
	size_t n, total = 0;

	for (size_t i = 0; i < N_MESSAGES; i++) {
		fill(data, i);
		assert_int_equal(gs_grpc_outbox_put(&box, data, bytes_of(i), SIZE_MAX), 0);
	}
	assert_int_equal(box.messages, N_MESSAGES);
	/* Taken in odd pieces. */
	while ((n = gs_grpc_outbox_take(&box, out + total, max - total < 977 ? max - total : 977,
					&messages, &message_bytes)) > 0)
		total += n;
	assert_int_equal(box.bytes, 0);
	assert_int_equal(box.messages, 0);
	gs_grpc_outbox_fini(&box);
	return total;
}

/* Every message comes whole, wherever the stream is cut, also when some are not taken at once. */
static void any_cut(void **state)
{
	static uint8_t stream[1 << 20], wanted[65536];
	size_t total = make_stream(stream, sizeof(stream));

	(void)state;
	for (size_t chunk = 1; chunk < total; chunk = chunk * 2 + 1) {
		struct gs_grpc_held held = {.max_bytes = UINT64_MAX};
		struct gs_grpc_inbox in;
		size_t i = 0, used_all = 0;

		gs_grpc_inbox_init(&in, &held, 65536);
		for (size_t at = 0, turn = 0; at < total; at += chunk, turn++) {
			size_t bytes = total - at < chunk ? total - at : chunk, n, used;
			bool last = at + chunk >= total;
			const void *data;

			assert_int_equal(gs_grpc_inbox_put(&in, stream + at, bytes), 0);
			while ((turn % 3 || last) &&
			       gs_grpc_inbox_next(&in, &data, &n, &used) == 1) {
				fill(wanted, i);
				assert_int_equal(n, bytes_of(i));
				if (n)
					assert_memory_equal(data, wanted, n);
				used_all += used;
				used = 0;
				i++;
			}
			if (turn % 3 || last)
				used_all += used;
			assert_int_equal(gs_grpc_inbox_keep(&in), 0);
		}
		assert_int_equal(i, N_MESSAGES);
		assert_int_equal(used_all, total);
		assert_true(gs_grpc_inbox_empty(&in));
		gs_grpc_inbox_fini(&in);
		assert_int_equal(held.bytes, 0);
	}
}

static int feed(struct gs_grpc_inbox *in, const void *data, size_t bytes)
{
	const void *message;
	size_t n, used;
	int r = gs_grpc_inbox_put(in, data, bytes);

	if (r == 0)
		r = gs_grpc_inbox_next(in, &message, &n, &used);
	(void)gs_grpc_inbox_keep(in);
	return r;
}

static void refused(void **state)
{
	static const struct {
		uint8_t head[5];
		int r;
	} cases[] = {
		{{0, 0, 0, 0, 101}, -EMSGSIZE}, {{0, 255, 255, 255, 255}, -EMSGSIZE},
		{{1, 0, 0, 0, 0}, -EOPNOTSUPP}, {{2, 0, 0, 0, 0}, -EPROTO},
		{{0, 0, 0, 0, 0}, 1},           {{0, 0, 0, 0, 100}, 0},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_grpc_held held = {.max_bytes = 1000};
		struct gs_grpc_inbox in;

		gs_grpc_inbox_init(&in, &held, 100);
		assert_int_equal(feed(&in, cases[i].head, 5), cases[i].r);
		/* After a failure nothing more comes. */
		assert_int_equal(feed(&in, "\0\0\0\0\0", 5), cases[i].r < 0 ? 0 : cases[i].r);
		gs_grpc_inbox_fini(&in);
		assert_int_equal(held.bytes, 0);
	}
}

/* A head that tells of much costs nothing; bytes that came do. */
static void memory(void **state)
{
	struct gs_grpc_held held = {.max_bytes = 10};
	struct gs_grpc_inbox in;

	(void)state;
	gs_grpc_inbox_init(&in, &held, 1 << 30);
	assert_int_equal(feed(&in,
			      "\0\x10\0\0\0"
			      "12345",
			      10),
			 0);
	assert_int_equal(held.bytes, 5);
	assert_true(in.partial.capacity_bytes < 1000);
	assert_int_equal(feed(&in, "123456", 6), -ENOBUFS);
	gs_grpc_inbox_fini(&in);
	assert_int_equal(held.bytes, 0);
}

static void queue_limit(void **state)
{
	struct gs_grpc_outbox box = {0};

	(void)state;
	/* One larger than the queue goes into an empty one. */
	assert_int_equal(gs_grpc_outbox_put(&box, "0123456789", 10, 5), 0);
	assert_int_equal(gs_grpc_outbox_put(&box, "", 0, 5), -ENOBUFS);
	gs_grpc_outbox_fini(&box);
	assert_int_equal(gs_grpc_outbox_put(&box, "0123", 4, 20), 0);
	assert_int_equal(gs_grpc_outbox_put(&box, "0123", 4, 20), 0);
	assert_int_equal(gs_grpc_outbox_put(&box, "0123", 4, 20), -ENOBUFS);
	gs_grpc_outbox_fini(&box);
	assert_int_equal(box.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_cut),
		cmocka_unit_test(refused),
		cmocka_unit_test(memory),
		cmocka_unit_test(queue_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
