/*
 * Which processes are of which job. A process that is followed stays with the job that it was found
 * in; what it starts is followed by the probes and counts to the same job, also when it has ended
 * before anybody could look.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

#define SETTLE_NS 500000000ull

static uint64_t hash_job(const struct gs_job *job)
{
	return gs_hash_bytes(job->id, strlen(job->id)) + job->kind;
}

static void forget_processes(struct gs_map *job_of, uint32_t place)
{
	gs_map_for_each (job_of, s)
		if (s->value == place)
			gs_map_del(job_of, s->key);
}

void accounting_end_job(struct gs_accounting *a, struct accounting_job *j)
{
	uint32_t place = (uint32_t)(j - a->job);

	/* A process that is left (not followed any more, and not asked about yet) must not be counted to
	 * the job that gets the place. */
	forget_processes(&a->job_of, place);
	if (a->scanned)
		forget_processes(a->scanned, place);
	a->ended[a->n_ended++ % GS_ARRAY_LEN(a->ended)] = hash_job(&j->account.job);
	free(j->calls);
	gs_accounting_ranks_fini(&j->ranks);
	if (a->rows)
		gs_rows_end_job(a->rows, (uint32_t)(j - a->job));
	*j = (struct accounting_job){0};
}

/* Its last processes may still be there when another job has its place: it was reported. */
static bool has_just_ended(const struct gs_accounting *a, uint64_t hash)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(a->ended); i++)
		if (a->ended[i] == hash)
			return true;
	return false;
}

static void count_left_out(struct gs_accounting *a, const struct gs_job *job)
{
	uint64_t hash = hash_job(job), known;
	struct gs_map *seen = job->is_claimed ? &a->claims_left_out : &a->left_out;

	if (!has_just_ended(a, hash) && !gs_map_get(seen, hash, &known) &&
	    gs_map_put(seen, hash, 1) == 0)
		(*(job->is_claimed ? &a->trouble.claims_left_out : &a->trouble.jobs_left_out))++;
}

/* How many places are taken: by jobs, or by claims (of a user; uid negative: of all). */
static uint32_t count_used(const struct gs_accounting *a, bool claims, int64_t uid)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct gs_job *job = &a->job[i].account.job;

		n += a->job[i].used && job->is_claimed == claims && (uid < 0 || job->uid == uid);
	}
	return n;
}

/* Claims never take the place of a job, nor one user's those of another. */
static bool has_room(const struct gs_accounting *a, const struct gs_job *job)
{
	if (!job->is_claimed)
		return count_used(a, false, -1) < a->max_jobs;
	return count_used(a, true, -1) < GS_JOB_CLAIMS_MAX &&
	       count_used(a, true, job->uid) < GS_JOB_CLAIMS_USER_MAX;
}

/* That no process of a job was counted says little: what starts them may be there alone so far, or
 * one reading may have missed them. A job that the last search found has not ended. */
static struct accounting_job *free_place(struct gs_accounting *a, const struct gs_job *job)
{
	struct accounting_job *oldest = NULL;
	bool has = has_room(a, job);

	for (uint32_t i = 0; i < a->n_places; i++) {
		struct accounting_job *j = &a->job[i];

		if (!j->used && has)
			return j;
		if (j->used && j->account.job.is_claimed == job->is_claimed &&
		    (!job->is_claimed || j->account.job.uid == job->uid) &&
		    !j->account.n_processes && j->found_ns < a->scan_ns &&
		    (!oldest || j->account.last_ns < oldest->account.last_ns))
			oldest = j;
	}
	/* One that has ended makes room for one that runs. */
	if (oldest)
		accounting_end_job(a, oldest);
	return oldest;
}

static void begin_job(struct accounting_job *j, const struct gs_job *job, uint64_t now_ns)
{
	j->used = true;
	j->found_ns = now_ns;
	j->account = (struct gs_job_account){.job = *job,
					     .first_ns = now_ns,
					     .last_ns = now_ns,
					     .cores = NAN,
					     .memory_bytes = -1,
					     .memory_peak_bytes = -1,
					     .memory_limit_bytes = -1,
					     .n_gpus = -1,
					     .gpus_idle = -1,
					     .gpu_memory_bytes = -1,
					     .gpu_ratio = NAN,
					     .gpu_memory_ratio = NAN,
					     .energy_joules = NAN,
					     .util_ratio = NAN,
					     .sm_ratio = NAN,
					     .tensor_ratio = NAN,
					     .dram_ratio = NAN,
					     .cpus = NAN,
					     .io_bps = NAN,
					     .net_bps = NAN,
					     .confidence = NAN,
					     .score = NAN,
					     .cpu_percent = NAN,
					     .io_percent = NAN,
					     .wait_percent = NAN,
					     .net_percent = NAN,
					     .memory_percent = NAN};
	j->rss_bytes = -1;
	for (int p = 0; p < GS_PRESSURE_COUNT; p++)
		for (int all = 0; all < 2; all++)
			j->account.pressure_ns[p][all] = j->pressure_last_ns[p][all] = -1;
	j->anonymous_peak = j->cache_peak = j->reclaimable_peak = -1;
	j->total = j->before = gs_accounting_mark_none(now_ns);
	j->window.base = j->window.last = j->total;
}

static uint32_t job_index(struct gs_accounting *a, const struct gs_job *job, uint64_t now_ns)
{
	struct accounting_job *j;

	for (uint32_t i = 0; i < a->n_places; i++) {
		if (a->job[i].used && gs_job_is_same(&a->job[i].account.job, job)) {
			a->job[i].found_ns = now_ns;
			return i;
		}
	}
	j = free_place(a, job);
	if (!j) {
		count_left_out(a, job);
		return GS_ROWS_NO_JOB;
	}
	/* Where there never is a job, no probe costs anything. */
	if (accounting_begin_counting(a) < 0)
		return GS_ROWS_NO_JOB;
	begin_job(j, job, now_ns);
	if (a->host)
		gs_host_taskstats_reuse(a->host, (uint32_t)(j - a->job));
	return (uint32_t)(j - a->job);
}

uint32_t accounting_job_of(struct gs_accounting *a, uint32_t pid, uint64_t now_ns)
{
	struct gs_job_task task;
	const struct gs_job *job = gs_jobs_lookup(a->jobs, pid, &task);

	if (!job || !(a->options.kinds >> job->kind & 1) ||
	    gs_accounting_has_ended(a->proc_root, pid))
		return GS_ROWS_NO_JOB;
	return job_index(a, job, now_ns);
}

struct search {
	struct gs_accounting *a;
	uint64_t now_ns;
	struct gs_map job_of; /* as it is now */
};

static int consider_process(void *ctx, uint32_t pid, bool ask)
{
	struct search *s = ctx;
	struct gs_accounting *a = s->a;
	uint64_t job;
	bool has_job = gs_map_get(&a->job_of, pid, &job);
	bool followed = has_job && (a->rows ? gs_rows_has(a->rows, pid)
					    : gs_host_taskstats_watches(a->host, pid));
	int r;

	if (followed || (has_job && !ask)) {
		if (followed || !gs_accounting_has_ended(a->proc_root, pid))
			a->job[job].found_ns = s->now_ns;
		return gs_map_put(&s->job_of, pid, job);
	}
	if (!ask)
		return 0;
	job = accounting_job_of(a, pid, s->now_ns);
	if (job == GS_ROWS_NO_JOB)
		return 0;
	a->job[job].any_pid = pid;
	r = gs_map_put(&s->job_of, pid, job);
	if (r < 0)
		return r;
	if (gs_accounting_is_holder(a->proc_root, pid)) {
		if (a->rows)
			gs_rows_follow_holder(a->rows, pid, (uint32_t)job);
		return 0;
	}
	if (a->rows) {
		gs_rows_follow(a->rows, pid, (uint32_t)job, GS_ROWS_NO_RANK);
		return 0;
	}
	r = gs_host_taskstats_add(a->host, (uint32_t)job, pid, a->first_scan_done);
	return r == -ESRCH ? 0 : r;
}

/* A claim that was proven is the job from now on, unless that is here already. */
static bool becomes_job(const struct gs_accounting *a, const struct gs_job *claim,
			const struct gs_job *now)
{
	if (!claim->is_claimed || now->is_claimed || count_used(a, false, -1) >= a->max_jobs)
		return false;
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->job[i].used && gs_job_is_same(&a->job[i].account.job, now))
			return false;
	return true;
}

/* What was learned since: names, limits, GPUs. The id that was reported first stays. */
static void refresh_jobs(struct gs_accounting *a)
{
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct gs_job *job = &a->job[i].account.job;
		const struct gs_job *now;
		char id[sizeof(job->id)];

		if (!a->job[i].used)
			continue;
		now = gs_jobs_now(a->jobs, job);
		if (now && becomes_job(a, job, now)) {
			*job = *now;
			continue;
		}
		if (!now || !gs_job_is_same(now, job))
			continue;
		memcpy(id, job->id, sizeof(id));
		*job = *now;
		memcpy(job->id, id, sizeof(id));
	}
}

/* Whose jobs they are, and what claims are true, belongs into the first reading too. */
static void settle_questions(struct gs_accounting *a)
{
	uint64_t end_ns = gs_clock_boot_ns() + SETTLE_NS, now_ns;

	while ((now_ns = gs_clock_boot_ns()) < end_ns && gs_jobs_ask(a->jobs, end_ns - now_ns))
		;
}

int accounting_scan(struct gs_accounting *a, uint64_t now_ns)
{
	struct search s = {a, now_ns, GS_MAP_INIT(1u << 20)};
	int r;

	gs_jobs_ask(a->jobs, 0);
	a->scanned = &s.job_of;
	r = gs_accounting_scan_processes(&a->scan, a->proc_root, now_ns, consider_process, &s);
	a->scanned = NULL;
	if (r < 0) {
		gs_map_fini(&s.job_of);
		return r;
	}
	gs_map_fini(&a->job_of);
	a->job_of = s.job_of;
	a->scan_ns = now_ns;
	if (a->rows)
		gs_rows_flush(a->rows);
	if (!a->first_scan_done)
		settle_questions(a);
	refresh_jobs(a);
	a->first_scan_done = true;
	return 0;
}
