/* Jobs under their own names. Each family goes over all jobs: lines of one follow each other. */
#include "output/metrics/job.h"

#include <math.h>
#include <string.h>

#include "output/metrics/job_int.h"

#define S(ns) ((double)(ns) / 1e9)

enum { ALWAYS = GS_JOB_KNOWS_COUNT }; /* instead of a family: what is always known */

struct one { /* a family with one line for each value of a label, or one line */
	const char *name;
	enum gs_metrics_kind kind;
	const char *unit, *help;
	unsigned needs; /* enum gs_job_family */
	/* The i-th line: its labels' values, and its value; false: there are no more. */
	bool (*line)(const struct gs_job_account *a, unsigned i, const char *values[2], double *v);
	const char *labels[2];
};

static bool only_first(unsigned i, double *v, double value)
{
	*v = value;
	return i == 0;
}

/* --- time --- */

static bool thread_seconds(const struct gs_job_account *a, unsigned i, const char *values[2],
			   double *v)
{
	if (i >= GS_TIME_COUNT)
		return false;
	values[0] = gs_taskstats_time_name(i);
	*v = S(a->work.time_ns[i]);
	/* Without the causes all of the waiting stands in one state. */
	if ((i == GS_TIME_RUNQUEUE && !gs_metrics_job_knows(a, GS_JOB_KNOWS_RUNQUEUE)) ||
	    (i > GS_TIME_RUNQUEUE && i != GS_TIME_OTHER &&
	     !gs_metrics_job_knows(a, GS_JOB_KNOWS_CAUSES)))
		*v = NAN;
	return true;
}

static bool read_switches(const struct gs_job_account *a, unsigned i, const char *values[2],
			  double *v)
{
	values[0] = i ? "forced" : "voluntary";
	*v = (double)(i ? a->work.switches_forced : a->work.switches_voluntary);
	return i < 2;
}

static bool read_migrations(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	return only_first(i, v, (double)a->work.migrations);
}

static bool read_wakeups(const struct gs_job_account *a, unsigned i, const char *values[2],
			 double *v)
{
	return only_first(i, v, (double)a->work.wakeups);
}

static bool queue_waits(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	return only_first(i, v, (double)a->work.queue_waits);
}

static bool threads_started(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	return only_first(i, v, (double)a->work.threads_started);
}

static bool read_faults(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	values[0] = i ? "major" : "minor";
	*v = (double)(i ? a->work.faults_major : a->work.faults_minor);
	return i < 2;
}

/* --- calls --- */

static bool read_syscalls(const struct gs_job_account *a, unsigned i, const char *values[2],
			  double *v)
{
	return only_first(i, v, (double)a->work.syscalls);
}

static bool syscall_errors(const struct gs_job_account *a, unsigned i, const char *values[2],
			   double *v)
{
	return only_first(i, v, (double)a->work.syscall_errors);
}

static bool read_calls(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	if (i >= a->n_calls)
		return false;
	values[0] = a->calls[i].name;
	*v = (double)a->calls[i].calls;
	return true;
}

static bool call_errors(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	if (i >= a->n_calls)
		return false;
	values[0] = a->calls[i].name;
	*v = (double)a->calls[i].errors;
	return true;
}

static bool call_seconds(const struct gs_job_account *a, unsigned i, const char *values[2],
			 double *v)
{
	if (i >= a->n_calls)
		return false;
	values[0] = a->calls[i].name;
	*v = S(a->calls[i].total_ns);
	return true;
}

/* --- input and output --- */

static const struct gs_taskstats_io_count *io_line(const struct gs_job_account *a, unsigned i,
						   const char *values[2])
{
	if (i >= 2 * GS_TASKSTATS_IO_KINDS)
		return NULL;
	values[0] = gs_taskstats_io_name(i / 2);
	values[1] = i % 2 ? "write" : "read";
	return &a->work.io[i / 2];
}

static bool io_bytes(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	const struct gs_taskstats_io_count *c = io_line(a, i, values);

	*v = c ? (double)(i % 2 ? c->write_bytes : c->read_bytes) : 0;
	return c;
}

static bool io_operations(const struct gs_job_account *a, unsigned i, const char *values[2],
			  double *v)
{
	const struct gs_taskstats_io_count *c = io_line(a, i, values);

	*v = c ? (double)(i % 2 ? c->writes : c->reads) : 0;
	return c;
}

static bool disk_bytes(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	values[0] = i ? "write" : "read";
	*v = (double)(i ? a->work.disk_write_bytes : a->work.disk_read_bytes);
	return i < 2;
}

static bool net_bytes(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	values[0] = i ? "received" : "sent";
	*v = (double)(i ? a->work.net_received_bytes : a->work.net_sent_bytes);
	return i < 2;
}

static bool net_connections(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	values[0] = i ? "in" : "out";
	*v = (double)(i ? a->work.net_accepts : a->work.net_connects);
	return i < 2;
}

static bool net_retransmits(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	return only_first(i, v, (double)a->work.net_retransmits);
}

/* --- memory --- */

static bool read_memory(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	return only_first(i, v,
			  a->memory_bytes < 0 || !a->n_processes ? NAN : (double)a->memory_bytes);
}

static bool memory_peak(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	return only_first(i, v, a->memory_peak_bytes < 0 ? NAN : (double)a->memory_peak_bytes);
}

static bool memory_limit(const struct gs_job_account *a, unsigned i, const char *values[2],
			 double *v)
{
	return only_first(i, v, a->memory_limit_bytes < 0 ? NAN : (double)a->memory_limit_bytes);
}

static bool oom_kills(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, (double)a->work.oom_kills);
}

static bool read_pressure(const struct gs_job_account *a, unsigned i, const char *values[2],
			  double *v)
{
	if (i >= 2 * GS_PRESSURE_COUNT)
		return false;
	values[0] = gs_pressure_name(i / 2);
	values[1] = i % 2 ? "full" : "some";
	*v = a->pressure_ns[i / 2][i % 2] < 0 ? NAN : S(a->pressure_ns[i / 2][i % 2]);
	return true;
}

/* --- GPUs --- */

static bool read_gpus(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, a->n_gpus < 0 || !a->n_processes ? NAN : a->n_gpus);
}

static bool gpus_idle(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, a->gpus_idle < 0 || !a->n_processes ? NAN : a->gpus_idle);
}

static bool gpu_seconds(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	return only_first(i, v, S(a->gpu_ns));
}

static bool gpu_busy(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, S(a->gpu_busy_ns));
}

static bool gpu_idle(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, S(a->gpu_idle_ns));
}

static bool read_energy(const struct gs_job_account *a, unsigned i, const char *values[2],
			double *v)
{
	return only_first(i, v, a->energy_joules);
}

static bool gpu_memory(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v,
			  a->gpu_memory_bytes < 0 || !a->n_processes ? NAN
								     : (double)a->gpu_memory_bytes);
}

/* --- the job itself --- */

static bool start_time(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, a->job.start_s > 0 ? (double)a->job.start_s : NAN);
}

static bool time_limit(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, a->job.limit_s > 0 ? (double)a->job.limit_s : NAN);
}

static bool read_processes(const struct gs_job_account *a, unsigned i, const char *values[2],
			   double *v)
{
	return only_first(i, v, a->n_processes);
}

static bool read_cpus(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	return only_first(i, v, a->cores);
}

static bool read_efficiency(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	return only_first(i, v, a->score / 100);
}

static bool job_class(const struct gs_job_account *a, unsigned i, const char *values[2], double *v)
{
	values[0] = a->job_class;
	return only_first(i, v, a->job_class[0] ? 1 : NAN);
}

static bool read_confidence(const struct gs_job_account *a, unsigned i, const char *values[2],
			    double *v)
{
	return only_first(i, v, a->job_class[0] ? a->confidence : NAN);
}

static const struct one families[] = {
	{"gpuscope_job_start_time_seconds",
	 GS_METRICS_GAUGE,
	 "seconds",
	 "When Slurm started the job, in seconds since 1970.",
	 ALWAYS,
	 start_time,
	 {0}},
	{"gpuscope_job_time_limit_seconds",
	 GS_METRICS_GAUGE,
	 "seconds",
	 "Time limit of the job.",
	 ALWAYS,
	 time_limit,
	 {0}},
	{"gpuscope_job_processes",
	 GS_METRICS_GAUGE,
	 "",
	 "Live processes of the job on this node; 0: it has ended and is still exported for a while.",
	 ALWAYS,
	 read_processes,
	 {0}},
	{"gpuscope_job_cpus",
	 GS_METRICS_GAUGE,
	 "",
	 "Processors that the job may use on this node.",
	 ALWAYS,
	 read_cpus,
	 {0}},
	{"gpuscope_job_thread_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "Time of the job's threads by state; the states sum to threads times wall time.",
	 GS_JOB_KNOWS_TIME,
	 thread_seconds,
	 {"state"}},
	{"gpuscope_job_context_switches",
	 GS_METRICS_COUNTER,
	 "",
	 "Context switches of the job's threads, voluntary and forced.",
	 GS_JOB_KNOWS_SWITCHES,
	 read_switches,
	 {"kind"}},
	{"gpuscope_job_migrations",
	 GS_METRICS_COUNTER,
	 "",
	 "Migrations of the job's threads to another processor.",
	 GS_JOB_KNOWS_SYSCALLS,
	 read_migrations,
	 {0}},
	{"gpuscope_job_wakeups",
	 GS_METRICS_COUNTER,
	 "",
	 "Wakeups of the job's threads.",
	 GS_JOB_KNOWS_SYSCALLS,
	 read_wakeups,
	 {0}},
	{"gpuscope_job_run_queue_waits",
	 GS_METRICS_COUNTER,
	 "",
	 "Completed waits of the job's threads for a processor.",
	 GS_JOB_KNOWS_SYSCALLS,
	 queue_waits,
	 {0}},
	{"gpuscope_job_threads_started",
	 GS_METRICS_COUNTER,
	 "",
	 "Threads of the job seen so far, those alive at the start included.",
	 GS_JOB_KNOWS_SYSCALLS,
	 threads_started,
	 {0}},
	{"gpuscope_job_page_faults",
	 GS_METRICS_COUNTER,
	 "",
	 "Page faults of the job: minor, and major ones that waited for a disk.",
	 GS_JOB_KNOWS_FAULTS,
	 read_faults,
	 {"kind"}},
	{"gpuscope_job_syscalls",
	 GS_METRICS_COUNTER,
	 "",
	 "System calls of the job.",
	 GS_JOB_KNOWS_SYSCALLS,
	 read_syscalls,
	 {0}},
	{"gpuscope_job_syscall_errors",
	 GS_METRICS_COUNTER,
	 "",
	 "System calls of the job that failed.",
	 GS_JOB_KNOWS_SYSCALLS,
	 syscall_errors,
	 {0}},
	{"gpuscope_job_calls",
	 GS_METRICS_COUNTER,
	 "",
	 "System calls of the job by name: the jobs.syscalls longest ones.",
	 GS_JOB_KNOWS_SYSCALLS,
	 read_calls,
	 {"call"}},
	{"gpuscope_job_call_errors",
	 GS_METRICS_COUNTER,
	 "",
	 "Failed system calls of the job by name.",
	 GS_JOB_KNOWS_SYSCALLS,
	 call_errors,
	 {"call"}},
	{"gpuscope_job_call_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "Time in system calls of the job by name.",
	 GS_JOB_KNOWS_SYSCALLS,
	 call_seconds,
	 {"call"}},
	{"gpuscope_job_io_bytes",
	 GS_METRICS_COUNTER,
	 "bytes",
	 "Bytes that the job read and wrote, by kind of file.",
	 GS_JOB_KNOWS_IO,
	 io_bytes,
	 {"kind", "direction"}},
	{"gpuscope_job_io_operations",
	 GS_METRICS_COUNTER,
	 "",
	 "Reads and writes of the job, by kind of file.",
	 GS_JOB_KNOWS_IO,
	 io_operations,
	 {"kind", "direction"}},
	{"gpuscope_job_disk_bytes",
	 GS_METRICS_COUNTER,
	 "bytes",
	 "Bytes of the job that reached a block device, as far as they can be attributed.",
	 GS_JOB_KNOWS_IO,
	 disk_bytes,
	 {"direction"}},
	{"gpuscope_job_network_bytes",
	 GS_METRICS_COUNTER,
	 "bytes",
	 "Bytes that the job sent and received over network sockets.",
	 GS_JOB_KNOWS_NET,
	 net_bytes,
	 {"direction"}},
	{"gpuscope_job_network_connections",
	 GS_METRICS_COUNTER,
	 "",
	 "Network connections that the job made and accepted.",
	 GS_JOB_KNOWS_NET,
	 net_connections,
	 {"direction"}},
	{"gpuscope_job_network_retransmits",
	 GS_METRICS_COUNTER,
	 "",
	 "TCP segments of the job that were retransmitted.",
	 GS_JOB_KNOWS_NET,
	 net_retransmits,
	 {0}},
	{"gpuscope_job_memory_bytes",
	 GS_METRICS_GAUGE,
	 "bytes",
	 "Memory in use by the job: of its own cgroup, else resident memory of its processes.",
	 GS_JOB_KNOWS_MEMORY,
	 read_memory,
	 {0}},
	{"gpuscope_job_memory_peak_bytes",
	 GS_METRICS_GAUGE,
	 "bytes",
	 "Peak of the job's memory in use.",
	 GS_JOB_KNOWS_MEMORY,
	 memory_peak,
	 {0}},
	{"gpuscope_job_memory_limit_bytes",
	 GS_METRICS_GAUGE,
	 "bytes",
	 "Memory limit of the job.",
	 ALWAYS,
	 memory_limit,
	 {0}},
	{"gpuscope_job_oom_kills",
	 GS_METRICS_COUNTER,
	 "",
	 "Processes of the job killed for lack of memory (OOM).",
	 GS_JOB_KNOWS_SYSCALLS,
	 oom_kills,
	 {0}},
	{"gpuscope_job_pressure_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "Time in which some or all tasks of the job stalled for lack of a resource (PSI).",
	 ALWAYS,
	 read_pressure,
	 {"resource", "scope"}},
	{"gpuscope_job_gpus",
	 GS_METRICS_GAUGE,
	 "",
	 "GPUs that the job was allocated, or that it uses.",
	 GS_JOB_KNOWS_GPU,
	 read_gpus,
	 {0}},
	{"gpuscope_job_gpus_idle",
	 GS_METRICS_GAUGE,
	 "",
	 "GPUs of the job on which nothing has run for jobs.gpu_idle.",
	 GS_JOB_KNOWS_GPU,
	 gpus_idle,
	 {0}},
	{"gpuscope_job_gpu_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "GPU time that the job held.",
	 GS_JOB_KNOWS_GPU,
	 gpu_seconds,
	 {0}},
	{"gpuscope_job_gpu_busy_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "GPU time that the job held while a kernel ran on them.",
	 GS_JOB_KNOWS_GPU,
	 gpu_busy,
	 {0}},
	{"gpuscope_job_gpu_idle_seconds",
	 GS_METRICS_COUNTER,
	 "seconds",
	 "GPU time that the job held between readings at which nothing ran.",
	 GS_JOB_KNOWS_GPU,
	 gpu_idle,
	 {0}},
	{"gpuscope_job_gpu_energy_joules",
	 GS_METRICS_COUNTER,
	 "joules",
	 "Energy of the job's GPUs; that of a shared GPU counts in full for each job.",
	 GS_JOB_KNOWS_GPU,
	 read_energy,
	 {0}},
	{"gpuscope_job_gpu_memory_bytes",
	 GS_METRICS_GAUGE,
	 "bytes",
	 "Device memory of the job's processes.",
	 GS_JOB_KNOWS_GPU,
	 gpu_memory,
	 {0}},
	{"gpuscope_job_efficiency_ratio",
	 GS_METRICS_GAUGE,
	 "ratio",
	 "Efficiency score of the job over the last half minute (jobs.window), 0 to 1.",
	 ALWAYS,
	 read_efficiency,
	 {0}},
	{"gpuscope_job_class",
	 GS_METRICS_GAUGE,
	 "",
	 "Class of the job over the last half minute (jobs.window): what limits it; always 1.",
	 ALWAYS,
	 job_class,
	 {"class"}},
	{"gpuscope_job_class_confidence_ratio",
	 GS_METRICS_GAUGE,
	 "ratio",
	 "Confidence of the job's class, 0 to 1.",
	 ALWAYS,
	 read_confidence,
	 {0}},
};

static void format_number(char *out, size_t bytes, int64_t v)
{
	out[0] = '\0';
	if (v >= 0)
		snprintf(out, bytes, "%lld", (long long)v);
}

static void write_identity(struct gs_metrics *p, const struct gs_job_accounts *jobs)
{
	gs_metrics_family(p, "gpuscope_job", GS_METRICS_INFO, "", "Identity of the job; always 1.");
	for (uint32_t i = 0; i < jobs->n_accounts; i++) {
		const struct gs_job *j = &jobs->account[i].job;
		char uid[24], array[24], task[24], het[24];
		const struct gs_metrics_label labels[] = {
			{"jobid", j->id},
			{"kind", gs_job_kind_name(j->kind)},
			{"user", j->user},
			{"uid", uid},
			{"account", j->account},
			{"partition", j->partition},
			{"qos", j->qos},
			{"cluster", j->cluster},
			{"name", j->name},
			{"nodes", j->nodes},
			{"array_jobid", array},
			{"array_taskid", task},
			{"het_jobid", het},
			{"pod", j->pod},
			{"namespace", j->namespace},
			{"proof", gs_job_proof_name(j)},
		};

		format_number(uid, sizeof(uid), j->uid);
		format_number(array, sizeof(array), j->array_job_id > 0 ? j->array_job_id : -1);
		format_number(task, sizeof(task), j->array_job_id > 0 ? j->array_task_id : -1);
		format_number(het, sizeof(het), j->het_job_id > 0 ? j->het_job_id : -1);
		gs_metrics_line(p, "", labels, GS_ARRAY_LEN(labels), 1, 0);
	}
}

/* Which GPUs are whose: for joins with families of GPUs. */
static void gpu_identity(struct gs_metrics *p, const struct gs_job_accounts *jobs,
			 const struct gs_gpu_snapshot *g)
{
	gs_metrics_family(p, "gpuscope_job_gpu", GS_METRICS_INFO, "", "A GPU of a job; always 1.");
	for (uint32_t i = 0; i < jobs->n_accounts; i++)
		for (uint32_t k = 0; k < g->n_gpus && k < 64; k++) {
			char index[16];
			const struct gs_metrics_label labels[] = {
				{"jobid", jobs->account[i].job.id},
				{"gpu", index},
				{"uuid", g->info[k].uuid},
			};

			snprintf(index, sizeof(index), "%u", g->info[k].index);
			if (jobs->account[i].n_processes && jobs->account[i].gpu_mask >> k & 1)
				gs_metrics_line(p, "", labels, GS_ARRAY_LEN(labels), 1, 0);
		}
}

static void write_family(struct gs_metrics *p, const struct gs_job_accounts *jobs,
			 const struct one *f)
{
	gs_metrics_family(p, f->name, f->kind, f->unit, f->help);
	for (uint32_t i = 0; i < jobs->n_accounts; i++) {
		const struct gs_job_account *a = &jobs->account[i];
		const char *values[2] = {NULL, NULL};
		double v;

		if (f->needs != ALWAYS && !gs_metrics_job_knows(a, (enum gs_job_family)f->needs))
			continue;
		for (unsigned k = 0; f->line(a, k, values, &v); k++) {
			const struct gs_metrics_label labels[] = {
				{"jobid", a->job.id},
				{f->labels[0], values[0]},
				{f->labels[1], values[1]},
			};

			gs_metrics_line(p, "", labels,
					1 + (f->labels[0] != NULL) + (f->labels[1] != NULL), v, 0);
		}
	}
}

void gs_metrics_jobs(struct gs_metrics *p, const struct gs_job_accounts *jobs,
		     const struct gs_gpu_snapshot *g, enum gs_metrics_job_names names)
{
	if (!jobs)
		return;
	if (names != GS_METRICS_JOBS_HPC_MONITOR) {
		write_identity(p, jobs);
		if (g)
			gpu_identity(p, jobs, g);
		for (size_t i = 0; i < GS_ARRAY_LEN(families); i++)
			write_family(p, jobs, &families[i]);
	}
	if (names != GS_METRICS_JOBS_NATIVE)
		gs_metrics_jobs_hpc_monitor(p, jobs);
}
