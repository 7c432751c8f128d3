/* A report as one HTML file that needs nothing else: the score and what it is made of, the time of
 * the job's threads as a bar, tables of what they did, advice. Whatever a bar or a colour says
 * stands beside it as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/job_report/html.h"
#include "analysis/job_report/report_int.h"

#define HTML_ROWS 500

static const char style_of_reports[] =
	".g{display:grid;grid-template-columns:repeat(auto-fit,minmax(17em,1fr));gap:1em;margin:"
	"1em 0}"
	".k{background:var(--card);border-radius:.5em;padding:.7em 1em;min-width:0}"
	".k h3{margin:0 0 .4em;font-size:1em}.big{font-size:2em;font-weight:600;line-height:1.2}"
	".dim{color:var(--dim)}.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--"
	"bad)}"
	"ul{margin:.3em 0;padding-left:1.2em}"
	".m0{display:block;height:.6em;background:var(--line);border-radius:.3em;overflow:hidden;"
	"min-width:5em}.m0>i{display:block;height:100%;background:var(--mark)}.m0>i.neg{background:"
	"var(--bad)}"
	".bar{display:flex;height:1.6em;border-radius:.3em;overflow:hidden;background:var(--line)}"
	".bar>i{display:block;height:100%;border-right:1px solid var(--page);box-sizing:border-box}"
	".sw{display:inline-block;width:.8em;height:.8em;border-radius:.15em;margin-right:.5em}"
	".c0{background:#2e8b57}.c1{background:#c9a227}.c2{background:#b5562b}.c3{background:#"
	"7a5cc2}"
	".c4{background:#b8365e}.c5{background:#2a7fbf}.c6{background:#8a9199}.c7{background:#"
	"5f8f8f}"
	".c8{background:#a06a9e}.c9{background:#c3c8ce}"
	"td.l{white-space:normal;min-width:12em}dl{display:grid;grid-template-columns:fit-content("
	"10em) 1fr;gap:.2em "
	"1em;margin:0}dt{color:var(--dim)}dd{margin:0}"
	".h{display:inline-flex;align-items:flex-end;height:1.2em;gap:1px}.h>i{display:block;width:"
	"4px;"
	"background:var(--mark)}nav a{margin-right:1em}section{border-top:2px solid var(--line)}";

static const char *class_of_score(double score)
{
	return isnan(score) ? "dim" : score >= 70 ? "good" : score >= 40 ? "warn" : "bad";
}

static void put_name(struct gs_pen *pen, const char *name)
{
	gs_pen_puts(pen, "<bdi>");
	gs_job_report_html_text(pen, name);
	gs_pen_puts(pen, "</bdi>");
}

static void name_cell(struct gs_pen *pen, const char *name)
{
	gs_pen_puts(pen, "<tr><td class=w title=\"");
	gs_job_report_html_text(pen, name);
	gs_pen_puts(pen, "\">");
	put_name(pen, name);
	gs_pen_puts(pen, "</td>");
}

static void text_cell(struct gs_pen *pen, const char *text)
{
	gs_pen_puts(pen, "<td class=n>");
	gs_job_report_html_text(pen, text);
	gs_pen_puts(pen, "</td>");
}

static void count_cell(struct gs_pen *pen, uint64_t v)
{
	char text[GS_FMT_BYTES];

	text_cell(pen, gs_fmt_count(text, v));
}

static void bytes_cell(struct gs_pen *pen, double v)
{
	char text[GS_FMT_BYTES];

	text_cell(pen, v >= 0 ? gs_fmt_bytes(text, (uint64_t)v) : "-"); /* NAN is not */
}

static void ns_cell(struct gs_pen *pen, double v)
{
	char text[GS_FMT_BYTES];

	text_cell(pen, v >= 0 ? gs_fmt_ns(text, (uint64_t)v) : "-");
}

/* Rows that were left out are counted. */
static void table_end(struct gs_pen *pen, size_t n, size_t columns)
{
	if (n > HTML_ROWS)
		gs_pen_printf(pen, "<tr><td colspan=%zu class=dim>and %zu more</td></tr>\n",
			      columns, n - HTML_ROWS);
	gs_job_report_html_table_end(pen);
	gs_pen_yield(pen);
}

static void put_fact(struct gs_pen *pen, const char *what, const char *text)
{
	if (!text[0])
		return;
	gs_pen_printf(pen, "<dt>%s</dt><dd>", what);
	put_name(pen, text);
	gs_pen_puts(pen, "</dd>");
}

/* --- the top --- */

static void put_who(struct gs_pen *pen, const struct gs_job_report_session *s,
		    const struct gs_job_report *job, size_t i)
{
	char text[GS_FMT_BYTES];

	gs_pen_printf(pen, "<section id=job%zu aria-labelledby=name%zu><h2 id=name%zu>Job ", i, i,
		      i);
	put_name(pen, job->job.id[0] ? job->job.id : "?");
	if (job->job.name[0]) {
		gs_pen_puts(pen, " <span class=dim>");
		put_name(pen, job->job.name);
		gs_pen_puts(pen, "</span>");
	}
	gs_pen_puts(pen, "</h2>\n<dl>");
	put_fact(pen, "user", job->job.user);
	put_fact(pen, "command", job->command);
	put_fact(pen, "account", job->job.account);
	put_fact(pen, "partition", job->job.partition);
	put_fact(pen, "cluster", job->job.cluster);
	put_fact(pen, "nodes", job->job.nodes[0] ? job->job.nodes : s->host);
	put_fact(pen, "measured", gs_fmt_ns(text, job->usage.elapsed_ns));
	put_fact(pen, "now", job->ended ? "ended" : "was still running");
	gs_pen_puts(pen, "</dl>\n");
}

static void put_meter(struct gs_pen *pen, double part, double whole)
{
	double ratio = isnan(part) || !(fabs(whole) > 0) ? 0 : fmin(1, fabs(part / whole));

	gs_pen_printf(pen, "<span class=m0 aria-hidden=true><i%s style=\"width:",
		      part < 0 ? " class=neg" : "");
	gs_job_report_html_number(pen, 100 * ratio, 1);
	gs_pen_puts(pen, "%\"></i></span>");
}

static void put_score(struct gs_pen *pen, const struct gs_verdict *v)
{
	static const char *const heads[] = {"Part", "#Points", "#Of", "", "Because", NULL};

	gs_pen_puts(pen, "<div class=g><div class=k><h3>Efficiency</h3><div class=\"big ");
	gs_pen_puts(pen, class_of_score(v->score));
	gs_pen_puts(pen, "\">");
	gs_job_report_html_number(pen, v->score, 1);
	gs_pen_puts(pen, " <span class=dim>of 100</span></div>");
	put_meter(pen, v->score, 100);
	gs_pen_puts(pen, "</div><div class=k><h3>Class</h3><div class=big>");
	put_name(pen, v->job_class);
	gs_pen_puts(pen, "</div><div class=dim>confidence ");
	gs_job_report_html_number(pen, v->confidence, 2);
	gs_pen_puts(pen, "</div><ul>");
	for (size_t i = 0; i < v->n_evidence; i++) {
		gs_pen_puts(pen, "<li>");
		gs_job_report_html_text(pen, v->evidence[i]);
		gs_pen_puts(pen, "</li>");
	}
	gs_pen_puts(pen, "</ul></div></div>\n");
	if (!v->n_parts)
		return;
	gs_pen_puts(pen, "<h3>What the score is made of</h3>");
	gs_job_report_html_table(pen, "parts of the score", heads);
	for (size_t i = 0; i < v->n_parts; i++) {
		const struct gs_verdict_part *p = &v->part[i];

		name_cell(pen, p->name);
		gs_job_report_html_cell(pen, p->points, 1);
		gs_job_report_html_cell(pen, p->max_points, 0);
		gs_pen_puts(pen, "<td>");
		put_meter(pen, p->points, p->max_points);
		gs_pen_puts(pen, "</td><td class=l>");
		gs_job_report_html_text(pen, p->because);
		gs_pen_puts(pen, "</td></tr>\n");
	}
	gs_job_report_html_table_end(pen);
}

static void put_advice(struct gs_pen *pen, const struct gs_verdict *v)
{
	if (!v->n_advice)
		return;
	gs_pen_puts(pen, "<h3>Advice</h3><div class=g>");
	for (size_t i = 0; i < v->n_advice; i++) {
		const struct gs_advice *a = &v->advice[i];

		gs_pen_puts(pen, "<div class=k><h3>");
		gs_job_report_html_text(pen, a->fact);
		gs_pen_puts(pen, "</h3><div>");
		gs_job_report_html_text(pen, a->cause);
		gs_pen_puts(pen, "</div><div><b>Next time: </b>");
		gs_job_report_html_text(pen, a->next);
		gs_pen_puts(pen, "</div><div class=dim>");
		gs_job_report_html_text(pen, a->benefit);
		gs_pen_puts(pen, "</div></div>\n");
	}
	gs_pen_puts(pen, "</div>\n");
}

/* --- time --- */

static void put_times(struct gs_pen *pen, const struct gs_job_report_session *s,
		      const struct gs_job_report *job)
{
	static const char *const heads[] = {"Threads were", "#Time", "#Percent", "Source", NULL};
	struct gs_job_report_part part[GS_JOB_PARTS];
	uint64_t all_ns = gs_job_report_account(s, job, part);

	gs_pen_puts(pen, "<h3>Where the time of its threads went</h3>\n");
	if (!all_ns) {
		gs_pen_puts(pen, "<p class=dim>Not known, or no time was spent.</p>\n");
		return;
	}
	gs_pen_puts(pen, "<div class=bar aria-hidden=true>");
	for (unsigned i = 0; i < GS_JOB_PARTS; i++) {
		if (!part[i].ns)
			continue;
		gs_pen_printf(pen, "<i class=c%u title=\"%s\" style=\"width:", i, part[i].title);
		gs_job_report_html_number(pen, part[i].share_pct, 2);
		gs_pen_puts(pen, "%\"></i>");
	}
	gs_pen_puts(pen, "</div>\n");
	gs_job_report_html_table(pen, "time of the threads", heads);
	for (unsigned i = 0; i < GS_JOB_PARTS; i++) {
		if (!part[i].ns)
			continue;
		gs_pen_printf(pen, "<tr><td><span class=\"sw c%u\" aria-hidden=true></span>%s</td>",
			      i, part[i].title);
		ns_cell(pen, (double)part[i].ns);
		gs_job_report_html_cell(pen, part[i].share_pct, 1);
		gs_pen_puts(pen, "<td class=l>");
		gs_job_report_html_text(pen, part[i].source);
		gs_pen_puts(pen, "</td></tr>\n");
	}
	gs_job_report_html_table_end(pen);
	if (GS_JOB_HIDES_CALLS(job))
		gs_pen_puts(pen, "<p class=dim>" GS_JOB_HIDDEN_TEXT "</p>\n");
}

/* --- tables --- */

static void put_hist(struct gs_pen *pen, const uint32_t hist[GS_TASKSTATS_LOG2])
{
	char a[GS_FMT_BYTES], b[GS_FMT_BYTES];
	unsigned first = GS_TASKSTATS_LOG2, last = 0;
	uint32_t most = 0;

	gs_pen_puts(pen, "<td>");
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++)
		if (hist[i]) {
			first = first < i ? first : i;
			last = i;
			most = hist[i] > most ? hist[i] : most;
		}
	if (most) {
		gs_fmt_ns(a, first ? 1ull << first : 0);
		gs_fmt_ns(b, 2ull << last);
		gs_pen_printf(pen,
			      "%s <span class=h role=img aria-label=\"histogram from %s to %s\">",
			      a, a, b);
		for (unsigned i = first; i <= last; i++)
			gs_pen_printf(pen, "<i style=\"height:%u%%\"></i>",
				      hist[i] ? 10 + (unsigned)(90ull * hist[i] / most) : 0);
		gs_pen_printf(pen, "</span> %s", b);
	}
	gs_pen_puts(pen, "</td>");
}

static void put_calls(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {"System call", "#Calls", "#Failed",       "#Time",
					    "#Each",       "#Most",  "How long each", NULL};

	if (!job->n_calls)
		return;
	gs_pen_puts(pen, "<h3>System calls</h3>");
	gs_job_report_html_table(pen, "system calls", heads);
	for (size_t i = 0; i < job->n_calls && i < HTML_ROWS; i++) {
		const struct gs_job_report_call *c = &job->calls[i];
		double total = c->timed ? (double)c->total_ns : NAN;

		name_cell(pen, c->name);
		count_cell(pen, c->calls);
		count_cell(pen, c->errors);
		ns_cell(pen, total);
		ns_cell(pen, c->calls ? total / (double)c->calls : NAN);
		ns_cell(pen, c->timed ? (double)c->max_ns : NAN);
		put_hist(pen, c->hist);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, job->n_calls, 7);
}

static void put_waits(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {
		"Waits for a CPU", "#Waits",      "#p50",          "#p95", "#p99",
		"#Wake-ups",       "#Migrations", "How long each", NULL};
	const struct gs_taskstats *w = &job->usage.work;
	uint32_t hist[GS_TASKSTATS_LOG2];

	if (!job->usage.sched_rows || !gs_taskstats_queue_timed(w))
		return;
	gs_pen_puts(pen, "<h3>Waits for a CPU</h3>");
	gs_job_report_html_table(pen, "waits for a CPU", heads);
	name_cell(pen, "all threads");
	count_cell(pen, w->queue_waits);
	ns_cell(pen, gs_taskstats_queue_quantile_ns(w, 0.5));
	ns_cell(pen, gs_taskstats_queue_quantile_ns(w, 0.95));
	ns_cell(pen, gs_taskstats_queue_quantile_ns(w, 0.99));
	count_cell(pen, w->wakeups);
	count_cell(pen, w->migrations);
	gs_job_report_queue_hist(w, hist);
	put_hist(pen, hist);
	gs_pen_puts(pen, "</tr>\n");
	gs_job_report_html_table_end(pen);
}

static void put_files(struct gs_pen *pen, const struct gs_taskstats_tables *t)
{
	static const char *const heads[] = {"File system", "Type",    "#Reads", "#Read", "#Writes",
					    "#Written",    "#Failed", "#Time",  NULL};
	char name[GS_JOB_ROW_BYTES];

	if (!t->n_mounts)
		return;
	gs_pen_puts(pen, "<h3>Files</h3>");
	gs_job_report_html_table(pen, "file systems", heads);
	for (size_t i = 0; i < t->n_mounts && i < HTML_ROWS; i++) {
		const struct gs_taskstats_mount_row *m = &t->mounts[i];

		gs_job_report_name_mount(m, name);
		name_cell(pen, name);
		gs_pen_puts(pen, "<td>");
		gs_job_report_html_text(pen, m->type[0] ? m->type : gs_taskstats_io_name(m->kind));
		gs_pen_puts(pen, "</td>");
		count_cell(pen, m->io.reads);
		bytes_cell(pen, (double)m->io.read_bytes);
		count_cell(pen, m->io.writes);
		bytes_cell(pen, (double)m->io.write_bytes);
		count_cell(pen, m->io.errors);
		ns_cell(pen, (double)m->io.total_ns);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, t->n_mounts, 8);
}

static void put_devices(struct gs_pen *pen, const struct gs_taskstats_tables *t)
{
	static const char *const heads[] = {"Device",   "#Reads",      "#Read",         "#Writes",
					    "#Written", "#Failed",     "#Each",         "#Most",
					    "#Flushes", "#Each flush", "How long each", NULL};
	char name[GS_JOB_ROW_BYTES];

	if (!t->n_disks)
		return;
	gs_pen_puts(pen, "<h3>Block devices</h3>");
	gs_job_report_html_table(pen, "block devices", heads);
	for (size_t i = 0; i < t->n_disks && i < HTML_ROWS; i++) {
		const struct gs_taskstats_disk *d = &t->disks[i].disk;
		uint64_t n = d->reads + d->writes;

		gs_job_report_name_disk(&t->disks[i], name);
		name_cell(pen, name);
		count_cell(pen, d->reads);
		bytes_cell(pen, (double)d->read_bytes);
		count_cell(pen, d->writes);
		bytes_cell(pen, (double)d->write_bytes);
		count_cell(pen, d->errors);
		ns_cell(pen, n ? (double)(d->total_ns / n) : NAN);
		ns_cell(pen, n ? (double)d->max_ns : NAN);
		count_cell(pen, d->flushes);
		ns_cell(pen, d->flushes ? (double)(d->flush_ns / d->flushes) : NAN);
		put_hist(pen, d->hist);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, t->n_disks, 11);
}

static void put_peers(struct gs_pen *pen, const struct gs_taskstats_tables *t)
{
	static const char *const heads[] = {
		"Peer",      "#Sent",           "#Received",   "#Connected", "#Refused",
		"#Accepted", "#There and back", "#Sent again", NULL};
	char name[GS_JOB_ROW_BYTES];

	if (!t->n_peers)
		return;
	gs_pen_puts(pen, "<h3>Network</h3>");
	gs_job_report_html_table(pen, "peers", heads);
	for (size_t i = 0; i < t->n_peers && i < HTML_ROWS; i++) {
		const struct gs_taskstats_peer *p = &t->peers[i].peer;

		gs_job_report_name_peer(&t->peers[i], name);
		name_cell(pen, name);
		bytes_cell(pen, (double)p->sent_bytes);
		bytes_cell(pen, (double)p->received_bytes);
		count_cell(pen, p->connects);
		count_cell(pen, p->failed_connects);
		count_cell(pen, p->accepts);
		ns_cell(pen, p->rtt_count ? (double)(p->rtt_ns / p->rtt_count) : NAN);
		count_cell(pen, p->retransmits);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, t->n_peers, 8);
}

static void put_gpus(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {"GPU", "Used", NULL};
	const struct gs_figures *f = &job->figures;

	if (!gs_job_report_knows(job, GS_JOB_KNOWS_GPU) || !job->usage.gpu_mask)
		return;
	gs_pen_puts(pen, "<h3>GPUs</h3><p>utilisation ");
	gs_job_report_html_number(pen, f->v[GS_FIGURE_GPU], 1);
	gs_pen_puts(pen, " %, memory ");
	gs_job_report_html_number(pen, f->v[GS_FIGURE_GPU_MEMORY], 1);
	gs_pen_puts(pen, " %, energy ");
	gs_job_report_html_number(pen, f->v[GS_FIGURE_GPU_ENERGY], 0);
	gs_pen_puts(pen, " J</p>");
	gs_job_report_html_table(pen, "GPUs", heads);
	for (unsigned i = 0; i < 64; i++)
		if (job->usage.gpu_mask >> i & 1)
			gs_pen_printf(pen, "<tr><td>%u</td><td>%s</td></tr>\n", i,
				      job->usage.gpu_idle_mask >> i & 1
					      ? "<span class=bad>never</span>"
					      : "yes");
	gs_job_report_html_table_end(pen);
}

static void put_ranks(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {"#Rank",        "Step",   "#On CPU",     "#Waiting",
					    "#For the GPU", "#GPU %", "#GPU memory", "#Files",
					    "#Network",     NULL};

	if (job->n_ranks < 2)
		return;
	gs_pen_puts(pen, "<h3>Ranks</h3><p>");
	gs_job_report_html_text(pen, job->imbalance.evidence[0] ? job->imbalance.evidence
								: "too little work to compare");
	gs_pen_puts(pen, "</p>");
	gs_job_report_html_table(pen, "ranks", heads);
	for (size_t i = 0; i < job->n_ranks && i < HTML_ROWS; i++) {
		const struct gs_job_report_rank *r = &job->ranks[i];

		gs_pen_printf(pen, "<tr%s><td class=n>%d</td><td>",
			      !isnan(job->imbalance.ratio) && job->imbalance.rank == r->rank
				      ? " class=s"
				      : "",
			      r->rank);
		gs_job_report_html_text(pen, r->step);
		gs_pen_puts(pen, "</td>");
		ns_cell(pen, r->cpu_s * 1e9);
		ns_cell(pen, r->wait_s * 1e9);
		ns_cell(pen, r->gpu_wait_s * 1e9);
		gs_job_report_html_cell(pen, 100 * r->gpu_ratio, 1);
		bytes_cell(pen, (double)r->gpu_memory_bytes);
		bytes_cell(pen, r->file_bytes);
		bytes_cell(pen, r->net_bytes);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, job->n_ranks, 9);
}

static void put_mpi_peers(struct gs_pen *pen, const struct gs_job_mpi_rank *r)
{
	static const char *const heads[] = {"Direction",  "#Peer",  "Communicator",
					    "#Transfers", "#Bytes", NULL};

	if (!r->n_peers)
		return;
	gs_job_report_html_table(pen, "peers in MPI", heads);
	for (size_t i = 0; i < r->n_peers && i < HTML_ROWS; i++) {
		const struct gs_mpi_peer_summary *p = &r->peers[i];

		name_cell(pen, gs_job_report_mpi_direction(p->direction));
		if (p->peer >= 0)
			count_cell(pen, (uint64_t)p->peer);
		else
			gs_pen_puts(pen, "<td class=n>any</td>");
		gs_pen_printf(pen, "<td>0x%" PRIx64 "</td>", (uint64_t)p->comm);
		count_cell(pen, p->calls);
		bytes_cell(pen, p->unsized == p->calls ? NAN : (double)p->bytes);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, r->n_peers, 5);
}

static void put_mpi_functions(struct gs_pen *pen, const struct gs_job_mpi_rank *r)
{
	static const char *const heads[] = {"Function", "#Calls", "#Failed", "#Time",
					    "#Most",    "#Bytes", NULL};

	gs_job_report_html_table(pen, "functions of MPI", heads);
	for (size_t i = 0; i < r->n_functions && i < HTML_ROWS; i++) {
		const struct gs_job_mpi_function *f = &r->functions[i];

		name_cell(pen, f->name);
		count_cell(pen, f->calls);
		count_cell(pen, f->errors);
		ns_cell(pen, (double)f->total_ns);
		ns_cell(pen, (double)f->max_ns);
		bytes_cell(pen, (double)f->bytes);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, r->n_functions, 6);
}

static void put_mpi(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {"Rank", "#Process", "#Calls",    "#In MPI",
					    "#Of",  "#Sent",    "#Received", NULL};
	char name[GS_JOB_ROW_BYTES];

	if (!job->mpi.n_ranks)
		return;
	gs_pen_puts(pen, "<h3>MPI</h3>");
	gs_job_report_html_table(pen, "ranks in MPI", heads);
	for (size_t i = 0; i < job->mpi.n_ranks && i < HTML_ROWS; i++) {
		const struct gs_job_mpi_rank *r = &job->mpi.ranks[i];
		struct gs_job_mpi_moved moved;

		gs_job_mpi_moved_of(r, &moved);
		gs_job_report_name_mpi_rank(r, name);
		name_cell(pen, name);
		count_cell(pen, r->pid);
		count_cell(pen, r->calls);
		ns_cell(pen, (double)r->total_ns);
		ns_cell(pen, (double)r->span_ns);
		bytes_cell(pen, (double)moved.sent_bytes);
		bytes_cell(pen, (double)moved.received_bytes);
		gs_pen_puts(pen, "</tr>\n");
	}
	table_end(pen, job->mpi.n_ranks, 7);
	for (size_t i = 0; i < job->mpi.n_ranks && i < HTML_ROWS; i++) {
		const struct gs_job_mpi_rank *r = &job->mpi.ranks[i];

		gs_job_report_name_mpi_rank(r, name);
		gs_pen_puts(pen, "<details><summary>");
		gs_job_report_html_text(pen, name);
		gs_pen_puts(pen, "</summary>");
		put_mpi_functions(pen, r);
		put_mpi_peers(pen, r);
		gs_pen_puts(pen, "</details>\n");
	}
}

/* Pressure and what has no table of its own is in the lines that the table for people has, too. */
static void put_line(void *ctx, const char *lead, const char *line)
{
	static const char *const kept[] = {"page cache", "TCP", "pressure", "OOM"};

	for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++)
		if (strcmp(lead, kept[i]) == 0)
			put_fact(ctx, kept[i], line);
}

static void put_figures(struct gs_pen *pen, const struct gs_job_report *job)
{
	static const char *const heads[] = {"Figure", "#Value", NULL};

	gs_pen_puts(pen, "<h3>More</h3><dl>");
	gs_job_report_each_detail_line(job, false, put_line, pen);
	gs_pen_puts(pen, "</dl><details><summary>All figures</summary>");
	gs_job_report_html_table(pen, "figures", heads);
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++) {
		if (isnan(job->figures.v[i]))
			continue;
		name_cell(pen, gs_figure_key(i));
		gs_job_report_html_cell(pen, job->figures.v[i], 2);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_job_report_html_table_end(pen);
	gs_pen_puts(pen, "</details>\n");
}

/* --- the page --- */

static void put_contents(struct gs_pen *pen, const struct gs_job_report_session *s)
{
	static const char *const heads[] = {"Job", "Name", "User", "Class", "#Score", NULL};

	if (s->n_jobs < 2)
		return;
	gs_job_report_html_table(pen, "jobs", heads);
	for (size_t i = 0; i < s->n_jobs; i++) {
		const struct gs_job_report *job = &s->jobs[i];
		const char *texts[] = {job->job.name, job->job.user, job->verdict.job_class};

		gs_pen_printf(pen, "<tr><td><a href=\"#job%zu\">", i);
		put_name(pen, job->job.id[0] ? job->job.id : "?");
		gs_pen_puts(pen, "</a></td>");
		for (size_t k = 0; k < GS_ARRAY_LEN(texts); k++) {
			gs_pen_puts(pen, "<td class=w>");
			put_name(pen, texts[k]);
			gs_pen_puts(pen, "</td>");
		}
		gs_job_report_html_cell(pen, job->verdict.score, 1);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_job_report_html_table_end(pen);
}

static void put_session(struct gs_pen *pen, const struct gs_job_report_session *s)
{
	char text[64];

	gs_pen_puts(pen, "<footer><h2>How it was measured</h2><dl>");
	put_fact(pen, "machine", s->host);
	put_fact(pen, "kernel", s->kernel);
	put_fact(pen, "gpuscope", GS_VERSION);
	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++)
		put_fact(pen, gs_job_report_family_key(i), s->source[i]);
	if (s->unfinished)
		put_fact(pen, "unfinished",
			 "saved while the recorder ran; it was killed, or still runs");
	put_fact(pen, "lost", s->loss[0] ? s->loss : "nothing");
	if (s->failed_reads) {
		snprintf(text, sizeof(text), "%llu files of /proc could not be read",
			 (unsigned long long)s->failed_reads);
		put_fact(pen, "not read", text);
	}
	if (s->open_bytes)
		put_fact(pen, "requests to devices without an end",
			 gs_fmt_bytes(text, s->open_bytes));
	gs_pen_puts(pen, "</dl></footer>\n");
}

void gs_job_report_put_html_report(struct gs_pen *pen, const struct gs_job_report_session *s,
				   const struct gs_job_report_style *style)
{
	char title[256];

	if (s->n_jobs == 1)
		snprintf(title, sizeof(title), "gpuscope: job %s", s->jobs[0].job.id);
	else
		snprintf(title, sizeof(title), "gpuscope: %zu jobs on %s", s->n_jobs, s->host);
	gs_job_report_html_begin(pen, title, style_of_reports);
	gs_pen_puts(pen, "<main><h1>");
	gs_job_report_html_text(pen, title);
	gs_pen_puts(pen, "</h1>\n");
	put_contents(pen, s);
	for (size_t i = 0; i < s->n_jobs; i++) {
		const struct gs_job_report *job = &s->jobs[i];

		put_who(pen, s, job, i);
		put_score(pen, &job->verdict);
		if (style->advice)
			put_advice(pen, &job->verdict);
		put_times(pen, s, job);
		put_gpus(pen, job);
		put_ranks(pen, job);
		put_mpi(pen, job);
		if (style->syscalls)
			put_calls(pen, job);
		put_waits(pen, job);
		put_files(pen, &job->tables);
		put_devices(pen, &job->tables);
		put_peers(pen, &job->tables);
		put_figures(pen, job);
		gs_pen_puts(pen, "</section>\n");
		gs_pen_yield(pen);
	}
	gs_pen_puts(pen, "</main>");
	put_session(pen, s);
	gs_job_report_html_end(pen);
}
