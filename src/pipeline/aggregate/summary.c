/*
 * Adding up. The accumulators are by thread and function; threads are visited process by process,
 * and each level (a thread, its process, all) has a table by function that is filled, turned into a
 * sorted list and emptied. Ids that were never announced fall together under function and thread 0,
 * "unknown".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

struct table {
	struct acc sum[GS_AGGREGATE_MAX_FUNCTIONS]; /* by function; each hist owned */
};

/* A thread that has accumulators, by what it was announced as. */
struct row {
	uint32_t process, thread; /* ids, 0 unknown */
	uint32_t idx;             /* into gs_aggregate.threads */
};

struct build {
	struct gs_aggregate *v;
	struct gs_summary *s; /* owned until the end */
	struct row *rows;     /* owned */
	size_t n_rows;
	struct table *all, *process, *thread; /* owned */
	const char *names[GS_AGGREGATE_MAX_FUNCTIONS];
};

static void table_free(struct table **table, uint32_t n_funcs)
{
	if (!*table)
		return;
	for (uint32_t f = 0; f < n_funcs; f++)
		free((*table)->sum[f].hist);
	free(*table);
	*table = NULL;
}

static void build_free(struct build **build)
{
	struct build *b = *build;

	if (!b)
		return;
	table_free(&b->all, b->v->n_funcs);
	table_free(&b->process, b->v->n_funcs);
	table_free(&b->thread, b->v->n_funcs);
	free(b->rows);
	gs_summary_free(&b->s);
	free(b);
	*build = NULL;
}

static bool acc_is_empty(const struct acc *a)
{
	return !a->calls && !a->inner && !a->errors;
}

/* The function's id when it was announced, else 0. */
static uint32_t known_function(const struct gs_aggregate *v, uint32_t id)
{
	return id < GS_AGGREGATE_MAX_FUNCTIONS && gs_dict_function(v->dict, id) ? id : 0;
}

static const char *function_name(struct build *b, uint32_t id)
{
	const struct gs_rec_function *f = gs_dict_function(b->v->dict, id);
	const char *name = f ? gs_dict_string(b->v->dict, f->name_str) : "";

	if (!b->names[id])
		b->names[id] = gs_summary_text(b->s, *name ? name : "unknown");
	return b->names[id];
}

static uint16_t function_layer(const struct build *b, uint32_t id)
{
	const struct gs_rec_function *f = gs_dict_function(b->v->dict, id);

	return f ? f->layer : 0;
}

static const char *text_of(struct build *b, uint32_t str)
{
	return gs_summary_text(b->s, gs_dict_string(b->v->dict, str));
}

/* An array of n that lives as long as the summary; NULL in *ret when n is 0. */
static int summary_array(struct build *b, size_t n, size_t item_bytes, void *ret)
{
	void *p = n ? gs_summary_alloc(b->s, n * item_bytes) : NULL;

	memcpy(ret, &p, sizeof(p));
	return n && !p ? -ENOMEM : 0;
}

static int table_add_table(struct build *b, struct table *sum, const struct table *more)
{
	for (uint32_t f = 0; f < b->v->n_funcs; f++)
		if (!acc_is_empty(&more->sum[f]) &&
		    gs_aggregate_acc_add(&sum->sum[f], &more->sum[f]) < 0)
			return -ENOMEM;
	return 0;
}

static void table_clear(const struct build *b, struct table *t)
{
	for (uint32_t f = 0; f < b->v->n_funcs; f++) {
		struct acc *a = &t->sum[f];
		uint64_t *hist = a->hist;

		if (acc_is_empty(a) && !hist)
			continue;
		*a = (struct acc){.hist = hist};
		if (hist)
			memset(hist, 0, GS_HIST_N_BUCKETS * sizeof(*hist));
	}
}

static int compare_u64_down(uint64_t a, uint64_t b)
{
	return a > b ? -1 : a < b;
}

static int compare_functions(const void *a, const void *b)
{
	const struct gs_function_stats *x = a, *y = b;
	int r;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	r = compare_u64_down(x->total_ns, y->total_ns);
	return r ? r : strcmp(x->name, y->name);
}

/* Python functions are many: they have a list of their own, over all processes. */
static bool is_python_function(const struct build *b, uint32_t id)
{
	const struct gs_rec_function *rec = gs_dict_function(b->v->dict, id);

	return rec && rec->func_class == GS_CLASS_PYTHON;
}

/* Is more known of the function's calls than its row says? Losses for --max-overhead have its name
 * as their detail, or before a comma. */
static bool is_partial(const struct build *b, unsigned layer, const char *name)
{
	const struct view_lost *l = b->v->lost.items;
	size_t n = strlen(name);

	for (size_t i = 0; i < b->v->lost.n; i++) {
		const char *detail;

		if (l[i].layer != layer ||
		    (l[i].cause != GS_LOSS_BUDGET && l[i].cause != GS_LOSS_OFF))
			continue;
		detail = gs_dict_string(b->v->dict, l[i].detail_str);
		if (strncmp(detail, name, n) == 0 && (!detail[n] || detail[n] == ','))
			return true;
	}
	return false;
}

static int table_list(struct build *b, const struct table *t, struct gs_function_list *ret)
{
	size_t n = 0;

	for (uint32_t f = 0; f < b->v->n_funcs; f++)
		n += !acc_is_empty(&t->sum[f]) && !is_python_function(b, f);
	if (summary_array(b, n, sizeof(*ret->items), &ret->items) < 0)
		return -ENOMEM;
	ret->n = n;
	if (!n)
		return 0;
	n = 0;
	for (uint32_t f = 0; f < b->v->n_funcs; f++) {
		const struct gs_rec_function *rec = gs_dict_function(b->v->dict, f);
		const struct acc *a = &t->sum[f];
		uint64_t n_timed;

		if (acc_is_empty(a) || is_python_function(b, f))
			continue;
		n_timed = gs_hist_count(a->hist);
		ret->items[n] = (struct gs_function_stats){
			.layer = rec ? rec->layer : 0,
			.func_class = rec ? rec->func_class : 0,
			.name = function_name(b, f),
			.calls = a->calls,
			.errors = a->errors,
			.n_timed = n_timed,
			.total_ns = a->total_ns,
			.mean_ns = n_timed ? a->total_ns / n_timed : 0,
			.max_ns = a->max_ns,
			.bytes = a->bytes,
			.inner = a->inner,
			.stepped = a->stepped != 0,
			.partial = is_partial(b, rec ? rec->layer : 0, function_name(b, f)),
			.p50_ns = gs_hist_quantile_ns(a->hist, 0.50, a->max_ns),
			.p95_ns = gs_hist_quantile_ns(a->hist, 0.95, a->max_ns),
			.p99_ns = gs_hist_quantile_ns(a->hist, 0.99, a->max_ns),
		};
		n++;
	}
	qsort(ret->items, n, sizeof(*ret->items), compare_functions);
	return 0;
}

static uint64_t list_time_ns(const struct gs_function_list *l)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < l->n; i++)
		ns += l->items[i].total_ns;
	return ns;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->idx < y->idx ? -1 : x->idx > y->idx;
}

static bool thread_has_calls(const struct gs_aggregate *v, const struct view_thread *t)
{
	for (uint32_t f = 0; f < t->n_cells; f++)
		if (t->cell[f] && !acc_is_empty(&v->accs[t->cell[f]]))
			return true;
	return false;
}

static int collect_rows(struct build *b)
{
	struct gs_aggregate *v = b->v;

	b->rows = malloc((v->n_threads + 1) * sizeof(*b->rows));
	if (!b->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->n_threads; i++) {
		const struct gs_rec_thread *t = gs_dict_thread(v->dict, i);
		struct row *row = &b->rows[b->n_rows];

		if (!thread_has_calls(v, &v->threads[i]))
			continue;
		*row = (struct row){.idx = i};
		if (t) {
			row->thread = i;
			if (gs_dict_process(v->dict, t->process))
				row->process = t->process;
		}
		b->n_rows++;
	}
	qsort(b->rows, b->n_rows, sizeof(*b->rows), compare_rows);
	return 0;
}

/* Rows from i on with the same thread (only thread 0 has several) into a summary and the process's
 * table. Returns the next row, or a negative errno. */
static int64_t add_thread(struct build *b, size_t i, struct gs_thread_summary *ret)
{
	const struct row first = b->rows[i];
	const struct gs_rec_thread *rec =
		first.thread ? gs_dict_thread(b->v->dict, first.thread) : NULL;

	table_clear(b, b->thread);
	for (; i < b->n_rows && b->rows[i].process == first.process &&
	       b->rows[i].thread == first.thread;
	     i++) {
		const struct view_thread *t = &b->v->threads[b->rows[i].idx];

		for (uint32_t f = 0; f < t->n_cells; f++)
			if (t->cell[f] &&
			    gs_aggregate_acc_add(&b->thread->sum[known_function(b->v, f)],
						 &b->v->accs[t->cell[f]]) < 0)
				return -ENOMEM;
	}
	ret->tid = rec ? rec->tid : 0;
	ret->comm = rec ? text_of(b, rec->comm_str) : gs_summary_text(b->s, "unknown");
	if (table_list(b, b->thread, &ret->functions) < 0 ||
	    table_add_table(b, b->process, b->thread) < 0)
		return -ENOMEM;
	return (int64_t)i;
}

static int compare_threads(const void *a, const void *b)
{
	const struct gs_thread_summary *x = a, *y = b;
	int r = compare_u64_down(list_time_ns(&x->functions), list_time_ns(&y->functions));

	return r ? r : x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int compare_processes(const void *a, const void *b)
{
	const struct gs_process_summary *x = a, *y = b;
	int r = compare_u64_down(list_time_ns(&x->functions), list_time_ns(&y->functions));

	return r ? r : x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* True when row i begins another process (or thread of one). */
static bool starts_group(const struct build *b, size_t i, bool thread)
{
	const struct row *r = &b->rows[i];

	return i == 0 || r->process != r[-1].process || (thread && r->thread != r[-1].thread);
}

static int64_t add_process(struct build *b, size_t i, struct gs_process_summary *ret)
{
	uint32_t id = b->rows[i].process;
	const struct gs_rec_process *rec = id ? gs_dict_process(b->v->dict, id) : NULL;
	size_t n = 0;

	*ret = (struct gs_process_summary){.comm = rec ? text_of(b, rec->comm_str)
						       : gs_summary_text(b->s, "unknown"),
					   .exe = text_of(b, rec ? rec->exe_str : 0),
					   .cmdline = text_of(b, rec ? rec->cmdline_str : 0),
					   .container = text_of(b, rec ? rec->container_str : 0)};
	if (rec) {
		ret->pid = rec->pid;
		ret->ns_pid = rec->ns_pid;
		ret->parent_pid = rec->parent_pid;
		ret->uid = rec->uid;
	}
	for (size_t j = i; j < b->n_rows && b->rows[j].process == id; j++)
		n += j == i || starts_group(b, j, true);
	if (summary_array(b, n, sizeof(*ret->threads), &ret->threads) < 0)
		return -ENOMEM;
	table_clear(b, b->process);
	while (ret->n_threads < n) {
		int64_t next = add_thread(b, i, &ret->threads[ret->n_threads++]);

		if (next < 0)
			return next;
		i = (size_t)next;
	}
	qsort(ret->threads, n, sizeof(*ret->threads), compare_threads);
	if (table_list(b, b->process, &ret->functions) < 0 ||
	    table_add_table(b, b->all, b->process) < 0)
		return -ENOMEM;
	return (int64_t)i;
}

static int add_calls(struct build *b)
{
	struct gs_summary *s = b->s;
	size_t n = 0, i = 0;

	if (collect_rows(b) < 0)
		return -ENOMEM;
	for (size_t j = 0; j < b->n_rows; j++)
		n += starts_group(b, j, false);
	if (summary_array(b, n, sizeof(*s->processes), &s->processes) < 0)
		return -ENOMEM;
	while (s->n_processes < n) {
		int64_t next = add_process(b, i, &s->processes[s->n_processes++]);

		if (next < 0)
			return (int)next;
		i = (size_t)next;
	}
	if (n)
		qsort(s->processes, n, sizeof(*s->processes), compare_processes);
	return table_list(b, b->all, &s->functions);
}

static int compare_uses(const void *a, const void *b)
{
	const struct gs_use_summary *x = a, *y = b;
	int r = compare_u64_down(x->total_ns, y->total_ns);

	return r ? r : strcmp(x->name, y->name);
}

static uint64_t use_calls(const struct view_use *u)
{
	return u->launches + u->copies + u->allocs + u->collectives + u->others;
}

static int add_uses(struct build *b)
{
	struct gs_summary *s = b->s;
	size_t n = 0;

	for (uint32_t f = 0; f < b->v->n_funcs; f++)
		n += use_calls(&b->v->funcs[f].use) != 0;
	if (summary_array(b, n, sizeof(*s->uses), &s->uses) < 0)
		return -ENOMEM;
	for (uint32_t f = 0; n && f < b->v->n_funcs; f++) {
		const struct view_use *u = &b->v->funcs[f].use;
		uint32_t id = known_function(b->v, f);

		if (use_calls(u))
			s->uses[s->n_uses++] =
				(struct gs_use_summary){.layer = function_layer(b, id),
							.name = function_name(b, id),
							.launches = u->launches,
							.copies = u->copies,
							.allocs = u->allocs,
							.collectives = u->collectives,
							.others = u->others,
							.total_ns = u->total_ns,
							.bytes = u->bytes};
	}
	if (n)
		qsort(s->uses, n, sizeof(*s->uses), compare_uses);
	return 0;
}

static int compare_python(const void *a, const void *b)
{
	const struct gs_python_function *x = a, *y = b;
	int r = compare_u64_down(x->total_ns, y->total_ns);

	if (!r)
		r = compare_u64_down(x->calls, y->calls);
	return r ? r : strcmp(x->name, y->name);
}

static int add_python_functions(struct build *b)
{
	struct gs_summary *s = b->s;
	size_t n = 0;

	for (uint32_t f = 0; f < b->v->n_funcs; f++)
		n += !acc_is_empty(&b->all->sum[f]) && is_python_function(b, f);
	if (summary_array(b, n, sizeof(*s->python_functions), &s->python_functions) < 0)
		return -ENOMEM;
	for (uint32_t f = 0; n && f < b->v->n_funcs; f++) {
		const struct gs_rec_function *rec = gs_dict_function(b->v->dict, f);
		const struct view_func *func = &b->v->funcs[f];
		const struct acc *a = &b->all->sum[f];

		if (acc_is_empty(a) || !is_python_function(b, f))
			continue;
		s->python_functions[s->n_python_functions++] = (struct gs_python_function){
			.name = function_name(b, f),
			.file = text_of(b, rec->file_str),
			.line = rec->line,
			.calls = a->calls,
			.resumes = func->py_resumes,
			.total_ns = a->total_ns,
			.self_ns = func->py_self_ns,
			.max_ns = a->max_ns,
			.p50_ns = gs_hist_quantile_ns(a->hist, 0.50, a->max_ns),
			.p95_ns = gs_hist_quantile_ns(a->hist, 0.95, a->max_ns),
			.p99_ns = gs_hist_quantile_ns(a->hist, 0.99, a->max_ns),
			.launches = func->py_launches,
		};
	}
	if (n)
		qsort(s->python_functions, n, sizeof(*s->python_functions), compare_python);
	return 0;
}

static int compare_errors(const void *a, const void *b)
{
	const struct gs_error_count *x = a, *y = b;
	int r = compare_u64_down(x->count, y->count);

	if (!r)
		r = (x->layer > y->layer) - (x->layer < y->layer);
	if (!r)
		r = strcmp(x->function, y->function);
	return r ? r : x->code < y->code ? -1 : x->code > y->code;
}

static void add_error(struct build *b, uint32_t function, int32_t code, uint64_t count)
{
	const char *function_text = function_name(b, function), *name = NULL;
	uint16_t layer = function_layer(b, function);
	struct gs_error_count *e;
	char number[16];

	if (!count)
		return;
	/* The unknown function stands for several ids: the same code may come again. */
	for (size_t i = 0; function == 0 && i < b->s->n_errors; i++) {
		e = &b->s->errors[i];
		if (e->function == function_text && e->code == code) {
			e->count += count;
			return;
		}
	}
	name = code ? gs_error_name(layer, code) : "other";
	if (!name) {
		snprintf(number, sizeof(number), "%d", code);
		name = number;
	}
	b->s->errors[b->s->n_errors++] =
		(struct gs_error_count){.layer = layer,
					.function = function_text,
					.code = code,
					.name = gs_summary_text(b->s, name),
					.count = count};
}

static int add_errors(struct build *b)
{
	size_t n = 0;

	for (uint32_t f = 0; f < b->v->n_funcs; f++)
		n += b->v->funcs[f].n_errs + (b->v->funcs[f].n_other_errs != 0);
	if (summary_array(b, n, sizeof(*b->s->errors), &b->s->errors) < 0)
		return -ENOMEM;
	for (uint32_t f = 0; n && f < b->v->n_funcs; f++) {
		const struct view_func *func = &b->v->funcs[f];
		uint32_t id = known_function(b->v, f);

		for (uint32_t i = 0; i < func->n_errs; i++)
			add_error(b, id, func->errs[i].code, func->errs[i].count);
		add_error(b, id, 0, func->n_other_errs);
	}
	if (b->s->n_errors)
		qsort(b->s->errors, b->s->n_errors, sizeof(*b->s->errors), compare_errors);
	return 0;
}

static int add_attached(struct build *b)
{
	const struct gs_rec_attach *a = b->v->attached.items;
	size_t n = b->v->attached.n, n_failed = 0;
	struct gs_summary *s = b->s;

	for (size_t i = 0; i < n; i++)
		n_failed += a[i].status != 0;
	if (summary_array(b, n - n_failed, sizeof(*s->attached), &s->attached) < 0 ||
	    summary_array(b, n_failed, sizeof(*s->attach_failures), &s->attach_failures) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct gs_attach_status *t = a[i].status
						     ? &s->attach_failures[s->n_attach_failures++]
						     : &s->attached[s->n_attached++];

		*t = (struct gs_attach_status){.path = text_of(b, a[i].path_str),
					       .function = text_of(b, a[i].func_str),
					       .reason = text_of(b, a[i].reason_str),
					       .status = a[i].status,
					       .n_probes = a[i].n_probes,
					       .n_moved = a[i].n_moved,
					       .n_stepped = a[i].n_stepped};
	}
	return 0;
}

static int add_lost(struct build *b)
{
	const struct view_lost *l = b->v->lost.items;
	struct gs_summary *s = b->s;

	if (summary_array(b, b->v->lost.n + 1, sizeof(*s->lost), &s->lost) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < b->v->lost.n; i++)
		s->lost[s->n_lost++] = (struct gs_lost_count){.layer = l[i].layer,
							      .cause = l[i].cause,
							      .detail = text_of(b, l[i].detail_str),
							      .count = l[i].count};
	if (b->v->n_left_out)
		s->lost[s->n_lost++] =
			(struct gs_lost_count){.cause = GS_LOSS_SINK,
					       .detail = gs_summary_text(s, "summary"),
					       .count = b->v->n_left_out};
	return 0;
}

static int compare_open(const void *a, const void *b)
{
	const struct gs_open_call *x = a, *y = b;
	int r = compare_u64_down(x->age_ns, y->age_ns);

	if (!r)
		r = (x->tid > y->tid) - (x->tid < y->tid);
	return r ? r : (int)x->depth - (int)y->depth;
}

static int add_open_calls(struct build *b)
{
	const struct view_open *o = b->v->open.items;
	size_t n = b->v->open.n;
	struct gs_summary *s = b->s;

	if (summary_array(b, n, sizeof(*s->open_calls), &s->open_calls) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct gs_rec_thread *t = gs_dict_thread(b->v->dict, o[i].thread);
		const struct gs_rec_process *p = t ? gs_dict_process(b->v->dict, t->process) : NULL;
		uint32_t f = known_function(b->v, o[i].function);

		s->open_calls[s->n_open_calls++] = (struct gs_open_call){
			.pid = p ? p->pid : 0,
			.tid = t ? t->tid : 0,
			.layer = function_layer(b, f),
			.comm = t ? text_of(b, t->comm_str) : gs_summary_text(s, "unknown"),
			.function = function_name(b, f),
			.age_ns = o[i].age_ns,
			.depth = o[i].depth,
		};
	}
	if (n)
		qsort(s->open_calls, n, sizeof(*s->open_calls), compare_open);
	return 0;
}

static int add_hangs(struct build *b)
{
	const struct gs_rec_session *rec = gs_dict_session(b->v->dict);

	return gs_hangs_summarize(&b->v->hangs, b->v->dict, rec ? rec->start_ns : 0, b->s);
}

static int add_comms(struct build *b)
{
	const struct view_comm *c = b->v->comms.items;
	struct gs_summary *s = b->s;

	if (summary_array(b, b->v->comms.n, sizeof(*s->comms), &s->comms) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < b->v->comms.n; i++) {
		const struct gs_rec_process *p = gs_dict_process(b->v->dict, c[i].process);

		if (gs_aggregate_is_mpi_comm(b->v, &c[i]))
			continue;
		s->comms[s->n_comms++] =
			(struct gs_comm_summary){.pid = p ? p->pid : 0,
						 .rank = c[i].rank,
						 .n_ranks = c[i].n_ranks,
						 .comm = c[i].comm,
						 .id_hash = c[i].id_hash,
						 .parent = c[i].parent,
						 .color = c[i].color,
						 .key = c[i].key,
						 .origin = text_of(b, c[i].origin_str),
						 .calls = c[i].calls,
						 .bytes = c[i].bytes};
	}
	return 0;
}

static void add_session(struct build *b)
{
	const struct gs_rec_session *rec = gs_dict_session(b->v->dict);
	uint64_t end_ns = b->v->ended ? b->v->end.end_ns : b->v->last_ns;
	struct gs_summary *s = b->s;

	s->command = text_of(b, rec ? rec->command_str : 0);
	s->host = text_of(b, rec ? rec->host_str : 0);
	s->kernel = text_of(b, rec ? rec->kernel_str : 0);
	s->native = b->v->native;
	s->attach_mode = text_of(b, rec ? rec->attach_mode_str : 0);
	s->end_reason = text_of(b, b->v->ended ? b->v->end.reason_str : 0);
	s->exit_status = b->v->ended ? b->v->end.exit_status : -1;
	s->complete = b->v->ended;
	s->call_cost_ns = b->v->call_cost_ns;
	s->step_ns = b->v->step_ns;
	s->cost_known = b->v->has_cost;
	s->cost_ppm = b->v->cost_ppm;
	/* Intervals too short to say something are in the mean alone. */
	s->cost_worst_ppm = b->v->cost_worst_ppm > s->cost_ppm ? b->v->cost_worst_ppm : s->cost_ppm;
	if (!rec)
		return;
	s->mode = rec->mode;
	s->start_wall_ns = (int64_t)(rec->start_ns + (uint64_t)rec->wall_minus_boot_ns);
	s->start_boot_ns = rec->start_ns;
	s->duration_ns = end_ns > rec->start_ns ? end_ns - rec->start_ns : 0;
}

int gs_aggregate_make_summary(struct gs_aggregate *v, struct gs_summary **ret_summary)
{
	GS_CLEANUP(build_free) struct build *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->v = v;
	b->s = calloc(1, sizeof(*b->s));
	b->all = calloc(1, sizeof(*b->all));
	b->process = calloc(1, sizeof(*b->process));
	b->thread = calloc(1, sizeof(*b->thread));
	if (!b->s || !b->all || !b->process || !b->thread)
		return -ENOMEM;
	add_session(b);
	if (add_calls(b) < 0 || add_uses(b) < 0 || add_python_functions(b) < 0 ||
	    add_errors(b) < 0 || add_attached(b) < 0 || add_lost(b) < 0 || add_open_calls(b) < 0 ||
	    add_comms(b) < 0 || gs_aggregate_lines(v, b->s) < 0 ||
	    gs_aggregate_add_probed(v, b->s) < 0 || gs_aggregate_add_mpi(v, b->s) < 0 ||
	    gs_aggregate_add_streams(v, b->s) < 0 ||
	    gs_holders_summarize(v->holders, v->dict, b->s) < 0 ||
	    gs_gpu_times_summary(v->gpu_times, v->dict, b->s) < 0 ||
	    gs_nccl_ops_summary(v->nccl_ops, v->dict, b->s) < 0 || add_hangs(b) < 0 ||
	    gs_aggregate_add_kernels(v, b->s) < 0 || gs_aggregate_add_account(v, b->s) < 0 ||
	    gs_aggregate_add_arrivals(v, b->s) < 0)
		return -ENOMEM;
	gs_aggregate_add_steps(v, b->s);
	*ret_summary = gs_take(b->s);
	return 0;
}
