/* Levels and topics of the log, as words, as settings of another process, and on a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"

static char got[1100];

static void take_line(enum gs_log_level level, enum gs_log_topic topic, const char *line)
{
	snprintf(got, sizeof(got), "%d %d %s", (int)level, (int)topic, line);
}

static void levels(void **state)
{
	enum gs_log_level level = GS_LOG_WARNING;

	assert_int_equal(gs_log_parse_level("debug", &level), 0);
	assert_int_equal(level, GS_LOG_DEBUG);
	assert_int_equal(gs_log_parse_level("Debug", &level), -EINVAL);
	assert_int_equal(gs_log_parse_level("", &level), -EINVAL);
	assert_int_equal(level, GS_LOG_DEBUG);
	assert_string_equal(GS_LOG_LEVEL_WORDS, "warning info debug trace");
	gs_log_set_level(GS_LOG_INFO);
	assert_true(gs_log_is_on(GS_LOG_INFO, GS_LOG_GPU));
	assert_false(gs_log_is_on(GS_LOG_DEBUG, GS_LOG_GPU));
	gs_log_set_level((enum gs_log_level)99);
	assert_int_equal(gs_log_level(), GS_LOG_TRACE);
}

/* No topic chosen: all. Then those that were chosen; warnings are of all. */
static void topics(void **state)
{
	char settings[GS_LOG_SETTINGS_BYTES];

	gs_log_set_sink(take_line);
	gs_log_set_level(GS_LOG_INFO);
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "%s", "one");
	snprintf(settings, sizeof(settings), "1 %d one", (int)GS_LOG_HEAD);
	assert_string_equal(got, settings);
	assert_int_equal(gs_log_add_topic("gpus"), -EINVAL);
	assert_int_equal(gs_log_add_topic("gpu"), 0);
	assert_int_equal(gs_log_add_topic("jobs"), 0);
	got[0] = '\0';
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "two");
	assert_string_equal(got, "");
	gs_log(GS_LOG_INFO, GS_LOG_JOBS, "three");
	assert_non_null(strstr(got, "three"));
	gs_log(GS_LOG_WARNING, GS_LOG_HEAD, "four");
	assert_non_null(strstr(got, "four"));

	gs_log_put_settings(settings);
	gs_log_take_settings("0:0");
	assert_false(gs_log_is_on(GS_LOG_INFO, GS_LOG_JOBS));
	/* Wrong ones change nothing. */
	gs_log_take_settings("");
	gs_log_take_settings("2");
	gs_log_take_settings("2:x");
	gs_log_take_settings("x:1");
	assert_int_equal(gs_log_level(), GS_LOG_WARNING);
	gs_log_take_settings(settings);
	assert_true(gs_log_is_on(GS_LOG_INFO, GS_LOG_JOBS));
	assert_false(gs_log_is_on(GS_LOG_INFO, GS_LOG_HEAD));
	gs_log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(levels), cmocka_unit_test(topics)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
