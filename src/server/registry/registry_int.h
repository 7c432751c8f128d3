/* Private to the room. */
#ifndef GS_SERVER_REGISTRY_REGISTRY_INT_H
#define GS_SERVER_REGISTRY_REGISTRY_INT_H

#include "server/registry/registry.h"

struct gs_registry_history;

/* A point of each GPU, unless the last is less than a second old. With other GPUs than before, or
 * the first time, the history begins again; *n_remembered counts those of all nodes. */
void registry_history_add(struct gs_registry_history **history,
			  const struct gs_node_snapshot *snapshot, size_t *n_remembered);

/* The last points of the first GPUs, as gs_registry_points() has them. history may be NULL. */
size_t registry_history_points(const struct gs_registry_history *history,
			       enum gs_registry_value value, uint32_t first_gpu, uint32_t n_gpus,
			       size_t n_points, int64_t *ret_wall_ns, uint16_t *ret_steps);

#endif
