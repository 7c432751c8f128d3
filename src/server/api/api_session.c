/* Sessions: a change is a job of the head's store and answered when it is on the disk; an export is
 * made by a thread and sent as it is made. */
#include "server/api/api_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "server/session_export/session_export.h"
#include "core/base/clock.h"
#include "core/near/near.h"
#include "core/text/text.h"

/* --- what requests say --- */

/* A slip in a key would otherwise be a session under another name, without a word. */
static bool api_keys_known(json_t *body, const char *const *keys, struct gs_http_reply *reply)
{
	const char *key;
	json_t *value;
	char why[160], meant[80];

	json_object_foreach(body, key, value)
	{
		struct gs_near near;
		size_t i = 0;

		gs_near_init(&near, key);
		for (; keys[i] && strcmp(keys[i], key) != 0; i++)
			gs_near_add(&near, keys[i]);
		if (keys[i])
			continue;
		snprintf(why, sizeof(why), "unknown key \"%.60s\"%s", key,
			 gs_near_text(&near, meant, sizeof(meant)));
		gs_http_error(reply, 400, why);
		return false;
	}
	return true;
}

json_t *gs_api_body(const struct gs_http_request *q, const char *const *keys,
		    struct gs_http_reply *reply)
{
	json_error_t e;
	json_t *j = q->content_bytes ? json_loadb((const char *)q->body, q->content_bytes,
						  JSON_REJECT_DUPLICATES, &e)
				     : json_object();

	if (!json_is_object(j))
		gs_http_error(reply, 400, "the body is not a JSON object");
	else if (!keys || api_keys_known(j, keys, reply))
		return j;
	json_decref(j);
	return NULL;
}

bool gs_api_text(json_t *body, const char *key, char *out, size_t bytes,
		 struct gs_http_reply *reply)
{
	json_t *v = json_object_get(body, key);
	char why[96];

	out[0] = '\0';
	if (!v || json_is_null(v))
		return true;
	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) &&
	    json_string_length(v) < bytes) {
		strcpy(out, json_string_value(v));
		return true;
	}
	snprintf(why, sizeof(why), "%s must be a text of less than %zu bytes", key, bytes);
	gs_http_error(reply, 400, why);
	return false;
}

bool gs_api_list(json_t *body, const char *key, char *out, size_t bytes,
		 struct gs_http_reply *reply)
{
	json_t *list = json_object_get(body, key), *v;
	char why[96];
	size_t n = 0, i;

	out[0] = '\0';
	if (!list || json_is_null(list))
		return true;
	json_array_foreach(list, i, v)
	{
		if (!json_is_string(v) || strchr(json_string_value(v), ',') ||
		    strlen(json_string_value(v)) + n + 2 > bytes) {
			n = bytes;
			break;
		}
		n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? "," : "",
				      json_string_value(v));
	}
	if (json_is_array(list) && n < bytes)
		return true;
	snprintf(why, sizeof(why), "%s must be a list of names", key);
	gs_http_error(reply, 400, why);
	return false;
}

/* --- sessions as objects --- */

static void put_names(struct gs_buf *b, const char *key, const char *list)
{
	char copy[1024];
	char *next;

	snprintf(copy, sizeof(copy), "%s", list);
	j_open(b, key, '[');
	for (char *name = strtok_r(copy, ",", &next); name; name = strtok_r(NULL, ",", &next))
		j_text(b, NULL, name);
	j_close(b, ']');
}

void api_put_session(struct gs_buf *b, const char *key, const struct gs_store_session *s)
{
	j_open(b, key, '{');
	j_i64(b, "number", s->number);
	j_text(b, "id", s->id);
	j_text(b, "name", s->name);
	j_text(b, "state", gs_store_session_state_name(s->state));
	j_time(b, "start_time", s->start_wall_ns);
	j_time(b, "end_time", s->end_wall_ns);
	j_double(b, "interval_seconds", s->interval_ns ? (double)s->interval_ns / 1e9 : NAN);
	j_bool(b, "bandwidth", s->bandwidth);
	j_bool(b, "nvlink", s->nvlink);
	put_names(b, "metrics", s->metrics);
	put_names(b, "nodes", s->nodes);
	put_names(b, "report_metrics", s->report_metrics);
	j_u64(b, "annotations", s->n_annotations);
	j_close(b, '}');
}

/* --- jobs of the store --- */

struct job {
	struct gs_api *api;
	struct gs_http_deferred *later;
	void (*run)(struct job *job, struct gs_store *store, struct gs_http_reply *reply);
	char name[GS_STORE_SESSION_NAME_BYTES]; /* or id */
	struct gs_store_session session;
	/* of a list */
	int64_t after;
	unsigned state;
	size_t limit, n;
	int64_t last;
	struct gs_buf *b;
	/* of an annotation */
	struct gs_head_annotation annotation;
	char annotation_name[256], annotation_kind[32];
	json_t *values; /* owned */
};

static void job_free(struct job *j)
{
	json_decref(j->values);
	free(j);
}

static void run_job(void *arg, struct gs_store *store)
{
	struct job *j = arg;
	struct gs_http_reply reply = gs_http_reply_new(j->later);

	if (store)
		j->run(j, store, &reply);
	else
		gs_http_error(&reply, 503, "the head is shutting down");
	gs_http_answer(&j->later, &reply);
	job_free(j);
}

static struct job *job_new(struct gs_api *a, const char *name, struct gs_http_reply *reply,
			   void (*run)(struct job *, struct gs_store *, struct gs_http_reply *))
{
	struct job *j;

	if (strlen(name) >= sizeof(j->name)) {
		gs_http_error(reply, 404, "no session has this name or id");
		return NULL;
	}
	j = calloc(1, sizeof(*j));
	if (!j) {
		gs_http_error(reply, 503, "no memory");
		return NULL;
	}
	j->api = a;
	j->run = run;
	strcpy(j->name, name);
	return j;
}

static void job_start(struct job *j, struct gs_http_reply *reply, bool writes)
{
	struct gs_head *head = j->api->o.head;
	struct gs_http_reply failed;

	j->later = gs_http_defer(reply);
	if (!j->later) {
		gs_http_error(reply, 503, "no memory");
		job_free(j);
	} else if ((writes ? gs_head_write : gs_head_read)(head, run_job, j) < 0) {
		failed = gs_http_reply_new(j->later);
		gs_http_error(&failed, 503, "no memory");
		gs_http_answer(&j->later, &failed);
		job_free(j);
	}
}

/* --- reading --- */

static int list_one(void *ctx, const struct gs_store_session *s)
{
	struct job *j = ctx;

	if (j->n == j->limit)
		return 1;
	j->n++;
	j->last = s->number;
	api_put_session(j->b, NULL, s);
	return 0;
}

static void list_sessions(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	int r;

	j->b = gs_live_json(reply);
	j_open(j->b, NULL, '{');
	j_open(j->b, "sessions", '[');
	r = gs_store_sessions(store, j->after, j->state, list_one, j);
	j_close(j->b, ']');
	if (r == 1)
		j_i64(j->b, "next", j->last);
	else
		j_null(j->b, "next");
	j_close(j->b, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}

GS_API_HANDLER(api_sessions)
{
	size_t limit = gs_live_limit(q, reply);
	double after = 0;
	char state[16];
	unsigned s = 0;
	struct job *j;

	if (!limit || gs_live_number(q, reply, "after", 0, 9e15, &after) < 0)
		return;
	if (gs_http_query(q, "state", state, sizeof(state)) == 1)
		for (s = 1; s <= GS_STORE_SESSION_RECOVERABLE; s++)
			if (strcmp(state, gs_store_session_state_name(s)) == 0)
				break;
	if (s > GS_STORE_SESSION_RECOVERABLE) {
		gs_http_error(reply, 400, "state must be active, stopped or recoverable");
		return;
	}
	j = job_new(ctx, "", reply, list_sessions);
	if (j) {
		j->limit = limit;
		j->after = (int64_t)after;
		j->state = s;
		job_start(j, reply, false);
	}
}

static bool get_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	int r = gs_store_session_get(store, j->name, &j->session);

	if (r == -ENOENT)
		gs_http_error(reply, 404, "no session has this name or id");
	else if (r < 0)
		gs_live_fail(reply, r, NULL);
	return r == 0;
}

static void show_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_store_tally t = {0};
	struct gs_buf *b;
	int r;

	if (!get_session(j, store, reply))
		return;
	r = gs_store_session_tally(store, &j->session, &t);
	if (r < 0) {
		gs_live_fail(reply, r, NULL);
		return;
	}
	b = gs_live_json(reply);
	j_open(b, NULL, '{');
	api_put_session(b, "session", &j->session);
	j_u64(b, "samples", t.n_samples);
	j_u64(b, "nodes", t.n_nodes);
	j_u64(b, "lost_samples", t.lost_samples);
	j_u64(b, "missed_samples", t.missed_samples);
	j_close(b, '}');
}

GS_API_HANDLER(api_session)
{
	struct job *j = job_new(ctx, q->param[0], reply, show_session);

	if (j)
		job_start(j, reply, false);
}

static int put_annotation(void *ctx, const struct gs_store_annotation *m)
{
	const char *values = m->values && m->values[0] ? m->values : "{}";
	struct gs_buf *b = ctx;

	j_open(b, NULL, '{');
	j_time(b, "time", m->wall_ns);
	j_text(b, "kind", m->kind);
	j_text(b, "name", m->name);
	/* An object of numbers, which this program wrote. */
	gs_json_spelled(b, "values", values, strlen(values));
	j_close(b, '}');
	return 0;
}

static void list_annotations(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	int r;

	if (!get_session(j, store, reply))
		return;
	j_open(gs_live_json(reply), NULL, '{');
	j_open(&reply->body, "annotations", '[');
	r = gs_store_annotations(store, j->session.number, put_annotation, &reply->body);
	j_close(&reply->body, ']');
	j_close(&reply->body, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}

GS_API_HANDLER(api_session_annotations)
{
	struct job *j = job_new(ctx, q->param[0], reply, list_annotations);

	if (j)
		job_start(j, reply, false);
}

/* --- changes --- */

static void answer_change(struct gs_http_reply *reply, int r, const struct gs_err *err,
			  const struct gs_store_session *s)
{
	if (r < 0) {
		gs_live_fail(reply, r, err);
		return;
	}
	j_open(gs_live_json(reply), NULL, '{');
	api_put_session(&reply->body, "session", s);
	j_close(&reply->body, '}');
}

static void start_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_err err = {{0}};

	answer_change(reply, gs_head_session_start(j->api->o.head, store, &j->session, &err), &err,
		      &j->session);
}

static bool bool_of(json_t *body, const char *key, bool *ret, struct gs_http_reply *reply)
{
	json_t *v = json_object_get(body, key);
	char why[64];

	if (!v)
		return true;
	if (json_is_boolean(v)) {
		*ret = json_is_true(v);
		return true;
	}
	snprintf(why, sizeof(why), "%s must be true or false", key);
	gs_http_error(reply, 400, why);
	return false;
}

/* Seconds; null: not said. */
static bool interval_of(json_t *body, uint64_t *ret_ns, struct gs_http_reply *reply)
{
	json_t *v = json_object_get(body, "interval_seconds");

	if (!v || json_is_null(v))
		return true;
	if (json_is_number(v) && json_number_value(v) >= 0.05 && json_number_value(v) <= 3600) {
		*ret_ns = (uint64_t)(json_number_value(v) * 1e9 + 0.5);
		return true;
	}
	gs_http_error(reply, 400, "interval_seconds is a number from 0.05 to 3600");
	return false;
}

GS_API_HANDLER(api_session_start)
{
	static const char *const keys[] = {
		"name",   "metrics",          "nodes", "report_metrics", "bandwidth",
		"nvlink", "interval_seconds", NULL};
	json_t *body = gs_api_body(q, keys, reply);
	struct job *j = body ? job_new(ctx, "", reply, start_session) : NULL;
	struct gs_head_switches own;
	struct gs_store_session *s;

	if (j) {
		s = &j->session;
		gs_head_switches(j->api->o.head, &own);
		s->bandwidth = own.bandwidth; /* not said: as the head */
		s->nvlink = own.nvlink;
		if (gs_api_text(body, "name", s->name, sizeof(s->name), reply) &&
		    gs_api_list(body, "metrics", s->metrics, sizeof(s->metrics), reply) &&
		    gs_api_list(body, "nodes", s->nodes, sizeof(s->nodes), reply) &&
		    gs_api_list(body, "report_metrics", s->report_metrics,
				sizeof(s->report_metrics), reply) &&
		    bool_of(body, "bandwidth", &s->bandwidth, reply) &&
		    bool_of(body, "nvlink", &s->nvlink, reply) &&
		    interval_of(body, &s->interval_ns, reply))
			job_start(j, reply, true);
		else
			job_free(j);
	}
	json_decref(body);
}

static void note_stopped(void *ctx, const struct gs_store_session *s)
{
	((struct job *)ctx)->session = *s;
}

static void stop_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_err err = {{0}};
	int r = gs_head_session_stop(j->api->o.head, store, j->name, note_stopped, j, &err);

	answer_change(reply, r < 0 ? r : 0, &err, &j->session);
}

static void resume_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_err err = {{0}};

	answer_change(reply,
		      gs_head_session_resume(j->api->o.head, store, j->name, &j->session, &err),
		      &err, &j->session);
}

static void forget_session(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_err err = {{0}};

	answer_change(reply,
		      gs_head_session_delete(j->api->o.head, store, j->name, &j->session, &err),
		      &err, &j->session);
}

#define CHANGE(handler, run)                                                                       \
	GS_API_HANDLER(handler)                                                                    \
	{                                                                                          \
		struct job *j = job_new(ctx, q->param[0], reply, run);                             \
                                                                                                   \
		if (j)                                                                             \
			job_start(j, reply, true);                                                 \
	}

CHANGE(api_session_stop, stop_session)
CHANGE(api_session_resume, resume_session)
CHANGE(api_session_delete, forget_session)

static void write_annotation(struct job *j, struct gs_store *store, struct gs_http_reply *reply)
{
	size_t n = json_object_size(j->values), i = 0;
	const char *keys[64];
	double values[64];
	struct gs_err err = {{0}};
	const char *key;
	json_t *v;
	int r;

	json_object_foreach(j->values, key, v)
	{
		keys[i] = key;
		values[i++] = json_number_value(v);
	}
	j->annotation.session = j->name;
	j->annotation.kind = j->annotation_kind;
	j->annotation.name = j->annotation_name;
	j->annotation.keys = keys;
	j->annotation.values = values;
	j->annotation.n_values = n;
	r = gs_head_annotate(j->api->o.head, store, &j->annotation, &j->session, &err);
	answer_change(reply, r < 0 ? r : 0, &err, &j->session);
}

static bool values_of(struct job *j, json_t *body, struct gs_http_reply *reply)
{
	json_t *values = json_object_get(body, "values"), *v;
	const char *key;
	bool fine = json_is_object(values) && json_object_size(values) <= 64;

	if (!values)
		return true;
	json_object_foreach(values, key, v) fine &=
		json_is_number(v) && isfinite(json_number_value(v));
	if (fine)
		j->values = json_incref(values);
	else
		gs_http_error(reply, 400, "values is an object of at most 64 numbers");
	return fine;
}

GS_API_HANDLER(api_annotate)
{
	static const char *const keys[] = {"name", "kind", "values", NULL};
	json_t *body = gs_api_body(q, keys, reply);
	struct job *j = body ? job_new(ctx, q->param[0], reply, write_annotation) : NULL;

	if (j) {
		if (gs_api_text(body, "name", j->annotation_name, sizeof(j->annotation_name),
				reply) &&
		    gs_api_text(body, "kind", j->annotation_kind, sizeof(j->annotation_kind),
				reply) &&
		    values_of(j, body, reply)) {
			if (!j->annotation_kind[0])
				strcpy(j->annotation_kind, "annotation");
			job_start(j, reply, true);
		} else {
			job_free(j);
		}
	}
	json_decref(body);
}

/* --- switches --- */

static void put_switches(struct gs_api *a, struct gs_http_reply *reply)
{
	struct gs_head_switches s;
	struct gs_buf *b = gs_live_json(reply);

	gs_head_switches(a->o.head, &s);
	j_open(b, NULL, '{');
	j_double(b, "interval_seconds", (double)s.interval_ns / 1e9);
	j_bool(b, "bandwidth", s.bandwidth);
	j_bool(b, "nvlink", s.nvlink);
	j_close(b, '}');
}

GS_API_HANDLER(api_switches)
{
	put_switches(ctx, reply);
}

GS_API_HANDLER(api_switches_set)
{
	struct gs_api *a = ctx;
	static const char *const keys[] = {"bandwidth", "nvlink", "interval_seconds", NULL};
	json_t *body = gs_api_body(q, keys, reply);
	struct gs_head_switches s;
	struct gs_err err = {{0}};
	int r;

	if (!body)
		return;
	gs_head_switches(a->o.head, &s);
	if (bool_of(body, "bandwidth", &s.bandwidth, reply) &&
	    bool_of(body, "nvlink", &s.nvlink, reply) && interval_of(body, &s.interval_ns, reply)) {
		r = gs_head_set(a->o.head, &s, &err);
		if (r < 0)
			gs_live_fail(reply, r, &err);
		else
			put_switches(a, reply);
	}
	json_decref(body);
}

/* --- export --- */

struct export /* shared by the thread that makes it and the server that sends it */
{
	atomic_uint refs;
	atomic_bool whole;
};

struct export_request {
	char session[GS_STORE_SESSION_NAME_BYTES];
	enum gs_session_export_format format;
	enum gs_session_export_commands commands;
};

static void export_unref(void *ctx)
{
	struct export *e = ctx;

	if (--e->refs == 0)
		free(e);
}

static bool export_whole(void *ctx)
{
	return ((struct export *)ctx)->whole;
}

/* A name may hold what a header may not. */
void api_file_name(const char *name, const char *suffix, char *out, size_t bytes)
{
	size_t n = 0;

	for (const char *p = name; *p && n + 16 < bytes; p++)
		out[n++] = (unsigned char)*p > ' ' && (unsigned char)*p < 0x7f && *p != '"' &&
					   *p != '\\' && *p != '/'
				   ? *p
				   : '_';
	snprintf(out + n, bytes - n, "%s", suffix);
}

static const char *type_of(enum gs_session_export_format format)
{
	return format == GS_SESSION_EXPORT_CSV   ? "text/csv; charset=utf-8"
	       : format == GS_SESSION_EXPORT_GST ? "application/octet-stream"
						 : "application/json";
}

static void make_export(struct api_task *t)
{
	const struct export_request *request = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct export *e = calloc(1, sizeof(*e));
	struct gs_store_session session;
	struct gs_session_export_options o = {.size = sizeof(o),
					      .store = t->store,
					      .session = &session,
					      .format = request->format,
					      .commands = request->commands};
	int fds[2] = {-1, -1};
	int r = e ? gs_store_session_get(t->store, request->session, &session) : -ENOMEM;

	if (r == 0 && pipe2(fds, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0) {
		if (r == -ENOENT)
			gs_http_error(&reply, 404, "no session has this name or id");
		else
			gs_live_fail(&reply, r, NULL);
		gs_http_answer(&t->later, &reply);
		free(e);
		return;
	}
	e->refs = 2;
	reply.type = type_of(request->format);
	api_file_name(session.name, gs_session_export_suffix(request->format), reply.file_name,
		      sizeof(reply.file_name));
	reply.has_source = true;
	reply.source = (struct gs_http_source){fds[0], export_whole, export_unref, e};
	gs_http_answer(&t->later, &reply);
	r = gs_session_export_write(&o, fds[1], NULL, &t->err);
	e->whole = r == 0; /* before the end of the pipe is seen */
	close(fds[1]);
	export_unref(e);
}

GS_API_HANDLER(api_session_export)
{
	struct export_request *e;
	char format[16];
	int f = GS_SESSION_EXPORT_JSON;

	if (gs_http_query(q, "format", format, sizeof(format)) != 0)
		f = gs_session_export_format(format);
	if (f < 0) {
		gs_http_error(reply, 400, "format must be json, gswarm, csv or gst");
		return;
	}
	if (strlen(q->param[0]) >= sizeof(e->session)) {
		gs_http_error(reply, 404, "no session has this name or id");
		return;
	}
	e = calloc(1, sizeof(*e));
	if (!e) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	strcpy(e->session, q->param[0]);
	e->format = (enum gs_session_export_format)f;
	e->commands = q->see == GS_HTTP_SEE_WHOLE      ? GS_SESSION_EXPORT_COMMANDS_STORED
		      : q->see == GS_HTTP_SEE_SCRUBBED ? GS_SESSION_EXPORT_COMMANDS_SCRUBBED
						       : GS_SESSION_EXPORT_COMMANDS_NONE;
	api_task_start(ctx, reply, make_export, e);
}
