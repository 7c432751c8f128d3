/* Metrics by the names of ebpf-hpc-monitor, and the CSV made of them: a line a job. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/job_report/report_int.h"
#include "core/text/text.h"

const char *gs_job_report_metric_key(unsigned metric)
{
	static const char *const keys[GS_JOB_METRIC_COUNT] = {
#define KEY(id, key) [GS_JOB_METRIC_##id] = key,
		GS_JOB_METRICS(KEY)
#undef KEY
	};

	return metric < GS_JOB_METRIC_COUNT ? keys[metric] : "";
}

static double io_metric(const struct gs_taskstats_io_count *io, unsigned metric)
{
	switch (metric) {
	case GS_JOB_METRIC_READ_BYTES:
		return (double)io->read_bytes;
	case GS_JOB_METRIC_WRITE_BYTES:
		return (double)io->write_bytes;
	case GS_JOB_METRIC_IO_OPERATIONS:
		return (double)(io->reads + io->writes);
	default:
		return (double)(io->read_bytes + io->write_bytes);
	}
}

static double net_metric(const struct gs_taskstats *w, unsigned metric)
{
	switch (metric) {
	case GS_JOB_METRIC_SEND_BYTES:
	case GS_JOB_METRIC_NETWORK_BYTES_SENT:
		return (double)w->net_sent_bytes;
	case GS_JOB_METRIC_RECV_BYTES:
	case GS_JOB_METRIC_NETWORK_BYTES_RECV:
		return (double)w->net_received_bytes;
	case GS_JOB_METRIC_NET_OPERATIONS:
		return (double)(w->io[GS_IO_SOCKET].reads + w->io[GS_IO_SOCKET].writes);
	default:
		return (double)(w->net_sent_bytes + w->net_received_bytes);
	}
}

static double syscall_metric(const struct gs_job_report *job, unsigned metric)
{
	const struct gs_taskstats *w = &job->usage.work;
	uint64_t max_ns = 0;

	switch (metric) {
	case GS_JOB_METRIC_TOTAL_SYSCALLS:
		return (double)w->syscalls;
	case GS_JOB_METRIC_IO_SYSCALLS:
		return (double)gs_job_report_io_calls(job);
	case GS_JOB_METRIC_NET_SYSCALLS:
		return (double)gs_job_report_net_calls(job);
	case GS_JOB_METRIC_AVG_SYSCALL:
		return w->syscalls ? (double)w->syscall_ns / (double)w->syscalls : NAN;
	default:
		for (size_t i = 0; i < job->n_calls; i++)
			if (job->calls[i].max_ns > max_ns)
				max_ns = job->calls[i].max_ns;
		return job->n_calls ? (double)max_ns : NAN;
	}
}

double gs_job_report_metric(const struct gs_job_report *job, unsigned metric)
{
	const struct gs_job_usage *u = &job->usage;
	const struct gs_taskstats *w = &u->work;
	struct gs_taskstats_io_count io = gs_taskstats_file_io(w);

	switch (metric) {
	case GS_JOB_METRIC_CPU_PERCENT:
		return job->figures.v[GS_FIGURE_CPU];
	case GS_JOB_METRIC_IO_PERCENT:
		return job->figures.v[GS_FIGURE_IO];
	case GS_JOB_METRIC_WAIT_PERCENT:
		return job->figures.v[GS_FIGURE_WAIT];
	case GS_JOB_METRIC_NET_PERCENT:
		return job->figures.v[GS_FIGURE_NET];
	case GS_JOB_METRIC_MEMORY_USAGE:
		return job->figures.v[GS_FIGURE_MEMORY];
	case GS_JOB_METRIC_MONITORED_PIDS:
		return job->n_processes_seen;
	case GS_JOB_METRIC_CONTEXT_SWITCHES:
		return gs_job_report_knows(job, GS_JOB_KNOWS_SWITCHES)
			       ? (double)(w->switches_voluntary + w->switches_forced)
			       : NAN;
	case GS_JOB_METRIC_CPU_TIME_NS:
		return gs_job_report_knows(job, GS_JOB_KNOWS_TIME) ? (double)w->time_ns[GS_TIME_CPU]
								   : NAN;
	case GS_JOB_METRIC_WAIT_TIME_NS:
		return floor(job->figures.v[GS_FIGURE_WAIT] / 100 * gs_job_report_core_ns(u));
	case GS_JOB_METRIC_TOTAL_IO_BYTES:
	case GS_JOB_METRIC_READ_BYTES:
	case GS_JOB_METRIC_WRITE_BYTES:
	case GS_JOB_METRIC_IO_OPERATIONS:
		return gs_job_report_knows(job, GS_JOB_KNOWS_IO) ? io_metric(&io, metric) : NAN;
	case GS_JOB_METRIC_TOTAL_SYSCALLS:
	case GS_JOB_METRIC_IO_SYSCALLS:
	case GS_JOB_METRIC_NET_SYSCALLS:
	case GS_JOB_METRIC_AVG_SYSCALL:
	case GS_JOB_METRIC_MAX_SYSCALL:
		return gs_job_report_knows(job, GS_JOB_KNOWS_SYSCALLS) ? syscall_metric(job, metric)
								       : NAN;
	default:
		return gs_job_report_knows(job, GS_JOB_KNOWS_NET) ? net_metric(w, metric) : NAN;
	}
}

double gs_job_report_rounded(const struct gs_job_report_style *style, double v)
{
	double scale = pow(10, style->precision);

	return style->precision < 0 || isnan(v) ? v : round(v * scale) / scale;
}

static void put_text(struct gs_pen *pen, const char *text)
{
	gs_pen_check(pen, gs_text_csv(&pen->buf, text));
	gs_pen_puts(pen, ",");
}

static void put_number(struct gs_pen *pen, double v)
{
	/* What is not known is an empty cell. */
	if (!isnan(v))
		gs_pen_double(pen, v);
}

void gs_job_report_put_csv(struct gs_pen *pen, const struct gs_job_report_session *s,
			   const struct gs_job_report_style *style)
{
	gs_pen_puts(
		pen,
		"job_id,user,job_name,partition,duration,classification,confidence,efficiency_score");
	for (unsigned m = 0; m < GS_JOB_METRIC_COUNT; m++)
		gs_pen_printf(pen, ",%s", gs_job_report_metric_key(m));
	/* After what older readers know. */
	gs_pen_puts(pen, ",uid,host,command" GS_TEXT_CSV_EOL);
	for (size_t i = 0; i < s->n_jobs; i++) {
		const struct gs_job_report *job = &s->jobs[i];

		put_text(pen, job->job.id);
		put_text(pen, job->job.user);
		put_text(pen, job->job.name);
		put_text(pen, job->job.partition);
		put_number(pen, gs_job_report_rounded(style, (double)job->usage.elapsed_ns / 1e9));
		gs_pen_puts(pen, ",");
		put_text(pen, job->verdict.job_class);
		put_number(pen, gs_job_report_rounded(style, job->verdict.confidence));
		gs_pen_puts(pen, ",");
		put_number(pen, gs_job_report_rounded(style, job->verdict.score));
		for (unsigned m = 0; m < GS_JOB_METRIC_COUNT; m++) {
			gs_pen_puts(pen, ",");
			put_number(pen, gs_job_report_rounded(style, gs_job_report_metric(job, m)));
		}
		gs_pen_puts(pen, ",");
		put_number(pen, job->job.uid >= 0 ? (double)job->job.uid : NAN);
		gs_pen_puts(pen, ",");
		put_text(pen, s->host);
		gs_pen_check(pen, gs_text_csv(&pen->buf, job->command));
		gs_pen_puts(pen, GS_TEXT_CSV_EOL);
		gs_pen_yield(pen);
	}
	if (!style->verbose)
		return;
	/* A second table, after an empty line. */
	gs_pen_puts(pen, GS_TEXT_CSV_EOL "job_id,table,row,key,value" GS_TEXT_CSV_EOL);
	for (size_t i = 0; i < s->n_jobs; i++)
		gs_job_report_put_detail_csv(pen, &s->jobs[i]);
}
