#include "commands/trace_output/trace_budget.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "sources/overhead/overhead.h"
#include "commands/common/cli.h"
#include "model/trace/func.h"
#include "sources/uprobe/cost.h"
#include "core/text/doc.h"
#include "core/text/put.h"

struct trace_budget {
	const struct trace_options *options;
	const struct gs_func_set *funcs;
	struct gs_costs costs;
	struct gs_overhead *budget; /* owned */
	unsigned py_func;           /* what Python functions count as; 0 none */
	struct gs_uprobe *probe;    /* of the tick under way */
	_Atomic int64_t ratio_ppm;  /* of the last interval; -1 none yet */
	uint64_t start_ns, last_ns; /* of what was counted */
	_Atomic bool begun;         /* a call was counted: of a plan that waits for it */
};

void trace_budget_free(struct trace_budget **budget)
{
	if (*budget)
		gs_overhead_free(&(*budget)->budget);
	free(*budget);
	*budget = NULL;
}

/* Communicators are known by the calls that make them: these are rare, and always recorded. */
static void pin_communicators(struct gs_overhead *b)
{
	for (unsigned id = 1; id <= gs_func_count(); id++)
		if (gs_func_by_id(id)->desc.op == GS_CLASS_COMM)
			gs_overhead_pin(b, id);
}

static void report_costs(const struct gs_costs *p, const struct gs_uprobe_cost_options *o,
			 bool python)
{
	const bool is_used[GS_COST_N] = {[GS_COST_CALL] = true,
					 [GS_COST_PLACE] = o->users,
					 [GS_COST_SCOPE] = o->scopes,
					 [GS_COST_USER] = o->users,
					 [GS_COST_PYTHON] = python};
	static const char *const words[GS_COST_N] = {
		[GS_COST_CALL] = "call",
		[GS_COST_PLACE] = "described probe without a return",
		[GS_COST_SCOPE] = "call of an operator",
		[GS_COST_USER] = "described probe with its return",
		[GS_COST_PYTHON] = "call of a Python function"};

	for (unsigned i = 0; i < GS_COST_N; i++) {
		if (!is_used[i])
			continue;
		gs_log(GS_LOG_INFO, GS_LOG_COST,
		       "a %s costs %.0f ns as an event, %.0f ns added up, %.0f ns only counted",
		       words[i], p->ns[i][GS_MODE_EVENTS], p->ns[i][GS_MODE_AGGREGATE],
		       p->ns[i][GS_MODE_COUNT]);
	}
	gs_log(GS_LOG_INFO, GS_LOG_COST, "a single-stepped probe costs %.0f ns more", p->step_ns);
	if (o->users)
		gs_log(GS_LOG_INFO, GS_LOG_COST,
		       "a value in memory costs %.0f ns, a string %.0f ns", p->value_ns,
		       p->text_ns);
}

int trace_budget_new(const struct trace_options *options, const struct gs_func_set *funcs,
		     struct gs_kernel_types *types, struct trace_budget **ret_budget,
		     struct gs_err *err)
{
	bool needed = options->max_overhead > 0 || options->estimate;
	const struct gs_uprobe_cost_options po = {
		.disabled_features = options->disabled_features,
		.events = !options->summary_only || options->estimate,
		.scopes = options->layers >> GS_LAYER_TORCH & 1 || options->python_gc ||
			  options->python_gil || gs_user_set_n(options->users),
		.users = needed && gs_user_set_n(options->users),
		.types = types,
	};
	struct trace_budget *b;
	int r;

	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->options = options;
	b->funcs = funcs;
	b->ratio_ppm = -1;
	r = gs_uprobe_measure_cost(&po, &b->costs, err);
	if (r == 0)
		b->budget = gs_overhead_new(&b->costs, options->max_overhead);
	if (r < 0 && !needed) {
		gs_log(GS_LOG_INFO, GS_LOG_COST, "%s", gs_err_text(err, r));
		trace_budget_free(&b);
		return 0;
	}
	if (r == 0 && !b->budget)
		r = -ENOMEM;
	if (r < 0) {
		trace_budget_free(&b);
		return r;
	}
	pin_communicators(b->budget);
	report_costs(&b->costs, &po, options->python_calls);
	*ret_budget = b;
	return 0;
}

void trace_budget_set_python(struct trace_budget *b, unsigned func)
{
	if (b)
		b->py_func = func;
}

/* Python functions are dealt with together. */
static unsigned counted_as(const struct trace_budget *b, unsigned func)
{
	return func >= GS_FUNC_MAX ? b->py_func : func;
}

void trace_budget_function(struct trace_budget *b, unsigned func, const struct gs_hit *hit)
{
	if (b)
		gs_overhead_place(b->budget, func, hit);
}

static void add_hits(struct trace_budget *b, uint32_t pid, uint32_t tid, const struct gs_hits *h)
{
	const struct gs_overhead_hits hits = {.pid = pid,
					      .tid = tid,
					      .func = counted_as(b, h->func),
					      .traced = h->traced,
					      .counted = h->counted,
					      .stepped = h->stepped,
					      .stepped_exits = h->stepped_exits};

	gs_overhead_add_hits(b->budget, &hits);
}

void trace_budget_event(struct trace_budget *b, const struct gs_event *event)
{
	const struct gs_event_call *c = (const void *)event;

	if (b && (event->kind == GS_EV_CALL || event->kind == GS_EV_VALUES) &&
	    !(c->flags & GS_CALL_ADDED_UP))
		add_hits(b, c->pid, c->tid, &(struct gs_hits){.func = c->func, .traced = 1});
}

void trace_budget_hits(struct trace_budget *b, const struct gs_thread *thread,
		       const struct gs_hits *hits)
{
	if (b)
		add_hits(b, thread->pid, thread->tid, hits);
}

void trace_budget_cpu(struct trace_budget *b, const struct gs_thread *thread, uint64_t cpu_ns)
{
	if (b)
		gs_overhead_add_cpu(b->budget, thread->pid, thread->tid, cpu_ns);
}

void trace_budget_user(struct trace_budget *b, const struct gs_user_sum *sum)
{
	if (b)
		add_hits(b, sum->pid, sum->tid,
			 &(struct gs_hits){.func = sum->func,
					   .traced = sum->now->calls - sum->before->calls});
}

static const char *name_of(const struct trace_budget *b, unsigned func)
{
	const struct gs_func *f = gs_func_set_get(b->funcs, func);

	return f ? f->name : "unknown";
}

static void make_step(void *ctx, const struct gs_overhead_step *s)
{
	static const char *const words[GS_MODE_N] = {
		"an event each", "added up in the kernel, no longer in the trace",
		"added up for one call in 64, the others are counted", "only counted",
		"being removed: its calls are no longer seen"};
	struct trace_budget *b = ctx;

	gs_uprobe_set_mode(b->probe, s->func, s->mode);
	gs_cli_print_message(
		"--max-overhead: %s (%.0f calls/s, %.1f %% of processor time) is now %s",
		name_of(b, s->func), s->hits_per_s, 100 * s->ratio, words[s->mode]);
}

static bool any_hit(const struct trace_budget *b)
{
	for (unsigned i = 1; i < GS_FUNC_MAX; i++)
		if (gs_overhead_func_hits(b->budget, i) && !gs_overhead_is_watched(b->budget, i))
			return true;
	return false;
}

void trace_budget_tick(struct trace_budget *b, struct gs_uprobe *probe)
{
	double ratio;

	if (!b)
		return;
	b->probe = probe;
	b->last_ns = gs_clock_mono_ns();
	if (b->options->estimate_waits && !b->begun) {
		if (b->start_ns)
			b->begun = any_hit(b);
		if (!b->begun)
			b->start_ns = b->last_ns;
	}
	if (!b->start_ns)
		b->start_ns = b->last_ns;
	gs_overhead_tick(b->budget, b->last_ns, &ratio, probe ? make_step : NULL, b);
	atomic_store(&b->ratio_ppm, (int64_t)(ratio * 1e6));
}

bool trace_budget_has_begun(const struct trace_budget *b)
{
	return !b || !b->options->estimate_waits || b->begun;
}

double trace_budget_ratio(const struct trace_budget *b)
{
	return b ? (double)atomic_load(&((struct trace_budget *)(uintptr_t)b)->ratio_ppm) / 1e6
		 : -1;
}

double trace_budget_mean_ratio(const struct trace_budget *b)
{
	return gs_overhead_mean_ratio(b->budget);
}

double trace_budget_step_ns(const struct trace_budget *b)
{
	return b->costs.step_ns;
}

double trace_budget_call_cost_ns(const struct trace_budget *b)
{
	return b->costs
		.ns[GS_COST_CALL][b->options->summary_only ? GS_MODE_AGGREGATE : GS_MODE_EVENTS];
}

void trace_budget_report(const struct trace_budget *b)
{
	double limit = b ? b->options->max_overhead : 0, ratio;

	if (limit <= 0)
		return;
	ratio = trace_budget_ratio(b);
	if (ratio > limit)
		gs_cli_print_message(
			"--max-overhead was exceeded: tracing took %.1f %% of processor time at the end; choose fewer functions (--func, --op, --layer)",
			100 * ratio);
}

/* --- --estimate --- */

struct row {
	unsigned func;
	uint64_t hits;
	double events_ns, added_ns; /* what these would cost */
	bool is_stepped, is_watched;
};

static int compare_cost(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->events_ns != y->events_ns)
		return x->events_ns > y->events_ns ? -1 : 1;
	return (int)x->func - (int)y->func;
}

static struct row row_of(const struct trace_budget *b, unsigned func)
{
	struct row r = {.func = func, .hits = gs_overhead_func_hits(b->budget, func)};

	r.events_ns = gs_overhead_func_cost_in(b->budget, func, GS_MODE_EVENTS);
	r.added_ns = gs_overhead_func_cost_in(b->budget, func, GS_MODE_AGGREGATE);
	r.is_stepped = gs_overhead_func_steps(b->budget, func) != 0;
	r.is_watched = gs_overhead_is_watched(b->budget, func);
	return r;
}

static const char *layer_of(const struct trace_budget *b, unsigned func)
{
	const struct gs_func *f = gs_func_set_get(b->funcs, func);

	return f ? gs_layer_name(f->desc.layer) : "unknown";
}

/* The column of names: as wide as it must be, and so that 80 columns suffice for most. */
static int name_width(const struct trace_budget *b, const struct row *rows, size_t n)
{
	size_t width = strlen("function");

	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(name_of(b, rows[i].func));

		width = length > width ? length : width;
	}
	return width < 44 ? (int)width : 44;
}

static void plan_row(FILE *out, enum gs_report_summary_format format, int width, const char *name,
		     const char *layer, const struct row *row, double seconds)
{
	char text[6 * 256 + 8];
	double rate = (double)row->hits / seconds;
	double events = row->events_ns / seconds / 1e9, added = row->added_ns / seconds / 1e9;
	double cost = row->hits ? row->events_ns / (double)row->hits : 0;

	if (format == GS_SUMMARY_CSV) {
		*gs_put_csv(text, name, 256) = '\0';
		fprintf(out, "%s,%s,%llu,%.1f,%.6f,%.6f,%.0f,%s,%s\r\n", text, layer,
			(unsigned long long)row->hits, rate, events, added, cost,
			row->is_stepped ? "yes" : "no", row->is_watched ? "yes" : "no");
	} else {
		fprintf(out, "%-*s %10llu %9.0f %8.0f ns%s %9.2f %% %7.2f %%\n", width, name,
			(unsigned long long)row->hits, rate, cost,
			row->is_watched   ? "+"
			: row->is_stepped ? "*"
					  : " ",
			100 * events, 100 * added);
	}
}

static int plan_json(const struct trace_budget *b, FILE *out, const struct row *rows, size_t n,
		     double seconds)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};

	gs_pen_open(&pen, out);
	gs_doc_begin_map(&doc, NULL);
	gs_doc_put_double(&doc, "seconds", seconds);
	gs_doc_put_double(&doc, "event_cost_ns", round(b->costs.ns[GS_COST_CALL][GS_MODE_EVENTS]));
	gs_doc_put_double(&doc, "summary_cost_ns",
			  round(b->costs.ns[GS_COST_CALL][GS_MODE_AGGREGATE]));
	gs_doc_put_double(&doc, "single_step_cost_ns", round(b->costs.step_ns));
	gs_doc_begin_list(&doc, "functions", n);
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows[i];
		double hits = (double)row->hits;

		gs_doc_begin_flat(&doc, NULL);
		gs_doc_put_text(&doc, "function", name_of(b, row->func));
		gs_doc_put_text(&doc, "layer", layer_of(b, row->func));
		gs_doc_put_u64(&doc, "calls", row->hits);
		gs_doc_put_double(&doc, "calls_per_s", hits / seconds);
		gs_doc_put_double(&doc, "event_cost_ns", round(row->events_ns / hits));
		gs_doc_put_bool(&doc, "single_stepped", row->is_stepped);
		gs_doc_put_bool(&doc, "watched", row->is_watched);
		gs_doc_put_double(&doc, "event_cost_ratio", row->events_ns / seconds / 1e9);
		gs_doc_put_double(&doc, "summary_cost_ratio", row->added_ns / seconds / 1e9);
		gs_doc_end(&doc);
	}
	gs_doc_end(&doc);
	gs_doc_end(&doc);
	gs_pen_puts(&pen, "\n");
	return gs_pen_close(&pen);
}

int trace_budget_plan(const struct trace_budget *b, FILE *out, enum gs_report_summary_format format)
{
	double seconds = (double)(b->last_ns - b->start_ns) / 1e9;
	GS_FREE struct row *rows = calloc(GS_FUNC_MAX, sizeof(*rows));
	struct row all = {0};
	bool has_watched = false;
	size_t n = 0;
	int width;

	if (!rows)
		return -ENOMEM;
	if (seconds <= 0)
		seconds = 1e-9;
	for (unsigned i = 1; i < GS_FUNC_MAX; i++) {
		rows[n] = row_of(b, i);
		all.hits += rows[n].hits;
		all.events_ns += rows[n].events_ns;
		all.added_ns += rows[n].added_ns;
		all.is_stepped |= rows[n].hits && rows[n].is_stepped;
		has_watched |= rows[n].hits && rows[n].is_watched;
		n += rows[n].hits != 0;
	}
	qsort(rows, n, sizeof(*rows), compare_cost);
	width = name_width(b, rows, n);
	if (format == GS_SUMMARY_JSON)
		return plan_json(b, out, rows, n, seconds);
	if (format == GS_SUMMARY_CSV)
		fprintf(out,
			"function,layer,calls,calls_per_s,event_cost_ratio,summary_cost_ratio,event_cost_ns,single_stepped,watched\r\n");
	else
		fprintf(out,
			"Counted for %.1f s. Costs are of the time of one thread.\n\n"
			"%-*s %10s %9s %12s %11s %9s\n",
			seconds, width, "function", "calls", "calls/s", "an event ", "events (-o)",
			"summary");
	for (size_t i = 0; i < n; i++)
		plan_row(out, format, width, name_of(b, rows[i].func), layer_of(b, rows[i].func),
			 &rows[i], seconds);
	if (format == GS_SUMMARY_TABLE)
		plan_row(out, format, width, "all", "", &all, seconds);
	if (format == GS_SUMMARY_TABLE && !n)
		fputs("\n"
		      "No traced function was called in that time (--duration counts longer).\n",
		      out);
	if (format == GS_SUMMARY_TABLE && all.is_stepped)
		fprintf(out,
			"\n"
			"* its probes are single-stepped: the kernel cannot emulate the instruction there\n");
	if (format == GS_SUMMARY_TABLE && has_watched)
		fprintf(out,
			"\n"
			"+ not chosen, but probed: calls after it may be first calls, which are traced\n"
			"  without their times\n");
	return fflush(out) || ferror(out) ? -EIO : 0;
}
