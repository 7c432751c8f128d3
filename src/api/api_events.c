/* What happens, told as it happens: server-sent events for pages, metrics for Prometheus. */
#include "api/api_int.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "head/head_push.h"
#include "prom/prom.h"

/* The head of one event; one line of JSON follows. */
static void begin(struct gs_buf *b, const char *name)
{
	gs_buf_reset(b);
	(void)gs_buf_printf(b, "event: %s\ndata: ", name);
}

static void hello(struct gs_buf *b)
{
	(void)gs_buf_puts(b,
			  "retry: 2000\nevent: hello\ndata: {\"version\":\"" GS_VERSION "\"}\n\n");
}

API_HANDLER(api_events)
{
	reply->type = "text/event-stream";
	reply->topics = API_TOPIC;
	hello(&reply->body);
}

/* How the cluster is: small, however large it is. Pages ask for what they show when it changed. */
static void put_state(struct gs_api *a, struct gs_buf *b, uint64_t version)
{
	struct gs_cluster *c = gs_head_cluster(a->o.head);
	struct gs_store_session *active = NULL;
	uint64_t states[API_STATES] = {0}, hash = 0;
	size_t n_active = 0, n_healthy = 0, n_gpus = 0;

	(void)gs_head_active(a->o.head, &active, &n_active);
	for (size_t i = 0; i < n_active; i++)
		hash = hash * 31 + (uint64_t)active[i].number;
	free(active);
	(void)gs_buf_puts(b, "{"); /* behind "data: " */
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_u64(b, "version", version);
	gs_cluster_lock(c);
	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		const struct gs_cluster_node *n = gs_cluster_at(c, i);

		n_healthy += n->healthy;
		for (uint32_t g = 0; n->latest && g < n->latest->gpu->n_gpus; g++) {
			states[api_state_of(n, g)]++;
			n_gpus++;
		}
	}
	j_u64(b, "nodes", gs_cluster_count(c));
	gs_cluster_unlock(c);
	j_u64(b, "healthy_nodes", n_healthy);
	j_u64(b, "gpus", n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < API_STATES; i++)
		j_u64(b, api_state_name(i), states[i]);
	j_close(b, '}');
	j_u64(b, "active_sessions", n_active);
	j_u64(b, "sessions_version", hash);
	j_close(b, '}');
}

void api_publish(struct gs_api *a)
{
	uint64_t version = gs_cluster_version(gs_head_cluster(a->o.head));
	struct gs_buf b = GS_BUF_INIT(65536);
	struct gs_http_stats stats;

	gs_http_stats(a->http, &stats);
	if (!stats.streams)
		return;
	begin(&b, "state");
	put_state(a, &b, version);
	if (gs_buf_puts(&b, "\n\n") == 0)
		(void)gs_http_publish(a->http, API_TOPIC, (const char *)b.data, b.bytes);
	gs_buf_fini(&b);
}

/* --- metrics --- */

static void one(struct gs_prom *p, const char *name, enum gs_prom_kind kind, double value,
		const char *help)
{
	const char *end = strrchr(name, '_');
	const char *unit =
		end && (strcmp(end, "_seconds") == 0 || strcmp(end, "_bytes") == 0) ? end + 1 : "";

	gs_prom_family(p, name, kind, unit, help);
	gs_prom_line(p, "", NULL, 0, value, 0);
}

static void put_states(struct gs_prom *p, struct gs_cluster *c)
{
	uint64_t states[API_STATES] = {0};

	gs_cluster_lock(c);
	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		const struct gs_cluster_node *node = gs_cluster_at(c, i);

		for (uint32_t g = 0; node->latest && g < node->latest->gpu->n_gpus; g++)
			states[api_state_of(node, g)]++;
	}
	gs_cluster_unlock(c);
	gs_prom_family(p, "gpuscope_head_gpus", GS_PROM_GAUGE, "", "GPUs, by how they are.");
	for (unsigned i = 0; i < API_STATES; i++) {
		struct gs_prom_label l = {"state", api_state_name(i)};

		gs_prom_line(p, "", &l, 1, (double)states[i], 0);
	}
}

static void put_http(struct gs_prom *p, const struct gs_http_stats *h)
{
	static const char *const classes[GS_HTTP_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

	gs_prom_family(p, "gpuscope_head_http_requests", GS_PROM_COUNTER, "",
		       "Answers, by class of status.");
	for (int i = 1; i < GS_HTTP_CLASSES; i++) {
		struct gs_prom_label l = {"status", classes[i]};

		gs_prom_line(p, "", &l, 1, (double)h->requests[i], 0);
	}
	one(p, "gpuscope_head_http_open_connections", GS_PROM_GAUGE, (double)h->open,
	    "Connections that are open.");
	one(p, "gpuscope_head_http_event_streams", GS_PROM_GAUGE, (double)h->streams,
	    "Of them, those that listen for events.");
	one(p, "gpuscope_head_http_event_streams_slow", GS_PROM_COUNTER, (double)h->slow,
	    "Listeners that were closed because they did not read.");
	one(p, "gpuscope_head_http_bodies_cut", GS_PROM_COUNTER, (double)h->cut,
	    "Exports that ended before they were whole.");
}

API_HANDLER(api_metrics)
{
	struct gs_api *a = ctx;
	bool open = gs_prom_accepts_openmetrics(gs_http_header(q, "accept"));
	struct gs_http_stats http;
	struct gs_prom p;

	gs_http_stats(a->http, &http);
	gs_prom_init(&p, &reply->body, open);
	gs_head_metrics(a->o.head, &p);
	put_states(&p, gs_head_cluster(a->o.head));
	put_http(&p, &http);
	reply->type = open ? GS_PROM_TYPE_OPENMETRICS : GS_PROM_TYPE_TEXT;
	if (gs_prom_end(&p) < 0)
		gs_http_say(reply, 503, "no memory for the metrics");
}
