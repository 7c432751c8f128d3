/* The GPUs of the node's jobs: see gpu_use.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/job_accounting/accounting_int.h"
#include "core/base/mem.h"

static void report_gpus(struct accounting_job *j)
{
	const struct gs_accounting_gpu_use *g = &j->gpus;
	struct gs_job_account *t = &j->account;

	j->total.gpu = g->sums;
	t->gpu_mask = g->mask;
	t->gpu_memory_bytes = g->memory_bytes;
	if (!g->is_read)
		return;
	t->known |= 1u << GS_JOB_KNOWS_GPU;
	t->n_gpus = (int32_t)g->n_now;
	t->gpus_idle = (int32_t)g->n_idle;
	t->gpu_ns = g->sums.held_ns;
	t->gpu_busy_ns = (uint64_t)g->sums.value_ns[GS_ACCOUNTING_GPU_USE_UTIL];
	t->gpu_idle_ns = g->sums.idle_ns;
	t->gpu_seen_mask = g->seen;
	t->gpu_used_mask = g->used;
	t->gpu_memory_ratio = g->memory_ratio;
	t->energy_joules = g->seen ? g->joules : 0;
	t->util_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_UTIL);
	t->sm_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_SM);
	t->tensor_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_TENSOR);
	t->dram_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_DRAM);
}

int accounting_gpus(struct gs_accounting *a, const struct gs_gpu_snapshot *g, uint64_t now_ns)
{
	GS_FREE struct gs_accounting_gpu_use **jobs =
		calloc(a->n_places, sizeof(struct gs_accounting_gpu_use *));
	GS_FREE uint64_t *allotted = calloc(a->n_places, sizeof(*allotted));

	if (!jobs || !allotted)
		return -ENOMEM;
	if (g) {
		(void)gs_jobs_set_gpus(a->jobs, g);
		accounting_add_rank_gpus(a, g, now_ns);
	}
	for (uint32_t i = 0; i < a->n_places; i++) {
		if (!a->job[i].used)
			continue;
		jobs[i] = &a->job[i].gpus;
		/* A job that has ended holds none. */
		if (a->job[i].account.n_processes)
			allotted[i] = a->job[i].account.job.gpu_mask;
	}
	gs_accounting_gpu_use_read(jobs, allotted, a->n_places, &a->job_of,
				   g && g->n_gpus ? g : NULL, now_ns, a->options.gpu_idle_ns);
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->job[i].used && a->job[i].account.n_processes)
			report_gpus(&a->job[i]);
	return 0;
}
