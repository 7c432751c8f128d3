/*
 * Lines of Python code: samples and calls are counted by the number of their stack, since a stack
 * may be recorded after the first call that has it; which line a stack is shown as is decided when a
 * summary is asked for.
 *
 * A stack is shown as its innermost line whose file is not passed over (the filter), so that a
 * launch counts for the line of the model that asked for it and not for one inside the framework.
 * A stack of nothing but such files is shown as its innermost line. The time of a sample also
 * counts for every other line of its stack that is not passed over, once each.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/line.h"
#include "pipeline/aggregate/tally.h"

struct line_use { /* of one stack */
	uint64_t samples, sample_ns;
	uint64_t calls, launches, collectives, copies, allocs;
	uint64_t bytes, call_ns;
	uint64_t slow_ops, op_ns;
};

struct view_lines {
	struct line_use *by_stack; /* owned; by id, 0 for samples without a stack */
	uint32_t n;
	char **filter; /* owned, and each; NULL: the usual one */
	size_t n_filter;
};

static struct view_lines *lines_of(struct gs_aggregate *v)
{
	if (!v->lines)
		v->lines = calloc(1, sizeof(*v->lines));
	return v->lines;
}

void gs_aggregate_lines_free(struct gs_aggregate *v)
{
	struct view_lines *l = v->lines;

	if (!l)
		return;
	for (size_t i = 0; i < l->n_filter; i++)
		free(l->filter[i]);
	free(l->filter);
	free(l->by_stack);
	free(l);
	v->lines = NULL;
}

int gs_aggregate_set_line_filter(struct gs_aggregate *v, const char *const *globs, size_t n)
{
	struct view_lines *l = lines_of(v);

	if (!l)
		return -ENOMEM;
	l->filter = calloc(n + 1, sizeof(*l->filter));
	for (size_t i = 0; l->filter && i < n; i++) {
		l->filter[i] = strdup(globs[i]);
		if (!l->filter[i])
			return -ENOMEM;
		l->n_filter++;
	}
	return l->filter ? 0 : -ENOMEM;
}

/* Where a stack's uses are counted; NULL: no memory. Ids past the dictionary's go to 0. */
static struct line_use *use_of(struct gs_aggregate *v, uint32_t stack)
{
	struct view_lines *l = lines_of(v);
	uint32_t n;
	struct line_use *more;

	if (!l)
		return NULL;
	if (stack >= GS_DICT_MAX_ID)
		stack = 0;
	if (stack < l->n)
		return &l->by_stack[stack];
	for (n = l->n ? l->n : 64; n <= stack;)
		n *= 2;
	more = realloc(l->by_stack, n * sizeof(*more));
	if (!more)
		return NULL;
	memset(more + l->n, 0, (n - l->n) * sizeof(*more));
	l->by_stack = more;
	l->n = n;
	return &more[stack];
}

int gs_aggregate_line_sample(struct gs_aggregate *v, const struct gs_rec_sample *s)
{
	struct line_use *u = use_of(v, s->py_stack);

	if (!u)
		return -ENOMEM;
	if (s->time_ns > v->last_ns)
		v->last_ns = s->time_ns;
	u->samples++;
	u->sample_ns += s->period_ns;
	return 0;
}

int gs_aggregate_line_call(struct gs_aggregate *v, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, c->function);
	struct line_use *u = use_of(v, gs_call_py_stack(c));

	if (!u)
		return -ENOMEM;
	/* What is inside an operator has stacks of its own: its time is not added to theirs. A
	 * described probe is shown where its user asked for it. */
	if (f && f->func_class >= GS_CLASS_OPERATOR && f->func_class != GS_CLASS_PROBE &&
	    f->func_class != GS_CLASS_SITE) {
		u->slow_ops++;
		u->op_ns += c->dur_ns;
		return 0;
	}
	u->calls++;
	u->call_ns += c->dur_ns;
	if (!c->failed)
		u->bytes += c->bytes;
	switch (f ? f->func_class : GS_CLASS_OTHER) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
		u->launches++;
		break;
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		u->collectives++;
		break;
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
		u->copies++;
		break;
	case GS_CLASS_ALLOC:
		u->allocs++;
		break;
	}
	return 0;
}

/* --- the summary --- */

struct line_row {
	struct line_use self;
	uint64_t total_samples, total_ns;
	uint64_t loader_samples; /* shown as this line, in a loader of data */
	uint32_t last_stack;     /* that counted for it: once for each */
	int8_t passed_over;      /* -1: not decided */
};

static bool is_passed_over(const struct view_lines *l, const char *file)
{
	if (!l->filter)
		return gs_line_is_library(file);
	for (size_t i = 0; i < l->n_filter; i++)
		if (fnmatch(l->filter[i], file, 0) == 0)
			return true;
	return false;
}

static bool passes_filter(const struct gs_aggregate *v, struct line_row *rows, uint32_t frame)
{
	const struct gs_rec_frame *f = gs_dict_frame(v->dict, frame);

	if (rows[frame].passed_over < 0)
		rows[frame].passed_over =
			f && is_passed_over(v->lines, gs_dict_string(v->dict, f->file_str));
	return !rows[frame].passed_over;
}

static void add_use(struct line_use *sum, const struct line_use *u)
{
	sum->samples += u->samples;
	sum->sample_ns += u->sample_ns;
	sum->calls += u->calls;
	sum->launches += u->launches;
	sum->collectives += u->collectives;
	sum->copies += u->copies;
	sum->allocs += u->allocs;
	sum->bytes += u->bytes;
	sum->call_ns += u->call_ns;
	sum->slow_ops += u->slow_ops;
	sum->op_ns += u->op_ns;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Is that PyTorch's loader at work: the iterator that a training loop asks for the next batch, or
 * the loop of a worker process? */
static bool is_loader(const struct gs_aggregate *v, uint32_t frame, bool *ret_in_worker)
{
	const struct gs_rec_frame *f = gs_dict_frame(v->dict, frame);
	const char *file = f ? gs_dict_string(v->dict, f->file_str) : "";
	const char *function = f ? gs_dict_string(v->dict, f->function_str) : "";

	*ret_in_worker = ends_with(file, "torch/utils/data/_utils/worker.py") &&
			 strcmp(function, "_worker_loop") == 0;
	return *ret_in_worker || (ends_with(file, "torch/utils/data/dataloader.py") &&
				  ends_with(function, "__next__"));
}

static void add_loader(const struct gs_aggregate *v, const struct gs_rec_stack *s, uint64_t samples,
		       struct line_row *shown, struct gs_loader_summary *loader)
{
	bool in_worker;

	for (uint32_t i = 0; i < s->n_frames; i++) {
		if (!is_loader(v, s->frames[i], &in_worker))
			continue;
		*(in_worker ? &loader->worker_samples : &loader->self_samples) += samples;
		shown->loader_samples += samples;
		return;
	}
	loader->other_samples += samples;
}

static void add_stack(const struct gs_aggregate *v, struct line_row *rows, uint32_t n_rows,
		      uint32_t id, struct line_use *nowhere, struct gs_loader_summary *loader)
{
	const struct gs_rec_stack *s = id ? gs_dict_stack(v->dict, id) : NULL;
	const struct line_use *u = &v->lines->by_stack[id];
	uint32_t shown = 0;

	for (uint32_t i = 0; s && i < s->n_frames; i++) {
		uint32_t frame = s->frames[i];
		struct line_row *r = &rows[frame];

		if (!frame || frame >= n_rows || !passes_filter(v, rows, frame))
			continue;
		if (!shown)
			shown = frame;
		if (r->last_stack == id)
			continue;
		r->last_stack = id;
		r->total_samples += u->samples;
		r->total_ns += u->sample_ns;
	}
	if (!shown && s && s->n_frames && s->frames[0] && s->frames[0] < n_rows) {
		shown = s->frames[0];
		rows[shown].total_samples += u->samples;
		rows[shown].total_ns += u->sample_ns;
	}
	if (shown)
		add_loader(v, s, u->samples, &rows[shown], loader);
	else
		loader->other_samples += u->samples;
	add_use(shown ? &rows[shown].self : nowhere, u);
}

/* The line at which loaders spent most. */
static void find_loader_line(const struct gs_aggregate *v, struct gs_summary *s,
			     const struct line_row *rows, uint32_t n_rows)
{
	struct gs_loader_summary *l = &s->loader;
	const struct gs_rec_frame *f;
	uint32_t best = 0;

	for (uint32_t i = 1; i < n_rows; i++)
		if (rows[i].loader_samples > rows[best].loader_samples)
			best = i;
	f = best ? gs_dict_frame(v->dict, best) : NULL;
	if (!f)
		return;
	l->file = gs_summary_text(s, gs_dict_string(v->dict, f->file_str));
	l->function = gs_summary_text(s, gs_dict_string(v->dict, f->function_str));
	l->line = f->line;
	l->line_samples = rows[best].loader_samples;
}

/* Samples, calls and operators measure the same clock: what a line costs is the greatest of them.
 */
static uint64_t cost_of(const struct gs_line_stats *l)
{
	uint64_t ns = l->sample_ns > l->call_ns ? l->sample_ns : l->call_ns;

	return l->op_ns > ns ? l->op_ns : ns;
}

static int compare_lines(const void *a, const void *b)
{
	const struct gs_line_stats *x = a, *y = b;
	uint64_t p = cost_of(x), q = cost_of(y);
	int r;

	if (p != q)
		return p > q ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	r = strcmp(x->file, y->file);
	if (r)
		return r;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return strcmp(x->function, y->function);
}

static void fill_line(const struct gs_aggregate *v, struct gs_summary *s, uint32_t frame,
		      const struct line_row *r, struct gs_line_stats *out)
{
	const struct gs_rec_frame *f = gs_dict_frame(v->dict, frame);

	*out = (struct gs_line_stats){
		.file = gs_summary_text(s, f ? gs_dict_string(v->dict, f->file_str) : ""),
		.function = gs_summary_text(s, f ? gs_dict_string(v->dict, f->function_str) : ""),
		.line = f ? f->line : 0,
		.samples = r->self.samples,
		.sample_ns = r->self.sample_ns,
		.total_samples = r->total_samples,
		.total_ns = r->total_ns,
		.calls = r->self.calls,
		.launches = r->self.launches,
		.collectives = r->self.collectives,
		.copies = r->self.copies,
		.allocs = r->self.allocs,
		.bytes = r->self.bytes,
		.call_ns = r->self.call_ns,
		.slow_ops = r->self.slow_ops,
		.op_ns = r->self.op_ns,
	};
}

static bool is_used(const struct line_row *r)
{
	return r->self.samples || r->self.calls || r->self.slow_ops || r->total_samples;
}

/* Samples may have been taken for their native stacks alone. */
static bool are_native_alone(const struct gs_aggregate *v)
{
	for (uint32_t id = 1; id < v->lines->n; id++) {
		const struct line_use *u = &v->lines->by_stack[id];

		if (u->samples || u->calls || u->slow_ops)
			return false;
	}
	return v->native.taken;
}

int gs_aggregate_lines(struct gs_aggregate *v, struct gs_summary *s)
{
	uint32_t n_rows = gs_dict_max_frame(v->dict) + 1;
	GS_FREE struct line_row *rows = NULL;
	struct line_use nowhere = {0};
	size_t n = 0;

	if (!v->lines || !v->lines->n || are_native_alone(v))
		return 0;
	rows = calloc(n_rows, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_rows; i++)
		rows[i].passed_over = -1;
	for (uint32_t id = 0; id < v->lines->n; id++)
		add_stack(v, rows, n_rows, id, &nowhere, &s->loader);
	find_loader_line(v, s, rows, n_rows);
	for (uint32_t i = 1; i < n_rows; i++)
		n += is_used(&rows[i]);
	s->python_bare_samples = nowhere.samples;
	s->has_python = 1;
	if (!n)
		return 0;
	s->python_lines = gs_summary_alloc(s, n * sizeof(*s->python_lines));
	if (!s->python_lines)
		return -ENOMEM;
	for (uint32_t i = 1; i < n_rows; i++)
		if (is_used(&rows[i]))
			fill_line(v, s, i, &rows[i], &s->python_lines[s->n_python_lines++]);
	qsort(s->python_lines, n, sizeof(*s->python_lines), compare_lines);
	return 0;
}
