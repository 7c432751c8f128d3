/* What of a summary a page has room for: of each list the first rows, which are the most expensive ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/event.h"
#include "output/run_page/run_page_int.h"

#define ROWS      200 /* of most lists */
#define BY_LAYER  50  /* functions of each layer */
#define PROCESSES 100
#define THREADS   64
#define HANGS     20

static void cut_list(struct run_page_excerpt *e, const char *key, size_t *n, size_t most)
{
	if (*n <= most)
		return;
	if (e->n_cuts < RUN_PAGE_CUTS)
		e->cuts[e->n_cuts++] = (struct run_page_cut){key, *n - most};
	*n = most;
}

/* They are by layer, and within it by time. */
static int choose_functions(const struct gs_summary *from, struct run_page_excerpt *e)
{
	size_t n = 0, in_layer = 0;

	e->functions = calloc(from->functions.n + 1, sizeof(*e->functions));
	if (!e->functions)
		return -ENOMEM;
	for (size_t i = 0; i < from->functions.n; i++) {
		const struct gs_function_stats *f = &from->functions.items[i];

		in_layer = i && f->layer == f[-1].layer ? in_layer + 1 : 1;
		if (in_layer <= BY_LAYER)
			e->functions[n++] = *f;
	}
	e->summary.functions.items = e->functions;
	e->summary.functions.n = from->functions.n;
	cut_list(e, "functions", &e->summary.functions.n, n);
	return 0;
}

/* Without what each of them called. */
static int choose_processes(const struct gs_summary *from, struct run_page_excerpt *e)
{
	cut_list(e, "processes", &e->summary.n_processes, PROCESSES);
	e->processes = calloc(e->summary.n_processes + 1, sizeof(*e->processes));
	if (!e->processes)
		return -ENOMEM;
	for (size_t i = 0; i < e->summary.n_processes; i++) {
		e->processes[i] = from->processes[i];
		e->processes[i].functions.n = 0;
		e->processes[i].n_threads = 0;
	}
	e->summary.processes = e->processes;
	return 0;
}

/* The one that sets the pace first. */
static int choose_threads(const struct gs_summary *from, struct run_page_excerpt *e)
{
	size_t n = 0;

	e->threads = calloc(from->account.n_threads + 1, sizeof(*e->threads));
	if (!e->threads)
		return -ENOMEM;
	for (int critical = 1; critical >= 0; critical--)
		for (size_t i = 0; i < from->account.n_threads; i++)
			if (from->account.threads[i].critical == critical)
				e->threads[n++] = from->account.threads[i];
	e->summary.account.threads = e->threads;
	e->summary.account.n_threads = n;
	cut_list(e, "account", &e->summary.account.n_threads, THREADS);
	return 0;
}

static void cut_gpus(struct run_page_excerpt *e)
{
	struct gs_summary *s = &e->summary;

	if (s->activity) {
		e->activity = *s->activity;
		s->activity = &e->activity;
		cut_list(e, "streams", &e->activity.n_streams, ROWS);
		cut_list(e, "stream_devices", &e->activity.n_contexts, ROWS);
		cut_list(e, "graphs", &e->activity.n_graphs, HANGS);
	}
	if (s->memory) {
		e->memory = *s->memory;
		s->memory = &e->memory;
		cut_list(e, "memory", &e->memory.n_rows, ROWS);
		cut_list(e, "memory_sites", &e->memory.n_places, ROWS);
		cut_list(e, "memory_measured", &e->memory.n_measured, ROWS);
	}
	if (s->gpu_time) {
		e->gpu_time = *s->gpu_time;
		s->gpu_time = &e->gpu_time;
		cut_list(e, "gpu_time", &e->gpu_time.n_kernels, ROWS);
		cut_list(e, "gpu_time_devices", &e->gpu_time.n_devices, ROWS);
	}
	if (s->nccl) {
		e->nccl = *s->nccl;
		s->nccl = &e->nccl;
		cut_list(e, "nccl", &e->nccl.n_choices, ROWS);
		cut_list(e, "nccl_communicators", &e->nccl.n_comms, ROWS);
	}
	if (s->collectives) {
		e->collectives = *s->collectives;
		s->collectives = &e->collectives;
		cut_list(e, "collectives", &e->collectives.n_comms, HANGS);
	}
}

int run_page_make_excerpt(const struct gs_summary *from, struct run_page_excerpt *ret)
{
	struct gs_summary *s = &ret->summary;
	int r;

	memset(ret, 0, sizeof(*ret));
	*s = *from;
	cut_list(ret, "by_operator", &s->n_uses, ROWS);
	cut_list(ret, "errors", &s->n_errors, ROWS);
	cut_list(ret, "attached", &s->n_attached, ROWS);
	cut_list(ret, "attach_failures", &s->n_attach_failures, ROWS);
	cut_list(ret, "lost_details", &s->n_lost, ROWS);
	cut_list(ret, "open_calls", &s->n_open_calls, ROWS);
	cut_list(ret, "hangs", &s->n_hangs, HANGS);
	cut_list(ret, "communicators", &s->n_comms, ROWS);
	cut_list(ret, "python_lines", &s->n_python_lines, ROWS);
	cut_list(ret, "python_functions", &s->n_python_functions, ROWS);
	cut_list(ret, "aggregates", &s->n_aggregates, ROWS);
	cut_list(ret, "allocators", &s->n_allocators, ROWS);
	cut_list(ret, "leaks", &s->n_leaks, ROWS);
	cut_list(ret, "mpi_ranks", &s->n_mpi_ranks, ROWS);
	cut_list(ret, "mpi_peers", &s->n_mpi_peers, ROWS);
	cut_list(ret, "gpus", &s->n_gpus, ROWS);
	cut_list(ret, "kernels", &s->n_kernels, ROWS);
	cut_gpus(ret);
	r = choose_functions(from, ret);
	if (r == 0)
		r = choose_processes(from, ret);
	return r == 0 ? choose_threads(from, ret) : r;
}

void run_page_fini_excerpt(struct run_page_excerpt *excerpt)
{
	free(excerpt->functions);
	free(excerpt->processes);
	free(excerpt->threads);
}
