/*
 * Records of the door to PyTorch's operators (companion/ops) in the file of a process: model/companion/file.h. Times are
 * ticks. Numbers of names are the process's own; a name's record is in the ring of the thread that used it first, before
 * any record of any thread that has its number was begun.
 */
#ifndef GS_MODEL_COMPANION_OPS_H
#define GS_MODEL_COMPANION_OPS_H

#include "model/companion/file.h"

enum gs_companion_ops_kind {
	GS_COMPANION_OP_NAME = GS_COMPANION_OPS_FIRST, /* struct gs_companion_op_name */
	GS_COMPANION_OP,                               /* struct gs_companion_op */
};

#define GS_COMPANION_OP_NAMES GS_FUNC_FIXED /* numbers of names are below it */

/* What an operator is called from now on. text: to the first zero or the record's end. */
struct gs_companion_op_name {
	struct gs_companion_record head;
	uint32_t number;
	uint32_t pad;
	char text[];
};
_Static_assert(sizeof(struct gs_companion_op_name) == 16, "gs_companion_op_name");

enum gs_companion_op_flag {
	GS_COMPANION_OP_THROWN = 1, /* an exception has left it */
	GS_COMPANION_OP_SPAN = 2,   /* the program marks it, it is no operator */
	GS_COMPANION_OP_IN_OP = 4,  /* an operator is around it */
	GS_COMPANION_OP_FLAGS = 7,
};

/* An operator has ended. */
struct gs_companion_op {
	struct gs_companion_record head;
	uint64_t start, dur;
	uint16_t name;
	uint16_t outer; /* name of the innermost one around it; 0 none */
	uint16_t cpu;   /* where it ended */
	uint8_t depth;  /* how many were open around it */
	uint8_t flags;  /* enum gs_companion_op_flag */
};
_Static_assert(sizeof(struct gs_companion_op) == 32, "gs_companion_op");

#endif
