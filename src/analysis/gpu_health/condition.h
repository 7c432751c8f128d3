/*
 * What can be wrong with a GPU, one row for each condition, the worst first:
 *
 *   X(ID, key, state, severity, advice)
 *
 * ID        enum gs_gpu_condition GS_GPU_CONDITION_ID
 * key       its name in JSON and in alert rules ("health_KEY")
 * state     enum gs_gpu_health_state without GS_GPU_HEALTH_: what the GPU is while it holds
 * severity  enum gs_gpu_severity without GS_GPU_SEVERITY_
 * advice    what to do, one or two sentences
 *
 * Every judge of a GPU reads this table: `gpu`, `top`, the page and its API, alert rules by default.
 * GS_GPU_ALERTS below are the Prometheus rules of the same conditions, from which
 * packaging/prometheus/alerts.yml is generated. To add a condition: a row here, a line in
 * health_check_condition() and one in health_put_cause() of gpu_health.c, a row of GS_GPU_ALERTS.
 */
#ifndef GS_ANALYSIS_GPU_HEALTH_CONDITION_H
#define GS_ANALYSIS_GPU_HEALTH_CONDITION_H

#define GS_GPU_CONDITIONS(X)                                                                                   \
	X(LOST, "lost", FAILING, CRITICAL,                                                                     \
	  "Drain the node; reset the GPU or reboot, and look for XID 79 in dmesg.")                            \
	X(RECOVERY, "recovery_action", FAILING, CRITICAL,                                                      \
	  "Drain the node, then do as the driver asks. Run `gpuscope agent ctl release-gpus` before a reset.") \
	X(REMAP_FAILED, "row_remap_failed", FAILING, CRITICAL,                                                 \
	  "Drain the node; have the GPU replaced (RMA).")                                                      \
	X(XID, "xid", FAILING, CRITICAL, "Look this number up in NVIDIA's XID guide.")                         \
	X(ECC_UNCORRECTED, "ecc_uncorrected", FAILING, CRITICAL,                                               \
	  "Results may be wrong; drain the node and reset the GPU.")                                           \
	X(HW_HEAT, "hw_thermal_slowdown", THROTTLED, WARNING,                                                  \
	  "Check fans, airflow, and the load of its neighbours.")                                              \
	X(POWER_BRAKE, "hw_power_brake", THROTTLED, WARNING,                                                   \
	  "Check the power supplies of the node and its power limit.")                                         \
	X(HW_SLOWDOWN, "hw_slowdown", THROTTLED, WARNING, "Check cooling and power supply.")                   \
	X(SW_HEAT, "sw_thermal_slowdown", THROTTLED, WARNING,                                                  \
	  "Check fans, airflow, and the load of its neighbours.")                                              \
	X(HOT, "hot", DEGRADED, WARNING, "Check fans, airflow, and the load of its neighbours.")               \
	X(MEMORY_HOT, "memory_hot", DEGRADED, WARNING,                                                         \
	  "Check fans, airflow, and the load of its neighbours.")                                              \
	X(REPAIR_PENDING, "repair_pending", DEGRADED, WARNING,                                                 \
	  "Reset the GPU when no job is on it.")                                                               \
	X(PCIE_WIDTH, "pcie_width", DEGRADED, WARNING,                                                         \
	  "Drain the node and reseat the board; look for PCIe errors in dmesg.")                               \
	X(PROGRAM_XID, "program_xid", OK, INFO,                                                                \
	  "Usually the program is at fault: run it under compute-sanitizer.")                                  \
	X(POWER_CAP, "power_cap", THROTTLED, WARNING,                                                          \
	  "Usual under full load; below the board's limit, `nvidia-smi -pl` raises the cap.")                  \
	X(SYNC_BOOST, "sync_boost", THROTTLED, INFO,                                                           \
	  "Its clocks follow the slowest GPU of its sync boost group.")                                        \
	X(IDLE_HELD, "idle_held", IDLE, INFO,                                                                  \
	  "Ask its user whether the job still works; a waiting job needs no GPU.")

enum gs_gpu_condition {
#define GS_GPU_CONDITION_ENUM(id, ...) GS_GPU_CONDITION_##id,
	GS_GPU_CONDITIONS(GS_GPU_CONDITION_ENUM)
#undef GS_GPU_CONDITION_ENUM
		GS_GPU_CONDITION_COUNT
};
#define GS_GPU_CONDITION_NONE GS_GPU_CONDITION_COUNT /* nothing is wrong */

/*
 * X(ID, alert, expression, for, summary): over the metrics that the agent serves. Severity and
 * advice are those of the condition. A condition may have several rules.
 */
#define GS_GPU_ALERTS(X)                                                                                                                                                                     \
	X(LOST, "GpuLost", "gpuscope_gpu_lost == 1", "1m",                                                                                                                                   \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} no longer answers")                                                                                                               \
	X(RECOVERY, "GpuRecoveryNeeded", "gpuscope_gpu_recovery_action > 0", "5m",                                                                                                           \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} asks for recovery action {{ $value }} (1 reset, 2 reboot, 3 drain P2P, 4 drain and reset)")                                       \
	X(REMAP_FAILED, "GpuRowRemapFailed", "gpuscope_gpu_row_remap_failed == 1", "",                                                                                                       \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} has no spare rows of memory left")                                                                                                \
	X(ECC_UNCORRECTED, "GpuUncorrectedMemoryErrors",                                                                                                                                     \
	  "increase(gpuscope_gpu_ecc_volatile_errors_total{kind=\"uncorrected\"}[1h]) > 0", "",                                                                                              \
	  "Uncorrected memory errors on GPU {{ $labels.gpu }} of {{ $labels.instance }}")                                                                                                    \
	/* The first of a code has no value before it: increase() alone would not see it. */                                                                                                 \
	X(XID, "GpuXidError",                                                                                                                                                                \
	  "increase(gpuscope_gpu_xid_errors_total{xid!~\"13|31|43|45\"}[10m]) > 0 or (gpuscope_gpu_xid_errors_total{xid!~\"13|31|43|45\"} unless gpuscope_gpu_xid_errors_total offset 10m)", \
	  "", "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} of {{ $labels.instance }}")                                                                                                    \
	X(REPAIR_PENDING, "GpuRowRemapPending", "gpuscope_gpu_row_remap_pending == 1", "10m",                                                                                                \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} waits for a reset to replace a row of memory")                                                                                    \
	X(HOT, "GpuHot",                                                                                                                                                                     \
	  "gpuscope_gpu_temperature_celsius{sensor=\"gpu\"} >= on (cluster, instance, uuid) group_left gpuscope_gpu_temperature_limit_celsius{limit=\"slowdown\"} - 3",                      \
	  "10m",                                                                                                                                                                             \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} is {{ $value }} C, near its slowdown limit")                                                                                      \
	X(MEMORY_HOT, "GpuMemoryHot",                                                                                                                                                        \
	  "gpuscope_gpu_temperature_celsius{sensor=\"memory\"} >= on (cluster, instance, uuid) group_left gpuscope_gpu_temperature_limit_celsius{limit=\"memory\"} - 3",                     \
	  "10m",                                                                                                                                                                             \
	  "Memory of GPU {{ $labels.gpu }} of {{ $labels.instance }} is {{ $value }} C, near its limit")                                                                                     \
	X(HW_SLOWDOWN, "GpuHeldBackByHardware",                                                                                                                                              \
	  "sum by (cluster, instance, uuid, gpu) (rate(gpuscope_gpu_throttle_seconds_total{reason=~\"hw_thermal|hw_power_brake\"}[15m])) > 0.1",                                             \
	  "15m",                                                                                                                                                                             \
	  "Hardware throttled GPU {{ $labels.gpu }} of {{ $labels.instance }} for {{ $value | humanizePercentage }} of the time")                                                            \
	X(PCIE_WIDTH, "GpuPcieNarrow",                                                                                                                                                       \
	  "gpuscope_gpu_pcie_link_width{of=\"now\"} < ignoring (of) gpuscope_gpu_pcie_link_width{of=\"max\"}",                                                                               \
	  "15m",                                                                                                                                                                             \
	  "GPU {{ $labels.gpu }} of {{ $labels.instance }} has {{ $value }} PCIe lanes, fewer than it can use")                                                                              \
	X(IDLE_HELD, "GpuHeldIdle",                                                                                                                                                          \
	  "max_over_time(gpuscope_gpu_utilization_ratio[30m]) < 0.01 and on (cluster, instance, uuid) gpuscope_gpu_processes > 0",                                                           \
	  "30m",                                                                                                                                                                             \
	  "A process holds GPU {{ $labels.gpu }} of {{ $labels.instance }} and has not used it for an hour")

#endif
