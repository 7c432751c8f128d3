/* By when a rank had left a collective: only what waits that began after its launch show, and only of collectives in which ranks meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "pipeline/aggregate/aggregate.h"
#include "records.h"

enum {
	REDUCE = 1,
	CAST,
	STREAM_WAIT,
	DEVICE_WAIT,
	GROUP_BEGIN,
	GROUP_END,
	EVENT_RECORD,
	STREAM_WAITS,
	LAUNCH
};

#define COMM   0xa0
#define NCCL_S 0x77 /* streams */
#define WORK_S 0x88

struct run {
	struct gs_aggregate *v;
	struct stream s;
	unsigned n;
	uint32_t member;
	uint64_t entered_ns, left_ns; /* of the newest */
};

static void take_stay(void *ctx, uint32_t member, uint64_t entered_ns, uint64_t left_ns)
{
	struct run *r = ctx;

	r->n++;
	r->member = member;
	r->entered_ns = entered_ns;
	r->left_ns = left_ns;
}

static void begin(struct run *r)
{
	const struct gs_aggregate_collectives receiver = {.stay = take_stay, .ctx = r};
	static const struct {
		unsigned layer, func_class;
		const char *name;
	} functions[] = {
		[REDUCE] = {GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce"},
		[CAST] = {GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclBroadcast"},
		[STREAM_WAIT] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize"},
		[DEVICE_WAIT] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaDeviceSynchronize"},
		[GROUP_BEGIN] = {GS_LAYER_NCCL, GS_CLASS_GROUP, "ncclGroupStart"},
		[GROUP_END] = {GS_LAYER_NCCL, GS_CLASS_GROUP, "ncclGroupEnd"},
		[EVENT_RECORD] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_EVENT, "cudaEventRecord"},
		[STREAM_WAITS] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_STREAM, "cudaStreamWaitEvent"},
		[LAUNCH] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel"},
	};

	*r = (struct run){.s = STREAM_INIT};
	assert_int_equal(gs_aggregate_new(&r->v), 0);
	gs_aggregate_set_collectives(r->v, &receiver);
	for (unsigned i = 1; i < GS_ARRAY_LEN(functions); i++)
		put_function(&r->s, i, functions[i].layer, functions[i].func_class,
			     functions[i].name);
	put_process(&r->s, 1, 100, "train");
	put_thread(&r->s, 1, 1, 100, "train");
	put_thread(&r->s, 2, 1, 101, "other");
	put_comm(&r->s, 1, COMM, 0, 2, 0x1234);
}

static void end(struct run *r)
{
	gs_aggregate_free(&r->v);
	stream_fini(&r->s);
}

/* Until 10 ns later. */
static struct gs_rec_call *put(struct run *r, unsigned function, uint64_t start_ns, uint64_t stream)
{
	struct gs_rec_call *c = put_call(&r->s, 1, function, start_ns, 10);

	c->stream = stream;
	return c;
}

static void put_collective(struct run *r, unsigned function, uint64_t start_ns, uint64_t bytes)
{
	struct gs_rec_call *c = put(r, function, start_ns, NCCL_S);

	c->arg[1] = COMM;
	c->bytes = bytes;
}

static void push(struct run *r)
{
	assert_int_equal(stream_push(&r->s, gs_aggregate_sink(r->v)), 0);
}

static void test_waits(void **state)
{
	struct run r;

	(void)state;
	begin(&r);
	put_collective(&r, REDUCE, 1000, 8);
	push(&r);
	assert_int_equal(r.n, 0); /* that its call returned says nothing */
	put(&r, STREAM_WAIT, 2000, WORK_S);
	push(&r);
	assert_int_equal(r.n, 0); /* another stream */
	put(&r, STREAM_WAIT, 3000, NCCL_S);
	push(&r);
	assert_int_equal(r.n, 1);
	assert_true(r.member > 0);
	assert_int_equal(r.entered_ns, 1000);
	assert_int_equal(r.left_ns, 3010);
	put(&r, STREAM_WAIT, 4000, NCCL_S);
	push(&r);
	assert_int_equal(r.n, 1); /* once */
	/* The newest of several, by a wait for the device. */
	put_collective(&r, REDUCE, 5000, 8);
	put_collective(&r, REDUCE, 6000, 8);
	put(&r, DEVICE_WAIT, 7000, 0);
	push(&r);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.entered_ns, 6000);
	assert_int_equal(r.left_ns, 7010);
	end(&r);
}

/* As PyTorch does: a group around each, and a wait for another stream, which waits for an event after it. */
static void test_as_pytorch(void **state)
{
	struct run r;

	(void)state;
	begin(&r);
	put(&r, GROUP_BEGIN, 900, 0);
	put_collective(&r, REDUCE, 1000, 8);
	put(&r, GROUP_END, 1100, 0);
	put(&r, EVENT_RECORD, 1200, NCCL_S)->arg[0] = 0xe1;
	put(&r, STREAM_WAITS, 1300, WORK_S)->arg[0] = 0xe1;
	put(&r, LAUNCH, 1400, WORK_S);
	put(&r, STREAM_WAIT, 1500, WORK_S);
	push(&r);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.entered_ns, 1000);
	assert_int_equal(r.left_ns, 1510);
	end(&r);
}

/* What is not launched, began before, failed, is no meeting or moves nothing: not known. */
static void test_not_known(void **state)
{
	struct run r;

	(void)state;
	begin(&r);
	put_collective(&r, CAST, 1000, 8);
	put(&r, STREAM_WAIT, 1100, NCCL_S);
	put_collective(&r, REDUCE, 2000, 0);
	put(&r, STREAM_WAIT, 2100, NCCL_S);
	put_collective(&r, REDUCE, 3000, 8);
	put(&r, STREAM_WAIT, 3005, NCCL_S); /* it began before the call returned */
	put_collective(&r, REDUCE, 4000, 8);
	put(&r, STREAM_WAIT, 4100, NCCL_S)->ret = 700; /* an error of the device */
	push(&r);
	assert_int_equal(r.n, 0);
	/* Another thread waits while the group is open: nothing has been launched. */
	put(&r, GROUP_BEGIN, 5000, 0);
	put_collective(&r, REDUCE, 5100, 8);
	put_call(&r.s, 2, STREAM_WAIT, 5200, 10)->stream = NCCL_S;
	put(&r, GROUP_END, 5300, 0);
	put(&r, STREAM_WAIT, 5400, NCCL_S);
	/* Likewise where it began inside. */
	put(&r, GROUP_BEGIN, 6000, 0);
	put(&r, GROUP_BEGIN, 6010, 0);
	put_collective(&r, REDUCE, 6100, 8);
	put(&r, GROUP_END, 6200, 0);
	put(&r, GROUP_END, 6300, 0)->ret = 7; /* in progress */
	put(&r, STREAM_WAIT, 6400, NCCL_S);
	push(&r);
	assert_int_equal(r.n, 0);
	put_collective(&r, REDUCE, 7000, 8);
	put(&r, STREAM_WAIT, 7100, NCCL_S);
	push(&r);
	assert_int_equal(r.n, 1);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_as_pytorch),
		cmocka_unit_test(test_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
