/*
 * Ranks of a job side by side: how far the one with most to do is above the mean, and which it is.
 * Work is time of GPUs where each rank's is known, else time on processors. A rank that waits by
 * polling at full speed looks like one that works: then there is no imbalance to be seen here.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "analysis/job_report/report_int.h"

#define LEAST_S     0.05 /* of work in all, by rank: less is not worth comparing */
#define LEAST_RATIO 0.02

static double work_of(const struct gs_job_report_rank *r, bool of_gpu)
{
	return of_gpu ? r->gpu_ratio : r->cpu_s;
}

static void wait_text(const struct gs_job_report *job, size_t most, char *out, size_t bytes)
{
	char mine[GS_FMT_BYTES], theirs[GS_FMT_BYTES];
	double sum = 0;

	out[0] = '\0';
	for (size_t i = 0; i < job->n_ranks; i++)
		sum += i == most ? 0 : job->ranks[i].wait_s;
	if (isnan(sum) || isnan(job->ranks[most].wait_s))
		return;
	snprintf(out, bytes, "; it waited %s, the others %s each",
		 gs_fmt_ns(mine, (uint64_t)(job->ranks[most].wait_s * 1e9)),
		 gs_fmt_ns(theirs, (uint64_t)(sum / (double)(job->n_ranks - 1) * 1e9)));
}

void gs_job_report_rank_of(const struct gs_taskstats *w, const char *step, int32_t rank,
			   uint32_t n_processes, struct gs_job_report_rank *ret)
{
	struct gs_taskstats_io_count io = gs_taskstats_file_io(w);

	*ret = (struct gs_job_report_rank){
		.rank = rank,
		.n_processes = n_processes,
		.cpu_s = (double)w->time_ns[GS_TIME_CPU] / 1e9,
		.gpu_wait_s = (double)w->time_ns[GS_TIME_GPU] / 1e9,
		.gpu_ratio = NAN,
		.gpu_memory_bytes = -1,
		.file_bytes = (double)(io.read_bytes + io.write_bytes),
		.net_bytes = (double)(w->net_sent_bytes + w->net_received_bytes),
	};
	snprintf(ret->step, sizeof(ret->step), "%s", step);
	for (int i = GS_TIME_DISK; i < GS_TIME_COUNT; i++)
		ret->wait_s += (double)w->time_ns[i] / 1e9;
}

void gs_job_report_judge_ranks(struct gs_job_report *job)
{
	struct gs_job_report_imbalance *b = &job->imbalance;
	bool of_gpu = true;
	double sum = 0, mean;
	size_t most = 0;
	char a[GS_FMT_BYTES], c[GS_FMT_BYTES], waits[128];

	*b = (struct gs_job_report_imbalance){.of = "", .ratio = NAN, .rank = -1};
	job->usage.imbalance_ratio = job->usage.slowest_rank = NAN;
	if (job->n_ranks < 2)
		return;
	for (size_t i = 0; i < job->n_ranks; i++) {
		of_gpu &= !isnan(job->ranks[i].gpu_ratio);
		sum += job->ranks[i].gpu_ratio;
	}
	of_gpu &= sum / (double)job->n_ranks >= LEAST_RATIO;
	sum = 0;
	for (size_t i = 0; i < job->n_ranks; i++) {
		sum += work_of(&job->ranks[i], of_gpu);
		if (work_of(&job->ranks[i], of_gpu) > work_of(&job->ranks[most], of_gpu))
			most = i;
	}
	mean = sum / (double)job->n_ranks;
	if (!(mean >= (of_gpu ? LEAST_RATIO : LEAST_S)))
		return;
	b->of = of_gpu ? "gpu_ratio" : "cpu_seconds";
	b->ratio = work_of(&job->ranks[most], of_gpu) / mean;
	b->rank = job->ranks[most].rank;
	wait_text(job, most, waits, sizeof(waits));
	if (of_gpu)
		snprintf(
			b->evidence, sizeof(b->evidence),
			"rank %d kept its GPU busy %.1f %% of the time, the mean is %.1f %% (%.2f times)%s",
			b->rank, 100 * job->ranks[most].gpu_ratio, 100 * mean, b->ratio, waits);
	else
		snprintf(b->evidence, sizeof(b->evidence),
			 "rank %d was on processors for %s, the mean is %s (%.2f times)%s", b->rank,
			 gs_fmt_ns(a, (uint64_t)(job->ranks[most].cpu_s * 1e9)),
			 gs_fmt_ns(c, (uint64_t)(mean * 1e9)), b->ratio, waits);
	job->usage.imbalance_ratio = b->ratio - 1;
	job->usage.slowest_rank = b->rank;
}
