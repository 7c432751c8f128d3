/* Which GPU of a job is named as the one that holds it up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "server/live/live_int.h"

#define N_GPUS 8
#define SECOND 1000000000ll
#define SLOW   3

/* All GPUs work for one job; other: the one that differs. */
static struct gs_node_snapshot *moment(int second, double util, int other, double other_util)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));

	m->time_ns = (uint64_t)(second + 1) * SECOND;
	m->wall_ns = second * SECOND;
	m->host = calloc(1, sizeof(*m->host));
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->n_gpus = m->gpu->n_processes = N_GPUS;
	m->gpu->info = calloc(N_GPUS, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(N_GPUS, sizeof(*m->gpu->sample));
	m->gpu->process = calloc(N_GPUS, sizeof(*m->gpu->process));
	for (uint32_t i = 0; i < N_GPUS; i++) {
		struct gs_gpu_process *p = &m->gpu->process[i];

		snprintf(m->gpu->info[i].uuid, sizeof(m->gpu->info[i].uuid), "GPU-%u", i);
		memset(m->gpu->sample[i].why, GS_GPU_REASON_NOT_READ, GS_GPU_FIELD_COUNT);
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_UTIL, (int)i == other ? other_util : util);
		p->gpu = i;
		p->pid = 100 + i;
		strcpy(p->job, "77");
	}
	return m;
}

static struct live_job job_now(struct gs_registry *c)
{
	const struct gs_live live = {.o.cluster = c};
	struct gs_live_snapshot look = {.view = gs_registry_view(c), .n_nodes = 1};
	struct live_job *jobs, j;
	size_t n;

	jobs = live_jobs_now(&live, &look, &n);
	assert_non_null(jobs);
	assert_int_equal(n, 1);
	j = jobs[0];
	assert_int_equal(j.n_gpus, N_GPUS);
	free(jobs);
	gs_registry_view_unref(&look.view);
	return j;
}

static struct gs_registry *cluster(void)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_node node = {.id = 1};

	assert_non_null(c);
	assert_int_equal(gs_registry_put(c, &node), 0);
	return c;
}

static void apply(struct gs_registry *c, struct gs_node_snapshot *m)
{
	gs_registry_apply(c, 1, &m);
}

/* One GPU is at 30 % all the time; each second another one dips to 5 %. */
static void the_slow_one_is_named(void **state)
{
	struct gs_registry *c = cluster();

	for (int t = 0; t < 120; t++) {
		struct gs_node_snapshot *m = moment(t, 0.9, SLOW, 0.3);
		int dips = t % N_GPUS;
		struct live_job j;

		if (dips != SLOW)
			gs_gpu_set(&m->gpu->sample[dips], GS_GPU_UTIL, 0.05);
		apply(c, m);
		j = job_now(c);
		/* Before half a minute nothing is said. */
		assert_int_equal(j.has_straggler, t >= 29);
		if (!j.has_straggler)
			continue;
		assert_int_equal(j.gpu, SLOW);
		assert_true(j.straggler_mean > 0.29 && j.straggler_mean < 0.31);
		assert_true(j.median_mean > 0.7);
	}
	gs_registry_free(&c);
}

static void dips_are_no_stragglers(void **state)
{
	struct gs_registry *c = cluster();

	/* 4 s of each 47, each GPU in its turn. */
	for (int t = 0; t < 200; t++) {
		apply(c, moment(t, 0.9, t / 4 % 12, 0));
		assert_false(job_now(c).has_straggler);
	}
	gs_registry_free(&c);
}

static void an_idle_job_has_none(void **state)
{
	struct gs_registry *c = cluster();

	for (int t = 0; t < 100; t++)
		apply(c, moment(t, 0.02, SLOW, 0));
	assert_false(job_now(c).has_straggler);
	assert_false(job_now(c).is_idle); /* it does a little */
	for (int t = 100; t < 165; t++)
		apply(c, moment(t, 0, SLOW, 0));
	assert_true(job_now(c).is_idle);
	assert_false(job_now(c).has_straggler);
	gs_registry_free(&c);
}

/* It was slow, and works again: a minute later it is not named. */
static void it_is_over_after_a_minute(void **state)
{
	struct gs_registry *c = cluster();
	int t;

	for (t = 0; t < 60; t++)
		apply(c, moment(t, 0.9, SLOW, 0.1));
	assert_true(job_now(c).has_straggler);
	for (; t < 125; t++)
		apply(c, moment(t, 0.9, SLOW, 0.9));
	assert_false(job_now(c).has_straggler);
	gs_registry_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_slow_one_is_named),
		cmocka_unit_test(dips_are_no_stragglers),
		cmocka_unit_test(an_idle_job_has_none),
		cmocka_unit_test(it_is_over_after_a_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
