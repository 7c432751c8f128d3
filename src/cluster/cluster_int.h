/* Private to the room. */
#ifndef GS_CLUSTER_CLUSTER_INT_H
#define GS_CLUSTER_CLUSTER_INT_H

#include "cluster/cluster.h"

/* A point of each GPU, unless the last is less than a second old. With other GPUs than before, or
 * the first time, the history begins anew; *n_remembered counts those of all nodes. */
void cluster_history_add(struct gs_cluster_history **history, const struct gs_node_snapshot *moment,
			 size_t *n_remembered);

#endif
