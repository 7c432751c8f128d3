/* Private to the room. */
#ifndef GS_API_API_INT_H
#define GS_API_API_INT_H

#include <jansson.h>
#include <pthread.h>

#include <stdatomic.h>

#include "api/api.h"
#include "api/local.h"
#include "head/session.h"
#include "http/http.h"
#include "text/json.h"

#define API_LIMIT_DEFAULT 100
#define API_LIMIT_MAX     2000
#define API_THREADS_MAX   6 /* that read the store for one request each */

struct api_endpoint;

struct api_local_route {
	struct gs_api *api;
	const struct api_endpoint *endpoint;
};

struct gs_api {
	struct gs_api_options o; /* o.head: NULL in a server that is not a head's (local.h) */
	struct gs_cluster *cluster;
	struct gs_api_local_options local;
	struct api_local_route route[GS_API_LOCAL_ROUTES];
	_Atomic uint64_t asked_ns;
	char listen[280]; /* o.listen */
	struct gs_http *http;
	int64_t started_wall_ns;
	uint64_t seen_version; /* of the cluster, at the last events */
	uint64_t tick;
	struct api_answers *answers; /* owned; of the server's thread */
	pthread_mutex_t lock;        /* what follows */
	pthread_cond_t ended;
	unsigned n_threads;
	unsigned n_few;        /* of them, those of api_task_start_few() */
	struct api_look *look; /* the newest; referenced; NULL: none yet */
};

/* Every line of a document is one of these. */
#define j_open   gs_json_open
#define j_close  gs_json_close
#define j_text   gs_json_text
#define j_i64    gs_json_i64
#define j_u64    gs_json_u64
#define j_double gs_json_double
#define j_bool   gs_json_bool
#define j_null   gs_json_null
#define j_time   gs_json_time

/* --- api.c --- */

/* One row for each endpoint: the table of routes and openapi.json are made of it. */
struct api_endpoint {
	const char *path; /* "{}" for each parameter */
	unsigned method;  /* enum gs_http_method */
	bool open, control;
	const char *params; /* names of those in the path, then of the query, with commas */
	const char *summary;
	void (*serve)(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply);
	bool local; /* an agent has it too */
};

extern const struct api_endpoint api_endpoints[];
extern const size_t api_n_endpoints;

/* The member "agent" of an object. */
void api_local_put_facts(struct gs_api *api, struct gs_buf *b);

/* The reply begins as JSON; returns its body. */
struct gs_buf *api_json(struct gs_http_reply *reply);

/* A negative errno as an answer, with err's text if there is one. */
void api_fail(struct gs_http_reply *reply, int r, const struct gs_err *err);
int api_status_of(int r);

/* A number of the query. 1, 0: it is not there, -EINVAL and the reply says so. */
int api_number(const struct gs_http_request *q, struct gs_http_reply *reply, const char *name,
	       double least, double most, double *ret_value);

/* limit of the query, API_LIMIT_DEFAULT without one; 0: the reply says what is wrong. */
size_t api_limit(const struct gs_http_request *q, struct gs_http_reply *reply);

/* The body, an object or nothing. NULL: the reply says what is wrong. */
json_t *api_body(const struct gs_http_request *q, struct gs_http_reply *reply);

/* Members of it; "" when it is not there. False: the reply says what is wrong. A list becomes one
 * text with commas. */
bool api_text(json_t *body, const char *key, char *out, size_t bytes, struct gs_http_reply *reply);
bool api_list(json_t *body, const char *key, char *out, size_t bytes, struct gs_http_reply *reply);

/* Which client: the host's name, with the instance when it has one of its own. */
void api_client_id(const struct gs_cluster_node *n, char *out, size_t bytes);

/* --- api_task.c: threads that read the store --- */

struct api_task {
	struct gs_api *api;
	struct gs_http_later *later;
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
struct gs_coarse_mark;
typedef void (*api_moment_fn)(void *ctx, const struct gs_store_found *found,
			      const struct gs_node_snapshot *moment,
			      const struct gs_coarse_mark *mark);
int api_read_moments(struct gs_store *store, const struct gs_store_range *range, uint64_t until_ns,
		     api_moment_fn fn, void *ctx);

/* --- stretch.c: values over time, in stretches of equal length with least, mean and most --- */

struct api_stretch {
	double sum, least, most;
	uint32_t n;
};

struct api_stretches {
	int64_t from_ns, to_ns; /* wall */
	size_t n_points, n_values;
	struct api_stretch *at; /* [value][point]; lies behind what it is part of */
};

/* from, to, points of the query. False: the reply says what is wrong. */
bool api_stretch_parse(const struct gs_http_request *q, struct gs_http_reply *reply,
		       size_t n_values, struct api_stretches *ret);

/* A copy of what was asked (of this size, its stretches at this offset) with room for them behind
 * it, for free(). NULL: no memory. */
void *api_stretch_new(const void *asked, size_t bytes, size_t offset);

void api_stretch_add(struct api_stretches *s, size_t value, int64_t wall_ns, double v);
/* The mean of n values, of which the highest is most. */
void api_stretch_add_mean(struct api_stretches *s, size_t value, int64_t wall_ns, double mean,
			  double most, uint32_t n);
void api_stretch_put_time(struct gs_buf *b, const struct api_stretches *s);
void api_stretch_put(struct gs_buf *b, const char *key, const struct api_stretches *s,
		     size_t value);

/* --- api_node.c: jobs as processes on GPUs show them --- */

struct api_job {
	char job[64], user[64];
	size_t n_gpus;
	double least, median, most; /* of their utilization */
	bool has_straggler;         /* the GPU that does least holds up the others: */
	int64_t node;
	char node_name[160];
	uint32_t gpu;
};

/* By name, to be freed. NULL: no memory. */
struct api_look;
struct api_job *api_jobs_now(const struct api_look *look, size_t *ret_n);

/* --- endpoints --- */

#define API_HANDLER(name)                                                                          \
	void name(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)

API_HANDLER(api_root);
API_HANDLER(api_status);
API_HANDLER(api_clients);
API_HANDLER(api_metrics_latest);
API_HANDLER(api_profiling_start);
API_HANDLER(api_profiling_stop);
API_HANDLER(api_profiling_record);
API_HANDLER(api_profiling_sessions);

API_HANDLER(api_overview);
API_HANDLER(api_nodes);
API_HANDLER(api_node);
API_HANDLER(api_gpus);
API_HANDLER(api_processes);
API_HANDLER(api_process);
API_HANDLER(api_process_series);
API_HANDLER(api_jobs);
API_HANDLER(api_job_reports);
API_HANDLER(api_job_report);
API_HANDLER(api_job_reports_compare);
API_HANDLER(api_alerts);
API_HANDLER(api_heatmap);
API_HANDLER(api_series);
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
API_HANDLER(api_events);
API_HANDLER(api_metrics);
API_HANDLER(api_openapi);
API_HANDLER(api_page);

/* What changed since the last time, as events. */
void api_publish(struct gs_api *api);

/* What a session is saved as: of its name, what a header may hold. */
void api_file_name(const char *name, const char *suffix, char *out, size_t bytes);

/* A session as an object. */
void api_put_session(struct gs_buf *out, const char *key, const struct gs_store_session *s);

#define API_TOPIC 1u

#endif
