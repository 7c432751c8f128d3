/*
 * A flame graph as a tree: where time went, by process, thread, Python code, operator, native code
 * and call. Fed with the records of a stream, it answers with the tree when the stream has ended;
 * who draws or writes it walks the nodes. One thread.
 *
 * Three sources, of which one is shown, or the first two together (wall time):
 *
 *   samples   a thread was found running here: the time that the sample stands for
 *   waits     a thread of a Python interpreter was off its processor here, exactly that long; below
 *             the line stands a node that names the cause
 *   calls     each call's own time (without the calls inside it), or 1 for a launch, or bytes,
 *             under the operators and Python functions that were open around it in its thread
 *
 * Python frames stand over native frames: of a native stack what is inside the innermost frame of
 * the interpreter (or of an operator's entry) is shown, and the Python stack stands for the rest.
 */
#ifndef GS_PIPELINE_FLAMEGRAPH_FLAME_H
#define GS_PIPELINE_FLAMEGRAPH_FLAME_H

#include <stddef.h>
#include <stdint.h>

#include "model/trace/dict.h"
#include "model/trace/record_stack.h"

#define GS_FLAME_MAX_NODES                                                                         \
	(1u                                                                                        \
	 << 19) /* of the tree, and of calls that wait for the one around them; what            \
		    * finds no room counts where it belongs, less finely */

enum gs_flame_by {
	GS_FLAME_AUTO =
		0, /* wall when there are waits, else samples when there are any, else time */
	GS_FLAME_SAMPLES = 1,
	GS_FLAME_TIME = 2,
	GS_FLAME_LAUNCHES = 3,
	GS_FLAME_BYTES = 4,  /* moved: copies, memsets, collectives */
	GS_FLAME_MEMORY = 5, /* allocated */
	GS_FLAME_WALL = 6,   /* samples, and waits beside them */
	GS_FLAME_BY_COUNT
};

/* "auto", "samples", "time", "launches", "bytes", "memory", "wall". */
const char *gs_flame_by_name(enum gs_flame_by by);

/* 0, or -EINVAL. */
int gs_flame_by_parse(const char *name, enum gs_flame_by *ret_by);

enum gs_flame_kind {
	GS_FLAME_ALL = 0, /* node 0 */
	GS_FLAME_PROCESS,
	GS_FLAME_THREAD,
	GS_FLAME_PYTHON,
	GS_FLAME_NATIVE,
	GS_FLAME_FUNCTION, /* a traced call; its layer says of what */
	GS_FLAME_WAIT,     /* off the processor; ref: enum gs_wait_cause */
};

/* Children stand in a list, the heaviest first; a node's number is larger than its parent's. */
struct gs_flame_node {
	uint32_t parent;
	uint32_t first_child, next; /* 0: none */
	uint32_t ref;         /* id of the process, thread, frame or function, 0 unknown; a cause */
	uint8_t kind;         /* enum gs_flame_kind */
	uint8_t layer;        /* of a function */
	uint16_t depth;       /* of node 0: 0 */
	uint64_t self, total; /* in the unit of what is shown: ns, launches or bytes */
};

struct gs_flame;

/* The dictionary is borrowed, keeps stacks, and has taken in each record before it comes here. 0 or
 * -ENOMEM. */
int gs_flame_new(const struct gs_dict *dict, enum gs_flame_by by, struct gs_flame **ret_flame);
void gs_flame_free(struct gs_flame **flame);

/* CALL, SAMPLE and WAIT; others are ignored. 0 or -ENOMEM. */
int gs_flame_record(struct gs_flame *flame, const struct gs_record *record);

/* The tree, when all records have come; once. 0 or -ENOMEM. */
int gs_flame_finish(struct gs_flame *flame);

/* What is shown: never GS_FLAME_AUTO after gs_flame_finish(). */
enum gs_flame_by gs_flame_shown(const struct gs_flame *flame);

/* Good after gs_flame_finish(), as long as the flame lives. */
const struct gs_flame_node *gs_flame_nodes(const struct gs_flame *flame, uint32_t *ret_n);

/* Weight that belongs further down, but found no room there. */
uint64_t gs_flame_coarse(const struct gs_flame *flame);

/* The node's text, terminated; bytes that are no UTF-8 are passed on. Returns out. */
#define GS_FLAME_LABEL_BYTES 1024
const char *gs_flame_label(const struct gs_flame *flame, uint32_t node,
			   char out[GS_FLAME_LABEL_BYTES]);

/* The same of a frame of code: "forward (torch/nn/modules/linear.py:125)". */
const char *gs_flame_frame_label(const struct gs_dict *dict, uint32_t frame,
				 char out[GS_FLAME_LABEL_BYTES]);

#endif
