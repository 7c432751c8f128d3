/* How full a GPU's memory is: one figure for charts, heat maps and files, whatever was measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "output/plot/plot_int.h"
#include "server/registry/registry.h"

#define START 1790000000000000000ll

struct measured {
	double used, total, ratio, wanted; /* NAN: not there */
};

static const struct measured cases[] = {
	{20e9, 80e9, NAN, 0.25}, {20e9, 80e9, 0.5, 0.25}, /* bytes are exact */
	{NAN, NAN, 0.5, 0.5},                             /* of gswarm-profiler's clients */
	{NAN, 80e9, 0.5, 0.5},   {20e9, NAN, 0.5, 0.5},   {20e9, 0, NAN, NAN},
	{0, 80e9, NAN, 0},       {NAN, NAN, NAN, NAN},
};

static struct gs_gpu_sample sample_of(const struct measured *m)
{
	struct gs_gpu_sample s;

	memset(&s, 0, sizeof(s));
	memset(s.why, GS_GPU_REASON_NOT_READ, sizeof(s.why));
	if (!isnan(m->used))
		gs_gpu_set(&s, GS_GPU_MEM_USED, m->used);
	if (!isnan(m->total))
		gs_gpu_set(&s, GS_GPU_MEM_TOTAL, m->total);
	if (!isnan(m->ratio))
		gs_gpu_set(&s, GS_GPU_MEM_USED_RATIO, m->ratio);
	return s;
}

static bool is_near(double a, double b)
{
	return (isnan(a) && isnan(b)) || fabs(a - b) < 1e-4;
}

/* What a head's charts and heat maps have of it. */
static double remembered(const struct gs_gpu_sample *s)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_node node = {.id = 1, .hostname = "a"};
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];

	assert_int_equal(gs_registry_put(c, &node), 0);
	m->wall_ns = START;
	m->host = calloc(1, sizeof(*m->host));
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->n_gpus = 1;
	m->gpu->info = calloc(1, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(1, sizeof(*m->gpu->sample));
	m->gpu->sample[0] = *s;
	gs_registry_apply(c, 1, &m);
	assert_int_equal(gs_registry_history(c, 1, 0, GS_REGISTRY_MEMORY, wall, v), 1);
	gs_registry_free(&c);
	return v[0];
}

static double plotted(struct gs_gpu_sample *s)
{
	struct gs_plot_options o = {.size = sizeof(o)};
	struct gs_plot *p = gs_plot_new(&o);
	struct gs_gpu_info info = {0};
	struct gs_gpu_snapshot gpu = {.info = &info, .sample = s, .n_gpus = 1};
	struct gs_node_snapshot node = {.name = "a", .wall_ns = START, .gpu = &gpu};
	double mean;

	assert_int_equal(gs_plot_add(p, &node, NULL), 0);
	mean = plot_mean(p->device[0], PLOT_MEMORY, 0);
	gs_plot_free(&p);
	return mean;
}

static void all_have_the_same(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gs_gpu_sample s = sample_of(&cases[i]);
		double wanted = cases[i].wanted;

		if (!is_near(gs_gpu_memory_ratio(&s), wanted) || !is_near(remembered(&s), wanted) ||
		    !is_near(plotted(&s), wanted))
			fail_msg("case %zu: %g, remembered %g, plotted %g, not %g", i,
				 gs_gpu_memory_ratio(&s), remembered(&s), plotted(&s), wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_have_the_same)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
