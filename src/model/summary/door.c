/* How each layer was traced, in words. */
#include <stdio.h>
#include <string.h>

#include "model/summary/summary.h"
#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "model/trace/library.h"

/* Libraries of a layer: from inside, by probes, or some in each way. */
static void put_layer(char *out, size_t bytes, const struct gs_summary *s, const char *title,
		      unsigned layer)
{
	bool inside = false, probes = false;
	size_t n = strlen(out);

	for (size_t i = 0; i < s->n_attached; i++) {
		const struct gs_attach_status *a = &s->attached[i];

		if (!a->path || gs_layer_of_file(a->path) != layer)
			continue;
		probes |= a->n_probes > 0;
		inside |= a->reason && strcmp(a->reason, GS_ATTACH_INSIDE) == 0;
	}
	if (inside || probes)
		snprintf(out + n, bytes - n, "%s%s %s", n ? "; " : "", title,
			 inside && probes ? "from inside and by probes"
			 : inside         ? "from inside"
					  : "by probes");
}

static void put_text(char *out, size_t bytes, const char *text)
{
	size_t n = strlen(out);

	snprintf(out + n, bytes - n, "%s%s", n ? "; " : "", text);
}

void gs_summary_doors(const struct gs_summary *s, char *out, size_t bytes)
{
	bool by_probes;

	out[0] = '\0';
	put_layer(out, bytes, s, "CUDA runtime", GS_LAYER_CUDA_RUNTIME);
	put_layer(out, bytes, s, "CUDA driver", GS_LAYER_CUDA_DRIVER);
	put_layer(out, bytes, s, "NCCL", GS_LAYER_NCCL);
	put_layer(out, bytes, s, "PyTorch operators", GS_LAYER_TORCH);
	put_layer(out, bytes, s, "Python", GS_LAYER_PYTHON);
	by_probes = !strstr(out, "from inside");
	if (s->gpu_time)
		put_text(out, bytes, "GPU work by CUPTI");
	if (s->nccl)
		put_text(out, bytes, "NCCL operations by its profiler interface");
	if (by_probes && !s->gpu_time && !s->nccl)
		out[0] = '\0';
}
