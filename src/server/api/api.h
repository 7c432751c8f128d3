/*
 * A head over HTTP: the JSON API (doc/http-api.md) and the page. What is now is server/live, which
 * agents have too; here is what only a head knows: sessions, reports of jobs, the past. Rooms above
 * may add endpoints (server/api/endpoint.h).
 *
 * Handlers run on the HTTP server's thread and look at the cluster as it is now. What changes
 * something is a job for the head's store; what takes long to read has a thread of its own, of
 * which there are few.
 */
#ifndef GS_SERVER_API_API_H
#define GS_SERVER_API_API_H

#include "core/base/err.h"
#include "server/head/head.h"

struct gs_api;
struct gs_api_addition;

struct gs_api_options {
	size_t size;                    /* of this struct */
	struct gs_head *head;           /* lent until the stop */
	const char *listen;             /* "127.0.0.1:8091" */
	const char *tls_cert, *tls_key; /* lent until the stop */
	/* As in net/http/http.h; NULL: all may. */
	unsigned (*token_role)(void *ctx, const char *token);
	void *token_ctx;   /* of token_role; borrowed */
	const char *hosts; /* as in net/http/http.h, all three; lent until the stop */
	const char *origins;
	bool anonymous, guarded;  /* as in net/http/http.h */
	const char *grpc_address; /* shown on the page; lent */
	/* Where files of nodes' flight recorders are copied to; NULL or "": they are not. Lent until the stop. */
	const char *recorder_dir;
	uint64_t recorder_max_bytes; /* of all copies */
	const struct gs_api_addition
		*more; /* endpoints beside the head's own; static; NULL: none */
};

/* Listens, and serves from now on. A negative errno with err. */
int gs_api_start(const struct gs_api_options *options, struct gs_api **ret_api, struct gs_err *err);

/* Certificate and key are read again; on failure the old ones stay. A negative errno with err. */
int gs_api_reload(struct gs_api *api, struct gs_err *err);

/* Before gs_head_stop(). */
void gs_api_stop(struct gs_api **api);

/* Now and then: events for who listens. */
void gs_api_tick(struct gs_api *api);

/* As gs_http_answers(). */
bool gs_api_answers(struct gs_api *api);

const char *gs_api_address(const struct gs_api *api); /* "127.0.0.1:8091", as bound; lent */

#endif
