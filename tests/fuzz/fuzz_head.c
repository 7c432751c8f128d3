/*
 * What anybody may send to a head: messages of a node (the first byte is even) and of a client of
 * gswarm-profiler (odd), as its handlers take them apart. What they make of it can be stored and
 * read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpuscope.pb-c.h"
#include "compat/gswarm/gswarm_int.h"
#include "server/head/head_int.h"
#include "snapshot_again.h"
#include "replay_main.h"

static void can_be_stored(const struct gs_node_snapshot *node)
{
	struct gs_node_snapshot *same = again(node);

	gs_node_snapshot_free(&same);
}

static void of_node(const uint8_t *data, size_t bytes)
{
	Gpuscope__V1__ToHead *m = gpuscope__v1__to_head__unpack(NULL, bytes, data);
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_buf raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);

	if (m && m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BATCH)
		for (unsigned kind = GS_STORE_SAMPLES; kind <= GS_STORE_TRACE; kind++) {
			struct gs_node_snapshot *newest;

			(void)head_batch_look(m->batch, kind, d, &raw, &newest);
			if (newest)
				can_be_stored(newest);
			gs_node_snapshot_free(&newest);
		}
	if (m && m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BATCH) {
		struct gs_store_report report;

		if (head_report_look(m->batch, &raw, &report) && !report.job[0])
			abort();
	}
	if (m)
		gpuscope__v1__to_head__free_unpacked(m, NULL);
	gs_node_decoder_free(&d);
	gs_buf_fini(&raw);
}

static void of_gswarm(const uint8_t *data, size_t bytes)
{
	GswarmProfiler__MetricsUpdate *m = gswarm_update(data, bytes);

	for (int on = 0; m && on < 2; on++) {
		struct gswarm_seen seen = {on, on, on};
		struct gs_node_snapshot *n = gswarm_sample(m, 1700000000000000000, &seen);

		if (!n)
			abort();
		for (uint32_t i = 0; i < n->gpu->n_gpus; i++)
			for (int f = 0; f < GS_GPU_FIELD_COUNT; f++)
				if (gs_gpu_has(&n->gpu->sample[i], f) &&
				    !(n->gpu->sample[i].value[f] >= 0))
					abort(); /* a value that is none */
		can_be_stored(n);
		gs_node_snapshot_free(&n);
	}
	if (m)
		gswarm_profiler__metrics_update__free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is caught. */
	uint8_t *copy;

	if (!bytes)
		return 0;
	copy = malloc(bytes);
	if (!copy)
		abort();
	memcpy(copy, data + 1, bytes - 1);
	(data[0] & 1 ? of_gswarm : of_node)(copy, bytes - 1);
	free(copy);
	return 0;
}
