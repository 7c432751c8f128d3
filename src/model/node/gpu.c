/* The table of the values of a GPU, and snapshots as things that are owned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/node/gpu.h"

static const struct gs_gpu_field_info fields[GS_GPU_FIELD_COUNT] = {
#define KIND_GAUGE   false
#define KIND_COUNTER true
#define ROW(id, key, unit, kind, group, family, label, label_value, title, help)                   \
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

static const char *const part_names[GS_GPU_PARTS] = {
#define NAME(id, name, ...) [GS_GPU_PART_##id] = (name),
	GS_GPU_PARTS_OF(NAME)
#undef NAME
};

const struct gs_gpu_info gs_gpu_info_unknown = {
	.minor = -1,
	.numa_node = -1,
	.n_sms = -1,
	.compute_major = -1,
	.compute_minor = -1,
	.persistence = 255,
	.gpu_instance = -1,
	.compute_instance = -1,
};

/* CUDA C++ Programming Guide, "Arithmetic Instructions". */
uint32_t gs_gpu_sm_cores(int32_t major, int32_t minor)
{
	switch (major) {
	case 3:
		return 192;
	case 5:
		return 128;
	case 6:
		return minor == 0 ? 64 : 128;
	case 7:
		return 64;
	case 8:
		return minor == 0 ? 64 : 128;
	default:
		return 128;
	}
}

const char *gs_gpu_number(char out[GS_GPU_NUMBER_BYTES], const struct gs_gpu_info *info)
{
	if (info->is_mig)
		snprintf(out, GS_GPU_NUMBER_BYTES, "%u:%d", info->index, info->gpu_instance);
	else
		snprintf(out, GS_GPU_NUMBER_BYTES, "%u", info->index);
	return out;
}

const char *gs_gpu_part_name(unsigned part)
{
	return part < GS_GPU_PARTS ? part_names[part] : "";
}

int gs_gpu_part_by_name(const char *name)
{
	for (int i = 0; i < GS_GPU_PARTS; i++)
		if (strcmp(part_names[i], name) == 0)
			return i;
	return -1;
}

enum gs_gpu_part gs_gpu_part_of(enum gs_gpu_field field)
{
	static const uint8_t groups[GS_GPU_FIELD_COUNT] = {
#define ROW(id, key, unit, kind, group, ...) [GS_GPU_##id] = GS_GPU_PART_##group,
		GS_GPU_FIELDS(ROW)
#undef ROW
	};

	return (enum gs_gpu_part)groups[field];
}

enum gs_gpu_pace gs_gpu_pace_of(enum gs_gpu_part part)
{
	static const uint8_t paces[GS_GPU_PARTS] = {
#define ROW(id, name, pace) [GS_GPU_PART_##id] = GS_GPU_PACE_##pace,
		GS_GPU_PARTS_OF(ROW)
#undef ROW
	};

	return (enum gs_gpu_pace)paces[part];
}

uint64_t gs_gpu_parts_needed(enum gs_gpu_field field)
{
	enum gs_gpu_part part = gs_gpu_part_of(field);
	uint64_t also = 0;

	if (part == GS_GPU_PART_MEMORY_ACTIVITY)
		also = 1ull << GS_GPU_PART_UTILIZATION;
	if (part == GS_GPU_PART_POWER_INSTANT)
		also = 1ull << GS_GPU_PART_POWER;
	/* Rates of bytes come from GPM, or from counters where it has none. */
	if (part == GS_GPU_PART_PCIE_RATE)
		also = 1ull << GS_GPU_PART_PCIE | 1ull << GS_GPU_PART_GPM;
	if (part == GS_GPU_PART_LINK_RATE)
		also = 1ull << GS_GPU_PART_LINK_BYTES | 1ull << GS_GPU_PART_LINKS |
		       1ull << GS_GPU_PART_GPM;
	if (part == GS_GPU_PART_LINK_BYTES) /* of the links that are there */
		also = 1ull << GS_GPU_PART_LINKS;
	return 1ull << part | also;
}

const char *gs_gpu_vendor_name(unsigned vendor)
{
	return vendor == GS_GPU_VENDOR_NVIDIA ? "nvidia" : vendor == GS_GPU_VENDOR_AMD ? "amd" : "";
}

const char *gs_gpu_state_name(unsigned state)
{
	static const char *const names[] = {"ok",       "no_library", "no_driver", "no_gpu",
					    "released", "hung",       "failed",    "reading"};

	return state < GS_ARRAY_LEN(names) ? names[state] : "unknown";
}

double gs_gpu_memory_ratio(const struct gs_gpu_sample *s)
{
	double total = gs_gpu_value(s, GS_GPU_MEM_TOTAL);

	if (total > 0 && gs_gpu_has(s, GS_GPU_MEM_USED))
		return s->value[GS_GPU_MEM_USED] / total;
	return gs_gpu_value(s, GS_GPU_MEM_USED_RATIO);
}

bool gs_gpu_plausible(enum gs_gpu_field f, double value)
{
	/* By unit. Boards take up to 1.4 kW, clocks are below 4 GHz, NVLink 5 moves 1.8 TB/s: an
	 * order of magnitude of room. Counters of time and energy: a century, 10 kW for 30 years.
	 */
	static const struct {
		double least, most;
	} units[] = {
		[GS_UNIT_OF_NONE] = {0, 9007199254740992.0}, /* 2^53: counts are whole numbers */
		[GS_UNIT_OF_RATIO] =
			{0, 1.005}, /* arithmetic may exceed 1 a little; 101 percent may not */
		[GS_UNIT_OF_BYTES] = {0, 1152921504606846976.0}, /* 2^60 */
		[GS_UNIT_OF_CELSIUS] = {-60, 200},
		[GS_UNIT_OF_WATTS] = {0, 10e3},
		[GS_UNIT_OF_JOULES] = {0, 1e13},
		[GS_UNIT_OF_HERTZ] = {0, 20e9},
		[GS_UNIT_OF_SECONDS] = {0, 3.2e9},
		[GS_UNIT_OF_BPS] = {0, 100e12},
	};
	const struct gs_gpu_field_info *info = gs_gpu_field_info(f);
	double most;

	if (!info || info->unit >= GS_ARRAY_LEN(units))
		return false;
	most = units[info->unit].most;
	if (f == GS_GPU_FAN)
		most = 2.5; /* of the intended speed: may be more than all of it */
	else if (f == GS_GPU_PCIE_WIDTH || f == GS_GPU_PCIE_WIDTH_MAX || f == GS_GPU_PCIE_GEN ||
		 f == GS_GPU_PCIE_GEN_MAX)
		most = 64;
	/* A count of 32 bits that are all set means "not known" (NVML_VALUE_NOT_AVAILABLE). */
	if (info->unit == GS_UNIT_OF_NONE && value == 4294967295.0)
		return false;
	return value >= units[info->unit].least && value <= most;
}

const char *gs_gpu_reason_name(unsigned why)
{
	static const char *const names[] = {"ok",       "not_supported", "not_permitted",
					    "not_read", "failed",        "timed_out",
					    "lost",     "implausible"};

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
