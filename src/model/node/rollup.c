#include "model/node/rollup.h"

#include <math.h>

#include "model/node/record.h"

bool gs_rollup_read(const struct gs_record *record, struct gs_rollup_mark *ret)
{
	const struct gs_rec_rollup *c = (const void *)record;

	/* A node may have made it: nothing in it is taken on trust. */
	if (record->kind != GS_REC_ROLLUP || record->bytes < sizeof(*c) || !c->interval_ns ||
	    !c->n_samples)
		return false;
	*ret = (struct gs_rollup_mark){
		.interval_ns = c->interval_ns, .n_samples = c->n_samples, .record = record};
	if (c->n_values <= (record->bytes - sizeof(*c)) / sizeof(*ret->value)) {
		ret->n_values = c->n_values;
		ret->value = (const void *)(c + 1);
	}
	return true;
}

static const struct gs_rec_rollup_value *find_value(const struct gs_rollup_mark *mark, uint32_t gpu,
						    enum gs_gpu_field field)
{
	uint32_t hash;

	if (!mark || !mark->n_values)
		return NULL;
	hash = gs_gpu_key_hash(gs_gpu_field_info(field)->key);
	for (uint32_t i = 0; i < mark->n_values; i++)
		if (mark->value[i].gpu == gpu && mark->value[i].key_hash == hash)
			return &mark->value[i];
	return NULL;
}

uint32_t gs_rollup_n(const struct gs_rollup_mark *mark, uint32_t gpu, enum gs_gpu_field field)
{
	const struct gs_rec_rollup_value *v = find_value(mark, gpu, field);

	return v && v->n ? v->n : mark && mark->n_samples ? mark->n_samples : 1;
}

double gs_rollup_max(const struct gs_rollup_mark *mark, uint32_t gpu, enum gs_gpu_field field,
		     double value)
{
	const struct gs_rec_rollup_value *v = find_value(mark, gpu, field);

	return v && isfinite(v->most) && v->most > value ? v->most : value;
}

double gs_rollup_memory(const struct gs_rollup_mark *mark, uint32_t gpu,
			const struct gs_gpu_sample *s, double *ret_max, uint32_t *ret_n)
{
	enum gs_gpu_field field =
		gs_gpu_has(s, GS_GPU_MEM_USED) ? GS_GPU_MEM_USED : GS_GPU_MEM_USED_RATIO;
	double ratio = gs_gpu_memory_ratio(s), mean = gs_gpu_value(s, field);

	*ret_max = mean > 0 ? ratio * gs_rollup_max(mark, gpu, field, mean) / mean : ratio;
	*ret_n = gs_rollup_n(mark, gpu, field);
	return ratio;
}
