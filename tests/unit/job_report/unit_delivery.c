/* Reports of jobs as they are sent to a head: what was written is read, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_report/compare.h"
#include "analysis/job_report/delivery.h"

static struct gs_job_report_delivery delivery(void)
{
	struct gs_job_report_delivery d = {.state = GS_JOB_DELIVERY_FINISHED,
					   .source = "job",
					   .kind = "slurm",
					   .begin_wall_ns = 1700000000000000001,
					   .end_wall_ns = 1700000010000000002};

	assert_int_equal(gs_job_report_delivery_name(d.report), 0);
	return d;
}

/* Two jobs, of which the second is sent. */
static void fill(struct gs_job_report_session *s, struct gs_job_report jobs[2])
{
	*s = (struct gs_job_report_session){.start_wall_ns = 1700000000000000001,
					    .elapsed_ns = 1,
					    .host = "node7",
					    .jobs = jobs};
	s->n_jobs = 2;
	for (int i = 0; i < 2; i++) {
		memset(&jobs[i], 0, sizeof(jobs[i]));
		snprintf(jobs[i].job.id, sizeof(jobs[i].job.id), "471%d", i);
		snprintf(jobs[i].job.user, sizeof(jobs[i].job.user), "ada");
		snprintf(jobs[i].job.name, sizeof(jobs[i].job.name), "train, \"deep\"");
		snprintf(jobs[i].verdict.job_class, sizeof(jobs[i].verdict.job_class), "GPU-idle");
		jobs[i].verdict.score = 12.5;
		jobs[i].imbalance.ratio = NAN;
		gs_figures_clear(&jobs[i].figures);
	}
}

static void what_is_written_is_read(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(2 * GS_JOB_DELIVERY_MAX);
	struct gs_job_report_delivery d = delivery(), got;
	struct gs_job_report_comparison c = {0};
	struct gs_job_report jobs[2];
	struct gs_job_report_session s;
	struct gs_err err;

	(void)state;
	fill(&s, jobs);
	assert_int_equal(gs_job_report_delivery_write(&text, &s, 1, &d), 0);
	assert_int_equal(text.bytes % 8, 0);
	assert_int_equal(gs_job_report_delivery_read(&got, (char *)text.data, text.bytes, &err), 0);
	assert_string_equal(got.report, d.report);
	assert_int_equal(got.state, GS_JOB_DELIVERY_FINISHED);
	assert_string_equal(got.source, "job");
	assert_string_equal(got.kind, "slurm");
	assert_true(got.begin_wall_ns == d.begin_wall_ns && got.end_wall_ns == d.end_wall_ns);
	assert_string_equal(got.job, "4711");
	assert_string_equal(got.user, "ada");
	assert_string_equal(got.name, "train, \"deep\"");
	assert_string_equal(got.job_class, "GPU-idle");
	assert_true(got.score == 12.5);
	/* And who compares files reads it as well. */
	assert_int_equal(gs_job_report_compare_text(&c, "f", (char *)text.data, text.bytes, &err),
			 0);
	assert_int_equal(c.n_rows, 1);
	gs_job_report_comparison_fini(&c);
}

static void what_is_too_long_is_cut_and_says_so(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(2 * GS_JOB_DELIVERY_MAX);
	struct gs_job_report_delivery d = delivery(), got;
	struct gs_job_report jobs[2];
	struct gs_job_report_session s;
	struct gs_err err;
	uint32_t *pids = calloc(400000, sizeof(*pids));

	(void)state;
	assert_non_null(pids);
	fill(&s, jobs);
	jobs[1].pids = pids;
	jobs[1].n_pids = 400000;
	assert_int_equal(gs_job_report_delivery_write(&text, &s, 1, &d), 0);
	assert_true(text.bytes <= GS_JOB_DELIVERY_MAX);
	assert_int_equal(gs_job_report_delivery_read(&got, (char *)text.data, text.bytes, &err), 0);
	assert_int_equal(gs_buf_put(&text, "", 1), 0);
	assert_non_null(strstr((char *)text.data, "\"trimmed\": true"));
	assert_int_equal(jobs[1].n_pids, 400000); /* the session is as it was */
	free(pids);
}

#define GOOD                                                                                       \
	"\"delivery\":{\"report\":\"r\",\"state\":\"running\",\"source\":\"agent\",\"kind\":"      \
	"\"tree\","                                                                                \
	"\"begin_wall_ns\":5,\"end_wall_ns\":6}"

static void what_no_gpuscope_wrote_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"null",
		"{}",
		"{" GOOD "}",
		"{" GOOD ",\"jobs\":[]}",
		"{" GOOD ",\"jobs\":[{}]}",
		"{" GOOD ",\"jobs\":[{\"job_id\":\"\"}]}",
		"{" GOOD ",\"jobs\":[{\"job_id\":\"1\"},{\"job_id\":\"2\"}]}",
		"{" GOOD "," GOOD ",\"jobs\":[{\"job_id\":\"1\"}]}",
		"{" GOOD ",\"jobs\":[{\"job_id\":\"1\"}]} x",
		"{\"delivery\":[],\"jobs\":[{\"job_id\":\"1\"}]}",
		"{\"delivery\":{\"report\":\"../"
		"r\",\"state\":\"running\",\"source\":\"a\",\"kind\":"
		"\"b\",\"begin_wall_ns\":5,\"end_wall_ns\":6},\"jobs\":[{\"job_id\":\"1\"}]}",
		"{\"delivery\":{\"report\":\"r\",\"state\":\"unknown\",\"source\":\"a\",\"kind\":"
		"\"b\",\"begin_wall_ns\":5,\"end_wall_ns\":6},\"jobs\":[{\"job_id\":\"1\"}]}",
		"{\"delivery\":{\"report\":\"r\",\"state\":\"running\",\"source\":\"a\",\"kind\":"
		"\"b\",\"begin_wall_ns\":6,\"end_wall_ns\":5},\"jobs\":[{\"job_id\":\"1\"}]}",
		"{\"delivery\":{\"report\":\"r\",\"state\":\"running\",\"source\":\"a\",\"kind\":"
		"\"b\",\"begin_wall_ns\":5,\"end_wall_ns\":9223372036854775807},\"jobs\":[{\"job_"
		"id\":\"1\"}]}",
	};
	struct gs_job_report_delivery d;
	struct gs_err err;

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		err.text[0] = '\0';
		if (gs_job_report_delivery_read(&d, bad[i], strlen(bad[i]), &err) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_non_null(strstr(err.text, "not a job report"));
	}
}

static void texts_are_cut_and_steer_nothing(void **state)
{
	char text[2048], name[600];
	struct gs_job_report_delivery d;
	struct gs_err err;

	(void)state;
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa9", 3); /* two bytes a letter */
	snprintf(text, sizeof(text),
		 "{" GOOD ",\"jobs\":[{\"job_id\":\"1\\u001b[2J\\u007f\",\"job_name\":\"%s\"}]}",
		 name);
	assert_int_equal(gs_job_report_delivery_read(&d, text, strlen(text), &err), 0);
	assert_string_equal(d.job, "1?[2J?");
	assert_int_equal(strlen(d.name), 126); /* between two letters */
	assert_true(isnan(d.score));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_is_too_long_is_cut_and_says_so),
		cmocka_unit_test(what_no_gpuscope_wrote_is_refused),
		cmocka_unit_test(texts_are_cut_and_steer_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
