/* packaging/prometheus/alerts.yml is what the table makes; GS_GOLDEN_UPDATE=1 writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/mem.h"

static void file_is_generated(void **state)
{
	GS_FREE char *text = NULL, *file = NULL;
	size_t bytes = 0, room = 0;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(gs_gpu_health_write_rules(f), 0);
	fclose(f);
	f = fopen(ALERTS_YML, getenv("GS_GOLDEN_UPDATE") ? "we" : "re");
	assert_non_null(f);
	if (getenv("GS_GOLDEN_UPDATE")) {
		assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	} else {
		assert_true(getdelim(&file, &room, '\0', f) > 0);
		assert_string_equal(file, text);
	}
	fclose(f);
}

/* A condition that is worth waking somebody has a rule, but for those that only time shows. */
static void every_failure_has_a_rule(void **state)
{
	static const enum gs_gpu_condition with_rule[] = {
#define ROW(id, ...) GS_GPU_CONDITION_##id,
		GS_GPU_ALERTS(ROW)
#undef ROW
	};

	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++) {
		bool found = gs_gpu_condition_severity(c) != GS_GPU_SEVERITY_CRITICAL;

		for (size_t i = 0; i < GS_ARRAY_LEN(with_rule); i++)
			found |= with_rule[i] == c;
		assert_true(found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_generated),
		cmocka_unit_test(every_failure_has_a_rule),
	};

	return cmocka_run_group_tests_name("gpu_health/rules", tests, NULL, NULL);
}
