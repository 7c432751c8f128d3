/* Records in and out of a batch, damaged ones among them, and the dictionary over them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/dict.h"
#include "model/trace/event.h"
#include "model/gpu_work/record.h"
#include "model/trace/record_hang.h"
#include "model/trace/record_mark.h"
#include "model/trace/record_memory.h"
#include "model/trace/record_mpi.h"
#include "model/nccl/rank.h"
#include "model/nccl/record.h"
#include "model/trace/record_node.h"
#include "model/trace/record_account.h"
#include "model/trace/record.h"
#include "model/trace/record_stack.h"

static const size_t struct_bytes[GS_REC_COUNT] = {
	[GS_REC_SESSION] = sizeof(struct gs_rec_session),
	[GS_REC_STRING] = sizeof(struct gs_rec_string),
	[GS_REC_PROCESS] = sizeof(struct gs_rec_process),
	[GS_REC_THREAD] = sizeof(struct gs_rec_thread),
	[GS_REC_FUNCTION] = sizeof(struct gs_rec_function),
	[GS_REC_CALL] = sizeof(struct gs_rec_call),
	[GS_REC_STATS] = sizeof(struct gs_rec_stats),
	[GS_REC_LOSS] = sizeof(struct gs_rec_loss),
	[GS_REC_ATTACH] = sizeof(struct gs_rec_attach),
	[GS_REC_COMM] = sizeof(struct gs_rec_comm),
	[GS_REC_COUNTER] = sizeof(struct gs_rec_counter),
	[GS_REC_END] = sizeof(struct gs_rec_end),
	[GS_REC_FRAME] = sizeof(struct gs_rec_frame),
	[GS_REC_STACK] = sizeof(struct gs_rec_stack),
	[GS_REC_SAMPLE] = sizeof(struct gs_rec_sample),
	[GS_REC_WAIT] = sizeof(struct gs_rec_wait),
	[GS_REC_VALUES] = sizeof(struct gs_rec_values),
	[GS_REC_USE] = sizeof(struct gs_rec_use),
	[GS_REC_GPU_INFO] = sizeof(struct gs_rec_gpu_info),
	[GS_REC_GPU_SAMPLE] = sizeof(struct gs_rec_gpu_sample),
	[GS_REC_GPU_PROCESS] = sizeof(struct gs_rec_gpu_process),
	[GS_REC_GPU_EVENT] = sizeof(struct gs_rec_gpu_event),
	[GS_REC_HOST_SAMPLE] = sizeof(struct gs_rec_host_sample),
	[GS_REC_HOST_PROCESS] = sizeof(struct gs_rec_host_process),
	[GS_REC_AGGREGATE] = sizeof(struct gs_rec_aggregate),
	[GS_REC_ALLOCATOR] = sizeof(struct gs_rec_allocator),
	[GS_REC_LEAK] = sizeof(struct gs_rec_leak),
	[GS_REC_HOST_JOB] = sizeof(struct gs_rec_host_job),
	[GS_REC_HOST_TIMES] = sizeof(struct gs_rec_host_times),
	[GS_REC_MPI] = sizeof(struct gs_rec_mpi),
	[GS_REC_ACCOUNT] = sizeof(struct gs_rec_account),
	[GS_REC_KERNEL] = sizeof(struct gs_rec_kernel),
	[GS_REC_MARK] = sizeof(struct gs_rec_mark),
	[GS_REC_MEMORY] = sizeof(struct gs_rec_memory),
	[GS_REC_MEMORY_SITE] = sizeof(struct gs_rec_memory_site),
	[GS_REC_GPU_WORK] = sizeof(struct gs_rec_gpu_work),
	[GS_REC_GPU_WINDOW] = sizeof(struct gs_rec_gpu_window),
	[GS_REC_NCCL_COMM] = sizeof(struct gs_rec_nccl_comm),
	[GS_REC_NCCL_OP] = sizeof(struct gs_rec_nccl_op),
	[GS_REC_NCCL_CHANNEL] = sizeof(struct gs_rec_nccl_channel),
	[GS_REC_HANG] = sizeof(struct gs_rec_hang),
	[GS_REC_RANK] = sizeof(struct gs_rec_rank),
	[GS_REC_RANK_STAY] = sizeof(struct gs_rec_rank_stay),
	[GS_REC_RANK_STEPS] = sizeof(struct gs_rec_rank_steps),
	[GS_REC_ROLLUP] = 24, /* a struct of the node (model/node/rollup.h) */
};

static struct gs_batch batch_of(const struct gs_buf *b)
{
	return (struct gs_batch){.data = b->data, .bytes = b->bytes};
}

static void every_kind_comes_back(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_batch batch;
	const struct gs_record *r;
	size_t offset = 0;

	for (unsigned kind = 1; kind < GS_REC_COUNT; kind++) {
		assert_int_not_equal(struct_bytes[kind], 0);
		assert_int_equal(struct_bytes[kind] % 8, 0);
		assert_non_null(gs_record_put(&b, kind, struct_bytes[kind], 0));
	}
	batch = batch_of(&b);
	for (unsigned kind = 1; kind < GS_REC_COUNT; kind++) {
		r = gs_record_next(&batch, &offset);
		assert_non_null(r);
		assert_int_equal(r->kind, kind);
		assert_int_equal(r->bytes, struct_bytes[kind]);
		assert_int_equal(r->flags, 0);
		for (size_t i = sizeof(*r); i < r->bytes; i++)
			assert_int_equal(((const char *)r)[i], 0);
	}
	assert_null(gs_record_next(&batch, &offset));
	assert_int_equal(offset, batch.bytes);
	gs_buf_fini(&b);
}

static void strings_are_padded_and_cut(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	char text[5000];
	struct gs_batch batch;
	size_t offset = 0;

	memset(text, 't', sizeof(text));
	for (size_t n = 0; n <= 16; n++)
		assert_int_equal(gs_record_put_string(&b, (uint32_t)n + 1, text, n), 0);
	assert_int_equal(gs_record_put_string(&b, 99, text, sizeof(text)), 0);
	batch = batch_of(&b);
	for (size_t n = 0; n <= 16; n++) {
		const struct gs_rec_string *s = (const void *)gs_record_next(&batch, &offset);

		assert_non_null(s);
		assert_int_equal(s->head.bytes, 16 + (n + 7) / 8 * 8);
		assert_int_equal(s->id, n + 1);
		assert_int_equal(s->text_bytes, n);
		assert_memory_equal(s->text, text, n);
		for (size_t i = n; i < s->head.bytes - sizeof(*s); i++)
			assert_int_equal(s->text[i], 0);
	}
	assert_int_equal(
		((const struct gs_rec_string *)gs_record_next(&batch, &offset))->text_bytes, 4096);
	gs_buf_fini(&b);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct gs_buf b = GS_BUF_INIT(128), big = GS_BUF_INIT(1 << 20);

	assert_non_null(gs_record_put(&b, GS_REC_CALL, sizeof(struct gs_rec_call), 0));
	assert_null(gs_record_put(&b, GS_REC_END, sizeof(struct gs_rec_end), 0));
	assert_int_equal(gs_record_put_string(&b, 1, "x", 1), -ENOBUFS);
	assert_int_equal(b.bytes, sizeof(struct gs_rec_call));
	assert_non_null(gs_record_put(&big, GS_REC_STRING, 16, GS_RECORD_MAX_BYTES - 16));
	assert_null(gs_record_put(&big, GS_REC_STRING, 16, GS_RECORD_MAX_BYTES - 15));
	assert_int_equal(big.bytes, GS_RECORD_MAX_BYTES);
	gs_buf_fini(&b);
	gs_buf_fini(&big);
}

/* One good record, then r changed by the caller: is it read? */
static bool is_read(const void *record, size_t bytes)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_batch batch;
	size_t offset = 0;
	bool good;

	gs_record_put(&b, GS_REC_END, sizeof(struct gs_rec_end), 0);
	gs_buf_put(&b, record, bytes);
	batch = batch_of(&b);
	assert_non_null(gs_record_next(&batch, &offset));
	good = gs_record_next(&batch, &offset) != NULL;
	/* A record that is not read is where the reading stops. */
	assert_int_equal(offset, good ? batch.bytes : sizeof(struct gs_rec_end));
	gs_buf_fini(&b);
	return good;
}

static void damaged_records_end_the_reading(void **state)
{
	struct {
		struct gs_rec_stats s;
		struct gs_rec_bucket b[3];
	} stats = {.s = {.head = {.bytes = sizeof(stats), .kind = GS_REC_STATS}, .n_buckets = 3}};
	struct {
		struct gs_rec_string s;
		char text[8];
	} string = {
		.s = {.head = {.bytes = sizeof(string), .kind = GS_REC_STRING}, .text_bytes = 8}};
	struct gs_rec_call call = {.head = {.bytes = sizeof(call), .kind = GS_REC_CALL}};

	assert_true(is_read(&call, sizeof(call)));
	for (size_t bytes = 1; bytes < sizeof(call); bytes++)
		assert_false(is_read(&call, bytes)); /* torn */
	for (unsigned bytes = 0; bytes < sizeof(call); bytes++) {
		call.head.bytes = (uint16_t)bytes;
		assert_false(is_read(&call, sizeof(call)));
	}
	call.head.bytes = sizeof(call) + 8;
	assert_false(is_read(&call, sizeof(call)));
	call.head.bytes = 0xffff;
	assert_false(is_read(&call, sizeof(call)));

	assert_true(is_read(&stats, sizeof(stats)));
	stats.s.n_buckets = 4;
	assert_false(is_read(&stats, sizeof(stats)));
	stats.s.n_buckets = UINT32_MAX;
	assert_false(is_read(&stats, sizeof(stats)));
	assert_true(is_read(&string, sizeof(string)));
	string.s.text_bytes = 9;
	assert_false(is_read(&string, sizeof(string)));
	string.s.text_bytes = UINT32_MAX;
	assert_false(is_read(&string, sizeof(string)));
}

static void newer_records_are_read_by_what_is_known(void **state)
{
	struct {
		struct gs_rec_call c;
		uint64_t more;
	} longer = {.c = {.head = {.bytes = sizeof(longer), .kind = GS_REC_CALL}}};
	struct gs_record unknown = {.bytes = sizeof(unknown), .kind = GS_REC_COUNT};

	assert_true(is_read(&longer, sizeof(longer)));
	assert_true(is_read(&unknown, sizeof(unknown)));
	unknown.kind = 0xffff;
	assert_true(is_read(&unknown, sizeof(unknown)));
	unknown.bytes = 4;
	assert_false(is_read(&unknown, sizeof(unknown)));
}

static void loops_nest_and_can_be_left(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_batch batch, empty = {.data = NULL, .bytes = 0};
	unsigned n = 0, inner = 0;

	for (int i = 0; i < 5; i++)
		gs_record_put(&b, GS_REC_END, sizeof(struct gs_rec_end), 0);
	batch = batch_of(&b);
	gs_records_for_each (&batch, r) {
		if (++n == 4)
			break;
		if (n == 2)
			continue;
		gs_records_for_each (&batch, s)
			inner++;
	}
	assert_int_equal(n, 4);
	assert_int_equal(inner, 10);
	gs_records_for_each (&empty, r)
		n++;
	assert_int_equal(n, 4);
	gs_buf_fini(&b);
}

static void dictionary_knows_what_was_told(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_dict *d = gs_dict_new();
	struct gs_rec_process p = {.head = {.kind = GS_REC_PROCESS}, .id = 40, .pid = 7};
	struct gs_rec_thread t = {.head = {.kind = GS_REC_THREAD}, .id = 2, .tid = 8};
	struct gs_rec_function f = {.head = {.kind = GS_REC_FUNCTION, .bytes = sizeof(f)},
				    .id = 3,
				    .layer = 1,
				    .file_str = 12,
				    .line = 34};
	struct gs_rec_session s = {.head = {.kind = GS_REC_SESSION}, .mode = 2};
	struct gs_rec_comm c = {.head = {.kind = GS_REC_COMM}, .process = 40, .comm = 5, .rank = 1};
	struct gs_batch batch;

	assert_non_null(d);
	assert_null(gs_dict_session(d));
	assert_null(gs_dict_process(d, 40));
	assert_null(gs_dict_comm(d, 40, 5));
	assert_string_equal(gs_dict_string(d, 0), "");
	assert_string_equal(gs_dict_string(d, 12), "");
	assert_int_equal(gs_dict_max_process(d), 0);

	gs_record_put_string(&b, 12, "a\0b", 3);
	batch = batch_of(&b);
	assert_int_equal(gs_dict_apply(d, batch.data), 0);
	assert_string_equal(gs_dict_string(d, 12), "a");
	assert_string_equal(gs_dict_string(d, 11), "");
	assert_string_equal(gs_dict_string(d, UINT32_MAX), "");
	assert_int_equal(gs_dict_apply(d, &p.head), 0);
	assert_int_equal(gs_dict_apply(d, &t.head), 0);
	assert_int_equal(gs_dict_apply(d, &f.head), 0);
	assert_int_equal(gs_dict_apply(d, &s.head), 0);
	assert_int_equal(gs_dict_apply(d, &c.head), 0);
	assert_int_equal(gs_dict_process(d, 40)->pid, 7);
	assert_int_equal(gs_dict_thread(d, 2)->tid, 8);
	assert_int_equal(gs_dict_function(d, 3)->layer, 1);
	assert_int_equal(gs_dict_function(d, 3)->file_str, 12);
	assert_int_equal(gs_dict_function(d, 3)->line, 34);
	assert_int_equal(gs_dict_session(d)->mode, 2);
	assert_int_equal(gs_dict_comm(d, 40, 5)->rank, 1);
	assert_null(gs_dict_comm(d, 41, 5));
	assert_null(gs_dict_comm(d, 40, 6));
	assert_true(gs_dict_max_process(d) >= 40);
	assert_true(gs_dict_max_thread(d) >= 2);
	assert_true(gs_dict_max_function(d) >= 3);

	/* Told again: the newest counts. */
	p.pid = 9;
	c.rank = 3;
	s.mode = 1;
	assert_int_equal(gs_dict_apply(d, &p.head), 0);
	assert_int_equal(gs_dict_apply(d, &c.head), 0);
	assert_int_equal(gs_dict_apply(d, &s.head), 0);
	assert_int_equal(gs_dict_process(d, 40)->pid, 9);
	assert_int_equal(gs_dict_comm(d, 40, 5)->rank, 3);
	assert_int_equal(gs_dict_session(d)->mode, 1);

	gs_dict_free(&d);
	assert_null(d);
	gs_dict_free(&d);
	gs_buf_fini(&b);
}

static void dictionary_refuses_wild_ids(void **state)
{
	struct gs_dict *d = gs_dict_new();
	struct gs_rec_process p = {.head = {.kind = GS_REC_PROCESS}};
	struct gs_rec_call call = {.head = {.kind = GS_REC_CALL}};
	struct gs_record unknown = {.bytes = 8, .kind = 500};

	assert_int_equal(gs_dict_apply(d, &p.head), -EINVAL);
	p.id = GS_DICT_MAX_ID;
	assert_int_equal(gs_dict_apply(d, &p.head), -EINVAL);
	p.id = UINT32_MAX;
	assert_int_equal(gs_dict_apply(d, &p.head), -EINVAL);
	p.id = GS_DICT_MAX_ID - 1;
	assert_int_equal(gs_dict_apply(d, &p.head), 0);
	assert_non_null(gs_dict_process(d, GS_DICT_MAX_ID - 1));
	assert_int_equal(gs_dict_apply(d, &call.head), 0);
	assert_int_equal(gs_dict_apply(d, &unknown), 0);
	gs_dict_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_comes_back),
		cmocka_unit_test(strings_are_padded_and_cut),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(damaged_records_end_the_reading),
		cmocka_unit_test(newer_records_are_read_by_what_is_known),
		cmocka_unit_test(loops_nest_and_can_be_left),
		cmocka_unit_test(dictionary_knows_what_was_told),
		cmocka_unit_test(dictionary_refuses_wild_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
