/*
 * What can be known of a GPU at one time, one row for each value:
 *
 *   GS_GPU_FIELD(ID, key, unit, kind, group, family, label, label_value, title, help)
 *
 * ID      enum gs_gpu_field GS_GPU_ID
 * key     the name in JSON, CSV, YAML and --fields; ends in its unit
 * unit    enum gs_metric_unit without GS_UNIT_OF_
 * kind    GAUGE, or COUNTER: only grows, since the driver was loaded
 * group   enum gs_gpu_part without GS_GPU_PART_: what is read together with it, and so which group of
 *         the agent's schedule it belongs to (the table of parts in gpu.h)
 * family  the Prometheus metric without its prefix "gpuscope_"; rows that differ only by a label
 *         share one. A counter's gets "_total" added.
 * label, label_value  the label that distinguishes the rows of a family; "" none
 * title   the heading of a column, 8 characters at most
 * help    one sentence
 *
 * Units are base units: a share is 0..1. Everything that shows, stores or exports a value of a GPU
 * is made from this table. To add a value: a row here, the lines in sources/gpu that fill it.
 */
#define GS_GPU_FIELDS(X)                                                                           \
	X(UTIL, "utilization_ratio", RATIO, GAUGE, UTILIZATION, "gpu_utilization_ratio", "", "",   \
	  "util", "Share of the time in which a kernel ran on the GPU.")                           \
	X(MEM_UTIL, "memory_utilization_ratio", RATIO, GAUGE, MEMORY_ACTIVITY,                     \
	  "gpu_memory_activity_ratio", "", "", "memctl",                                           \
	  "Share of the time in which device memory was read or written.")                         \
	X(ENC_UTIL, "encoder_utilization_ratio", RATIO, GAUGE, ENGINES,                            \
	  "gpu_engine_utilization_ratio", "engine", "encoder", "enc",                              \
	  "Share of the time in which an engine (video, JPEG, OFA) was busy.")                     \
	X(DEC_UTIL, "decoder_utilization_ratio", RATIO, GAUGE, ENGINES,                            \
	  "gpu_engine_utilization_ratio", "engine", "decoder", "dec",                              \
	  "Share of the time in which an engine (video, JPEG, OFA) was busy.")                     \
	X(JPG_UTIL, "jpeg_utilization_ratio", RATIO, GAUGE, ENGINES,                               \
	  "gpu_engine_utilization_ratio", "engine", "jpeg", "jpg",                                 \
	  "Share of the time in which an engine (video, JPEG, OFA) was busy.")                     \
	X(OFA_UTIL, "ofa_utilization_ratio", RATIO, GAUGE, ENGINES,                                \
	  "gpu_engine_utilization_ratio", "engine", "ofa", "ofa",                                  \
	  "Share of the time in which an engine (video, JPEG, OFA) was busy.")                     \
	X(MEM_TOTAL, "memory_total_bytes", BYTES, GAUGE, MEMORY, "gpu_memory_total_bytes", "", "", \
	  "mem-tot", "Size of device memory.")                                                     \
	X(MEM_USED, "memory_used_bytes", BYTES, GAUGE, MEMORY, "gpu_memory_used_bytes", "", "",    \
	  "mem", "Device memory allocated to processes.")                                          \
	X(MEM_RESERVED, "memory_reserved_bytes", BYTES, GAUGE, MEMORY,                             \
	  "gpu_memory_reserved_bytes", "", "", "mem-rsv",                                          \
	  "Device memory reserved by driver and firmware.")                                        \
	X(MEM_FREE, "memory_free_bytes", BYTES, GAUGE, MEMORY, "gpu_memory_free_bytes", "", "",    \
	  "mem-free", "Device memory that can be allocated.")                                      \
	X(BAR1_TOTAL, "bar1_total_bytes", BYTES, GAUGE, BAR1, "gpu_bar1_total_bytes", "", "",      \
	  "bar1-tot", "Size of BAR1, the window through which the host sees device memory.")       \
	X(BAR1_USED, "bar1_used_bytes", BYTES, GAUGE, BAR1, "gpu_bar1_used_bytes", "", "", "bar1", \
	  "Used part of BAR1, the window through which the host sees device memory.")              \
	X(TEMP_GPU, "temperature_celsius", CELSIUS, GAUGE, TEMPERATURE, "gpu_temperature_celsius", \
	  "sensor", "gpu", "temp", "Temperature of the GPU or of its memory.")                     \
	X(TEMP_MEM, "memory_temperature_celsius", CELSIUS, GAUGE, MEMORY_TEMPERATURE,              \
	  "gpu_temperature_celsius", "sensor", "memory", "mem-temp",                               \
	  "Temperature of the GPU or of its memory.")                                              \
	X(TEMP_SLOWDOWN, "slowdown_temperature_celsius", CELSIUS, GAUGE, LIMITS,                   \
	  "gpu_temperature_limit_celsius", "limit", "slowdown", "t-slow",                          \
	  "Temperature limit (slowdown, shutdown, operating, memory).")                            \
	X(TEMP_SHUTDOWN, "shutdown_temperature_celsius", CELSIUS, GAUGE, LIMITS,                   \
	  "gpu_temperature_limit_celsius", "limit", "shutdown", "t-shut",                          \
	  "Temperature limit (slowdown, shutdown, operating, memory).")                            \
	X(TEMP_MEM_MAX, "memory_temperature_limit_celsius", CELSIUS, GAUGE, LIMITS,                \
	  "gpu_temperature_limit_celsius", "limit", "memory", "t-mem",                             \
	  "Temperature limit (slowdown, shutdown, operating, memory).")                            \
	X(POWER, "power_watts", WATTS, GAUGE, POWER, "gpu_power_watts", "kind", "average",         \
	  "power", "Power draw; average: over the last second on most GPUs.")                      \
	X(POWER_INSTANT, "power_instant_watts", WATTS, GAUGE, POWER_INSTANT, "gpu_power_watts",    \
	  "kind", "instant", "pwr-inst",                                                           \
	  "Power draw; average: over the last second on most GPUs.")                               \
	X(POWER_LIMIT, "power_limit_watts", WATTS, GAUGE, LIMITS, "gpu_power_limit_watts",         \
	  "limit", "enforced", "pwr-cap", "Power limit.")                                          \
	X(POWER_LIMIT_DEFAULT, "power_limit_default_watts", WATTS, GAUGE, LIMITS,                  \
	  "gpu_power_limit_watts", "limit", "default", "cap-def", "Power limit.")                  \
	X(POWER_LIMIT_MAX, "power_limit_max_watts", WATTS, GAUGE, LIMITS, "gpu_power_limit_watts", \
	  "limit", "max", "cap-max", "Power limit.")                                               \
	X(ENERGY, "energy_joules", JOULES, COUNTER, ENERGY, "gpu_energy_joules", "", "", "energy", \
	  "Energy that the GPU consumed.")                                                         \
	X(CLOCK_SM, "sm_clock_hertz", HERTZ, GAUGE, CLOCKS, "gpu_clock_hertz", "domain", "sm",     \
	  "sm-clk", "Clock frequency.")                                                            \
	X(CLOCK_MEM, "memory_clock_hertz", HERTZ, GAUGE, CLOCKS, "gpu_clock_hertz", "domain",      \
	  "memory", "mem-clk", "Clock frequency.")                                                 \
	X(CLOCK_GRAPHICS, "graphics_clock_hertz", HERTZ, GAUGE, CLOCKS_MORE, "gpu_clock_hertz",    \
	  "domain", "graphics", "gr-clk", "Clock frequency.")                                      \
	X(CLOCK_VIDEO, "video_clock_hertz", HERTZ, GAUGE, CLOCKS_MORE, "gpu_clock_hertz",          \
	  "domain", "video", "vid-clk", "Clock frequency.")                                        \
	X(CLOCK_SM_MAX, "sm_clock_max_hertz", HERTZ, GAUGE, LIMITS, "gpu_clock_max_hertz",         \
	  "domain", "sm", "sm-max", "Maximum clock frequency.")                                    \
	X(CLOCK_MEM_MAX, "memory_clock_max_hertz", HERTZ, GAUGE, LIMITS, "gpu_clock_max_hertz",    \
	  "domain", "memory", "mem-max", "Maximum clock frequency.")                               \
	X(PSTATE, "performance_state", NONE, GAUGE, STATE, "gpu_performance_state", "", "",        \
	  "pstate", "Performance state, 0 the fastest.")                                           \
	X(THROTTLE_REASONS, "throttle_reasons_mask", NONE, GAUGE, STATE,                           \
	  "gpu_throttle_reasons_mask", "", "", "throttle",                                         \
	  "Why clocks are throttled now, as NVML's bit mask.")                                     \
	X(THROTTLE_SW_POWER, "throttle_sw_power_seconds", SECONDS, COUNTER, THROTTLE,              \
	  "gpu_throttle_seconds", "reason", "sw_power_cap", "thr-pwr",                             \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_HW_POWER_BRAKE, "throttle_hw_power_brake_seconds", SECONDS, COUNTER, THROTTLE,  \
	  "gpu_throttle_seconds", "reason", "hw_power_brake", "thr-brk",                           \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_SW_THERMAL, "throttle_sw_thermal_seconds", SECONDS, COUNTER, THROTTLE,          \
	  "gpu_throttle_seconds", "reason", "sw_thermal", "thr-swt",                               \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_HW_THERMAL, "throttle_hw_thermal_seconds", SECONDS, COUNTER, THROTTLE,          \
	  "gpu_throttle_seconds", "reason", "hw_thermal", "thr-hwt",                               \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_SYNC_BOOST, "throttle_sync_boost_seconds", SECONDS, COUNTER, THROTTLE,          \
	  "gpu_throttle_seconds", "reason", "sync_boost", "thr-syn",                               \
	  "Time for which clocks were throttled.")                                                 \
	X(PCIE_GEN, "pcie_link_generation", NONE, GAUGE, PCIE_LINK, "gpu_pcie_link_generation",    \
	  "of", "now", "pcie-gen", "Generation of the PCIe link.")                                 \
	X(PCIE_GEN_MAX, "pcie_link_generation_max", NONE, GAUGE, PCIE_LINK,                        \
	  "gpu_pcie_link_generation", "of", "max", "gen-max", "Generation of the PCIe link.")      \
	X(PCIE_WIDTH, "pcie_link_width", NONE, GAUGE, PCIE_LINK, "gpu_pcie_link_width", "of",      \
	  "now", "pcie-w", "Lanes of the PCIe link.")                                              \
	X(PCIE_WIDTH_MAX, "pcie_link_width_max", NONE, GAUGE, PCIE_LINK, "gpu_pcie_link_width",    \
	  "of", "max", "w-max", "Lanes of the PCIe link.")                                         \
	X(PCIE_TX, "pcie_tx_bytes", BYTES, COUNTER, PCIE, "gpu_pcie_bytes", "direction", "tx",     \
	  "pcie-tx", "Bytes over PCIe; tx: sent by the GPU.")                                      \
	X(PCIE_RX, "pcie_rx_bytes", BYTES, COUNTER, PCIE, "gpu_pcie_bytes", "direction", "rx",     \
	  "pcie-rx", "Bytes over PCIe; tx: sent by the GPU.")                                      \
	X(PCIE_REPLAYS, "pcie_replays", NONE, COUNTER, PCIE_LINK, "gpu_pcie_replays", "", "",      \
	  "replays", "PCIe packets that were retransmitted.")                                      \
	X(NVLINK_TX, "nvlink_tx_bytes", BYTES, COUNTER, LINK_BYTES, "gpu_nvlink_bytes",            \
	  "direction", "tx", "nvl-tx", "Bytes over all NVLinks; tx: sent by the GPU.")             \
	X(NVLINK_RX, "nvlink_rx_bytes", BYTES, COUNTER, LINK_BYTES, "gpu_nvlink_bytes",            \
	  "direction", "rx", "nvl-rx", "Bytes over all NVLinks; tx: sent by the GPU.")             \
	X(NVLINK_ACTIVE, "nvlink_active_links", NONE, GAUGE, LINKS, "gpu_nvlink_active_links", "", \
	  "", "links", "NVLinks that are up.")                                                     \
	X(ECC_CORRECTED, "ecc_corrected_errors", NONE, COUNTER, ECC, "gpu_ecc_errors", "kind",     \
	  "corrected", "ecc-c", "Memory errors over the life of the GPU.")                         \
	X(ECC_UNCORRECTED, "ecc_uncorrected_errors", NONE, COUNTER, ECC, "gpu_ecc_errors", "kind", \
	  "uncorrected", "ecc-u", "Memory errors over the life of the GPU.")                       \
	X(ECC_ENABLED, "ecc_enabled", NONE, GAUGE, ECC, "gpu_ecc_enabled", "", "", "ecc",          \
	  "1 when memory error correction (ECC) is on.")                                           \
	X(REMAP_CORRECTABLE, "row_remaps_correctable", NONE, COUNTER, REPAIRS, "gpu_row_remaps",   \
	  "kind", "correctable", "rmp-c", "Rows of device memory replaced by spare ones.")         \
	X(REMAP_UNCORRECTABLE, "row_remaps_uncorrectable", NONE, COUNTER, REPAIRS,                 \
	  "gpu_row_remaps", "kind", "uncorrectable", "rmp-u",                                      \
	  "Rows of device memory replaced by spare ones.")                                         \
	X(REMAP_PENDING, "row_remap_pending", NONE, GAUGE, REPAIRS, "gpu_row_remap_pending", "",   \
	  "", "rmp-pend", "1 when a row remapping waits for a reset.")                             \
	X(REMAP_FAILED, "row_remap_failed", NONE, GAUGE, REPAIRS, "gpu_row_remap_failed", "", "",  \
	  "rmp-fail", "1 when a row remapping failed.")                                            \
	X(RETIRED_PAGES, "retired_pages", NONE, COUNTER, REPAIRS, "gpu_retired_pages", "", "",     \
	  "retired", "Retired pages of device memory (GPUs before Ampere).")                       \
	X(RECOVERY_ACTION, "recovery_action", NONE, GAUGE, REPAIRS, "gpu_recovery_action", "", "", \
	  "recover",                                                                               \
	  "Recovery action: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.")           \
	X(FAN, "fan_ratio", RATIO, GAUGE, FAN, "gpu_fan_ratio", "", "", "fan",                     \
	  "Fan speed, as a share of its maximum.")                                                 \
	X(GR_ACTIVE, "graphics_active_ratio", RATIO, GAUGE, GPM, "gpu_graphics_active_ratio", "",  \
	  "", "gr-act", "Share of the time in which the graphics or compute engine was active.")   \
	X(SM_ACTIVE, "sm_active_ratio", RATIO, GAUGE, GPM, "gpu_sm_active_ratio", "", "",          \
	  "sm-act", "Share of SMs that had work, averaged over time.")                             \
	X(SM_OCCUPANCY, "sm_occupancy_ratio", RATIO, GAUGE, GPM, "gpu_sm_occupancy_ratio", "", "", \
	  "sm-occ", "Resident warps, as a share of the maximum, averaged over time.")              \
	X(PIPE_TENSOR, "tensor_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio", "pipe",  \
	  "tensor", "tensor", "Share of cycles in which a pipe of the SMs was active.")            \
	X(PIPE_FP64, "fp64_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio", "pipe",      \
	  "fp64", "fp64", "Share of cycles in which a pipe of the SMs was active.")                \
	X(PIPE_FP32, "fp32_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio", "pipe",      \
	  "fp32", "fp32", "Share of cycles in which a pipe of the SMs was active.")                \
	X(PIPE_FP16, "fp16_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio", "pipe",      \
	  "fp16", "fp16", "Share of cycles in which a pipe of the SMs was active.")                \
	X(PIPE_INT, "integer_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio", "pipe",    \
	  "integer", "int", "Share of cycles in which a pipe of the SMs was active.")              \
	X(DRAM_ACTIVE, "dram_active_ratio", RATIO, GAUGE, GPM, "gpu_dram_active_ratio", "", "",    \
	  "dram", "Bandwidth of device memory used, as a share of its maximum.")                   \
	X(PCIE_TX_BPS, "pcie_tx_bytes_per_second", BPS, GAUGE, PCIE_RATE,                          \
	  "gpu_pcie_bytes_per_second", "direction", "tx", "pcie-tx/s",                             \
	  "Bytes a second over PCIe; tx: sent by the GPU.")                                        \
	X(PCIE_RX_BPS, "pcie_rx_bytes_per_second", BPS, GAUGE, PCIE_RATE,                          \
	  "gpu_pcie_bytes_per_second", "direction", "rx", "pcie-rx/s",                             \
	  "Bytes a second over PCIe; tx: sent by the GPU.")                                        \
	X(NVLINK_TX_BPS, "nvlink_tx_bytes_per_second", BPS, GAUGE, LINK_RATE,                      \
	  "gpu_nvlink_bytes_per_second", "direction", "tx", "nvl-tx/s",                            \
	  "Bytes a second over all NVLinks; tx: sent by the GPU.")                                 \
	X(NVLINK_RX_BPS, "nvlink_rx_bytes_per_second", BPS, GAUGE, LINK_RATE,                      \
	  "gpu_nvlink_bytes_per_second", "direction", "rx", "nvl-rx/s",                            \
	  "Bytes a second over all NVLinks; tx: sent by the GPU.")                                 \
	X(TEMP_GPU_MAX, "gpu_max_temperature_celsius", CELSIUS, GAUGE, LIMITS,                     \
	  "gpu_temperature_limit_celsius", "limit", "operating", "t-max",                          \
	  "Temperature limit (slowdown, shutdown, operating, memory).")                            \
	X(POWER_LIMIT_MIN, "power_limit_min_watts", WATTS, GAUGE, LIMITS, "gpu_power_limit_watts", \
	  "limit", "min", "cap-min", "Power limit.")                                               \
	X(CLOCK_GRAPHICS_MAX, "graphics_clock_max_hertz", HERTZ, GAUGE, LIMITS,                    \
	  "gpu_clock_max_hertz", "domain", "graphics", "gr-max", "Maximum clock frequency.")       \
	X(CLOCK_VIDEO_MAX, "video_clock_max_hertz", HERTZ, GAUGE, LIMITS, "gpu_clock_max_hertz",   \
	  "domain", "video", "vid-max", "Maximum clock frequency.")                                \
	X(THROTTLE_BOARD_LIMIT, "throttle_board_limit_seconds", SECONDS, COUNTER, THROTTLE,        \
	  "gpu_throttle_seconds", "reason", "board_limit", "thr-brd",                              \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_LOW_UTIL, "throttle_low_utilization_seconds", SECONDS, COUNTER, THROTTLE,       \
	  "gpu_throttle_seconds", "reason", "low_utilization", "thr-low",                          \
	  "Time for which clocks were throttled.")                                                 \
	X(THROTTLE_RELIABILITY, "throttle_reliability_seconds", SECONDS, COUNTER, THROTTLE,        \
	  "gpu_throttle_seconds", "reason", "reliability", "thr-rel",                              \
	  "Time for which clocks were throttled.")                                                 \
	X(PCIE_CORRECTABLE, "pcie_correctable_errors", NONE, COUNTER, PCIE_LINK,                   \
	  "gpu_pcie_errors", "kind", "correctable", "pcie-c", "Errors of the PCIe link.")          \
	X(PCIE_NON_FATAL, "pcie_non_fatal_errors", NONE, COUNTER, PCIE_LINK, "gpu_pcie_errors",    \
	  "kind", "non_fatal", "pcie-nf", "Errors of the PCIe link.")                              \
	X(PCIE_FATAL, "pcie_fatal_errors", NONE, COUNTER, PCIE_LINK, "gpu_pcie_errors", "kind",    \
	  "fatal", "pcie-f", "Errors of the PCIe link.")                                           \
	X(NVLINK_CRC, "nvlink_crc_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors", "kind",      \
	  "crc", "nvl-crc", "Errors of all NVLinks.")                                              \
	X(NVLINK_REPLAY, "nvlink_replay_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",        \
	  "kind", "replay", "nvl-rpl", "Errors of all NVLinks.")                                   \
	X(NVLINK_RECOVERY, "nvlink_recovery_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",    \
	  "kind", "recovery", "nvl-rec", "Errors of all NVLinks.")                                 \
	X(ECC_NOW_CORRECTED, "ecc_volatile_corrected_errors", NONE, COUNTER, ECC,                  \
	  "gpu_ecc_volatile_errors", "kind", "corrected", "ecc-vc",                                \
	  "Memory errors since the driver was loaded.")                                            \
	X(ECC_NOW_UNCORRECTED, "ecc_volatile_uncorrected_errors", NONE, COUNTER, ECC,              \
	  "gpu_ecc_volatile_errors", "kind", "uncorrected", "ecc-vu",                              \
	  "Memory errors since the driver was loaded.")                                            \
	X(ECC_DRAM_CORRECTED, "ecc_dram_corrected_errors", NONE, COUNTER, ECC,                     \
	  "gpu_ecc_dram_errors", "kind", "corrected", "ecc-dc",                                    \
	  "Errors of device memory over the life of the GPU.")                                     \
	X(ECC_DRAM_UNCORRECTED, "ecc_dram_uncorrected_errors", NONE, COUNTER, ECC,                 \
	  "gpu_ecc_dram_errors", "kind", "uncorrected", "ecc-du",                                  \
	  "Errors of device memory over the life of the GPU.")                                     \
	X(ECC_SRAM_CORRECTED, "ecc_sram_corrected_errors", NONE, COUNTER, ECC,                     \
	  "gpu_ecc_sram_errors", "kind", "corrected", "ecc-sc",                                    \
	  "Errors of on-chip memory (SRAM) over the life of the GPU.")                             \
	X(ECC_SRAM_UNCORRECTED, "ecc_sram_uncorrected_errors", NONE, COUNTER, ECC,                 \
	  "gpu_ecc_sram_errors", "kind", "uncorrected", "ecc-su",                                  \
	  "Errors of on-chip memory (SRAM) over the life of the GPU.")                             \
	X(RETIRED_PENDING, "retired_page_pending", NONE, GAUGE, REPAIRS,                           \
	  "gpu_retired_page_pending", "", "", "ret-pend",                                          \
	  "1 when pages of device memory wait for a reset to be retired.")                         \
	X(PIPE_DFMA, "tensor_fp64_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio",       \
	  "pipe", "tensor_fp64", "t-fp64",                                                         \
	  "Share of cycles in which a pipe of the SMs was active.")                                \
	X(PIPE_HMMA, "tensor_half_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio",       \
	  "pipe", "tensor_half", "t-half",                                                         \
	  "Share of cycles in which a pipe of the SMs was active.")                                \
	X(PIPE_IMMA, "tensor_integer_active_ratio", RATIO, GAUGE, GPM, "gpu_pipe_active_ratio",    \
	  "pipe", "tensor_integer", "t-int",                                                       \
	  "Share of cycles in which a pipe of the SMs was active.")                                \
	X(NVLINK_MALFORMED, "nvlink_malformed_packets", NONE, COUNTER, LINKS, "gpu_nvlink_errors", \
	  "kind", "malformed_packet", "nvl-mal", "Errors of all NVLinks.")                         \
	X(NVLINK_OVERRUN, "nvlink_buffer_overruns", NONE, COUNTER, LINKS, "gpu_nvlink_errors",     \
	  "kind", "buffer_overrun", "nvl-ovr", "Errors of all NVLinks.")                           \
	X(NVLINK_RECEIVE, "nvlink_receive_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",      \
	  "kind", "receive", "nvl-rcv", "Errors of all NVLinks.")                                  \
	X(NVLINK_REMOTE, "nvlink_remote_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",        \
	  "kind", "receive_remote", "nvl-rem", "Errors of all NVLinks.")                           \
	X(NVLINK_GENERAL, "nvlink_general_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",      \
	  "kind", "receive_general", "nvl-gen", "Errors of all NVLinks.")                          \
	X(NVLINK_INTEGRITY, "nvlink_integrity_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",  \
	  "kind", "local_integrity", "nvl-int", "Errors of all NVLinks.")                          \
	X(NVLINK_DISCARDS, "nvlink_transmit_discards", NONE, COUNTER, LINKS, "gpu_nvlink_errors",  \
	  "kind", "transmit_discard", "nvl-dis", "Errors of all NVLinks.")                         \
	X(NVLINK_RECOVERY_FAILED, "nvlink_failed_recoveries", NONE, COUNTER, LINKS,                \
	  "gpu_nvlink_errors", "kind", "recovery_failed", "nvl-rcf", "Errors of all NVLinks.")     \
	X(NVLINK_EFFECTIVE, "nvlink_effective_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",  \
	  "kind", "effective", "nvl-eff", "Errors of all NVLinks.")                                \
	X(NVLINK_SYMBOL, "nvlink_symbol_errors", NONE, COUNTER, LINKS, "gpu_nvlink_errors",        \
	  "kind", "symbol", "nvl-sym", "Errors of all NVLinks.")                                   \
	X(C2C_ENABLED, "c2c_enabled", NONE, GAUGE, C2C, "gpu_c2c_enabled", "", "", "c2c",          \
	  "1 when the coherent link to the processor (NVLink-C2C) is in use.")                     \
	X(C2C_LINKS, "c2c_active_links", NONE, GAUGE, C2C, "gpu_c2c_active_links", "", "",         \
	  "c2c-link", "Coherent links to the processor that are up.")                              \
	X(C2C_BPS_MAX, "c2c_max_bytes_per_second", BPS, GAUGE, C2C,                                \
	  "gpu_c2c_max_bytes_per_second", "", "", "c2c-max",                                       \
	  "Bytes a second that the coherent links to the processor can carry.")                    \
	X(MEM_USED_RATIO, "memory_used_ratio", RATIO, GAUGE, GPM, "gpu_memory_used_ratio", "", "", \
	  "mem-used", "Device memory in use, where the node reports no bytes (gswarm-profiler).")
