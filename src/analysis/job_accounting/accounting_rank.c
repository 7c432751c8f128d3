/*
 * Ranks: the tasks of a job's steps with all that they started. Which task a process is of stands
 * in its environment, which it gets some time after its birth; what a task starts is of the task as
 * long as it does not say otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"

#define ASKED_MAX 5 /* readings */

/* Its own answer, else that of the process that started it. */
static void find_rank(struct gs_accounting *a, struct accounting_process *p, uint32_t parent_pid)
{
	struct accounting_job *j = &a->job[p->job];
	struct gs_job_task task = {.rank = -1};
	uint64_t at;

	p->n_asked++;
	if (p->alive && gs_jobs_lookup(a->jobs, p->pid, &task) && gs_job_task_is_rank(&task)) {
		p->rank = gs_accounting_ranks_find(&j->ranks, &task);
		if (!p->rank) {
			a->trouble.ranks_left_out++;
			p->n_asked = ASKED_MAX;
		}
	} else if (gs_map_get(&a->alive, parent_pid, &at) && a->process[at].job == p->job) {
		p->rank = a->process[at].rank;
	}
	if (p->rank)
		j->ranks.rank[p->rank - 1].n_processes++;
}

void accounting_add_rank(struct gs_accounting *a, struct accounting_process *p, uint32_t parent_pid,
			 const struct gs_taskstats *before)
{
	struct gs_taskstats last = *before;

	if (!p->rank && p->n_asked < ASKED_MAX)
		find_rank(a, p, parent_pid);
	if (p->rank)
		accounting_add_growth(&a->job[p->job].ranks.rank[p->rank - 1].work, &last,
				      &p->last);
}

void accounting_add_rank_gpus(struct gs_accounting *a, const struct gs_gpu_snapshot *g,
			      uint64_t now_ns)
{
	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct accounting_process *p;
		struct accounting_job *j;
		uint64_t at;

		if (g->process[i].ended || !gs_map_get(&a->alive, g->process[i].pid, &at))
			continue;
		p = &a->process[at];
		j = p->job == ACCOUNT_NO_JOB ? NULL : &a->job[p->job];
		if (j && p->rank)
			gs_accounting_rank_add_gpu(&j->ranks.rank[p->rank - 1], &g->process[i],
						   now_ns - j->before.time_ns);
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
