/* Conditions of rules: what they mean, and what is said of wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "analysis/rules/expr.h"

static double value(const char *text)
{
	struct gs_figures f;
	struct gs_expr *e = NULL;
	struct gs_err err = {{0}};
	double v;

	gs_figures_clear(&f);
	f.v[GS_FIGURE_CPU] = 40;
	f.v[GS_FIGURE_MEMORY] = 85;
	f.v[GS_FIGURE_MEMORY_USED] = 3.0 * (1 << 30);
	if (gs_expr_parse(text, &e, &err) < 0)
		fail_msg("%s", err.text);
	v = gs_expr_value(e, &f);
	gs_expr_free(&e);
	return v;
}

static void arithmetic(void **state)
{
	assert_true(value("1 + 2 * 3") == 7);
	assert_true(value("(1 + 2) * 3") == 9);
	assert_true(value("10 - 4 - 3") == 3);
	assert_true(value("12 / 4 / 3") == 1);
	assert_true(value("-2 * -3") == 6);
	assert_true(value("1.5GB") == 1.5e9);
	assert_true(value("2MiB") == 2 << 20);
	assert_true(value("3min + 500ms") == 180.5);
	assert_true(value("80%") == 80);
	assert_true(value("cpu_percent / 2") == 20);
	assert_true(value(".5") == 0.5);
	assert_true(isnan(value("1 / 0")));
}

static void truth(void **state)
{
	assert_true(value("memory_usage > 80") == 1);
	assert_true(value("memory_usage > 80 && cpu_percent > 50") == 0);
	assert_true(value("memory_usage > 80 and not cpu_percent > 50") == 1);
	assert_true(value("memory_usage < 80 or cpu_percent = 40") == 1);
	assert_true(value("!(1 == 2)") == 1);
	assert_true(value("1 != 2") == 1);
	assert_true(value("2 <= 2") == 1);
	assert_true(value("2 >= 3") == 0);
	assert_true(value("true && !false") == 1);
	assert_true(value("memory_used_bytes > 2GiB") == 1);
	/* && binds stronger than || */
	assert_true(value("1 == 1 || 1 == 2 && 1 == 2") == 1);
}

static void the_unknown(void **state)
{
	assert_true(isnan(value("gpu_percent > 5")));
	assert_true(isnan(value("!(gpu_percent > 5)")));
	assert_true(value("gpu_percent > 5 && 1 == 2") == 0);
	assert_true(value("gpu_percent > 5 || 1 == 1") == 1);
	assert_true(isnan(value("gpu_percent > 5 && 1 == 1")));
	assert_true(isnan(value("gpu_percent * 2")));
}

static void wrong(const char *text, int code, const char *what)
{
	struct gs_expr *e = NULL;
	struct gs_err err = {{0}};

	assert_int_equal(gs_expr_parse(text, &e, &err), code);
	assert_null(e);
	if (!strstr(err.text, what))
		fail_msg("\"%s\" says \"%s\", not \"%s\"", text, err.text, what);
}

static void errors_name_their_place(void **state)
{
	char deep[100], many[2000] = "1";

	wrong("", -EINVAL, "column 1: it ends where a figure or a number is expected");
	wrong("memory > 80", -EINVAL, "column 1: no figure has this name");
	wrong("memory_usage >", -EINVAL, "column 15: it ends where");
	wrong("memory_usage > 80 cpu_percent", -EINVAL, "column 19: an operator is expected here");
	wrong("(cpu_percent > 1", -EINVAL, "column 17: a closing bracket is missing");
	wrong("cpu_percent > 5 apples", -EINVAL, "column 17: an operator is expected here");
	wrong("cpu_percent > 5apples", -EINVAL, "column 16: not a unit");
	wrong("cpu_percent ~ 5", -EINVAL, "column 13: an operator is expected here");
	wrong("1 < 2 < 3", -EINVAL, "column 7: one comparison at a time: join two by &&");
	wrong("20 < cpu_percent<80", -EINVAL, "column 17: one comparison at a time");
	wrong("cpu_percent && * 3", -EINVAL, "column 16: a figure or a number is expected here");
	wrong("1e999 > 1", -EINVAL, "column 1: not a number");
	memset(deep, '(', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	wrong(deep, -E2BIG, "too many levels");
	for (int i = 0; i < 400; i++)
		strcat(many, "+1");
	wrong(many, -E2BIG, "the expression is too long");
}

/* What could never be meant is told when it is read, not by a rule that never holds. */
static void units_fit(void **state)
{
	static const char *const good[] = {
		"memory_usage > 80%",         "80% < memory_usage",
		"memory_used_bytes > 1.5GiB", "read_bytes_per_second > 10MB",
		"memory_used_bytes > 2G",     "context_switches_per_core_second > 10K",
		"run_seconds > 2h",           "duration_seconds >= 90",
		"net_operations > 1000",      "memory_used_bytes / 1GiB > 3",
		"cpu_percent > io_percent",   "cpu_percent != 5 && cores > 8",
	};
	struct gs_expr *e = NULL;

	wrong("memory_usage > 1.5GiB", -EINVAL, "column 22: memory_usage is a percentage");
	wrong("2min < cpu_percent", -EINVAL, "cpu_percent is a percentage");
	wrong("memory_used_bytes > 80%", -EINVAL, "memory_used_bytes is in bytes");
	wrong("read_bytes_per_second > 10s", -EINVAL, "read_bytes_per_second is in bytes");
	wrong("run_seconds > 2GB", -EINVAL, "run_seconds is in seconds");
	wrong("gpus > 50%", -EINVAL, "gpus is not of this unit");
	wrong("cores < 8 && oom_kills > 3h", -EINVAL, "oom_kills is not of this unit");
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(gs_expr_parse(good[i], &e, NULL), 0);
		gs_expr_free(&e);
	}
}

static void values_are_no_conditions(void **state)
{
	static const char *const values[] = {"memory_usage", "cpu_percent * 2", "80", "-1"};
	static const char *const conditions[] = {
		"true", "false", "not cores", "1", "cpu_percent > 1", "!cores", "cores && 1"};
	struct gs_err err = {{0}};
	struct gs_expr *e = NULL;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		assert_int_equal(gs_expr_parse(values[i], &e, NULL), 0);
		assert_int_equal(gs_expr_want_condition(&e, values[i], &err), -EINVAL);
		assert_null(e);
		assert_non_null(strstr(err.text, "is a value, not a condition"));
	}
	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
		assert_int_equal(gs_expr_parse(conditions[i], &e, NULL), 0);
		assert_int_equal(gs_expr_want_condition(&e, conditions[i], &err), 0);
		gs_expr_free(&e);
	}
}

static void it_tells_its_figures(void **state)
{
	struct gs_expr *e = NULL;

	assert_int_equal(gs_expr_parse("cpu_percent > 1 && io_percent < cpu_percent", &e, NULL), 0);
	assert_true(gs_expr_figures(e) == (1ull << GS_FIGURE_CPU | 1ull << GS_FIGURE_IO));
	gs_expr_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arithmetic),
		cmocka_unit_test(truth),
		cmocka_unit_test(the_unknown),
		cmocka_unit_test(errors_name_their_place),
		cmocka_unit_test(it_tells_its_figures),
		cmocka_unit_test(units_fit),
		cmocka_unit_test(values_are_no_conditions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
