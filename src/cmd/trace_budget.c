#include "cmd/trace_budget.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "model/func.h"
#include "probe/price.h"
#include "text/put.h"

struct trace_budget {
	const struct trace_options *options;
	const struct gs_func_set *funcs;
	struct gs_prices prices;
	struct gs_budget *budget;   /* owned */
	unsigned py_func;           /* what Python functions count as; 0 none */
	struct gs_probe *probe;     /* of the tick under way */
	_Atomic int64_t ratio_ppm;  /* of the last interval; -1 none yet */
	uint64_t start_ns, last_ns; /* of what was counted */
	bool told_floor;
};

void trace_budget_free(struct trace_budget **budget)
{
	if (*budget)
		gs_budget_free(&(*budget)->budget);
	free(*budget);
	*budget = NULL;
}

/* Communicators are known by the calls that make them: these are rare, and always told. */
static void pin_communicators(struct gs_budget *b)
{
	for (unsigned id = 1; id <= gs_func_count(); id++)
		if (gs_func_by_id(id)->desc.op == GS_CLASS_COMM)
			gs_budget_pin(b, id);
}

int trace_budget_new(const struct trace_options *options, const struct gs_func_set *funcs,
		     struct trace_budget **ret_budget, struct gs_err *err)
{
	bool needed = options->max_overhead > 0 || options->plan;
	struct trace_budget *b;
	int r;

	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->options = options;
	b->funcs = funcs;
	b->ratio_ppm = -1;
	r = gs_price_measure(options->avoid, !options->summary_only || options->plan, &b->prices,
			     err);
	if (r == 0)
		b->budget = gs_budget_new(&b->prices, options->max_overhead);
	if (r < 0 && !needed) {
		gs_log(1, "%s", gs_err_text(err, r));
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
	gs_log(1, "a call costs %.0f ns as an event, %.0f ns added up, %.0f ns only counted",
	       b->prices.ns[GS_MODE_EVENTS], b->prices.ns[GS_MODE_AGGREGATE],
	       b->prices.ns[GS_MODE_COUNT]);
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

void trace_budget_event(struct trace_budget *b, const struct gs_event *event)
{
	const struct gs_event_call *c = (const void *)event;

	if (b && event->kind == GS_EV_CALL)
		gs_budget_hits(b->budget, c->tid, counted_as(b, c->func), 1, 0);
}

void trace_budget_cell(struct trace_budget *b, const struct gs_thread *thread,
		       const struct gs_cell *before, const struct gs_cell *now)
{
	if (b)
		gs_budget_hits(b->budget, thread->tid, counted_as(b, now->func),
			       now->calls - before->calls,
			       now->inner - before->inner + now->skipped - before->skipped);
}

static const char *name_of(const struct trace_budget *b, unsigned func)
{
	const struct gs_func *f = gs_func_set_get(b->funcs, func);

	return f ? f->name : "unknown";
}

static void make_step(void *ctx, const struct gs_budget_step *s)
{
	static const char *const words[GS_MODE_N] = {
		"an event each", "added up in the kernel, no longer in the trace",
		"added up for one call in 64, the others are counted", "only counted"};
	struct trace_budget *b = ctx;

	gs_probe_set_mode(b->probe, s->func, s->mode);
	gs_say("--max-overhead: %s (%.0f calls/s, %.1f %% of a thread's time) is now %s",
	       name_of(b, s->func), s->hits_per_s, 100 * s->ratio, words[s->mode]);
}

void trace_budget_tick(struct trace_budget *b, struct gs_probe *probe)
{
	double ratio;

	if (!b)
		return;
	b->probe = probe;
	b->last_ns = gs_clock_mono_ns();
	if (!b->start_ns)
		b->start_ns = b->last_ns;
	gs_budget_tick(b->budget, b->last_ns, &ratio, probe ? make_step : NULL, b);
	atomic_store(&b->ratio_ppm, (int64_t)(ratio * 1e6));
}

double trace_budget_ratio(const struct trace_budget *b)
{
	return b ? (double)atomic_load(&((struct trace_budget *)(uintptr_t)b)->ratio_ppm) / 1e6
		 : -1;
}

double trace_budget_price_ns(const struct trace_budget *b)
{
	return b->prices.ns[b->options->summary_only ? GS_MODE_AGGREGATE : GS_MODE_EVENTS];
}

void trace_budget_tell(const struct trace_budget *b)
{
	double limit = b ? b->options->max_overhead : 0, ratio;

	if (limit <= 0)
		return;
	ratio = trace_budget_ratio(b);
	if (ratio > limit)
		gs_say("--max-overhead could not be kept: counting alone took %.1f %% of a "
		       "thread's time at the end; choose fewer functions (--func, --op, --layer)",
		       100 * ratio);
}

/* --- --plan --- */

struct row {
	unsigned func;
	uint64_t hits;
};

static int more_hits(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->hits != y->hits ? (x->hits > y->hits ? -1 : 1) : (int)x->func - (int)y->func;
}

static void plan_row(const struct trace_budget *b, FILE *out, enum gs_summary_format format,
		     const char *name, const char *layer, uint64_t hits, double seconds)
{
	char text[6 * 256 + 8];
	double rate = (double)hits / seconds;
	double events = rate * b->prices.ns[GS_MODE_EVENTS] / 1e9;
	double added = rate * b->prices.ns[GS_MODE_AGGREGATE] / 1e9;

	if (format == GS_SUMMARY_JSON) {
		*gs_put_json(text, name, 256) = '\0';
		fprintf(out,
			"{\"function\":%s,\"layer\":\"%s\",\"calls\":%llu,\"calls_per_s\":%.1f,"
			"\"event_cost_ratio\":%.6f,\"summary_cost_ratio\":%.6f}",
			text, layer, (unsigned long long)hits, rate, events, added);
	} else if (format == GS_SUMMARY_CSV) {
		*gs_put_csv(text, name, 256) = '\0';
		fprintf(out, "%s,%s,%llu,%.1f,%.6f,%.6f\r\n", text, layer, (unsigned long long)hits,
			rate, events, added);
	} else {
		fprintf(out, "%-44s %12llu %12.0f %13.2f %% %12.2f %%\n", name,
			(unsigned long long)hits, rate, 100 * events, 100 * added);
	}
}

int trace_budget_plan(const struct trace_budget *b, FILE *out, enum gs_summary_format format)
{
	double seconds = (double)(b->last_ns - b->start_ns) / 1e9;
	GS_FREE struct row *rows = calloc(GS_FUNC_MAX, sizeof(*rows));
	uint64_t all = 0;
	size_t n = 0;

	if (!rows)
		return -ENOMEM;
	if (seconds <= 0)
		seconds = 1e-9;
	for (unsigned i = 1; i < GS_FUNC_MAX; i++) {
		rows[n] = (struct row){i, gs_budget_func_hits(b->budget, i)};
		all += rows[n].hits;
		n += rows[n].hits != 0;
	}
	qsort(rows, n, sizeof(*rows), more_hits);
	if (format == GS_SUMMARY_JSON)
		fprintf(out,
			"{\"seconds\":%.3f,\"event_price_ns\":%.0f,\"summary_price_ns\":%.0f,"
			"\"functions\":[",
			seconds, b->prices.ns[GS_MODE_EVENTS], b->prices.ns[GS_MODE_AGGREGATE]);
	else if (format == GS_SUMMARY_CSV)
		fprintf(out,
			"function,layer,calls,calls_per_s,event_cost_ratio,summary_cost_ratio\r\n");
	else
		fprintf(out,
			"Counted for %.1f s. Costs are of the time of one thread: %.0f ns a call "
			"as an event, %.0f ns added up.\n\n%-44s %12s %12s %15s %14s\n",
			seconds, b->prices.ns[GS_MODE_EVENTS], b->prices.ns[GS_MODE_AGGREGATE],
			"function", "calls", "calls/s", "events (-o)", "summary");
	for (size_t i = 0; i < n; i++) {
		const struct gs_func *f = gs_func_set_get(b->funcs, rows[i].func);

		if (format == GS_SUMMARY_JSON && i)
			fputs(",\n", out);
		plan_row(b, out, format, name_of(b, rows[i].func),
			 f ? gs_layer_name(f->desc.layer) : "unknown", rows[i].hits, seconds);
	}
	if (format == GS_SUMMARY_JSON)
		fputs("]}\n", out);
	else if (format == GS_SUMMARY_TABLE)
		plan_row(b, out, format, "all", "", all, seconds);
	return fflush(out) || ferror(out) ? -EIO : 0;
}
