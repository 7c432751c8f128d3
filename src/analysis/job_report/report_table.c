/* Reports for people: a paragraph a job with what it did, what follows from it and why; and the
 * live table, a line a job. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/job_report/report_int.h"
#include "core/text/fit.h"

#define TABLE_JOBS 30 /* rows, where each job has one */

/* Lines that sections keep when there is more than one screen of them. */
#define N_KEEP_VERDICT 10
#define N_KEEP_COMMAND 2
#define N_KEEP_CLASS   3
#define N_KEEP_ADVICE  4
#define N_KEEP_TIMES   2
#define N_KEEP_COUNTS  3
#define N_KEEP_RANKS   3
#define N_KEEP_MPI     3
#define N_KEEP_DETAIL  4
#define N_KEEP_SOURCES 3
#define N_KEEP_LOST    4

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

/* The class is what a live table is read for: where it had no room, columns that say less are left out. */
enum live_detail {
	LIVE_NARROW, /* terminals of 80 columns */
	LIVE_SCREEN, /* the 100 columns of a pipe */
	LIVE_WIDE,   /* all columns */
};

static enum live_detail live_detail_of(const struct gs_page *page)
{
	return page->width >= 120 ? LIVE_WIDE : page->width >= 98 ? LIVE_SCREEN : LIVE_NARROW;
}

static void live_row(struct gs_grid *g, const struct gs_job_report *job, enum live_detail detail)
{
	const struct gs_figures *f = &job->figures;
	char text[32];

	gs_grid_left(g, GS_INK_PLAIN, job->job.id, GS_CUT_MIDDLE);
	if (detail >= LIVE_SCREEN)
		gs_grid_left(g, GS_INK_PLAIN, job->job.user[0] ? job->job.user : "-", GS_CUT_END);
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_CPU], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_IO], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_NET], "%.1f"));
	if (detail >= LIVE_SCREEN)
		gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_LOCK], "%.1f"));
	if (detail >= LIVE_WIDE)
		gs_grid_right(g, GS_INK_PLAIN,
			      format_number(text, f->v[GS_FIGURE_SWITCHES], "%.0f"));
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_GPU], "%.0f"));
	gs_grid_right(g, GS_INK_PLAIN, bytes_text(text, f->v[GS_FIGURE_MEMORY_USED]));
	gs_grid_right(g, score_ink(job->verdict.score),
		      format_number(text, job->verdict.score, "%.0f"));
	snprintf(text, sizeof(text), "%zu", job->n_pids);
	if (detail >= LIVE_WIDE)
		gs_grid_right(g, GS_INK_PLAIN, text);
	gs_grid_rest(g, GS_INK_PLAIN, job->verdict.job_class, GS_CUT_END);
}

static void live_head(struct gs_grid *g, enum live_detail detail)
{
	static const struct {
		const char *text;
		enum live_detail least;
	} right[] = {{"CPU %", LIVE_NARROW},  {"I/O %", LIVE_NARROW},    {"Net %", LIVE_NARROW},
		     {"Lock %", LIVE_SCREEN}, {"Switches/s", LIVE_WIDE}, {"GPU %", LIVE_NARROW},
		     {"Memory", LIVE_NARROW}, {"Score", LIVE_NARROW},    {"Procs", LIVE_WIDE}};

	gs_grid_left(g, GS_INK_DIM, "Job ID", GS_CUT_END);
	if (detail >= LIVE_SCREEN)
		gs_grid_left(g, GS_INK_DIM, "User", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(right); i++)
		if (detail >= right[i].least)
			gs_grid_right(g, GS_INK_DIM, right[i].text);
	gs_grid_rest(g, GS_INK_DIM, "Classification", GS_CUT_END);
}

/* Families that were learned in the same way have one row, unless each is asked for. */
static void put_sources(struct gs_page *page, const struct gs_job_report_session *s, bool all)
{
	char line[800];
	bool first = true;

	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++) {
		int n = 0;
		bool seen = false;

		for (unsigned k = 0; k < i && !all; k++)
			seen |= strcmp(s->source[k], s->source[i]) == 0;
		if (seen)
			continue;
		for (unsigned k = i; k < (all ? i + 1 : GS_JOB_KNOWS_COUNT); k++)
			if (strcmp(s->source[k], s->source[i]) == 0)
				n += snprintf(line + n, sizeof(line) - (size_t)n, "%s%s",
					      n ? ", " : "", gs_job_report_family_key(k));
		snprintf(line + n, sizeof(line) - (size_t)n, ": %s", s->source[i]);
		put_row(page, first ? "sources" : "", GS_INK_DIM, line);
		first = false;
	}
}

static void put_open_requests(struct gs_page *page, const struct gs_job_report_session *s)
{
	char line[512], bytes[GS_FMT_BYTES];

	if (s->unfinished)
		put_row(page, "unfinished", GS_INK_WARN,
			"saved while the recorder ran; it was killed, or still runs");
	put_row(page, "lost", s->loss[0] ? GS_INK_WARN : GS_INK_PLAIN,
		s->loss[0] ? s->loss : "nothing");
	if (s->open_bytes) {
		snprintf(line, sizeof(line), "%s of requests to devices are not completed yet",
			 gs_fmt_bytes(bytes, s->open_bytes));
		put_row(page, "", GS_INK_WARN, line);
	}
	if (s->failed_reads) {
		snprintf(line, sizeof(line), "%llu files of /proc could not be read",
			 (unsigned long long)s->failed_reads);
		put_row(page, "", GS_INK_WARN, line);
	}
}

/* The command with the number of the process that was given, where that is one with all it started. */
static const char *name_process(const struct gs_job_report *job, const char *command, char out[128])
{
	const char *at =
		command && job->command[0] && job->n_pids ? strstr(command, "-p PID") : NULL;

	if (!at)
		return command;
	snprintf(out, 128, "%.*s-p %u%s", (int)(at - command), command, job->pids[0],
		 at + strlen("-p PID"));
	return out;
}

/* One job in sections: the verdict and what follows from it are the last to lose lines. */
static void put_job(struct gs_fit *fit, struct gs_page *page, const struct gs_job_report_session *s,
		    const struct gs_job_report *job, const struct gs_job_report_style *style)
{
	struct gs_verdict_text verdict = gs_verdict_text_of(&job->verdict);
	char command[128];

	verdict.command = name_process(job, verdict.command, command);
	gs_page_fit_section(fit, N_KEEP_VERDICT, NULL);
	gs_text_verdict_table(page, &verdict);
	put_head(page, s, job);
	gs_page_fit_section(fit, N_KEEP_COMMAND, "-v");
	put_command(page, job);
	gs_page_fit_section(fit, N_KEEP_CLASS, "-v");
	put_verdict(page, job);
	gs_page_fit_section(fit, N_KEEP_ADVICE, "-v");
	if (style->advice)
		put_advice(page, job);
	gs_page_fit_section(fit, N_KEEP_TIMES, "-v");
	put_times(page, s, job);
	gs_page_fit_section(fit, N_KEEP_COUNTS, "-v");
	put_counts(page, job);
	gs_page_fit_section(fit, N_KEEP_RANKS, "-v");
	put_ranks(page, job, style->verbose);
	gs_page_fit_section(fit, N_KEEP_MPI, "-v");
	gs_job_report_each_mpi_line(job, style->verbose, put_line, page);
	gs_page_fit_section(fit, N_KEEP_DETAIL, "-v");
	if (style->syscalls)
		gs_job_report_each_detail_line(job, style->verbose, put_line, page);
	if (style->verbose)
		put_figures(page, job);
	gs_pen_yield(page->pen);
}

/* Jobs that most need help first: those with the lowest score, and of one score those of the most processors. */
static int compare_need(const void *a, const void *b)
{
	const struct gs_job_report *x = *(const struct gs_job_report *const *)a;
	const struct gs_job_report *y = *(const struct gs_job_report *const *)b;
	double p = isnan(x->verdict.score) ? 101 : x->verdict.score;
	double q = isnan(y->verdict.score) ? 101 : y->verdict.score;
	double c = x->figures.v[GS_FIGURE_CPUS], d = y->figures.v[GS_FIGURE_CPUS];

	if (p != q)
		return p < q ? -1 : 1;
	return (c < d) - (c > d);
}

static void jobs_head(struct gs_grid *g)
{
	static const char *const right[] = {"procs", "CPU %", "memory", "score"};

	gs_grid_left(g, GS_INK_DIM, "job", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "user", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(right); i++)
		gs_grid_right(g, GS_INK_DIM, right[i]);
	gs_grid_rest(g, GS_INK_DIM, "verdict (share of wall time)", GS_CUT_END);
}

static void jobs_row(struct gs_grid *g, const struct gs_job_report *job)
{
	const struct gs_verdict *v = &job->verdict;
	const struct gs_figures *f = &job->figures;
	char text[sizeof(v->title) + 32];

	gs_grid_left(g, GS_INK_PLAIN, job->job.id, GS_CUT_MIDDLE);
	gs_grid_left(g, GS_INK_PLAIN, job->job.user[0] ? job->job.user : "-", GS_CUT_END);
	snprintf(text, sizeof(text), "%u", job->n_processes_seen);
	gs_grid_right(g, GS_INK_PLAIN, text);
	gs_grid_right(g, GS_INK_PLAIN, format_number(text, f->v[GS_FIGURE_CPU], "%.1f"));
	gs_grid_right(g, GS_INK_PLAIN, bytes_text(text, f->v[GS_FIGURE_MEMORY_USED]));
	gs_grid_right(g, score_ink(v->score), format_number(text, v->score, "%.0f"));
	if (!v->is_unknown && v->share >= 0)
		snprintf(text, sizeof(text), "%s (%.0f %%)", v->title, 100 * v->share);
	else
		snprintf(text, sizeof(text), "%s", v->title);
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

static void put_jobs(struct gs_page *page, const struct gs_job_report_session *s)
{
	const struct gs_job_report **jobs GS_FREE = calloc(s->n_jobs, sizeof(*jobs));
	size_t n = s->n_jobs < TABLE_JOBS ? s->n_jobs : TABLE_JOBS;
	struct gs_grid grid = {.page = page, .measuring = true};
	char line[128];

	if (!jobs) {
		gs_pen_check(page->pen, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < s->n_jobs; i++)
		jobs[i] = &s->jobs[i];
	qsort(jobs, s->n_jobs, sizeof(*jobs), compare_need);
	for (int pass = 0; pass < 2; pass++) {
		jobs_head(&grid);
		for (size_t i = 0; i < n; i++)
			jobs_row(&grid, jobs[i]);
		if (pass == 0)
			gs_grid_fit(&grid, 0, strlen("starved of CPUs by others (100 %)"));
	}
	if (n < s->n_jobs) {
		snprintf(line, sizeof(line), "... and %zu more, with higher scores", s->n_jobs - n);
		gs_page_rest(page, GS_INK_DIM, line, GS_CUT_END);
		gs_page_line(page);
	}
}

void gs_job_report_put_table(struct gs_pen *pen, const struct gs_job_report_session *s,
			     const struct gs_job_report_style *style)
{
	bool is_table = s->n_jobs > 1 && !style->verbose;
	struct gs_page page;
	struct gs_fit fit;

	gs_page_init(&page, pen, style->width, style->color);
	gs_page_fit_begin(&fit, &page);
	if (is_table) {
		gs_page_fit_section(&fit, TABLE_JOBS + 2, NULL);
		put_jobs(&page, s);
	}
	for (size_t i = 0; i < s->n_jobs && !is_table; i++) {
		if (i)
			gs_page_line(&page);
		put_job(&fit, &page, s, &s->jobs[i], style);
	}
	gs_page_fit_section(&fit, N_KEEP_SOURCES, "-v");
	if (s->n_jobs)
		gs_page_line(&page);
	put_sources(&page, s, style->verbose);
	gs_page_fit_section(&fit, N_KEEP_LOST, NULL);
	put_open_requests(&page, s);
	if (is_table)
		put_row(&page, "more", GS_INK_DIM,
			"gpuscope job -v shows each job in full; -j ID, --cgroup PATH or -p PID one");
	gs_page_fit_end(&fit, style->verbose ? 0 : GS_FIT_SCREEN_LINES);
	gs_page_fini(&page);
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
		live_head(&grid, live_detail_of(&page));
		for (size_t i = 0; i < n; i++)
			live_row(&grid, &s->jobs[i], live_detail_of(&page));
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
