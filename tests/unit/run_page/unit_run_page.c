/* A run as a page: it holds the summary as JSON, no markup that a program chose, and no more rows than it has room
 * for. How a browser draws it: tests/e2e/run_page.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "../aggregate/records.h"
#include "../trace_export/summary_sample.h"
#include "core/base/mem.h"
#include "model/gpu_work/record.h"
#include "model/trace/account.h"
#include "model/trace/record_stack.h"
#include "output/run_page/run_page.h"

#define START_NS 7000000000ull
#define MS       1000000ull
#define HOSTILE  "</script><script>alert(1)</script><!--\"'&\x1b[31m\xe2\x80\xae"

static char *write_page(const struct gs_summary *summary,
			const struct gs_run_page_timeline *timeline)
{
	const struct gs_run_page page = {.file = HOSTILE ".gst", .timeline = timeline};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(gs_run_page_write(out, summary, &page), 0);
	fclose(out);
	return text;
}

/* The document in the page. */
static json_t *read_page(const char *page)
{
	static const char before[] = "id=\"report\">\n";
	const char *from = strstr(page, before);
	const char *to = from ? strstr(from, "</script>") : NULL;
	json_t *json;

	assert_non_null(to);
	from += strlen(before);
	json = json_loadb(from, (size_t)(to - from), 0, NULL);
	assert_non_null(json);
	return json;
}

static void a_page_holds_the_summary(void **state)
{
	struct gs_summary samples[] = {sample_full(), sample_single(), sample_empty()};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(samples); i++) {
		char *page = write_page(&samples[i], NULL);
		json_t *json = read_page(page);

		assert_non_null(json_object_get(json, "verdict"));
		assert_int_equal(json_array_size(json_object_get(json, "functions")),
				 samples[i].functions.n);
		assert_int_equal(json_array_size(json_object_get(json, "kernels")),
				 samples[i].n_kernels);
		assert_int_equal(json_object_size(json_object_get(json, "left_out")), 0);
		assert_true(json_is_null(json_object_get(json, "timeline")));
		json_decref(json);
		free(page);
	}
}

static void no_text_ends_its_script(void **state)
{
	struct gs_summary s = sample_full();
	const char *at;
	json_t *json;
	char *page;
	unsigned n = 0;

	(void)state;
	s.command = HOSTILE;
	s.uses[0].name = HOSTILE;
	page = write_page(&s, NULL);
	for (at = page; (at = strstr(at, "</script>")) != NULL; at++)
		n++;
	assert_int_equal(n, 2); /* the document and what draws it */
	assert_null(strstr(page, "<!--"));
	json = read_page(page);
	assert_non_null(strstr(json_string_value(json_object_get(json, "command")),
			       "</script><script>alert(1)"));
	json_decref(json);
	free(page);
}

#define MANY 30000

static void a_page_of_a_large_run_is_bounded(void **state)
{
	static struct gs_use_summary uses[MANY];
	static struct gs_function_stats functions[MANY];
	static struct gs_process_summary processes[MANY];
	static struct gs_account_thread threads[MANY];
	struct gs_summary s = sample_single();
	json_t *json, *list;
	char *page;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		uses[i] = s.uses ? s.uses[0] : (struct gs_use_summary){.name = "aten::mm"};
		functions[i] = (struct gs_function_stats){
			.layer = i < MANY / 2 ? GS_LAYER_NCCL : GS_LAYER_TORCH, .name = "f"};
		processes[i] = (struct gs_process_summary){.pid = (uint32_t)i + 1,
							   .comm = "p",
							   .exe = "",
							   .cmdline = "",
							   .container = "",
							   .functions = {functions, MANY}};
		threads[i] = (struct gs_account_thread){.pid = (uint32_t)i + 1,
							.comm = "t",
							.process = "p",
							.critical = i == MANY - 1};
	}
	s.uses = uses;
	s.processes = processes;
	s.n_uses = s.n_processes = s.account.n_threads = MANY;
	s.functions = (struct gs_function_list){functions, MANY};
	s.account.threads = threads;
	page = write_page(&s, NULL);
	assert_true(strlen(page) < 1 << 20);
	json = read_page(page);
	assert_int_equal(json_array_size(json_object_get(json, "functions")), 100);
	assert_int_equal(json_integer_value(
				 json_object_get(json_object_get(json, "left_out"), "by_operator")),
			 MANY - 200);
	list = json_object_get(json_object_get(json, "account"), "threads");
	assert_true(json_is_true(json_object_get(json_array_get(list, 0), "critical")));
	json_decref(json);
	free(page);
}

/* Names of any kind are drawn, and a long document ends. */
static void a_pdf_of_a_hostile_run_is_drawn(void **state)
{
	static const char *const findings[] = {
		HOSTILE,
		"a word that is wider than a page: "
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
	struct gs_summary s = sample_full();
	struct gs_run_page page = {.file = HOSTILE, .findings = findings, .n_findings = 2};
	GS_CLEANUP(gs_buf_fini) struct gs_buf pdf = GS_BUF_INIT(1u << 24), small = GS_BUF_INIT(512);
	static const char *many[5000];
	struct gs_err err = {{0}};
	int r;

	(void)state;
	s.command = "\xff\xfe \xe6\xa8\xa1 " HOSTILE;
	s.uses[0].name = HOSTILE "\xc3";
	r = gs_run_page_write_pdf(&pdf, &s, &page, &err);
	if (r == -ENOPKG)
		skip();
	assert_int_equal(r, 0);
	assert_memory_equal(pdf.data, "%PDF-", 5);
	assert_int_equal(gs_run_page_write_pdf(&small, &s, &page, &err), -ENOBUFS);
	for (size_t i = 0; i < GS_ARRAY_LEN(many); i++)
		many[i] = "A finding.";
	page.findings = many;
	page.n_findings = GS_ARRAY_LEN(many);
	gs_buf_reset(&pdf);
	assert_int_equal(gs_run_page_write_pdf(&pdf, &s, &page, &err), 0);
}

/* --- the timeline --- */

static void put_names(struct stream *s)
{
	struct gs_rec_session *session = put_record(s, GS_REC_SESSION, sizeof(*session), 0);

	session->version = GS_RECORD_VERSION;
	session->start_ns = START_NS;
	put_process(s, 1, 100, HOSTILE);
	put_thread(s, 1, 1, 100, "train");
	put_thread(s, 2, 1, 101, "helper");
	put_function(s, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(s, 2, GS_LAYER_TORCH, GS_CLASS_OPERATOR, HOSTILE);
}

static json_t *timeline_of(struct stream *s, uint64_t from_ns, uint64_t to_ns)
{
	struct gs_run_page_timeline *timeline = NULL;
	struct gs_batch batch = stream_batch(s);
	struct gs_summary summary = sample_single();
	json_t *json, *ret;
	char *page;

	assert_int_equal(gs_run_page_new_timeline(from_ns, to_ns, &timeline), 0);
	assert_int_equal(gs_run_page_push(timeline, &batch), 0);
	page = write_page(&summary, timeline);
	json = read_page(page);
	ret = json_incref(json_object_get(json, "timeline"));
	json_decref(json);
	free(page);
	gs_run_page_free_timeline(&timeline);
	return ret;
}

static json_int_t number_of(json_t *timeline, size_t track, size_t span, size_t i)
{
	json_t *spans = json_object_get(json_array_get(json_object_get(timeline, "tracks"), track),
					"spans");

	return json_integer_value(json_array_get(json_array_get(spans, span), i));
}

static void spans_are_cut_to_the_excerpt(void **state)
{
	STREAM s = STREAM_INIT;
	struct gs_rec_gpu_work *w;
	struct gs_rec_wait *wait;
	json_t *t, *tracks;

	(void)state;
	put_names(&s);
	put_call(&s, 1, 1, START_NS + 5 * MS, 2 * MS);          /* before it */
	put_call(&s, 1, 1, START_NS + 12 * MS, MS)->depth = 1;  /* in it */
	put_call(&s, 1, 2, START_NS + 8 * MS, 6 * MS);          /* begins before it */
	put_call(&s, 2, 1, START_NS + 19 * MS, 5 * MS);         /* ends after it */
	put_call(&s, 2, 1, START_NS + 15 * MS, 100)->depth = 0; /* is no point of a screen */
	wait = put_record(&s, GS_REC_WAIT, sizeof(*wait), 0);
	*wait = (struct gs_rec_wait){.head = wait->head,
				     .time_ns = START_NS + 18 * MS,
				     .wait_ns = 3 * MS,
				     .thread = 1,
				     .cause = GS_STATE_DISK};
	w = put_record(&s, GS_REC_GPU_WORK, sizeof(*w), 0);
	w->process = 1;
	w->work.what = GS_WORK_COPY;
	w->work.start_ns = START_NS + 11 * MS;
	w->work.end_ns = START_NS + 13 * MS;
	w->work.stream = 7;
	t = timeline_of(&s, 10 * MS, 20 * MS);
	tracks = json_object_get(t, "tracks");
	assert_int_equal(json_array_size(tracks), 4);
	assert_int_equal(json_integer_value(json_object_get(t, "shorter")), 1);
	/* The busiest one first: 4 ms of the thread's outermost call. */
	assert_string_equal(json_string_value(json_object_get(json_array_get(tracks, 0), "name")),
			    "train 100");
	assert_int_equal(number_of(t, 0, 0, 0), 2 * MS);
	assert_int_equal(number_of(t, 0, 0, 3), 1);
	assert_int_equal(number_of(t, 0, 1, 0), 0);
	assert_int_equal(number_of(t, 0, 1, 1), 4 * MS);
	assert_string_equal(json_string_value(json_object_get(json_array_get(tracks, 1), "name")),
			    "train 100, waiting");
	assert_string_equal(json_string_value(json_object_get(json_array_get(tracks, 2), "name")),
			    "GPU 0, stream 7 of process 100");
	assert_string_equal(json_string_value(json_object_get(json_array_get(tracks, 3), "name")),
			    "helper 101 of process 100");
	assert_int_equal(number_of(t, 3, 0, 1), MS);
	json_decref(t);
}

static void a_timeline_is_bounded(void **state)
{
	STREAM s = STREAM_INIT;
	json_t *t;

	(void)state;
	put_names(&s);
	for (uint32_t i = 0; i < 2 * GS_RUN_PAGE_SPANS_MAX; i++)
		put_call(&s, 3 + i % 600, 1, START_NS + i, MS); /* threads that no one announced */
	t = timeline_of(&s, 0, 10 * MS);
	assert_int_equal(json_array_size(json_object_get(t, "tracks")), GS_RUN_PAGE_TRACKS_MAX);
	assert_true(json_integer_value(json_object_get(t, "left_out")) >= GS_RUN_PAGE_SPANS_MAX);
	assert_true(json_integer_value(json_object_get(t, "tracks_left_out")) > 400);
	json_decref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_holds_the_summary),
		cmocka_unit_test(no_text_ends_its_script),
		cmocka_unit_test(a_page_of_a_large_run_is_bounded),
		cmocka_unit_test(a_pdf_of_a_hostile_run_is_drawn),
		cmocka_unit_test(spans_are_cut_to_the_excerpt),
		cmocka_unit_test(a_timeline_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
