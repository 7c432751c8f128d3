/*
 * Who is believed when a process is said to be of a job of Slurm. From the strongest:
 *
 *   the controller   scontrol show job: the job is of this user; slurmd's listpids and files that
 *                    root's prolog left: these processes, this user, are of the job
 *   root's cgroup    its folder and all above it are root's, so slurmd made it: it proves the
 *                    number, and the user where the path names one, whether the controller answers
 *                    or not
 *   own cgroup       a folder of the same name that a user made in what was delegated to him
 *   environment      anybody may write anything there
 *
 * The last two only claim. A claim is an entry of its own, of the user whom the kernel names for
 * the process, so that it never mixes with the job that it names. It becomes that job when the
 * controller says that the job is this user's. Claims have a small part of the table, and each user
 * a small part of that: what is proven always finds its place.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sources/identity/job_table_int.h"

#define CLAIMS_MAX      128
#define CLAIMS_USER_MAX 16
#define SWEEP_NS        1000000000ull
#define ASKS_MAX        32 /* questions about claims at once, and then ... */
#define ASK_EVERY_NS    1000000000ull

/* --- folders --- */

/* The folder below the root of all hierarchies, as `path` says it; false: it is not there. */
static bool find_folder(const struct gs_jobs *j, const char *hierarchy, const char *below,
			char *path, size_t bytes, struct stat *st)
{
	const char *name = hierarchy;

	if (j->cgroup_fd < 0 || !below[0])
		return false;
	if (!name[0]) {
		snprintf(path, bytes, ".%s", below);
		if (fstatat(j->cgroup_fd, path, st, 0) == 0)
			return true;
		name = "unified";
	} else {
		/* That of "cpu,cpuacct" may lie at either name. */
		snprintf(path, bytes, "%s%s", name, below);
		if (fstatat(j->cgroup_fd, path, st, 0) == 0)
			return true;
		name += strncmp(name, "name=", 5) == 0 ? 5 : 0;
	}
	snprintf(path, bytes, "%.*s%s", (int)strcspn(name, ","), name, below);
	return fstatat(j->cgroup_fd, path, st, 0) == 0;
}

uint64_t gs_jobs_group_inode(const struct gs_jobs *j, const struct gs_job_cgroup *g)
{
	char path[GS_JOBS_GROUP_BYTES];
	struct stat st;

	return find_folder(j, g->hierarchy, g->path, path, sizeof(path), &st) ? st.st_ino : 0;
}

/* Only root, or who is trusted, can have made something in it. */
static bool is_roots(const struct gs_jobs *j, const struct stat *st)
{
	bool others = st->st_mode & S_IWOTH ||
		      (st->st_mode & S_IWGRP && st->st_gid != 0 && st->st_gid != j->trusted_uid);

	return (st->st_uid == 0 || st->st_uid == j->trusted_uid) && !others;
}

enum gs_job_owner gs_jobs_group_owner(void *ctx, const char *hierarchy, const char *below)
{
	const struct gs_jobs *j = ctx;
	char path[GS_JOBS_GROUP_BYTES];
	struct stat st;

	/* A group outside of our own namespace of cgroups has no path that we know. */
	if (strstr(below, "/../") || !find_folder(j, hierarchy, below, path, sizeof(path), &st))
		return GS_JOB_OWNER_UNKNOWN;
	/* From the inside out; the last one is the hierarchy's own folder. */
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		*end = '\0';
		if (fstatat(j->cgroup_fd, path, &st, 0) < 0)
			return GS_JOB_OWNER_UNKNOWN;
		if (!is_roots(j, &st))
			return GS_JOB_OWNER_OTHER;
	}
	return GS_JOB_OWNER_ROOT;
}

bool gs_jobs_trusts_file(const struct gs_jobs *j, const struct stat *st)
{
	return S_ISREG(st->st_mode) && is_roots(j, st);
}

/* --- claims --- */

uint64_t gs_jobs_key_of_claim(uint32_t kind, int64_t job_id, const char *name, uint32_t uid)
{
	char key[320];

	if (job_id >= 0)
		snprintf(key, sizeof(key), "claim %lld %u", (long long)job_id, uid);
	else
		snprintf(key, sizeof(key), "claim %s %u", name, uid);
	return gs_jobs_key_of_text(kind, key);
}

static bool has_ended(const struct gs_jobs *j, uint32_t pid)
{
	char path[16];

	snprintf(path, sizeof(path), "%u", pid);
	return faccessat(j->proc_fd, path, F_OK, 0) < 0;
}

/* Claims whose processes have ended. */
static void sweep_claims(struct gs_jobs *j)
{
	uint64_t now = j->now_ns();

	if (j->swept_ns && now - j->swept_ns < SWEEP_NS)
		return;
	j->swept_ns = now;
	for (uint32_t i = 1; i < j->n_processes; i++)
		if (j->process[i].pid && j->process[i].job && j->process[i].job->job.is_claimed &&
		    has_ended(j, j->process[i].pid))
			gs_jobs_drop_process(j, &j->process[i]);
	for (uint32_t i = j->n_entries; i > 0; i--)
		if (j->entry[i - 1]->job.is_claimed && !j->entry[i - 1]->n_processes &&
		    !gs_jobs_is_asked(j, j->entry[i - 1]))
			gs_jobs_free_entry(j, i - 1);
}

static bool has_room(const struct gs_jobs *j, uint32_t uid)
{
	uint32_t n = 0, n_user = 0;

	for (uint32_t i = 0; i < j->n_entries; i++) {
		n += j->entry[i]->job.is_claimed;
		n_user += j->entry[i]->job.is_claimed && j->entry[i]->claim_uid == uid;
	}
	return n < CLAIMS_MAX && n_user < CLAIMS_USER_MAX;
}

bool gs_jobs_claim_room(struct gs_jobs *j, uint64_t key, uint32_t uid)
{
	uint64_t known;

	if (has_room(j, uid))
		return true;
	sweep_claims(j);
	if (has_room(j, uid))
		return true;
	if (!gs_map_get(&j->left_out, key, &known) && gs_map_put(&j->left_out, key, 1) == 0)
		j->stats.n_claims_left_out++;
	return false;
}

bool gs_jobs_is_owner(struct gs_jobs *j, uint64_t key, uint32_t uid)
{
	const struct job_entry *e = gs_jobs_entry_of(j, key, false);

	return e && !e->job.is_claimed && e->job.uid == uid;
}

bool gs_jobs_may_ask_claim(const struct gs_jobs *j, uint64_t now)
{
	return j->claim_asks < ASKS_MAX || now - j->claim_asks_ns >= ASK_EVERY_NS;
}

void gs_jobs_count_claim_ask(struct gs_jobs *j, uint64_t now)
{
	uint64_t n = (now - j->claim_asks_ns) / ASK_EVERY_NS;

	j->claim_asks -= n < j->claim_asks ? (uint32_t)n : j->claim_asks;
	j->claim_asks++;
	j->claim_asks_ns = now;
}

bool gs_jobs_settle_claim(struct gs_jobs *j, struct job_entry *e, const struct gs_job *said)
{
	uint64_t key = gs_jobs_key_of_job(said->job_id), address;
	char user[sizeof(said->user)] = "";

	e->ask = ASK_DONE;
	gs_jobs_name_user(e->claim_uid, user, sizeof(user));
	if (said->job_id < 0 || (said->uid >= 0 ? said->uid != e->claim_uid
						: !user[0] || strcmp(said->user, user) != 0))
		return false;
	if (gs_jobs_entry_of(j, key, false)) {
		/* Others of its processes have shown that it is here: these join them. */
		for (uint32_t i = 1; i < j->n_processes; i++)
			if (j->process[i].pid && j->process[i].job == e)
				j->process[i].is_read = false;
		return false;
	}
	if (gs_map_put(&j->by_key, key, (uintptr_t)e) < 0)
		return false;
	if (gs_map_get(&j->by_key, e->key, &address) && address == (uintptr_t)e)
		gs_map_del(&j->by_key, e->key);
	e->key = key;
	e->job.is_claimed = false;
	return true;
}

const struct gs_job *gs_jobs_now(struct gs_jobs *j, const struct gs_job *job)
{
	struct job_entry *best = NULL;

	for (uint32_t i = 0; i < j->n_entries; i++) {
		struct job_entry *e = j->entry[i];
		/* A claim may have been proven since. */
		bool was_claim = job->is_claimed && job->kind == GS_JOB_SLURM &&
				 e->job.kind == GS_JOB_SLURM && e->job.job_id == job->job_id &&
				 e->job.uid == job->uid;

		if (e->was_superseded || (!was_claim && !gs_job_is_same(&e->job, job)))
			continue;
		if (!best || (best->job.is_claimed && !e->job.is_claimed) ||
		    (best->job.is_claimed == e->job.is_claimed && e->seen_ns > best->seen_ns))
			best = e;
	}
	return best ? gs_jobs_finish(j, best) : NULL;
}
