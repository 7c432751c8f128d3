/* MPI in reports: by rank its share of the time, its functions and its peers; trees and text. */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "analysis/job_report/report_int.h"
#include "model/trace/mpi.h"

#define FUNCTIONS_FEW 3
#define RANKS_FEW     8
#define TRIMMED_PEERS 16 /* of a rank, when a report is too long to be sent */

const char *gs_job_report_mpi_direction(uint32_t direction)
{
	return direction == GS_MPI_SENT       ? "sent"
	       : direction == GS_MPI_RECEIVED ? "received"
					      : "posted";
}

void gs_job_report_name_mpi_rank(const struct gs_job_mpi_rank *r, char out[GS_JOB_ROW_BYTES])
{
	if (r->rank >= 0)
		snprintf(out, GS_JOB_ROW_BYTES, "rank %" PRId32, r->rank);
	else
		snprintf(out, GS_JOB_ROW_BYTES, "process %" PRIu32, r->pid);
}

/* ---- trees ---- */

static void put_functions(struct gs_doc *doc, const struct gs_job_mpi_rank *r)
{
	gs_doc_begin_list(doc, "functions", r->n_functions);
	for (size_t i = 0; i < r->n_functions; i++) {
		const struct gs_job_mpi_function *f = &r->functions[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "name", f->name);
		gs_doc_put_u64(doc, "calls", f->calls);
		gs_doc_put_u64(doc, "errors", f->errors);
		gs_doc_put_u64(doc, "total_ns", f->total_ns);
		gs_doc_put_u64(doc, "max_ns", f->max_ns);
		gs_doc_put_u64(doc, "bytes", f->bytes);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_peers(struct gs_doc *doc, const struct gs_job_mpi_rank *r, bool trimmed)
{
	size_t n = trimmed && r->n_peers > TRIMMED_PEERS ? TRIMMED_PEERS : r->n_peers;
	char handle[24];

	gs_doc_begin_list(doc, "peers", n);
	for (size_t i = 0; i < n; i++) {
		const struct gs_mpi_peer_summary *p = &r->peers[i];

		snprintf(handle, sizeof(handle), "0x%" PRIx64, p->comm);
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "direction", gs_job_report_mpi_direction(p->direction));
		gs_doc_put_i64_if(doc, "peer", p->peer, p->peer >= 0);
		gs_doc_put_text(doc, "communicator", handle);
		gs_doc_put_u64(doc, "calls", p->calls);
		gs_doc_put_u64(doc, "bytes", p->bytes);
		gs_doc_put_u64(doc, "unsized_calls", p->unsized);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

void gs_job_report_put_mpi(struct gs_doc *doc, const struct gs_job_report *job,
			   const struct gs_job_report_style *style)
{
	if (!gs_job_report_knows(job, GS_JOB_KNOWS_MPI)) {
		gs_doc_put_null(doc, "mpi_ranks");
		return;
	}
	gs_doc_begin_list(doc, "mpi_ranks", job->mpi.n_ranks);
	for (size_t i = 0; i < job->mpi.n_ranks; i++) {
		const struct gs_job_mpi_rank *r = &job->mpi.ranks[i];
		struct gs_job_mpi_moved moved;

		gs_job_mpi_moved_of(r, &moved);
		gs_doc_begin_map(doc, NULL);
		gs_doc_put_u64(doc, "pid", r->pid);
		gs_doc_put_i64_if(doc, "rank", r->rank, r->rank >= 0);
		gs_doc_put_i64_if(doc, "ranks", r->n_ranks, r->n_ranks >= 0);
		gs_doc_put_u64(doc, "calls", r->calls);
		gs_doc_put_u64(doc, "total_ns", r->total_ns);
		gs_doc_put_u64(doc, "span_ns", r->span_ns);
		gs_doc_put_u64(doc, "sent_calls", moved.sent_calls);
		gs_doc_put_u64(doc, "sent_bytes", moved.sent_bytes);
		gs_doc_put_u64(doc, "received_calls", moved.received_calls);
		gs_doc_put_u64(doc, "received_bytes", moved.received_bytes);
		gs_doc_put_u64(doc, "posted_calls", moved.room_calls);
		gs_doc_put_u64(doc, "unsized_calls", moved.unsized);
		put_functions(doc, r);
		put_peers(doc, r, style->trimmed);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

/* ---- lines of text ---- */

struct mpi_lines {
	void (*put)(void *ctx, const char *lead, const char *line);
	void *ctx;
};

static void line_of_rank(const struct mpi_lines *l, const struct gs_job_mpi_rank *r, bool first,
			 bool all)
{
	char line[768], name[GS_JOB_ROW_BYTES], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES],
		d[GS_FMT_BYTES];
	struct gs_job_mpi_moved moved;
	int n;

	gs_job_report_name_mpi_rank(r, name);
	gs_job_mpi_moved_of(r, &moved);
	n = snprintf(line, sizeof(line),
		     "%.40s: in MPI %.1f %% of %s; sent %s, %s; received %s, %s%s", name,
		     r->span_ns ? 100 * (double)r->total_ns / (double)r->span_ns : 0.0,
		     gs_fmt_ns(a, r->span_ns), gs_fmt_count(b, moved.sent_calls),
		     gs_fmt_bytes(c, moved.sent_bytes), gs_fmt_count(d, moved.received_calls),
		     moved.room_calls ? "<= " : "",
		     gs_fmt_bytes((char[GS_FMT_BYTES]){0}, moved.received_bytes));
	for (size_t i = 0; i < r->n_functions && i < FUNCTIONS_FEW && !all; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%s %.40s %s", i ? "," : ";",
			      r->functions[i].name, gs_fmt_ns(a, r->functions[i].total_ns));
	l->put(l->ctx, first ? "MPI" : "", line);
}

static void lines_of_rows(const struct mpi_lines *l, const struct gs_job_mpi_rank *r)
{
	char line[256], peer[24], a[GS_FMT_BYTES], b[GS_FMT_BYTES], c[GS_FMT_BYTES];

	for (size_t i = 0; i < r->n_functions; i++) {
		const struct gs_job_mpi_function *f = &r->functions[i];

		snprintf(line, sizeof(line), "  %-24s %10s  %s in all, %s at most, %s", f->name,
			 gs_fmt_count(a, f->calls), gs_fmt_ns(b, f->total_ns),
			 gs_fmt_ns(c, f->max_ns), gs_fmt_bytes((char[GS_FMT_BYTES]){0}, f->bytes));
		l->put(l->ctx, "", line);
	}
	for (size_t i = 0; i < r->n_peers; i++) {
		const struct gs_mpi_peer_summary *p = &r->peers[i];

		if (p->peer >= 0)
			snprintf(peer, sizeof(peer), "%" PRId32, p->peer);
		snprintf(line, sizeof(line), "  %s %s %s, %s in communicator 0x%" PRIx64,
			 p->direction == GS_MPI_SENT ? "->" : "<-", p->peer >= 0 ? peer : "any",
			 gs_fmt_count(a, p->calls),
			 p->unsized == p->calls ? "bytes unknown" : gs_fmt_bytes(b, p->bytes),
			 p->comm);
		l->put(l->ctx, "", line);
	}
}

void gs_job_report_each_mpi_line(const struct gs_job_report *job, bool all,
				 void (*put)(void *ctx, const char *lead, const char *line),
				 void *ctx)
{
	const struct mpi_lines l = {put, ctx};
	char line[64];

	for (size_t i = 0; i < job->mpi.n_ranks; i++) {
		if (!all && i >= RANKS_FEW) {
			snprintf(line, sizeof(line), "... and %zu more (-v shows all)",
				 job->mpi.n_ranks - i);
			put(ctx, "", line);
			return;
		}
		line_of_rank(&l, &job->mpi.ranks[i], i == 0, all);
		if (all)
			lines_of_rows(&l, &job->mpi.ranks[i]);
	}
}
