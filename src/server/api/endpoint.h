/*
 * For who answers endpoints of a head's HTTP API: this room, and rooms above that add endpoints to
 * it (struct gs_api_addition). Handlers run on the HTTP server's thread; ctx is the struct gs_api.
 */
#ifndef GS_SERVER_API_ENDPOINT_H
#define GS_SERVER_API_ENDPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/http/http.h"
#include "server/api/api.h"
#include "server/live/answer.h"
#include "server/live/live.h"
#include "server/live/reply.h"
#include "server/live/snapshot.h"

/* What a request and its answer look like, in the short form of server/openapi/openapi.h. */
struct gs_api_schema {
	const char *path;          /* as of its endpoint */
	unsigned method;           /* enum gs_http_method */
	const char *body, *answer; /* NULL: none */
};

/* Endpoints beside the head's own; each has a schema. Static. */
struct gs_api_addition {
	const struct gs_live_endpoint *endpoints; /* n_endpoints of them */
	size_t n_endpoints;
	const struct gs_api_schema *schemas; /* n_schemas, of what they answer */
	size_t n_schemas;
};

struct gs_head *gs_api_head(struct gs_api *api); /* that it was started with; lent */

/* gs_live_answer() with the API's snapshot of the cluster, and api as ctx of fn. */
void gs_api_answer(struct gs_api *api, const struct gs_http_request *q, struct gs_http_reply *reply,
		   gs_live_answer_fn fn);

/* The body, an object or nothing. keys: those that it may have, the last one NULL; NULL: any. NULL:
 * the reply says what is wrong. The caller gives it back with json_decref(). */
json_t *gs_api_body(const struct gs_http_request *q, const char *const *keys,
		    struct gs_http_reply *reply);

/* Members of it; "" when it is not there. False: the reply says what is wrong. A list becomes one
 * text with commas. */
bool gs_api_text(json_t *body, const char *key, char *out, size_t bytes,
		 struct gs_http_reply *reply);
bool gs_api_list(json_t *body, const char *key, char *out, size_t bytes,
		 struct gs_http_reply *reply);

#define GS_API_HANDLER(name)                                                                       \
	void name(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)

/* One that makes its answer out of a snapshot; static. */
#define GS_API_LOOK(name)                                                                          \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply);     \
	static GS_API_HANDLER(name)                                                                \
	{                                                                                          \
		gs_api_answer(ctx, q, reply, look_##name);                                         \
	}                                                                                          \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply)

#endif
