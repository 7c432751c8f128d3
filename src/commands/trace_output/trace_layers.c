#include "commands/trace_output/trace_layers.h"

#include <string.h>

#include "core/base/mem.h"
#include "model/trace/attach.h"

static const struct {
	unsigned layer;
	const char *library, *begin; /* its name, and how names of its kind begin */
} libraries[] = {{GS_LAYER_CUDA_RUNTIME, "libcudart.so", "libcudart"},
		 {GS_LAYER_CUDA_DRIVER, "libcuda.so", "libcuda.so"},
		 {GS_LAYER_NCCL, "libnccl.so", "libnccl.so"}};

void trace_layers_note(struct trace_layers *layers, const struct gs_attach *attach)
{
	const char *name = strrchr(attach->path, '/');

	if (!attach->reason || strcmp(attach->reason, GS_ATTACH_INSIDE) != 0)
		return;
	name = name ? name + 1 : attach->path;
	for (size_t i = 0; i < GS_ARRAY_LEN(libraries); i++)
		if (strncmp(name, libraries[i].begin, strlen(libraries[i].begin)) == 0)
			layers->reported |= 1u << libraries[i].layer;
}

void trace_layers_put(const struct trace_layers *layers, struct gs_inside *inside,
		      struct gs_ingest *feed)
{
	uint32_t left = gs_inside_layers(inside) & ~layers->reported;

	for (size_t i = 0; i < GS_ARRAY_LEN(libraries); i++)
		if (left >> libraries[i].layer & 1)
			gs_ingest_attach(feed, &(struct gs_attach){.path = libraries[i].library,
								   .reason = GS_ATTACH_INSIDE});
}
