/* The agent's configuration: tables, of which src/core/base/conf makes the parser and the default
 * file.
 */
#include <stdio.h>
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_control.h"
#include "commands/common/ask.h"
#include "core/base/fmt.h"
#include "net/http/http_conf.h"
#include "output/metrics/job.h"

#define SHORTEST_NS (100 * GS_CONF_MS) /* NVML's own values do not change more often */

const char *const agent_group_name[AGENT_GROUPS] = {"basic", "processes", "gpm", "links", "health"};
const unsigned agent_group_bit[AGENT_GROUPS] = {GS_GPU_READ_BASIC, GS_GPU_READ_PROCESSES,
						GS_GPU_READ_GPM, GS_GPU_READ_LINKS,
						GS_GPU_READ_HEALTH};

static bool valid_names(const char *text)
{
	return gs_metrics_names_parse(text) != 0;
}

/* The part whose name stands at *at, which moves after it; -1: there is none of that name. */
static int next_part(const char **at)
{
	size_t n = strcspn(*at, ",");
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name) - 1), *at);
	*at += n + ((*at)[n] == ',');
	return gs_gpu_part_by_name(name + strspn(name, " "));
}

static bool valid_parts(const char *text)
{
	while (*text)
		if (next_part(&text) < 0)
			return false;
	return true;
}

#define AT(section, field) offsetof(__typeof__(((struct agent_conf *)0)->section), field)

static const struct gs_conf_key sampling_keys[] = {
	{.name = "interval",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(sampling, interval_ns),
	 .preset = "1s",
	 .comment =
		 "Time between two readings of a group of values that has no interval of its own.",
	 .min = SHORTEST_NS,
	 .max = GS_CONF_H},
	{.name = "events",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(sampling, events),
	 .preset = "true",
	 .comment = "Watch for XID errors, in the driver and in the kernel's log."},
	{.name = "budget",
	 .kind = GS_CONF_RATIO,
	 .offset = AT(sampling, budget_ratio),
	 .preset = "0.4%",
	 .comment =
		 "Share of one processor's time that NVIDIA's library may take, for all GPUs, at one\n"
		 "reading a second (ten a second may take ten times that). Each of its calls is\n"
		 "timed; what costs more is then read less often, up to 10 s apart for power and\n"
		 "temperature, 60 s for others, 10 min for health. Memory, GPM and with it\n"
		 "utilisation are read every time. When a value was read is served as\n"
		 "gpuscope_gpu_values_timestamp_seconds. 0: everything is read every time."},
	{.name = "leave_out",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(sampling, leave_out),
	 .preset = "",
	 .comment =
		 "Values that are never read, by the names of gpuscope_gpu_values_timestamp_seconds,\n"
		 "with commas: fan,engines,bar1. Single links are read only for metrics.links.",
	 .bytes = sizeof(((struct agent_conf *)0)->sampling.leave_out),
	 .valid = valid_parts,
	 .expects = "names of values with commas, such as \"fan,engines,bar1\""},
};

#define GROUP_KEYS(variable, preset_interval)                                                          \
	static const struct gs_conf_key variable[] = {                                                 \
		{.name = "enabled",                                                                    \
		 .kind = GS_CONF_BOOL,                                                                 \
		 .offset = offsetof(struct agent_group_conf, enabled),                                 \
		 .preset = "true",                                                                     \
		 .comment = "false: the group is not read."},                                          \
		{.name = "interval",                                                                   \
		 .kind = GS_CONF_DURATION,                                                             \
		 .offset = offsetof(struct agent_group_conf, interval_ns),                             \
		 .preset = preset_interval,                                                            \
		 .comment = "Time between two readings; 0: sampling.interval.",                        \
		 .max = GS_CONF_H},                                                                    \
		{.name = "max_interval",                                                               \
		 .kind = GS_CONF_DURATION,                                                             \
		 .offset = offsetof(struct agent_group_conf, max_interval_ns),                         \
		 .preset = "0",                                                                        \
		 .comment =                                                                            \
			 "While no value changes by the threshold, the interval doubles up to this;\n" \
			 "the first change resets it. 0: it never grows.",                             \
		 .max = GS_CONF_H},                                                                    \
		{.name = "threshold",                                                                  \
		 .kind = GS_CONF_RATIO,                                                                \
		 .offset = offsetof(struct agent_group_conf, threshold_ratio),                         \
		 .preset = "1%",                                                                       \
		 .comment = "Smallest relative change of a value that counts as a change."},           \
	}

GROUP_KEYS(group_keys, "0");
GROUP_KEYS(links_keys, "5s");
GROUP_KEYS(health_keys, "30s");

static const struct gs_conf_key gpu_keys[] = {
	{.name = "library",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(gpu, library),
	 .preset = "",
	 .comment = "Path of libnvidia-ml.so.1; empty: search as the dynamic linker does.",
	 .bytes = sizeof(((struct agent_conf *)0)->gpu.library)},
	{.name = "hang",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(gpu, hang_ns),
	 .preset = "5s",
	 .comment = "A driver call that takes longer is abandoned; its values are then missing.",
	 .min = 100 * GS_CONF_MS,
	 .max = 60 * GS_CONF_S},
	{.name = "accounting",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(gpu, accounting),
	 .preset = "false",
	 .comment = "Also report processes that started and ended between two samples."},
};

static const struct gs_conf_key http_keys[] = {
	{.name = "listen",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, listen),
	 .preset = "127.0.0.1:" AGENT_PORT,
	 .comment =
		 "HOST:PORT, [IPv6]:PORT, or *:PORT for all addresses. Without token_file, basic_auth_file\n"
		 "and tls_client_ca other machines get metrics and health only.",
	 .bytes = sizeof(((struct agent_conf *)0)->http.listen),
	 .valid = gs_http_listen_valid,
	 .expects = "an address such as 127.0.0.1:14780, [::1]:14780 or *:14780"},
	{.name = "tls_cert",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, tls_cert),
	 .preset = "",
	 .comment =
		 "Certificate (with its chain) and key in PEM; both or none. Read again on reload.",
	 .bytes = 256},
	{.name = "tls_key",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, tls_key),
	 .preset = "",
	 .comment = "",
	 .bytes = 256},
	{.name = "tls_client_ca",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, tls_client_ca),
	 .preset = "",
	 .comment =
		 "CA certificates: only clients with a certificate signed by one of them may connect.",
	 .bytes = 256},
	{.name = "token_file",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, token_file),
	 .preset = "",
	 .comment = "File of bearer tokens, one per line. /healthz and /readyz need none.",
	 .bytes = 256},
	{.name = "basic_auth_file",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, basic_auth_file),
	 .preset = "",
	 .comment = "File of USER:PASSWORD lines. Neither file may be world-readable.",
	 .bytes = 256},
	GS_HTTP_CONF_HOSTS(AT(http, hosts), 1024),
	GS_HTTP_CONF_ANONYMOUS(AT(http, anonymous)),
	{.name = "max_connections",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(http, max_connections),
	 .preset = "64",
	 .comment =
		 "Connection limit. At it, idle and slow connections are closed for new ones, then new ones\n"
		 "get 503. One client address may use half of them.",
	 .min = 1,
	 .max = 4096},
	{.name = "timeout",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(http, timeout_ns),
	 .preset = "10s",
	 .comment = "Time for a client to send its request, and to read the answer.",
	 .min = 100 * GS_CONF_MS,
	 .max = 300 * GS_CONF_S},
};

/* As gs_identity_choose_commands() has them. */
static const char *const commands_choices[] = {"scrubbed", "name", "full", NULL};

static const struct gs_conf_key processes_keys[] = {
	{.name = "commands",
	 .kind = GS_CONF_CHOICE,
	 .offset = AT(processes, commands),
	 .preset = "scrubbed",
	 .comment =
		 "Process arguments to keep, serve and send: scrubbed (without passwords, tokens and keys),\n"
		 "name (none), full. HTTP clients without a token never get any, and full ones\n"
		 "need a token with the role control.",
	 .choices = commands_choices},
	{.name = "gpu_use_max",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(processes, gpu_use_max_ns),
	 .preset = "1h",
	 .comment =
		 "Longest time for which one request (gpuscope agent ctl trace-gpu) traces the GPU use of\n"
		 "a process; 0: never.",
	 .max = 24 * GS_CONF_H},
	{.name = "gpu_use_linger",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(processes, gpu_use_linger_ns),
	 .preset = "5m",
	 .comment = "How long the sums of a process are exported after the last request.",
	 .max = 24 * GS_CONF_H},
	{.name = "gpu_use_inside",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(processes, gpu_use_inside),
	 .preset = "false",
	 .comment =
		 "Trace the GPU use of jobs that opted in by a library in them instead of by probes. A job opts in\n"
		 "with: eval \"$(gpuscope agent --inside-env)\"; Slurm's TaskProlog can run it for all."},
};

static const struct gs_conf_key metrics_keys[] = {
	{.name = "compat",
	 .kind = GS_CONF_LIST,
	 .offset = AT(metrics, compat),
	 .preset = "native",
	 .comment =
		 "Names, labels and units of GPU metrics, one or several with commas: native (gpuscope's own),\n"
		 "dcgm (dcgm-exporter up to 4.8: %, MiB, mJ, MHz), dcgm-new (DCGM 4.7 and newer: base units).\n"
		 "With the last two, dashboards made for dcgm-exporter work. Without native, only those native\n"
		 "metrics are exported that gpuscope's alert rules need.",
	 .bytes = sizeof(((struct agent_conf *)0)->metrics.compat),
	 .valid = valid_names,
	 .expects = "one or several of native, dcgm, dcgm-new"},
	{.name = "processes",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(metrics, processes),
	 .preset = "true",
	 .comment = "Export series for each process on a GPU (native names only)."},
	{.name = "max_processes",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(metrics, max_processes),
	 .preset = "128",
	 .comment =
		 "Maximum number of processes in a scrape, those with most memory; the rest is counted in\n"
		 "gpuscope_agent_processes_dropped_total.",
	 .min = 0,
	 .max = 10000},
	{.name = "links",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(metrics, links),
	 .preset = "false",
	 .comment = "Export series for each NVLink beside their sums (native names only)."},
	{.name = "timestamps",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(metrics, timestamps),
	 .preset = "false",
	 .comment =
		 "Add the time of the reading to each line. Prometheus then cannot detect that a series\n"
		 "ended; gpuscope_gpu_sample_timestamp_seconds is always exported."},
	{.name = "hostname",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(metrics, hostname),
	 .preset = "",
	 .comment = "The label Hostname with dcgm names; empty: the machine's name.",
	 .bytes = 256},
};

static const char *const job_names[] = {"native", "hpc_monitor", "both", NULL};

#define JOB_SWITCH(name_, field, preset_, comment_)                                                \
	{                                                                                          \
		.name = name_, .kind = GS_CONF_BOOL, .offset = AT(jobs, field), .preset = preset_, \
		.comment = comment_                                                                \
	}

static const struct gs_conf_key job_keys[] = {
	JOB_SWITCH("enabled", enabled, "true", "Export metrics of jobs."),
	JOB_SWITCH("slurm", slurm, "true", "Export Slurm jobs."),
	JOB_SWITCH("pods", pods, "true", "Export Kubernetes pods."),
	JOB_SWITCH("containers", containers, "false", "Export containers outside of pods."),
	JOB_SWITCH("units", units, "false", "Export systemd services and scopes."),
	JOB_SWITCH("cgroups", cgroups, "false", "Export other cgroups."),
	JOB_SWITCH("users", users, "false",
		   "Export users, with their processes outside of all these."),
	JOB_SWITCH(
		"probes", probes, "true",
		"Count in the kernel (eBPF) where permitted; otherwise, and with false, procfs is read:\n"
		"system calls, network and device I/O are then unknown. gpuscope_agent_jobs_probes says so."),
	JOB_SWITCH("controller", controller, "true",
		   "Ask Slurm's controller for each job's name, limits and GPUs, once."),
	{.name = "interval",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(jobs, interval_ns),
	 .preset = "5s",
	 .comment =
		 "Time between two readings of jobs. The kernel counts meanwhile; without probes, processes that\n"
		 "start and end between two readings are seen only in part.",
	 .min = 500 * GS_CONF_MS,
	 .max = GS_CONF_H},
	{.name = "max",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(jobs, max),
	 .preset = "256",
	 .comment =
		 "Maximum number of jobs; the rest is counted in gpuscope_agent_jobs_left_out_total.",
	 .min = 1,
	 .max = 256},
	{.name = "syscalls",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(jobs, syscalls),
	 .preset = "0",
	 .comment =
		 "Number of system calls to export by name for each job, those that took longest; timing them\n"
		 "costs more in the kernel. 0: only their sum.",
	 .min = 0,
	 .max = 32},
	{.name = "names",
	 .kind = GS_CONF_CHOICE,
	 .offset = AT(jobs, names),
	 .preset = "native",
	 .comment =
		 "Metric names: gpuscope_job_..., hpc_monitor_... as in ebpf-hpc-monitor, or both.",
	 .choices = job_names},
	{.name = "linger",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(jobs, linger_ns),
	 .preset = "5m",
	 .comment = "How long an ended job is still exported, so that its last totals are scraped.",
	 .min = GS_CONF_S,
	 .max = 24 * GS_CONF_H},
	{.name = "window",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(jobs, window_ns),
	 .preset = "30s",
	 .comment = "Window of class and efficiency: they cover between half and all of it.",
	 .min = 2 * GS_CONF_S,
	 .max = 24 * GS_CONF_H},
	{.name = "gpu_idle",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(jobs, gpu_idle_ns),
	 .preset = "1m",
	 .comment = "Time without work after which a GPU counts in gpuscope_job_gpus_idle.",
	 .min = GS_CONF_S,
	 .max = 24 * GS_CONF_H},
};

static const char *const devices_choices[] = {"none", "self", "jobs", NULL};

static const struct gs_conf_key devices_keys[] = {
	{.name = "grant",
	 .kind = GS_CONF_CHOICE,
	 .offset = AT(devices, grant),
	 .preset = "none",
	 .comment =
		 "Keep NVIDIA devices allowed in cgroups when other programs rewrite the rules: self, all\n"
		 "devices for the agent; jobs, also those that a process has open, for its cgroup. Needs the\n"
		 "rights of gpuscope-devices(8).",
	 .choices = devices_choices},
	{.name = "interval",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(devices, interval_ns),
	 .preset = "30s",
	 .comment = "Time between two checks of the cgroups.",
	 .min = GS_CONF_S,
	 .max = GS_CONF_H},
	{.name = "retries",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(devices, retries),
	 .preset = "10",
	 .comment =
		 "Maximum number of times an hour that a cgroup gets its devices back; then it is left alone\n"
		 "for the rest of the hour.",
	 .min = 0,
	 .max = 3600},
	{.name = "host_root",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(devices, host_root),
	 .preset = "",
	 .comment = "The host's root, in a container; empty: /.",
	 .bytes = sizeof(((struct agent_conf *)0)->devices.host_root)},
};

static const struct gs_conf_key control_keys[] = {
	{.name = "path",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(control, path),
	 .preset = AGENT_CONTROL_PATH,
	 .comment =
		 "Socket for `gpuscope agent ctl`. Its owner and root may connect. Empty: none. Not changed\n"
		 "by a reload.",
	 .bytes = sizeof(((struct agent_conf *)0)->control.path)},
	{.name = "group",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(control, group),
	 .preset = "",
	 .comment = "Members of this group may also connect.",
	 .bytes = sizeof(((struct agent_conf *)0)->control.group)},
};

static bool valid_spool_max(const char *text)
{
	uint64_t bytes;

	return gs_parse_bytes(text, &bytes) == 0 && bytes >= 1 << 20;
}

static const struct gs_conf_key findings_keys[] = {
	{.name = "enabled",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(findings, enabled),
	 .preset = "false",
	 .comment =
		 "Find when GPUs, memory and processes change (gpuscope explain), once a second."},
	{.name = "settings",
	 .kind = GS_CONF_LIST,
	 .offset = AT(findings, settings),
	 .preset = "",
	 .comment = "Options of detectors, KEY=VALUE, as --set of gpuscope explain takes them.",
	 .bytes = sizeof(((struct agent_conf *)0)->findings.settings)},
};

static const struct gs_conf_key head_keys[] = {
	{.name = "addresses",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, addresses),
	 .preset = "",
	 .comment =
		 "HOST:PORT of `gpuscope head`, or unix:/PATH; several with commas: later ones are fallbacks.\n"
		 "Empty: no head.",
	 .bytes = sizeof(((struct agent_conf *)0)->head.addresses)},
	{.name = "resilient",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(head, resilient),
	 .preset = "true",
	 .comment = "Buffer undelivered data on disk; false: in memory (32 MiB)."},
	{.name = "spool",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, spool),
	 .preset = AGENT_SPOOL_PATH,
	 .comment = "Spool directory for undelivered data.",
	 .bytes = sizeof(((struct agent_conf *)0)->head.spool)},
	{.name = "spool_max",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, spool_max),
	 .preset = "256M",
	 .comment = "Spool size limit; then the oldest data are dropped and counted.",
	 .bytes = sizeof(((struct agent_conf *)0)->head.spool_max),
	 .valid = valid_spool_max,
	 .expects = "1M or more, such as 256M"},
	{.name = "all_processes",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(head, all_processes),
	 .preset = "false",
	 .comment = "Send every process, not only those on GPUs."},
	{.name = "tls",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(head, tls),
	 .preset = "false",
	 .comment = "Use TLS and verify the head with the system's CA certificates."},
	{.name = "tls_ca",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, tls_ca),
	 .preset = "",
	 .comment = "CA certificate to verify the head (PEM).",
	 .bytes = 256},
	{.name = "tls_cert",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, tls_cert),
	 .preset = "",
	 .comment = "Client certificate and key, if the head asks for them; both or none.",
	 .bytes = 256},
	{.name = "tls_key",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, tls_key),
	 .preset = "",
	 .comment = "",
	 .bytes = 256},
	{.name = "server_name",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, server_name),
	 .preset = "",
	 .comment = "Name in the head's certificate, if it is not that of the address.",
	 .bytes = 256},
	{.name = "token_file",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, token_file),
	 .preset = "",
	 .comment = "File with the token in its first line.",
	 .bytes = 256},
	{.name = "machine_id",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, machine_id),
	 .preset = "",
	 .comment = "Override /etc/machine-id.",
	 .bytes = sizeof(((struct agent_conf *)0)->head.machine_id)},
	{.name = "jobs",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(head, jobs),
	 .preset = "true",
	 .comment =
		 "Also send a report of each job that the section jobs selects: while it runs, and when it\n"
		 "has ended."},
	{.name = "jobs_interval",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(head, jobs_interval_ns),
	 .preset = "30s",
	 .comment = "Time between two reports of a running job.",
	 .min = GS_CONF_S,
	 .max = GS_CONF_H},
	{.name = "instance",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(head, instance),
	 .preset = "agent",
	 .comment = "Name of this instance; distinguishes the agent from others on this machine.",
	 .bytes = sizeof(((struct agent_conf *)0)->head.instance)},
};

static bool valid_prefix(const char *text)
{
	return strcmp(text, "hpc_monitor_") == 0;
}

/* A configuration of ebpf-hpc-monitor, as its README and the file it ships have it. */
#define PROMETHEUS_KEYS(variable, i_, port_)                                                       \
	static const struct gs_conf_key variable[] = {                                             \
		{.name = "enabled",                                                                \
		 .kind = GS_CONF_BOOL,                                                             \
		 .offset = AT(hpc_monitor, prometheus[i_].enabled),                                \
		 .preset = "false",                                                                \
		 .comment = "",                                                                    \
		 .hidden = true},                                                                  \
		{.name = "port",                                                                   \
		 .kind = GS_CONF_NUMBER,                                                           \
		 .offset = AT(hpc_monitor, prometheus[i_].port),                                   \
		 .preset = port_,                                                                  \
		 .comment = "",                                                                    \
		 .min = 0,                                                                         \
		 .max = 65535,                                                                     \
		 .hidden = true},                                                                  \
		{.name = "metrics_prefix",                                                         \
		 .kind = GS_CONF_TEXT,                                                             \
		 .offset = AT(hpc_monitor, prometheus[i_].prefix),                                 \
		 .preset = "hpc_monitor_",                                                         \
		 .comment = "",                                                                    \
		 .bytes = 32,                                                                      \
		 .valid = valid_prefix,                                                            \
		 .expects = "hpc_monitor_, the only supported prefix",                             \
		 .hidden = true},                                                                  \
		{.name = "update_interval",                                                        \
		 .kind = GS_CONF_NUMBER,                                                           \
		 .offset = AT(hpc_monitor, prometheus[i_].update_s),                               \
		 .preset = "0",                                                                    \
		 .comment = "",                                                                    \
		 .min = 0,                                                                         \
		 .max = 3600,                                                                      \
		 .hidden = true},                                                                  \
	}

PROMETHEUS_KEYS(readme_prometheus, 0, "8000");
PROMETHEUS_KEYS(shipped_prometheus, 1, "9090");

#define FOREIGN(name_, i_)                                                                         \
	{                                                                                          \
		.name = name_, .kind = GS_CONF_FOREIGN, .offset = AT(hpc_monitor, foreign[i_]),    \
		.preset = "", .comment = ""                                                        \
	}

static const struct gs_conf_key foreign_keys[] = {
	FOREIGN("slurm", 0),       FOREIGN("classification", 1), FOREIGN("output", 2),
	FOREIGN("logging", 3),     FOREIGN("performance", 4),    FOREIGN("security", 5),
	FOREIGN("experimental", 6)};
static const struct gs_conf_key ebpf_keys[] = {{.name = "enabled",
						.kind = GS_CONF_BOOL,
						.offset = AT(hpc_monitor, ebpf),
						.preset = "true",
						.comment = "",
						.hidden = true},
					       FOREIGN("filter", 7),
					       FOREIGN("probes", 8),
					       FOREIGN("poll_interval_ms", 9),
					       FOREIGN("poll_timeout", 10),
					       FOREIGN("buffer_size", 11),
					       FOREIGN("perf_buffer_size", 12),
					       FOREIGN("monitored_syscalls", 13),
					       FOREIGN("excluded_pids", 14),
					       FOREIGN("excluded_processes", 15)};
static const struct gs_conf_key external_keys[] = {FOREIGN("email", 16), FOREIGN("influxdb", 17),
						   FOREIGN("grafana", 18)};
static const struct gs_conf_key integrations_keys[] = {
	FOREIGN("notifications", 19), FOREIGN("influxdb", 20), FOREIGN("grafana", 21)};

#define SECTION(name_, comment_, field, table)                                                     \
	{                                                                                          \
		.name = name_, .comment = comment_, .offset = offsetof(struct agent_conf, field),  \
		.keys = table, .n_keys = GS_ARRAY_LEN(table)                                       \
	}

static const struct gs_conf_section sections[] = {
	SECTION("sampling", "When values are read.", sampling, sampling_keys),
	SECTION("sampling.basic",
		"Utilisation, memory, temperature, power, energy, clocks, throttling.",
		group[AGENT_BASIC], group_keys),
	SECTION("sampling.processes", "Processes on each GPU.", group[AGENT_PROCESSES], group_keys),
	SECTION("sampling.gpm", "SM, tensor and DRAM activity (Hopper and newer).",
		group[AGENT_GPM], group_keys),
	SECTION("sampling.links", "NVLink.", group[AGENT_LINKS], links_keys),
	SECTION("sampling.health", "ECC, row remaps, PCIe link, limits.", group[AGENT_HEALTH],
		health_keys),
	SECTION("gpu", "", gpu, gpu_keys),
	SECTION("http", "HTTP server: /metrics, /healthz, /readyz, page and API.", http, http_keys),
	SECTION("processes", "Command lines of processes.", processes, processes_keys),
	SECTION("metrics", "Exported metrics.", metrics, metrics_keys),
	SECTION("jobs", "Metrics of the jobs of this node.", jobs, job_keys),
	SECTION("findings", "Findings of detectors. Not changed by a reload.", findings,
		findings_keys),
	SECTION("devices", "Access to NVIDIA devices.", devices, devices_keys),
	SECTION("recorder",
		"Last seconds of jobs, written when something happens. Not changed by a reload.",
		recorder, agent_recorder_keys),
	SECTION("traffic",
		"TCP connections by application, port and peer. Not changed by a reload.", traffic,
		agent_traffic_keys),
	GS_PUSH_SECTIONS(offsetof(struct agent_conf, push)),
	GS_PUSH_LOGS_SECTION(offsetof(struct agent_conf, push)),
	{.name = "mysql",
	 .comment = "MySQL or MariaDB server to write samples to. Not changed by a reload.",
	 .offset = offsetof(struct agent_conf, mysql),
	 .keys = gs_mysql_conf_keys,
	 .n_keys = GS_MYSQL_CONF_KEYS},
	SECTION("control", "Control socket.", control, control_keys),
	SECTION("head", "Head to send samples to. Not changed by a reload.", head, head_keys),
	GS_ALERT_SECTIONS(offsetof(struct agent_conf, alerts)),
	SECTION("", "", hpc_monitor, foreign_keys),
	SECTION("ebpf", "", hpc_monitor, ebpf_keys),
	SECTION("external_systems", "", hpc_monitor, external_keys),
	SECTION("external_systems.prometheus", "", hpc_monitor, readme_prometheus),
	SECTION("integrations", "", hpc_monitor, integrations_keys),
	SECTION("integrations.prometheus", "", hpc_monitor, shipped_prometheus),
};

static int check_conf(const void *whole, const struct gs_conf_where *where, struct gs_err *err)
{
	const struct agent_conf *c = whole;
	char key[64];
	int r;

	for (int i = 0; i < AGENT_GROUPS; i++) {
		const struct agent_group_conf *g = &c->group[i];
		uint64_t interval_ns = g->interval_ns ? g->interval_ns : c->sampling.interval_ns;

		snprintf(key, sizeof(key), "sampling.%s.interval", agent_group_name[i]);
		if (g->interval_ns && g->interval_ns < SHORTEST_NS)
			return gs_conf_refuse(where, key, err,
					      "interval takes 0 or at least 100ms");
		snprintf(key, sizeof(key), "sampling.%s.max_interval", agent_group_name[i]);
		if (g->max_interval_ns && g->max_interval_ns < interval_ns)
			return gs_conf_refuse(
				where, key, err,
				"max_interval is shorter than the interval of the group");
	}
	if (c->http.tls_cert[0] && !c->http.tls_key[0])
		return gs_conf_refuse(where, "http.tls_cert", err,
				      "tls_cert without tls_key: TLS needs both");
	if (!c->head.tls_cert[0] != !c->head.tls_key[0])
		return gs_conf_refuse(where, c->head.tls_cert[0] ? "head.tls_cert" : "head.tls_key",
				      err, "tls_cert and tls_key go together");
	if (c->head.addresses[0] && c->head.resilient && !c->head.spool[0])
		return gs_conf_refuse(where, "head.spool", err,
				      "resilient needs a spool directory; or set resilient: false");
	if (c->http.tls_key[0] && !c->http.tls_cert[0])
		return gs_conf_refuse(where, "http.tls_key", err,
				      "tls_key without tls_cert: TLS needs both");
	if (c->http.tls_client_ca[0] && !c->http.tls_cert[0])
		return gs_conf_refuse(
			where, "http.tls_client_ca", err,
			"tls_client_ca without tls_cert and tls_key: there is no TLS");
	r = gs_push_conf_check(c->push, where, err);
	if (r == 0)
		r = gs_mysql_conf_check(&c->mysql, where, err);
	if (r < 0)
		return r;
	if (c->alerts.window_ns)
		return gs_conf_refuse(where, "alerts.window", err,
				      "window is for gpuscope job; the agent uses jobs.window");
	return gs_alert_conf_check(&c->alerts, where, err);
}

const struct gs_conf_schema agent_conf_schema = {
	.comment =
		"gpuscope agent: /etc/gpuscope/agent.yaml. Every key is shown with its default, which holds\n"
		"where it is left out. `gpuscope agent --check-config` checks a file; after a change:\n"
		"`systemctl reload gpuscope-agent` (SIGHUP).",
	.bytes = sizeof(struct agent_conf),
	.sections = sections,
	.n_sections = GS_ARRAY_LEN(sections),
	.check = check_conf,
};

static void list_unused(const struct agent_conf *c, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(sections); i++)
		for (size_t k = 0; k < sections[i].n_keys && n < bytes; k++) {
			const struct gs_conf_key *key = &sections[i].keys[k];
			uint32_t line;

			if (key->kind != GS_CONF_FOREIGN)
				continue;
			memcpy(&line, (const char *)c + sections[i].offset + key->offset,
			       sizeof(line));
			if (line)
				n += (size_t)snprintf(out + n, bytes - n, "%s%s%s%s (line %u)",
						      n ? ", " : "", sections[i].name,
						      sections[i].name[0] ? "." : "", key->name,
						      line);
		}
}

void agent_conf_adopt(struct agent_conf *c, char *ret_unused, size_t bytes)
{
	struct agent_conf usual;

	gs_conf_defaults(&agent_conf_schema, &usual);
	if (!c->hpc_monitor.ebpf)
		c->jobs.probes = false;
	for (size_t i = 0; i < GS_ARRAY_LEN(c->hpc_monitor.prometheus); i++) {
		if (!c->hpc_monitor.prometheus[i].enabled)
			continue;
		/* The agent's own keys beside it say more. */
		if (strcmp(c->http.listen, usual.http.listen) == 0)
			snprintf(c->http.listen, sizeof(c->http.listen), "127.0.0.1:%d",
				 (int)c->hpc_monitor.prometheus[i].port);
		if (c->jobs.names == usual.jobs.names)
			c->jobs.names = GS_METRICS_JOBS_HPC_MONITOR;
		if (c->jobs.interval_ns == usual.jobs.interval_ns &&
		    c->hpc_monitor.prometheus[i].update_s)
			c->jobs.interval_ns = (uint64_t)c->hpc_monitor.prometheus[i].update_s *
					      (uint64_t)GS_CONF_S;
	}
	list_unused(c, ret_unused, bytes);
}

void agent_conf_resolve(struct agent_conf *c)
{
	for (int i = 0; i < AGENT_GROUPS; i++) {
		struct agent_group_conf *g = &c->group[i];

		if (!g->interval_ns)
			g->interval_ns = c->sampling.interval_ns;
		if (g->max_interval_ns < g->interval_ns)
			g->max_interval_ns = g->interval_ns;
	}
	gs_alert_conf_resolve(&c->alerts);
}

uint64_t agent_conf_leave_out(const struct agent_conf *c)
{
	const char *at = c->sampling.leave_out;
	uint64_t bits = 0;

	while (*at) {
		int part = next_part(&at);

		bits |= part >= 0 ? 1ull << part : 0;
	}
	if (!c->metrics.links)
		bits |= 1ull << GS_GPU_PART_LINK_EACH;
	return bits;
}

double agent_conf_budget(const struct agent_conf *c)
{
	double a_second = 1e9 / (double)c->sampling.interval_ns;

	return c->sampling.budget_ratio * (a_second > 1 ? a_second : 1);
}
