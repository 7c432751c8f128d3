#include "model/node/job_account.h"

#include <stdlib.h>
#include <string.h>

#define TICK_NS 20000000ull

void gs_job_accounts_free(struct gs_job_accounts **ref)
{
	struct gs_job_accounts *a = *ref;

	if (!a)
		return;
	for (uint32_t i = 0; i < a->n_accounts; i++) {
		free(a->account[i].calls);
		free(a->account[i].ranks);
	}
	free(a->account);
	free(a->process);
	free(a);
	*ref = NULL;
}

const struct gs_job_process *gs_job_process_of(const struct gs_job_process *p, uint32_t n,
					       uint32_t pid, uint64_t start_ns)
{
	uint32_t first = 0, end = n;
	uint64_t started_ns;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (p[middle].pid < pid)
			first = middle + 1;
		else
			end = middle;
	}
	if (first == n || p[first].pid != pid)
		return NULL;
	started_ns = p[first].start_ns;
	/* /proc has it in ticks of the clock. */
	return (started_ns > start_ns ? started_ns - start_ns : start_ns - started_ns) < TICK_NS
		       ? &p[first]
		       : NULL;
}

struct gs_job_accounts *gs_job_accounts_copy(const struct gs_job_accounts *from)
{
	struct gs_job_accounts *to = malloc(sizeof(*to));

	if (!to)
		return NULL;
	*to = *from;
	to->n_accounts = 0;
	to->process = calloc(from->n_processes + 1u, sizeof(*to->process));
	if (to->process && from->n_processes)
		memcpy(to->process, from->process, from->n_processes * sizeof(*to->process));
	else
		to->n_processes = 0;
	to->account = calloc(from->n_accounts + 1u, sizeof(*to->account));
	for (uint32_t i = 0; to->account && i < from->n_accounts; i++) {
		struct gs_job_account *x = &to->account[i];

		*x = from->account[i];
		x->calls = calloc(x->n_calls + 1u, sizeof(*x->calls));
		x->ranks = calloc(x->n_ranks + 1u, sizeof(*x->ranks));
		if (!x->calls || !x->ranks) {
			free(x->calls);
			free(x->ranks);
			gs_job_accounts_free(&to);
			return NULL;
		}
		if (x->n_ranks)
			memcpy(x->ranks, from->account[i].ranks, x->n_ranks * sizeof(*x->ranks));
		if (x->n_calls)
			memcpy(x->calls, from->account[i].calls, x->n_calls * sizeof(*x->calls));
		to->n_accounts++;
	}
	if (!to->account)
		gs_job_accounts_free(&to);
	return to;
}

bool gs_job_task_is_rank(const struct gs_job_task *t)
{
	return t->rank >= 0 &&
	       (t->launched || (strcmp(t->step, "batch") != 0 && strcmp(t->step, "extern") != 0 &&
				strcmp(t->step, "interactive") != 0));
}

const char *gs_job_kind_name(unsigned kind)
{
	static const char *const names[] = {
		[GS_JOB_NONE] = "",     [GS_JOB_SLURM] = "slurm",
		[GS_JOB_POD] = "pod",   [GS_JOB_CONTAINER] = "container",
		[GS_JOB_UNIT] = "unit", [GS_JOB_CGROUP] = "cgroup",
		[GS_JOB_USER] = "user", [GS_JOB_TREE] = "tree",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "";
}

const char *gs_pressure_name(unsigned pressure)
{
	static const char *const names[GS_PRESSURE_COUNT] = {"cpu", "memory", "io"};

	return pressure < GS_PRESSURE_COUNT ? names[pressure] : "";
}

uint32_t gs_job_families_of(uint32_t families)
{
	uint32_t all = 0;

	if (families & GS_TASKSTATS_SCHED)
		all |= 1u << GS_JOB_KNOWS_TIME | 1u << GS_JOB_KNOWS_RUNQUEUE |
		       1u << GS_JOB_KNOWS_CAUSES | 1u << GS_JOB_KNOWS_SWITCHES |
		       1u << GS_JOB_KNOWS_FAULTS;
	if (families & GS_TASKSTATS_SYSCALL)
		all |= 1u << GS_JOB_KNOWS_SYSCALLS;
	if (families & GS_TASKSTATS_IO)
		all |= 1u << GS_JOB_KNOWS_IO;
	if (families & GS_TASKSTATS_NET)
		all |= 1u << GS_JOB_KNOWS_NET;
	return all;
}
