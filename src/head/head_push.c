/*
 * What is pushed, in parts: the head's own families first, then nodes, some at a time. Of those the
 * newest moments are copied with the cluster's lock held, a fraction of a millisecond, and rendered
 * without it.
 */
#include "head/head_push.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "head/head_int.h"

#define GPUS_COPIED 64         /* of them at a time, and at least one node */
#define PART_BYTES  (2u << 20) /* of text; then a part is enough for one request */
/* Engines refuse what is much older than what they have; Prometheus takes the last two hours of a
 * series, and nothing that is before its newest. */
#define OLDEST_NS 300000000000ll

struct gs_head_pusher {
	size_t next;        /* node to look at */
	struct gs_map sent; /* node to the time of the newest of its moments that was taken, ns */
};

struct copied {
	char host[65], client[160];
	bool healthy;
	int64_t heard_wall_ns;          /* of its newest sample, by the head's clock; 0 none */
	struct gs_gpu_snapshot *gpu;    /* owned; NULL: nothing new */
	struct gs_host_sample host_now; /* when gpu is there */
	int64_t wall_ns;
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
	gs_map_fini(&(*pusher)->sent);
	gs_free_p(pusher);
}

/* --- copying --- */

static int copy_node(struct gs_head_pusher *p, const struct gs_cluster_node *n, struct copied *out)
{
	const struct gs_node_snapshot *m = n->latest;
	uint64_t before = 0;
	int64_t wall_ns;

	*out = (struct copied){.healthy = n->healthy};
	memcpy(out->host, n->hostname, sizeof(out->host));
	/* As the API calls clients. */
	if (n->instance[0] && strcmp(n->instance, "default") != 0)
		snprintf(out->client, sizeof(out->client), "%s/%s", n->hostname, n->instance);
	else
		snprintf(out->client, sizeof(out->client), "%s", n->hostname);
	if (n->last_wall_ns)
		out->heard_wall_ns = n->last_wall_ns + n->clock_offset_ns;
	if (!m)
		return 0;
	wall_ns = m->wall_ns + n->clock_offset_ns;
	(void)gs_map_get(&p->sent, (uint64_t)n->id, &before);
	if (wall_ns / 1000000 <= (int64_t)before / 1000000 ||
	    wall_ns < (int64_t)gs_clock_wall_ns() - OLDEST_NS)
		return 0;
	out->gpu = gs_gpu_snapshot_copy(m->gpu);
	if (!out->gpu || gs_map_put(&p->sent, (uint64_t)n->id, (uint64_t)wall_ns) < 0) {
		gs_gpu_snapshot_free(&out->gpu);
		return -ENOMEM;
	}
	out->gpu->wall_ns += n->clock_offset_ns;
	out->host_now = m->host->sample;
	out->wall_ns = wall_ns;
	return 0;
}

/* The next ones, at least one; how many. 0: there are no more. */
static int copy_some(struct gs_head_pusher *p, struct gs_cluster *c, struct copied out[GPUS_COPIED],
		     bool *ret_more)
{
	uint32_t n_gpus = 0;
	int n = 0, r = 0;

	gs_cluster_lock(c);
	while (r == 0 && n < GPUS_COPIED && n_gpus < GPUS_COPIED && p->next < gs_cluster_count(c)) {
		r = copy_node(p, gs_cluster_at(c, p->next++), &out[n]);
		n_gpus += out[n].gpu ? out[n].gpu->n_gpus : 0;
		n++;
	}
	*ret_more = p->next < gs_cluster_count(c);
	gs_cluster_unlock(c);
	for (int i = 0; r < 0 && i < n; i++)
		gs_gpu_snapshot_free(&out[i].gpu);
	return r < 0 ? r : n;
}

/* --- rendering --- */

static void node_value(struct gs_prom *p, const char *name, const char *unit, const char *help,
		       const struct gs_prom_label *labels, double value, int64_t wall_ns)
{
	if (value < 0)
		return;
	gs_prom_family(p, name, GS_PROM_GAUGE, unit, help);
	gs_prom_line(p, "", labels, 2, value, wall_ns / 1000000);
}

static void put_node(struct gs_prom *p, const struct copied *c)
{
	const struct gs_prom_label labels[] = {{"instance", c->client}, {"node", c->host}};
	const struct gs_prom_gpu_options o = {
		.size = sizeof(o),
		.names = GS_PROM_NATIVE,
		.timestamps = true,
		.labels = labels,
		.n_labels = GS_ARRAY_LEN(labels),
	};
	const struct gs_host_sample *h = &c->host_now;
	unsigned dropped;

	node_value(p, "gpuscope_node_up", "", "1 when the node is connected and delivers.", labels,
		   c->healthy, 0);
	if (c->heard_wall_ns)
		node_value(p, "gpuscope_node_sample_timestamp_seconds", "seconds",
			   "When the node's newest sample was taken, in seconds since 1970.",
			   labels, (double)(c->heard_wall_ns / 1000000) / 1e3, 0);
	if (!c->gpu)
		return;
	node_value(p, "gpuscope_node_cpu_utilization_ratio", "ratio",
		   "Share of all processors that was used.", labels, h->cpu_ratio, c->wall_ns);
	node_value(p, "gpuscope_node_load1", "", "Load average over a minute.", labels, h->load1,
		   c->wall_ns);
	node_value(p, "gpuscope_node_memory_total_bytes", "bytes", "Memory of the machine.", labels,
		   (double)h->mem_total_bytes, c->wall_ns);
	node_value(p, "gpuscope_node_memory_used_bytes", "bytes",
		   "Memory that is not available to a new program.", labels,
		   (double)h->mem_used_bytes, c->wall_ns);
	gs_prom_gpu(p, c->gpu, NULL, 0, &o, &dropped);
}

int gs_head_push_render(struct gs_head_pusher *p, struct gs_cluster *cluster, unsigned part,
			struct gs_buf *out)
{
	struct copied *copied = calloc(GPUS_COPIED, sizeof(*copied));
	struct gs_prom prom;
	bool more = true;
	int n, r = 0;

	if (!copied)
		return -ENOMEM;
	if (part == 0)
		p->next = 0;
	gs_prom_init(&prom, out, true);
	while (r == 0 && more && out->bytes < PART_BYTES) {
		n = copy_some(p, cluster, copied, &more);
		r = n < 0 ? n : 0;
		for (int i = 0; i < n; i++) {
			put_node(&prom, &copied[i]);
			gs_gpu_snapshot_free(&copied[i].gpu);
		}
	}
	free(copied);
	if (r == 0)
		r = gs_prom_end(&prom);
	return r < 0 ? r : more ? GS_PUSH_MORE : 0;
}

/* --- the head's --- */

static int render(void *ctx, enum gs_push_protocol protocol, unsigned part, struct gs_buf *out)
{
	struct gs_head *h = ctx;
	struct gs_prom p;
	int r;

	if (part)
		return gs_head_push_render(h->pusher[protocol], h->cluster, part - 1, out);
	gs_prom_init(&p, out, true);
	gs_head_metrics(h, &p);
	r = gs_prom_end(&p);
	return r < 0 ? r : GS_PUSH_MORE;
}

static void say(void *ctx, const char *text)
{
	head_say(ctx, "push: %s", text);
}

void gs_head_push_end(struct gs_head *head)
{
	struct gs_push_set *set;

	/* Whoever shows its numbers does so with the lock held. */
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
		.render = render,
		.say = say,
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
