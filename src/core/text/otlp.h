/*
 * What the messages of OTLP (opentelemetry-proto 1.x) have in common: metrics, logs and traces are
 *
 *   Request  { repeated Resource... = 1; }
 *   Resource { Resource resource = 1; repeated Scope... = 2; }
 *   Scope    { InstrumentationScope scope = 1; repeated (Metric | LogRecord | Span) = 2; }
 *
 *   Resource             { repeated KeyValue attributes = 1; }
 *   InstrumentationScope { string name = 1; string version = 2; }
 *   KeyValue             { string key = 1; AnyValue value = 2; }
 *   AnyValue             { string string_value = 1; bool bool_value = 2; int64 int_value = 3;
 *                          double double_value = 4; }
 *
 * Lengths of what contains all the rest are not known before its end: five bytes are kept for them,
 * which every reader takes. Several such messages, one after the other, are one message.
 */
#ifndef GS_CORE_TEXT_OTLP_H
#define GS_CORE_TEXT_OTLP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/text/pb.h"

#define GS_OTLP_ITEM 2 /* field of what a scope contains */

/* A field whose length is put at its end; *ret_at goes to gs_otlp_close(). 0, -ENOMEM, -ENOBUFS. */
int gs_otlp_open(struct gs_buf *out, uint32_t field, size_t *ret_at);
void gs_otlp_close(struct gs_buf *out, size_t at);

/* A KeyValue as this field; the caller has made room: 32 bytes and the name, and of a text three
 * times its length. */
void gs_otlp_attribute(struct gs_pb *pb, uint32_t field, const char *name, const char *text);
void gs_otlp_attribute_int(struct gs_pb *pb, uint32_t field, const char *name, int64_t value);

struct gs_otlp_label { /* an attribute of the resource; "" as a value: it is left out */
	const char *name, *value;
};

struct gs_otlp_message {
	size_t resource_at, scope_at; /* where their lengths stand */
};

/* The beginning of a message, up to where items follow: gpuscope as the service and the scope, and
 * labels. 0, -ENOMEM, -ENOBUFS. */
int gs_otlp_begin(struct gs_buf *out, const struct gs_otlp_label *labels, size_t n_labels,
		  struct gs_otlp_message *ret_message);
void gs_otlp_end(struct gs_buf *out, const struct gs_otlp_message *message);

#endif
