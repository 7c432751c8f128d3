/* Events, cells and open calls as records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/record_stack.h"
#include "core/base/clock.h"
#include "ingest_test.h"

static void a_call_is_copied(void **state)
{
	struct fixture *x = *state;
	struct gs_event_call ev = make_call(5, 6, "cudaMemcpyAsync");
	const struct gs_rec_call *c;
	const struct gs_rec_function *f;

	ev.start_ns = 123456789;
	ev.dur_ns = 4321;
	ev.ret = 2;
	ev.cpu = 300;
	ev.depth = 3;
	ev.flags = GS_CALL_DRIVER_SEEN | GS_CALL_ARGS_UNREAD;
	ev.aux = GS_COPY_H2D;
	ev.bytes = 1ull << 40;
	ev.stream = 0x7f0011223344;
	for (unsigned i = 0; i < 4; i++)
		ev.arg[i] = 100 + i;
	gs_ingest_event(x->feed, &ev.head);
	feed_take(x);
	c = feed_record(x, GS_REC_CALL, 0);
	assert_int_equal(c->start_ns, 123456789 + BOOT_MINUS_MONO_NS);
	assert_int_equal(c->dur_ns, 4321);
	assert_int_equal(c->ret, 2);
	assert_int_equal(c->failed, 1);
	assert_int_equal(c->cpu, 300);
	assert_int_equal(c->depth, 3);
	assert_int_equal(c->call_flags, GS_CALL_DRIVER_SEEN | GS_CALL_ARGS_UNREAD);
	assert_int_equal(c->aux, GS_COPY_H2D);
	assert_int_equal(c->bytes, 1ull << 40);
	assert_int_equal(c->stream, 0x7f0011223344);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(c->arg[i], 100 + i);
	assert_int_equal(c->function, func_id("cudaMemcpyAsync"));
	f = gs_dict_function(x->dict, c->function);
	assert_int_equal(f->layer, GS_LAYER_CUDA_RUNTIME);
	assert_int_equal(f->func_class, GS_CLASS_COPY);
	assert_string_equal(text_of(x, f->name_str), "cudaMemcpyAsync");
}

static unsigned failed(struct fixture *x, const char *function, int ret)
{
	struct gs_event_call ev = make_call(1, 1, function);

	ev.ret = ret;
	gs_ingest_event(x->feed, &ev.head);
	feed_take(x);
	return ((const struct gs_rec_call *)feed_record(x, GS_REC_CALL, -1))->failed;
}

static void what_is_a_failure(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(failed(x, "cudaMalloc", 0), 0);
	assert_int_equal(failed(x, "cudaMalloc", 2), 1);
	assert_int_equal(failed(x, "cudaMalloc", -1), 1);
	assert_int_equal(failed(x, "cudaStreamQuery", 600), 0);
	assert_int_equal(failed(x, "cudaStreamQuery", 700), 1);
	assert_int_equal(failed(x, "cudaMalloc", 600), 1);
	assert_int_equal(failed(x, "ncclAllReduce", 7), 0);
	assert_int_equal(failed(x, "ncclAllReduce", 3), 1);
}

static void malformed_events_are_counted(void **state)
{
	struct fixture *x = *state;
	struct gs_event_call call = make_call(1, 1, "cudaMalloc"), ev;
	struct gs_event_comm comm = {.head = {.kind = GS_EV_COMM, .bytes = sizeof(comm)},
				     .pid = 1,
				     .tid = 1,
				     .func = func_id("cudaMalloc")};
	struct gs_event_task task = {.head = {.kind = GS_EV_TASK, .bytes = sizeof(task)}, .pid = 1};
	unsigned n = 0;

	ev = call;
	for (unsigned kind = 0; kind < 70000; kind += 1 + kind * 100) {
		ev.head.kind = (uint16_t)kind;
		if (kind == GS_EV_CALL)
			continue;
		gs_ingest_event(x->feed, &ev.head);
		n++;
	}
	ev = call;
	for (unsigned bytes = 0; bytes < sizeof(ev); bytes++, n++) {
		ev.head.bytes = (uint16_t)bytes;
		gs_ingest_event(x->feed, &ev.head);
	}
	ev = call;
	ev.head.bytes += 8;
	gs_ingest_event(x->feed, &ev.head);
	ev = call;
	ev.func = 0;
	gs_ingest_event(x->feed, &ev.head);
	ev.func = (uint16_t)(gs_func_count() + 1);
	gs_ingest_event(x->feed, &ev.head);
	ev.func = GS_FUNC_MAX - 1;
	gs_ingest_event(x->feed, &ev.head);
	ev = call;
	ev.pid = 0;
	gs_ingest_event(x->feed, &ev.head);
	ev = call;
	ev.tid = 0;
	gs_ingest_event(x->feed, &ev.head);
	n += 6;

	/* A call that makes no communicator, no function at all, nobody, and half of it. */
	gs_ingest_event(x->feed, &comm.head);
	comm.func = 0;
	gs_ingest_event(x->feed, &comm.head);
	comm.func = func_id("ncclCommInitRank");
	comm.tid = 0;
	gs_ingest_event(x->feed, &comm.head);
	comm.tid = 1;
	comm.head.bytes = 64;
	gs_ingest_event(x->feed, &comm.head);
	task.change = 0;
	gs_ingest_event(x->feed, &task.head);
	task.change = 4;
	gs_ingest_event(x->feed, &task.head);
	task.change = GS_TASK_EXIT;
	task.pid = 0;
	gs_ingest_event(x->feed, &task.head);
	n += 7;

	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), n);
	assert_int_equal(feed_count(x, GS_REC_CALL), 0);
	assert_int_equal(feed_count(x, GS_REC_COMM), 0);
	/* Told once. */
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), n);
	gs_ingest_event(x->feed, &call.head);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_CALL), 1);
}

static void open_scopes(void **state)
{
	struct fixture *x = *state;
	struct gs_thread thread = {.pid = 3, .tid = 4, .comm = "worker", .scope_depth = 2};
	const struct gs_rec_call *c;

	thread.scope[0] = (struct gs_scope){.start_ns = 100, .func = func_id("cudaMalloc")};
	thread.scope[1] = (struct gs_scope){.start_ns = 150, .func = func_id("cudaFree")};
	gs_ingest_open_scope(x->feed, &thread, 0, 400);
	gs_ingest_open_scope(x->feed, &thread, 1, 400);
	feed_take(x);
	c = feed_record(x, GS_REC_CALL, 0);
	assert_int_equal(c->call_flags, GS_CALL_UNFINISHED);
	assert_int_equal(c->dur_ns, 300);
	assert_int_equal(c->scope, 0);
	c = feed_record(x, GS_REC_CALL, 1);
	assert_int_equal(c->dur_ns, 250);
	assert_int_equal(c->depth, 1);
	assert_int_equal(c->scope, func_id("cudaMalloc"));
}

static void cells_are_differences(void **state)
{
	struct fixture *x = *state;
	const struct gs_thread thread = {.pid = 3, .tid = 4, .comm = "worker"};
	struct gs_cell zero = {0}, a = {0}, b;
	const struct gs_rec_stats *s;
	const struct gs_rec_use *use;
	uint64_t before_ns = gs_clock_boot_ns();

	a = (struct gs_cell){.thread_slot = 2,
			     .func = func_id("cudaMalloc"),
			     .calls = 100,
			     .errors = 5,
			     .total_ns = 5000,
			     .max_ns = 900,
			     .bytes = 1 << 20,
			     .inner = 7,
			     .err_code = {2, 46},
			     .err_count = {3, 2}};
	a.hist[0] = 1;
	a.hist[100] = 99;
	a.use = (struct gs_use){.launches = 3, .others = 4, .total_ns = 70, .bytes = 5};
	gs_ingest_cell(x->feed, &thread, &zero, &a);
	feed_take(x);
	use = feed_record(x, GS_REC_USE, 0);
	assert_int_equal(use->function, a.func);
	assert_int_equal(use->launches, 3);
	assert_int_equal(use->copies, 0);
	assert_int_equal(use->others, 4);
	assert_int_equal(use->total_ns, 70);
	assert_int_equal(use->bytes, 5);
	s = feed_record(x, GS_REC_STATS, 0);
	assert_int_equal(s->function, a.func);
	assert_int_equal(gs_dict_thread(x->dict, s->thread)->tid, 4);
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, s->thread)->comm_str), "worker");
	assert_true(s->time_ns >= before_ns && s->time_ns <= gs_clock_boot_ns());
	assert_int_equal(s->calls, 100);
	assert_int_equal(s->errors, 5);
	assert_int_equal(s->total_ns, 5000);
	assert_int_equal(s->max_ns, 900);
	assert_int_equal(s->bytes, 1 << 20);
	assert_int_equal(s->inner, 7);
	assert_int_equal(s->err_code[0], 2);
	assert_int_equal(s->err_count[0], 3);
	assert_int_equal(s->err_code[1], 46);
	assert_int_equal(s->err_count[1], 2);
	assert_int_equal(s->err_code[2], 0);
	assert_int_equal(s->n_buckets, 2);
	assert_int_equal(s->buckets[0].bucket, 0);
	assert_int_equal(s->buckets[0].count, 1);
	assert_int_equal(s->buckets[1].bucket, 100);
	assert_int_equal(s->buckets[1].count, 99);

	b = a;
	b.calls += 2;
	b.errors += 2;
	b.total_ns += 30;
	b.max_ns = 950;
	b.err_count[1] += 1;
	b.err_code[2] = 999;
	b.err_count[2] = 1;
	b.hist[335] = 2;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	feed_take(x);
	s = feed_record(x, GS_REC_STATS, 1);
	assert_int_equal(s->calls, 2);
	assert_int_equal(s->errors, 2);
	assert_int_equal(s->total_ns, 30);
	assert_int_equal(s->max_ns, 950);
	assert_int_equal(s->bytes, 0);
	assert_int_equal(s->inner, 0);
	assert_int_equal(s->err_code[0], 46);
	assert_int_equal(s->err_count[0], 1);
	assert_int_equal(s->err_code[1], 999);
	assert_int_equal(s->err_count[1], 1);
	assert_int_equal(s->n_buckets, 1);
	assert_int_equal(s->buckets[0].bucket, 335);
	assert_int_equal(feed_count(x, GS_REC_THREAD), 1);
	assert_int_equal(feed_count(x, GS_REC_FUNCTION), 1);
}

static void cells_that_wrap_rest_or_lie(void **state)
{
	struct fixture *x = *state;
	const struct gs_thread thread = {.pid = 3, .tid = 4, .comm = "w"}, nobody = {.pid = 3};
	struct gs_cell a = {.thread_slot = 2, .func = func_id("cudaFree"), .calls = 5}, b;
	const struct gs_rec_stats *s;

	a.hist[7] = 0xfffffffe;
	a.err_code[0] = 1;
	a.err_count[0] = 0xffffffff;
	b = a;
	/* Nothing changed, or nothing but what is not counted. */
	gs_ingest_cell(x->feed, &thread, &a, &b);
	b.max_ns = 5;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STATS), 0);
	assert_int_equal(feed_count(x, GS_REC_THREAD), 0);

	b.calls = 10;
	b.hist[7] = 3;
	b.err_count[0] = 1;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	feed_take(x);
	s = feed_record(x, GS_REC_STATS, 0);
	assert_int_equal(s->buckets[0].count, 5);
	assert_int_equal(s->err_count[0], 2);

	/* Inner calls alone are worth telling. */
	a = b;
	b.inner = 1;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STATS), 2);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 0);

	/* Shrunk, of no function, of nobody. */
	gs_ingest_cell(x->feed, &thread, &b, &a);
	a = b;
	b.calls++;
	b.func = 0;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	b.func = GS_FUNC_MAX - 1;
	gs_ingest_cell(x->feed, &thread, &a, &b);
	b.func = a.func;
	gs_ingest_cell(x->feed, &nobody, &a, &b);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STATS), 2);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 4);
}

static void a_full_histogram_fits(void **state)
{
	struct fixture *x = *state;
	const struct gs_thread thread = {.pid = 3, .tid = 4, .comm = "w"};
	struct gs_cell zero = {0}, a = {.func = 1, .calls = GS_HIST_N_BUCKETS};
	const struct gs_rec_stats *s;

	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		a.hist[i] = i + 1;
	for (unsigned i = 0; i < 500; i++)
		gs_ingest_cell(x->feed, &thread, &zero, &a);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STATS), 500);
	s = feed_record(x, GS_REC_STATS, -1);
	assert_int_equal(s->n_buckets, GS_HIST_N_BUCKETS);
	assert_int_equal(s->buckets[335].count, 336);
}

static struct gs_rec_call open_call(struct fixture *x, const char *function, struct gs_frame *frame)
{
	const struct gs_thread thread = {.pid = 3, .tid = 4, .comm = "stuck"};

	frame->func = func_id(function);
	gs_ingest_open_call(x->feed, &thread, frame, 1, 5000);
	feed_take(x);
	return *(const struct gs_rec_call *)feed_record(x, GS_REC_CALL, -1);
}

static void open_calls_have_an_age(void **state)
{
	struct fixture *x = *state;
	struct gs_frame frame = {.start_ns = 1000, .flags = GS_CALL_DRIVER_SEEN};
	const struct gs_thread thread = {.pid = 3, .tid = 4}, nobody = {0};
	struct gs_rec_call c = open_call(x, "cudaDeviceSynchronize", &frame);

	assert_int_equal(c.start_ns, 1000 + BOOT_MINUS_MONO_NS);
	assert_int_equal(c.dur_ns, 4000);
	assert_int_equal(c.call_flags, GS_CALL_UNFINISHED | GS_CALL_DRIVER_SEEN);
	assert_int_equal(c.depth, 1);
	assert_int_equal(c.ret, 0);
	assert_int_equal(c.failed, 0);
	assert_int_equal(c.function, func_id("cudaDeviceSynchronize"));
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, c.thread)->comm_str), "stuck");
	/* Entered while the clock was read. */
	frame.start_ns = 6000;
	assert_int_equal(open_call(x, "cudaDeviceSynchronize", &frame).dur_ns, 0);
	/* Of no function and of nobody. */
	frame.func = 0;
	gs_ingest_open_call(x->feed, &thread, &frame, 0, 1);
	frame.func = 1;
	gs_ingest_open_call(x->feed, &nobody, &frame, 0, 1);
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 2);
	assert_int_equal(feed_count(x, GS_REC_CALL), 2);
}

static void open_calls_of_cuda(void **state)
{
	struct fixture *x = *state;
	struct gs_frame f = {.start_ns = 1000};
	struct gs_rec_call c;

	for (unsigned i = 0; i < GS_V_NONE; i++)
		f.v[i] = 10 + i;
	/* func, grid (x|y<<32, z), block (x|y<<32, z), then shared bytes and stream on the stack */
	f.v[1] = 1 | 2ull << 32;
	f.v[2] = 3 | 0xbadull << 32;
	f.v[3] = 4 | 5ull << 32;
	f.v[4] = 6;
	c = open_call(x, "cudaLaunchKernel", &f);
	assert_int_equal(c.arg[0], 10);
	assert_int_equal(c.arg[1], 1 | 2ull << 32);
	assert_int_equal(c.arg[2], 3 | 4ull << 32);
	assert_int_equal(c.arg[3], 5 | 6ull << 32);
	assert_int_equal(c.aux, 16);
	assert_int_equal(c.stream, 17);
	/* func, gx, gy, gz, bx, by in registers, bz, shared bytes, stream on the stack */
	for (unsigned i = 1; i < GS_V_NONE; i++)
		f.v[i] = 10 + i;
	c = open_call(x, "cuLaunchKernel", &f);
	assert_int_equal(c.arg[1], 11 | 12ull << 32);
	assert_int_equal(c.arg[2], 13 | 14ull << 32);
	assert_int_equal(c.arg[3], 15 | 16ull << 32);
	assert_int_equal(c.aux, 17);
	assert_int_equal(c.stream, 18);
	c = open_call(x, "cudaLaunchKernelExC", &f);
	assert_true(c.call_flags & GS_CALL_ARGS_UNREAD);
	assert_int_equal(c.arg[0], 11);

	c = open_call(x, "cudaMalloc", &f);
	assert_int_equal(c.arg[0], 0);
	assert_int_equal(c.bytes, 11);
	c = open_call(x, "cudaMallocPitch", &f);
	assert_int_equal(c.bytes, 0);
	assert_true(c.call_flags & GS_CALL_ARGS_UNREAD);
	c = open_call(x, "cudaFree", &f);
	assert_int_equal(c.arg[0], 10);

	c = open_call(x, "cudaMemcpyAsync", &f);
	assert_int_equal(c.bytes, 12);
	assert_int_equal(c.aux, 13);
	assert_int_equal(c.stream, 14);
	assert_int_equal(c.arg[0], 10);
	assert_int_equal(c.arg[1], 11);
	c = open_call(x, "cudaMemcpy2D", &f);
	assert_int_equal(c.bytes, 14 * 15);
	assert_int_equal(c.aux, 16);
	assert_int_equal(open_call(x, "cuMemcpy", &f).aux, GS_COPY_DEFAULT);
	assert_int_equal(open_call(x, "cuMemcpyHtoD_v2", &f).aux, GS_COPY_H2D);
	assert_int_equal(open_call(x, "cuMemcpyDtoH_v2", &f).aux, GS_COPY_D2H);
	assert_int_equal(open_call(x, "cuMemcpyDtoD_v2", &f).aux, GS_COPY_D2D);
	assert_int_equal(open_call(x, "cuMemcpyPeer", &f).aux, GS_COPY_P2P);
	c = open_call(x, "cuMemcpy3D_v2", &f);
	assert_int_equal(c.aux, GS_COPY_DEFAULT);
	assert_int_equal(c.arg[0], 0);
	assert_true(c.call_flags & GS_CALL_ARGS_UNREAD);

	c = open_call(x, "cudaMemcpyBatchAsync", &f);
	assert_int_equal(c.bytes, 0);
	assert_int_equal(c.arg[0], 0);
	assert_int_equal(c.arg[1], 0);
	assert_int_equal(c.stream, 17);
	assert_true(c.call_flags & GS_CALL_ARGS_UNREAD);
	assert_int_equal(open_call(x, "cuMemcpy3D", &f).bytes, 0);
	assert_int_equal(open_call(x, "cudaMalloc3DArray", &f).bytes, 0);
	assert_int_equal(open_call(x, "cuMemcpyHtoD", &f).bytes, 12);
	c = open_call(x, "cuLaunchGridAsync", &f);
	assert_int_equal(c.arg[1], 11 | 12ull << 32);
	assert_int_equal(c.arg[2], 1);
	assert_int_equal(c.stream, 13);

	assert_int_equal(open_call(x, "cuMemsetD8_v2", &f).bytes, 12);
	assert_int_equal(open_call(x, "cuMemsetD16_v2", &f).bytes, 24);
	assert_int_equal(open_call(x, "cuMemsetD32_v2", &f).bytes, 48);
	c = open_call(x, "cudaMemset3D", &f);
	assert_int_equal(c.bytes, f.v[GS_V_STACK + 4] * f.v[GS_V_STACK + 5] * f.v[GS_V_STACK + 6]);
	assert_int_equal(c.arg[1], 0);
	assert_int_equal(open_call(x, "cudaStreamCreate", &f).stream, 0);
	assert_int_equal(open_call(x, "cudaStreamSynchronize", &f).stream, 10);
}

static void open_calls_of_nccl(void **state)
{
	struct fixture *x = *state;
	struct gs_frame f = {.start_ns = 1000};
	struct gs_rec_call c;

	f.v[0] = 0xa; /* send */
	f.v[1] = 0xb; /* recv */
	f.v[2] = 1000;
	f.v[3] = 7 | 0xbadull << 32; /* float32; an int leaves the upper half as it was */
	f.v[4] = 2;                  /* max */
	f.v[5] = 0xc;
	f.v[6] = 0xd;
	c = open_call(x, "ncclAllReduce", &f);
	assert_int_equal(c.bytes, 4000);
	assert_int_equal(c.aux, 7 | 2 << 8 | 0xffffu << 16);
	assert_int_equal(c.arg[0], 1000);
	assert_int_equal(c.arg[1], 0xc);
	assert_int_equal(c.arg[2], 0xa);
	assert_int_equal(c.arg[3], 0xb);
	assert_int_equal(c.stream, 0xd);
	/* The number of an operation made by the user, and a root far out, do not run over. */
	f.v[4] = 0x12345;
	assert_int_equal(open_call(x, "ncclAllReduce", &f).aux, 7 | 0xfe << 8 | 0xffffu << 16);
	c = open_call(x, "ncclBroadcast", &f);
	assert_int_equal(c.aux, 7 | 0xff << 8 | 0xffffu << 16);
	f.v[4] = 3;
	assert_int_equal(open_call(x, "ncclBroadcast", &f).aux, 7 | 0xff << 8 | 3u << 16);
	f.v[1] = 10;
	f.v[2] = 0;
	f.v[3] = 5;
	c = open_call(x, "ncclSend", &f);
	assert_int_equal(c.bytes, 10);
	assert_int_equal(c.aux & 0xff, 0);
	assert_int_equal(c.aux >> 16, 5);
	/* The communicator in the making has no handle yet. */
	assert_int_equal(open_call(x, "ncclCommInitRank", &f).arg[0], 0);
	assert_int_equal(open_call(x, "ncclCommDestroy", &f).arg[0], 0xa);
}

/* A kernel's name before its work; the launching thread is announced, times are those of all records. */
static void work_of_gpus(void **state)
{
	struct fixture *x = *state;
	struct gs_gpu_work work = {.start_ns = 1000,
				   .end_ns = 3000,
				   .launch_ns = 500,
				   .launch_dur_ns = 20,
				   .what = GS_WORK_KERNEL,
				   .tid = 12,
				   .stream = 7};
	const struct gs_rec_gpu_window window = {
		.what = GS_GPU_WINDOW_REFUSED, .time_ns = 4000, .version = 19, .dropped = 3};
	const struct gs_rec_gpu_work *r;
	const struct gs_rec_gpu_window *w;

	gs_ingest_gpu_name(x->feed, 10, 1, "_Z6kernelPfi");
	gs_ingest_gpu_name(x->feed, 11, 1, "plain");
	gs_ingest_gpu_work(x->feed, 10, 1, &work);
	work.tid = 0;
	work.launch_ns = work.start_ns = work.end_ns = 0;
	gs_ingest_gpu_work(x->feed, 11, 1, &work);
	gs_ingest_gpu_work(x->feed, 11, 2, &work);
	gs_ingest_gpu_window(x->feed, 11, &window, "held");
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_GPU_WORK), 3);
	r = feed_record(x, GS_REC_GPU_WORK, 0);
	assert_int_equal(gs_dict_process(x->dict, r->process)->pid, 10);
	assert_int_equal(gs_dict_thread(x->dict, r->thread)->tid, 12);
	assert_string_equal(gs_dict_string(x->dict, r->name_str), "kernel(float*, int)");
	assert_string_equal(gs_dict_string(x->dict, r->short_str), "kernel");
	assert_int_equal(r->work.start_ns, 1000 + BOOT_MINUS_MONO_NS);
	assert_int_equal(r->work.launch_ns, 500 + BOOT_MINUS_MONO_NS);
	r = feed_record(x, GS_REC_GPU_WORK, 1);
	assert_int_equal(r->thread, 0);
	assert_int_equal(r->work.start_ns, 0);
	assert_string_equal(gs_dict_string(x->dict, r->name_str), "plain");
	r = feed_record(x, GS_REC_GPU_WORK, 2);
	assert_int_equal(r->name_str, 0);
	w = feed_record(x, GS_REC_GPU_WINDOW, 0);
	assert_int_equal(w->time_ns, 4000 + BOOT_MINUS_MONO_NS);
	assert_int_equal(w->dropped, 3);
	assert_string_equal(gs_dict_string(x->dict, w->text_str), "held");
}

/* Texts once each, bytes by the type's name; the process is announced before what it says. */
static void operations_of_nccl(void **state)
{
	struct fixture *x = *state;
	const struct gs_rec_nccl_comm comm = {
		.number = 2, .time_ns = 900, .hash = 0xabc, .what = GS_NCCL_COMM_BEGUN, .abi = 5};
	const struct gs_rec_nccl_channel channel = {
		.op = 7, .what = GS_NCCL_CHANNEL_KERNEL, .start_ns = 5, .gpu_start_ns = 6};
	struct gs_rec_nccl_op op = {.start_ns = 1000,
				    .end_ns = 1500,
				    .count = 100,
				    .number = 7,
				    .comm = 2,
				    .what = GS_NCCL_COLLECTIVE};
	struct gs_ingest_nccl_words words = {"AllReduce", "ncclBfloat16", "RING", "LL128"};
	const struct gs_rec_nccl_op *a, *b, *c;
	const struct gs_rec_nccl_channel *ch;
	const struct gs_rec_nccl_comm *co;

	gs_ingest_nccl_comm(x->feed, 10, &comm, "mine");
	gs_ingest_nccl_op(x->feed, 10, 12, &op, &words);
	words.datatype = "Unknown"; /* as NCCL calls ncclUint8 */
	words.algorithm = "";
	gs_ingest_nccl_op(x->feed, 10, 0, &op, &words);
	words.datatype = "ncclInt64";
	op.count = UINT64_MAX / 4;
	gs_ingest_nccl_op(x->feed, 11, 0, &op, &words);
	gs_ingest_nccl_channel(x->feed, 11, &channel);
	feed_take(x);
	co = feed_record(x, GS_REC_NCCL_COMM, 0);
	assert_int_equal(gs_dict_process(x->dict, co->process)->pid, 10);
	assert_string_equal(gs_dict_string(x->dict, co->name_str), "mine");
	assert_int_equal(co->time_ns, 900 + BOOT_MINUS_MONO_NS);
	assert_int_equal(co->hash, 0xabc);
	a = feed_record(x, GS_REC_NCCL_OP, 0);
	assert_int_equal(gs_dict_thread(x->dict, a->thread)->tid, 12);
	assert_int_equal(a->bytes, 200);
	assert_int_equal(a->start_ns, 1000 + BOOT_MINUS_MONO_NS);
	assert_int_equal(a->end_ns, 1500 + BOOT_MINUS_MONO_NS);
	assert_string_equal(gs_dict_string(x->dict, a->func_str), "AllReduce");
	assert_string_equal(gs_dict_string(x->dict, a->datatype_str), "ncclBfloat16");
	assert_string_equal(gs_dict_string(x->dict, a->algorithm_str), "RING");
	assert_string_equal(gs_dict_string(x->dict, a->protocol_str), "LL128");
	b = feed_record(x, GS_REC_NCCL_OP, 1);
	assert_true(b->bytes == GS_NCCL_BYTES_UNKNOWN);
	assert_int_equal(b->thread, 0);
	assert_int_equal(b->func_str, a->func_str);
	assert_int_equal(b->algorithm_str, 0);
	c = feed_record(x, GS_REC_NCCL_OP, 2);
	assert_true(c->bytes == GS_NCCL_BYTES_UNKNOWN); /* more than there can be */
	ch = feed_record(x, GS_REC_NCCL_CHANNEL, 0);
	assert_int_equal(ch->process, c->process);
	assert_int_equal(ch->start_ns, 5 + BOOT_MINUS_MONO_NS);
	assert_int_equal(ch->gpu_start_ns, 6); /* of another clock */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(a_call_is_copied),
		FEED_TEST(what_is_a_failure),
		FEED_TEST(malformed_events_are_counted),
		FEED_TEST(open_scopes),
		FEED_TEST(cells_are_differences),
		FEED_TEST(cells_that_wrap_rest_or_lie),
		FEED_TEST(a_full_histogram_fits),
		FEED_TEST(open_calls_have_an_age),
		FEED_TEST(open_calls_of_cuda),
		FEED_TEST(open_calls_of_nccl),
		FEED_TEST(work_of_gpus),
		FEED_TEST(operations_of_nccl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
