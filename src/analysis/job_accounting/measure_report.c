/*
 * The report of a measurement: usage, calls, tables, ranks and GPUs of each job, where each family
 * of figures comes from, and what was lost.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "analysis/job_accounting/measure_int.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "model/node/job_tables.h"

uint32_t accounting_wanted_families(const struct gs_accounting_measure_options *o)
{
	uint32_t all =
		1u << GS_JOB_KNOWS_MEMORY | 1u << GS_JOB_KNOWS_GPU | 1u << GS_JOB_KNOWS_PRESSURE;

	return all | gs_job_families_of(o->families) | (uint32_t)o->cuda << GS_JOB_KNOWS_CUDA |
	       (uint32_t)o->mpi << GS_JOB_KNOWS_MPI;
}

/* Where the processes are no group of their own, others of it may have been killed for memory. */
static struct gs_host_cgroup group_of(const struct accounting_member *x)
{
	struct gs_host_cgroup group = x->last;

	if (!x->is_limited)
		group.periods = -1;
	if (!x->has_cgroup)
		group.oom_kills = -1;
	return group;
}

static struct gs_accounting_mark mark_of(const struct accounting_member *x,
					 const struct gs_job_usage *u, uint64_t now_ns)
{
	return (struct gs_accounting_mark){
		.time_ns = now_ns,
		.work = u->work,
		.gpu = x->gpu.sums,
		.group = group_of(x),
		.stalls = x->stall_last,
		.launches = u->launches,
		.nccl_ns = u->nccl_ratio * (double)u->elapsed_ns,
	};
}

static double cores_of(const struct accounting_member *x, const struct gs_host_taskstats_total *t)
{
	double cores = t->n_cores ? t->n_cores : NAN;

	if (x->job.n_cpus > 0)
		return x->job.n_cpus;
	if (x->is_limited && x->last.cores > 0 && !(cores <= x->last.cores))
		cores = x->last.cores;
	return cores;
}

static void use_of_memory(const struct accounting_member *x,
			  const struct gs_host_taskstats_total *t, struct gs_job_usage *u)
{
	u->memory_peak_bytes = t->rss_peak_bytes > 0 ? t->rss_peak_bytes : -1;
	u->memory_limit_bytes = gs_host_memory_limit(
		x->job.mem_bytes, x->is_limited ? x->last.memory_limit_bytes : -1,
		u->machine_bytes);
	u->memory_anonymous_bytes = x->anonymous_peak;
	u->memory_cache_bytes = x->cache_peak;
	u->memory_reclaimable_bytes = x->reclaimable_peak;
	if (!x->has_cgroup)
		return;
	/* The kernel's peak is of the group's whole life: right for a job's own group. */
	if (x->last.memory_peak_bytes > 0)
		u->memory_peak_bytes = x->last.memory_peak_bytes;
	else if (x->cgroup_peak > 0)
		u->memory_peak_bytes = x->cgroup_peak;
}

static int by_time(const void *a, const void *b)
{
	const struct gs_job_report_call *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static int report_calls(const struct gs_accounting_measure *m, uint32_t job,
			struct gs_job_report *report)
{
	struct gs_rows_calls calls = {0};
	int r = gs_rows_add_calls(m->rows, job, &calls);

	report->calls = r == 0 ? calloc(calls.n_rows + 1, sizeof(*report->calls)) : NULL;
	for (size_t i = 0; report->calls && i < calls.n_rows; i++) {
		const struct gs_taskstats_syscall *c = &calls.row[i].call;
		struct gs_job_report_call *to = &report->calls[report->n_calls++];

		gs_taskstats_call_name(calls.row[i].id, to->name, sizeof(to->name));
		to->calls = c->calls;
		to->errors = c->errors;
		to->total_ns = c->total_ns;
		to->max_ns = c->max_ns;
		to->timed = c->timed;
		memcpy(to->hist, c->hist, sizeof(to->hist));
	}
	gs_rows_calls_fini(&calls);
	if (!report->calls)
		return -ENOMEM;
	qsort(report->calls, report->n_calls, sizeof(*report->calls), by_time);
	return 0;
}

/* What the kernel counted: usage, with the families known, calls, tables, processes seen. */
static void report_rows(const struct gs_accounting_measure *m, uint32_t job,
			struct gs_job_report *report)
{
	struct gs_job_usage *u = &report->usage;
	struct gs_rows_sum sum;

	gs_rows_sum(m->rows, job, u->elapsed_ns, &sum);
	u->work = sum.work;
	u->pace = sum.pace;
	u->io_rows = true;
	u->sched_rows = gs_rows_families(m->rows) & GS_TASKSTATS_SCHED;
	u->known |= gs_job_families_of(gs_rows_families(m->rows));
	report->n_processes_seen = sum.n_processes;
	if (report_calls(m, job, report) < 0 ||
	    gs_rows_add_tables(m->rows, job, &report->tables) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_JOBS, "no memory for the calls and tables of a job");
	gs_job_tables_sort(&report->tables);
}

/* From the first reading of its counters to the last one, so that shares of it are right however long
 * a reading takes. */
static uint64_t elapsed_of(const struct gs_accounting_measure *m, const struct accounting_member *x,
			   const struct gs_host_taskstats_total *t)
{
	uint64_t from_ns = x->start_ns, end_ns = m->last_ns;

	if (t->n_processes == 0 && x->last_alive_ns)
		end_ns = x->last_alive_ns;
	if (!m->rows && t->from_ns)
		from_ns = t->from_ns;
	if (!m->rows && t->to_ns)
		end_ns = t->to_ns;
	return end_ns > from_ns ? end_ns - from_ns : 0;
}

/* What it used in the last window instead of since the beginning, and the next mark when it is due. */
static void take_window(struct gs_accounting_measure *m, size_t i, uint64_t window_ns,
			struct gs_job_usage *u)
{
	struct accounting_member *x = &m->member[i];
	struct gs_accounting_mark now = mark_of(x, u, m->last_ns);
	bool is_turn;

	if (!x->window.base.time_ns)
		x->window.base.time_ns = x->start_ns;
	if (!x->window.last.time_ns)
		x->window.last.time_ns = x->start_ns;
	is_turn = gs_accounting_window_is_due(&x->window, m->last_ns, window_ns);
	if (m->rows)
		gs_rows_recent(m->rows, (uint32_t)i, u->elapsed_ns, &u->pace);
	else
		u->pace = (struct gs_job_pace){0};
	gs_accounting_window_usage(&x->window, &now, u);
	if (is_turn && m->rows)
		gs_rows_mark(m->rows, (uint32_t)i);
	if (is_turn)
		gs_accounting_window_mark(&x->window, &now);
}

static void report_one(struct gs_accounting_measure *m, size_t i, const struct gs_rules *rules,
		       uint64_t window_ns, struct gs_job_report *ret)
{
	struct accounting_member *x = &m->member[i];
	struct gs_job_usage *u = &ret->usage;
	struct gs_host_taskstats_total t;
	struct gs_host_cgroup group;
	uint64_t now_s = gs_clock_wall_ns() / 1000000000;
	struct sysinfo machine;
	uint32_t pids[8192];

	gs_host_taskstats_total(m->work, (uint32_t)i, &t);
	*ret = (struct gs_job_report){
		.job = x->job, .n_processes_seen = t.n_processes_seen, .ended = t.n_processes == 0};
	snprintf(ret->command, sizeof(ret->command), "%s", accounting_who_command(m->who, &x->job));
	u->elapsed_ns = elapsed_of(m, x, &t);
	u->work = t.work;
	u->pace = t.pace;
	u->cores = cores_of(x, &t);
	if (m->rows)
		report_rows(m, (uint32_t)i, ret);
	else
		u->known = gs_host_taskstats_families(t.known);
	u->known = (u->known | 1u << GS_JOB_KNOWS_MEMORY | 1u << GS_JOB_KNOWS_PRESSURE) &
		   accounting_wanted_families(m->options);
	gs_accounting_stalled_shares(&x->stall_first, &x->stall_last, x->stall_ns,
				     u->pressure_ratio);
	u->machine_bytes =
		sysinfo(&machine) == 0 ? (int64_t)machine.totalram * machine.mem_unit : -1;
	use_of_memory(x, &t, u);
	group = group_of(x);
	gs_accounting_use_of_group(&x->first, &group, u);
	gs_accounting_gpu_use_usage(&x->gpu, u);
	u->launches = u->nccl_ratio = NAN;
	if (m->launches)
		gs_launches_usage(m->launches, (uint32_t)i, u, &ret->mpi);
	if (gs_accounting_measure_ranks_report(m->ranks, (uint32_t)i, m->rows, ret) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_JOBS, "no memory for the ranks of a job");
	u->run_s = x->job.start_s > 0 && now_s > (uint64_t)x->job.start_s
			   ? (double)(now_s - (uint64_t)x->job.start_s)
			   : NAN;
	u->limit_s = x->job.limit_s > 0 ? (double)x->job.limit_s : NAN;
	ret->n_pids = gs_host_taskstats_pids(m->work, (uint32_t)i, pids, GS_ARRAY_LEN(pids));
	if (ret->n_pids > GS_ARRAY_LEN(pids))
		ret->n_pids = GS_ARRAY_LEN(pids);
	ret->pids = calloc(ret->n_pids + 1, sizeof(*pids));
	if (ret->pids)
		memcpy(ret->pids, pids, ret->n_pids * sizeof(*pids));
	else
		ret->n_pids = 0;
	if (window_ns)
		take_window(m, i, window_ns, u);
	gs_job_report_figures_of(u, &ret->figures);
	gs_verdict_of(rules, &ret->figures, &ret->verdict);
}

static void put_sources(const struct gs_accounting_measure *m, struct gs_job_report_session *s)
{
	uint32_t want = accounting_wanted_families(m->options);
	unsigned long long every =
		(unsigned long long)(gs_accounting_measure_pause_ns(m) / 1000000);

	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++) {
		char *out = s->source[i];
		size_t bytes = sizeof(s->source[i]);

		if (!(want >> i & 1)) {
			if (strcmp(m->options->filter, "all") == 0)
				snprintf(out, bytes,
					 "not selected (ebpf.probes of the configuration)");
			else
				snprintf(out, bytes, "not selected (--filter %s)",
					 m->options->filter);
			continue;
		}
		if (i == GS_JOB_KNOWS_CUDA || i == GS_JOB_KNOWS_MPI) {
			snprintf(out, bytes, "%s",
				 m->launches ? gs_launches_source(m->launches, i)
					     : "no probes on libraries: ebpf.enabled is false");
			continue;
		}
		if (m->rows && i != GS_JOB_KNOWS_MEMORY && i != GS_JOB_KNOWS_GPU &&
		    i != GS_JOB_KNOWS_PRESSURE) {
			snprintf(
				out, bytes, "counted in the kernel (eBPF)%s",
				i == GS_JOB_KNOWS_IO
					? "; mapped files only at devices and as page faults; not process_vm_readv and process_vm_writev"
					: "");
			continue;
		}
		switch (i) {
		case GS_JOB_KNOWS_TIME:
		case GS_JOB_KNOWS_RUNQUEUE:
			snprintf(out, bytes, "procfs: counters of the scheduler, each thread");
			break;
		case GS_JOB_KNOWS_CAUSES:
			snprintf(out, bytes,
				 "procfs: the call each thread is found in every %llu ms", every);
			break;
		case GS_JOB_KNOWS_SWITCHES:
			snprintf(out, bytes, "procfs: each thread's counters, every second");
			break;
		case GS_JOB_KNOWS_IO:
			snprintf(
				out, bytes,
				"procfs: reads and writes of all kinds of files, pipes and sockets too");
			break;
		case GS_JOB_KNOWS_FAULTS:
			snprintf(out, bytes, "procfs");
			break;
		case GS_JOB_KNOWS_MEMORY:
			snprintf(
				out, bytes,
				"cgroup where the job has its own, else resident memory of its processes");
			break;
		case GS_JOB_KNOWS_PRESSURE:
			snprintf(out, bytes,
				 "PSI of the job's own cgroup (version 2); unknown without one");
			break;
		case GS_JOB_KNOWS_GPU:
			snprintf(out, bytes, "%s", accounting_gpu_reader_source(m->gpu));
			break;
		default:
			snprintf(out, bytes, "unknown without probes: %s", m->why_no_rows);
			break;
		}
	}
}

static void put_machine(struct gs_job_report_session *s)
{
	struct sysinfo machine;
	struct utsname name;

	if (uname(&name) == 0) {
		snprintf(s->host, sizeof(s->host), "%s", name.nodename);
		snprintf(s->kernel, sizeof(s->kernel), "%s", name.release);
	}
	s->n_cpus = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (sysinfo(&machine) == 0)
		s->memory_bytes = (int64_t)machine.totalram * machine.mem_unit;
}

static void put_stalls(const struct gs_accounting_measure *m, struct gs_job_report_session *s)
{
	struct gs_host_stalls now;

	gs_host_stalls_read("/proc/pressure", &now);
	gs_accounting_stalled_shares(&m->stall_first, &now, gs_clock_boot_ns() - m->start_ns,
				     s->pressure_ratio);
	s->open_bytes = m->rows ? gs_rows_open_bytes(m->rows) : 0;
}

static void add_loss(struct gs_job_report_session *s, const char *text)
{
	size_t n = strlen(s->loss);

	if (text[0])
		snprintf(s->loss + n, sizeof(s->loss) - n, "%s%s", n ? "; " : "", text);
}

static void put_losses(const struct gs_accounting_measure *m, struct gs_job_report_session *s)
{
	char text[512] = "";
	unsigned unknown = 0;

	if (m->rows)
		gs_rows_losses(m->rows, text, sizeof(text));
	add_loss(s, text);
	text[0] = '\0';
	if (m->launches)
		gs_launches_losses(m->launches, text, sizeof(text));
	add_loss(s, text);
	text[0] = '\0';
	if (m->rows && gs_rows_missing(m->rows)[0])
		snprintf(text, sizeof(text), "this kernel does not count: %s",
			 gs_rows_missing(m->rows));
	add_loss(s, text);
	text[0] = '\0';
	if (m->n_jobs_full)
		snprintf(
			text, sizeof(text),
			"processes of further jobs were not measured (the limit is %zu jobs; slurm.max_fallback_jobs)",
			m->n_members);
	add_loss(s, text);
	text[0] = '\0';
	if (gs_accounting_measure_ranks_left_out(m->ranks))
		snprintf(text, sizeof(text), "%llu processes belong to ranks that are not listed",
			 (unsigned long long)gs_accounting_measure_ranks_left_out(m->ranks));
	add_loss(s, text);
	for (size_t i = 0; i < m->n_members; i++)
		unknown |= gs_job_unanswered(&m->member[i].job);
	accounting_who_losses(m->who, unknown, text, sizeof(text));
	add_loss(s, text);
}

static int report_all(struct gs_accounting_measure *m, const struct gs_rules *rules,
		      uint64_t window_ns, struct gs_job_report_session *s)
{
	int r = m->rows ? gs_rows_read(m->rows, NULL) : 0;

	if (r < 0)
		return r;
	/* What the kernel has counted is of this moment, however long reading it took. */
	if (m->rows) {
		m->last_ns = gs_rows_read_ns(m->rows);
		/* Those of the last poll are up to a second old. */
		accounting_measure_read_cgroups(m);
	}
	*s = (struct gs_job_report_session){
		.ebpf = m->rows != NULL,
		.start_wall_ns = m->start_wall_ns,
		.end_wall_ns = (int64_t)gs_clock_wall_ns(),
		.elapsed_ns = m->last_ns - m->start_ns,
		.live = m->options->live,
	};
	s->jobs = calloc(m->n_members + 1, sizeof(*s->jobs));
	if (!s->jobs)
		return -ENOMEM;
	snprintf(s->filter, sizeof(s->filter), "%s", m->options->filter);
	put_machine(s);
	put_stalls(m, s);
	put_sources(m, s);
	for (size_t i = 0; i < m->n_members; i++) {
		struct gs_host_taskstats_total t;

		gs_host_taskstats_total(m->work, (uint32_t)i, &t);
		s->failed_reads += t.failed_reads;
		s->slurm |= m->member[i].job.kind == GS_JOB_SLURM;
		report_one(m, i, rules, window_ns, &s->jobs[s->n_jobs++]);
	}
	memcpy(s->slurm_version, m->slurm_version, sizeof(s->slurm_version));
	put_losses(m, s);
	return 0;
}

int gs_accounting_measure_report(struct gs_accounting_measure *m, const struct gs_rules *rules,
				 struct gs_job_report_session *s)
{
	return report_all(m, rules, 0, s);
}

int gs_accounting_measure_recent(struct gs_accounting_measure *m, const struct gs_rules *rules,
				 uint64_t window_ns, struct gs_job_report_session *s)
{
	return report_all(m, rules, window_ns, s);
}
