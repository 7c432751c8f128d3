/* Figures of a job from what it used: everything normalised, so that a job of one minute on one
 * processor and one of a day on a hundred are judged by the same thresholds. */
#include <math.h>

#include "analysis/job_report/report.h"

double gs_job_report_core_ns(const struct gs_job_usage *u)
{
	return u->cores * (double)u->elapsed_ns;
}

static bool knows_family(const struct gs_job_usage *u, enum gs_job_family family)
{
	return u->known >> family & 1;
}

static double ratio_of(double part, double whole)
{
	return whole > 0 ? part / whole : NAN;
}

static double percent_of(double r)
{
	return isnan(r) ? NAN : 100 * fmin(1, fmax(0, r));
}

static void put_pace(const struct gs_job_usage *u, struct gs_figures *f)
{
	struct gs_job_pace p = u->pace;
	const __u64 *t = u->work.time_ns;
	struct gs_job_pace_share share;
	double threads_ns;

	if (!p.n_all)
		gs_job_pace_add(&p, &(struct gs_job_pace_process){
					    .work = &u->work,
					    .elapsed_ns = u->elapsed_ns,
					    .others_ns = UINT64_MAX,
					    .naps = true,
					    .knows_net = knows_family(u, GS_JOB_KNOWS_NET)});
	gs_job_pace_shares(&p, &share);
	f->v[GS_FIGURE_IDLE] = percent_of(share.idle);
	f->v[GS_FIGURE_COMPUTE] = percent_of(share.compute);
	f->v[GS_FIGURE_ALONE] = percent_of(share.alone);
	f->v[GS_FIGURE_IO] = percent_of(share.disk);
	f->v[GS_FIGURE_NET] = percent_of(share.network);
	f->v[GS_FIGURE_LOCK] = percent_of(share.lock);
	f->v[GS_FIGURE_GPU_SYNC] = percent_of(share.gpu);
	if (u->pace.n_related)
		f->v[GS_FIGURE_INPUT] = percent_of(share.input);
	threads_ns = (double)(gs_taskstats_wall_ns(&u->work) - t[GS_TIME_PIPE] - u->work.idle_ns);
	f->v[GS_FIGURE_SLEEP] = percent_of(ratio_of((double)t[GS_TIME_SLEEP], threads_ns));
}

static void put_times(const struct gs_job_usage *u, struct gs_figures *f)
{
	const __u64 *t = u->work.time_ns;
	double core_ns = gs_job_report_core_ns(u), cpu = (double)t[GS_TIME_CPU];
	double queue = (double)t[GS_TIME_RUNQUEUE];

	f->v[GS_FIGURE_CPU] = percent_of(ratio_of(cpu, core_ns));
	f->v[GS_FIGURE_CPUS] = ratio_of(cpu, (double)u->elapsed_ns);
	if (knows_family(u, GS_JOB_KNOWS_RUNQUEUE)) {
		/* Threads beyond its processors wait for the job itself, not for others. */
		double could = fmin(cpu + queue, core_ns);

		f->v[GS_FIGURE_RUNQUEUE] = cpu + queue > 0 ? percent_of(queue / (cpu + queue)) : 0;
		f->v[GS_FIGURE_CPU_DEMAND] = percent_of(ratio_of(cpu + queue, core_ns));
		f->v[GS_FIGURE_TAKEN] = could > 0 ? percent_of((could - cpu) / could) : 0;
	} else {
		queue = 0;
	}
	f->v[GS_FIGURE_WAIT] = percent_of(ratio_of(core_ns - fmin(core_ns, cpu + queue), core_ns));
	f->v[GS_FIGURE_COMPUTE] = percent_of(ratio_of(cpu + queue, (double)u->elapsed_ns));
	f->v[GS_FIGURE_ALONE] = f->v[GS_FIGURE_COMPUTE];
	f->v[GS_FIGURE_IDLE] = 100 - f->v[GS_FIGURE_COMPUTE];
	if (knows_family(u, GS_JOB_KNOWS_CAUSES))
		put_pace(u, f);
}

static void put_bytes(struct gs_figures *f, enum gs_figure figure, int64_t bytes)
{
	if (bytes >= 0)
		f->v[figure] = (double)bytes;
}

static void put_memory(const struct gs_job_usage *u, struct gs_figures *f)
{
	double used = (double)u->memory_peak_bytes;

	if (!knows_family(u, GS_JOB_KNOWS_MEMORY) || u->memory_peak_bytes < 0)
		return;
	f->v[GS_FIGURE_MEMORY_USED] = used;
	put_bytes(f, GS_FIGURE_MEMORY_ANONYMOUS, u->memory_anonymous_bytes);
	put_bytes(f, GS_FIGURE_MEMORY_CACHE, u->memory_cache_bytes);
	put_bytes(f, GS_FIGURE_MEMORY_RECLAIMABLE, u->memory_reclaimable_bytes);
	if (u->memory_limit_bytes > 0) {
		double held = (double)(u->memory_anonymous_bytes + u->memory_cache_bytes);

		/* Of processes of which no group is known, what is mapped of files is resident. */
		f->v[GS_FIGURE_MEMORY_HELD] =
			percent_of(fmax(held, used) / (double)u->memory_limit_bytes);
		f->v[GS_FIGURE_MEMORY_ALLOCATED] = (double)u->memory_limit_bytes;
		f->v[GS_FIGURE_MEMORY] = 100 * used / (double)u->memory_limit_bytes;
	} else if (u->machine_bytes > 0) {
		f->v[GS_FIGURE_MEMORY] = 100 * used / (double)u->machine_bytes;
	}
}

static void put_quota(const struct gs_job_usage *u, struct gs_figures *f)
{
	if (!u->quota_periods)
		return;
	f->v[GS_FIGURE_THROTTLED] =
		percent_of((double)u->throttled_periods / (double)u->quota_periods);
	f->v[GS_FIGURE_THROTTLED_S] = (double)u->throttled_ns / 1e9;
}

static void put_pressure(const struct gs_job_usage *u, struct gs_figures *f)
{
	if (!knows_family(u, GS_JOB_KNOWS_PRESSURE))
		return;
	f->v[GS_FIGURE_CPU_PRESSURE] = percent_of(u->pressure_ratio[GS_STALL_CPU_SOME]);
	f->v[GS_FIGURE_MEMORY_PRESSURE] = percent_of(u->pressure_ratio[GS_STALL_MEMORY_SOME]);
	f->v[GS_FIGURE_IO_PRESSURE] = percent_of(u->pressure_ratio[GS_STALL_IO_SOME]);
}

static void put_gpus(const struct gs_job_usage *u, struct gs_figures *f)
{
	if (!knows_family(u, GS_JOB_KNOWS_GPU))
		return;
	f->v[GS_FIGURE_N_GPUS] = u->n_gpus;
	f->v[GS_FIGURE_GPUS_IDLE] = u->gpus_idle;
	f->v[GS_FIGURE_GPU] = percent_of(u->gpu_ratio);
	f->v[GS_FIGURE_GPU_MEMORY] = percent_of(u->gpu_memory_ratio);
	f->v[GS_FIGURE_SM] = percent_of(u->sm_ratio);
	f->v[GS_FIGURE_TENSOR] = percent_of(u->tensor_ratio);
	f->v[GS_FIGURE_DRAM] = percent_of(u->dram_ratio);
	f->v[GS_FIGURE_GPU_ENERGY] = u->energy_joules;
}

static void put_io(const struct gs_job_usage *u, double seconds, struct gs_figures *f)
{
	const struct gs_taskstats *w = &u->work;
	struct gs_taskstats_io_count io = gs_taskstats_file_io(w);

	if (knows_family(u, GS_JOB_KNOWS_IO)) {
		f->v[GS_FIGURE_READ_BPS] = ratio_of((double)io.read_bytes, seconds);
		f->v[GS_FIGURE_WRITE_BPS] = ratio_of((double)io.write_bytes, seconds);
		f->v[GS_FIGURE_IO_SIZE] = ratio_of((double)(io.read_bytes + io.write_bytes),
						   (double)(io.reads + io.writes));
	}
	if (knows_family(u, GS_JOB_KNOWS_NET)) {
		f->v[GS_FIGURE_NET_BPS] =
			ratio_of((double)(w->net_sent_bytes + w->net_received_bytes), seconds);
		f->v[GS_FIGURE_NET_OPS] =
			(double)(w->io[GS_IO_SOCKET].reads + w->io[GS_IO_SOCKET].writes);
	}
}

void gs_job_report_figures_of(const struct gs_job_usage *u, struct gs_figures *f)
{
	double core_s = gs_job_report_core_ns(u) / 1e9, seconds = (double)u->elapsed_ns / 1e9;
	const struct gs_taskstats *w = &u->work;

	gs_figures_clear(f);
	f->v[GS_FIGURE_DURATION] = seconds;
	f->v[GS_FIGURE_CORES] = u->cores;
	if (knows_family(u, GS_JOB_KNOWS_TIME))
		put_times(u, f);
	if (knows_family(u, GS_JOB_KNOWS_SWITCHES)) {
		f->v[GS_FIGURE_SWITCHES] =
			ratio_of((double)(w->switches_voluntary + w->switches_forced), core_s);
		f->v[GS_FIGURE_FORCED] = ratio_of((double)w->switches_forced, core_s);
	}
	if (knows_family(u, GS_JOB_KNOWS_SYSCALLS))
		f->v[GS_FIGURE_SYSCALLS] = ratio_of((double)w->syscalls, core_s);
	if (knows_family(u, GS_JOB_KNOWS_FAULTS)) {
		f->v[GS_FIGURE_FAULTS_MINOR] = ratio_of((double)w->faults_minor, seconds);
		f->v[GS_FIGURE_FAULTS_MAJOR] = ratio_of((double)w->faults_major, seconds);
	}
	put_io(u, seconds, f);
	put_memory(u, f);
	put_quota(u, f);
	put_pressure(u, f);
	/* The cgroup counts those that the probes cannot see. */
	if (knows_family(u, GS_JOB_KNOWS_FAULTS) || w->oom_kills)
		f->v[GS_FIGURE_OOM_KILLS] = (double)w->oom_kills;
	if (knows_family(u, GS_JOB_KNOWS_NET))
		f->v[GS_FIGURE_RETRANSMITS] = ratio_of((double)w->net_retransmits, seconds);
	put_gpus(u, f);
	if (knows_family(u, GS_JOB_KNOWS_CUDA)) {
		f->v[GS_FIGURE_LAUNCHES] = ratio_of(u->launches, seconds);
		f->v[GS_FIGURE_NCCL] = percent_of(u->nccl_ratio);
	}
	f->v[GS_FIGURE_SLOWEST_RANK] = u->slowest_rank;
	f->v[GS_FIGURE_IMBALANCE] = isnan(u->imbalance_ratio) ? NAN : 100 * u->imbalance_ratio;
	f->v[GS_FIGURE_RUN_TIME] = u->run_s;
	if (u->limit_s > 0)
		f->v[GS_FIGURE_TIME_LIMIT] = 100 * u->run_s / u->limit_s;
}
