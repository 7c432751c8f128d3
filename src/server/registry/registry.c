/*
 * A growing array of nodes, by number, and a lock around it. A snapshot that a view shows is shared
 * with it, not copied; the rest of a node is some hundred bytes, which are copied for a view, some
 * nodes at a time, so that who delivers never waits for long.
 */
#include "server/registry/registry_int.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define NODES_MAX 1000000

#define DAY_NS  86400000000000ll
#define AT_ONCE 64 /* nodes copied with the lock held: some microseconds */

struct shared { /* a snapshot that a node or views show */
	atomic_uint refs;
	struct gs_node_snapshot *snapshot; /* owned */
};

struct node {
	uint64_t label_hash; /* gs_node_label_hash(); 0 not known yet */
	struct gs_registry_node now;
	struct shared *latest; /* referenced; NULL: none; now.latest is its snapshot */
	struct gs_registry_history *history; /* owned; NULL: none */
	uint64_t shown_ns;                   /* monotonic: when latest came */
};

struct gs_registry_view {
	atomic_uint refs;
	uint64_t version;
	size_t n, n_max;
	struct gs_registry_node *node; /* owned; rising by id */
	struct shared **latest;        /* owned, each referenced or NULL */
};

struct gs_registry {
	pthread_mutex_t lock;
	struct node **node; /* owned; rising by id */
	size_t n, n_max;
	struct gs_map by_id; /* index + 1 */
	size_t n_remembered; /* GPUs that have a history */
	_Atomic uint64_t version;
};

static void shared_unref(struct shared **ref)
{
	struct shared *s = *ref;

	if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
		gs_node_snapshot_free(&s->snapshot);
		free(s);
	}
	*ref = NULL;
}

struct gs_registry *gs_registry_new(void)
{
	struct gs_registry *c = calloc(1, sizeof(*c));

	if (c) {
		pthread_mutex_init(&c->lock, NULL);
		c->by_id = GS_MAP_INIT(NODES_MAX);
	}
	return c;
}

void gs_registry_free(struct gs_registry **cluster)
{
	struct gs_registry *c = *cluster;

	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		shared_unref(&c->node[i]->latest);
		free(c->node[i]->history);
		free(c->node[i]);
	}
	free(c->node);
	gs_map_fini(&c->by_id);
	pthread_mutex_destroy(&c->lock);
	gs_free_p(cluster);
}

/* With the lock held. */
static struct node *find_node(const struct gs_registry *c, int64_t id)
{
	uint64_t i;

	return gs_map_get(&c->by_id, (uint64_t)id, &i) ? c->node[i] : NULL;
}

static int add_node(struct gs_registry *c, int64_t id, struct node **ret_node)
{
	struct node *n;
	size_t at = c->n;

	if (!gs_vec_reserve(&c->node, &c->n_max, c->n + 1))
		return -ENOMEM;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->now.id = id;
	/* Numbers rise, so that as a rule nothing moves. */
	while (at > 0 && c->node[at - 1]->now.id > id)
		at--;
	memmove(&c->node[at + 1], &c->node[at], (c->n - at) * sizeof(*c->node));
	c->node[at] = n;
	c->n++;
	for (size_t i = at; i < c->n; i++)
		if (gs_map_put(&c->by_id, (uint64_t)c->node[i]->now.id, i) < 0) {
			memmove(&c->node[at], &c->node[at + 1], (c->n - at - 1) * sizeof(*c->node));
			c->n--;
			free(n);
			return -ENOMEM;
		}
	*ret_node = n;
	return 0;
}

/* A node is new, or has another name: which nodes are called like another one? With the lock. */
static void find_shared_names(struct gs_registry *c, struct node *changed_node)
{
	uint64_t hash = gs_node_label_hash(changed_node->now.hostname, changed_node->now.instance);
	uint64_t before = changed_node->label_hash;
	size_t n_before = 0, n_now = 0;

	if (hash == before)
		return;
	changed_node->label_hash = hash;
	for (size_t i = 0; i < c->n; i++) {
		n_before += c->node[i]->label_hash == before;
		n_now += c->node[i]->label_hash == hash;
	}
	for (size_t i = 0; i < c->n; i++)
		if (c->node[i]->label_hash == hash)
			c->node[i]->now.name_is_shared = n_now > 1;
		else if (c->node[i]->label_hash == before)
			c->node[i]->now.name_is_shared = n_before > 1;
}

int gs_registry_put(struct gs_registry *cluster, const struct gs_registry_node *node)
{
	struct node *n;
	int r = 0;

	pthread_mutex_lock(&cluster->lock);
	n = find_node(cluster, node->id);
	if (!n)
		r = add_node(cluster, node->id, &n);
	if (r == 0) {
		memcpy(n->now.machine_id, node->machine_id, sizeof(n->now.machine_id));
		memcpy(n->now.instance, node->instance, sizeof(n->now.instance));
		memcpy(n->now.hostname, node->hostname, sizeof(n->now.hostname));
		find_shared_names(cluster, n);
		if (node->last_wall_ns > n->now.last_wall_ns)
			n->now.last_wall_ns = node->last_wall_ns;
		cluster->version++;
	}
	pthread_mutex_unlock(&cluster->lock);
	return r;
}

/* The node with the lock held, to be changed; NULL, and nothing is held: there is none. */
static struct gs_registry_node *lock_for_change(struct gs_registry *cluster, int64_t id)
{
	struct node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find_node(cluster, id);
	if (n)
		return &n->now;
	pthread_mutex_unlock(&cluster->lock);
	return NULL;
}

static void unlock_changed(struct gs_registry *cluster)
{
	cluster->version++;
	pthread_mutex_unlock(&cluster->lock);
}

void gs_registry_connected(struct gs_registry *cluster, int64_t id, const char *address,
			   const char *version)
{
	struct gs_registry_node *n = lock_for_change(cluster, id);

	if (!n)
		return;
	n->n_connections++;
	n->healthy = true;
	n->received_ns = gs_clock_mono_ns();
	snprintf(n->address, sizeof(n->address), "%s", address);
	snprintf(n->version, sizeof(n->version), "%s", version);
	unlock_changed(cluster);
}

void gs_registry_gone(struct gs_registry *cluster, int64_t id)
{
	struct gs_registry_node *n = lock_for_change(cluster, id);

	if (!n)
		return;
	if (n->n_connections) {
		n->n_connections--;
		n->healthy &= n->n_connections > 0;
	}
	unlock_changed(cluster);
}

int64_t gs_registry_event_wall_ns(const struct gs_node_snapshot *m, const struct gs_gpu_event *e)
{
	int64_t since_ns = (int64_t)(m->time_ns - e->time_ns);

	return e->time_ns && llabs(since_ns) < DAY_NS ? m->wall_ns - since_ns : m->wall_ns;
}

static void note_events(struct gs_registry_node *n, const struct gs_node_snapshot *snapshot)
{
	const struct gs_gpu_snapshot *g = snapshot->gpu;

	n->n_gpu_events += g->n_events;
	for (uint32_t i = 0; i < g->n_events; i++) {
		uint32_t gpu = 0;

		while (gpu < g->n_gpus && !gs_gpu_health_is_of(&g->event[i], &g->info[gpu]))
			gpu++;
		if (g->event[i].xid && gpu < g->n_gpus)
			n->xid[n->n_xids++ % GS_REGISTRY_XIDS] = (struct gs_registry_xid){
				.wall_ns = gs_registry_event_wall_ns(snapshot, &g->event[i]),
				.xid = g->event[i].xid,
				.gpu = gpu};
	}
}

/* Than what is shown: by the clock, or by the time since the machine began when its clock was set
 * back; what comes when nothing new was shown for so long is newer in any case (both went back). */
static bool is_newer(const struct node *n, const struct gs_node_snapshot *snapshot)
{
	const struct gs_node_snapshot *shown = n->now.latest;

	return !shown || snapshot->wall_ns >= shown->wall_ns ||
	       snapshot->time_ns > shown->time_ns ||
	       n->now.received_ns - n->shown_ns > GS_REGISTRY_SILENT_NS;
}

void gs_registry_apply(struct gs_registry *cluster, int64_t id, struct gs_node_snapshot **snapshot)
{
	struct shared *s = malloc(sizeof(*s));
	struct node *n;

	pthread_mutex_lock(&cluster->lock);
	n = find_node(cluster, id);
	if (n) {
		n->now.received_ns = gs_clock_mono_ns();
		n->now.healthy = n->now.n_connections > 0;
		note_events(&n->now, *snapshot);
		/* Without memory the one before is shown on. */
		if (s && is_newer(n, *snapshot)) {
			struct shared *before = n->latest;

			s->refs = 1;
			s->snapshot = gs_take(*snapshot);
			gs_gpu_health_follow(before ? before->snapshot->gpu : NULL,
					     s->snapshot->gpu);
			n->latest = s;
			n->now.latest = s->snapshot;
			n->now.last_wall_ns = s->snapshot->wall_ns;
			n->shown_ns = n->now.received_ns;
			s = before;
			registry_history_add(&n->history, n->now.latest, &cluster->n_remembered);
		} else {
			gs_free_p(&s);
		}
		cluster->version++;
	} else {
		gs_free_p(&s);
	}
	pthread_mutex_unlock(&cluster->lock);
	shared_unref(&s); /* much memory: not with the lock held */
	gs_node_snapshot_free(snapshot);
}

void gs_registry_counts(struct gs_registry *cluster, int64_t id, uint64_t n_samples,
			uint64_t lost_samples, uint64_t missed_samples)
{
	struct gs_registry_node *n = lock_for_change(cluster, id);

	if (!n)
		return;
	n->n_samples += n_samples;
	n->lost_samples = lost_samples > n->lost_samples ? lost_samples : n->lost_samples;
	n->missed_samples += missed_samples;
	unlock_changed(cluster);
}

void gs_registry_clock(struct gs_registry *cluster, int64_t id, int64_t offset_ns,
		       uint64_t uncertain_ns)
{
	struct gs_registry_node *n = lock_for_change(cluster, id);

	if (!n)
		return;
	n->clock_known = true;
	n->clock_offset_ns = offset_ns;
	n->clock_uncertain_ns = uncertain_ns;
	unlock_changed(cluster);
}

void gs_registry_tick(struct gs_registry *cluster, uint64_t now_mono_ns,
		      void (*fn)(void *ctx, const struct gs_registry_node *node), void *ctx)
{
	pthread_mutex_lock(&cluster->lock);
	for (size_t i = 0; i < cluster->n; i++) {
		struct gs_registry_node *n = &cluster->node[i]->now;
		bool healthy =
			n->n_connections && now_mono_ns < n->received_ns + GS_REGISTRY_SILENT_NS;

		if (healthy == n->healthy)
			continue;
		n->healthy = healthy;
		cluster->version++;
		if (fn)
			fn(ctx, n);
	}
	pthread_mutex_unlock(&cluster->lock);
}

uint64_t gs_registry_version(const struct gs_registry *cluster)
{
	return cluster->version;
}

/* --- views --- */

struct gs_registry_view *gs_registry_view_ref(struct gs_registry_view *view)
{
	atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
	return view;
}

void gs_registry_view_unref(struct gs_registry_view **view)
{
	struct gs_registry_view *v = gs_take(*view);

	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) > 1)
		return;
	for (size_t i = 0; i < v->n; i++)
		shared_unref(&v->latest[i]);
	free(v->node);
	free(v->latest);
	free(v);
}

static int make_room(struct gs_registry_view *v)
{
	size_t n_max = v->n_max + (v->n_max > AT_ONCE ? v->n_max : AT_ONCE);
	struct gs_registry_node *node = reallocarray(v->node, n_max, sizeof(*node));
	struct shared **latest;

	if (!node)
		return -ENOMEM;
	v->node = node;
	latest = reallocarray(v->latest, n_max, sizeof(struct shared *));
	if (!latest)
		return -ENOMEM;
	v->latest = latest;
	v->n_max = n_max;
	return 0;
}

/* The next ones after the last that the view has, as many as there is room for; with the lock
 * held. Returns how many. */
static size_t copy_some(const struct gs_registry *c, struct gs_registry_view *v)
{
	int64_t last = v->n ? v->node[v->n - 1].id : INT64_MIN;
	size_t at = v->n < c->n ? v->n : c->n, before = v->n;

	/* Numbers rise, so that as a rule nothing has come in between. */
	while (at > 0 && c->node[at - 1]->now.id > last)
		at--;
	while (at < c->n && c->node[at]->now.id <= last)
		at++;
	for (; at < c->n && v->n < v->n_max && v->n - before < AT_ONCE; at++, v->n++) {
		struct node *n = c->node[at];

		v->node[v->n] = n->now;
		v->latest[v->n] = n->latest;
		if (n->latest)
			atomic_fetch_add_explicit(&n->latest->refs, 1, memory_order_relaxed);
	}
	return v->n - before;
}

struct gs_registry_view *gs_registry_view(struct gs_registry *c)
{
	struct gs_registry_view *v = calloc(1, sizeof(*v));
	size_t n;

	if (!v)
		return NULL;
	v->refs = 1;
	v->version = c->version; /* what changes while it is made makes it old */
	do {
		if (v->n_max - v->n < AT_ONCE && make_room(v) < 0) {
			gs_registry_view_unref(&v);
			return NULL;
		}
		pthread_mutex_lock(&c->lock);
		n = copy_some(c, v);
		pthread_mutex_unlock(&c->lock);
	} while (n == AT_ONCE);
	return v;
}

size_t gs_registry_view_count(const struct gs_registry_view *view)
{
	return view ? view->n : 0;
}

const struct gs_registry_node *gs_registry_view_at(const struct gs_registry_view *view, size_t i)
{
	return view && i < view->n ? &view->node[i] : NULL;
}

const struct gs_registry_node *gs_registry_view_find(const struct gs_registry_view *view,
						     int64_t id)
{
	size_t n = gs_registry_view_count(view), least = 0, most = n;

	while (least < most) {
		size_t middle = least + (most - least) / 2;

		if (view->node[middle].id < id)
			least = middle + 1;
		else
			most = middle;
	}
	return least < n && view->node[least].id == id ? &view->node[least] : NULL;
}

uint64_t gs_registry_view_version(const struct gs_registry_view *view)
{
	return view->version;
}

/* --- the last minutes --- */

static size_t read_points(struct gs_registry *c, int64_t id, enum gs_registry_value value,
			  uint32_t first_gpu, uint32_t n_gpus, size_t n_points,
			  int64_t *ret_wall_ns, uint16_t *ret_steps)
{
	const struct node *n;
	size_t found;

	pthread_mutex_lock(&c->lock);
	n = find_node(c, id);
	found = registry_history_points(n ? n->history : NULL, value, first_gpu, n_gpus, n_points,
					ret_wall_ns, ret_steps);
	pthread_mutex_unlock(&c->lock);
	return found;
}

size_t gs_registry_points(struct gs_registry *cluster, int64_t id, enum gs_registry_value value,
			  uint32_t n_gpus, size_t n_points, int64_t *ret_wall_ns,
			  uint16_t *ret_steps)
{
	return read_points(cluster, id, value, 0, n_gpus, n_points, ret_wall_ns, ret_steps);
}

size_t gs_registry_history(struct gs_registry *cluster, int64_t id, uint32_t gpu,
			   enum gs_registry_value value, int64_t *ret_wall_ns, double *ret_values)
{
	uint16_t steps[GS_REGISTRY_POINTS];
	size_t n = read_points(cluster, id, value, gpu, 1, GS_REGISTRY_POINTS, ret_wall_ns, steps);

	for (size_t i = 0; i < n; i++)
		ret_values[i] =
			steps[i] == GS_REGISTRY_UNKNOWN ? NAN : steps[i] / gs_registry_steps(value);
	return n;
}

double gs_registry_mean(struct gs_registry *cluster, int64_t id, uint32_t gpu,
			enum gs_registry_value value, uint64_t span_ns, size_t *ret_n)
{
	int64_t wall_ns[GS_REGISTRY_POINTS];
	double values[GS_REGISTRY_POINTS], sum = 0;
	size_t n = gs_registry_history(cluster, id, gpu, value, wall_ns, values), known = 0;

	for (size_t i = n; i > 0 && wall_ns[n - 1] - wall_ns[i - 1] <= (int64_t)span_ns; i--)
		if (!isnan(values[i - 1])) {
			sum += values[i - 1];
			known++;
		}
	*ret_n = known;
	return known ? sum / (double)known : NAN;
}
