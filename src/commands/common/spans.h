/*
 * A trace as OpenTelemetry's spans (output/trace_export/spans.h), into a file (.otlp, the protobuf of
 * ExportTraceServiceRequest) or to a collector, for the commands that write traces.
 */
#ifndef GS_COMMANDS_COMMON_SPANS_H
#define GS_COMMANDS_COMMON_SPANS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "model/trace/record.h"
#include "pipeline/aggregate/aggregate.h"

#define GS_CLI_SPANS_TAKES ".otlp, or a URL such as http://HOST:4318/v1/traces or grpc://HOST:4317"

/* True when the path of an output asks for spans. */
bool gs_cli_spans_knows(const char *path);
bool gs_cli_spans_is_url(const char *path);

struct gs_cli_spans;

/* Steps come from the view. traceparent: of the traced program; NULL or "": it has none. Of a URL
 * OTEL_EXPORTER_OTLP_HEADERS (authorization=Bearer TOKEN) and OTEL_EXPORTER_OTLP_CERTIFICATE hold.
 * A negative errno with err. */
int gs_cli_spans_open(const char *path, const char *traceparent, bool is_private,
		      struct gs_aggregate *view, struct gs_cli_spans **ret_spans,
		      struct gs_err *err);

/* To push to, before the view is. Lent. */
const struct gs_sink *gs_cli_spans_sink(struct gs_cli_spans *spans);

/* After the view's summary, whose last steps come then. Writes or sends what is left, for some seconds,
 * and says in a line what became of it. NULL inside: nothing. 0 or the first error, printed. */
int gs_cli_spans_close(struct gs_cli_spans **spans, bool is_quiet);

/* Without that: what a collector has got stays, a file is removed. */
void gs_cli_spans_abandon(struct gs_cli_spans **spans);

#endif
