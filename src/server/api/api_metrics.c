/* The head's own metrics for Prometheus. */
#include "server/api/api_int.h"

#include "server/head/head_push.h"
#include "output/metrics/metrics.h"

static void put_states(struct gs_metrics *p, const struct gs_live_snapshot *l)
{
	gs_metrics_family(p, "gpuscope_head_gpus", GS_METRICS_GAUGE, "", "GPUs by health state.");
	for (unsigned i = 0; i < GS_LIVE_STATES; i++) {
		struct gs_metrics_label label = {"state", gs_live_state_name(i)};

		gs_metrics_line(p, "", &label, 1, (double)l->all.state[i], 0);
	}
}

static void put_http(struct gs_metrics *p, const struct gs_http_stats *h)
{
	static const char *const classes[GS_HTTP_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

	gs_metrics_family(p, "gpuscope_head_http_requests", GS_METRICS_COUNTER, "",
			  "HTTP responses of the head, by status class.");
	for (int i = 1; i < GS_HTTP_CLASSES; i++) {
		struct gs_metrics_label l = {"status", classes[i]};

		gs_metrics_line(p, "", &l, 1, (double)h->requests[i], 0);
	}
	gs_metrics_one(p, "gpuscope_head_http_open_connections", GS_METRICS_GAUGE, (double)h->open,
		       "Open HTTP connections to the head.");
	gs_metrics_one(p, "gpuscope_head_http_event_streams", GS_METRICS_GAUGE, (double)h->streams,
		       "Open HTTP connections that listen for events.");
	gs_metrics_one(p, "gpuscope_head_http_event_streams_slow", GS_METRICS_COUNTER,
		       (double)h->slow,
		       "Event connections closed because the client did not read.");
	gs_metrics_one(p, "gpuscope_head_http_bodies_cut", GS_METRICS_COUNTER, (double)h->cut,
		       "Exports that ended before they were complete.");
}

GS_API_HANDLER(api_metrics)
{
	struct gs_api *a = ctx;
	bool open = gs_metrics_accepts_openmetrics(gs_http_header(q, "accept"));
	struct gs_live_snapshot *l = gs_live_take_snapshot(a->live);
	struct gs_http_stats http;
	struct gs_metrics p;

	if (!l) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	gs_http_stats(a->http, &http);
	gs_metrics_init(&p, &reply->body, open);
	gs_head_metrics(a->o.head, &p);
	put_states(&p, l);
	gs_live_snapshot_unref(&l);
	put_http(&p, &http);
	reply->type = open ? GS_METRICS_TYPE_OPENMETRICS : GS_METRICS_TYPE_TEXT;
	if (gs_metrics_end(&p) < 0)
		gs_http_error(reply, 503, "no memory for the metrics");
}
