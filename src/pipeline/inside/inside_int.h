/* Between the files of the room. */
#ifndef GS_PIPELINE_INSIDE_INSIDE_INT_H
#define GS_PIPELINE_INSIDE_INSIDE_INT_H

#include "core/base/map.h"
#include "pipeline/inside/inside.h"
#include "pipeline/inside/ops.h"
#include "pipeline/inside/python.h"

#define INSIDE_LATE_MAX 1024u

/* What waits until all that ended before it has come from the other threads. */
struct held_event {
	uint64_t end_ns;
	uint64_t order;  /* of coming */
	uint16_t python; /* number of the Python function around the call; 0 none */
	struct gs_event_call call;
	struct gs_event *other; /* owned; in place of a call */
	uint64_t file;          /* of an operator whose numbers are not ids yet; else 0 */
	bool is_op;             /* an operator */
	bool is_span, is_outer; /* of these: not one as such; in no other */
	bool is_in_op;          /* a call that an operator made */
};

/* Time in calls of a thread, by what it was in during them (enum gs_account_inside). */
struct busy_thread {
	uint64_t ns[GS_INSIDE_COUNT];
	uint64_t in_ops_ns; /* of calls in operators: they are not an operator's own time */
};

struct late_process {
	uint32_t pid;
	enum gs_companion_door door; /* that it was started with */
	uint64_t since_ns;
	bool is_asked; /* by gs_inside_next_late() */
};

enum inside_expected {
	INSIDE_ASKED = 1,    /* for its Python functions: no answer yet */
	INSIDE_GIVEN_UP = 2, /* they are not seen */
};

struct gs_inside {
	struct gs_companion_files *files; /* borrowed */
	struct gs_companion_ticks ticks;
	bool wanted[GS_FUNC_FIXED];
	bool has_calls;          /* any of them */
	bool has_python;         /* Python functions are to be seen from inside */
	bool attaches_python;    /* interpreters get probes all the same */
	uint32_t layers;         /* of which calls came: bits 1 << enum gs_layer */
	bool has_nccl;           /* NCCL said something of itself in a process */
	struct held_event *held; /* owned */
	size_t n_held, capacity;
	uint64_t order;
	struct gs_ingest *feed; /* borrowed; NULL: there is a taker */
	struct gs_inside_taker taker;
	struct gs_map busy_of;    /* process and thread -> index of busy */
	struct busy_thread *busy; /* owned */
	uint32_t n_busy;
	struct gs_map asked; /* door and process -> when its file was last looked for */
	struct late_process late[INSIDE_LATE_MAX];
	unsigned n_late;
	struct gs_map
		expected; /* process -> enum inside_expected: it was asked when it ran already */
	struct inside_ops ops;
	struct gs_inside_python python;
	uint64_t polled_ns; /* when it was polled last */
};

#endif
