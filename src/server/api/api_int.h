/* Private to the room. */
#ifndef GS_SERVER_API_API_INT_H
#define GS_SERVER_API_API_INT_H

#include <jansson.h>
#include <pthread.h>

#include <stdatomic.h>

#include "server/api/api.h"
#include "server/head/session.h"
#include "net/http/http.h"
#include "server/live/answer.h"
#include "server/live/live.h"
#include "server/live/snapshot.h"
#include "server/live/reply.h"

#define API_THREADS_MAX 6 /* that read the store for one request each */

struct gs_api {
	struct gs_api_options o;
	struct gs_live *live;        /* owned */
	struct gs_http_route *route; /* owned */
	char listen[280];            /* o.listen */
	char trouble[256];           /* for an answer; of the server's thread */
	struct gs_http *http;
	pthread_mutex_t lock; /* what follows */
	pthread_cond_t ended;
	unsigned n_threads;
	unsigned n_few; /* of them, those of api_task_start_few() */
};

/* --- api.c --- */

/* Beside those of live. */
extern const struct gs_live_endpoint api_endpoints[];
extern const size_t api_n_endpoints;

/* The body, an object or nothing. keys: those that it may have, the last one NULL; NULL: any. NULL:
 * the reply says what is wrong. */
json_t *api_body(const struct gs_http_request *q, const char *const *keys,
		 struct gs_http_reply *reply);

/* Members of it; "" when it is not there. False: the reply says what is wrong. A list becomes one
 * text with commas. */
bool api_text(json_t *body, const char *key, char *out, size_t bytes, struct gs_http_reply *reply);
bool api_list(json_t *body, const char *key, char *out, size_t bytes, struct gs_http_reply *reply);

/* --- api_task.c: threads that read the store --- */

struct api_task {
	struct gs_api *api;
	struct gs_http_deferred *later;
	struct gs_store *store; /* of the thread */
	void (*run)(struct api_task *task);
	void *arg; /* freed with free() */
	bool of_few;
	struct gs_err err;
};

/* run on a thread of its own, with a store to read, which calls gs_http_answer(). */
void api_task_start(struct gs_api *api, struct gs_http_reply *reply,
		    void (*run)(struct api_task *task), void *arg);
/* Likewise, but no more than `most` of those that are started by this. */
void api_task_start_few(struct gs_api *api, struct gs_http_reply *reply,
			void (*run)(struct api_task *task), void *arg, unsigned most);
void api_tasks_wait(struct gs_api *api);

#define API_READ_NS 20000000000ull  /* longest that one request reads; then it says so */
#define API_SKEW_NS 3600000000000ll /* by which a node's clock may be off */

/* api_series.c: fn for each moment of the range, until a time of the monotonic clock. mark: what it
 * stands for when it was made coarser. 1: that was not all of it. */
struct gs_rollup_mark;
typedef void (*api_sample_fn)(void *ctx, const struct gs_store_found *found,
			      const struct gs_node_snapshot *moment,
			      const struct gs_rollup_mark *mark);
int api_read_samples(struct gs_store *store, const struct gs_store_range *range, uint64_t until_ns,
		     api_sample_fn fn, void *ctx);

/* --- hooks of live: what is not there now --- */

void api_past_process(void *ctx, const struct gs_live_process *asked, struct gs_http_reply *reply);
void api_past_series(void *ctx, const struct gs_live_series *asked, struct gs_http_reply *reply);
void api_jobs(void *ctx, const struct gs_http_request *q, size_t limit,
	      struct gs_http_reply *reply);

/* --- endpoints --- */

#define API_HANDLER(name)                                                                          \
	void name(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)

/* One that makes its answer out of a look. */
#define API_LOOK(name)                                                                             \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply);     \
	API_HANDLER(name)                                                                          \
	{                                                                                          \
		struct gs_api *api = ctx;                                                          \
                                                                                                   \
		gs_live_answer(api->live, q, reply, look_##name, ctx);                             \
	}                                                                                          \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply)

API_HANDLER(api_status);
API_HANDLER(api_clients);
API_HANDLER(api_metrics_latest);
API_HANDLER(api_profiling_start);
API_HANDLER(api_profiling_stop);
API_HANDLER(api_profiling_record);
API_HANDLER(api_profiling_sessions);

API_HANDLER(api_process_series);
API_HANDLER(api_job_reports);
API_HANDLER(api_job_report);
API_HANDLER(api_job_reports_compare);
API_HANDLER(api_sessions);
API_HANDLER(api_session);
API_HANDLER(api_session_start);
API_HANDLER(api_session_stop);
API_HANDLER(api_session_resume);
API_HANDLER(api_session_delete);
API_HANDLER(api_session_export);
API_HANDLER(api_session_plot);
API_HANDLER(api_session_marks);
API_HANDLER(api_session_summary);
API_HANDLER(api_mark);
API_HANDLER(api_switches);
API_HANDLER(api_switches_set);
API_HANDLER(api_metrics);
API_HANDLER(api_openapi);

/* What a session is saved as: of its name, what a header may hold. */
void api_file_name(const char *name, const char *suffix, char *out, size_t bytes);

/* A session as an object. */
void api_put_session(struct gs_buf *out, const char *key, const struct gs_store_session *s);

#endif
