/*
 * The detail of a job's report: histograms of system calls, file systems, block devices and peers,
 * the page cache's share, pressure. In trees, in lines of CSV and in lines of text.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/job_report/report_int.h"
#include "core/text/text.h"

static const char *const pressure_keys[GS_STALL_COUNT] = {
	[GS_STALL_CPU_SOME] = "cpu_some_percent",
	[GS_STALL_MEMORY_SOME] = "memory_some_percent",
	[GS_STALL_MEMORY_FULL] = "memory_full_percent",
	[GS_STALL_IO_SOME] = "io_some_percent",
	[GS_STALL_IO_FULL] = "io_full_percent",
};

/* ---- names of rows ---- */

void gs_job_report_name_disk(const struct gs_taskstats_disk_row *r, char out[GS_JOB_ROW_BYTES])
{
	if (r->name[0])
		snprintf(out, GS_JOB_ROW_BYTES, "%s", r->name);
	else
		snprintf(out, GS_JOB_ROW_BYTES, "%u:%u", r->major, r->minor);
}

void gs_job_report_name_mount(const struct gs_taskstats_mount_row *r, char out[GS_JOB_ROW_BYTES])
{
	if (r->path[0])
		snprintf(out, GS_JOB_ROW_BYTES, "%s", r->path);
	else
		snprintf(out, GS_JOB_ROW_BYTES, "%u:%u", r->major, r->minor);
}

/* The port is there when the job connected to it. */
void gs_job_report_name_peer(const struct gs_taskstats_peer_row *r, char out[GS_JOB_ROW_BYTES])
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(r->family, r->addr, text, sizeof(text));
	if (!r->port)
		snprintf(out, GS_JOB_ROW_BYTES, "%s", text);
	else
		snprintf(out, GS_JOB_ROW_BYTES, r->family == AF_INET6 ? "[%s]:%u" : "%s:%u", text,
			 r->port);
}

/* ---- trees ---- */

/* Pairs: from how many ns, how many calls. Empty places are left out. */
static void put_hist(struct gs_doc *doc, const uint32_t hist[GS_TASKSTATS_LOG2])
{
	size_t n = 0;

	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++)
		n += hist[i] != 0;
	gs_doc_begin_list(doc, "histogram", n);
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++) {
		if (!hist[i])
			continue;
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "from_ns", i ? 1ull << i : 0);
		gs_doc_put_u64(doc, "count", hist[i]);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

void gs_job_report_queue_hist(const struct gs_taskstats *w, uint32_t out[GS_TASKSTATS_LOG2])
{
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++)
		out[i] = w->queue_hist[i] < UINT32_MAX ? (uint32_t)w->queue_hist[i] : UINT32_MAX;
}

static void put_quantile(struct gs_doc *doc, const char *key, const struct gs_taskstats *w,
			 double q)
{
	double ns = gs_taskstats_queue_quantile_ns(w, q);

	gs_doc_put_u64_if(doc, key, isnan(ns) ? 0 : (uint64_t)ns, !isnan(ns));
}

static void put_scheduling(struct gs_doc *doc, const struct gs_job_report *job)
{
	const struct gs_taskstats *w = &job->usage.work;
	bool switches = gs_job_report_knows(job, GS_JOB_KNOWS_SWITCHES),
	     rows = job->usage.sched_rows;
	uint64_t n = gs_taskstats_queue_timed(w);
	uint32_t hist[GS_TASKSTATS_LOG2];

	gs_doc_begin_map(doc, "scheduling");
	gs_doc_put_u64_if(doc, "switches_voluntary", w->switches_voluntary, switches);
	gs_doc_put_u64_if(doc, "switches_forced", w->switches_forced, switches);
	gs_doc_put_u64_if(doc, "wakeups", w->wakeups, rows);
	gs_doc_put_u64_if(doc, "migrations", w->migrations, rows);
	if (rows) {
		gs_job_report_queue_hist(w, hist);
		gs_doc_begin_map(doc, "run_queue");
		gs_doc_put_u64(doc, "waits", w->queue_waits);
		gs_doc_put_u64(doc, "waits_with_length", n);
		gs_doc_put_u64_if(doc, "mean_ns", n ? w->time_ns[GS_TIME_RUNQUEUE] / n : 0, n);
		put_quantile(doc, "p50_ns", w, 0.5);
		put_quantile(doc, "p95_ns", w, 0.95);
		put_quantile(doc, "p99_ns", w, 0.99);
		put_hist(doc, hist);
		gs_doc_end(doc);
	} else {
		gs_doc_put_null(doc, "run_queue");
	}
	gs_doc_end(doc);
}

static void put_calls(struct gs_doc *doc, const struct gs_job_report *job)
{
	gs_doc_begin_list(doc, "syscalls", job->n_calls);
	for (size_t i = 0; i < job->n_calls; i++) {
		const struct gs_job_report_call *c = &job->calls[i];
		bool known = c->timed || !c->calls;

		gs_doc_begin_map(doc, NULL);
		gs_doc_put_text(doc, "name", c->name);
		gs_doc_put_u64(doc, "calls", c->calls);
		gs_doc_put_u64(doc, "errors", c->errors);
		gs_doc_put_u64(doc, "timed", c->timed);
		gs_doc_put_u64_if(doc, "total_ns", c->total_ns, known);
		gs_doc_put_u64_if(doc, "max_ns", c->max_ns, known && (c->max_ns || !c->total_ns));
		put_hist(doc, c->hist);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_disks(struct gs_doc *doc, const struct gs_taskstats_tables *t)
{
	char name[GS_JOB_ROW_BYTES];

	gs_doc_begin_list(doc, "block_devices", t->n_disks);
	for (size_t i = 0; i < t->n_disks; i++) {
		const struct gs_taskstats_disk *d = &t->disks[i].disk;

		gs_job_report_name_disk(&t->disks[i], name);
		gs_doc_begin_map(doc, NULL);
		gs_doc_put_text(doc, "name", name);
		gs_doc_put_u64(doc, "reads", d->reads);
		gs_doc_put_u64(doc, "read_bytes", d->read_bytes);
		gs_doc_put_u64(doc, "writes", d->writes);
		gs_doc_put_u64(doc, "write_bytes", d->write_bytes);
		gs_doc_put_u64(doc, "errors", d->errors);
		gs_doc_put_u64(doc, "total_ns", d->total_ns);
		gs_doc_put_u64(doc, "max_ns", d->max_ns);
		gs_doc_put_u64(doc, "flushes", d->flushes);
		gs_doc_put_u64(doc, "flush_ns", d->flush_ns);
		gs_doc_put_u64(doc, "flush_max_ns", d->flush_max_ns);
		put_hist(doc, d->hist);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_mounts(struct gs_doc *doc, const struct gs_taskstats_tables *t)
{
	char name[GS_JOB_ROW_BYTES];

	gs_doc_begin_list(doc, "file_systems", t->n_mounts);
	for (size_t i = 0; i < t->n_mounts; i++) {
		const struct gs_taskstats_mount_row *m = &t->mounts[i];

		gs_job_report_name_mount(m, name);
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "path", name);
		gs_doc_put_text(doc, "type", m->type);
		gs_doc_put_text(doc, "kind", gs_taskstats_io_name(m->kind));
		gs_doc_put_u64(doc, "reads", m->io.reads);
		gs_doc_put_u64(doc, "read_bytes", m->io.read_bytes);
		gs_doc_put_u64(doc, "writes", m->io.writes);
		gs_doc_put_u64(doc, "write_bytes", m->io.write_bytes);
		gs_doc_put_u64(doc, "errors", m->io.errors);
		gs_doc_put_u64(doc, "total_ns", m->io.total_ns);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_peers(struct gs_doc *doc, const struct gs_taskstats_tables *t)
{
	char name[GS_JOB_ROW_BYTES];

	gs_doc_begin_list(doc, "peers", t->n_peers);
	for (size_t i = 0; i < t->n_peers; i++) {
		const struct gs_taskstats_peer *p = &t->peers[i].peer;

		gs_job_report_name_peer(&t->peers[i], name);
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "peer", name);
		gs_doc_put_u64(doc, "sends", p->sends);
		gs_doc_put_u64(doc, "sent_bytes", p->sent_bytes);
		gs_doc_put_u64(doc, "receives", p->receives);
		gs_doc_put_u64(doc, "received_bytes", p->received_bytes);
		gs_doc_put_u64(doc, "connects", p->connects);
		gs_doc_put_u64(doc, "failed_connects", p->failed_connects);
		gs_doc_put_u64(doc, "accepts", p->accepts);
		gs_doc_put_u64(doc, "retransmits", p->retransmits);
		gs_doc_put_u64_if(doc, "connect_mean_ns",
				  p->connects ? p->connect_ns / p->connects : 0, p->connects);
		gs_doc_put_u64_if(doc, "connect_max_ns", p->connect_max_ns, p->connects);
		gs_doc_put_u64_if(doc, "rtt_mean_ns", p->rtt_count ? p->rtt_ns / p->rtt_count : 0,
				  p->rtt_count);
		gs_doc_put_u64_if(doc, "rtt_max_ns", p->rtt_max_ns, p->rtt_count);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

void gs_job_report_put_pressure(struct gs_doc *doc, const double ratio[GS_STALL_COUNT],
				const struct gs_job_report_style *style)
{
	gs_doc_begin_flat(doc, "pressure");
	for (unsigned i = 0; i < GS_STALL_COUNT; i++)
		gs_doc_put_double(doc, pressure_keys[i],
				  gs_job_report_rounded(style, 100 * ratio[i]));
	gs_doc_end(doc);
}

void gs_job_report_put_detail(struct gs_doc *doc, const struct gs_job_report *job,
			      const struct gs_job_report_style *style)
{
	const struct gs_taskstats *w = &job->usage.work;
	bool io = gs_job_report_knows(job, GS_JOB_KNOWS_IO) && job->usage.io_rows;
	bool net = gs_job_report_knows(job, GS_JOB_KNOWS_NET);
	bool faults = gs_job_report_knows(job, GS_JOB_KNOWS_FAULTS);

	if (style->syscalls && gs_job_report_knows(job, GS_JOB_KNOWS_SYSCALLS))
		put_calls(doc, job);
	if (io) {
		put_mounts(doc, &job->tables);
		put_disks(doc, &job->tables);
	}
	gs_doc_begin_map(doc, "page_cache");
	gs_doc_put_u64_if(doc, "cached_read_bytes", gs_taskstats_cached_bytes(w), io);
	gs_doc_put_u64_if(doc, "device_read_bytes", w->disk_read_bytes, io);
	gs_doc_put_u64_if(doc, "device_write_bytes", w->disk_write_bytes, io);
	gs_doc_end(doc);
	if (net)
		put_peers(doc, &job->tables);
	gs_doc_begin_flat(doc, "tcp");
	gs_doc_put_u64_if(doc, "connects", w->net_connects, net);
	gs_doc_put_u64_if(doc, "accepts", w->net_accepts, net);
	gs_doc_put_u64_if(doc, "retransmits", w->net_retransmits, net);
	gs_doc_end(doc);
	put_scheduling(doc, job);
	gs_doc_begin_flat(doc, "page_faults");
	gs_doc_put_u64_if(doc, "minor", w->faults_minor, faults);
	gs_doc_put_u64_if(doc, "major", w->faults_major, faults);
	gs_doc_end(doc);
	gs_job_report_put_pressure(doc, job->usage.pressure_ratio, style);
	gs_doc_put_double(doc, "oom_kills", job->figures.v[GS_FIGURE_OOM_KILLS]);
}

/* ---- lines of CSV ---- */

struct csv {
	struct gs_pen *pen;
	const char *job;
};

static void csv_line(const struct csv *c, const char *table, const char *row, const char *key,
		     uint64_t value)
{
	const char *const texts[] = {c->job, table, row, key};

	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		gs_pen_check(c->pen, gs_text_csv(&c->pen->buf, texts[i]));
		gs_pen_puts(c->pen, ",");
	}
	gs_pen_printf(c->pen, "%" PRIu64 GS_TEXT_CSV_EOL, value);
}

static void csv_hist(const struct csv *c, const char *table, const char *row,
		     const uint32_t hist[GS_TASKSTATS_LOG2])
{
	char key[32];

	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++) {
		if (!hist[i])
			continue;
		snprintf(key, sizeof(key), "from_%llu_ns", i ? 1ull << i : 0);
		csv_line(c, table, row, key, hist[i]);
	}
}

static void csv_calls(const struct csv *c, const struct gs_job_report *job)
{
	for (size_t i = 0; i < job->n_calls; i++) {
		const struct gs_job_report_call *call = &job->calls[i];

		csv_line(c, "syscall", call->name, "calls", call->calls);
		csv_line(c, "syscall", call->name, "errors", call->errors);
		csv_line(c, "syscall", call->name, "timed", call->timed);
		if (call->timed) {
			csv_line(c, "syscall", call->name, "total_ns", call->total_ns);
			csv_line(c, "syscall", call->name, "max_ns", call->max_ns);
		}
		csv_hist(c, "syscall", call->name, call->hist);
	}
}

static void csv_tables(const struct csv *c, const struct gs_taskstats_tables *t)
{
	char name[GS_JOB_ROW_BYTES];

	for (size_t i = 0; i < t->n_mounts; i++) {
		gs_job_report_name_mount(&t->mounts[i], name);
		csv_line(c, "file_system", name, "read_bytes", t->mounts[i].io.read_bytes);
		csv_line(c, "file_system", name, "write_bytes", t->mounts[i].io.write_bytes);
		csv_line(c, "file_system", name, "reads", t->mounts[i].io.reads);
		csv_line(c, "file_system", name, "writes", t->mounts[i].io.writes);
	}
	for (size_t i = 0; i < t->n_disks; i++) {
		const struct gs_taskstats_disk *d = &t->disks[i].disk;

		gs_job_report_name_disk(&t->disks[i], name);
		csv_line(c, "block_device", name, "read_bytes", d->read_bytes);
		csv_line(c, "block_device", name, "write_bytes", d->write_bytes);
		csv_line(c, "block_device", name, "requests", d->reads + d->writes);
		csv_line(c, "block_device", name, "total_ns", d->total_ns);
		csv_line(c, "block_device", name, "max_ns", d->max_ns);
		csv_line(c, "block_device", name, "flushes", d->flushes);
		csv_line(c, "block_device", name, "flush_ns", d->flush_ns);
		csv_line(c, "block_device", name, "flush_max_ns", d->flush_max_ns);
		csv_hist(c, "block_device", name, d->hist);
	}
	for (size_t i = 0; i < t->n_peers; i++) {
		const struct gs_taskstats_peer *p = &t->peers[i].peer;

		gs_job_report_name_peer(&t->peers[i], name);
		csv_line(c, "peer", name, "sent_bytes", p->sent_bytes);
		csv_line(c, "peer", name, "received_bytes", p->received_bytes);
		csv_line(c, "peer", name, "connects", p->connects);
		csv_line(c, "peer", name, "retransmits", p->retransmits);
	}
}

static void csv_scheduling(const struct csv *c, const struct gs_taskstats *w)
{
	uint32_t hist[GS_TASKSTATS_LOG2];

	csv_line(c, "scheduling", "threads", "wakeups", w->wakeups);
	csv_line(c, "scheduling", "threads", "migrations", w->migrations);
	csv_line(c, "scheduling", "run_queue", "waits", w->queue_waits);
	csv_line(c, "scheduling", "run_queue", "waits_with_length", gs_taskstats_queue_timed(w));
	csv_line(c, "scheduling", "run_queue", "total_ns", w->time_ns[GS_TIME_RUNQUEUE]);
	gs_job_report_queue_hist(w, hist);
	csv_hist(c, "scheduling", "run_queue", hist);
}

static void csv_mpi(const struct csv *c, const struct gs_job_mpi_rank *r)
{
	char rank[GS_JOB_ROW_BYTES], row[GS_JOB_ROW_BYTES + 96], peer[16];

	gs_job_report_name_mpi_rank(r, rank);
	csv_line(c, "mpi_rank", rank, "calls", r->calls);
	csv_line(c, "mpi_rank", rank, "total_ns", r->total_ns);
	csv_line(c, "mpi_rank", rank, "span_ns", r->span_ns);
	for (size_t i = 0; i < r->n_functions; i++) {
		const struct gs_job_mpi_function *f = &r->functions[i];

		snprintf(row, sizeof(row), "%s %s", rank, f->name);
		csv_line(c, "mpi_function", row, "calls", f->calls);
		csv_line(c, "mpi_function", row, "total_ns", f->total_ns);
		csv_line(c, "mpi_function", row, "bytes", f->bytes);
	}
	for (size_t i = 0; i < r->n_peers; i++) {
		const struct gs_mpi_peer_summary *p = &r->peers[i];

		snprintf(peer, sizeof(peer), p->peer >= 0 ? "%" PRId32 : "any", p->peer);
		snprintf(row, sizeof(row), "%s %s %s 0x%" PRIx64, rank,
			 gs_job_report_mpi_direction(p->direction), peer, p->comm);
		csv_line(c, "mpi_peer", row, "calls", p->calls);
		csv_line(c, "mpi_peer", row, "bytes", p->bytes);
	}
}

void gs_job_report_put_detail_csv(struct gs_pen *pen, const struct gs_job_report *job)
{
	const struct csv c = {pen, job->job.id};

	csv_calls(&c, job);
	if (job->usage.sched_rows)
		csv_scheduling(&c, &job->usage.work);
	csv_tables(&c, &job->tables);
	for (size_t i = 0; i < job->mpi.n_ranks; i++)
		csv_mpi(&c, &job->mpi.ranks[i]);
}

/* ---- lines of text ---- */

#define LINES_FEW 5

struct lines {
	void (*put)(void *ctx, const char *lead, const char *line);
	void *ctx;
	bool all;
};

/* Buckets as bars of one character: where the calls are, at a glance. */
static void bars_of(const uint32_t hist[GS_TASKSTATS_LOG2], char *out, size_t bytes)
{
	static const char *const bar[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	char a[GS_FMT_BYTES], b[GS_FMT_BYTES];
	unsigned first = GS_TASKSTATS_LOG2, last = 0;
	uint32_t most = 0;
	size_t n;

	out[0] = '\0';
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++) {
		if (!hist[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = hist[i] > most ? hist[i] : most;
	}
	if (!most)
		return;
	n = (size_t)snprintf(out, bytes, "%s ", gs_fmt_ns(a, first ? 1ull << first : 0));
	for (unsigned i = first; i <= last && n < bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s",
				      hist[i] ? bar[(uint64_t)hist[i] * 7 / most] : " ");
	if (n < bytes)
		snprintf(out + n, bytes - n, " %s", gs_fmt_ns(b, 2ull << last));
}

static void lines_of_calls(const struct lines *l, const struct gs_job_report *job)
{
	char line[512], bars[256], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES];
	int n;

	for (size_t i = 0; i < job->n_calls && (l->all || i < LINES_FEW); i++) {
		const struct gs_job_report_call *call = &job->calls[i];

		n = snprintf(line, sizeof(line), "%-20s %10s", call->name,
			     gs_fmt_count(a, call->calls));
		if (call->errors)
			n += snprintf(line + n, sizeof(line) - (size_t)n, ", %s failed",
				      gs_fmt_count(a, call->errors));
		if (call->timed)
			n += snprintf(line + n, sizeof(line) - (size_t)n, "  %s in all, %s at most",
				      gs_fmt_ns(b, call->total_ns), gs_fmt_ns(c, call->max_ns));
		if (call->timed && call->timed < call->calls)
			n += snprintf(line + n, sizeof(line) - (size_t)n, " (%s timed)",
				      gs_fmt_count(a, call->timed));
		bars_of(call->hist, bars, sizeof(bars));
		if (l->all && bars[0])
			snprintf(line + n, sizeof(line) - (size_t)n, "  %s", bars);
		l->put(l->ctx, i ? "" : "by call", line);
	}
}

static void lines_of_tables(const struct lines *l, const struct gs_taskstats_tables *t)
{
	char line[1024], name[GS_JOB_ROW_BYTES], bars[256];
	char a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES], d[GS_FMT_BYTES];

	for (size_t i = 0; i < t->n_mounts && (l->all || i < LINES_FEW); i++) {
		const struct gs_taskstats_mount_row *m = &t->mounts[i];

		gs_job_report_name_mount(m, name);
		snprintf(line, sizeof(line), "%-20s %s, %s: %s read, %s written", name,
			 m->type[0] ? m->type : "?", gs_taskstats_io_name(m->kind),
			 gs_fmt_bytes(a, m->io.read_bytes), gs_fmt_bytes(b, m->io.write_bytes));
		l->put(l->ctx, i ? "" : "by mount", line);
	}
	for (size_t i = 0; i < t->n_disks && (l->all || i < LINES_FEW); i++) {
		const struct gs_taskstats_disk *k = &t->disks[i].disk;
		uint64_t requests = k->reads + k->writes;
		int n;

		gs_job_report_name_disk(&t->disks[i], name);
		bars_of(k->hist, bars, sizeof(bars));
		n = snprintf(line, sizeof(line), "%-20s %s read, %s written; %s each, %s at most",
			     name, gs_fmt_bytes(a, k->read_bytes), gs_fmt_bytes(b, k->write_bytes),
			     gs_fmt_ns(c, requests ? k->total_ns / requests : 0),
			     gs_fmt_ns(d, k->max_ns));
		if (k->flushes)
			n += snprintf(line + n, sizeof(line) - (size_t)n, "; %llu flushes, %s each",
				      k->flushes, gs_fmt_ns(c, k->flush_ns / k->flushes));
		snprintf(line + n, sizeof(line) - (size_t)n, "%s%s", l->all && bars[0] ? "  " : "",
			 l->all ? bars : "");
		l->put(l->ctx, i ? "" : "by device", line);
	}
	for (size_t i = 0; i < t->n_peers && (l->all || i < LINES_FEW); i++) {
		const struct gs_taskstats_peer *p = &t->peers[i].peer;
		int n;

		gs_job_report_name_peer(&t->peers[i], name);
		n = snprintf(line, sizeof(line), "%-20s %s sent, %s received", name,
			     gs_fmt_bytes(a, p->sent_bytes), gs_fmt_bytes(b, p->received_bytes));
		if (p->rtt_count)
			n += snprintf(line + n, sizeof(line) - (size_t)n, ", round trip %s",
				      gs_fmt_ns(c, p->rtt_ns / p->rtt_count));
		if (p->retransmits)
			snprintf(line + n, sizeof(line) - (size_t)n, ", %s sent again",
				 gs_fmt_count(d, p->retransmits));
		l->put(l->ctx, i ? "" : "by peer", line);
	}
}

static void line_of_pressure(const struct lines *l, const double ratio[GS_STALL_COUNT])
{
	char line[256];

	for (unsigned i = 0; i < GS_STALL_COUNT; i++)
		if (isnan(ratio[i]))
			return;
	snprintf(
		line, sizeof(line),
		"stalled for a CPU %.1f %%, memory %.1f %% (all tasks %.1f %%), I/O %.1f %% (all tasks %.1f %%)",
		100 * ratio[GS_STALL_CPU_SOME], 100 * ratio[GS_STALL_MEMORY_SOME],
		100 * ratio[GS_STALL_MEMORY_FULL], 100 * ratio[GS_STALL_IO_SOME],
		100 * ratio[GS_STALL_IO_FULL]);
	l->put(l->ctx, "pressure", line);
}

static void line_of_queue(const struct lines *l, const struct gs_taskstats *w)
{
	char line[512], bars[256], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES],
		d[GS_FMT_BYTES], e[GS_FMT_BYTES], f[GS_FMT_BYTES];
	uint32_t hist[GS_TASKSTATS_LOG2];
	int at;

	if (!gs_taskstats_queue_timed(w))
		return;
	at = snprintf(line, sizeof(line),
		      "%s waits for a CPU, p50 %s, p95 %s, p99 %s; %s wake-ups, %s migrations",
		      gs_fmt_count(a, w->queue_waits),
		      gs_fmt_ns(b, (uint64_t)gs_taskstats_queue_quantile_ns(w, 0.5)),
		      gs_fmt_ns(c, (uint64_t)gs_taskstats_queue_quantile_ns(w, 0.95)),
		      gs_fmt_ns(d, (uint64_t)gs_taskstats_queue_quantile_ns(w, 0.99)),
		      gs_fmt_count(e, w->wakeups), gs_fmt_count(f, w->migrations));
	gs_job_report_queue_hist(w, hist);
	bars_of(hist, bars, sizeof(bars));
	if (l->all)
		snprintf(line + at, sizeof(line) - (size_t)at, "  %s", bars);
	l->put(l->ctx, "run queue", line);
}

void gs_job_report_each_detail_line(const struct gs_job_report *job, bool all,
				    void (*put)(void *ctx, const char *lead, const char *line),
				    void *ctx)
{
	const struct lines l = {put, ctx, all};
	const struct gs_taskstats *w = &job->usage.work;
	char line[256], a[GS_FMT_BYTES], b[GS_FMT_BYTES];

	if (job->usage.sched_rows)
		line_of_queue(&l, w);
	if (job->tables.n_mounts) {
		snprintf(line, sizeof(line),
			 "%s read from memory, %s from devices; %s written to devices",
			 gs_fmt_bytes(a, gs_taskstats_cached_bytes(w)),
			 gs_fmt_bytes(b, w->disk_read_bytes),
			 gs_fmt_bytes((char[GS_FMT_BYTES]){0}, w->disk_write_bytes));
		put(ctx, "page cache", line);
	}
	lines_of_tables(&l, &job->tables);
	if (w->net_retransmits) {
		snprintf(line, sizeof(line), "%s segments retransmitted",
			 gs_fmt_count(a, w->net_retransmits));
		put(ctx, "TCP", line);
	}
	line_of_pressure(&l, job->usage.pressure_ratio);
	if (w->oom_kills) {
		snprintf(line, sizeof(line), "%s killed for lack of memory",
			 gs_fmt_count(a, w->oom_kills));
		put(ctx, "OOM", line);
	}
	lines_of_calls(&l, job);
}
