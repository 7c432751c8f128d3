/*
 * Lines of Python code: samples and calls are counted by the number of their stack, since a stack
 * may be recorded after the first call that has it; which line a stack is shown as is decided when a
 * summary is asked for.
 *
 * A stack is shown as its innermost line whose file is not passed over (the filter), so that a
 * launch counts for the line of the model that asked for it and not for one inside the framework.
 * A stack of nothing but such files is shown as its innermost line. The time of a sample also
 * counts for every other line of its stack that is not passed over, once each. What the import of
 * modules outside of the program ran and waited for is one row.
 *
 * Which threads a line was seen in is kept beside it: its share is of their wall time alone, since
 * an idle thread elsewhere does not make a line cheaper.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "pipeline/aggregate/tally.h"
#include "pipeline/correlate/line.h"

#define MAX_THREADS   (1u << 18)                      /* stacks, in each thread that has them */
#define MAX_ROW_PIDS  64                              /* processes of a line */
#define MAX_PIDS      (1u << 18)                      /* of all lines together */
#define ROW_IMPORTS   0                               /* no frame has that id */
#define ROW_NONE      UINT32_MAX                      /* no line */
#define IMPORTER_FILE "<frozen importlib._bootstrap>" /* Lib/importlib/_bootstrap.py */

struct line_use { /* of one stack */
	uint64_t samples, sample_ns;
	uint64_t calls, launches, collectives, copies, allocs;
	uint64_t bytes, call_ns;
	uint64_t slow_ops, op_ns;
	uint64_t wait_ns[GS_WAIT_COUNT]; /* by enum gs_wait_cause */
};

/* A stack in one thread. Stacks belong to a process: its threads share them. */
struct line_thread {
	uint32_t stack, thread;
	uint64_t own_wait_ns; /* not for the GPU, a processor or the interpreter's lock */
};

struct view_lines {
	struct line_use *by_stack; /* owned; by id, 0 for samples without a stack */
	uint32_t n;
	struct array threads;     /* struct line_thread */
	struct gs_map thread_idx; /* of them, by stack and thread */
	bool has_lost_threads;    /* too many: no line has a wall time */
	char **filter;            /* owned, and each; NULL: the usual one */
	size_t n_filter;
};

static struct view_lines *lines_of(struct gs_aggregate *v)
{
	if (v->lines)
		return v->lines;
	v->lines = calloc(1, sizeof(*v->lines));
	if (v->lines)
		v->lines->thread_idx = GS_MAP_INIT(2 * MAX_THREADS);
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
	free(l->threads.items);
	gs_map_fini(&l->thread_idx);
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

	if (!l)
		return NULL;
	if (stack >= GS_DICT_MAX_ID)
		stack = 0;
	return gs_vec_reach(&l->by_stack, &l->n, stack) ? &l->by_stack[stack] : NULL;
}

/* That stack in that thread; NULL: there is no room. */
static struct line_thread *thread_of(struct view_lines *l, uint32_t stack, uint32_t thread)
{
	uint64_t key = (uint64_t)stack << 32 | thread, idx;
	struct line_thread *t;

	if (gs_map_get(&l->thread_idx, key, &idx))
		return (struct line_thread *)l->threads.items + idx;
	t = gs_aggregate_grow(&l->threads, sizeof(*t), MAX_THREADS);
	if (!t || gs_map_put(&l->thread_idx, key, l->threads.n - 1) < 0) {
		l->threads.n -= t != NULL;
		l->has_lost_threads = true;
		return NULL;
	}
	*t = (struct line_thread){.stack = stack, .thread = thread};
	return t;
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
	(void)thread_of(v->lines, s->py_stack, s->thread);
	return 0;
}

int gs_aggregate_line_wait(struct gs_aggregate *v, const struct gs_rec_wait *w)
{
	struct line_use *u = use_of(v, w->py_stack);
	struct line_thread *t;

	if (!u)
		return -ENOMEM;
	if (w->time_ns > v->last_ns)
		v->last_ns = w->time_ns;
	u->wait_ns[w->cause < GS_WAIT_COUNT ? w->cause : GS_STATE_OTHER] += w->wait_ns;
	t = thread_of(v->lines, w->py_stack, w->thread);
	if (t && w->cause != GS_WAIT_GPU && w->cause != GS_WAIT_GIL &&
	    w->cause != GS_STATE_RUNQUEUE)
		t->own_wait_ns += w->wait_ns;
	return 0;
}

static uint64_t waited_ns(const struct line_use *u)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < GS_WAIT_COUNT; i++)
		ns += u->wait_ns[i];
	return ns;
}

int gs_aggregate_line_call(struct gs_aggregate *v, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, c->function);
	struct line_use *u = use_of(v, c->py_stack);

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
	uint64_t total_samples, total_ns, total_wait_ns;
	uint64_t loader_samples; /* shown as this line, in a loader of data */
	uint64_t wall_ns;        /* of the threads that it was shown in */
	uint32_t last_stack;     /* that counted for it: once for each */
	uint32_t n_pids;         /* of the processes in whose stacks it is */
	uint32_t *pids;          /* the summary's */
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
	for (unsigned i = 0; i < GS_WAIT_COUNT; i++)
		sum->wait_ns[i] += u->wait_ns[i];
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

/* Does an import run that code, with nothing of the program's own in between? */
static bool is_import(const struct gs_aggregate *v, struct line_row *rows, uint32_t n_rows,
		      const struct gs_rec_stack *s)
{
	for (uint32_t i = 0; s && i < s->n_frames; i++) {
		const struct gs_rec_frame *f = gs_dict_frame(v->dict, s->frames[i]);

		if (!f || s->frames[i] >= n_rows)
			continue;
		if (strcmp(gs_dict_string(v->dict, f->file_str), IMPORTER_FILE) == 0 &&
		    strcmp(gs_dict_string(v->dict, f->function_str), "_find_and_load") == 0)
			return true;
		if (passes_filter(v, rows, s->frames[i]))
			return false;
	}
	return false;
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

/* Returns the row that it is shown as; ROW_NONE: none. */
static uint32_t add_stack(const struct gs_aggregate *v, struct line_row *rows, uint32_t n_rows,
			  uint32_t id, struct line_use *nowhere, struct gs_loader_summary *loader)
{
	const struct gs_rec_stack *s = id ? gs_dict_stack(v->dict, id) : NULL;
	const struct line_use *u = &v->lines->by_stack[id];
	uint32_t shown = 0;
	/* Calls count for the line that asked for them, whatever made them. */
	bool imports = !u->calls && !u->slow_ops && is_import(v, rows, n_rows, s);

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
		r->total_wait_ns += waited_ns(u);
	}
	if (imports) {
		loader->other_samples += u->samples;
		add_use(&rows[ROW_IMPORTS].self, u);
		rows[ROW_IMPORTS].total_samples += u->samples;
		rows[ROW_IMPORTS].total_ns += u->sample_ns;
		rows[ROW_IMPORTS].total_wait_ns += waited_ns(u);
		return ROW_IMPORTS;
	}
	if (!shown && s && s->n_frames && s->frames[0] && s->frames[0] < n_rows) {
		shown = s->frames[0];
		rows[shown].total_samples += u->samples;
		rows[shown].total_ns += u->sample_ns;
		rows[shown].total_wait_ns += waited_ns(u);
	}
	if (shown)
		add_loader(v, s, u->samples, &rows[shown], loader);
	else
		loader->other_samples += u->samples;
	add_use(shown ? &rows[shown].self : nowhere, u);
	return shown ? shown : ROW_NONE;
}

struct row_thread {
	uint32_t row, thread;
};

static int compare_row_threads(const void *a, const void *b)
{
	const struct row_thread *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* The wall time of each thread that has an account, by pid and tid. */
static int gather_walls(const struct gs_aggregate *v, struct gs_map *ret_walls)
{
	for (size_t i = 0; i < v->accounts.n; i++) {
		const struct view_account *a = (const struct view_account *)v->accounts.items + i;
		uint64_t key = (uint64_t)a->pid << 32 | a->tid, part_ns[GS_PART_COUNT];
		uint64_t before_ns = 0, wall_ns = gs_account_parts(a->ns, part_ns);

		(void)gs_map_get(ret_walls, key, &before_ns);
		if (gs_map_put(ret_walls, key, before_ns + wall_ns) < 0)
			return -ENOMEM;
	}
	return 0;
}

static uint64_t wall_of(const struct gs_aggregate *v, const struct gs_map *walls, uint32_t thread)
{
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, thread);
	const struct gs_rec_process *p = t ? gs_dict_process(v->dict, t->process) : NULL;
	uint64_t ns = 0;

	if (p)
		(void)gs_map_get(walls, (uint64_t)p->pid << 32 | t->tid, &ns);
	return ns;
}

/* Each row's threads, each once. row_of: by stack. */
static int add_walls(const struct gs_aggregate *v, struct line_row *rows, const uint32_t *row_of)
{
	const struct line_thread *from = v->lines->threads.items;
	struct gs_map walls GS_CLEANUP(gs_map_fini) = GS_MAP_INIT(2 * GS_AGGREGATE_MAX_ACCOUNTS);
	GS_FREE struct row_thread *pairs = NULL;
	size_t n = 0, n_threads = v->lines->threads.n;
	int r;

	if (!n_threads || v->lines->has_lost_threads)
		return 0;
	r = gather_walls(v, &walls);
	if (r < 0)
		return r;
	pairs = calloc(n_threads, sizeof(*pairs));
	if (!pairs)
		return -ENOMEM;
	for (size_t i = 0; i < n_threads; i++)
		if (from[i].stack < v->lines->n && row_of[from[i].stack] != ROW_NONE)
			pairs[n++] = (struct row_thread){.row = row_of[from[i].stack],
							 .thread = from[i].thread};
	qsort(pairs, n, sizeof(*pairs), compare_row_threads);
	for (size_t i = 0; i < n; i++)
		if (!i || compare_row_threads(&pairs[i - 1], &pairs[i]) != 0)
			rows[pairs[i].row].wall_ns += wall_of(v, &walls, pairs[i].thread);
	return 0;
}

/* The thread that waits longest in its own iterator of a loader. */
static int find_loader_wait(const struct gs_aggregate *v, struct gs_loader_summary *l)
{
	struct gs_map waits GS_CLEANUP(gs_map_fini) = GS_MAP_INIT(2 * MAX_THREADS);
	uint32_t best = 0;

	for (size_t i = 0; i < v->lines->threads.n; i++) {
		const struct line_thread *t =
			(const struct line_thread *)v->lines->threads.items + i;
		const struct gs_rec_stack *s = t->stack ? gs_dict_stack(v->dict, t->stack) : NULL;
		bool in_loader = false, in_worker = false;
		uint64_t ns = 0;

		for (uint32_t k = 0; s && k < s->n_frames && !in_loader; k++)
			in_loader = is_loader(v, s->frames[k], &in_worker);
		if (!in_loader || in_worker || !t->own_wait_ns)
			continue;
		(void)gs_map_get(&waits, t->thread, &ns);
		ns += t->own_wait_ns;
		if (gs_map_put(&waits, t->thread, ns) < 0)
			return -ENOMEM;
		if (ns > l->wait_ns) {
			l->wait_ns = ns;
			best = t->thread;
		}
	}
	if (best) {
		const struct gs_rec_thread *t = gs_dict_thread(v->dict, best);
		const struct gs_rec_process *p = t ? gs_dict_process(v->dict, t->process) : NULL;

		l->wait_pid = p ? p->pid : 0;
		l->wait_tid = t ? t->tid : 0;
	}
	return 0;
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

/* Samples, calls and operators measure the same clock: what a line costs is the greatest of them, or
 * the time that it ran and waited. */
static uint64_t cost_of(const struct gs_line_stats *l)
{
	uint64_t wall_ns = l->sample_ns + l->wait_ns;
	uint64_t ns = wall_ns > l->call_ns ? wall_ns : l->call_ns;

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
		.file = frame == ROW_IMPORTS
				? "(imports)"
				: gs_summary_text(s, f ? gs_dict_string(v->dict, f->file_str) : ""),
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
		.wait_ns = waited_ns(&r->self),
		.total_wait_ns = r->total_wait_ns,
		.wall_ns = r->wall_ns,
		.pids = r->pids,
		.n_pids = r->n_pids,
	};
	memcpy(out->wait_by_cause_ns, r->self.wait_ns, sizeof(out->wait_by_cause_ns));
}

static bool is_used(const struct line_row *r)
{
	return r->self.samples || r->self.calls || r->self.slow_ops || r->total_samples ||
	       waited_ns(&r->self) || r->total_wait_ns;
}

/* Which processes a used row's line is of, as row << 32 | pid, each once. -ENOBUFS: they are too many. */
static int gather_pids(const struct gs_aggregate *v, const struct line_row *rows, uint32_t n_rows,
		       struct gs_map *ret_seen)
{
	for (uint32_t id = 1; id < v->lines->n; id++) {
		const struct gs_rec_stack *s = gs_dict_stack(v->dict, id);
		const struct gs_rec_process *p = s ? gs_dict_process(v->dict, s->process) : NULL;

		for (uint32_t i = 0; p && i < s->n_frames; i++) {
			uint32_t frame = s->frames[i];
			int r = 0;

			if (frame && frame < n_rows && is_used(&rows[frame]))
				r = gs_map_put(ret_seen, (uint64_t)frame << 32 | p->pid, 0);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The processes of each row; none where they are more than a row may have. */
static int add_pids(const struct gs_aggregate *v, struct gs_summary *s, struct line_row *rows,
		    uint32_t n_rows)
{
	struct gs_map seen GS_CLEANUP(gs_map_fini) = GS_MAP_INIT(MAX_PIDS);
	GS_FREE uint64_t *keys = NULL;
	uint32_t *pids;
	size_t n = 0;
	int r = gather_pids(v, rows, n_rows, &seen);

	if (r < 0 || !seen.n_used)
		return r == -ENOBUFS ? 0 : r;
	keys = calloc(seen.n_used, sizeof(*keys));
	pids = gs_summary_alloc(s, seen.n_used * sizeof(*pids));
	if (!keys || !pids)
		return -ENOMEM;
	gs_map_for_each (&seen, slot)
		keys[n++] = slot->key;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 0, from = 0; i < n; i++) {
		struct line_row *row = &rows[keys[i] >> 32];

		if (i && keys[i] >> 32 != keys[i - 1] >> 32)
			from = i;
		pids[i] = (uint32_t)keys[i];
		row->pids = &pids[from];
		row->n_pids = i - from < MAX_ROW_PIDS ? (uint32_t)(i - from) + 1 : 0;
	}
	return 0;
}

/* Samples may have been taken for their native stacks alone. */
static bool are_native_alone(const struct gs_aggregate *v)
{
	for (uint32_t id = 1; id < v->lines->n; id++) {
		const struct line_use *u = &v->lines->by_stack[id];

		if (u->samples || u->calls || u->slow_ops || waited_ns(u))
			return false;
	}
	return v->native.taken;
}

int gs_aggregate_lines(struct gs_aggregate *v, struct gs_summary *s)
{
	uint32_t n_rows = gs_dict_max_frame(v->dict) + 1;
	GS_FREE struct line_row *rows = NULL;
	GS_FREE uint32_t *row_of = NULL;
	struct line_use nowhere = {0};
	size_t n = 0;
	int r;

	if (!v->lines || !v->lines->n || are_native_alone(v))
		return 0;
	rows = calloc(n_rows, sizeof(*rows));
	row_of = calloc(v->lines->n, sizeof(*row_of));
	if (!rows || !row_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_rows; i++)
		rows[i].passed_over = -1;
	for (uint32_t id = 0; id < v->lines->n; id++)
		row_of[id] = add_stack(v, rows, n_rows, id, &nowhere, &s->loader);
	r = add_walls(v, rows, row_of);
	if (r == 0)
		r = add_pids(v, s, rows, n_rows);
	if (r == 0)
		r = find_loader_wait(v, &s->loader);
	if (r < 0)
		return r;
	find_loader_line(v, s, rows, n_rows);
	for (uint32_t i = 0; i < n_rows; i++)
		n += is_used(&rows[i]);
	s->python_bare_samples = nowhere.samples;
	s->python_many_wait_ns = nowhere.wait_ns[GS_WAIT_MANY];
	s->python_bare_wait_ns = waited_ns(&nowhere) - nowhere.wait_ns[GS_WAIT_MANY];
	s->has_python = 1;
	if (!n)
		return 0;
	s->python_lines = gs_summary_alloc(s, n * sizeof(*s->python_lines));
	if (!s->python_lines)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_rows; i++)
		if (is_used(&rows[i]))
			fill_line(v, s, i, &rows[i], &s->python_lines[s->n_python_lines++]);
	qsort(s->python_lines, n, sizeof(*s->python_lines), compare_lines);
	return 0;
}
