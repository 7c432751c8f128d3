/* Selection of processes by job, user, cgroup or tree; names of jobs come from src/place. */
#include "jobcmd/job_who.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/map.h"
#include "place/job.h"
#include "place/job_cgroup.h"

/* A process that was none of ours is asked for again: soon while it is new, for what starts jobs
 * first makes a process and then puts it where it belongs. */
#define AGAIN_MS     2000
#define AGAIN_NEW_MS 80
#define NEW_MS       3000

struct job_who {
	const struct job_options *options;
	struct gs_jobs *jobs;
	struct gs_map others; /* pid -> when (ms) it was asked for first << 32 and last */
	struct gs_map tree;   /* pid -> which of the roots it descends from */
	uint64_t now_ns;
	char path[512];
};

int job_who_open(const struct job_options *o, struct job_who **ret, struct gs_err *err)
{
	struct job_who *w = calloc(1, sizeof(*w));
	struct gs_jobs_options options = {
		.size = sizeof(options),
		.cache_ns = (uint64_t)o->conf.slurm_cache_s * 1000000000,
		.command_ns = (uint64_t)o->conf.slurm_timeout_s * 1000000000,
	};
	int r;

	if (!w)
		return -ENOMEM;
	w->options = o;
	w->others = GS_MAP_INIT(1u << 20);
	w->tree = GS_MAP_INIT(1u << 16);
	for (size_t i = 0; o->by == JOB_OF_PIDS && i < o->n_select; i++)
		gs_map_put(&w->tree, o->pids[i], i);
	r = gs_jobs_new(&options, &w->jobs, err);
	if (r < 0)
		job_who_close(&w);
	*ret = w;
	return r;
}

void job_who_close(struct job_who **ref)
{
	struct job_who *w = *ref;

	if (!w)
		return;
	gs_jobs_free(&w->jobs);
	gs_map_fini(&w->others);
	gs_map_fini(&w->tree);
	free(w);
	*ref = NULL;
}

void job_who_scan(struct job_who *w)
{
	w->now_ns = gs_clock_boot_ns();
	gs_jobs_ask(w->jobs, 0);
}

static bool read_text(uint32_t pid, const char *name, char *text, size_t bytes)
{
	char path[64];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number behind the state in /proc/PID/stat; 0 unknown. */
static uint32_t parent_of(uint32_t pid)
{
	char text[1024], *at;
	unsigned parent = 0;

	if (!read_text(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')) ||
	    sscanf(at + 1, " %*c %u", &parent) != 1)
		return 0;
	return parent;
}

/* Only root's: anybody can call his process what he likes. */
static bool is_slurmstepd(uint32_t pid)
{
	char name[64], path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return pid && stat(path, &st) == 0 && st.st_uid == 0 &&
	       read_text(pid, "comm", name, sizeof(name)) && strcmp(name, "slurmstepd\n") == 0;
}

bool job_who_is_holder(uint32_t pid)
{
	/* A task has its name too, until it becomes the user's program. */
	return is_slurmstepd(pid) && !is_slurmstepd(parent_of(pid));
}

static bool in_tree(struct job_who *w, uint32_t pid, struct gs_job *job)
{
	uint64_t root;

	if (!gs_map_get(&w->tree, pid, &root)) {
		if (!gs_map_get(&w->tree, parent_of(pid), &root) ||
		    gs_map_put(&w->tree, pid, root) < 0)
			return false;
	}
	job->kind = GS_JOB_TREE;
	snprintf(job->id, sizeof(job->id), "tree of %u", w->options->pids[root]);
	return true;
}

static bool in_cgroup(const struct job_who *w, uint32_t pid, struct gs_job *job)
{
	const char *path = w->options->cgroup;
	size_t n = strlen(path);
	char text[8192];

	if (!read_text(pid, "cgroup", text, sizeof(text)))
		return false;
	for (char *line = text, *next; line && *line; line = next) {
		char *at;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		at = strchr(line, ':');
		at = at ? strchr(at + 1, ':') : NULL;
		if (at && strncmp(at + 1, path, n) == 0 && (at[1 + n] == '/' || !at[1 + n])) {
			job->kind = GS_JOB_CGROUP;
			snprintf(job->id, sizeof(job->id), "%s", path);
			return true;
		}
	}
	return false;
}

static bool has_id(const struct job_who *w, const struct gs_job *job)
{
	char number[32];

	for (size_t i = 0; i < w->options->n_select; i++) {
		const char *id = w->options->ids[i];

		if (strcmp(job->id, id) == 0)
			return true;
		snprintf(number, sizeof(number), "%lld", (long long)job->job_id);
		if (job->job_id > 0 && strcmp(number, id) == 0)
			return true;
		/* A whole array, or a whole het job. */
		snprintf(number, sizeof(number), "%lld", (long long)job->array_job_id);
		if (job->array_job_id > 0 && strcmp(number, id) == 0)
			return true;
		snprintf(number, sizeof(number), "%lld", (long long)job->het_job_id);
		if (job->het_job_id > 0 && strcmp(number, id) == 0)
			return true;
	}
	return false;
}

static void clear(struct gs_job *job)
{
	*job = (struct gs_job){.job_id = -1,
			       .array_job_id = -1,
			       .array_task_id = -1,
			       .het_job_id = -1,
			       .het_offset = -1,
			       .uid = -1,
			       .n_cpus = -1,
			       .mem_bytes = -1,
			       .start_s = -1,
			       .limit_s = -1};
}

static bool decide(struct job_who *w, uint32_t pid, struct gs_job *ret)
{
	const struct job_options *o = w->options;
	struct gs_job_task task;
	const struct gs_job *job;
	char path[32];
	struct stat st;

	clear(ret);
	if (o->by == JOB_OF_PIDS)
		return in_tree(w, pid, ret);
	if (o->by == JOB_OF_CGROUP)
		return in_cgroup(w, pid, ret);
	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &st) < 0 || (o->by == JOB_OF_USER && st.st_uid != o->uid))
		return false;
	job = gs_jobs_lookup(w->jobs, pid, &task);
	if (o->by == JOB_OF_IDS || (o->by == JOB_OF_ALL && !o->conf.slurm_fallback)) {
		if (!job || (o->by == JOB_OF_IDS ? !has_id(w, job) : job->kind != GS_JOB_SLURM))
			return false;
		*ret = *job;
		return true;
	}
	if (o->by == JOB_OF_USER && (!job || job->kind != GS_JOB_SLURM)) {
		ret->kind = GS_JOB_USER;
		ret->uid = st.st_uid;
		snprintf(ret->id, sizeof(ret->id), "%s", o->user);
		snprintf(ret->user, sizeof(ret->user), "%s", o->user);
		return true;
	}
	/* Threads of the kernel are nobody's: children of kthreadd. */
	if (!job || pid == 2 || (o->by == JOB_OF_ALL && parent_of(pid) == 2))
		return false;
	*ret = *job;
	return true;
}

bool job_who_is(struct job_who *w, uint32_t pid, struct gs_job *ret)
{
	uint32_t now_ms = (uint32_t)(w->now_ns / 1000000), first_ms = now_ms;
	uint64_t then;
	bool is;

	/* Whose child a process is does not change, but a tree's members come to be known one by
	 * one. */
	if (w->options->by != JOB_OF_PIDS && gs_map_get(&w->others, pid, &then)) {
		first_ms = (uint32_t)(then >> 32);
		if (now_ms - (uint32_t)then <
		    (now_ms - first_ms < NEW_MS ? AGAIN_NEW_MS : AGAIN_MS))
			return false;
	}
	/* The measuring is not part of what is measured. */
	is = pid != (uint32_t)getpid() && decide(w, pid, ret);
	if (is)
		gs_map_del(&w->others, pid);
	else if (gs_map_put(&w->others, pid, (uint64_t)first_ms << 32 | now_ms) == -ENOBUFS) {
		gs_map_fini(&w->others);
		w->others = GS_MAP_INIT(1u << 20);
	}
	return is;
}

void job_who_task(struct job_who *w, uint32_t pid, struct gs_job_task *ret)
{
	(void)gs_jobs_lookup(w->jobs, pid, ret);
}

void job_who_settle(struct job_who *w, uint64_t wait_ns)
{
	uint64_t end_ns = gs_clock_boot_ns() + wait_ns, now_ns;

	/* A question may be asked again in another form: the first answer is not always the last.
	 */
	while ((now_ns = gs_clock_boot_ns()) < end_ns && gs_jobs_ask(w->jobs, end_ns - now_ns))
		;
}

void job_who_refresh(struct job_who *w, struct gs_job *job)
{
	const struct gs_job *now;

	if (job->kind != GS_JOB_SLURM)
		return;
	now = gs_jobs_by_id(w->jobs, job->id);
	if (now && now->job_id == job->job_id)
		*job = *now;
}

const char *job_who_cgroup(struct job_who *w, const struct gs_job *job)
{
	if (job->kind != GS_JOB_CGROUP || w->options->by != JOB_OF_CGROUP)
		return NULL;
	return w->options->cgroup;
}

const char *job_who_cgroup_of(struct job_who *w, uint32_t pid)
{
	struct gs_job_cgroup group;
	char text[8192];

	if (!read_text(pid, "cgroup", text, sizeof(text)) || !gs_job_of_cgroup(text, &group) ||
	    !group.path[0])
		return NULL;
	snprintf(w->path, sizeof(w->path), "%s", group.path);
	return w->path;
}

void job_who_gpus(struct job_who *w, const struct gs_gpu_snapshot *gpus)
{
	if (gpus)
		(void)gs_jobs_set_gpus(w->jobs, gpus);
}
