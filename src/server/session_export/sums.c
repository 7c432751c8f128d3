#include "server/session_export/sums.h"

#include <math.h>

#include "core/base/mem.h"

static void add_value(struct gs_bucket *b, const struct gs_rollup_mark *mark, uint32_t gpu,
		      const struct gs_gpu_sample *s, enum gs_gpu_field field)
{
	double v = gs_gpu_value(s, field);

	gs_bucket_add_mean(b, v, gs_rollup_max(mark, gpu, field, v), gs_rollup_n(mark, gpu, field));
}

/* The power holds for as long as samples are usually apart, and not through a gap. */
static void add_energy(struct gs_session_export_sums *g, const struct gs_gpu_sample *s,
		       int64_t wall_ns)
{
	int64_t own = (int64_t)(s->elapsed_ns ? s->elapsed_ns : 1000000000ull), stands = own;

	if (g->before_ns && stands > 3 * g->before_ns)
		stands = g->before_ns;
	gs_energy_add(&g->energy, wall_ns, gs_gpu_value(s, GS_GPU_ENERGY),
		      gs_gpu_value(s, GS_GPU_POWER), gs_gpu_value(s, GS_GPU_POWER_LIMIT),
		      3 * stands);
	g->before_ns = own;
}

void gs_session_export_sums_add(struct gs_session_export_sums *g, uint32_t gpu,
				const struct gs_gpu_sample *s, const struct gs_rollup_mark *mark,
				int64_t wall_ns)
{
	double util = gs_gpu_value(s, GS_GPU_UTIL), memory, memory_max;
	uint32_t n;

	if (s->lost) /* its values are old ones */
		return;
	g->n_samples += mark->n_samples ? mark->n_samples : 1;
	add_value(&g->util, mark, gpu, s, GS_GPU_UTIL);
	if (isfinite(util))
		g->util_count[util <= 0   ? 0
			      : util >= 1 ? 100
					  : (size_t)(util * 100 + 0.5)] +=
			gs_rollup_n(mark, gpu, GS_GPU_UTIL);
	memory = gs_rollup_memory(mark, gpu, s, &memory_max, &n);
	gs_bucket_add_mean(&g->memory, memory, memory_max, n);
	add_value(&g->power, mark, gpu, s, GS_GPU_POWER);
	add_value(&g->temperature, mark, gpu, s, GS_GPU_TEMP_GPU);
	add_value(&g->dram, mark, gpu, s, GS_GPU_DRAM_ACTIVE);
	add_energy(g, s, wall_ns);
}

double gs_session_export_sums_util(const struct gs_session_export_sums *g, double share)
{
	uint64_t upto = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(g->util_count); i++) {
		upto += g->util_count[i];
		if (g->util.n && (double)upto >= share * (double)g->util.n)
			return (double)i;
	}
	return NAN;
}
