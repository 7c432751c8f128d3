/* The client's side of the agent's control socket. */
#ifndef GS_COMMANDS_COMMON_ASK_H
#define GS_COMMANDS_COMMON_ASK_H

#include "core/base/buf.h"
#include "core/base/err.h"

#define AGENT_CONTROL_PATH "/run/gpuscope/agent.sock"

/* Sends a command of one line to the agent at this socket and appends its answer. 0 or a negative errno with
 * err. */
int gs_cli_ask_agent(const char *path, const char *command, struct gs_buf *ret_answer,
		     struct gs_err *err);

/* The same, and no longer than answer_ms between two parts of the answer: -ETIMEDOUT. */
int gs_cli_ask_agent_within(const char *path, const char *command, int answer_ms,
			    struct gs_buf *ret_answer, struct gs_err *err);

#endif
