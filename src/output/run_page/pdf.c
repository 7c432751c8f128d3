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
#include "core/text/text.h"
#include "model/trace/account.h"
#include "model/trace/func.h"
#include "output/plot/document.h"
#include "output/run_page/run_page_int.h"

#define ROWS       12 /* of a table */
#define CELLS      8
#define CELL_BYTES 96

/* A row that is being put together. */
struct row {
	struct gs_plot_document *to;
	struct gs_buf names[CELLS]; /* texts of a program, made harmless */
	char figures[CELLS][CELL_BYTES];
	const char *cells[CELLS];
	unsigned n;
};

static void fini_row(struct row *row)
{
	for (unsigned i = 0; i < CELLS; i++)
		gs_buf_fini(&row->names[i]);
}

static void add_name(struct row *row, const char *text)
{
	struct gs_buf *name = &row->names[row->n];

	gs_buf_reset(name);
	row->cells[row->n++] =
		gs_text_line(name, text ? text : "") == 0 && gs_buf_put(name, "", 1) == 0
			? (const char *)name->data
			: "?";
}

static void add_ns(struct row *row, uint64_t ns)
{
	row->cells[row->n] = gs_fmt_ns(row->figures[row->n], ns);
	row->n++;
}

static void add_count(struct row *row, uint64_t count)
{
	row->cells[row->n] = gs_fmt_count(row->figures[row->n], count);
	row->n++;
}

/* A number that is a name: without separators. */
static void add_id(struct row *row, uint64_t id)
{
	snprintf(row->figures[row->n], CELL_BYTES, "%llu", (unsigned long long)id);
	row->cells[row->n] = row->figures[row->n];
	row->n++;
}

static void add_bytes(struct row *row, uint64_t bytes)
{
	row->cells[row->n] = gs_fmt_bytes(row->figures[row->n], bytes);
	row->n++;
}

static void add_percent(struct row *row, double share)
{
	if (share < 0)
		snprintf(row->figures[row->n], CELL_BYTES, "-");
	else
		snprintf(row->figures[row->n], CELL_BYTES, "%.1f %%", share * 100);
	row->cells[row->n] = row->figures[row->n];
	row->n++;
}

static void end_row(struct row *row)
{
	gs_plot_put_row(row->to, row->cells);
	row->n = 0;
}

static void begin_block(struct row *row, const char *heading, const struct gs_plot_column *columns,
			size_t n)
{
	gs_plot_put_heading(row->to, heading);
	gs_plot_begin_table(row->to, columns, n);
}

/* A paragraph of texts that a program chose. */
static void put_words(struct row *row, bool pale, const char *text)
{
	row->n = 0;
	add_name(row, text);
	gs_plot_put_paragraph(row->to, pale, row->cells[0]);
	row->n = 0;
}

static void put_account(struct row *row, const struct gs_summary *s)
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
	put_words(row, true, text);
	gs_plot_put_bar(row->to, shares, n);
	gs_plot_begin_table(row->to, columns, GS_ARRAY_LEN(columns));
	for (unsigned part = 0; part < GS_PART_COUNT; part++) {
		if (!part_ns[part])
			continue;
		gs_plot_put_mark(row->to, i++, n);
		add_name(row, gs_account_part_title(part));
		add_ns(row, part_ns[part]);
		add_percent(row, (double)part_ns[part] / (double)wall_ns);
		add_name(row, gs_account_part_source(part));
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_steps(struct row *row, const struct gs_summary *s)
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
	put_words(row, false, text);
}

static void put_functions(struct row *row, const struct gs_summary *s)
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
			begin_block(row, heading, columns, GS_ARRAY_LEN(columns));
		}
		if (in_layer++ >= ROWS)
			continue;
		add_name(row, f->name);
		add_count(row, f->calls);
		add_count(row, f->errors);
		add_ns(row, f->total_ns);
		add_ns(row, f->mean_ns);
		add_ns(row, f->p99_ns);
		add_ns(row, f->max_ns);
		add_bytes(row, f->bytes);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_uses(struct row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Operator", 7, false},   {"Launches", 2, true},       {"Copies", 2, true},
		{"Collectives", 2, true}, {"In these calls", 2, true}, {"Bytes", 2, true}};

	if (!s->n_uses)
		return;
	begin_block(row, "By operator", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_uses && i < ROWS; i++) {
		const struct gs_use_summary *u = &s->uses[i];

		add_name(row, u->name);
		add_count(row, u->launches);
		add_count(row, u->copies);
		add_count(row, u->collectives);
		add_ns(row, u->total_ns);
		add_bytes(row, u->bytes);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_lines(struct row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {{"Line of Python", 5, false},
							{"Function", 5, false},
							{"Running", 2, true},
							{"Waiting", 2, true},
							{"Launches", 2, true}};
	char place[CELL_BYTES];

	if (!s->n_python_lines)
		return;
	begin_block(row, "Lines of Python", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_python_lines && i < ROWS; i++) {
		const struct gs_line_stats *l = &s->python_lines[i];
		const char *slash = strrchr(l->file, '/');

		snprintf(place, sizeof(place), "%s:%u", slash ? slash + 1 : l->file, l->line);
		add_name(row, place);
		add_name(row, l->function);
		add_ns(row, l->sample_ns);
		add_ns(row, l->wait_ns);
		add_count(row, l->launches);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_kernels(struct row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column timed[] = {
		{"Kernel", 9, false}, {"Runs", 2, true}, {"Total", 2, true}, {"Most", 2, true}};
	static const struct gs_plot_column launched[] = {{"Kernel", 9, false},
							 {"Launches", 2, true},
							 {"In graphs", 2, true},
							 {"Host time", 2, true}};

	if (s->gpu_time && s->gpu_time->n_kernels) {
		begin_block(row, "GPU time by kernel, as the GPU measured it", timed,
			    GS_ARRAY_LEN(timed));
		for (size_t i = 0; i < s->gpu_time->n_kernels && i < ROWS; i++) {
			const struct gs_gpu_time_kernel *k = &s->gpu_time->kernels[i];

			add_name(row, *k->short_name ? k->short_name : "not known");
			add_count(row, k->runs);
			add_ns(row, k->total_ns);
			add_ns(row, k->max_ns);
			end_row(row);
		}
		gs_plot_end_table(row->to);
	}
	if (!s->n_kernels)
		return;
	begin_block(row, "Kernels by launches", launched, GS_ARRAY_LEN(launched));
	for (size_t i = 0; i < s->n_kernels && i < ROWS; i++) {
		add_name(row, *s->kernels[i].short_name ? s->kernels[i].short_name : "not known");
		add_count(row, s->kernels[i].launches);
		add_count(row, s->kernels[i].graph_runs);
		add_ns(row, s->kernels[i].host_ns);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_gpus(struct row *row, const struct gs_summary *s)
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
		begin_block(row, "GPUs", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_gpus && i < 2 * ROWS; i++) {
		const struct gs_gpu_summary *g = &s->gpus[i];

		add_name(row, g->number);
		add_name(row, g->name);
		add_percent(row, g->busy_ratio);
		add_bytes(row, g->memory_peak_bytes > 0 ? (uint64_t)g->memory_peak_bytes : 0);
		add_count(row, g->n_samples);
		end_row(row);
	}
	gs_plot_end_table(row->to);
	if (!s->memory || !s->memory->n_rows)
		return;
	begin_block(row, "GPU memory", held, GS_ARRAY_LEN(held));
	for (size_t i = 0; i < s->memory->n_rows && i < ROWS; i++) {
		const struct gs_memory_row *m = &s->memory->rows[i];
		char process[CELL_BYTES];

		snprintf(process, sizeof(process), "%s %u", m->comm, m->pid);
		add_name(row, process);
		add_name(row, gs_memory_kind_name(m->sums.kind));
		add_bytes(row, m->sums.live_bytes);
		add_bytes(row, m->sums.peak_bytes);
		add_bytes(row, m->sums.total_bytes);
		add_count(row, m->sums.allocations);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_arrivals(struct row *row, const struct gs_summary *s)
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
	begin_block(row, heading, columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < c->n_seen && i < 2 * ROWS; i++) {
		const struct gs_collectives_rank *r = &c->ranks[i];

		add_id(row, (uint64_t)r->rank);
		add_id(row, r->pid);
		add_count(row, r->calls);
		add_ns(row, r->calls_ns);
		add_ns(row, r->late_p50_ns);
		add_ns(row, r->late_max_ns);
		add_count(row, r->n_last);
		end_row(row);
	}
	gs_plot_end_table(row->to);
}

static void put_accuracy(struct row *row, const struct gs_summary *s)
{
	static const struct gs_plot_column columns[] = {
		{"Layer", 3, false}, {"Cause", 9, false}, {"Detail", 4, false}, {"Count", 2, true}};
	char text[256];

	if (s->n_lost)
		begin_block(row, "Lost", columns, GS_ARRAY_LEN(columns));
	for (size_t i = 0; i < s->n_lost && i < ROWS; i++) {
		add_name(row, s->lost[i].layer ? gs_layer_title(s->lost[i].layer) : "all");
		add_name(row, gs_loss_text(s->lost[i].cause));
		add_name(row, s->lost[i].detail);
		add_count(row, s->lost[i].count);
		end_row(row);
	}
	gs_plot_end_table(row->to);
	gs_plot_put_heading(row->to, "How it was measured");
	snprintf(text, sizeof(text),
		 "On %s, kernel %s, by %s. Percentiles are off by %.1f %% at most.%s%s", s->host,
		 s->kernel, *s->attach_mode ? s->attach_mode : "a recording", GS_HIST_ERROR_PCT,
		 s->n_lost ? "" : " Nothing was lost.",
		 s->complete ? "" : " The recording stops before its end.");
	put_words(row, false, text);
	if (s->call_cost_ns) {
		snprintf(text, sizeof(text), "Tracing took %.2f %% of processor time.",
			 (double)s->cost_ppm / 1e4);
		gs_plot_put_paragraph(row->to, false, text);
	}
}

static void put_head(struct row *row, const struct gs_summary *s, const struct gs_run_page *page)
{
	const struct gs_verdict_summary *v = &s->verdict;
	char text[512], ns[GS_FMT_BYTES];

	row->n = 0;
	add_name(row, *s->command ? s->command : page->file);
	gs_plot_put_title(row->to, row->cells[0]);
	row->n = 0;
	snprintf(text, sizeof(text), "%s, traced for %s", page->file,
		 gs_fmt_ns(ns, s->duration_ns));
	put_words(row, true, text);
	snprintf(text, sizeof(text), "Verdict: %s", v->title && *v->title ? v->title : "none");
	gs_plot_put_heading(row->to, text);
	if (v->evidence)
		put_words(row, false, v->evidence);
	if (v->advice && *v->advice) {
		snprintf(text, sizeof(text), "Next: %s", v->advice);
		put_words(row, false, text);
	}
}

static void put_findings(struct row *row, const struct gs_summary *s,
			 const struct gs_run_page *page)
{
	if (!page->n_findings && !s->n_hangs)
		return;
	gs_plot_put_heading(row->to, "Findings");
	for (size_t i = 0; i < s->n_hangs && i < ROWS; i++)
		put_words(row, false, s->hangs[i].text);
	for (size_t i = 0; i < page->n_findings; i++)
		put_words(row, false, page->findings[i]);
}

int gs_run_page_write_pdf(struct gs_buf *out, const struct gs_summary *summary,
			  const struct gs_run_page *page, struct gs_err *err)
{
	GS_CLEANUP(run_page_fini_excerpt) struct run_page_excerpt excerpt;
	struct gs_plot_document *document = NULL;
	struct row row = {.n = 0};
	const struct gs_summary *s = &excerpt.summary;
	int r = run_page_make_excerpt(summary, &excerpt);

	if (r == 0)
		r = gs_plot_open_document(out, "gpuscope", &document, err);
	if (r < 0)
		return r;
	row.to = document;
	for (unsigned i = 0; i < CELLS; i++)
		row.names[i] = GS_BUF_INIT(1u << 16);
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
	fini_row(&row);
	return gs_plot_close_document(&document, err);
}
