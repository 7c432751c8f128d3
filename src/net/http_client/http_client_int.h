/* Between the sender, which has libcurl, and the holder, which has what is to be sent. */
#ifndef GS_NET_HTTP_CLIENT_HTTP_CLIENT_INT_H
#define GS_NET_HTTP_CLIENT_HTTP_CLIENT_INT_H

#include "net/http_client/http_client.h"
#include "core/sender/sender.h"

#define FETCH_WORK "fetch"

enum http_client_message {
	FETCH_HELLO = 1, /* what protects it; a text: why there is no libcurl, "" there is */
	FETCH_HTTP,      /* http_client_put_http() */
	FETCH_MAIL,      /* http_client_put_mail() */
	FETCH_DATA,      /* a piece of the answer's body */
	FETCH_DONE,      /* http_client_put_result() */
};

#define FETCH_DATA_MAX (64u << 10) /* of one message */

struct http_client_result {
	int r; /* of libcurl: 0, -EIO, ... */
	long status;
	uint64_t retry_after_ns;
	struct gs_err err;
};

/* --- http_client.c: libcurl, in the sender --- */

const char *http_client_load_curl(void); /* "" it is there; else why not */

/* --- grpc.c: a call of gRPC as a request of HTTP/2 --- */

struct http_client_grpc {  /* what is known of the answer */
	size_t head_bytes; /* of the frame in front of the message, so far */
	int status;        /* as the server says; -1: not yet */
	char message[256]; /* of it, decoded */
};

#define HTTP_CLIENT_GRPC_HEAD 5

/* The message with its frame; the caller frees. NULL: no memory. */
uint8_t *http_client_grpc_body(const struct gs_http_client_http *q, size_t *ret_bytes);

/* What of a piece of the answer is the message. */
void http_client_grpc_strip(struct http_client_grpc *g, const char **data, size_t *bytes);

/* A header or trailer, as libcurl gives them. */
void http_client_grpc_header(struct http_client_grpc *g, const char *data, size_t bytes);

/* The status of the call; http_status: of the answer, as long as the server says none of gRPC. */
int http_client_grpc_status(const struct http_client_grpc *g, long http_status);

/* As gs_http_client_http() and gs_http_client_mail(). */
void http_client_perform_http(const struct gs_http_client_http *q, struct http_client_result *ret);
void http_client_perform_mail(const struct gs_http_client_mail *m, struct http_client_result *ret);

/* --- wire.c; a body is lent --- */

void http_client_put_http(struct gs_wire_out *out, const struct gs_http_client_http *q,
			  uint64_t answer_max);
bool http_client_take_http(struct gs_wire_in *in, struct gs_http_client_http *ret,
			   uint64_t *ret_answer_max);
void http_client_put_mail(struct gs_wire_out *out, const struct gs_http_client_mail *m);
bool http_client_take_mail(struct gs_wire_in *in, struct gs_http_client_mail *ret);
void http_client_put_result(struct gs_wire_out *out, const struct http_client_result *result);
bool http_client_take_result(struct gs_wire_in *in, struct http_client_result *ret);

#endif
