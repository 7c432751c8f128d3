/* A growing array of nodes, by number, and a lock around it. */
#include "cluster/cluster_int.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

#define NODES_MAX 1000000

struct gs_cluster {
	pthread_mutex_t lock;
	struct gs_cluster_node **node; /* owned; rising by id */
	size_t n, n_max;
	struct gs_map by_id; /* index + 1 */
	size_t n_remembered; /* GPUs that have a history */
	_Atomic uint64_t version;
};

struct gs_cluster *gs_cluster_new(void)
{
	struct gs_cluster *c = calloc(1, sizeof(*c));

	if (c) {
		pthread_mutex_init(&c->lock, NULL);
		c->by_id = GS_MAP_INIT(NODES_MAX);
	}
	return c;
}

void gs_cluster_free(struct gs_cluster **cluster)
{
	struct gs_cluster *c = *cluster;

	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		gs_node_snapshot_free(&c->node[i]->latest);
		free(c->node[i]->history);
		free(c->node[i]);
	}
	free(c->node);
	gs_map_fini(&c->by_id);
	pthread_mutex_destroy(&c->lock);
	gs_free_p(cluster);
}

/* With the lock held. */
static struct gs_cluster_node *find(const struct gs_cluster *c, int64_t id)
{
	uint64_t i;

	return gs_map_get(&c->by_id, (uint64_t)id, &i) ? c->node[i] : NULL;
}

static int add(struct gs_cluster *c, int64_t id, struct gs_cluster_node **ret_node)
{
	struct gs_cluster_node *n;
	size_t at = c->n;

	if (c->n == c->n_max) {
		size_t n_max = c->n_max ? c->n_max * 2 : 64;
		struct gs_cluster_node **more = reallocarray(c->node, n_max, sizeof(*more));

		if (!more)
			return -ENOMEM;
		c->node = more;
		c->n_max = n_max;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->id = id;
	/* Numbers rise, so that as a rule nothing moves. */
	while (at > 0 && c->node[at - 1]->id > id)
		at--;
	memmove(&c->node[at + 1], &c->node[at], (c->n - at) * sizeof(*c->node));
	c->node[at] = n;
	c->n++;
	for (size_t i = at; i < c->n; i++)
		if (gs_map_put(&c->by_id, (uint64_t)c->node[i]->id, i) < 0) {
			memmove(&c->node[at], &c->node[at + 1], (c->n - at - 1) * sizeof(*c->node));
			c->n--;
			free(n);
			return -ENOMEM;
		}
	*ret_node = n;
	return 0;
}

int gs_cluster_put(struct gs_cluster *cluster, const struct gs_cluster_node *node)
{
	struct gs_cluster_node *n;
	int r = 0;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, node->id);
	if (!n)
		r = add(cluster, node->id, &n);
	if (r == 0) {
		memcpy(n->machine_id, node->machine_id, sizeof(n->machine_id));
		memcpy(n->instance, node->instance, sizeof(n->instance));
		memcpy(n->hostname, node->hostname, sizeof(n->hostname));
		if (node->last_wall_ns > n->last_wall_ns)
			n->last_wall_ns = node->last_wall_ns;
		cluster->version++;
	}
	pthread_mutex_unlock(&cluster->lock);
	return r;
}

void gs_cluster_connected(struct gs_cluster *cluster, int64_t id, const char *address,
			  const char *version)
{
	struct gs_cluster_node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, id);
	if (n) {
		n->n_connections++;
		n->healthy = true;
		n->heard_ns = gs_clock_mono_ns();
		snprintf(n->address, sizeof(n->address), "%s", address);
		snprintf(n->version, sizeof(n->version), "%s", version);
		cluster->version++;
	}
	pthread_mutex_unlock(&cluster->lock);
}

void gs_cluster_gone(struct gs_cluster *cluster, int64_t id)
{
	struct gs_cluster_node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, id);
	if (n && n->n_connections) {
		n->n_connections--;
		n->healthy &= n->n_connections > 0;
		cluster->version++;
	}
	pthread_mutex_unlock(&cluster->lock);
}

static void note_events(struct gs_cluster_node *n, const struct gs_node_snapshot *moment)
{
	n->n_gpu_events += moment->gpu->n_events;
	if (moment->gpu->n_events) {
		n->last_gpu_event = moment->gpu->event[moment->gpu->n_events - 1];
		n->last_gpu_event_wall_ns = moment->wall_ns;
	}
}

void gs_cluster_apply(struct gs_cluster *cluster, int64_t id, struct gs_node_snapshot **moment)
{
	struct gs_cluster_node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, id);
	if (n) {
		n->heard_ns = gs_clock_mono_ns();
		n->healthy = n->n_connections > 0;
		note_events(n, *moment);
		if (!n->latest || (*moment)->wall_ns >= n->latest->wall_ns) {
			struct gs_node_snapshot *before = n->latest;

			n->latest = gs_take(*moment);
			n->last_wall_ns = n->latest->wall_ns;
			*moment = before;
			cluster_history_add(&n->history, n->latest, &cluster->n_remembered);
		}
		cluster->version++;
	}
	pthread_mutex_unlock(&cluster->lock);
	gs_node_snapshot_free(moment);
}

void gs_cluster_counts(struct gs_cluster *cluster, int64_t id, uint64_t n_samples,
		       uint64_t lost_samples, uint64_t missed_samples)
{
	struct gs_cluster_node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, id);
	if (n) {
		n->n_samples += n_samples;
		n->lost_samples = lost_samples > n->lost_samples ? lost_samples : n->lost_samples;
		n->missed_samples += missed_samples;
	}
	pthread_mutex_unlock(&cluster->lock);
}

void gs_cluster_clock(struct gs_cluster *cluster, int64_t id, int64_t offset_ns,
		      uint64_t uncertain_ns)
{
	struct gs_cluster_node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find(cluster, id);
	if (n) {
		n->clock_known = true;
		n->clock_offset_ns = offset_ns;
		n->clock_uncertain_ns = uncertain_ns;
	}
	pthread_mutex_unlock(&cluster->lock);
}

void gs_cluster_tick(struct gs_cluster *cluster, uint64_t now_mono_ns,
		     void (*fn)(void *ctx, const struct gs_cluster_node *node), void *ctx)
{
	pthread_mutex_lock(&cluster->lock);
	for (size_t i = 0; i < cluster->n; i++) {
		struct gs_cluster_node *n = cluster->node[i];
		bool healthy = n->n_connections && now_mono_ns < n->heard_ns + GS_CLUSTER_SILENT_NS;

		if (healthy == n->healthy)
			continue;
		n->healthy = healthy;
		cluster->version++;
		if (fn)
			fn(ctx, n);
	}
	pthread_mutex_unlock(&cluster->lock);
}

void gs_cluster_lock(struct gs_cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
}

void gs_cluster_unlock(struct gs_cluster *cluster)
{
	pthread_mutex_unlock(&cluster->lock);
}

size_t gs_cluster_count(const struct gs_cluster *cluster)
{
	return cluster->n;
}

const struct gs_cluster_node *gs_cluster_at(const struct gs_cluster *cluster, size_t i)
{
	return i < cluster->n ? cluster->node[i] : NULL;
}

const struct gs_cluster_node *gs_cluster_find(const struct gs_cluster *cluster, int64_t id)
{
	return find(cluster, id);
}

uint64_t gs_cluster_version(const struct gs_cluster *cluster)
{
	return cluster->version;
}
