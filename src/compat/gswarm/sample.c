/*
 * What a client of gswarm-profiler sends, in our units. gpu_util and mem_util are shares; the
 * fields called *_gbps are KiB/s of PCIe and NVLink (NVML's own unit, which its clients pass on);
 * values of the system are percent. extra_metrics are methods of nvitop by name, in nvitop's units.
 */
#include <math.h>
#include <string.h>

#include "compat/gswarm/gswarm_int.h"
#include "pipeline/session_file/session_file.h"

#define GPUS_MAX 1024

GswarmProfiler__MetricsUpdate *gswarm_update(const void *data, size_t bytes)
{
	GswarmProfiler__MetricsUpdate *m =
		gswarm_profiler__metrics_update__unpack(NULL, bytes, data);

	if (m && m->n_gpus_metrics > GPUS_MAX) {
		gswarm_profiler__metrics_update__free_unpacked(m, NULL);
		m = NULL;
	}
	return m;
}

/* A value that can be: NaN (which its clients send for what a GPU does not report) is none. */
static void set_value(struct gs_gpu_sample *s, enum gs_gpu_field f, double v, double most)
{
	if (isfinite(v) && v >= 0 && v <= most)
		gs_gpu_set_checked(s, f, v);
	else
		s->why[f] = GS_GPU_REASON_FAILED;
}

static void set_extras(struct gs_gpu_sample *s, const Google__Protobuf__Struct *more)
{
	for (size_t i = 0; more && i < more->n_fields; i++) {
		const Google__Protobuf__Struct__FieldsEntry *e = more->fields[i];
		enum gs_gpu_field field;
		double factor;

		if (e->value && e->value->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE &&
		    gs_session_file_nvitop(e->key, &field, &factor))
			set_value(s, field, e->value->number_value * factor, 1e18);
	}
}

static void note_seen(struct gswarm_seen *seen, const GswarmProfiler__GPUMetric *m)
{
	seen->pcie |= m->dram_bw_gbps_rx > 0 || m->dram_bw_gbps_tx > 0;
	seen->nvlink_rx |= m->nvlink_bw_gbps_rx > 0;
	seen->nvlink_tx |= m->nvlink_bw_gbps_tx > 0;
}

static void fill_gpu(struct gs_gpu_info *info, struct gs_gpu_sample *s,
		     const GswarmProfiler__GPUMetric *m, const struct gswarm_seen *seen)
{
	*info = gs_gpu_info_unknown;
	info->index = m->physical_idx < 0 ? 0 : (uint32_t)m->physical_idx;
	info->vendor = GS_GPU_VENDOR_NVIDIA;
	snprintf(info->name, sizeof(info->name), "%s", m->name);
	memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
	set_value(s, GS_GPU_UTIL, m->gpu_util, 1);
	set_value(s, GS_GPU_MEM_USED_RATIO, m->mem_util, 1);
	/* nvitop's memory_pcie_throughput is (tx, rx); gswarm's clients, in all versions up to
	 * 0.4.3, send its first element as rx and the second as tx. */
	if (seen->pcie) {
		set_value(s, GS_GPU_PCIE_RX_BPS, m->dram_bw_gbps_tx * 1024, 1e15);
		set_value(s, GS_GPU_PCIE_TX_BPS, m->dram_bw_gbps_rx * 1024, 1e15);
	}
	if (seen->nvlink_rx)
		set_value(s, GS_GPU_NVLINK_RX_BPS, m->nvlink_bw_gbps_rx * 1024, 1e15);
	if (seen->nvlink_tx)
		set_value(s, GS_GPU_NVLINK_TX_BPS, m->nvlink_bw_gbps_tx * 1024, 1e15);
	set_extras(s, m->extra_metrics);
}

static double share_of(double percent)
{
	return isfinite(percent) && percent >= 0 && percent <= 100 ? percent / 100 : -1;
}

struct gs_node_snapshot *gswarm_sample(const GswarmProfiler__MetricsUpdate *update,
				       int64_t now_wall_ns, struct gswarm_seen *seen)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	struct gs_host_sample *h;
	struct gs_gpu_snapshot *g;

	if (n) {
		n->gpu = calloc(1, sizeof(*n->gpu));
		n->host = calloc(1, sizeof(*n->host));
	}
	if (n && n->gpu && n->host) {
		n->gpu->info = calloc(update->n_gpus_metrics + 1, sizeof(*n->gpu->info));
		n->gpu->sample = calloc(update->n_gpus_metrics + 1, sizeof(*n->gpu->sample));
	}
	if (!n || !n->gpu || !n->host || !n->gpu->info || !n->gpu->sample) {
		gs_node_snapshot_free(&n);
		return NULL;
	}
	g = n->gpu;
	h = &n->host->sample;
	/* Seconds as a double are good to a fraction of a microsecond. */
	n->wall_ns = update->timestamp > 1 && update->timestamp < 9e9
			     ? (int64_t)(update->timestamp * 1e9)
			     : now_wall_ns;
	n->time_ns = g->time_ns = (uint64_t)n->wall_ns;
	g->wall_ns = n->wall_ns;
	snprintf(n->name, sizeof(n->name), "%s", update->hostname);
	*h = gs_host_sample_unknown;
	h->time_ns = n->time_ns;
	if (update->system_metrics) {
		h->mem_used_ratio = share_of(update->system_metrics->dram_util);
		h->root_used_ratio = share_of(update->system_metrics->disk_util);
	}
	g->n_gpus = (uint32_t)update->n_gpus_metrics;
	for (uint32_t i = 0; i < g->n_gpus; i++)
		note_seen(seen, update->gpus_metrics[i]);
	for (uint32_t i = 0; i < g->n_gpus; i++) {
		fill_gpu(&g->info[i], &g->sample[i], update->gpus_metrics[i], seen);
		g->sample[i].time_ns = n->time_ns;
	}
	return n;
}
