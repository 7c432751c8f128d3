/* What requests say, and how answers are written: of all endpoints that answer in JSON. */
#ifndef GS_SERVER_LIVE_REPLY_H
#define GS_SERVER_LIVE_REPLY_H

#include "core/base/err.h"
#include "net/http/http.h"
#include "core/text/json.h"

/* Every line of a document is one of these. */
#define j_open   gs_json_open
#define j_close  gs_json_close
#define j_text   gs_json_text
#define j_i64    gs_json_i64
#define j_u64    gs_json_u64
#define j_double gs_json_double
#define j_bool   gs_json_bool
#define j_null   gs_json_null
#define j_time   gs_json_time

/* The reply begins as JSON; returns its body. */
struct gs_buf *gs_live_json(struct gs_http_reply *reply);

/* How many there are in all, and from which place on there are more: next, or null after the last.
 */
void gs_live_put_next(struct gs_buf *b, uint64_t total, uint64_t next);

/* A negative errno as an answer, with err's text if there is one. */
void gs_live_fail(struct gs_http_reply *reply, int r, const struct gs_err *err);
int gs_live_status_of(int r);

/* A number of the query. 1, 0: it is not there, -EINVAL and the reply says so. */
int gs_live_number(const struct gs_http_request *q, struct gs_http_reply *reply, const char *name,
		   double least, double most, double *ret_value);

/* limit of the query, or the usual one; 0: the reply says what is wrong. */
size_t gs_live_limit(const struct gs_http_request *q, struct gs_http_reply *reply);

#endif
