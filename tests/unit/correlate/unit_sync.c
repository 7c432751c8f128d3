/* Which call waited for which launch: what pipeline/correlate/sync.h says, call by call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/correlate/sync.h"
#include "unit/correlate/collect.h"

enum function {
	LAUNCH = 1,
	LAUNCH_PTSZ,
	COPY_ASYNC,
	COPY,
	COPY_PTDS,
	MEMSET,
	ALLREDUCE,
	STREAM_SYNC,
	STREAM_SYNC_PTSZ,
	DEVICE_SYNC,
	EVENT_SYNC,
	RECORD,
	STREAM_WAIT,
	STREAM_QUERY,
	EVENT_QUERY,
	STREAM_DESTROY,
	EVENT_DESTROY,
	BEGIN_CAPTURE,
	END_CAPTURE,
	GRAPH_LAUNCH,
	CTX_SYNC,
	OPERATOR,
	N_FUNCTIONS
};

static void put_world(struct stream *s)
{
	static const struct {
		unsigned layer, func_class;
		const char *name;
	} f[N_FUNCTIONS] = {
		[LAUNCH] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel"},
		[LAUNCH_PTSZ] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel_ptsz"},
		[COPY_ASYNC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpyAsync"},
		[COPY] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpy"},
		[COPY_PTDS] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpy_ptds"},
		[MEMSET] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_MEMSET, "cudaMemset"},
		[ALLREDUCE] = {GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce"},
		[STREAM_SYNC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize"},
		[STREAM_SYNC_PTSZ] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC,
				      "cudaStreamSynchronize_ptsz"},
		[DEVICE_SYNC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaDeviceSynchronize"},
		[EVENT_SYNC] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaEventSynchronize"},
		[RECORD] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_EVENT, "cudaEventRecord"},
		[STREAM_WAIT] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_STREAM, "cudaStreamWaitEvent"},
		[STREAM_QUERY] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_QUERY, "cudaStreamQuery"},
		[EVENT_QUERY] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_QUERY, "cudaEventQuery"},
		[STREAM_DESTROY] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_STREAM, "cudaStreamDestroy"},
		[EVENT_DESTROY] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_EVENT, "cudaEventDestroy"},
		[BEGIN_CAPTURE] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_STREAM,
				   "cudaStreamBeginCapture"},
		[END_CAPTURE] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_STREAM, "cudaStreamEndCapture"},
		[GRAPH_LAUNCH] = {GS_LAYER_CUDA_RUNTIME, GS_CLASS_GRAPH_LAUNCH, "cudaGraphLaunch"},
		[CTX_SYNC] = {GS_LAYER_CUDA_DRIVER, GS_CLASS_SYNC, "cuCtxSynchronize"},
		[OPERATOR] = {GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::add"},
	};

	put_process(s, 1, 100, "one");
	put_process(s, 2, 200, "two");
	put_thread(s, 1, 1, 100, "one");
	put_thread(s, 2, 1, 101, "one's second");
	put_thread(s, 3, 2, 200, "two");
	for (uint32_t i = 1; i < N_FUNCTIONS; i++)
		put_function(s, i, f[i].layer, f[i].func_class, f[i].name);
}

struct step {
	uint32_t thread;
	enum function function;
	uint64_t stream, event;
	uint64_t flow; /* wanted */
	int32_t ret;
	uint32_t aux;   /* of a copy: its kind */
	uint64_t bytes; /* likewise */
};

static const char *name_of(const struct collect *c, const struct gs_rec_call *r)
{
	const struct gs_rec_function *f = gs_dict_function(c->dict, r->function);

	return gs_dict_string(c->dict, f->name_str);
}

/* Each step's call through span, one batch each or all in one. */
static void check(const struct step *steps, size_t n, bool one_batch)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);

	put_world(&s);
	for (size_t i = 0; i < n; i++) {
		struct gs_rec_call *r = put_call(&s, steps[i].thread, steps[i].function, 10 * i, 5);

		r->stream = steps[i].stream;
		r->arg[0] = steps[i].event;
		r->ret = steps[i].ret;
		r->failed = steps[i].ret && steps[i].ret != 600;
		r->aux = steps[i].aux;
		r->bytes = steps[i].bytes;
		if (!one_batch)
			assert_int_equal(stream_push(&s, gs_correlate_sink(span)), 0);
	}
	assert_int_equal(stream_push(&s, gs_correlate_sink(span)), 0);
	for (size_t i = 0; i < n; i++) {
		const struct gs_rec_call *r = got_record(&c, GS_REC_CALL, i);

		assert_non_null(r);
		assert_int_equal(r->start_ns, 10 * i);
		assert_int_equal(
			!!(r->call_flags & GS_CALL_WAITED),
			r->flow && (strstr(name_of(&c, r), "Synchronize") ||
				    (steps[i].function == COPY &&
				     (steps[i].aux != GS_COPY_D2D && steps[i].bytes != 65536))));
		if (r->flow != steps[i].flow)
			fail_msg("call %zu: flow %llu, not %llu", i, (unsigned long long)r->flow,
				 (unsigned long long)steps[i].flow);
	}
	assert_null(got_record(&c, GS_REC_CALL, n));
}

#define CHECK(...)                                                                                 \
	do {                                                                                       \
		static const struct step steps[] = {__VA_ARGS__};                                  \
                                                                                                   \
		check(steps, GS_ARRAY_LEN(steps), true);                                           \
		check(steps, GS_ARRAY_LEN(steps), false);                                          \
	} while (0)

static void one_stream(void **state)
{
	CHECK({1, STREAM_SYNC, 7, .flow = 0}, /* nothing to wait for */
	      {1, LAUNCH, 7, .flow = 1}, {1, OPERATOR, .flow = 0}, {1, LAUNCH, 7, .flow = 1},
	      {1, COPY_ASYNC, 7, .flow = 1}, {1, ALLREDUCE, 7, .flow = 1},
	      {1, LAUNCH, 7, .ret = 1}, /* failed: no work */
	      {2, STREAM_SYNC, 7, .flow = 1}, {1, STREAM_SYNC, 7, .flow = 0},
	      {1, LAUNCH, 7, .flow = 2}, {1, GRAPH_LAUNCH, 7, .flow = 2},
	      {1, STREAM_SYNC, 8, .flow = 0}, {1, STREAM_SYNC, 7, .ret = 700},
	      {1, STREAM_SYNC, 7, .flow = 2});
}

static void streams_and_processes_apart(void **state)
{
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, LAUNCH, 8, .flow = 2}, {3, LAUNCH, 7, .flow = 3},
	      {1, STREAM_SYNC, 7, .flow = 1}, {3, STREAM_SYNC, 8, .flow = 0},
	      {3, STREAM_SYNC, 7, .flow = 3}, {1, STREAM_SYNC, 8, .flow = 2});
}

/* The newest of several streams; then nothing is left in any. */
static void the_device(void **state)
{
	CHECK({1, DEVICE_SYNC, .flow = 0}, {1, LAUNCH, 7, .flow = 1}, {1, LAUNCH, 8, .flow = 2},
	      {3, LAUNCH, 9, .flow = 3}, {1, LAUNCH, 7, .flow = 1}, {1, DEVICE_SYNC, .flow = 1},
	      {1, STREAM_SYNC, 8, .flow = 0}, {1, CTX_SYNC, .flow = 0}, {1, LAUNCH, 8, .flow = 4},
	      {1, LAUNCH, 7, .flow = 5}, {1, STREAM_SYNC, 7, .flow = 5}, {1, CTX_SYNC, .flow = 4},
	      {3, CTX_SYNC, .flow = 3});
}

static void events(void **state)
{
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, RECORD, 7, 0xe1}, {1, LAUNCH, 7, .flow = 2},
	      {1, LAUNCH, 7, .flow = 2}, {1, EVENT_SYNC, .event = 0xe1, .flow = 1},
	      {1, EVENT_SYNC, .event = 0xe1, .flow = 0}, {1, STREAM_SYNC, 7, .flow = 2},
	      /* Recorded where nothing is pending; never recorded; of another process. */
	      {1, RECORD, 7, 0xe1}, {1, EVENT_SYNC, .event = 0xe1}, {1, EVENT_SYNC, .event = 0xe2},
	      {1, LAUNCH, 7, .flow = 3}, {1, RECORD, 7, 0xe3}, {3, EVENT_SYNC, .event = 0xe3},
	      {1, RECORD, 7, 0xe4},
	      /* Two events, one stretch: the second has nothing to wait for. */
	      {1, EVENT_SYNC, .event = 0xe4, .flow = 3}, {1, EVENT_SYNC, .event = 0xe3},
	      /* Waiting for the stream is waiting for its events. */
	      {1, LAUNCH, 7, .flow = 4}, {1, RECORD, 7, 0xe1}, {1, STREAM_SYNC, 7, .flow = 4},
	      {1, EVENT_SYNC, .event = 0xe1}, {1, LAUNCH, 7, .flow = 5}, {1, RECORD, 7, 0xe1},
	      {1, EVENT_DESTROY, .event = 0xe1}, {1, EVENT_SYNC, .event = 0xe1});
}

static void streams_that_wait(void **state)
{
	/* 8 waits for 7's event: a wait for 8 is one for 7's stretch. */
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, RECORD, 7, 0xe1}, {1, LAUNCH, 7, .flow = 2},
	      {1, STREAM_WAIT, 8, 0xe1}, {1, STREAM_SYNC, 8, .flow = 1},
	      {1, STREAM_SYNC, 8, .flow = 0}, {1, EVENT_SYNC, .event = 0xe1},
	      {1, STREAM_SYNC, 7, .flow = 2});
	/* Its own work comes after it, and takes the event's with it. */
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, RECORD, 7, 0xe1}, {1, STREAM_WAIT, 8, 0xe1},
	      {1, LAUNCH, 8, .flow = 2}, {1, STREAM_SYNC, 8, .flow = 2},
	      {1, STREAM_SYNC, 7, .flow = 0});
	/* Work before it, the event's done already. */
	CHECK({1, LAUNCH, 8, .flow = 1}, {1, LAUNCH, 7, .flow = 2}, {1, RECORD, 7, 0xe1},
	      {1, STREAM_WAIT, 8, 0xe1}, {1, STREAM_SYNC, 7, .flow = 2},
	      {1, STREAM_SYNC, 8, .flow = 1}, {1, DEVICE_SYNC, .flow = 0});
	/* For an event of its own, or one that was never recorded: nothing new. */
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, RECORD, 7, 0xe1}, {1, STREAM_WAIT, 7, 0xe1},
	      {1, STREAM_WAIT, 7, 0xe2}, {1, LAUNCH, 7, .flow = 2}, {1, STREAM_SYNC, 7, .flow = 2},
	      {1, EVENT_SYNC, .event = 0xe1, .flow = 0});
}

/* 0 and cudaStreamLegacy are one; _ptsz and cudaStreamPerThread are one for each thread. */
static void default_streams(void **state)
{
	CHECK({1, LAUNCH, 0, .flow = 1}, {2, LAUNCH, 1, .flow = 1}, {1, LAUNCH_PTSZ, 0, .flow = 2},
	      {2, LAUNCH_PTSZ, 0, .flow = 3}, {2, LAUNCH, 2, .flow = 3},
	      {1, STREAM_SYNC, 2, .flow = 2}, {1, STREAM_SYNC_PTSZ, 0, .flow = 0},
	      {2, STREAM_SYNC_PTSZ, 0, .flow = 3}, {2, STREAM_SYNC, 0, .flow = 1},
	      {1, LAUNCH_PTSZ, 7, .flow = 4}, {2, STREAM_SYNC, 7, .flow = 4});
}

static void copies_that_wait(void **state)
{
	CHECK({1, LAUNCH, 0, .flow = 1}, {1, COPY, .aux = GS_COPY_D2D, .bytes = 1 << 20, .flow = 1},
	      {1, COPY, .aux = GS_COPY_H2D, .bytes = 65536, .flow = 1}, {1, MEMSET, 0, .flow = 1},
	      {1, COPY, .aux = GS_COPY_D2H, .bytes = 4, .flow = 1},
	      {1, COPY, .aux = GS_COPY_D2H, .bytes = 4, .flow = 0}, {1, LAUNCH, 0, .flow = 2},
	      {1, COPY, .aux = GS_COPY_H2D, .bytes = 65537, .flow = 2}, {1, LAUNCH, 0, .flow = 3},
	      {1, COPY_PTDS, .aux = GS_COPY_D2H, .flow = 0},
	      {1, COPY, .aux = GS_COPY_DEFAULT, .flow = 3});
}

static void questions(void **state)
{
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, STREAM_QUERY, 7, .ret = 600}, {1, RECORD, 7, 0xe1},
	      {1, EVENT_QUERY, .event = 0xe1, .ret = 600}, {1, STREAM_SYNC, 7, .flow = 1},
	      {1, LAUNCH, 7, .flow = 2}, {1, STREAM_QUERY, 7}, {1, STREAM_SYNC, 7, .flow = 0},
	      {1, LAUNCH, 7, .flow = 3}, {1, RECORD, 7, 0xe1}, {1, EVENT_QUERY, .event = 0xe1},
	      {1, STREAM_SYNC, 7, .flow = 0});
}

static void captures(void **state)
{
	CHECK({1, LAUNCH, 7, .flow = 1}, {1, BEGIN_CAPTURE, 7}, {1, LAUNCH, 7, .flow = 0},
	      {1, COPY_ASYNC, 7, .flow = 0}, {1, END_CAPTURE, 7}, {1, GRAPH_LAUNCH, 7, .flow = 1},
	      {1, STREAM_SYNC, 7, .flow = 1}, {1, BEGIN_CAPTURE, 8}, {1, STREAM_DESTROY, 8},
	      {1, LAUNCH, 8, .flow = 2}, {1, STREAM_DESTROY, 8}, {1, LAUNCH, 8, .flow = 3},
	      {1, DEVICE_SYNC, .flow = 3});
}

/* exec: handles mean nothing of what they did. */
static void new_program(void **state)
{
	STREAM s = STREAM_INIT;
	COLLECT c;
	SPAN *span = collect_span(&c);
	const struct gs_rec_call *r;

	put_world(&s);
	put_call(&s, 1, LAUNCH, 1, 1)->stream = 7;
	put_process(&s, 1, 100, "new");
	put_call(&s, 1, STREAM_SYNC, 3, 1)->stream = 7;
	put_call(&s, 1, DEVICE_SYNC, 5, 1);
	put_call(&s, 1, LAUNCH, 7, 1)->call_flags = GS_CALL_UNFINISHED;
	assert_int_equal(stream_push(&s, gs_correlate_sink(span)), 0);
	for (size_t i = 0; (r = got_record(&c, GS_REC_CALL, i)) != NULL; i++)
		assert_int_equal(r->flow, i == 0);
}

/* Far more streams and events than are remembered: no call points to what was not its work. */
static void too_many(void **state)
{
	struct syncs syncs = {0};
	struct gs_rec_call c = {.thread = 1};
	unsigned n_found = 0;
	bool waited;

	for (unsigned i = 0; i < 5 * SYNC_MAX_ENTRIES; i++) {
		uint64_t id, flow;

		c.stream = 100 + i;
		c.arg[0] = 0x10000000 + i;
		id = correlate_syncs_take(&syncs, 1, &c, GS_ACTIVITY_WORK, false, &waited);
		correlate_syncs_take(&syncs, 1, &c, GS_ACTIVITY_RECORD, false, &waited);
		flow = correlate_syncs_take(
			&syncs, 1, &c, i % 2 ? GS_ACTIVITY_WAIT_EVENT : GS_ACTIVITY_WAIT_STREAM,
			false, &waited);
		assert_true(flow == id || flow == 0);
		n_found += flow == id && id;
		if (i % 7 == 0)
			correlate_syncs_take(&syncs, 1, &c, GS_ACTIVITY_STREAM_WAITS, false,
					     &waited);
	}
	assert_true(n_found > 5 * SYNC_MAX_ENTRIES - 100);
	assert_true(syncs.capacity <= SYNC_MAX_ENTRIES);
	correlate_syncs_fini(&syncs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_stream),        cmocka_unit_test(streams_and_processes_apart),
		cmocka_unit_test(the_device),        cmocka_unit_test(events),
		cmocka_unit_test(streams_that_wait), cmocka_unit_test(default_streams),
		cmocka_unit_test(copies_that_wait),  cmocka_unit_test(questions),
		cmocka_unit_test(captures),          cmocka_unit_test(new_program),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
