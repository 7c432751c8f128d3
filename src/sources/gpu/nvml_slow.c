/*
 * Values that change slowly: limits, errors of memory and their repair, the PCIe link.
 */
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

static const struct gs_nvml_row repair_rows[] = {
	{NVML_FI_RETIRED_PENDING, GS_GPU_RETIRED_PENDING, 1, false},
	{NVML_FI_RECOVERY_ACTION, GS_GPU_RECOVERY_ACTION, 1, false},
};
static const struct gs_nvml_row pcie_link_rows[] = {
	{NVML_FI_PCIE_CORRECTABLE, GS_GPU_PCIE_CORRECTABLE, 1, false},
	{NVML_FI_PCIE_NON_FATAL, GS_GPU_PCIE_NON_FATAL, 1, false},
	{NVML_FI_PCIE_FATAL, GS_GPU_PCIE_FATAL, 1, false},
	{NVML_FI_PCIE_REPLAY, GS_GPU_PCIE_REPLAYS, 1, false},
};

/* A value that one call gives, with one number. */
#define ONE(call, field, scale)                                                                    \
	do {                                                                                       \
		unsigned one_number = 0;                                                           \
		nvml_return one = NVML_OF(nv, dev, call, dev->handle, &one_number);                \
                                                                                                   \
		gs_nvml_put(dev, field, one, gs_nvml_scaled(one_number, scale));                   \
	} while (0)

void gs_nvml_read_limits(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned id;
		enum gs_gpu_field field;
	} thresholds[] = {{NVML_THRESHOLD_SHUTDOWN, GS_GPU_TEMP_SHUTDOWN},
			  {NVML_THRESHOLD_SLOWDOWN, GS_GPU_TEMP_SLOWDOWN},
			  {NVML_THRESHOLD_MEM_MAX, GS_GPU_TEMP_MEM_MAX},
			  {NVML_THRESHOLD_GPU_MAX, GS_GPU_TEMP_GPU_MAX}},
	  clocks[] = {{NVML_CLOCK_SM, GS_GPU_CLOCK_SM_MAX},
		      {NVML_CLOCK_MEM, GS_GPU_CLOCK_MEM_MAX},
		      {NVML_CLOCK_GRAPHICS, GS_GPU_CLOCK_GRAPHICS_MAX},
		      {NVML_CLOCK_VIDEO, GS_GPU_CLOCK_VIDEO_MAX}};
	unsigned low = 0, high = 0, number = 0;
	nvml_return r;

	/* Not through NVML_OF: one threshold that is missing says nothing about the others. */
	for (size_t i = 0; i < GS_ARRAY_LEN(thresholds); i++) {
		r = NVML(nv, threshold, dev->handle, thresholds[i].id, &number);
		gs_nvml_put(dev, thresholds[i].field, r, number);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(clocks); i++) {
		r = NVML(nv, clock_max, dev->handle, clocks[i].id, &number);
		gs_nvml_put(dev, clocks[i].field, r, number * 1e6);
	}
	ONE(power_limit, GS_GPU_POWER_LIMIT, 1e-3);
	ONE(power_default, GS_GPU_POWER_LIMIT_DEFAULT, 1e-3);
	r = NVML_OF(nv, dev, power_bounds, dev->handle, &low, &high);
	gs_nvml_put(dev, GS_GPU_POWER_LIMIT_MIN, r, gs_nvml_scaled(low, 1e-3));
	gs_nvml_put(dev, GS_GPU_POWER_LIMIT_MAX, r, gs_nvml_scaled(high, 1e-3));
}

void gs_nvml_read_ecc(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned kind, counter;
		int location; /* -1: all */
		enum gs_gpu_field field;
	} counts[] = {
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, -1, GS_GPU_ECC_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, -1, GS_GPU_ECC_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_VOLATILE, -1, GS_GPU_ECC_NOW_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_VOLATILE, -1, GS_GPU_ECC_NOW_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_DRAM,
		 GS_GPU_ECC_DRAM_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_DRAM,
		 GS_GPU_ECC_DRAM_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_SRAM,
		 GS_GPU_ECC_SRAM_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_SRAM,
		 GS_GPU_ECC_SRAM_UNCORRECTED},
	};
	unsigned now = 0, pending = 0;
	nvml_return r = NVML_OF(nv, dev, ecc_mode, dev->handle, &now, &pending);

	gs_nvml_put(dev, GS_GPU_ECC_ENABLED, r, now);
	for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++) {
		unsigned long long n = 0;

		if (counts[i].location < 0)
			r = NVML(nv, ecc_total, dev->handle, counts[i].kind, counts[i].counter, &n);
		else
			r = NVML(nv, ecc_at, dev->handle, counts[i].kind, counts[i].counter,
				 (unsigned)counts[i].location, &n);
		gs_nvml_put(dev, counts[i].field, r, (double)n);
	}
}

void gs_nvml_read_repairs(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
	struct nvml_field f[2] = {{.id = NVML_FI_RETIRED_SBE}, {.id = NVML_FI_RETIRED_DBE}};
	nvml_return r = NVML_OF(nv, dev, remapped, dev->handle, &corrected, &uncorrected, &pending,
				&failed);

	gs_nvml_put(dev, GS_GPU_REMAP_CORRECTABLE, r, corrected);
	gs_nvml_put(dev, GS_GPU_REMAP_UNCORRECTABLE, r, uncorrected);
	gs_nvml_put(dev, GS_GPU_REMAP_PENDING, r, pending);
	gs_nvml_put(dev, GS_GPU_REMAP_FAILED, r, failed);
	r = NVML_OF(nv, dev, fields, dev->handle, 2, f);
	if (r == NVML_OK)
		r = f[0].r != NVML_OK ? f[0].r : f[1].r;
	gs_nvml_put(dev, GS_GPU_RETIRED_PAGES, r,
		    (double)(f[0].type == NVML_UINT ? f[0].value.ui : f[0].value.ull) +
			    (double)(f[1].type == NVML_UINT ? f[1].value.ui : f[1].value.ull));
	gs_nvml_read_rows(nv, dev, repair_rows, GS_ARRAY_LEN(repair_rows));
}

void gs_nvml_read_bar1(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_bar1 bar1 = {0};
	nvml_return r = NVML_OF(nv, dev, bar1, dev->handle, &bar1);

	gs_nvml_put(dev, GS_GPU_BAR1_TOTAL, r, (double)bar1.total);
	gs_nvml_put(dev, GS_GPU_BAR1_USED, r, (double)bar1.used);
}

void gs_nvml_read_pcie_link(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_rows(nv, dev, pcie_link_rows, GS_ARRAY_LEN(pcie_link_rows));
	ONE(pcie_gen, GS_GPU_PCIE_GEN, 1);
	ONE(pcie_gen_max, GS_GPU_PCIE_GEN_MAX, 1);
	ONE(pcie_width, GS_GPU_PCIE_WIDTH, 1);
	ONE(pcie_width_max, GS_GPU_PCIE_WIDTH_MAX, 1);
	if (!gs_gpu_has(&dev->sample, GS_GPU_PCIE_REPLAYS))
		ONE(pcie_replay, GS_GPU_PCIE_REPLAYS, 1);
}
