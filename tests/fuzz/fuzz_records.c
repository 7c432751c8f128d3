/*
 * Records as a damaged or hostile file may hold them, through span into view and its summary, and
 * into a flame graph; and those that are left when kernels are chosen.
 * They come in two batches and then all again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/flamegraph/flame.h"
#include "replay_main.h"
#include "pipeline/correlate/correlate.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/aggregate/kernel_choose.h"

static void through_flame(const uint8_t *data, size_t bytes, enum gs_flame_by by)
{
	GS_CLEANUP(gs_dict_free) struct gs_dict *dict = gs_dict_new();
	GS_CLEANUP(gs_flame_free) struct gs_flame *flame = NULL;
	struct gs_batch b = {data, bytes};
	const struct gs_flame_node *nodes;
	char label[GS_FLAME_LABEL_BYTES];
	uint64_t sum = 0;
	uint32_t n;

	if (!dict || gs_flame_new(dict, by, &flame) < 0)
		abort();
	gs_dict_keep_stacks(dict);
	for (unsigned round = 0; round < 2; round++)
		gs_records_for_each (&b, r)
			if (gs_dict_apply(dict, r) == 0 && gs_flame_record(flame, r) < 0)
				abort();
	if (gs_flame_finish(flame) < 0)
		abort();
	nodes = gs_flame_nodes(flame, &n);
	for (uint32_t i = 0; i < n; i++) {
		sum += nodes[i].self;
		if (strlen(gs_flame_label(flame, i, label)) >= sizeof(label) ||
		    (i && nodes[i].parent >= i))
			abort();
	}
	if (sum != nodes[0].total)
		abort();
}

/* What is chosen is never more, and made of whole records. */
static void through_choice(const uint8_t *data, size_t bytes)
{
	static const char *const globs[] = {"*a*", "k"};
	struct gs_aggregate_kernels *kernels = gs_aggregate_kernels_new(globs, 2);
	struct gs_batch b = {data, bytes}, chosen;
	size_t at = 0;

	if (!kernels)
		abort();
	for (unsigned round = 0; round < 2; round++) {
		if (gs_aggregate_kernels_choose(kernels, &b, &chosen) < 0 || chosen.bytes > bytes)
			abort();
		for (at = 0; gs_record_next(&chosen, &at);)
			;
		if (at != chosen.bytes)
			abort();
	}
	gs_aggregate_kernels_free(&kernels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	GS_CLEANUP(gs_correlate_free) struct gs_correlate *span = NULL;
	GS_CLEANUP(gs_aggregate_free) struct gs_aggregate *view = NULL;
	/* A copy of the exact size and alignment: reading past the end is caught. */
	GS_FREE uint8_t *copy = malloc(bytes ? bytes : 1);
	const struct gs_sink *sink;

	if (!copy || gs_aggregate_new(&view) < 0 ||
	    gs_correlate_new(gs_aggregate_sink(view), &span) < 0)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	sink = gs_correlate_sink(span);
	/* In two halves at a record's border, then all once more: handles and ids come again. */
	for (unsigned round = 0; round < 3; round++) {
		size_t middle = 0, from = round == 1 ? bytes / 16 * 8 : 0;
		struct gs_batch b = {copy, bytes};

		while (middle < from && gs_record_next(&b, &middle))
			;
		b = round == 0 ? (struct gs_batch){copy, bytes / 16 * 8}
			       : (struct gs_batch){copy + middle, bytes - middle};
		sink->push(sink->ctx, &b);
	}
	if (gs_aggregate_make_summary(view, &summary) < 0)
		abort();
	for (unsigned by = GS_FLAME_AUTO; by < GS_FLAME_BY_COUNT; by++)
		through_flame(copy, bytes, by);
	through_choice(copy, bytes);
	return 0;
}
