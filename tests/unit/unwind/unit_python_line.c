/* Lines by the tables of every version, and by damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "line_tables.h"
#include "sources/unwind/python.h"

static void lines_as_the_interpreter_tells_them(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(line_tables); i++) {
		const struct line_run *run = line_tables[i].runs;

		for (int64_t at = 0; at < line_tables[i].code_bytes; at += 2) {
			while (run[1].line >= 0 && run[1].at <= at)
				run++;
			assert_int_equal(gs_python_line(line_tables[i].version,
							line_tables[i].table,
							line_tables[i].table_bytes,
							line_tables[i].first, at),
					 run->line);
		}
	}
}

static void before_the_first_instruction(void **state)
{
	for (uint16_t version = 0x0308; version <= 0x030e; version++) {
		assert_int_equal(gs_python_line(version, NULL, 0, 17, -1), 17);
		assert_int_equal(gs_python_line(version, NULL, 0, 17, -2), 17);
		assert_int_equal(gs_python_line(version, NULL, 0, -5, -1), 0);
	}
}

static void behind_the_table(void **state)
{
	const uint8_t range[] = {4, 1}, entry[] = {0x80 | 11 << 3 | 1, 0, 0};

	/* The last place of lnotab counts for all that follow. */
	assert_int_equal(gs_python_line(0x0309, range, 2, 5, 1000), 6);
	assert_int_equal(gs_python_line(0x030a, range, 2, 5, 2), 6);
	assert_int_equal(gs_python_line(0x030a, range, 2, 5, 4), 0);
	assert_int_equal(gs_python_line(0x030b, entry, 3, 5, 3), 6);
	assert_int_equal(gs_python_line(0x030b, entry, 3, 5, 4), 0);
}

static void far_and_backward_lines(void **state)
{
	/* 3.11: a long entry of +70,000 lines, then one of -69,990. */
	const uint8_t far[] = {0x80 | 14 << 3,
			       0x40 | 32,
			       0x40 | (140000 >> 6 & 63),
			       0x40 | (140000 >> 12 & 63),
			       0,
			       0,
			       0,
			       0,
			       0x80 | 13 << 3,
			       0x40 | (139981 & 63),
			       0x40 | (139981 >> 6 & 63),
			       0x40 | (139981 >> 12 & 63),
			       0};
	/* 3.10: a range without a line between two. */
	const uint8_t none[] = {2, 1, 2, 0x80, 2, 0xff};

	assert_int_equal(gs_python_line(0x030c, far, sizeof(far), 1, 0), 70001);
	assert_int_equal(gs_python_line(0x030c, far, sizeof(far), 1, 2), 11);
	assert_int_equal(gs_python_line(0x030a, none, sizeof(none), 10, 0), 11);
	assert_int_equal(gs_python_line(0x030a, none, sizeof(none), 10, 2), 0);
	assert_int_equal(gs_python_line(0x030a, none, sizeof(none), 10, 4), 10);
}

static void cut_tables(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(line_tables); i++) {
		for (size_t n = 0; n < line_tables[i].table_bytes; n++) {
			/* Of the exact size: a read past the end is seen. */
			uint8_t *copy = malloc(n ? n : 1);

			assert_non_null(copy);
			memcpy(copy, line_tables[i].table, n);
			for (int64_t at = 0; at < line_tables[i].code_bytes; at += 2) {
				uint32_t line = gs_python_line(line_tables[i].version, copy, n,
							       line_tables[i].first, at);

				assert_true(line < 1000);
			}
			free(copy);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_as_the_interpreter_tells_them),
		cmocka_unit_test(before_the_first_instruction),
		cmocka_unit_test(behind_the_table),
		cmocka_unit_test(far_and_backward_lines),
		cmocka_unit_test(cut_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
