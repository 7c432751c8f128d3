#include "output/report/summary_mpi.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "model/trace/mpi.h"

#define N_RANKS 32
#define N_PEERS 32

const char *gs_report_summary_mpi_direction(unsigned direction)
{
	return direction == GS_MPI_SENT       ? "sent"
	       : direction == GS_MPI_RECEIVED ? "received"
					      : "posted";
}

/* --- table --- */

static void put_title(struct gs_page *page, const char *title)
{
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, title, GS_CUT_END);
	gs_page_line(page);
}

static void put_more(struct gs_page *page, size_t n)
{
	char text[64];

	if (!n)
		return;
	snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)", n);
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

static const char *format_rank(char out[48], int32_t rank, int32_t n_ranks)
{
	char of[24] = "";

	if (n_ranks >= 0)
		snprintf(of, sizeof(of), " of %" PRId32, n_ranks);
	if (rank >= 0)
		snprintf(out, 48, "rank %" PRId32 "%s", rank, of);
	else
		snprintf(out, 48, "rank ?%s", of);
	return out;
}

static const char *format_moved(char out[96], const char *verb, uint64_t calls, uint64_t bytes,
				bool at_most)
{
	char n[GS_FMT_BYTES], b[GS_FMT_BYTES];

	snprintf(out, 96, "%s %s, %s%s", verb, gs_fmt_count(n, calls), at_most ? "<= " : "",
		 gs_fmt_bytes(b, bytes));
	return out;
}

static void put_rank(struct gs_grid *g, const struct gs_mpi_rank_summary *r)
{
	char text[96], span[GS_FMT_BYTES];

	gs_grid_left(g, GS_INK_PLAIN, format_rank(text, r->rank, r->n_ranks), GS_CUT_END);
	snprintf(text, sizeof(text), "in MPI %.1f %% of %s",
		 r->span_ns ? 100.0 * (double)r->total_ns / (double)r->span_ns : 0.0,
		 gs_fmt_ns(span, r->span_ns));
	gs_grid_left(g, GS_INK_PLAIN, r->span_ns ? text : "-", GS_CUT_END);
	gs_grid_left(g, GS_INK_PLAIN,
		     format_moved(text, "sent", r->sent_calls, r->sent_bytes, false), GS_CUT_END);
	gs_grid_left(
		g, GS_INK_PLAIN,
		format_moved(text, "received", r->received_calls, r->received_bytes, r->room_calls),
		GS_CUT_END);
	snprintf(text, sizeof(text), "process %" PRIu32 " %.32s", r->pid,
		 gs_report_text_of(r->comm));
	gs_grid_rest(g, GS_INK_DIM, text, GS_CUT_END);
}

static void put_peer(struct gs_grid *g, const struct gs_mpi_peer_summary *p)
{
	char text[48], n[GS_FMT_BYTES], bytes[GS_FMT_BYTES + 4];
	bool at_most = p->direction == GS_MPI_ROOM, sent = p->direction == GS_MPI_SENT;

	gs_grid_left(g, GS_INK_PLAIN, format_rank(text, p->rank, -1), GS_CUT_END);
	if (p->peer == GS_MPI_PEER_ANY)
		snprintf(text, sizeof(text), "%s any", sent ? "->" : "<-");
	else
		snprintf(text, sizeof(text), "%s %" PRId32, sent ? "->" : "<-", p->peer);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	snprintf(text, sizeof(text), "%s call%s", gs_fmt_count(n, p->calls),
		 p->calls == 1 ? "" : "s");
	gs_grid_right(g, GS_INK_PLAIN, text);
	snprintf(bytes, sizeof(bytes), "%s%s", at_most ? "<= " : "", gs_fmt_bytes(n, p->bytes));
	gs_grid_right(g, GS_INK_PLAIN, p->unsized == p->calls ? "-" : bytes);
	snprintf(text, sizeof(text), "process %" PRIu32, p->pid);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	snprintf(text, sizeof(text), "communicator 0x%" PRIx64, p->comm);
	gs_grid_rest(g, GS_INK_DIM, text, GS_CUT_END);
}

void gs_report_summary_mpi_table(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n_ranks = all || s->n_mpi_ranks <= N_RANKS + 1 ? s->n_mpi_ranks : N_RANKS;
	size_t n_peers = all || s->n_mpi_peers <= N_PEERS + 1 ? s->n_mpi_peers : N_PEERS;
	struct gs_grid ranks = {.page = page, .measuring = true}, peers = ranks;

	if (!n_ranks)
		return;
	put_title(page, "MPI by rank");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n_ranks; i++)
			put_rank(&ranks, &s->mpi_ranks[i]);
		if (pass == 0)
			gs_grid_fit(&ranks, 2, 0);
	}
	put_more(page, s->n_mpi_ranks - n_ranks);
	if (!n_peers)
		return;
	put_title(page, "MPI by peer (ranks of the communicator)");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n_peers; i++)
			put_peer(&peers, &s->mpi_peers[i]);
		if (pass == 0)
			gs_grid_fit(&peers, 4, 0);
	}
	put_more(page, s->n_mpi_peers - n_peers);
}

/* --- JSON and YAML --- */

static void doc_rank(struct gs_doc *doc, const struct gs_mpi_rank_summary *r)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", r->pid);
	gs_doc_put_text(doc, "comm", r->comm);
	gs_doc_put_i64_if(doc, "rank", r->rank, r->rank >= 0);
	gs_doc_put_i64_if(doc, "ranks", r->n_ranks, r->n_ranks >= 0);
	gs_doc_put_u64(doc, "calls", r->calls);
	gs_doc_put_u64(doc, "total_ns", r->total_ns);
	gs_doc_put_u64(doc, "span_ns", r->span_ns);
	gs_doc_put_u64(doc, "sent_calls", r->sent_calls);
	gs_doc_put_u64(doc, "sent_bytes", r->sent_bytes);
	gs_doc_put_u64(doc, "received_calls", r->received_calls);
	gs_doc_put_u64(doc, "received_bytes", r->received_bytes);
	gs_doc_put_u64(doc, "posted_calls", r->room_calls);
	gs_doc_put_u64(doc, "unsized_calls", r->unsized);
	gs_doc_end(doc);
}

static void doc_peer(struct gs_doc *doc, const struct gs_mpi_peer_summary *p)
{
	char handle[24];

	snprintf(handle, sizeof(handle), "0x%" PRIx64, p->comm);
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", p->pid);
	gs_doc_put_i64_if(doc, "rank", p->rank, p->rank >= 0);
	gs_doc_put_text(doc, "direction", gs_report_summary_mpi_direction(p->direction));
	gs_doc_put_i64_if(doc, "peer", p->peer, p->peer >= 0);
	gs_doc_put_text(doc, "communicator", handle);
	gs_doc_put_u64(doc, "calls", p->calls);
	gs_doc_put_u64(doc, "bytes", p->bytes);
	gs_doc_put_u64(doc, "unsized_calls", p->unsized);
	gs_doc_end(doc);
}

void gs_report_summary_mpi_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "mpi_ranks", s->n_mpi_ranks);
	for (size_t i = 0; i < s->n_mpi_ranks; i++)
		doc_rank(doc, &s->mpi_ranks[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "mpi_peers", s->n_mpi_peers);
	for (size_t i = 0; i < s->n_mpi_peers; i++)
		doc_peer(doc, &s->mpi_peers[i]);
	gs_doc_end(doc);
}
