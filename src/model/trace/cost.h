/* What a hit of a probe costs, by how it is caught and what it reads. Plain values. */
#ifndef GS_MODEL_TRACE_COST_H
#define GS_MODEL_TRACE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "model/trace/kernel_side.h"

/* What a call costs depends on how it is caught. */
enum gs_cost_kind {
	GS_COST_CALL,   /* of CUDA and NCCL: entry and return, arguments */
	GS_COST_PLACE,  /* of a described probe without a return */
	GS_COST_SCOPE,  /* operators and the like: a probe at the entry, one where it is left */
	GS_COST_USER,   /* of a described probe: entry and return */
	GS_COST_PYTHON, /* a Python function: as a scope, and which function it is */
	GS_COST_N
};

struct gs_costs {
	double ns[GS_COST_N][GS_MODE_N]; /* of one call */
	double step_ns;                  /* more, for each passed probe that is single-stepped */
	double value_ns, text_ns; /* more, for each value read from memory, for each string */
};

/* A probe that calls pass. */
struct gs_hit {
	enum gs_cost_kind kind; /* how its calls are caught */
	uint8_t n_values, n_texts;
	/* What the probe sees keeps the traced program safe, so it stays whatever it costs; the calls
	 * can still be only counted. */
	bool is_kept;
	bool is_watched; /* likewise, and its calls are never more than counted: GS_COOKIE_WATCHED */
};

#endif
