/* Layers that are seen from inside of processes, as the summary's list of libraries has them. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_LAYERS_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_LAYERS_H

#include <stdint.h>

#include "pipeline/ingest/ingest.h"
#include "pipeline/inside/inside.h"

struct trace_layers {      /* all 0 at the begin */
	uint32_t reported; /* whose libraries are in the list: bits 1 << enum gs_layer */
};

/* A library was attached to, or is left alone: attach->reason says why. */
void trace_layers_note(struct trace_layers *layers, const struct gs_attach *attach);

/* At the end: layers whose calls came from inside of processes that were gone before their libraries were looked at get a row
 * by the name of the library. inside may be NULL. */
void trace_layers_put(const struct trace_layers *layers, struct gs_inside *inside,
		      struct gs_ingest *feed);

#endif
