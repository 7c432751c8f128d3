/*
 * The last minutes of each GPU for charts and heat maps: a ring of points a node, each value of
 * each GPU in 16 bits. 3,600 bytes a GPU and 2,400 a node, so that ten thousand GPUs stay under
 * 64 MiB even with one GPU a node.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/registry/registry_int.h"

#define SPACING_NS 990000000ll /* of points; a little less than a second, for clocks tremble */

struct gs_registry_history {
	uint32_t n_gpus, next, n_points;
	uint64_t gpus_hash;
	int64_t wall_ns[GS_REGISTRY_POINTS];
	uint16_t value[]; /* [gpu][value][point] */
};

static const struct {
	enum gs_gpu_field field;
	double scale; /* steps of one unit */
} values[GS_REGISTRY_VALUES] = {
	[GS_REGISTRY_UTIL] = {GS_GPU_UTIL, 50000},
	[GS_REGISTRY_MEMORY] = {GS_GPU_MEM_USED, 50000},
	[GS_REGISTRY_DRAM] = {GS_GPU_DRAM_ACTIVE, 50000},
	[GS_REGISTRY_POWER] = {GS_GPU_POWER, 10},
	[GS_REGISTRY_TEMPERATURE] = {GS_GPU_TEMP_GPU, 100},
	[GS_REGISTRY_CLOCK] = {GS_GPU_CLOCK_SM, 1e-6},
};

int gs_registry_value_field(unsigned value)
{
	return value < GS_REGISTRY_VALUES ? (int)values[value].field : -1;
}

static double value_of(const struct gs_gpu_sample *s, unsigned value)
{
	if (s->lost)
		return NAN;
	return value == GS_REGISTRY_MEMORY ? gs_gpu_memory_ratio(s)
					   : gs_gpu_value(s, values[value].field);
}

static uint16_t pack_value(double v, double scale)
{
	v *= scale;
	return isfinite(v) && v >= 0 ? (uint16_t)fmin(v + 0.5, GS_REGISTRY_UNKNOWN - 1)
				     : GS_REGISTRY_UNKNOWN;
}

static uint64_t hash_gpus(const struct gs_gpu_snapshot *g)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (uint32_t i = 0; i < g->n_gpus; i++)
		for (const char *p = g->info[i].uuid;; p++) {
			h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
			if (!*p)
				break;
		}
	return h;
}

static struct gs_registry_history *begin_history(struct gs_registry_history **history,
						 uint32_t n_gpus, uint64_t hash,
						 size_t *n_remembered)
{
	struct gs_registry_history *h;

	if (*history)
		*n_remembered -= (*history)->n_gpus;
	gs_free_p(history);
	if (!n_gpus || n_gpus > GS_REGISTRY_GPUS_MAX - *n_remembered)
		return NULL;
	h = malloc(sizeof(*h) + (size_t)n_gpus * GS_REGISTRY_VALUES * GS_REGISTRY_POINTS * 2);
	if (!h)
		return NULL;
	*h = (struct gs_registry_history){.n_gpus = n_gpus, .gpus_hash = hash};
	*n_remembered += n_gpus;
	*history = h;
	return h;
}

void registry_history_add(struct gs_registry_history **history,
			  const struct gs_node_snapshot *snapshot, size_t *n_remembered)
{
	const struct gs_gpu_snapshot *g = snapshot->gpu;
	uint64_t hash = hash_gpus(g);
	struct gs_registry_history *h = *history;
	uint32_t last;

	last = h ? (h->next + GS_REGISTRY_POINTS - 1) % GS_REGISTRY_POINTS : 0;
	/* Other GPUs; or the node's clock was set back, and the order of the points would be none.
	 */
	if (!h || h->n_gpus != g->n_gpus || h->gpus_hash != hash ||
	    (h->n_points && snapshot->wall_ns < h->wall_ns[last] - SPACING_NS))
		h = begin_history(history, g->n_gpus, hash, n_remembered);
	if (!h)
		return;
	last = (h->next + GS_REGISTRY_POINTS - 1) % GS_REGISTRY_POINTS;
	if (h->n_points && snapshot->wall_ns < h->wall_ns[last] + SPACING_NS)
		return;
	h->wall_ns[h->next] = snapshot->wall_ns;
	for (uint32_t i = 0; i < g->n_gpus; i++)
		for (unsigned v = 0; v < GS_REGISTRY_VALUES; v++)
			h->value[(i * GS_REGISTRY_VALUES + v) * GS_REGISTRY_POINTS + h->next] =
				pack_value(value_of(&g->sample[i], v), values[v].scale);
	h->next = (h->next + 1) % GS_REGISTRY_POINTS;
	h->n_points += h->n_points < GS_REGISTRY_POINTS;
}

double gs_registry_steps(enum gs_registry_value value)
{
	return values[value].scale;
}

size_t registry_history_points(const struct gs_registry_history *h, enum gs_registry_value value,
			       uint32_t first_gpu, uint32_t n_gpus, size_t n_points,
			       int64_t *ret_wall_ns, uint16_t *ret_steps)
{
	size_t n, first, until_end;

	if (!h || first_gpu >= h->n_gpus || n_gpus > h->n_gpus - first_gpu)
		return 0;
	n = n_points < h->n_points ? n_points : h->n_points;
	/* A ring: up to its end, and what follows at its beginning. */
	first = (h->next + GS_REGISTRY_POINTS - n) % GS_REGISTRY_POINTS;
	until_end = n < GS_REGISTRY_POINTS - first ? n : GS_REGISTRY_POINTS - first;
	memcpy(ret_wall_ns, h->wall_ns + first, until_end * sizeof(*ret_wall_ns));
	memcpy(ret_wall_ns + until_end, h->wall_ns, (n - until_end) * sizeof(*ret_wall_ns));
	for (uint32_t i = 0; i < n_gpus; i++) {
		const uint16_t *from = &h->value[((first_gpu + i) * GS_REGISTRY_VALUES + value) *
						 GS_REGISTRY_POINTS];
		uint16_t *to = ret_steps + (size_t)i * GS_REGISTRY_POINTS;

		memcpy(to, from + first, until_end * sizeof(*to));
		memcpy(to + until_end, from, (n - until_end) * sizeof(*to));
	}
	return n;
}
