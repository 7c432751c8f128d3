/*
 * The GPU's values under dcgm-exporter's names, labels and units, so that dashboards and alerts
 * made for it work. Two sets: the names that dcgm-exporter has always had (up to 4.8), and those
 * that DCGM 4.7 brought, in base units (dcgm_fields.h of DCGM 4.6 and 4.7). DCGM has a row for
 * each; what it does not have is not here.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "output/metrics/metrics_int.h"

#define MIB (1.0 / 1048576)

struct row {
	enum gs_gpu_field field;
	bool counter;
	double scale;                    /* from our unit to that of the old name */
	bool whole;                      /* the old one is a whole number */
	const char *name, *help;         /* old */
	const char *new_name, *new_help; /* NULL: as the old one, unit and all */
};

static const struct row rows[] = {
	{GS_GPU_CLOCK_SM, false, 1e-6, true, "DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).",
	 "DCGM_FI_DEV_SM_CLOCK_HERTZ", "SM clock frequency (in Hz)."},
	{GS_GPU_CLOCK_MEM, false, 1e-6, true, "DCGM_FI_DEV_MEM_CLOCK",
	 "Memory clock frequency (in MHz).", "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ",
	 "Memory clock frequency (in Hz)."},
	{GS_GPU_CLOCK_VIDEO, false, 1e-6, true, "DCGM_FI_DEV_VIDEO_CLOCK",
	 "Video encoder/decoder clock (in MHz).", "DCGM_FI_DEV_VIDEO_CLOCK_HERTZ",
	 "Video encoder/decoder clock (in Hz)."},
	{GS_GPU_CLOCK_SM_MAX, false, 1e-6, true, "DCGM_FI_DEV_MAX_SM_CLOCK",
	 "Maximum supported SM clock (in MHz).", "DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ",
	 "Maximum supported SM clock (in Hz)."},
	{GS_GPU_CLOCK_MEM_MAX, false, 1e-6, true, "DCGM_FI_DEV_MAX_MEM_CLOCK",
	 "Maximum supported memory clock (in MHz).", "DCGM_FI_DEV_MEMORY_MAX_CLOCK_HERTZ",
	 "Maximum supported memory clock (in Hz)."},
	{GS_GPU_THROTTLE_REASONS, false, 1, true, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
	 "Current clock throttle reasons (bitmask).", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
	 "Current clock event reasons (bitmask)."},
	{GS_GPU_TEMP_MEM, false, 1, true, "DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).",
	 "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "Memory temperature (in C)."},
	{GS_GPU_TEMP_GPU, false, 1, true, "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).",
	 "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "GPU temperature (in C)."},
	{GS_GPU_TEMP_SLOWDOWN, false, 1, true, "DCGM_FI_DEV_SLOWDOWN_TEMP",
	 "Slowdown temperature (in C).", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS",
	 "Slowdown temperature (in C)."},
	{GS_GPU_TEMP_SHUTDOWN, false, 1, true, "DCGM_FI_DEV_SHUTDOWN_TEMP",
	 "Shutdown temperature (in C).", "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS",
	 "Shutdown temperature (in C)."},
	{GS_GPU_POWER, false, 1, false, "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).",
	 "DCGM_FI_DEV_BOARD_POWER_WATTS", "Power draw (in W)."},
	{GS_GPU_POWER_INSTANT, false, 1, false, "DCGM_FI_DEV_POWER_USAGE_INSTANT",
	 "Instantaneous power draw (in W).", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS",
	 "Instantaneous power draw (in W)."},
	{GS_GPU_POWER_LIMIT, false, 1, false, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
	 "Power limit that the driver enforces (in W).",
	 "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
	 "Power limit that the driver enforces (in W)."},
	{GS_GPU_POWER_LIMIT_DEFAULT, false, 1, false, "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
	 "Default power limit (in W).", "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS",
	 "Default power limit (in W)."},
	{GS_GPU_POWER_LIMIT_MAX, false, 1, false, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
	 "Highest power limit (in W).", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS",
	 "Highest power limit (in W)."},
	{GS_GPU_ENERGY, true, 1e3, true, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
	 "Total energy consumption since boot (in mJ).", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
	 "Total energy consumption since boot (in J)."},
	{GS_GPU_PSTATE, false, 1, true, "DCGM_FI_DEV_PSTATE", "Performance state, 0 the fastest.",
	 "DCGM_FI_DEV_GPU_PSTATE", "Performance state, 0 the fastest."},
	{GS_GPU_FAN, false, 100, true, "DCGM_FI_DEV_FAN_SPEED", "Fan speed (in %).",
	 "DCGM_FI_DEV_FAN_SPEED_RATIO", "Fan speed, of its highest."},
	{GS_GPU_PCIE_REPLAYS, true, 1, true, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
	 "Total number of PCIe retries.", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
	 "Total number of PCIe retries."},
	{GS_GPU_PCIE_GEN_MAX, false, 1, true, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
	 "PCIe highest link generation.", NULL, NULL},
	{GS_GPU_PCIE_WIDTH_MAX, false, 1, true, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
	 "PCIe highest link width.", NULL, NULL},
	{GS_GPU_PCIE_GEN, false, 1, true, "DCGM_FI_DEV_PCIE_LINK_GEN",
	 "PCIe current link generation.", NULL, NULL},
	{GS_GPU_PCIE_WIDTH, false, 1, true, "DCGM_FI_DEV_PCIE_LINK_WIDTH",
	 "PCIe current link width.", NULL, NULL},
	{GS_GPU_UTIL, false, 100, true, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).",
	 "DCGM_FI_DEV_GPU_UTIL_RATIO", "GPU utilization (0 to 1)."},
	{GS_GPU_MEM_UTIL, false, 100, true, "DCGM_FI_DEV_MEM_COPY_UTIL",
	 "Memory utilization (in %).", "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
	 "Memory utilization (0 to 1)."},
	{GS_GPU_ENC_UTIL, false, 100, true, "DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).",
	 "DCGM_FI_DEV_ENC_UTIL_RATIO", "Encoder utilization (0 to 1)."},
	{GS_GPU_DEC_UTIL, false, 100, true, "DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).",
	 "DCGM_FI_DEV_DEC_UTIL_RATIO", "Decoder utilization (0 to 1)."},
	{GS_GPU_THROTTLE_SW_POWER, true, 1e9, true, "DCGM_FI_DEV_POWER_VIOLATION",
	 "Throttling duration due to power constraints (in ns).",
	 "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL",
	 "Throttling duration due to power constraints (in s)."},
	{GS_GPU_THROTTLE_SW_THERMAL, true, 1e9, true, "DCGM_FI_DEV_THERMAL_VIOLATION",
	 "Throttling duration due to thermal constraints (in ns).",
	 "DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL",
	 "Throttling duration due to thermal constraints (in s)."},
	{GS_GPU_THROTTLE_SYNC_BOOST, true, 1e9, true, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
	 "Throttling duration due to sync-boost constraints (in ns).",
	 "DCGM_FI_DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL",
	 "Throttling duration due to sync-boost constraints (in s)."},
	{GS_GPU_MEM_TOTAL, false, MIB, true, "DCGM_FI_DEV_FB_TOTAL", "Framebuffer memory (in MiB).",
	 "DCGM_FI_DEV_FB_CAPACITY_BYTES", "Framebuffer memory (in bytes)."},
	{GS_GPU_MEM_FREE, false, MIB, true, "DCGM_FI_DEV_FB_FREE",
	 "Framebuffer memory free (in MiB).", "DCGM_FI_DEV_FB_FREE_BYTES",
	 "Framebuffer memory free (in bytes)."},
	{GS_GPU_MEM_USED, false, MIB, true, "DCGM_FI_DEV_FB_USED",
	 "Framebuffer memory used (in MiB).", "DCGM_FI_DEV_FB_USED_BYTES",
	 "Framebuffer memory used (in bytes)."},
	{GS_GPU_MEM_RESERVED, false, MIB, true, "DCGM_FI_DEV_FB_RESERVED",
	 "Framebuffer memory reserved (in MiB).", "DCGM_FI_DEV_FB_RESERVED_BYTES",
	 "Framebuffer memory reserved (in bytes)."},
	{GS_GPU_BAR1_TOTAL, false, MIB, true, "DCGM_FI_DEV_BAR1_TOTAL", "BAR1 memory (in MiB).",
	 "DCGM_FI_DEV_BAR1_TOTAL_BYTES", "BAR1 memory (in bytes)."},
	{GS_GPU_BAR1_USED, false, MIB, true, "DCGM_FI_DEV_BAR1_USED", "BAR1 memory used (in MiB).",
	 "DCGM_FI_DEV_BAR1_USED_BYTES", "BAR1 memory used (in bytes)."},
	{GS_GPU_ECC_ENABLED, false, 1, true, "DCGM_FI_DEV_ECC_MODE", "1 when ECC is on.", NULL,
	 NULL},
	{GS_GPU_ECC_CORRECTED, true, 1, true, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
	 "Total number of single-bit persistent ECC errors.", NULL, NULL},
	{GS_GPU_ECC_UNCORRECTED, true, 1, true, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
	 "Total number of double-bit persistent ECC errors.", NULL, NULL},
	{GS_GPU_REMAP_UNCORRECTABLE, true, 1, true, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
	 "Number of remapped rows for uncorrectable errors.",
	 "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
	 "Number of remapped rows for uncorrectable errors."},
	{GS_GPU_REMAP_CORRECTABLE, true, 1, true, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
	 "Number of remapped rows for correctable errors.",
	 "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
	 "Number of remapped rows for correctable errors."},
	{GS_GPU_REMAP_FAILED, false, 1, true, "DCGM_FI_DEV_ROW_REMAP_FAILURE",
	 "Whether remapping of rows has failed.", "DCGM_FI_DEV_ROW_REMAP_FAILED",
	 "Whether remapping of rows has failed."},
	{GS_GPU_REMAP_PENDING, false, 1, true, "DCGM_FI_DEV_ROW_REMAP_PENDING",
	 "Whether remapping of rows is pending.", NULL, NULL},
	{GS_GPU_GR_ACTIVE, false, 1, false, "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
	 "Ratio of time the graphics engine is active.", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
	 "Ratio of time the graphics engine is active."},
	{GS_GPU_SM_ACTIVE, false, 1, false, "DCGM_FI_PROF_SM_ACTIVE",
	 "The ratio of cycles an SM has at least 1 warp assigned.", "DCGM_FI_PROF_SM_UTIL_RATIO",
	 "The ratio of cycles an SM has at least 1 warp assigned."},
	{GS_GPU_SM_OCCUPANCY, false, 1, false, "DCGM_FI_PROF_SM_OCCUPANCY",
	 "The ratio of number of warps resident on an SM.", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
	 "The ratio of number of warps resident on an SM."},
	{GS_GPU_PIPE_TENSOR, false, 1, false, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
	 "Ratio of cycles the tensor (HMMA) pipe is active.", "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
	 "Ratio of cycles the tensor (HMMA) pipe is active."},
	{GS_GPU_DRAM_ACTIVE, false, 1, false, "DCGM_FI_PROF_DRAM_ACTIVE",
	 "Ratio of cycles the device memory interface is active sending or receiving data.",
	 "DCGM_FI_PROF_DRAM_UTIL_RATIO",
	 "Ratio of cycles the device memory interface is active sending or receiving data."},
	{GS_GPU_PIPE_FP64, false, 1, false, "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
	 "Ratio of cycles the fp64 pipes are active.", "DCGM_FI_PROF_FP64_UTIL_RATIO",
	 "Ratio of cycles the fp64 pipes are active."},
	{GS_GPU_PIPE_FP32, false, 1, false, "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
	 "Ratio of cycles the fp32 pipes are active.", "DCGM_FI_PROF_FP32_UTIL_RATIO",
	 "Ratio of cycles the fp32 pipes are active."},
	{GS_GPU_PIPE_FP16, false, 1, false, "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
	 "Ratio of cycles the fp16 pipes are active.", "DCGM_FI_PROF_FP16_UTIL_RATIO",
	 "Ratio of cycles the fp16 pipes are active."},
	{GS_GPU_PCIE_TX_BPS, false, 1, true, "DCGM_FI_PROF_PCIE_TX_BYTES",
	 "The rate of data transmitted over the PCIe bus (in bytes per second).", NULL, NULL},
	{GS_GPU_PCIE_RX_BPS, false, 1, true, "DCGM_FI_PROF_PCIE_RX_BYTES",
	 "The rate of data received over the PCIe bus (in bytes per second).", NULL, NULL},
	{GS_GPU_NVLINK_TX_BPS, false, 1, true, "DCGM_FI_PROF_NVLINK_TX_BYTES",
	 "The rate of data transmitted over NVLink (in bytes per second).", NULL, NULL},
	{GS_GPU_NVLINK_RX_BPS, false, 1, true, "DCGM_FI_PROF_NVLINK_RX_BYTES",
	 "The rate of data received over NVLink (in bytes per second).", NULL, NULL},
};

/* dcgm-exporter shows a part under its GPU's UUID, and knows no compute instances: of those that
 * share a GPU instance the first stands for all. */
static void part_of(const struct gs_metrics_gpus *g, uint32_t gpu, const char **ret_uuid,
		    bool *ret_hidden)
{
	const struct gs_gpu_info *info = g->snapshot->info, *part = &info[gpu];

	for (uint32_t i = 0; i < gpu; i++) {
		if (info[i].index != part->index)
			continue;
		if (!info[i].is_mig)
			*ret_uuid = info[i].uuid;
		else if (info[i].gpu_instance == part->gpu_instance)
			*ret_hidden = true;
	}
}

int gs_metrics_dcgm_labels(struct gs_metrics_gpus *g)
{
	bool is_new = g->names == GS_METRICS_DCGM_NEW;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_info *info = &g->snapshot->info[i];
		const char *uuid = info->uuid;
		char index[16], device[24], instance[16] = "";

		snprintf(index, sizeof(index), "%u", info->index);
		snprintf(device, sizeof(device), "nvidia%d",
			 info->minor >= 0 ? info->minor : (int)info->index);
		g->hidden[i] = gs_metrics_gpu_hidden(g, i);
		if (info->is_mig) {
			snprintf(instance, sizeof(instance), "%d", info->gpu_instance);
			part_of(g, i, &uuid, &g->hidden[i]);
		}
		r = gs_metrics_gpus_add(
			g, i,
			(struct gs_metrics_label[]){
				{"gpu", index},
				{"UUID", uuid},
				{"pci_bus_id", info->pci_bus_id},
				{"device", device},
				{"modelName", info->name},
				{"GPU_I_PROFILE", info->mig_profile},
				{"GPU_I_ID", instance},
				{is_new ? "hostname" : "Hostname", g->options->hostname},
				{"DCGM_FI_DRIVER_VERSION", info->driver_version},
			},
			9);
	}
	return r;
}

/* The code of the newest XID; dcgm-exporter shows 0 when there was none. */
static uint32_t last_xid(const struct gs_metrics_gpus *g, const char *uuid)
{
	const struct gs_metrics_xid *last = NULL;

	for (size_t i = 0; i < g->n_xids; i++)
		if (strcmp(g->xids[i].uuid, uuid) == 0 &&
		    (!last || g->xids[i].time_ns >= last->time_ns))
			last = &g->xids[i];
	return last ? last->xid : 0;
}

/* DCGM's field 449: not the counter that its name and dcgm-exporter up to 4.8 say, but the growth of
 * NVML's counters, both ways, over the time between two readings: KiB/s divided by 1000
 * (DcgmCacheManager::ReadAndCacheNvLinkBandwidth; dcgm-exporter#658). */
static void nvlink_bandwidth(struct gs_metrics *p, const struct gs_metrics_gpus *g, bool is_new)
{
	const struct gs_gpu_snapshot *s = g->snapshot;

	if (is_new)
		gs_metrics_family(p, "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", GS_METRICS_GAUGE, "",
				  "NVLink throughput of all links, both ways (in B/s).");
	else
		gs_metrics_family(p, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", GS_METRICS_GAUGE, "",
				  "NVLink throughput of all links, both ways (in MB/s).");
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		const struct gs_gpu_sample *x = &s->sample[i];
		double sum = x->value[GS_GPU_NVLINK_TX_BPS] + x->value[GS_GPU_NVLINK_RX_BPS];

		if (!g->hidden[i] && gs_gpu_has(x, GS_GPU_NVLINK_TX_BPS) &&
		    gs_gpu_has(x, GS_GPU_NVLINK_RX_BPS))
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0,
					is_new ? sum : floor(sum / 1024000), g->time_ms[i]);
	}
}

void gs_metrics_dcgm(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	bool is_new = g->names == GS_METRICS_DCGM_NEW;
	const struct gs_gpu_snapshot *s = g->snapshot;

	for (size_t k = 0; k < GS_ARRAY_LEN(rows); k++) {
		const struct row *row = &rows[k];
		bool renamed = is_new && row->new_name;

		/* A family is put once: with both sets, under the labels of the old one. */
		if (is_new && !renamed && (g->options->names & GS_METRICS_DCGM))
			continue;
		gs_metrics_family(p, renamed ? row->new_name : row->name,
				  row->counter ? GS_METRICS_BARE : GS_METRICS_GAUGE, "",
				  renamed ? row->new_help : row->help);
		for (uint32_t i = 0; i < s->n_gpus; i++) {
			double value = s->sample[i].value[row->field];

			if (g->hidden[i] || !gs_gpu_has(&s->sample[i], row->field))
				continue;
			if (!renamed) {
				value *= row->scale;
				/* 0.29 * 100 is a little less than 29. */
				if (row->whole)
					value = floor(value + 1e-6);
			}
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0, value,
					g->time_ms[i]);
		}
	}
	nvlink_bandwidth(p, g, is_new);
	gs_metrics_family(p, is_new ? "DCGM_FI_DEV_XID_ERROR" : "DCGM_FI_DEV_XID_ERRORS",
			  GS_METRICS_GAUGE, "", "Value of the last XID error encountered.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		if (!g->hidden[i])
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0,
					last_xid(g, s->info[i].uuid), g->time_ms[i]);
}
