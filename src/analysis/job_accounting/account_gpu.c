/*
 * The GPUs of jobs: those that the batch system gave them, and those on which their processes are.
 * A GPU that several jobs share counts to each of them: the driver does not divide its energy.
 */
#include <math.h>

#include "analysis/job_accounting/account_int.h"

static bool is_at_work(const struct gs_gpu_sample *v)
{
	return gs_gpu_has(v, GS_GPU_UTIL) && v->value[GS_GPU_UTIL] > 0;
}

static void weigh(const struct gs_gpu_sample *v, enum gs_gpu_field field, uint64_t ns,
		  uint64_t *known_ns, double *sum_ns)
{
	if (!gs_gpu_has(v, field))
		return;
	*known_ns += ns;
	*sum_ns += v->value[field] * (double)ns;
}

static void add_energy(struct account_job *j, uint32_t gpu, const struct gs_gpu_sample *v)
{
	double now;

	if (!gs_gpu_has(v, GS_GPU_ENERGY))
		return;
	now = v->value[GS_GPU_ENERGY];
	/* The driver was loaded again: it counts from 0. */
	if (j->energy_last[gpu] >= 0 && now > j->energy_last[gpu])
		j->told.energy_joules += now - j->energy_last[gpu];
	j->energy_last[gpu] = now;
}

static void add_gpu(const struct gs_account *a, struct account_job *j, uint32_t gpu,
		    const struct gs_gpu_sample *v, uint64_t ns, uint64_t now_ns)
{
	uint64_t since;
	double busy = gs_gpu_has(v, GS_GPU_UTIL) ? v->value[GS_GPU_UTIL] : 0;

	if (!j->gpu_since_ns[gpu]) {
		j->gpu_since_ns[gpu] = now_ns;
		j->energy_last[gpu] = -1;
		ns = 0; /* it has had it for no time yet, as far as anybody knows */
	}
	if (is_at_work(v))
		j->gpu_used_ns[gpu] = now_ns;
	since = j->gpu_used_ns[gpu] > j->gpu_since_ns[gpu] ? j->gpu_used_ns[gpu]
							   : j->gpu_since_ns[gpu];
	j->total.gpu_ns += ns;
	j->total.gpu_busy_ns += (uint64_t)(busy * (double)ns);
	weigh(v, GS_GPU_SM_ACTIVE, ns, &j->total.sm_known_ns, &j->total.sm_ns);
	weigh(v, GS_GPU_PIPE_TENSOR, ns, &j->total.tensor_known_ns, &j->total.tensor_ns);
	weigh(v, GS_GPU_DRAM_ACTIVE, ns, &j->total.dram_known_ns, &j->total.dram_ns);
	if (!is_at_work(v))
		j->told.gpu_idle_ns += ns;
	if (now_ns - since >= a->options.gpu_idle_ns)
		j->told.gpus_idle++;
	add_energy(j, gpu, v);
}

/* The job of each process on a GPU, and the memory that it has there. */
static void add_processes(struct gs_account *a, const struct gs_gpu_snapshot *g)
{
	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];
		struct account_job *j;
		uint64_t job;

		if (p->ended || p->gpu >= 64 || !gs_map_get(&a->job_of, p->pid, &job))
			continue;
		j = &a->job[job];
		j->told.gpu_mask |= 1ull << p->gpu;
		if (p->used_bytes >= 0)
			j->told.gpu_memory_bytes +=
				p->used_bytes + (j->told.gpu_memory_bytes < 0 ? 1 : 0);
	}
}

void account_gpus(struct gs_account *a, const struct gs_gpu_snapshot *g, uint64_t now_ns)
{
	uint32_t n = g ? g->n_gpus : 0;

	if (g)
		(void)gs_jobs_set_gpus(a->jobs, g);
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct account_job *j = &a->job[i];

		if (!j->used)
			continue;
		j->told.gpu_mask = j->told.job.gpu_mask;
		j->told.gpu_memory_bytes = -1;
	}
	if (g)
		add_processes(a, g);
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct account_job *j = &a->job[i];
		uint64_t ns = now_ns - j->before.time_ns;

		if (!j->used || !j->told.n_processes || !n)
			continue;
		j->told.known |= 1u << GS_JOB_KNOWS_GPU;
		j->told.n_gpus = j->told.gpus_idle = 0;
		for (uint32_t k = 0; k < n && k < 64; k++) {
			if (!(j->told.gpu_mask >> k & 1)) {
				j->gpu_since_ns[k] = 0;
				continue;
			}
			j->told.n_gpus++;
			add_gpu(a, j, k, &g->sample[k], ns, now_ns);
		}
	}
}
