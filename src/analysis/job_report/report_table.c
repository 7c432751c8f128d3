/* Reports for people: a paragraph a job with what it did, what follows from it and why; and the
 * live table, a line a job. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/job_report/report_int.h"
#include "core/text/page.h"

static enum gs_ink score_ink(double score)
{
	/* The colours of ebpf-hpc-monitor's dashboard: 70 and 40. */
	return isnan(score) || score >= 70 ? GS_INK_PLAIN : score >= 40 ? GS_INK_WARN : GS_INK_RED;
}

static const char *format_number(char out[32], double v, const char *fmt)
{
	if (isnan(v))
		snprintf(out, 32, "-");
	else
		snprintf(out, 32, fmt, v);
	return out;
}

static const char *bytes_text(char out[GS_FMT_BYTES], double v)
{
	if (isnan(v))
		snprintf(out, GS_FMT_BYTES, "-");
	else
		gs_fmt_bytes(out, (uint64_t)v);
	return out;
}

static void put_row(struct gs_page *page, const char *name, enum gs_ink ink, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_left(page, GS_INK_DIM, name, 12, GS_CUT_END);
	gs_page_words(page, ink, text);
}

static void put_head(struct gs_page *page, const struct gs_job_report_session *s,
		     const struct gs_job_report *job)
{
	char line[1024], age[GS_FMT_BYTES];
	int n;

	n = snprintf(line, sizeof(line), "Job %s", job->job.id[0] ? job->job.id : "?");
	if (job->job.name[0])
		n += snprintf(line + n, sizeof(line) - (size_t)n, "  %s", job->job.name);
	if (job->job.user[0])
		n += snprintf(line + n, sizeof(line) - (size_t)n, "  of %s", job->job.user);
	if (job->job.partition[0])
		n += snprintf(line + n, sizeof(line) - (size_t)n, "  in %s", job->job.partition);
	snprintf(line + n, sizeof(line) - (size_t)n, "  %s on %s%s",
		 gs_fmt_ns(age, job->usage.elapsed_ns), s->host, job->ended ? ", ended" : "");
	gs_page_rest(page, GS_INK_BOLD, line, GS_CUT_END);
	gs_page_line(page);
}

/* Of what no batch system gave a name. */
static void put_command(struct gs_page *page, const struct gs_job_report *job)
{
	char line[GS_JOB_COMMAND_BYTES + 64], since[40] = "";
	time_t seconds = (time_t)job->job.start_s;
	struct tm tm;

	if (!job->command[0])
		return;
	if (seconds > 0 && gmtime_r(&seconds, &tm))
		strftime(since, sizeof(since), ", since %Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(line, sizeof(line), "%s%s", job->command, since);
	put_row(page, "command", GS_INK_PLAIN, line);
}

static void put_verdict(struct gs_page *page, const struct gs_job_report *job)
{
	const struct gs_verdict *v = &job->verdict;
	char line[512], a[32], b[32];

	snprintf(line, sizeof(line), "%s (confidence %s)", v->job_class,
		 format_number(a, v->confidence, "%.2f"));
	put_row(page, "class", GS_INK_BOLD, line);
	for (size_t i = 0; i < v->n_evidence; i++)
		put_row(page, i ? "" : "because", GS_INK_PLAIN, v->evidence[i]);
	snprintf(line, sizeof(line), "%s of 100", format_number(a, v->score, "%.1f"));
	put_row(page, "efficiency", score_ink(v->score), line);
	for (size_t i = 0; i < v->n_parts; i++) {
		snprintf(line, sizeof(line), "%s of %s  %s: %s",
			 format_number(a, v->part[i].points, "%+.1f"),
			 format_number(b, v->part[i].max_points, "%+.0f"), v->part[i].name,
			 v->part[i].because);
		put_row(page, "", GS_INK_PLAIN, line);
	}
}

static void put_times(struct gs_page *page, const struct gs_job_report_session *s,
		      const struct gs_job_report *job)
{
	struct gs_job_report_part part[GS_JOB_PARTS];
	uint64_t all_ns = gs_job_report_account(s, job, part);
	char line[512], ns[GS_FMT_BYTES];
	int n = 0;

	if (!gs_job_report_knows(job, GS_JOB_KNOWS_TIME)) {
		put_row(page, "threads", GS_INK_PLAIN, "their time is not known");
		return;
	}
	for (unsigned i = 0; i < GS_JOB_PARTS && all_ns; i++)
		if (part[i].ns)
			n += snprintf(line + n, sizeof(line) - (size_t)n, "%s%s %s (%.1f %%)",
				      n ? ", " : "", part[i].title, gs_fmt_ns(ns, part[i].ns),
				      part[i].share_pct);
	if (n)
		snprintf(line + n, sizeof(line) - (size_t)n, "; together %s",
			 gs_fmt_ns(ns, all_ns));
	put_row(page, "threads", GS_INK_PLAIN, n ? line : "no time was spent");
	if (GS_JOB_HIDES_CALLS(job))
		put_row(page, "", GS_INK_PLAIN, GS_JOB_HIDDEN_TEXT);
}

static void put_counts(struct gs_page *page, const struct gs_job_report *job)
{
	const struct gs_taskstats *w = &job->usage.work;
	const struct gs_figures *f = &job->figures;
	char line[512], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[32], d[32];

	snprintf(line, sizeof(line), "%s %% of %s (%u process%s seen)",
		 format_number(c, f->v[GS_FIGURE_CPU], "%.1f"),
		 format_number(d, job->usage.cores, "%g"), job->n_processes_seen,
		 job->n_processes_seen == 1 ? "" : "es");
	put_row(page, "processors", GS_INK_PLAIN, line);
	if (gs_job_report_knows(job, GS_JOB_KNOWS_SWITCHES)) {
		snprintf(line, sizeof(line), "%s, %s of them involuntary; %s per core and second",
			 gs_fmt_count(a, w->switches_voluntary + w->switches_forced),
			 gs_fmt_count(b, w->switches_forced),
			 format_number(c, f->v[GS_FIGURE_SWITCHES], "%.0f"));
		put_row(page, "switches", GS_INK_PLAIN, line);
	}
	if (gs_job_report_knows(job, GS_JOB_KNOWS_SYSCALLS)) {
		snprintf(line, sizeof(line), "%s, %s failed", gs_fmt_count(a, w->syscalls),
			 gs_fmt_count(b, w->syscall_errors));
		put_row(page, "calls", GS_INK_PLAIN, line);
	}
	if (gs_job_report_knows(job, GS_JOB_KNOWS_IO)) {
		struct gs_taskstats_io_count io = gs_taskstats_file_io(w);

		snprintf(line, sizeof(line), "%s read, %s written; %s each",
			 gs_fmt_bytes(a, io.read_bytes), gs_fmt_bytes(b, io.write_bytes),
			 bytes_text(c, f->v[GS_FIGURE_IO_SIZE]));
		put_row(page, "files", GS_INK_PLAIN, line);
	}
	if (gs_job_report_knows(job, GS_JOB_KNOWS_NET)) {
		snprintf(line, sizeof(line), "%s sent, %s received",
			 gs_fmt_bytes(a, w->net_sent_bytes),
			 gs_fmt_bytes(b, w->net_received_bytes));
		put_row(page, "network", GS_INK_PLAIN, line);
	}
	if (gs_job_report_knows(job, GS_JOB_KNOWS_MEMORY)) {
		snprintf(line, sizeof(line), "at most %s, %s %% of what %s",
			 bytes_text(a, f->v[GS_FIGURE_MEMORY_USED]),
			 format_number(c, f->v[GS_FIGURE_MEMORY], "%.1f"),
			 isnan(f->v[GS_FIGURE_MEMORY_ALLOCATED]) ? "the machine has"
								 : "was allocated");
		put_row(page, "memory", GS_INK_PLAIN, line);
	}
	if (gs_job_report_knows(job, GS_JOB_KNOWS_GPU) && f->v[GS_FIGURE_N_GPUS] > 0) {
		snprintf(line, sizeof(line),
			 "%.0f, utilisation %s %%, memory %s %%, never used %.0f, energy %s J",
			 f->v[GS_FIGURE_N_GPUS], format_number(c, f->v[GS_FIGURE_GPU], "%.1f"),
			 format_number(d, f->v[GS_FIGURE_GPU_MEMORY], "%.1f"),
			 f->v[GS_FIGURE_GPUS_IDLE],
			 format_number(b, f->v[GS_FIGURE_GPU_ENERGY], "%.0f"));
		put_row(page, "GPUs", GS_INK_PLAIN, line);
	}
}

/* All of them when they are few or asked for, else the one that stands out. */
static void put_ranks(struct gs_page *page, const struct gs_job_report *job, bool all)
{
	char line[256], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES], d[32], e[GS_FMT_BYTES];

	if (job->n_ranks < 2)
		return;
	put_row(page, "ranks",
		isnan(job->imbalance.ratio) || job->imbalance.ratio < 1.15 ? GS_INK_PLAIN
									   : GS_INK_WARN,
		job->imbalance.evidence[0] ? job->imbalance.evidence
					   : "too little work to compare");
	for (size_t i = 0; i < job->n_ranks && (all || job->n_ranks <= 8); i++) {
		const struct gs_job_report_rank *r = &job->ranks[i];

		snprintf(line, sizeof(line),
			 "%5d  %s on CPU, %s waiting, GPU %s %%, files %s, network %s", r->rank,
			 gs_fmt_ns(a, (uint64_t)(r->cpu_s * 1e9)),
			 isnan(r->wait_s) ? "-" : gs_fmt_ns(e, (uint64_t)(r->wait_s * 1e9)),
			 format_number(d, 100 * r->gpu_ratio, "%.1f"), bytes_text(c, r->file_bytes),
			 bytes_text(b, r->net_bytes));
		put_row(page, "", GS_INK_PLAIN, line);
	}
}

static void put_advice(struct gs_page *page, const struct gs_job_report *job)
{
	char text[1024];

	for (size_t i = 0; i < job->verdict.n_advice; i++) {
		gs_job_report_advice_text(&job->verdict.advice[i], text, sizeof(text));
		put_row(page, i ? "" : "advice", GS_INK_PLAIN, text);
	}
}

static void put_line(void *page, const char *lead, const char *line)
{
	put_row(page, lead, GS_INK_PLAIN, line);
}

static void put_figures(struct gs_page *page, const struct gs_job_report *job)
{
	char line[128];
	bool first = true;

	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++) {
		if (isnan(job->figures.v[i]))
			continue;
		snprintf(line, sizeof(line), "%-34s %14.2f", gs_figure_key(i), job->figures.v[i]);
		put_row(page, first ? "figures" : "", GS_INK_PLAIN, line);
		first = false;
	}
}

static void put_sources(struct gs_page *page, const struct gs_job_report_session *s)
{
	char line[400];

	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++) {
		snprintf(line, sizeof(line), "%s: %s", gs_job_report_family_key(i), s->source[i]);
		put_row(page, i ? "" : "sources", GS_INK_DIM, line);
	}
}

void gs_job_report_put_table(struct gs_pen *pen, const struct gs_job_report_session *s,
			     const struct gs_job_report_style *style)
{
	struct gs_page page;
	char line[512];

	gs_page_init(&page, pen, style->width, style->color);
	for (size_t i = 0; i < s->n_jobs; i++) {
		const struct gs_job_report *job = &s->jobs[i];
		struct gs_verdict_text verdict;

		if (i)
			gs_page_line(&page);
		verdict = gs_verdict_text_of(&job->verdict);
		gs_text_verdict_table(&page, &verdict);
		put_head(&page, s, job);
		put_command(&page, job);
		put_verdict(&page, job);
		put_times(&page, s, job);
		put_counts(&page, job);
		put_ranks(&page, job, style->verbose);
		gs_job_report_each_mpi_line(job, style->verbose, put_line, &page);
		if (style->syscalls)
			gs_job_report_each_detail_line(job, style->verbose, put_line, &page);
		if (style->verbose)
			put_figures(&page, job);
		if (style->advice)
			put_advice(&page, job);
		gs_pen_yield(pen);
	}
	if (s->n_jobs)
		gs_page_line(&page);
	put_sources(&page, s);
	if (s->unfinished)
		put_row(&page, "unfinished", GS_INK_WARN,
			"saved while the recorder ran; it was killed, or still runs");
	put_row(&page, "lost", s->loss[0] ? GS_INK_WARN : GS_INK_PLAIN,
		s->loss[0] ? s->loss : "nothing");
	if (s->open_bytes) {
		char bytes[GS_FMT_BYTES];

		snprintf(line, sizeof(line), "%s of requests to devices are not completed yet",
			 gs_fmt_bytes(bytes, s->open_bytes));
		put_row(&page, "", GS_INK_WARN, line);
	}
	if (s->failed_reads) {
		snprintf(line, sizeof(line), "%llu files of /proc could not be read",
			 (unsigned long long)s->failed_reads);
		put_row(&page, "", GS_INK_WARN, line);
	}
	gs_page_fini(&page);
}

static void live_row(struct gs_grid *g, const struct gs_job_report *job)
{
	const struct gs_figures *f = &job->figures;
	char text[32];

	gs_grid_left(g, GS_INK_PLAIN, job->job.id, GS_CUT_MIDDLE);
	gs_grid_left(g, GS_INK_PLAIN, job->job.user[0] ? job->job.user : "-", GS_CUT_END);
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_CPU], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_IO], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_NET], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_LOCK], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_SWITCHES], "%.0f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_GPU], "%.0f"));
	gs_grid_right(g, GS_INK_PLAIN, bytes_text(text, f->v[GS_FIGURE_MEMORY_USED]));
	gs_grid_right(g, score_ink(job->verdict.score),
		      format_number(text, job->verdict.score, "%.0f"));
	snprintf(text, sizeof(text), "%zu", job->n_pids);
	gs_grid_right(g, GS_INK_PLAIN, text);
	gs_grid_rest(g, GS_INK_PLAIN, job->verdict.job_class, GS_CUT_END);
}

static void live_head(struct gs_grid *g)
{
	static const char *const right[] = {"CPU %", "I/O %",  "Net %", "Lock %", "Switches/s",
					    "GPU %", "Memory", "Score", "Procs"};

	gs_grid_left(g, GS_INK_DIM, "Job ID", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "User", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(right); i++)
		gs_grid_right(g, GS_INK_DIM, right[i]);
	gs_grid_rest(g, GS_INK_DIM, "Classification", GS_CUT_END);
}

void gs_job_report_put_live(struct gs_pen *pen, const struct gs_job_report_session *s,
			    const struct gs_job_report_style *style)
{
	size_t n = style->n_jobs && style->n_jobs < s->n_jobs ? style->n_jobs : s->n_jobs;
	struct gs_page page;
	struct gs_grid grid;
	char line[256], age[GS_FMT_BYTES];

	gs_page_init(&page, pen, style->width, style->color);
	snprintf(line, sizeof(line), "gpuscope job  %s  %zu job%s  %s so far%s%s", s->host,
		 s->n_jobs, s->n_jobs == 1 ? "" : "s", gs_fmt_ns(age, s->elapsed_ns),
		 s->loss[0] ? "  lost: " : "", s->loss);
	gs_page_rest(&page, GS_INK_BOLD, line, GS_CUT_END);
	gs_page_line(&page);
	grid = (struct gs_grid){.page = &page, .measuring = true};
	for (int pass = 0; pass < 2; pass++) {
		live_head(&grid);
		for (size_t i = 0; i < n; i++)
			live_row(&grid, &s->jobs[i]);
		if (pass == 0)
			gs_grid_fit(&grid, 0, 14);
	}
	if (n < s->n_jobs) {
		snprintf(line, sizeof(line), "... and %zu more", s->n_jobs - n);
		gs_page_rest(&page, GS_INK_DIM, line, GS_CUT_END);
		gs_page_line(&page);
	}
	gs_page_fini(&page);
}
