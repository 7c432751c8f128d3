/* The table of the values of a GPU, and snapshots as things that are owned. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/gpu.h"

static const struct gs_gpu_field_info fields[GS_GPU_FIELD_COUNT] = {
#define KIND_GAUGE   false
#define KIND_COUNTER true
#define ROW(id, key, unit, kind, family, label, label_value, title, help)                          \
	[GS_GPU_##id] = {key,   GS_UNIT_OF_##unit, KIND_##kind, family,                            \
			 label, label_value,       title,       help},
	GS_GPU_FIELDS(ROW)
#undef ROW
#undef KIND_GAUGE
#undef KIND_COUNTER
};

const struct gs_gpu_field_info *gs_gpu_field_info(unsigned field)
{
	return field < GS_GPU_FIELD_COUNT ? &fields[field] : NULL;
}

int gs_gpu_field_by_key(const char *key)
{
	for (int i = 0; i < GS_GPU_FIELD_COUNT; i++)
		if (strcmp(fields[i].key, key) == 0)
			return i;
	return -1;
}

const char *gs_gpu_state_name(unsigned state)
{
	static const char *const names[] = {"ok",       "no_library", "no_driver", "no_gpu",
					    "released", "hung",       "failed"};

	return state < GS_ARRAY_LEN(names) ? names[state] : "unknown";
}

const char *gs_gpu_why_name(unsigned why)
{
	static const char *const names[] = {"ok",     "not_supported", "not_permitted", "not_read",
					    "failed", "timed_out",     "lost"};

	return why < GS_ARRAY_LEN(names) ? names[why] : "unknown";
}

void gs_gpu_snapshot_free(struct gs_gpu_snapshot **ref)
{
	struct gs_gpu_snapshot *s = *ref;

	if (!s)
		return;
	free(s->info);
	free(s->sample);
	free(s->process);
	free(s->event);
	free(s);
	*ref = NULL;
}

/* n items of a size; true when they are there (or there were none). */
static bool copy_array(void **ret_copy, const void *from, size_t n, size_t bytes)
{
	*ret_copy = n ? malloc(n * bytes) : NULL;
	if (n && *ret_copy)
		memcpy(*ret_copy, from, n * bytes);
	return !n || *ret_copy;
}

struct gs_gpu_snapshot *gs_gpu_snapshot_copy(const struct gs_gpu_snapshot *from)
{
	struct gs_gpu_snapshot *s = malloc(sizeof(*s));
	bool whole;

	if (!s)
		return NULL;
	*s = *from;
	whole = copy_array((void **)&s->info, from->info, from->n_gpus, sizeof(*s->info));
	whole &= copy_array((void **)&s->sample, from->sample, from->n_gpus, sizeof(*s->sample));
	whole &= copy_array((void **)&s->process, from->process, from->n_processes,
			    sizeof(*s->process));
	whole &= copy_array((void **)&s->event, from->event, from->n_events, sizeof(*s->event));
	if (!whole)
		gs_gpu_snapshot_free(&s);
	return s;
}

void gs_gpu_snapshot_keep(struct gs_gpu_snapshot *s, const bool *keep)
{
	uint32_t kept = 0, to = 0;

	for (uint32_t i = 0; i < s->n_processes; i++) {
		uint32_t gpu = s->process[i].gpu, before = 0;

		if (gpu >= s->n_gpus || !keep[gpu])
			continue;
		for (uint32_t j = 0; j < gpu; j++)
			before += keep[j];
		s->process[to] = s->process[i];
		s->process[to++].gpu = before;
	}
	s->n_processes = to;
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		if (!keep[i])
			continue;
		s->info[kept] = s->info[i];
		s->sample[kept++] = s->sample[i];
	}
	s->n_gpus = kept;
}
