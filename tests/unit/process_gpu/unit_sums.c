/* Sums of processes on GPUs, with answers that can be worked out by hand. A unit of time is a second. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "pipeline/process_gpu/process_gpu.h"

#define S     1000000000ull
#define A     0x10
#define B     0x20
#define CORES 16896u /* of an H100: 132 SMs */

#define GPU GS_CLEANUP(gs_process_gpu_free) struct gs_process_gpu *

static struct gs_process_gpu *gpu_new(void)
{
	static const struct gs_process_gpu_device devices[] = {{"GPU-a", 9, 0, 132, CORES},
							       {"GPU-b", 9, 0, 132, CORES},
							       {"MIG-1", 9, 0, 16, 2048},
							       {"MIG-2", 9, 0, 60, 7680}};
	struct gs_process_gpu *p;

	assert_int_equal(gs_process_gpu_new(NULL, 0, &p), 0);
	assert_int_equal(gs_process_gpu_set_devices(p, devices, GS_ARRAY_LEN(devices)), 0);
	return p;
}

/* Each process has a thread, of its own number. */
static void take(struct gs_process_gpu *p, struct gs_activity_call call, double start, double end)
{
	call.process = call.process ? call.process : 1;
	call.thread = call.process;
	call.start_ns = (uint64_t)(start * 1e9);
	call.end_ns = (uint64_t)(end * 1e9);
	gs_process_gpu_take(p, &call);
}

static void tick(struct gs_process_gpu *p, double at)
{
	gs_process_gpu_tick(p, (uint64_t)(at * 1e9));
}

#define CALL(kind_, ...)                                                                           \
	((struct gs_activity_call){.function.kind = GS_ACTIVITY_##kind_, __VA_ARGS__})
#define WORK(work_, ...) CALL(WORK, .function.work = GS_ACTIVITY_##work_, __VA_ARGS__)
#define KERNEL(...)      WORK(KERNELS, __VA_ARGS__)
#define SYNC(...)        CALL(WAIT_STREAM, __VA_ARGS__)

static struct gs_process_gpu_row row_of(const struct gs_process_gpu *p, uint32_t process,
					uint32_t context)
{
	struct gs_process_gpu_row row;

	for (size_t i = 0; i < gs_process_gpu_count(p); i++) {
		gs_process_gpu_read(p, i, &row);
		if (row.process == process && row.context == context)
			return row;
	}
	fail_msg("no row of process %u", process);
	return row;
}

static void assert_near(double value, double wanted)
{
	if (fabs(value - wanted) > 1e-6 * (1 + fabs(wanted)))
		fail_msg("%g is not %g", value, wanted);
}

static void test_union(void **state)
{
	GPU p = gpu_new();
	struct gs_process_gpu_row r;

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	take(p, KERNEL(.stream = A, .threads = 1000), 1, 1);
	take(p, KERNEL(.stream = B, .threads = 500), 2, 2);
	take(p, SYNC(.stream = A), 2.5, 3); /* A: 1 to 3 */
	take(p, SYNC(.stream = B), 3.5, 5); /* B: 2 to 5 */
	tick(p, 10);
	r = row_of(p, 1, 0);
	assert_int_equal(r.active_max_ns, 4 * S);
	assert_int_equal(r.active_min_ns, 2 * S); /* the waits: for sure */
	assert_int_equal(r.wait_ns, 2 * S);
	assert_int_equal(r.n_waits, 2);
	assert_int_equal(r.n[GS_ACTIVITY_KERNELS], 2);
	assert_int_equal(r.threads, 1500);
	/* Streams that overlap add up. */
	assert_near(r.core_s, 2 * 1000 + 3 * 500);
	assert_near(r.core_share_s, r.core_s);
}

static void test_cores_are_bounded(void **state)
{
	GPU p = gpu_new();

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	/* The mean of 2^20 and 2 threads: more than there are cores. */
	take(p, KERNEL(.stream = A, .threads = 1 << 20), 1, 1);
	take(p, KERNEL(.stream = A, .threads = 2), 2, 2);
	take(p, SYNC(.stream = A), 2, 3);
	/* Copies use none. */
	take(p, WORK(COPIES, .stream = A, .bytes = 7), 4, 4);
	take(p, SYNC(.stream = A), 4, 5);
	tick(p, 10);
	assert_near(row_of(p, 1, 0).core_s, 2.0 * CORES);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 3 * S);
}

/* What is not known to be done counts until each tick, and once. */
static void test_pending(void **state)
{
	GPU p = gpu_new();

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	take(p, KERNEL(.stream = A, .threads = 100), 1, 1);
	tick(p, 2);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, S);
	assert_near(row_of(p, 1, 0).core_s, 100);
	assert_int_equal(row_of(p, 1, 0).n_pending, 1);
	tick(p, 3);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 2 * S);
	take(p, SYNC(.stream = A), 3, 3.5);
	tick(p, 6);
	tick(p, 7);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 5 * S / 2);
	assert_near(row_of(p, 1, 0).core_s, 250);
	assert_int_equal(row_of(p, 1, 0).n_pending, 0);
	/* It ends before the tick that counted it: no sum gets smaller. */
	take(p, KERNEL(.stream = A, .threads = 100), 8, 8);
	tick(p, 10);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 9 * S / 2);
	gs_process_gpu_end(p, 1, 9 * S);
	tick(p, 11);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 9 * S / 2);
}

/* Two readers, one at each tick and one now and then: the differences have the same sum. */
static void test_readers(void **state)
{
	GPU p = gpu_new();
	double often = 0, seldom = 0, last_often = 0, last_seldom = 0;

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	for (int i = 0; i < 30; i++) {
		take(p, KERNEL(.stream = A, .threads = 64), i + 0.1, i + 0.2);
		if (i % 3)
			take(p, SYNC(.stream = A), i + 0.3, i + 0.7);
		tick(p, i + 1);
		often += row_of(p, 1, 0).core_s - last_often;
		last_often = row_of(p, 1, 0).core_s;
		if (i % 7 && i != 29)
			continue;
		seldom += row_of(p, 1, 0).core_s - last_seldom;
		last_seldom = row_of(p, 1, 0).core_s;
	}
	assert_near(often, seldom);
	/* Each third span goes on until the next one's wait: 0.1 to 1.7; the other 0.1 to 0.7. */
	assert_near(often, 64 * 10 * (1.6 + 0.6));
}

static void test_shared_gpu(void **state)
{
	GPU p = gpu_new();
	struct gs_process_gpu_total total;

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	gs_process_gpu_begin(p, 2, "GPU-b,GPU-a", false);
	/* Process 2 takes its second GPU, which is the first of process 1. */
	take(p, CALL(SET_DEVICE, .process = 2, .flags = 1), 0, 0);
	take(p, KERNEL(.process = 1, .stream = A, .threads = 1 << 20), 0, 0);
	take(p, KERNEL(.process = 2, .stream = A, .threads = 1 << 20), 2, 2);
	take(p, SYNC(.process = 1, .stream = A), 3, 4);
	take(p, SYNC(.process = 2, .stream = A), 3, 5);
	tick(p, 4);
	assert_true(gs_process_gpu_read_total(p, 0, &total));
	/* 4 s of process 1 and 2 of process 2 (the rest is after the tick) of 4 s of cores: those
	 * of what came in, which is until 5. */
	assert_int_equal(total.active_max_ns, 4 * S);
	assert_near(total.core_factor, (4 + 3) / 4.0);
	assert_near(row_of(p, 1, 0).core_s, 4.0 * CORES);
	assert_near(row_of(p, 1, 0).core_share_s, 4.0 * CORES * 4 / 7);
	assert_near(row_of(p, 2, 1).core_share_s, 3.0 * CORES * 4 / 7);
	tick(p, 8);
	assert_true(gs_process_gpu_read_total(p, 0, &total));
	assert_int_equal(total.active_max_ns, 5 * S);
	assert_near(total.core_factor, 1);
	assert_false(gs_process_gpu_read_total(p, 1, &total));
}

static void test_instances(void **state)
{
	GPU p = gpu_new();
	struct gs_process_gpu_total total;

	/* Each process sees the instance that it was given, as number 0. */
	gs_process_gpu_begin(p, 1, "MIG-1", false);
	gs_process_gpu_begin(p, 2, "MIG-2", true);
	for (uint32_t i = 1; i <= 2; i++) {
		take(p, KERNEL(.process = i, .stream = A, .threads = 1 << 20), 1, 1);
		take(p, SYNC(.process = i, .stream = A), 1, 2);
	}
	tick(p, 2);
	assert_near(row_of(p, 1, 0).core_s, 2048);
	assert_near(row_of(p, 2, 0).core_s, 7680);
	assert_int_equal(row_of(p, 2, 0).device, 3);
	assert_true(gs_process_gpu_read_total(p, 3, &total));
	assert_near(total.core_factor, 1);
	assert_false(gs_process_gpu_read_total(p, 0, &total));
}

static void test_places(void **state)
{
	GPU p = gpu_new();
	struct gs_process_gpu_launch quarter = {
		.registers = 128, .block_threads = 256, .blocks = 100000};
	struct gs_process_gpu_launch full = {
		.registers = 32, .block_threads = 256, .blocks = 100000};

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	take(p, KERNEL(.stream = A), 1, 1);
	gs_process_gpu_take_needs(p, 1, 0, &quarter);
	tick(p, 3);
	assert_near(row_of(p, 1, 0).place_s, 0.5);
	/* Without launches that are known: as before. */
	tick(p, 5);
	assert_near(row_of(p, 1, 0).place_s, 1);
	gs_process_gpu_take_needs(p, 1, 0, &quarter);
	gs_process_gpu_take_needs(p, 1, 0, &full);
	take(p, SYNC(.stream = A), 5, 9);
	tick(p, 9);
	assert_near(row_of(p, 1, 0).place_s, 1 + 4 * 0.625);
	assert_int_equal(row_of(p, 1, 0).n_needs_known, 3);
}

static void test_copies(void **state)
{
	GPU p = gpu_new();
	struct gs_process_gpu_row r;

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	for (unsigned kind = GS_COPY_H2H; kind <= GS_COPY_P2P; kind++)
		take(p,
		     CALL(WORK, .function.work = (uint8_t)(GS_ACTIVITY_COPIES + kind), .stream = A,
			  .bytes = 100 << kind, .n_run = 3),
		     1, 2);
	tick(p, 3);
	r = row_of(p, 1, 0);
	for (unsigned kind = GS_COPY_H2H; kind <= GS_COPY_P2P; kind++) {
		assert_int_equal(r.n[GS_ACTIVITY_COPIES + kind], 3);
		assert_int_equal(r.bytes[GS_ACTIVITY_COPIES + kind], 100 << kind);
	}
}

static void test_unknown_device(void **state)
{
	static const struct gs_process_gpu_device one = {"GPU-x", 9, 0, 132, CORES};
	GPU p = gpu_new();

	/* It came before it was traced and may have chosen any. */
	gs_process_gpu_begin(p, 1, "GPU-a,GPU-b", true);
	take(p, KERNEL(.stream = 0, .threads = 5), 1, 1);
	/* A GPU that is only known later. */
	gs_process_gpu_begin(p, 2, "GPU-x", false);
	take(p, KERNEL(.process = 2, .stream = 0, .threads = 5), 1, 1);
	tick(p, 2);
	assert_int_equal(row_of(p, 1, GS_ACTIVITY_DEVICE_UNKNOWN).device, -1);
	assert_int_equal(row_of(p, 1, GS_ACTIVITY_DEVICE_UNKNOWN).active_max_ns, S);
	assert_near(row_of(p, 1, GS_ACTIVITY_DEVICE_UNKNOWN).core_s, 0);
	assert_int_equal(row_of(p, 2, 0).device, -1);
	assert_int_equal(gs_process_gpu_set_devices(p, &one, 1), 0);
	tick(p, 3);
	assert_int_equal(row_of(p, 2, 0).device, 4);
	assert_near(row_of(p, 2, 0).core_s, 5);
	/* Others know which one it uses. */
	gs_process_gpu_guess(p, 1, "GPU-b");
	tick(p, 4);
	assert_int_equal(row_of(p, 1, GS_ACTIVITY_DEVICE_UNKNOWN).device, 1);
	assert_near(row_of(p, 1, GS_ACTIVITY_DEVICE_UNKNOWN).core_s, 5);
}

static void test_next_program(void **state)
{
	GPU p = gpu_new();

	gs_process_gpu_begin(p, 1, "GPU-a", false);
	take(p, KERNEL(.stream = A), 1, 1);
	gs_process_gpu_end(p, 1, 2 * S);
	/* It runs another program, whose sums go on in the same row. */
	take(p, KERNEL(.stream = A), 3, 3);
	take(p, SYNC(.stream = A), 3, 4);
	tick(p, 5);
	assert_int_equal(gs_process_gpu_count(p), 1);
	assert_int_equal(row_of(p, 1, 0).n[GS_ACTIVITY_KERNELS], 2);
	assert_int_equal(row_of(p, 1, 0).active_max_ns, 2 * S);
}

static void test_rows_beyond(void **state)
{
	const struct gs_process_gpu_config config = {.max_rows = 1};
	GPU p;

	assert_int_equal(gs_process_gpu_new(&config, 0, &p), 0);
	for (uint32_t i = 1; i <= 3; i++)
		take(p, KERNEL(.process = i, .stream = A), 1, 1);
	tick(p, 2);
	assert_int_equal(gs_process_gpu_count(p), 1);
	assert_true(gs_process_gpu_left_out(p) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_union),          cmocka_unit_test(test_cores_are_bounded),
		cmocka_unit_test(test_pending),        cmocka_unit_test(test_readers),
		cmocka_unit_test(test_shared_gpu),     cmocka_unit_test(test_instances),
		cmocka_unit_test(test_places),         cmocka_unit_test(test_copies),
		cmocka_unit_test(test_unknown_device), cmocka_unit_test(test_next_program),
		cmocka_unit_test(test_rows_beyond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
