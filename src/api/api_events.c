/* What happens, told as it happens: server-sent events for pages, metrics for Prometheus. */
#include <math.h>
#include <string.h>

#include "api/api_look.h"
#include "base/clock.h"
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

static void one(struct gs_prom *p, const char *name, enum gs_prom_kind kind, double value,
		const char *help)
{
	const char *end = strrchr(name, '_');
	const char *unit =
		end && (strcmp(end, "_seconds") == 0 || strcmp(end, "_bytes") == 0) ? end + 1 : "";

	gs_prom_family(p, name, kind, unit, help);
	gs_prom_line(p, "", NULL, 0, value, 0);
}

static void put_cluster(struct gs_prom *p, const struct api_look *l)
{
	uint64_t lost = 0, missed = 0, events = 0;

	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_cluster_node *node = gs_cluster_view_at(l->view, i);

		lost += node->lost_samples;
		missed += node->missed_samples;
		events += node->n_gpu_events;
	}
	one(p, "gpuscope_head_nodes", GS_PROM_GAUGE, (double)l->n_nodes,
	    "Nodes that ever delivered.");
	one(p, "gpuscope_head_nodes_healthy", GS_PROM_GAUGE, (double)l->n_healthy,
	    "Nodes that are connected and deliver.");
	gs_prom_family(p, "gpuscope_head_gpus", GS_PROM_GAUGE, "", "GPUs, by how they are.");
	for (unsigned i = 0; i < API_STATES; i++) {
		struct gs_prom_label label = {"state", api_state_name(i)};

		gs_prom_line(p, "", &label, 1, (double)l->all.state[i], 0);
	}
	one(p, "gpuscope_head_samples_lost", GS_PROM_COUNTER, (double)lost,
	    "Samples that nodes could not keep until they were delivered.");
	one(p, "gpuscope_head_samples_missed", GS_PROM_COUNTER, (double)missed,
	    "Samples that nodes did not take in time.");
	one(p, "gpuscope_head_gpu_events", GS_PROM_COUNTER, (double)events,
	    "Errors of GPUs (XID) that nodes told of.");
}

static void put_head(struct gs_prom *p, const struct gs_head_stats *s)
{
	one(p, "gpuscope_head_batches", GS_PROM_COUNTER, (double)s->batches, "Batches stored.");
	one(p, "gpuscope_head_samples", GS_PROM_COUNTER, (double)s->samples, "Samples stored.");
	one(p, "gpuscope_head_stored_bytes", GS_PROM_COUNTER, (double)s->bytes,
	    "Bytes of batches stored, as packed.");
	one(p, "gpuscope_head_batches_duplicate", GS_PROM_COUNTER, (double)s->duplicates,
	    "Batches that came again and were dropped.");
	one(p, "gpuscope_head_batches_refused", GS_PROM_COUNTER, (double)s->refused,
	    "Batches that no node could have made.");
	one(p, "gpuscope_head_batches_waiting", GS_PROM_GAUGE, (double)s->waiting_batches,
	    "Batches that are not stored yet.");
	one(p, "gpuscope_head_waiting_bytes", GS_PROM_GAUGE, (double)s->waiting_bytes,
	    "Their bytes.");
	one(p, "gpuscope_head_streams_paused", GS_PROM_GAUGE, (double)s->paused_streams,
	    "Nodes that are not read while the queue is full.");
	one(p, "gpuscope_head_commits", GS_PROM_COUNTER, (double)s->commits,
	    "Transactions of the store.");
	one(p, "gpuscope_head_commit_seconds", GS_PROM_COUNTER, (double)s->commit_ns / 1e9,
	    "Time that they took.");
	one(p, "gpuscope_head_latency_seconds", GS_PROM_GAUGE, (double)s->latency_ns / 1e9,
	    "From taking a batch to its being on the disk, of the last transaction.");
	one(p, "gpuscope_head_store_failing", GS_PROM_GAUGE, s->trouble[0] != 0,
	    "1 while nothing can be stored.");
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
	struct gs_store_session *active = NULL;
	struct api_look *l = api_look(a);
	struct gs_head_stats head;
	struct gs_http_stats http;
	size_t n_active = 0;
	struct gs_prom p;

	if (!l) {
		gs_http_say(reply, 503, "no memory");
		return;
	}
	gs_head_stats(a->o.head, &head);
	gs_http_stats(a->http, &http);
	(void)gs_head_active(a->o.head, &active, &n_active);
	free(active);
	gs_prom_init(&p, &reply->body, open);
	put_cluster(&p, l);
	api_look_unref(&l);
	put_head(&p, &head);
	one(&p, "gpuscope_head_sessions_active", GS_PROM_GAUGE, (double)n_active,
	    "Sessions that are active.");
	put_http(&p, &http);
	reply->type = open ? GS_PROM_TYPE_OPENMETRICS : GS_PROM_TYPE_TEXT;
	if (gs_prom_end(&p) < 0)
		gs_http_say(reply, 503, "no memory for the metrics");
}
