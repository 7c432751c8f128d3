/*
 * A measurement: see measure.h. It: finds the processes of the jobs asked for, again and again,
 * and adds up what they do. Without probes all comes from procfs and cgroups; each family of
 * figures says which way it was learned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/measure_int.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define SCAN_NS         500000000ull /* between two searches for new processes */
#define HURRY_NS        50000000ull  /* the same, while a job that is waited for begins */
#define HURRY_FOR_NS    30000000000ull
#define DETACHED_NS     100000000ull  /* and later: each step of a job begins again */
#define GROUP_NS        1000000000ull /* between two readings of cgroups and GPUs */
#define KERNEL_PAUSE_NS 200000000ull
#define SETTLE_NS       2000000000ull
#define RANK_ASKED_MAX  5  /* looks: a process gets its environment after its birth */
#define COST_SHARE      50 /* looking takes one of so many parts of the time at most */

/* Of a user; uid -1: of all. */
static size_t n_claims(const struct gs_accounting_measure *m, int64_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_members; i++)
		n += m->member[i].job.is_claimed && (uid < 0 || m->member[i].job.uid == uid);
	return n;
}

/* Claims take no room from jobs, and one user's claims none from those of others. */
static bool claims_full(const struct gs_accounting_measure *m, int64_t uid)
{
	return n_claims(m, -1) >= GS_JOB_CLAIMS_MAX || n_claims(m, uid) >= GS_JOB_CLAIMS_USER_MAX ||
	       m->n_members >= GS_HOST_TASKSTATS_GROUPS;
}

static struct accounting_member *member_of(struct gs_accounting_measure *m,
					   const struct gs_job *job)
{
	struct accounting_member *x;
	size_t most = m->options->by == GS_ACCOUNTING_OF_ALL && job->kind != GS_JOB_SLURM
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
	*x = (struct accounting_member){.job = *job,
					.cgroup_peak = -1,
					.anonymous_peak = -1,
					.cache_peak = -1,
					.reclaimable_peak = -1,
					.start_ns = gs_clock_boot_ns()};
	memset(&x->stall_first, 0xff, sizeof(x->stall_first)); /* -1: unknown */
	x->stall_last = x->stall_first;
	x->window.base = x->window.last = gs_accounting_mark_none(0);
	return x;
}

static void follow_launches(struct gs_accounting_measure *m, uint32_t job, uint32_t pid)
{
	struct gs_job_task task;

	if (!m->launches)
		return;
	accounting_who_task(m->who, pid, &task);
	gs_launches_follow(m->launches, pid, job, gs_job_task_is_rank(&task) ? task.rank : -1);
}

static uint32_t find_rank(void *ctx, uint32_t job, uint32_t pid)
{
	struct gs_accounting_measure *m = ctx;
	struct gs_job_task task;

	accounting_who_task(m->who, pid, &task);
	return gs_accounting_measure_ranks_find(m->ranks, job, &task);
}

/* Rows are asked for again by themselves. Between fork and exec a process shows the environment of
 * what started it, or none. */
static void ask_ranks_again(struct gs_accounting_measure *m)
{
	struct gs_map next = GS_MAP_INIT(1u << 20);

	if (m->rows)
		return;
	gs_map_for_each (&m->asked, s) {
		uint32_t pid = (uint32_t)s->key, job = (uint32_t)(s->value >> 32);

		gs_accounting_measure_ranks_note(m->ranks, pid, job, find_rank(m, job, pid));
		if ((uint32_t)s->value + 1 < RANK_ASKED_MAX)
			(void)gs_map_put(&next, pid, s->value + 1);
	}
	gs_map_fini(&m->asked);
	m->asked = next;
}

static void add_ended(void *ctx, uint32_t job, uint32_t rank, const struct gs_taskstats *work)
{
	struct gs_accounting_measure *m = ctx;

	gs_accounting_measure_ranks_add_ended(m->ranks, job, rank, work);
}

/* One process: watched when it belongs to a job that was asked for. */
static bool take_process(struct gs_accounting_measure *m, uint32_t pid)
{
	struct gs_job job;
	struct accounting_member *x;
	uint32_t at, rank;
	uint64_t none;

	if (gs_host_taskstats_watches(m->work, pid) ||
	    (gs_map_get(&m->holders, pid, &none) && gs_accounting_is_holder("/proc", pid)) ||
	    !accounting_who_is(m->who, pid, &job))
		return false;
	x = member_of(m, &job);
	if (x && gs_accounting_is_holder("/proc", pid) && gs_map_put(&m->holders, pid, 0) == 0) {
		if (m->rows)
			gs_rows_follow_holder(m->rows, pid, (uint32_t)(x - m->member));
		x->any_pid = pid;
		return false;
	}
	if (!x ||
	    gs_host_taskstats_add(m->work, (uint32_t)(x - m->member), pid, m->first_scan_done) < 0)
		return false;
	at = (uint32_t)(x - m->member);
	rank = find_rank(m, at, pid);
	if (m->rows) {
		gs_rows_follow(m->rows, pid, at, rank);
	} else {
		gs_accounting_measure_ranks_note(m->ranks, pid, at, rank);
		(void)gs_map_put(&m->asked, pid, (uint64_t)at << 32 | 1);
	}
	follow_launches(m, at, pid);
	if (job.kind == GS_JOB_CGROUP && x->job.uid != job.uid) { /* of several users */
		job.uid = -1;
		job.user[0] = '\0';
	}
	x->job = job;
	x->any_pid = pid;
	return true;
}

struct search {
	struct gs_accounting_measure *m;
	bool found;
};

/* Whose child a process is does not change, but a tree's members come to be known one by one: of
 * these every one is asked about. */
static int consider_process(void *ctx, uint32_t pid, bool ask)
{
	struct search *s = ctx;

	if (ask || s->m->options->by == GS_ACCOUNTING_OF_PIDS)
		s->found |= take_process(s->m, pid);
	return 0;
}

/* A recorder is there before its job: the first seconds of that shall not be missed. */
static bool is_hurried(const struct gs_accounting_measure *m)
{
	return m->options->is_recorder && !gs_accounting_measure_alive(m) &&
	       m->last_ns - m->start_ns < HURRY_FOR_NS;
}

static void scan_processes(struct gs_accounting_measure *m)
{
	size_t n_before = m->n_members;
	bool again = true;
	uint64_t from_ns;

	ask_ranks_again(m);
	/* A child may stand before its parent when numbers have wrapped. */
	for (int pass = 0; again && pass < 16; pass++) {
		struct search s = {m, false};

		accounting_who_scan(m->who);
		(void)gs_accounting_scan_processes(&m->scan, "/proc", gs_clock_boot_ns(),
						   consider_process, &s);
		again = s.found && m->options->by == GS_ACCOUNTING_OF_PIDS;
	}
	from_ns = m->rows ? gs_rows_flush(m->rows) : 0;
	for (size_t i = n_before; from_ns && i < m->n_members; i++)
		m->member[i].start_ns = from_ns;
	if (!m->first_scan_done && from_ns && gs_rows_read(m->rows, NULL) == 0)
		for (size_t i = n_before; i < m->n_members; i++) {
			from_ns = gs_rows_since_ns(m->rows, (uint32_t)i);
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

static void read_pressure(struct accounting_member *x, const char *path)
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

static bool read_groups_of(struct accounting_member *x, uint32_t pid, struct gs_host_cgroup *now)
{
	char names[GS_HOST_CGROUP_NAMES];

	/* One that is ending is in no group of version 1 any more. */
	if (!gs_host_cgroup_names("/proc", pid, names, sizeof(names)) ||
	    !gs_host_cgroup_read_named("/sys/fs/cgroup", names, NULL, now))
		return false;
	x->any_pid = pid;
	if (!x->groups || strcmp(x->groups, names) != 0) {
		free(x->groups);
		x->groups = strdup(names);
	}
	return true;
}

/* The groups of the process that is asked; when it has ended, of another one of the job; and when
 * all have, once more those of the last one: what came later in these may be others'. */
static bool read_own_groups(struct gs_accounting_measure *m, uint32_t i, struct gs_host_cgroup *now)
{
	struct accounting_member *x = &m->member[i];
	uint32_t pids[8];
	size_t n;
	GS_FREE char *last = NULL;

	if (read_groups_of(x, x->any_pid, now))
		return true;
	n = gs_host_taskstats_pids(m->work, i, pids, GS_ARRAY_LEN(pids));
	for (size_t k = 0; k < n && k < GS_ARRAY_LEN(pids); k++)
		if (read_groups_of(x, pids[k], now))
			return true;
	last = gs_take(x->groups);
	return last && gs_host_cgroup_read_named("/sys/fs/cgroup", last, NULL, now);
}

/* Processes that are no batch job, container or unit are confined all the same. */
static void read_limits(struct gs_accounting_measure *m, uint32_t i)
{
	struct accounting_member *x = &m->member[i];
	struct gs_host_cgroup now;

	if (!read_own_groups(m, i, &now))
		return;
	if (!x->is_limited)
		x->first = now;
	x->last = now;
	x->is_limited = true;
}

/* pid -> member, of the processes that live. False: no memory. */
static bool map_processes(const struct gs_accounting_measure *m, struct gs_map *job_of)
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

static void read_gpus(struct gs_accounting_measure *m)
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
					   accounting_gpu_reader_snapshot(m->gpu),
					   gs_clock_boot_ns(), UINT64_MAX);
	gs_map_fini(&job_of);
}

void accounting_measure_read_cgroups(struct gs_accounting_measure *m)
{
	for (size_t i = 0; i < m->n_members; i++) {
		struct accounting_member *x = &m->member[i];
		struct gs_host_cgroup now;
		const char *path = accounting_who_cgroup(m->who, &x->job);

		accounting_who_refresh(m->who, &x->job);
		if (!path && x->job.kind == GS_JOB_SLURM)
			path = accounting_who_cgroup_of(m->who, x->any_pid);
		if (!owns_cgroup(&x->job)) {
			read_limits(m, (uint32_t)i);
			continue;
		}
		read_pressure(x, path);
		if (!(path ? gs_host_cgroup_read_named("/sys/fs/cgroup", NULL, path, &now)
			   : read_own_groups(m, (uint32_t)i, &now)))
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
}

static void read_groups(struct gs_accounting_measure *m)
{
	accounting_measure_read_cgroups(m);
	accounting_gpu_reader_read(m->gpu);
	accounting_who_gpus(m->who, accounting_gpu_reader_snapshot(m->gpu));
	gs_accounting_measure_ranks_sample(m->ranks, accounting_gpu_reader_snapshot(m->gpu),
					   m->rows, m->rows ? NULL : m->work, gs_clock_boot_ns());
	read_gpus(m);
}

const struct gs_gpu_snapshot *gs_accounting_measure_gpus(const struct gs_accounting_measure *m)
{
	return accounting_gpu_reader_snapshot(m->gpu);
}

void gs_accounting_measure_poll(struct gs_accounting_measure *m)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (now_ns - m->scan_ns >= (m->options->is_recorder ? DETACHED_NS : SCAN_NS) ||
	    is_hurried(m)) {
		m->scan_ns = now_ns;
		scan_processes(m);
	}
	m->look_cost_ns = gs_host_taskstats_poll(m->work);
	/* What was counted is of this moment: reading groups and GPUs may take long. */
	m->last_ns = gs_clock_boot_ns();
	if (m->rows)
		gs_rows_poll(m->rows);
	if (m->launches)
		gs_launches_poll(m->launches);
	if (now_ns - m->group_ns >= GROUP_NS) {
		m->group_ns = now_ns;
		read_groups(m);
	}
	for (size_t i = 0; i < m->n_members; i++) {
		struct gs_host_taskstats_total t;

		gs_host_taskstats_total(m->work, (uint32_t)i, &t);
		if (t.n_processes)
			m->member[i].last_alive_ns = m->last_ns;
	}
}

uint64_t gs_accounting_measure_pause_ns(const struct gs_accounting_measure *m)
{
	uint64_t pause_ns = (uint64_t)m->options->conf.poll_ms * 1000000;

	/* The kernel counts by itself; looking only finds new processes and the end. */
	if (m->rows && pause_ns < KERNEL_PAUSE_NS)
		pause_ns = KERNEL_PAUSE_NS;
	if (is_hurried(m))
		return HURRY_NS;
	if (m->options->is_recorder && m->rows)
		pause_ns = DETACHED_NS;

	return pause_ns > m->look_cost_ns * COST_SHARE ? pause_ns : m->look_cost_ns * COST_SHARE;
}

size_t gs_accounting_measure_alive(const struct gs_accounting_measure *m)
{
	struct gs_host_taskstats_total t;
	size_t n = 0;

	for (size_t i = 0; i < m->n_members; i++) {
		gs_host_taskstats_total(m->work, (uint32_t)i, &t);
		n += t.n_processes;
	}
	return n;
}

uint64_t gs_accounting_measure_found(const struct gs_accounting_measure *m)
{
	return accounting_who_found(m->who);
}

size_t gs_accounting_measure_jobs(const struct gs_accounting_measure *m)
{
	return m->n_members;
}

/* Probes where they are permitted; procfs otherwise. */
static void open_rows(struct gs_accounting_measure *m)
{
	const struct gs_rows_options o = {
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
	r = gs_rows_open(&o, &m->rows, &err);
	if (r < 0)
		snprintf(m->why_no_rows, sizeof(m->why_no_rows), "%s", gs_err_text(&err, r));
}

/* The job is there before its first process: all that the launcher makes is its. */
static void follow_launcher(struct gs_accounting_measure *m)
{
	struct gs_job job;
	struct accounting_member *x;

	job = gs_job_unknown;
	job.kind = GS_JOB_SLURM;
	job.job_id = strtoll(m->options->ids[0], NULL, 10);
	snprintf(job.id, sizeof(job.id), "%s", m->options->ids[0]);
	x = member_of(m, &job);
	if (m->rows && gs_map_put(&m->holders, m->options->parent_pid, 0) == 0)
		gs_rows_follow_holder(m->rows, m->options->parent_pid, (uint32_t)(x - m->member));
	x->any_pid = m->options->parent_pid;
	if (m->rows)
		gs_rows_flush(m->rows);
}

int gs_accounting_measure_open(const struct gs_accounting_measure_options *options,
			       struct gs_accounting_measure **ret, struct gs_err *err)
{
	struct gs_accounting_measure *m = calloc(1, sizeof(*m));
	int r = m ? 0 : -ENOMEM;

	if (r == 0) {
		m->options = options;
		m->holders = GS_MAP_INIT(1u << 12);
		m->asked = GS_MAP_INIT(1u << 20);
		m->start_ns = m->last_ns = gs_clock_boot_ns();
		m->start_wall_ns = (int64_t)gs_clock_wall_ns();
		r = gs_host_taskstats_open("/proc", &m->work, err);
	}
	if (r == 0)
		r = accounting_who_open(options, &m->who, err);
	if (r == 0)
		r = accounting_gpu_reader_open(options->nvml, &m->gpu, err);
	if (r == 0)
		r = gs_accounting_measure_ranks_new(&m->ranks);
	if (r < 0) {
		gs_accounting_measure_close(&m);
		return r;
	}
	open_rows(m);
	if (options->conf.ebpf && (options->cuda || options->mpi) &&
	    gs_launches_open(options->cuda, options->mpi, &m->launches) < 0) {
		gs_accounting_measure_close(&m);
		return -ENOMEM;
	}
	m->start_ns = m->last_ns = m->scan_ns = gs_clock_boot_ns();
	m->start_wall_ns = (int64_t)gs_clock_wall_ns();
	gs_host_stalls_read("/proc/pressure", &m->stall_first);
	if (options->parent_pid)
		follow_launcher(m);
	scan_processes(m);
	read_groups(m);
	m->group_ns = gs_clock_boot_ns();
	*ret = m;
	return 0;
}

void gs_accounting_measure_close(struct gs_accounting_measure **ref)
{
	struct gs_accounting_measure *m = *ref;

	if (!m)
		return;
	for (size_t i = 0; i < m->n_members; i++)
		free(m->member[i].groups);
	gs_map_fini(&m->holders);
	gs_map_fini(&m->asked);
	gs_accounting_scan_fini(&m->scan);
	gs_host_taskstats_close(&m->work);
	accounting_who_close(&m->who);
	accounting_gpu_reader_close(&m->gpu);
	gs_rows_close(&m->rows);
	gs_launches_close(&m->launches);
	gs_accounting_measure_ranks_free(&m->ranks);
	free(m);
	*ref = NULL;
}

void gs_accounting_measure_settle(struct gs_accounting_measure *m)
{
	bool slurm = false;

	/* procfs was read last by the last poll, the kernel's rows are by the report. */
	if (!m->rows)
		accounting_measure_read_cgroups(m);
	accounting_who_settle(m->who, SETTLE_NS);
	for (size_t i = 0; i < m->n_members; i++) {
		accounting_who_refresh(m->who, &m->member[i].job);
		slurm |= m->member[i].job.kind == GS_JOB_SLURM;
	}
	if (slurm)
		accounting_who_slurm_version(m->who, m->slurm_version, sizeof(m->slurm_version));
}
