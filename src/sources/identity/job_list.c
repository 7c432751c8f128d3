/*
 * All jobs of this node with their processes: one pass over /proc.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/identity/job_table_int.h"

struct listing {
	struct gs_jobs_process *process; /* job: the process's place in the table */
	size_t n, room;
	struct job_entry **entry;
	size_t n_entries;
};

static int add_to_list(struct listing *l, const struct gs_jobs *j, const struct job_process *p)
{
	if (!gs_vec_reserve(&l->process, &l->room, l->n + 1))
		return -ENOMEM;
	l->process[l->n++] = (struct gs_jobs_process){
		.pid = p->pid,
		.job = (uint32_t)(p - j->process),
		.start_ns = p->start_ticks * j->ns_per_tick,
		.task = p->task,
	};
	return 0;
}

/* Only a job whose GPUs are not known: a process may have thousands of files open. */
static void scan_open_devices(struct gs_jobs *j, const struct job_process *p)
{
	struct job_entry *e = p->job;
	GS_CLOSE int folder = -1;
	char path[16];

	if (e->has_gpus_reported || e->has_gpus_environ || e->gpus_drop)
		return;
	snprintf(path, sizeof(path), "%u", p->pid);
	folder = openat(j->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		e->gpus_open |= gs_job_gpus_open(folder, &j->gpus);
}

static int read_all(struct gs_jobs *j, uint32_t kinds, struct listing *l)
{
	int fd = j->proc_fd < 0 ? -1 : openat(j->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int r = 0;

	if (!dir) {
		gs_close_p(&fd);
		return 0;
	}
	for (uint32_t i = 0; i < j->n_entries; i++)
		j->entry[i]->gpus_open = 0;
	for (uint32_t i = 1; i < j->n_processes; i++)
		j->process[i].was_listed = false;
	while (r == 0 && (d = readdir(dir))) {
		struct job_process *p;
		int64_t pid;

		if (!gs_job_number(d->d_name, strlen(d->d_name), &pid) || pid > UINT32_MAX)
			continue;
		p = gs_jobs_process(j, (uint32_t)pid);
		if (!p || p->is_zombie)
			continue;
		p->was_listed = true;
		if (!p->job || (kinds && !(kinds >> p->job->job.kind & 1)))
			continue;
		scan_open_devices(j, p);
		r = add_to_list(l, j, p);
	}
	closedir(dir);
	/* Those that ended since: their jobs are remembered, they are not. */
	for (uint32_t i = 1; r == 0 && i < j->n_processes; i++)
		if (j->process[i].pid && !j->process[i].was_listed)
			gs_jobs_drop_process(j, &j->process[i]);
	return r;
}

static int by_id(const void *a, const void *b)
{
	const struct job_entry *x = *(struct job_entry *const *)a;
	const struct job_entry *y = *(struct job_entry *const *)b;
	int r = strverscmp(x->job.id, y->job.id);

	/* Several runs of one job: older first. */
	return r ? r : (x->job.start_s > y->job.start_s) - (x->job.start_s < y->job.start_s);
}

static int by_job(const void *a, const void *b)
{
	const struct gs_jobs_process *x = a, *y = b;

	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int make_list(struct gs_jobs *j, uint32_t kinds, struct listing *l, struct gs_jobs_list *ret)
{
	GS_FREE struct gs_job *job = NULL;
	size_t n = 0;

	l->entry = calloc(j->n_entries + 1, sizeof(*l->entry));
	if (!l->entry)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->n_entries; i++) {
		struct job_entry *e = j->entry[i];

		if ((e->n_processes || (e->gpus_drop && !e->was_superseded)) &&
		    (!kinds || kinds >> e->job.kind & 1))
			l->entry[n++] = e;
	}
	qsort(l->entry, n, sizeof(*l->entry), by_id);
	job = calloc(n + 1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		l->entry[i]->list_at = (uint32_t)i;
		job[i] = *gs_jobs_finish(j, l->entry[i]);
	}
	for (size_t i = 0; i < l->n; i++)
		l->process[i].job = j->process[l->process[i].job].job->list_at;
	if (l->n)
		qsort(l->process, l->n, sizeof(*l->process), by_job);
	*ret = (struct gs_jobs_list){
		.job = gs_take(job),
		.n_jobs = n,
		.process = gs_take(l->process),
		.n_processes = l->n,
	};
	return 0;
}

int gs_jobs_list(struct gs_jobs *j, uint32_t kinds, struct gs_jobs_list *ret)
{
	struct listing l = {0};
	int r;

	gs_jobs_prepare_gpus(j, "");
	gs_jobs_read_drops(j);
	r = read_all(j, kinds, &l);
	if (r == 0)
		r = make_list(j, kinds, &l, ret);
	free(l.process);
	free(l.entry);
	return r;
}

void gs_jobs_list_fini(struct gs_jobs_list *list)
{
	free(list->job);
	free(list->process);
	*list = (struct gs_jobs_list){0};
}
