/* Ids of jobs as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/job_accounting/job_id.h"

static void ids(void **state)
{
	static const char *const good[] = {
		"1",          "4711",         "4711_0",         "4711_3",     "4711+1",
		"4711_[1-3]", "4711_[1,3-5]", "4711_[0-8:2%4]", "4711+[0-1]", "s1A2b3C"};
	static const char *const bad[] = {"",
					  "-1",
					  "1-5",
					  "4711.0",
					  "4711.batch",
					  "4711_",
					  "4711_x",
					  "4711_[",
					  "4711_[]",
					  "4711_[3-1]",
					  "4711_[1-]",
					  "4711_[1-3]x",
					  "4711_[1-3:0]",
					  "4711+1+2",
					  "4711 ",
					  "99999999999999999999",
					  "a b",
					  "x/y",
					  "4711_[1-3%]"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!gs_accounting_job_id_is(good[i]))
			fail_msg("%s is an id", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (gs_accounting_job_id_is(bad[i]))
			fail_msg("%s is none", bad[i]);
	(void)state;
}

static void names(void **state)
{
	static const struct {
		const char *id;
		bool task, component;
	} cases[] = {
		{"4711", true, true},           {"4713", true, false},
		{"4712", false, true},          {"4711_3", true, false},
		{"4711_2", false, false},       {"4711_[1-3]", true, false},
		{"4711_[1,2]", false, false},   {"4711_[1-9:2]", true, false},
		{"4711_[2-9:2]", false, false}, {"4711_[0,3%1]", true, false},
		{"4711+1", false, true},        {"4711+[0-1]", false, true},
		{"4711+[2-9]", false, false},   {"4714", false, false},
		{"sAbC1", true, false},         {"0", false, false},
	};
	/* A task of an array, and a component of a het job. */
	const struct gs_job task = {.id = "4711_3",
				    .job_id = 4713,
				    .array_job_id = 4711,
				    .array_task_id = 3,
				    .het_job_id = -1,
				    .het_offset = -1,
				    .sluid = "sAbC1"};
	const struct gs_job component = {.id = "4711+1",
					 .job_id = 4712,
					 .array_job_id = -1,
					 .array_task_id = -1,
					 .het_job_id = 4711,
					 .het_offset = 1};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (gs_accounting_job_id_names(cases[i].id, &task) != cases[i].task)
			fail_msg("%s and the task", cases[i].id);
		if (gs_accounting_job_id_names(cases[i].id, &component) != cases[i].component)
			fail_msg("%s and the component", cases[i].id);
	}
	(void)state;
}

static void ends(void **state)
{
	char text[] = "1,4711_[1-3,7],2";
	char *end = gs_accounting_job_id_end(text);

	assert_string_equal(end, ",4711_[1-3,7],2");
	end = gs_accounting_job_id_end(end + 1);
	assert_string_equal(end, ",2");
	assert_string_equal(gs_accounting_job_id_end(end + 1), "");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ids), cmocka_unit_test(names),
					   cmocka_unit_test(ends)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
