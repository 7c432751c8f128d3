/*
 * The measuring side of `gpuscope job`: finds the processes of the jobs asked for, again and again,
 * and adds up what they do. Without probes all comes from procfs and cgroups; each family of
 * figures says which way it was learned.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "analysis/job_accounting/gpu_use.h"
#include "analysis/job_accounting/measure_ranks.h"
#include "analysis/job_accounting/rows.h"
#include "analysis/job_accounting/scan.h"
#include "commands/job/job.h"
#include "commands/job/job_gpu.h"
#include "commands/job/job_who.h"
#include "model/node/job_tables.h"
#include "sources/host/pressure.h"
#include "sources/host/taskstats.h"
#include "sources/launches/launches.h"

#define SCAN_NS         500000000ull /* between two searches for new processes */
#define HURRY_NS        50000000ull  /* the same, while a job that is waited for begins */
#define HURRY_FOR_NS    30000000000ull
#define DETACHED_NS     100000000ull  /* and later: each step of a job begins anew */
#define GROUP_NS        1000000000ull /* between two readings of cgroups and GPUs */
#define KERNEL_PAUSE_NS 200000000ull
#define SETTLE_NS       2000000000ull
#define COST_SHARE      50 /* looking takes one of so many parts of the time at most */

struct member { /* a job that is watched */
	struct gs_job job;
	struct gs_host_cgroup first, last;
	struct gs_host_stalls stall_first, stall_last;
	uint64_t stall_from_ns, stall_ns; /* between both */
	bool has_cgroup, seen_alive;
	bool is_limited;  /* limits were read, of a group that may hold others too */
	uint32_t any_pid; /* whose cgroup is read */
	int64_t cgroup_peak, anonymous_peak, cache_peak, reclaimable_peak; /* -1 unknown */
	struct gs_accounting_gpu_use gpu;
	uint64_t start_ns, last_alive_ns; /* boot clock */
};

struct job_measure {
	const struct job_options *options;
	struct gs_host_taskstats *work;
	struct job_who *who;
	struct job_gpu *gpu;
	struct gs_launches *cuda; /* NULL: not wanted */
	struct gs_accounting_measure_ranks *ranks;
	struct gs_accounting_rows *rows; /* NULL: no probes, why_no_rows has the reason */
	char why_no_rows[256];
	char slurm_version[32]; /* at the end */
	struct member member[GS_HOST_TASKSTATS_GROUPS];
	size_t n_members;
	struct gs_accounting_scan scan;
	uint64_t start_ns, scan_ns, group_ns, look_cost_ns, last_ns;
	int64_t start_wall_ns;
	uint64_t n_jobs_full;
	struct gs_host_stalls stall_first; /* of the machine */
	struct gs_map holders; /* pid -> nothing: slurmstepds that are followed, not counted */
	bool first_scan_done;
};

/* Of a user; uid -1: of all. */
static size_t n_claims(const struct job_measure *m, int64_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_members; i++)
		n += m->member[i].job.is_claimed && (uid < 0 || m->member[i].job.uid == uid);
	return n;
}

/* Claims take no room from jobs, and one user's claims none from those of others. */
static bool claims_full(const struct job_measure *m, int64_t uid)
{
	return n_claims(m, -1) >= GS_JOB_CLAIMS_MAX || n_claims(m, uid) >= GS_JOB_CLAIMS_USER_MAX ||
	       m->n_members >= GS_HOST_TASKSTATS_GROUPS;
}

static struct member *member_of(struct job_measure *m, const struct gs_job *job)
{
	struct member *x;
	size_t most = m->options->by == JOB_OF_ALL && job->kind != GS_JOB_SLURM
			      ? (size_t)m->options->conf.max_jobs
			      : GS_HOST_TASKSTATS_GROUPS - GS_JOB_CLAIMS_MAX;

	for (size_t i = 0; i < m->n_members; i++)
		if (gs_job_is_same(&m->member[i].job, job))
			return &m->member[i];
	/* Its claim was proven while it was measured. */
	for (size_t i = 0; job->kind == GS_JOB_SLURM && !job->is_claimed && i < m->n_members; i++)
		if (m->member[i].job.is_claimed && m->member[i].job.job_id == job->job_id &&
		    m->member[i].job.uid == job->uid)
			return &m->member[i];
	if (job->is_claimed ? claims_full(m, job->uid) : m->n_members - n_claims(m, -1) >= most) {
		m->n_jobs_full++;
		return NULL;
	}
	x = &m->member[m->n_members++];
	*x = (struct member){.job = *job,
			     .cgroup_peak = -1,
			     .anonymous_peak = -1,
			     .cache_peak = -1,
			     .reclaimable_peak = -1,
			     .start_ns = gs_clock_boot_ns()};
	memset(&x->stall_first, 0xff, sizeof(x->stall_first)); /* -1: unknown */
	return x;
}

static uint32_t find_rank(void *ctx, uint32_t job, uint32_t pid)
{
	struct job_measure *m = ctx;
	struct gs_job_task task;

	job_who_task(m->who, pid, &task);
	return gs_accounting_measure_ranks_find(m->ranks, job, &task);
}

static void add_ended(void *ctx, uint32_t job, uint32_t rank, const struct gs_taskstats *work)
{
	struct job_measure *m = ctx;

	gs_accounting_measure_ranks_add_ended(m->ranks, job, rank, work);
}

/* One process: watched when it belongs to a job that was asked for. */
static bool take_process(struct job_measure *m, uint32_t pid)
{
	struct gs_job job;
	struct member *x;
	uint32_t at, rank;
	uint64_t none;

	if (gs_host_taskstats_watches(m->work, pid) ||
	    (gs_map_get(&m->holders, pid, &none) && gs_accounting_is_holder("/proc", pid)) ||
	    !job_who_is(m->who, pid, &job))
		return false;
	x = member_of(m, &job);
	if (x && gs_accounting_is_holder("/proc", pid) && gs_map_put(&m->holders, pid, 0) == 0) {
		if (m->rows)
			gs_accounting_rows_follow_holder(m->rows, pid, (uint32_t)(x - m->member));
		x->any_pid = pid;
		return false;
	}
	if (!x ||
	    gs_host_taskstats_add(m->work, (uint32_t)(x - m->member), pid, m->first_scan_done) < 0)
		return false;
	at = (uint32_t)(x - m->member);
	rank = find_rank(m, at, pid);
	if (m->rows)
		gs_accounting_rows_follow(m->rows, pid, at, rank);
	else
		gs_accounting_measure_ranks_note(m->ranks, pid, at, rank);
	if (m->cuda)
		gs_launches_follow(m->cuda, pid, at);
	if (job.kind == GS_JOB_CGROUP && x->job.uid != job.uid) { /* of several users: nobody's */
		job.uid = -1;
		job.user[0] = '\0';
	}
	x->job = job;
	x->any_pid = pid;
	return true;
}

struct search {
	struct job_measure *m;
	bool found;
};

/* Whose child a process is does not change, but a tree's members come to be known one by one: of
 * these every one is asked about. */
static int consider_process(void *ctx, uint32_t pid, bool ask)
{
	struct search *s = ctx;

	if (ask || s->m->options->by == JOB_OF_PIDS)
		s->found |= take_process(s->m, pid);
	return 0;
}

/* A recorder is there before its job: the first seconds of that shall not be missed. */
static bool is_hurried(const struct job_measure *m)
{
	return m->options->detach && !job_measure_alive(m) &&
	       m->last_ns - m->start_ns < HURRY_FOR_NS;
}

static void scan_processes(struct job_measure *m)
{
	size_t n_before = m->n_members;
	bool again = true;
	uint64_t from_ns;

	/* A child may stand before its parent when numbers have wrapped. */
	for (int pass = 0; again && pass < 16; pass++) {
		struct search s = {m, false};

		job_who_scan(m->who);
		(void)gs_accounting_scan_processes(&m->scan, "/proc", gs_clock_boot_ns(),
						   consider_process, &s);
		again = s.found && m->options->by == JOB_OF_PIDS;
	}
	from_ns = m->rows ? gs_accounting_rows_flush(m->rows) : 0;
	for (size_t i = n_before; from_ns && i < m->n_members; i++)
		m->member[i].start_ns = from_ns;
	if (!m->first_scan_done && from_ns && gs_accounting_rows_read(m->rows, NULL) == 0)
		for (size_t i = n_before; i < m->n_members; i++) {
			from_ns = gs_accounting_rows_since_ns(m->rows, (uint32_t)i);
			if (from_ns)
				m->member[i].start_ns = from_ns;
		}
	m->first_scan_done = true;
}

/* Memory and processors of the job's own group. The root's numbers and those of a group that holds
 * more than the job say nothing of it, so only a batch system's, a pod's, a unit's or the group
 * that was asked for are read. */
static bool owns_cgroup(const struct gs_job *job)
{
	return job->kind == GS_JOB_SLURM || job->kind == GS_JOB_POD ||
	       job->kind == GS_JOB_CONTAINER || job->kind == GS_JOB_UNIT ||
	       job->kind == GS_JOB_CGROUP;
}

static void read_pressure(struct member *x, const char *path)
{
	struct gs_host_stalls now;

	if (!gs_host_stalls_of_cgroup("/sys/fs/cgroup", "/proc", path ? 0 : x->any_pid, path, &now))
		return;
	x->stall_last = now;
	if (!x->stall_from_ns) {
		x->stall_first = now;
		x->stall_from_ns = gs_clock_boot_ns();
	}
	x->stall_ns = gs_clock_boot_ns() - x->stall_from_ns;
}

static void raise_to(int64_t *peak, int64_t now)
{
	if (now > *peak)
		*peak = now;
}

/* Processes that are no batch job, container or unit are confined all the same. */
static void read_limits(struct member *x)
{
	struct gs_host_cgroup now;

	if (!gs_host_cgroup_read("/sys/fs/cgroup", "/proc", x->any_pid, NULL, &now))
		return;
	if (!x->is_limited)
		x->first = now;
	x->last = now;
	x->is_limited = true;
}

static void use_of_quota(const struct member *x, struct gs_job_usage *u)
{
	const struct gs_host_cgroup *a = &x->first, *b = &x->last;

	if (!x->is_limited || a->periods < 0 || b->periods <= a->periods)
		return;
	u->quota_periods = (uint64_t)(b->periods - a->periods);
	if (a->throttled_periods >= 0 && b->throttled_periods > a->throttled_periods)
		u->throttled_periods = (uint64_t)(b->throttled_periods - a->throttled_periods);
	if (a->throttled_ns >= 0 && b->throttled_ns > a->throttled_ns)
		u->throttled_ns = (uint64_t)(b->throttled_ns - a->throttled_ns);
}

/* pid -> member, of the processes that live. False: no memory. */
static bool map_processes(const struct job_measure *m, struct gs_map *job_of)
{
	int r = 0;

	for (size_t i = 0; i < m->n_members; i++) {
		size_t n = gs_host_taskstats_pids(m->work, (uint32_t)i, NULL, 0);
		GS_FREE uint32_t *pids = calloc(n + 1, sizeof(*pids));

		if (!pids)
			return false;
		gs_host_taskstats_pids(m->work, (uint32_t)i, pids, n);
		for (size_t k = 0; r == 0 && k < n; k++)
			r = gs_map_put(job_of, pids[k], i);
	}
	return r == 0;
}

static void read_gpus(struct job_measure *m)
{
	struct gs_accounting_gpu_use *use[GS_HOST_TASKSTATS_GROUPS];
	uint64_t allotted[GS_HOST_TASKSTATS_GROUPS];
	struct gs_map job_of = GS_MAP_INIT(1u << 20);

	for (size_t i = 0; i < m->n_members; i++) {
		use[i] = &m->member[i].gpu;
		allotted[i] = m->member[i].job.gpu_mask;
	}
	if (map_processes(m, &job_of))
		gs_accounting_gpu_use_read(use, allotted, m->n_members, &job_of,
					   job_gpu_snapshot(m->gpu), gs_clock_boot_ns(),
					   UINT64_MAX);
	gs_map_fini(&job_of);
}

static void read_groups(struct job_measure *m)
{
	for (size_t i = 0; i < m->n_members; i++) {
		struct member *x = &m->member[i];
		struct gs_host_cgroup now;
		const char *path = job_who_cgroup(m->who, &x->job);

		job_who_refresh(m->who, &x->job);
		if (!path && x->job.kind == GS_JOB_SLURM)
			path = job_who_cgroup_of(m->who, x->any_pid);
		if (!owns_cgroup(&x->job)) {
			read_limits(x);
			continue;
		}
		read_pressure(x, path);
		if (!(path ? gs_host_cgroup_read("/sys/fs/cgroup", "/proc", 0, path, &now)
			   : gs_host_cgroup_read("/sys/fs/cgroup", "/proc", x->any_pid, NULL,
						 &now)))
			continue;
		if (!x->has_cgroup)
			x->first = now;
		x->last = now;
		x->has_cgroup = x->is_limited = true;
		raise_to(&x->cgroup_peak, now.memory_bytes);
		raise_to(&x->anonymous_peak, now.anonymous_bytes);
		raise_to(&x->cache_peak, now.cache_bytes);
		raise_to(&x->reclaimable_peak, now.reclaimable_bytes);
	}
	job_gpu_read(m->gpu);
	job_who_gpus(m->who, job_gpu_snapshot(m->gpu));
	gs_accounting_measure_ranks_look(m->ranks, job_gpu_snapshot(m->gpu), m->rows,
					 m->rows ? NULL : m->work, gs_clock_boot_ns());
	read_gpus(m);
}

void job_measure_poll(struct job_measure *m)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (now_ns - m->scan_ns >= (m->options->detach ? DETACHED_NS : SCAN_NS) || is_hurried(m)) {
		m->scan_ns = now_ns;
		scan_processes(m);
	}
	m->look_cost_ns = gs_host_taskstats_poll(m->work);
	if (m->rows)
		gs_accounting_rows_poll(m->rows);
	if (m->cuda)
		gs_launches_poll(m->cuda);
	if (now_ns - m->group_ns >= GROUP_NS) {
		m->group_ns = now_ns;
		read_groups(m);
	}
	for (size_t i = 0; i < m->n_members; i++) {
		struct gs_host_taskstats_total t;

		gs_host_taskstats_total(m->work, (uint32_t)i, &t);
		if (t.n_processes)
			m->member[i].last_alive_ns = gs_clock_boot_ns();
	}
	m->last_ns = gs_clock_boot_ns();
}

uint64_t job_measure_pause_ns(const struct job_measure *m)
{
	uint64_t pause_ns = (uint64_t)m->options->conf.poll_ms * 1000000;

	/* The kernel counts by itself; looking only finds new processes and the end. */
	if (m->rows && pause_ns < KERNEL_PAUSE_NS)
		pause_ns = KERNEL_PAUSE_NS;
	if (is_hurried(m))
		return HURRY_NS;
	if (m->options->detach && m->rows)
		pause_ns = DETACHED_NS;

	return pause_ns > m->look_cost_ns * COST_SHARE ? pause_ns : m->look_cost_ns * COST_SHARE;
}

size_t job_measure_alive(const struct job_measure *m)
{
	struct gs_host_taskstats_total t;
	size_t n = 0;

	for (size_t i = 0; i < m->n_members; i++) {
		gs_host_taskstats_total(m->work, (uint32_t)i, &t);
		n += t.n_processes;
	}
	return n;
}

uint64_t job_measure_found(const struct job_measure *m)
{
	return job_who_found(m->who);
}

size_t job_measure_jobs(const struct job_measure *m)
{
	return m->n_members;
}

/* Families of figures that are asked for. */
static uint32_t wanted_families(const struct job_options *o)
{
	uint32_t all =
		1u << GS_JOB_KNOWS_MEMORY | 1u << GS_JOB_KNOWS_GPU | 1u << GS_JOB_KNOWS_PRESSURE;

	return all | gs_job_families_of(o->families) | (uint32_t)o->cuda << GS_JOB_KNOWS_CUDA;
}

/* Probes where they are permitted; what procfs tells otherwise. */
static void open_rows(struct job_measure *m)
{
	const struct gs_accounting_rows_options o = {
		.probe = {.size = sizeof(o.probe), .families = m->options->families},
		.n_jobs = GS_HOST_TASKSTATS_GROUPS,
		.find_rank = find_rank,
		.add_ended = add_ended,
		.ctx = m};
	struct gs_err err = {{0}};
	int r;

	if (!m->options->conf.ebpf) {
		snprintf(m->why_no_rows, sizeof(m->why_no_rows), "ebpf.enabled is false");
		return;
	}
	if (!m->options->families) {
		snprintf(m->why_no_rows, sizeof(m->why_no_rows), "every probe is off");
		return;
	}
	r = gs_accounting_rows_open(&o, &m->rows, &err);
	if (r < 0)
		snprintf(m->why_no_rows, sizeof(m->why_no_rows), "%s", gs_err_text(&err, r));
}

/* The job is there before its first process: all that the launcher makes is its. */
static void follow_launcher(struct job_measure *m)
{
	struct gs_job job;
	struct member *x;

	job = gs_job_unknown;
	job.kind = GS_JOB_SLURM;
	job.job_id = strtoll(m->options->ids[0], NULL, 10);
	snprintf(job.id, sizeof(job.id), "%s", m->options->ids[0]);
	x = member_of(m, &job);
	if (m->rows && gs_map_put(&m->holders, m->options->launcher, 0) == 0)
		gs_accounting_rows_follow_holder(m->rows, m->options->launcher,
						 (uint32_t)(x - m->member));
	x->any_pid = m->options->launcher;
	if (m->rows)
		gs_accounting_rows_flush(m->rows);
}

int job_measure_open(const struct job_options *options, struct job_measure **ret,
		     struct gs_err *err)
{
	struct job_measure *m = calloc(1, sizeof(*m));
	int r = m ? 0 : -ENOMEM;

	if (r == 0) {
		m->options = options;
		m->holders = GS_MAP_INIT(1u << 12);
		m->start_ns = m->last_ns = gs_clock_boot_ns();
		m->start_wall_ns = (int64_t)gs_clock_wall_ns();
		r = gs_host_taskstats_open("/proc", &m->work, err);
	}
	if (r == 0)
		r = job_who_open(options, &m->who, err);
	if (r == 0)
		r = job_gpu_open(options->nvml, &m->gpu, err);
	if (r == 0)
		r = gs_accounting_measure_ranks_new(&m->ranks);
	if (r < 0) {
		job_measure_close(&m);
		return r;
	}
	open_rows(m);
	if (options->conf.ebpf && wanted_families(options) >> GS_JOB_KNOWS_CUDA & 1 &&
	    gs_launches_open(&m->cuda) < 0) {
		job_measure_close(&m);
		return -ENOMEM;
	}
	m->start_ns = m->last_ns = m->scan_ns = gs_clock_boot_ns();
	m->start_wall_ns = (int64_t)gs_clock_wall_ns();
	gs_host_stalls_read("/proc/pressure", &m->stall_first);
	if (options->launcher)
		follow_launcher(m);
	scan_processes(m);
	read_groups(m);
	m->group_ns = gs_clock_boot_ns();
	*ret = m;
	return 0;
}

void job_measure_close(struct job_measure **ref)
{
	struct job_measure *m = *ref;

	if (!m)
		return;
	gs_map_fini(&m->holders);
	gs_accounting_scan_fini(&m->scan);
	gs_host_taskstats_close(&m->work);
	job_who_close(&m->who);
	job_gpu_close(&m->gpu);
	gs_accounting_rows_close(&m->rows);
	gs_launches_close(&m->cuda);
	gs_accounting_measure_ranks_free(&m->ranks);
	free(m);
	*ref = NULL;
}

/* What part of the time between two readings some task was stalled. */
static void stalled_shares(const struct gs_host_stalls *first, const struct gs_host_stalls *last,
			   uint64_t elapsed_ns, double ratio[GS_STALL_COUNT])
{
	for (unsigned i = 0; i < GS_STALL_COUNT; i++) {
		int64_t a = first->total_us[i], b = last->total_us[i];

		ratio[i] = elapsed_ns && a >= 0 && b >= a
				   ? fmin(1, (double)(b - a) * 1000 / (double)elapsed_ns)
				   : NAN;
	}
}

static double cores_of(const struct member *x, const struct gs_host_taskstats_total *t)
{
	double cores = t->n_cores ? t->n_cores : NAN;

	if (x->job.n_cpus > 0)
		return x->job.n_cpus;
	if (x->is_limited && x->last.cores > 0 && !(cores <= x->last.cores))
		cores = x->last.cores;
	return cores;
}

static void use_of_memory(const struct member *x, const struct gs_host_taskstats_total *t,
			  struct gs_job_usage *u)
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
	if (x->first.oom_kills >= 0 && x->last.oom_kills > x->first.oom_kills)
		u->work.oom_kills = (uint64_t)(x->last.oom_kills - x->first.oom_kills);
}

static int by_time(const void *a, const void *b)
{
	const struct gs_job_report_call *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static int report_calls(const struct job_measure *m, uint32_t job, struct gs_job_report *report)
{
	struct gs_accounting_calls calls = {0};
	int r = gs_accounting_rows_calls(m->rows, job, &calls);

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
	gs_accounting_calls_fini(&calls);
	if (!report->calls)
		return -ENOMEM;
	qsort(report->calls, report->n_calls, sizeof(*report->calls), by_time);
	return 0;
}

/* What the kernel counted: usage, with the families known, calls, tables, processes seen. */
static void report_rows(const struct job_measure *m, uint32_t job, struct gs_job_report *report)
{
	struct gs_job_usage *u = &report->usage;
	struct gs_accounting_rows_sum sum;

	gs_accounting_rows_sum(m->rows, job, u->elapsed_ns, &sum);
	u->work = sum.work;
	u->pace = sum.pace;
	u->io_rows = true;
	u->sched_rows = gs_accounting_rows_families(m->rows) & GS_TASKSTATS_SCHED;
	u->known |= gs_job_families_of(gs_accounting_rows_families(m->rows));
	report->n_processes_seen = sum.n_processes;
	if (report_calls(m, job, report) < 0 ||
	    gs_accounting_rows_tables(m->rows, job, &report->tables) < 0)
		gs_log(1, "no memory for the calls and tables of a job");
	gs_job_tables_sort(&report->tables);
}

static void report_one(struct job_measure *m, size_t i, const struct gs_rules *rules,
		       struct gs_job_report *ret)
{
	struct member *x = &m->member[i];
	struct gs_job_usage *u = &ret->usage;
	struct gs_host_taskstats_total t;
	uint64_t end_ns, now_s = gs_clock_wall_ns() / 1000000000;
	struct sysinfo machine;
	uint32_t pids[8192];

	gs_host_taskstats_total(m->work, (uint32_t)i, &t);
	*ret = (struct gs_job_report){
		.job = x->job, .n_processes_seen = t.n_processes_seen, .ended = t.n_processes == 0};
	end_ns = ret->ended && x->last_alive_ns ? x->last_alive_ns : m->last_ns;
	snprintf(ret->command, sizeof(ret->command), "%s", job_who_command(m->who, &x->job));
	u->elapsed_ns = end_ns > x->start_ns ? end_ns - x->start_ns : 0;
	u->work = t.work;
	u->cores = cores_of(x, &t);
	if (m->rows)
		report_rows(m, (uint32_t)i, ret);
	else
		u->known = gs_host_taskstats_families(t.known);
	u->known = (u->known | 1u << GS_JOB_KNOWS_MEMORY | 1u << GS_JOB_KNOWS_PRESSURE) &
		   wanted_families(m->options);
	stalled_shares(&x->stall_first, &x->stall_last, x->stall_ns, u->pressure_ratio);
	u->machine_bytes =
		sysinfo(&machine) == 0 ? (int64_t)machine.totalram * machine.mem_unit : -1;
	use_of_memory(x, &t, u);
	use_of_quota(x, u);
	gs_accounting_gpu_use_usage(&x->gpu, u);
	u->launches = u->nccl_ratio = NAN;
	if (m->cuda)
		gs_launches_usage(m->cuda, (uint32_t)i, u);
	if (gs_accounting_measure_ranks_report(m->ranks, (uint32_t)i, m->rows, ret) < 0)
		gs_log(1, "no memory for the ranks of a job");
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
	gs_job_report_figures_of(u, &ret->figures);
	gs_verdict_of(rules, &ret->figures, &ret->verdict);
}

static void put_sources(const struct job_measure *m, struct gs_job_report_session *s)
{
	uint32_t want = wanted_families(m->options);
	unsigned long long every = (unsigned long long)(job_measure_pause_ns(m) / 1000000);

	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++) {
		char *out = s->source[i];
		size_t bytes = sizeof(s->source[i]);

		if (!(want >> i & 1)) {
			if (strcmp(m->options->filter, "all") == 0)
				snprintf(out, bytes,
					 "not asked for (ebpf.probes of the configuration)");
			else
				snprintf(out, bytes, "not asked for (--filter %s)",
					 m->options->filter);
			continue;
		}
		if (i == GS_JOB_KNOWS_CUDA) {
			snprintf(out, bytes, "%s",
				 m->cuda ? gs_launches_source(m->cuda)
					 : "no probes on CUDA and NCCL: ebpf.enabled is false");
			continue;
		}
		if (m->rows && i != GS_JOB_KNOWS_MEMORY && i != GS_JOB_KNOWS_GPU &&
		    i != GS_JOB_KNOWS_PRESSURE) {
			snprintf(out, bytes, "counted in the kernel (eBPF)%s",
				 i == GS_JOB_KNOWS_IO
					 ? "; mapped files only at devices and as page faults; not "
					   "process_vm_readv and process_vm_writev"
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
			snprintf(out, bytes,
				 "procfs: reads and writes of all kinds of files, pipes "
				 "and sockets too");
			break;
		case GS_JOB_KNOWS_FAULTS:
			snprintf(out, bytes, "procfs");
			break;
		case GS_JOB_KNOWS_MEMORY:
			snprintf(out, bytes,
				 "cgroup where the job has its own, else resident "
				 "memory of its processes");
			break;
		case GS_JOB_KNOWS_PRESSURE:
			snprintf(out, bytes,
				 "PSI of the job's own cgroup (version 2); unknown without one");
			break;
		case GS_JOB_KNOWS_GPU:
			snprintf(out, bytes, "%s", job_gpu_source(m->gpu));
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

static void put_stalls(const struct job_measure *m, struct gs_job_report_session *s)
{
	struct gs_host_stalls now;

	gs_host_stalls_read("/proc/pressure", &now);
	stalled_shares(&m->stall_first, &now, gs_clock_boot_ns() - m->start_ns, s->pressure_ratio);
	s->open_bytes = m->rows ? gs_accounting_rows_open_bytes(m->rows) : 0;
}

void job_measure_settle(struct job_measure *m)
{
	bool slurm = false;

	job_who_settle(m->who, SETTLE_NS);
	for (size_t i = 0; i < m->n_members; i++) {
		job_who_refresh(m->who, &m->member[i].job);
		slurm |= m->member[i].job.kind == GS_JOB_SLURM;
	}
	if (slurm)
		job_who_slurm_version(m->who, m->slurm_version, sizeof(m->slurm_version));
}

static void add_loss(struct gs_job_report_session *s, const char *text)
{
	size_t n = strlen(s->loss);

	if (text[0])
		snprintf(s->loss + n, sizeof(s->loss) - n, "%s%s", n ? "; " : "", text);
}

static void put_losses(const struct job_measure *m, struct gs_job_report_session *s)
{
	char text[256] = "";
	unsigned unknown = 0;

	if (m->rows)
		gs_accounting_rows_losses(m->rows, text, sizeof(text));
	add_loss(s, text);
	text[0] = '\0';
	if (m->cuda)
		gs_launches_losses(m->cuda, text, sizeof(text));
	add_loss(s, text);
	text[0] = '\0';
	if (m->rows && gs_accounting_rows_missing(m->rows)[0])
		snprintf(text, sizeof(text), "this kernel does not tell: %s",
			 gs_accounting_rows_missing(m->rows));
	add_loss(s, text);
	text[0] = '\0';
	if (m->n_jobs_full)
		snprintf(text, sizeof(text),
			 "processes of further jobs were not watched (%zu jobs are; "
			 "slurm.max_fallback_jobs)",
			 m->n_members);
	add_loss(s, text);
	text[0] = '\0';
	if (gs_accounting_measure_ranks_left_out(m->ranks))
		snprintf(text, sizeof(text), "%llu processes are of ranks that are not listed",
			 (unsigned long long)gs_accounting_measure_ranks_left_out(m->ranks));
	add_loss(s, text);
	for (size_t i = 0; i < m->n_members; i++)
		unknown |= gs_job_unanswered(&m->member[i].job);
	job_who_losses(m->who, unknown, text, sizeof(text));
	add_loss(s, text);
}

int job_measure_report(struct job_measure *m, const struct gs_rules *rules,
		       struct gs_job_report_session *s)
{
	int r = m->rows ? gs_accounting_rows_read(m->rows, NULL) : 0;

	if (r < 0)
		return r;
	/* What the kernel has counted is of this moment, however long reading it took. */
	if (m->rows)
		m->last_ns = gs_accounting_rows_read_ns(m->rows);
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
		report_one(m, i, rules, &s->jobs[s->n_jobs++]);
	}
	memcpy(s->slurm_version, m->slurm_version, sizeof(s->slurm_version));
	put_losses(m, s);
	return 0;
}
