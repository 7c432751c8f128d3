/*
 * A trace as spans of OpenTelemetry: the command, its processes, their steps, and in the steps the
 * operators and collectives (of NCCL and MPI), each within what was around it. It is sampled and
 * bounded: every step as long as there are few, then each second one, each fourth, ...; what is in a
 * step only of some of them, likewise. Out come messages of OTLP (core/text/otlp.h), for a file or a
 * collector.
 */
#ifndef GS_OUTPUT_TRACE_EXPORT_SPANS_H
#define GS_OUTPUT_TRACE_EXPORT_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/record.h"

#define GS_EXPORT_SPANS_MAX 20000 /* of steps; and of operators and collectives */

/* The span around the command, in another program's trace (w3.org/TR/trace-context-1). */
struct gs_export_parent {
	uint8_t trace_id[16], span_id[8];
	bool is_sampled; /* its trace is kept */
};

/* Of a header "traceparent" or a variable TRACEPARENT. -EINVAL: it is none. */
int gs_export_parent_parse(const char *text, struct gs_export_parent *ret_parent);

struct gs_export_spans;

struct gs_export_spans_options {
	size_t size;                           /* of this struct */
	const struct gs_export_parent *parent; /* copied; NULL: a trace of its own */
	uint64_t max_spans;                    /* of each sort; 0: GS_EXPORT_SPANS_MAX */
	/* A whole message, lent, with n_spans. 0 or a negative errno, after which no more comes. */
	int (*put)(void *ctx, const void *data, size_t bytes, uint32_t n_spans);
	void *ctx; /* of put; borrowed */
};

/* 0 or -ENOMEM. */
int gs_export_spans_new(const struct gs_export_spans_options *options,
			struct gs_export_spans **ret_spans);

/* What was not put is gone; NULL inside: nothing happens. */
void gs_export_spans_free(struct gs_export_spans **spans);

/* The sink to push records to; lent as long as it lives. */
const struct gs_sink *gs_export_spans_sink(struct gs_export_spans *spans);

struct gs_export_step {
	uint32_t process, tid;     /* id of a record; of the thread */
	uint64_t start_ns, dur_ns; /* boot clock */
	bool is_regular;           /* about as many calls as in most */
};

/* A step of a thread, when its calls have been pushed. */
void gs_export_spans_step(struct gs_export_spans *spans, const struct gs_export_step *step);

/* Puts what is left, the processes and the command. 0, or the first error of put. */
int gs_export_spans_end(struct gs_export_spans *spans);

struct gs_export_spans_stats {
	uint64_t n_spans;    /* put */
	uint64_t n_left_out; /* by sampling, or for lack of room */
};

/* So far; after the end, of all. */
void gs_export_spans_stats(const struct gs_export_spans *spans,
			   struct gs_export_spans_stats *ret_stats);

#endif
