/* How deep a YAML text may be nested, before libyaml makes a tree of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/yaml_depth.h"

static int check(const char *text, struct gs_err *err)
{
	return gs_yaml_check_depth("a.yaml", text, strlen(text), err);
}

static void shallow_ones_pass(void **state)
{
	char text[200] = "a: ";

	assert_int_equal(check("", NULL), 0);
	assert_int_equal(check("a: {b: [1, 2, [3]]}\n---\nc: \"[[[[\"\n", NULL), 0);
	assert_int_equal(check("a: [\n", NULL), 0); /* who loads it says what is wrong */
	memset(text + 3, '[', GS_YAML_DEPTH_MAX - 1);
	memset(text + 3 + GS_YAML_DEPTH_MAX - 1, ']', GS_YAML_DEPTH_MAX - 1);
	assert_int_equal(check(text, NULL), 0);
}

static void deep_ones_are_refused(void **state)
{
	static char text[200000] = "probes: ";
	struct gs_err err = {{0}};

	memset(text + 8, '[', sizeof(text) - 9);
	assert_int_equal(check(text, &err), -EINVAL);
	assert_string_equal(err.text, "a.yaml:1:40: nested more than 32 levels deep");
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? ' ' : '-';
	assert_int_equal(check(text, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shallow_ones_pass),
		cmocka_unit_test(deep_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
