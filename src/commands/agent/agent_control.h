/* The socket by which the agent takes commands: agent_control.c. */
#ifndef GS_COMMANDS_AGENT_AGENT_CONTROL_H
#define GS_COMMANDS_AGENT_AGENT_CONTROL_H

#include "commands/agent/agent_state.h"
#include "commands/common/ask.h"
#include "commands/common/options.h"

/* The descriptor that listens, -ENODATA: none is configured, or another error with err. */
int agent_control_open(const struct agent_conf *conf, struct gs_err *err);
void agent_control_close(const struct agent_conf *conf, int *fd);

/* agent_gpu_ask() within what is configured. */
int agent_control_trace_gpu(struct agent_state *state, const char *what, uint64_t time_ns,
			    char *answer, size_t bytes);

/* Takes one client that waits, its line (for at most 200 ms), has run append the answer, and sends
 * that. */
void agent_control_serve(int listen_fd, void *ctx,
			 void (*run)(void *ctx, const char *command, struct gs_buf *answer));

/* "ctl", for the command line of the agent. */
const struct gs_cli_subcommand *agent_control_subcommand_at(size_t i);

/* The client's side: `gpuscope agent ctl`, from the word "ctl" on. An exit status. */
int agent_control_command(int argc, char **argv);

#endif
