/*
 * Bytes over a connected socket that does not block, with TLS or without, in one shape: what the
 * HTTP server and both ends of gRPC have of a connection. A call that would block says what for; one
 * that failed says what can be said of it. No call raises SIGPIPE.
 */
#ifndef GS_NET_TLS_WIRE_H
#define GS_NET_TLS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct ssl_st;     /* and SSL */

enum gs_tls_fault {                           /* of a call that failed */
		    GS_TLS_FAULT_NONE = 0,    /* its errno says it */
		    GS_TLS_FAULT_CERTIFICATE, /* the other side's is not accepted: reason */
		    GS_TLS_FAULT_PLAIN_HTTP,  /* a request of HTTP/1 came where TLS should begin */
		    GS_TLS_FAULT_NO_TLS,      /* something else did that is no TLS */
		    GS_TLS_FAULT_OTHER,       /* reason */
};

struct gs_tls_wire {
	int fd;                  /* owned; -1 none */
	struct ssl_st *ssl;      /* owned; NULL: plain */
	short wants;             /* POLLIN, POLLOUT (EPOLLIN, EPOLLOUT): what -EAGAIN waits for */
	enum gs_tls_fault fault; /* of the call that failed last */
	const char *reason;      /* in OpenSSL's words, lent for ever */
};

#define GS_TLS_WIRE(socket) ((struct gs_tls_wire){.fd = (socket)})

/* Begin TLS on wire->fd, as a server or (client_name: of the certificate, a DNS name or an address;
 * NULL: any) as a client. ctx NULL: plain. 0 or -ENOMEM. */
int gs_tls_wire_start(struct gs_tls_wire *wire, struct ssl_ctx_st *ctx, bool server,
		      const char *client_name);
int gs_tls_wire_handshake(struct gs_tls_wire *wire); /* 0, -EAGAIN, other */
/* Bytes, 0: the end; -EAGAIN, other. */
ssize_t gs_tls_wire_read(struct gs_tls_wire *wire, void *data, size_t bytes);
ssize_t gs_tls_wire_write(struct gs_tls_wire *wire, const void *data, size_t bytes);
void gs_tls_wire_shut(struct gs_tls_wire *wire); /* we write no more */
void gs_tls_wire_fini(struct gs_tls_wire *wire); /* closes fd, too */

#endif
