#include "output/gpu_report/nccl.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/summary/nccl.h"
#include "output/gpu_report/cells.h"

#define GAP       2
#define N_CHOICES 12 /* shown unless all are asked for */
#define N_COMMS   3

/* What it was done by: "RING LL128, 8 channels"; "" nothing is known. */
static void put_way(char *out, size_t bytes, const struct gs_nccl_choice *c)
{
	char channels[32] = "";

	if (c->channels)
		snprintf(channels, sizeof(channels), "%s%" PRIu32 " channel%s",
			 c->algorithm[0] ? ", " : "", c->channels, c->channels == 1 ? "" : "s");
	snprintf(out, bytes, "%s%s%s%s", c->algorithm, c->protocol[0] ? " " : "", c->protocol,
		 channels);
}

/* --- the table --- */

static void put_word(struct gs_grid *g, const char *text)
{
	gs_grid_left(g, text[0] ? GS_INK_PLAIN : GS_INK_DIM, text[0] ? text : "-", GS_CUT_END);
}

static void put_speed(struct gs_grid *g, uint64_t bytes, uint64_t ns)
{
	char out[GS_FMT_BYTES];
	bool known = bytes && ns;

	gs_grid_right(g, known ? GS_INK_PLAIN : GS_INK_DIM,
		      known ? gs_fmt_bps(out, bytes, ns) : "-");
}

static void put_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"channels", "operations", "bytes",
					    "smallest", "largest",    "to enqueue",
					    "GPU time", "max",        "bus bandwidth"};

	gs_grid_left(g, GS_INK_DIM, "function", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "algorithm", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "protocol", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "", GS_CUT_END);
}

static void put_choice(struct gs_grid *g, const struct gs_nccl_choice *c)
{
	put_word(g, c->func);
	put_word(g, c->algorithm);
	put_word(g, c->protocol);
	report_put_count(g, c->channels);
	report_put_count(g, c->ops);
	report_put_bytes(g, c->bytes);
	report_put_bytes(g, c->min_bytes);
	report_put_bytes(g, c->max_bytes);
	report_put_time(g, c->ops ? c->enqueue_ns / c->ops : 0);
	report_put_time(g, c->timed ? c->gpu_ns / c->timed : 0);
	report_put_time(g, c->gpu_max_ns);
	put_speed(g, c->timed_bytes, c->gpu_ns);
	gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
}

static void put_choices(struct gs_page *page, const struct gs_nccl_summary *s, bool all)
{
	size_t n = all || s->n_choices <= N_CHOICES + 1 ? s->n_choices : N_CHOICES;
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g);
		for (size_t i = 0; i < n; i++)
			put_choice(&g, &s->choices[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 0);
	}
	if (n == s->n_choices)
		return;
	snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)", s->n_choices - n);
	report_put_remark(page, text);
}

/* "communicator "dp" of 4 ranks, 2 seen: 1,000 operations; rank 3 (process 4242) lags by 12 AllReduce" */
static void put_ranks(struct gs_page *page, const struct gs_nccl_ranks *r)
{
	char text[512], lag[160] = "", of[48] = "", ops[GS_FMT_BYTES], n[GS_FMT_BYTES];

	if (r->lag)
		snprintf(lag, sizeof(lag), "; %srank %" PRId32 " (process %" PRIu32 ") %s by %s %s",
			 r->is_stalled ? "" : "at the end ", r->lag_rank, r->lag_pid,
			 r->is_stalled ? "lags" : "lagged", gs_fmt_count(n, r->lag), r->lag_func);
	if (r->n_ranks)
		snprintf(of, sizeof(of), " of %" PRId32 " ranks, %" PRIu32 " seen", r->n_ranks,
			 r->n_seen);
	snprintf(text, sizeof(text), "communicator 0x%" PRIx64 "%s%s%s: %s operations%s", r->hash,
		 r->name[0] ? " " : "", r->name, of, gs_fmt_count(ops, r->ops), lag);
	gs_page_gap(page, GAP);
	gs_page_words(page, r->is_stalled ? GS_INK_WARN : GS_INK_DIM, text);
}

/* What spoils the figures. */
static void put_limits(struct gs_page *page, const struct gs_nccl_summary *s)
{
	char text[256], out[GS_FMT_BYTES];
	const struct {
		uint64_t n;
		const char *what;
	} rows[] = {
		{s->lost, "operations were not reported"},
		{s->unsized, "operations have a data type that NCCL does not name: bytes unknown"},
		{s->unplaced, "channels belong to unknown operations"},
		{s->left_out, "operations are not listed: the table is full"},
		{s->unranked,
		 "operations are of communicators that are not listed: there are too many"}};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		if (!rows[i].n)
			continue;
		snprintf(text, sizeof(text), "%s %s.", gs_fmt_count(out, rows[i].n), rows[i].what);
		report_put_remark(page, text);
	}
	if (s->no_windows)
		report_put_remark(
			page,
			"Channels are not reported: NCCL after 2.29 needs --gpu-window=always for that.");
}

void gs_report_nccl(struct gs_page *page, const struct gs_summary *summary, bool all)
{
	const struct gs_nccl_summary *s = summary->nccl;

	if (!s)
		return;
	report_put_title(page, "NCCL operations, as NCCL reports them");
	if (s->n_choices)
		put_choices(page, s, all);
	else
		report_put_remark(page, "NCCL issued no operations.");
	for (size_t i = 0; i < s->n_comms && (all || i < N_COMMS); i++)
		put_ranks(page, &s->comms[i]);
	put_limits(page, s);
}

/* "NCCL: 1,200 operations, 4.1 GB, 97.3 % of it AllReduce with RING SIMPLE, 16 channels (-v)" */
void gs_report_nccl_brief(struct gs_page *page, const struct gs_summary *summary)
{
	const struct gs_nccl_summary *s = summary->nccl;
	char text[512], way[96], most[192] = "", lag[128] = "", out[GS_FMT_BYTES],
				 bytes[GS_FMT_BYTES];
	const struct gs_nccl_choice *c = s && s->n_choices ? &s->choices[0] : NULL;

	if (!s)
		return;
	if (c && c->bytes && s->bytes) {
		put_way(way, sizeof(way), c);
		snprintf(most, sizeof(most), ", %.1f %% of it %s%s%s",
			 100 * (double)c->bytes / (double)s->bytes, c->func, way[0] ? " with " : "",
			 way);
	}
	if (s->n_comms && s->comms[0].is_stalled)
		snprintf(lag, sizeof(lag), "; rank %" PRId32 " lags by %s %s", s->comms[0].lag_rank,
			 gs_fmt_count(out, s->comms[0].lag), s->comms[0].lag_func);
	snprintf(text, sizeof(text), "NCCL: %s operations, %s%s%s (-v)",
		 gs_fmt_count(out, s->collectives + s->transfers), gs_fmt_bytes(bytes, s->bytes),
		 most, lag);
	gs_page_gap(page, GAP);
	gs_page_words(page, lag[0] ? GS_INK_WARN : GS_INK_PLAIN, text);
}

/* --- the tree --- */

static void put_choice_doc(struct gs_doc *doc, const struct gs_nccl_choice *c)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_text(doc, "function", c->func);
	gs_doc_put_text(doc, "algorithm", c->algorithm);
	gs_doc_put_text(doc, "protocol", c->protocol);
	gs_doc_put_u64_if(doc, "channels", c->channels, c->channels);
	gs_doc_put_u64(doc, "operations", c->ops);
	gs_doc_put_u64_if(doc, "bytes", c->bytes, c->sized);
	gs_doc_put_u64_if(doc, "min_bytes", c->min_bytes, c->sized);
	gs_doc_put_u64_if(doc, "max_bytes", c->max_bytes, c->sized);
	gs_doc_put_u64(doc, "enqueue_ns", c->enqueue_ns);
	gs_doc_put_u64(doc, "timed", c->timed);
	gs_doc_put_u64_if(doc, "gpu_ns", c->gpu_ns, c->timed);
	gs_doc_put_u64_if(doc, "gpu_max_ns", c->gpu_max_ns, c->timed);
	gs_doc_put_u64_if(doc, "link_bytes", c->timed_bytes, c->timed);
	gs_doc_end(doc);
}

static void put_ranks_doc(struct gs_doc *doc, const struct gs_nccl_ranks *r)
{
	char id[24];

	snprintf(id, sizeof(id), "0x%" PRIx64, r->hash);
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_text(doc, "hash", r->hash ? id : "");
	gs_doc_put_text(doc, "name", r->name);
	gs_doc_put_i64_if(doc, "ranks", r->n_ranks, r->n_ranks);
	gs_doc_put_u64(doc, "seen", r->n_seen);
	gs_doc_put_u64(doc, "operations", r->ops);
	gs_doc_put_u64(doc, "lag", r->lag);
	gs_doc_put_i64_if(doc, "lag_rank", r->lag_rank, r->lag);
	gs_doc_put_u64_if(doc, "lag_pid", r->lag_pid, r->lag);
	gs_doc_put_text(doc, "lag_function", r->lag_func);
	gs_doc_put_u64(doc, "quiet_ns", r->quiet_ns);
	gs_doc_put_bool(doc, "stalled", r->is_stalled);
	gs_doc_end(doc);
}

void gs_report_nccl_doc(struct gs_doc *doc, const struct gs_summary *summary)
{
	const struct gs_nccl_summary *s = summary->nccl;

	if (!s) {
		gs_doc_put_null(doc, "nccl");
		return;
	}
	gs_doc_begin_map(doc, "nccl");
	gs_doc_put_u64(doc, "collectives", s->collectives);
	gs_doc_put_u64(doc, "transfers", s->transfers);
	gs_doc_put_u64(doc, "bytes", s->bytes);
	gs_doc_begin_list(doc, "choices", s->n_choices);
	for (size_t i = 0; i < s->n_choices; i++)
		put_choice_doc(doc, &s->choices[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "communicators", s->n_comms);
	for (size_t i = 0; i < s->n_comms; i++)
		put_ranks_doc(doc, &s->comms[i]);
	gs_doc_end(doc);
	gs_doc_put_u64(doc, "channels", s->channels);
	gs_doc_put_u64(doc, "proxies", s->proxies);
	gs_doc_put_u64(doc, "lost", s->lost);
	gs_doc_put_u64(doc, "without_bytes", s->unsized);
	gs_doc_put_u64(doc, "unplaced", s->unplaced);
	gs_doc_put_u64(doc, "left_out", s->left_out);
	gs_doc_put_u64(doc, "unranked", s->unranked);
	gs_doc_put_u64(doc, "without_windows", s->no_windows);
	gs_doc_put_u64_if(doc, "nccl_version", s->nccl, s->nccl);
	gs_doc_put_u64_if(doc, "interface", s->abi, s->abi);
	gs_doc_end(doc);
}
