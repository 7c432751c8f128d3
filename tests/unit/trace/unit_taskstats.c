/* Names and sums of what the kernel did. */
#include "model/trace/taskstats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void name_of(uint32_t id, const char *wanted)
{
	char buf[64];

	assert_string_equal(gs_taskstats_call_name(id, buf, sizeof(buf)), wanted);
}

static void calls_have_names(void **state)
{
	char small[6];

	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, 0), "read");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, 257), "openat");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, 435), "clone3");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, 5000), "syscall_5000");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_32, 3), "read (32-bit)");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_32, 5000), "syscall_5000 (32-bit)");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_X32, 0), "read (x32)");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_URING, 0), "io_uring:NOP");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_URING, 22), "io_uring:READ");
	name_of(GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_URING, 250), "io_uring:syscall_250");
	name_of(0xffffffff, "syscall_4294967295");
	assert_string_equal(gs_taskstats_call_name(257, small, sizeof(small)), "opena");
	assert_null(gs_taskstats_call_word(GS_TASKSTATS_CALL(9, 1)));
}

static void times_and_kinds_have_names(void **state)
{
	for (unsigned i = 0; i < GS_TIME_COUNT; i++) {
		assert_non_null(gs_taskstats_time_name(i));
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(gs_taskstats_time_name(i),
						gs_taskstats_time_name(j));
	}
	assert_null(gs_taskstats_time_name(GS_TIME_COUNT));
	for (unsigned i = 0; i < GS_TASKSTATS_IO_KINDS; i++)
		assert_non_null(gs_taskstats_io_name(i));
	assert_null(gs_taskstats_io_name(GS_TASKSTATS_IO_KINDS));
}

static void quantiles_of_waits(void **state)
{
	struct gs_taskstats w = {0};

	assert_int_equal(gs_taskstats_queue_timed(&w), 0);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 0.5) !=
		    gs_taskstats_queue_quantile_ns(&w, 0.5));
	w.queue_waits = 103;
	w.queue_hist[10] = 90; /* 1024 to 2048 ns */
	w.queue_hist[20] = 10;
	assert_int_equal(gs_taskstats_queue_timed(&w), 100);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 0.45) == 1024 * 1.5);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 0.9) == 2048);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 0.95) == (1 << 20) * 1.5);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 1) == 2 << 20);
	w = (struct gs_taskstats){.queue_hist[0] = 2, .queue_hist[GS_TASKSTATS_LOG2 - 1] = 1};
	assert_true(gs_taskstats_queue_quantile_ns(&w, 1.0 / 3) == 1);
	assert_true(gs_taskstats_queue_quantile_ns(&w, 0.99) >
		    (double)(1ull << (GS_TASKSTATS_LOG2 - 1)));
}

static void sums(void **state)
{
	struct gs_taskstats a, b;
	struct gs_taskstats_syscall c = {.calls = 1, .max_ns = 9, .hist[3] = 1};
	struct gs_taskstats_syscall d = {
		.calls = 2, .errors = 1, .total_ns = 5, .max_ns = 4, .hist[3] = 2};
	struct gs_taskstats_peer p = {.rtt_max_ns = 3}, q = {.rtt_max_ns = 8, .rtt_count = 1};
	struct gs_taskstats_disk e = {.reads = 1}, f = {.reads = 2, .write_bytes = 7, .hist[1] = 2};

	/* Every field takes part: all bytes of a are 1, so each counter is the same number. */
	memset(&a, 1, sizeof(a));
	memset(&b, 1, sizeof(b));
	gs_taskstats_add(&a, &b);
	for (size_t i = 0; i < sizeof(a) / 8; i++)
		assert_int_equal(((uint64_t *)&a)[i], 0x0202020202020202);
	gs_taskstats_syscall_add(&c, &d);
	assert_int_equal(c.calls, 3);
	assert_int_equal(c.errors, 1);
	assert_int_equal(c.total_ns, 5);
	assert_int_equal(c.max_ns, 9);
	assert_int_equal(c.hist[3], 3);
	gs_taskstats_peer_add(&p, &q);
	assert_int_equal(p.rtt_max_ns, 8);
	assert_int_equal(p.rtt_count, 1);
	gs_taskstats_disk_add(&e, &f);
	assert_int_equal(e.reads, 3);
	assert_int_equal(e.write_bytes, 7);
	assert_int_equal(e.hist[1], 2);
}

static void wall_and_cache(void **state)
{
	struct gs_taskstats w = {.time_ns = {1, 2, 3, 4, 5, 6, 7, 8, 9}};

	assert_int_equal(gs_taskstats_wall_ns(&w), 45);
	w.io[GS_IO_FILE].read_bytes = 1000;
	w.io[GS_IO_TMPFS].read_bytes = 500;
	w.disk_read_bytes = 300;
	assert_int_equal(gs_taskstats_cached_bytes(&w), 700);
	w.disk_read_bytes = 4096;
	assert_int_equal(gs_taskstats_cached_bytes(&w), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_have_names),   cmocka_unit_test(times_and_kinds_have_names),
		cmocka_unit_test(quantiles_of_waits), cmocka_unit_test(sums),
		cmocka_unit_test(wall_and_cache),
	};

	return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
