/* GPUs of jobs: whose they are, means over time, energy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/job_accounting/gpu_use.h"

#define S     1000000000ull
#define T0    (5000 * S)
#define NEVER UINT64_MAX

static struct gs_gpu_sample sample[2];
static struct gs_gpu_process process[2];
static struct gs_gpu_snapshot gpus;

static int clear_gpus(void **state)
{
	memset(sample, 0, sizeof(sample));
	for (int i = 0; i < 2; i++)
		memset(sample[i].why, GS_GPU_REASON_NOT_READ, sizeof(sample[i].why));
	memset(process, 0, sizeof(process));
	gpus = (struct gs_gpu_snapshot){.n_gpus = 2, .sample = sample, .process = process};
	return 0;
}

static void read_one(struct gs_accounting_gpu_use *j, uint64_t allotted, uint64_t at_ns)
{
	struct gs_map none = GS_MAP_INIT(1);

	gs_accounting_gpu_use_read(&j, &allotted, 1, &none, &gpus, at_ns, NEVER);
}

static void near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-6 * fabs(wanted) + 1e-9))
		fail_msg("%.12g is not %.12g", got, wanted);
}

/* A reading that comes late stands for all of the time since the one before. */
static void means_are_over_time(void **state)
{
	struct gs_accounting_gpu_use j = {0};
	struct gs_job_usage u;

	gs_gpu_set(&sample[0], GS_GPU_UTIL, 0.9);
	read_one(&j, 1, T0);
	gs_accounting_gpu_use_usage(&j, &u);
	near(u.gpu_ratio, 0.9); /* the only one there is */
	gs_gpu_set(&sample[0], GS_GPU_UTIL, 0.2);
	gs_gpu_set(&sample[0], GS_GPU_SM_ACTIVE, 0.5);
	read_one(&j, 1, T0 + 9 * S);
	sample[0].why[GS_GPU_SM_ACTIVE] = GS_GPU_REASON_NOT_READ;
	gs_gpu_set(&sample[0], GS_GPU_UTIL, 0.7);
	read_one(&j, 1, T0 + 10 * S);
	gs_accounting_gpu_use_usage(&j, &u);
	near(u.gpu_ratio, (9 * 0.2 + 0.7) / 10);
	near(u.sm_ratio, 0.5); /* not known in the last second */
	assert_true(isnan(u.dram_ratio));
	assert_true(isnan(u.energy_joules));
	assert_int_equal(j.sums.held_ns, 10 * S);
	assert_true(u.known >> GS_JOB_KNOWS_GPU & 1);
}

/* Time and energy in which another had the GPU are not the job's. */
static void held_in_between(void **state)
{
	struct gs_accounting_gpu_use j = {0};
	struct gs_job_usage u;

	gs_gpu_set(&sample[1], GS_GPU_UTIL, 1);
	for (int i = 0; i < 30; i++) {
		gs_gpu_set(&sample[1], GS_GPU_ENERGY, 1000 + 100 * i);
		if (i == 10)
			gs_gpu_set(&sample[1], GS_GPU_UTIL, 0);
		read_one(&j, i < 10 || i >= 20 ? 2 : 0, T0 + (uint64_t)i * S);
	}
	gs_accounting_gpu_use_usage(&j, &u);
	assert_int_equal(j.sums.held_ns, 18 * S);
	assert_int_equal(j.sums.idle_ns, 9 * S);
	near(u.gpu_ratio, 0.5);
	near(u.energy_joules, 1800);
	near(u.n_gpus, 1);
	assert_int_equal(u.gpu_mask, 2);
	assert_int_equal(u.gpu_idle_mask, 0);
}

/* The driver was loaded again, twice, and its counter passes what it had before. */
static void counter_restarts(void **state)
{
	struct gs_accounting_gpu_use j = {0};
	struct gs_job_usage u;
	uint64_t at = T0;

	for (int i = 0; i < 10; i++, at += S) {
		gs_gpu_set(&sample[0], GS_GPU_ENERGY, 500 + 50 * i);
		read_one(&j, 1, at);
	}
	for (int i = 0; i < 40; i++, at += S) {
		gs_gpu_set(&sample[0], GS_GPU_ENERGY, 50 * i);
		read_one(&j, 1, at);
	}
	for (int i = 0; i < 5; i++, at += S) {
		gs_gpu_set(&sample[0], GS_GPU_ENERGY, 7 + 50 * i);
		read_one(&j, 1, at);
	}
	gs_accounting_gpu_use_usage(&j, &u);
	near(u.energy_joules, 50 * (9 + 39 + 4));
}

/* Without a counter energy is power over time. */
static void power_without_counter(void **state)
{
	struct gs_accounting_gpu_use j = {0};
	struct gs_job_usage u;

	gs_gpu_set(&sample[0], GS_GPU_POWER, 300);
	for (int i = 0; i <= 10; i++)
		read_one(&j, 1, T0 + (uint64_t)i * S);
	gs_accounting_gpu_use_usage(&j, &u);
	near(u.energy_joules, 3000);
}

/* By their processes: the GPU of two jobs counts to both, one that ended to none. */
static void by_processes(void **state)
{
	struct gs_accounting_gpu_use a = {0}, b = {0}, *jobs[] = {&a, NULL, &b};
	const uint64_t allotted[3] = {0};
	struct gs_map job_of = GS_MAP_INIT(8);

	assert_int_equal(gs_map_put(&job_of, 11, 0), 0);
	assert_int_equal(gs_map_put(&job_of, 12, 1), 0);
	assert_int_equal(gs_map_put(&job_of, 13, 2), 0);
	process[0] = (struct gs_gpu_process){.gpu = 1, .pid = 11, .used_bytes = 70};
	process[1] = (struct gs_gpu_process){.gpu = 1, .pid = 13, .used_bytes = -1};
	gpus.n_processes = 2;
	gs_accounting_gpu_use_read(jobs, allotted, 3, &job_of, &gpus, T0, NEVER);
	assert_int_equal(a.mask, 2);
	assert_int_equal(b.mask, 2);
	assert_int_equal(a.memory_bytes, 70);
	assert_int_equal(b.memory_bytes, -1);
	process[0].ended = 1;
	gs_accounting_gpu_use_read(jobs, allotted, 3, &job_of, &gpus, T0 + S, NEVER);
	assert_int_equal(a.mask, 0);
	assert_int_equal(a.seen, 2);
	assert_int_equal(a.sums.held_ns, 0);
	assert_int_equal(b.sums.held_ns, S);
	gs_map_fini(&job_of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(means_are_over_time, clear_gpus),
		cmocka_unit_test_setup(held_in_between, clear_gpus),
		cmocka_unit_test_setup(counter_restarts, clear_gpus),
		cmocka_unit_test_setup(power_without_counter, clear_gpus),
		cmocka_unit_test_setup(by_processes, clear_gpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
