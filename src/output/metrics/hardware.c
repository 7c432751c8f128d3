/*
 * GPUs by the names of OpenTelemetry's semantic conventions for hardware (v1.44, "Development":
 * docs/hardware/{gpu,common,temperature}.md of open-telemetry/semantic-conventions), where those
 * have a metric. Their names have dots: for writers of OTLP alone.
 */
#include <string.h>

#include "output/metrics/metrics_int.h"

#define LABELS_MAX 8 /* with which a row and its GPU's lead go */

struct row {
	const char *name;
	enum gs_metrics_kind kind;
	const char *unit, *help;
	enum gs_gpu_field field;
	/* sensor: the component is a part of the GPU, whose hw.id and hw.parent say so; NULL: it is
	 * the GPU. */
	const char *label, *label_value, *type, *sensor;
};

/* Rows of one family stand together. */
static const struct row rows[] = {
	{"hw.gpu.utilization", GS_METRICS_GAUGE, "1", "Fraction of time spent in a specific task.",
	 GS_GPU_UTIL, "hw.gpu.task", "general", NULL, NULL},
	{"hw.gpu.utilization", GS_METRICS_GAUGE, "1", "", GS_GPU_ENC_UTIL, "hw.gpu.task", "encoder",
	 NULL, NULL},
	{"hw.gpu.utilization", GS_METRICS_GAUGE, "1", "", GS_GPU_DEC_UTIL, "hw.gpu.task", "decoder",
	 NULL, NULL},
	{"hw.gpu.memory.usage", GS_METRICS_UPDOWN, "By", "GPU memory used.", GS_GPU_MEM_USED, "",
	 "", NULL, NULL},
	{"hw.gpu.memory.limit", GS_METRICS_UPDOWN, "By", "Size of the GPU memory.",
	 GS_GPU_MEM_TOTAL, "", "", NULL, NULL},
	{"hw.gpu.io", GS_METRICS_COUNTER, "By",
	 "Received and transmitted bytes by the GPU (over PCIe).", GS_GPU_PCIE_TX,
	 "network.io.direction", "transmit", NULL, NULL},
	{"hw.gpu.io", GS_METRICS_COUNTER, "By", "", GS_GPU_PCIE_RX, "network.io.direction",
	 "receive", NULL, NULL},
	{"hw.power", GS_METRICS_GAUGE, "W", "Instantaneous power consumed by the component.",
	 GS_GPU_POWER, "", "", "gpu", NULL},
	{"hw.energy", GS_METRICS_COUNTER, "J", "Energy consumed by the component.", GS_GPU_ENERGY,
	 "", "", "gpu", NULL},
	{"hw.errors", GS_METRICS_COUNTER, "{error}",
	 "Number of errors encountered by the component (ECC).", GS_GPU_ECC_CORRECTED, "error.type",
	 "corrected", "gpu", NULL},
	{"hw.errors", GS_METRICS_COUNTER, "{error}", "", GS_GPU_ECC_UNCORRECTED, "error.type",
	 "uncorrected", "gpu", NULL},
	{"hw.temperature", GS_METRICS_GAUGE, "Cel", "Temperature in degrees Celsius.",
	 GS_GPU_TEMP_GPU, "hw.sensor_location", "gpu", NULL, "gpu"},
	{"hw.temperature", GS_METRICS_GAUGE, "Cel", "", GS_GPU_TEMP_MEM, "hw.sensor_location",
	 "memory", NULL, "memory"},
	{"hw.fan.speed_ratio", GS_METRICS_GAUGE, "1",
	 "Fan speed expressed as a fraction of its maximum.", GS_GPU_FAN, "", "", NULL, "fan"},
};

int gs_metrics_hardware_labels(struct gs_metrics_gpus *g)
{
	static const char *const vendors[] = {"", "NVIDIA", "AMD"};
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_info *info = &g->snapshot->info[i];
		char name[32];
		const struct gs_metrics_label labels[] = {
			{"hw.name", name},
			{"hw.vendor",
			 info->vendor < GS_ARRAY_LEN(vendors) ? vendors[info->vendor] : ""},
			{"hw.model", info->name},
			{"hw.serial_number", info->serial},
			{"hw.driver_version", info->driver_version},
			{"hw.firmware_version", info->vbios},
		};

		snprintf(name, sizeof(name), "GPU %u", info->index);
		g->hidden[i] = gs_metrics_gpu_hidden(g, i);
		r = gs_metrics_gpus_add(g, i, labels, GS_ARRAY_LEN(labels));
	}
	return r;
}

static void put_line(struct gs_metrics *p, const struct gs_metrics_gpus *g, uint32_t gpu,
		     const struct row *row, double value)
{
	const struct gs_gpu_info *info = &g->snapshot->info[gpu];
	struct gs_metrics_label labels[LABELS_MAX];
	char id[sizeof(info->uuid) + 16];
	size_t n = 0;

	snprintf(id, sizeof(id), row->sensor ? "%s/%s" : "%s", info->uuid, row->sensor);
	labels[n++] = (struct gs_metrics_label){"hw.id", id};
	if (row->type)
		labels[n++] = (struct gs_metrics_label){"hw.type", row->type};
	if (row->sensor)
		labels[n++] = (struct gs_metrics_label){"hw.parent", info->uuid};
	if (row->label[0])
		labels[n++] = (struct gs_metrics_label){row->label, row->label_value};
	gs_metrics_line(p, gs_metrics_gpu_labels(g, gpu), labels, n, value, g->time_ms[gpu]);
}

static bool has_true(const struct gs_gpu_sample *s, enum gs_gpu_field field)
{
	return gs_gpu_has(s, field) && s->value[field] > 0;
}

/* Of the states that the conventions have, one is 1. */
static void put_status(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	static const char *const states[] = {"ok", "degraded", "failed"};

	gs_metrics_family(
		p, "hw.status", GS_METRICS_UPDOWN, "1",
		"Operational status: 1 (true) or 0 (false) for each of the possible states.");
	for (uint32_t i = 0; i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_sample *s = &g->snapshot->sample[i];
		unsigned state =
			s->lost || has_true(s, GS_GPU_REMAP_FAILED) ? 2
			: has_true(s, GS_GPU_REMAP_PENDING) || has_true(s, GS_GPU_RECOVERY_ACTION)
				? 1
				: 0;

		/* A driver that does not answer says nothing of its GPUs. */
		for (unsigned k = 0;
		     g->snapshot->state == GS_GPU_STATE_OK && k < GS_ARRAY_LEN(states); k++) {
			const struct row row = {
				.label = "hw.state", .label_value = states[k], .type = "gpu"};

			put_line(p, g, i, &row, k == state);
		}
	}
}

/* Of memory in use, which no field has. */
static void put_memory(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	static const struct row row = {.label = ""};

	gs_metrics_family(p, "hw.gpu.memory.utilization", GS_METRICS_GAUGE, "1",
			  "Fraction of GPU memory used.");
	for (uint32_t i = 0; i < g->snapshot->n_gpus; i++)
		if (!g->hidden[i])
			put_line(p, g, i, &row, gs_gpu_memory_ratio(&g->snapshot->sample[i]));
}

void gs_metrics_hardware(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	for (size_t k = 0; k < GS_ARRAY_LEN(rows); k++) {
		const struct row *row = &rows[k];

		if (!k || strcmp(rows[k - 1].name, row->name) != 0)
			gs_metrics_family(p, row->name, row->kind, row->unit, row->help);
		for (uint32_t i = 0; i < g->snapshot->n_gpus; i++)
			if (!g->hidden[i] && gs_gpu_has(&g->snapshot->sample[i], row->field))
				put_line(p, g, i, row, g->snapshot->sample[i].value[row->field]);
	}
	put_memory(p, g);
	put_status(p, g);
}
