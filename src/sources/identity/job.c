/*
 * Which job is a process of. A process is read once (its group, its environment), again after
 * cache_ns, and while it is young, because slurmstepd makes a process before it moves it into its
 * group and gives it its environment. Its start time distinguishes it from a later one with the same pid.
 *
 * A job is an entry by its number (or sluid, or name); a claim to be of it is another one. A
 * requeued job has its old number and new folders in the cgroup hierarchies: then a new entry takes
 * the key, and processes that are left of the old run keep the old one. Entries without processes
 * are given up when room is wanted.
 */
#include "sources/identity/job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/identity/job_table_int.h"
#include "sources/identity/identity.h"
#include "sources/identity/identity_int.h"

#define SMALL_BYTES    16384
#define YOUNG_NS       5000000000ull
#define YOUNG_CACHE_NS 200000000ull
#define PARENTS_MAX    64

/* --- reading a process --- */

/* All of a file of a process, ended by a zero, in jobs->text. -ENOBUFS: cut at its maximum. */
static int read_file(struct gs_jobs *j, int folder, const char *name)
{
	GS_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

	gs_buf_reset(&j->text);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n;
		int r = gs_buf_reserve(&j->text, SMALL_BYTES);

		if (r < 0)
			return r;
		n = read(fd, j->text.data + j->text.bytes, SMALL_BYTES - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		j->text.data[j->text.bytes + (size_t)n] = '\0';
		if (n == 0)
			return 0;
		j->text.bytes += (size_t)n;
	}
}

/* The folder's place in the entry, and whether it was another one before. */
static bool is_new_folder(struct job_entry *e, uint64_t path, uint64_t inode)
{
	for (uint32_t i = 0; i < e->n_groups; i++)
		if (e->group[i].path == path)
			return e->group[i].inode != inode;
	if (e->n_groups < GROUPS_MAX) {
		e->group[e->n_groups].path = path;
		e->group[e->n_groups++].inode = inode;
	}
	return false;
}

static bool numbers_differ(int64_t a, int64_t b)
{
	return a >= 0 && b >= 0 && a != b;
}

/* The process is of another run of the job than the entry. */
static bool is_other_run(const struct gs_jobs *j, struct job_entry *e,
			 const struct gs_job_cgroup *g, const struct gs_job_environ *env,
			 bool by_group)
{
	uint64_t inode = by_group ? gs_jobs_group_inode(j, g) : 0;

	if (e->job.sluid[0] && env->job.sluid[0] && strcmp(e->job.sluid, env->job.sluid) != 0)
		return true;
	if (inode) {
		char key[sizeof(g->path) + sizeof(g->hierarchy) + 1];
		int n = snprintf(key, sizeof(key), "%s:%s", g->hierarchy, g->path);

		return is_new_folder(e, gs_hash_bytes(key, (size_t)n), inode);
	}
	/* SLURM_RESTART_COUNT is not set in the first run. */
	return numbers_differ(e->job.start_s, env->job.start_s) ||
	       numbers_differ(e->restart, env->restart) || (e->restart == 0 && env->restart > 0) ||
	       (e->restart > 0 && env->restart < 0);
}

static void learn_environ(struct job_entry *e, const struct gs_job_environ *env)
{
	struct gs_job said = env->job;

	/* The controller has said whether it is of an array: the environment may say anything. */
	if (e->ask == ASK_DONE) {
		said.array_job_id = said.array_task_id = -1;
		said.het_job_id = said.het_offset = -1;
	}
	gs_jobs_merge(e, &said, false);
	e->restart = env->restart >= 0 ? env->restart : 0;
	/* Who claims a job does not get its GPUs. */
	if (env->has_gpus && !e->job.is_claimed) {
		e->has_gpus_environ = true;
		e->gpus_environ = env->gpus;
	}
	if (env->node[0])
		memcpy(e->node, env->node, sizeof(e->node));
}

struct facts { /* what was read of one process */
	struct gs_job_cgroup group;
	struct gs_job_environ environ;
	char container[GS_IDENTITY_CONTAINER_BYTES];
	bool has_group, has_environ, is_refused;
	uint32_t uid;
	const struct gs_job_pid *reported; /* by slurmd; NULL */
	uint32_t pid;
	uint32_t parent_pid;
	bool is_kernel;
};

static bool of_slurms_group(const struct facts *f)
{
	return f->has_group && f->group.kind == GS_JOB_SLURM;
}

/* The number that its group, or else its environment, says; -1: only its sluid is known. */
static int64_t claimed_number(const struct facts *f)
{
	return of_slurms_group(f) ? f->group.job_id : f->environ.job.job_id;
}

/* That it is of the job is said by others than the process and its user. */
static bool is_proven(struct gs_jobs *j, const struct facts *f)
{
	int64_t number = claimed_number(f);

	if (of_slurms_group(f) && f->group.owner == GS_JOB_OWNER_ROOT)
		return true;
	return number >= 0 && ((f->reported && f->reported->job_id == number) ||
			       gs_jobs_is_owner(j, gs_jobs_key_of_job(number), f->uid));
}

/* Another one has this id already: an environment may name any array. The number stays. */
static void name_slurm_job(const struct gs_jobs *j, struct job_entry *e)
{
	struct gs_job *job = &e->job;

	gs_job_name_id(job);
	if (job->is_claimed || job->job_id < 0 || (job->array_job_id < 0 && job->het_job_id < 0))
		return;
	for (uint32_t i = 0; i < j->n_entries; i++)
		if (j->entry[i] != e && j->entry[i]->job.job_id != job->job_id &&
		    j->entry[i]->job.kind == GS_JOB_SLURM &&
		    strcmp(j->entry[i]->job.id, job->id) == 0) {
			job->array_job_id = job->array_task_id = -1;
			job->het_job_id = job->het_offset = -1;
			gs_job_name_id(job);
			return;
		}
}

/* The entry of this run of the job, or of this user's claim to it; NULL: no room. */
static struct job_entry *entry_of_run(struct gs_jobs *j, const struct facts *f, uint64_t key,
				      struct job_entry *known, bool is_claim)
{
	bool by_group = of_slurms_group(f) && !is_claim;
	struct job_entry *e;

	/* What was of this job stays of the run it was of. */
	e = known && known->key == key ? known : gs_jobs_entry_of(j, key, false);
	if (!e && is_claim && !gs_jobs_claim_room(j, key, f->uid))
		return NULL;
	if (!e)
		e = gs_jobs_make_entry(j, key);
	if (e && e->job.kind != GS_JOB_NONE && e != known &&
	    is_other_run(j, e, &f->group, &f->environ, by_group)) {
		if (is_claim && !gs_jobs_claim_room(j, key, f->uid))
			return NULL;
		e->was_superseded = true;
		e = gs_jobs_make_entry(j, key);
	}
	if (e && e->job.kind == GS_JOB_NONE && by_group)
		is_other_run(j, e, &f->group, &f->environ, true); /* remembers the folder */
	return e;
}

/* Where nothing else has named it: the user of its processes. slurmstepd keeps one of root's in
 * every job's group (the sleep of step extern), which does not make it root's job. */
static void learn_user(struct job_entry *e, const struct facts *f)
{
	bool may_be_daemons = e->job.uid == 0 && f->group.uid < 0 &&
			      !(e->job.source & (GS_JOB_FROM_CONTROLLER | GS_JOB_FROM_DROP));

	if (e->job.uid >= 0 && !(may_be_daemons && f->uid != 0))
		return;
	e->job.uid = f->uid;
	e->job.user[0] = '\0';
}

static struct job_entry *slurm_entry(struct gs_jobs *j, struct facts *f, struct job_entry *known)
{
	struct gs_job_cgroup *g = &f->group;
	bool by_group = of_slurms_group(f);
	bool by_environ = f->has_environ && f->environ.job.kind == GS_JOB_SLURM;
	int64_t job_id = claimed_number(f);
	bool is_claim = !is_proven(j, f);
	uint64_t key;
	struct job_entry *e;

	/* An environment of another job means nothing: it was handed on, or made up. */
	if (by_group && by_environ && g->job_id >= 0 && f->environ.job.job_id != g->job_id)
		by_environ = false;
	if (!by_environ)
		f->environ.job.kind = GS_JOB_NONE, f->environ.job.sluid[0] = '\0';
	if (is_claim)
		key = gs_jobs_key_of_claim(GS_JOB_SLURM, job_id, g->sluid, f->uid);
	else
		key = job_id >= 0 ? gs_jobs_key_of_job(job_id)
				  : gs_jobs_key_of_text(GS_JOB_SLURM, g->sluid);
	e = entry_of_run(j, f, key, known, is_claim);
	if (!e)
		return NULL;
	e->job.kind = GS_JOB_SLURM;
	if (is_claim) {
		e->job.is_claimed = true;
		e->claim_uid = e->job.uid = f->uid;
		j->n_unreadable++; /* slurmd may know */
	}
	if (f->reported)
		e->job.source |= GS_JOB_FROM_NODE;
	if (by_group) {
		e->job.source |= GS_JOB_FROM_CGROUP;
		if (g->job_id >= 0)
			e->job.job_id = g->job_id;
		if (g->sluid[0])
			memcpy(e->job.sluid, g->sluid, sizeof(e->job.sluid));
		e->by_sluid |= g->sluid[0] != '\0';
		if (g->uid >= 0 && !is_claim)
			e->job.uid = g->uid;
		if (g->node[0])
			memcpy(e->node, g->node, sizeof(e->node));
	}
	if (by_environ)
		learn_environ(e, &f->environ);
	/* Components of a het job run with the first one's environment: the cluster is the same. */
	if (!e->job.cluster[0])
		memcpy(e->job.cluster, f->environ.job.cluster, sizeof(e->job.cluster));
	if (!g->is_daemon)
		learn_user(e, f);
	if (!e->job.user[0])
		gs_jobs_name_user(e->job.uid, e->job.user, sizeof(e->job.user));
	if (e->ask == ASK_NOT)
		e->ask = ASK_OPEN;
	name_slurm_job(j, e);
	return e;
}

/* Of a job that only the node knows to be its. */
static struct job_entry *reported_entry(struct gs_jobs *j, const struct facts *f)
{
	struct job_entry *e = gs_jobs_entry_of(j, gs_jobs_key_of_job(f->reported->job_id), true);

	if (!e)
		return NULL;
	e->job.kind = GS_JOB_SLURM;
	e->job.job_id = f->reported->job_id;
	e->job.source |= GS_JOB_FROM_NODE;
	if (e->job.uid < 0)
		e->job.uid = f->uid;
	if (!e->job.user[0])
		gs_jobs_name_user(e->job.uid, e->job.user, sizeof(e->job.user));
	if (e->ask == ASK_NOT)
		e->ask = ASK_OPEN;
	gs_job_name_id(&e->job);
	return e;
}

/* --- without Slurm --- */

/* The process below init that this one descends from. What a container was started for is its first
 * process: there all are one tree. */
static uint32_t root_of_tree(struct gs_jobs *j, uint32_t pid, uint32_t parent)
{
	if (j->in_container)
		return 1;
	for (int i = 0; i < PARENTS_MAX && parent > 1; i++) {
		struct gs_identity_stat st;
		char path[32];

		snprintf(path, sizeof(path), "%u/stat", parent);
		if (read_file(j, j->proc_fd, path) < 0 ||
		    !gs_identity_parse_stat((char *)j->text.data, j->text.bytes, &st))
			break;
		pid = parent;
		parent = st.parent_pid;
	}
	return pid;
}

static bool is_login(const char *unit)
{
	return strncmp(unit, "session-", 8) == 0 || strncmp(unit, "user@", 5) == 0;
}

/* The end of a long path says more than its beginning. */
static void copy_end(char *out, size_t bytes, const char *text)
{
	size_t n = strlen(text);

	if (n < bytes) {
		memcpy(out, text, n + 1);
		return;
	}
	text += n - (bytes - 4);
	while (((unsigned char)*text & 0xc0) == 0x80)
		text++;
	snprintf(out, bytes, "...%s", text);
}

static struct job_entry *other_entry(struct gs_jobs *j, const struct facts *f)
{
	const struct gs_job_cgroup *g = &f->group;
	struct gs_job job;
	struct job_entry *e;
	char key[600];
	uint32_t root;

	job = gs_job_unknown;
	job.uid = f->uid;
	job.source = GS_JOB_FROM_CGROUP;
	/* A folder that cannot be seen is that of a pod: an agent in a pod of its own sees none. */
	if (f->has_group && g->kind == GS_JOB_POD && g->owner != GS_JOB_OWNER_OTHER) {
		job.kind = GS_JOB_POD;
		snprintf(job.id, sizeof(job.id), "%s", g->name);
		snprintf(job.pod, sizeof(job.pod), "%s", g->name);
		snprintf(key, sizeof(key), "%s", g->name);
	} else if (f->container[0]) {
		job.kind = GS_JOB_CONTAINER;
		/* As engines show it. */
		snprintf(job.id, sizeof(job.id), "%.*s",
			 strlen(f->container) == 64 ? 12 : (int)sizeof(job.id) - 1, f->container);
		snprintf(job.name, sizeof(job.name), "%s", f->container);
		snprintf(key, sizeof(key), "%s", f->container);
	} else if (f->has_group && g->kind == GS_JOB_UNIT && !is_login(g->name)) {
		job.kind = GS_JOB_UNIT;
		copy_end(job.id, sizeof(job.id), g->name);
		snprintf(key, sizeof(key), "%s", g->name);
	} else if (f->has_group && g->kind == GS_JOB_CGROUP) {
		job.kind = GS_JOB_CGROUP;
		copy_end(job.id, sizeof(job.id), g->name);
		snprintf(key, sizeof(key), "%s", g->name);
	} else if (f->uid != 0 || (f->has_group && g->kind == GS_JOB_UNIT)) {
		job.kind = GS_JOB_USER;
		job.source = 0;
		snprintf(key, sizeof(key), "%u", f->uid);
	} else {
		if (f->is_kernel || (f->pid == 1 && !j->in_container))
			return NULL;
		root = root_of_tree(j, f->pid, f->parent_pid);
		job.kind = GS_JOB_TREE;
		job.source = 0;
		snprintf(job.id, sizeof(job.id), "tree of %u", root);
		snprintf(key, sizeof(key), "%u", root);
	}
	e = gs_jobs_entry_of(j, gs_jobs_key_of_text(job.kind, key), true);
	if (!e)
		return NULL;
	if (e->job.kind == GS_JOB_NONE) {
		gs_jobs_name_user(job.uid, job.user, sizeof(job.user));
		if (job.kind == GS_JOB_USER)
			snprintf(job.id, sizeof(job.id), "%s", job.user);
		if (!job.name[0])
			snprintf(job.name, sizeof(job.name), "%s",
				 job.kind == GS_JOB_UNIT || job.kind == GS_JOB_CGROUP ? g->name
										      : job.id);
	} else if (e->job.uid != job.uid) {
		/* Processes of several users: it has no owner. */
		e->job.uid = -1;
		e->job.user[0] = '\0';
		return e;
	}
	gs_jobs_merge(e, &job, false);
	return e;
}

/* What the node said of it: of processes that may not be read. */
static const struct gs_job_pid *reported_of(const struct gs_jobs *j, const struct job_process *p)
{
	size_t from = 0, to = j->n_reported;

	while (from < to) {
		size_t i = from + (to - from) / 2;

		if (j->reported[i].pid == p->pid)
			return j->reported[i].start_ticks == p->start_ticks ? &j->reported[i]
									    : NULL;
		if (j->reported[i].pid < p->pid)
			from = i + 1;
		else
			to = i;
	}
	return NULL;
}

static void read_facts(struct gs_jobs *j, int folder, struct facts *f)
{
	uint32_t ns_pid;
	struct stat st;
	int r;

	if (fstat(folder, &st) == 0)
		f->uid = st.st_uid;
	if (read_file(j, folder, "cgroup") == 0 && j->text.bytes) {
		f->has_group = gs_job_of_owned_cgroup((char *)j->text.data, gs_jobs_group_owner, j,
						      &f->group);
		gs_identity_container_of_cgroup((char *)j->text.data, f->container);
	}
	r = read_file(j, folder, "environ");
	j->stats.n_environs_long += r == -ENOBUFS;
	f->is_refused = r == -EACCES || r == -EPERM;
	if ((r == 0 || r == -ENOBUFS) && j->text.bytes) {
		f->has_environ = true;
		gs_job_parse_environ((char *)j->text.data, j->text.bytes, &f->environ);
	} else {
		gs_job_parse_environ("", 0, &f->environ);
	}
	/* One that may not be dumped has a folder of root's: only this file says whose it is. */
	if ((of_slurms_group(f) || f->environ.job.kind == GS_JOB_SLURM) &&
	    read_file(j, folder, "status") == 0 && j->text.bytes)
		gs_identity_parse_status((char *)j->text.data, j->text.bytes, &f->uid, &ns_pid);
}

/* Handed on by a shell of another job, as slurmd's may be: its tasks show it until their exec. All
 * components of a het job have the number of the first. */
static bool has_others_environ(const struct facts *f)
{
	return of_slurms_group(f) && f->environ.job.het_job_id < 0 &&
	       numbers_differ(f->group.job_id, f->environ.job.job_id);
}

static void attach_process(struct job_process *p, struct job_entry *e, uint64_t now)
{
	if (p->job != e) {
		if (p->job)
			p->job->n_processes--;
		if (e)
			e->n_processes++;
		p->job = e;
	}
	if (e)
		e->seen_ns = now;
}

static void read_process(struct gs_jobs *j, int folder, struct job_process *p,
			 const struct gs_identity_stat *st)
{
	struct facts f = {.pid = p->pid, .parent_pid = st->parent_pid, .is_kernel = st->is_kernel};
	struct gs_job_task task;
	struct job_entry *e = NULL;
	bool is_slurms, has_claim;

	read_facts(j, folder, &f);
	j->stats.n_environs_refused += f.is_refused;
	task = f.environ.task;
	f.reported = reported_of(j, p);
	has_claim = of_slurms_group(&f) || (f.has_environ && f.environ.job.kind == GS_JOB_SLURM);
	/* What slurmd says of the process counts more than what the process says. */
	is_slurms = has_claim &&
		    (!f.reported || f.reported->job_id == claimed_number(&f) || is_proven(j, &f));
	if (is_slurms)
		e = slurm_entry(j, &f, p->job);
	if (is_slurms && e) {
		if (has_others_environ(&f))
			gs_job_task_clear(&task);
		if (f.environ.job.kind != GS_JOB_SLURM && !f.environ.task.step[0])
			task.task_id = -1;
		if (of_slurms_group(&f)) {
			if (f.group.step[0])
				memcpy(task.step, f.group.step, sizeof(task.step));
			if (f.group.task_id != -1)
				task.task_id = f.group.task_id;
			if (f.group.is_daemon)
				task.rank = task.local_rank = -1;
		}
	} else if (f.reported) {
		e = reported_entry(j, &f);
		task = f.reported->task;
	} else {
		j->n_unreadable += f.is_refused;
		e = other_entry(j, &f);
	}
	if (f.reported && task.rank < 0)
		task.rank = f.reported->task.rank;
	attach_process(p, e, j->now_ns());
	p->task = task;
	p->is_read = true;
	p->read_ns = j->now_ns();
}

/* --- processes --- */

void gs_jobs_drop_process(struct gs_jobs *j, struct job_process *p)
{
	attach_process(p, NULL, 0);
	gs_map_del(&j->by_pid, p->pid);
	p->pid = 0;
	p->next_free = j->free_process;
	j->free_process = (uint32_t)(p - j->process);
}

/* Those that ended; when none did, all. */
static void make_room(struct gs_jobs *j)
{
	uint32_t n = 0;

	for (int all = 0; all < 2 && !n; all++)
		for (uint32_t i = 1; i < j->n_processes; i++) {
			char path[16];

			if (!j->process[i].pid)
				continue;
			snprintf(path, sizeof(path), "%u", j->process[i].pid);
			if (!all && faccessat(j->proc_fd, path, F_OK, 0) == 0)
				continue;
			gs_jobs_drop_process(j, &j->process[i]);
			n++;
		}
}

static struct job_process *make_process(struct gs_jobs *j, uint32_t pid)
{
	struct job_process *p;
	uint32_t i;

	if (!j->free_process && j->n_processes == GS_JOBS_PROCESSES_MAX)
		make_room(j);
	if (!j->free_process && j->n_processes >= j->room_processes) {
		if (!gs_vec_reserve(&j->process, &j->room_processes, j->n_processes + 1))
			return NULL;
		if (!j->n_processes)
			j->n_processes = 1;
	}
	i = j->free_process ? j->free_process : j->n_processes;
	if (gs_map_put(&j->by_pid, pid, i) < 0)
		return NULL;
	p = &j->process[i];
	if (i == j->free_process)
		j->free_process = p->next_free;
	else
		j->n_processes++;
	*p = (struct job_process){.pid = pid};
	gs_job_task_clear(&p->task);
	return p;
}

struct job_process *gs_jobs_process(struct gs_jobs *j, uint32_t pid)
{
	uint64_t at, now = j->now_ns(), age, good;
	struct job_process *p = gs_map_get(&j->by_pid, pid, &at) ? &j->process[at] : NULL;
	GS_CLOSE int folder = -1;
	struct gs_identity_stat st;
	char path[16];

	snprintf(path, sizeof(path), "%u", pid);
	folder = j->proc_fd < 0 ? -1 : openat(j->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || read_file(j, folder, "stat") < 0 ||
	    !gs_identity_parse_stat((char *)j->text.data, j->text.bytes, &st))
		return p; /* it ended: what was known of it, if anything */
	if (p && p->start_ticks != st.start_ticks) {
		gs_jobs_drop_process(j, p);
		p = NULL;
	}
	if (!p)
		p = make_process(j, pid);
	if (!p)
		return NULL;
	p->start_ticks = st.start_ticks;
	p->is_zombie = (st.state == 'Z' || st.state == 'X') && st.n_threads <= 1;
	if (p->is_zombie && p->is_read)
		return p;
	age = now - st.start_ticks * j->ns_per_tick;
	good = age < YOUNG_NS && YOUNG_CACHE_NS < j->cache_ns ? YOUNG_CACHE_NS : j->cache_ns;
	if (!p->is_read || now - p->read_ns > good ||
	    (p->read_ns < st.start_ticks * j->ns_per_tick + YOUNG_NS && age >= YOUNG_NS))
		read_process(j, folder, p, &st);
	return p;
}

const struct gs_job *gs_jobs_lookup(struct gs_jobs *j, uint32_t pid, struct gs_job_task *ret)
{
	struct job_process *p = gs_jobs_process(j, pid);

	if (ret)
		gs_job_task_clear(ret);
	if (!p || !p->job)
		return NULL;
	if (ret)
		*ret = p->task;
	return gs_jobs_finish(j, p->job);
}

void gs_jobs_forget(struct gs_jobs *j, uint32_t pid)
{
	uint64_t at;

	if (gs_map_get(&j->by_pid, pid, &at))
		j->process[at].is_read = false;
}

const struct gs_job *gs_jobs_by_id(struct gs_jobs *j, const char *id)
{
	struct job_entry *best = NULL;
	int64_t number = -1;

	if (!gs_job_number(id, strlen(id), &number))
		number = -1;
	for (uint32_t i = 0; i < j->n_entries; i++) {
		struct job_entry *e = j->entry[i];
		bool is_number = number > 0 && e->job.job_id == number && !e->job.is_claimed;

		if (e->was_superseded || (!is_number && strcmp(e->job.id, id) != 0))
			continue;
		if (!best || (!e->was_superseded && e->seen_ns > best->seen_ns))
			best = e;
	}
	return best ? gs_jobs_finish(j, best) : NULL;
}
