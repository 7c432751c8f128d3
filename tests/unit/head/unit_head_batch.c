/* What a head takes from a batch for its pages and alerts: the newest sample, and every event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "gpuscope.pb-c.h"
#include "model/node/host.h"
#include "model/node/record.h"
#include "server/head/head_int.h"
#include "server/registry/registry.h"

#define S 1000000000ull

/* A sample of one GPU at this second; xid 0: nothing happened. */
static void put_sample(struct gs_buf *raw, uint64_t second, uint32_t n_events, uint32_t xid)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));

	m->time_ns = m->wall_ns = (int64_t)(second * S);
	m->host = calloc(1, sizeof(*m->host));
	m->host->sample = gs_host_sample_unknown;
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->time_ns = m->time_ns;
	m->gpu->wall_ns = m->wall_ns;
	m->gpu->n_gpus = 1;
	m->gpu->info = calloc(1, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(1, sizeof(*m->gpu->sample));
	strcpy(m->gpu->info[0].uuid, "GPU-1");
	m->gpu->sample[0].time_ns = m->time_ns;
	m->gpu->n_events = n_events;
	m->gpu->event = n_events ? calloc(n_events, sizeof(*m->gpu->event)) : NULL;
	for (uint32_t i = 0; i < n_events; i++) {
		struct gs_gpu_event *e = &m->gpu->event[i];

		*e = (struct gs_gpu_event){.time_ns = m->time_ns, .xid = xid + i};
		strcpy(e->uuid, "GPU-1");
	}
	assert_int_equal(gs_node_encode(raw, m), 0);
	gs_node_snapshot_free(&m);
}

static struct gs_node_snapshot *look(const struct gs_buf *records, bool whole)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf raw = GS_BUF_INIT(1 << 20);
	Gpuscope__V1__Batch b = GPUSCOPE__V1__BATCH__INIT;
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_node_snapshot *newest = NULL;

	b.seq = 1;
	b.codec = (Gpuscope__V1__Codec)GS_STORE_PLAIN;
	b.raw_bytes = (uint32_t)records->bytes;
	b.records.data = records->data;
	b.records.len = records->bytes;
	assert_int_equal(head_batch_check(&b, GS_STORE_SAMPLES, d, &raw, &newest), whole);
	gs_node_decoder_free(&d);
	return newest;
}

/* An XID is in the sample in which it was seen alone, which need not be the batch's last. */
static void test_events_of_older_samples(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf records = GS_BUF_INIT(1 << 20);
	struct gs_registry *registry = gs_registry_new();
	struct gs_registry_node node = {.id = 1};
	const struct gs_registry_node *shown;
	struct gs_registry_view *view;
	struct gs_node_snapshot *m;

	put_sample(&records, 100, 0, 0);
	put_sample(&records, 101, 2, 79);
	put_sample(&records, 102, 1, 48);
	put_sample(&records, 103, 0, 0);
	m = look(&records, true);
	assert_true(m->time_ns == 103 * S);
	assert_int_equal(m->gpu->n_events, 3);
	assert_int_equal(m->gpu->event[0].xid, 79);
	assert_int_equal(m->gpu->event[1].xid, 80);
	assert_int_equal(m->gpu->event[2].xid, 48);
	assert_true(m->gpu->event[2].time_ns == 102 * S);

	strcpy(node.hostname, "n1");
	strcpy(node.machine_id, "m1");
	strcpy(node.instance, "default");
	assert_int_equal(gs_registry_put(registry, &node), 0);
	gs_registry_apply(registry, 1, &m);
	view = gs_registry_view(registry);
	shown = gs_registry_view_find(view, 1);
	assert_true(shown->n_gpu_events == 3);
	assert_int_equal(shown->latest->gpu->sample[0].past.xid, 48);
	assert_true(shown->latest->gpu->sample[0].past.xid_ns == 102 * S);
	gs_registry_view_unref(&view);
	gs_registry_free(&registry);
}

static void test_own_events_are_the_last(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf records = GS_BUF_INIT(1 << 20);
	struct gs_node_snapshot *m;

	put_sample(&records, 100, 1, 31);
	put_sample(&records, 101, 1, 94);
	m = look(&records, true);
	assert_int_equal(m->gpu->n_events, 2);
	assert_int_equal(m->gpu->event[0].xid, 31);
	assert_int_equal(m->gpu->event[1].xid, 94);
	gs_node_snapshot_free(&m);
}

static void test_cut(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf records = GS_BUF_INIT(1 << 20);
	struct gs_node_snapshot *m;

	put_sample(&records, 100, 3, 31);
	put_sample(&records, 101, 3, 94);
	records.bytes -= 8;
	m = look(&records, false);
	gs_node_snapshot_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_of_older_samples),
		cmocka_unit_test(test_own_events_are_the_last),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
