/* Outputs of a trace that are spans of OpenTelemetry. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_SPANS_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_SPANS_H

#include "commands/common/spans.h"
#include "commands/trace_options/trace_options.h"
#include "pipeline/ingest/ingest.h"

struct trace_spans {
	struct gs_cli_spans *spans[TRACE_MAX_OUTPUTS]; /* owned */
	size_t n;
};

/* Those of the options, in front of the view. A negative errno with err. */
int trace_spans_open(const struct trace_options *options, struct gs_ingest *feed,
		     struct gs_aggregate *view, struct trace_spans *ret, struct gs_err *err);

/* As gs_cli_spans_close(), each. r: how it went so far, which is returned when it is an error. */
int trace_spans_close(struct trace_spans *spans, bool is_quiet, int r);
void trace_spans_abandon(struct trace_spans *spans);

#endif
