/* What is remembered of GPUs: its order, its precision, its bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "core/base/mem.h"
#include "server/registry/registry.h"

#define SECOND 1000000000ll

static struct gs_node_snapshot *moment(uint32_t n_gpus, int64_t wall_ns, double util)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));

	m->wall_ns = wall_ns;
	m->host = calloc(1, sizeof(*m->host));
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->n_gpus = n_gpus;
	m->gpu->info = calloc(n_gpus ? n_gpus : 1, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(n_gpus ? n_gpus : 1, sizeof(*m->gpu->sample));
	for (uint32_t i = 0; i < n_gpus; i++) {
		snprintf(m->gpu->info[i].uuid, sizeof(m->gpu->info[i].uuid), "GPU-%u", i);
		memset(m->gpu->sample[i].why, GS_GPU_REASON_NOT_READ, GS_GPU_FIELD_COUNT);
		if (util >= 0)
			gs_gpu_set(&m->gpu->sample[i], GS_GPU_UTIL, util);
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_POWER, 700.5);
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_CLOCK_SM, 1980e6);
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_MEM_USED, 60e9);
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_MEM_TOTAL, 80e9);
	}
	return m;
}

static void apply(struct gs_registry *c, int64_t id, struct gs_node_snapshot *m)
{
	gs_registry_apply(c, id, &m);
}

static void the_last_points_are_kept_in_order(void **state)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_node node = {.id = 1};
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];

	assert_int_equal(gs_registry_put(c, &node), 0);
	assert_int_equal(gs_registry_history(c, 1, 0, GS_REGISTRY_UTIL, wall, v), 0);
	/* Half seconds: every other one stays. */
	for (int i = 0; i < 1000; i++)
		apply(c, 1, moment(2, i * SECOND / 2, i % 2000 / 1000.0));
	assert_int_equal(gs_registry_history(c, 1, 1, GS_REGISTRY_UTIL, wall, v),
			 GS_REGISTRY_POINTS);
	for (int i = 0; i < GS_REGISTRY_POINTS; i++) {
		assert_int_equal(wall[i], (200 + i) * SECOND);
		assert_true(fabs(v[i] - (200 + i) * 2 / 1000.0) < 1e-4);
	}
	assert_int_equal(gs_registry_history(c, 1, 0, GS_REGISTRY_POWER, wall, v),
			 GS_REGISTRY_POINTS);
	assert_true(fabs(v[0] - 700.5) < 0.06);
	(void)gs_registry_history(c, 1, 0, GS_REGISTRY_CLOCK, wall, v);
	assert_true(v[0] == 1980e6);
	(void)gs_registry_history(c, 1, 0, GS_REGISTRY_MEMORY, wall, v);
	assert_true(fabs(v[0] - 0.75) < 1e-4);
	(void)gs_registry_history(c, 1, 0, GS_REGISTRY_DRAM, wall, v);
	assert_true(isnan(v[0])); /* unknown is not 0 */
	assert_int_equal(gs_registry_history(c, 1, 2, GS_REGISTRY_UTIL, wall, v), 0);
	/* Other GPUs: nothing of the old ones is shown as theirs. */
	apply(c, 1, moment(3, 600 * SECOND, 0.5));
	assert_int_equal(gs_registry_history(c, 1, 2, GS_REGISTRY_UTIL, wall, v), 1);
	gs_registry_free(&c);
}

/* What was read later is newer, whatever its clock was set to. */
static void a_clock_is_set_back(void **state)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_node node = {.id = 1};
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];
	struct gs_registry_view *view;
	struct gs_node_snapshot *m;

	assert_int_equal(gs_registry_put(c, &node), 0);
	for (int i = 0; i < 10; i++) {
		m = moment(1, (i < 5 ? 9000 + i : 1000 + i) * SECOND, i / 10.0);
		m->time_ns = (uint64_t)((100 + i) * SECOND);
		apply(c, 1, m);
	}
	/* One that was delivered twice. */
	m = moment(1, 1003 * SECOND, 0.99);
	m->time_ns = 103 * SECOND;
	apply(c, 1, m);
	view = gs_registry_view(c);
	assert_int_equal(gs_registry_view_find(view, 1)->latest->wall_ns, 1009 * SECOND);
	assert_int_equal(gs_registry_view_find(view, 1)->last_wall_ns, 1009 * SECOND);
	gs_registry_view_unref(&view);
	assert_int_equal(gs_registry_history(c, 1, 0, GS_REGISTRY_UTIL, wall, v), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(wall[i], (1005 + i) * SECOND);
	gs_registry_free(&c);
}

static void its_size_is_bounded(void **state)
{
	struct gs_registry *c = gs_registry_new();
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];

	for (int64_t id = 1; id <= 3; id++) {
		struct gs_registry_node node = {.id = id};

		assert_int_equal(gs_registry_put(c, &node), 0);
		apply(c, id, moment(GS_REGISTRY_GPUS_MAX / 2, SECOND, 1));
	}
	assert_int_equal(gs_registry_history(c, 2, 0, GS_REGISTRY_UTIL, wall, v), 1);
	assert_int_equal(gs_registry_history(c, 3, 0, GS_REGISTRY_UTIL, wall, v), 0);
	/* What one node gives back, another may have. */
	apply(c, 1, moment(1, 2 * SECOND, 1));
	apply(c, 3, moment(GS_REGISTRY_GPUS_MAX / 2 - 1, 2 * SECOND, 1));
	assert_int_equal(gs_registry_history(c, 3, 0, GS_REGISTRY_UTIL, wall, v), 1);
	gs_registry_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_points_are_kept_in_order),
		cmocka_unit_test(its_size_is_bounded),
		cmocka_unit_test(a_clock_is_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
