/*
 * The cluster as answers see it: a view of it, how each GPU is, and the sums. A snapshot never changes;
 * who holds a reference may read it on any thread, and no delivery waits for that.
 */
#ifndef GS_SERVER_LIVE_SNAPSHOT_H
#define GS_SERVER_LIVE_SNAPSHOT_H

#include <stdatomic.h>

#include "server/live/live.h"

/* Of a GPU, worse is more. */
enum gs_live_state {
	GS_LIVE_OK = 0,
	GS_LIVE_IDLE = 1,
	GS_LIVE_DEGRADED = 2,
	GS_LIVE_THROTTLED = 3,
	GS_LIVE_UNREACHABLE = 4,
	GS_LIVE_FAILING = 5,
	GS_LIVE_STATES
};
const char *gs_live_state_name(unsigned state); /* "ok", ... "failing", "unknown" */

struct gs_live_sums {
	/* state: GPUs by enum gs_live_state; n_power, n_util: that have these */
	uint64_t n_gpus, state[GS_LIVE_STATES], n_power, n_util;
	double power, util, used, total; /* W; 0 to 1, summed; bytes of memory */
};

struct gs_live_snapshot_gpu {
	uint32_t node; /* its place in the view */
	uint32_t gpu;  /* its place in the node's snapshot */
	uint8_t state; /* enum gs_live_state */
};

struct gs_live_snapshot {
	atomic_uint refs;              /* who may read it; the last one frees */
	struct gs_registry_view *view; /* a reference of its own */
	uint64_t until_ns; /* monotonic: it may be used again, although something has changed */
	size_t n_nodes, n_healthy;
	uint32_t *first; /* of each node (and the end): the number of its first GPU */
	struct gs_live_snapshot_gpu *gpu; /* all, by node and place */
	uint32_t *worst;         /* their numbers, worst first, of the same state the least used */
	struct gs_live_sums all; /* of all GPUs */
};

/* The cluster now; referenced. NULL: no memory. Any thread. */
struct gs_live_snapshot *gs_live_take_snapshot(struct gs_live *live);
void gs_live_snapshot_unref(struct gs_live_snapshot **snapshot);

/* How many GPUs this node of the view has, and how one of them is. */
static inline uint32_t gs_live_snapshot_gpus(const struct gs_live_snapshot *l, size_t node)
{
	return l->first[node + 1] - l->first[node];
}

/* gpu: its place in the node. */
static inline enum gs_live_state gs_live_snapshot_state(const struct gs_live_snapshot *l,
							size_t node, uint32_t gpu)
{
	return (enum gs_live_state)l->gpu[l->first[node] + gpu].state;
}

/* Of one node. */
void gs_live_snapshot_sums(const struct gs_live_snapshot *l, size_t node,
			   struct gs_live_sums *ret_sums);

/* Which node: gs_node_label(). */
void gs_live_client_id(const struct gs_registry_node *n, char *out, size_t bytes);

#endif
