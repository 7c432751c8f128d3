/* The socket by which the agent takes commands: agent_control.c. */
#ifndef GS_COMMANDS_AGENT_AGENT_CONTROL_H
#define GS_COMMANDS_AGENT_AGENT_CONTROL_H

#include "commands/agent/agent_state.h"
#include "commands/common/ask.h"
#include "commands/common/options.h"

/* The descriptor that listens, -ENODATA: none is configured, or another error with err. */
int agent_control_open(const struct agent_conf *conf, struct gs_err *err);
void agent_control_close(const struct agent_conf *conf, int *fd);

#define AGENT_TRACE_GPU_USUAL UINT64_MAX /* a minute, or what is configured as the longest time */

/* Have a request's process or job traced for that long, or (0) no longer, within what is configured. An answer
 * of one line, "ok: ..." or "error: ...", without its end. Negative errno: an error. */
int agent_control_trace_gpu(struct agent_state *state, const char *what, uint64_t time_ns,
			    char *answer, size_t bytes);

/* The same of the words of a command, "1234" or "1234 60000ms"; the answer has its end. */
void agent_control_take_trace(struct agent_state *state, const char *words, struct gs_buf *answer);

/* Takes one client that waits, its line (for at most 200 ms), has run append the answer, and sends
 * that. */
void agent_control_serve(int listen_fd, void *ctx,
			 void (*run)(void *ctx, const char *command, struct gs_buf *answer));

/* "ctl", for the command line of the agent. */
const struct gs_cli_subcommand *agent_control_subcommand_at(size_t i);

/* The client's side: `gpuscope agent ctl`, from the word "ctl" on. An exit status. */
int agent_control_command(int argc, char **argv);

#endif
