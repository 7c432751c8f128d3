/* The head's own metrics for Prometheus. */
#include "server/api/api_int.h"

#include "server/head/head_push.h"
#include "output/metrics/prom.h"

static void put_states(struct gs_prom *p, const struct gs_live_look *l)
{
	gs_prom_family(p, "gpuscope_head_gpus", GS_PROM_GAUGE, "", "GPUs, by how they are.");
	for (unsigned i = 0; i < GS_LIVE_STATES; i++) {
		struct gs_prom_label label = {"state", gs_live_state_name(i)};

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
	struct gs_live_look *l = gs_live_look(a->live);
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
	gs_live_look_unref(&l);
	put_http(&p, &http);
	reply->type = open ? GS_PROM_TYPE_OPENMETRICS : GS_PROM_TYPE_TEXT;
	if (gs_prom_end(&p) < 0)
		gs_http_say(reply, 503, "no memory for the metrics");
}
