/* Addresses as people write them, and sockets that listen on them. */
#ifndef GS_CORE_BASE_NET_H
#define GS_CORE_BASE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/base/err.h"

#define GS_NET_TEXT_MAX 80 /* bytes of gs_net_text(), zero included */

/* "host:port" or "[v6]:port" into its parts; false: it is no such text. */
bool gs_net_split(const char *text, char *host, size_t host_bytes, char *port, size_t port_bytes);

/* "127.0.0.1:14780", "[::1]:14780"; "?" for another family. */
void gs_net_text(const struct sockaddr_storage *address, char *out, size_t bytes);

/* Who is at the other end of a connection, as far as shares of a server's places go: an IPv4
 * address, the network of an IPv6 address (of these anybody has 2^64), this machine (all of
 * 127.0.0.0/8 and ::1), or the user at the other end of a Unix socket. */
uint64_t gs_net_peer_key(int fd, const struct sockaddr_storage *address);

/* A connection that waits at this socket, which does not block: a descriptor that does not block
 * either, and its gs_net_peer_key(). -EAGAIN: there is none, or it has gone. Other errors: no
 * descriptors or no memory; the socket stays readable meanwhile, so ask again after a while. */
#define GS_NET_ACCEPT_WAIT_NS 100000000ull
int gs_net_accept(int listen_fd, uint64_t *ret_peer_key);

/* A non-blocking listening socket on "HOST:PORT", "[IPv6]:PORT" or "*:PORT". ret_address: with the
 * port it got. option is what a user changes to have another port ("http.listen"). A negative errno
 * with err. */
int gs_net_listen(const char *text, const char *option, char *ret_address, size_t bytes,
		  struct gs_err *err);

#endif
