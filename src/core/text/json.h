/*
 * A compact JSON document into a buffer, member by member, whatever bytes come in. A key is NULL in
 * lists. Commas are its business. What the buffer refused is in its r, which the caller asks when it
 * has all of it: after a refusal the document is not whole.
 *
 * gs_doc is the same for files that people read, too: indented, in pieces into a file, and also YAML.
 * It takes three times as long (55 ns a value, this 17, members put together by core/text/put.h
 * alone, as traces are, 8), and an answer of the API has hundreds of thousands of values, so both
 * stay. Numbers, texts and times are spelled by core/text/put.h and gs_text_json() in both;
 * tests/unit/text holds all three to the same bytes for the same values.
 */
#ifndef GS_CORE_TEXT_JSON_H
#define GS_CORE_TEXT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

/* One member each; open begins an object or a list, which close ends by its '}' or ']'. key and
 * text are borrowed for the call. */
void gs_json_open(struct gs_buf *out, const char *key, char bracket); /* '{' or '[' */
void gs_json_close(struct gs_buf *out, char bracket);
void gs_json_text(struct gs_buf *out, const char *key, const char *text);
void gs_json_i64(struct gs_buf *out, const char *key, int64_t v);
void gs_json_u64(struct gs_buf *out, const char *key, uint64_t v);
void gs_json_double(struct gs_buf *out, const char *key, double v); /* not finite: null */
void gs_json_bool(struct gs_buf *out, const char *key, bool v);
void gs_json_null(struct gs_buf *out, const char *key);
void gs_json_time(struct gs_buf *out, const char *key,
		  int64_t wall_ns); /* RFC 3339, UTC, ms; 0 or less: null */
/* A value that is JSON already. */
void gs_json_spelled(struct gs_buf *out, const char *key, const void *text, size_t bytes);

#endif
