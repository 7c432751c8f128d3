/*
 * HTTP requests and e-mail to others' servers, by libcurl, which is opened at run time: a program
 * that sends nothing needs none. Both are made in a process without rights (core/sender/sender.h),
 * which is kept for the next request of the same URL; when it dies or hangs, the request has failed
 * and the next one gets another process. A call waits for its answer and belongs on a thread that
 * may wait.
 */
#ifndef GS_NET_HTTP_CLIENT_HTTP_CLIENT_H
#define GS_NET_HTTP_CLIENT_HTTP_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"

/* Start a process that will have the library, and do not wait for it: for a program that has other
 * things to do before gs_http_client_load(). */
void gs_http_client_begin(void);

/* Have a process that has the library. -ENOENT with err: it is not installed, or too old. */
int gs_http_client_load(struct gs_err *err);

/* A URL as it may stand in messages and logs: users, passwords and what is asked for are left out,
 * and with is_secret the path too (of web hooks it is the secret). Returns out. */
const char *gs_http_client_shown(const char *url, bool is_secret, char *out, size_t bytes);

#define GS_HTTP_CLIENT_HEADERS_MAX 8

struct gs_http_client_http {
	const char *url;             /* http:// or https:// */
	const char *token, *ca_file; /* bearer; PEM. NULL or "": none, the system's */
	const char *type;            /* of the body; NULL: "application/json" */
	const char *header[GS_HTTP_CLIENT_HEADERS_MAX]; /* "Name: value"; NULL: no more */
	const void *body;                               /* NULL: GET */
	size_t bytes;                                   /* of body */
	/* A unary call of gRPC: the body is its message, the answer the message that comes back, or
	 * where the status is not 0 what the server says of it. The URL's path is the method's. */
	bool grpc;
	uint64_t timeout_ns;
	const atomic_bool *stop; /* ends soon after it becomes true */
	struct gs_buf *answer; /* the body that comes back, as far as it has room; NULL: dropped */
	/* In place of answer, piece by piece; a negative errno ends it. Also of a status that is an
	 * error. */
	int (*take)(void *ctx, const void *data, size_t bytes);
	void *take_ctx;
};

/* 0 and the status of the answer, of HTTP or of gRPC (0 is its success), whatever it says; or a negative errno with err and then
 * *ret_status as far as one was there, else 0. ret_retry_after_ns (may be NULL): what "Retry-After"
 * asks for, 0 nothing. Redirections are not followed. */
int gs_http_client_http(const struct gs_http_client_http *request, long *ret_status,
			uint64_t *ret_retry_after_ns, struct gs_err *err);

/* Libcurl's numbers. */
enum gs_http_client_ssl {
	GS_HTTP_CLIENT_SSL_NO = 0,
	GS_HTTP_CLIENT_SSL_TRY = 1, /* if the server can */
	GS_HTTP_CLIENT_SSL_ALWAYS = 3,
};

struct gs_http_client_mail {
	const char *url;                           /* smtp://HOST:PORT/OWN-NAME or smtps://... */
	int use_ssl;                               /* enum gs_http_client_ssl: STARTTLS */
	const char *username, *password, *ca_file; /* "" none */
	const char *from, *recipients;             /* recipients with commas */
	const char *body;                          /* headers and text, as they are sent */
	size_t bytes;                              /* of body */
	uint64_t timeout_ns;
	const atomic_bool *stop; /* as in struct gs_http_client_http */
};

/* Likewise; the status is SMTP's last. */
int gs_http_client_mail(const struct gs_http_client_mail *mail, long *ret_status,
			struct gs_err *err);

/* Of a process that was started to send (gs_sender_is_called() with "fetch"). Does not return. */
int gs_http_client_sender_main(void);

/* Why no sender could work here: "" is none, else what is missing and what to install, lent for ever. Loads libcurl into this
 * process: for one that shows it and ends. */
const char *gs_http_client_missing(void);

#endif
