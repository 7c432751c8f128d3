/*
 * GPU performance metrics (GPM), of Hopper and newer: shares of the time between two readings in
 * which parts of the GPU were active. They need no rights and do not exclude profilers. NVIDIA asks
 * for 100 ms or more between the two (nvml.h, nvmlGpmSampleGet); when the caller comes sooner the
 * values of before stay.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define APART_NS 100000000ull

#define PCT 0.01      /* to a ratio */
#define MIB 1048576.0 /* MiB/s to bytes a second */

static const struct {
	uint16_t id, field;
	double scale;
} metrics[] = {
	{NVML_GPM_GRAPHICS, GS_GPU_GR_ACTIVE, PCT},
	{NVML_GPM_SM, GS_GPU_SM_ACTIVE, PCT},
	{NVML_GPM_OCCUPANCY, GS_GPU_SM_OCCUPANCY, PCT},
	{NVML_GPM_INTEGER, GS_GPU_PIPE_INT, PCT},
	{NVML_GPM_TENSOR, GS_GPU_PIPE_TENSOR, PCT},
	{NVML_GPM_DFMA, GS_GPU_PIPE_DFMA, PCT},
	{NVML_GPM_HMMA, GS_GPU_PIPE_HMMA, PCT},
	{NVML_GPM_IMMA, GS_GPU_PIPE_IMMA, PCT},
	{NVML_GPM_DRAM, GS_GPU_DRAM_ACTIVE, PCT},
	{NVML_GPM_FP64, GS_GPU_PIPE_FP64, PCT},
	{NVML_GPM_FP32, GS_GPU_PIPE_FP32, PCT},
	{NVML_GPM_FP16, GS_GPU_PIPE_FP16, PCT},
	{NVML_GPM_PCIE_TX, GS_GPU_PCIE_TX_BPS, MIB},
	{NVML_GPM_PCIE_RX, GS_GPU_PCIE_RX_BPS, MIB},
	{NVML_GPM_NVLINK_TX, GS_GPU_NVLINK_TX_BPS, MIB},
	{NVML_GPM_NVLINK_RX, GS_GPU_NVLINK_RX_BPS, MIB},
};

/* The rates of bytes have another source, which stays where GPM has no value. */
static bool has_other_source(unsigned field)
{
	return field == GS_GPU_PCIE_TX_BPS || field == GS_GPU_PCIE_RX_BPS ||
	       field == GS_GPU_NVLINK_TX_BPS || field == GS_GPU_NVLINK_RX_BPS;
}

static void put_all(struct gs_nvml_device *dev, nvml_return r)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++)
		if (!has_other_source(metrics[i].field))
			gs_nvml_put(dev, metrics[i].field, r, 0);
}

/* Whether the GPU has GPM, and the room for two samples. */
static bool prepare_gpm(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_gpm_support support = {.version = 1};
	nvml_return r;

	if (dev->gpm_state == 2)
		return false;
	if (!nv->gpm_room)
		nv->gpm_room = malloc(sizeof(*nv->gpm_room));
	if (!nv->gpm_room)
		return false;
	if (dev->gpm_state == 1)
		return true;
	dev->gpm_state = 2;
	r = NVML(nv, gpm_support, dev->parent ? dev->parent : dev->handle, &support);
	if (r == NVML_OK && !support.supported)
		r = NVML_NOT_SUPPORTED;
	for (unsigned i = 0; r == NVML_OK && i < 2; i++)
		if (!dev->gpm[i])
			r = NVML(nv, gpm_alloc, &dev->gpm[i]);
	if (r != NVML_OK) {
		put_all(dev, r);
		return false;
	}
	dev->gpm_state = 1;
	return true;
}

static void compute_gpm(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_gpm_metrics *m = nv->gpm_room;
	nvml_return r;

	memset(m, 0,
	       offsetof(struct nvml_gpm_metrics, metrics) +
		       sizeof(m->metrics[0]) * GS_ARRAY_LEN(metrics));
	m->version = 1;
	m->n = GS_ARRAY_LEN(metrics);
	m->from = dev->gpm[!dev->gpm_at];
	m->to = dev->gpm[dev->gpm_at];
	for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++)
		m->metrics[i].id = metrics[i].id;
	r = NVML(nv, gpm_metrics, m);
	for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++) {
		nvml_return each = r == NVML_OK ? m->metrics[i].r : r;
		double v = gs_nvml_scaled(m->metrics[i].value, metrics[i].scale);

		/* Not a number, or nothing a share can be: the counters were reset in between. */
		if (each == NVML_OK && !(v >= 0 && (metrics[i].scale != PCT || v <= 1.01)))
			each = NVML_UNKNOWN;
		if (each == NVML_OK && metrics[i].scale == PCT && v > 1)
			v = 1;
		if (each == NVML_OK || !has_other_source(metrics[i].field))
			gs_nvml_put(dev, metrics[i].field, each, v);
		if (each == NVML_OK && has_other_source(metrics[i].field)) {
			dev->rate_from_gpm |=
				(uint8_t)(1u << (metrics[i].field - GS_GPU_PCIE_TX_BPS));
			dev->sample.part_ns[gs_gpu_part_of(metrics[i].field)] = gs_clock_boot_ns();
		}
		/* Both are the share of the time in which a kernel ran (nvml.h). */
		if (metrics[i].field == GS_GPU_GR_ACTIVE && dev->util_from_gpm) {
			gs_nvml_put(dev, GS_GPU_UTIL, each, v);
			dev->sample.part_ns[GS_GPU_PART_UTILIZATION] = gs_clock_boot_ns();
		}
	}
}

void gs_nvml_read_gpm(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	uint64_t now_ns = gs_clock_mono_ns();
	unsigned next = !dev->gpm_at;
	nvml_return r;

	if (!prepare_gpm(nv, dev) || (dev->gpm_time_ns && now_ns - dev->gpm_time_ns < APART_NS))
		return;
	if (dev->parent)
		r = NVML(nv, gpm_get_mig, dev->parent, (unsigned)dev->info.gpu_instance,
			 dev->gpm[next]);
	else
		r = NVML(nv, gpm_get, dev->handle, dev->gpm[next]);
	if (r != NVML_OK) {
		put_all(dev, r);
		dev->gpm_time_ns = 0;
		return;
	}
	dev->gpm_at = (uint8_t)next;
	if (dev->gpm_time_ns)
		compute_gpm(nv, dev);
	else
		for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++)
			if (!has_other_source(metrics[i].field))
				dev->sample.why[metrics[i].field] = GS_GPU_REASON_NOT_READ;
	dev->gpm_time_ns = now_ns;
}
