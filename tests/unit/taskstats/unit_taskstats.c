/* The texts of /proc, the table of system calls, and the options of the work probes. */
#include "sources/taskstats/taskstats_int.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void majors(void **state)
{
	static const char text[] = "Character devices:\n  1 mem\n  5 /dev/tty\n195 nvidia\n"
				   "195 nvidiactl\n236 nvidia-uvm\n237 kfd\n1234 nvidia-caps\n\n"
				   "Block devices:\n259 nvidia-not\n";
	uint32_t found[8];

	assert_int_equal(taskstats_gpu_majors(text, found, 8), 5);
	assert_int_equal(found[0], 195);
	assert_int_equal(found[2], 236);
	assert_int_equal(found[3], 237);
	assert_int_equal(found[4], 1234);
	assert_int_equal(taskstats_gpu_majors(text, found, 2), 2);
	assert_int_equal(taskstats_gpu_majors("", found, 8), 0);
	assert_int_equal(taskstats_gpu_majors("195", found, 8), 0);
	assert_int_equal(taskstats_gpu_majors("x nvidia\n 195 nvidia", found, 8), 1);
}

static void mounts(void **state)
{
	struct taskstats_mount m;
	bool whole;
	char line[1024];

	assert_true(taskstats_mount_line(
		"36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw\n", &m, &whole));
	assert_int_equal(m.major, 98);
	assert_int_equal(m.minor, 0);
	assert_string_equal(m.path, "/mnt/a b");
	assert_string_equal(m.type, "ext3");
	assert_true(whole);
	assert_true(taskstats_mount_line("36 35 0:44 /sub /x rw - tmpfs t rw", &m, &whole));
	assert_false(whole);
	assert_string_equal(m.type, "tmpfs");
	/* No dash, no type, no device, nothing. */
	assert_false(taskstats_mount_line("36 35 98:0 / /mnt rw master:1 ext3", &m, &whole));
	assert_false(taskstats_mount_line("36 35 98:0 / /mnt rw -", &m, &whole));
	assert_false(taskstats_mount_line("36 35 98 / /mnt rw - ext3 d rw", &m, &whole));
	assert_false(taskstats_mount_line("", &m, &whole));
	assert_false(taskstats_mount_line("\n", &m, &whole));
	/* Too long is cut; half an escape stays as it is. */
	memset(line, 'p', sizeof(line));
	memcpy(line, "1 2 3:4 / /", 11);
	memcpy(line + 900, " rw - ext4 d", 13);
	assert_true(taskstats_mount_line(line, &m, &whole));
	assert_int_equal(strlen(m.path), sizeof(m.path) - 1);
	assert_true(taskstats_mount_line("1 2 3:4 / /a\\04 rw - x y", &m, &whole));
	assert_string_equal(m.path, "/a\\04");
}

static void calls(void **state)
{
	static struct gs_taskstats_call_desc table[2][GS_TASKSTATS_TABLE_CALLS];
	unsigned described = 0;

	taskstats_calls_fill(table);
	/* asm/unistd_64.h and unistd_32.h */
	assert_int_equal(table[0][0].op, GS_OP_READ);
	assert_int_equal(table[0][1].op, GS_OP_WRITE);
	assert_int_equal(table[0][202].wait, GS_WAIT_LOCK);
	assert_int_equal(table[0][16].wait, GS_WAIT_FD0);
	assert_int_equal(table[0][39].wait, GS_WAIT_OTHER);
	assert_int_equal(table[1][3].op, GS_OP_READ);
	assert_int_equal(table[1][240].wait, GS_WAIT_LOCK);
	assert_int_equal(table[1][422].wait, GS_WAIT_LOCK);
	for (unsigned i = 0; i < GS_TASKSTATS_TABLE_CALLS; i++)
		described += table[0][i].wait != GS_WAIT_OTHER;
	/* A name that no header has would be described in neither table. */
	assert_in_range(described, 70, 120);
}

static void families(void **state)
{
	struct gs_err err;
	uint32_t f;

	assert_int_equal(gs_taskstats_families_parse("all", &f, &err), 0);
	assert_int_equal(f, GS_TASKSTATS_ALL);
	assert_int_equal(gs_taskstats_families_parse("io,net", &f, &err), 0);
	assert_int_equal(f, GS_TASKSTATS_IO | GS_TASKSTATS_NET);
	assert_int_equal(gs_taskstats_families_parse("sched,", &f, &err), -EINVAL);
	assert_int_equal(gs_taskstats_families_parse("", &f, &err), -EINVAL);
	assert_int_equal(gs_taskstats_families_parse("sysc", &f, &err), -EINVAL);
	assert_non_null(strstr(err.text, "\"sysc\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(majors),
		cmocka_unit_test(mounts),
		cmocka_unit_test(calls),
		cmocka_unit_test(families),
	};

	return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
