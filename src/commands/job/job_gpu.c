/*
 * Which GPUs a job has: those that its batch system says, else those on which its processes are.
 * One that was given to it and never did anything is told.
 */
#include "commands/job/job_gpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/gpu/gpu.h"

struct job_gpu {
	struct gs_gpu *gpu;
	struct gs_gpu_snapshot *now; /* owned; NULL before the first reading */
	char source[160];
};

int job_gpu_open(const char *nvml, struct job_gpu **ret, struct gs_err *err)
{
	struct gs_gpu_options options = {.size = sizeof(options),
					 .nvml_path = nvml,
					 .nvml_option = "--nvml PATH",
					 .groups = GS_GPU_READ_BASIC | GS_GPU_READ_PROCESSES |
						   GS_GPU_READ_GPM};
	GS_FREE struct job_gpu *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	r = gs_gpu_open(&options, &g->gpu, err);
	if (r < 0)
		return r;
	*ret = gs_take(g);
	return 0;
}

void job_gpu_close(struct job_gpu **ref)
{
	struct job_gpu *g = *ref;

	if (!g)
		return;
	gs_gpu_close(&g->gpu);
	gs_gpu_snapshot_free(&g->now);
	free(g);
	*ref = NULL;
}

void job_gpu_read(struct job_gpu *g)
{
	struct gs_gpu_snapshot *next = NULL;

	if (gs_gpu_read(g->gpu, &next) < 0)
		return;
	gs_gpu_snapshot_free(&g->now);
	g->now = next;
	if (next->n_gpus)
		snprintf(g->source, sizeof(g->source), "the driver, every second");
	else
		/* Without its advice on options, which are those of others. */
		snprintf(g->source, sizeof(g->source), "no GPU: %.*s",
			 (int)strcspn(next->state_text, "("), next->state_text);
}

const char *job_gpu_source(const struct job_gpu *g)
{
	return g->source[0] ? g->source : "not read";
}

const struct gs_gpu_snapshot *job_gpu_snapshot(const struct job_gpu *g)
{
	return g->now;
}

static bool has_pid(const uint32_t *pids, size_t n, uint32_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static void add(double *sum, uint64_t *n, const struct gs_gpu_sample *v, enum gs_gpu_field field)
{
	if (!gs_gpu_has(v, field))
		return;
	*sum += v->value[field];
	++*n;
}

void job_gpu_add(const struct job_gpu *g, const struct gs_job *job, const uint32_t *pids,
		 size_t n_pids, struct job_gpu_sum *s)
{
	s->mask |= job->gpu_mask;
	for (uint32_t i = 0; g->now && i < g->now->n_processes; i++) {
		const struct gs_gpu_process *p = &g->now->process[i];

		if (p->gpu < 64 && has_pid(pids, n_pids, p->pid)) {
			s->mask |= 1ull << p->gpu;
			s->used |= 1ull << p->gpu;
		}
	}
	for (uint32_t i = 0; g->now && i < g->now->n_gpus && i < 64; i++) {
		const struct gs_gpu_sample *v = &g->now->sample[i];

		if (!(s->mask >> i & 1))
			continue;
		add(&s->util, &s->n_util, v, GS_GPU_UTIL);
		add(&s->sm, &s->n_sm, v, GS_GPU_SM_ACTIVE);
		add(&s->tensor, &s->n_tensor, v, GS_GPU_PIPE_TENSOR);
		add(&s->dram, &s->n_dram, v, GS_GPU_DRAM_ACTIVE);
		if (gs_gpu_has(v, GS_GPU_UTIL) && v->value[GS_GPU_UTIL] > 0)
			s->used |= 1ull << i;
		if (gs_gpu_has(v, GS_GPU_ENERGY)) {
			s->energy_last[i] = v->value[GS_GPU_ENERGY];
			/* The driver was loaded again: it counts from 0. */
			if (!s->energy_first[i] || s->energy_first[i] > s->energy_last[i])
				s->energy_first[i] = s->energy_last[i];
		}
		if (gs_gpu_has(v, GS_GPU_MEM_USED) && gs_gpu_has(v, GS_GPU_MEM_TOTAL) &&
		    v->value[GS_GPU_MEM_TOTAL] > 0)
			s->memory_peak = fmax(s->memory_peak, v->value[GS_GPU_MEM_USED] /
								      v->value[GS_GPU_MEM_TOTAL]);
	}
}

static double mean(double sum, uint64_t n)
{
	return n ? sum / (double)n : NAN;
}

void job_gpu_usage(const struct job_gpu *g, const struct job_gpu_sum *s, struct gs_job_usage *u)
{
	u->n_gpus = u->gpus_idle = u->gpu_ratio = u->gpu_memory_ratio = NAN;
	u->sm_ratio = u->tensor_ratio = u->dram_ratio = NAN;
	u->energy_joules = NAN;
	u->gpu_mask = s->mask;
	u->gpu_idle_mask = s->mask & ~s->used;
	if (!g->now)
		return;
	u->known |= 1u << GS_JOB_KNOWS_GPU;
	u->n_gpus = __builtin_popcountll(s->mask);
	if (!s->mask)
		return;
	u->gpus_idle = __builtin_popcountll(s->mask & ~s->used);
	for (int i = 0; i < 64; i++)
		if (s->energy_first[i] > 0)
			u->energy_joules = (isnan(u->energy_joules) ? 0 : u->energy_joules) +
					   s->energy_last[i] - s->energy_first[i];
	u->gpu_ratio = mean(s->util, s->n_util);
	u->gpu_memory_ratio = s->memory_peak;
	u->sm_ratio = mean(s->sm, s->n_sm);
	u->tensor_ratio = mean(s->tensor, s->n_tensor);
	u->dram_ratio = mean(s->dram, s->n_dram);
}
