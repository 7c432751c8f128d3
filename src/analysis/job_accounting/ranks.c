#include "analysis/job_accounting/ranks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void gs_accounting_ranks_fini(struct gs_accounting_ranks *r)
{
	free(r->rank);
	free(r->ended);
	gs_map_fini(&r->by_task);
	*r = (struct gs_accounting_ranks){0};
}

static uint64_t key_of(const struct gs_job_task *t)
{
	struct {
		char step[24];
		int64_t rank;
	} key = {.rank = (int64_t)t->rank << 1 | t->launched};

	_Static_assert(sizeof(key.step) == sizeof(t->step), "the same");
	memcpy(key.step, t->step, strnlen(t->step, sizeof(key.step)));
	return gs_hash_bytes(&key, sizeof(key));
}

static bool is_of(const struct gs_job_rank_count *r, const struct gs_job_task *t)
{
	return r->rank == t->rank && r->launched == t->launched && strcmp(r->step, t->step) == 0;
}

static struct gs_job_rank_count *new_rank(struct gs_accounting_ranks *r)
{
	uint32_t capacity = r->capacity ? 2 * r->capacity : 16;
	void *more;

	if (r->n_ranks == GS_RANKS_MAX)
		return NULL;
	if (r->n_ranks == r->capacity) {
		more = realloc(r->rank, capacity * sizeof(*r->rank));
		if (!more)
			return NULL;
		r->rank = more;
		more = realloc(r->ended, capacity * sizeof(*r->ended));
		if (!more)
			return NULL;
		r->ended = more;
		r->capacity = capacity;
	}
	return &r->rank[r->n_ranks];
}

uint32_t gs_accounting_ranks_find(struct gs_accounting_ranks *r, const struct gs_job_task *t)
{
	struct gs_job_rank_count *rank;
	uint64_t key = key_of(t), at;

	/* Two tasks of one key: the later one has the next key. */
	for (; gs_map_get(&r->by_task, key, &at); key++)
		if (is_of(&r->rank[at], t))
			return (uint32_t)at + 1;
	r->by_task.max_used = GS_RANKS_MAX;
	rank = new_rank(r);
	if (!rank || gs_map_put(&r->by_task, key, r->n_ranks) < 0)
		return 0;
	*rank = (struct gs_job_rank_count){
		.rank = t->rank, .launched = t->launched, .gpu_memory_peak_bytes = -1};
	memcpy(rank->step, t->step, sizeof(t->step));
	r->ended[r->n_ranks] = (struct gs_accounting_rank_ended){0};
	return ++r->n_ranks;
}

static void add_process(void *ctx, uint32_t rank, const struct gs_taskstats *work)
{
	struct gs_accounting_rank_ended *sum = ctx;

	sum[rank - 1].n_processes++;
	gs_taskstats_add(&sum[rank - 1].work, work);
}

void gs_accounting_ranks_add_ended(struct gs_accounting_ranks *r, uint32_t rank,
				   const struct gs_taskstats *work)
{
	add_process(r->ended, rank, work);
}

void gs_accounting_raise_work(struct gs_taskstats *work, const struct gs_taskstats *now)
{
	__u64 *to = (__u64 *)work;
	const __u64 *from = (const __u64 *)now;

	_Static_assert(sizeof(*work) % sizeof(*to) == 0, "only counters of 64 bits");
	for (size_t i = 0; i < sizeof(*work) / sizeof(*to); i++)
		if (from[i] > to[i])
			to[i] = from[i];
}

int gs_accounting_ranks_count(struct gs_accounting_ranks *r, const struct gs_rows *rows,
			      uint32_t job)
{
	GS_FREE struct gs_accounting_rank_ended *now = NULL;

	if (!r->n_ranks)
		return 0;
	now = malloc(r->n_ranks * sizeof(*now));
	if (!now)
		return -ENOMEM;
	memcpy(now, r->ended, r->n_ranks * sizeof(*now));
	gs_rows_visit_ranks(rows, job, add_process, now);
	for (uint32_t i = 0; i < r->n_ranks; i++) {
		gs_accounting_raise_work(&r->rank[i].work, &now[i].work);
		if (now[i].n_processes > r->rank[i].n_processes)
			r->rank[i].n_processes = now[i].n_processes;
	}
	return 0;
}

void gs_accounting_rank_add_gpu(struct gs_job_rank_count *r, const struct gs_gpu_process *p,
				uint64_t ns)
{
	uint64_t weight = ns ? ns : 1; /* as in gpu_use.c: the first one has no time before it */

	if (p->sm_ratio >= 0) {
		r->gpu_known_ns += weight;
		r->gpu_value_ns += p->sm_ratio * (double)weight;
	}
	if (p->used_bytes > r->gpu_memory_peak_bytes)
		r->gpu_memory_peak_bytes = p->used_bytes;
}

static int by_step(const void *a, const void *b)
{
	const struct gs_job_rank_count *const *x = a, *const *y = b;
	int r = strcmp((*x)->step, (*y)->step);

	return r ? r : (*x > *y) - (*x < *y);
}

/* srun numbers its tasks; what torchrun, mpirun or a daemon of it starts in one of these has numbers
 * of its own, and the task is none of those ranks. By step; how many are left. */
static size_t drop_launchers(const struct gs_job_rank_count **by, size_t n)
{
	size_t left = 0;

	for (size_t i = 0, end; i < n; i = end) {
		bool launched = false;

		for (end = i; end < n && strcmp(by[end]->step, by[i]->step) == 0; end++)
			launched |= by[end]->launched;
		for (size_t k = i; k < end; k++)
			if (by[k]->launched == launched)
				by[left++] = by[k];
	}
	return left;
}

/* The ranks of one step stand one after the other, and in the order in which they were seen. */
static size_t largest_step(const struct gs_job_rank_count **by, size_t n, size_t *ret_n)
{
	size_t best = 0, most = 0;

	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && strcmp(by[end]->step, by[i]->step) == 0; end++)
			;
		if (end - i > most || (end - i == most && by[end - 1] > by[best + most - 1])) {
			best = i;
			most = end - i;
		}
	}
	*ret_n = most;
	return best;
}

static int by_rank(const void *a, const void *b)
{
	const struct gs_job_report_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

int gs_accounting_ranks_report(const struct gs_job_rank_count *ranks, size_t n_ranks,
			       struct gs_job_report *job)
{
	GS_FREE const struct gs_job_rank_count **by = calloc(n_ranks + 1, sizeof(*by));
	size_t first;

	job->ranks = calloc(n_ranks + 1, sizeof(*job->ranks));
	if (!by || !job->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < n_ranks; i++)
		by[i] = &ranks[i];
	qsort(by, n_ranks, sizeof(*by), by_step);
	first = largest_step(by, drop_launchers(by, n_ranks), &job->n_ranks);
	for (size_t i = 0; i < job->n_ranks; i++) {
		const struct gs_job_rank_count *from = by[first + i];
		struct gs_job_report_rank *to = &job->ranks[i];

		gs_job_report_rank_of(&from->work, from->step, from->rank, from->n_processes, to);
		if (from->gpu_known_ns)
			to->gpu_ratio = from->gpu_value_ns / (double)from->gpu_known_ns;
		to->gpu_memory_bytes = from->gpu_memory_peak_bytes;
	}
	qsort(job->ranks, job->n_ranks, sizeof(*job->ranks), by_rank);
	gs_job_report_judge_ranks(job);
	return 0;
}
