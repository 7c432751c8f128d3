/* What was decoded is a moment that can be stored and read again. */
#ifndef TESTS_FUZZ_MOMENT_AGAIN_H
#define TESTS_FUZZ_MOMENT_AGAIN_H

#include <stdlib.h>

#include "model/node/record.h"

/* Encoded and decoded again it is one moment, which the caller owns. */
static struct gs_node_snapshot *again(const struct gs_node_snapshot *node)
{
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_buf buf = GS_BUF_INIT(64u << 20);
	struct gs_node_snapshot *whole = NULL;
	struct gs_batch batch;

	if (!d || gs_node_encode(&buf, node) < 0)
		abort();
	batch = (struct gs_batch){buf.data, buf.bytes};
	gs_records_for_each (&batch, r) {
		struct gs_node_snapshot *copy = NULL;

		if (gs_node_decode(d, r, &copy) != GS_NODE_WHOLE)
			continue;
		if (whole)
			abort();
		whole = copy;
	}
	if (!whole)
		abort();
	gs_node_decoder_free(&d);
	gs_buf_fini(&buf);
	return whole;
}

#endif
