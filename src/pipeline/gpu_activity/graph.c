/*
 * Which kernels graphs hold. A graph gets them by nodes (cudaGraphAddKernelNode), by what was launched into
 * a captured stream, from another graph (a child, a copy); an executable graph has those that its graph
 * had when it was made or updated. How often each was launched is counted, so that of a kernel can be said
 * how often graphs ran it.
 *
 * As with contexts, the end of a process's first call of each is not seen: the handle that it gave is the
 * next one that nothing else is known of. Nodes whose kernels are changed later, and generic ones
 * (cudaGraphAddNode), are not followed.
 */
#include <string.h>

#include "core/base/vec.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

#define MAX_PROBES 4

static uint64_t place_in_map(uint32_t process, uint64_t handle, bool is_exec)
{
	uint64_t h = (handle ^ ((uint64_t)process << 1 | is_exec) * 0x9e3779b97f4a7c15ull) *
		     0xbf58476d1ce4e5b9ull;

	return h ^ h >> 29;
}

/* 0: there is none. *ret_place: its place in the map, or a free one. */
static uint32_t look_up_graph(const struct gs_activity *a, uint32_t process, uint64_t handle,
			      bool is_exec, uint64_t *ret_place)
{
	uint64_t place = place_in_map(process, handle, is_exec), i, free_place = place;
	bool has_free = false;

	for (unsigned n = 0; n < MAX_PROBES; n++, place++) {
		*ret_place = place;
		if (!gs_map_get(&a->graph_idx, place, &i)) {
			if (!has_free)
				free_place = place;
			has_free = true;
		} else if (a->graphs[i].process == process && a->graphs[i].handle == handle &&
			   a->graphs[i].is_exec == is_exec) {
			return (uint32_t)i;
		}
	}
	*ret_place = free_place;
	return 0;
}

/* --- kernels of one graph --- */

static void count_limit(struct gs_activity *a)
{
	a->n_limit[GS_ACTIVITY_LIMIT_GRAPHS]++;
}

static uint32_t take_item(struct gs_activity *a)
{
	uint32_t i = a->free_item;

	if (i) {
		a->free_item = a->items[i].next;
		return i;
	}
	i = a->n_items;
	if (i > a->config.max_graph_kernels || !gs_vec_reserve(&a->items, &a->cap_items, i + 1))
		return 0;
	a->n_items++;
	return i;
}

void activity_graph_add(struct gs_activity *a, uint32_t graph, uint64_t function, uint64_t count)
{
	struct activity_graph *g;
	uint32_t i;

	if (!graph)
		return;
	g = &a->graphs[graph];
	i = g->items;
	g->n_kernels += count;
	while (i && a->items[i].function != function)
		i = a->items[i].next;
	if (!i) {
		i = take_item(a);
		if (!i) {
			count_limit(a);
			return;
		}
		a->items[i] = (struct activity_item){.function = function, .next = g->items};
		g->items = i;
		g->n_items++;
	}
	a->items[i].count += count;
}

static void add_all(struct gs_activity *a, uint32_t to, uint32_t from, uint64_t times)
{
	if (!from || !to || to == from)
		return;
	for (uint32_t i = a->graphs[from].items; i; i = a->items[i].next)
		activity_graph_add(a, to, a->items[i].function, a->items[i].count * times);
}

static void drop_items(struct gs_activity *a, struct activity_graph *g)
{
	while (g->items) {
		uint32_t i = g->items;

		g->items = a->items[i].next;
		a->items[i].next = a->free_item;
		a->free_item = i;
	}
	g->n_kernels = g->n_items = 0;
}

/* --- graphs --- */

static void free_graph(struct gs_activity *a, uint32_t graph)
{
	drop_items(a, &a->graphs[graph]);
	a->graphs[graph] = (struct activity_graph){.next = a->free_graph};
	a->free_graph = graph;
}

/* A place for one more. What the oldest ended one ran goes into the sum of its process. */
static uint32_t take_graph(struct gs_activity *a)
{
	uint32_t i = a->free_graph, sum;

	if (i) {
		a->free_graph = a->graphs[i].next;
		return i;
	}
	i = a->n_graphs;
	if (i <= a->config.max_graphs) {
		if (!gs_vec_reserve(&a->graphs, &a->cap_graphs, i + 1))
			return 0;
		a->n_graphs++;
		return i;
	}
	i = a->ended_first;
	if (!i)
		return 0;
	a->ended_first = a->graphs[i].next;
	if (!a->ended_first)
		a->ended_last = 0;
	sum = a->processes[a->graphs[i].process].graph_sum;
	if (!sum) { /* this one becomes it, and another makes room */
		uint64_t launches = a->graphs[i].launches;

		for (uint32_t k = a->graphs[i].items; k; k = a->items[k].next)
			a->items[k].count *= launches;
		a->graphs[i].n_kernels *= launches;
		a->graphs[i].n_merged = launches;
		a->graphs[i].launches = 1;
		a->graphs[i].handle = 0;
		a->processes[a->graphs[i].process].graph_sum = i;
		return take_graph(a);
	}
	add_all(a, sum, i, a->graphs[i].launches);
	a->graphs[sum].n_merged += a->graphs[i].launches;
	drop_items(a, &a->graphs[i]);
	return i;
}

/* handle 0: it was not seen. 0: no room. */
static uint32_t make_graph(struct gs_activity *a, uint32_t process, uint64_t handle, bool is_exec)
{
	uint32_t i = take_graph(a);
	uint64_t place;

	if (i)
		look_up_graph(a, process, handle, is_exec, &place);
	if (!i || (handle && gs_map_put(&a->graph_idx, place, i) < 0)) {
		count_limit(a);
		if (i) {
			a->graphs[i] = (struct activity_graph){0};
			free_graph(a, i);
		}
		return 0;
	}
	a->graphs[i] = (struct activity_graph){
		.process = process, .handle = handle, .is_exec = is_exec, .used = true};
	return i;
}

/* The one whose handle was not seen; 0: none, or there are several. */
static uint32_t find_unseen(const struct gs_activity *a, uint32_t process, bool is_exec)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i < a->n_graphs; i++) {
		const struct activity_graph *g = &a->graphs[i];

		if (!g->used || g->ended || g->handle || g->process != process ||
		    g->is_exec != is_exec || i == a->processes[process].graph_sum)
			continue;
		if (found)
			return 0;
		found = i;
	}
	return found;
}

static uint32_t find_graph(struct gs_activity *a, uint32_t process, uint64_t handle, bool is_exec,
			   bool make)
{
	uint64_t place;
	uint32_t i = handle ? look_up_graph(a, process, handle, is_exec, &place) : 0;

	if (i || !handle)
		return i;
	i = find_unseen(a, process, is_exec);
	if (!i)
		return make ? make_graph(a, process, handle, is_exec) : 0;
	if (gs_map_put(&a->graph_idx, place, i) == 0)
		a->graphs[i].handle = handle;
	return i;
}

/* Its handle may be another's next. What it ran is kept while there is room. */
static void end_graph(struct gs_activity *a, uint32_t i)
{
	struct activity_graph *g;
	uint64_t place;

	if (!i || a->graphs[i].ended)
		return;
	g = &a->graphs[i];
	if (g->handle && look_up_graph(a, g->process, g->handle, g->is_exec, &place) == i)
		gs_map_del(&a->graph_idx, place);
	if (!g->launches) {
		free_graph(a, i);
		return;
	}
	g->ended = true;
	g->next = 0;
	if (a->ended_last)
		a->graphs[a->ended_last].next = i;
	else
		a->ended_first = i;
	a->ended_last = i;
}

/* A new one of this handle, with the kernels of another. */
static void copy_graph(struct gs_activity *a, uint32_t process, uint64_t handle, bool is_exec,
		       uint64_t of)
{
	uint32_t from = find_graph(a, process, of, false, false), i;
	uint64_t place;

	if (handle)
		end_graph(a, look_up_graph(a, process, handle, is_exec, &place));
	i = make_graph(a, process, handle, is_exec);
	if (i)
		add_all(a, i, from, 1);
}

void activity_graph_forget(struct gs_activity *a, uint32_t process)
{
	for (uint32_t i = 1; i < a->n_graphs; i++)
		if (a->graphs[i].used && a->graphs[i].process == process &&
		    i != a->processes[process].graph_sum)
			end_graph(a, i);
}

/* --- captures --- */

uint32_t activity_graph_begin(struct gs_activity *a, uint32_t process)
{
	uint32_t i = make_graph(a, process, 0, false);

	if (i)
		a->graphs[i].is_capture = true;
	return i;
}

void activity_graph_finish(struct gs_activity *a, uint32_t graph, uint64_t handle)
{
	struct activity_graph *g;
	uint64_t place;

	if (!graph || !a->graphs[graph].is_capture)
		return;
	g = &a->graphs[graph];
	g->is_capture = false;
	if (!handle)
		return;
	end_graph(a, look_up_graph(a, g->process, handle, false, &place));
	look_up_graph(a, g->process, handle, false, &place);
	if (gs_map_put(&a->graph_idx, place, graph) == 0)
		g->handle = handle;
}

void activity_graph_drop(struct gs_activity *a, uint32_t graph)
{
	if (graph && a->graphs[graph].is_capture)
		free_graph(a, graph);
}

/* --- calls --- */

void activity_graph_launch(struct gs_activity *a, uint32_t process, uint64_t exec, uint32_t into)
{
	uint32_t i = find_graph(a, process, exec, true, true);

	if (into)
		add_all(a, into, i, 1);
	else if (i)
		a->graphs[i].launches++;
}

void activity_graph_take(struct gs_activity *a, uint32_t process,
			 const struct gs_activity_call *call)
{
	uint64_t subject = call->event[0], of = call->event[1], place;

	switch (call->function.kind) {
	case GS_ACTIVITY_GRAPH_KERNEL:
		activity_graph_add(a, find_graph(a, process, of, false, true), subject, 1);
		break;
	case GS_ACTIVITY_GRAPH_CHILD:
		add_all(a, find_graph(a, process, of, false, true),
			find_graph(a, process, subject, false, false), 1);
		break;
	case GS_ACTIVITY_GRAPH_COPY:
		copy_graph(a, process, subject, false, of);
		break;
	case GS_ACTIVITY_GRAPH_MAKE:
		copy_graph(a, process, subject, true, of);
		break;
	case GS_ACTIVITY_GRAPH_END:
		end_graph(a, look_up_graph(a, process, subject, false, &place));
		break;
	case GS_ACTIVITY_GRAPH_EXEC_END:
		end_graph(a, look_up_graph(a, process, subject, true, &place));
		break;
	default:
		break;
	}
}

/* --- what was found --- */

uint32_t gs_activity_count_graphs(const struct gs_activity *a)
{
	return a->n_graphs;
}

bool gs_activity_read_graph(const struct gs_activity *a, uint32_t index,
			    struct gs_activity_graph *ret_graph)
{
	const struct activity_graph *g;
	bool is_sum;

	if (!index || index >= a->n_graphs)
		return false;
	g = &a->graphs[index];
	if (!g->used || !g->launches)
		return false;
	is_sum = a->processes[g->process].graph_sum == index;
	*ret_graph = (struct gs_activity_graph){.process = a->processes[g->process].caller,
						.graph = g->handle,
						.launches = is_sum ? g->n_merged : g->launches,
						.n_kernels = g->n_kernels,
						.destroyed = g->ended,
						.is_sum = is_sum,
						.first_kernel = g->items,
						.n_different = g->n_items};
	return true;
}

bool gs_activity_next_graph_kernel(const struct gs_activity *a, uint32_t *kernel,
				   uint64_t *ret_function, uint64_t *ret_count)
{
	const struct activity_item *item;

	if (!*kernel)
		return false;
	item = &a->items[*kernel];
	*kernel = item->next;
	*ret_function = item->function;
	*ret_count = item->count;
	return true;
}
