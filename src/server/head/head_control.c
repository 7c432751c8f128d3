/*
 * The service Control of proto/gpuscope.proto: messages in, a job, messages out. What the job does
 * is in head_session.c.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "gpuscope.pb-c.h"

#define SESSIONS_LIMIT     100 /* of a list, when nothing else is asked for */
#define SESSIONS_LIMIT_MAX 1000

/* One call that waits for its job. */
struct ask {
	struct gs_head *head;
	struct gs_grpc_call *call;        /* referenced */
	void *message;                    /* unpacked */
	struct gs_store_session *session; /* n; of an answer that is a list */
	struct gs_store_tally *tally;     /* likewise, or NULL */
	size_t n, n_max;
	void (*reply)(struct ask *a); /* when it is counted */
	bool *handed_on;              /* of the job that runs: another has it now */
};

static void ask_free(struct ask *a)
{
	gs_grpc_call_unref(&a->call);
	protobuf_c_message_free_unpacked(a->message, NULL);
	free(a->session);
	free(a->tally);
	free(a);
}

static const enum gs_grpc_status status_of[] = {
	[EINVAL] = GS_GRPC_INVALID_ARGUMENT,   [ENOENT] = GS_GRPC_NOT_FOUND,
	[EEXIST] = GS_GRPC_ALREADY_EXISTS,     [EALREADY] = GS_GRPC_FAILED_PRECONDITION,
	[EBUSY] = GS_GRPC_FAILED_PRECONDITION, [ENOSPC] = GS_GRPC_RESOURCE_EXHAUSTED,
	[ENOMEM] = GS_GRPC_RESOURCE_EXHAUSTED, [EACCES] = GS_GRPC_PERMISSION_DENIED,
	[EUCLEAN] = GS_GRPC_DATA_LOSS,
};

enum gs_grpc_status head_status_of(int r)
{
	return r < 0 && (size_t)-r < GS_ARRAY_LEN(status_of) && status_of[-r] ? status_of[-r]
									      : GS_GRPC_INTERNAL;
}

static void fail_request(struct ask *a, int r, const struct gs_err *err)
{
	gs_grpc_call_finish(a->call, head_status_of(r), gs_err_text(err, r));
}

/* --- sessions as messages --- */

/* A text with commas into a list of strings; both are freed by parts_free(). */
struct parts {
	char *text;
	char **part;
	size_t n;
};

static void parts_split(struct parts *p, const char *text)
{
	*p = (struct parts){.text = strdup(text)};
	if (p->text)
		p->part = calloc(strlen(text) + 1, sizeof(*p->part));
	for (char *at = p->part ? p->text : NULL; at && *at;) {
		p->part[p->n++] = at;
		at += strcspn(at, ",");
		if (*at)
			*at++ = 0;
	}
}

static void parts_free(struct parts *p)
{
	free(p->part);
	free(p->text);
}

struct session_message {
	Gpuscope__V1__Session m;
	struct parts metrics, nodes, reports;
};

static void session_fill(struct session_message *out, const struct gs_store_session *s,
			 const struct gs_store_tally *tally)
{
	Gpuscope__V1__Session *m = &out->m;

	gpuscope__v1__session__init(m);
	parts_split(&out->metrics, s->metrics);
	parts_split(&out->nodes, s->nodes);
	parts_split(&out->reports, s->report_metrics);
	m->id = (char *)s->id;
	m->name = (char *)s->name;
	m->state = (Gpuscope__V1__SessionState)s->state; /* the same numbers */
	m->start_wall_ns = s->start_wall_ns;
	m->end_wall_ns = s->end_wall_ns;
	m->interval_ns = s->interval_ns;
	m->metrics = out->metrics.part;
	m->n_metrics = out->metrics.n;
	m->nodes = out->nodes.part;
	m->n_nodes = out->nodes.n;
	m->report_metrics = out->reports.part;
	m->n_report_metrics = out->reports.n;
	m->bandwidth = s->bandwidth;
	m->nvlink = s->nvlink;
	m->annotation_count = s->n_annotations;
	if (tally) {
		m->sample_count = tally->n_samples;
		m->node_count = tally->n_nodes;
		m->lost_samples = tally->lost_samples + tally->missed_samples;
	}
}

static void session_clear(struct session_message *m)
{
	parts_free(&m->metrics);
	parts_free(&m->nodes);
	parts_free(&m->reports);
}

static void reply_session(struct ask *a, const struct gs_store_session *s)
{
	struct session_message m;

	session_fill(&m, s, a->tally);
	gs_head_reply(a->call, &m.m.base);
	session_clear(&m);
}

/* Messages of the asked one's list; NULL: no memory. */
static Gpuscope__V1__Session **messages_of(const struct ask *a, struct session_message **ret_all)
{
	struct session_message *all = calloc(a->n + 1, sizeof(*all));
	Gpuscope__V1__Session **pointers = calloc(a->n + 1, sizeof(*pointers));

	if (!all || !pointers) {
		free(all);
		free(pointers);
		return NULL;
	}
	for (size_t i = 0; i < a->n; i++) {
		session_fill(&all[i], &a->session[i], a->tally ? &a->tally[i] : NULL);
		pointers[i] = &all[i].m;
	}
	*ret_all = all;
	return pointers;
}

static void messages_free(const struct ask *a, struct session_message *all,
			  Gpuscope__V1__Session **pointers)
{
	for (size_t i = 0; i < a->n; i++)
		session_clear(&all[i]);
	free(all);
	free(pointers);
}

static void reply_sessions(struct ask *a, bool more)
{
	Gpuscope__V1__Sessions m = GPUSCOPE__V1__SESSIONS__INIT;
	struct session_message *all;

	m.sessions = messages_of(a, &all);
	m.n_sessions = a->n;
	m.more = more;
	if (!m.sessions) {
		fail_request(a, -ENOMEM, NULL);
		return;
	}
	gs_head_reply(a->call, &m.base);
	messages_free(a, all, m.sessions);
}

static int ask_add(struct ask *a, const struct gs_store_session *s)
{
	if (!gs_vec_reserve(&a->session, &a->n_max, a->n + 1))
		return -ENOMEM;
	a->session[a->n++] = *s;
	return 0;
}

/* --- changes: on the store's thread --- */

static bool is_ended(struct ask *a, const struct gs_store *store)
{
	if (store)
		return false;
	gs_grpc_call_finish(a->call, GS_GRPC_UNAVAILABLE, "the head is shutting down");
	return true;
}

/* Strings into one with commas. A comma inside of one would make two of it. */
static int join_strings(char *out, size_t bytes, char *const *part, size_t n)
{
	size_t at = 0;

	out[0] = 0;
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(part[i]);

		if (!length || strchr(part[i], ',') || at + length + 2 > bytes)
			return -EINVAL;
		if (at)
			out[at++] = ',';
		memcpy(out + at, part[i], length + 1);
		at += length;
	}
	return 0;
}

static void start_session(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__SessionStart *m = a->message;
	struct gs_store_session s = {.interval_ns = m->interval_ns};
	struct gs_head_switches own;
	struct gs_err err = {{0}};
	int r = strlen(m->name) < sizeof(s.name) ? 0 : -EINVAL;

	/* What the head has read anyway is in the session's files too. */
	gs_head_switches(a->head, &own);
	s.bandwidth = m->bandwidth || own.bandwidth;
	s.nvlink = m->nvlink || own.nvlink;
	snprintf(s.name, sizeof(s.name), "%s", m->name);
	if (r < 0)
		(void)gs_err_set(&err, r, "a session's name is at most 128 bytes long");
	if (r == 0)
		r = join_strings(s.metrics, sizeof(s.metrics), m->metrics, m->n_metrics);
	if (r == 0)
		r = join_strings(s.nodes, sizeof(s.nodes), m->nodes, m->n_nodes);
	if (r == 0)
		r = join_strings(s.report_metrics, sizeof(s.report_metrics), m->report_metrics,
				 m->n_report_metrics);
	if (r < 0 && !err.text[0])
		(void)gs_err_set(
			&err, r,
			"metrics, nodes and plots are short names without commas, together at most 1023 bytes of each kind");
	if (r == 0)
		r = gs_head_session_start(a->head, store, &s, &err);
	if (r < 0)
		fail_request(a, r, &err);
	else
		reply_session(a, &s);
}

static int tally_all(struct ask *a, struct gs_store *store)
{
	int r = 0;

	a->tally = calloc(a->n + 1, sizeof(*a->tally));
	if (!a->tally)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < a->n; i++)
		r = gs_store_session_tally(store, &a->session[i], &a->tally[i]);
	return r;
}

static void all_of_them(struct ask *a)
{
	reply_sessions(a, false);
}

static void the_first(struct ask *a)
{
	reply_session(a, &a->session[0]);
}

static void count_sessions(void *ctx, struct gs_store *store)
{
	struct ask *a = ctx;
	int r;

	if (!is_ended(a, store)) {
		r = tally_all(a, store);
		if (r < 0)
			fail_request(a, r, NULL);
		else
			a->reply(a);
	}
	ask_free(a);
}

/* What was changed, with what is stored of it; counting may take long, and so it is a look. */
static void reply_counted(struct ask *a, void (*reply)(struct ask *a))
{
	bool *handed_on = a->handed_on;

	a->reply = reply;
	*handed_on = true; /* from the next line on it may be gone */
	if (gs_head_read(a->head, count_sessions, a) < 0) {
		*handed_on = false;
		fail_request(a, -ENOMEM, NULL);
	}
}

static void add_stopped(void *ctx, const struct gs_store_session *s)
{
	(void)ask_add(ctx, s);
}

static void stop_session(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__SessionName *m = a->message;
	struct gs_err err = {{0}};
	int r = gs_head_session_stop(a->head, store, m->name, add_stopped, a, &err);

	if (r < 0)
		fail_request(a, r, &err);
	else
		reply_counted(a, all_of_them);
}

static void resume_session(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__SessionName *m = a->message;
	struct gs_store_session s;
	struct gs_err err = {{0}};
	int r = gs_head_session_resume(a->head, store, m->name, &s, &err);

	if (r == 0)
		r = ask_add(a, &s);
	if (r < 0)
		fail_request(a, r, &err);
	else
		reply_counted(a, the_first);
}

static void delete_session(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__SessionName *m = a->message;
	struct gs_store_session s;
	struct gs_err err = {{0}};
	int r = gs_head_session_delete(a->head, store, m->name, &s, &err);

	if (r == 0)
		r = ask_add(a, &s);
	if (r < 0)
		fail_request(a, r, &err);
	else
		reply_counted(a, all_of_them);
}

static void add_annotation(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__Annotation *m = a->message;
	const char *keys[64];
	double values[64];
	struct gs_head_annotation annotation = {.session = m->session,
						.wall_ns = m->wall_ns,
						.kind = "annotation",
						.name = m->name,
						.keys = keys,
						.values = values,
						.n_values = m->n_values};
	struct gs_store_session s;
	struct gs_err err = {{0}};
	int r;

	for (size_t i = 0; i < m->n_values && i < GS_ARRAY_LEN(keys); i++) {
		keys[i] = m->values[i]->key;
		values[i] = m->values[i]->value;
	}
	r = gs_head_annotate(a->head, store, &annotation, &s, &err);
	if (r < 0)
		fail_request(a, r, &err);
	else
		reply_session(a, &s);
}

/* --- looks: on the reader's thread --- */

static int list_session(void *ctx, const struct gs_store_session *s)
{
	struct ask *a = ctx;
	const Gpuscope__V1__SessionQuery *q = a->message;
	uint32_t limit = q->limit ? q->limit : SESSIONS_LIMIT;
	int r;

	if (limit > SESSIONS_LIMIT_MAX)
		limit = SESSIONS_LIMIT_MAX;
	r = ask_add(a, s);
	return r < 0 ? r : a->n > limit ? 1 : 0; /* one more than is shown: there are more */
}

static void list_sessions(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__SessionQuery *q = a->message;
	struct gs_store_session after = {.number = 0};
	struct gs_err err = {{0}};
	bool more;
	int r = 0;

	if (q->after[0])
		r = gs_store_session_get(store, q->after, &after);
	if (r == -ENOENT) {
		fail_request(a, r, (gs_err_set(&err, r, "there is no session to list from"), &err));
		return;
	}
	if (r == 0)
		r = gs_store_sessions(store, after.number, (unsigned)q->state, list_session, a);
	more = r == 1;
	a->n -= more;
	if (r >= 0)
		r = tally_all(a, store);
	if (r < 0)
		fail_request(a, r, NULL);
	else
		reply_sessions(a, more);
}

static int copy_nodes(struct gs_registry *cluster, Gpuscope__V1__NodeInfo ***ret_nodes,
		      size_t *ret_n)
{
	Gpuscope__V1__NodeInfo **node, *info;
	struct gs_registry_view *view = gs_registry_view(cluster);
	size_t n = gs_registry_view_count(view);

	node = calloc(n + 1, sizeof(*node));
	info = calloc(n + 1, sizeof(*info));
	for (size_t i = 0; node && info && i < n; i++) {
		const struct gs_registry_node *c = gs_registry_view_at(view, i);
		Gpuscope__V1__NodeInfo *m = node[i] = &info[i];
		char id[160], name[GS_NODE_LABEL_BYTES];

		gpuscope__v1__node_info__init(m);
		snprintf(id, sizeof(id), "%s%s%s", c->machine_id, c->instance[0] ? "/" : "",
			 c->instance);
		m->id = strdup(id);
		gs_node_label(c->hostname, c->instance, c->machine_id, c->name_is_shared, name,
			      sizeof(name));
		m->name = strdup(name);
		m->hostname = strdup(c->hostname);
		m->address = strdup(c->address);
		m->version = strdup(c->version);
		m->connected = c->n_connections > 0;
		m->healthy = c->healthy;
		m->gpu_count = c->latest ? c->latest->gpu->n_gpus : 0;
		m->last_wall_ns = c->last_wall_ns;
		m->sample_count = c->n_samples;
		m->lost_samples = c->lost_samples + c->missed_samples;
		m->clock_offset_s = c->clock_known ? (double)c->clock_offset_ns / 1e9 : 0;
	}
	gs_registry_view_unref(&view);
	if (!node || !info) {
		free(node);
		free(info);
		return -ENOMEM;
	}
	*ret_nodes = node;
	*ret_n = n;
	return 0;
}

static void free_nodes(Gpuscope__V1__NodeInfo **node, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(node[i]->id);
		free(node[i]->name);
		free(node[i]->hostname);
		free(node[i]->address);
		free(node[i]->version);
	}
	if (n)
		free(node[0]);
	free(node);
}

static void get_head(struct ask *a, struct gs_store *store)
{
	Gpuscope__V1__HeadStatus m = GPUSCOPE__V1__HEAD_STATUS__INIT;
	struct gs_head_switches own;
	struct gs_head_stats stats;
	struct session_message *all = NULL;
	int r = gs_head_active(a->head, &a->session, &a->n);

	gs_head_switches(a->head, &own);
	gs_head_stats(a->head, &stats);
	m.version = (char *)GS_VERSION;
	m.interval_ns = own.interval_ns;
	m.bandwidth = own.bandwidth;
	m.nvlink = own.nvlink;
	m.stored_bytes = gs_store_used_bytes(store);
	m.waiting_batches = stats.waiting_batches;
	m.trouble = stats.trouble;
	m.downsampled_batches_before = stats.coarse_batches_before;
	m.downsampled_batches_after = stats.coarse_batches_after;
	m.downsampled_bytes_before = stats.coarse_bytes_before;
	m.downsampled_bytes_after = stats.coarse_bytes_after;
	if (r == 0)
		r = tally_all(a, store);
	if (r == 0)
		r = copy_nodes(a->head->cluster, &m.nodes, &m.n_nodes);
	if (r == 0) {
		m.active = messages_of(a, &all);
		m.n_active = a->n;
		r = m.active ? 0 : -ENOMEM;
	}
	if (r < 0)
		fail_request(a, r, NULL);
	else
		gs_head_reply(a->call, &m.base);
	if (m.active)
		messages_free(a, all, m.active);
	if (m.nodes)
		free_nodes(m.nodes, m.n_nodes);
}

static bool switch_of(Gpuscope__V1__Switch s, bool now)
{
	return s == GPUSCOPE__V1__SWITCH__SWITCH_ON    ? true
	       : s == GPUSCOPE__V1__SWITCH__SWITCH_OFF ? false
						       : now;
}

static void set_values(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__Switches *m = a->message;
	struct gs_head_switches own;
	struct gs_err err = {{0}};
	int r;

	gs_head_switches(a->head, &own);
	own.bandwidth = switch_of(m->bandwidth, own.bandwidth);
	own.nvlink = switch_of(m->nvlink, own.nvlink);
	if (m->interval_ns)
		own.interval_ns = m->interval_ns;
	r = gs_head_set(a->head, &own, &err);
	if (r < 0)
		fail_request(a, r, &err);
	else
		get_head(a, store);
}

static void export_session(struct ask *a, struct gs_store *store)
{
	const Gpuscope__V1__ExportRequest *m = a->message;
	struct gs_store_session s;
	int r = gs_store_session_get(store, m->session, &s);
	struct gs_err err = {{0}};

	if (r == -ENOENT)
		(void)gs_err_set(&err, r, "there is no session \"%s\"",
				 head_shown(m->session).text);
	if (r == 0)
		r = head_export_start(a->head, a->call, &s, (unsigned)m->format, &err);
	if (r < 0)
		fail_request(a, r, &err);
}

static void list_reports(struct ask *a, struct gs_store *store)
{
	head_reports_list(a->head, a->call, a->message, store);
}

static void list_findings(struct ask *a, struct gs_store *store)
{
	head_findings_list(a->call, a->message, store);
}

static void list_steps(struct ask *a, struct gs_store *store)
{
	(void)store;
	head_steps_list(a->head, a->call, a->message);
}

/* --- the methods --- */

static const struct {
	const ProtobufCMessageDescriptor *in;
	void (*run)(struct ask *a, struct gs_store *store);
	bool writes;
} rows[HEAD_N_CONTROL] = {
	{&gpuscope__v1__session_start__descriptor, start_session, true},
	{&gpuscope__v1__session_name__descriptor, stop_session, true},
	{&gpuscope__v1__session_query__descriptor, list_sessions, false},
	{&gpuscope__v1__session_name__descriptor, resume_session, true},
	{&gpuscope__v1__session_name__descriptor, delete_session, true},
	{&gpuscope__v1__annotation__descriptor, add_annotation, true},
	{&gpuscope__v1__export_request__descriptor, export_session, false},
	{&gpuscope__v1__head_query__descriptor, get_head, false},
	{&gpuscope__v1__switches__descriptor, set_values, false},
	{&gpuscope__v1__job_report_query__descriptor, list_reports, false},
	{&gpuscope__v1__finding_query__descriptor, list_findings, false},
	{&gpuscope__v1__step_query__descriptor, list_steps, false},
};

static size_t row_of(const struct gs_grpc_call *call)
{
	/* Methods are copied into the head's table in this order. */
	const char *path = gs_grpc_call_method(call)->path;
	size_t i = 0;

	while (strcmp(head_control_methods[i].path, path) != 0)
		i++;
	return i;
}

static void run_request(void *ctx, struct gs_store *store)
{
	struct ask *a = ctx;

	bool handed_on = false;

	a->handed_on = &handed_on;
	if (!is_ended(a, store))
		rows[row_of(a->call)].run(a, store);
	if (!handed_on)
		ask_free(a);
}

static void on_message(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	size_t i = row_of(call);
	struct ask *a = calloc(1, sizeof(*a));
	ProtobufCMessage *m = protobuf_c_message_unpack(rows[i].in, NULL, bytes, data);

	if (!a || !m) {
		gs_grpc_call_finish(call, a ? GS_GRPC_INVALID_ARGUMENT : GS_GRPC_RESOURCE_EXHAUSTED,
				    a ? "no message of this method" : "the head has no memory");
		free(a);
		if (m)
			protobuf_c_message_free_unpacked(m, NULL);
		return;
	}
	*a = (struct ask){.head = ctx, .call = gs_grpc_call_ref(call), .message = m};
	if ((rows[i].writes ? gs_head_write : gs_head_read)(a->head, run_request, a) < 0) {
		fail_request(a, -ENOMEM, NULL);
		ask_free(a);
	}
}

static void on_writable(void *ctx, struct gs_grpc_call *call)
{
	head_export_wake(call);
}

static void on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	head_export_wake(call);
}

#define METHOD(name, needs)                                                                        \
	{                                                                                          \
		.path = "/gpuscope.v1.Control/" name, .kind = GS_GRPC_UNARY, .role = needs,        \
		.max_message_bytes = 65536, .message = on_message                                  \
	}

const struct gs_grpc_method head_control_methods[HEAD_N_CONTROL] = {
	METHOD("StartSession", GS_HEAD_ROLE_CONTROL),
	METHOD("StopSession", GS_HEAD_ROLE_CONTROL),
	METHOD("ListSessions", GS_HEAD_ROLE_READ),
	METHOD("ResumeSession", GS_HEAD_ROLE_CONTROL),
	METHOD("DeleteSession", GS_HEAD_ROLE_CONTROL),
	METHOD("AddAnnotation", GS_HEAD_ROLE_CONTROL),
	{.path = "/gpuscope.v1.Control/ExportSession",
	 .kind = GS_GRPC_UNARY,
	 .role = GS_HEAD_ROLE_READ,
	 .max_message_bytes = 65536,
	 .message = on_message,
	 .writable = on_writable,
	 .closed = on_closed},
	METHOD("GetHead", GS_HEAD_ROLE_READ),
	METHOD("Set", GS_HEAD_ROLE_CONTROL),
	METHOD("ListJobReports", GS_HEAD_ROLE_READ),
	METHOD("ListFindings", GS_HEAD_ROLE_READ),
	METHOD("ListSteps", GS_HEAD_ROLE_READ),
};
