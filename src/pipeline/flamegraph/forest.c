/*
 * From calls to the tree. A call comes when it returns, so those inside it came before it. By
 * thread, calls wait in holders, newest last, until the call around them returns and claims them:
 *
 *     thread:  root                          calls with nothing around them
 *              holder (depth 1, in A)        calls that wait for the return of A
 *              holder (depth 2, in B)        calls that wait for the return of B, inside A
 *
 *     B returns:  the last holder becomes the node of B and moves into the holder of A
 *
 * Calls of one holder that are the same (function and stacks) are one node, whatever their number,
 * so that memory is bounded by how many different ways there are. When an event was lost, what
 * waited for it falls to the next call around it, or, at the end, below the operator that each call
 * names.
 */
#include "pipeline/flamegraph/flame_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/func.h"

#define FIRST_SPANS 1024
#define MAX_HOLDERS 256   /* of a thread: far above what can be open at one time */
#define MAX_HEIGHT  512   /* calls inside calls */
#define MAX_OPEN    65536 /* calls that never returned */

struct span_key {
	uint32_t function, py_stack, native_stack;
};

struct span {
	struct span_key key;
	uint32_t parent;      /* hashed under it; 0: none (thread roots, holders) */
	uint32_t first_child; /* 0 none */
	uint32_t next;        /* sibling, or the next free one */
	uint32_t hash_next;   /* of its bucket */
	uint32_t height;      /* below it */
	uint64_t weight;
};

struct holder {
	uint64_t start_ns; /* of the newest call in it */
	uint64_t end_ns;
	uint64_t dur_ns; /* of all calls in it, without those inside them */
	uint32_t span;   /* whose children they are */
	uint32_t scope;
	uint8_t depth;
	bool upper; /* of the layers above CUDA */
};

struct thread {
	uint32_t id;
	uint32_t root; /* span */
	uint32_t n_holders, capacity;
	struct holder *holders; /* owned */
};

struct forest {
	struct tree *tree;
	enum gs_flame_by by;
	struct span *spans; /* owned; 0 is none */
	uint32_t n_spans, capacity, free_list;
	uint32_t *buckets;       /* owned, capacity of them */
	struct thread **threads; /* owned, and each element; by id */
	uint32_t n_threads;
	struct gs_rec_call *open; /* owned */
	uint32_t n_open, open_capacity;
};

/* --- spans: a pool, and a hash of (parent, key) --- */

static uint32_t *bucket_of(const struct forest *f, uint32_t parent, const struct span_key *k)
{
	uint64_t h = ((uint64_t)parent << 32 | k->function) * 0x9e3779b97f4a7c15ull;

	h ^= ((uint64_t)k->py_stack << 32 | k->native_stack) * 0xbf58476d1ce4e5b9ull;
	h ^= h >> 31;
	h *= 0x94d049bb133111ebull;
	return &f->buckets[h >> 32 & (f->capacity - 1)];
}

static void hash_in(struct forest *f, uint32_t span)
{
	struct span *s = &f->spans[span];
	uint32_t *b = bucket_of(f, s->parent, &s->key);

	s->hash_next = *b;
	*b = span;
}

static void hash_out(struct forest *f, uint32_t span)
{
	struct span *s = &f->spans[span];
	uint32_t *at = bucket_of(f, s->parent, &s->key);

	while (*at != span)
		at = &f->spans[*at].hash_next;
	*at = s->hash_next;
}

static uint32_t find_span(const struct forest *f, uint32_t parent, const struct span_key *k)
{
	uint32_t i = *bucket_of(f, parent, k);

	while (i && (f->spans[i].parent != parent || memcmp(&f->spans[i].key, k, sizeof(*k)) != 0))
		i = f->spans[i].hash_next;
	return i;
}

static int grow_spans(struct forest *f)
{
	uint32_t capacity = f->capacity ? 2 * f->capacity : FIRST_SPANS;
	struct span *spans;
	uint32_t *buckets;

	if (f->capacity >= GS_FLAME_MAX_NODES)
		return -ENOBUFS;
	buckets = calloc(capacity, sizeof(*buckets));
	spans = buckets ? realloc(f->spans, capacity * sizeof(*spans)) : NULL;
	if (!spans) {
		free(buckets);
		return -ENOMEM;
	}
	free(f->buckets);
	f->buckets = buckets;
	f->spans = spans;
	f->capacity = capacity;
	if (!f->n_spans)
		f->n_spans = 1;
	/* Only when no span is free, so every one with a parent is in use. */
	for (uint32_t i = 1; i < f->n_spans; i++)
		if (spans[i].parent)
			hash_in(f, i);
	return 0;
}

/* A span without parent; 0 or -ENOMEM, -ENOBUFS. */
static int new_span(struct forest *f, uint32_t *ret_span)
{
	uint32_t i = f->free_list;

	if (i) {
		f->free_list = f->spans[i].next;
	} else {
		if (f->n_spans == f->capacity) {
			int r = grow_spans(f);

			if (r < 0)
				return r;
		}
		i = f->n_spans++;
	}
	f->spans[i] = (struct span){0};
	*ret_span = i;
	return 0;
}

static void free_span(struct forest *f, uint32_t i)
{
	f->spans[i] = (struct span){.next = f->free_list};
	f->free_list = i;
}

/* Put a span without parent below one; it is gone when there was the same. */
static void attach_span(struct forest *f, uint32_t parent, uint32_t i);

static void move_children(struct forest *f, uint32_t from, uint32_t to)
{
	uint32_t child = f->spans[from].first_child;

	f->spans[from].first_child = 0;
	while (child) {
		uint32_t next = f->spans[child].next;

		hash_out(f, child);
		f->spans[child].parent = 0;
		attach_span(f, to, child);
		child = next;
	}
}

/* As deep as the spans are high: MAX_HEIGHT at most. */
static void attach_span(struct forest *f, uint32_t parent, uint32_t i)
{
	uint32_t same = find_span(f, parent, &f->spans[i].key);

	if (f->spans[parent].height <= f->spans[i].height)
		f->spans[parent].height = f->spans[i].height + 1;
	if (same) {
		f->spans[same].weight += f->spans[i].weight;
		move_children(f, i, same);
		free_span(f, i);
		return;
	}
	f->spans[i].parent = parent;
	f->spans[i].next = f->spans[parent].first_child;
	f->spans[parent].first_child = i;
	hash_in(f, i);
}

/* A call with nothing inside, below parent. */
static int add_leaf(struct forest *f, uint32_t parent, const struct span_key *k, uint64_t weight)
{
	uint32_t i = find_span(f, parent, k);
	int r;

	if (i) {
		f->spans[i].weight += weight;
		return 0;
	}
	r = new_span(f, &i);
	if (r == -ENOBUFS) { /* no room: it counts at what is around it */
		f->spans[parent].weight += weight;
		f->tree->coarse += weight;
		return 0;
	}
	if (r < 0)
		return r;
	f->spans[i].key = *k;
	f->spans[i].weight = weight;
	attach_span(f, parent, i);
	return 0;
}

/* --- threads --- */

static int thread_of(struct forest *f, uint32_t id, struct thread **ret_thread)
{
	struct thread *t;
	int r;

	if (id >= GS_DICT_MAX_ID)
		id = 0;
	if (!gs_vec_reach(&f->threads, &f->n_threads, id))
		return -ENOMEM;
	if (!f->threads[id]) {
		t = malloc(sizeof(*t));
		if (!t)
			return -ENOMEM;
		*t = (struct thread){.id = id};
		r = new_span(f, &t->root);
		if (r < 0) {
			free(t);
			return r;
		}
		f->threads[id] = t;
	}
	*ret_thread = f->threads[id];
	return 0;
}

/* What waited in the oldest holder waits no longer: it goes below the function that its calls
 * named, which was itself not seen. */
static void give_up(struct forest *f, struct thread *t)
{
	struct holder *h = &t->holders[0];
	uint32_t span = h->span;

	if (h->scope) {
		f->spans[span].key = (struct span_key){.function = h->scope};
		attach_span(f, t->root, span);
	} else {
		f->spans[t->root].weight += f->spans[span].weight;
		move_children(f, span, t->root);
		free_span(f, span);
	}
	t->n_holders--;
	memmove(h, h + 1, t->n_holders * sizeof(*h));
}

static bool is_upper(const struct gs_rec_function *func)
{
	return func && func->layer >= GS_LAYER_TORCH;
}

/* True when what waits in the holder was inside the call. Time alone decides it: on one thread
 * nothing can begin later and return earlier without being inside. Where they began at the same
 * time, the one that was deeper, or of a lower layer, is inside. */
static bool was_inside(const struct holder *h, const struct gs_rec_call *c, bool upper)
{
	if (h->start_ns != c->start_ns)
		return h->start_ns > c->start_ns;
	if (h->end_ns > c->start_ns + c->dur_ns)
		return false;
	return h->upper == upper ? h->depth > c->depth || (upper && h->scope == c->function)
				 : upper;
}

static uint64_t weight_of(const struct forest *f, const struct gs_rec_call *c, unsigned func_class,
			  uint64_t inside_ns)
{
	switch (f->by) {
	case GS_FLAME_LAUNCHES:
		return !c->failed &&
		       (func_class == GS_CLASS_LAUNCH || func_class == GS_CLASS_GRAPH_LAUNCH);
	case GS_FLAME_BYTES:
		return !c->failed && (func_class == GS_CLASS_COPY ||
				      func_class == GS_CLASS_MEMSET ||
				      func_class == GS_CLASS_COLLECTIVE ||
				      func_class == GS_CLASS_P2P)
			       ? c->bytes
			       : 0;
	case GS_FLAME_MEMORY:
		return !c->failed && func_class == GS_CLASS_ALLOC ? c->bytes : 0;
	default:
		return c->dur_ns > inside_ns ? c->dur_ns - inside_ns : 0;
	}
}

/* An operator whose own stack was not taken ran where the first call inside it ran (the last of the
 * list): Python code that an operator itself calls comes later. */
static uint32_t stack_inside(const struct forest *f, uint32_t span)
{
	uint32_t py_stack = 0;

	for (uint32_t i = f->spans[span].first_child; i; i = f->spans[i].next)
		if (f->spans[i].key.py_stack)
			py_stack = f->spans[i].key.py_stack;
	return py_stack;
}

/* The holder where the call is to wait; a new one when the last is of another place. */
static int holder_for(struct forest *f, struct thread *t, const struct gs_rec_call *c, bool upper,
		      uint32_t *ret_span)
{
	uint32_t scope = c->scope;
	struct holder *h = t->n_holders ? &t->holders[t->n_holders - 1] : NULL;
	int r;

	if (!h || h->depth != c->depth || h->scope != scope || h->upper != upper) {
		if (t->n_holders == MAX_HOLDERS)
			give_up(f, t);
		r = gs_vec_reserve(&t->holders, &t->capacity, t->n_holders + 1) ? 0 : -ENOMEM;
		if (r < 0)
			return r;
		h = &t->holders[t->n_holders];
		*h = (struct holder){.scope = scope, .depth = c->depth, .upper = upper};
		r = new_span(f, &h->span);
		if (r < 0)
			return r;
		t->n_holders++;
	}
	h->start_ns = c->start_ns;
	h->end_ns = c->start_ns + c->dur_ns;
	h->dur_ns += c->dur_ns;
	*ret_span = h->span;
	return 0;
}

/* Takes what waited for the call out of the holders. The span that has it below, 0 none. */
static uint32_t claim_spans(struct forest *f, struct thread *t, const struct gs_rec_call *c,
			    bool upper, uint64_t *ret_inside_ns)
{
	uint32_t span = 0;

	*ret_inside_ns = 0;
	while (t->n_holders && was_inside(&t->holders[t->n_holders - 1], c, upper)) {
		struct holder *h = &t->holders[--t->n_holders];

		*ret_inside_ns += h->dur_ns;
		if (span) {
			f->spans[span].weight += f->spans[h->span].weight;
			move_children(f, h->span, span);
			free_span(f, h->span);
		} else {
			span = h->span;
		}
	}
	return span;
}

static int take_call(struct forest *f, const struct gs_rec_call *c)
{
	const struct gs_rec_function *func = gs_dict_function(f->tree->dict, c->function);
	struct span_key key = {c->function, c->py_stack, c->native_stack};
	unsigned func_class = func ? func->func_class : GS_CLASS_OTHER;
	uint64_t inside_ns, weight;
	bool upper = is_upper(func);
	struct thread *t;
	uint32_t span, parent;
	int r = thread_of(f, c->thread, &t);

	if (r == -ENOBUFS) {
		f->tree->nodes[0].self += weight_of(f, c, func_class, 0);
		f->tree->coarse += weight_of(f, c, func_class, 0);
		return 0;
	}
	if (r < 0)
		return r;
	span = claim_spans(f, t, c, upper, &inside_ns);
	weight = weight_of(f, c, func_class, inside_ns);
	parent = t->root;
	if (c->scope || c->depth) {
		r = holder_for(f, t, c, upper, &parent);
		if (r == -ENOBUFS)
			r = 0; /* below the thread, then */
		if (r < 0)
			return r;
	}
	if (!span)
		return add_leaf(f, parent, &key, weight);
	if (f->spans[span].height >= MAX_HEIGHT) { /* no higher: side by side */
		f->spans[t->root].weight += f->spans[span].weight;
		move_children(f, span, t->root);
		free_span(f, span);
		return add_leaf(f, parent, &key, weight);
	}
	if (!key.py_stack && func_class == GS_CLASS_OPERATOR)
		key.py_stack = stack_inside(f, span);
	f->spans[span].key = key;
	f->spans[span].weight += weight;
	attach_span(f, parent, span);
	return 0;
}

/* Calls that never returned are recorded outermost first, at the end; they are taken the other way. */
static int keep_open(struct forest *f, const struct gs_rec_call *c)
{
	if (f->n_open == MAX_OPEN)
		return take_call(f, c);
	if (!gs_vec_reserve(&f->open, &f->open_capacity, f->n_open + 1))
		return -ENOMEM;
	memset(&f->open[f->n_open], 0, sizeof(*c));
	memcpy(&f->open[f->n_open++], c, c->head.bytes < sizeof(*c) ? c->head.bytes : sizeof(*c));
	return 0;
}

int flame_forest_call(struct forest *f, const struct gs_rec_call *c)
{
	return c->call_flags & GS_CALL_UNFINISHED ? keep_open(f, c) : take_call(f, c);
}

static int innermost_first(const void *a, const void *b)
{
	const struct gs_rec_call *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns > y->start_ns ? -1 : 1;
	return y->depth - x->depth;
}

/* Into the tree: a span and all below it. As deep as the spans are high. */
static int enter_span(struct forest *f, uint32_t span, struct tree_at at)
{
	const struct span *s = &f->spans[span];
	int r = flame_tree_push_python(f->tree, &at, s->key.py_stack);

	if (r == 0)
		r = flame_tree_push_native(f->tree, &at, s->key.native_stack, s->key.function);
	if (r == 0)
		r = flame_tree_push_function(f->tree, &at, s->key.function);
	if (r < 0)
		return r;
	flame_tree_add(f->tree, &at, s->weight);
	for (uint32_t i = s->first_child; r == 0 && i; i = f->spans[i].next)
		r = enter_span(f, i, at);
	return r;
}

static int finish_thread(struct forest *f, struct thread *t)
{
	struct tree_at at = {0};
	int r;

	while (t->n_holders)
		give_up(f, t);
	r = flame_tree_thread(f->tree, t->id, &at.node);
	if (r == -ENOBUFS) {
		at.full = true;
		r = 0;
	}
	if (r < 0)
		return r;
	flame_tree_add(f->tree, &at, f->spans[t->root].weight);
	for (uint32_t i = f->spans[t->root].first_child; r == 0 && i; i = f->spans[i].next)
		r = enter_span(f, i, at);
	return r;
}

int flame_forest_finish(struct forest *f)
{
	int r = 0;

	if (f->n_open)
		qsort(f->open, f->n_open, sizeof(*f->open), innermost_first);
	for (uint32_t i = 0; r == 0 && i < f->n_open; i++)
		r = take_call(f, &f->open[i]);
	for (uint32_t i = 0; r == 0 && i < f->n_threads; i++)
		if (f->threads[i])
			r = finish_thread(f, f->threads[i]);
	return r;
}

int flame_forest_new(struct tree *tree, enum gs_flame_by by, struct forest **ret_forest)
{
	struct forest *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->tree = tree;
	f->by = by;
	*ret_forest = f;
	return grow_spans(f) < 0 ? -ENOMEM : 0;
}

void flame_forest_free(struct forest **forest)
{
	struct forest *f = *forest;

	if (!f)
		return;
	for (uint32_t i = 0; i < f->n_threads; i++) {
		if (f->threads[i])
			free(f->threads[i]->holders);
		free(f->threads[i]);
	}
	free(f->threads);
	free(f->spans);
	free(f->buckets);
	free(f->open);
	free(f);
	*forest = NULL;
}
