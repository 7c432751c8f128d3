#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/net.h"

bool gs_net_split(const char *text, char *host, size_t host_bytes, char *port, size_t port_bytes)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] ||
	    strlen(colon + 1) > 5 || atoi(colon + 1) > 65535)
		return false;
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	} else if (memchr(text, ':', n)) {
		return false; /* "::1:80": where does the port begin? */
	}
	if (n == 0 || n >= host_bytes || strlen(colon + 1) >= port_bytes)
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	if (strcmp(host, "*") != 0 &&
	    strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%") !=
		    n)
		return false;
	strcpy(port, colon + 1);
	return true;
}

void gs_net_text(const struct sockaddr_storage *a, char *out, size_t bytes)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(out, bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
	} else if (a->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;

		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(out, bytes, "%s:%u", host, ntohs(v4->sin_port));
	} else {
		snprintf(out, bytes, "?");
	}
}

enum peer_kind { PEER_V4 = 1, PEER_V6, PEER_USER, PEER_OTHER };

uint64_t gs_net_peer_key(int fd, const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
	struct ucred user = {0};
	socklen_t bytes = sizeof(user);
	enum peer_kind kind = PEER_V4;
	uint64_t key = 0;
	uint32_t v4 = htonl(INADDR_LOOPBACK);

	if (a->ss_family == AF_INET) {
		v4 = ((const struct sockaddr_in *)a)->sin_addr.s_addr;
	} else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		memcpy(&v4, v6->sin6_addr.s6_addr + 12, sizeof(v4));
	} else if (a->ss_family == AF_INET6 && !IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) {
		kind = PEER_V6;
		memcpy(&key, v6->sin6_addr.s6_addr, sizeof(key));
	} else if (a->ss_family == AF_UNIX) {
		kind = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &bytes) == 0 ? PEER_USER
										   : PEER_OTHER;
		key = user.uid;
	}
	if (kind == PEER_V4)
		key = ntohl(v4) >> 24 == IN_LOOPBACKNET ? INADDR_LOOPBACK : ntohl(v4);
	/* Of a network of IPv6 the first bits are the same for all that are routed. */
	return key ^ (uint64_t)kind << 60;
}

int gs_net_accept(int listen_fd, uint64_t *ret_peer_key)
{
	struct sockaddr_storage a = {0};
	socklen_t bytes = sizeof(a);
	int fd = accept4(listen_fd, (struct sockaddr *)&a, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	*ret_peer_key = gs_net_peer_key(fd, &a);
	return fd;
}

/* A thousand clients come back at once after a restart; the kernel cuts it to its own maximum. */
#define LISTEN_BACKLOG 4096

static int listen_on(const struct addrinfo *a, bool both)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, saved;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? &off : &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
		return fd;
	saved = errno;
	close(fd);
	return -saved;
}

int gs_net_listen(const char *text, const char *option, char *ret_address, size_t bytes,
		  struct gs_err *err)
{
	struct addrinfo want = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				.ai_socktype = SOCK_STREAM};
	struct sockaddr_storage bound = {0};
	socklen_t bound_bytes = sizeof(bound);
	struct addrinfo *found = NULL;
	char host[256], port[8];
	bool all;
	int fd = -EADDRNOTAVAIL, r;

	if (!gs_net_split(text, host, sizeof(host), port, sizeof(port)))
		return gs_err_set(
			err, -EINVAL,
			"cannot listen on \"%s\": an address is HOST:PORT, [IPv6]:PORT or *:PORT",
			text);
	all = strcmp(host, "*") == 0;
	r = getaddrinfo(all ? NULL : host, port, &want, &found);
	if (r != 0)
		return gs_err_set(err, -EADDRNOTAVAIL, "cannot listen on %s: %s", text,
				  r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	/* "*": IPv6 first, it takes IPv4 as well. */
	for (int pass = 0; pass < 2 && fd < 0; pass++)
		for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
			if (!all || (a->ai_family == AF_INET6) == (pass == 0))
				fd = listen_on(a, all);
	freeaddrinfo(found);
	if (fd == -EADDRINUSE)
		return gs_err_set(
			err, fd,
			"cannot listen on %s: another program does (`ss -ltnp` shows which); choose another port in %s",
			text, option);
	if (fd == -EACCES)
		return gs_err_set(
			err, fd,
			"cannot listen on %s: ports below 1024 need root or CAP_NET_BIND_SERVICE",
			text);
	if (fd < 0)
		return gs_err_set(err, fd, "cannot listen on %s: %s", text, strerror(-fd));
	(void)getsockname(fd, (struct sockaddr *)&bound, &bound_bytes);
	gs_net_text(&bound, ret_address, bytes);
	return fd;
}
