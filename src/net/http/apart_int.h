/*
 * Between a server's process and the process that holds the rights and the values (the holder). The
 * holder believes its own memory alone: what the server says is decoded by
 * http_apart_take_request() and http_apart_take_counts(), which take nothing that is not exactly as
 * it has to be.
 *
 *   server ─► holder   HELLO, REQUEST, COUNTS, PONG
 *   holder ─► server   START, SETTINGS, ANSWER, NEWS, PING
 */
#ifndef GS_NET_HTTP_APART_INT_H
#define GS_NET_HTTP_APART_INT_H

#include "net/http/server_int.h"
#include "core/reader/wire.h"
#include "core/sandbox/sandbox.h"

#define HTTP_APART_ARGUMENT "--serve-for-parent" /* argv[1] of the server */
#define HTTP_APART_SOCKET   GS_SANDBOX_FIRST_FILE
#define HTTP_APART_LISTEN   (GS_SANDBOX_FIRST_FILE + 1)

#define HTTP_APART_QUERY_MAX   4096
#define HTTP_APART_ACCEPT_MAX  512
#define HTTP_APART_MESSAGE_MAX 8192 /* of what the server says */

enum http_apart_kind {
	HTTP_APART_HELLO = 1,
	HTTP_APART_REQUEST,
	HTTP_APART_COUNTS,
	HTTP_APART_PONG,
	HTTP_APART_START,
	HTTP_APART_SETTINGS,
	HTTP_APART_ANSWER,
	HTTP_APART_NEWS,
	HTTP_APART_PING,
};

struct http_apart_head {
	uint32_t bytes, kind; /* bytes that follow */
};

/* Room for a head, to be filled by http_apart_end(); where it is. Errors stay in out. */
size_t http_apart_begin(struct gs_wire_out *out);
void http_apart_end(struct gs_wire_out *out, size_t at, enum http_apart_kind kind);

/* 1 and one message of at most max bytes, lent, with its bytes; 0: it is not whole; -EBADMSG. */
int http_apart_next(const struct gs_buf *in, size_t at, size_t max,
		    struct http_apart_head *ret_head);

/* --- requests --- */

/* What is taken of the request of a client. False: a part of it is longer than what is passed on,
 * or none of the characters that are. */
bool http_apart_put_request(struct gs_wire_out *out, uint64_t id, uint32_t route,
			    const struct gs_http_request *q);

/* The message's text is lent to ret. False: no server of ours says that. */
bool http_apart_take_request(struct gs_wire_in *in, const struct gs_http_route *routes,
			     size_t n_routes, uint64_t *ret_id, uint32_t *ret_route,
			     struct gs_http_request *ret);

/* --- counts: the numbers of struct gs_http_stats that a server's process knows --- */

void http_apart_put_counts(struct gs_wire_out *out, const struct gs_http_stats *s);

/* False: bad, or one that only grows became less than before. */
bool http_apart_take_counts(struct gs_wire_in *in, const struct gs_http_stats *before,
			    struct gs_http_stats *ret);

/* To each of the numbers that only grow. */
void http_apart_add_counts(struct gs_http_stats *to, const struct gs_http_stats *more);

/* --- what the holder says; believed --- */

/* A server's settings, without what only this process has. */
void http_apart_put_settings(struct gs_wire_out *out, const struct settings *s);
struct settings *http_apart_take_settings(struct gs_wire_in *in); /* NULL: bad, or no memory */

void http_apart_put_routes(struct gs_wire_out *out, const struct gs_http_route *r, size_t n);

void http_apart_put_answer(struct gs_wire_out *out, uint64_t id, const struct gs_http_reply *reply);

#endif
