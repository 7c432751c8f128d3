#!/usr/bin/env python3
"""Our declarations of NVML against NVIDIA's own nvml.h, where it is installed: sizes, offsets and
numbers, compiled from both headers and compared. Also: no function of the table is misspelt."""
import glob
import os
import re
import subprocess
import sys
import tempfile

COMPILER, ROOT = sys.argv[1], sys.argv[2]
SIZES = {
    "struct nvml_memory": "nvmlMemory_t", "struct nvml_memory_v2": "nvmlMemory_v2_t",
    "struct nvml_bar1": "nvmlBAR1Memory_t", "struct nvml_pci": "nvmlPciInfo_t",
    "struct nvml_process": "nvmlProcessInfo_t", "struct nvml_process_v1": "nvmlProcessInfo_v1_t",
    "struct nvml_process_sample": "nvmlProcessUtilizationSample_t",
    "struct nvml_process_util": "nvmlProcessUtilizationInfo_v1_t",
    "struct nvml_processes_util": "nvmlProcessesUtilizationInfo_v1_t",
    "struct nvml_accounting": "nvmlAccountingStats_t", "struct nvml_attributes": "nvmlDeviceAttributes_t",
    "struct nvml_field": "nvmlFieldValue_t", "struct nvml_event": "nvmlEventData_t",
    "struct nvml_c2c_mode": "nvmlC2cModeInfo_v1_t",
    "struct nvml_gpm_support": "nvmlGpmSupport_t", "struct nvml_gpm_metric": "nvmlGpmMetric_t",
}
OFFSETS = {
    ("struct nvml_pci", "bus_id"): ("nvmlPciInfo_t", "busId"),
    ("struct nvml_process", "gpu_instance"): ("nvmlProcessInfo_t", "gpuInstanceId"),
    ("struct nvml_process_sample", "time_us"): ("nvmlProcessUtilizationSample_t", "timeStamp"),
    ("struct nvml_process_util", "ofa"): ("nvmlProcessUtilizationInfo_v1_t", "ofaUtil"),
    ("struct nvml_accounting", "start_us"): ("nvmlAccountingStats_t", "startTime"),
    ("struct nvml_attributes", "n_sms"): ("nvmlDeviceAttributes_t", "multiprocessorCount"),
    ("struct nvml_attributes", "memory_mib"): ("nvmlDeviceAttributes_t", "memorySizeMB"),
    ("struct nvml_field", "r"): ("nvmlFieldValue_t", "nvmlReturn"),
    ("struct nvml_field", "value"): ("nvmlFieldValue_t", "value"),
    ("struct nvml_gpm_metric", "value"): ("nvmlGpmMetric_t", "value"),
    ("struct nvml_gpm_metrics", "metrics"): ("nvmlGpmMetricsGet_t", "metrics"),
}
NUMBERS = {
    "NVML_UNINITIALIZED": "NVML_ERROR_UNINITIALIZED", "NVML_NOT_SUPPORTED": "NVML_ERROR_NOT_SUPPORTED",
    "NVML_NO_PERMISSION": "NVML_ERROR_NO_PERMISSION", "NVML_NOT_FOUND": "NVML_ERROR_NOT_FOUND",
    "NVML_INSUFFICIENT_SIZE": "NVML_ERROR_INSUFFICIENT_SIZE", "NVML_GPU_IS_LOST": "NVML_ERROR_GPU_IS_LOST",
    "NVML_DRIVER_NOT_LOADED": "NVML_ERROR_DRIVER_NOT_LOADED", "NVML_TIMEOUT": "NVML_ERROR_TIMEOUT",
    "NVML_LIB_RM_VERSION_MISMATCH": "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    "NVML_FI_PERF_POLICY_POWER": "NVML_FI_DEV_PERF_POLICY_POWER", "NVML_FI_MEMORY_TEMP": "NVML_FI_DEV_MEMORY_TEMP",
    "NVML_FI_ENERGY": "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "NVML_FI_PCIE_REPLAY": "NVML_FI_DEV_PCIE_REPLAY_COUNTER",
    "NVML_PCIE_TX": "NVML_PCIE_UTIL_TX_BYTES", "NVML_PCIE_RX": "NVML_PCIE_UTIL_RX_BYTES",
    "NVML_FI_RETIRED_PENDING": "NVML_FI_DEV_RETIRED_PENDING",
    "NVML_FI_NVLINK_DATA_TX": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    "NVML_FI_NVLINK_DATA_RX": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
    "NVML_FI_POWER_AVERAGE": "NVML_FI_DEV_POWER_AVERAGE", "NVML_FI_POWER_INSTANT": "NVML_FI_DEV_POWER_INSTANT",
    "NVML_FI_PCIE_TX_BYTES": "NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "NVML_FI_PCIE_RX_BYTES": "NVML_FI_DEV_PCIE_COUNT_RX_BYTES",
    "NVML_FI_NVLINK_XMIT_BYTES": "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES",
    "NVML_FI_NVLINK_RCV_BYTES": "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES",
    "NVML_FI_LINK_REPLAY": "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY", "NVML_FI_LINK_CRC": "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
    "NVML_FI_LINK_RECOVERY": "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    "NVML_FI_LINK_STATE": "NVML_FI_DEV_NVLINK_GET_STATE", "NVML_FI_C2C_COUNT": "NVML_FI_DEV_C2C_LINK_COUNT",
    "NVML_FI_C2C_STATUS": "NVML_FI_DEV_C2C_LINK_GET_STATUS", "NVML_FI_C2C_MAX_BW": "NVML_FI_DEV_C2C_LINK_GET_MAX_BW",
    "NVML_FI_NVLINK_MALFORMED": "NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS",
    "NVML_FI_NVLINK_OVERRUN": "NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS",
    "NVML_FI_NVLINK_RCV_ERRORS": "NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS",
    "NVML_FI_NVLINK_RCV_REMOTE": "NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS",
    "NVML_FI_NVLINK_RCV_GENERAL": "NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS",
    "NVML_FI_NVLINK_INTEGRITY": "NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
    "NVML_FI_NVLINK_DISCARDS": "NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS",
    "NVML_FI_NVLINK_RECOVERY_FAILED": "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
    "NVML_FI_NVLINK_EFFECTIVE": "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS",
    "NVML_FI_NVLINK_SYMBOL": "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS",
    "NVML_FI_RECOVERY_ACTION": "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    "NVML_FI_THROTTLE_SW_THERMAL": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "NVML_FI_THROTTLE_HW_THERMAL": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    "NVML_FI_THROTTLE_HW_POWER_BRAKE": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
    "NVML_GPM_INTEGER": "NVML_GPM_METRIC_INTEGER_UTIL", "NVML_GPM_DRAM": "NVML_GPM_METRIC_DRAM_BW_UTIL",
    "NVML_GPM_PCIE_TX": "NVML_GPM_METRIC_PCIE_TX_PER_SEC", "NVML_GPM_NVLINK_RX": "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
    "NVML_GPM_NVLINK_TX": "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
    "NVML_LOCATION_SRAM": "NVML_MEMORY_LOCATION_SRAM", "NVML_LOCATION_DRAM": "NVML_MEMORY_LOCATION_DRAM",
    "NVML_EVENT_XID": "nvmlEventTypeXidCriticalError", "NVML_THRESHOLD_GPU_MAX": "NVML_TEMPERATURE_THRESHOLD_GPU_MAX",
    "NVML_LINK_TO_SWITCH": "NVML_NVLINK_DEVICE_TYPE_SWITCH", "NVML_LINK_CRC_FLIT": "NVML_NVLINK_ERROR_DL_CRC_FLIT",
}
LATE = {"NVML_FI_THROTTLE_", "NVML_FI_RECOVERY", "NVML_FI_PCIE_TX", "NVML_FI_PCIE_RX", "NVML_FI_NVLINK_X",
        "NVML_FI_NVLINK_R", "NVML_FI_NVLINK_M", "NVML_FI_NVLINK_O", "NVML_FI_NVLINK_I", "NVML_FI_NVLINK_DI",
        "NVML_FI_NVLINK_E", "NVML_FI_NVLINK_S"}  # of API 12.5 and newer: an older header need not have them


def find_header():
    places = [os.environ.get("NVML_H", "")] + sorted(glob.glob("/usr/local/cuda*/include/nvml.h"), reverse=True)
    places += ["/usr/include/nvml.h", "/usr/include/nvidia/gdk/nvml.h"]
    return next((p for p in places if p and os.path.exists(p)), None)


def evaluate(include, expressions):
    """What the compiler makes of each expression; None where it does not know the name."""
    lines = [f"#include <stdio.h>\n#include <stddef.h>\n{include}\nint main(void) {{"]
    lines += [f'printf("%lld\\n", (long long)({e}));' for e in expressions]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "x.c")
        open(source, "w").write("\n".join(lines + ["}"]))
        subprocess.run([COMPILER, "-D_GNU_SOURCE", "-std=gnu17", "-I", ROOT + "/src", source, "-o", folder + "/x"], check=True)
        return [int(n) for n in subprocess.run([folder + "/x"], capture_output=True, check=True).stdout.split()]


def main():
    header = find_header()
    calls = open(ROOT + "/src/sources/gpu/nvml_calls.h").read()
    names = re.findall(r'"(nvml\w+)"', calls)
    bad = [n for n in names if names.count(n) > 1]
    if bad or len(names) < 80:
        print("not ok: function named twice, or table not understood:", bad, len(names))
        return 1
    if not header:
        print("SKIP: no nvml.h on this machine (of CUDA; or set NVML_H): layouts are asserted in nvml_abi.h")
        return 77
    theirs_text = open(header, errors="replace").read()
    numbers = {k: v for k, v in NUMBERS.items()
               if v in theirs_text or not any(k.startswith(late) for late in LATE)}
    types = {k: v for k, v in SIZES.items() if v in theirs_text or "util" not in k}
    ours = [f"sizeof({k})" for k in types] + [f"offsetof({t}, {m})" for t, m in OFFSETS] + list(numbers)
    theirs = [f"sizeof({v})" for v in types.values()] + [f"offsetof({t}, {m})" for t, m in OFFSETS.values()]
    theirs += list(numbers.values())
    a = evaluate('#include "sources/gpu/nvml_abi.h"', ours)
    b = evaluate(f'#include "{header}"', theirs)
    wrong = [f"{o} is {x}, {t} is {y}" for o, t, x, y in zip(ours, theirs, a, b) if x != y]
    # Functions that only old libraries have are in no new header; most of the table must be.
    unknown = [n for n in names if n not in theirs_text]
    if len(unknown) > len(names) // 5:
        wrong.append(f"unknown functions: {unknown}")
    print("\n".join(wrong) if wrong else f"{len(a)} layouts and numbers agree with {header}; not in it: {unknown}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
