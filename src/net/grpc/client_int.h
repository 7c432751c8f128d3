/*
 * Between the files of the client: client.c has the connection (addresses, sockets, times),
 * request.c the calls on it and nghttp2's callbacks, resolve.c looks names up.
 */
#ifndef GS_NET_GRPC_CLIENT_INT_H
#define GS_NET_GRPC_CLIENT_INT_H

#include <netdb.h>
#include <sys/un.h>

#include "core/base/net.h"
#include "net/grpc/grpc_int.h"

/* --- resolve.c --- */

struct gs_grpc_resolve;

/* In a thread of its own, because getaddrinfo(3) waits. */
int gs_grpc_resolve_start(const char *host, const char *port, struct gs_grpc_resolve **ret_resolve);
int gs_grpc_resolve_fd(const struct gs_grpc_resolve *resolve); /* readable when it is done */
/* 0 with ret_found (freeaddrinfo), -EAGAIN: not yet, -ENOENT with words in why. */
int gs_grpc_resolve_result(struct gs_grpc_resolve *resolve, struct addrinfo **ret_found, char *why,
			   size_t bytes);
void gs_grpc_resolve_drop(struct gs_grpc_resolve **resolve);

/* --- client.c --- */

struct gs_grpc_target {
	char host[256], port[8];
	char text[280];            /* as a person wrote it */
	struct sockaddr_un socket; /* of "unix:/PATH" ... */
	struct addrinfo local;     /* ... and as an address found; ai_family 0: it is another */
};

enum gs_grpc_client_state {
	GS_GRPC_IDLE,
	GS_GRPC_START,      /* with the next address */
	GS_GRPC_RESOLVING,  /* its name */
	GS_GRPC_CONNECTING, /* TCP */
	GS_GRPC_HANDSHAKE,  /* TLS */
	GS_GRPC_GREETING,   /* until the server's SETTINGS */
	GS_GRPC_UP,
};

struct gs_grpc_client {
	struct gs_grpc_client_options o; /* with limits filled in; its texts are ours */
	struct gs_grpc_target *targets;  /* owned */
	size_t target, n_tried;
	struct gs_grpc_tls *tls;
	char *bearer, *user_agent, *server_name; /* owned; NULL: none */
	int epoll_fd;
	enum gs_grpc_client_state state;
	struct gs_grpc_resolve *resolve;
	struct addrinfo *found, *candidate;
	struct gs_tls_wire wire;
	char wire_why[256]; /* of its last failure, as far as it is put together */
	uint32_t events;    /* that epoll waits for */
	char address[GS_NET_TEXT_MAX];
	char authority[300];
	char why[512]; /* the last failure, in words */
	nghttp2_session *h2;
	struct gs_buf out;
	size_t sent_bytes;
	uint64_t started_ns; /* the attempt with this address */
	uint64_t received_ns, pinged_ns, keepalive_ns;
	bool greeted, going_away, leaving, closing, lost;
	bool wrong_tls; /* the last address that was tried wants TLS, or does not speak it */
	struct gs_grpc_request *requests;
	size_t n_requests;
	struct gs_timers timers;
	struct gs_grpc_held held;
	struct gs_grpc_client_stats stats;
	uint8_t *in;
};

/* --- request.c --- */

struct gs_grpc_request {
	struct gs_grpc_client *client; /* NULL: forgotten, freed when no callback is within */
	struct gs_grpc_request *next, **prev;
	struct gs_grpc_request_events events;
	void *ctx;
	int32_t stream;
	unsigned busy; /* within its callbacks */
	unsigned paused;
	bool ending; /* we send no more after the queue */
	bool wants_writable;
	bool closed; /* the stream is, what waits is still delivered */
	bool grpc, has_status;
	int http_status;
	enum gs_grpc_status status;
	char text[GS_GRPC_TEXT_MAX];
	struct gs_timer deadline, resume; /* resume: due at once */
	struct gs_grpc_inbox inbox;
	struct gs_grpc_outbox out;
	struct gs_grpc_table metadata;
};

int gs_grpc_client_h2_new(struct gs_grpc_client *client);
/* End every call. */
void gs_grpc_client_end_all(struct gs_grpc_client *client, enum gs_grpc_status status,
			    const char *text);
void gs_grpc_client_forget_all(struct gs_grpc_client *client);

#endif
