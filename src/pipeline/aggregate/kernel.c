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

static struct view_kernel *kernel_of(struct gs_aggregate *v, uint32_t process, uint64_t function)
{
	const uint64_t name[] = {process, function};
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
	k = kernel_of(v, t->process, c->arg[0]);
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

static struct gs_kernel_summary *row_of(struct rows *rows, const struct gs_rec_kernel *known)
{
	uint64_t idx;

	if (known && known->name_str) {
		if (gs_map_get(&rows->by_name, known->name_str, &idx))
			return &rows->rows[idx];
		if (gs_map_put(&rows->by_name, known->name_str, rows->n) < 0)
			return NULL;
	}
	return &rows->rows[rows->n++];
}

static void describe_row(struct gs_aggregate *v, struct gs_summary *s,
			 const struct view_kernel *from, const struct gs_rec_kernel *known,
			 struct gs_kernel_summary *row)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, from->process);

	row->pid = p ? p->pid : 0;
	row->function = from->function;
	row->name = row->short_name = row->symbol = row->file = "";
	if (!known)
		return;
	row->how = known->how;
	row->name = gs_summary_text(s, gs_dict_string(v->dict, known->name_str));
	row->short_name = gs_summary_text(s, gs_dict_string(v->dict, known->short_str));
	row->symbol = gs_summary_text(s, gs_dict_string(v->dict, known->symbol_str));
	row->file = gs_summary_text(s, gs_dict_string(v->dict, known->file_str));
	row->sm = known->sm;
	row->registers = known->registers;
	row->static_shared_bytes = known->shared_bytes;
	row->constant_bytes = known->constant_bytes;
	row->local_bytes = known->local_bytes;
	row->code_bytes = known->code_bytes;
	row->max_threads = known->max_threads;
}

static int compare_kernels(const void *a, const void *b)
{
	const struct gs_kernel_summary *x = a, *y = b;
	int r;

	if (x->launches != y->launches)
		return x->launches > y->launches ? -1 : 1;
	r = strcmp(x->name, y->name);
	if (r)
		return r;
	return x->function < y->function ? -1 : x->function > y->function;
}

int gs_aggregate_add_kernels(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct view_kernel *from = v->kernels.items;
	struct rows rows = {.by_name = GS_MAP_INIT(2 * GS_AGGREGATE_MAX_KERNELS)};
	int r = 0;

	if (!v->kernels.n)
		return 0;
	rows.rows = gs_summary_alloc(s, v->kernels.n * sizeof(*rows.rows));
	if (!rows.rows)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < v->kernels.n; i++) {
		const struct gs_rec_kernel *known =
			gs_dict_kernel(v->dict, from[i].process, from[i].function);
		struct gs_kernel_summary *row = row_of(&rows, known);

		if (!row) {
			r = -ENOMEM;
			break;
		}
		if (!row->launches)
			describe_row(v, s, &from[i], known, row);
		row->launches += from[i].launches;
		row->failed += from[i].failed;
		row->host_ns += from[i].host_ns;
		row->blocks += from[i].blocks;
		row->threads += from[i].threads;
		row->dynamic_shared_bytes += from[i].shared_bytes;
		s->kernel_launches += from[i].launches;
		if (!row->how)
			s->unknown_launches += from[i].launches;
	}
	gs_map_fini(&rows.by_name);
	s->kernels = rows.rows;
	s->n_kernels = rows.n;
	qsort(s->kernels, s->n_kernels, sizeof(*s->kernels), compare_kernels);
	return r;
}
