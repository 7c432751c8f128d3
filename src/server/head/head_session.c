/*
 * Sessions, and what they make nodes measure. The store has them; a copy of those that are active
 * is kept under the head's lock, so that nodes can be answered without asking it.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "server/head/session.h"
#include "model/node/gpu.h"

/* As the plots of gswarm-profiler are called; others are keys of values. */
static const char *const reports[] = {"gpu_utilization", "gpu_memory", "gpu_dram_bandwidth",
				      "gpu_bubble"};

/* --- what is active --- */

struct list {
	struct gs_store_session *session;
	size_t n, n_max;
};

static int add_session(void *ctx, const struct gs_store_session *session)
{
	struct list *l = ctx;

	if (!gs_vec_reserve(&l->session, &l->n_max, l->n + 1))
		return -ENOMEM;
	l->session[l->n++] = *session;
	return 0;
}

/* The copy is made again from the store and sent to nodes. */
static int publish_change(struct gs_head *h, struct gs_store *store)
{
	struct list l = {0};
	int r = gs_store_sessions(store, 0, GS_STORE_SESSION_ACTIVE, add_session, &l);

	if (r < 0) {
		free(l.session);
		return r;
	}
	pthread_mutex_lock(&h->lock);
	free(h->active);
	h->active = l.session;
	h->n_active = l.n;
	h->wish_version++;
	pthread_mutex_unlock(&h->lock);
	head_node_config(h);
	return 0;
}

void head_config_locked(const struct gs_head *h, const char *hostname,
			struct gs_head_switches *desired)
{
	*desired = (struct gs_head_switches){h->o.interval_ns, h->o.bandwidth, h->o.nvlink};
	for (size_t i = 0; i < h->n_active; i++) {
		const struct gs_store_session *s = &h->active[i];

		if (!gs_store_session_has(s, hostname))
			continue;
		if (s->interval_ns && s->interval_ns < desired->interval_ns)
			desired->interval_ns = s->interval_ns;
		desired->bandwidth |= s->bandwidth;
		desired->nvlink |= s->nvlink;
	}
}

void gs_head_switches(struct gs_head *head, struct gs_head_switches *ret_switches)
{
	pthread_mutex_lock(&head->lock);
	*ret_switches =
		(struct gs_head_switches){head->o.interval_ns, head->o.bandwidth, head->o.nvlink};
	pthread_mutex_unlock(&head->lock);
}

static int check_interval(uint64_t ns, struct gs_err *err)
{
	return ns >= GS_HEAD_INTERVAL_LEAST_NS && ns <= GS_HEAD_INTERVAL_MOST_NS
		       ? 0
		       : gs_err_set(err, -EINVAL, "the time between samples is 50 ms to 1 h");
}

int gs_head_set(struct gs_head *head, const struct gs_head_switches *switches, struct gs_err *err)
{
	int r = check_interval(switches->interval_ns, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&head->lock);
	head->o.interval_ns = switches->interval_ns;
	head->o.bandwidth = switches->bandwidth;
	head->o.nvlink = switches->nvlink;
	head->wish_version++;
	pthread_mutex_unlock(&head->lock);
	head_node_config(head);
	return 0;
}

int gs_head_active(struct gs_head *head, struct gs_store_session **ret_sessions, size_t *ret_n)
{
	struct gs_store_session *copy = NULL;
	size_t n;

	pthread_mutex_lock(&head->lock);
	n = head->n_active;
	if (n)
		copy = malloc(n * sizeof(*copy));
	/* The store lists the newest first. */
	for (size_t i = 0; copy && i < n; i++)
		copy[i] = head->active[n - 1 - i];
	pthread_mutex_unlock(&head->lock);
	if (n && !copy)
		return -ENOMEM;
	*ret_sessions = copy;
	*ret_n = n;
	return 0;
}

/* --- what a session may be --- */

/* Each part of a list with commas. */
static int each_part(const char *text, int (*fn)(const char *part, struct gs_err *err),
		     struct gs_err *err)
{
	char part[256];
	int r = 0;

	while (r == 0 && *text) {
		size_t n = strcspn(text, ",");

		if (n == 0 || n >= sizeof(part))
			return gs_err_set(err, -EINVAL,
					  "an empty name, or one that is too long, in a list");
		memcpy(part, text, n);
		part[n] = 0;
		r = fn(part, err);
		text += n + (text[n] == ',');
	}
	return r;
}

static int check_metric(const char *part, struct gs_err *err)
{
	return gs_gpu_field_by_key(part) >= 0
		       ? 0
		       : gs_err_set(
				 err, -EINVAL,
				 "no value is called \"%s\": `gpuscope gpu --fields help` lists them",
				 head_shown(part).text);
}

static int check_report(const char *part, struct gs_err *err)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(reports); i++)
		if (strcmp(part, reports[i]) == 0)
			return 0;
	return gs_gpu_field_by_key(part) >= 0
		       ? 0
		       : gs_err_set(
				 err, -EINVAL,
				 "no plot is called \"%s\": gpu_utilization, gpu_memory, gpu_dram_bandwidth, gpu_bubble, or the key of a value",
				 head_shown(part).text);
}

static int check_pattern(const char *part, struct gs_err *err)
{
	for (const char *p = part; *p; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f || strchr("/\\'\"<>[]{}", *p))
			return gs_err_set(
				err, -EINVAL,
				"\"%s\" is not a pattern of host names: letters, digits, '.', '-', '_', * and ?",
				head_shown(part).text);
	return 0;
}

struct head_shown head_shown(const char *text)
{
	struct head_shown s;
	size_t n = 0;

	for (; *text && n < sizeof(s.text) - 1; text++)
		s.text[n++] =
			(unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?' : *text;
	s.text[n] = 0;
	return s;
}

static int check_session(const struct gs_store_session *s, struct gs_err *err)
{
	int r = 0;

	if (!gs_store_session_name_valid(s->name))
		return gs_err_set(
			err, -EINVAL,
			"\"%s\" cannot be a session's name: letters, digits, '.', '_', '-', ' ', ':', '+' and '@', 1 to 128 bytes, and it begins with none of '.', '-' and ' '",
			head_shown(s->name).text);
	if (s->interval_ns)
		r = check_interval(s->interval_ns, err);
	if (r == 0)
		r = each_part(s->metrics, check_metric, err);
	if (r == 0)
		r = each_part(s->report_metrics, check_report, err);
	if (r == 0)
		r = each_part(s->nodes, check_pattern, err);
	return r;
}

/* profiling_YYYYmmdd_HHMMSS; a second one of the same second gets a number. */
static void default_name(struct gs_store *store, char *out, size_t bytes)
{
	time_t now = time(NULL);
	struct gs_store_session taken;
	char stamp[32];
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "profiling_%Y%m%d_%H%M%S", &tm);
	snprintf(out, bytes, "%s", stamp);
	for (unsigned n = 2; n < 1000 && gs_store_session_get(store, out, &taken) == 0; n++)
		snprintf(out, bytes, "%s-%u", stamp, n);
}

/* --- changes --- */

static int report_change(struct gs_store *store, int r, const char *name, struct gs_err *err)
{
	struct head_shown shown = head_shown(name);

	switch (r) {
	case -ENOENT:
		return gs_err_set(err, r, "there is no session \"%s\"", shown.text);
	case -EEXIST:
		return gs_err_set(
			err, r,
			"a session \"%s\" is active or waits to be resumed: stop it, or take another name",
			shown.text);
	case -ENOSPC:
		return gs_err_set(err, r, "the head's disk is full: make room for its data (%s)",
				  gs_store_trouble(store));
	default:
		return gs_err_set(err, r, "the head's store failed: %s (%s)", strerror(-r),
				  gs_store_trouble(store));
	}
}

int gs_head_session_start(struct gs_head *head, struct gs_store *store,
			  struct gs_store_session *session, struct gs_err *err)
{
	struct gs_head_switches own;
	size_t n_active;
	int r;

	if (!session->name[0])
		default_name(store, session->name, sizeof(session->name));
	r = check_session(session, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&head->lock);
	n_active = head->n_active;
	pthread_mutex_unlock(&head->lock);
	if (n_active >= GS_HEAD_SESSIONS_MAX)
		return gs_err_set(err, -EBUSY, "%d sessions are active: stop some",
				  GS_HEAD_SESSIONS_MAX);
	gs_head_switches(head, &own);
	if (!session->interval_ns)
		session->interval_ns = own.interval_ns;
	r = gs_store_session_start(store, session);
	if (r == 0)
		r = publish_change(head, store);
	if (r < 0)
		return report_change(store, r, session->name, err);
	head_log(head, "session %s begins", session->name);
	return 0;
}

static int stop_one(struct gs_head *head, struct gs_store *store, struct gs_store_session *s,
		    int64_t end_wall_ns, struct gs_err *err)
{
	int r = gs_store_session_stop(store, s->number, end_wall_ns);

	if (r == -EALREADY)
		return gs_err_set(err, r, "the session \"%s\" is stopped already", s->name);
	/* What is stored since stands before the start. */
	if (r == 0 && end_wall_ns < s->start_wall_ns)
		head_log(
			head,
			"session %s: this machine's clock was set back to before its start; samples since then are not in it",
			s->name);
	if (r == 0)
		r = gs_store_session_get(store, s->id, s);
	return r < 0 ? report_change(store, r, s->name, err) : 0;
}

static int stop_all(struct gs_head *head, struct gs_store *store, struct list *l,
		    struct gs_err *err)
{
	int64_t now = (int64_t)gs_clock_wall_ns();
	int r = gs_store_begin(store);

	if (r < 0)
		return report_change(store, r, "", err);
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = stop_one(head, store, &l->session[i], now, err);
	if (r < 0) {
		gs_store_rollback(store);
		return r;
	}
	r = gs_store_commit(store);
	return r < 0 ? report_change(store, r, "", err) : 0;
}

int gs_head_session_stop(struct gs_head *head, struct gs_store *store, const char *name,
			 void (*fn)(void *ctx, const struct gs_store_session *session), void *ctx,
			 struct gs_err *err)
{
	struct list l = {0};
	struct gs_store_session one;
	int r;

	if (name[0]) {
		r = gs_store_session_get(store, name, &one);
		if (r == 0)
			r = add_session(&l, &one);
	} else {
		r = gs_store_sessions(store, 0, GS_STORE_SESSION_ACTIVE, add_session, &l);
	}
	r = r < 0 ? report_change(store, r, name, err) : l.n ? stop_all(head, store, &l, err) : 0;
	if (r == 0 && l.n)
		r = publish_change(head, store);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		head_log(head, "session %s is stopped", l.session[i].name);
		gs_session_export_files_put(head->files, &l.session[i]);
		fn(ctx, &l.session[i]);
	}
	free(l.session);
	return r;
}

int gs_head_session_resume(struct gs_head *head, struct gs_store *store, const char *name,
			   struct gs_store_session *ret_session, struct gs_err *err)
{
	int r = gs_store_session_get(store, name, ret_session);

	if (r == 0)
		r = gs_store_session_resume(store, ret_session->number);
	if (r == -EALREADY)
		return gs_err_set(err, r, "the session \"%s\" is active", ret_session->name);
	if (r == 0)
		r = publish_change(head, store);
	if (r == 0)
		r = gs_store_session_get(store, ret_session->id, ret_session);
	if (r < 0)
		return report_change(store, r, name, err);
	head_log(head, "session %s resumed", ret_session->name);
	return 0;
}

int gs_head_session_delete(struct gs_head *head, struct gs_store *store, const char *name,
			   struct gs_store_session *ret_session, struct gs_err *err)
{
	int r = gs_store_session_get(store, name, ret_session);

	if (r == 0)
		r = gs_store_session_delete(store, ret_session->number);
	if (r == -EBUSY)
		return gs_err_set(err, r, "the session \"%s\" is active: stop it first",
				  ret_session->name);
	if (r < 0)
		return report_change(store, r, name, err);
	head_log(head, "session %s is deleted", ret_session->name);
	return 0;
}

/* --- marks --- */

/* The values as a JSON object; NULL: one of them cannot be. The caller frees. */
static char *values_text(const struct gs_head_annotation *mark)
{
	json_t *object = json_object(), *name = json_string(mark->name);
	char *text = NULL;
	bool ok = object && name; /* a name that is no UTF-8 makes no string */

	for (const char *p = mark->name; *p; p++)
		ok &= (unsigned char)*p >= 0x20 && *p != 0x7f;
	for (size_t i = 0; ok && i < mark->n_values; i++)
		ok = mark->keys[i][0] && strlen(mark->keys[i]) < 128 && isfinite(mark->values[i]) &&
		     json_object_set_new(object, mark->keys[i], json_real(mark->values[i])) == 0;
	if (ok)
		text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(object);
	json_decref(name);
	return text;
}

int gs_head_annotate(struct gs_head *head, struct gs_store *store,
		     const struct gs_head_annotation *mark, struct gs_store_session *ret_session,
		     struct gs_err *err)
{
	struct gs_store_annotation m = {.wall_ns = mark->wall_ns ? mark->wall_ns
								 : (int64_t)gs_clock_wall_ns()};
	GS_FREE char *values = NULL;
	struct list l = {0};
	struct gs_store_session one;
	int r;

	if (!mark->name[0] || strlen(mark->name) >= sizeof(m.name) || mark->n_values > 64)
		return gs_err_set(
			err, -EINVAL,
			"an annotation has a name of 1 to %zu bytes and at most 64 values",
			sizeof(m.name) - 1);
	values = values_text(mark);
	if (!values)
		return gs_err_set(
			err, -EINVAL,
			"an annotation's name and keys are text without control characters, its values are finite numbers");
	snprintf(m.kind, sizeof(m.kind), "%s", mark->kind);
	snprintf(m.name, sizeof(m.name), "%s", mark->name);
	m.values = values;
	if (mark->session[0]) {
		r = gs_store_session_get(store, mark->session, &one);
		if (r == 0)
			r = add_session(&l, &one);
	} else {
		r = gs_store_sessions(store, 0, GS_STORE_SESSION_ACTIVE, add_session, &l);
		if (r == 0 && !l.n)
			return gs_err_set(err, -ENOENT, "no session is active");
	}
	if (r == 0)
		r = gs_store_begin(store);
	if (r == 0) {
		for (size_t i = 0; r == 0 && i < l.n; i++) {
			m.session = l.session[i].number;
			r = gs_store_annotation_add(store, &m);
		}
		if (r == 0)
			r = gs_store_commit(store);
		else
			gs_store_rollback(store);
	}
	if (r == 0 && ret_session)
		r = gs_store_session_get(store, l.session[l.n - 1].id, ret_session);
	r = r < 0 ? report_change(store, r, mark->session, err) : (int)l.n;
	free(l.session);
	return r;
}
