/*
 * A gRPC server: HTTP/2 by libnghttp2, TLS by OpenSSL, one thread with epoll, bytes in and bytes
 * out. Whatever is in the messages (protobuf, our own records) is the caller's; this room knows
 * paths, calls, messages as runs of bytes, statuses and metadata. The other end is grpc_client.h.
 *
 *   peer ──bytes──► connection ──frames──► call ──whole messages──► handlers of a method
 *                                            ▲
 *          any thread: gs_grpc_call_send(), _finish(), _pause() ...  (queued, the thread is woken)
 *
 * Handlers run on the server's thread and must be quick: work that waits (a disk, a lock) is given
 * to another thread, which answers the call when it is done. Nothing that a peer can make large or
 * slow is without a limit, and at each limit the peer gets a status or a GOAWAY, and it is counted.
 *
 * Life of a call: start ► message* ► half_closed ► ... ► closed. `closed` comes once for each call
 * whose `start` was called (or would have been, had it not been NULL) and is the last the room says
 * of it, however the call ended; between them the room holds one reference of the call, so handlers
 * need none of their own. Who keeps a call longer, or gives it to another thread, takes one with
 * gs_grpc_call_ref(). All functions on a call may be called with a call that is over: they answer
 * -EPIPE and do nothing.
 */
#ifndef GS_NET_GRPC_GRPC_H
#define GS_NET_GRPC_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

/* The numbers of gRPC (its doc/statuscodes.md). */
enum gs_grpc_status {
	GS_GRPC_OK = 0,
	GS_GRPC_CANCELLED = 1,
	GS_GRPC_UNKNOWN = 2,
	GS_GRPC_INVALID_ARGUMENT = 3,
	GS_GRPC_DEADLINE_EXCEEDED = 4,
	GS_GRPC_NOT_FOUND = 5,
	GS_GRPC_ALREADY_EXISTS = 6,
	GS_GRPC_PERMISSION_DENIED = 7,
	GS_GRPC_RESOURCE_EXHAUSTED = 8,
	GS_GRPC_FAILED_PRECONDITION = 9,
	GS_GRPC_ABORTED = 10,
	GS_GRPC_OUT_OF_RANGE = 11,
	GS_GRPC_UNIMPLEMENTED = 12,
	GS_GRPC_INTERNAL = 13,
	GS_GRPC_UNAVAILABLE = 14,
	GS_GRPC_DATA_LOSS = 15,
	GS_GRPC_UNAUTHENTICATED = 16,
	GS_GRPC_STATUS_COUNT,
};

/* "RESOURCE_EXHAUSTED"; "UNKNOWN" for a number that is none. Lent for ever. */
const char *gs_grpc_status_name(unsigned status);

#define GS_GRPC_TEXT_MAX 1024 /* bytes of a status message, zero included; longer ones are cut */

struct gs_grpc_server;
struct gs_grpc_call;

/* --- methods --- */

/* A client that sends none or two messages in a unary call gets INTERNAL (of two, the first was
 * delivered). Server-streaming is UNARY here, with
 * any number of gs_grpc_call_send() before gs_grpc_call_finish(). */
enum gs_grpc_kind {
	GS_GRPC_UNARY = 1, /* one message in; also server-streaming */
	GS_GRPC_STREAM,    /* any number in: client-streaming and bidirectional */
};

/* Lent to the server for its life. Each handler but `message` may be NULL. */
struct gs_grpc_method {
	const char *path;         /* "/gswarm_profiler.ProfilerService/Connect" */
	enum gs_grpc_kind kind;   /* which side sends one message, which any number */
	unsigned role;            /* the caller's: for the token hook */
	bool open;                /* the token hook is not asked */
	size_t max_message_bytes; /* of one message in; 0: the server's */

	/* Metadata are there, the hook has agreed. May send, finish, set the user pointer. */
	void (*start)(void *ctx, struct gs_grpc_call *call);
	/* One whole message; data is lent for the call of the handler. */
	void (*message)(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes);
	/* The client sends no more (not called for UNARY). The call still waits for its finish. */
	void (*half_closed)(void *ctx, struct gs_grpc_call *call);
	/* After gs_grpc_call_send() said -ENOBUFS: half of the queue is free again. */
	void (*writable)(void *ctx, struct gs_grpc_call *call);
	/* The end. status is what the peer got, or would have been: CANCELLED (by the client,
	 * or it went away), DEADLINE_EXCEEDED, UNAVAILABLE (the server stops), or what the handler
	 * or the room finished with. With GS_GRPC_OK everything that was sent is on its way;
	 * whether the peer has read it is not known. */
	void (*closed)(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status);
	void *ctx; /* of these handlers; NULL: that of the server */
};

/* --- options --- */

/* Asked before `start`, on the server's thread. token is what stands after "Bearer " in the
 * metadata `authorization`, NULL when there is none (or more than one). Returns GS_GRPC_OK, or
 * UNAUTHENTICATED, PERMISSION_DENIED, ... which the client gets. Compares in constant time. */
typedef enum gs_grpc_status (*gs_grpc_authorize_fn)(void *ctx, const struct gs_grpc_call *call,
						    const struct gs_grpc_method *method,
						    const char *token);

#define GS_GRPC_LISTEN_MAX 16

/* How long the certificate in this file is good, negative when it has expired. False: it is not
 * known. */
bool gs_grpc_certificate_left(const char *cert, int64_t *ret_s);

struct gs_grpc_server_options {
	size_t size; /* of this struct */
	/* "127.0.0.1:8090", "[::1]:8090", "host:port", "*:port"; port 0: any. */
	const char *const *listen;
	size_t n_listen; /* 1 to GS_GRPC_LISTEN_MAX */
	/* Files in PEM; NULL or "": plaintext HTTP/2 (what grpcio calls insecure). With client_ca a
	 * client must show a certificate signed by one of it. TLS 1.2 at least, ALPN "h2". */
	const char *tls_cert, *tls_key, *tls_client_ca;
	const struct gs_grpc_method *methods; /* lent until the server stops */
	size_t n_methods;
	void *ctx;                      /* of handlers and hook */
	gs_grpc_authorize_fn authorize; /* NULL: everybody may call everything */
	const char *denied;             /* what PERMISSION_DENIED says; NULL: "... this token" */

	/* Limits; 0 is what stands after it. At the limits of connections one without a running
	 * call is closed for a new one: the oldest of the address that has most, or that has its
	 * share already. An address is what gs_net_peer_key() says; UINT_MAX: no limit. */
	unsigned max_connections;             /* 16384, and less than there are descriptors */
	unsigned max_connections_per_address; /* half of that */
	unsigned max_streams;                 /* calls at once on one connection; 256 */
	size_t max_message_bytes;             /* in; 4 MiB, as grpcio */
	/* Names + values + 32 each; 16 KiB. Above it a call gets RESOURCE_EXHAUSTED; above four
	 * times as much its stream is reset, and the third time the connection ends. */
	size_t max_metadata_bytes;
	size_t max_queue_bytes; /* messages out that wait, of one call; 4 MiB */
	size_t max_held_bytes;  /* messages in that are not whole, of all; 256 MiB */
	size_t window_bytes;    /* that a call may send unread; 1 MiB */
	/* Messages in, of one connection: a stream is read more slowly, a unary call gets
	 * RESOURCE_EXHAUSTED. 0: no limit. */
	double messages_per_second;
	unsigned message_burst; /* at once before that; 0: one second's worth */

	/* Times; 0 is what stands after it, UINT64_MAX is never. */
	uint64_t handshake_ns;         /* until TLS, preface and SETTINGS are there; 10 s */
	uint64_t idle_ns;              /* a connection without calls: GOAWAY; 10 min */
	uint64_t keepalive_ns;         /* nothing heard for so long: PING; 20 s */
	uint64_t keepalive_timeout_ns; /* ... and no sign of life after it: closed; 10 s */
	/* Of clients' PINGs. Each that comes sooner than this after the one before is a strike,
	 * more than GS_GRPC_PING_STRIKES in a row: GOAWAY "too_many_pings". 1 s; UINT64_MAX: any
	 * number is answered. */
	uint64_t min_ping_ns;
};

#define GS_GRPC_PING_STRIKES 10

/* --- server --- */

/* Reads the files, listens on all addresses and starts the thread. A negative errno with err in one
 * line: port in use, file not readable, two methods of one path, ... */
int gs_grpc_server_start(const struct gs_grpc_server_options *options,
			 struct gs_grpc_server **ret_server, struct gs_err *err);

/* A listening Unix socket as well, without TLS; taken over in any case. Who connects as root, as
 * the server's own user or as one of the group (-1: none) is trusted: gs_grpc_call_trusted(). Once.
 * 0 or -ENOMEM. */
int gs_grpc_server_add_local(struct gs_grpc_server *server, int fd, gid_t group);

/* Graceful end: no new connections, GOAWAY to all, calls that run may finish for grace_ns (0: none
 * of it); what still runs then gets UNAVAILABLE "the server is shutting down". Blocks until every call had its
 * `closed`. Not from a handler. References that others hold stay valid; their calls are over. */
void gs_grpc_server_stop(struct gs_grpc_server **server, uint64_t grace_ns);

/* Certificates and key are read again; connections that are there keep the old ones. On failure
 * everything stays as it was. Any thread but not a handler. -EINVAL: a server without TLS. */
int gs_grpc_server_reload_tls(struct gs_grpc_server *server, struct gs_err *err);

/* Run fn(arg) on the server's thread, soon, in order. Any thread; also from handlers. 0 or -ENOMEM.
 * What was posted before gs_grpc_server_stop() runs before that returns. */
int gs_grpc_server_post(struct gs_grpc_server *server, void (*fn)(void *arg), void *arg);

/* Where it listens, with the real port: "127.0.0.1:8090". NULL: there is no i-th address. Lent
 * while the server runs. */
const char *gs_grpc_server_address(const struct gs_grpc_server *server, size_t i);

/* Causes for which peers were refused something. */
enum gs_grpc_refusal {
	GS_GRPC_REFUSED_CONNECTIONS = 1, /* too many connections: closed at once */
	GS_GRPC_REFUSED_ADDRESS,         /* too many of one address: closed at once */
	GS_GRPC_REFUSED_EVICTED,         /* too many, and this one was idle: closed for another */
	GS_GRPC_REFUSED_NO_FD,           /* accept(2) failed: file descriptors, memory */
	GS_GRPC_REFUSED_HANDSHAKE,       /* TLS failed, or no HTTP/2 came: closed */
	GS_GRPC_REFUSED_SLOW,            /* handshake not in time: closed */
	GS_GRPC_REFUSED_SILENT,          /* keepalive unanswered: closed */
	GS_GRPC_REFUSED_PROTOCOL,        /* broken HTTP/2: GOAWAY */
	GS_GRPC_REFUSED_FLOOD,           /* too many PINGs, resets; giant headers: GOAWAY */
	GS_GRPC_REFUSED_STREAMS,         /* more calls at once than allowed: reset */
	GS_GRPC_REFUSED_METADATA,        /* larger than allowed: RESOURCE_EXHAUSTED */
	GS_GRPC_REFUSED_REQUEST,         /* no gRPC request: HTTP 405, 415; bad headers */
	GS_GRPC_REFUSED_METHOD,          /* unknown path: UNIMPLEMENTED */
	GS_GRPC_REFUSED_ENCODING,        /* compressed messages: UNIMPLEMENTED */
	GS_GRPC_REFUSED_TOKEN,           /* the hook said no */
	GS_GRPC_REFUSED_MESSAGE,         /* message too large: RESOURCE_EXHAUSTED */
	GS_GRPC_REFUSED_FRAMING,         /* messages cut off or miscounted: INTERNAL */
	GS_GRPC_REFUSED_MEMORY,          /* max_held_bytes reached, or no memory */
	GS_GRPC_REFUSED_RATE,            /* unary calls above messages_per_second */
	GS_GRPC_REFUSAL_COUNT,
};

/* "too many connections"; for metrics and logs. Lent for ever. */
const char *gs_grpc_refusal_name(enum gs_grpc_refusal refusal);

struct gs_grpc_stats {        /* since the start; connections_now, calls_now, ...: as of now */
	uint64_t connections; /* taken */
	uint64_t connections_now;
	uint64_t calls; /* whose `start` came */
	uint64_t calls_now;
	uint64_t calls_by_status[GS_GRPC_STATUS_COUNT]; /* that are over */
	uint64_t messages_in, messages_out;             /* of all calls */
	uint64_t message_bytes_in, message_bytes_out;   /* of these */
	uint64_t wire_bytes_in, wire_bytes_out;         /* without TLS's own */
	uint64_t queued_bytes_now;                      /* messages out, of all calls */
	uint64_t held_bytes_now;                        /* messages in that are not whole */
	uint64_t throttled;                             /* times a stream waited for its rate */
	uint64_t idle_closed;                           /* connections ended for lack of calls */
	uint64_t refused[GS_GRPC_REFUSAL_COUNT];        /* enum gs_grpc_refusal */
};

/* Any thread; each number is exact, the numbers are not of one instant. */
void gs_grpc_server_stats(const struct gs_grpc_server *server, struct gs_grpc_stats *ret_stats);

/* --- calls: answering. Any thread. --- */

/* A reference of the caller's own, beside that which a handler is lent; the last one frees the
 * call, which may be over long before. unref: *call is NULL then; NULL: nothing. */
struct gs_grpc_call *gs_grpc_call_ref(struct gs_grpc_call *call);
void gs_grpc_call_unref(struct gs_grpc_call **call);

/* Queue one message (copied). 0; -EPIPE: the call is over or finished; -ENOBUFS: it would not fit
 * into max_queue_bytes: nothing was queued, `writable` comes when half of it is free (a message
 * larger than the whole queue goes into an empty one); -EMSGSIZE: 4 GiB or more; -ENOMEM. */
int gs_grpc_call_send(struct gs_grpc_call *call, const void *data, size_t bytes);

/* End the call once what is queued has gone out. text (may be NULL) is UTF-8 for the client's
 * developer. 0 or -EPIPE. */
int gs_grpc_call_finish(struct gs_grpc_call *call, enum gs_grpc_status status, const char *text);
int gs_grpc_call_finishf(struct gs_grpc_call *call, enum gs_grpc_status status, const char *fmt,
			 ...) GS_PRINTF(3, 4);

/* gs_grpc_call_send() and a finish with OK: the answer of a unary method. 0, or the error of
 * either. */
int gs_grpc_call_reply(struct gs_grpc_call *call, const void *data, size_t bytes);

/* Metadata for the client, before the first message (until then nothing goes out) and with the
 * status. Names are lower case of [0-9a-z_.-] and not "grpc-..."; values printable ASCII, or, with
 * a name that ends in "-bin", any bytes (encoded here). 0, -EINVAL, -EPIPE, -EALREADY (header: the
 * first message was queued), -ENOBUFS (8 KiB in all), -ENOMEM. */
int gs_grpc_call_header(struct gs_grpc_call *call, const char *name, const void *value,
			size_t bytes);
int gs_grpc_call_trailer(struct gs_grpc_call *call, const char *name, const void *value,
			 size_t bytes);

/* Until gs_grpc_call_resume() no message comes, and the client can send only a window more. Calls
 * count: pause twice, resume twice. From another thread a message may still be on its way. */
void gs_grpc_call_pause(struct gs_grpc_call *call);
void gs_grpc_call_resume(struct gs_grpc_call *call);

struct gs_grpc_flow {
	size_t queued_bytes, queued_messages; /* out, not yet given to the connection */
	size_t window_bytes;                  /* the peer takes so much more now */
};

/* As of now; it may have changed when this returns. */
void gs_grpc_call_flow(struct gs_grpc_call *call, struct gs_grpc_flow *ret_flow);

/* Whether the call is over (or finished, with the end still going out). */
bool gs_grpc_call_over(const struct gs_grpc_call *call);

/* --- calls: what is known. Any thread; texts are lent as long as the call is referenced. --- */

const struct gs_grpc_method *gs_grpc_call_method(const struct gs_grpc_call *call); /* the row */
const char *gs_grpc_call_peer(const struct gs_grpc_call *call); /* "10.0.0.7:51234", "user 1000" */
/* The names of the client's certificate, DNS names and then the subject's, with commas; NULL: it
 * showed none, or none that names anything. */
const char *gs_grpc_call_names(const struct gs_grpc_call *call);
/* It came over the Unix socket, from a user who may do everything. */
bool gs_grpc_call_trusted(const struct gs_grpc_call *call);
/* Common name of the certificate that the client showed; NULL: none. */
const char *gs_grpc_call_identity(const struct gs_grpc_call *call);
/* Until when the client waits, monotonic; UINT64_MAX: for ever. The room ends the call then. */
uint64_t gs_grpc_call_deadline_ns(const struct gs_grpc_call *call);

struct gs_grpc_metadata {
	const char *name, *value; /* as they came: a "-bin" value is base64 */
};

/* The value of the first with this (lower-case) name; NULL: it did not come. "authorization",
 * "user-agent" and the client's own; what HTTP/2 and gRPC themselves use is not there. */
const char *gs_grpc_call_metadata(const struct gs_grpc_call *call, const char *name);
/* The i-th; false: there are fewer. */
bool gs_grpc_call_metadata_at(const struct gs_grpc_call *call, size_t i,
			      struct gs_grpc_metadata *ret_metadata);

/* A pointer of the handlers', NULL at first. Freed by them, in `closed`. */
void gs_grpc_call_set_user(struct gs_grpc_call *call, void *user);
void *gs_grpc_call_user(const struct gs_grpc_call *call);

/* --- small things for both ends --- */

/* A "-bin" value into bytes (base64 with or without '='). The bytes, or -EINVAL, -ENOBUFS. */
ssize_t gs_grpc_bin_decode(const char *text, void *ret_data, size_t max_bytes);

#endif
