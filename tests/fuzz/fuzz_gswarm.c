/*
 * What anybody may send to a head as a client of gswarm-profiler. What is made of it can be stored
 * and read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compat/gswarm/gswarm_int.h"
#include "snapshot_again.h"
#include "replay_main.h"

static void can_be_stored(const struct gs_node_snapshot *node)
{
	struct gs_node_snapshot *same = again(node);

	gs_node_snapshot_free(&same);
}

static void take_update(const uint8_t *data, size_t bytes)
{
	GswarmProfiler__MetricsUpdate *m = gswarm_update(data, bytes);

	for (int on = 0; m && on < 2; on++) {
		struct gswarm_seen seen = {on, on, on};
		struct gs_node_snapshot *n = gswarm_sample(m, 1700000000000000000, &seen);

		if (!n)
			abort();
		for (uint32_t i = 0; i < n->gpu->n_gpus; i++)
			for (int f = 0; f < GS_GPU_FIELD_COUNT; f++)
				if (gs_gpu_has(&n->gpu->sample[i], f) &&
				    !(n->gpu->sample[i].value[f] >= 0))
					abort(); /* a value that is none */
		can_be_stored(n);
		gs_node_snapshot_free(&n);
	}
	if (m)
		gswarm_profiler__metrics_update__free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is caught. */
	uint8_t *copy;

	copy = malloc(bytes + !bytes);
	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	take_update(copy, bytes);
	free(copy);
	return 0;
}
