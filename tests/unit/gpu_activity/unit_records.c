/* What functions of the table mean for streams, and how a record becomes a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/trace/func.h"
#include "model/trace/dict.h"
#include "unit/aggregate/records.h"
#include "unit/gpu_activity/script.h"

static struct gs_activity_function function_named(const char *name)
{
	const struct gs_func *f = gs_func_by_name(name);

	assert_non_null(f);
	return gs_activity_function_of(f->desc.layer, f->desc.op, name);
}

static void test_functions(void **state)
{
	static const struct {
		const char *name;
		enum gs_activity_kind kind;
		unsigned work;
		bool per_thread;
	} cases[] = {
		{"cudaLaunchKernel", GS_ACTIVITY_WORK, GS_ACTIVITY_KERNELS, false},
		{"cudaLaunchKernelExC_ptsz", GS_ACTIVITY_WORK, GS_ACTIVITY_KERNELS, true},
		{"cuGraphLaunch", GS_ACTIVITY_WORK, GS_ACTIVITY_GRAPHS, false},
		{"cudaMemcpyAsync", GS_ACTIVITY_WORK, GS_ACTIVITY_COPIES, false},
		{"cudaMemcpy_ptds", GS_ACTIVITY_COPY, GS_ACTIVITY_COPIES, true},
		{"cuMemcpyHtoD_v2", GS_ACTIVITY_COPY, GS_ACTIVITY_COPIES, false},
		{"cudaMemset", GS_ACTIVITY_WORK, GS_ACTIVITY_MEMSETS, false},
		{"ncclAllReduce", GS_ACTIVITY_WORK, GS_ACTIVITY_COLLECTIVES, false},
		{"ncclSend", GS_ACTIVITY_WORK, GS_ACTIVITY_COLLECTIVES, false},
		{"cudaLaunchHostFunc_ptsz", GS_ACTIVITY_WORK, GS_ACTIVITY_HOST_FUNCTIONS, true},
		{"cuStreamAddCallback", GS_ACTIVITY_WORK, GS_ACTIVITY_HOST_FUNCTIONS, false},
		{"cudaStreamSynchronize_ptsz", GS_ACTIVITY_WAIT_STREAM, 0, true},
		{"cuEventSynchronize", GS_ACTIVITY_WAIT_EVENT, 0, false},
		{"cudaDeviceSynchronize", GS_ACTIVITY_WAIT_DEVICE, 0, false},
		{"cuCtxSynchronize_v2", GS_ACTIVITY_WAIT_DEVICE, 0, false},
		{"cudaEventRecordWithFlags_ptsz", GS_ACTIVITY_RECORD, 0, true},
		{"cuStreamWaitEvent", GS_ACTIVITY_STREAM_WAITS, 0, false},
		{"cudaStreamQuery", GS_ACTIVITY_ASK_STREAM, 0, false},
		{"cuEventQuery", GS_ACTIVITY_ASK_EVENT, 0, false},
		{"cudaEventElapsedTime", GS_ACTIVITY_ELAPSED, 0, false},
		{"cudaStreamCreateWithPriority", GS_ACTIVITY_STREAM_NEW, 0, false},
		{"cuStreamDestroy_v2", GS_ACTIVITY_STREAM_END, 0, false},
		{"cudaEventDestroy", GS_ACTIVITY_EVENT_END, 0, false},
		{"cudaEventCreate", GS_ACTIVITY_NOTHING, 0, false},
		{"cudaStreamBeginCapture", GS_ACTIVITY_CAPTURE_BEGIN, 0, false},
		{"cuStreamEndCapture_ptsz", GS_ACTIVITY_CAPTURE_END, 0, true},
		{"cudaSetDevice", GS_ACTIVITY_SET_DEVICE, 0, false},
		{"cuCtxSetCurrent", GS_ACTIVITY_CONTEXT_SET, 0, false},
		{"cuCtxPushCurrent_v2", GS_ACTIVITY_CONTEXT_PUSH, 0, false},
		{"cuCtxPopCurrent", GS_ACTIVITY_CONTEXT_POP, 0, false},
		{"cuCtxCreate_v4", GS_ACTIVITY_CONTEXT_NEW, 0, false},
		{"cuCtxDestroy_v2", GS_ACTIVITY_CONTEXT_END, 0, false},
		{"cuDevicePrimaryCtxRetain", GS_ACTIVITY_CONTEXT_PRIMARY, 0, false},
		{"cuCtxSynchronize_v2", GS_ACTIVITY_WAIT_DEVICE, 0, false},
		{"cudaDeviceReset", GS_ACTIVITY_RESET, 0, true},
		{"cuDevicePrimaryCtxReset_v2", GS_ACTIVITY_RESET, 0, false},
		{"cudaMalloc", GS_ACTIVITY_NOTHING, 0, false},
		{"MPI_Allreduce", GS_ACTIVITY_NOTHING, 0, false},
		{"MPI_File_read", GS_ACTIVITY_NOTHING, 0, false},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_activity_function f = function_named(cases[i].name);

		if (f.kind != cases[i].kind || f.work != cases[i].work ||
		    (f.kind && f.per_thread != cases[i].per_thread))
			fail_msg("%s: %d %d %d", cases[i].name, f.kind, f.work, f.per_thread);
	}
}

static struct gs_rec_call launch_of(uint64_t stream, uint64_t start_ns)
{
	return (struct gs_rec_call){
		.thread = 1,
		.start_ns = start_ns,
		.dur_ns = 2,
		.stream = stream,
		.arg = {0x99, 10 | 2ull << 32, 3 | 32ull << 32, 4 | 1ull << 32}};
}

static void test_records(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_activity_function launch = function_named("cudaLaunchKernel");
	struct gs_rec_call r = launch_of(0x10, 5), copy = {.thread = 1,
							   .start_ns = 8,
							   .dur_ns = 1,
							   .stream = 0x10,
							   .bytes = 77,
							   .aux = GS_COPY_D2H};
	struct gs_activity_stream one;

	gs_activity_take_record(s->a, 1, &r, launch);
	gs_activity_take_record(s->a, 1, &copy, function_named("cudaMemcpyAsync"));
	copy.aux = 17; /* no such kind */
	gs_activity_take_record(s->a, 1, &copy, function_named("cudaMemcpyAsync"));
	/* Not returned; its stream not read. */
	r.call_flags = GS_CALL_UNFINISHED;
	gs_activity_take_record(s->a, 1, &r, launch);
	r.call_flags = GS_CALL_ARGS_UNREAD;
	gs_activity_take_record(s->a, 1, &r, launch);
	assert_int_equal(gs_activity_unread(s->a), 1);
	one = stream_of(s, 0x10);
	assert_int_equal(one.totals.n[GS_ACTIVITY_KERNELS], 1);
	assert_int_equal(one.totals.threads, 10 * 2 * 3 * 32 * 4);
	assert_int_equal(one.totals.bytes[GS_ACTIVITY_COPIES + GS_COPY_D2H], 77);
	assert_int_equal(one.totals.n[GS_ACTIVITY_COPIES + GS_COPY_DEFAULT], 1);
	assert_int_equal(one.totals.first_ns, 5);
	assert_int_equal(one.totals.last_ns, 9);
	/* A collective that goes on in the background has been queued. */
	r = launch_of(0x20, 20);
	r.ret = 7;
	gs_activity_take_record(s->a, 1, &r, function_named("ncclAllReduce"));
	assert_int_equal(stream_of(s, 0x20).n_pending, 1);
}

static void put_follow(struct script *s, struct gs_dict *dict, struct stream *in)
{
	struct gs_batch b = stream_batch(in);

	gs_records_for_each (&b, r) {
		gs_activity_follow(s->a, dict, r);
		gs_dict_apply(dict, r);
	}
	gs_buf_reset(&in->buf);
}

static struct gs_rec_process *put_flagged(struct stream *in, uint32_t id, uint32_t flags)
{
	struct gs_rec_process *p;

	put_process(in, id, 100 * id, "program");
	p = (struct gs_rec_process *)(in->buf.data + in->buf.bytes - sizeof(*p));
	p->head.flags = flags;
	return p;
}

/* Records as they come: whose device is known, and when a process runs another program. */
static void test_followed_records(void **state)
{
	SCRIPT s = script_new(NULL);
	STREAM in = STREAM_INIT;
	struct gs_dict *dict = gs_dict_new();
	uint32_t one_gpu;

	assert_non_null(dict);
	one_gpu = put_text(&in, "GPU-1");
	put_function(&in, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(&in, 2, GS_LAYER_CUDA_RUNTIME, GS_CLASS_DEVICE, "cudaSetDevice");
	put_flagged(&in, 1, GS_PROCESS_BEGUN); /* traced from its begin on */
	put_flagged(&in, 2, 0);                /* attached to late: its threads may be anywhere */
	put_flagged(&in, 3, 0)->gpus_str = one_gpu;
	for (uint32_t i = 1; i <= 3; i++) {
		put_thread(&in, i, i, 100 * i, "main");
		put_call(&in, i, 1, 3000, 10)->stream = 0x10;
	}
	put_call(&in, 2, 2, 4000, 10)->aux = 1;
	put_call(&in, 2, 1, 4020, 10)->stream = 0x20;
	put_follow(s, dict, &in);
	assert_int_equal(stream_of(s, 0x10).n_pending, 1);
	s->process = 2;
	assert_int_equal(stream_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0x10, 0).n_pending, 1);
	assert_int_equal(stream_in(s, 1, 0x20, 0).n_pending, 1);
	s->process = 3;
	assert_int_equal(stream_of(s, 0x10).n_pending, 1);
	/* It runs another program, which begins on the first device. */
	put_flagged(&in, 2, GS_PROCESS_BEGUN);
	put_call(&in, 2, 1, 5000, 10)->stream = 0x30;
	put_follow(s, dict, &in);
	s->process = 2;
	assert_true(stream_in(s, 1, 0x20, 0).ended);
	assert_int_equal(stream_of(s, 0x30).n_pending, 1);
	gs_dict_free(&dict);
}

/* A handle that was not seen to be given is that of the only GPU, where the begin of the process was seen. */
static void test_unknown_context(void **state)
{
	SCRIPT s = script_new(NULL);
	STREAM in = STREAM_INIT;
	struct gs_dict *dict = gs_dict_new();
	uint32_t one_gpu, two_gpus;

	assert_non_null(dict);
	one_gpu = put_text(&in, "GPU-1");
	two_gpus = put_text(&in, "GPU-1,GPU-2");
	put_function(&in, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(&in, 2, GS_LAYER_CUDA_DRIVER, GS_CLASS_CONTEXT, "cuCtxSetCurrent");
	put_flagged(&in, 1, GS_PROCESS_BEGUN)->gpus_str = one_gpu;
	put_flagged(&in, 2, GS_PROCESS_BEGUN)->gpus_str = two_gpus;
	put_flagged(&in, 3, 0)->gpus_str = one_gpu;
	for (uint32_t i = 1; i <= 3; i++) {
		put_thread(&in, i, i, 100 * i, "main");
		put_call(&in, i, 2, 3000, 10)->arg[0] = 0x5000;
		put_call(&in, i, 1, 3020, 10)->stream = 0x10;
	}
	put_follow(s, dict, &in);
	assert_int_equal(stream_of(s, 0x10).context_handle, 0);
	assert_int_equal(stream_of(s, 0x10).n_pending, 1);
	s->process = 2;
	assert_int_equal(stream_in(s, GS_ACTIVITY_DEVICE_UNKNOWN, 0x10, 0).context_handle, 0x5000);
	s->process = 3; /* it may have made one before */
	assert_int_equal(stream_of(s, 0x10).context_handle, 0x5000);
	gs_dict_free(&dict);
}

/* A grid as large as can be said. */
static void test_threads_do_not_wrap(void **state)
{
	SCRIPT s = script_new(NULL);
	struct gs_rec_call r = launch_of(0x10, 5);

	memset(&r.arg[1], 0xff, 3 * sizeof(r.arg[1]));
	for (unsigned i = 0; i < 100; i++)
		gs_activity_take_record(s->a, 1, &r, function_named("cudaLaunchKernel"));
	assert_true(stream_of(s, 0x10).totals.threads >= 100ull << 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),           cmocka_unit_test(test_records),
		cmocka_unit_test(test_followed_records),    cmocka_unit_test(test_unknown_context),
		cmocka_unit_test(test_threads_do_not_wrap),
	};

	return cmocka_run_group_tests_name("gpu_activity/records", tests, NULL, NULL);
}
