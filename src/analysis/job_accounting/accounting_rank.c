/*
 * Ranks: the tasks of a job's steps with all that they started. Which task a process is of stands
 * in its environment, which it gets some time after its birth; what a task starts is of the task as
 * long as it does not say otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"

#define RANKS_MAX 1024 /* of a job on this node */
#define ASKED_MAX 5    /* readings */

static uint32_t rank_of(struct accounting_job *j, const struct gs_job_task *t)
{
	for (uint32_t i = 0; i < j->n_ranks; i++)
		if (j->ranks[i].rank == t->rank && strcmp(j->ranks[i].step, t->step) == 0)
			return i + 1;
	if (j->n_ranks == RANKS_MAX)
		return 0;
	if (j->n_ranks == j->room_ranks) {
		uint32_t room = j->room_ranks ? 2 * j->room_ranks : 16;
		void *more = realloc(j->ranks, room * sizeof(*j->ranks));

		if (!more)
			return 0;
		j->ranks = more;
		j->room_ranks = room;
	}
	j->ranks[j->n_ranks] = (struct gs_job_rank_count){.rank = t->rank};
	memcpy(j->ranks[j->n_ranks].step, t->step, sizeof(t->step));
	return ++j->n_ranks;
}

/* Its own answer, else that of the process that started it. */
static void find_rank(struct gs_accounting *a, struct accounting_process *p, uint32_t parent_pid)
{
	struct accounting_job *j = &a->job[p->job];
	struct gs_job_task task = {.rank = -1};
	uint64_t at;

	p->n_asked++;
	if (p->alive && gs_jobs_lookup(a->jobs, p->pid, &task) && gs_job_task_is_rank(&task))
		p->rank = rank_of(j, &task);
	else if (gs_map_get(&a->alive, parent_pid, &at) && a->process[at].job == p->job)
		p->rank = a->process[at].rank;
	if (p->rank)
		j->ranks[p->rank - 1].n_processes++;
}

void accounting_add_rank(struct gs_accounting *a, struct accounting_process *p, uint32_t parent_pid,
			 const struct gs_taskstats *before)
{
	struct gs_taskstats last = *before;

	if (!p->rank && p->n_asked < ASKED_MAX)
		find_rank(a, p, parent_pid);
	if (p->rank)
		accounting_add_growth(&a->job[p->job].ranks[p->rank - 1].work, &last, &p->last);
}

int accounting_report_ranks(const struct accounting_job *j, struct gs_job_account *to)
{
	to->ranks = NULL;
	to->n_ranks = 0;
	if (!j->n_ranks)
		return 0;
	to->ranks = calloc(j->n_ranks, sizeof(*to->ranks));
	if (!to->ranks)
		return -ENOMEM;
	memcpy(to->ranks, j->ranks, j->n_ranks * sizeof(*to->ranks));
	to->n_ranks = j->n_ranks;
	return 0;
}
