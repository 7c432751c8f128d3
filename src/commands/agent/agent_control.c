/*
 * The control socket: who may connect to it (its owner, root, and a group when one is named) asks
 * the agent to release the driver, to reacquire it, to read its configuration, to trace what a process asks of GPUs,
 * or how it is.
 *
 *   client:  "release-gpus\n"         agent:  "ok: ...\n", "none: ...\n" or "error: ...\n", then it closes
 *
 * Served by the agent's main thread between two readings: what is answered is done.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "commands/agent/agent_control.h"
#include "commands/agent_gpu/agent_gpu.h"
#include "core/base/clock.h"
#include "core/base/local.h"
#include "core/base/mem.h"
#include "commands/common/ask.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"

#define REQUEST_MAX 128
#define CLIENT_MS   200 /* for a client to send its line: it holds up the readings */

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

int agent_control_trace_gpu(struct agent_state *state, const char *what, uint64_t time_ns,
			    char *answer, size_t bytes)
{
	struct agent_gpu_limits limits;

	pthread_mutex_lock(&state->lock);
	limits = (struct agent_gpu_limits){state->conf.processes.gpu_use_max_ns,
					   state->conf.processes.gpu_use_linger_ns,
					   state->conf.processes.gpu_use_inside};
	pthread_mutex_unlock(&state->lock);
	return agent_gpu_ask(state->process_gpu, &limits, what, time_ns, answer, bytes);
}

/* --- the command of the client --- */

struct ctl_options {
	const char *path, *command;
	const char *what; /* of trace-gpu: a process or job */
	uint64_t time_ns;
};

const struct gs_cli_subcommand *agent_control_subcommand_at(size_t i)
{
	static const struct gs_cli_subcommand control = {
		"ctl", "COMMAND", "control a running agent (agent ctl --help)"};

	return i == 0 ? &control : NULL;
}

static const struct gs_cli_subcommand *ctl_subcommand_at(size_t i)
{
	static const struct gs_cli_subcommand commands[] = {
		{"release-gpus", "", "release the driver, to reset or partition a GPU"},
		{"resume-gpus", "", "reattach to the driver"},
		{"trace-gpu", "PID|job:ID", "trace a process's or job's GPU calls, for metrics"},
		{"save-trace", "[job:ID]",
		 "write the last seconds of recorded jobs (recorder.jobs)"},
		{"status", "", "print the agent's state"},
		{"reload", "", "read the configuration again"},
	};

	return i < GS_ARRAY_LEN(commands) ? &commands[i] : NULL;
}

static int set_command(void *target, char **words, struct gs_err *err)
{
	struct ctl_options *o = target;

	if (o->command && !o->what &&
	    (strcmp(o->command, "trace-gpu") == 0 || strcmp(o->command, "save-trace") == 0)) {
		o->what = words[0];
		return 0;
	}
	if (o->command)
		return gs_err_set(err, -EINVAL, "give one command; \"%s\" is one too many",
				  words[0]);
	if (gs_cli_find_subcommand(&gs_cli_agent_ctl, words[0]) < 0)
		return gs_cli_refuse_subcommand(&gs_cli_agent_ctl, words[0], err);
	o->command = words[0];
	return 0;
}

static int check_ctl(void *target, struct gs_err *err)
{
	const struct ctl_options *o = target;
	char names[120];

	if (!o->command)
		return gs_err_set(err, -EINVAL, "give a command: %s",
				  gs_cli_list_subcommands(&gs_cli_agent_ctl, names, sizeof(names)));
	if (strcmp(o->command, "trace-gpu") != 0 && o->time_ns != AGENT_GPU_USUAL)
		return gs_err_set(err, -EINVAL, "--duration belongs to trace-gpu");
	if (strcmp(o->command, "trace-gpu") != 0)
		return !o->what || (strlen(o->what) < 100 && !strchr(o->what, '\n'))
			       ? 0
			       : gs_err_set(err, -EINVAL, "%.40s is no job:ID", o->what);
	if (!o->what)
		return gs_err_set(err, -EINVAL, "trace-gpu needs a process id, or job:ID");
	if (strlen(o->what) > 70 || strpbrk(o->what, " \n"))
		return gs_err_set(err, -EINVAL, "%s is neither a process id nor job:ID", o->what);
	return 0;
}

static const struct gs_cli_option ctl_options[] = {
	{"control", 0, "PATH", "control socket of the agent", GS_CLI_TEXT,
	 GS_CLI_AT(struct ctl_options, path)},
	{"duration", 'd', "TIME", "trace-gpu: how long (60s); 0 stops it", GS_CLI_TIME,
	 GS_CLI_AT(struct ctl_options, time_ns)},
	GS_CLI_END};

const struct gs_cli_command gs_cli_agent_ctl = {
	.name = "gpuscope agent ctl",
	.usage = "COMMAND [PID|job:ID]",
	.subcommand_at = ctl_subcommand_at,
	.about =
		"Controls a running agent. Results of trace-gpu are exported as gpuscope_process_gpu_*.",
	.notes =
		"Exit status: 0 done, 1 failed or no agent there, 2 wrong usage, 3 not permitted, 4 no such process or job.",
	.brief = "control duration",
	.options = ctl_options,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = set_command,
	.check = check_ctl,
};

int agent_control_command(int argc, char **argv)
{
	struct ctl_options o = {.path = AGENT_CONTROL_PATH, .time_ns = AGENT_GPU_USUAL};
	char line[REQUEST_MAX];
	struct gs_buf answer = GS_BUF_INIT(1 << 20);
	struct gs_err err = {{0}};
	bool ok, is_none;
	int r;

	if (!gs_cli_parse(&gs_cli_agent_ctl, argc, argv, &o, &r))
		return r;
	snprintf(line, sizeof(line), "%s", o.command);
	if (o.what && o.time_ns == AGENT_GPU_USUAL)
		snprintf(line, sizeof(line), "%s %s", o.command, o.what);
	else if (o.what)
		snprintf(line, sizeof(line), "%s %s %llums", o.command, o.what,
			 (unsigned long long)(o.time_ns / 1000000));
	r = gs_cli_ask_agent(o.path, line, &answer, &err);
	if (r < 0) {
		gs_cli_print_message("agent ctl: %s", gs_err_text(&err, r));
		gs_buf_fini(&answer);
		return r == -EACCES ? GS_EXIT_NOT_PERMITTED : GS_EXIT_FAILED;
	}
	ok = answer.bytes >= 3 && memcmp(answer.data, "ok:", 3) == 0;
	is_none = answer.bytes >= 5 && memcmp(answer.data, "none:", 5) == 0;
	fwrite(answer.data, 1, answer.bytes, ok ? stdout : stderr);
	gs_buf_fini(&answer);
	if (is_none)
		return GS_EXIT_NOTHING;
	return ok && fflush(stdout) == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
}
