/*
 * The summary on one screen: the verdict, where the wall time went, and one table of what took most
 * of it, whatever layer it is of; with several ranks how far these are apart. A view (--by) has its
 * own table in place of that one. What is wrong has a line or two; that nothing is has none.
 */
#include "output/report/summary_account.h"
#include "output/report/summary_arrival.h"
#include "output/gpu_report/hangs.h"
#include "output/report/summary_probed.h"
#include "output/report/summary_python.h"
#include "output/report/summary_ranks.h"
#include "output/report/summary_step.h"
#include "output/report/summary_kernel.h"
#include "output/gpu_report/gpus.h"
#include "output/gpu_report/memory.h"
#include "output/gpu_report/gpu_time.h"
#include "output/gpu_report/nccl.h"
#include "output/gpu_report/streams.h"
#include "output/report/summary_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/text/fit.h"
#include "model/trace/func.h"
#include "model/trace/record.h"

#define GAP            2
#define N_PARTS        6    /* of the account; smaller ones are added up */
#define N_BESIDE_LINES 4    /* rows of the list where lines of Python follow it, */
#define N_LINES        5    /* and of these */
#define N_SPREAD       4    /* columns of how ranks are spread, before the last */
#define WIDE           90   /* columns from which on there is room for mean and p99 */
#define HEAVY_PCT      25   /* of wall time: worth a colour */
#define ODD_PART       0.01 /* of wall time: less makes no rank unlike the others */

/* Lines that sections keep when there is more than one screen of them: a blank one and titles among them. */
#define N_KEEP_VERDICT 13 /* at most 8 and a blank one, what ran */
#define N_KEEP_ACCOUNT 5
#define N_KEEP_BRIEF   2
#define N_KEEP_HANG    4
#define N_KEEP_TABLE   7
#define N_KEEP_LINES   6
#define N_KEEP_PROBED  4
#define N_KEEP_GPUS    5
#define N_KEEP_TROUBLE 6
#define N_KEEP_HINTS   3
#define FIT_COLUMNS    80

/* Something that took time. */
struct item {
	const struct gs_function_stats *function; /* or: */
	const struct gs_python_function *python;
	uint64_t calls, total_ns;
	double percent; /* of the wall time of the processes that called it; -1 not known */
	bool has_spread;
	struct gs_spread spread;
};

struct items {
	struct item *items; /* owned; most time first */
	size_t n;
};

static void items_fini(struct items *items)
{
	free(items->items);
}

static const struct gs_function_stats *function_in(const struct gs_process_summary *p,
						   const struct gs_function_stats *f)
{
	for (size_t i = 0; i < p->functions.n; i++) {
		const struct gs_function_stats *g = &p->functions.items[i];

		if (g->layer == f->layer &&
		    strcmp(gs_report_text_of(g->name), gs_report_text_of(f->name)) == 0)
			return g;
	}
	return NULL;
}

/* For how long a process was traced: its longest thread. */
static uint64_t wall_of(const struct gs_summary *s, uint32_t pid)
{
	uint64_t wall_ns = 0;

	for (size_t i = 0; i < s->account.n_threads; i++)
		if (s->account.threads[i].pid == pid && s->account.threads[i].wall_ns > wall_ns)
			wall_ns = s->account.threads[i].wall_ns;
	return wall_ns ? wall_ns : s->duration_ns;
}

/* Of the processes that called it. */
static double percent_of(const struct gs_summary *s, const struct gs_function_stats *f)
{
	uint64_t wall_ns = 0;

	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_function_stats *g = function_in(&s->processes[i], f);

		if (g && (g->calls || g->total_ns))
			wall_ns += wall_of(s, s->processes[i].pid);
	}
	if (!wall_ns && !s->n_processes)
		wall_ns = s->duration_ns;
	return wall_ns ? 100 * (double)f->total_ns / (double)wall_ns : -1;
}

/* Python functions are counted for all processes as one: with several it is not known whose they are. */
static double python_percent(const struct gs_summary *s, const struct gs_python_function *f)
{
	uint64_t wall_ns = s->n_processes == 1 ? wall_of(s, s->processes[0].pid) : s->duration_ns;

	return s->n_processes > 1 || !wall_ns ? -1 : 100 * (double)f->total_ns / (double)wall_ns;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return x->calls > y->calls ? -1 : x->calls < y->calls;
}

static int find_items(const struct gs_summary *s, struct items *ret)
{
	ret->items = calloc(s->functions.n + s->n_python_functions + 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct gs_function_stats *f = &s->functions.items[i];

		if (f->calls)
			ret->items[ret->n++] = (struct item){
				.function = f, .calls = f->calls, .total_ns = f->total_ns};
	}
	for (size_t i = 0; i < s->n_python_functions; i++)
		ret->items[ret->n++] = (struct item){.python = &s->python_functions[i],
						     .calls = s->python_functions[i].calls,
						     .total_ns = s->python_functions[i].total_ns};
	qsort(ret->items, ret->n, sizeof(*ret->items), compare_items);
	return 0;
}

/* Not so: places, at which nothing takes time, and calls that were only counted. */
static bool is_timed(const struct item *item)
{
	return item->total_ns && (!item->function || (item->function->func_class != GS_CLASS_SITE &&
						      item->function->layer != GS_LAYER_TORCH_MEM));
}

/* What one rank spent in it. */
static int find_spread(const struct gs_ranks *ranks, struct item *item)
{
	double *values GS_FREE = calloc(ranks->n + 1, sizeof(*values));
	uint64_t wall_ns = 0;

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < ranks->n; i++) {
		const struct gs_function_stats *f =
			function_in(ranks->items[i].process, item->function);

		values[i] = f ? (double)f->total_ns : 0;
		item->has_spread |= f && is_timed(item);
		if (ranks->items[i].wall_ns > wall_ns)
			wall_ns = ranks->items[i].wall_ns;
	}
	return gs_report_spread_find(values, ranks->n, ODD_PART * (double)wall_ns, &item->spread);
}

/* --- the table --- */

struct merged {
	struct gs_grid g;
	const struct gs_ranks *ranks; /* NULL: not several */
	bool wide, errors;            /* is there room for, or a need of, these columns? */
};

static void put_time(struct gs_grid *g, uint64_t ns, bool known)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, known ? GS_INK_PLAIN : GS_INK_DIM, known ? gs_fmt_ns(out, ns) : "-");
}

static void put_counts(struct merged *m, const struct item *item)
{
	uint64_t errors = item->function ? item->function->errors : 0;
	char out[GS_FMT_BYTES + 2], text[GS_FMT_BYTES];

	snprintf(out, sizeof(out), "%s%s", item->function && item->function->partial ? ">=" : "",
		 gs_fmt_count(text, item->calls));
	gs_grid_right(&m->g, GS_INK_PLAIN, out);
	if (m->errors)
		gs_grid_right(&m->g, errors ? GS_INK_RED : GS_INK_DIM,
			      errors ? gs_fmt_count(text, errors) : "-");
	put_time(&m->g, item->total_ns, is_timed(item));
	if (item->percent >= 0 && is_timed(item))
		snprintf(text, sizeof(text), "%.1f", item->percent);
	else
		strcpy(text, "-");
	gs_grid_right(&m->g, item->percent >= HEAVY_PCT ? GS_INK_BOLD : GS_INK_PLAIN, text);
}

static void put_spread(struct merged *m, const struct item *item)
{
	if (!item->has_spread) {
		for (unsigned i = 0; i < N_SPREAD; i++)
			gs_grid_right(&m->g, GS_INK_DIM, "-");
		gs_grid_rest(&m->g, GS_INK_DIM, "-", GS_CUT_END);
		return;
	}
	put_time(&m->g, (uint64_t)item->spread.min, true);
	put_time(&m->g, (uint64_t)item->spread.median, true);
	put_time(&m->g, (uint64_t)item->spread.max, true);
	gs_report_summary_put_odd(&m->g, m->ranks, &item->spread);
}

static void put_item(struct merged *m, const struct item *item)
{
	const struct gs_function_stats *f = item->function;
	bool timed = is_timed(item);

	gs_grid_left(&m->g, GS_INK_PLAIN, gs_report_text_of(f ? f->name : item->python->name),
		     GS_CUT_MIDDLE);
	put_counts(m, item);
	if (m->ranks) {
		put_spread(m, item);
		return;
	}
	if (m->wide) {
		uint64_t mean_ns = item->calls ? item->total_ns / item->calls : 0;

		put_time(&m->g, f ? f->mean_ns : mean_ns, timed);
		put_time(&m->g, f ? f->p99_ns : item->python->p99_ns, timed);
	}
	put_time(&m->g, f ? f->max_ns : item->python->max_ns, timed);
	gs_grid_rest(&m->g, GS_INK_DIM, f ? gs_layer_title(f->layer) : "Python function",
		     GS_CUT_END);
}

static void put_heads(struct merged *m)
{
	gs_grid_left(&m->g, GS_INK_DIM, "what", GS_CUT_END);
	gs_grid_right(&m->g, GS_INK_DIM, "calls");
	if (m->errors)
		gs_grid_right(&m->g, GS_INK_DIM, "errors");
	gs_grid_right(&m->g, GS_INK_DIM, "total");
	gs_grid_right(&m->g, GS_INK_DIM, "% wall");
	if (m->ranks) {
		static const char *const heads[N_SPREAD] = {"min", "median", "max", "max at"};

		for (size_t i = 0; i < N_SPREAD; i++)
			gs_grid_right(&m->g, GS_INK_DIM, heads[i]);
		gs_grid_rest(&m->g, GS_INK_DIM, "unlike", GS_CUT_END);
		return;
	}
	if (m->wide) {
		gs_grid_right(&m->g, GS_INK_DIM, "mean");
		gs_grid_right(&m->g, GS_INK_DIM, "p99");
	}
	gs_grid_right(&m->g, GS_INK_DIM, "max");
	gs_grid_rest(&m->g, GS_INK_DIM, "of", GS_CUT_END);
}

static void put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, text);
}

static void put_title(struct gs_page *page, const char *title)
{
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, title, GS_CUT_END);
	gs_page_line(page);
}

/* What the rows do not say by their figures. */
static void put_notes(struct gs_page *page, const struct gs_summary *s, const struct items *items,
		      size_t shown)
{
	struct gs_buf stepped GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	bool above = false, partial = false;
	char text[96], all[192], count[GS_FMT_BYTES];

	for (size_t i = 0; i < shown; i++) {
		const struct gs_function_stats *f = items->items[i].function;

		above |= !f || f->layer == GS_LAYER_TORCH;
		partial |= f && f->partial;
		if (f)
			gs_pen_check(page->pen, gs_report_summary_add_stepped(&stepped, f));
	}
	snprintf(text, sizeof(text), "... and %s more (--top 0 shows all)%s",
		 gs_fmt_count(count, items->n - shown), above ? "; " : "");
	if (above)
		snprintf(all, sizeof(all),
			 "%soperators and Python functions include what they call",
			 shown < items->n ? text : "");
	if (above || shown < items->n)
		put_remark(page, above ? all : text);
	if (partial)
		put_remark(
			page,
			">= more calls were made: probes were thinned out or removed to keep --max-overhead, see Lost");
	gs_report_summary_put_stepped(page, s, &stepped);
}

/* n_less: rows that are left out of those of one screen. */
static void put_merged(struct gs_page *page, const struct gs_summary *s,
		       const struct gs_report_summary_style *style, const struct gs_ranks *ranks,
		       unsigned n_less)
{
	GS_CLEANUP(items_fini) struct items items = {0};
	bool several = ranks->n > 1;
	struct merged m = {.g = {.page = page, .measuring = true},
			   .ranks = several ? ranks : NULL,
			   .wide = page->width >= WIDE};
	const char *title = several && ranks->items[0].rank >= 0
				    ? "What took most time: min, median and max of the ranks"
				    : "What took most time: min, median and max of the processes";
	size_t shown, n_top = style->n_top;
	int r = find_items(s, &items);

	if (n_top == GS_SUMMARY_TOP_SHORT) {
		n_top = s->has_python ? N_BESIDE_LINES : n_top;
		n_top = n_top > n_less + 1 ? n_top - n_less : 1;
	}
	shown = n_top && items.n > n_top + 1 ? n_top : items.n;
	for (size_t i = 0; i < shown && r == 0; i++) {
		struct item *item = &items.items[i];

		item->percent = item->function ? percent_of(s, item->function)
					       : python_percent(s, item->python);
		/* With ranks there is no room: they are below, by name. */
		m.errors |= !several && item->function && item->function->errors;
		if (several && item->function)
			r = find_spread(ranks, item);
	}
	gs_pen_check(page->pen, r);
	if (r < 0 || !shown)
		return;
	put_title(page, several ? title : "What took most time");
	for (int pass = 0; pass < 2; pass++) {
		put_heads(&m);
		for (size_t i = 0; i < shown; i++)
			put_item(&m, &items.items[i]);
		if (pass == 0)
			gs_grid_fit(&m.g, 0, strlen(several ? "12 (high)" : "CUDA runtime"));
	}
	put_notes(page, s, &items, shown);
}

/* --- the whole --- */

static void put_ran(struct gs_page *page, const struct gs_summary *s)
{
	char text[400], where[160], time[GS_FMT_BYTES], status[32] = "", cost[48] = "";
	const char *reason = gs_report_text_of(s->end_reason);

	if (!s->complete)
		gs_page_words(
			page, GS_INK_WARN,
			"This trace was cut off (gpuscope was killed, or its file was truncated): the figures end there.");
	gs_page_rest(page, GS_INK_BOLD, *gs_report_text_of(s->command) ? s->command : "gpuscope",
		     GS_CUT_END);
	gs_page_line(page);
	gs_report_summary_where(s, where, sizeof(where));
	if (s->exit_status >= 0)
		snprintf(status, sizeof(status), ", exit status %d", s->exit_status);
	if (s->cost_known)
		snprintf(cost, sizeof(cost), "; tracing cost about %.2f %%",
			 (double)s->cost_ppm / 1e4);
	snprintf(text, sizeof(text), "ran %s%s%s%.100s%s%s", gs_fmt_ns(time, s->duration_ns), where,
		 *reason ? "; " : "", reason, status, cost);
	gs_page_gap(page, GAP);
	gs_page_words(page, s->exit_status > 0 ? GS_INK_RED : GS_INK_DIM, text);
}

#define BY "process|thread|stream|kernel|operator|line"

static void put_hints(struct gs_page *page, const struct gs_summary *s,
		      const struct gs_report_summary_style *style)
{
	const uint32_t cuda_layers = 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER;
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 16);
	int r;

	gs_page_line(page);
	if (style->recording)
		r = gs_buf_printf(&text, "more: gpuscope report %s -v, or --by " BY,
				  style->recording);
	else
		r = gs_buf_puts(&text,
				"more: -v, --by " BY ", --top N; -o run.gst for gpuscope report");
	if (r == 0)
		r = gs_buf_put(&text, "", 1);
	gs_pen_check(page->pen, r);
	if (r < 0)
		return;
	gs_page_words(page, GS_INK_DIM, (const char *)text.data);
	if (!s->functions.n && !s->has_python && !style->part &&
	    (!style->layers || style->layers & cuda_layers))
		gs_page_words(
			page, GS_INK_DIM,
			"no CUDA? --layer torch,python shows PyTorch and Python; gpuscope job -p PID shows what a process waits for");
}

static void put_view(struct gs_fit *fit, struct gs_page *page, const struct gs_summary *s,
		     const struct gs_report_summary_style *style, const struct gs_ranks *ranks,
		     unsigned n_less)
{
	struct gs_report_summary_style blocks = *style;

	gs_page_fit_section(fit, N_KEEP_TABLE, "--top 0, or --by process");
	switch (style->view) {
	case GS_SUMMARY_PROCESSES:
	case GS_SUMMARY_THREADS:
		blocks.threads = style->view == GS_SUMMARY_THREADS;
		gs_report_summary_blocks(page, s, &blocks);
		break;
	case GS_SUMMARY_STREAMS:
		gs_report_streams(page, s, style->n_top);
		break;
	case GS_SUMMARY_MEMORY:
		gs_report_memory(page, s, style->n_top);
		break;
	case GS_SUMMARY_KERNELS:
		gs_report_gpu_time(page, s, style->n_top);
		gs_report_summary_kernels(page, s, style->n_top);
		break;
	case GS_SUMMARY_OPERATORS:
		gs_report_summary_operators(page, s, style);
		break;
	case GS_SUMMARY_LINES:
		gs_report_summary_python_table(page, s, style->n_top);
		gs_report_summary_lines(page, s, style->n_top);
		if (!s->has_python && !s->n_python_functions)
			put_remark(page, "No Python line is known: add --layer python.");
		break;
	default:
		put_merged(page, s, style, ranks, n_less);
		/* These are there only when they were asked for. */
		gs_page_fit_section(fit, N_KEEP_LINES, "--by line");
		if (s->has_python)
			gs_report_summary_lines(page, s, style->n_top ? N_LINES : 0);
		gs_page_fit_section(fit, N_KEEP_PROBED, "--top 0");
		gs_report_summary_probed_table(page, s, style->n_top == 0);
		break;
	}
}

/* A line or two each. */
static void put_briefs(struct gs_fit *fit, struct gs_page *page, const struct gs_summary *s,
		       const struct gs_report_summary_style *style)
{
	gs_page_fit_section(fit, N_KEEP_BRIEF, "-v");
	gs_report_summary_step_table(page, s, false);
	gs_page_fit_section(fit, N_KEEP_BRIEF, "-v");
	gs_report_summary_arrival_table(page, s, false);
	gs_page_fit_section(fit, N_KEEP_BRIEF, "--by kernel");
	gs_report_gpu_time_brief(page, s);
	gs_page_fit_section(fit, N_KEEP_BRIEF, "-v");
	gs_report_nccl_brief(page, s);
	gs_page_fit_section(fit, N_KEEP_HANG, "-v");
	if (style->verbose)
		gs_report_hangs_table(page, s, true);
	else
		gs_report_hangs_brief(page, s);
}

/* The page in sections, each with the lines it keeps when there is too much for one screen. */
static void put_sections(struct gs_fit *fit, struct gs_page *page, const struct gs_summary *s,
			 const struct gs_report_summary_style *style, const struct gs_ranks *ranks)
{
	bool any = s->n_python_functions || s->n_python_lines || s->n_mpi_ranks;
	/* Each line below the account takes one of it; steps, GPU time and NCCL take two, hangs four. */
	bool arrivals = s->collectives && s->collectives->n_matched;
	unsigned n_taken = (s->steps.n_steps ? 2 : 0) + (arrivals ? 1 : 0) + (s->gpu_time ? 2 : 0) +
			   (s->nccl ? 2 : 0) + (s->n_hangs ? 4 : 0);
	unsigned n_parts = n_taken < N_PARTS ? N_PARTS - n_taken : 1;

	for (size_t i = 0; i < s->functions.n; i++)
		any |= s->functions.items[i].calls || s->functions.items[i].inner;
	gs_page_fit_section(fit, N_KEEP_VERDICT, NULL);
	gs_report_summary_verdict_table(page, s);
	put_ran(page, s);
	gs_page_fit_section(fit, N_KEEP_ACCOUNT, "--by thread, -v");
	if (!style->part && !gs_report_summary_ranks_account(page, s, ranks))
		gs_report_summary_account_table(page, s, n_parts);
	if (!style->part)
		put_briefs(fit, page, s, style);
	if (!any)
		gs_report_summary_nothing(page, s, style);
	put_view(fit, page, s, style, ranks, n_taken < N_PARTS ? 0 : n_taken - N_PARTS + 1);
	gs_page_fit_section(fit, N_KEEP_GPUS, "-v");
	if ((style->verbose || style->gpus || style->view == GS_SUMMARY_STREAMS) && !style->part)
		gs_report_gpus(page, s);
	gs_page_fit_section(fit, N_KEEP_TROUBLE, "-v");
	if (style->verbose)
		gs_report_summary_attention(page, s, style->n_top == 0);
	else
		gs_report_summary_trouble(page, s);
	gs_page_fit_section(fit, N_KEEP_HINTS, NULL);
	put_hints(page, s, style);
}

/* Who asked for more gets all of it; words on a narrow page take lines that say nothing of how much there is. */
static bool is_one_screen(const struct gs_page *page, const struct gs_report_summary_style *style)
{
	return style->view == GS_SUMMARY_SHORT && style->n_top == GS_SUMMARY_TOP_SHORT &&
	       !style->verbose && page->width >= FIT_COLUMNS;
}

void gs_report_summary_short(struct gs_page *page, const struct gs_summary *s,
			     const struct gs_report_summary_style *style)
{
	GS_CLEANUP(gs_report_ranks_fini) struct gs_ranks ranks = {0};
	struct gs_fit fit;

	gs_pen_check(page->pen, gs_report_ranks_find(s, &ranks));
	gs_page_fit_begin(&fit, page);
	put_sections(&fit, page, s, style, &ranks);
	gs_page_fit_end(&fit, is_one_screen(page, style) ? GS_FIT_SCREEN_LINES : 0);
}
