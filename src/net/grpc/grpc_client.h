/*
 * A gRPC client that never blocks: one connection to one of several addresses, any number of calls
 * on it, bytes in and bytes out (see grpc.h). It has no thread of its own: its maker owns it,
 * waits for its file descriptor in a loop and calls gs_grpc_client_work(), in which all callbacks
 * run.
 *
 *   new ► connect ► work* : connected ... disconnected ► connect ► ... ► free
 *
 * It does not connect again by itself, because only its owner knows what shall be sent again:
 * `disconnected` comes once for each gs_grpc_client_connect(), and struct gs_grpc_backoff says when
 * to try the next time.
 *
 * In callbacks everything may be called but gs_grpc_client_work() and gs_grpc_client_free().
 */
#ifndef GS_NET_GRPC_GRPC_CLIENT_H
#define GS_NET_GRPC_GRPC_CLIENT_H

#include "net/grpc/grpc.h"

struct gs_grpc_client;
struct gs_grpc_request; /* the client's side of a call */

struct gs_grpc_client_events { /* each may be NULL */
	/* Connected, TLS done, the server's SETTINGS read: calls go out. address: "10.0.0.1:8090".
	 */
	void (*connected)(void *ctx, const char *address);
	/* The server shall be left (GOAWAY): calls that run may end, new ones get UNAVAILABLE. When
	 * the last has ended the connection is closed. */
	void (*going_away)(void *ctx, const char *why);
	/* The end of the connection or of the attempt; every call has had its `ended` before.
	 * status is what its calls got: UNAVAILABLE, or FAILED_PRECONDITION of a server that
	 * answered and wants TLS, or does not speak it; why says which. */
	void (*disconnected)(void *ctx, enum gs_grpc_status status, const char *why);
};

struct gs_grpc_client_options {
	size_t size; /* of this struct */
	/* "host:port", "10.0.0.1:8090", "[::1]:8090": tried in this order, each with all addresses
	 * that its name has; after a lost connection the next one comes first. "unix:PATH" is a
	 * socket of this machine, without TLS. */
	const char *const *addresses;
	size_t n_addresses; /* 1 to GS_GRPC_LISTEN_MAX */
	bool tls;
	/* Files in PEM. ca NULL or "": the system's. cert and key: what a server with client_ca
	 * asks for. */
	const char *tls_ca, *tls_cert, *tls_key;
	const char *server_name; /* in the certificate; NULL: the host of the address */
	const char *token;       /* "authorization: Bearer ..." on each call; NULL: none */
	const char *user_agent;  /* NULL: "gpuscope/<version>" */
	struct gs_grpc_client_events events;
	/* A connected socket to address number `address`, a "unix:PATH", which becomes the
	 * client's, or a negative errno: for a process that cannot connect to it itself. May be
	 * NULL. */
	int (*connect_local)(void *ctx, size_t address);
	void *ctx; /* of events */

	/* Limits; 0 is what stands after it. */
	size_t max_message_bytes;  /* in; 4 MiB, as grpcio */
	size_t max_metadata_bytes; /* in; 16 KiB */
	size_t max_queue_bytes;    /* messages out that wait, of one call; 4 MiB */
	size_t window_bytes;       /* that the server may send unread on a call; 1 MiB */
	unsigned max_calls;        /* at once; 1024 */

	/* Times; 0 is what stands after it, UINT64_MAX is never. */
	uint64_t connect_ns;           /* of each address: TCP, TLS, SETTINGS; 5 s */
	uint64_t keepalive_ns;         /* nothing heard for so long, calls running: PING; 20 s */
	uint64_t keepalive_timeout_ns; /* ... and no sign of life after it: lost; 10 s */
	bool keepalive_idle;           /* PING also without calls (grpcio servers mind it) */
};

/* Reads the files. A negative errno with err in one line. Does not connect yet. */
int gs_grpc_client_new(const struct gs_grpc_client_options *options,
		       struct gs_grpc_client **ret_client, struct gs_err *err);

/* Running calls are cancelled without any callback. */
void gs_grpc_client_free(struct gs_grpc_client **client);

/* Begin to connect. 0; -EALREADY: it is connected or about to; other negative errnos: it could not
 * even begin, and no event follows. */
int gs_grpc_client_connect(struct gs_grpc_client *client);

/* Leave: no more calls; those that run are waited for when they end by themselves (true), or
 * cancelled (false). `disconnected` follows from gs_grpc_client_work(), with GS_GRPC_OK. */
void gs_grpc_client_disconnect(struct gs_grpc_client *client, bool wait_for_calls);

/* To wait for: readable when there is work. The same as long as the client lives. */
int gs_grpc_client_fd(const struct gs_grpc_client *client);

/* Call gs_grpc_client_work() at this time at the latest (monotonic); UINT64_MAX: only by the fd. Ask
 * again after each function of the client. */
uint64_t gs_grpc_client_next_ns(const struct gs_grpc_client *client);

/* Do what can be done without waiting. */
void gs_grpc_client_work(struct gs_grpc_client *client);

/* For programs without a loop: wait for work at most timeout_ns, then do it. */
void gs_grpc_client_wait(struct gs_grpc_client *client, uint64_t timeout_ns);

/* Requests can be made: between `connected` and `disconnected`. */
bool gs_grpc_client_connected(const struct gs_grpc_client *client);

struct gs_grpc_client_stats {                /* Fields as in struct gs_grpc_stats */
	uint64_t connects, connect_failures; /* attempts to addresses that did, did not succeed */
	uint64_t calls, calls_now;
	uint64_t messages_in, messages_out;
	uint64_t message_bytes_in, message_bytes_out;
	uint64_t wire_bytes_in, wire_bytes_out;
	uint64_t round_trip_ns; /* of the last keepalive PING; 0: none yet */
};

/* Since it was made; calls_now: as of now. */
void gs_grpc_client_stats(const struct gs_grpc_client *client,
			  struct gs_grpc_client_stats *ret_stats);

/* --- calls --- */

struct gs_grpc_request_events { /* each may be NULL */
	/* One whole message; data is lent for the call. */
	void (*message)(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes);
	/* After gs_grpc_request_send() said -ENOBUFS: half of the queue is free again. */
	void (*writable)(void *ctx, struct gs_grpc_request *request);
	/* The last event; the request is gone when it returns. text: the server's, or why there is
	 * none; "" nothing was said. */
	void (*ended)(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		      const char *text);
};

struct gs_grpc_request_options {
	size_t size;                             /* of this struct */
	const char *path;                        /* "/SERVICE/METHOD"; copied */
	struct gs_grpc_request_events events;    /* copied */
	void *ctx;                               /* of events */
	uint64_t timeout_ns;                     /* 0: none; then DEADLINE_EXCEEDED at both ends */
	const struct gs_grpc_metadata *metadata; /* n_metadata; copied. "-bin": in base64 already */
	size_t n_metadata;
};

/* Begin a call. It is the client's, until `ended` has returned or gs_grpc_request_cancel(). 0;
 * -ENOTCONN; -ESHUTDOWN: the server goes away; -EBUSY: max_calls; -EINVAL: bad path or metadata;
 * -ENOMEM. More calls than the server allows at once wait for others to end. */
int gs_grpc_client_call(struct gs_grpc_client *client,
			const struct gs_grpc_request_options *options,
			struct gs_grpc_request **ret_request);

/* Call, send one message and half-close in one: a unary or server-streaming call. ret_request may
 * be NULL. 0, or the error of the three. */
int gs_grpc_client_unary(struct gs_grpc_client *client,
			 const struct gs_grpc_request_options *options, const void *data,
			 size_t bytes, struct gs_grpc_request **ret_request);

/* Queue one message (copied). 0; -EPIPE: half-closed, or the call has ended; -ENOBUFS: it would not
 * fit into max_queue_bytes (one larger than the queue goes into an empty one): `writable` comes;
 * -EMSGSIZE: 4 GiB or more; -ENOMEM. It goes out in gs_grpc_client_work(), which is due at once. */
int gs_grpc_request_send(struct gs_grpc_request *request, const void *data, size_t bytes);

/* Half-close: no more messages of ours, once what is queued has gone out. */
void gs_grpc_request_end(struct gs_grpc_request *request);

/* Forget the call; the server gets a reset. No event follows. */
void gs_grpc_request_cancel(struct gs_grpc_request **request);

/* As of now. Without a connection window_bytes is 0. */
void gs_grpc_request_flow(const struct gs_grpc_request *request, struct gs_grpc_flow *ret_flow);

/* No messages until resumed; the server can send only a window more. */
void gs_grpc_request_pause(struct gs_grpc_request *request);
void gs_grpc_request_resume(struct gs_grpc_request *request);

/* The server's metadata, headers and trailers alike; in `ended` all are there. NULL: not come. */
const char *gs_grpc_request_metadata(const struct gs_grpc_request *request, const char *name);

/* --- when to try again --- */

/* Exponential with full jitter: the n-th delay is anywhere between 0 and min(max, base * 2^n), so
 * that a thousand clients which lost the same head do not come back together. */
struct gs_grpc_backoff {
	uint64_t base_ns, max_ns; /* 0: 1 s, 60 s */
	unsigned n_failures;      /* 0 after a success */
};

/* The delay before the next attempt; counts a failure. random: any 64 random bits. */
uint64_t gs_grpc_backoff_next_ns(struct gs_grpc_backoff *backoff, uint64_t random);

/* A connection held: for longer than this it counts as success. */
#define GS_GRPC_BACKOFF_HELD_NS 10000000000ULL

/* Note how long the connection that was lost now had held; a long one resets the delays. */
void gs_grpc_backoff_held(struct gs_grpc_backoff *backoff, uint64_t held_ns);

#endif
