/* Private to the room. */
#ifndef GS_CLUSTER_CLUSTER_INT_H
#define GS_CLUSTER_CLUSTER_INT_H

#include "server/registry/cluster.h"

struct gs_cluster_history;

/* A point of each GPU, unless the last is less than a second old. With other GPUs than before, or
 * the first time, the history begins anew; *n_remembered counts those of all nodes. */
void cluster_history_add(struct gs_cluster_history **history, const struct gs_node_snapshot *moment,
			 size_t *n_remembered);

/* The last points of the first GPUs, as gs_cluster_points() tells them. history may be NULL. */
size_t cluster_history_points(const struct gs_cluster_history *history, enum gs_cluster_value value,
			      uint32_t first_gpu, uint32_t n_gpus, size_t n_points,
			      int64_t *ret_wall_ns, uint16_t *ret_steps);

#endif
