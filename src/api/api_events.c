/* What happens, told as it happens: server-sent events for pages, metrics for Prometheus. */
#include <math.h>
#include <string.h>

#include "api/api_look.h"
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
static void put_state(struct gs_api *a, struct gs_buf *b, const struct api_look *l)
{
	struct gs_store_session *active = NULL;
	uint64_t hash = 0;
	size_t n_active = 0;

	if (a->o.head)
		(void)gs_head_active(a->o.head, &active, &n_active);
	for (size_t i = 0; i < n_active; i++)
		hash = hash * 31 + (uint64_t)active[i].number;
	free(active);
	(void)gs_buf_puts(b, "{"); /* behind "data: " */
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_u64(b, "version", gs_cluster_view_version(l->view));
	j_u64(b, "nodes", l->n_nodes);
	j_u64(b, "healthy_nodes", l->n_healthy);
	j_u64(b, "gpus", l->all.n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < API_STATES; i++)
		j_u64(b, api_state_name(i), l->all.state[i]);
	j_close(b, '}');
	j_u64(b, "active_sessions", n_active);
	j_u64(b, "sessions_version", hash);
	j_close(b, '}');
}

void api_publish(struct gs_api *a)
{
	struct api_look *l;
	struct gs_buf b = GS_BUF_INIT(65536);
	struct gs_http_stats stats;

	gs_http_stats(a->http, &stats);
	if (!stats.streams)
		return;
	l = api_look(a);
	if (!l)
		return;
	begin(&b, "state");
	put_state(a, &b, l);
	api_look_unref(&l);
	if (gs_buf_puts(&b, "\n\n") == 0)
		(void)gs_http_publish(a->http, API_TOPIC, (const char *)b.data, b.bytes);
	gs_buf_fini(&b);
}

/* --- metrics --- */

static void put_states(struct gs_prom *p, const struct api_look *l)
{
	gs_prom_family(p, "gpuscope_head_gpus", GS_PROM_GAUGE, "", "GPUs, by how they are.");
	for (unsigned i = 0; i < API_STATES; i++) {
		struct gs_prom_label label = {"state", api_state_name(i)};

		gs_prom_line(p, "", &label, 1, (double)l->all.state[i], 0);
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
	gs_prom_one(p, "gpuscope_head_http_open_connections", GS_PROM_GAUGE, (double)h->open,
		    "Connections that are open.");
	gs_prom_one(p, "gpuscope_head_http_event_streams", GS_PROM_GAUGE, (double)h->streams,
		    "Of them, those that listen for events.");
	gs_prom_one(p, "gpuscope_head_http_event_streams_slow", GS_PROM_COUNTER, (double)h->slow,
		    "Listeners that were closed because they did not read.");
	gs_prom_one(p, "gpuscope_head_http_bodies_cut", GS_PROM_COUNTER, (double)h->cut,
		    "Exports that ended before they were whole.");
}

API_HANDLER(api_metrics)
{
	struct gs_api *a = ctx;
	bool open = gs_prom_accepts_openmetrics(gs_http_header(q, "accept"));
	struct api_look *l = api_look(a);
	struct gs_http_stats http;
	struct gs_prom p;

	if (!l) {
		gs_http_say(reply, 503, "no memory");
		return;
	}
	gs_http_stats(a->http, &http);
	gs_prom_init(&p, &reply->body, open);
	gs_head_metrics(a->o.head, &p);
	put_states(&p, l);
	api_look_unref(&l);
	put_http(&p, &http);
	reply->type = open ? GS_PROM_TYPE_OPENMETRICS : GS_PROM_TYPE_TEXT;
	if (gs_prom_end(&p) < 0)
		gs_http_say(reply, 503, "no memory for the metrics");
}
