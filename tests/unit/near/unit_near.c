/* "Did you mean": what is near, what is too far, and names that are meant by their first words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/near/near.h"

static const char *meant(const char *word, const char *const *names)
{
	struct gs_near near;

	gs_near_init(&near, word);
	for (; *names; names++)
		gs_near_add(&near, *names);
	return near.name ? near.name : "";
}

static void distance_counts_slips(void **state)
{
	char longer[65];

	assert_int_equal(gs_near_distance("abc", "abc"), 0);
	assert_int_equal(gs_near_distance("acb", "abc"), 1);
	assert_int_equal(gs_near_distance("ab", "abc"), 1);
	assert_int_equal(gs_near_distance("", "abc"), 3);
	assert_int_equal(gs_near_distance("kitten", "sitting"), 3);
	memset(longer, 'a', 64);
	longer[64] = '\0';
	assert_int_equal(gs_near_distance(longer, longer), 999);
	assert_int_equal(gs_near_distance(longer + 1, longer + 1), 0);
}

static void a_slip_means_the_nearest(void **state)
{
	static const char *const names[] = {"trace", "top", "report", "gpu", NULL};

	assert_string_equal(meant("tarce", names), "trace");
	assert_string_equal(meant("tpo", names), "top");
	assert_string_equal(meant("gpuu", names), "gpu");
	assert_string_equal(meant("reprot", names), "report");
	assert_string_equal(meant("xyz", names), "");
	assert_string_equal(meant("", names), "");
}

static void long_names_are_meant_by_their_first_words(void **state)
{
	static const char *const names[] = {"memory_total_bytes",  "memory_used_bytes",
					    "temperature_celsius", "cudaLaunchKernelExC",
					    "cudaLaunchKernel",    NULL};

	assert_string_equal(meant("temprature", names), "temperature_celsius");
	assert_string_equal(meant("memory", names), "memory_used_bytes"); /* the shorter one */
	assert_string_equal(meant("memory_usde_bytes", names), "memory_used_bytes");
	assert_string_equal(meant("cudaLanch", names), "cudaLaunchKernel");
	assert_string_equal(meant("cudaLaunchKernal", names), "cudaLaunchKernel");
	assert_string_equal(meant("celsius", names), ""); /* not by their last ones */
	assert_string_equal(meant("mem", names), "");     /* nor by parts of words */
}

static void the_text_is_cut(void **state)
{
	struct gs_near near;
	char text[40], cut[8];

	gs_near_init(&near, "tpo");
	assert_string_equal(gs_near_text(&near, text, sizeof(text)), "");
	gs_near_add(&near, "top");
	assert_string_equal(gs_near_text(&near, text, sizeof(text)), "; did you mean \"top\"?");
	assert_string_equal(gs_near_text(&near, cut, sizeof(cut)), "; did y");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distance_counts_slips),
		cmocka_unit_test(a_slip_means_the_nearest),
		cmocka_unit_test(long_names_are_meant_by_their_first_words),
		cmocka_unit_test(the_text_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
