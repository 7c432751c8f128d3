/* What the writers promise beside their text: formats by name, errors of the file, long lists. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "output/report/summary.h"
#include "model/trace/func.h"
#include "model/trace/record.h"
#include "summary_sample.h"

static const struct gs_report_summary_style wide = {.size = sizeof(wide)};

static void test_format_parse(void **state GS_UNUSED)
{
	static const char *const names[] = {"table", "json", "csv", "yaml"};
	enum gs_report_summary_format format;

	for (unsigned i = 0; i < GS_ARRAY_LEN(names); i++) {
		format = GS_SUMMARY_TABLE;
		assert_int_equal(gs_report_summary_format_parse(names[i], &format), 0);
		assert_int_equal(format, i);
	}
	format = GS_SUMMARY_CSV;
	assert_int_equal(gs_report_summary_format_parse("xml", &format), -EINVAL);
	assert_int_equal(gs_report_summary_format_parse("", &format), -EINVAL);
	assert_int_equal(gs_report_summary_format_parse("JSON", &format), -EINVAL);
	assert_int_equal(format, GS_SUMMARY_CSV);
}

static void test_refused(void **state GS_UNUSED)
{
	struct gs_summary s = sample_full();
	struct gs_report_summary_style old = {.size = sizeof(old) - 1};

	assert_int_equal(
		gs_report_summary_write(stdout, &s, (enum gs_report_summary_format)4, &wide),
		-EINVAL);
	assert_int_equal(gs_report_summary_write(stdout, &s, GS_SUMMARY_JSON, &old), -EINVAL);
}

static void test_write_errors(void **state GS_UNUSED)
{
	struct gs_summary s = sample_full();

	for (unsigned format = GS_SUMMARY_TABLE; format <= GS_SUMMARY_YAML; format++) {
		FILE *full GS_FCLOSE = fopen("/dev/full", "we");
		FILE *unbuffered GS_FCLOSE = fopen("/dev/full", "we");
		FILE *read_only GS_FCLOSE = fopen("/dev/null", "re");

		assert_non_null(full);
		assert_non_null(unbuffered);
		assert_non_null(read_only);
		assert_int_equal(gs_report_summary_write(full, &s, format, &wide), -ENOSPC);
		setbuf(unbuffered, NULL);
		assert_int_equal(gs_report_summary_write(unbuffered, &s, format, &wide), -ENOSPC);
		assert_int_equal(gs_report_summary_write(read_only, &s, format, &wide), -EBADF);
	}
}

#define N_MANY 3000

/* More than the pieces that are written at once, and lists longer than the table shows. */
static void test_long(void **state GS_UNUSED)
{
	static struct gs_function_stats functions[N_MANY];
	static struct gs_error_count errors[N_MANY];
	static struct gs_open_call open_calls[N_MANY];
	static struct gs_comm_summary comms[N_MANY];
	static struct gs_attach_status attached[N_MANY];
	struct gs_summary s = sample_empty();

	for (unsigned i = 0; i < N_MANY; i++) {
		functions[i] = (struct gs_function_stats){.layer = GS_LAYER_CUDA_DRIVER,
							  .name = "cuSomething",
							  .calls = 1,
							  .total_ns = 1000,
							  .inner = 1};
		errors[i] =
			(struct gs_error_count){.function = "cuSomething", .code = 1, .count = 2};
		open_calls[i] = (struct gs_open_call){.function = "cuSomething"};
		comms[i] = (struct gs_comm_summary){.id_hash = i / 2 + 1};
		attached[i] = (struct gs_attach_status){.path = "/lib/x", .n_probes = 1};
	}
	s.functions = (struct gs_function_list){functions, N_MANY};
	s.errors = errors;
	s.open_calls = open_calls;
	s.comms = comms;
	s.attached = attached;
	s.n_errors = s.n_open_calls = s.n_comms = s.n_attached = N_MANY;
	for (unsigned format = GS_SUMMARY_TABLE; format <= GS_SUMMARY_YAML; format++) {
		struct gs_report_summary_style style = {.size = sizeof(style), .n_top = 10};
		char *text GS_FREE = NULL, *all GS_FREE = NULL;
		size_t bytes, all_bytes;
		FILE *f = open_memstream(&text, &bytes), *g = open_memstream(&all, &all_bytes);

		assert_int_equal(gs_report_summary_write(f, &s, format, &style), 0);
		style.n_top = 0;
		assert_int_equal(gs_report_summary_write(g, &s, format, &style), 0);
		assert_int_equal(fclose(f), 0);
		assert_int_equal(fclose(g), 0);
		if (format != GS_SUMMARY_TABLE) {
			assert_string_equal(text, all);
			assert_true(bytes > 200u << 10);
			continue;
		}
		assert_true(bytes < 16u << 10);
		assert_true(all_bytes > 200u << 10);
		assert_non_null(strstr(text, "... and 2,990 more  "));
		assert_non_null(strstr(text, "all 3,000 functions"));
		assert_non_null(strstr(text, "counted there: cuSomething 1 time, cuSomething 1, "
					     "cuSomething 1, and 2997 more functions\n"));
		assert_non_null(strstr(text, "... and 2,990 more kinds, 5,980 times"));
		assert_non_null(strstr(text, "... and 2968 more, all younger"));
		assert_non_null(strstr(text, "... and 2994 more files, 2994 probes"));
		assert_non_null(strstr(text, "... and 2984 more\n"));
		assert_null(strstr(all, "... and"));
		assert_non_null(strstr(all, "#1500  rank 0 of 0"));
		assert_null(strstr(all, "#1501"));
	}
}

/* A line that names one function is not longer than that function's own. */
static void test_fold(void **state GS_UNUSED)
{
	struct gs_summary s = sample_full();
	struct gs_report_summary_style style = {.size = sizeof(style)};

	for (unsigned n_top = 5; n_top < 9; n_top++) {
		char *text GS_FREE = NULL;
		size_t bytes;
		FILE *f = open_memstream(&text, &bytes);

		style.n_top = n_top; /* of eight runtime functions */
		assert_int_equal(gs_report_summary_write(f, &s, GS_SUMMARY_TABLE, &style), 0);
		assert_int_equal(fclose(f), 0);
		assert_null(strstr(text, "and 1 more"));
		assert_true(!strstr(text, "  cudaFree  ") == (n_top < 7));
	}
}

static char *table_of(const struct gs_summary *s, const struct gs_report_summary_style *style)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_int_equal(gs_report_summary_write(f, s, GS_SUMMARY_TABLE, style), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* A function that was only reached from inside others has no row, but is named with its number,
 * those with the largest first; a layer of nothing else still has its title. */
static void test_inner(void **state GS_UNUSED)
{
	struct gs_function_stats functions[] = {
		{.layer = GS_LAYER_CUDA_RUNTIME, .name = "cudaA", .calls = 1, .total_ns = 9},
		{.layer = GS_LAYER_CUDA_DRIVER, .name = "cuA", .inner = 5},
		{.layer = GS_LAYER_CUDA_DRIVER, .name = "cuB", .inner = 7},
		{.layer = GS_LAYER_CUDA_DRIVER, .name = "cuC", .inner = 6},
		{.layer = GS_LAYER_CUDA_DRIVER, .name = "cuD", .inner = 1},
		{.layer = GS_LAYER_CUDA_DRIVER, .name = "cuE", .inner = 1},
		{.layer = GS_LAYER_NCCL, .name = "ncclOpen"},
	};
	struct gs_report_summary_style style = {.size = sizeof(style), .n_top = 10};
	struct gs_summary s = sample_empty();
	char *text GS_FREE = NULL, *four GS_FREE = NULL, *none GS_FREE = NULL;

	s.functions = (struct gs_function_list){functions, GS_ARRAY_LEN(functions)};
	text = table_of(&s, &style);
	assert_non_null(strstr(text,
			       "\nCUDA driver\n  entered from inside other calls, and counted "
			       "there: cuB 7 times, cuC 6, cuA 5, and 2 more functions\n"));
	assert_null(strstr(text, "\n  cuA"));
	assert_null(strstr(text, "ncclOpen"));
	assert_null(strstr(text, "NCCL  "));
	functions[5].inner = 0;
	four = table_of(&s, &style);
	assert_non_null(strstr(four, "cuA 5, cuD 1\n"));
	s.functions.items = &functions[6];
	s.functions.n = 1;
	none = table_of(&s, &style);
	assert_non_null(strstr(none, "No CUDA or NCCL call was seen"));
}

/* Of many processes and threads the first are shown, of all with --top 0. */
static void test_parts(void **state GS_UNUSED)
{
	static struct gs_process_summary processes[18];
	static struct gs_thread_summary threads[20];
	struct gs_function_stats f = {
		.layer = GS_LAYER_NCCL, .name = "ncclSend", .calls = 1, .total_ns = 9};
	struct gs_report_summary_style style = {
		.size = sizeof(style), .n_top = 10, .threads = true};
	struct gs_summary s = sample_empty();
	char *text GS_FREE = NULL, *all GS_FREE = NULL, *one GS_FREE = NULL;

	for (unsigned i = 0; i < GS_ARRAY_LEN(threads); i++)
		threads[i] = (struct gs_thread_summary){.tid = 100 + i, .functions = {&f, 1}};
	for (unsigned i = 0; i < GS_ARRAY_LEN(processes); i++)
		processes[i] = (struct gs_process_summary){
			.pid = 100 + i,
			.functions = {&f, 1},
			.threads = threads,
			.n_threads = i ? 1 : GS_ARRAY_LEN(threads),
		};
	s.functions = (struct gs_function_list){&f, 1};
	s.processes = processes;
	s.n_processes = GS_ARRAY_LEN(processes);
	text = table_of(&s, &style);
	assert_non_null(
		strstr(text, "\n  ... and 4 more threads with less time (--top 0 shows all)\n"));
	assert_non_null(strstr(text, "\n... and 2 more processes with less time"));
	assert_non_null(strstr(text, "Process 115"));
	assert_null(strstr(text, "Process 116"));
	assert_non_null(strstr(text, "  Thread 115"));
	assert_null(strstr(text, "  Thread 116"));
	style.n_top = 0;
	all = table_of(&s, &style);
	assert_null(strstr(all, "... and"));
	assert_non_null(strstr(all, "Process 117"));
	assert_non_null(strstr(all, "  Thread 119"));
	/* One more than are shown would be named by a line of its own: it is shown instead. */
	style.n_top = 10;
	s.n_processes = 17;
	one = table_of(&s, &style);
	assert_non_null(strstr(one, "Process 116"));
	assert_null(strstr(one, "more process"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_parse), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_write_errors), cmocka_unit_test(test_long),
		cmocka_unit_test(test_fold),         cmocka_unit_test(test_inner),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
