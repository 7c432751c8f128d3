/* host reads, place names. */
#include "sources/sampler/sampler.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/host/host.h"
#include "sources/identity/job.h"
#include "sources/identity/identity.h"

#define NAME_TURNS 16 /* readings after which the name of an unchanged process is asked again */

struct gs_sampler {
	struct gs_host *host;
	struct gs_identity *place;
	struct gs_jobs *jobs;
	uint32_t *pids; /* owned */
	size_t room_pids;
	char name[GS_HOST_NAME_BYTES];
	struct gs_host_process *named; /* owned; with their names, as of the last reading, by pid */
	size_t n_named;
	unsigned turn; /* of naming processes */
};

/* The job of a batch system; others are known by their user and container. */
static void name_job(struct gs_sampler *m, struct gs_host_process *p, bool is_changed)
{
	struct gs_job_task task;
	const struct gs_job *job;

	if (is_changed)
		gs_jobs_forget(m->jobs, p->pid);
	job = gs_jobs_lookup(m->jobs, p->pid, &task);
	if (job && job->kind == GS_JOB_SLURM)
		snprintf(p->job, sizeof(p->job), "%s", job->id);
}

static const struct gs_host_process *named_of(const struct gs_sampler *m, uint32_t pid)
{
	size_t from = 0, to = m->n_named;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (m->named[mid].pid == pid)
			return &m->named[mid];
		if (m->named[mid].pid < pid)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

/* To ask who a process is costs more than to read its counters: once, and now and then again, for
 * it may be moved into another cgroup. */
static bool take_name(const struct gs_sampler *m, struct gs_host_process *p)
{
	const struct gs_host_process *known = named_of(m, p->pid);

	if (!known || known->start_ns != p->start_ns || (m->turn + p->pid) % NAME_TURNS == 0)
		return false;
	p->uid = known->uid;
	memcpy(p->user, known->user, sizeof(p->user));
	memcpy(p->container, known->container, sizeof(p->container));
	memcpy(p->job, known->job, sizeof(p->job));
	memcpy(p->cmdline, known->cmdline, sizeof(p->cmdline));
	return true;
}

static void keep_names(struct gs_sampler *m, const struct gs_host_snapshot *host)
{
	size_t bytes = host->n_processes * sizeof(*m->named);

	free(m->named);
	m->named = bytes ? malloc(bytes) : NULL;
	m->n_named = m->named ? host->n_processes : 0;
	if (m->named)
		memcpy(m->named, host->process, bytes);
}

static void name_processes(struct gs_sampler *m, struct gs_host_snapshot *host)
{
	m->turn++;
	for (uint32_t i = 0; i < host->n_processes; i++) {
		struct gs_host_process *p = &host->process[i];
		const struct gs_identity_process *who;
		enum gs_host_change change = gs_host_change_of(m->host, p->pid);

		if (change == GS_HOST_SAME && take_name(m, p))
			continue;
		if (change == GS_HOST_NEW)
			gs_identity_fork(m->place, p->pid, p->parent_pid);
		else if (change == GS_HOST_RENAMED)
			gs_identity_exec(m->place, p->pid, "", "");
		name_job(m, p, change == GS_HOST_RENAMED);
		who = gs_identity_process(m->place, p->pid);
		if (!who || who->gone)
			continue;
		p->uid = who->uid;
		snprintf(p->user, sizeof(p->user), "%s", gs_host_user_name(m->host, who->uid));
		if (!p->user[0])
			snprintf(p->user, sizeof(p->user), "%u", who->uid);
		memcpy(p->container, who->container, sizeof(p->container));
		snprintf(p->cmdline, sizeof(p->cmdline), "%s", who->cmdline);
	}
	keep_names(m, host);
}

static int list_pids(struct gs_sampler *m, const struct gs_gpu_snapshot *gpu, size_t *ret_n)
{
	size_t n = 0;

	if (!gs_vec_reserve(&m->pids, &m->room_pids, gpu->n_processes))
		return -ENOMEM;
	for (uint32_t i = 0; i < gpu->n_processes; i++)
		if (!gpu->process[i].ended)
			m->pids[n++] = gpu->process[i].pid;
	*ret_n = n;
	return 0;
}

int gs_sampler_fill(struct gs_sampler *sampler, bool all, bool names, struct gs_node_snapshot *node)
{
	size_t n_pids = 0;
	int r = list_pids(sampler, node->gpu, &n_pids);

	if (r == 0)
		r = gs_host_read(sampler->host, sampler->pids, n_pids, all, &node->host);
	if (r < 0)
		return r;
	if (names)
		name_processes(sampler, node->host);
	node->time_ns = gs_clock_boot_ns();
	node->wall_ns = (int64_t)gs_clock_wall_ns();
	memcpy(node->name, sampler->name, sizeof(node->name));
	return 0;
}

int gs_sampler_new(struct gs_sampler **ret_sampler, struct gs_err *err)
{
	/* A job's id is all that is needed, and this machine knows it by itself. */
	struct gs_jobs_options jo = {.size = sizeof(jo), .no_node = true, .no_controller = true};
	struct gs_sampler *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return gs_err_set(err, -ENOMEM, "no memory");
	if (gethostname(m->name, sizeof(m->name) - 1) < 0)
		m->name[0] = '\0';
	m->place = gs_identity_new("/proc");
	r = m->place ? gs_jobs_new(&jo, &m->jobs, err) : gs_err_set(err, -ENOMEM, "no memory");
	if (r == 0)
		r = gs_host_open("/proc", &m->host, err);
	if (r < 0)
		gs_sampler_free(&m);
	else
		*ret_sampler = m;
	return r;
}

void gs_sampler_free(struct gs_sampler **sampler)
{
	struct gs_sampler *m = *sampler;

	if (!m)
		return;
	gs_host_close(&m->host);
	gs_jobs_free(&m->jobs);
	gs_identity_free(&m->place);
	free(m->pids);
	free(m->named);
	gs_free_p(sampler);
}
