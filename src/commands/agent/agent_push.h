/* Metrics to engines of others. */
#ifndef GS_COMMANDS_AGENT_AGENT_PUSH_H
#define GS_COMMANDS_AGENT_AGENT_PUSH_H

#include <stdbool.h>

#include "commands/agent/agent_state.h"

/* *ret stays NULL when nothing is configured. */
int agent_push_open(const struct agent_conf *conf, struct agent_state *state,
		    struct gs_push_set **ret, struct gs_err *err);

/* Whether pushing goes on as it is. */
bool agent_push_same(const struct agent_conf *a, const struct agent_conf *b);

/* Whether anything is configured that is sent by net/http_client: pushes, web hooks, e-mail. */
bool agent_push_needs_http_client(const struct agent_conf *conf);

#endif
