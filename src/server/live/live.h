/*
 * A cluster as it is now, over HTTP: documents, events, and the page (web/) that shows them. A head
 * shows its nodes by it, an agent its own, which is a cluster of one: the same documents, the same
 * files. What needs more than what is now (sessions, the past) is the server's, by hooks.
 *
 * Hooks and handlers run on the server's thread.
 */
#ifndef GS_SERVER_LIVE_LIVE_H
#define GS_SERVER_LIVE_LIVE_H

#include "core/base/err.h"
#include "server/registry/registry.h"
#include "net/http/http.h"

struct gs_live;
struct gs_live_series;  /* series.h */
struct gs_live_process; /* process.h */

struct gs_live_fact {     /* about the server itself: a member of the overview's object of it */
	const char *key;  /* lent for ever */
	double number;    /* NAN: not known */
	const char *text; /* instead of the number; lent for the call; NULL: it is a number */
};
#define GS_LIVE_FACTS_MAX 32

struct gs_live_alert {
	bool critical;         /* else a warning */
	bool of_server;        /* of no node; otherwise of the first, which is the only one */
	int gpu;               /* its number; -1: none */
	char text[320];        /* for people */
	int64_t since_wall_ns; /* 0: not known */
};
#define GS_LIVE_ALERTS_MAX 64

struct gs_live_settings {            /* the server's settings, now */
	uint64_t interval_ns;        /* between readings, for columns of the heat map */
	size_t n_sessions;           /* that are active */
	uint64_t sessions, switches; /* another number: others are active, others are on */
};

struct gs_live_options {
	size_t size;                 /* of this struct */
	struct gs_registry *cluster; /* lent until the end */
	const char *role;            /* "head", "agent": of the overview; lent for ever */
	const char *grpc_address;    /* shown on the page; lent until the end; NULL: none */
	bool has_control;            /* calls that steer: who may call them sees so */
	bool keeps_answers;          /* many ask the same: an answer is used again for a moment */
	uint64_t interval_ns;        /* without settings */
	void *ctx;                   /* of the hooks, each of which may be NULL: */
	void (*settings)(void *ctx, struct gs_live_settings *ret); /* how the cluster is measured */
	/* How many of each. */
	size_t (*facts)(void *ctx, struct gs_live_fact ret[GS_LIVE_FACTS_MAX]);
	size_t (*alerts)(void *ctx, struct gs_live_alert ret[GS_LIVE_ALERTS_MAX]);
	/* What is not there now is answered by these. NULL: not known, which is reported. */
	void (*past_process)(void *ctx, const struct gs_live_process *asked,
			     struct gs_http_reply *reply);
	void (*past_series)(void *ctx, const struct gs_live_series *asked,
			    struct gs_http_reply *reply);
	/* Jobs with their reports, by gs_live_jobs(). NULL: there are none. */
	void (*jobs)(void *ctx, const struct gs_http_request *q, size_t limit,
		     struct gs_http_reply *reply);
};

struct gs_live *gs_live_new(const struct gs_live_options *options); /* NULL: no memory */
void gs_live_free(struct gs_live **live); /* after the server has stopped */

/* One row for each endpoint: routes and the description of an API are made of such tables. */
struct gs_live_endpoint {
	const char *path;    /* "{}" for each parameter */
	unsigned method;     /* enum gs_http_method */
	bool open, control;  /* needs no token; only for those that may control */
	const char *params;  /* names of those in the path, then of the query, with commas */
	const char *summary; /* one line, for the description */
	/* As in struct gs_http_route. */
	void (*serve)(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply);
};

#define GS_LIVE_ENDPOINTS 13
extern const struct gs_live_endpoint gs_live_endpoints[GS_LIVE_ENDPOINTS];

/* Their routes, for the table of a server, which need none of that server's ctx. */
void gs_live_routes(struct gs_live *live, struct gs_http_route ret[GS_LIVE_ENDPOINTS]);

/* When it was asked last (monotonic; 0 never), or now while a page listens. Any thread. */
uint64_t gs_live_asked_ns(const struct gs_live *live);

/* Now and then: events for pages that listen, and what is no longer used is given back. */
void gs_live_tick(struct gs_live *live, struct gs_http *http);

#endif
