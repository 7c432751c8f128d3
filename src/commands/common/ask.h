/* The client's side of the agent's control socket. */
#ifndef GS_COMMANDS_COMMON_ASK_H
#define GS_COMMANDS_COMMON_ASK_H

#include "core/base/buf.h"
#include "core/base/err.h"

/* What the agent takes unless its configuration names others: its control socket, its port, where undelivered data wait. */
#define AGENT_CONTROL_PATH "/run/gpuscope/agent.sock"
#define AGENT_PORT         "14780"
#define AGENT_SPOOL_PATH   "/var/lib/gpuscope-agent/spool"

/* Sends a command of one line to the agent at this socket and appends its answer. 0 or a negative errno with
 * err. */
int gs_cli_ask_agent(const char *path, const char *command, struct gs_buf *ret_answer,
		     struct gs_err *err);

/* The same, and no longer than answer_ms between two parts of the answer: -ETIMEDOUT. */
int gs_cli_ask_agent_within(const char *path, const char *command, int answer_ms,
			    struct gs_buf *ret_answer, struct gs_err *err);

/* How the agent's answer to a request that failed begins, before ": ": "none" where there is no such process or job
 * (-ENOENT), else "error". The client ends with GS_EXIT_NOTHING and GS_EXIT_FAILED. */
const char *gs_cli_answer_word(int error);

#endif
