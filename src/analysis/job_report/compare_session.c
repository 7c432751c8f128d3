/* Reports that were never a file: those of a measurement just made, or of another machine. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_report/compare_int.h"
#include "analysis/job_report/report_int.h"

static double by_second(double total, double seconds)
{
	return seconds > 0 ? total / seconds : NAN;
}

static void take_report(const struct gs_job_report_session *s, const struct gs_job_report *job,
			struct gs_job_report_row *row)
{
	double seconds = (double)job->usage.elapsed_ns / 1e9;

	snprintf(row->id, sizeof(row->id), "%s", job->job.id);
	snprintf(row->user, sizeof(row->user), "%s", job->job.user);
	snprintf(row->name, sizeof(row->name), "%s", job->job.name);
	snprintf(row->job_class, sizeof(row->job_class), "%s",
		 job->verdict.job_class[0] ? job->verdict.job_class : "Unknown");
	row->v[GS_JOB_COMPARED_SCORE] = job->verdict.score;
	row->v[GS_JOB_COMPARED_CPU] = gs_job_report_metric(job, GS_JOB_METRIC_CPU_PERCENT);
	row->v[GS_JOB_COMPARED_IO] = gs_job_report_metric(job, GS_JOB_METRIC_IO_PERCENT);
	row->v[GS_JOB_COMPARED_WAIT] = gs_job_report_metric(job, GS_JOB_METRIC_WAIT_PERCENT);
	row->v[GS_JOB_COMPARED_NET] = gs_job_report_metric(job, GS_JOB_METRIC_NET_PERCENT);
	row->v[GS_JOB_COMPARED_MEMORY] = gs_job_report_metric(job, GS_JOB_METRIC_MEMORY_USAGE);
	row->v[GS_JOB_COMPARED_GPU] = job->figures.v[GS_FIGURE_GPU];
	row->v[GS_JOB_COMPARED_RANKS] = job->figures.v[GS_FIGURE_IMBALANCE];
	row->v[GS_JOB_COMPARED_SWITCHES] =
		by_second(gs_job_report_metric(job, GS_JOB_METRIC_CONTEXT_SWITCHES), seconds);
	row->v[GS_JOB_COMPARED_SYSCALLS] =
		by_second(gs_job_report_metric(job, GS_JOB_METRIC_TOTAL_SYSCALLS), seconds);
	row->v[GS_JOB_COMPARED_DURATION] = seconds;
	row->cores = job->usage.cores;
	row->start_s = s->start_wall_ns > 0 ? (double)(s->start_wall_ns / 1000000000) : NAN;
}

int gs_job_report_compare_session(struct gs_job_report_comparison *c, const char *name,
				  const struct gs_job_report_session *s)
{
	for (size_t i = 0; i < s->n_jobs; i++) {
		struct gs_job_report_row *row;

		if (c->n_rows >= GS_JOB_COMPARE_MAX)
			return -E2BIG;
		row = gs_job_report_new_row(c);
		if (!row)
			return -ENOMEM;
		snprintf(row->file, sizeof(row->file), "%s", name);
		take_report(s, &s->jobs[i], row);
	}
	return 0;
}
