/* A str's characters as UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sources/unwind/python.h"

static void every_width(void **state)
{
	const uint8_t latin[] = {'c', 'a', 'f', 0xe9};
	const uint16_t ucs2[] = {'a', 0xe9, 0x4e2d, 0x6587};
	const uint32_t ucs4[] = {'a', 0xe9, 0x4e2d, 0x20000, 0x10ffff};
	char out[64];

	assert_int_equal(gs_python_text(latin, sizeof(latin), 1, out, sizeof(out)), 5);
	assert_string_equal(out, "caf\xc3\xa9");
	assert_int_equal(gs_python_text(ucs2, sizeof(ucs2), 2, out, sizeof(out)), 9);
	assert_string_equal(out, "a\xc3\xa9\xe4\xb8\xad\xe6\x96\x87");
	assert_int_equal(gs_python_text(ucs4, sizeof(ucs4), 4, out, sizeof(out)), 14);
	assert_string_equal(out, "a\xc3\xa9\xe4\xb8\xad\xf0\xa0\x80\x80\xf4\x8f\xbf\xbf");
}

static void what_is_no_character(void **state)
{
	const uint16_t surrogate[] = {0xd800, 'b', 0x1b, 0x7f, 0};
	const uint32_t large[] = {0x110000, 0xffffffff};
	char out[64];

	gs_python_text(surrogate, sizeof(surrogate), 2, out, sizeof(out));
	assert_string_equal(out, "\xef\xbf\xbd"
				 "b???");
	gs_python_text(large, sizeof(large), 4, out, sizeof(out));
	assert_string_equal(out, "\xef\xbf\xbd\xef\xbf\xbd");
}

static void sizes(void **state)
{
	const uint32_t wide[] = {0x20000, 0x20000};
	char out[8];

	for (size_t room = 1; room <= sizeof(out); room++) {
		memset(out, 'x', sizeof(out));
		assert_int_equal(gs_python_text(wide, 8, 4, out, room), room > 4 ? 4 : 0);
		assert_int_equal(strlen(out), room > 4 ? 4 : 0);
	}
	assert_int_equal(gs_python_text(wide, 8, 4, out, 0), 0);
	/* Half a character, and widths that are none. */
	assert_int_equal(gs_python_text(wide, 3, 4, out, sizeof(out)), 0);
	assert_int_equal(gs_python_text(wide, 8, 0, out, sizeof(out)), 0);
	assert_int_equal(gs_python_text(wide, 8, 3, out, sizeof(out)), 0);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_width),
		cmocka_unit_test(what_is_no_character),
		cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
