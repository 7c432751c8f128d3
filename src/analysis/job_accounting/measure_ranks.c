/*
 * The ranks of all jobs that are measured: which process is of which. With probes the kernel's rows
 * say what a rank did, without them what procfs says of its processes.
 */
#include "analysis/job_accounting/measure_ranks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/ranks.h"
#include "core/base/map.h"
#include "core/base/mem.h"

struct process { /* without probes: as it was read last */
	uint64_t cpu_ns, file_bytes;
};

struct gs_accounting_measure_ranks {
	struct gs_accounting_ranks
		of[GS_HOST_TASKSTATS_GROUPS]; /* by job; their work is of processes that ended */
	struct gs_map id_of;                  /* pid -> job << 32 | index of its rank */
	struct gs_map last_of;                /* pid -> process */
	struct process *process;              /* owned */
	size_t n_processes, capacity;
	uint64_t n_left_out;
	uint64_t read_ns;
};

int gs_accounting_measure_ranks_new(struct gs_accounting_measure_ranks **ret)
{
	struct gs_accounting_measure_ranks *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->id_of = r->last_of = GS_MAP_INIT(1u << 20);
	*ret = r;
	return 0;
}

void gs_accounting_measure_ranks_free(struct gs_accounting_measure_ranks **ref)
{
	struct gs_accounting_measure_ranks *r = *ref;

	if (!r)
		return;
	for (size_t i = 0; i < GS_ARRAY_LEN(r->of); i++)
		gs_accounting_ranks_fini(&r->of[i]);
	gs_map_fini(&r->id_of);
	gs_map_fini(&r->last_of);
	free(r->process);
	free(r);
	*ref = NULL;
}

static struct gs_job_rank_count *rank_of_id(struct gs_accounting_measure_ranks *r, uint64_t id)
{
	return &r->of[id >> 32].rank[(uint32_t)id];
}

void gs_accounting_measure_ranks_note(struct gs_accounting_measure_ranks *r, uint32_t pid,
				      uint32_t job, const struct gs_job_task *task)
{
	uint64_t id;
	uint32_t at;

	if (!gs_job_task_is_rank(task))
		return;
	at = gs_accounting_ranks_find(&r->of[job], task);
	id = (uint64_t)job << 32 | (at - 1);
	if (!at || gs_map_put(&r->id_of, pid, id) < 0)
		r->n_left_out++;
	else
		rank_of_id(r, id)->n_processes++;
}

uint64_t gs_accounting_measure_ranks_left_out(const struct gs_accounting_measure_ranks *r)
{
	return r->n_left_out;
}

static void add_ended(void *ctx, uint64_t id, const struct gs_taskstats *work)
{
	gs_taskstats_add(&rank_of_id(ctx, id)->work, work);
}

void gs_accounting_measure_ranks_fold(struct gs_accounting_measure_ranks *r,
				      struct gs_accounting_measure_kernel *kernel)
{
	gs_accounting_measure_kernel_fold(kernel, &r->id_of, add_ended, r);
}

/* Room for one more; NULL: no memory. */
static struct process *grow_processes(struct gs_accounting_measure_ranks *r)
{
	size_t more = r->capacity ? 2 * r->capacity : 32;
	void *p;

	if (r->n_processes < r->capacity)
		return r->process;
	p = realloc(r->process, more * sizeof(*r->process));
	if (p)
		r->capacity = more;
	return p;
}

/* What a process used since it was looked at before; the first look is where it begins, unless it
 * was born meanwhile: then src/host counts from 0. */
static void look_at(struct gs_accounting_measure_ranks *r, const struct gs_host_taskstats *host,
		    uint32_t pid, uint64_t id)
{
	struct gs_taskstats *work = &rank_of_id(r, id)->work;
	struct gs_host_taskstats_process now;
	struct process *p;
	uint64_t at;

	if (!gs_host_taskstats_of(host, pid, &now))
		return;
	if (!gs_map_get(&r->last_of, pid, &at)) {
		p = grow_processes(r);
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
		work->time_ns[GS_TIME_CPU] += now.cpu_ns - p->cpu_ns;
		p->cpu_ns = now.cpu_ns;
	}
	if (now.io_bytes > p->file_bytes) {
		work->io[GS_IO_FILE].read_bytes += now.io_bytes - p->file_bytes;
		p->file_bytes = now.io_bytes;
	}
}

void gs_accounting_measure_ranks_look(struct gs_accounting_measure_ranks *r,
				      const struct gs_gpu_snapshot *g,
				      const struct gs_host_taskstats *host, uint64_t now_ns)
{
	uint64_t id;

	for (uint32_t i = 0; g && i < g->n_processes; i++)
		if (!g->process[i].ended && gs_map_get(&r->id_of, g->process[i].pid, &id))
			gs_accounting_rank_add_gpu(rank_of_id(r, id), &g->process[i],
						   r->read_ns ? now_ns - r->read_ns : 0);
	r->read_ns = now_ns;
	if (!host)
		return;
	gs_map_for_each (&r->id_of, s)
		look_at(r, host, (uint32_t)s->key, s->value);
}

struct sum { /* of a job's ranks, those that live as well */
	uint32_t job;
	struct gs_job_rank_count *rank;
};

static void add_living(void *ctx, uint64_t id, const struct gs_taskstats *work)
{
	const struct sum *s = ctx;

	if (id >> 32 == s->job)
		gs_taskstats_add(&s->rank[(uint32_t)id].work, work);
}

int gs_accounting_measure_ranks_report(const struct gs_accounting_measure_ranks *r, uint32_t job,
				       const struct gs_accounting_measure_kernel *kernel,
				       struct gs_job_report *report)
{
	const struct gs_accounting_ranks *of = &r->of[job];
	GS_FREE struct gs_job_rank_count *copy = calloc(of->n_ranks + 1u, sizeof(*copy));
	struct sum sum = {job, copy};
	int e;

	if (!copy)
		return -ENOMEM;
	if (of->n_ranks)
		memcpy(copy, of->rank, of->n_ranks * sizeof(*copy));
	if (kernel)
		gs_accounting_measure_kernel_add_by(kernel, &r->id_of, add_living, &sum);
	e = gs_accounting_ranks_report(copy, of->n_ranks, report);
	for (size_t i = 0; !kernel && i < report->n_ranks; i++)
		report->ranks[i].wait_s = report->ranks[i].gpu_wait_s = report->ranks[i].net_bytes =
			NAN;
	return e;
}
