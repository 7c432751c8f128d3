/*
 * The part of the API that is about what is now, and the page, for a server that is not a head's:
 * an agent shows its own node by the same documents and the same files. What needs a head's store
 * (sessions, the past) is not there.
 */
#ifndef GS_API_LOCAL_H
#define GS_API_LOCAL_H

#include "base/err.h"
#include "cluster/cluster.h"
#include "http/http.h"

struct gs_api;

struct gs_api_fact {      /* about the server itself: a member of the overview's "agent" */
	const char *key;  /* lent for ever */
	double number;    /* NAN: not known */
	const char *text; /* instead of the number; lent for the call; NULL: it is a number */
};
#define GS_API_FACTS_MAX 32

struct gs_api_alert {
	bool critical;
	int gpu; /* its number; -1: none */
	char text[320];
};
#define GS_API_ALERTS_MAX 64

struct gs_api_local_options {
	size_t size;                /* of this struct */
	struct gs_cluster *cluster; /* lent until the end */
	uint64_t interval_ns;       /* between readings, for columns of the heat map */
	/* On the server's thread: how many of each. Either may be NULL. */
	size_t (*facts)(void *ctx, struct gs_api_fact *ret);
	size_t (*alerts)(void *ctx, struct gs_api_alert *ret);
	void *ctx;
};

struct gs_api *gs_api_local_new(const struct gs_api_local_options *options); /* NULL: no memory */
void gs_api_local_free(struct gs_api **api); /* after the server has stopped */

/* Its routes, for the table of a server, which need none of that server's ctx. How many. */
#define GS_API_LOCAL_ROUTES 16
size_t gs_api_local_routes(struct gs_api *api, struct gs_http_route ret[GS_API_LOCAL_ROUTES]);

/* When it was asked last (monotonic; 0 never), or now while a page listens. Any thread. */
uint64_t gs_api_local_asked_ns(const struct gs_api *api);

/* Events for pages that listen. */
void gs_api_local_tick(struct gs_api *api, struct gs_http *http);

#endif
