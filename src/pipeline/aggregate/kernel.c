/*
 * Launches by kernel. Only launches that come one by one name a function, so there is nothing of those that
 * were added up in the kernel. Functions of several processes that are the same kernel become one row; one whose
 * name is not known stays a row of its process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

/* A handle may be another kernel's later: then it is another row. known NULL: no kernel that is known. */
static struct view_kernel *kernel_of(struct gs_aggregate *v, uint32_t process, uint64_t function,
				     const struct gs_rec_kernel *known)
{
	const uint64_t name[] = {process, function, known ? known->name_str : 0};
	uint64_t key = gs_hash_bytes(name, sizeof(name)), idx;
	struct view_kernel *k;

	if (gs_map_get(&v->kernel_idx, key, &idx)) {
		k = (struct view_kernel *)v->kernels.items + idx;
		return k->process == process && k->function == function ? k : NULL;
	}
	k = gs_aggregate_grow(&v->kernels, sizeof(*k), GS_AGGREGATE_MAX_KERNELS);
	if (!k || gs_map_put(&v->kernel_idx, key, v->kernels.n - 1) < 0) {
		v->kernels.n -= k != NULL;
		return NULL;
	}
	k->process = process;
	k->function = function;
	if (known) {
		k->how = known->how;
		k->name_str = known->name_str;
		k->short_str = known->short_str;
		k->symbol_str = known->symbol_str;
		k->file_str = known->file_str;
	}
	return k;
}

static uint64_t product_of(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t n;

	/* No grid is as large: what a failed launch asked for may be anything. */
	return __builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, c, &n) ? 0 : n;
}

void gs_aggregate_take_launch(struct gs_aggregate *v, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, c->function);
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, c->thread);
	struct view_kernel *k;

	if (!f || !t || f->func_class != GS_CLASS_LAUNCH || f->layer > GS_LAYER_CUDA_DRIVER)
		return;
	k = kernel_of(v, t->process, c->arg[0], gs_dict_kernel(v->dict, t->process, c->arg[0]));
	if (!k) {
		v->n_left_out++;
		return;
	}
	k->launches++;
	k->failed += c->failed;
	k->host_ns += c->dur_ns;
	k->blocks += product_of((uint32_t)c->arg[1], c->arg[1] >> 32, (uint32_t)c->arg[2]);
	k->threads += product_of(c->arg[2] >> 32, (uint32_t)c->arg[3], c->arg[3] >> 32);
	k->shared_bytes += c->aux;
}

/* --- the summary --- */

struct rows {
	struct gs_kernel_summary *rows;
	size_t n;
	struct gs_map by_name; /* id of the text -> index */
};

static struct gs_kernel_summary *row_of(struct rows *rows, uint32_t name_str)
{
	uint64_t idx;

	if (name_str) {
		if (gs_map_get(&rows->by_name, name_str, &idx))
			return &rows->rows[idx];
		if (gs_map_put(&rows->by_name, name_str, rows->n) < 0)
			return NULL;
	}
	return &rows->rows[rows->n++];
}

/* The name may have come after the launches. */
static void learn_name(struct view_kernel *k, const struct gs_rec_kernel *last)
{
	if (k->name_str || !last)
		return;
	k->how = last->how;
	k->name_str = last->name_str;
	k->short_str = last->short_str;
	k->symbol_str = last->symbol_str;
	k->file_str = last->file_str;
}

static void describe_row(struct gs_aggregate *v, struct gs_summary *s,
			 const struct view_kernel *from, struct gs_kernel_summary *row)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, from->process);

	row->pid = p ? p->pid : 0;
	row->function = from->function;
	row->how = from->how;
	row->name = gs_summary_text(s, gs_dict_string(v->dict, from->name_str));
	row->short_name = gs_summary_text(s, gs_dict_string(v->dict, from->short_str));
	row->symbol = gs_summary_text(s, gs_dict_string(v->dict, from->symbol_str));
	row->file = gs_summary_text(s, gs_dict_string(v->dict, from->file_str));
}

/* What it needs is known at the end, and of the kernel that the function is then. */
static void add_needs(struct gs_kernel_summary *row, const struct view_kernel *k,
		      const struct gs_rec_kernel *last)
{
	if (row->sm || !last || !last->sm || last->name_str != k->name_str)
		return;
	row->sm = last->sm;
	row->registers = last->registers;
	row->static_shared_bytes = last->shared_bytes;
	row->constant_bytes = last->constant_bytes;
	row->local_bytes = last->local_bytes;
	row->code_bytes = last->code_bytes;
	row->max_threads = last->max_threads;
}

static int add_row(struct gs_aggregate *v, struct gs_summary *s, struct rows *rows,
		   struct view_kernel *from)
{
	const struct gs_rec_kernel *last = gs_dict_kernel(v->dict, from->process, from->function);
	struct gs_kernel_summary *row;

	learn_name(from, last);
	row = row_of(rows, from->name_str);
	if (!row)
		return -ENOMEM;
	if (!row->launches && !row->graph_runs)
		describe_row(v, s, from, row);
	add_needs(row, from, last);
	row->launches += from->launches;
	row->graph_runs += from->graph_runs;
	row->failed += from->failed;
	row->host_ns += from->host_ns;
	row->blocks += from->blocks;
	row->threads += from->threads;
	row->dynamic_shared_bytes += from->shared_bytes;
	s->kernel_launches += from->launches;
	if (!row->how)
		s->unknown_launches += from->launches;
	return 0;
}

static int compare_kernels(const void *a, const void *b)
{
	const struct gs_kernel_summary *x = a, *y = b;
	int r;

	if (x->launches + x->graph_runs != y->launches + y->graph_runs)
		return x->launches + x->graph_runs > y->launches + y->graph_runs ? -1 : 1;
	r = strcmp(x->name, y->name);
	if (r)
		return r;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* What graphs ran counts for their kernels, which need not have been launched by themselves. */
static void add_graph_runs(struct gs_aggregate *v)
{
	uint32_t n = gs_activity_count_graphs(v->activity);
	struct view_kernel *k = v->kernels.items;
	struct gs_activity_graph g;
	uint64_t function, count;

	for (size_t i = 0; i < v->kernels.n; i++)
		k[i].graph_runs = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!gs_activity_read_graph(v->activity, i, &g))
			continue;
		while (gs_activity_next_graph_kernel(v->activity, &g.first_kernel, &function,
						     &count)) {
			k = kernel_of(v, g.process, function,
				      gs_dict_kernel(v->dict, g.process, function));
			if (k)
				k->graph_runs += g.is_sum ? count : count * g.launches;
		}
	}
}

int gs_aggregate_add_kernels(struct gs_aggregate *v, struct gs_summary *s)
{
	struct rows rows = {.by_name = GS_MAP_INIT(2 * GS_AGGREGATE_MAX_KERNELS)};
	struct view_kernel *from;
	int r = 0;

	add_graph_runs(v);
	from = v->kernels.items;
	if (!v->kernels.n)
		return 0;
	rows.rows = gs_summary_alloc(s, v->kernels.n * sizeof(*rows.rows));
	if (!rows.rows)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < v->kernels.n; i++)
		r = add_row(v, s, &rows, &from[i]);
	gs_map_fini(&rows.by_name);
	s->kernels = rows.rows;
	s->n_kernels = rows.n;
	qsort(s->kernels, s->n_kernels, sizeof(*s->kernels), compare_kernels);
	return r;
}
