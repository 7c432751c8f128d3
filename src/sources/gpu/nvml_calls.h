/* The functions of NVML that gpuscope calls, as one table: names and arguments. */
#ifndef GS_SOURCES_GPU_NVML_CALLS_H
#define GS_SOURCES_GPU_NVML_CALLS_H

#include "sources/gpu/nvml_abi.h"

/*
 * The calls: member of struct nvml_api, arguments, names from the newest to the oldest that takes
 * the same arguments. Another shape of arguments is a row of its own. NEEDED: without it the
 * library is of no use.
 */
#define NVML_NEEDED   1
#define NVML_OPTIONAL 0
/* clang-format off */
#define NVML_CALLS(X)                                                                              \
	X(NEEDED, init, (void), "nvmlInit_v2", "nvmlInit")                                         \
	X(NEEDED, shutdown, (void), "nvmlShutdown")                                                \
	X(NEEDED, count, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")              \
	X(NEEDED, by_index, (unsigned, nvml_dev *), "nvmlDeviceGetHandleByIndex_v2",               \
	  "nvmlDeviceGetHandleByIndex")                                                            \
	X(NEEDED, uuid, (nvml_dev, char *, unsigned), "nvmlDeviceGetUUID")                         \
	X(NEEDED, name, (nvml_dev, char *, unsigned), "nvmlDeviceGetName")                         \
	X(OPTIONAL, driver_version, (char *, unsigned), "nvmlSystemGetDriverVersion")              \
	X(OPTIONAL, cuda_version, (int *), "nvmlSystemGetCudaDriverVersion_v2",                    \
	  "nvmlSystemGetCudaDriverVersion")                                                        \
	X(OPTIONAL, pci, (nvml_dev, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3")                 \
	X(OPTIONAL, pci_v2, (nvml_dev, struct nvml_pci *), "nvmlDeviceGetPciInfo_v2",              \
	  "nvmlDeviceGetPciInfo")                                                                  \
	X(OPTIONAL, serial, (nvml_dev, char *, unsigned), "nvmlDeviceGetSerial")                   \
	X(OPTIONAL, vbios, (nvml_dev, char *, unsigned), "nvmlDeviceGetVbiosVersion")              \
	X(OPTIONAL, minor, (nvml_dev, unsigned *), "nvmlDeviceGetMinorNumber")                     \
	X(OPTIONAL, numa_node, (nvml_dev, unsigned *), "nvmlDeviceGetNumaNodeId")                  \
	X(OPTIONAL, architecture, (nvml_dev, unsigned *), "nvmlDeviceGetArchitecture")             \
	X(OPTIONAL, compute, (nvml_dev, int *, int *), "nvmlDeviceGetCudaComputeCapability")       \
	X(OPTIONAL, cores, (nvml_dev, unsigned *), "nvmlDeviceGetNumGpuCores")                     \
	X(OPTIONAL, persistence, (nvml_dev, unsigned *), "nvmlDeviceGetPersistenceMode")           \
	X(OPTIONAL, mig_mode, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetMigMode")          \
	X(OPTIONAL, mig_max, (nvml_dev, unsigned *), "nvmlDeviceGetMaxMigDeviceCount")             \
	X(OPTIONAL, mig_by_index, (nvml_dev, unsigned, nvml_dev *),                                \
	  "nvmlDeviceGetMigDeviceHandleByIndex")                                                   \
	X(OPTIONAL, gpu_instance, (nvml_dev, unsigned *), "nvmlDeviceGetGpuInstanceId")            \
	X(OPTIONAL, compute_instance, (nvml_dev, unsigned *), "nvmlDeviceGetComputeInstanceId")    \
	X(OPTIONAL, attributes, (nvml_dev, struct nvml_attributes *), "nvmlDeviceGetAttributes_v2",\
	  "nvmlDeviceGetAttributes")                                                               \
	X(OPTIONAL, utilization, (nvml_dev, struct nvml_utilization *),                            \
	  "nvmlDeviceGetUtilizationRates")                                                         \
	X(OPTIONAL, enc_util, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetEncoderUtilization")\
	X(OPTIONAL, dec_util, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetDecoderUtilization")\
	X(OPTIONAL, jpg_util, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetJpgUtilization")   \
	X(OPTIONAL, ofa_util, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetOfaUtilization")   \
	X(OPTIONAL, memory_v2, (nvml_dev, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2")  \
	X(OPTIONAL, memory, (nvml_dev, struct nvml_memory *), "nvmlDeviceGetMemoryInfo")           \
	X(OPTIONAL, bar1, (nvml_dev, struct nvml_bar1 *), "nvmlDeviceGetBAR1MemoryInfo")           \
	X(OPTIONAL, temperature, (nvml_dev, unsigned, unsigned *), "nvmlDeviceGetTemperature")     \
	X(OPTIONAL, threshold, (nvml_dev, unsigned, unsigned *),                                   \
	  "nvmlDeviceGetTemperatureThreshold")                                                     \
	X(OPTIONAL, power, (nvml_dev, unsigned *), "nvmlDeviceGetPowerUsage")                      \
	X(OPTIONAL, power_limit, (nvml_dev, unsigned *), "nvmlDeviceGetEnforcedPowerLimit")        \
	X(OPTIONAL, power_default, (nvml_dev, unsigned *),                                         \
	  "nvmlDeviceGetPowerManagementDefaultLimit")                                              \
	X(OPTIONAL, power_bounds, (nvml_dev, unsigned *, unsigned *),                              \
	  "nvmlDeviceGetPowerManagementLimitConstraints")                                          \
	X(OPTIONAL, energy, (nvml_dev, unsigned long long *),                                      \
	  "nvmlDeviceGetTotalEnergyConsumption")                                                   \
	X(OPTIONAL, clock, (nvml_dev, unsigned, unsigned *), "nvmlDeviceGetClockInfo")             \
	X(OPTIONAL, clock_max, (nvml_dev, unsigned, unsigned *), "nvmlDeviceGetMaxClockInfo")      \
	X(OPTIONAL, pstate, (nvml_dev, int *), "nvmlDeviceGetPerformanceState")                    \
	X(OPTIONAL, throttle, (nvml_dev, unsigned long long *),                                    \
	  "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")   \
	X(OPTIONAL, pcie_gen, (nvml_dev, unsigned *), "nvmlDeviceGetCurrPcieLinkGeneration")       \
	X(OPTIONAL, pcie_gen_max, (nvml_dev, unsigned *), "nvmlDeviceGetMaxPcieLinkGeneration")    \
	X(OPTIONAL, pcie_width, (nvml_dev, unsigned *), "nvmlDeviceGetCurrPcieLinkWidth")          \
	X(OPTIONAL, pcie_width_max, (nvml_dev, unsigned *), "nvmlDeviceGetMaxPcieLinkWidth")       \
	X(OPTIONAL, pcie_replay, (nvml_dev, unsigned *), "nvmlDeviceGetPcieReplayCounter")         \
	X(OPTIONAL, pcie_throughput, (nvml_dev, unsigned, unsigned *),                             \
	  "nvmlDeviceGetPcieThroughput")                                                           \
	X(OPTIONAL, ecc_mode, (nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetEccMode")          \
	X(OPTIONAL, ecc_total, (nvml_dev, unsigned, unsigned, unsigned long long *),               \
	  "nvmlDeviceGetTotalEccErrors")                                                           \
	X(OPTIONAL, ecc_at, (nvml_dev, unsigned, unsigned, unsigned, unsigned long long *),        \
	  "nvmlDeviceGetMemoryErrorCounter")                                                       \
	X(OPTIONAL, remapped, (nvml_dev, unsigned *, unsigned *, unsigned *, unsigned *),          \
	  "nvmlDeviceGetRemappedRows")                                                             \
	X(OPTIONAL, fan, (nvml_dev, unsigned *), "nvmlDeviceGetFanSpeed")                          \
	X(OPTIONAL, fields, (nvml_dev, int, struct nvml_field *), "nvmlDeviceGetFieldValues")      \
	X(OPTIONAL, uplink_state, (nvml_dev, unsigned, unsigned *), "nvmlDeviceGetNvLinkState")      \
	X(OPTIONAL, link_version, (nvml_dev, unsigned, unsigned *), "nvmlDeviceGetNvLinkVersion")  \
	X(OPTIONAL, link_errors, (nvml_dev, unsigned, unsigned, unsigned long long *),             \
	  "nvmlDeviceGetNvLinkErrorCounter")                                                       \
	X(OPTIONAL, link_pci, (nvml_dev, unsigned, struct nvml_pci *),                             \
	  "nvmlDeviceGetNvLinkRemotePciInfo_v2")                                                   \
	X(OPTIONAL, link_type, (nvml_dev, unsigned, unsigned *),                                   \
	  "nvmlDeviceGetNvLinkRemoteDeviceType")                                                   \
	X(OPTIONAL, c2c_mode, (nvml_dev, struct nvml_c2c_mode *), "nvmlDeviceGetC2cModeInfoV")     \
	X(OPTIONAL, topology, (nvml_dev, nvml_dev, unsigned *),                                    \
	  "nvmlDeviceGetTopologyCommonAncestor")                                                   \
	X(OPTIONAL, compute_v3, (nvml_dev, unsigned *, struct nvml_process *),                     \
	  "nvmlDeviceGetComputeRunningProcesses_v3")                                               \
	X(OPTIONAL, compute_v2, (nvml_dev, unsigned *, struct nvml_process *),                     \
	  "nvmlDeviceGetComputeRunningProcesses_v2")                                               \
	X(OPTIONAL, compute_v1, (nvml_dev, unsigned *, struct nvml_process_v1 *),                  \
	  "nvmlDeviceGetComputeRunningProcesses")                                                  \
	X(OPTIONAL, graphics_v3, (nvml_dev, unsigned *, struct nvml_process *),                    \
	  "nvmlDeviceGetGraphicsRunningProcesses_v3")                                              \
	X(OPTIONAL, graphics_v2, (nvml_dev, unsigned *, struct nvml_process *),                    \
	  "nvmlDeviceGetGraphicsRunningProcesses_v2")                                              \
	X(OPTIONAL, graphics_v1, (nvml_dev, unsigned *, struct nvml_process_v1 *),                 \
	  "nvmlDeviceGetGraphicsRunningProcesses")                                                 \
	X(OPTIONAL, mps_v3, (nvml_dev, unsigned *, struct nvml_process *),                         \
	  "nvmlDeviceGetMPSComputeRunningProcesses_v3")                                            \
	X(OPTIONAL, mps_v2, (nvml_dev, unsigned *, struct nvml_process *),                         \
	  "nvmlDeviceGetMPSComputeRunningProcesses_v2")                                            \
	X(OPTIONAL, mps_v1, (nvml_dev, unsigned *, struct nvml_process_v1 *),                      \
	  "nvmlDeviceGetMPSComputeRunningProcesses")                                               \
	X(OPTIONAL, process_util, (nvml_dev, struct nvml_process_sample *, unsigned *,             \
	  unsigned long long), "nvmlDeviceGetProcessUtilization")                                  \
	X(OPTIONAL, processes_util, (nvml_dev, struct nvml_processes_util *),                      \
	  "nvmlDeviceGetProcessesUtilizationInfo")                                                 \
	X(OPTIONAL, accounting_mode, (nvml_dev, unsigned *), "nvmlDeviceGetAccountingMode")        \
	X(OPTIONAL, accounting_pids, (nvml_dev, unsigned *, unsigned *),                           \
	  "nvmlDeviceGetAccountingPids")                                                           \
	X(OPTIONAL, accounting_stats, (nvml_dev, unsigned, struct nvml_accounting *),              \
	  "nvmlDeviceGetAccountingStats")                                                          \
	X(OPTIONAL, event_types, (nvml_dev, unsigned long long *),                                 \
	  "nvmlDeviceGetSupportedEventTypes")                                                      \
	X(OPTIONAL, event_set_new, (struct nvml_event_set **), "nvmlEventSetCreate")               \
	X(OPTIONAL, event_set_free, (struct nvml_event_set *), "nvmlEventSetFree")                 \
	X(OPTIONAL, event_register, (nvml_dev, unsigned long long, struct nvml_event_set *),       \
	  "nvmlDeviceRegisterEvents")                                                              \
	X(OPTIONAL, event_wait, (struct nvml_event_set *, struct nvml_event *, unsigned),          \
	  "nvmlEventSetWait_v2")                                                                   \
	X(OPTIONAL, gpm_support, (nvml_dev, struct nvml_gpm_support *),                            \
	  "nvmlGpmQueryDeviceSupport")                                                             \
	X(OPTIONAL, gpm_alloc, (struct nvml_gpm_sample **), "nvmlGpmSampleAlloc")                  \
	X(OPTIONAL, gpm_free, (struct nvml_gpm_sample *), "nvmlGpmSampleFree")                     \
	X(OPTIONAL, gpm_get, (nvml_dev, struct nvml_gpm_sample *), "nvmlGpmSampleGet")             \
	X(OPTIONAL, gpm_get_mig, (nvml_dev, unsigned, struct nvml_gpm_sample *),                   \
	  "nvmlGpmMigSampleGet")                                                                   \
	X(OPTIONAL, gpm_metrics, (struct nvml_gpm_metrics *), "nvmlGpmMetricsGet")
/* clang-format on */

struct nvml_api {
#define NVML_MEMBER(need, member, args, ...) nvml_return(*member) args;
	NVML_CALLS(NVML_MEMBER)
#undef NVML_MEMBER
};

enum nvml_call {
#define NVML_CALL_ID(need, member, args, ...) NVML_CALL_##member,
	NVML_CALLS(NVML_CALL_ID)
#undef NVML_CALL_ID
		NVML_CALL_COUNT
};

#endif
