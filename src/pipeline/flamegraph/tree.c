/*
 * The tree that is shown. Nodes lie in one array in the order in which they were made, so that a
 * parent stands before its children and totals are one walk from the end; a hash of (parent, kind,
 * ref) finds a child. What finds no room counts at the node that it was to stand below.
 */
#include "pipeline/flamegraph/flame_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/func.h"

#define FIRST_NODES 256
#define MAX_DEPTH   2048 /* of the tree; deeper ones count at their ancestor */

static uint32_t hash_node(uint32_t parent, unsigned kind, uint32_t ref)
{
	uint64_t h = ((uint64_t)parent << 32 | ref) * 0x9e3779b97f4a7c15ull;

	h ^= (h >> 29) + kind * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)((h * 0x94d049bb133111ebull) >> 32);
}

/* The slot of the node, or the free one where it belongs. */
static uint32_t *find_node(const struct tree *t, uint32_t parent, unsigned kind, uint32_t ref)
{
	for (uint32_t i = hash_node(parent, kind, ref);; i++) {
		uint32_t *slot = &t->slots[i & (t->n_slots - 1)];
		const struct gs_flame_node *n = &t->nodes[*slot];

		if (!*slot || (n->parent == parent && n->kind == kind && n->ref == ref))
			return slot;
	}
}

/* Room for one more; slots are at most half full. */
static int grow_tree(struct tree *t)
{
	uint32_t capacity = t->capacity ? 2 * t->capacity : FIRST_NODES;
	struct gs_flame_node *nodes;
	uint32_t *slots;

	if (t->n_nodes < t->capacity)
		return 0;
	if (t->n_nodes >= GS_FLAME_MAX_NODES)
		return -ENOBUFS;
	slots = calloc(2 * (size_t)capacity, sizeof(*slots));
	nodes = slots ? realloc(t->nodes, capacity * sizeof(*nodes)) : NULL;
	if (!nodes) {
		free(slots);
		return -ENOMEM;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = 2 * capacity;
	t->nodes = nodes;
	t->capacity = capacity;
	for (uint32_t i = 1; i < t->n_nodes; i++)
		*find_node(t, nodes[i].parent, nodes[i].kind, nodes[i].ref) = i;
	return 0;
}

int flame_tree_init(struct tree *t, const struct gs_dict *dict)
{
	int r;

	*t = (struct tree){.dict = dict};
	r = grow_tree(t);
	if (r == 0) {
		memset(t->nodes, 0, sizeof(*t->nodes));
		t->n_nodes = 1;
	}
	return r;
}

void flame_tree_fini(struct tree *t)
{
	free(t->nodes);
	free(t->slots);
}

int flame_tree_child(struct tree *t, uint32_t parent, unsigned kind, uint32_t ref,
		     uint32_t *ret_node)
{
	uint32_t *slot = find_node(t, parent, kind, ref);
	struct gs_flame_node *n;
	int r;

	if (*slot) {
		*ret_node = *slot;
		return 0;
	}
	if (t->nodes[parent].depth >= MAX_DEPTH)
		return -ENOBUFS;
	r = grow_tree(t);
	if (r < 0)
		return r;
	n = &t->nodes[t->n_nodes];
	*n = (struct gs_flame_node){.parent = parent,
				    .ref = ref,
				    .kind = (uint8_t)kind,
				    .depth = (uint16_t)(t->nodes[parent].depth + 1)};
	if (kind == GS_FLAME_FUNCTION) {
		const struct gs_rec_function *f = gs_dict_function(t->dict, ref);

		n->layer = f && f->layer < GS_LAYER_COUNT ? (uint8_t)f->layer : GS_LAYER_NONE;
	}
	*find_node(t, parent, kind, ref) = t->n_nodes;
	*ret_node = t->n_nodes++;
	return 0;
}

int flame_tree_thread(struct tree *t, uint32_t thread, uint32_t *ret_node)
{
	const struct gs_rec_thread *r = gs_dict_thread(t->dict, thread);
	uint32_t process;
	int e = flame_tree_child(t, 0, GS_FLAME_PROCESS, r ? r->process : 0, &process);

	return e < 0 ? e : flame_tree_child(t, process, GS_FLAME_THREAD, thread, ret_node);
}

/* One step down; what finds no room ends the way. -ENOMEM alone is an error. */
static int step_down(struct tree *t, struct tree_at *at, unsigned kind, uint32_t ref)
{
	int r;

	if (at->full)
		return 0;
	r = flame_tree_child(t, at->node, kind, ref, &at->node);
	at->full = r == -ENOBUFS;
	return r == -ENOBUFS ? 0 : r;
}

int flame_tree_push_python(struct tree *t, struct tree_at *at, uint32_t py_stack)
{
	const struct gs_rec_stack *now = gs_dict_stack(t->dict, py_stack), *above;
	uint32_t n, n_same = 0;
	int r = 0;

	if (!now || at->py_calls || py_stack == at->py_stack)
		return 0;
	above = gs_dict_stack(t->dict, at->py_stack);
	n = now->n_frames;
	/* Outermost frames are the last. */
	while (above && n_same < n && n_same < above->n_frames &&
	       now->frames[n - 1 - n_same] == above->frames[above->n_frames - 1 - n_same])
		n_same++;
	for (uint32_t i = n - n_same; r == 0 && i > 0; i--)
		r = step_down(t, at, GS_FLAME_PYTHON, now->frames[i - 1]);
	at->py_stack = py_stack;
	return r;
}

/* True for code whose callers the layers above name better: the interpreter, an operator. */
static bool is_upper(const struct tree *t, const struct gs_rec_frame *f, bool in_operator)
{
	const char *name = gs_dict_string(t->dict, f->function_str);
	const char *file = gs_dict_string(t->dict, f->file_str);
	const char *base = strrchr(file, '/');

	base = base ? base + 1 : file;
	if (strncmp(base, "python", 6) == 0 || strncmp(base, "libpython", 9) == 0 ||
	    strncmp(name, "_PyEval_", 8) == 0)
		return true;
	return in_operator && strncmp(name, "at::_ops::", 10) == 0;
}

/* What perf's maps name of Python functions (CPython -X perf): beyond the interpreter's own frames,
 * where neither stacks nor calls of Python were asked for. */
static int push_perf_python(struct tree *t, struct tree_at *at, const struct gs_rec_stack *s,
			    uint32_t inner)
{
	int r = 0;

	for (uint32_t i = s->n_frames; r == 0 && i > inner; i--) {
		const struct gs_rec_frame *f = gs_dict_frame(t->dict, s->frames[i - 1]);

		if (f && strncmp(gs_dict_string(t->dict, f->function_str), "py::", 4) == 0)
			r = step_down(t, at, GS_FLAME_NATIVE, s->frames[i - 1]);
	}
	return r;
}

int flame_tree_push_native(struct tree *t, struct tree_at *at, uint32_t native_stack,
			   uint32_t function)
{
	const struct gs_rec_stack *s = gs_dict_stack(t->dict, native_stack);
	const struct gs_rec_function *func = gs_dict_function(t->dict, function);
	const struct gs_rec_frame *f;
	uint32_t n = 0, first = 0;
	int r = 0;

	if (!s)
		return 0;
	while (n < s->n_frames && (f = gs_dict_frame(t->dict, s->frames[n])) != NULL &&
	       !is_upper(t, f, at->in_operator))
		n++;
	if (n < s->n_frames && !at->py_stack && !at->py_calls)
		r = push_perf_python(t, at, s, n);
	/* The innermost frame is in the traced function: it is shown as the call. */
	f = n ? gs_dict_frame(t->dict, s->frames[0]) : NULL;
	if (f && func &&
	    strcmp(gs_dict_string(t->dict, f->function_str),
		   gs_dict_string(t->dict, func->name_str)) == 0)
		first = 1;
	for (uint32_t i = n; r == 0 && i > first; i--)
		r = step_down(t, at, GS_FLAME_NATIVE, s->frames[i - 1]);
	return r;
}

int flame_tree_push_wait(struct tree *t, struct tree_at *at, unsigned cause)
{
	return step_down(t, at, GS_FLAME_WAIT, cause);
}

int flame_tree_push_function(struct tree *t, struct tree_at *at, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(t->dict, function);

	if (f && f->func_class == GS_CLASS_PYTHON)
		at->py_calls = true;
	if (f && f->func_class == GS_CLASS_OPERATOR)
		at->in_operator = true;
	return step_down(t, at, GS_FLAME_FUNCTION, function);
}

void flame_tree_add(struct tree *t, const struct tree_at *at, uint64_t weight)
{
	t->nodes[at->node].self += weight;
	if (at->full)
		t->coarse += weight;
}

static int compare_weight(const void *a, const void *b, void *ctx)
{
	const struct gs_flame_node *nodes = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (nodes[x].parent != nodes[y].parent)
		return nodes[x].parent < nodes[y].parent ? -1 : 1;
	if (nodes[x].total != nodes[y].total)
		return nodes[x].total > nodes[y].total ? -1 : 1;
	return x < y ? -1 : x > y;
}

int flame_tree_finish(struct tree *t)
{
	GS_FREE uint32_t *order = calloc(t->n_nodes, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (uint32_t i = t->n_nodes; i-- > 0;) {
		struct gs_flame_node *n = &t->nodes[i];

		order[i] = i;
		n->total += n->self;
		if (i)
			t->nodes[n->parent].total += n->total;
	}
	qsort_r(order + 1, t->n_nodes - 1, sizeof(*order), compare_weight, t->nodes);
	/* From the lightest: each becomes the first of what stands after it. */
	for (uint32_t i = t->n_nodes; i-- > 1;) {
		struct gs_flame_node *n = &t->nodes[order[i]], *p = &t->nodes[n->parent];

		n->next = p->first_child;
		p->first_child = order[i];
	}
	return 0;
}
