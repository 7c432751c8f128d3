#include "analysis/job_accounting/window.h"

#include <math.h>
#include <string.h>

struct gs_accounting_mark gs_accounting_mark_none(uint64_t time_ns)
{
	struct gs_accounting_mark m = {.time_ns = time_ns, .launches = NAN, .nccl_ns = NAN};

	/* -1: not known. */
	memset(&m.stalls, 0xff, sizeof(m.stalls));
	m.group.periods = m.group.throttled_periods = m.group.throttled_ns = -1;
	m.group.oom_kills = -1;
	return m;
}

bool gs_accounting_window_is_due(const struct gs_accounting_window *w, uint64_t now_ns,
				 uint64_t window_ns)
{
	return now_ns >= w->last.time_ns + window_ns / 2;
}

void gs_accounting_window_mark(struct gs_accounting_window *w, const struct gs_accounting_mark *now)
{
	w->base = w->last;
	w->last = *now;
}

void gs_accounting_use_of_group(const struct gs_host_cgroup *a, const struct gs_host_cgroup *b,
				struct gs_job_usage *u)
{
	/* The group counts those that the probes cannot see. */
	if (a->oom_kills >= 0 && b->oom_kills > a->oom_kills)
		u->work.oom_kills = (uint64_t)(b->oom_kills - a->oom_kills);
	if (a->periods < 0 || b->periods <= a->periods)
		return;
	u->quota_periods = (uint64_t)(b->periods - a->periods);
	if (a->throttled_periods >= 0 && b->throttled_periods > a->throttled_periods)
		u->throttled_periods = (uint64_t)(b->throttled_periods - a->throttled_periods);
	if (a->throttled_ns >= 0 && b->throttled_ns > a->throttled_ns)
		u->throttled_ns = (uint64_t)(b->throttled_ns - a->throttled_ns);
}

void gs_accounting_stalled_shares(const struct gs_host_stalls *before,
				  const struct gs_host_stalls *now, uint64_t elapsed_ns,
				  double ratio[GS_STALL_COUNT])
{
	for (unsigned i = 0; i < GS_STALL_COUNT; i++) {
		int64_t a = before->total_us[i], b = now->total_us[i];

		ratio[i] = elapsed_ns && a >= 0 && b >= a
				   ? fmin(1, (double)(b - a) * 1000 / (double)elapsed_ns)
				   : NAN;
	}
}

/* A torn reading may be lower than the one before. */
static void take_growth(const struct gs_taskstats *before, const struct gs_taskstats *now,
			struct gs_taskstats *ret)
{
	const __u64 *b = (const __u64 *)before, *n = (const __u64 *)now;
	__u64 *r = (__u64 *)ret;

	for (size_t i = 0; i < sizeof(*ret) / sizeof(*r); i++)
		r[i] = n[i] > b[i] ? n[i] - b[i] : 0;
	/* A wait becomes one for work when it has lasted a while, all of it. */
	if (ret->idle_ns > ret->time_ns[GS_TIME_LOCK])
		ret->idle_ns = ret->time_ns[GS_TIME_LOCK];
}

static double growth_of(double before, double now)
{
	return now - (isnan(before) ? 0 : before);
}

/* What was not known when the window began, and is now: known from the first reading on. */
static void note_group(struct gs_accounting_mark *m, const struct gs_accounting_mark *now)
{
	if (m->group.periods < 0)
		m->group = now->group;
	if (m->stalls.total_us[GS_STALL_CPU_SOME] < 0)
		m->stalls = now->stalls;
}

void gs_accounting_window_usage(struct gs_accounting_window *w,
				const struct gs_accounting_mark *now, struct gs_job_usage *u)
{
	const struct gs_accounting_gpu_use_sums *before = &w->base.gpu;

	note_group(&w->base, now);
	note_group(&w->last, now);
	u->elapsed_ns = now->time_ns > w->base.time_ns ? now->time_ns - w->base.time_ns : 0;
	take_growth(&w->base.work, &now->work, &u->work);
	u->quota_periods = u->throttled_periods = u->throttled_ns = 0;
	gs_accounting_use_of_group(&w->base.group, &now->group, u);
	gs_accounting_stalled_shares(&w->base.stalls, &now->stalls, u->elapsed_ns,
				     u->pressure_ratio);
	u->gpu_ratio = gs_accounting_gpu_use_mean(&now->gpu, before, GS_ACCOUNTING_GPU_USE_UTIL);
	u->sm_ratio = gs_accounting_gpu_use_mean(&now->gpu, before, GS_ACCOUNTING_GPU_USE_SM);
	u->tensor_ratio =
		gs_accounting_gpu_use_mean(&now->gpu, before, GS_ACCOUNTING_GPU_USE_TENSOR);
	u->dram_ratio = gs_accounting_gpu_use_mean(&now->gpu, before, GS_ACCOUNTING_GPU_USE_DRAM);
	u->launches = growth_of(w->base.launches, now->launches);
	u->nccl_ratio = u->elapsed_ns
				? growth_of(w->base.nccl_ns, now->nccl_ns) / (double)u->elapsed_ns
				: NAN;
}
