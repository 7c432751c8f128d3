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
	struct gs_accounting_ranks of[GS_HOST_TASKSTATS_GROUPS]; /* by job */
	struct gs_map id_of;     /* without probes: pid -> job << 32 | its rank */
	struct gs_map last_of;   /* pid -> process */
	struct process *process; /* owned */
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
	return &r->of[id >> 32].rank[(uint32_t)id - 1];
}

uint32_t gs_accounting_measure_ranks_find(struct gs_accounting_measure_ranks *r, uint32_t job,
					  const struct gs_job_task *task)
{
	uint32_t rank;

	if (!gs_job_task_is_rank(task))
		return GS_ROWS_NO_RANK;
	rank = gs_accounting_ranks_find(&r->of[job], task);
	if (rank)
		return rank;
	r->n_left_out++;
	return GS_ROWS_NEVER_RANK;
}

void gs_accounting_measure_ranks_note(struct gs_accounting_measure_ranks *r, uint32_t pid,
				      uint32_t job, uint32_t rank)
{
	uint64_t id = (uint64_t)job << 32 | rank, before;

	if (rank == GS_ROWS_NO_RANK || rank == GS_ROWS_NEVER_RANK)
		return;
	if (gs_map_get(&r->id_of, pid, &before)) {
		if (before == id)
			return;
		rank_of_id(r, before)->n_processes--;
	}
	if (gs_map_put(&r->id_of, pid, id) < 0)
		r->n_left_out++;
	else
		rank_of_id(r, id)->n_processes++;
}

void gs_accounting_measure_ranks_add_ended(struct gs_accounting_measure_ranks *r, uint32_t job,
					   uint32_t rank, const struct gs_taskstats *work)
{
	gs_accounting_ranks_add_ended(&r->of[job], rank, work);
}

uint64_t gs_accounting_measure_ranks_left_out(const struct gs_accounting_measure_ranks *r)
{
	return r->n_left_out;
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
 * was born meanwhile: then sources/host counts from 0. */
static void sample_rank_process(struct gs_accounting_measure_ranks *r,
				const struct gs_host_taskstats *host, uint32_t pid, uint64_t id)
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

static bool find_id(const struct gs_accounting_measure_ranks *r, const struct gs_rows *rows,
		    uint32_t pid, uint64_t *ret_id)
{
	uint32_t job, rank;

	if (!rows)
		return gs_map_get(&r->id_of, pid, ret_id);
	if (!gs_rows_rank_of(rows, pid, &job, &rank))
		return false;
	*ret_id = (uint64_t)job << 32 | rank;
	return true;
}

void gs_accounting_measure_ranks_sample(struct gs_accounting_measure_ranks *r,
					const struct gs_gpu_snapshot *g, const struct gs_rows *rows,
					const struct gs_host_taskstats *host, uint64_t now_ns)
{
	uint64_t id;

	for (uint32_t i = 0; g && i < g->n_processes; i++)
		if (!g->process[i].ended && find_id(r, rows, g->process[i].pid, &id))
			gs_accounting_rank_add_gpu(rank_of_id(r, id), &g->process[i],
						   r->read_ns ? now_ns - r->read_ns : 0);
	r->read_ns = now_ns;
	if (!host)
		return;
	gs_map_for_each (&r->id_of, s)
		sample_rank_process(r, host, (uint32_t)s->key, s->value);
}

int gs_accounting_measure_ranks_report(struct gs_accounting_measure_ranks *r, uint32_t job,
				       const struct gs_rows *rows, struct gs_job_report *report)
{
	struct gs_accounting_ranks *of = &r->of[job];
	int e = rows ? gs_accounting_ranks_count(of, rows, job) : 0;

	if (e == 0)
		e = gs_accounting_ranks_report(of->rank, of->n_ranks, report);
	for (size_t i = 0; !rows && i < report->n_ranks; i++)
		report->ranks[i].wait_s = report->ranks[i].gpu_wait_s = report->ranks[i].net_bytes =
			NAN;
	return e;
}
