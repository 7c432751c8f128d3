/* Views: they stay as they are whatever comes, for as many threads as like. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "server/registry/registry.h"

#define SECOND 1000000000ll

static struct gs_node_snapshot *moment(uint32_t n_gpus, int64_t wall_ns)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));

	m->wall_ns = wall_ns;
	m->host = calloc(1, sizeof(*m->host));
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->n_gpus = n_gpus;
	m->gpu->info = calloc(n_gpus, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(n_gpus, sizeof(*m->gpu->sample));
	for (uint32_t i = 0; i < n_gpus; i++)
		gs_gpu_set(&m->gpu->sample[i], GS_GPU_UTIL, (double)(wall_ns / SECOND % 100) / 100);
	return m;
}

static void apply(struct gs_registry *c, int64_t id, struct gs_node_snapshot *m)
{
	gs_registry_apply(c, id, &m);
}

static void put(struct gs_registry *c, int64_t id)
{
	struct gs_registry_node node = {.id = id};

	snprintf(node.hostname, sizeof(node.hostname), "node%d", (int)id);
	assert_int_equal(gs_registry_put(c, &node), 0);
}

static void it_stays_as_it_is(void **state)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_view *before = gs_registry_view(c), *after, *again;

	assert_int_equal(gs_registry_view_count(before), 0);
	assert_null(gs_registry_view_at(before, 0));
	gs_registry_view_unref(&before);
	assert_null(before);
	put(c, 1);
	apply(c, 1, moment(2, 5 * SECOND));
	before = gs_registry_view(c);
	again = gs_registry_view_ref(before);
	gs_registry_view_unref(&again);

	apply(c, 1, moment(3, 6 * SECOND));
	gs_registry_connected(c, 1, "10.0.0.1:5", "1.0");
	gs_registry_counts(c, 1, 7, 2, 1);
	gs_registry_clock(c, 1, -5, 3);
	put(c, 2);
	after = gs_registry_view(c);
	assert_int_equal(gs_registry_view_count(before), 1);
	assert_int_equal(gs_registry_view_at(before, 0)->latest->gpu->n_gpus, 2);
	assert_int_equal(gs_registry_view_at(before, 0)->n_connections, 0);
	assert_int_equal(gs_registry_view_count(after), 2);
	assert_int_equal(gs_registry_view_at(after, 0)->latest->gpu->n_gpus, 3);
	assert_true(gs_registry_view_at(after, 0)->healthy);
	assert_int_equal(gs_registry_view_at(after, 0)->n_samples, 7);
	assert_int_equal(gs_registry_view_at(after, 0)->lost_samples, 2);
	assert_int_equal(gs_registry_view_at(after, 0)->clock_offset_ns, -5);
	assert_null(gs_registry_view_at(after, 1)->latest);
	assert_true(gs_registry_view_version(after) > gs_registry_view_version(before));
	assert_int_equal(gs_registry_view_version(after), gs_registry_version(c));
	gs_registry_gone(c, 1);
	/* A view outlives what it was made of. */
	gs_registry_free(&c);
	assert_int_equal(gs_registry_view_at(before, 0)->latest->wall_ns, 5 * SECOND);
	gs_registry_view_unref(&before);
	gs_registry_view_unref(&after);
}

static void all_nodes_are_there_in_order(void **state)
{
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_view *v;

	/* Not in their order, and more than are copied at once. */
	for (int64_t i = 0; i < 1000; i++)
		put(c, 1 + i * 387 % 1000);
	v = gs_registry_view(c);
	assert_int_equal(gs_registry_view_count(v), 1000);
	for (size_t i = 0; i < 1000; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(v, i);

		assert_int_equal(n->id, i + 1);
		assert_ptr_equal(gs_registry_view_find(v, (int64_t)i + 1), n);
	}
	assert_null(gs_registry_view_find(v, 0));
	assert_null(gs_registry_view_find(v, 1001));
	assert_int_equal(gs_registry_view_count(NULL), 0);
	assert_null(gs_registry_view_find(NULL, 1));
	gs_registry_view_unref(&v);
	gs_registry_free(&c);
}

/* --- several threads --- */

#define NODES 300

static atomic_bool stop;

static void *write_on(void *arg)
{
	struct gs_registry *c = arg;

	for (int64_t s = 1; !stop; s++)
		for (int64_t id = 1; id <= NODES; id++) {
			apply(c, id, moment(1 + (uint32_t)(s % 3), s * SECOND));
			gs_registry_counts(c, id, 1, 0, 0);
			if (s % 8 == 0) /* others come in between */
				put(c, NODES + id * 2 + (s / 8) % 2);
		}
	return NULL;
}

static void *read_on(void *arg)
{
	struct gs_registry *c = arg;
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];

	for (int round = 0; round < 200; round++) {
		struct gs_registry_view *view = gs_registry_view(c);
		uint64_t n = 0;

		for (size_t i = 0; i < gs_registry_view_count(view); i++) {
			const struct gs_registry_node *node = gs_registry_view_at(view, i);

			if (i && node->id <= gs_registry_view_at(view, i - 1)->id)
				abort();
			if (node->latest && node->latest->wall_ns != node->last_wall_ns)
				abort();
			for (uint32_t g = 0; node->latest && g < node->latest->gpu->n_gpus; g++)
				n += gs_gpu_has(&node->latest->gpu->sample[g], GS_GPU_UTIL);
		}
		(void)n;
		if (gs_registry_view_count(view) < NODES)
			abort();
		(void)gs_registry_history(c, 1 + round % NODES, 0, GS_REGISTRY_UTIL, wall, v);
		gs_registry_view_unref(&view);
	}
	return NULL;
}

static void writers_and_readers(void **state)
{
	struct gs_registry *c = gs_registry_new();
	pthread_t writer, reader[3];

	for (int64_t id = 1; id <= NODES; id++)
		put(c, id);
	assert_int_equal(pthread_create(&writer, NULL, write_on, c), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, read_on, c), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(reader[i], NULL);
	stop = true;
	pthread_join(writer, NULL);
	gs_registry_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_stays_as_it_is),
		cmocka_unit_test(all_nodes_are_there_in_order),
		cmocka_unit_test(writers_and_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
