/*
 * What calls on a timeline have to do with each other.
 *
 * Nesting. A viewer sorts what begins at the same time by its place in the file, where a call
 * stands after those inside it. One that began in the same nanosecond as its first child is
 * written as begun one before, so that it stands around the child. To know that child, the begins
 * of what was written in a thread are kept until the call around them comes.
 *
 * Arrows. Of all the work that a call waited for, which shares its flow, only the last gets an
 * arrow to it: a chain through thousands of launches shows nothing. Which is the last is
 * known when the wait comes (or the next launch), so the newest call of each flow is kept until
 * then; readers sort by time.
 */
#include "output/trace_export/export_int.h"
#include "pipeline/correlate/line.h"

#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"

#define MAX_BEGINS  64    /* kept of a thread; outer ones before inner ones */
#define MAX_THREADS 65536 /* ids; others nest without help */
#define MAX_KEPT    256   /* calls; a flow takes the place of another only when it comes */

struct span {
	uint64_t start_ns, end_ns;
	uint64_t begin_ns; /* as written */
};

struct thread {
	uint32_t n;
	struct span spans[MAX_BEGINS];
};

struct kept {
	struct gs_rec_call call;
	uint64_t begin_ns;
	bool used;
};

struct gs_export_timeline {
	struct thread *threads[MAX_THREADS]; /* owned elements; by id */
	struct kept kept[MAX_KEPT];          /* by flow */
};

struct gs_export_timeline *gs_export_timeline_new(void)
{
	return calloc(1, sizeof(struct gs_export_timeline));
}

void gs_export_timeline_free(struct gs_export_timeline **timeline)
{
	struct gs_export_timeline *t = *timeline;

	for (uint32_t i = 0; t && i < MAX_THREADS; i++)
		free(t->threads[i]);
	free(t);
	*timeline = NULL;
}

/* When the call is written as begun. */
static uint64_t begin_of(struct gs_export_timeline *timeline, const struct gs_rec_call *c)
{
	uint64_t begin_ns = c->start_ns, end_ns = c->start_ns + c->dur_ns;
	struct thread *t = c->thread < MAX_THREADS ? timeline->threads[c->thread] : NULL;

	if (!t && c->thread < MAX_THREADS)
		t = timeline->threads[c->thread] = calloc(1, sizeof(*t));
	if (!t)
		return begin_ns;
	/* Inside: what began with it or later, unless it took longer or is a moment beside one. */
	while (t->n) {
		const struct span *s = &t->spans[t->n - 1];

		if (s->start_ns < c->start_ns || s->end_ns > end_ns)
			break;
		if (s->begin_ns <= begin_ns && s->begin_ns && c->dur_ns)
			begin_ns = s->begin_ns - 1;
		t->n--;
	}
	/* The one before ended just then: better beside its child than across its neighbour. */
	if (begin_ns < c->start_ns && t->n && t->spans[t->n - 1].end_ns > begin_ns &&
	    t->spans[t->n - 1].begin_ns < begin_ns)
		begin_ns = c->start_ns;
	if (!c->depth && !c->scope)
		t->n = 0; /* nothing is around it: what comes next is not inside */
	else if (t->n < MAX_BEGINS)
		t->spans[t->n++] = (struct span){c->start_ns, end_ns, begin_ns};
	return begin_ns;
}

static void write_call(struct gs_export *e, const struct gs_rec_call *c, uint64_t begin_ns,
		       enum gs_export_arrow arrow)
{
	e->begin_ns = begin_ns;
	e->arrow = arrow;
	gs_export_write(e, &c->head);
}

static void write_kept(struct gs_export *e, struct kept *k, enum gs_export_arrow arrow)
{
	const struct gs_rec_values *values = e->values;

	k->used = false;
	e->values = NULL; /* those are of another call */
	write_call(e, &k->call, k->begin_ns, arrow);
	e->values = values;
}

void gs_export_timeline_call(struct gs_export *e, const struct gs_rec_call *c)
{
	uint64_t begin_ns = begin_of(e->timeline, c), flow = c->flow;
	struct kept *k = &e->timeline->kept[flow % MAX_KEPT];
	bool same = flow && k->used && k->call.flow == flow;

	if (!flow) {
		write_call(e, c, begin_ns, GS_ARROW_NONE);
	} else if (c->call_flags & GS_CALL_WAITED) {
		if (same)
			write_kept(e, k, GS_ARROW_FROM);
		write_call(e, c, begin_ns, same ? GS_ARROW_TO : GS_ARROW_NONE);
	} else if (e->values) { /* what a user's probe read is not kept with it */
		write_call(e, c, begin_ns, GS_ARROW_NONE);
	} else {
		if (k->used)
			write_kept(e, k, GS_ARROW_NONE);
		memcpy(&k->call, c, sizeof(k->call));
		k->call.head.bytes = sizeof(k->call);
		k->begin_ns = begin_ns;
		k->used = true;
	}
}

void gs_export_timeline_end(struct gs_export *e)
{
	for (size_t i = 0; i < MAX_KEPT; i++)
		if (e->timeline->kept[i].used)
			write_kept(e, &e->timeline->kept[i], GS_ARROW_NONE);
}

const char *gs_export_scope(const struct gs_dict *dict, const struct gs_rec_call *c,
			    const char **ret_key)
{
	const struct gs_rec_function *f = gs_dict_function(dict, c->scope);

	if (!f)
		return NULL;
	*ret_key = f->func_class == GS_CLASS_OPERATOR ? "operator" : "inside";
	return gs_dict_string(dict, f->name_str);
}

uint32_t gs_export_py_frame(const struct gs_dict *dict, const struct gs_rec_call *c)
{
	const struct gs_rec_frame *line = gs_line_of_stack(dict, c->py_stack);

	return line ? line->id : 0;
}

char *gs_export_put_value(char *p, const struct gs_rec_value *v, bool json)
{
	char text[32];
	double d;

	switch (v->value_type) {
	case GS_VALUE_I64:
		return gs_put_i64(p, (int64_t)v->value);
	case GS_VALUE_F64:
		memcpy(&d, &v->value, sizeof(d));
		snprintf(text, sizeof(text), "%.17g", d);
		if (json && !isfinite(d))
			return gs_put(gs_put(gs_put(p, "\""), text), "\"");
		return gs_put(p, text);
	case GS_VALUE_PTR:
		if (!json)
			return gs_put_hex(p, v->value);
		return gs_put(gs_put_hex(gs_put(p, "\""), v->value), "\"");
	default:
		return gs_put_u64(p, v->value);
	}
}
