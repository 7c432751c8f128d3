/* Selection of processes by job, user, cgroup or tree; names of jobs come from sources/identity. */
#include "analysis/job_accounting/measure_who.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/job_accounting/scan.h"
#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/pidns.h"
#include "analysis/job_accounting/job_id.h"
#include "sources/identity/job.h"
#include "sources/identity/job_cgroup.h"
#include "sources/identity/identity.h"

struct root {              /* of a tree */
	struct gs_job job; /* what is said of it */
	char command[GS_JOB_COMMAND_BYTES];
};

struct accounting_who {
	const struct gs_accounting_measure_options *options;
	struct root root
		[GS_ACCOUNTING_SELECT_MAX]; /* as many as were asked for, of GS_ACCOUNTING_OF_PIDS */
	struct gs_jobs *jobs;
	struct gs_map
		tree; /* pid -> its start (ticks) * GS_ACCOUNTING_SELECT_MAX + which root it is of */
	uint64_t found; /* bits of the ids or pids that had processes */
	bool has_read_all;
	char path[512];
};
_Static_assert(GS_ACCOUNTING_SELECT_MAX <= 64, "a bit each");

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

/* Parent and start (ticks since boot) in /proc/PID/stat; 0: it is gone. */
static uint64_t start_of(uint32_t pid, uint32_t *ret_parent)
{
	char text[1024], *at;
	unsigned long long start = 0;

	if (!read_text(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')) ||
	    sscanf(at + 1,
		   " %*c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   ret_parent, &start) != 2)
		return 0;
	return start;
}

static bool is_kernel_thread(uint32_t pid)
{
	char text[1024], *at;
	unsigned flags;

	return read_text(pid, "stat", text, sizeof(text)) && (at = strrchr(text, ')')) &&
	       sscanf(at + 1, " %*c %*u %*d %*d %*d %*d %u", &flags) == 1 && flags & GS_PF_KTHREAD;
}

/* The last part of a path, without what steers a terminal, and no letter cut in half. */
static void name_file(const char *path, char *out, size_t bytes)
{
	const char *slash = strrchr(path, '/');
	size_t n;

	path = slash && slash[1] ? slash + 1 : path;
	n = strnlen(path, bytes - 1);
	while (path[n] && n && ((unsigned char)path[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)path[i] < 0x20 || path[i] == 0x7f ? '?' : path[i];
	out[n] = '\0';
}

/* A script is called by its own name, not by that of what runs it. */
static void name_program(const struct gs_identity_process *p, char *out, size_t bytes)
{
	static const char *const run[] = {"python", "pypy", "bash", "sh",    "dash",
					  "perl",   "ruby", "node", "julia", "Rscript"};
	char words[4096] = "";
	const char *word = words;
	size_t i = 0;

	snprintf(out, bytes, "%s", p->comm);
	while (i < GS_ARRAY_LEN(run) && strncmp(p->comm, run[i], strlen(run[i])) != 0)
		i++;
	if (i == GS_ARRAY_LEN(run) || !read_text(p->pid, "cmdline", words, sizeof(words) - 2))
		return;
	words[sizeof(words) - 2] = words[sizeof(words) - 1] = '\0';
	word += strlen(word) + 1;
	if (strcmp(word, "-m") == 0)
		word += strlen(word) + 1;
	if (word[0] && word[0] != '-')
		name_file(word, out, bytes);
}

/* What can be said of a process that was asked for, now: it may be gone at the end. */
static int read_root(struct accounting_who *w, size_t i)
{
	uint64_t boot_ns = gs_clock_boot_ns(), wall_ns = gs_clock_wall_ns(), start;
	uint32_t pid = w->options->pids[i], parent;
	const struct gs_identity_process *p;
	struct root *root = &w->root[i];
	struct gs_identity *place = gs_identity_new("/proc");

	if (!place)
		return -ENOMEM;
	start = start_of(pid, &parent);
	p = gs_identity_process(place, pid);
	if (start && p && !p->gone &&
	    gs_map_put(&w->tree, pid, start * GS_ACCOUNTING_SELECT_MAX + i) == 0) {
		root->job.uid = p->uid;
		gs_jobs_name_user(p->uid, root->job.user, sizeof(root->job.user));
		name_program(p, root->job.name, sizeof(root->job.name));
		snprintf(root->command, sizeof(root->command), "%s", p->cmdline);
		if (p->start_ns && p->start_ns <= boot_ns)
			root->job.start_s =
				(int64_t)((wall_ns - boot_ns + p->start_ns) / 1000000000);
	}
	gs_identity_free(&place);
	return 0;
}

int accounting_who_open(const struct gs_accounting_measure_options *o, struct accounting_who **ret,
			struct gs_err *err)
{
	struct accounting_who *w = calloc(1, sizeof(*w));
	struct gs_jobs_options options = {
		.size = sizeof(options),
		.cache_ns = (uint64_t)o->conf.slurm_cache_s * 1000000000,
		.command_ns = (uint64_t)o->conf.slurm_timeout_s * 1000000000,
	};
	int r;

	if (!w)
		return -ENOMEM;
	w->options = o;
	w->tree = GS_MAP_INIT(1u << 16);
	r = gs_jobs_new(&options, &w->jobs, err);
	for (size_t i = 0; r == 0 && o->by == GS_ACCOUNTING_OF_PIDS && i < o->n_select; i++) {
		w->root[i].job = gs_job_unknown;
		r = read_root(w, i);
	}
	if (r < 0)
		accounting_who_close(&w);
	*ret = w;
	return r;
}

void accounting_who_close(struct accounting_who **ref)
{
	struct accounting_who *w = *ref;

	if (!w)
		return;
	gs_jobs_free(&w->jobs);
	gs_map_fini(&w->tree);
	free(w);
	*ref = NULL;
}

void accounting_who_scan(struct accounting_who *w)
{
	gs_jobs_ask(w->jobs, 0);
}

/* Whose tree the process was put into; a later one with its number is of none. */
static bool root_of(struct accounting_who *w, uint32_t pid, uint64_t start, uint64_t *ret_root)
{
	uint64_t known;

	if (!start || !gs_map_get(&w->tree, pid, &known))
		return false;
	if (known / GS_ACCOUNTING_SELECT_MAX != start) {
		gs_map_del(&w->tree, pid);
		return false;
	}
	*ret_root = known % GS_ACCOUNTING_SELECT_MAX;
	return true;
}

static bool in_tree(struct accounting_who *w, uint32_t pid, struct gs_job *job)
{
	uint32_t parent = 0, grandparent;
	uint64_t start = start_of(pid, &parent), root;

	if (!root_of(w, pid, start, &root) &&
	    (!root_of(w, parent, start_of(parent, &grandparent), &root) ||
	     gs_map_put(&w->tree, pid, start * GS_ACCOUNTING_SELECT_MAX + root) < 0))
		return false;
	w->found |= 1ull << root;
	*job = w->root[root].job;
	job->kind = GS_JOB_TREE;
	snprintf(job->id, sizeof(job->id), "tree of %u", w->options->pids[root]);
	return true;
}

const char *accounting_who_command(const struct accounting_who *w, const struct gs_job *job)
{
	unsigned pid;

	if (w->options->by != GS_ACCOUNTING_OF_PIDS || sscanf(job->id, "tree of %u", &pid) != 1)
		return "";
	for (size_t i = 0; i < w->options->n_select; i++)
		if (w->options->pids[i] == pid)
			return w->root[i].command;
	return "";
}

static bool in_cgroup(const struct accounting_who *w, uint32_t pid, struct gs_job *job)
{
	const char *path = w->options->cgroup;
	size_t n = strlen(path);
	char text[8192], folder[32];
	struct stat st;

	if (!read_text(pid, "cgroup", text, sizeof(text)))
		return false;
	snprintf(folder, sizeof(folder), "/proc/%u", pid);
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
			job->uid = stat(folder, &st) == 0 ? (int64_t)st.st_uid : -1;
			gs_jobs_name_user(job->uid, job->user, sizeof(job->user));
			return true;
		}
	}
	return false;
}

/*
 * All processes once, before any is decided about: whether a claim stands for itself is up to the
 * job that it names, whose processes may have higher numbers.
 */
static int read_one(void *ctx, uint32_t pid, bool ask)
{
	struct accounting_who *w = ctx;
	struct gs_job_task task;

	(void)gs_jobs_lookup(w->jobs, pid, &task);
	return 0;
}

static void read_all(struct accounting_who *w)
{
	struct gs_accounting_scan scan = {0};

	if (!w->has_read_all)
		(void)gs_accounting_scan_processes(&scan, "/proc", gs_clock_boot_ns(), read_one, w);
	gs_accounting_scan_fini(&scan);
	w->has_read_all = true;
}

static bool has_id(struct accounting_who *w, const struct gs_job *job)
{
	const struct gs_job *real;
	uint64_t found = 0;
	char number[24];

	/* A claim never stands beside the job that it names, but under its own id. */
	snprintf(number, sizeof(number), "%lld", (long long)job->job_id);
	real = job->is_claimed ? gs_jobs_by_id(w->jobs, number) : NULL;
	for (size_t i = 0; i < w->options->n_select; i++)
		if (!real && gs_accounting_job_id_names(w->options->ids[i], job))
			found |= 1ull << i;
	w->found |= found;
	return found;
}

uint64_t accounting_who_found(const struct accounting_who *w)
{
	return w->found;
}

static bool decide_job(struct accounting_who *w, uint32_t pid, struct gs_job *ret)
{
	const struct gs_accounting_measure_options *o = w->options;
	struct gs_job_task task;
	const struct gs_job *job;
	char path[32];
	struct stat st;

	*ret = gs_job_unknown;
	if (o->by == GS_ACCOUNTING_OF_PIDS)
		return in_tree(w, pid, ret);
	if (o->by == GS_ACCOUNTING_OF_CGROUP)
		return in_cgroup(w, pid, ret);
	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &st) < 0 || (o->by == GS_ACCOUNTING_OF_USER && st.st_uid != o->uid))
		return false;
	if (o->by == GS_ACCOUNTING_OF_IDS)
		read_all(w);
	job = gs_jobs_lookup(w->jobs, pid, &task);
	if (o->by == GS_ACCOUNTING_OF_IDS ||
	    (o->by == GS_ACCOUNTING_OF_ALL && !o->conf.slurm_fallback)) {
		if (!job ||
		    (o->by == GS_ACCOUNTING_OF_IDS ? !has_id(w, job) : job->kind != GS_JOB_SLURM))
			return false;
		*ret = *job;
		return true;
	}
	if (o->by == GS_ACCOUNTING_OF_USER && (!job || job->kind != GS_JOB_SLURM)) {
		ret->kind = GS_JOB_USER;
		ret->uid = st.st_uid;
		snprintf(ret->id, sizeof(ret->id), "%s", o->user);
		snprintf(ret->user, sizeof(ret->user), "%s", o->user);
		return true;
	}
	/* Threads of the kernel are of no job. */
	if (!job || (o->by == GS_ACCOUNTING_OF_ALL && is_kernel_thread(pid)))
		return false;
	*ret = *job;
	return true;
}

static bool is_child(uint32_t pid, uint32_t of)
{
	uint32_t parent = 0;

	return start_of(pid, &parent) && parent == of;
}

bool accounting_who_is(struct accounting_who *w, uint32_t pid, struct gs_job *ret)
{
	uint32_t self = (uint32_t)getpid();

	/* The measuring is not part of what is measured, nor are the processes that read files for it. */
	return pid != self && decide_job(w, pid, ret) && !is_child(pid, self);
}

void accounting_who_task(struct accounting_who *w, uint32_t pid, struct gs_job_task *ret)
{
	(void)gs_jobs_lookup(w->jobs, pid, ret);
}

void accounting_who_settle(struct accounting_who *w, uint64_t wait_ns)
{
	uint64_t end_ns = gs_clock_boot_ns() + wait_ns, now_ns;

	/* A question may be asked again in another form: the first answer is not always the last.
	 */
	while ((now_ns = gs_clock_boot_ns()) < end_ns && gs_jobs_ask(w->jobs, end_ns - now_ns))
		;
}

void accounting_who_refresh(struct accounting_who *w, struct gs_job *job)
{
	const struct gs_job *now;

	if (job->kind != GS_JOB_SLURM)
		return;
	now = gs_jobs_now(w->jobs, job);
	if (now)
		*job = *now;
}

const char *accounting_who_cgroup(struct accounting_who *w, const struct gs_job *job)
{
	if (job->kind != GS_JOB_CGROUP || w->options->by != GS_ACCOUNTING_OF_CGROUP)
		return NULL;
	return w->options->cgroup;
}

const char *accounting_who_cgroup_of(struct accounting_who *w, uint32_t pid)
{
	struct gs_job_cgroup group;
	char text[8192];

	if (!read_text(pid, "cgroup", text, sizeof(text)) || !gs_job_of_cgroup(text, &group) ||
	    !group.path[0])
		return NULL;
	snprintf(w->path, sizeof(w->path), "%s", group.path);
	return w->path;
}

void accounting_who_gpus(struct accounting_who *w, const struct gs_gpu_snapshot *gpus)
{
	if (gpus)
		(void)gs_jobs_set_gpus(w->jobs, gpus);
}

void accounting_who_losses(const struct accounting_who *w, unsigned unknown, char *out,
			   size_t bytes)
{
	static const char *const words[GS_JOB_ASKED_COUNT] = {[GS_JOB_ASKED_NAME] = "names",
							      [GS_JOB_ASKED_USER] = "users",
							      [GS_JOB_ASKED_CPUS] = "processors",
							      [GS_JOB_ASKED_LIMIT] = "time limits"};
	struct gs_jobs_stats st;
	uint64_t failed;
	int n;

	out[0] = '\0';
	gs_jobs_stats(w->jobs, &st);
	failed = st.n_commands_failed + st.n_commands_late + st.n_answers_bad + st.n_answers_long;
	if (!failed || !unknown)
		return;
	n = snprintf(out, bytes, "Slurm did not answer %llu of %llu requests; unknown for jobs:",
		     (unsigned long long)failed, (unsigned long long)st.n_commands);
	for (unsigned i = 0; i < GS_JOB_ASKED_COUNT && (size_t)n < bytes; i++)
		if (unknown >> i & 1)
			n += snprintf(out + n, bytes - (size_t)n, "%s %s",
				      unknown & ((1u << i) - 1) ? "," : "", words[i]);
}

void accounting_who_slurm_version(const struct accounting_who *w, char *out, size_t bytes)
{
	gs_jobs_slurm_version(w->jobs, out, bytes);
}
