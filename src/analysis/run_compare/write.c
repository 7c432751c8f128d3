/* A comparison of runs as a table, as JSON and as YAML. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/text/doc.h"
#include "core/text/page.h"

#define ROWS_OF_KIND 5     /* of the table */
#define LEAST_PART   0.001 /* of a step: smaller differences have no row */

static const struct {
	const char *name, *title;
} kinds[GS_RUN_COMPARE_KINDS] = {
	[GS_RUN_COMPARE_WHOLE] = {"whole_run", "whole run: its pace-setting thread"},
	[GS_RUN_COMPARE_PART] = {"account", "wall-clock account"},
	[GS_RUN_COMPARE_OPERATOR] = {"operator", "operators"},
	[GS_RUN_COMPARE_CALL] = {"function", "calls"},
	[GS_RUN_COMPARE_PYTHON] = {"python_function", "Python functions, running and waiting"},
	[GS_RUN_COMPARE_LINE] = {"line", "lines of them"},
	[GS_RUN_COMPARE_OTHER] = {"other_threads", "Python functions of other threads"},
	[GS_RUN_COMPARE_GPU] = {"gpu", "GPUs, by their own times"},
	[GS_RUN_COMPARE_KERNEL] = {"kernel", "kernels on the GPU"},
	[GS_RUN_COMPARE_STREAM] = {"stream", "streams of GPUs"},
};

static const char *const verdicts[] = {
	[GS_RUN_COMPARE_UNKNOWN] = "not_known",
	[GS_RUN_COMPARE_SAME] = "no_difference_shown",
	[GS_RUN_COMPARE_SLOWER] = "slower",
	[GS_RUN_COMPARE_FASTER] = "faster",
};

const char *gs_run_compare_verdict_title(const struct gs_run_compare_result *c)
{
	static const char *const titles[] = {
		[GS_RUN_COMPARE_UNKNOWN] = "Not known",
		[GS_RUN_COMPARE_SAME] = "No difference shown",
		[GS_RUN_COMPARE_SLOWER] = "Slower",
		[GS_RUN_COMPARE_FASTER] = "Faster",
	};

	return titles[c->whole.is_known ? c->whole.verdict : c->verdict];
}

/* --- data --- */

static void put_side(struct gs_doc *doc, const char *key,
		     const struct gs_run_compare_run *const *runs, size_t n,
		     struct gs_run_compare_value ns)
{
	gs_doc_begin_map(doc, key);
	gs_doc_put_double(doc, "step_ns", ns.mean);
	gs_doc_put_double(doc, "step_plus_minus_ns", ns.plus_minus);
	gs_doc_begin_list(doc, "runs", n);
	for (size_t i = 0; i < n; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "file", runs[i]->file);
		gs_doc_put_text(doc, "command", runs[i]->command);
		gs_doc_put_text(doc, "host", runs[i]->host);
		gs_doc_put_u64(doc, "steps", runs[i]->n_steps);
		gs_doc_put_u64_if(doc, "blocks", runs[i]->n_blocks, runs[i]->n_blocks);
		gs_doc_put_u64_if(doc, "pid", runs[i]->pid, runs[i]->n_steps);
		gs_doc_put_u64_if(doc, "tid", runs[i]->tid, runs[i]->n_steps);
		gs_doc_put_u64_if(doc, "gpu_time_steps", runs[i]->gpu.n_steps,
				  runs[i]->gpu.n_windows);
		gs_doc_put_text(doc, "thread", runs[i]->comm);
		gs_doc_put_text(doc, "step_begins_with", runs[i]->anchor);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static void put_item(struct gs_doc *doc, const char *key, const struct gs_run_compare_item *item)
{
	gs_doc_begin_flat(doc, key);
	gs_doc_put_text(doc, "kind", kinds[item->kind].name);
	gs_doc_put_text(doc, "name", item->name);
	gs_doc_put_double(doc, "base_ns", item->base_ns);
	gs_doc_put_double(doc, "changed_ns", item->changed_ns);
	gs_doc_put_double(doc, "difference_ns", item->ns.mean);
	gs_doc_put_double(doc, "plus_minus_ns", item->ns.plus_minus);
	gs_doc_put_double(doc, "share", item->share);
	gs_doc_put_double(doc, "base_calls", item->base_calls);
	gs_doc_put_double(doc, "changed_calls", item->changed_calls);
	gs_doc_end(doc);
}

static void put_whole(struct gs_doc *doc, const struct gs_run_compare_result *c)
{
	if (!c->whole.is_known) {
		gs_doc_put_null(doc, "whole_run");
		return;
	}
	gs_doc_begin_flat(doc, "whole_run");
	gs_doc_put_text(doc, "verdict", verdicts[c->whole.verdict]);
	gs_doc_put_double(doc, "base_ns", c->whole.base_ns);
	gs_doc_put_double(doc, "changed_ns", c->whole.changed_ns);
	gs_doc_put_double(doc, "difference_percent", c->whole.percent.mean);
	gs_doc_put_double(doc, "plus_minus_percent", c->whole.percent.plus_minus);
	gs_doc_end(doc);
}

static void put_result(struct gs_doc *doc, const struct gs_run_compare_result *c)
{
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];
	size_t n_causes = 0;

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_text(doc, "text", gs_run_compare_headline(c, text));
	gs_doc_put_text(doc, "verdict", verdicts[c->verdict]);
	gs_doc_put_text(doc, "reason", c->reason);
	gs_doc_put_double(doc, "difference_percent", c->percent.mean);
	gs_doc_put_double(doc, "plus_minus_percent", c->percent.plus_minus);
	put_whole(doc, c);
	put_side(doc, "base", c->base, c->n_base, c->base_ns);
	put_side(doc, "changed", c->changed, c->n_changed, c->changed_ns);
	if (c->named)
		put_item(doc, "cause", c->named);
	else
		gs_doc_put_null(doc, "cause");
	for (unsigned kind = 0; kind < GS_RUN_COMPARE_KINDS; kind++)
		n_causes += c->cause[kind] != NULL;
	gs_doc_begin_list(doc, "causes", n_causes);
	for (unsigned kind = 0; kind < GS_RUN_COMPARE_KINDS; kind++)
		if (c->cause[kind])
			put_item(doc, NULL, c->cause[kind]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "items", c->n_items);
	for (size_t i = 0; i < c->n_items; i++)
		put_item(doc, NULL, &c->items[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "notes", c->n_notes);
	for (size_t i = 0; i < c->n_notes; i++)
		gs_doc_put_text(doc, NULL, c->notes[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

void gs_run_compare_put(struct gs_doc *doc, const struct gs_run_compare_result *results, size_t n)
{
	gs_doc_put_u64(doc, "version", 1);
	gs_doc_put_u64(doc, "confidence_percent", 95);
	gs_doc_put_text(
		doc, "method",
		"means of blocks of steps, 20 % of the blocks trimmed at each end, Yuen's test; the spread between equal runs as it is, or of single runs as large as theirs");
	gs_doc_begin_list(doc, "comparisons", n);
	for (size_t i = 0; i < n; i++) {
		put_result(doc, &results[i]);
		gs_pen_yield(doc->pen);
	}
	gs_doc_end(doc);
}

static void put_doc(struct gs_pen *pen, const struct gs_run_compare_result *results, size_t n,
		    const struct gs_doc_ops *ops)
{
	struct gs_doc doc = {.ops = ops, .pen = pen};

	gs_doc_begin_map(&doc, NULL);
	gs_run_compare_put(&doc, results, n);
	gs_doc_end(&doc);
	gs_pen_puts(pen, "\n");
}

/* --- for people --- */

static const char *format_ns(char out[GS_FMT_BYTES + 4], double ns, bool with_sign)
{
	char text[GS_FMT_BYTES];

	if (isnan(ns))
		snprintf(out, GS_FMT_BYTES + 4, "-");
	else
		snprintf(out, GS_FMT_BYTES + 4, "%s%s",
			 !with_sign || fabs(ns) < 0.5 ? ""
			 : ns < 0                     ? "-"
						      : "+",
			 gs_fmt_ns(text, (uint64_t)(fabs(ns) + 0.5)));
	return out;
}

static void put_run_lines(struct gs_page *page, const char *side,
			  const struct gs_run_compare_run *const *runs, size_t n,
			  struct gs_run_compare_value ns)
{
	char text[768], step[GS_FMT_BYTES + 4], spread[GS_FMT_BYTES + 4];

	for (size_t i = 0; i < n; i++) {
		if (n == 1 && !isnan(ns.mean))
			snprintf(text, sizeof(text),
				 "%s: %zu steps of %s ± %s, from %s in thread %s (%u)",
				 runs[i]->file, runs[i]->n_steps, format_ns(step, ns.mean, false),
				 format_ns(spread, ns.plus_minus, false), runs[i]->anchor,
				 runs[i]->comm, runs[i]->tid);
		else
			snprintf(text, sizeof(text), "%s: %zu steps%s%s", runs[i]->file,
				 runs[i]->n_steps, runs[i]->whole.duration_ns ? ", ran " : "",
				 runs[i]->whole.duration_ns
					 ? gs_fmt_ns(step, runs[i]->whole.duration_ns)
					 : "");
		gs_page_left(page, GS_INK_DIM, side, 9, GS_CUT_END);
		gs_page_words(page, GS_INK_PLAIN, text);
	}
	if (n == 1 || isnan(ns.mean))
		return;
	snprintf(text, sizeof(text), "%zu runs: steps of %s ± %s", n,
		 format_ns(step, ns.mean, false), format_ns(spread, ns.plus_minus, false));
	gs_page_left(page, GS_INK_DIM, "", 9, GS_CUT_END);
	gs_page_words(page, GS_INK_PLAIN, text);
}

static void put_row(struct gs_grid *g, const struct gs_run_compare_item *item)
{
	char text[GS_FMT_BYTES + 4], label[GS_RUN_COMPARE_NOTE_BYTES];

	snprintf(label, sizeof(label), "  %s", item->name);
	gs_grid_left(g, GS_INK_PLAIN, label, GS_CUT_MIDDLE);
	gs_grid_right(g, GS_INK_PLAIN, format_ns(text, item->base_ns, false));
	gs_grid_right(g, GS_INK_PLAIN, format_ns(text, item->changed_ns, false));
	gs_grid_right(g, GS_INK_PLAIN, format_ns(text, item->ns.mean, true));
	gs_grid_right(g, GS_INK_DIM, format_ns(text, item->ns.plus_minus, false));
	if (isnan(item->share))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%.0f %%", item->share * 100);
	gs_grid_right(g, GS_INK_PLAIN, text);
	gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
}

static void put_heading(struct gs_grid *g, enum gs_ink ink, const char *const titles[6])
{
	gs_grid_left(g, ink, titles[0], GS_CUT_END);
	for (unsigned i = 1; i < 6; i++)
		gs_grid_right(g, ink, titles[i]);
	gs_grid_rest(g, ink, "", GS_CUT_END);
}

const char *gs_run_compare_kind_title(enum gs_run_compare_kind kind)
{
	return kinds[kind].title;
}

static bool shows_difference(const struct gs_run_compare_result *c)
{
	return c->verdict == GS_RUN_COMPARE_SLOWER || c->verdict == GS_RUN_COMPARE_FASTER;
}

bool gs_run_compare_has_row(const struct gs_run_compare_result *c,
			    const struct gs_run_compare_item *item)
{
	/* How busy a GPU was is of use when it did not change, too. */
	if (item->kind == GS_RUN_COMPARE_GPU)
		return item->base_ns > 0 || item->changed_ns > 0;
	if (item->kind == GS_RUN_COMPARE_WHOLE)
		return fmax(item->base_ns, item->changed_ns) >= LEAST_PART * c->whole.base_ns;
	if (!shows_difference(c) && !run_compare_is_gpu(item->kind))
		return false;
	return fabs(item->ns.mean) >= LEAST_PART * c->base_ns.mean;
}

static void put_grid(struct gs_grid *g, const struct gs_run_compare_result *c)
{
	static const char *const of_step[] = {"where",  "base/step", "new/step",
					      "change", "±",         "share"};
	static const char *const of_run[] = {"where",  "base/run", "new/run",
					     "change", "±",        "share"};
	const char *const *head = c->verdict == GS_RUN_COMPARE_UNKNOWN ? of_run : of_step;
	unsigned rows = 0, kind = GS_RUN_COMPARE_KINDS;

	put_heading(g, GS_INK_DIM, head);
	for (size_t i = 0; i < c->n_items; i++) {
		const struct gs_run_compare_item *item = &c->items[i];

		if (!gs_run_compare_has_row(c, item))
			continue;
		if (item->kind != kind)
			put_heading(
				g, GS_INK_BOLD,
				(const char *const[]){kinds[item->kind].title, "", "", "", "", ""});
		rows = item->kind == kind ? rows + 1 : 1;
		kind = item->kind;
		if (rows <= ROWS_OF_KIND)
			put_row(g, item);
	}
}

static void put_table(struct gs_page *page, const struct gs_run_compare_result *c)
{
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];
	struct gs_grid grid = {.page = page, .measuring = true};
	bool has_rows = false;

	put_run_lines(page, "base", c->base, c->n_base, c->base_ns);
	put_run_lines(page, "new", c->changed, c->n_changed, c->changed_ns);
	gs_page_line(page);
	gs_page_words(page,
		      c->verdict == GS_RUN_COMPARE_SLOWER ||
				      c->whole.verdict == GS_RUN_COMPARE_SLOWER
			      ? GS_INK_WARN
			      : GS_INK_BOLD,
		      gs_run_compare_headline(c, text));
	for (size_t i = 0; i < c->n_notes; i++) {
		gs_page_gap(page, 2);
		gs_page_words(page, GS_INK_DIM, c->notes[i]);
	}
	for (size_t i = 0; i < c->n_items; i++)
		has_rows |= gs_run_compare_has_row(c, &c->items[i]);
	if (!has_rows)
		return;
	gs_page_line(page);
	put_grid(&grid, c);
	gs_grid_fit(&grid, 0, 1);
	put_grid(&grid, c);
}

int gs_run_compare_write(FILE *out, const struct gs_run_compare_result *results, size_t n,
			 const struct gs_run_compare_style *style)
{
	struct gs_pen pen;
	struct gs_page page;

	gs_pen_open(&pen, out);
	if (style->format != GS_RUN_COMPARE_TABLE) {
		put_doc(&pen, results, n,
			style->format == GS_RUN_COMPARE_YAML ? &gs_doc_yaml : &gs_doc_json);
		return gs_pen_close(&pen);
	}
	gs_page_init(&page, &pen, style->width, style->color);
	for (size_t i = 0; i < n; i++) {
		if (i)
			gs_page_line(&page);
		put_table(&page, &results[i]);
	}
	gs_page_fini(&page);
	return gs_pen_close(&pen);
}
