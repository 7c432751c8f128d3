#include "commands/trace_output/trace_layers.h"

#include <string.h>

#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "model/trace/library.h"

void trace_layers_note(struct trace_layers *layers, const struct gs_attach *attach)
{
	unsigned layer = gs_layer_of_file(attach->path);

	if (layer != GS_LAYER_NONE && attach->reason &&
	    strcmp(attach->reason, GS_ATTACH_INSIDE) == 0)
		layers->reported |= 1u << layer;
}

void trace_layers_put(const struct trace_layers *layers, struct gs_inside *inside,
		      struct gs_ingest *feed)
{
	uint32_t left = gs_inside_layers(inside) & ~layers->reported;

	for (unsigned layer = 0; layer < GS_LAYER_COUNT; layer++)
		if (left >> layer & 1 && gs_layer_library(layer))
			gs_ingest_attach(feed, &(struct gs_attach){.path = gs_layer_library(layer),
								   .reason = GS_ATTACH_INSIDE});
}
