/*
 * The end of the table: what a person must look at when something is wrong. Each part is a grid of
 * the first few things and a line for the rest. Losses and attach failures come last and always,
 * also when there are none: no word about them could mean either.
 */
#include "output/report/summary_mpi.h"
#include "output/report/summary_probed.h"
#include "output/report/summary_table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/map.h"
#include "model/trace/func.h"
#include "model/trace/record.h"

/* Most lines of a part. */
#define N_COMMS  16
#define N_OPEN   32
#define N_ERRORS 10
#define N_FILES  6
#define N_LOST   3 /* of one cause in one layer */
#define N_FAILED 20

static const char *plural_ending(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void put_title(struct gs_page *page, enum gs_ink ink, const char *title)
{
	gs_page_line(page);
	gs_page_rest(page, ink, title, GS_CUT_END);
	gs_page_line(page);
}

static void put_remark(struct gs_page *page, enum gs_ink ink, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_words(page, ink, text);
}

/* How many of n are shown; one that alone would be left over is shown too. */
static size_t shown_of(size_t n, size_t most, bool all)
{
	return all || n <= most + 1 ? n : most;
}

/* Ranks of one communicator have one id, seen in several processes: number these by appearance.
 * numbers[i] is 0 where there was no memory. */
static void number_comms(const struct gs_summary *s, uint32_t *numbers)
{
	struct gs_map map GS_CLEANUP(gs_map_fini) = GS_MAP_INIT(1u << 20);
	uint32_t last = 0;

	for (size_t i = 0; i < s->n_comms; i++) {
		uint64_t hash = s->comms[i].id_hash, number = 0;

		if (hash && gs_map_get(&map, hash, &number)) {
			numbers[i] = (uint32_t)number;
			continue;
		}
		numbers[i] = ++last;
		/* Without an entry its next rank gets a number of its own. */
		if (hash)
			(void)gs_map_put(&map, hash, last);
	}
}

static void put_comm(struct gs_grid *g, const struct gs_comm_summary *c, uint32_t number,
		     bool counted)
{
	char text[64], out[GS_FMT_BYTES], rank[16] = "?", ranks[16] = "?";

	snprintf(text, sizeof(text), "#%" PRIu32, number);
	gs_grid_right(g, GS_INK_PLAIN, text);
	if (c->rank >= 0)
		snprintf(rank, sizeof(rank), "%" PRId32, c->rank);
	if (c->n_ranks >= 0)
		snprintf(ranks, sizeof(ranks), "%" PRId32, c->n_ranks);
	snprintf(text, sizeof(text), "rank %s of %s", rank, ranks);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	snprintf(text, sizeof(text), "%s call%s", gs_fmt_count(out, c->calls),
		 plural_ending(c->calls));
	gs_grid_right(g, GS_INK_PLAIN, counted ? text : "-");
	gs_grid_right(g, GS_INK_PLAIN, counted ? gs_fmt_bytes(out, c->bytes) : "-");
	snprintf(text, sizeof(text), "process %" PRIu32, c->pid);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	if (summary_is_split(c))
		snprintf(text, sizeof(text), "%s, color %" PRId32 ", key %" PRId32, c->origin,
			 c->color, c->key);
	gs_grid_rest(g, GS_INK_DIM, summary_is_split(c) ? text : c->origin, GS_CUT_END);
}

static void put_comms(struct gs_page *page, const struct gs_summary *s, bool all)
{
	uint32_t *numbers GS_FREE = calloc(s->n_comms + 1, sizeof(*numbers));
	size_t n = shown_of(s->n_comms, N_COMMS, all);
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	if (!numbers) {
		gs_pen_check(page->pen, -ENOMEM);
		return;
	}
	if (!n)
		return;
	number_comms(s, numbers);
	put_title(page, GS_INK_BOLD, "NCCL communicators");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++)
			put_comm(&g, &s->comms[i], numbers[i], s->mode == GS_SESSION_EVENTS);
		if (pass == 0)
			gs_grid_fit(&g, 4, 0);
	}
	if (n < s->n_comms) {
		snprintf(text, sizeof(text), "... and %zu more", s->n_comms - n);
		put_remark(page, GS_INK_DIM, text);
	}
}

#define N_USES 20

static void put_use(struct gs_grid *g, const struct gs_use_summary *u)
{
	const struct {
		uint64_t n;
		const char *what;
	} parts[] = {{u->launches, "launch"},
		     {u->copies, "copy"},
		     {u->allocs, "alloc"},
		     {u->collectives, "collective"},
		     {u->others, "other"}};
	char text[192] = "", out[GS_FMT_BYTES];
	size_t at = 0;

	gs_grid_left(g, GS_INK_PLAIN, u->name, GS_CUT_MIDDLE);
	gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, u->total_ns));
	gs_grid_right(g, GS_INK_PLAIN, u->bytes ? gs_fmt_bytes(out, u->bytes) : "-");
	for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
		if (parts[i].n)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %s",
					       at ? ", " : "", gs_fmt_count(out, parts[i].n),
					       parts[i].what);
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

/* Which operator asked for what: the innermost one around each call. */
void gs_report_summary_uses(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = shown_of(s->n_uses, N_USES, all);
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	if (!n)
		return;
	put_title(page, GS_INK_BOLD,
		  "CUDA and NCCL calls by operator (host time, bytes, calls by kind)");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++)
			put_use(&g, &s->uses[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 24);
	}
	if (n < s->n_uses) {
		snprintf(text, sizeof(text), "... and %zu more", s->n_uses - n);
		put_remark(page, GS_INK_DIM, text);
	}
}

static void put_open_call(struct gs_grid *g, const struct gs_open_call *c)
{
	char text[128], out[GS_FMT_BYTES];

	gs_grid_right(g, GS_INK_WARN, gs_fmt_ns(out, c->age_ns));
	gs_grid_left(g, GS_INK_PLAIN, c->function, GS_CUT_MIDDLE);
	snprintf(text, sizeof(text), "process %" PRIu32 " %.64s", c->pid,
		 gs_report_text_of(c->comm));
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	snprintf(text, sizeof(text), "thread %" PRIu32 "%s", c->tid,
		 c->depth ? ", inside another call" : "");
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

static void put_open_calls(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = shown_of(s->n_open_calls, N_OPEN, all);
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	if (!n)
		return;
	put_title(page, GS_INK_BOLD, "Still running when tracing ended");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++)
			put_open_call(&g, &s->open_calls[i]);
		if (pass == 0)
			gs_grid_fit(&g, 1, strlen("  thread 1234567"));
	}
	if (n < s->n_open_calls) {
		snprintf(text, sizeof(text), "... and %zu more, all younger", s->n_open_calls - n);
		put_remark(page, GS_INK_DIM, text);
	}
}

static void put_error(struct gs_grid *g, const struct gs_error_count *e)
{
	char text[128], out[GS_FMT_BYTES];
	const char *name = *gs_report_text_of(e->name) ? e->name : "unknown error";

	gs_grid_right(g, GS_INK_RED, gs_fmt_count(out, e->count));
	gs_grid_left(g, GS_INK_PLAIN, gs_layer_title(e->layer), GS_CUT_END);
	gs_grid_left(g, GS_INK_PLAIN, e->function, GS_CUT_MIDDLE);
	if (e->code)
		snprintf(text, sizeof(text), "%.80s (%" PRId32 ")", name, e->code);
	else
		snprintf(text, sizeof(text), "other codes");
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_MIDDLE);
}

static void put_errors(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = shown_of(s->n_errors, N_ERRORS, all);
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96], out[GS_FMT_BYTES], lines[GS_FMT_BYTES];
	uint64_t rest = 0;

	if (!n)
		return;
	put_title(page, GS_INK_BOLD, "Errors");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++)
			put_error(&g, &s->errors[i]);
		if (pass == 0)
			gs_grid_fit(&g, 2, 34);
	}
	for (size_t i = n; i < s->n_errors; i++)
		rest += s->errors[i].count;
	if (n < s->n_errors) {
		snprintf(text, sizeof(text), "... and %s more kinds, %s time%s",
			 gs_fmt_count(lines, s->n_errors - n), gs_fmt_count(out, rest),
			 plural_ending(rest));
		put_remark(page, GS_INK_DIM, text);
	}
}

static void put_loss(struct gs_grid *g, struct gs_buf *text, const struct gs_lost_count *l)
{
	const char *detail = gs_report_text_of(l->detail);
	char out[GS_FMT_BYTES];
	int r;

	gs_grid_right(g, GS_INK_WARN, gs_fmt_count(out, l->count));
	gs_grid_left(g, GS_INK_PLAIN, gs_layer_title(l->layer), GS_CUT_END);
	gs_buf_reset(text);
	if (l->cause < GS_LOSS_COUNT)
		r = gs_buf_puts(text, gs_loss_text(l->cause));
	else
		r = gs_buf_printf(text, "lost for a cause that this version does not know (%u)",
				  l->cause);
	if (r == 0)
		r = gs_buf_printf(text, "%s%s", *detail ? ": " : "", detail);
	gs_pen_check(g->page->pen, r);
	gs_grid_words(g, GS_INK_WARN, r == 0 ? (const char *)text->data : "");
}

/* How many losses like this one are listed before it, and how many there are, with their sum. */
static size_t like_it(const struct gs_summary *s, size_t at, size_t *ret_n, uint64_t *ret_rest)
{
	size_t before = 0, n = 0;

	*ret_rest = 0;
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];

		if (!l->count || l->layer != s->lost[at].layer || l->cause != s->lost[at].cause)
			continue;
		before += i < at;
		if (++n > N_LOST)
			*ret_rest += l->count;
	}
	*ret_n = n;
	return before;
}

static void put_loss_or_rest(struct gs_grid *g, struct gs_buf *text, const struct gs_summary *s,
			     size_t at, bool all)
{
	struct gs_lost_count rest = s->lost[at];
	char more[64];
	size_t n, before = like_it(s, at, &n, &rest.count);

	if (before < shown_of(n, N_LOST, all)) {
		put_loss(g, text, &s->lost[at]);
	} else if (before == N_LOST) {
		snprintf(more, sizeof(more), "of %zu others", n - N_LOST);
		rest.detail = more;
		put_loss(g, text, &rest);
	}
}

static void put_lost(struct gs_page *page, const struct gs_summary *s, bool all)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	struct gs_grid g = {.page = page, .measuring = true};
	bool any = false;

	put_title(page, GS_INK_BOLD, "Lost");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < s->n_lost; i++) {
			if (!s->lost[i].count)
				continue;
			any = true;
			put_loss_or_rest(&g, &text, s, i, all);
		}
		if (pass == 0)
			gs_grid_fit(&g, 1, 0);
	}
	if (!any)
		put_remark(page, GS_INK_PLAIN, "Nothing was lost.");
}

static void put_file(struct gs_grid *g, const struct gs_attach_status *a)
{
	char text[256], out[GS_FMT_BYTES], moved[48] = "", stepped[48] = "";
	const char *remark = gs_report_text_of(a->reason);

	snprintf(text, sizeof(text), "%s probe%s", gs_fmt_count(out, a->n_probes),
		 plural_ending(a->n_probes));
	gs_grid_right(g, GS_INK_PLAIN, text);
	gs_grid_left(g, GS_INK_PLAIN, a->path, GS_CUT_START);
	if (a->n_moved)
		snprintf(moved, sizeof(moved), "%" PRIu32 " moved", a->n_moved);
	if (a->n_stepped)
		snprintf(stepped, sizeof(stepped), "%s%" PRIu32 " single-stepped",
			 *moved ? ", " : "", a->n_stepped);
	snprintf(text, sizeof(text), "%s%s%s%.120s", moved, stepped,
		 *remark && (*moved || *stepped) ? "; " : "", remark);
	gs_grid_rest(g, GS_INK_DIM, text, GS_CUT_END);
}

static void put_attach(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = shown_of(s->n_attached, N_FILES, all);
	struct gs_grid g = {.page = page, .measuring = true};
	uint64_t n_probes = 0;
	char text[128];

	put_title(page, GS_INK_BOLD, "Attached");
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++)
			put_file(&g, &s->attached[i]);
		if (pass == 0)
			gs_grid_fit(&g, 1, strlen("  100 moved, 100 single-stepped"));
	}
	for (size_t i = n; i < s->n_attached; i++)
		n_probes += s->attached[i].n_probes;
	if (n < s->n_attached) {
		snprintf(text, sizeof(text), "... and %zu more files, %" PRIu64 " probe%s",
			 s->n_attached - n, n_probes, plural_ending(n_probes));
		put_remark(page, GS_INK_DIM, text);
	}
	if (!s->n_attached)
		put_remark(page, GS_INK_PLAIN, "No file has probes.");
	if (!s->n_attach_failures)
		put_remark(page, GS_INK_PLAIN, "No attach failure.");
}

static void put_attach_failures(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = shown_of(s->n_attach_failures, N_FAILED, all);
	char more[64];
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);

	if (!s->n_attach_failures)
		return;
	put_title(page, GS_INK_BOLD, "Could not attach");
	for (size_t i = 0; i < n; i++) {
		const struct gs_attach_status *a = &s->attach_failures[i];
		const char *function = gs_report_text_of(a->function),
			   *reason = gs_report_text_of(a->reason);
		int r;

		if (!*reason)
			reason = a->status < 0 ? strerror(-a->status) : "unknown reason";
		gs_buf_reset(&text);
		r = gs_buf_printf(&text, "%s%s%s: %s", function, *function ? " in " : "",
				  gs_report_text_of(a->path), reason);
		gs_pen_check(page->pen, r);
		put_remark(page, GS_INK_RED, r == 0 ? (const char *)text.data : "");
	}
	if (n < s->n_attach_failures) {
		snprintf(more, sizeof(more), "... and %zu more (--top 0 shows all)",
			 s->n_attach_failures - n);
		put_remark(page, GS_INK_DIM, more);
	}
}

/* --- in few lines --- */

#define N_BRIEF 2 /* things of one kind that are named */

/* "failed   14 cudaMalloc: ..." */
static void put_brief(struct gs_page *page, enum gs_ink ink, const char *key, struct gs_buf *text,
		      size_t n_more)
{
	int r = n_more ? gs_buf_printf(text, "; %zu more (-v)", n_more) : 0;

	if (r == 0)
		r = gs_buf_put(text, "", 1);
	gs_pen_check(page->pen, r);
	if (r < 0)
		return;
	gs_page_gap(page, 2);
	gs_page_left(page, ink, key, 9, GS_CUT_END);
	gs_page_words(page, GS_INK_PLAIN, (const char *)text->data);
	gs_buf_reset(text);
}

static void brief_errors(struct gs_page *page, const struct gs_summary *s, struct gs_buf *text)
{
	size_t n = 0, n_more = 0;
	char out[GS_FMT_BYTES];

	for (size_t i = 0; i < s->n_errors; i++) {
		const struct gs_error_count *e = &s->errors[i];

		if (gs_error_is_usual(e->layer, e->function, e->code))
			continue;
		if (n >= N_BRIEF) {
			n_more++;
			continue;
		}
		gs_pen_check(page->pen,
			     gs_buf_printf(text, "%s%s %s %.80s", n++ ? "; " : "",
					   gs_fmt_count(out, e->count),
					   gs_report_text_of(e->function),
					   !e->code                      ? "other codes"
					   : *gs_report_text_of(e->name) ? e->name
									 : "unknown error"));
	}
	if (n)
		put_brief(page, GS_INK_RED, "failed", text, n_more);
}

/* Of a hang its own line says more. */
static void brief_open_calls(struct gs_page *page, const struct gs_summary *s, struct gs_buf *text)
{
	size_t most = s->n_hangs ? 0 : N_BRIEF;
	size_t n = s->n_open_calls < most ? s->n_open_calls : most;
	char out[GS_FMT_BYTES];

	for (size_t i = 0; i < n; i++) {
		const struct gs_open_call *c = &s->open_calls[i];

		gs_pen_check(page->pen,
			     gs_buf_printf(text,
					   "%s%s, open for %s (thread %" PRIu32 " of %" PRIu32 ")",
					   i ? "; " : "", gs_report_text_of(c->function),
					   gs_fmt_ns(out, c->age_ns), c->tid, c->pid));
	}
	if (n)
		put_brief(page, GS_INK_WARN, "running", text, s->n_open_calls - n);
}

static void brief_lost(struct gs_page *page, const struct gs_summary *s, struct gs_buf *text)
{
	char count[GS_FMT_BYTES];
	size_t n = 0, n_more = 0, n_like;
	uint64_t rest;

	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];
		const char *detail = gs_report_text_of(l->detail);

		/* Each trace of CUDA has first calls, which calls for nothing. */
		if (!l->count || l->cause == GS_LOSS_FIRST)
			continue;
		if (n >= N_BRIEF || like_it(s, i, &n_like, &rest)) {
			n_more++;
			continue;
		}
		gs_pen_check(page->pen,
			     gs_buf_printf(text, "%s%s %s%s%.200s", n++ ? "; " : "",
					   gs_fmt_count(count, l->count),
					   l->cause < GS_LOSS_COUNT ? gs_loss_text(l->cause)
								    : "of an unknown cause",
					   *detail ? ": " : "", detail));
	}
	if (n)
		put_brief(page, GS_INK_WARN, "lost", text, n_more);
}

static void brief_failures(struct gs_page *page, const struct gs_summary *s, struct gs_buf *text)
{
	const struct gs_attach_status *a = s->attach_failures;
	const char *reason;

	if (!s->n_attach_failures)
		return;
	reason = gs_report_text_of(a->reason);
	if (!*reason)
		reason = a->status < 0 ? strerror(-a->status) : "unknown reason";
	gs_pen_check(page->pen, gs_buf_printf(text, "%s%s%s: %s", gs_report_text_of(a->function),
					      *gs_report_text_of(a->function) ? " in " : "",
					      gs_report_text_of(a->path), reason));
	put_brief(page, GS_INK_RED, "no probe", text, s->n_attach_failures - 1);
}

void gs_report_summary_trouble(struct gs_page *page, const struct gs_summary *s)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	bool any = s->n_open_calls || s->n_attach_failures;

	for (size_t i = 0; i < s->n_errors; i++)
		any |= !gs_error_is_usual(s->errors[i].layer, s->errors[i].function,
					  s->errors[i].code);
	for (size_t i = 0; i < s->n_lost; i++)
		any |= s->lost[i].count != 0 && s->lost[i].cause != GS_LOSS_FIRST;
	if (!any)
		return;
	put_title(page, GS_INK_BOLD, "Needs attention");
	brief_errors(page, s, &text);
	brief_open_calls(page, s, &text);
	brief_lost(page, s, &text);
	brief_failures(page, s, &text);
}

/* --- the whole --- */

void gs_report_summary_attention(struct gs_page *page, const struct gs_summary *s, bool all)
{
	gs_report_summary_uses(page, s, all);
	gs_report_summary_probed_table(page, s, all);
	gs_report_summary_mpi_table(page, s, all);
	put_comms(page, s, all);
	put_open_calls(page, s, all);
	put_errors(page, s, all);
	put_lost(page, s, all);
	put_attach(page, s, all);
	put_attach_failures(page, s, all);
}
