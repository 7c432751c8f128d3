/* Traces of PyTorch's profiler as records: names, times, who holds whom, work of GPUs, and what is no such trace. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "model/gpu_work/record.h"
#include "model/trace/class.h"
#include "model/trace/dict.h"
#include "model/trace/event.h"
#include "pipeline/kineto/kineto.h"

#define ZERO_NS 1000000000ull

struct taken {
	struct gs_dict *dict;
	struct gs_rec_call calls[16];
	struct gs_rec_gpu_work work[4];
	struct gs_rec_gpu_window windows[4];
	struct gs_rec_end end;
	size_t n_calls, n_work, n_windows;
	struct gs_kineto_stats stats;
	struct gs_err err;
};

static int take(void *ctx, const struct gs_batch *batch)
{
	struct taken *t = ctx;

	gs_records_for_each (batch, r) {
		if (r->kind == GS_REC_CALL)
			memcpy(&t->calls[t->n_calls++], r, sizeof(*t->calls));
		else if (r->kind == GS_REC_GPU_WORK)
			memcpy(&t->work[t->n_work++], r, sizeof(*t->work));
		else if (r->kind == GS_REC_GPU_WINDOW)
			memcpy(&t->windows[t->n_windows++], r, sizeof(*t->windows));
		else if (r->kind == GS_REC_END)
			memcpy(&t->end, r, sizeof(t->end));
		else
			assert_int_equal(gs_dict_apply(t->dict, r), 0);
	}
	return 0;
}

static int read_text(const char *text, struct taken *t)
{
	const struct gs_sink sink = {.push = take, .ctx = t};
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int r;

	memset(t, 0, sizeof(*t));
	t->dict = gs_dict_new();
	assert_non_null(file);
	r = gs_kineto_read(file, "run.json", &sink, &t->stats, &t->err);
	fclose(file);
	return r;
}

static const char *name_of(const struct taken *t, size_t i)
{
	return gs_dict_string(t->dict, gs_dict_function(t->dict, t->calls[i].function)->name_str);
}

#define EVENT(cat, name, ts, dur, more)                                                            \
	"{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name                                  \
	"\", \"pid\": 77, \"tid\": 78, \"ts\": " ts ", \"dur\": " dur more "},"
#define HEAD                                                                                       \
	"{\"schemaVersion\": 1, \"deviceProperties\": [{\"name\": \"a \\\"] traceEvents\"}], \"traceEvents\": ["
#define TAIL "{\"ph\": \"i\", \"name\": \"end\", \"ts\": 1}], \"traceName\": \"x\"}"

static void calls_hold_each_other(void **state)
{
	struct taken t;
	const struct gs_rec_thread *thread;

	(void)state;
	assert_int_equal(
		read_text(
			HEAD EVENT("cpu_op", "aten::linear", "1650990000000100.5", "40", "") EVENT(
				"cpu_op", "aten::addmm", "1650990000000110.5", "20",
				"") EVENT("cuda_runtime", "cudaLaunchKernel", "1650990000000112.5",
					  "3", "") EVENT("user_annotation", "ProfilerStep#3",
							 "1650990000000100.5", "60", "")
				EVENT("cuda_runtime", "cudaDeviceSynchronize", "1650990000000145.5",
				      "5",
				      "") "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 77, \"args\": {\"name\": \"python\"}}," TAIL,
			&t),
		0);
	assert_int_equal(t.n_calls, 5);
	assert_int_equal(t.stats.n_calls, 5);
	assert_int_equal(t.stats.n_other, 1);
	/* As they end, the inner ones first. */
	assert_string_equal(name_of(&t, 0), "cudaLaunchKernel");
	assert_string_equal(name_of(&t, 1), "aten::addmm");
	assert_string_equal(name_of(&t, 2), "aten::linear");
	assert_string_equal(name_of(&t, 3), "cudaDeviceSynchronize");
	assert_string_equal(name_of(&t, 4), "ProfilerStep");
	assert_int_equal(t.calls[0].depth, 3);
	assert_int_equal(t.calls[4].depth, 0);
	assert_int_equal(t.calls[0].scope, t.calls[1].function);
	assert_int_equal(t.calls[3].scope, 0);
	assert_int_equal(t.calls[4].start_ns, ZERO_NS);
	assert_in_range(t.calls[0].start_ns, ZERO_NS + 11750, ZERO_NS + 12250); /* a double */
	assert_int_equal(t.calls[0].dur_ns, 3000);
	assert_int_equal(t.end.end_ns, ZERO_NS + 60000);
	assert_int_equal(gs_dict_function(t.dict, t.calls[0].function)->func_class,
			 GS_CLASS_LAUNCH);
	assert_int_equal(gs_dict_function(t.dict, t.calls[1].function)->layer, GS_LAYER_TORCH);
	thread = gs_dict_thread(t.dict, t.calls[0].thread);
	assert_int_equal(thread->tid, 78);
	assert_string_equal(gs_dict_string(t.dict, thread->comm_str), "python");
	assert_int_equal(gs_dict_process(t.dict, thread->process)->pid, 77);
	assert_int_equal(gs_dict_session(t.dict)->start_ns +
				 gs_dict_session(t.dict)->wall_minus_boot_ns,
			 1650990000000100500ll);
	gs_dict_free(&t.dict);
}

static void work_of_gpus_has_their_times(void **state)
{
	struct taken t;

	(void)state;
	assert_int_equal(
		read_text(
			HEAD EVENT("cpu_op", "aten::mm", "100", "4",
				   "") EVENT("kernel", "sgemm<float>", "110", "30",
					     ", \"args\": {\"device\": 2, \"stream\": 7}")
				EVENT("gpu_memcpy", "Memcpy HtoD", "150", "8",
				      ", \"args\": {\"device\": 2, \"stream\": 9, \"bytes\": 4096}")
					TAIL,
			&t),
		0);
	assert_int_equal(t.n_work, 2);
	assert_int_equal(t.work[0].work.what, GS_WORK_KERNEL);
	assert_int_equal(t.work[0].work.start_ns, ZERO_NS + 10000);
	assert_int_equal(t.work[0].work.end_ns, ZERO_NS + 40000);
	assert_int_equal(t.work[0].work.device, 2);
	assert_string_equal(gs_dict_string(t.dict, t.work[0].short_str), "sgemm<float>");
	assert_int_equal(t.work[1].work.what, GS_WORK_COPY);
	assert_int_equal(t.work[1].work.bytes, 4096);
	assert_int_equal(t.n_windows, 2);
	assert_int_equal(t.windows[0].what, GS_GPU_WINDOW_OPENED);
	assert_int_equal(t.windows[1].time_ns, ZERO_NS + 58000);
	gs_dict_free(&t.dict);
}

/* PyTorch without Kineto writes a list, and words in place of processes. */
static void a_list_without_categories(void **state)
{
	struct taken t;

	(void)state;
	assert_int_equal(
		read_text(
			"[{\"name\": \"AddmmBackward0\", \"ph\": \"X\", \"ts\": 5, \"dur\": 2, \"tid\": 1, \"pid\": \"CPU functions\"},"
			"{\"name\": \"k\", \"ph\": \"X\", \"ts\": 5, \"dur\": 2, \"tid\": 1, \"pid\": \"CUDA functions\"},"
			"{\"name\": \"work\", \"ph\": \"X\", \"ts\": 7, \"dur\": 2, \"tid\": 1, \"pid\": 4}]",
			&t),
		0);
	assert_int_equal(t.n_calls, 2);
	assert_int_equal(gs_dict_function(t.dict, t.calls[0].function)->layer, GS_LAYER_TORCH);
	assert_int_equal(gs_dict_function(t.dict, t.calls[1].function)->layer, GS_LAYER_USER);
	gs_dict_free(&t.dict);
}

static void bad_events_are_counted(void **state)
{
	struct taken t;

	(void)state;
	assert_int_equal(
		read_text(HEAD EVENT("cpu_op", "a", "1", "-4", "") EVENT("cpu_op", "", "1", "4", "")
				  EVENT("cpu_op", "a", "1e300", "4", "")
					  EVENT("cpu_op", "a", "\"1\"", "4", "")
						  EVENT("cpu_op", "a", "1", "4", "") TAIL,
			  &t),
		0);
	assert_int_equal(t.n_calls, 1);
	assert_int_equal(t.stats.n_bad, 4);
	gs_dict_free(&t.dict);
}

static void what_is_no_trace_is_refused(void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *says;
	} bad[] = {
		{"no JSON", -EBADMSG, "traceEvents"},
		{"{\"jobs\": []}", -EBADMSG, "traceEvents"},
		{"{\"a\": {\"traceEvents\": []}}", -EBADMSG, "traceEvents"},
		{"{\"a\": \"traceEvents\", \"b\": [1, 2", -EBADMSG, "traceEvents"},
		{"{\"traceEvents\": 5}", -EBADMSG, "traceEvents"},
		{HEAD TAIL, -ENODATA, "no complete event, and no pair of begin and end events"},
		{HEAD EVENT("cpu_op", "a", "1", "4", ""), -EBADMSG, "after 1 events"},
		{HEAD EVENT("cpu_op", "a", "1", "4", "") "{\"ph\": ", -EBADMSG, "after 1 events"},
	};
	struct taken t;

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		assert_int_equal(read_text(bad[i].text, &t), bad[i].r);
		assert_non_null(strstr(t.err.text, bad[i].says));
		assert_int_equal(t.n_calls, 0);
		gs_dict_free(&t.dict);
	}
}

#define HALF(ph, cat, name, pid, ts)                                                               \
	"{\"name\": \"" name "\", \"cat\": \"" cat "\", \"pid\": " pid ", \"tid\": " pid           \
	", \"cpu\": 10, \"ts\": " ts ", \"ph\": \"" ph "\", \"message\": []}"

/* As eACGM writes them: a list, with the thread's number for both. */
static void begins_and_ends(void **state)
{
	struct taken t;

	assert_int_equal(
		read_text(
			"[" HALF("B", "torch", "TorchEmbedding", "6274", "3660163635.154") "," HALF(
				"B", "cuda", "cudaLaunchKernel", "6274", "3660163636.154") ","
			/* of another thread; one without a begin; one without an end */
			HALF("B", "other", "step", "6275", "3660163636.5") "," HALF(
				"E", "nccl", "ncclAllReduce", "6274",
				"3660163637") "," HALF("B", "cuda", "cudaMalloc", "6274",
						       "3660163637.1") "," HALF("E", "cuda",
										"cudaLaunchKernel",
										"6274",
										"3660163638.154") "," HALF("E",
													   "torch",
													   "TorchEmbedding",
													   "6274",
													   "3660163640.154") ",{\"ph\": \"E\", \"pid\": 6275, \"tid\": 6275, \"ts\": 3660163641}]",
			&t),
		0);
	assert_int_equal(t.n_calls, 3);
	assert_string_equal(name_of(&t, 0), "cudaLaunchKernel");
	assert_int_equal(t.calls[0].dur_ns, 2000);
	assert_int_equal(t.calls[0].depth, 1);
	assert_int_equal(gs_dict_function(t.dict, t.calls[0].function)->func_class,
			 GS_CLASS_LAUNCH);
	assert_string_equal(name_of(&t, 1), "TorchEmbedding");
	assert_int_equal(t.calls[1].dur_ns, 5000);
	assert_int_equal(t.calls[1].start_ns, ZERO_NS);
	assert_string_equal(name_of(&t, 2), "step");
	assert_int_equal(t.calls[2].dur_ns, 4500);
	assert_int_equal(t.stats.n_calls, 3);
	assert_int_equal(t.stats.n_unpaired, 2);
	gs_dict_free(&t.dict);
}

/* Annotations with numbers are one function, at their begins and at their ends. */
static void numbered_annotations(void **state)
{
	struct taken t;

	assert_int_equal(read_text("[" HALF("B", "other", "step#1", "5", "10") "," HALF(
					   "E", "other", "step#1", "5",
					   "12") "," HALF("B", "other", "step#2", "5",
							  "13") "," HALF("E", "other", "step#2",
									 "5", "15") "]",
				   &t),
			 0);
	assert_int_equal(t.n_calls, 2);
	assert_string_equal(name_of(&t, 1), "step");
	assert_int_equal(t.calls[1].dur_ns, 2000);
	assert_int_equal(t.stats.n_unpaired, 0);
	gs_dict_free(&t.dict);
}

static void the_text_of_eacgm(void **state)
{
	struct taken t;

	assert_int_equal(read_text("1730000000.999990 4711 B cudaMalloc\n"
				   "1730000001.000010 4711 E cudaMalloc\n"
				   "CPU:3 [LOST 5 EVENTS]\n"
				   "1730000001.000020 4711 B PyObject_CallFunction\n"
				   "1730000001.000030 4712 B ncclAllReduce\n"
				   "1730000001.000040 4711 E PyObject_CallFunction\n"
				   "1730000001.000050 4712 X ncclAllReduce",
				   &t),
			 0);
	assert_int_equal(t.n_calls, 2);
	assert_string_equal(name_of(&t, 0), "cudaMalloc");
	assert_int_equal(t.calls[0].dur_ns, 20000);
	assert_int_equal(gs_dict_thread(t.dict, t.calls[0].thread)->tid, 4711);
	assert_int_equal(gs_dict_function(t.dict, t.calls[1].function)->layer, GS_LAYER_PYTHON);
	assert_int_equal(t.stats.n_bad, 2);
	assert_int_equal(t.stats.n_unpaired, 1);
	gs_dict_free(&t.dict);
	assert_int_equal(read_text("12 monkeys\n", &t), -ENODATA);
	gs_dict_free(&t.dict);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_hold_each_other),
		cmocka_unit_test(begins_and_ends),
		cmocka_unit_test(numbered_annotations),
		cmocka_unit_test(the_text_of_eacgm),
		cmocka_unit_test(work_of_gpus_has_their_times),
		cmocka_unit_test(a_list_without_categories),
		cmocka_unit_test(bad_events_are_counted),
		cmocka_unit_test(what_is_no_trace_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
