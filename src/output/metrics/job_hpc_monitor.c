/*
 * Jobs by the names of ebpf-hpc-monitor: the keys of its reports after hpc_monitor_, in its units.
 * Its counters have no "_total".
 */
#include <math.h>

#include "output/metrics/job_int.h"

enum metric {
	CPU_PERCENT,
	IO_PERCENT,
	WAIT_PERCENT,
	NET_PERCENT,
	MEMORY_USAGE,
	EFFICIENCY_SCORE,
	MONITORED_PIDS,
	TOTAL_SYSCALLS,
	CONTEXT_SWITCHES,
	CPU_TIME_NS,
	TOTAL_IO_BYTES,
	READ_BYTES,
	WRITE_BYTES,
	IO_OPERATIONS,
	TOTAL_NET_BYTES,
	SEND_BYTES,
	RECV_BYTES,
	NET_OPERATIONS,
	METRICS
};

static const struct {
	const char *name;
	enum gs_metrics_kind kind;
	int needs; /* enum gs_job_family; -1 nothing */
	const char *help;
} metrics[METRICS] = {
	[CPU_PERCENT] =
		{"hpc_monitor_cpu_percent", GS_METRICS_GAUGE, -1,
		 "CPU time of the job, percent of its cores' time in the last half minute."},
	[IO_PERCENT] =
		{"hpc_monitor_io_percent", GS_METRICS_GAUGE, -1,
		 "Time blocked on disks and file systems, percent of the job's thread time."},
	[WAIT_PERCENT] =
		{"hpc_monitor_wait_percent", GS_METRICS_GAUGE, -1,
		 "Time for which the job's cores had none of its threads to run, percent."},
	[NET_PERCENT] = {"hpc_monitor_net_percent", GS_METRICS_GAUGE, -1,
			 "Time blocked on the network, percent of the job's thread time."},
	[MEMORY_USAGE] = {"hpc_monitor_memory_usage", GS_METRICS_GAUGE, -1,
			  "Peak memory of the job, percent of its allocation."},
	[EFFICIENCY_SCORE] = {"hpc_monitor_efficiency_score", GS_METRICS_GAUGE, -1,
			      "Efficiency score of the job, 0 to 100."},
	[MONITORED_PIDS] = {"hpc_monitor_monitored_pids", GS_METRICS_GAUGE, -1,
			    "Live processes of the job."},
	[TOTAL_SYSCALLS] = {"hpc_monitor_total_syscalls", GS_METRICS_BARE, GS_JOB_KNOWS_SYSCALLS,
			    "System calls of the job."},
	[CONTEXT_SWITCHES] = {"hpc_monitor_context_switches", GS_METRICS_BARE,
			      GS_JOB_KNOWS_SWITCHES,
			      "Context switches of the job, voluntary and forced."},
	[CPU_TIME_NS] = {"hpc_monitor_cpu_time_ns", GS_METRICS_BARE, GS_JOB_KNOWS_TIME,
			 "CPU time of the job."},
	[TOTAL_IO_BYTES] = {"hpc_monitor_total_io_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_IO,
			    "Bytes that the job read from and wrote to files."},
	[READ_BYTES] = {"hpc_monitor_read_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_IO,
			"Bytes that the job read from files."},
	[WRITE_BYTES] = {"hpc_monitor_write_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_IO,
			 "Bytes that the job wrote to files."},
	[IO_OPERATIONS] = {"hpc_monitor_io_operations", GS_METRICS_BARE, GS_JOB_KNOWS_IO,
			   "File reads and writes of the job."},
	[TOTAL_NET_BYTES] = {"hpc_monitor_total_net_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_NET,
			     "Bytes that the job sent and received over the network."},
	[SEND_BYTES] = {"hpc_monitor_send_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_NET,
			"Bytes that the job sent over the network."},
	[RECV_BYTES] = {"hpc_monitor_recv_bytes", GS_METRICS_BARE, GS_JOB_KNOWS_NET,
			"Bytes that the job received over the network."},
	[NET_OPERATIONS] = {"hpc_monitor_net_operations", GS_METRICS_BARE, GS_JOB_KNOWS_NET,
			    "Calls by which the job sent or received over the network."},
};

static struct gs_taskstats_io_count files_of(const struct gs_taskstats *w)
{
	static const enum gs_taskstats_io kinds[] = {GS_IO_FILE, GS_IO_NETFILE, GS_IO_TMPFS};
	struct gs_taskstats_io_count sum = {0};

	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
		gs_taskstats_io_add(&sum, &w->io[kinds[i]]);
	return sum;
}

static double value_of(const struct gs_job_account *a, enum metric m)
{
	const struct gs_taskstats *w = &a->work;
	struct gs_taskstats_io_count io = files_of(w);

	switch (m) {
	case CPU_PERCENT:
		return a->cpu_percent;
	case IO_PERCENT:
		return a->io_percent;
	case WAIT_PERCENT:
		return a->wait_percent;
	case NET_PERCENT:
		return a->net_percent;
	case MEMORY_USAGE:
		return a->memory_percent;
	case EFFICIENCY_SCORE:
		return a->score;
	case MONITORED_PIDS:
		return a->n_processes;
	case TOTAL_SYSCALLS:
		return (double)w->syscalls;
	case CONTEXT_SWITCHES:
		return (double)(w->switches_voluntary + w->switches_forced);
	case CPU_TIME_NS:
		return (double)w->time_ns[GS_TIME_CPU];
	case TOTAL_IO_BYTES:
		return (double)(io.read_bytes + io.write_bytes);
	case READ_BYTES:
		return (double)io.read_bytes;
	case WRITE_BYTES:
		return (double)io.write_bytes;
	case IO_OPERATIONS:
		return (double)(io.reads + io.writes);
	case TOTAL_NET_BYTES:
		return (double)(w->net_sent_bytes + w->net_received_bytes);
	case SEND_BYTES:
		return (double)w->net_sent_bytes;
	case RECV_BYTES:
		return (double)w->net_received_bytes;
	case NET_OPERATIONS:
		return (double)(w->io[GS_IO_SOCKET].reads + w->io[GS_IO_SOCKET].writes);
	default:
		return NAN;
	}
}

void gs_metrics_jobs_hpc_monitor(struct gs_metrics *p, const struct gs_job_accounts *jobs)
{
	gs_metrics_family(p, "hpc_monitor_job", GS_METRICS_INFO, "", "Identity of the job.");
	for (uint32_t i = 0; i < jobs->n_accounts; i++) {
		const struct gs_job_account *a = &jobs->account[i];
		const struct gs_metrics_label labels[] = {
			{"job_id", a->job.id},     {"user", a->job.user},
			{"job_name", a->job.name}, {"partition", a->job.partition},
			{"nodes", a->job.nodes},   {"classification", a->job_class},
		};

		gs_metrics_line(p, "", labels, GS_ARRAY_LEN(labels), 1, 0);
	}
	for (unsigned m = 0; m < METRICS; m++) {
		gs_metrics_family(p, metrics[m].name, metrics[m].kind, "", metrics[m].help);
		for (uint32_t i = 0; i < jobs->n_accounts; i++) {
			const struct gs_job_account *a = &jobs->account[i];
			const struct gs_metrics_label label = {"job_id", a->job.id};

			if (metrics[m].needs < 0 ||
			    gs_metrics_job_knows(a, (enum gs_job_family)metrics[m].needs))
				gs_metrics_line(p, "", &label, 1, value_of(a, m), 0);
		}
	}
}
