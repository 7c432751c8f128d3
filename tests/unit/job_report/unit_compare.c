/* Comparisons of reports: what is read, outliers, trends, users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_report/compare.h"

static void add(struct gs_job_report_comparison *c, int day, const char *user, double score,
		double io)
{
	char text[1024];
	struct gs_err err = {{0}};

	snprintf(text, sizeof(text),
		 "{\"monitoring_session\":{\"start_time\":\"2024-01-%02dT10:30:00Z\"},\"jobs\":[{"
		 "\"job_id\":\"%d\",\"user\":\"%s\",\"job_name\":\"train\",\"cpus\":4,"
		 "\"duration_seconds\":100,\"metrics\":{\"cpu_percent\":50,\"io_percent\":%g,"
		 "\"context_switches\":500},\"classification\":{\"type\":\"CPU-bound\","
		 "\"efficiency_score\":%g}}]}",
		 day, day, user, io, score);
	if (gs_job_report_compare_text(c, "f.json", text, strlen(text), &err) < 0)
		fail_msg("%s", err.text);
}

static void both_shapes_of_classification(void **state)
{
	static const char old[] =
		"{\"jobs\":[{\"job_id\":7,\"classification\":\"IO-bound\",\"metrics\":{},"
		"\"analysis\":{\"efficiency_score\":20.5}},{\"metrics\":null}]}";
	struct gs_job_report_comparison c = {0};

	(void)state;
	assert_int_equal(gs_job_report_compare_text(&c, "f", old, strlen(old), NULL), 0);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	assert_int_equal(c.n_rows, 2);
	assert_string_equal(c.rows[0].id, "7");
	assert_string_equal(c.rows[0].job_class, "IO-bound");
	assert_true(c.rows[0].v[GS_JOB_COMPARED_SCORE] == 20.5);
	assert_true(isnan(c.rows[0].v[GS_JOB_COMPARED_CPU]));
	assert_string_equal(c.rows[1].job_class, "Unknown");
	assert_int_equal(c.stat[GS_JOB_COMPARED_SCORE].n, 1);
	assert_int_equal(c.stat[GS_JOB_COMPARED_CPU].n, 0);
	gs_job_report_comparison_fini(&c);
}

/* A report may be damaged, or somebody's joke. */
static void what_cannot_be_is_not_known(void **state)
{
	static const char text[] = "{\"jobs\":[{\"job_id\":\"1\",\"duration_seconds\":-1,"
				   "\"metrics\":{\"cpu_percent\":-5,"
				   "\"io_percent\":1e300,\"wait_percent\":\"x\",\"net_percent\":"
				   "3200,\"context_switches\":5},"
				   "\"classification\":{\"type\":5,\"efficiency_score\":1e308}},"
				   "{\"job_id\":\"2\",\"analysis\":{\"efficiency_score\":-1}}]}";
	struct gs_job_report_comparison c = {0};

	(void)state;
	assert_int_equal(gs_job_report_compare_text(&c, "f", text, strlen(text), NULL), 0);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	for (unsigned i = 0; i < GS_JOB_COMPARED_COUNT; i++) {
		if (i == GS_JOB_COMPARED_NET)
			assert_true(c.rows[0].v[i] == 3200);
		else
			assert_true(isnan(c.rows[0].v[i]));
	}
	assert_true(isnan(c.rows[1].v[GS_JOB_COMPARED_SCORE]));
	gs_job_report_comparison_fini(&c);
}

static void a_wild_job_is_an_outlier_and_moves_nothing(void **state)
{
	struct gs_job_report_comparison c = {0};

	(void)state;
	for (int i = 1; i <= 7; i++)
		add(&c, i, "ann", 60 + i % 3, i == 4 ? 95 : 8 + i % 2);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	assert_true(c.stat[GS_JOB_COMPARED_IO].median == 9);
	assert_int_equal(c.n_outliers, 1);
	assert_int_equal(c.outliers[0].row, 3);
	assert_int_equal(c.outliers[0].what, GS_JOB_COMPARED_IO);
	assert_true(c.outliers[0].score > 3.5);
	assert_true(c.rows[0].v[GS_JOB_COMPARED_SWITCHES] == 5);
	gs_job_report_comparison_fini(&c);
}

static void trends_need_an_order(void **state)
{
	static const double steady[] = {50, 70, 55, 65, 60, 52};
	struct gs_job_report_comparison c = {0};

	(void)state;
	/* Given out of order: times decide. */
	for (int i = 6; i >= 1; i--) {
		add(&c, i, "up", 40 + 5 * i, 1);
		add(&c, i, "down", 80 - 5 * i, 1);
		add(&c, i, "even", steady[i - 1], 1);
	}
	add(&c, 1, "once", 10, 1);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	assert_int_equal(c.n_trends, 3); /* by user: down, even, up */
	assert_int_equal(c.trends[0].direction, -1);
	assert_true(c.trends[0].slope == -5);
	assert_int_equal(c.trends[1].direction, 0);
	assert_int_equal(c.trends[2].direction, 1);
	assert_true(c.trends[2].slope == 5);
	assert_int_equal(c.n_users, 4);
	/* 100 s on 4 processors, half of it unused, six times. */
	assert_true(c.users[0].wasted_core_s == 1200);
	gs_job_report_comparison_fini(&c);
}

static void what_is_no_report_is_told(void **state)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
		{"{", "f:1:1: not JSON: string or '}' expected near end of file"},
		{"[]", "f: not a job report: it has no list \"jobs\" (`gpuscope job -o FILE.json` "
		       "writes one)"},
		{"{\"jobs\": 3}", "f: not a job report: it has no list \"jobs\" (`gpuscope "
				  "job -o FILE.json` writes one)"},
		{"{\"jobs\": [{}, 4]}", "f: entry 2 of \"jobs\" is not an object"},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		struct gs_job_report_comparison c = {0};
		struct gs_err err = {{0}};

		assert_int_equal(
			gs_job_report_compare_text(&c, "f", bad[i].text, strlen(bad[i].text), &err),
			-EINVAL);
		assert_string_equal(err.text, bad[i].message);
		gs_job_report_comparison_fini(&c);
	}
}

static void html_takes_no_markup_from_names(void **state)
{
	static const char text_in[] =
		"{\"jobs\":[{\"job_id\":\"<script>&\\\"\",\"metrics\":{"
		"\"cpu_percent\":5,\"io_percent\":5},\"classification\":\"x\"}]}";
	struct gs_job_report_comparison c = {0};
	struct gs_job_report_style style = {.format = GS_JOB_HTML};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	assert_int_equal(gs_job_report_compare_text(&c, "f", text_in, strlen(text_in), NULL), 0);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	assert_int_equal(gs_job_report_compare_write(out, &c, &style), 0);
	fclose(out);
	assert_null(strstr(text, "<script>&"));
	assert_non_null(strstr(text, "\"job_id\": \"\\u003cscript>&\\\"\""));
	free(text);
	gs_job_report_comparison_fini(&c);
}

/* A session that was never written is compared like the file that it would make. */
static void of_a_session_as_of_its_file(void **state)
{
	struct gs_job_report job = {
		.usage = {.elapsed_ns = 10000000000ull,
			  .cores = 4,
			  .known = (1u << GS_JOB_KNOWS_COUNT) - 1,
			  .memory_peak_bytes = 1 << 30,
			  .memory_limit_bytes = 1ll << 32,
			  .machine_bytes = -1,
			  .n_gpus = 1,
			  .gpu_ratio = 0.25,
			  .imbalance_ratio = 0.5,
			  .work = {.syscalls = 500,
				   .switches_voluntary = 40,
				   .time_ns = {[GS_TIME_CPU] = 20000000000ull}}},
		.imbalance = {.of = "", .ratio = NAN, .rank = -1}};
	struct gs_job_report_session s = {.start_wall_ns = 1700000000000000000,
					  .elapsed_ns = 10000000000ull,
					  .jobs = &job,
					  .n_jobs = 1};
	struct gs_job_report_style style = {.format = GS_JOB_JSON, .precision = -1};
	struct gs_job_report_comparison a = {0}, b = {0};
	struct gs_err err = {{0}};
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	snprintf(job.job.id, sizeof(job.job.id), "7");
	snprintf(job.job.user, sizeof(job.job.user), "ann");
	snprintf(job.verdict.job_class, sizeof(job.verdict.job_class), "CPU-bound");
	job.verdict.score = 42;
	gs_job_report_figures_of(&job.usage, &job.figures);
	assert_int_equal(gs_job_report_write(f, &s, &style), 0);
	fclose(f);
	assert_int_equal(gs_job_report_compare_text(&a, "here", text, bytes, &err), 0);
	assert_int_equal(gs_job_report_compare_session(&b, "here", &s), 0);
	assert_int_equal(a.n_rows, 1);
	assert_int_equal(b.n_rows, 1);
	assert_string_equal(a.rows[0].id, b.rows[0].id);
	assert_string_equal(a.rows[0].user, b.rows[0].user);
	assert_string_equal(a.rows[0].job_class, b.rows[0].job_class);
	assert_string_equal(a.rows[0].file, b.rows[0].file);
	assert_true(a.rows[0].start_s == b.rows[0].start_s && a.rows[0].cores == b.rows[0].cores);
	for (unsigned i = 0; i < GS_JOB_COMPARED_COUNT; i++)
		assert_true(isnan(a.rows[0].v[i]) ? isnan(b.rows[0].v[i])
						  : fabs(a.rows[0].v[i] - b.rows[0].v[i]) < 1e-9);
	assert_true(b.rows[0].v[GS_JOB_COMPARED_RANKS] == 50);
	assert_true(b.rows[0].v[GS_JOB_COMPARED_CPU] == 50);
	gs_job_report_comparison_fini(&a);
	gs_job_report_comparison_fini(&b);
	free(text);
}

static void nothing_to_compare(void **state)
{
	struct gs_job_report_comparison c = {0};
	char text[256];

	(void)state;
	assert_int_equal(gs_job_report_compare_text(&c, "f", "{\"jobs\":[]}", 11, NULL), 0);
	assert_int_equal(gs_job_report_compare_finish(&c), 0);
	assert_int_equal(c.n_rows + c.n_outliers + c.n_trends + c.n_users, 0);
	for (int format = GS_JOB_TABLE; format <= GS_JOB_HTML; format++) {
		struct gs_job_report_style style = {.format = (enum gs_job_report_format)format};
		FILE *out = fmemopen(text, sizeof(text), "w");

		assert_non_null(out);
		setvbuf(out, NULL, _IOFBF, 1 << 16);
		(void)gs_job_report_compare_write(out, &c, &style);
		fclose(out);
	}
	gs_job_report_comparison_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_shapes_of_classification),
		cmocka_unit_test(what_cannot_be_is_not_known),
		cmocka_unit_test(a_wild_job_is_an_outlier_and_moves_nothing),
		cmocka_unit_test(trends_need_an_order),
		cmocka_unit_test(what_is_no_report_is_told),
		cmocka_unit_test(html_takes_no_markup_from_names),
		cmocka_unit_test(of_a_session_as_of_its_file),
		cmocka_unit_test(nothing_to_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
