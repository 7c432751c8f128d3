/* Names of values as nvitop has them, which gswarm-profiler passes on with its units:
 * https://nvitop.readthedocs.io/en/latest/api/device.html */
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/session_file/session_file.h"

static const struct {
	const char *name;
	enum gs_gpu_field field;
	double factor;
} values[] = {
	{"temperature", GS_GPU_TEMP_GPU, 1},
	{"power_usage", GS_GPU_POWER, 1e-3}, /* milliwatts */
	{"power_draw", GS_GPU_POWER, 1e-3},
	{"power_limit", GS_GPU_POWER_LIMIT, 1e-3},
	{"total_energy_consumption", GS_GPU_ENERGY, 1e-3}, /* millijoules */
	{"sm_clock", GS_GPU_CLOCK_SM, 1e6},                /* MHz */
	{"memory_clock", GS_GPU_CLOCK_MEM, 1e6},
	{"graphics_clock", GS_GPU_CLOCK_GRAPHICS, 1e6},
	{"gpu_clock", GS_GPU_CLOCK_GRAPHICS, 1e6},
	{"video_clock", GS_GPU_CLOCK_VIDEO, 1e6},
	{"max_sm_clock", GS_GPU_CLOCK_SM_MAX, 1e6},
	{"max_memory_clock", GS_GPU_CLOCK_MEM_MAX, 1e6},
	{"memory_total", GS_GPU_MEM_TOTAL, 1}, /* bytes */
	{"memory_used", GS_GPU_MEM_USED, 1},
	{"memory_free", GS_GPU_MEM_FREE, 1},
	{"memory_utilization", GS_GPU_MEM_UTIL, 0.01}, /* percent */
	{"encoder_utilization", GS_GPU_ENC_UTIL, 0.01},
	{"decoder_utilization", GS_GPU_DEC_UTIL, 0.01},
	{"fan_speed", GS_GPU_FAN, 0.01},
	{"pcie_tx_throughput", GS_GPU_PCIE_TX_BPS, 1024}, /* KiB/s */
	{"pcie_rx_throughput", GS_GPU_PCIE_RX_BPS, 1024},
};

bool gs_session_file_nvitop(const char *name, enum gs_gpu_field *ret_field, double *ret_factor)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
		if (strcmp(name, values[i].name) != 0)
			continue;
		*ret_field = values[i].field;
		*ret_factor = values[i].factor;
		return true;
	}
	return false;
}
