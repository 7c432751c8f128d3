/* What GPUs did, out of a trace: as a reader answers, and what is made of an answer that is none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "pipeline/kineto/work.h"

#define BASE 1759000000000000000ll

static gs_reader_serve_fn serves = gs_kineto_work_serve;

static int serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
		 struct gs_err *err)
{
	return serves(state, request, reply, err);
}

static const gs_reader_serve_fn services[GS_READER_N_SERVICES] = {[GS_READER_KINETO] = serve};

static int ask(const char *text, struct gs_kineto_work *work)
{
	const struct gs_reader_options options = {.name = "traces", .here = services};
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = NULL;
	char path[] = "/tmp/gs_unit_XXXXXX";
	struct gs_err err = {{0}};
	GS_CLOSE int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(gs_reader_new(&options, &reader, &err), 0);
	return gs_kineto_work_ask(reader, fd, BASE, work, &err);
}

#define HEAD                                                                                       \
	"{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1759000000000000000, \"traceEvents\": ["
#define TRACE                                                                                                     \
	HEAD "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\", \"ts\": 90, \"dur\": 0},"   \
	     "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 7, \"tid\": 8," \
	     " \"ts\": 100.5, \"dur\": 2, \"args\": {\"correlation\": 3}},"                                       \
	     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"ts\": 110, \"dur\": 1.25,"                  \
	     " \"args\": {\"device\": 1, \"stream\": 9, \"correlation\": 3}},"                                    \
	     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 112, \"dur\": 1},"                    \
	     "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD\", \"ts\": 120, \"dur\": 1,"       \
	     " \"args\": {\"bytes\": 4096}},"                                                                     \
	     "{\"ph\": \"i\", \"name\": \"Record Window End\", \"ts\": 200}]}"

static void rows(void **state)
{
	GS_CLEANUP(gs_kineto_work_fini) struct gs_kineto_work w = {0};
	const struct gs_gpu_work *k;

	(void)state;
	assert_int_equal(ask(TRACE, &w), 0);
	assert_int_equal(w.n_rows, 3);
	assert_int_equal(w.n_names, 2);
	assert_string_equal(w.names[w.rows[0].name - 1], "b");
	assert_string_equal(w.names[w.rows[1].name - 1], "a");
	assert_int_equal(w.rows[2].name, 0);
	assert_true(w.from_ns == 90000 && w.to_ns == 200000 && w.n_left_out == 0);
	k = &w.rows[0].work;
	assert_true(k->what == GS_WORK_KERNEL && k->start_ns == 110000 && k->end_ns == 111250);
	assert_true(k->device == 1 && k->stream == 9 && k->correlation == 3);
	assert_true(k->launch_ns == 100500 && k->launch_dur_ns == 2000 && k->tid == 8);
	assert_true(w.rows[1].work.launch_ns == 0 && w.rows[1].work.tid == 0);
	assert_true(w.rows[2].work.what == GS_WORK_COPY && w.rows[2].work.bytes == 4096);
}

static void no_traces(void **state)
{
	static const char *const texts[] = {"",        "{",     "{\"traceEvents\": [",  HEAD,
					    HEAD "]}", "\"x\"", HEAD "{\"ph\": \"X\", "};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		GS_CLEANUP(gs_kineto_work_fini) struct gs_kineto_work w = {0};
		int r = ask(texts[i], &w);

		assert_true(r == -EBADMSG || r == -ENODATA);
	}
}

/* Answers of a reader that was taken over. */
static unsigned kind_of_lie;

static int lie(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
	       struct gs_err *err)
{
	struct gs_kineto_work_row row = {
		.work = {.what = GS_WORK_KERNEL, .start_ns = 1, .end_ns = 2}, .name = 1};
	uint32_t place = 1, n_names = 1, n_rows = 1;

	row.name = kind_of_lie == 0 ? 2 : 1;
	row.work.what = kind_of_lie == 1 ? GS_WORK_KINDS : GS_WORK_KERNEL;
	row.work.end_ns = kind_of_lie == 2 ? 0 : 2;
	place = kind_of_lie == 3 ? 2 : 1;
	n_names = kind_of_lie == 4 ? 0x7fffffff : 1;
	n_rows = kind_of_lie == 5 ? 0x7fffffff : 1;
	gs_wire_put_u64(reply, 1);
	gs_wire_put_u64(reply, 2);
	gs_wire_put_u32(reply, n_names);
	gs_wire_put_u32(reply, place);
	gs_wire_put_text(reply, "kernel");
	gs_wire_put_u64(reply, 0);
	gs_wire_put_u32(reply, n_rows);
	gs_wire_put(reply, &row, kind_of_lie == 6 ? 8 : sizeof(row));
	if (kind_of_lie == 7)
		gs_wire_put_u8(reply, 1);
	return 0;
}

static void lies(void **state)
{
	(void)state;
	serves = lie;
	for (kind_of_lie = 0; kind_of_lie <= 8; kind_of_lie++) {
		GS_CLEANUP(gs_kineto_work_fini) struct gs_kineto_work w = {0};

		/* The last one is none. */
		assert_int_equal(ask("{}", &w), kind_of_lie < 8 ? -EBADMSG : 0);
	}
	serves = gs_kineto_work_serve;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),
		cmocka_unit_test(no_traces),
		cmocka_unit_test(lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
