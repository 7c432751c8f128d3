/* Addresses to listen on. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/net.h"
#include "net/http/http_int.h"

bool gs_http_listen_valid(const char *text)
{
	char host[256], port[8];

	return gs_net_split(text, host, sizeof(host), port, sizeof(port));
}

int gs_http_listen(const char *text, char *ret_address, size_t bytes, struct gs_err *err)
{
	return gs_net_listen(text, "http.listen", ret_address, bytes, err);
}

int gs_http_listen_inherited(char *ret_address, size_t bytes, struct gs_err *err)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	int fd = 3 /* SD_LISTEN_FDS_START */, type = 0, listens = 0;
	socklen_t type_bytes = sizeof(type), listens_bytes = sizeof(listens);
	struct sockaddr_storage bound = {0};
	socklen_t bound_bytes = sizeof(bound);

	if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid() || strtol(n, NULL, 10) < 1)
		return -ENOENT;
	if (strtol(n, NULL, 10) > 1)
		return gs_err_set(err, -EINVAL,
				  "systemd passed %s sockets: the agent takes one (ListenStream=)",
				  n);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) < 0 || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) < 0 || !listens)
		return gs_err_set(
			err, -ENOTSOCK,
			"the socket passed by systemd is not a listening stream socket (ListenStream=, Accept=no)");
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return gs_err_set(err, -errno, "the socket of systemd: %s", strerror(errno));
	(void)getsockname(fd, (struct sockaddr *)&bound, &bound_bytes);
	gs_net_text(&bound, ret_address, bytes);
	return fd;
}
