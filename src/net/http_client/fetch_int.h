/* Between the sender, which has libcurl, and the holder, which has what is to be sent. */
#ifndef GS_FETCH_FETCH_INT_H
#define GS_FETCH_FETCH_INT_H

#include "net/http_client/fetch.h"
#include "core/sender/sender.h"

#define FETCH_WORK "fetch"

enum fetch_message {
	FETCH_HELLO = 1, /* what protects it; a text: why there is no libcurl, "" there is */
	FETCH_HTTP,      /* fetch_put_http() */
	FETCH_MAIL,      /* fetch_put_mail() */
	FETCH_DATA,      /* a piece of the answer's body */
	FETCH_DONE,      /* fetch_put_result() */
};

#define FETCH_DATA_MAX (64u << 10) /* of one message */

struct fetch_result {
	int r; /* of libcurl: 0, -EIO, ... */
	long status;
	uint64_t retry_after_ns;
	struct gs_err err;
};

/* --- fetch.c: libcurl, in the sender --- */

const char *fetch_load_curl(void); /* "" it is there; else why not */

/* As gs_fetch_http() and gs_fetch_mail(). */
void fetch_perform_http(const struct gs_fetch_http *q, struct fetch_result *ret);
void fetch_perform_mail(const struct gs_fetch_mail *m, struct fetch_result *ret);

/* --- wire.c; a body is lent --- */

void fetch_put_http(struct gs_wire_out *out, const struct gs_fetch_http *q, uint64_t answer_max);
bool fetch_take_http(struct gs_wire_in *in, struct gs_fetch_http *ret, uint64_t *ret_answer_max);
void fetch_put_mail(struct gs_wire_out *out, const struct gs_fetch_mail *m);
bool fetch_take_mail(struct gs_wire_in *in, struct gs_fetch_mail *ret);
void fetch_put_result(struct gs_wire_out *out, const struct fetch_result *result);
bool fetch_take_result(struct gs_wire_in *in, struct fetch_result *ret);

#endif
