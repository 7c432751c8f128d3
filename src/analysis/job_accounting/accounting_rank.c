/*
 * Ranks: the tasks of a job's steps with all that they started. Which task a process is of stands
 * in its environment, which it gets some time after its birth; what a task starts is of the task as
 * long as it does not say otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"

uint32_t accounting_find_rank(void *ctx, uint32_t job, uint32_t pid)
{
	struct gs_accounting *a = ctx;
	struct gs_job_task task = {.rank = -1};
	uint32_t rank;

	if (!gs_jobs_lookup(a->jobs, pid, &task) || !gs_job_task_is_rank(&task))
		return GS_ROWS_NO_RANK;
	rank = gs_accounting_ranks_find(&a->job[job].ranks, &task);
	if (rank)
		return rank;
	a->trouble.ranks_left_out++;
	return GS_ROWS_NEVER_RANK;
}

void accounting_add_rank_gpus(struct gs_accounting *a, const struct gs_gpu_snapshot *g,
			      uint64_t now_ns)
{
	for (uint32_t i = 0; a->rows && i < g->n_processes; i++) {
		uint32_t job, rank;

		if (!g->process[i].ended &&
		    gs_rows_rank_of(a->rows, g->process[i].pid, &job, &rank))
			gs_accounting_rank_add_gpu(&a->job[job].ranks.rank[rank - 1],
						   &g->process[i],
						   now_ns - a->job[job].before.time_ns);
	}
}

int accounting_report_ranks(const struct accounting_job *j, struct gs_job_account *to)
{
	to->ranks = NULL;
	to->n_ranks = 0;
	if (!j->ranks.n_ranks)
		return 0;
	to->ranks = calloc(j->ranks.n_ranks, sizeof(*to->ranks));
	if (!to->ranks)
		return -ENOMEM;
	memcpy(to->ranks, j->ranks.rank, j->ranks.n_ranks * sizeof(*to->ranks));
	to->n_ranks = j->ranks.n_ranks;
	return 0;
}
