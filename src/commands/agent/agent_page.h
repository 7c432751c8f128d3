/* The page of this node. */
#ifndef GS_COMMANDS_AGENT_AGENT_PAGE_H
#define GS_COMMANDS_AGENT_AGENT_PAGE_H

#include <stddef.h>

#include "commands/agent/agent_state.h"

struct agent_page;

/* From the main thread, all of it. NULL: no memory. */
struct agent_page *agent_page_new(struct agent_state *state);
void agent_page_free(struct agent_page **page); /* when the server has stopped */

/* What was read last, lent. */
void agent_page_take(struct agent_page *page, const struct gs_gpu_snapshot *gpu);

/* The routes of the server: those of agent_routes and the page's. Lent as long as the page is. */
const struct gs_http_route *agent_page_routes(const struct agent_page *page, size_t *ret_n);

#endif
