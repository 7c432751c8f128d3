/*
 * The report as a tree: the keys that ebpf-hpc-monitor documents in its README and its sample
 * output, and after them what only gpuscope knows. What is not known is null, never 0.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "analysis/job_report/report_int.h"
#include "model/trace/account.h"

/* Whole seconds, as the documented report has them: older readers take no fractions. */
static void put_seconds(struct gs_doc *doc, const char *key, int64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	char text[40];
	struct tm tm;

	if (wall_ns <= 0 || !gmtime_r(&seconds, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		gs_doc_put_null(doc, key);
	else
		gs_doc_put_text(doc, key, text);
}

static void put_session(struct gs_doc *doc, const struct gs_job_report_session *s,
			const struct gs_job_report_style *style)
{
	size_t n_pids = 0;

	for (size_t i = 0; i < s->n_jobs; i++)
		n_pids += s->jobs[i].n_pids;
	gs_doc_begin_map(doc, "monitoring_session");
	put_seconds(doc, "start_time", s->start_wall_ns);
	put_seconds(doc, "end_time", s->end_wall_ns);
	gs_doc_put_double(doc, "duration_seconds",
			  gs_job_report_rounded(style, (double)s->elapsed_ns / 1e9));
	if (s->unfinished)
		gs_doc_put_bool(doc, "complete", false);
	gs_doc_begin_list(doc, "monitored_pids", n_pids);
	for (size_t i = 0; i < s->n_jobs; i++)
		for (size_t k = 0; k < s->jobs[i].n_pids; k++)
			gs_doc_put_u64(doc, NULL, s->jobs[i].pids[k]);
	gs_doc_end(doc);
	gs_doc_put_text(doc, "monitor", "gpuscope");
	gs_doc_put_text(doc, "monitor_version", GS_VERSION);
	gs_doc_begin_map(doc, "config");
	gs_doc_put_bool(doc, "ebpf_enabled", s->ebpf);
	gs_doc_put_bool(doc, "slurm_integration", s->slurm);
	gs_doc_put_bool(doc, "real_time_display", s->live);
	gs_doc_put_text(doc, "filter", s->filter);
	gs_doc_end(doc);
	gs_doc_put_u64(doc, "failed_reads", s->failed_reads);
	gs_doc_put_text(doc, "lost", s->loss);
	gs_doc_put_u64(doc, "device_bytes_without_an_end", s->open_bytes);
	gs_doc_begin_map(doc, "sources");
	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++)
		gs_doc_put_text(doc, gs_job_report_family_key(i), s->source[i]);
	if (s->ranks_source[0])
		gs_doc_put_text(doc, "ranks", s->ranks_source);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static void put_system(struct gs_doc *doc, const struct gs_job_report_session *s,
		       const struct gs_job_report_style *style)
{
	gs_doc_begin_map(doc, "system_info");
	gs_doc_put_text(doc, "hostname", s->host);
	gs_doc_put_text(doc, "kernel_version", s->kernel);
	gs_doc_put_i64_if(doc, "cpu_cores", s->n_cpus, s->n_cpus > 0);
	gs_doc_put_double(doc, "memory_gb",
			  s->memory_bytes > 0 ? gs_job_report_rounded(
							style, (double)s->memory_bytes / 1073741824)
					      : NAN);
	gs_doc_put_text(doc, "slurm_version", s->slurm_version);
	gs_job_report_put_pressure(doc, s->pressure_ratio, style);
	gs_doc_end(doc);
}

/* "node[01-02,05],gpu7" at the commas outside of brackets. */
static void put_nodes(struct gs_doc *doc, const struct gs_job_report_session *s,
		      const struct gs_job *job)
{
	const char *list = job->nodes[0] ? job->nodes : s->host;
	size_t n = 1;
	int depth = 0;

	for (const char *c = list; *c; c++) {
		depth += (*c == '[') - (*c == ']');
		n += *c == ',' && !depth;
	}
	gs_doc_begin_list(doc, "nodes", n);
	depth = 0;
	while (*list) {
		char name[256];
		size_t bytes = 0;

		for (; list[bytes] && (list[bytes] != ',' || depth); bytes++)
			depth += (list[bytes] == '[') - (list[bytes] == ']');
		snprintf(name, sizeof(name), "%.*s", (int)bytes, list);
		gs_doc_put_text(doc, NULL, name);
		list += bytes;
		list += *list == ',';
	}
	gs_doc_end(doc);
}

void gs_job_report_advice_text(const struct gs_advice *a, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s %s Next time: %s. %s", a->fact, a->cause, a->next, a->benefit);
}

static void put_recommendations(struct gs_doc *doc, const struct gs_job_report *job,
				const char *key)
{
	char text[1024];

	gs_doc_begin_list(doc, key, job->verdict.n_advice);
	for (size_t i = 0; i < job->verdict.n_advice; i++) {
		gs_job_report_advice_text(&job->verdict.advice[i], text, sizeof(text));
		gs_doc_put_text(doc, NULL, text);
	}
	gs_doc_end(doc);
}

static void put_classification(struct gs_doc *doc, const struct gs_job_report *job,
			       const struct gs_job_report_style *style)
{
	const struct gs_verdict *v = &job->verdict;

	gs_doc_begin_map(doc, "classification");
	gs_doc_put_text(doc, "type", v->job_class);
	gs_doc_put_double(doc, "confidence", gs_job_report_rounded(style, v->confidence));
	gs_doc_put_double(doc, "efficiency_score", gs_job_report_rounded(style, v->score));
	gs_doc_begin_list(doc, "evidence", v->n_evidence);
	for (size_t i = 0; i < v->n_evidence; i++)
		gs_doc_put_text(doc, NULL, v->evidence[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "efficiency_parts", v->n_parts);
	for (size_t i = 0; i < v->n_parts; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "name", v->part[i].name);
		gs_doc_put_double(doc, "points", gs_job_report_rounded(style, v->part[i].points));
		gs_doc_put_double(doc, "max_points", v->part[i].max_points);
		gs_doc_put_text(doc, "because", v->part[i].because);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	if (style->advice) {
		put_recommendations(doc, job, "recommendations");
		gs_doc_begin_list(doc, "advice", v->n_advice);
		for (size_t i = 0; i < v->n_advice; i++) {
			gs_doc_begin_map(doc, NULL);
			gs_doc_put_text(doc, "rule", v->advice[i].rule);
			gs_doc_put_text(doc, "fact", v->advice[i].fact);
			gs_doc_put_text(doc, "cause", v->advice[i].cause);
			gs_doc_put_text(doc, "next", v->advice[i].next);
			gs_doc_put_text(doc, "benefit", v->advice[i].benefit);
			gs_doc_end(doc);
		}
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_calls(struct gs_doc *doc, const struct gs_job_report *job)
{
	if (!gs_job_report_knows(job, GS_JOB_KNOWS_SYSCALLS)) {
		gs_doc_put_null(doc, "syscall_breakdown");
		return;
	}
	doc->ops->begin(doc, "syscall_breakdown", false, job->n_calls == 0, false);
	for (size_t i = 0; i < job->n_calls; i++)
		gs_doc_put_u64(doc, job->calls[i].name, job->calls[i].calls);
	gs_doc_end(doc);
}

struct bottleneck {
	const char *type, *severity;
	char description[128];
};

/* What takes most of its time away, as the documented report names it. */
static size_t list_bottlenecks(const struct gs_job_report *job, struct bottleneck out[6])
{
	static const struct {
		const char *type, *words;
		enum gs_figure figure;
		double from, high;
	} kinds[] = {
		{"I/O", "of its threads' time blocked on files", GS_FIGURE_IO, 30, 70},
		{"Network", "of its threads' time blocked on the network", GS_FIGURE_NET, 30, 70},
		{"Lock", "of its threads' time blocked on locks", GS_FIGURE_LOCK, 30, 70},
		{"GPU", "of its threads' time waiting for the GPU", GS_FIGURE_GPU_SYNC, 50, 90},
		{"Memory", "of its memory used", GS_FIGURE_MEMORY, 90, 95},
		{"Idle/Wait", "of its processors' time unused", GS_FIGURE_WAIT, 60, 80},
	};
	size_t n = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
		double v = job->figures.v[kinds[i].figure];

		if (!(v >= kinds[i].from))
			continue;
		out[n].type = kinds[i].type;
		out[n].severity = v >= kinds[i].high ? "High" : "Medium";
		snprintf(out[n].description, sizeof(out[n].description), "%.1f %% %s", v,
			 kinds[i].words);
		n++;
	}
	return n;
}

static void put_analysis(struct gs_doc *doc, const struct gs_job_report *job,
			 const struct gs_job_report_style *style)
{
	const struct gs_figures *f = &job->figures;
	struct bottleneck b[6];
	size_t n = list_bottlenecks(job, b);

	gs_doc_begin_map(doc, "performance_analysis");
	gs_doc_put_double(doc, "cpu_efficiency", gs_job_report_rounded(style, f->v[GS_FIGURE_CPU]));
	gs_doc_put_double(doc, "io_efficiency",
			  gs_job_report_rounded(style, 100 - f->v[GS_FIGURE_IO]));
	gs_doc_put_double(doc, "memory_efficiency",
			  gs_job_report_rounded(style, f->v[GS_FIGURE_MEMORY]));
	gs_doc_put_double(doc, "overall_efficiency",
			  gs_job_report_rounded(style, job->verdict.score));
	gs_doc_begin_list(doc, "bottlenecks", n);
	for (size_t i = 0; i < n; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "type", b[i].type);
		gs_doc_put_text(doc, "severity", b[i].severity);
		gs_doc_put_text(doc, "description", b[i].description);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	if (style->advice) {
		gs_doc_begin_list(doc, "optimization_suggestions", job->verdict.n_advice);
		for (size_t i = 0; i < job->verdict.n_advice; i++)
			gs_doc_put_text(doc, NULL, job->verdict.advice[i].next);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_times(struct gs_doc *doc, const struct gs_job_report *job,
		      const struct gs_job_report_style *style)
{
	const struct gs_taskstats *w = &job->usage.work;

	gs_doc_begin_map(doc, "thread_seconds");
	for (unsigned i = 0; i < GS_TIME_COUNT; i++) {
		bool known = gs_job_report_knows(job, i == GS_TIME_CPU ? GS_JOB_KNOWS_TIME
								       : GS_JOB_KNOWS_CAUSES);
		double ns = (double)w->time_ns[i];

		if (i == GS_TIME_LOCK)
			ns -= (double)w->idle_ns;
		gs_doc_put_double(doc, gs_taskstats_time_name(i),
				  known ? gs_job_report_rounded(style, ns / 1e9) : NAN);
	}
	gs_doc_put_double(doc, "idle",
			  gs_job_report_knows(job, GS_JOB_KNOWS_CAUSES)
				  ? gs_job_report_rounded(style, (double)w->idle_ns / 1e9)
				  : NAN);
	gs_doc_end(doc);
}

static void put_hidden(struct gs_doc *doc, const struct gs_job_report *job)
{
	static const unsigned hidden[] = {GS_PART_GPU_WAIT, GS_PART_CUDA, GS_PART_NCCL};
	size_t n = GS_JOB_HIDES_CALLS(job) ? GS_ARRAY_LEN(hidden) : 0;

	gs_doc_begin_list(doc, "not_known_apart", n);
	for (size_t i = 0; i < n; i++)
		gs_doc_put_text(doc, NULL, gs_account_part_name(hidden[i]));
	gs_doc_end(doc);
	if (n)
		gs_doc_put_text(doc, "shown_by", GS_VERDICT_ITS_CALLS);
}

/* With the words of `account` in a summary of calls; of that name is a job's account of Slurm. */
static void put_wall_account(struct gs_doc *doc, const struct gs_job_report_session *s,
			     const struct gs_job_report *job,
			     const struct gs_job_report_style *style)
{
	struct gs_job_report_part part[GS_JOB_PARTS];
	uint64_t all_ns = gs_job_report_account(s, job, part);
	size_t n = 0;

	for (unsigned i = 0; i < GS_JOB_PARTS && all_ns; i++)
		n += part[i].ns != 0;
	gs_doc_begin_map(doc, "wall_account");
	gs_doc_put_u64_if(doc, "wall_ns", all_ns, gs_job_report_knows(job, GS_JOB_KNOWS_TIME));
	gs_doc_begin_list(doc, "components", n);
	for (unsigned i = 0; i < GS_JOB_PARTS && n; i++) {
		if (!part[i].ns)
			continue;
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "component", part[i].name);
		gs_doc_put_u64(doc, "ns", part[i].ns);
		gs_doc_put_double(doc, "share_pct",
				  gs_job_report_rounded(style, part[i].share_pct));
		gs_doc_put_text(doc, "source", part[i].source);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	put_hidden(doc, job);
	gs_doc_end(doc);
}

static void put_ranks(struct gs_doc *doc, const struct gs_job_report *job,
		      const struct gs_job_report_style *style)
{
	const struct gs_job_report_imbalance *b = &job->imbalance;

	gs_doc_begin_list(doc, "ranks", job->n_ranks);
	for (size_t i = 0; i < job->n_ranks; i++) {
		const struct gs_job_report_rank *r = &job->ranks[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_i64_if(doc, "rank", r->rank, true);
		gs_doc_put_text(doc, "step", r->step);
		gs_doc_put_u64(doc, "processes", r->n_processes);
		gs_doc_put_double(doc, "cpu_seconds", gs_job_report_rounded(style, r->cpu_s));
		gs_doc_put_double(doc, "wait_seconds", gs_job_report_rounded(style, r->wait_s));
		gs_doc_put_double(doc, "gpu_wait_seconds",
				  gs_job_report_rounded(style, r->gpu_wait_s));
		gs_doc_put_double(doc, "gpu_ratio", gs_job_report_rounded(style, r->gpu_ratio));
		gs_doc_put_i64_if(doc, "gpu_memory_bytes", r->gpu_memory_bytes,
				  r->gpu_memory_bytes >= 0);
		gs_doc_put_double(doc, "file_bytes", r->file_bytes);
		gs_doc_put_double(doc, "network_bytes", r->net_bytes);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	if (isnan(b->ratio)) {
		gs_doc_put_null(doc, "imbalance");
		return;
	}
	gs_doc_begin_map(doc, "imbalance");
	gs_doc_put_text(doc, "of", b->of);
	gs_doc_put_double(doc, "max_over_mean", gs_job_report_rounded(style, b->ratio));
	gs_doc_put_i64_if(doc, "slowest_rank", b->rank, true);
	gs_doc_put_text(doc, "evidence", b->evidence);
	gs_doc_end(doc);
}

static void put_mask(struct gs_doc *doc, const char *key, uint64_t mask)
{
	gs_doc_begin_list(doc, key, (size_t)__builtin_popcountll(mask));
	for (unsigned i = 0; i < 64; i++)
		if (mask >> i & 1)
			gs_doc_put_u64(doc, NULL, i);
	gs_doc_end(doc);
}

static void put_gpus(struct gs_doc *doc, const struct gs_job_report *job)
{
	if (!gs_job_report_knows(job, GS_JOB_KNOWS_GPU)) {
		gs_doc_put_null(doc, "gpus");
		gs_doc_put_null(doc, "gpus_never_used");
		return;
	}
	put_mask(doc, "gpus", job->usage.gpu_mask);
	put_mask(doc, "gpus_never_used", job->usage.gpu_idle_mask);
}

static void put_job(struct gs_doc *doc, const struct gs_job_report_session *s,
		    const struct gs_job_report *job, const struct gs_job_report_style *style)
{
	const struct gs_verdict_text verdict = gs_verdict_text_of(&job->verdict);

	gs_doc_begin_map(doc, NULL);
	gs_text_verdict_doc(doc, &verdict);
	gs_doc_put_text(doc, "job_id", job->job.id);
	gs_doc_put_text(doc, "proof", gs_job_proof_name(&job->job));
	gs_doc_put_text(doc, "user", job->job.user);
	gs_doc_put_i64_if(doc, "uid", job->job.uid, job->job.uid >= 0);
	gs_doc_put_text(doc, "job_name", job->job.name);
	gs_doc_put_text(doc, "partition", job->job.partition);
	gs_doc_put_text(doc, "account", job->job.account);
	gs_doc_put_text(doc, "cluster", job->job.cluster);
	gs_doc_put_text(doc, "command", job->command);
	put_nodes(doc, s, &job->job);
	gs_doc_put_double(doc, "cpus", job->usage.cores);
	put_seconds(doc, "start_time", job->job.start_s > 0 ? job->job.start_s * 1000000000 : 0);
	gs_doc_put_double(doc, "duration_seconds",
			  gs_job_report_rounded(style, (double)job->usage.elapsed_ns / 1e9));
	gs_doc_put_bool(doc, "ended", job->ended);
	gs_doc_begin_list(doc, "pids", job->n_pids);
	for (size_t i = 0; i < job->n_pids; i++)
		gs_doc_put_u64(doc, NULL, job->pids[i]);
	gs_doc_end(doc);
	gs_doc_begin_map(doc, "metrics");
	for (unsigned m = 0; m < GS_JOB_METRIC_COUNT; m++)
		gs_doc_put_double(doc, gs_job_report_metric_key(m),
				  gs_job_report_rounded(style, gs_job_report_metric(job, m)));
	gs_doc_end(doc);
	put_classification(doc, job, style);
	if (style->advice)
		put_recommendations(doc, job, "recommendations");
	if (style->syscalls)
		put_calls(doc, job);
	put_analysis(doc, job, style);
	put_times(doc, job, style);
	put_wall_account(doc, s, job, style);
	gs_job_report_put_detail(doc, job, style);
	put_gpus(doc, job);
	put_ranks(doc, job, style);
	gs_job_report_put_mpi(doc, job, style);
	gs_doc_begin_map(doc, "figures");
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++)
		gs_doc_put_double(doc, gs_figure_key(i),
				  gs_job_report_rounded(style, job->figures.v[i]));
	gs_doc_end(doc);
	if (s->put_more && !style->trimmed)
		s->put_more(s->more_ctx, doc, job);
	gs_doc_end(doc);
}

static size_t jobs_of_class(const struct gs_job_report_session *s, const char *name,
			    bool first_only)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_jobs; i++)
		if (strcmp(s->jobs[i].verdict.job_class, name) == 0) {
			if (first_only)
				return i;
			n++;
		}
	return n;
}

const char *gs_job_report_common_class(const struct gs_job_report_session *s)
{
	const char *best = "";
	size_t most = 0;

	for (size_t i = 0; i < s->n_jobs; i++) {
		size_t n = jobs_of_class(s, s->jobs[i].verdict.job_class, false);

		if (n > most) {
			most = n;
			best = s->jobs[i].verdict.job_class;
		}
	}
	return best;
}

double gs_job_report_mean_score(const struct gs_job_report_session *s)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_jobs; i++)
		if (!isnan(s->jobs[i].verdict.score)) {
			sum += s->jobs[i].verdict.score;
			n++;
		}
	return n ? sum / (double)n : NAN;
}

/* The sum of a metric over the jobs that know it. */
static double sum_of(const struct gs_job_report_session *s, unsigned metric)
{
	double sum = NAN;

	for (size_t i = 0; i < s->n_jobs; i++) {
		double v = gs_job_report_metric(&s->jobs[i], metric);

		if (!isnan(v))
			sum = isnan(sum) ? v : sum + v;
	}
	return sum;
}

static double mean_of(const struct gs_job_report_session *s, enum gs_figure figure)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_jobs; i++)
		if (!isnan(s->jobs[i].figures.v[figure])) {
			sum += s->jobs[i].figures.v[figure];
			n++;
		}
	return n ? sum / (double)n : NAN;
}

static void put_summary(struct gs_doc *doc, const struct gs_job_report_session *s,
			const struct gs_job_report_style *style)
{
	static const struct {
		const char *key;
		enum gs_job_report_metric metric;
	} totals[] = {
		{"total_context_switches", GS_JOB_METRIC_CONTEXT_SWITCHES},
		{"total_syscalls", GS_JOB_METRIC_TOTAL_SYSCALLS},
		{"total_io_bytes", GS_JOB_METRIC_TOTAL_IO_BYTES},
		{"total_net_bytes", GS_JOB_METRIC_TOTAL_NET_BYTES},
	};
	size_t n_texts = 0;

	gs_doc_begin_map(doc, "summary");
	gs_doc_put_u64(doc, "total_jobs_monitored", s->n_jobs);
	gs_doc_put_double(doc, "average_efficiency",
			  gs_job_report_rounded(style, gs_job_report_mean_score(s)));
	gs_doc_put_text(doc, "most_common_type", gs_job_report_common_class(s));
	doc->ops->begin(doc, "job_classifications", false, s->n_jobs == 0, false);
	for (size_t i = 0; i < s->n_jobs; i++)
		if (jobs_of_class(s, s->jobs[i].verdict.job_class, true) == i)
			gs_doc_put_u64(doc, s->jobs[i].verdict.job_class,
				       jobs_of_class(s, s->jobs[i].verdict.job_class, false));
	gs_doc_end(doc);
	gs_doc_put_double(doc, "total_monitoring_time",
			  gs_job_report_rounded(style, (double)s->elapsed_ns / 1e9));
	gs_doc_put_double(doc, "monitoring_duration_seconds",
			  gs_job_report_rounded(style, (double)s->elapsed_ns / 1e9));
	gs_doc_begin_map(doc, "system_utilization");
	gs_doc_put_double(doc, "total_cpu_percent",
			  gs_job_report_rounded(style, mean_of(s, GS_FIGURE_CPU)));
	gs_doc_put_double(doc, "total_io_percent",
			  gs_job_report_rounded(style, mean_of(s, GS_FIGURE_IO)));
	for (size_t i = 0; i < GS_ARRAY_LEN(totals); i++)
		gs_doc_put_double(doc, totals[i].key,
				  gs_job_report_rounded(style, sum_of(s, totals[i].metric)));
	gs_doc_end(doc);
	for (size_t i = 0; i < s->n_jobs && style->advice; i++)
		n_texts += s->jobs[i].verdict.n_advice > 0;
	gs_doc_begin_list(doc, "recommendations", n_texts);
	for (size_t i = 0; i < s->n_jobs && style->advice; i++) {
		char text[512];

		if (!s->jobs[i].verdict.n_advice)
			continue;
		snprintf(text, sizeof(text), "Job %s: %s", s->jobs[i].job.id,
			 s->jobs[i].verdict.advice[0].fact);
		gs_doc_put_text(doc, NULL, text);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
}

void gs_job_report_put_doc(struct gs_pen *pen, const struct gs_job_report_session *s,
			   const struct gs_job_report_style *style)
{
	struct gs_doc doc = {.ops = style->format == GS_JOB_YAML   ? &gs_doc_yaml
				    : style->format == GS_JOB_HTML ? &gs_doc_script
								   : &gs_doc_json,
			     .pen = pen};

	gs_doc_begin_map(&doc, NULL);
	gs_doc_put_version(&doc);
	if (style->delivery)
		gs_job_report_put_delivery(&doc, style->delivery, style->trimmed);
	put_session(&doc, s, style);
	put_system(&doc, s, style);
	gs_doc_begin_list(&doc, "jobs", s->n_jobs);
	for (size_t i = 0; i < s->n_jobs; i++) {
		put_job(&doc, s, &s->jobs[i], style);
		gs_pen_yield(pen);
	}
	gs_doc_end(&doc);
	put_summary(&doc, s, style);
	gs_doc_end(&doc);
	gs_pen_puts(pen, "\n");
}
