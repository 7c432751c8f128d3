/* What NCCL says of its operations, added up: known operations, known sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/summary/nccl.h"
#include "pipeline/nccl_ops/nccl_ops.h"

#define ALL_REDUCE 1u
#define ALL_GATHER 2u
#define SEND       3u
#define RING       4u
#define TREE       5u
#define LL         6u
#define SIMPLE     7u
#define HASH       0xabcdull

struct run {
	struct gs_nccl_ops *ops;
	struct gs_dict *dict;
	struct gs_summary *summary;
	const struct gs_nccl_summary *n;
};

static void put_string(struct gs_dict *dict, uint32_t id, const char *text)
{
	struct gs_buf buf = GS_BUF_INIT(65536);

	assert_int_equal(gs_record_put_string(&buf, id, text, strlen(text)), 0);
	assert_int_equal(gs_dict_apply(dict, (const void *)buf.data), 0);
	gs_buf_fini(&buf);
}

static void begin(struct run *r)
{
	static const char *const texts[] = {"AllReduce", "AllGather", "Send",   "RING",
					    "TREE",      "LL",        "SIMPLE", "mine"};

	const struct gs_rec_session session = {
		.head = {.kind = GS_REC_SESSION, .bytes = sizeof(session)}, .start_ns = 500};

	*r = (struct run){.dict = gs_dict_new()};
	gs_dict_apply(r->dict, &session.head);
	for (uint32_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put_string(r->dict, i + 1, texts[i]);
	for (uint32_t id = 1; id <= 4; id++) {
		const struct gs_rec_process p = {
			.head = {.kind = GS_REC_PROCESS, .bytes = sizeof(p)},
			.id = id,
			.pid = 100 + id};

		gs_dict_apply(r->dict, &p.head);
	}
}

/* Process N is rank N - 1 of 4. */
static void end_comm(struct run *r, uint32_t process, uint32_t number)
{
	const struct gs_rec_nccl_comm c = {.head = {.kind = GS_REC_NCCL_COMM, .bytes = sizeof(c)},
					   .process = process,
					   .number = number,
					   .what = GS_NCCL_COMM_ENDED,
					   .rank = -1,
					   .abi = 5};

	assert_int_equal(gs_nccl_ops_take(&r->ops, r->dict, &c.head), 0);
}

static void comm(struct run *r, uint32_t process, uint32_t number, uint64_t hash)
{
	const struct gs_rec_nccl_comm c = {.head = {.kind = GS_REC_NCCL_COMM, .bytes = sizeof(c)},
					   .process = process,
					   .number = number,
					   .hash = hash,
					   .what = GS_NCCL_COMM_BEGUN,
					   .rank = (int32_t)process - 1,
					   .n_ranks = 4,
					   .abi = 5,
					   .nccl = 22809,
					   .name_str = 8};

	assert_int_equal(gs_nccl_ops_take(&r->ops, r->dict, &c.head), 0);
}

static struct gs_rec_nccl_op all_reduce(uint32_t process, uint32_t number, uint64_t seq,
					uint64_t bytes)
{
	return (struct gs_rec_nccl_op){
		.head = {.kind = GS_REC_NCCL_OP, .bytes = sizeof(struct gs_rec_nccl_op)},
		.process = process,
		.start_ns = 1000,
		.end_ns = 1500,
		.seq = seq,
		.bytes = bytes,
		.number = number,
		.comm = 1,
		.channels = 8,
		.what = GS_NCCL_COLLECTIVE,
		.func_str = ALL_REDUCE,
		.algorithm_str = RING,
		.protocol_str = SIMPLE};
}

static void take(struct run *r, const struct gs_rec_nccl_op *op)
{
	assert_int_equal(gs_nccl_ops_take(&r->ops, r->dict, &op->head), 0);
}

static void channel(struct run *r, uint32_t process, uint32_t op, uint64_t from, uint64_t to)
{
	const struct gs_rec_nccl_channel c = {
		.head = {.kind = GS_REC_NCCL_CHANNEL, .bytes = sizeof(c)},
		.process = process,
		.op = op,
		.what = GS_NCCL_CHANNEL_KERNEL,
		.gpu_start_ns = from,
		.gpu_end_ns = to};

	assert_int_equal(gs_nccl_ops_take(&r->ops, r->dict, &c.head), 0);
}

/* The trace began at 500 and took that long. */
static void finish_after(struct run *r, uint64_t duration_ns)
{
	r->summary = calloc(1, sizeof(*r->summary));
	r->summary->duration_ns = duration_ns;
	assert_int_equal(gs_nccl_ops_summary(r->ops, r->dict, r->summary), 0);
	r->n = r->summary->nccl;
}

static void finish(struct run *r)
{
	finish_after(r, 1000);
}

static void end(struct run *r)
{
	gs_summary_free(&r->summary);
	gs_nccl_ops_free(&r->ops);
	gs_dict_free(&r->dict);
}

static void choices(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	comm(&r, 1, 1, HASH);
	for (uint32_t i = 0; i < 10; i++) {
		op = all_reduce(1, i + 1, i, 1000 + i);
		take(&r, &op);
	}
	for (uint32_t i = 10; i < 15; i++) {
		op = all_reduce(1, i + 1, i, 8);
		op.algorithm_str = TREE;
		op.protocol_str = LL;
		op.channels = 2;
		take(&r, &op);
	}
	op = all_reduce(1, 17, 0, GS_NCCL_BYTES_UNKNOWN); /* 16 is lost */
	op.what = GS_NCCL_TRANSFER;
	op.func_str = SEND;
	op.algorithm_str = op.protocol_str = 0;
	op.channels = 0;
	take(&r, &op);
	finish(&r);
	assert_int_equal(r.n->n_choices, 3);
	assert_int_equal(r.n->collectives, 15);
	assert_int_equal(r.n->transfers, 1);
	assert_int_equal(r.n->bytes, 10045 + 40);
	assert_int_equal(r.n->unsized, 1);
	assert_int_equal(r.n->lost, 1);
	assert_int_equal(r.n->nccl, 22809);
	assert_string_equal(r.n->choices[0].func, "AllReduce");
	assert_string_equal(r.n->choices[0].algorithm, "RING");
	assert_string_equal(r.n->choices[0].protocol, "SIMPLE");
	assert_int_equal(r.n->choices[0].channels, 8);
	assert_int_equal(r.n->choices[0].ops, 10);
	assert_int_equal(r.n->choices[0].bytes, 10045);
	assert_int_equal(r.n->choices[0].min_bytes, 1000);
	assert_int_equal(r.n->choices[0].max_bytes, 1009);
	assert_int_equal(r.n->choices[0].enqueue_ns, 5000);
	assert_int_equal(r.n->choices[1].ops, 5);
	assert_string_equal(r.n->choices[1].protocol, "LL");
	assert_int_equal(r.n->choices[2].sized, 0);
	assert_int_equal(r.n->choices[2].min_bytes, 0);
	assert_string_equal(r.n->choices[2].algorithm, "");
	end(&r);
}

/* From the first channel's begin to the last one's end, whichever came first; of other operations nothing. */
static void channels_by_operation(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	comm(&r, 1, 1, HASH);
	comm(&r, 2, 1, HASH);
	channel(&r, 1, 1, 5000, 5400); /* before its operation */
	op = all_reduce(1, 1, 0, 1000);
	take(&r, &op);
	channel(&r, 1, 1, 4900, 5300);
	op = all_reduce(2, 1, 0, 1000); /* of the same number in another process: not looked at */
	take(&r, &op);
	op = all_reduce(1, 2, 1, 1000);
	take(&r, &op);
	channel(&r, 1, 2, 7000, 7100);
	channel(&r, 1, 2, 0, 0);       /* without times */
	channel(&r, 1, 3, 8000, 8100); /* of an operation that was lost */
	channel(&r, 1, 0, 8000, 8100); /* of none */
	op = all_reduce(1, 4, 0, 1000);
	op.func_str = ALL_GATHER;
	take(&r, &op);
	channel(&r, 1, 4, 9000, 9010);
	finish(&r);
	assert_int_equal(r.n->channels, 7);
	assert_int_equal(r.n->unplaced, 2);
	assert_string_equal(r.n->choices[0].func, "AllReduce");
	assert_int_equal(r.n->choices[0].ops, 3);
	assert_int_equal(r.n->choices[0].timed, 2);
	assert_int_equal(r.n->choices[0].gpu_ns, 500 + 100);
	assert_int_equal(r.n->choices[0].gpu_max_ns, 500);
	assert_int_equal(r.n->choices[0].timed_bytes, 2 * 1500); /* 2 (n - 1) / n */
	assert_int_equal(r.n->choices[1].timed_bytes, 3000);     /* n - 1 */
	end(&r);
}

static void many_operations_between(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	for (uint32_t i = 1; i <= 100000; i++) {
		op = all_reduce(1, i, i - 1, 100);
		take(&r, &op);
		if (i > 1000)
			channel(&r, 1, i - 1000, i * 10, i * 10 + 7);
	}
	finish(&r);
	assert_int_equal(r.n->choices[0].timed, 99000);
	assert_int_equal(r.n->choices[0].gpu_ns, 99000 * 7);
	assert_int_equal(r.n->unplaced, 0);
	end(&r);
}

/* Rank 2 has handed over three less than the others of one function; communicators of other hashes are apart. */
static void who_lags(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	for (uint32_t p = 1; p <= 4; p++) {
		comm(&r, p, 1, HASH);
		comm(&r, p, 2, HASH + p);
		for (uint32_t i = 0; i < (p == 3 ? 7 : 10); i++) {
			op = all_reduce(p, i + 1, i, 100);
			take(&r, &op);
		}
		for (uint32_t i = 0; i < 5; i++) {
			op = all_reduce(p, 20 + i, i, 100);
			op.func_str = ALL_GATHER;
			take(&r, &op);
		}
	}
	finish(&r);
	assert_int_equal(r.n->n_comms, 5);
	assert_int_equal(r.n->comms[0].hash, HASH);
	assert_int_equal(r.n->comms[0].n_seen, 4);
	assert_int_equal(r.n->comms[0].n_ranks, 4);
	assert_int_equal(r.n->comms[0].ops, 37 + 20);
	assert_int_equal(r.n->comms[0].lag, 3);
	assert_int_equal(r.n->comms[0].lag_rank, 2);
	assert_int_equal(r.n->comms[0].lag_pid, 103);
	assert_string_equal(r.n->comms[0].lag_func, "AllReduce");
	assert_string_equal(r.n->comms[0].name, "mine");
	for (unsigned i = 1; i < 5; i++) {
		assert_int_equal(r.n->comms[i].n_seen, 1);
		assert_int_equal(r.n->comms[i].lag, 0);
	}
	end(&r);
}

/* A communicator that finds no room, and one without a number: their operations are counted, no rank is. */
static void too_many_communicators(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	for (uint32_t i = 0; i <= 16386; i++) {
		op = all_reduce(1, i + 1, 0, 100);
		op.comm = i;
		take(&r, &op);
	}
	finish(&r);
	assert_int_equal(r.n->collectives, 16387);
	assert_int_equal(r.n->choices[0].ops, 16387);
	assert_int_equal(r.n->n_comms, 16384);
	assert_int_equal(r.n->unranked, 3);
	end(&r);
}

/* Two ranks, of which one has handed over one less; are they to stay so? */
static void be_apart(struct run *r)
{
	struct gs_rec_nccl_op op;

	begin(r);
	for (uint32_t p = 1; p <= 2; p++) {
		comm(r, p, 1, HASH);
		for (uint32_t i = 0; i < 10 + p; i++) {
			op = all_reduce(p, i + 1, i, 100);
			take(r, &op);
		}
	}
}

static void what_is_stalled(void **state)
{
	struct run r;

	be_apart(&r); /* in the midst: 1000 - 1500 is the last one */
	finish_after(&r, 1000 + GS_NCCL_QUIET_NS - 1);
	assert_int_equal(r.n->comms[0].lag, 1);
	assert_int_equal(r.n->comms[0].quiet_ns, GS_NCCL_QUIET_NS - 1);
	assert_false(r.n->comms[0].is_stalled);
	end(&r);
	be_apart(&r); /* nothing came for long */
	finish_after(&r, 1000 + GS_NCCL_QUIET_NS);
	assert_true(r.n->comms[0].is_stalled);
	end(&r);
	be_apart(&r); /* one has ended */
	end_comm(&r, 1, 1);
	finish(&r);
	assert_false(r.n->comms[0].is_stalled);
	end(&r);
	be_apart(&r); /* both have */
	end_comm(&r, 1, 1);
	end_comm(&r, 2, 1);
	finish(&r);
	assert_true(r.n->comms[0].is_stalled);
	end(&r);
}

/* Before NCCL 2.27 a communicator has its hash by its operations. */
static void without_a_word_of_the_communicator(void **state)
{
	struct gs_rec_nccl_op op;
	struct run r;

	begin(&r);
	for (uint32_t p = 1; p <= 2; p++)
		for (uint32_t i = 0; i < p; i++) {
			op = all_reduce(p, i + 1, i, 100);
			op.hash = HASH;
			op.rank = (int32_t)p - 1;
			take(&r, &op);
		}
	finish(&r);
	assert_int_equal(r.n->n_comms, 1);
	assert_int_equal(r.n->comms[0].n_seen, 2);
	assert_int_equal(r.n->comms[0].lag, 1);
	assert_int_equal(r.n->comms[0].lag_rank, 0);
	end(&r);
}

static void nothing_said(void **state)
{
	const struct gs_record other = {.kind = GS_REC_GPU_WORK, .bytes = 8};
	struct run r;

	begin(&r);
	assert_int_equal(gs_nccl_ops_take(&r.ops, r.dict, &other), 0);
	finish(&r);
	assert_null(r.n);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choices),
		cmocka_unit_test(channels_by_operation),
		cmocka_unit_test(many_operations_between),
		cmocka_unit_test(who_lags),
		cmocka_unit_test(too_many_communicators),
		cmocka_unit_test(what_is_stalled),
		cmocka_unit_test(without_a_word_of_the_communicator),
		cmocka_unit_test(nothing_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
