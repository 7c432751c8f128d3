/* What squeue says of a job, whole or torn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "commands/job/job_state.h"

static enum gs_job_state parsed(const char *text)
{
	return gs_job_state_parse(text, strlen(text));
}

static void one_job(void **state)
{
	(void)state;
	assert_int_equal(parsed("RUNNING\n"), GS_JOB_STATE_RUNS);
	assert_int_equal(parsed("SUSPENDED\n"), GS_JOB_STATE_RUNS);
	assert_int_equal(parsed("PENDING\n"), GS_JOB_STATE_WAITS);
	assert_int_equal(parsed("REQUEUED\n"), GS_JOB_STATE_WAITS);
	assert_int_equal(parsed("COMPLETED\n"), GS_JOB_STATE_OVER);
	assert_int_equal(parsed("COMPLETING\n"), GS_JOB_STATE_OVER);
	assert_int_equal(parsed("OUT_OF_MEMORY \r\n"), GS_JOB_STATE_OVER);
}

/* An array: some of its tasks have ended. */
static void several(void **state)
{
	(void)state;
	assert_int_equal(parsed("COMPLETED\nRUNNING\nPENDING\n"), GS_JOB_STATE_RUNS);
	assert_int_equal(parsed("COMPLETED\nPENDING\n"), GS_JOB_STATE_WAITS);
	assert_int_equal(parsed("COMPLETED\nFAILED\nTIMEOUT"), GS_JOB_STATE_OVER);
}

/* A recorder ends by what is sure. */
static void nothing_known(void **state)
{
	(void)state;
	assert_int_equal(parsed(""), GS_JOB_STATE_UNKNOWN);
	assert_int_equal(parsed("\n \n"), GS_JOB_STATE_UNKNOWN);
	assert_int_equal(parsed("A_WORD_OF_LATER_VERSIONS\n"), GS_JOB_STATE_RUNS);
	assert_int_equal(parsed("COMPLET"), GS_JOB_STATE_RUNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_job),
		cmocka_unit_test(several),
		cmocka_unit_test(nothing_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
