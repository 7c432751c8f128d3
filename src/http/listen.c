/* Addresses to listen on. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_int.h"

bool gs_http_listen_split(const char *text, char *host, size_t host_bytes, char *port,
			  size_t port_bytes)
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

bool gs_http_listen_valid(const char *text)
{
	char host[256], port[8];

	return gs_http_listen_split(text, host, sizeof(host), port, sizeof(port));
}

static void address_text(int fd, char *out, size_t bytes)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);
	char host[INET6_ADDRSTRLEN] = "?";

	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
		snprintf(out, bytes, "?");
	} else if (a.ss_family == AF_INET6) {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;

		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(out, bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&a;

		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(out, bytes, "%s:%u", host, ntohs(v4->sin_port));
	}
}

static int listen_on(const struct addrinfo *a, bool both)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, saved;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? &off : &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 128) == 0)
		return fd;
	saved = errno;
	close(fd);
	return -saved;
}

int gs_http_listen(const char *text, char *ret_address, size_t bytes, struct gs_err *err)
{
	struct addrinfo want = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char host[256], port[8];
	bool all;
	int fd = -EADDRNOTAVAIL, r;

	if (!gs_http_listen_split(text, host, sizeof(host), port, sizeof(port)))
		return gs_err_set(
			err, -EINVAL,
			"cannot listen on \"%s\": an address is HOST:PORT, [IPv6]:PORT or "
			"*:PORT",
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
		return gs_err_set(err, fd,
				  "cannot listen on %s: another program does (`ss -ltnp` shows "
				  "which); choose another port in http.listen",
				  text);
	if (fd == -EACCES)
		return gs_err_set(err, fd,
				  "cannot listen on %s: ports below 1024 need root or "
				  "CAP_NET_BIND_SERVICE",
				  text);
	if (fd < 0)
		return gs_err_set(err, fd, "cannot listen on %s: %s", text, strerror(-fd));
	address_text(fd, ret_address, bytes);
	return fd;
}

int gs_http_listen_inherited(char *ret_address, size_t bytes, struct gs_err *err)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	int fd = 3 /* SD_LISTEN_FDS_START */, type = 0, listens = 0;
	socklen_t type_bytes = sizeof(type), listens_bytes = sizeof(listens);

	if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid() || strtol(n, NULL, 10) < 1)
		return -ENOENT;
	if (strtol(n, NULL, 10) > 1)
		return gs_err_set(err, -EINVAL,
				  "systemd hands over %s sockets: the agent takes one "
				  "(ListenStream=)",
				  n);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) < 0 || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) < 0 || !listens)
		return gs_err_set(err, -ENOTSOCK,
				  "what systemd hands over is no listening stream socket "
				  "(ListenStream=, Accept=no)");
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return gs_err_set(err, -errno, "the socket of systemd: %s", strerror(errno));
	address_text(fd, ret_address, bytes);
	return fd;
}
