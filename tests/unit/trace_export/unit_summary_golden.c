/*
 * The four formats against tests/golden/summary_*; GS_GOLDEN_UPDATE=1 writes these files anew (then
 * look at what changed). Whether JSON, YAML and CSV are what their readers take them for is asked
 * of a real reader in tests/unit/trace_export/summary_formats.py.
 */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/event.h"
#include "model/trace/func.h"
#include "output/report/summary.h"
#include "core/text/text.h"
#include "summary_sample.h"

static char *render(const struct gs_summary *s, enum gs_report_summary_format format,
		    const struct gs_report_summary_style *style)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(gs_report_summary_write(f, s, format, style), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(strlen(text), bytes);
	return text;
}

static char *load(const char *path)
{
	FILE *f GS_FCLOSE = fopen(path, "re");
	size_t bytes = 1u << 20;
	char *text = calloc(1, bytes);

	assert_non_null(text);
	if (!f)
		fail_msg("%s: %s; GS_GOLDEN_UPDATE=1 writes it", path, strerror(errno));
	assert_true(fread(text, 1, bytes - 1, f) < bytes - 1);
	return text;
}

static void check(const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", GS_GOLDEN_DIR, name);
	if (getenv("GS_GOLDEN_UPDATE")) {
		FILE *f = fopen(path, "we");

		assert_non_null(f);
		assert_true(fputs(text, f) >= 0);
		assert_int_equal(fclose(f), 0);
	} else {
		char *golden GS_FREE = load(path);

		assert_string_equal(text, golden);
	}
}

static void check_format(const struct gs_summary *s, enum gs_report_summary_format format,
			 const char *name)
{
	const struct gs_report_summary_style style = {.size = sizeof(style)};
	char *text GS_FREE = render(s, format, &style);

	check(name, text);
}

static void test_json(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), single = sample_single(), empty = sample_empty();

	check_format(&full, GS_SUMMARY_JSON, "summary_full.json");
	check_format(&single, GS_SUMMARY_JSON, "summary_single.json");
	check_format(&empty, GS_SUMMARY_JSON, "summary_empty.json");
}

static void test_yaml(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), single = sample_single(), empty = sample_empty();

	check_format(&full, GS_SUMMARY_YAML, "summary_full.yaml");
	check_format(&single, GS_SUMMARY_YAML, "summary_single.yaml");
	check_format(&empty, GS_SUMMARY_YAML, "summary_empty.yaml");
}

static void test_csv(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), empty = sample_empty();

	check_format(&full, GS_SUMMARY_CSV, "summary_full.csv");
	check_format(&empty, GS_SUMMARY_CSV, "summary_empty.csv");
}

/* No line passes the width, none ends in a blank, none holds a control character. */
static void check_page(const char *text, unsigned width, bool color)
{
	for (const char *p = text; *p;) {
		const char *end = strchr(p, '\n');
		char line[4096];
		size_t n = 0;

		assert_non_null(end);
		assert_true((size_t)(end - p) < sizeof(line));
		while (p < end) {
			if (color && *p == '\033') {
				p += strcspn(p, "m") + 1;
				continue;
			}
			assert_true((unsigned char)*p >= 0x20);
			line[n++] = *p++;
		}
		line[n] = '\0';
		p = end + 1;
		if (width && gs_text_columns(line) > width)
			fail_msg("%zu columns, not %u: %s", gs_text_columns(line), width, line);
		if (n && line[n - 1] == ' ')
			fail_msg("blank at the end: %s", line);
	}
}

static void test_table_widths(void **state GS_UNUSED)
{
	static const unsigned widths[] = {80, 100, 120, 140, 0};
	struct gs_summary full = sample_full();

	for (size_t i = 0; i < GS_ARRAY_LEN(widths); i++) {
		struct gs_report_summary_style style = {
			.size = sizeof(style), .width = widths[i], .n_top = 6};
		char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);
		char name[64];

		snprintf(name, sizeof(name), "summary_full_%u.txt", widths[i]);
		check_page(text, widths[i], false);
		check(name, text);
	}
}

static void test_table_every_width(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), empty = sample_empty();

	for (unsigned width = 20; width < 220; width++) {
		struct gs_report_summary_style style = {
			.size = sizeof(style), .width = width, .threads = true, .color = width & 1};
		char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);
		char *none GS_FREE = render(&empty, GS_SUMMARY_TABLE, &style);

		check_page(text, width, style.color);
		check_page(none, width, style.color);
		if (width < 80)
			continue;
		for (const char *
			     heads[] = {"calls", "errors", "total", "mean", "p99", "bytes", NULL},
			    **h = heads;
		     *h; h++)
			assert_non_null(strstr(text, *h));
	}
	/* What is too narrow for anything is still written, and ends. */
	for (unsigned width = 4; width < 20; width++) {
		struct gs_report_summary_style style = {.size = sizeof(style), .width = width};
		char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);

		assert_non_null(strstr(text, "Lost"));
	}
}

static void test_table_threads(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), single = sample_single();
	struct gs_report_summary_style style = {
		.size = sizeof(style), .width = 120, .threads = true, .n_top = 4};
	char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style), *other GS_FREE = NULL;

	check("summary_full_threads.txt", text);
	other = render(&single, GS_SUMMARY_TABLE, &style);
	check("summary_single_threads.txt", other);
}

static void test_table_single(void **state GS_UNUSED)
{
	struct gs_summary single = sample_single();
	struct gs_report_summary_style style = {.size = sizeof(style), .width = 120};
	char *text GS_FREE = render(&single, GS_SUMMARY_TABLE, &style);

	check("summary_single.txt", text);
	assert_null(strstr(text, "Process "));
	assert_non_null(strstr(text, "Nothing was lost."));
	assert_non_null(strstr(text, "No attach failure."));
}

static void test_table_color(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full();
	struct gs_report_summary_style style = {.size = sizeof(style), .width = 120, .n_top = 6};
	char *plain GS_FREE = render(&full, GS_SUMMARY_TABLE, &style), *text GS_FREE = NULL;
	char *bare GS_FREE = NULL;
	size_t n = 0;

	assert_null(strchr(plain, '\033'));
	style.color = true;
	text = render(&full, GS_SUMMARY_TABLE, &style);
	check("summary_full_color.txt", text);
	/* Colours do not move anything. */
	bare = strdup(text);
	for (const char *p = text; *p;) {
		if (*p == '\033')
			p += strcspn(p, "m") + 1;
		else
			bare[n++] = *p++;
	}
	bare[n] = '\0';
	assert_string_equal(bare, plain);
}

static void test_table_empty(void **state GS_UNUSED)
{
	struct gs_summary empty = sample_empty(), full = sample_full();
	struct gs_report_summary_style style = {.size = sizeof(style), .width = 80};
	char *text GS_FREE = render(&empty, GS_SUMMARY_TABLE, &style), *attached GS_FREE = NULL;
	char *failed GS_FREE = NULL, *open GS_FREE = NULL, *too_late GS_FREE = NULL,
		     *mpi GS_FREE = NULL, *chosen GS_FREE = NULL;
	struct gs_lost_count late = {
		.cause = GS_LOSS_LATE, .count = 1, .detail = "libcudart.so.13"};

	check("summary_empty.txt", text);
	assert_non_null(strstr(text, "was cut off"));
	assert_non_null(strstr(text, "library was loaded"));
	assert_non_null(strstr(text, "Nothing was lost."));
	style.width = 0;
	empty.complete = 1;
	empty.attach_failures = full.attach_failures;
	empty.n_attach_failures = 1;
	failed = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_null(strstr(failed, "was cut off"));
	assert_non_null(strstr(failed, "could not be attached"));
	style.layers = 1u << GS_LAYER_MPI;
	mpi = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_non_null(strstr(mpi, "No MPI call was seen"));
	style.layers = 0;
	empty.attached = full.attached;
	empty.n_attached = 1;
	attached = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_non_null(strstr(attached, "none of these functions was called"));
	style.part = true;
	chosen = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_null(strstr(chosen, "none of these functions was called"));
	assert_non_null(strstr(chosen, "The selection has no"));
	style.part = false;
	empty.lost = &late;
	empty.n_lost = 1;
	too_late = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_null(strstr(too_late, "none of these functions was called"));
	assert_non_null(strstr(too_late, "before the probes were in place"));
	empty.open_calls = full.open_calls;
	empty.n_open_calls = 1;
	open = render(&empty, GS_SUMMARY_TABLE, &style);
	assert_non_null(strstr(open, "No CUDA or NCCL call returned"));
	assert_non_null(strstr(open, "ncclAllReduce"));
}

static unsigned lines_with(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* A long run on a busy machine has hundreds of each. */
static void test_table_long_lists(void **state GS_UNUSED)
{
	struct gs_summary s = sample_empty();
	struct gs_report_summary_style style = {.size = sizeof(style), .n_top = 20};
	struct gs_lost_count lost[51] = {{.cause = GS_LOSS_MAPS, .count = 1, .detail = ""}};
	struct gs_attach_status failures[100];
	char *text GS_FREE = NULL, *whole GS_FREE = NULL;

	for (unsigned i = 1; i < GS_ARRAY_LEN(lost); i++)
		lost[i] = (struct gs_lost_count){
			.cause = GS_LOSS_LATE, .count = 2, .detail = "/x/libcudart.so"};
	for (unsigned i = 0; i < GS_ARRAY_LEN(failures); i++)
		failures[i] = (struct gs_attach_status){
			.path = "/x/libnccl.so", .reason = "not executable", .status = -EACCES};
	s.lost = lost;
	s.n_lost = GS_ARRAY_LEN(lost);
	s.attach_failures = failures;
	s.n_attach_failures = GS_ARRAY_LEN(failures);
	text = render(&s, GS_SUMMARY_TABLE, &style);
	assert_int_equal(lines_with(text, "libcudart.so"), 3);
	assert_non_null(strstr(text, "  94  all layers  libraries"));
	assert_non_null(strstr(text, "of 47 others"));
	assert_int_equal(lines_with(text, "libnccl.so"), 20);
	assert_non_null(strstr(text, "... and 80 more"));
	style.n_top = 0;
	whole = render(&s, GS_SUMMARY_TABLE, &style);
	assert_int_equal(lines_with(whole, "libcudart.so"), 50);
	assert_int_equal(lines_with(whole, "libnccl.so"), 100);
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* One screen: at most 45 lines of 100 columns, whatever there is. */
static void test_short(void **state GS_UNUSED)
{
	struct gs_summary full = sample_full(), single = sample_single(), empty = sample_empty();
	struct gs_report_summary_style style = {.size = sizeof(style),
						.width = 100,
						.n_top = GS_SUMMARY_TOP_SHORT,
						.view = GS_SUMMARY_SHORT};
	char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);
	char *one GS_FREE = render(&single, GS_SUMMARY_TABLE, &style);
	char *none GS_FREE = render(&empty, GS_SUMMARY_TABLE, &style), *all GS_FREE = NULL;

	check("summary_short_full.txt", text);
	check("summary_short_single.txt", one);
	check("summary_short_empty.txt", none);
	assert_true(lines_of(text) <= 45);
	assert_true(lines_of(one) <= 45);
	assert_non_null(strstr(text, "cudaMalloc cudaErrorMemoryAllocation"));
	/* Nothing is said of what is as it should be. */
	assert_null(strstr(one, "Lost"));
	assert_null(strstr(one, "lost"));
	assert_null(strstr(one, "Attached"));
	assert_null(strstr(one, "attached"));
	style.n_top = 0;
	all = render(&full, GS_SUMMARY_TABLE, &style);
	assert_null(strstr(all, "... and"));
	assert_true(lines_of(all) > lines_of(text));
}

static void test_views(void **state GS_UNUSED)
{
	static const char *const names[] = {"process", "thread",   "stream", "kernel",
					    "memory",  "operator", "line"};
	struct gs_summary full = sample_full();

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		struct gs_report_summary_style style = {
			.size = sizeof(style), .width = 100, .n_top = GS_SUMMARY_TOP};
		char *text GS_FREE = NULL;
		char name[64];

		assert_int_equal(gs_report_summary_view_parse(names[i], &style.view), 0);
		text = render(&full, GS_SUMMARY_TABLE, &style);
		snprintf(name, sizeof(name), "summary_by_%s.txt", names[i]);
		check_page(text, 100, false);
		check(name, text);
		for (style.width = 20; style.width < 140; style.width += 7) {
			char *page GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);

			check_page(page, style.width, false);
		}
	}
	for (unsigned width = 20; width < 200; width++) {
		struct gs_report_summary_style style = {.size = sizeof(style),
							.width = width,
							.color = width & 1,
							.n_top = GS_SUMMARY_TOP_SHORT,
							.view = GS_SUMMARY_SHORT};
		char *text GS_FREE = render(&full, GS_SUMMARY_TABLE, &style);

		check_page(text, width, style.color);
	}
}

/* Eight ranks, of which one waits far less than the others: one screen, and it is named. */
static void test_ranks(void **state GS_UNUSED)
{
	enum { N = 8, SLOW = 5 };
	static struct gs_function_stats functions[N][2], all[2];
	static struct gs_process_summary processes[N];
	static struct gs_account_thread threads[2 * N];
	static struct gs_comm_summary comms[N];
	const uint64_t second = 1000000000;
	struct gs_summary s = sample_single();
	struct gs_report_summary_style style = {.size = sizeof(style),
						.width = 100,
						.n_top = GS_SUMMARY_TOP_SHORT,
						.view = GS_SUMMARY_SHORT};
	char *text GS_FREE = NULL;

	for (unsigned i = 0; i < N; i++) {
		uint64_t wait_ns = i == SLOW ? second : (6 + i % 3) * second;
		uint64_t launch_ns = (10 + i) * second / 100;
		const struct gs_function_stats f[2] = {{.layer = GS_LAYER_CUDA_RUNTIME,
							.name = "cudaStreamSynchronize",
							.func_class = GS_CLASS_SYNC,
							.calls = 100,
							.total_ns = wait_ns},
						       {.layer = GS_LAYER_CUDA_RUNTIME,
							.name = "cudaLaunchKernel",
							.func_class = GS_CLASS_LAUNCH,
							.calls = 5000,
							.total_ns = launch_ns}};

		memcpy(functions[i], f, sizeof(f));
		for (unsigned k = 0; k < 2; k++) {
			uint64_t calls = all[k].calls + f[k].calls, ns = all[k].total_ns;

			all[k] = f[k];
			all[k].calls = calls;
			all[k].total_ns = ns + f[k].total_ns;
		}
		processes[i] = (struct gs_process_summary){
			.pid = 100 + i, .comm = "python", .functions = {functions[i], 2}};
		comms[i] = (struct gs_comm_summary){
			.pid = 100 + i, .rank = (int)i, .n_ranks = N, .origin = "ncclCommInitRank"};
		threads[i] = (struct gs_account_thread){
			.pid = 100 + i,
			.tid = 100 + i,
			.comm = "python",
			.wall_ns = 10 * second,
			.launches = 5000,
			.time_ns = {[GS_STATE_CPU] = {[GS_INSIDE_NONE] =
							      10 * second - wait_ns - launch_ns,
						      [GS_INSIDE_GPU_WAIT] = wait_ns,
						      [GS_INSIDE_CUDA] = launch_ns}}};
		/* Launches more, and sets no pace: the backward pass, which the first thread waits for. */
		threads[N + i] = (struct gs_account_thread){
			.pid = 100 + i,
			.tid = 200 + i,
			.comm = "pt_autograd_0",
			.wall_ns = 10 * second,
			.launches = 7000,
			.time_ns = {[GS_STATE_LOCK] = {[GS_INSIDE_NONE] = 10 * second}}};
	}
	s.functions = (struct gs_function_list){all, 2};
	s.processes = processes;
	s.n_processes = N;
	s.comms = comms;
	s.n_comms = N;
	s.account = (struct gs_account_summary){.threads = threads, .n_threads = 2 * N};
	text = render(&s, GS_SUMMARY_TABLE, &style);
	check("summary_short_ranks.txt", text);
	check_page(text, 100, false);
	assert_true(lines_of(text) <= 45);
	assert_non_null(strstr(text, "5 (low)"));
	assert_null(strstr(text, "Process 10"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_long_lists),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_yaml),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_table_widths),
		cmocka_unit_test(test_table_every_width),
		cmocka_unit_test(test_table_threads),
		cmocka_unit_test(test_table_single),
		cmocka_unit_test(test_table_color),
		cmocka_unit_test(test_table_empty),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
