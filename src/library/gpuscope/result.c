/* The result of a trace, as structs and as JSON. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/rules/trace.h"
#include "core/base/mem.h"
#include "library/gpuscope/library_int.h"
#include "model/trace/func.h"
#include "output/report/summary.h"

int trace_outcome_take(struct trace_outcome *o, struct gs_aggregate *view,
		       struct gs_findings *findings, bool ended)
{
	int r;

	gs_summary_free(&o->summary);
	r = gs_aggregate_make_summary(view, &o->summary);
	if (r < 0)
		return r;
	gs_verdict_trace(o->summary);
	/* Findings can be finished only once. */
	if (ended && !o->has_findings) {
		r = gs_findings_finish(findings, o->summary->steps.slot, o->summary->steps.run,
				       &o->all);
		o->has_findings = r == 0;
	}
	return r;
}

void trace_outcome_fini(struct trace_outcome *o)
{
	gs_summary_free(&o->summary);
	lent_fini(&o->memory);
	rendered_fini(&o->text);
}

/* --- structs --- */

static const struct gs_function *const *
make_functions(struct lent_memory *m, const struct gs_function_list *list, size_t *ret_n)
{
	const struct gs_function **at = list->n ? lent_alloc(m, list->n * sizeof(*at)) : NULL;

	*ret_n = 0;
	for (size_t i = 0; at && i < list->n; i++) {
		const struct gs_function_stats *s = &list->items[i];
		struct gs_function *f = LENT_NEW(m, struct gs_function);

		if (!f)
			return at;
		f->name = s->name;
		f->layer = item_layer_word(s->layer);
		f->calls = s->calls;
		f->errors = s->errors;
		f->n_timed = s->n_timed;
		f->total_ns = s->total_ns;
		f->mean_ns = s->mean_ns;
		f->p50_ns = s->p50_ns;
		f->p95_ns = s->p95_ns;
		f->p99_ns = s->p99_ns;
		f->max_ns = s->max_ns;
		f->bytes = s->bytes;
		at[(*ret_n)++] = f;
	}
	return at;
}

static void put_processes(struct lent_memory *m, const struct gs_summary *s, struct gs_result *r)
{
	const struct gs_process_result **at =
		s->n_processes ? lent_alloc(m, s->n_processes * sizeof(*at)) : NULL;

	r->processes = at;
	for (size_t i = 0; at && i < s->n_processes; i++) {
		const struct gs_process_summary *from = &s->processes[i];
		struct gs_process_result *p = LENT_NEW(m, struct gs_process_result);

		if (!p)
			return;
		p->pid = from->pid;
		p->parent_pid = from->parent_pid;
		p->comm = from->comm;
		p->cmdline = from->cmdline;
		p->container = from->container;
		p->uid = from->uid;
		p->functions = make_functions(m, &from->functions, &p->n_functions);
		at[r->n_processes++] = p;
	}
}

static void put_attached(struct lent_memory *m, const struct gs_summary *s, struct gs_result *r)
{
	size_t n = s->n_attached + s->n_attach_failures;
	const struct gs_attached **at = n ? lent_alloc(m, n * sizeof(*at)) : NULL;

	r->attached = at;
	for (size_t i = 0; at && i < n; i++) {
		const struct gs_attach_status *from =
			i < s->n_attached ? &s->attached[i]
					  : &s->attach_failures[i - s->n_attached];
		struct gs_attached *a = LENT_NEW(m, struct gs_attached);

		if (!a)
			return;
		a->head.kind = GS_ITEM_ATTACH;
		a->path = from->path;
		a->function = from->function;
		a->status = from->status;
		a->n_probes = from->n_probes;
		a->reason = from->reason;
		at[r->n_attached++] = a;
	}
}

static void put_lost(struct lent_memory *m, const struct gs_summary *s, struct gs_result *r)
{
	const struct gs_lost **at = s->n_lost ? lent_alloc(m, s->n_lost * sizeof(*at)) : NULL;

	r->lost = at;
	for (size_t i = 0; at && i < s->n_lost; i++) {
		struct gs_lost *l = LENT_NEW(m, struct gs_lost);

		if (!l)
			return;
		l->head.kind = GS_ITEM_LOST;
		l->count = s->lost[i].count;
		l->cause = gs_loss_name(s->lost[i].cause);
		l->text = gs_loss_text(s->lost[i].cause);
		l->layer = item_layer_word(s->lost[i].layer);
		l->detail = s->lost[i].detail;
		at[r->n_lost++] = l;
	}
}

static const char *text_or_none(const char *text)
{
	return text ? text : "";
}

static const struct gs_verdict_result *make_verdict(struct lent_memory *m,
						    const struct gs_verdict_summary *from)
{
	struct gs_verdict_result *v = LENT_NEW(m, struct gs_verdict_result);

	if (!v)
		return NULL;
	v->class_name = text_or_none(from->class_name);
	v->title = text_or_none(from->title);
	v->evidence = text_or_none(from->evidence);
	v->advice = text_or_none(from->advice);
	v->command = text_or_none(from->command);
	v->share_ratio = from->class_name && from->share >= 0 ? from->share : NAN;
	v->confidence = from->class_name ? from->confidence : 0;
	return v;
}

static struct gs_finding *make_finding(struct lent_memory *m, const struct gs_explain_finding *from)
{
	struct gs_finding *f = LENT_NEW(m, struct gs_finding);
	char text[GS_EXPLAIN_TEXT_BYTES];

	if (!f)
		return NULL;
	f->subject = gs_explain_subject_name(from->subject);
	f->text = lent_text(m, gs_explain_text(from, text));
	f->cause = from->cause.key ? lent_text(m, from->cause.text) : "";
	f->advice = gs_explain_advice(from);
	f->command = gs_explain_command(from);
	f->begun_ns = from->begun.since_ns;
	f->ended_ns = from->ended_ns;
	f->pid = from->pid;
	f->tid = from->tid;
	f->gpu = (int32_t)from->gpu - 1;
	f->before = from->begun.before;
	f->after = from->after;
	f->unit = gs_explain_unit(from);
	f->cause_confidence = from->cause.key ? from->cause.confidence : 0;
	return f;
}

static void put_findings(struct lent_memory *m, const struct gs_explain_result *all,
			 struct gs_result *r)
{
	const struct gs_finding **at =
		all->n_findings ? lent_alloc(m, all->n_findings * sizeof(*at)) : NULL;

	r->findings = at;
	for (size_t i = 0; at && i < all->n_findings; i++)
		if ((at[r->n_findings] = make_finding(m, &all->findings[i])))
			r->n_findings++;
}

static const struct gs_hang_rank *
make_rank(struct lent_memory *m, const struct gs_hang_rank_summary *from, uint64_t found_ns)
{
	struct gs_hang_rank *r = LENT_NEW(m, struct gs_hang_rank);

	if (!r)
		return NULL;
	r->rank = from->rank;
	r->pid = from->pid;
	r->tid = from->tid;
	r->signal = from->signal;
	r->calls = from->calls;
	r->last_ns = from->last_function[0] ? found_ns - from->last_age_ns : 0;
	r->last_count = from->last_count;
	r->last_function = from->last_function;
	r->last_type = from->last_type;
	r->state = from->state;
	r->text = from->text;
	r->python_stack = from->python;
	r->native_stack = from->native;
	return r;
}

static const struct gs_hang *make_hang(struct lent_memory *m, const struct gs_hang_summary *from,
				       uint64_t start_ns)
{
	const struct gs_hang_rank **ranks =
		from->n_listed ? lent_alloc(m, from->n_listed * sizeof(*ranks)) : NULL;
	struct gs_hang *h = LENT_NEW(m, struct gs_hang);

	if (!h)
		return NULL;
	h->head.kind = GS_ITEM_HANG;
	h->number = from->number;
	h->n_comm_ranks = from->n_ranks;
	h->begun_ns = start_ns + from->since_ns;
	h->found_ns = start_ns + from->found_ns;
	h->ended_ns = from->ended_ns ? start_ns + from->ended_ns : 0;
	h->comm = from->id;
	h->call = from->call;
	h->sort = from->kind;
	h->text = from->text;
	h->has_arrived = from->has_arrived;
	h->ranks = ranks;
	for (size_t i = 0; ranks && i < from->n_listed; i++)
		if ((ranks[h->n_ranks] = make_rank(m, &from->ranks[i], h->found_ns)))
			h->n_ranks++;
	return h;
}

static void put_hangs(struct lent_memory *m, const struct gs_summary *s, struct gs_result *r)
{
	const struct gs_hang **at = s->n_hangs ? lent_alloc(m, s->n_hangs * sizeof(*at)) : NULL;

	r->hangs = at;
	for (size_t i = 0; at && i < s->n_hangs; i++)
		if ((at[r->n_hangs] = make_hang(m, &s->hangs[i], s->start_boot_ns)))
			r->n_hangs++;
}

const struct gs_result *trace_outcome_result(struct trace_outcome *o)
{
	const struct gs_summary *s = o->summary;
	struct gs_result *r;

	lent_reset(&o->memory);
	r = LENT_NEW(&o->memory, struct gs_result);
	if (!r)
		return NULL;
	r->command = s->command;
	r->host = s->host;
	r->kernel = s->kernel;
	r->end_reason = s->end_reason;
	r->start_wall_ns = s->start_wall_ns;
	r->duration_ns = s->duration_ns;
	r->exit_status = s->exit_status;
	r->complete = s->complete;
	r->functions = make_functions(&o->memory, &s->functions, &r->n_functions);
	put_processes(&o->memory, s, r);
	put_attached(&o->memory, s, r);
	put_lost(&o->memory, s, r);
	put_hangs(&o->memory, s, r);
	r->verdict = make_verdict(&o->memory, &s->verdict);
	if (o->has_findings)
		put_findings(&o->memory, &o->all, r);
	return o->memory.failed ? NULL : r;
}

/* --- text --- */

/* Findings, which are added to the JSON of a summary. */
struct beside {
	const struct gs_findings *findings;
	const struct gs_explain_result *all;
	const char *path; /* NULL: there is no recording */
};

static void put_beside(void *ctx, struct gs_doc *doc)
{
	const struct beside *b = ctx;

	gs_findings_put(doc, b->findings, b->all, b->path);
}

int trace_outcome_put(struct trace_outcome *o, struct gs_findings *findings, const char *path,
		      uint32_t layers, bool only_findings)
{
	struct beside beside = {findings, &o->all, *path ? path : NULL};
	struct gs_report_summary_style style = {.size = sizeof(style),
						.gpus = true,
						.layers = layers,
						.recording = beside.path,
						.n_top = GS_SUMMARY_TOP_SHORT,
						.view = GS_SUMMARY_SHORT,
						.put_more = put_beside,
						.more_ctx = &beside};
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};
	int r = rendered_begin(&o->text);

	if (r < 0)
		return r;
	if (!only_findings) {
		r = gs_report_summary_write(o->text.out, o->summary, GS_SUMMARY_JSON, &style);
	} else {
		gs_pen_open(&pen, o->text.out);
		gs_findings_doc(&doc, findings, &o->all, o->summary, path);
		gs_pen_puts(&pen, "\n");
		r = gs_pen_close(&pen);
	}
	return rendered_end(&o->text, r);
}
