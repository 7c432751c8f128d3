/* What pipeline/correlate/correlate.h says of memory, and of passing records on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/correlate/collect.h"
#include "unit/aggregate/malloc_count.h"

enum function {
	MALLOC = 1,
	MALLOC_HOST,
	FREE_DEV,
	FREE_HOST,
	MANAGED,
	REGISTER,
	UNREGISTER,
	CREATE,
	RELEASE,
	NCCL_ALLOC,
	NCCL_FREE,
	LAUNCH,
	DRV_HOST,
	FREE_ASYNC,
	SET_DEVICE,
	RETAIN_CONTEXT,
	SET_CONTEXT,
	N_FUNCTIONS
};

static void put_world(struct stream *s)
{
	static const struct {
		unsigned layer, func_class;
		const char *name;
	} f[N_FUNCTIONS] = {
		[MALLOC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMalloc"},
		[MALLOC_HOST] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMallocHost"},
		[FREE_DEV] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE, "cudaFree"},
		[FREE_HOST] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE, "cudaFreeHost"},
		[MANAGED] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMallocManaged"},
		[REGISTER] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_ALLOC, "cuMemHostRegister_v2"},
		[UNREGISTER] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_FREE, "cuMemHostUnregister"},
		[CREATE] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_ALLOC, "cuMemCreate"},
		[RELEASE] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_FREE, "cuMemRelease"},
		[NCCL_ALLOC] = {GS_LAYER_NCCL, GS_CLASS_ALLOC, "ncclMemAlloc"},
		[NCCL_FREE] = {GS_LAYER_NCCL, GS_CLASS_FREE, "ncclMemFree"},
		[LAUNCH] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel"},
		[DRV_HOST] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_ALLOC, "cuMemAllocHost_v2"},
		[FREE_ASYNC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE, "cudaFreeAsync_ptsz"},
		[SET_DEVICE] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_DEVICE, "cudaSetDevice"},
		[RETAIN_CONTEXT] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_CONTEXT,
				    "cuDevicePrimaryCtxRetain"},
		[SET_CONTEXT] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_CONTEXT, "cuCtxSetCurrent"},
	};

	put_process(s, 1, 100, "one");
	put_process(s, 2, 200, "two");
	put_thread(s, 1, 1, 100, "one");
	put_thread(s, 2, 2, 200, "two");
	put_thread(s, 3, 1, 101, "one's second");
	for (uint32_t i = 1; i < N_FUNCTIONS; i++)
		put_function(s, i, f[i].layer, f[i].func_class, f[i].name);
}

static struct gs_rec_call *put_mem(struct stream *s, uint32_t thread, enum function function,
				   uint64_t end_ns, uint64_t pointer, uint64_t bytes)
{
	struct gs_rec_call *c = put_call(s, thread, function, end_ns - 5, 5);

	c->arg[0] = pointer;
	c->bytes = bytes;
	return c;
}

static void push(struct gs_correlate *span, struct stream *s)
{
	assert_int_equal(stream_push(s, gs_correlate_sink(span)), 0);
}

/* The newest counter of the name and process. */
static const struct gs_rec_counter *newest(const struct collect *c, uint32_t process,
					   const char *name)
{
	const struct gs_rec_counter *found = NULL, *r;

	for (size_t i = 0; (r = got_record(c, GS_REC_COUNTER, i)) != NULL; i++)
		if (r->process == process &&
		    strcmp(gs_dict_string(c->dict, r->name_str), name) == 0)
			found = r;
	return found;
}

static int64_t value(const struct collect *c, uint32_t process, const char *name)
{
	const struct gs_rec_counter *r = newest(c, process, name);

	return r ? r->value : -1;
}

#define DEVICE GS_CORRELATE_DEVICE_COUNTER
#define HOST   GS_CORRELATE_HOST_COUNTER
/* The processes here have not been traced since they began. */
#define UNKNOWN GS_CORRELATE_KIND_COUNTER "?, "

/* The bytes of the n-th call that came through. */
static uint64_t call_bytes(const struct collect *c, size_t n)
{
	const struct gs_rec_call *r = got_record(c, GS_REC_CALL, n);

	assert_non_null(r);
	return r->bytes;
}

static void live_memory(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const struct gs_rec_counter *r;

	put_world(&s);
	put_mem(&s, 1, MALLOC, 10, 0x1000, 100);
	put_mem(&s, 3, MANAGED, 20, 0x2000, 50);
	put_mem(&s, 2, MALLOC, 30, 0x1000, 7); /* the same address in another process */
	put_mem(&s, 1, MALLOC_HOST, 40, 0x3000, 1);
	put_mem(&s, 1, REGISTER, 50, 0x4001, 2);
	put_mem(&s, 2, DRV_HOST, 55, 0x4001, 9);
	push(span, &s);
	/* Of device memory one by its kind, too. */
	assert_int_equal(got_count(&c, GS_REC_COUNTER), 9);
	assert_int_equal(value(&c, 1, UNKNOWN "device"), 100);
	assert_int_equal(value(&c, 1, UNKNOWN "managed"), 50);
	assert_int_equal(value(&c, 1, DEVICE), 150);
	assert_int_equal(value(&c, 1, HOST), 3);
	assert_int_equal(value(&c, 2, DEVICE), 7);
	assert_int_equal(value(&c, 2, HOST), 9);
	r = got_record(&c, GS_REC_COUNTER, 2);
	assert_int_equal(r->time_ns, 20);
	assert_int_equal(r->unit, GS_UNIT_BYTES);
	assert_int_equal(r->process, 1);

	put_mem(&s, 1, FREE_ASYNC, 60, 0x1000, 0);
	put_mem(&s, 1, FREE_DEV, 61, 0x2000, 0);
	put_mem(&s, 1, UNREGISTER, 62, 0x4001, 0);
	put_mem(&s, 1, FREE_HOST, 63, 0x3000, 0);
	push(span, &s);
	assert_int_equal(call_bytes(&c, 6), 100);
	assert_int_equal(call_bytes(&c, 7), 50);
	assert_int_equal(call_bytes(&c, 8), 2);
	assert_int_equal(call_bytes(&c, 9), 1);
	assert_int_equal(value(&c, 1, DEVICE), 0);
	assert_int_equal(value(&c, 1, HOST), 0);
	assert_int_equal(value(&c, 2, DEVICE), 7);
	assert_int_equal(newest(&c, 1, DEVICE)->time_ns, 61);
	assert_int_equal(gs_correlate_untracked(span), 0);
}

static void what_is_not_counted(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	size_t n;

	put_world(&s);
	put_mem(&s, 1, MALLOC, 10, 0x1000, 100)->failed = 1;
	put_mem(&s, 1, MALLOC, 11, 0x1000, 100)->call_flags = GS_CALL_UNFINISHED;
	put_mem(&s, 1, MALLOC, 12, 0, 0);         /* nothing asked for */
	put_mem(&s, 99, MALLOC, 13, 0x1000, 100); /* a thread never announced */
	put_mem(&s, 1, 77, 13, 0x1000, 100);      /* a function never announced */
	put_mem(&s, 1, UINT32_MAX, 13, 0x1000, 100);
	put_mem(&s, 1, FREE_DEV, 14, 0x9000, 0); /* allocated before tracing */
	put_mem(&s, 1, FREE_DEV, 15, 0, 0);
	push(span, &s);
	assert_int_equal(got_count(&c, GS_REC_COUNTER), 0);
	assert_int_equal(call_bytes(&c, 6), 0);
	assert_int_equal(gs_correlate_untracked(span), 0);

	put_mem(&s, 1, MALLOC, 20, 0x1000, 100);
	put_mem(&s, 1, FREE_DEV, 21, 0x1000, 0)->failed = 1; /* it lives on */
	put_mem(&s, 1, FREE_HOST, 22, 0x1000, 0);            /* of the other kind of memory */
	push(span, &s);
	assert_int_equal(call_bytes(&c, 9), 0);
	assert_int_equal(call_bytes(&c, 10), 0);
	assert_int_equal(value(&c, 1, DEVICE), 100);
	put_mem(&s, 1, FREE_DEV, 23, 0x1000, 0);
	put_mem(&s, 1, FREE_DEV, 24, 0x1000, 0); /* a second time */
	push(span, &s);
	assert_int_equal(call_bytes(&c, 11), 100);
	assert_int_equal(call_bytes(&c, 12), 0);
	assert_int_equal(value(&c, 1, DEVICE), 0);
	n = got_count(&c, GS_REC_COUNTER);
	assert_int_equal(n, 4);

	/* The pointer could not be read: it cannot be followed, and that is told. */
	put_mem(&s, 1, MALLOC, 30, 0, 100)->call_flags = GS_CALL_ARGS_UNREAD;
	push(span, &s);
	assert_int_equal(gs_correlate_untracked(span), 1);
	assert_int_equal(got_count(&c, GS_REC_COUNTER), n);
}

static void replaced_block(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, MALLOC, 10, 0x1000, 100);
	put_mem(&s, 1, MALLOC, 20, 0x1000, 100); /* the same: nothing to say */
	put_mem(&s, 1, MALLOC, 30, 0x1000, 30);
	push(span, &s);
	assert_int_equal(got_count(&c, GS_REC_COUNTER), 4);
	assert_int_equal(value(&c, 1, DEVICE), 30);
}

static void times_do_not_go_back(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, MALLOC, 100, 0x1000, 1);
	put_mem(&s, 3, MALLOC, 90, 0x2000, 1); /* told late */
	put_mem(&s, 2, MALLOC, 80, 0x2000, 1); /* another counter, its own time */
	push(span, &s);
	assert_int_equal(newest(&c, 1, DEVICE)->time_ns, 100);
	assert_int_equal(newest(&c, 1, DEVICE)->value, 2);
	assert_int_equal(newest(&c, 2, DEVICE)->time_ns, 80);
}

static void exec_frees_all(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	for (uint64_t i = 1; i <= 1000; i++)
		put_mem(&s, 1, MALLOC, 10, i << 12, 3);
	put_mem(&s, 1, MALLOC_HOST, 11, 0x1000, 4);
	put_mem(&s, 2, MALLOC, 12, 0x1000, 5);
	put_call(&s, 2, LAUNCH, 500, 20);
	push(span, &s);
	put_process(&s, 1, 100, "exec'd");
	put_mem(&s, 1, FREE_DEV, 600, 0x1000, 0); /* not of this program */
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 0);
	assert_int_equal(newest(&c, 1, DEVICE)->time_ns, 520);
	assert_int_equal(value(&c, 1, HOST), 0);
	assert_int_equal(value(&c, 2, DEVICE), 5);
	assert_int_equal(call_bytes(&c, 1003), 0);
	put_mem(&s, 1, MALLOC, 700, 0x1000, 8);
	put_process(&s, 3, 300, "new"); /* not an exec */
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 8);
}

/* By cudaSetDevice, and by contexts of the driver. */
static void devices_of_threads(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, SET_DEVICE, 10, 0, 0)->aux = 2;
	put_mem(&s, 1, MALLOC, 20, 0x1000, 100);
	put_mem(&s, 1, RETAIN_CONTEXT, 30, 0xc0de, 0)->aux = 5;
	put_mem(&s, 1, SET_CONTEXT, 40, 0xc0de, 0);
	put_mem(&s, 1, MALLOC, 50, 0x2000, 7);
	put_mem(&s, 3, MALLOC, 60, 0x3000, 1); /* another thread chose none */
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 108);
	assert_int_equal(value(&c, 1, GS_CORRELATE_KIND_COUNTER "2, device"), 100);
	assert_int_equal(value(&c, 1, GS_CORRELATE_KIND_COUNTER "5, device"), 7);
	assert_int_equal(value(&c, 1, UNKNOWN "device"), 1);
	put_process(&s, 1, 100, "exec'd");
	put_mem(&s, 1, MALLOC, 70, 0x4000, 9);
	push(span, &s);
	assert_int_equal(value(&c, 1, GS_CORRELATE_KIND_COUNTER "0, device"), 9);
	assert_int_equal(value(&c, 1, GS_CORRELATE_KIND_COUNTER "5, device"), 0);
}

/* ncclMemAlloc() calls cuMemCreate(): one block, not two. */
static void nccl_memory(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	struct gs_rec_call *call;

	put_world(&s);
	put_mem(&s, 1, CREATE, 10, 0xaaa0, 40); /* not inside */
	put_mem(&s, 1, CREATE, 100, 0xbbb0, 64);
	put_mem(&s, 3, CREATE, 101, 0xccc0, 1); /* another thread's */
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 105);
	call = put_mem(&s, 3, NCCL_ALLOC, 110, 0x10000, 60);
	call->start_ns = 100; /* after the one of this thread began: apart */
	call->dur_ns = 10;
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 165);
	put_mem(&s, 1, CREATE, 200, 0xddd0, 64);
	call = put_mem(&s, 1, NCCL_ALLOC, 210, 0x20000, 60);
	call->start_ns = 190;
	call->dur_ns = 20;
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 229);
	put_mem(&s, 1, RELEASE, 220, 0xddd0, 0);
	put_mem(&s, 1, NCCL_FREE, 221, 0x20000, 0);
	put_mem(&s, 1, RELEASE, 222, 0xaaa0, 0);
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 125);
	assert_int_equal(call_bytes(&c, 6), 64);
	assert_int_equal(call_bytes(&c, 7), 60);
	assert_int_equal(call_bytes(&c, 8), 40);
}

static void too_many_blocks(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	push(span, &s);
	c.deaf = true;
	for (uint64_t i = 1; i <= GS_CORRELATE_MAX_BLOCKS + 3; i++) {
		put_mem(&s, 1, MALLOC, 10, i << 9, 1);
		if (i % 100000 == 0)
			push(span, &s);
	}
	push(span, &s);
	assert_int_equal(gs_correlate_untracked(span), 3);
	c.deaf = false;
	put_mem(&s, 1, FREE_DEV, 11, 1 << 9, 0);
	push(span, &s);
	assert_int_equal(call_bytes(&c, 0), 1);
	put_mem(&s, 1, MALLOC, 12, 1 << 9, 1);
	push(span, &s);
	assert_int_equal(gs_correlate_untracked(span), 3);
}

/* The records of in, without those that span may add, are those of out. */
static void passes_all_on(void **state)
{
	STREAM s = STREAM_INIT, all = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	size_t in = 0, out = 0;
	const struct gs_record *a, *b;
	struct gs_batch sent;

	put_world(&s);
	for (unsigned i = 1; i < 50; i++) {
		put_mem(&s, 1, MALLOC, i, i << 12, i);
		put_call(&s, 1, LAUNCH, i, 1);
		put_mem(&s, 1, FREE_DEV, i, (i - i % 2) << 12, 0);
		put_record(&s, GS_REC_LOSS, sizeof(struct gs_rec_loss), 0);
		put_record(&s, 200, 16, 8); /* a kind of a newer writer */
		put_record(&s, GS_REC_CALL, sizeof(struct gs_rec_call), 16); /* a longer one */
		put_comm(&s, 1, 0x10, 0, 1, 5);
		put_record(&s, GS_REC_STATS, sizeof(struct gs_rec_stats), 0);
		put_record(&s, GS_REC_ATTACH, sizeof(struct gs_rec_attach), 0);
		gs_buf_put(&all.buf, s.buf.data, s.buf.bytes);
		push(span, &s);
	}
	sent = stream_batch(&all);
	while ((a = gs_record_next(&sent, &in)) != NULL) {
		struct gs_batch got = {c.got.data, c.got.bytes};
		const struct gs_rec_call *call = (const void *)a;

		do {
			b = gs_record_next(&got, &out);
			assert_non_null(b);
		} while (b->kind == GS_REC_COUNTER ||
			 (b->kind == GS_REC_STRING &&
			  ((const struct gs_rec_string *)b)->id > 60000));
		assert_int_equal(a->kind, b->kind);
		assert_int_equal(a->bytes, b->bytes);
		/* A launch is the work of a stream: unit_sync.c. */
		if (a->kind == GS_REC_CALL && call->function == LAUNCH)
			assert_memory_equal(a, b, offsetof(struct gs_rec_call, flow));
		else if (a->kind != GS_REC_CALL || call->function != FREE_DEV)
			assert_memory_equal(a, b, a->bytes);
	}
	assert_int_equal(out, c.got.bytes);
}

static void unchanged_batches_are_not_copied(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, FREE_DEV, 5, 0x1000, 0);
	push(span, &s);
	assert_ptr_equal(c.last_data, s.buf.data);
	put_mem(&s, 1, MALLOC, 5, 0x1000, 1);
	push(span, &s);
	assert_ptr_not_equal(c.last_data, s.buf.data);
}

static void next_is_asked(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const struct gs_sink *sink = gs_correlate_sink(span);

	assert_int_equal(sink->flush(sink->ctx), 0);
	assert_int_equal(c.n_flushed, 1);
	c.answer = -EIO;
	assert_int_equal(sink->flush(sink->ctx), -EIO);
	put_world(&s);
	assert_int_equal(stream_push(&s, sink), -EIO);
	put_mem(&s, 1, MALLOC, 5, 0x1000, 1);
	assert_int_equal(stream_push(&s, sink), -EIO);
	assert_int_equal(c.n_pushed, 2);
	{
		struct gs_sink quiet = {.push = collect_push, .ctx = &c};
		SPAN *other = NULL;

		assert_int_equal(gs_correlate_new(&quiet, &other), 0);
		assert_int_equal(gs_correlate_sink(other)->flush(gs_correlate_sink(other)->ctx), 0);
	}
	gs_correlate_free(&span);
	assert_null(span);
	gs_correlate_free(&span);
}

/* What is malformed is passed on for next to see, and nothing of it is believed. */
static void malformed(void **state)
{
	STREAM s = STREAM_INIT, world = STREAM_INIT;

	put_world(&world);
	put_mem(&s, 1, MALLOC, 10, 0x1000, 100);
	put_comm(&s, 1, 0x10, 0, 1, 5);
	put_mem(&s, 1, FREE_DEV, 11, 0x1000, 0);
	for (size_t cut = 0; cut <= s.buf.bytes; cut++) {
		COLLECT c;
		SPAN *span = collect_span(&c);
		const struct gs_sink *sink = gs_correlate_sink(span);
		struct gs_batch b = stream_batch(&world);
		size_t before, n;

		assert_int_equal(sink->push(sink->ctx, &b), 0);
		before = c.got.bytes;
		b = (struct gs_batch){s.buf.data, cut};
		assert_int_equal(sink->push(sink->ctx, &b), 0);
		/* Two counters by each of the calls, and their names. */
		n = cut == s.buf.bytes ? 4 : cut >= sizeof(struct gs_rec_call) ? 2 : 0;
		assert_int_equal(got_count(&c, GS_REC_COUNTER), n);
		assert_int_equal(c.got.bytes - before - cut,
				 n * sizeof(struct gs_rec_counter) + (n ? 16 + 32 + 16 + 32 : 0));
	}
}

/* The names move out of the way of feed's strings. */
static void names_make_way(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, MALLOC, 10, 0x1000, 100);
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 100);
	s.n_strings = newest(&c, 1, DEVICE)->name_str - 1;
	put_text(&s, "feed came here");
	put_mem(&s, 1, MALLOC, 20, 0x2000, 100);
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 200);
	assert_string_equal(gs_dict_string(c.dict, s.n_strings), "feed came here");
	assert_true(newest(&c, 1, DEVICE)->name_str > s.n_strings);
	/* No ids left: no counters, and all else goes on. */
	s.n_strings = GS_DICT_MAX_ID - 2;
	put_text(&s, "the last one");
	put_mem(&s, 1, MALLOC, 30, 0x3000, 100);
	put_mem(&s, 1, FREE_DEV, 31, 0x3000, 0);
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 200);
	assert_int_equal(call_bytes(&c, 3), 100);
	assert_string_equal(gs_dict_string(c.dict, GS_DICT_MAX_ID - 1), "the last one");
}

/* A function may be announced after its first call, and again with another name. */
static void functions_announced_late(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	put_mem(&s, 1, 50, 10, 0x1000, 100);
	put_function(&s, 50, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMallocAsync");
	put_mem(&s, 1, 50, 11, 0x2000, 100);
	put_function(&s, 50, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaHostAlloc");
	put_mem(&s, 1, 50, 12, 0x3000, 7);
	push(span, &s);
	assert_int_equal(value(&c, 1, DEVICE), 100);
	assert_int_equal(value(&c, 1, HOST), 7);
}

#define BASE (1ull << 40)

static void allocates_nothing_when_warm(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	unsigned long before = 0;
	uint64_t next = 1;

	put_world(&s);
	push(span, &s);
	c.deaf = true;
	/* Addresses never come again, 500 blocks live at a time. */
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 500; i++, next++) {
			put_mem(&s, 1 + i % 3, MALLOC, next, BASE + (next << 9), i);
			put_call(&s, 1, LAUNCH, next, 1);
			if (next > 500)
				put_mem(&s, 1 + i % 3, FREE_DEV, next, BASE + ((next - 500) << 9),
					0);
		}
		if (round == 2)
			before = n_mallocs;
		push(span, &s);
	}
	assert_true(before > 0);
	assert_int_equal(n_mallocs, before);
}

/* Every allocation fails once: all records come through, and what cannot be done is left out. */
static void survives_want_of_memory(void **state)
{
	STREAM s = STREAM_INIT;
	bool failed = true;

	put_world(&s);
	for (unsigned i = 1; i < 400; i++)
		put_mem(&s, 1, MALLOC, i, i << 12, 1);
	for (uint64_t i = 1; i < 40; i++) {
		struct gs_rec_comm *r;

		put_comm(&s, 1, 16 * i, 0, 1, i);
		r = put_comm(&s, 1, 16 * i + 1, -1, -1, 0);
		r->parent = 16 * i;
		r->color = 0;
		r = put_comm(&s, 1, 16 * i + 2, -1, -1, 0);
		r->parent = 16 * i + 3;
		r->color = 0;
	}
	put_process(&s, 1, 100, "exec'd");
	for (unsigned long at = 1; failed; at++) {
		struct gs_batch b = stream_batch(&s);
		struct collect c = {.deaf = true};
		SPAN *span = NULL;
		int r;

		c.sink = (struct gs_sink){.push = collect_push, .ctx = &c};
		n_mallocs = 0;
		fail_at = at;
		r = gs_correlate_new(&c.sink, &span);
		if (r == 0)
			assert_int_equal(
				gs_correlate_sink(span)->push(gs_correlate_sink(span)->ctx, &b), 0);
		failed = n_mallocs >= fail_at;
		fail_at = 0;
		assert_true(r == 0 || (r == -ENOMEM && !span));
		assert_int_equal(c.n_pushed, r == 0);
		assert_true(c.last_bytes >= (r == 0 ? b.bytes : 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_memory),
		cmocka_unit_test(what_is_not_counted),
		cmocka_unit_test(replaced_block),
		cmocka_unit_test(times_do_not_go_back),
		cmocka_unit_test(exec_frees_all),
		cmocka_unit_test(devices_of_threads),
		cmocka_unit_test(nccl_memory),
		cmocka_unit_test(too_many_blocks),
		cmocka_unit_test(passes_all_on),
		cmocka_unit_test(unchanged_batches_are_not_copied),
		cmocka_unit_test(next_is_asked),
		cmocka_unit_test(malformed),
		cmocka_unit_test(names_make_way),
		cmocka_unit_test(functions_announced_late),
		cmocka_unit_test(allocates_nothing_when_warm),
		cmocka_unit_test(survives_want_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
