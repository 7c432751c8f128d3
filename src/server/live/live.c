/* The table of endpoints, and its life in a server. */
#include "server/live/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/live/live_int.h"

#define KEEP_NS 5000000000ull /* what was made for an answer, for the next one */

static LIVE_HANDLER(root);

#define GET GS_HTTP_GET

const struct gs_live_endpoint gs_live_endpoints[GS_LIVE_ENDPOINTS] = {
	{"/", GET, true, false, "", "The page for browsers; name and version for others", root},
	{"/api/v1/overview", GET, false, false, "", "Counts and sums of the cluster",
	 live_overview},
	{"/api/v1/nodes", GET, false, false, "limit,after", "Nodes", live_nodes},
	{"/api/v1/nodes/{}", GET, false, false, "id", "A node and its GPUs with all values",
	 live_node},
	{"/api/v1/gpus", GET, false, false, "limit,after,sort,state,q", "GPUs, also worst first",
	 live_gpus},
	{"/api/v1/processes", GET, false, false, "limit,after,node,job", "Processes on GPUs",
	 live_processes},
	{"/api/v1/processes/{}/{}", GET, false, false, "node,pid",
	 "A process now, or as it was last seen", live_process},
	{"/api/v1/jobs", GET, false, false, "limit",
	 "Jobs on GPUs, with their slowest GPU and their newest report", live_jobs},
	{"/api/v1/alerts", GET, false, false, "limit", "Problems, worst first", live_alerts},
	{"/api/v1/heatmap", GET, false, false, "value,points,limit,after,since",
	 "One value of each GPU over the last minutes", live_heatmap},
	{"/api/v1/series", GET, false, false, "node,gpu,values,from,to,points",
	 "Values of a GPU over time, by interval: min, mean, max", live_series},
	{"/api/v1/events", GET, false, false, "", "Changes as server-sent events", live_events},
	{"/web/{}", GET, true, false, "file", "Files of the page", live_page},
};

static LIVE_HANDLER(root)
{
	const struct gs_live *a = ctx;
	const char *accept = gs_http_header(q, "accept");
	char message[40];

	if (accept && strstr(accept, "text/html")) {
		live_page(ctx, q, reply);
		return;
	}
	snprintf(message, sizeof(message), "gpuscope %s", a->o.role);
	j_open(gs_live_json(reply), NULL, '{');
	j_text(&reply->body, "message", message);
	j_text(&reply->body, "version", GS_VERSION);
	j_close(&reply->body, '}');
}

static void serve_request(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	const struct live_route *route = ctx;

	route->live->asked_ns = gs_clock_mono_ns();
	reply->json_errors = true;
	route->endpoint->serve(route->live, q, reply);
}

void gs_live_routes(struct gs_live *a, struct gs_http_route ret[GS_LIVE_ENDPOINTS])
{
	for (size_t i = 0; i < GS_LIVE_ENDPOINTS; i++) {
		const struct gs_live_endpoint *e = &gs_live_endpoints[i];

		a->route[i] = (struct live_route){a, e};
		ret[i] = (struct gs_http_route){.path = e->path,
						.methods = e->method,
						.open = e->open,
						.control = e->control,
						.serve = serve_request,
						.ctx = &a->route[i]};
	}
}

struct gs_live *gs_live_new(const struct gs_live_options *options)
{
	struct gs_live *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->o = *options;
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

static void forget_snapshot(struct gs_live *a)
{
	struct gs_live_snapshot *l;

	pthread_mutex_lock(&a->lock);
	l = gs_take(a->snapshot);
	pthread_mutex_unlock(&a->lock);
	gs_live_snapshot_unref(&l);
}

void gs_live_free(struct gs_live **live)
{
	if (!*live)
		return;
	live_answers_free(*live);
	forget_snapshot(*live);
	pthread_mutex_destroy(&(*live)->lock);
	gs_free_p(live);
}

uint64_t gs_live_asked_ns(const struct gs_live *a)
{
	return a->asked_ns;
}

void gs_live_tick(struct gs_live *a, struct gs_http *http)
{
	struct gs_http_stats st;

	gs_http_stats(http, &st);
	if (st.streams) {
		a->asked_ns = gs_clock_mono_ns();
		live_publish(a, http);
	} else if (gs_clock_mono_ns() - a->asked_ns > KEEP_NS) {
		forget_snapshot(a);
	}
	live_snapshot_forget(a);
}

/* --- what the server says of itself --- */

void live_settings(const struct gs_live *a, struct gs_live_settings *ret)
{
	*ret = (struct gs_live_settings){.interval_ns = a->o.interval_ns};
	if (a->o.settings)
		a->o.settings(a->o.ctx, ret);
}

void live_put_facts(const struct gs_live *a, struct gs_buf *b)
{
	struct gs_live_fact fact[GS_LIVE_FACTS_MAX];
	size_t n = a->o.facts ? a->o.facts(a->o.ctx, fact) : 0;

	j_open(b, a->o.role, '{');
	for (size_t i = 0; i < n; i++)
		if (fact[i].text)
			j_text(b, fact[i].key, fact[i].text);
		else
			j_double(b, fact[i].key, fact[i].number);
	j_close(b, '}');
}
