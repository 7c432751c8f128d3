/* Between server.c (the loop, listening sockets) and conn.c (what one connection does). */
#ifndef GS_NET_GRPC_CONN_INT_H
#define GS_NET_GRPC_CONN_INT_H

#include "core/base/net.h"
#include "core/base/share.h"
#include "net/grpc/server_int.h"

#define GS_GRPC_READ_BYTES 65536

enum kind { LISTENER, WAKE, CONN };

struct listener {
	enum kind kind;
	int fd;
	char address[GS_NET_TEXT_MAX];
};

enum state { SILENT, HANDSHAKE, UP, DRAIN, CLOSED };

struct conn {
	enum kind kind;
	enum state state;
	struct gs_grpc_server *server;
	struct gs_tls_wire wire;
	struct gs_grpc_session *session;
	struct conn *next, **prev;
	struct gs_share share;
	uint32_t events;
	uint64_t opened_ns, received_ns, pinged_ns; /* pinged_ns 0: nothing unanswered */
	struct gs_timer timer;
	struct gs_buf out;
	size_t sent_bytes;
};

struct gs_grpc_server {
	enum kind kind; /* WAKE */
	struct gs_grpc_core *core;
	pthread_t thread;
	struct listener listeners[GS_GRPC_LISTEN_MAX + 1]; /* the local one too */
	size_t n_listeners;
	int local_fd; /* owned, until it is one of them; -1 */
	gid_t local_group;
	char *cert, *key, *client_ca; /* owned copies, for reloading */
	struct gs_grpc_tls *tls;      /* under the core's lock */
	atomic_bool stop;
	_Atomic uint64_t grace_until_ns;
	/* Of the server's thread alone. */
	int epoll_fd;
	struct conn *conns, *dead;
	struct gs_shares shares; /* of connections, by client address */
	unsigned n_closed;       /* since free memory was given back */
	bool aborted;
	struct gs_timer accept_again, grace, shrink;
	uint8_t *in;
};

static inline uint64_t gs_grpc_after(uint64_t start_ns, uint64_t ns)
{
	return ns > UINT64_MAX - 1 - start_ns ? UINT64_MAX : start_ns + ns;
}

/* Takes fd over. key: whose it is. */
void gs_grpc_conn_new(struct gs_grpc_server *server, int fd, uint64_t key);

/* Of epoll, for its socket. */
void gs_grpc_conn_event(struct conn *conn, uint32_t events);

/* Its session has something to send. */
void gs_grpc_conn_ready(struct conn *conn);

/* It has to make room for another. */
void gs_grpc_conn_evict(struct conn *conn);

void gs_grpc_conn_close(struct conn *conn);

/* Free those that were closed: events of the turn may have named them. */
void gs_grpc_conn_bury(struct gs_grpc_server *server);

#endif
