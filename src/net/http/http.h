/*
 * A small HTTP/1.1 server with TLS: one thread, one table of routes given by the caller. A reply is
 * whole, or comes later from another thread, or out of a pipe as it is made, or never ends and is
 * fed with events. Connections never wait for each other: every socket is non-blocking, everything
 * that a client can make large or slow has a limit, and at the limit the client gets a clear answer
 * or is closed and counted.
 *
 * Handlers run on the server's thread and must be quick.
 */
#ifndef GS_NET_HTTP_HTTP_H
#define GS_NET_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"

#define GS_HTTP_HEADERS_MAX 64
#define GS_HTTP_PATH_MAX    1024
#define GS_HTTP_SECRET_MAX  256 /* bytes of a token, or of "user:password" */
#define GS_HTTP_PARAMS_MAX  4

enum gs_http_method {                  /* ored in routes */
		      GS_HTTP_GET = 1, /* and HEAD, which the server makes of it */
		      GS_HTTP_POST = 2,
		      GS_HTTP_PUT = 4,
		      GS_HTTP_DELETE = 8,
		      GS_HTTP_OPTIONS = 16, /* the server answers it itself */
};

/* What who asks may see of processes of others. Without tokens, passwords and certificates of
 * clients it is not known who asks. */
enum gs_http_see {
	GS_HTTP_SEE_NAMES = 0,    /* names of programs */
	GS_HTTP_SEE_SCRUBBED = 1, /* users, and command lines without what looks like a secret */
	GS_HTTP_SEE_WHOLE = 2,    /* command lines as they were kept */
};

/* Lent for the call of a handler. */
struct gs_http_request {
	unsigned method;             /* enum gs_http_method; 0 another */
	bool head;                   /* HEAD: method is GET */
	bool http_1_0;               /* else HTTP/1.1 */
	bool keep_alive;             /* the client asks for it */
	char path[GS_HTTP_PATH_MAX]; /* decoded; starts with '/' */
	const char *query;           /* after the '?', not decoded; "" none */
	struct {
		const char *name, *value; /* terminated; spaces around the value are cut */
	} headers[GS_HTTP_HEADERS_MAX];
	size_t n_headers;
	uint64_t content_bytes; /* as the head says */
	const uint8_t *body;    /* content_bytes, in handlers */
	/* What stands for the "{}" of the route's path, decoded. */
	const char *param[GS_HTTP_PARAMS_MAX];
	char params[GS_HTTP_PATH_MAX];
	bool may_control;     /* who asks may call routes of control */
	bool is_cross_origin; /* from a page of another origin, one of options->origins */
	enum gs_http_see see;
	bool gzip;  /* Accept-Encoding takes it */
	bool local; /* from this machine: making a body smaller costs more than it saves */
};

/* The value of a header, in whatever case its name is; NULL when it is not there. */
const char *gs_http_header(const struct gs_http_request *request, const char *name);

/* The value of a parameter of the query, decoded. 1, or 0: it is not there (out is ""), or -EINVAL:
 * too long, or no text. */
int gs_http_query(const struct gs_http_request *request, const char *name, char *out, size_t bytes);

/* As gzip, into an empty buffer. False: it is too small to gain anything, or there is no memory. */
bool gs_http_gzip(const struct gs_buf *body, struct gs_buf *out);

struct gs_http_deferred;

/* A body that is read from a descriptor (a pipe) until its end, and sent as it comes. */
struct gs_http_source {
	int fd; /* taken over */
	/* At its end, on the server's thread: whether that is the whole body. When not, the client
	 * sees a body that was cut off. NULL: it is. */
	bool (*whole)(void *ctx);
	void (*free)(void *ctx); /* at last, in any case, on the server's thread; may be NULL */
	void *ctx;
};

struct gs_http_reply {
	int status;          /* 200 unless the handler changes it */
	const char *type;    /* "text/plain; charset=utf-8" unless changed; lent for ever */
	struct gs_buf body;  /* filled by the handler, owned by the server */
	bool no_compression; /* of bodies that are compressed already */
	bool is_gzip;        /* the body is gzip, because the request takes it: gs_http_gzip() */
	bool json_errors;    /* what gs_http_error() writes */
	const char *etag; /* "\"...\"": may be kept and asked for again; lent for ever; NULL none */
	const char *policy;  /* Content-Security-Policy; lent for ever; NULL: nothing is allowed */
	char file_name[160]; /* to be saved under it; "" to be shown. ASCII, without quotes */
	unsigned topics;     /* not 0: no end; what gs_http_publish() says of any of these */
	bool has_source;     /* instead of the body */
	struct gs_http_source source;   /* where the body comes from, by has_source */
	struct gs_http_deferred *later; /* set by gs_http_defer() */
};

/* The reply as an error: "404 Not Found: text", or where the server has json_errors
 * {"error":{"code":"NOT_FOUND","message":"text"}}. text is UTF-8. */
void gs_http_error(struct gs_http_reply *reply, int status, const char *text);

/* In a handler: the answer comes from elsewhere. The handle is the caller's, for one call of
 * gs_http_answer() from any thread, also after the client or the server went. NULL: no memory. */
struct gs_http_deferred *gs_http_defer(struct gs_http_reply *reply);

/* The reply is taken over (and empty afterwards), the handle is gone. */
void gs_http_answer(struct gs_http_deferred **later, struct gs_http_reply *reply);

/* An empty reply for gs_http_answer(). */
struct gs_http_reply gs_http_reply_new(const struct gs_http_deferred *later);

struct gs_http_route {
	const char *path; /* "/a/{}/b": a part that is not empty stands for {}. First match wins */
	unsigned methods; /* enum gs_http_method, ored */
	bool open;        /* also without authorization */
	/* Also for other machines where the server asks for no secret: says nothing of who does
	 * what. Routes that are open are such as well. */
	bool harmless;
	/* Whether we are well: answered without a place among max_connections too. With apart it
	 * goes before others, and is answered within 2 s, with 503 if there is no answer. */
	bool vital;
	/* Changes something: needs the role of control, a body of JSON if there is one, and not a
	 * page of another origin that makes a browser send it. */
	bool control;
	void (*serve)(void *ctx, const struct gs_http_request *request,
		      struct gs_http_reply *reply);
	void *ctx; /* of serve; NULL: that of the server */
};

struct gs_http_options {
	size_t size; /* of this struct */
	const char
		*listen; /* "127.0.0.1:14780", "[::1]:14780", "host:port", "*:port"; port 0: any */
	/* Files in PEM; NULL or "": no TLS. With client_ca a client must show a certificate. */
	const char *tls_cert, *tls_key, *tls_client_ca;
	/* Files with a secret on each line (bearer tokens; "user:password"), '#' comments. When
	 * either is given, routes that are not open ask for one. */
	const char *token_file, *basic_file;
	/* Or what a bearer token may: 0 nothing, 1 read, 2 also call routes of control. Any time,
	 * on the server's thread. NULL: token_file says. */
	unsigned (*token_role)(void *ctx, const char *token);
	void *token_ctx;
	/* Names under which a server is asked for beside those of its machine, with commas; "*":
	 * any; NULL: none. */
	const char *hosts;
	/* Origins ("https://grafana.example:3000", with commas) whose pages may ask as pages of our
	 * own may (CORS). With apart they may read only. NULL: none. */
	const char *origins;
	/* Without tokens, passwords and certificates of clients: other machines get all routes, not
	 * only those that are harmless. */
	bool anonymous;
	/* Who shows no secret, also where none is asked for, may not call routes of control. */
	bool guarded;
	bool json_errors;
	/* Of both a client's address may have half (gs_net_peer_key()). When there is no place
	 * left, a connection that waits for its client makes room: the oldest of the address that
	 * has most, or that has its half. Where all are at work, the new one gets 503. */
	unsigned max_streams; /* connections that are fed with events; 0: half of max_connections */
	unsigned max_connections;           /* 0: 64 */
	size_t max_head_bytes;              /* of request line and headers; 0: 16 KiB */
	size_t max_body_bytes;              /* of a request; 0: none is taken */
	uint64_t timeout_ns;                /* of sending a request, of taking a reply; 0: 10 s */
	uint64_t idle_ns;                   /* between two requests; 0: 90 s */
	const struct gs_http_route *routes; /* lent until the server stops */
	size_t n_routes;
	void *ctx; /* of the handlers */
	/* Connections, TLS, tokens and HTTP are the business of a process without rights
	 * (doc/internals/privileges.md). Handlers run in this one, on a thread of its own, on
	 * requests that were checked twice: they see no headers but Accept, and no body, and answer
	 * at once or with topics. Not with token_role. */
	bool apart;
	/* What became of that process, in words; on the server's thread. NULL: not reported. */
	void (*report)(void *ctx, const char *text);
};

struct gs_http;

/* "HOST:PORT" as listen takes it. */
bool gs_http_listen_valid(const char *text);

/* A name as options->hosts lists it. */
bool gs_http_hosts_valid(const char *text);

/* An origin as options->origins lists it: as browsers write it, scheme, host and port alone. */
bool gs_http_origin_valid(const char *text);

/* Reads the files, listens and starts the thread. A negative errno with err in one line: port in
 * use, file not readable, key of another certificate, ... */
int gs_http_start(const struct gs_http_options *options, struct gs_http **ret_http,
		  struct gs_err *err);

/* Read the files as a start would, without listening. A negative errno with err. */
int gs_http_check(const struct gs_http_options *options, struct gs_err *err);

/* New options, with all files read again; on failure everything stays as it was. An address that
 * stays the same is not left for a moment. Routes and ctx stay those of the start. A negative errno
 * with err. */
int gs_http_reload(struct gs_http *http, const struct gs_http_options *options, struct gs_err *err);
void gs_http_stop(struct gs_http **http);

/* Where it listens, with the real port: "127.0.0.1:14780". Lent until the next reload. */
const char *gs_http_address(const struct gs_http *http);

/* A piece for all connections that asked for any of these topics: a whole number of lines. Any
 * thread. A connection that has not taken earlier pieces when this one finds no room is closed and
 * counted; -ENOBUFS: the server's thread is so far behind that no client gets it. */
int gs_http_publish(struct gs_http *http, unsigned topics, const char *text, size_t bytes);

/* False when the thread has not come around since the last call, which must be some time ago. */
bool gs_http_answers(struct gs_http *http);

#define GS_HTTP_CLASSES 5 /* of answers: 1xx to 5xx */

struct gs_http_stats {                      /* since the start */
	uint64_t requests[GS_HTTP_CLASSES]; /* answered, by class of the status: 1xx first */
	uint64_t connections;               /* taken */
	uint64_t refused;      /* connections that got 503 or were closed at once: too many */
	uint64_t evicted;      /* connections that made room for others */
	uint64_t timed_out;    /* too slow in sending a request or taking a reply */
	uint64_t tls_failures; /* handshakes that failed */
	uint64_t open;         /* connections now */
	uint64_t streams;      /* of them, fed with events */
	uint64_t slow;         /* streams that were closed because they did not read */
	uint64_t unpublished;  /* pieces that found no room in the server */
	uint64_t cut;          /* bodies that ended before they were whole */
	uint64_t restarts;     /* of the server's process, because it ended by itself ... */
	uint64_t hung;         /* ... did not answer ... */
	uint64_t lied;         /* ... or sent what it may not send */
	int pid;               /* of the server's process; 0: there is none */
};

/* Any thread; each number is exact, the numbers are not of one instant. */
void gs_http_stats(const struct gs_http *http, struct gs_http_stats *ret_stats);

/* Whether this program was started to be the process of a server (options->apart); and then that
 * process, until its end. What its main() returns. */
bool gs_http_apart_is_called(int argc, char **argv);
int gs_http_apart_main(void);

#endif
