/* The client's side of the agent's control socket. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "commands/common/ask.h"
#include "core/base/local.h"
#include "core/base/mem.h"

#define REQUEST_MAX 128
#define ANSWER_MS   60000 /* a call of the driver may hang for some seconds */

int gs_cli_ask_agent(const char *path, const char *command, struct gs_buf *ret_answer,
		     struct gs_err *err)
{
	return gs_cli_ask_agent_within(path, command, ANSWER_MS, ret_answer, err);
}

int gs_cli_ask_agent_within(const char *path, const char *command, int answer_ms,
			    struct gs_buf *ret_answer, struct gs_err *err)
{
	GS_CLOSE int fd = -1;
	char line[REQUEST_MAX];

	fd = gs_local_connect(path);
	if (fd == -ENAMETOOLONG)
		return gs_err_set(err, -EINVAL, "--control: %s is too long", path);
	if (fd == -EACCES || fd == -EPERM)
		return gs_err_set(
			err, -EACCES,
			"%s: permission denied; run as root, as the agent's user, or as a member of control.group",
			path);
	if (fd < 0)
		return gs_err_set(
			err, fd,
			"no agent listens at %s (%s); is it running? --control names another path",
			path, strerror(-fd));
	snprintf(line, sizeof(line), "%s\n", command);
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
		return gs_err_set(err, -errno, "%s: %s", path, strerror(errno));
	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		char text[1024];
		ssize_t n;

		if (poll(&p, 1, answer_ms) <= 0)
			return gs_err_set(err, -ETIMEDOUT, "%s: the agent does not answer", path);
		n = recv(fd, text, sizeof(text), 0);
		if (n < 0)
			return gs_err_set(err, -errno, "%s: %s", path, strerror(errno));
		if (n == 0)
			return 0;
		if (gs_buf_put(ret_answer, text, (size_t)n) < 0)
			return -ENOMEM;
	}
}

const char *gs_cli_answer_word(int error)
{
	return error == -ENOENT ? "none" : "error";
}
