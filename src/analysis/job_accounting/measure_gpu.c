/* The GPUs of this machine for `gpuscope job`: read now, and where the values come from. */
#include "analysis/job_accounting/measure_gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/gpu/gpu.h"

struct accounting_gpu_reader {
	struct gs_gpu *gpu;
	struct gs_gpu_snapshot *now; /* owned; NULL before the first reading */
	char source[160];
};

int accounting_gpu_reader_open(const char *nvml, struct accounting_gpu_reader **ret,
			       struct gs_err *err)
{
	struct gs_gpu_options options = {.size = sizeof(options),
					 .nvml_path = nvml,
					 .nvml_option = "--nvml PATH",
					 .groups = GS_GPU_READ_BASIC | GS_GPU_READ_PROCESSES |
						   GS_GPU_READ_GPM};
	GS_FREE struct accounting_gpu_reader *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	r = gs_gpu_open(&options, &g->gpu, err);
	if (r < 0)
		return r;
	*ret = gs_take(g);
	return 0;
}

void accounting_gpu_reader_close(struct accounting_gpu_reader **ref)
{
	struct accounting_gpu_reader *g = *ref;

	if (!g)
		return;
	gs_gpu_close(&g->gpu);
	gs_gpu_snapshot_free(&g->now);
	free(g);
	*ref = NULL;
}

void accounting_gpu_reader_read(struct accounting_gpu_reader *g)
{
	struct gs_gpu_snapshot *next = NULL;

	if (gs_gpu_read(g->gpu, &next) < 0)
		return;
	gs_gpu_snapshot_free(&g->now);
	g->now = next;
	if (next->n_gpus)
		snprintf(g->source, sizeof(g->source), "the driver, every second");
	else
		/* Without its advice on options, which are those of others. */
		snprintf(g->source, sizeof(g->source), "no GPU: %.*s",
			 (int)strcspn(next->state_text, "("), next->state_text);
}

const char *accounting_gpu_reader_source(const struct accounting_gpu_reader *g)
{
	return g->source[0] ? g->source : "not read";
}

const struct gs_gpu_snapshot *accounting_gpu_reader_snapshot(const struct accounting_gpu_reader *g)
{
	return g->now;
}
