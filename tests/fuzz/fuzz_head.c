/*
 * What anybody may send to a head as a node, as its handlers take it apart. What they make of it can
 * be stored and read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpuscope.pb-c.h"
#include "server/head/head_int.h"
#include "snapshot_again.h"
#include "replay_main.h"

static void can_be_stored(const struct gs_node_snapshot *node)
{
	struct gs_node_snapshot *same = again(node);

	gs_node_snapshot_free(&same);
}

static void take_message(const uint8_t *data, size_t bytes)
{
	Gpuscope__V1__ToHead *m = gpuscope__v1__to_head__unpack(NULL, bytes, data);
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_buf raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);

	if (m && m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BATCH)
		for (unsigned kind = GS_STORE_SAMPLES; kind <= GS_STORE_TRACE; kind++) {
			struct gs_node_snapshot *newest;

			(void)head_batch_check(m->batch, kind, d, &raw, &newest);
			if (newest)
				can_be_stored(newest);
			gs_node_snapshot_free(&newest);
		}
	if (m && m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BATCH) {
		struct gs_store_report report;

		if (head_report_check(m->batch, &raw, &report) && !report.job[0])
			abort();
	}
	if (m)
		gpuscope__v1__to_head__free_unpacked(m, NULL);
	gs_node_decoder_free(&d);
	gs_buf_fini(&raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is caught. */
	uint8_t *copy;

	copy = malloc(bytes + !bytes);
	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	take_message(copy, bytes);
	free(copy);
	return 0;
}
