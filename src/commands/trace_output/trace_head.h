/* The records of a trace to a head. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_HEAD_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_HEAD_H

#include "commands/head/to_head.h"

struct trace_head;

/* Connects in the background; title: of the trace, copied; sums_only: calls are not sent. A negative errno with
 * err. */
int trace_head_new(const struct to_head_options *options, const char *title, bool sums_only,
		   struct trace_head **ret_head, struct gs_err *err);
const struct gs_sink *trace_head_sink(struct trace_head *head); /* lent as long as it lives */
int trace_head_finish(struct trace_head **head);                /* as to_head_finish() */
void trace_head_free(struct trace_head **head); /* without having finished: as to_head_abandon() */

#endif
