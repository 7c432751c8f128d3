/* Graphs with their kernels, for a summary. */
#include <errno.h>
#include <stdlib.h>

#include "model/summary/summary.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

static int compare_kernels(const void *a, const void *b)
{
	const struct gs_graph_kernel *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int compare_graphs(const void *a, const void *b)
{
	const struct gs_activity_graph *x = a, *y = b;

	if (x->launches != y->launches)
		return x->launches > y->launches ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->graph < y->graph ? -1 : x->graph > y->graph;
}

static int fill_kernels(const struct gs_activity *a, const struct gs_dict *dict,
			struct gs_summary *summary, struct gs_activity_graph *g)
{
	struct gs_graph_kernel *to = gs_summary_alloc(summary, (g->n_different + 1) * sizeof(*to));
	uint32_t at = g->first_kernel;

	g->kernels = to;
	if (!to)
		return -ENOMEM;
	for (; gs_activity_next_graph_kernel(a, &at, &to->function, &to->count); to++) {
		const struct gs_rec_kernel *k = gs_dict_kernel(dict, g->process, to->function);

		to->name = gs_summary_text(summary, gs_dict_string(dict, k ? k->short_str : 0));
	}
	qsort(g->kernels, g->n_different, sizeof(*to), compare_kernels);
	return 0;
}

int gs_activity_fill_graphs(const struct gs_activity *a, const struct gs_dict *dict,
			    struct gs_summary *summary, struct gs_activity_summary *ret)
{
	uint32_t n = gs_activity_count_graphs(a);

	ret->graphs = gs_summary_alloc(summary, n * sizeof(*ret->graphs));
	if (!ret->graphs)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct gs_activity_graph *g = &ret->graphs[ret->n_graphs];
		const struct gs_rec_process *p;

		if (!gs_activity_read_graph(a, i, g))
			continue;
		if (fill_kernels(a, dict, summary, g) < 0)
			return -ENOMEM;
		p = gs_dict_process(dict, g->process);
		g->process = p ? p->pid : 0;
		ret->n_graphs++;
	}
	qsort(ret->graphs, ret->n_graphs, sizeof(*ret->graphs), compare_graphs);
	return 0;
}
