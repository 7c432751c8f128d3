/* Causes that are not known: where two are as likely, and where the evidence is of another time. */
#include <string.h>

#include "maker.h"

/* Of two parts that make as much of the difference none is the cause, and one that makes clearly more is. */
static void cause_of_two_parts(void **state)
{
	static const struct {
		uint64_t lock_ns, fault_ns;
		const char *key;
	} cases[] = {{25000000, 25000000, NULL},
		     {27000000, 25000000, NULL},
		     {35000000, 15000000, "lock"}};

	for (size_t k = 0; k < GS_ARRAY_LEN(cases); k++) {
		struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
		const struct gs_explain_cause *c;
		struct maker m = begin();

		take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 1e7);
		for (unsigned i = 0; i < 100; i++) {
			a.part_ns[GS_PART_LOCK] += cases[k].lock_ns;
			a.part_ns[GS_PART_FAULT] += cases[k].fault_ns;
			a.part_ns[GS_PART_CPU] -= cases[k].lock_ns + cases[k].fault_ns;
			take_accounted(&m, &a, 1, 1.5e8, GS_PART_DISK, 1e7);
		}
		finish(&m, 0, 1);
		assert_int_equal(m.result.n_findings, 1);
		c = &m.result.findings[0].cause;
		if (cases[k].key)
			assert_string_equal(c->key, cases[k].key);
		else
			assert_null(c->key);
		assert_true(c->n_evidence >= 2); /* what is known is said all the same */
		gs_explain_free(&m.e);
	}
}

/* A part that was longer at another time than that of the finding is not its cause. */
static void evidence_of_another_time(void **state)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	const struct gs_explain_cause *c;
	struct maker m = begin();

	/* Disks were slow for a while, without longer steps: some 100 s before. */
	take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 6e7);
	take_accounted(&m, &a, 1000, 1e8, GS_PART_DISK, 1e7);
	/* Then steps take longer, on the processor. */
	take_accounted(&m, &a, 100, 1.5e8, GS_PART_DISK, 1e7);
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 1);
	c = &m.result.findings[0].cause;
	assert_true(!c->key || strcmp(c->key, "disk") != 0);
	gs_explain_free(&m.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cause_of_two_parts),
		cmocka_unit_test(evidence_of_another_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
