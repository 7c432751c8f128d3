/*
 * A comparison of runs for people: a page as that of a run (web/compare.js draws it), and a PDF. Both say what was
 * compared and how sure that is before they say where the difference lies.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "output/run_page/row.h"
#include "output/run_page/run_page.h"
#include "compare_page_text.h"

#define ROWS_OF_KIND 12 /* in a PDF */

static const char place[] = "@REPORT@";

int gs_run_page_write_comparison(FILE *out, const struct gs_run_compare_result *results, size_t n)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_script, .pen = &pen};
	const char *at = strstr(compare_page_text, place);

	gs_pen_open(&pen, out);
	gs_pen_check(&pen,
		     gs_buf_put(&pen.buf, compare_page_text, (size_t)(at - compare_page_text)));
	gs_doc_begin_map(&doc, NULL);
	gs_run_compare_put(&doc, results, n);
	gs_doc_end(&doc);
	gs_pen_puts(&pen, at + sizeof(place) - 1);
	return gs_pen_close(&pen);
}

/* --- PDF --- */

static void add_signed_ns(struct run_page_row *row, double ns, bool with_sign)
{
	char text[RUN_PAGE_CELL_BYTES], figure[GS_FMT_BYTES];

	if (isnan(ns))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%s%s",
			 !with_sign || fabs(ns) < 0.5 ? ""
			 : ns < 0                     ? "-"
						      : "+",
			 gs_fmt_ns(figure, (uint64_t)(fabs(ns) + 0.5)));
	run_page_add_figure(row, text);
}

static void add_calls(struct run_page_row *row, double calls)
{
	char text[RUN_PAGE_CELL_BYTES];

	snprintf(text, sizeof(text), calls > 0 ? "%.4g" : "-", calls);
	run_page_add_figure(row, text);
}

static void add_share(struct run_page_row *row, double share)
{
	char text[RUN_PAGE_CELL_BYTES];

	snprintf(text, sizeof(text), isnan(share) ? "-" : "%.0f %%", share * 100);
	run_page_add_figure(row, text);
}

/* The table of the runs is one, so that the sides stand below each other. */
static void put_side(struct run_page_row *row, const char *side,
		     const struct gs_run_compare_run *const *runs, size_t n,
		     struct gs_run_compare_value ns)
{
	for (size_t i = 0; i < n; i++) {
		run_page_add_name(row, i ? "" : side);
		run_page_add_name(row, gs_run_compare_file(runs[i]));
		run_page_add_count(row, gs_run_compare_n_steps(runs[i]));
		add_signed_ns(row, i ? NAN : ns.mean, false);
		add_signed_ns(row, i ? NAN : ns.plus_minus, false);
		run_page_end_row(row);
	}
}

static void put_items(struct run_page_row *row, const struct gs_run_compare_result *c)
{
	static const struct gs_plot_column columns[] = {
		{"Where", 8, false},  {"Base", 2, true},     {"New", 2, true},
		{"Change", 2, true},  {"±", 2, true},        {"Share", 1.4, true},
		{"Count", 1.5, true}, {"New count", 2, true}};
	unsigned kind = GS_RUN_COMPARE_KINDS, rows = 0;

	for (size_t i = 0; i < c->n_items; i++) {
		const struct gs_run_compare_item *item = &c->items[i];
		char heading[80];

		if (!gs_run_compare_has_row(c, item))
			continue;
		if (item->kind != kind) {
			gs_plot_end_table(row->to);
			snprintf(heading, sizeof(heading), "%s%s",
				 item->kind == GS_RUN_COMPARE_WHOLE ? "" : "A step: ",
				 gs_run_compare_kind_title(item->kind));
			run_page_begin_block(row, heading, columns, GS_ARRAY_LEN(columns));
		}
		rows = item->kind == kind ? rows + 1 : 1;
		kind = item->kind;
		if (rows > ROWS_OF_KIND)
			continue;
		run_page_add_name(row, item->name);
		add_signed_ns(row, item->base_ns, false);
		add_signed_ns(row, item->changed_ns, false);
		add_signed_ns(row, item->ns.mean, true);
		add_signed_ns(row, item->ns.plus_minus, false);
		add_share(row, item->share);
		add_calls(row, item->base_calls);
		add_calls(row, item->changed_calls);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_comparison(struct run_page_row *row, const struct gs_run_compare_result *c)
{
	static const struct gs_plot_column columns[] = {{"Side", 1, false},
							{"Recording", 7, false},
							{"Steps", 1.5, true},
							{"A step", 2, true},
							{"±", 2, true}};
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	gs_plot_put_heading(row->to, gs_run_compare_verdict_title(c));
	run_page_put_words(row, false, gs_run_compare_headline(c, text));
	for (size_t i = 0; i < c->n_notes; i++)
		run_page_put_words(row, true, c->notes[i]);
	gs_plot_begin_table(row->to, columns, GS_ARRAY_LEN(columns));
	put_side(row, "base", c->base, c->n_base, c->base_ns);
	put_side(row, "new", c->changed, c->n_changed, c->changed_ns);
	gs_plot_end_table(row->to);
	put_items(row, c);
}

int gs_run_page_write_comparison_pdf(struct gs_buf *out,
				     const struct gs_run_compare_result *results, size_t n,
				     struct gs_err *err)
{
	struct gs_plot_document *document = NULL;
	struct run_page_row row;
	int r = gs_plot_open_document(out, "gpuscope", &document, err);

	if (r < 0)
		return r;
	run_page_init_row(&row, document);
	gs_plot_put_title(document, "Comparison of runs");
	gs_plot_put_paragraph(
		document, true,
		"How long a step takes (without steps: the whole run), and where the difference is. ± is half of a 95 % interval; share: of that difference.");
	for (size_t i = 0; i < n; i++)
		put_comparison(&row, &results[i]);
	run_page_fini_row(&row);
	return gs_plot_close_document(&document, err);
}
