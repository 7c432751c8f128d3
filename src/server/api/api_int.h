/* Private to the room. */
#ifndef GS_SERVER_API_API_INT_H
#define GS_SERVER_API_API_INT_H

#include <pthread.h>

#include <stdatomic.h>

#include "server/api/endpoint.h"
#include "server/head/session.h"

#define API_THREADS_MAX 6 /* that read the store for one request each */

struct gs_api {
	struct gs_api_options o;
	struct gs_live *live;        /* owned */
	struct gs_http_route *route; /* owned; n_routes */
	size_t n_routes;
	char listen[280];  /* o.listen */
	char trouble[256]; /* for an answer; of the server's thread */
	struct gs_http *http;
	struct api_keep *keep; /* owned; copies of recorder files; NULL: disabled */
	pthread_mutex_t lock;  /* what follows */
	pthread_cond_t ended;
	unsigned n_threads;
	unsigned n_few; /* of them, those of api_task_start_few() */
};

/* --- api.c --- */

/* Beside those of live. */
extern const struct gs_live_endpoint api_endpoints[];
extern const size_t api_n_endpoints;

/* --- api_recorder.c, api_keep.c: files of nodes' flight recorders --- */

#define API_RECORDER_NAME_BYTES 256

struct api_recorder_file {
	char name[API_RECORDER_NAME_BYTES];
	char reason[API_RECORDER_NAME_BYTES]; /* "" not known */
	uint64_t bytes;
	int64_t wall_ns; /* when it was written */
};

/* A name as agents give them, which a header and a path can hold; no other is asked for. */
bool api_recorder_name_valid(const char *name);
/* Reads an entry of a node's document, which is untrusted. False: it is malformed. */
bool api_recorder_take_file(const json_t *file, struct api_recorder_file *ret);
/* Writes the entry of a file, with its job. Errors stay in b. */
void api_recorder_put_file(struct gs_buf *b, const struct api_recorder_file *file);

/* Starts copying recorder files if the options ask for it. 0, or a negative errno with err. */
int api_keep_start(struct gs_api *api, struct gs_err *err);
/* Stops copying and waits for the thread; does nothing if it was not started. Call it before the head is freed. */
void api_keep_stop(struct gs_api *api);
/* Writes the entries of a node's copies into the open list in b. False: there are none. Any thread. */
bool api_keep_list(struct gs_api *api, int64_t node, struct gs_buf *b);
/* Opens a copy; the caller closes the descriptor. -ENOENT: there is none; or another negative errno. Any thread. */
int api_keep_open(struct gs_api *api, int64_t node, const char *name);

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

/* api_series.c: fn for each snapshot of the range, until a time of the monotonic clock. mark: what it
 * stands for when it was made coarser. 1: that was not all of it. */
struct gs_rollup_mark;
typedef void (*api_sample_fn)(void *ctx, const struct gs_store_found *found,
			      const struct gs_node_snapshot *snapshot,
			      const struct gs_rollup_mark *mark);
int api_read_samples(struct gs_store *store, const struct gs_store_range *range, uint64_t until_ns,
		     api_sample_fn fn, void *ctx);

/* --- hooks of live: what is not there now --- */

void api_past_process(void *ctx, const struct gs_live_process *asked, struct gs_http_reply *reply);
void api_past_series(void *ctx, const struct gs_live_series *asked, struct gs_http_reply *reply);
void api_jobs(void *ctx, const struct gs_http_request *q, size_t limit,
	      struct gs_http_reply *reply);

/* --- endpoints --- */

GS_API_HANDLER(api_process_series);
GS_API_HANDLER(api_job_reports);
GS_API_HANDLER(api_job_report);
GS_API_HANDLER(api_job_reports_compare);
GS_API_HANDLER(api_findings);
GS_API_HANDLER(api_steps);
GS_API_HANDLER(api_recorder);
GS_API_HANDLER(api_recorder_file);
GS_API_HANDLER(api_recorder_save);
GS_API_HANDLER(api_sessions);
GS_API_HANDLER(api_session);
GS_API_HANDLER(api_session_start);
GS_API_HANDLER(api_session_stop);
GS_API_HANDLER(api_session_resume);
GS_API_HANDLER(api_session_delete);
GS_API_HANDLER(api_session_export);
GS_API_HANDLER(api_session_plot);
GS_API_HANDLER(api_session_annotations);
GS_API_HANDLER(api_session_summary);
GS_API_HANDLER(api_annotate);
GS_API_HANDLER(api_switches);
GS_API_HANDLER(api_switches_set);
GS_API_HANDLER(api_metrics);
GS_API_HANDLER(api_openapi);

/* What a session is saved as: of its name, what a header may hold. */
void api_file_name(const char *name, const char *suffix, char *out, size_t bytes);

/* A session as an object. */
void api_put_session(struct gs_buf *out, const char *key, const struct gs_store_session *s);

#endif
