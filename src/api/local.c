/* Endpoints of api.c that need no head. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_look.h"
#include "base/clock.h"
#include "base/mem.h"

#define KEEP_NS 5000000000ull /* what was made for an answer, for the next one */

static void serve(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	const struct api_local_route *route = ctx;

	route->api->asked_ns = gs_clock_mono_ns();
	reply->json_errors = true;
	route->endpoint->serve(route->api, q, reply);
}

struct gs_api *gs_api_local_new(const struct gs_api_local_options *options)
{
	struct gs_api *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->cluster = options->cluster;
	a->local = *options;
	a->started_wall_ns = (int64_t)gs_clock_wall_ns();
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

static void forget_look(struct gs_api *a)
{
	struct api_look *l;

	pthread_mutex_lock(&a->lock);
	l = gs_take(a->look);
	pthread_mutex_unlock(&a->lock);
	api_look_unref(&l);
}

void gs_api_local_free(struct gs_api **api)
{
	if (!*api)
		return;
	forget_look(*api);
	pthread_mutex_destroy(&(*api)->lock);
	gs_free_p(api);
}

size_t gs_api_local_routes(struct gs_api *a, struct gs_http_route ret[GS_API_LOCAL_ROUTES])
{
	size_t n = 0;

	for (size_t i = 0; i < api_n_endpoints && n < GS_API_LOCAL_ROUTES; i++) {
		const struct api_endpoint *e = &api_endpoints[i];

		if (!e->local)
			continue;
		a->route[n] = (struct api_local_route){a, e};
		ret[n] = (struct gs_http_route){.path = e->path,
						.methods = e->method,
						.open = e->open,
						.serve = serve,
						.ctx = &a->route[n]};
		n++;
	}
	return n;
}

uint64_t gs_api_local_asked_ns(const struct gs_api *a)
{
	return a->asked_ns;
}

void gs_api_local_tick(struct gs_api *a, struct gs_http *http)
{
	struct gs_http_stats st;

	gs_http_stats(http, &st);
	if (!st.streams) {
		if (gs_clock_mono_ns() - a->asked_ns > KEEP_NS)
			forget_look(a);
		return;
	}
	a->asked_ns = gs_clock_mono_ns();
	a->http = http;
	api_publish(a);
}

void api_local_put_facts(struct gs_api *a, struct gs_buf *b)
{
	struct gs_api_fact fact[GS_API_FACTS_MAX];
	size_t n = a->local.facts ? a->local.facts(a->local.ctx, fact) : 0;

	j_open(b, "agent", '{');
	for (size_t i = 0; i < n; i++)
		if (fact[i].text)
			j_text(b, fact[i].key, fact[i].text);
		else
			j_double(b, fact[i].key, fact[i].number);
	j_close(b, '}');
}
