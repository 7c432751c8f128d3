/* Between the files of the server's thread: server.c (the loop), conn.c (the machine of one
 * connection), deferred.c (answers of other threads, events). */
#ifndef GS_NET_HTTP_SERVER_INT_H
#define GS_NET_HTTP_SERVER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/share.h"
#include "net/http/http_int.h"
#include "net/tls/wire.h"

#define REPLY_MAX_BYTES  (256U << 20)
#define HEARTBEAT_NS     15000000000ULL
#define STREAM_MAX_BYTES (1U << 20) /* that a client of events may be behind */
#define NEWS_MAX_BYTES   (4U << 20)

struct settings {
	int listen_fd; /* -1: take over that of the settings before */
	char listen[280], address[80];
	bool inherited;         /* listen_fd is systemd's */
	struct ssl_ctx_st *tls; /* owned; NULL: none */
	struct gs_http_pem pem; /* of tls; kept for a server process */
	struct gs_http_auth auth;
	struct gs_http_hosts hosts;
	char origins[1024];
	bool client_ca, anonymous, guarded;
	unsigned max_connections;
	size_t max_head_bytes, max_body_bytes;
	bool json_errors;
	unsigned max_streams;
	uint64_t timeout_ns, idle_ns;
};

enum conn_state { HANDSHAKE, READ, WAIT, WRITE, STREAM, EVENTS, DRAIN, CLOSED };

struct conn {
	struct gs_tls_wire wire;
	enum conn_state state;
	short events;         /* what poll waits for */
	uint64_t deadline_ns; /* monotonic */
	bool served;
	bool local;             /* its other end is this machine */
	bool turned_away;       /* holds no place: it only gets its 503 */
	uint64_t peer;          /* gs_net_peer_key() */
	struct gs_share place;  /* of max_connections; resting while the client is to act */
	struct gs_share stream; /* of max_streams, in EVENTS */
	size_t drained_bytes;
	struct gs_buf in, out;
	size_t sent_bytes;
	struct gs_http_shape shape;     /* of the reply that is being made or sent */
	struct gs_http_deferred *later; /* WAIT: whose answer this connection gets */
	struct gs_http_reply reply;     /* STREAM: its source */
	bool body_ended, wait_body;     /* STREAM; wait_body: poll looks at the source, not at fd */
	unsigned topics;                /* EVENTS */
};

struct gs_http { /* the server */
	pthread_t thread;
	int wake_fd;
	const struct gs_http_route *routes;
	size_t n_routes;
	void *ctx;
	pthread_mutex_t lock;          /* of pending */
	struct settings *pending;      /* handed over, not taken yet */
	bool leave;                    /* the thread shall close its socket ... */
	int listen_again_fd;           /* ... or take this one; -1: none */
	char listen[280], address[80]; /* the caller's copies */
	bool inherited;
	atomic_bool stopping;
	_Atomic uint64_t asked, answered;
	_Atomic uint64_t requests[GS_HTTP_CLASSES], connections, refused, timed_out, tls_failures,
		open;
	_Atomic uint64_t streams, slow, unpublished, cut, evicted;
	struct gs_http_completions *mail; /* answers from elsewhere; referenced */
	struct gs_buf news; /* under lock: pieces for streams, each after a struct http_piece */
	/* Of the server's thread alone. */
	struct settings *settings;
	struct conn **conns;
	size_t n_conns, room_conns;
	struct gs_shares places, stream_places; /* by client address, which may have half of each */
	unsigned n_turned_away;
	uint64_t accept_after_ns; /* no file descriptors: not before */
	char *scratch;            /* the head that is being read, with terminators */
	struct http_apart *apart; /* a process serves; NULL: this thread does */
};

/* --- server.c --- */

void http_settings_free(struct settings **settings);

/* Take over what the caller's thread handed in. */
void http_settings_take(struct gs_http *h);
void http_settings_hand_in(struct gs_http *h, struct settings **settings);

/* With settings that are made already, which are taken over. */
int http_server_start(struct settings **settings, const struct gs_http_route *routes,
		      size_t n_routes, struct gs_http **ret_http);

/* --- conn.c --- */

void http_conn_close(struct gs_http *h, struct conn *c);

/* As far as it goes without waiting. */
void http_conn_step(struct gs_http *h, struct conn *c);
void http_conn_timed_out(struct gs_http *h, struct conn *c);

/* No place is left for it: it gets 503, if that can be said at once, and is closed. */
void http_conn_refuse(struct gs_http *h, struct conn *c);

/* The same, but for a vital question, for which it has a moment. */
void http_conn_admit_vital(struct gs_http *h, struct conn *c);

/* The reply as bytes; the connection then writes. Takes over what the reply owns. */
void http_conn_answer(struct gs_http *h, struct conn *c, struct gs_http_reply *reply,
		      const char *more);

/* --- deferred.c --- */

struct gs_http_completions *http_completions_new(int wake_fd);
void http_completions_close(
	struct gs_http_completions **mail); /* answers that come later are thrown away */

/* The handle belongs to this connection from now on. */
void http_deferred_bind(struct gs_http_deferred *later, struct conn *c);

/* gs_http_defer() is called by handlers of this server from now on, on this thread. */
void http_deferred_serving(struct gs_http *h);

/* The connection does not wait any more. */
void http_deferred_forget(struct conn *c);

/* Give answers that came to their connections, and news to streams. */
void http_completions_deliver(struct gs_http *h);
void http_events_deliver(struct gs_http *h);

struct http_piece { /* of news; the text after it */
	uint32_t topics, bytes;
};

/* What was published and not delivered yet; the caller's. */
struct gs_buf http_events_take(struct gs_http *h);

/* --- apart.c: a process of its own serves, this one answers --- */

struct http_apart;

int http_apart_new(struct gs_http *h, const struct gs_http_options *o);
void http_apart_free(struct http_apart **apart);
void *http_apart_thread(void *http);
void http_apart_stats(struct http_apart *apart, struct gs_http_stats *stats);

#endif
