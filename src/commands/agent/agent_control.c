/*
 * The control socket: who may connect to it (its owner, root, and a group when one is named) asks
 * the agent to let go of the driver, to take it up again, to read its configuration, or how it is.
 *
 *   client:  "release-gpus\n"         agent:  "ok: ...\n" or "error: ...\n", then it closes
 *
 * Served by the agent's main thread between two readings: what is answered is done.
 */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "commands/agent/agent.h"
#include "core/base/clock.h"
#include "core/base/local.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "commands/common/cli.h"

#define REQUEST_MAX 64
#define CLIENT_MS   200   /* for a client to send its line: it holds up the readings */
#define ANSWER_MS   60000 /* a call of the driver may hang for some seconds */

int agent_control_open(const struct agent_conf *conf, struct gs_err *err)
{
	const char *path = conf->control.path;
	const struct gs_local_options o = {.path = path,
					   .group = conf->control.group,
					   .path_key = "control.path",
					   .group_key = "control.group"};

	if (!path[0])
		return -ENODATA;
	if (strcmp(path, AGENT_CONTROL_PATH) == 0)
		gs_local_make_folder(path);
	return gs_local_listen(&o, err);
}

void agent_control_close(const struct agent_conf *conf, int *fd)
{
	if (*fd >= 0)
		(void)unlink(conf->control.path);
	gs_close_p(fd);
}

/* A line within the time; its bytes without the newline, or a negative errno. */
static int read_line(int fd, char *out, size_t room, int ms)
{
	uint64_t end = gs_clock_mono_ns() + (uint64_t)ms * 1000000;
	size_t n = 0;

	while (n + 1 < room) {
		struct pollfd p = {fd, POLLIN, 0};
		uint64_t now = gs_clock_mono_ns();
		ssize_t got;

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) <= 0)
			return -ETIMEDOUT;
		got = recv(fd, out + n, room - 1 - n, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			continue;
		if (got < 0)
			return -errno;
		n += (size_t)got;
		out[n] = '\0';
		if (strchr(out, '\n') || got == 0) {
			out[strcspn(out, "\r\n")] = '\0';
			return (int)strlen(out);
		}
	}
	return -EMSGSIZE;
}

void agent_control_serve(int listen_fd, void *ctx,
			 void (*run)(void *ctx, const char *command, struct gs_buf *answer))
{
	GS_CLOSE int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	struct gs_buf answer = GS_BUF_INIT(64 << 10);
	char line[REQUEST_MAX] = "";

	if (fd < 0)
		return;
	if (read_line(fd, line, sizeof(line), CLIENT_MS) < 0)
		(void)gs_buf_puts(&answer, "error: a command is one line, as \"status\"\n");
	else
		run(ctx, line, &answer);
	/* An answer fits into the socket's own memory; who does not take it loses it. */
	(void)send(fd, answer.data, answer.bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	gs_buf_fini(&answer);
}

static int ask_agent(const char *path, const char *command, struct gs_buf *ret_answer,
		     struct gs_err *err)
{
	GS_CLOSE int fd = -1;
	char line[REQUEST_MAX];

	fd = gs_local_connect(path);
	if (fd == -ENAMETOOLONG)
		return gs_err_set(err, -EINVAL, "--control: %s is too long", path);
	if (fd == -EACCES || fd == -EPERM)
		return gs_err_set(err, -EACCES,
				  "%s: you may not; ask as root, as the agent's user, or as one "
				  "of control.group",
				  path);
	if (fd < 0)
		return gs_err_set(err, fd,
				  "no agent listens at %s (%s); is it running? --control names "
				  "another path",
				  path, strerror(-fd));
	snprintf(line, sizeof(line), "%s\n", command);
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
		return gs_err_set(err, -errno, "%s: %s", path, strerror(errno));
	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		char text[1024];
		ssize_t n;

		if (poll(&p, 1, ANSWER_MS) <= 0)
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

/* --- the command of the client --- */

enum { OPT_PATH = 256 };

static error_t parse_ctl(int key, char *arg, struct argp_state *state)
{
	static const char *const commands[] = {"release-gpus", "resume-gpus", "status", "reload"};
	const char **o = state->input; /* path, command */
	size_t known;

	switch (key) {
	case OPT_PATH:
		o[0] = arg;
		return 0;
	case ARGP_KEY_ARG:
		for (known = 0; known < GS_ARRAY_LEN(commands); known++)
			if (strcmp(arg, commands[known]) == 0)
				break;
		if (o[1] || known == GS_ARRAY_LEN(commands))
			argp_error(state,
				   o[1] ? "one command at a time; what is \"%s\"?"
					: "no command \"%s\"; there are release-gpus, "
					  "resume-gpus, status and reload",
				   arg);
		o[1] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o[1])
			argp_error(state, "give a command: release-gpus, resume-gpus, status or "
					  "reload");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int agent_control_command(int argc, char **argv)
{
	static const struct argp_option option_table[] = {
		{"control", OPT_PATH, "PATH", 0,
		 "the agent's control socket (default " AGENT_CONTROL_PATH ")", 0},
		{0},
	};
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_ctl,
		.args_doc = "COMMAND",
		.help_filter = gs_cli_help_filter,
		.doc = "Tells a running agent what to do: release-gpus lets go of the driver, so "
		       "that "
		       "a GPU can be reset or divided, resume-gpus takes it up again, reload reads "
		       "the configuration, status tells how it is.\v"
		       "Exit status: 0 done, 1 failed or no agent there, 2 wrong usage, 3 not "
		       "permitted.",
	};
	const char *o[2] = {AGENT_CONTROL_PATH, NULL};
	struct gs_buf answer = GS_BUF_INIT(1 << 20);
	struct gs_err err = {{0}};
	char name[] = "gpuscope agent ctl";
	bool ok;
	int r;

	argv[0] = name;
	if (argp_parse(&argp, argc, argv, 0, NULL, o) != 0)
		return GS_EXIT_USAGE;
	r = ask_agent(o[0], o[1], &answer, &err);
	if (r < 0) {
		gs_cli_say("agent ctl: %s", gs_err_text(&err, r));
		gs_buf_fini(&answer);
		return r == -EACCES ? GS_EXIT_NOT_PERMITTED : GS_EXIT_FAILED;
	}
	ok = answer.bytes >= 3 && memcmp(answer.data, "ok:", 3) == 0;
	fwrite(answer.data, 1, answer.bytes, ok ? stdout : stderr);
	gs_buf_fini(&answer);
	return ok && fflush(stdout) == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
}
