/* Hangs and mismatches, with what each rank did when they were found. */
#include "output/gpu_report/hangs.h"

#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"

#define N_RANKS    8 /* without -v */
#define TEXT_BYTES 4352

static void put_words(struct gs_page *page, unsigned gap, enum gs_ink ink, const char *key,
		      const char *text)
{
	char words[TEXT_BYTES];

	snprintf(words, sizeof(words), "%s%s", key, text);
	gs_page_gap(page, gap);
	gs_page_words(page, ink, words);
}

static void put_rank(struct gs_page *page, const struct gs_hang_rank_summary *r)
{
	put_words(page, 4, strcmp(r->state, "arrived") == 0 ? GS_INK_PLAIN : GS_INK_WARN, "",
		  r->text);
	if (*r->python)
		put_words(page, 6, GS_INK_PLAIN, "Python: ", r->python);
	if (*r->native)
		put_words(page, 6, GS_INK_PLAIN, "native: ", r->native);
}

/* When it began, what it is, and how it ended. */
static void put_text(struct gs_page *page, const char *key, const struct gs_hang_summary *h)
{
	char text[TEXT_BYTES], at[GS_FMT_BYTES], after[GS_FMT_BYTES];

	snprintf(text, sizeof(text), "after %s: %.600s%s%s", gs_fmt_ns(at, h->since_ns), h->text,
		 !h->ended_ns     ? ""
		 : h->has_arrived ? "; the last rank arrived after "
				  : "; those that waited ended after ",
		 h->ended_ns ? gs_fmt_ns(after, h->ended_ns - h->since_ns) : "");
	put_words(page, 2, h->has_arrived ? GS_INK_WARN : GS_INK_RED, key, text);
}

static void put_hang(struct gs_page *page, const struct gs_hang_summary *h, bool verbose)
{
	size_t n = verbose || h->n_listed <= N_RANKS + 1 ? h->n_listed : N_RANKS;
	char text[64];

	put_text(page, "", h);
	for (size_t i = 0; i < n; i++)
		put_rank(page, &h->ranks[i]);
	if (n < h->n_listed) {
		snprintf(text, sizeof(text), "... and %zu more ranks (-v)", h->n_listed - n);
		put_words(page, 4, GS_INK_DIM, "", text);
	}
}

void gs_report_hangs_table(struct gs_page *page, const struct gs_summary *s, bool verbose)
{
	if (!s->n_hangs)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "Hangs and mismatches of ranks", GS_CUT_END);
	gs_page_line(page);
	for (size_t i = 0; i < s->n_hangs; i++)
		put_hang(page, &s->hangs[i], verbose);
}

/* The newest of those that were not over, else the newest. NULL: there is none. */
static const struct gs_hang_summary *find_newest(const struct gs_summary *s)
{
	for (size_t i = s->n_hangs; i-- > 0;)
		if (!s->hangs[i].ended_ns)
			return &s->hangs[i];
	return s->n_hangs ? &s->hangs[s->n_hangs - 1] : NULL;
}

void gs_report_hangs_brief(struct gs_page *page, const struct gs_summary *s)
{
	const struct gs_hang_summary *h = find_newest(s);
	char key[64], more[32] = "";

	if (!h)
		return;
	if (s->n_hangs > 1)
		snprintf(more, sizeof(more), "(%zu more: -v) ", s->n_hangs - 1);
	snprintf(key, sizeof(key), "%s %s", strcmp(h->kind, "differs") == 0 ? "Mismatch" : "Hang",
		 more);
	put_text(page, key, h);
	if (h->n_listed && strcmp(h->ranks[0].state, "arrived") != 0)
		put_words(page, 4, GS_INK_WARN, *h->ranks[0].python ? "Python: " : "",
			  *h->ranks[0].python ? h->ranks[0].python : h->ranks[0].text);
}

static void put_text_or_null(struct gs_doc *doc, const char *key, const char *text)
{
	if (*text)
		gs_doc_put_text(doc, key, text);
	else
		gs_doc_put_null(doc, key);
}

static void put_rank_doc(struct gs_doc *doc, const struct gs_hang_rank_summary *r)
{
	bool called = *r->last_function != 0;

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_i64_if(doc, "rank", r->rank, true);
	gs_doc_put_u64(doc, "pid", r->pid);
	gs_doc_put_u64_if(doc, "tid", r->tid, r->tid);
	gs_doc_put_text(doc, "state", r->state);
	gs_doc_put_u64_if(doc, "signal", r->signal, r->signal);
	gs_doc_put_u64(doc, "calls", r->calls);
	put_text_or_null(doc, "last_function", r->last_function);
	gs_doc_put_u64_if(doc, "last_count", r->last_count, called);
	put_text_or_null(doc, "last_type", r->last_type);
	gs_doc_put_u64_if(doc, "last_age_ns", r->last_age_ns, called);
	gs_doc_put_text(doc, "text", r->text);
	put_text_or_null(doc, "python", r->python);
	put_text_or_null(doc, "native", r->native);
	gs_doc_end(doc);
}

void gs_report_hangs_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "hangs", s->n_hangs);
	for (size_t i = 0; i < s->n_hangs; i++) {
		const struct gs_hang_summary *h = &s->hangs[i];
		char id[32];

		snprintf(id, sizeof(id), "0x%llx", (unsigned long long)h->id);
		gs_doc_begin_map(doc, NULL);
		gs_doc_put_text(doc, "kind", h->kind);
		gs_doc_put_text(doc, "text", h->text);
		gs_doc_put_text(doc, "communicator", id);
		gs_doc_put_i64_if(doc, "ranks", h->n_ranks, true);
		gs_doc_put_u64(doc, "collective", h->call);
		gs_doc_put_u64(doc, "since_ns", h->since_ns);
		gs_doc_put_u64(doc, "found_ns", h->found_ns);
		gs_doc_put_u64_if(doc, "ended_ns", h->ended_ns, h->ended_ns);
		gs_doc_put_bool(doc, "has_arrived", h->has_arrived);
		gs_doc_begin_list(doc, "by_rank", h->n_listed);
		for (size_t k = 0; k < h->n_listed; k++)
			put_rank_doc(doc, &h->ranks[k]);
		gs_doc_end(doc);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}
