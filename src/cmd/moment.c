/* Reading a moment: gpu, then host for the processes on it, then place for who they are. */
#include "cmd/moment.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "host/host.h"
#include "place/job.h"
#include "place/place.h"

#define HANG_NS 2000000000ull

struct moment_reader {
	struct gs_gpu *gpu;
	struct gs_host *host;
	struct gs_place *place;
	struct gs_jobs *jobs;
	uint32_t *pids; /* owned */
	size_t room_pids;
	char name[GS_HOST_NAME_BYTES];
};

/* The job of a batch system; others are told by their user and container. */
static void name_job(struct moment_reader *m, struct gs_host_process *p, bool is_changed)
{
	struct gs_job_task task;
	const struct gs_job *job;

	if (is_changed)
		gs_jobs_forget(m->jobs, p->pid);
	job = gs_jobs_lookup(m->jobs, p->pid, &task);
	if (job && job->kind == GS_JOB_SLURM)
		snprintf(p->job, sizeof(p->job), "%s", job->id);
}

static void name_processes(struct moment_reader *m, struct gs_host_snapshot *host)
{
	for (uint32_t i = 0; i < host->n_processes; i++) {
		struct gs_host_process *p = &host->process[i];
		const struct gs_place_process *who;
		enum gs_host_change change = gs_host_change_of(m->host, p->pid);

		if (change == GS_HOST_NEW)
			gs_place_fork(m->place, p->pid, p->parent_pid);
		else if (change == GS_HOST_RENAMED)
			gs_place_exec(m->place, p->pid);
		name_job(m, p, change == GS_HOST_RENAMED);
		who = gs_place_process(m->place, p->pid);
		if (!who || who->gone)
			continue;
		p->uid = who->uid;
		snprintf(p->user, sizeof(p->user), "%s", gs_host_user_name(m->host, who->uid));
		if (!p->user[0])
			snprintf(p->user, sizeof(p->user), "%u", who->uid);
		memcpy(p->container, who->container, sizeof(p->container));
		snprintf(p->cmdline, sizeof(p->cmdline), "%s", who->cmdline);
	}
}

static int list_pids(struct moment_reader *m, const struct gs_gpu_snapshot *gpu, size_t *ret_n)
{
	size_t n = 0;

	if (gpu->n_processes > m->room_pids) {
		uint32_t *p = realloc(m->pids, gpu->n_processes * sizeof(*p));

		if (!p)
			return -ENOMEM;
		m->pids = p;
		m->room_pids = gpu->n_processes;
	}
	for (uint32_t i = 0; i < gpu->n_processes; i++)
		if (!gpu->process[i].ended)
			m->pids[n++] = gpu->process[i].pid;
	*ret_n = n;
	return 0;
}

static int read_node(struct moment_reader *m, unsigned groups, bool all, struct gs_node_snapshot *n)
{
	size_t n_pids = 0;
	int r = gs_gpu_read_groups(m->gpu, groups ? groups : GS_GPU_READ_ALL, &n->gpu);

	if (r == 0)
		r = list_pids(m, n->gpu, &n_pids);
	if (r == 0)
		r = gs_host_read(m->host, m->pids, n_pids, all, &n->host);
	if (r < 0)
		return r;
	name_processes(m, n->host);
	n->time_ns = gs_clock_boot_ns();
	n->wall_ns = (int64_t)gs_clock_wall_ns();
	memcpy(n->name, m->name, sizeof(n->name));
	return 0;
}

int moment_read(struct moment_reader *reader, unsigned groups, bool all,
		struct gs_node_snapshot **ret_node)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	int r = n ? read_node(reader, groups, all, n) : -ENOMEM;

	if (r < 0)
		gs_node_snapshot_free(&n);
	else
		*ret_node = n;
	return r;
}

int moment_reader_new(const char *nvml, struct moment_reader **ret_reader, struct gs_err *err)
{
	struct gs_gpu_options go = {.size = sizeof(go), .nvml_path = nvml, .hang_ns = HANG_NS};
	/* A job's id is all that is told, and this machine knows it by itself. */
	struct gs_jobs_options jo = {.size = sizeof(jo), .no_node = true, .no_controller = true};
	struct moment_reader *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return gs_err_set(err, -ENOMEM, "no memory");
	if (gethostname(m->name, sizeof(m->name) - 1) < 0)
		m->name[0] = '\0';
	m->place = gs_place_new("/proc");
	r = m->place ? gs_jobs_new(&jo, &m->jobs, err) : gs_err_set(err, -ENOMEM, "no memory");
	if (r == 0)
		r = gs_host_open("/proc", &m->host, err);
	if (r == 0)
		r = gs_gpu_open(&go, &m->gpu, err);
	if (r < 0)
		moment_reader_free(&m);
	else
		*ret_reader = m;
	return r;
}

void moment_reader_free(struct moment_reader **reader)
{
	struct moment_reader *m = *reader;

	if (!m)
		return;
	gs_gpu_close(&m->gpu);
	gs_host_close(&m->host);
	gs_jobs_free(&m->jobs);
	gs_place_free(&m->place);
	free(m->pids);
	gs_free_p(reader);
}

void moment_release(struct moment_reader *reader)
{
	gs_gpu_release(reader->gpu);
}

void moment_resume(struct moment_reader *reader)
{
	gs_gpu_resume(reader->gpu);
}
