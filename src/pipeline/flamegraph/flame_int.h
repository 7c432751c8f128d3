/* Inside the room: the tree that is shown, and the forest of calls that it is made of. */
#ifndef GS_PIPELINE_FLAMEGRAPH_FLAME_INT_H
#define GS_PIPELINE_FLAMEGRAPH_FLAME_INT_H

#include <stdbool.h>

#include "pipeline/flamegraph/flame.h"

/* --- tree.c: node by (parent, kind, ref) --- */

struct tree {
	const struct gs_dict *dict;
	struct gs_flame_node *nodes; /* owned; the first is the root */
	uint32_t n_nodes, capacity;
	uint32_t *slots; /* owned; node numbers by hash, 0 free */
	uint32_t n_slots;
	uint64_t coarse;
};

int flame_tree_init(struct tree *tree, const struct gs_dict *dict);
void flame_tree_fini(struct tree *tree);

/* The child of that kind and ref; made when it is missing. -ENOMEM, -ENOBUFS: no room. */
int flame_tree_child(struct tree *tree, uint32_t parent, unsigned kind, uint32_t ref,
		     uint32_t *ret_node);

/* The node of a thread, below its process. */
int flame_tree_thread(struct tree *tree, uint32_t thread, uint32_t *ret_node);

/* A place in the tree on the way down. */
struct tree_at {
	uint32_t node;
	uint32_t py_stack; /* the Python stack that stands above, 0 none */
	bool py_calls;     /* a Python function was seen as a call: stacks say nothing new */
	bool in_operator;
	bool full; /* something could not be entered: the rest counts at node */
};

/* Python frames that the stack has beyond those that stand above already. */
int flame_tree_push_python(struct tree *tree, struct tree_at *at, uint32_t py_stack);

/* Native frames inside the interpreter and inside the operator; not the function itself. */
int flame_tree_push_native(struct tree *tree, struct tree_at *at, uint32_t native_stack,
			   uint32_t function);

/* The cause that the thread waits for, below where it waits. */
int flame_tree_push_wait(struct tree *tree, struct tree_at *at, unsigned cause);

int flame_tree_push_function(struct tree *tree, struct tree_at *at, uint32_t function);

void flame_tree_add(struct tree *tree, const struct tree_at *at, uint64_t weight);

/* Totals, and children in order. */
int flame_tree_finish(struct tree *tree);

/* --- forest.c: from calls, which come at their return, to the tree --- */

struct forest;

int flame_forest_new(struct tree *tree, enum gs_flame_by by, struct forest **ret_forest);
void flame_forest_free(struct forest **forest);

int flame_forest_call(struct forest *forest, const struct gs_rec_call *call);

/* What still waits for a call around it goes into the tree as it is. */
int flame_forest_finish(struct forest *forest);

/* --- flame.c --- */

struct sample_key {
	uint32_t thread, scope, py_stack, native_stack;
	uint32_t wait; /* 0: it ran; else 1 + enum gs_wait_cause */
};

struct sample {
	struct sample_key key;
	uint64_t weight_ns;
};

struct gs_flame {
	enum gs_flame_by by; /* asked for; after the end: shown */
	struct tree tree;
	struct forest *forest; /* owned; NULL when only samples and waits are asked for */
	bool has_waits;
	/* Samples, and waits, that are the same count as one: their stacks may come later than they. */
	struct sample *samples; /* owned */
	uint32_t n_samples, capacity;
	uint32_t *slots; /* owned; numbers of samples + 1 by hash, 0 free */
	uint32_t n_slots;
	uint64_t samples_coarse_ns;
};

#endif
