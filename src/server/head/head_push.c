/*
 * What is pushed, in parts: the head's own families first, then nodes, some at a time, all out of
 * one view of the cluster.
 */
#include "server/head/head_push.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "server/head/head_int.h"

#define PART_SAMPLES 10000u /* some 2 MB; then a part is enough for one request */
/* Engines refuse what is much older than what they have; Prometheus takes the last two hours of a
 * series, and nothing that is before its newest. */
#define OLDEST_NS 300000000000ll

struct gs_head_pusher {
	struct gs_registry_view *view; /* of the parts that are being made; referenced */
	size_t next;                   /* node to look at */
	struct gs_map sent; /* node to the time of the newest of its snapshots that was taken, ns */
};

struct gs_head_pusher *gs_head_pusher_new(void)
{
	struct gs_head_pusher *p = calloc(1, sizeof(*p));

	if (p)
		p->sent = GS_MAP_INIT(1u << 24);
	return p;
}

void gs_head_pusher_free(struct gs_head_pusher **pusher)
{
	if (!*pusher)
		return;
	gs_registry_view_unref(&(*pusher)->view);
	gs_map_fini(&(*pusher)->sent);
	gs_free_p(pusher);
}

/* --- rendering --- */

static void node_value(struct gs_metrics *p, const char *name, const char *unit, const char *help,
		       const struct gs_metrics_label *labels, double value, int64_t wall_ns)
{
	if (value < 0)
		return;
	gs_metrics_family(p, name, GS_METRICS_GAUGE, unit, help);
	gs_metrics_line(p, "", labels, 2, value, wall_ns / 1000000);
}

/* Whether its snapshot was not sent before, and is young enough; it counts as sent then. */
static bool is_new(struct gs_head_pusher *p, const struct gs_registry_node *n, int64_t wall_ns)
{
	uint64_t before = 0;

	(void)gs_map_get(&p->sent, (uint64_t)n->id, &before);
	return wall_ns / 1000000 > (int64_t)before / 1000000 &&
	       wall_ns >= (int64_t)gs_clock_wall_ns() - OLDEST_NS &&
	       gs_map_put(&p->sent, (uint64_t)n->id, (uint64_t)wall_ns) >= 0;
}

static void put_snapshot(struct gs_metrics *p, const struct gs_registry_node *n,
			 const struct gs_metrics_label *labels, size_t n_labels)
{
	const struct gs_metrics_gpu_options o = {
		.size = sizeof(o),
		.names = GS_METRICS_NATIVE,
		.timestamps = true,
		.sample_timestamps = true,
		.labels = labels,
		.n_labels = n_labels,
	};
	const struct gs_host_sample *h = &n->latest->host->sample;
	struct gs_gpu_snapshot gpu = *n->latest->gpu; /* what it points to is the view's */
	int64_t wall_ns = n->latest->wall_ns + n->clock_offset_ns;
	unsigned dropped;

	node_value(p, "gpuscope_node_cpu_utilization_ratio", "ratio",
		   "CPU time used, as a share of all processors.", labels, h->cpu_ratio, wall_ns);
	node_value(p, "gpuscope_node_load1", "", "Load average over one minute.", labels, h->load1,
		   wall_ns);
	node_value(p, "gpuscope_node_memory_total_bytes", "bytes", "Memory of the machine.", labels,
		   (double)h->mem_total_bytes, wall_ns);
	node_value(p, "gpuscope_node_memory_used_bytes", "bytes",
		   "Memory in use (total - available).", labels, (double)h->mem_used_bytes,
		   wall_ns);
	gpu.wall_ns += n->clock_offset_ns;
	gs_metrics_gpu(p, &gpu, NULL, 0, &o, &dropped);
}

static void put_node(struct gs_head_pusher *pusher, struct gs_metrics *p,
		     const struct gs_registry_node *n)
{
	char client[160];
	const struct gs_metrics_label labels[] = {{"instance", client}, {"node", n->hostname}};

	/* As the API calls clients. */
	if (n->instance[0] && strcmp(n->instance, "default") != 0)
		snprintf(client, sizeof(client), "%s/%s", n->hostname, n->instance);
	else
		snprintf(client, sizeof(client), "%s", n->hostname);
	node_value(p, "gpuscope_node_up", "", "1 while the node is connected and sends data.",
		   labels, n->healthy, 0);
	if (n->last_wall_ns)
		node_value(p, "gpuscope_node_sample_timestamp_seconds", "seconds",
			   "When the node's newest sample was taken, in seconds since 1970.",
			   labels, (double)((n->last_wall_ns + n->clock_offset_ns) / 1000000) / 1e3,
			   0);
	if (n->latest && is_new(pusher, n, n->latest->wall_ns + n->clock_offset_ns))
		put_snapshot(p, n, labels, GS_ARRAY_LEN(labels));
}

int gs_head_push_render(struct gs_head_pusher *p, struct gs_registry *cluster, unsigned part,
			struct gs_metrics *out)
{
	bool more;

	if (part == 0) {
		gs_registry_view_unref(&p->view);
		p->view = gs_registry_view(cluster);
		p->next = 0;
	}
	if (!p->view)
		return -ENOMEM;
	while (p->next < gs_registry_view_count(p->view) && out->n_samples < PART_SAMPLES)
		put_node(p, out, gs_registry_view_at(p->view, p->next++));
	more = p->next < gs_registry_view_count(p->view);
	if (!more)
		gs_registry_view_unref(&p->view); /* it keeps snapshots in memory */
	return more ? GS_PUSH_MORE : 0;
}

/* --- the head's --- */

static int render_metrics(void *ctx, enum gs_push_protocol protocol, unsigned part,
			  struct gs_metrics *out)
{
	struct gs_head *h = ctx;

	if (part)
		return gs_head_push_render(h->pusher[protocol], h->cluster, part - 1, out);
	gs_head_metrics(h, out);
	return GS_PUSH_MORE;
}

static void log_push(void *ctx, const char *text)
{
	head_log(ctx, "push: %s", text);
}

void gs_head_push_end(struct gs_head *head)
{
	struct gs_push_set *set;

	/* Its numbers are read with the lock held. */
	pthread_mutex_lock(&head->push_lock);
	set = head->push;
	head->push = NULL;
	pthread_mutex_unlock(&head->push_lock);
	gs_push_set_close(&set);
	for (int i = 0; i < GS_PUSH_PROTOCOLS; i++)
		gs_head_pusher_free(&head->pusher[i]);
}

int gs_head_push(struct gs_head *head, const struct gs_push_conf conf[GS_PUSH_PROTOCOLS],
		 const char *hostname, struct gs_err *err)
{
	const struct gs_push_set_options o = {
		.size = sizeof(o),
		.conf = conf,
		.hostname = hostname,
		.render = render_metrics,
		.on_message = log_push,
		.ctx = head,
	};
	struct gs_push_set *set = NULL;
	int r = 0;

	gs_head_push_end(head);
	for (int i = 0; r == 0 && i < GS_PUSH_PROTOCOLS; i++) {
		head->pusher[i] = gs_head_pusher_new();
		r = head->pusher[i] ? 0 : gs_err_set(err, -ENOMEM, "no memory");
	}
	if (r == 0)
		r = gs_push_set_open(&o, &set, err);
	pthread_mutex_lock(&head->push_lock);
	head->push = set;
	pthread_mutex_unlock(&head->push_lock);
	return r;
}
