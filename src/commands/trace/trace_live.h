/* The live line of `gpuscope trace`. */
#ifndef GS_COMMANDS_TRACE_TRACE_LIVE_H
#define GS_COMMANDS_TRACE_TRACE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct trace_output;

/* {0} before the first line. */
struct trace_live {
	bool is_shown;              /* a line is on the screen, to be written over */
	uint64_t calls, elapsed_ns; /* as of the last line */
};

/* Writes the line, or nothing where standard error is no terminal. cost_ratio: of processor time, 0
 * to 1; negative: not known yet. elapsed_ns: since tracing began. */
void trace_live_show(struct trace_live *live, struct trace_output *output, double cost_ratio,
		     uint64_t elapsed_ns);

/* Takes the line away, where there is one. */
void trace_live_clear(struct trace_live *live);

/* Before tracing begins: for how long running processes have been looked through, which is as long as there are many. */
void trace_live_show_start(struct trace_live *live, uint64_t elapsed_ns);

/* Tracing begins: what stands there is taken away, and rates start from 0. */
void trace_live_begin(struct trace_live *live);

#endif
