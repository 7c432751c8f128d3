/* Python functions of which each call was traced. */
#include "output/report/summary_python.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "model/trace/func.h"

enum column { COL_CALLS, COL_RESUMES, COL_TOTAL, COL_SELF, COL_MAX, COL_LAUNCHES, N_COLUMNS };

static const char *const heads[N_COLUMNS] = {"calls", "resumed", "total",
					     "self",  "max",     "launches"};

static uint64_t value_of(const struct gs_python_function *f, enum column column)
{
	const uint64_t v[N_COLUMNS] = {f->calls,   f->resumes, f->total_ns,
				       f->self_ns, f->max_ns,  f->launches};

	return v[column];
}

static void put_function(struct gs_grid *g, const struct gs_python_function *f,
			 const bool shown[N_COLUMNS])
{
	char out[GS_FMT_BYTES], text[1024];

	for (unsigned c = 0; c < N_COLUMNS; c++) {
		uint64_t v = value_of(f, c);

		if (!shown[c])
			continue;
		if (!v)
			gs_grid_right(g, GS_INK_DIM, "-");
		else if (c == COL_TOTAL || c == COL_SELF || c == COL_MAX)
			gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, v));
		else
			gs_grid_right(g, GS_INK_PLAIN, gs_fmt_count(out, v));
	}
	snprintf(text, sizeof(text), "%.900s", gs_report_text_of(f->name));
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_START);
}

static void put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

void gs_report_summary_python_table(struct gs_page *page, const struct gs_summary *s,
				    unsigned n_top)
{
	size_t n = s->n_python_functions;
	struct gs_grid g = {.page = page, .measuring = true};
	bool shown[N_COLUMNS] = {0};
	char text[128];

	if (!n)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "Python functions", GS_CUT_END);
	gs_page_line(page);
	if (n_top && n > (size_t)n_top + 1)
		n = n_top;
	for (size_t i = 0; i < s->n_python_functions; i++)
		for (unsigned c = 0; c < N_COLUMNS; c++)
			shown[c] |= value_of(&s->python_functions[i], c) != 0;
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned c = 0; c < N_COLUMNS; c++)
			if (shown[c])
				gs_grid_right(&g, GS_INK_DIM, heads[c]);
		gs_grid_rest(&g, GS_INK_DIM, "file:function/line", GS_CUT_END);
		for (size_t i = 0; i < n; i++)
			put_function(&g, &s->python_functions[i], shown);
		if (pass == 0)
			gs_grid_fit(&g, 0, 40);
	}
	if (n < s->n_python_functions) {
		snprintf(text, sizeof(text), "... and %zu more functions (--top 0 shows all)",
			 s->n_python_functions - n);
		put_remark(page, text);
	}
}

void gs_report_summary_python_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "python_functions", s->n_python_functions);
	for (size_t i = 0; i < s->n_python_functions; i++) {
		const struct gs_python_function *f = &s->python_functions[i];
		bool timed = f->total_ns != 0;

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "name", f->name);
		gs_doc_put_text(doc, "file", f->file);
		gs_doc_put_u64_if(doc, "line", f->line, f->line);
		gs_doc_put_u64(doc, "calls", f->calls);
		gs_doc_put_u64(doc, "resumes", f->resumes);
		gs_doc_put_u64_if(doc, "total_ns", f->total_ns, timed);
		gs_doc_put_u64_if(doc, "self_ns", f->self_ns, timed);
		gs_doc_put_u64_if(doc, "p50_ns", f->p50_ns, timed);
		gs_doc_put_u64_if(doc, "p95_ns", f->p95_ns, timed);
		gs_doc_put_u64_if(doc, "p99_ns", f->p99_ns, timed);
		gs_doc_put_u64_if(doc, "max_ns", f->max_ns, timed);
		gs_doc_put_u64_if(doc, "launches", f->launches, timed);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}
