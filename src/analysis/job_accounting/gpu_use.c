#include "analysis/job_accounting/gpu_use.h"

#include <math.h>
#include <stddef.h>

#define POWER_STANDS_NS 60000000000ll /* readings further apart have a gap between them */

static const enum gs_gpu_field field_of[GS_ACCOUNTING_GPU_USE_VALUES] = {
	[GS_ACCOUNTING_GPU_USE_UTIL] = GS_GPU_UTIL,
	[GS_ACCOUNTING_GPU_USE_SM] = GS_GPU_SM_ACTIVE,
	[GS_ACCOUNTING_GPU_USE_TENSOR] = GS_GPU_PIPE_TENSOR,
	[GS_ACCOUNTING_GPU_USE_DRAM] = GS_GPU_DRAM_ACTIVE,
};

static bool is_at_work(const struct gs_gpu_sample *v)
{
	return gs_gpu_value(v, GS_GPU_UTIL) > 0;
}

/* A GPU of whose means nothing is known yet: its first value has no time before it. It counts a
 * nanosecond, so that it stands until there is another one. */
static void weigh_values(struct gs_accounting_gpu_use_sums *s, const struct gs_gpu_sample *v,
			 uint64_t ns)
{
	for (unsigned i = 0; i < GS_ACCOUNTING_GPU_USE_VALUES; i++) {
		double value = gs_gpu_value(v, field_of[i]);
		uint64_t weight = ns ? ns : 1;

		if (isnan(value))
			continue;
		s->known_ns[i] += weight;
		s->value_ns[i] += value * (double)weight;
	}
}

/* Where the driver has a counter, energy is what that grew by; elsewhere the power over time. */
static void add_energy(struct gs_gpu_held *g, const struct gs_gpu_sample *v, uint64_t now_ns)
{
	double joules = gs_gpu_value(v, GS_GPU_ENERGY);

	gs_energy_add(&g->energy, (int64_t)now_ns, joules,
		      isnan(joules) ? gs_gpu_value(v, GS_GPU_POWER) : NAN, NAN, POWER_STANDS_NS);
}

static void add_gpu(struct gs_accounting_gpu_use *j, uint32_t i, const struct gs_gpu_sample *v,
		    uint64_t ns, uint64_t now_ns, uint64_t idle_after_ns)
{
	struct gs_gpu_held *g = &j->gpu[i];
	uint64_t since;

	if (!g->since_ns) {
		g->since_ns = now_ns;
		ns = 0; /* it has had it for no time yet, as far as anybody knows */
	}
	if (is_at_work(v)) {
		g->used_ns = now_ns;
		j->used |= 1ull << i;
	}
	since = g->used_ns > g->since_ns ? g->used_ns : g->since_ns;
	j->sums.held_ns += ns;
	j->sums.idle_ns += is_at_work(v) ? 0 : ns;
	weigh_values(&j->sums, v, ns);
	j->n_idle += now_ns - since >= idle_after_ns;
	j->memory_ratio = fmax(j->memory_ratio, gs_gpu_memory_ratio(v)); /* of NAN: the other */
	add_energy(g, v, now_ns);
}

static void end_hold(struct gs_gpu_held *g)
{
	double joules = gs_energy_joules(&g->energy);

	if (!g->since_ns)
		return;
	*g = (struct gs_gpu_held){.joules = g->joules + (isnan(joules) ? 0 : joules)};
}

/* A correction may lower the meter for a while; a total does not step back. */
static void sum_energy(struct gs_accounting_gpu_use *j)
{
	double sum = NAN;

	for (uint32_t i = 0; i < GS_ACCOUNTING_GPU_USE_GPUS_MAX; i++) {
		const struct gs_gpu_held *g = &j->gpu[i];
		double joules = gs_energy_joules(&g->energy);

		if (isnan(joules) && !(g->joules > 0))
			continue;
		sum = (isnan(sum) ? 0 : sum) + g->joules + (isnan(joules) ? 0 : joules);
	}
	j->joules = fmax(j->joules, sum); /* the one that is a number, if one is */
}

static void add_gpus(struct gs_accounting_gpu_use *j, const struct gs_gpu_snapshot *g,
		     uint64_t now_ns, uint64_t idle_after_ns)
{
	uint64_t ns = j->read_ns && now_ns > j->read_ns ? now_ns - j->read_ns : 0;

	if (!j->is_read)
		j->joules = j->memory_ratio = NAN;
	j->is_read = true;
	j->n_now = j->n_idle = 0;
	for (uint32_t i = 0; i < GS_ACCOUNTING_GPU_USE_GPUS_MAX; i++) {
		if (i >= g->n_gpus || !(j->mask >> i & 1)) {
			end_hold(&j->gpu[i]);
			continue;
		}
		j->seen |= 1ull << i;
		j->n_now++;
		add_gpu(j, i, &g->sample[i], ns, now_ns, idle_after_ns);
	}
	sum_energy(j);
}

static void add_processes(struct gs_accounting_gpu_use *const *jobs, size_t n_jobs,
			  const struct gs_map *job_of, const struct gs_gpu_snapshot *g)
{
	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];
		struct gs_accounting_gpu_use *j;
		uint64_t job;

		if (p->ended || p->gpu >= GS_ACCOUNTING_GPU_USE_GPUS_MAX ||
		    !gs_map_get(job_of, p->pid, &job) || job >= n_jobs || !jobs[job])
			continue;
		j = jobs[job];
		j->mask |= 1ull << p->gpu;
		j->used |= 1ull << p->gpu;
		if (p->used_bytes >= 0)
			j->memory_bytes =
				(j->memory_bytes < 0 ? 0 : j->memory_bytes) + p->used_bytes;
	}
}

void gs_accounting_gpu_use_read(struct gs_accounting_gpu_use *const *jobs, const uint64_t *allotted,
				size_t n_jobs, const struct gs_map *job_of,
				const struct gs_gpu_snapshot *g, uint64_t now_ns,
				uint64_t idle_after_ns)
{
	for (size_t i = 0; i < n_jobs; i++) {
		if (!jobs[i])
			continue;
		jobs[i]->mask = allotted[i];
		jobs[i]->memory_bytes = -1;
	}
	if (g)
		add_processes(jobs, n_jobs, job_of, g);
	for (size_t i = 0; i < n_jobs; i++) {
		if (!jobs[i])
			continue;
		if (g)
			add_gpus(jobs[i], g, now_ns, idle_after_ns);
		jobs[i]->read_ns = now_ns;
	}
}

double gs_accounting_gpu_use_mean(const struct gs_accounting_gpu_use_sums *now,
				  const struct gs_accounting_gpu_use_sums *before,
				  enum gs_accounting_gpu_use_value which)
{
	uint64_t ns = now->known_ns[which] - (before ? before->known_ns[which] : 0);
	double sum = now->value_ns[which] - (before ? before->value_ns[which] : 0);

	return ns ? sum / (double)ns : NAN;
}

void gs_accounting_gpu_use_usage(const struct gs_accounting_gpu_use *g, struct gs_job_usage *u)
{
	bool has = g->is_read && g->seen;

	u->gpu_mask = g->seen;
	u->gpu_idle_mask = g->seen & ~g->used;
	if (g->is_read)
		u->known |= 1u << GS_JOB_KNOWS_GPU;
	u->n_gpus = g->is_read ? __builtin_popcountll(g->seen) : NAN;
	u->gpus_idle = has ? __builtin_popcountll(u->gpu_idle_mask) : NAN;
	u->gpu_memory_ratio = has ? g->memory_ratio : NAN;
	u->energy_joules = has ? g->joules : NAN;
	u->gpu_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_UTIL);
	u->sm_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_SM);
	u->tensor_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_TENSOR);
	u->dram_ratio = gs_accounting_gpu_use_mean(&g->sums, NULL, GS_ACCOUNTING_GPU_USE_DRAM);
}
