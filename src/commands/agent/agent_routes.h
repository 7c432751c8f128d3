/* What is served and pushed. */
#ifndef GS_COMMANDS_AGENT_AGENT_ROUTES_H
#define GS_COMMANDS_AGENT_AGENT_ROUTES_H

#include <stddef.h>

#include "commands/agent/agent_state.h"

/* The server of this configuration, which is borrowed; state: handed to its routes, NULL to check options only. */
struct gs_http_options agent_http_options(const struct agent_conf *conf, struct agent_state *state);

#define AGENT_ROUTES_MAX 16 /* room for them and those to come */
extern const struct gs_http_route agent_routes[];
extern const size_t agent_n_routes;

/* All families that are scraped or pushed; p->error says whether one failed. more_names: a set of
 * enum gs_metrics_names beside the configured one. Takes the lock. */
void agent_put_metrics(struct agent_state *state, struct gs_metrics *p, unsigned more_names);

#endif
