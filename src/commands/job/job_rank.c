/*
 * A rank is a task of a step (Slurm's, or what an MPI launcher set) with all that it started.
 */
#include "commands/job/job_rank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"

struct rank {
	uint32_t job;
	char step[24];
	int32_t rank;
	uint32_t n_processes;
	uint64_t cpu_ns, file_bytes; /* without probes */
	double gpu_sum;
	uint64_t n_gpu;
	int64_t gpu_memory_peak;
};

struct process { /* without probes: as it was read last */
	uint64_t cpu_ns, file_bytes;
};

struct job_ranks {
	struct rank *rank; /* owned */
	size_t n_ranks, room_ranks;
	struct gs_map rank_of;   /* pid -> rank */
	struct gs_map last_of;   /* pid -> process */
	struct process *process; /* owned */
	size_t n_processes, room_processes;
};

int job_ranks_new(struct job_ranks **ret)
{
	struct job_ranks *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->rank_of = r->last_of = GS_MAP_INIT(1u << 20);
	*ret = r;
	return 0;
}

void job_ranks_free(struct job_ranks **ref)
{
	struct job_ranks *r = *ref;

	if (!r)
		return;
	gs_map_fini(&r->rank_of);
	gs_map_fini(&r->last_of);
	free(r->rank);
	free(r->process);
	free(r);
	*ref = NULL;
}

const struct gs_map *job_ranks_map(const struct job_ranks *r)
{
	return &r->rank_of;
}

/* Room for one more; NULL: no memory. */
static void *grow_array(void *array, size_t n, size_t *room, size_t bytes)
{
	size_t more = *room ? 2 * *room : 32;
	void *p;

	if (n < *room)
		return array;
	p = realloc(array, more * bytes);
	if (p)
		*room = more;
	return p;
}

void job_ranks_note(struct job_ranks *r, uint32_t pid, uint32_t job, const struct gs_job_task *task)
{
	struct rank *more;
	size_t i = 0;

	if (!gs_job_task_is_rank(task))
		return;
	while (i < r->n_ranks && (r->rank[i].job != job || r->rank[i].rank != task->rank ||
				  strcmp(r->rank[i].step, task->step) != 0))
		i++;
	if (i == r->n_ranks) {
		more = grow_array(r->rank, r->n_ranks, &r->room_ranks, sizeof(*more));
		if (!more)
			return;
		r->rank = more;
		r->rank[r->n_ranks] =
			(struct rank){.job = job, .rank = task->rank, .gpu_memory_peak = -1};
		memcpy(r->rank[r->n_ranks++].step, task->step, sizeof(task->step));
	}
	if (gs_map_put(&r->rank_of, pid, i) == 0)
		r->rank[i].n_processes++;
}

/* What a process used since it was looked at before; the first look is where it begins, unless it
 * was born meanwhile: then src/host counts from 0. */
static void look_at(struct job_ranks *r, const struct gs_host_taskstats *host, uint32_t pid,
		    size_t rank)
{
	struct gs_host_taskstats_process now;
	struct process *p;
	uint64_t at;

	if (!gs_host_taskstats_of(host, pid, &now))
		return;
	if (!gs_map_get(&r->last_of, pid, &at)) {
		p = grow_array(r->process, r->n_processes, &r->room_processes, sizeof(*p));
		if (!p)
			return;
		r->process = p;
		at = r->n_processes;
		if (gs_map_put(&r->last_of, pid, at) < 0)
			return;
		r->process[r->n_processes++] = (struct process){0};
	}
	p = &r->process[at];
	if (now.cpu_ns > p->cpu_ns) {
		r->rank[rank].cpu_ns += now.cpu_ns - p->cpu_ns;
		p->cpu_ns = now.cpu_ns;
	}
	if (now.io_bytes > p->file_bytes) {
		r->rank[rank].file_bytes += now.io_bytes - p->file_bytes;
		p->file_bytes = now.io_bytes;
	}
}

void job_ranks_poll(struct job_ranks *r, const struct gs_gpu_snapshot *g,
		    const struct gs_host_taskstats *host)
{
	uint64_t at;

	for (uint32_t i = 0; g && i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];
		struct rank *rank;

		if (!gs_map_get(&r->rank_of, p->pid, &at))
			continue;
		rank = &r->rank[at];
		if (p->sm_ratio >= 0) {
			rank->gpu_sum += p->sm_ratio;
			rank->n_gpu++;
		}
		if (p->used_bytes > rank->gpu_memory_peak)
			rank->gpu_memory_peak = p->used_bytes;
	}
	if (!host)
		return;
	gs_map_for_each (&r->rank_of, s)
		look_at(r, host, (uint32_t)s->key, s->value);
}

static int by_rank(const void *a, const void *b)
{
	const struct gs_job_report_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct gs_job_report_rank report_rank(const struct rank *r, const struct gs_taskstats *w)
{
	struct gs_job_report_rank t = {.rank = r->rank,
				       .n_processes = r->n_processes,
				       .cpu_s = (double)r->cpu_ns / 1e9,
				       .wait_s = NAN,
				       .gpu_wait_s = NAN,
				       .gpu_ratio = r->n_gpu ? r->gpu_sum / (double)r->n_gpu : NAN,
				       .gpu_memory_bytes = r->gpu_memory_peak,
				       .file_bytes = (double)r->file_bytes,
				       .net_bytes = NAN};
	double gpu_ratio = t.gpu_ratio;

	memcpy(t.step, r->step, sizeof(t.step));
	if (!w)
		return t;
	gs_job_report_rank_of(w, r->step, r->rank, r->n_processes, &t);
	t.gpu_ratio = gpu_ratio;
	t.gpu_memory_bytes = r->gpu_memory_peak;
	return t;
}

/* The step with most ranks: the others are what was run beside it. */
static const char *largest_step(const struct job_ranks *r, uint32_t job)
{
	const char *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < r->n_ranks; i++) {
		size_t n = 0;

		if (r->rank[i].job != job)
			continue;
		for (size_t k = 0; k < r->n_ranks; k++)
			n += r->rank[k].job == job && strcmp(r->rank[k].step, r->rank[i].step) == 0;
		/* Of two steps as large as each other the later one. */
		if (n >= most) {
			most = n;
			best = r->rank[i].step;
		}
	}
	return best;
}

void job_ranks_take(const struct job_ranks *r, uint32_t job, const struct job_kernel *kernel,
		    struct gs_job_report_rank **ret, size_t *ret_n)
{
	GS_FREE struct gs_taskstats *sums = calloc(r->n_ranks + 1, sizeof(*sums));
	struct gs_job_report_rank *list = calloc(r->n_ranks + 1, sizeof(*list));
	const char *step = largest_step(r, job);
	size_t n = 0;

	*ret = NULL;
	*ret_n = 0;
	if (!sums || !list || !step) {
		free(list);
		return;
	}
	if (kernel)
		job_kernel_add_by(kernel, &r->rank_of, sums, r->n_ranks);
	for (size_t i = 0; i < r->n_ranks; i++)
		if (r->rank[i].job == job && strcmp(r->rank[i].step, step) == 0)
			list[n++] = report_rank(&r->rank[i], kernel ? &sums[i] : NULL);
	qsort(list, n, sizeof(*list), by_rank);
	*ret = list;
	*ret_n = n;
}
