/*
 * A recorded run as a PDF of a few pages, to print or to mail: what a page in a browser says first, and of each
 * table the rows that took most.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/account.h"
#include "model/trace/func.h"
#include "output/run_page/row.h"
#include "output/run_page/run_page_int.h"

#define ROWS 12 /* of a table */

static void put_account(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Part", 5, false}, {"Time", 2, true}, {"Share", 2, true}, {"Source", 6, false}};
	const struct gs_account_thread *t = s->account.threads;
	uint64_t part_ns[GS_PART_COUNT], wall_ns;
	double shares[GS_PART_COUNT];
	size_t n = 0, i = 0;
	char text[160], ns[GS_FMT_BYTES];

	if (!s->account.n_threads || !t->critical || !t->wall_ns)
		return;
	wall_ns = gs_account_parts(t->time_ns, part_ns);
	for (unsigned part = 0; part < GS_PART_COUNT; part++)
		if (part_ns[part])
			shares[n++] = (double)part_ns[part] / (double)wall_ns;
	gs_plot_put_heading(row->to, "Where the time went");
	snprintf(text, sizeof(text), "Wall time of the thread that sets the pace: %s (%u), %s",
		 t->comm, t->tid, gs_fmt_ns(ns, wall_ns));
	run_page_put_words(row, true, text);
	gs_plot_put_bar(row->to, shares, n);
	gs_plot_begin_table(row->to, columns, GS_ARRAY_LEN(columns));
	for (unsigned part = 0; part < GS_PART_COUNT; part++) {
		if (!part_ns[part])
			continue;
		gs_plot_put_mark(row->to, i++, n);
		run_page_add_name(row, gs_account_part_title(part));
		run_page_add_ns(row, part_ns[part]);
		run_page_add_percent(row, (double)part_ns[part] / (double)wall_ns);
		run_page_add_name(row, gs_account_part_source(part));
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_steps(struct run_page_row *row, const struct gs_summary *s)
{
	const struct gs_step_summary *st = &s->steps;
	char text[512], median[GS_FMT_BYTES], p95[GS_FMT_BYTES], most[GS_FMT_BYTES],
		at[GS_FMT_BYTES];

	if (!st->n_steps)
		return;
	gs_plot_put_heading(row->to, "Steps");
	snprintf(
		text, sizeof(text),
		"%llu steps of thread %s (%u), each from %s to the next: median %s, 95 %% below %s, the slowest %s, %s after the start.",
		(unsigned long long)st->n_steps, st->comm, st->tid, st->anchor,
		gs_fmt_ns(median, st->median_ns), gs_fmt_ns(p95, st->p95_ns),
		gs_fmt_ns(most, st->max_ns), gs_fmt_ns(at, st->max_start_ns));
	run_page_put_words(row, false, text);
}

static void put_functions(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {{"Function", 7, false}, {"Calls", 2, true},
							{"Failed", 1.4, true},  {"Total", 2, true},
							{"Mean", 2, true},      {"p99", 2, true},
							{"Most", 2, true},      {"Bytes", 2, true}};
	size_t in_layer = 0;
	char heading[80];

	for (size_t i = 0; i < s->functions.n; i++) {
		const struct gs_function_stats *f = &s->functions.items[i];
		bool is_first = !i || f->layer != f[-1].layer;

		if (is_first) {
			in_layer = 0;
			gs_plot_end_table(row->to);
			snprintf(heading, sizeof(heading), "Calls: %s", gs_layer_title(f->layer));
			run_page_begin_block(row, heading, columns, GS_ARRAY_LEN(columns));
		}
		if (in_layer++ >= ROWS)
			continue;
		run_page_add_name(row, f->name);
		run_page_add_count(row, f->calls);
		run_page_add_count(row, f->errors);
		run_page_add_ns(row, f->total_ns);
		run_page_add_ns(row, f->mean_ns);
		run_page_add_ns(row, f->p99_ns);
		run_page_add_ns(row, f->max_ns);
		run_page_add_bytes(row, f->bytes);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_uses(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Operator", 7, false},   {"Launches", 2, true},       {"Copies", 2, true},
		{"Collectives", 2, true}, {"In these calls", 2, true}, {"Bytes", 2, true}};

	if (!s->n_uses)
		return;
	run_page_begin_block(row, "By operator", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_uses && i < ROWS; i++) {
		const struct gs_use_summary *u = &s->uses[i];

		run_page_add_name(row, u->name);
		run_page_add_count(row, u->launches);
		run_page_add_count(row, u->copies);
		run_page_add_count(row, u->collectives);
		run_page_add_ns(row, u->total_ns);
		run_page_add_bytes(row, u->bytes);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_lines(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {{"Line of Python", 5, false},
							{"Function", 5, false},
							{"Running", 2, true},
							{"Waiting", 2, true},
							{"Launches", 2, true}};
	char place[RUN_PAGE_CELL_BYTES];

	if (!s->n_python_lines)
		return;
	run_page_begin_block(row, "Lines of Python", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_python_lines && i < ROWS; i++) {
		const struct gs_line_stats *l = &s->python_lines[i];
		const char *slash = strrchr(l->file, '/');

		snprintf(place, sizeof(place), "%s:%u", slash ? slash + 1 : l->file, l->line);
		run_page_add_name(row, place);
		run_page_add_name(row, l->function);
		run_page_add_ns(row, l->sample_ns);
		run_page_add_ns(row, l->wait_ns);
		run_page_add_count(row, l->launches);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_kernels(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column timed[] = {
		{"Kernel", 9, false}, {"Runs", 2, true}, {"Total", 2, true}, {"Most", 2, true}};
	static const struct gs_plot_column launched[] = {{"Kernel", 9, false},
							 {"Launches", 2, true},
							 {"In graphs", 2, true},
							 {"Host time", 2, true}};

	if (s->gpu_time && s->gpu_time->n_kernels) {
		run_page_begin_block(row, "GPU time by kernel, as the GPU measured it", timed,
				     GS_ARRAY_LEN(timed));
		for (size_t i = 0; i < s->gpu_time->n_kernels && i < ROWS; i++) {
			const struct gs_gpu_time_kernel *k = &s->gpu_time->kernels[i];

			run_page_add_name(row, *k->short_name ? k->short_name : "not known");
			run_page_add_count(row, k->runs);
			run_page_add_ns(row, k->total_ns);
			run_page_add_ns(row, k->max_ns);
			run_page_end_row(row);
		}
		gs_plot_end_table(row->to);
	}
	if (!s->n_kernels)
		return;
	run_page_begin_block(row, "Kernels by launches", launched, GS_ARRAY_LEN(launched));
	for (size_t i = 0; i < s->n_kernels && i < ROWS; i++) {
		run_page_add_name(row, *s->kernels[i].short_name ? s->kernels[i].short_name
								 : "not known");
		run_page_add_count(row, s->kernels[i].launches);
		run_page_add_count(row, s->kernels[i].graph_runs);
		run_page_add_ns(row, s->kernels[i].host_ns);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_gpus(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {{"GPU", 2, false},
							{"Name", 5, false},
							{"Busy", 2, true},
							{"Memory, most", 2, true},
							{"Samples", 2, true}};
	static const struct gs_plot_column held[] = {
		{"Process", 3, false}, {"Kind", 3, false},     {"At the end", 2, true},
		{"Most", 2, true},     {"Allocated", 2, true}, {"Allocations", 2, true}};

	if (s->n_gpus)
		run_page_begin_block(row, "GPUs", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_gpus && i < 2 * ROWS; i++) {
		const struct gs_gpu_summary *g = &s->gpus[i];

		run_page_add_name(row, g->number);
		run_page_add_name(row, g->name);
		run_page_add_percent(row, g->busy_ratio);
		run_page_add_bytes(row,
				   g->memory_peak_bytes > 0 ? (uint64_t)g->memory_peak_bytes : 0);
		run_page_add_count(row, g->n_samples);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
	if (!s->memory || !s->memory->n_rows)
		return;
	run_page_begin_block(row, "GPU memory", held, GS_ARRAY_LEN(held));
	for (size_t i = 0; i < s->memory->n_rows && i < ROWS; i++) {
		const struct gs_memory_row *m = &s->memory->rows[i];
		char process[RUN_PAGE_CELL_BYTES];

		snprintf(process, sizeof(process), "%s %u", m->comm, m->pid);
		run_page_add_name(row, process);
		run_page_add_name(row, gs_memory_kind_name(m->sums.kind));
		run_page_add_bytes(row, m->sums.live_bytes);
		run_page_add_bytes(row, m->sums.peak_bytes);
		run_page_add_bytes(row, m->sums.total_bytes);
		run_page_add_count(row, m->sums.allocations);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_arrivals(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Rank", 2, true},     {"Process", 2, true},      {"Calls", 2, true},
		{"In calls", 2, true}, {"Late, median", 2, true}, {"Most", 2, true},
		{"Last", 2, true}};
	const struct gs_collectives_comm *c;
	char heading[80];

	if (!s->collectives || !s->collectives->n_comms)
		return;
	c = &s->collectives->comms[0];
	snprintf(heading, sizeof(heading), "Arrival of %d ranks at %llu collectives", c->n_ranks,
		 (unsigned long long)c->n_matched);
	run_page_begin_block(row, heading, columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < c->n_seen && i < 2 * ROWS; i++) {
		const struct gs_collectives_rank *r = &c->ranks[i];

		run_page_add_id(row, (uint64_t)r->rank);
		run_page_add_id(row, r->pid);
		run_page_add_count(row, r->calls);
		run_page_add_ns(row, r->calls_ns);
		run_page_add_ns(row, r->late_p50_ns);
		run_page_add_ns(row, r->late_max_ns);
		run_page_add_count(row, r->n_last);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_accuracy(struct run_page_row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Layer", 3, false}, {"Cause", 9, false}, {"Detail", 4, false}, {"Count", 2, true}};
	char text[256];

	if (s->n_lost)
		run_page_begin_block(row, "Lost", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_lost && i < ROWS; i++) {
		run_page_add_name(row, s->lost[i].layer ? gs_layer_title(s->lost[i].layer) : "all");
		run_page_add_name(row, gs_loss_text(s->lost[i].cause));
		run_page_add_name(row, s->lost[i].detail);
		run_page_add_count(row, s->lost[i].count);
		run_page_end_row(row);
	}
	gs_plot_end_table(row->to);
	gs_plot_put_heading(row->to, "How it was measured");
	snprintf(text, sizeof(text),
		 "On %s, kernel %s, by %s. Percentiles are off by %.1f %% at most.%s%s", s->host,
		 s->kernel, *s->attach_mode ? s->attach_mode : "a recording", GS_HIST_ERROR_PCT,
		 s->n_lost ? "" : " Nothing was lost.",
		 s->complete ? "" : " The recording stops before its end.");
	run_page_put_words(row, false, text);
	if (s->cost_known) {
		snprintf(text, sizeof(text), "Tracing took %.2f %% of processor time.",
			 (double)s->cost_ppm / 1e4);
		gs_plot_put_paragraph(row->to, false, text);
	}
}

static void put_head(struct run_page_row *row, const struct gs_summary *s,
		     const struct gs_run_page *page)
{
	const struct gs_verdict_summary *v = &s->verdict;
	char text[512], ns[GS_FMT_BYTES];

	row->n = 0;
	run_page_add_name(row, *s->command ? s->command : page->file);
	gs_plot_put_title(row->to, row->cells[0]);
	row->n = 0;
	snprintf(text, sizeof(text), "%s, traced for %s", page->file,
		 gs_fmt_ns(ns, s->duration_ns));
	run_page_put_words(row, true, text);
	snprintf(text, sizeof(text), "Verdict: %s", v->title && *v->title ? v->title : "none");
	gs_plot_put_heading(row->to, text);
	if (v->evidence)
		run_page_put_words(row, false, v->evidence);
	if (v->advice && *v->advice) {
		snprintf(text, sizeof(text), "Next: %s", v->advice);
		run_page_put_words(row, false, text);
	}
}

static void put_findings(struct run_page_row *row, const struct gs_summary *s,
			 const struct gs_run_page *page)
{
	if (!page->n_findings && !s->n_hangs)
		return;
	gs_plot_put_heading(row->to, "Findings");
	for (size_t i = 0; i < s->n_hangs && i < ROWS; i++)
		run_page_put_words(row, false, s->hangs[i].text);
	for (size_t i = 0; i < page->n_findings; i++)
		run_page_put_words(row, false, page->findings[i]);
}

int gs_run_page_write_pdf(struct gs_buf *out, const struct gs_summary *summary,
			  const struct gs_run_page *page, struct gs_err *err)
{
	GS_CLEANUP(run_page_fini_excerpt) struct run_page_excerpt excerpt;
	struct gs_plot_document *document = NULL;
	struct run_page_row row;
	const struct gs_summary *s = &excerpt.summary;
	int r = run_page_make_excerpt(summary, &excerpt);

	if (r == 0)
		r = gs_plot_open_document(out, "gpuscope", &document, err);
	if (r < 0)
		return r;
	run_page_init_row(&row, document);
	put_head(&row, s, page);
	put_account(&row, s);
	put_steps(&row, s);
	put_findings(&row, s, page);
	put_functions(&row, s);
	put_uses(&row, s);
	put_lines(&row, s);
	put_kernels(&row, s);
	put_gpus(&row, s);
	put_arrivals(&row, s);
	put_accuracy(&row, s);
	run_page_fini_row(&row);
	return gs_plot_close_document(&document, err);
}
