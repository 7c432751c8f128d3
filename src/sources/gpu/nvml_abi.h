/*
 * What gpuscope uses of NVML's binary interface: our own declarations, because the library is found
 * at run time and its header is not needed to build. Numbers and layouts are those of NVIDIA's
 * nvml.h (API 13; unchanged since the version named at each); layouts are asserted here, and
 * tests/unit/gpu compares all of it with a real nvml.h where one is installed.
 *
 * Fields as in nvml.h, in its units: shares in percent, sizes in bytes.
 */
#ifndef GS_SOURCES_GPU_NVML_ABI_H
#define GS_SOURCES_GPU_NVML_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

typedef int nvml_return; /* nvmlReturn_t */

enum {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_NO_DATA = 21,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_DEPRECATED = 26,
	NVML_UNKNOWN = 999,
};

struct nvml_device_handle; /* nvmlDevice_t is a pointer to it */
struct nvml_event_set;
struct nvml_gpm_sample;
typedef struct nvml_device_handle *nvml_dev;

#define NVML_VERSION_OF(type, v) ((unsigned)(sizeof(type) | ((unsigned)(v) << 24)))

struct nvml_utilization { /* nvmlUtilization_t */
	unsigned gpu, memory;
};

struct nvml_memory { /* nvmlMemory_t */
	unsigned long long total, free, used;
};
static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

struct nvml_memory_v2 { /* nvmlMemory_v2_t, driver 510 */
	unsigned version;
	unsigned long long total, reserved, free, used;
};
static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
static_assert(offsetof(struct nvml_memory_v2, total) == 8, "nvmlMemory_v2_t");

struct nvml_bar1 { /* nvmlBAR1Memory_t */
	unsigned long long total, free, used;
};
static_assert(sizeof(struct nvml_bar1) == 24, "nvmlBAR1Memory_t");

struct nvml_pci { /* nvmlPciInfo_t, of nvmlDeviceGetPciInfo_v3 */
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");
static_assert(offsetof(struct nvml_pci, bus_id) == 36, "nvmlPciInfo_t");

struct nvml_process { /* nvmlProcessInfo_t of the calls _v2 and _v3 */
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_t");
static_assert(offsetof(struct nvml_process, gpu_instance) == 16, "nvmlProcessInfo_t");

struct nvml_process_v1 { /* nvmlProcessInfo_v1_t */
	unsigned pid;
	unsigned long long used_bytes;
};
static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");

#define NVML_VALUE_UNKNOWN_64 (~0ull) /* NVML_VALUE_NOT_AVAILABLE: memory of a process */

struct nvml_process_sample { /* nvmlProcessUtilizationSample_t */
	unsigned pid;
	unsigned long long time_us; /* since 1970 */
	unsigned sm, mem, enc, dec; /* percent */
};
static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");

struct nvml_process_util { /* nvmlProcessUtilizationInfo_v1_t, driver 550 */
	unsigned long long time_us;
	unsigned pid, sm, mem, enc, dec, jpg, ofa;
};
static_assert(sizeof(struct nvml_process_util) == 40, "nvmlProcessUtilizationInfo_v1_t");

struct nvml_processes_util { /* nvmlProcessesUtilizationInfo_v1_t */
	unsigned version, n;
	unsigned long long last_seen_us;
	struct nvml_process_util *rows;
};
static_assert(sizeof(struct nvml_processes_util) == 24, "nvmlProcessesUtilizationInfo_v1_t");

struct nvml_accounting { /* nvmlAccountingStats_t */
	unsigned gpu_pct, memory_pct;
	unsigned long long max_memory_bytes, time_ms, start_us;
	unsigned is_running;
	unsigned reserved[5];
};
static_assert(sizeof(struct nvml_accounting) == 56, "nvmlAccountingStats_t");

struct nvml_attributes { /* nvmlDeviceAttributes_t */
	unsigned n_sms, n_copy, n_dec, n_enc, n_jpeg, n_ofa, n_gpu_slices, n_compute_slices;
	unsigned long long memory_mib;
};
static_assert(sizeof(struct nvml_attributes) == 40, "nvmlDeviceAttributes_t");

enum { /* nvmlValueType_t */
       NVML_DOUBLE = 0,
       NVML_UINT = 1,
       NVML_ULONG = 2,
       NVML_ULLONG = 3,
       NVML_LLONG = 4,
       NVML_INT = 5,
       NVML_USHORT = 6,
};

struct nvml_field { /* nvmlFieldValue_t */
	unsigned id, scope;
	long long time_us, latency_us;
	unsigned type;
	nvml_return r;
	union {
		double d;
		int si;
		unsigned ui;
		unsigned long ul;
		unsigned long long ull;
		long long sll;
		unsigned short us;
	} value;
};
static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
static_assert(offsetof(struct nvml_field, value) == 32, "nvmlFieldValue_t");

#define NVML_SCOPE_ALL 0xffffffffu /* of NVLink counters: summed over all links */

enum { /* NVML_FI_DEV_*; units as measured by NVML */
       NVML_FI_RETIRED_SBE = 29,
       NVML_FI_RETIRED_DBE = 30,
       NVML_FI_RETIRED_PENDING = 31,
       NVML_FI_PERF_POLICY_POWER = 74, /* ns */
       NVML_FI_PERF_POLICY_THERMAL = 75,
       NVML_FI_PERF_POLICY_SYNC_BOOST = 76,
       NVML_FI_PERF_POLICY_BOARD_LIMIT = 77,
       NVML_FI_PERF_POLICY_LOW_UTILIZATION = 78,
       NVML_FI_PERF_POLICY_RELIABILITY = 79,
       NVML_FI_MEMORY_TEMP = 82,
       NVML_FI_ENERGY = 83, /* mJ since the driver was loaded */
       NVML_FI_PCIE_REPLAY = 94,
       NVML_FI_NVLINK_DATA_TX = 138, /* KiB; scope: link */
       NVML_FI_NVLINK_DATA_RX = 139,
       NVML_FI_LINK_REPLAY = 161, /* of Hopper and newer; scope: link */
       NVML_FI_LINK_RECOVERY = 162,
       NVML_FI_LINK_CRC = 163,
       NVML_FI_LINK_STATE = 165,
       NVML_FI_C2C_COUNT = 170,
       NVML_FI_C2C_STATUS = 171, /* 1 active; scope: link */
       NVML_FI_C2C_MAX_BW = 172, /* MB/s; scope: link */
       NVML_FI_PCIE_CORRECTABLE = 173,
       NVML_FI_PCIE_NON_FATAL = 179,
       NVML_FI_PCIE_FATAL = 180,
       NVML_FI_POWER_AVERAGE = 185, /* mW */
       NVML_FI_POWER_INSTANT = 186,
       NVML_FI_PCIE_TX_BYTES = 197, /* wraps; driver 555 */
       NVML_FI_PCIE_RX_BYTES = 198,
       NVML_FI_NVLINK_XMIT_BYTES = 202, /* NVLink 5, in place of 138 and 139 */
       NVML_FI_NVLINK_RCV_BYTES = 204,
       NVML_FI_NVLINK_MALFORMED = 206, /* errors of NVLink 5; scope: link */
       NVML_FI_NVLINK_OVERRUN = 207,
       NVML_FI_NVLINK_RCV_ERRORS = 208,
       NVML_FI_NVLINK_RCV_REMOTE = 209,
       NVML_FI_NVLINK_RCV_GENERAL = 210,
       NVML_FI_NVLINK_INTEGRITY = 211,
       NVML_FI_NVLINK_DISCARDS = 212,
       NVML_FI_NVLINK_RECOVERY_FAILED = 214,
       NVML_FI_NVLINK_EFFECTIVE = 219,
       NVML_FI_NVLINK_SYMBOL = 221,
       NVML_FI_RECOVERY_ACTION = 230,
       NVML_FI_THROTTLE_SW_THERMAL = 269, /* ns; these three of API 13 (nvml.h of CUDA 13.0) */
       NVML_FI_THROTTLE_HW_THERMAL = 270,
       NVML_FI_THROTTLE_HW_POWER_BRAKE = 271,
       GS_NVML_FIELD_IDS = 512, /* above all of these */
};

enum { /* nvmlClockType_t */
       NVML_CLOCK_GRAPHICS = 0,
       NVML_CLOCK_SM = 1,
       NVML_CLOCK_MEM = 2,
       NVML_CLOCK_VIDEO = 3,
};

enum { /* nvmlPcieUtilCounter_t */
       NVML_PCIE_TX = 0,
       NVML_PCIE_RX = 1,
};

enum { /* nvmlTemperatureThresholds_t */
       NVML_THRESHOLD_SHUTDOWN = 0,
       NVML_THRESHOLD_SLOWDOWN = 1,
       NVML_THRESHOLD_MEM_MAX = 2,
       NVML_THRESHOLD_GPU_MAX = 3,
};

enum { /* nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlMemoryLocation_t */
       NVML_ERRORS_CORRECTED = 0,
       NVML_ERRORS_UNCORRECTED = 1,
       NVML_ECC_VOLATILE = 0,
       NVML_ECC_AGGREGATE = 1,
       NVML_LOCATION_DRAM = 2,
       NVML_LOCATION_SRAM = 7,
};

enum { /* nvmlNvLinkErrorCounter_t, nvmlIntNvLinkDeviceType_t */
       NVML_LINK_REPLAY = 0,
       NVML_LINK_RECOVERY = 1,
       NVML_LINK_CRC_FLIT = 2,
       NVML_LINK_TO_GPU = 0,
       NVML_LINK_TO_SWITCH = 2,
       NVML_LINKS_MAX = 18,
};

enum { /* nvmlGpuTopologyLevel_t */
       NVML_TOPOLOGY_INTERNAL = 0,
       NVML_TOPOLOGY_SINGLE = 10,
       NVML_TOPOLOGY_MULTIPLE = 20,
       NVML_TOPOLOGY_HOSTBRIDGE = 30,
       NVML_TOPOLOGY_NODE = 40,
       NVML_TOPOLOGY_SYSTEM = 50,
};

enum { /* nvmlEventType* */
       NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
       NVML_EVENT_XID = 0x8,
       NVML_EVENT_GPU_UNAVAILABLE = 0x4000,
       NVML_EVENT_RECOVERY_ACTION = 0x8000,
};

struct nvml_c2c_mode { /* nvmlC2cModeInfo_v1_t */
	unsigned enabled;
};
static_assert(sizeof(struct nvml_c2c_mode) == 4, "nvmlC2cModeInfo_v1_t");

struct nvml_event { /* nvmlEventData_t of nvmlEventSetWait_v2 */
	nvml_dev device;
	unsigned long long type, data; /* data: the XID */
	unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

struct nvml_gpm_support { /* nvmlGpmSupport_t */
	unsigned version, supported;
};

enum { /* nvmlGpmMetricId_t: percent, or MiB/s */
       NVML_GPM_GRAPHICS = 1,
       NVML_GPM_SM = 2,
       NVML_GPM_OCCUPANCY = 3,
       NVML_GPM_INTEGER = 4,
       NVML_GPM_TENSOR = 5,
       NVML_GPM_DFMA = 6,
       NVML_GPM_HMMA = 7,
       NVML_GPM_IMMA = 9,
       NVML_GPM_DRAM = 10,
       NVML_GPM_FP64 = 11,
       NVML_GPM_FP32 = 12,
       NVML_GPM_FP16 = 13,
       NVML_GPM_PCIE_TX = 20,
       NVML_GPM_PCIE_RX = 21,
       NVML_GPM_NVLINK_RX = 60,
       NVML_GPM_NVLINK_TX = 61,
       /* The array of the newest header known; older libraries read fewer, none reads more than n.
	*/
       NVML_GPM_METRICS_MAX = 333,
};

struct nvml_gpm_metric { /* nvmlGpmMetric_t */
	unsigned id;
	nvml_return r;
	double value;
	const char *short_name, *long_name, *unit;
};
static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");

struct nvml_gpm_metrics { /* nvmlGpmMetricsGet_t */
	unsigned version, n;
	struct nvml_gpm_sample *from, *to;
	struct nvml_gpm_metric metrics[NVML_GPM_METRICS_MAX];
};
static_assert(offsetof(struct nvml_gpm_metrics, metrics) == 24, "nvmlGpmMetricsGet_t");

#endif
