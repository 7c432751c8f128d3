/* Private to the room: messages of gswarm-profiler to moments, and what is known into its messages.
 */
#ifndef GS_HEAD_HEAD_GSWARM_H
#define GS_HEAD_HEAD_GSWARM_H

#include "gswarm_profiler.pb-c.h"
#include "head/head_int.h"

/* A message that came, checked to be one; NULL: it is none. Freed by ..._free_unpacked(). */
GswarmProfiler__MetricsUpdate *head_gswarm_update(const void *data, size_t bytes);

/* A moment of it. now_wall_ns: the time of those that tell none. wish: what the client was asked
 * for: of what it was not, a 0 is no measurement. NULL: no memory. */
struct gs_node_snapshot *head_gswarm_moment(const GswarmProfiler__MetricsUpdate *update,
					    int64_t now_wall_ns,
					    const struct gs_head_switches *wish);

/* Answers. */
void head_gswarm_status(struct gs_head *h, struct gs_rpc_call *call);
void head_gswarm_cluster(struct gs_head *h, struct gs_rpc_call *call);
void head_gswarm_node(struct gs_head *h, struct gs_rpc_call *call, const char *node_id);

#endif
