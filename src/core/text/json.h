/*
 * A compact JSON document into a buffer, member by member, whatever bytes come in. A key is NULL in
 * lists. Commas are its business. Failures are those of the buffer, which the caller meets when it
 * has all of it.
 */
#ifndef GS_CORE_TEXT_JSON_H
#define GS_CORE_TEXT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

void gs_json_open(struct gs_buf *out, const char *key, char bracket); /* '{' or '[' */
void gs_json_close(struct gs_buf *out, char bracket);
void gs_json_text(struct gs_buf *out, const char *key, const char *text);
void gs_json_i64(struct gs_buf *out, const char *key, int64_t v);
void gs_json_u64(struct gs_buf *out, const char *key, uint64_t v);
void gs_json_double(struct gs_buf *out, const char *key, double v); /* not finite: null */
void gs_json_bool(struct gs_buf *out, const char *key, bool v);
void gs_json_null(struct gs_buf *out, const char *key);
void gs_json_time(struct gs_buf *out, const char *key,
		  int64_t wall_ns); /* RFC 3339, UTC; 0: null */

#endif
