/* The service's life, its methods, and what they ask of the head. */
#include "compat/gswarm/gswarm_int.h"
#include "commands/head/head_addition.h"
#include "commands/main/main.h"

#include <errno.h>
#include <string.h>

#include "server/head/reply.h"

void gswarm_refuse(struct gs_grpc_call *call, const char *text)
{
	gs_grpc_call_finish(call, GS_GRPC_INVALID_ARGUMENT, text);
}

/* --- asking and steering --- */

struct ask {
	struct gs_head *head;
	struct gs_grpc_call *call; /* referenced */
	void *message;
	char stopped[256];
	size_t n;
};

static void on_connect(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	GswarmProfiler__InitialInfo *m = gswarm_profiler__initial_info__unpack(NULL, bytes, data);
	GswarmProfiler__ConnectResponse out = GSWARM_PROFILER__CONNECT_RESPONSE__INIT;

	if (!m) {
		gswarm_refuse(call, "no InitialInfo");
		return;
	}
	out.success = gswarm_hostname_valid(m->hostname);
	out.message = out.success ? "Connected" : GSWARM_NO_HOSTNAME;
	gs_head_reply(call, &out.base);
	gswarm_profiler__initial_info__free_unpacked(m, NULL);
}

static void start_profiling(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__StartProfilingRequest *m = a->message;
	GswarmProfiler__StartProfilingResponse out =
		GSWARM_PROFILER__START_PROFILING_RESPONSE__INIT;
	struct gs_store_session s = {.number = 0};
	char text[256], file[GSWARM_PATH_BYTES];
	struct gs_head_switches own;
	struct gs_err err = {{0}};
	size_t at = 0;
	int r = strlen(m->name) < sizeof(s.name)
			? 0
			: gs_err_set(&err, -EINVAL, "a session's name is at most 128 bytes long");

	gs_head_switches(a->head, &own);
	s.bandwidth = own.bandwidth;
	s.nvlink = own.nvlink;
	snprintf(s.name, sizeof(s.name), "%s", m->name);
	for (size_t i = 0; i < m->n_report_metrics && r == 0; i++) {
		at += (size_t)snprintf(s.report_metrics + at, sizeof(s.report_metrics) - at, "%s%s",
				       i ? "," : "", m->report_metrics[i]);
		if (at >= sizeof(s.report_metrics))
			r = gs_err_set(&err, -EINVAL, "too many report_metrics");
	}
	if (r == 0)
		r = gs_head_session_start(a->head, store, &s, &err);
	gswarm_file_of(a->head, &s, file, sizeof(file));
	snprintf(text, sizeof(text), "%s", r < 0 ? gs_err_text(&err, r) : "Profiling started");
	out.success = r == 0;
	out.message = text;
	out.output_file = r == 0 ? file : "";
	gs_head_reply(a->call, &out.base);
}

static void add_stopped(void *ctx, const struct gs_store_session *s)
{
	struct ask *a = ctx;
	size_t at = strlen(a->stopped);

	snprintf(a->stopped + at, sizeof(a->stopped) - at, "%s%s", a->n++ ? ", " : "", s->name);
}

struct stop_answer {
	struct gs_grpc_call *call; /* referenced */
	bool success;
	char text[320];
};

static void answer_stopped(void *ctx)
{
	GswarmProfiler__StopProfilingResponse out = GSWARM_PROFILER__STOP_PROFILING_RESPONSE__INIT;
	struct stop_answer *answer = ctx;

	out.success = answer->success;
	out.message = answer->text;
	gs_head_reply(answer->call, &out.base);
	gs_grpc_call_unref(&answer->call);
	free(answer);
}

/* Answered when the files are there, as gswarm-profiler's head does. */
static void stop_profiling(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__StopProfilingRequest *m = a->message;
	struct stop_answer *answer = calloc(1, sizeof(*answer));
	struct gs_err err = {{0}};
	int r;

	if (!answer) {
		gs_grpc_call_finish(a->call, GS_GRPC_RESOURCE_EXHAUSTED, "the head has no memory");
		return;
	}
	r = gs_head_session_stop(a->head, store, m->name, add_stopped, a, &err);
	if (r == 0 && a->n)
		snprintf(answer->text, sizeof(answer->text), "Profiling stopped: %s", a->stopped);
	else
		snprintf(answer->text, sizeof(answer->text), "%s",
			 r < 0 ? gs_err_text(&err, r) : "No session is active");
	answer->success = r == 0 && a->n;
	answer->call = gs_grpc_call_ref(a->call);
	gs_session_export_files_then(gs_head_files(a->head), answer_stopped, answer);
}

static void set_switch(struct ask *a, bool nvlink)
{
	/* Both requests have the same field, and both answers. */
	const GswarmProfiler__SetBandwidthProfilingRequest *m = a->message;
	GswarmProfiler__SetBandwidthProfilingResponse out =
		GSWARM_PROFILER__SET_BANDWIDTH_PROFILING_RESPONSE__INIT;
	struct gs_head_switches own;
	struct gs_err err = {{0}};

	gs_head_switches(a->head, &own);
	*(nvlink ? &own.nvlink : &own.bandwidth) = m->enable;
	out.success = gs_head_set(a->head, &own, &err) == 0;
	out.message =
		!out.success ? err.text
		: nvlink    ? (m->enable ? "NVLink profiling enabled" : "NVLink profiling disabled")
		: m->enable ? "Bandwidth profiling enabled"
			    : "Bandwidth profiling disabled";
	gs_head_reply(a->call, &out.base);
}

static void set_bandwidth(struct ask *a, struct gs_store *store)
{
	set_switch(a, false);
}

static void set_nvlink(struct ask *a, struct gs_store *store)
{
	set_switch(a, true);
}

static void exit_head(struct ask *a, struct gs_store *store)
{
	if (gs_head_exit(a->head, gs_grpc_call_peer(a->call)) < 0)
		gs_grpc_call_finish(
			a->call, GS_GRPC_PERMISSION_DENIED,
			"this head is not ended by calls: start it with --allow-exit for that, or end it where it runs");
	else
		gs_grpc_call_reply(a->call, "", 0);
}

static void get_status(struct ask *a, struct gs_store *store)
{
	gswarm_status(a->head, a->call);
}

static void read_cluster(struct ask *a, struct gs_store *store)
{
	gswarm_cluster(a->head, a->call);
}

static void read_node(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__ReadNodeStatusRequest *m = a->message;

	gswarm_node(a->head, a->call, m->node_id);
}

/* --- the methods --- */

#define PATH "/gswarm_profiler.ProfilerService/"

static const struct {
	const char *path;
	const ProtobufCMessageDescriptor *in;
	void (*run)(struct ask *a, struct gs_store *store);
	bool writes;
} rows[] = {
	{PATH "GetStatus", &gswarm_profiler__empty__descriptor, get_status, false},
	{PATH "StartProfiling", &gswarm_profiler__start_profiling_request__descriptor,
	 start_profiling, true},
	{PATH "StopProfiling", &gswarm_profiler__stop_profiling_request__descriptor, stop_profiling,
	 true},
	{PATH "Exit", &gswarm_profiler__empty__descriptor, exit_head, false},
	{PATH "ReadClusterStatus", &gswarm_profiler__read_cluster_status_request__descriptor,
	 read_cluster, false},
	{PATH "ReadNodeStatus", &gswarm_profiler__read_node_status_request__descriptor, read_node,
	 false},
	{PATH "SetBandwidthProfiling",
	 &gswarm_profiler__set_bandwidth_profiling_request__descriptor, set_bandwidth, false},
	{PATH "SetNVLinkProfiling", &gswarm_profiler__set_nvlink_profiling_request__descriptor,
	 set_nvlink, false},
};

static size_t row_of(const struct gs_grpc_call *call)
{
	size_t i = 0;

	while (strcmp(rows[i].path, gs_grpc_call_method(call)->path) != 0)
		i++;
	return i;
}

static void ask_free(struct ask *a)
{
	gs_grpc_call_unref(&a->call);
	protobuf_c_message_free_unpacked(a->message, NULL);
	free(a);
}

static void end_sessions(void *ctx, struct gs_store *store)
{
	struct ask *a = ctx;

	if (store)
		rows[row_of(a->call)].run(a, store);
	else
		gs_grpc_call_finish(a->call, GS_GRPC_UNAVAILABLE, "the head is shutting down");
	ask_free(a);
}

static void on_message(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct gs_gswarm *g = ctx;
	size_t i = row_of(call);
	struct ask *a = calloc(1, sizeof(*a));

	if (a)
		a->message = protobuf_c_message_unpack(rows[i].in, NULL, bytes, data);
	if (!a || !a->message) {
		gswarm_refuse(call, "no message of this method");
		free(a);
		return;
	}
	a->head = g->head;
	a->call = gs_grpc_call_ref(call);
	if ((rows[i].writes ? gs_head_write : gs_head_read)(a->head, end_sessions, a) < 0) {
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "the head has no memory");
		ask_free(a);
	}
}

#define METHOD(name, needs, handler)                                                               \
	{                                                                                          \
		.path = PATH name, .kind = GS_GRPC_UNARY, .role = needs,                           \
		.max_message_bytes = 1 << 20, .message = handler                                   \
	}

static const struct gs_grpc_method methods[GSWARM_METHODS] = {
	METHOD("Connect", GS_HEAD_ROLE_NODE, on_connect),
	{.path = PATH "StreamMetrics",
	 .kind = GS_GRPC_STREAM,
	 .role = GS_HEAD_ROLE_NODE,
	 .max_message_bytes = 1 << 20,
	 .message = gswarm_on_update,
	 .half_closed = gswarm_on_updates_end,
	 .closed = gswarm_on_closed},
	METHOD("GetStatus", GS_HEAD_ROLE_ANY, on_message),
	METHOD("StartProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("StopProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("Exit", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("ReadClusterStatus", GS_HEAD_ROLE_READ, on_message),
	METHOD("ReadNodeStatus", GS_HEAD_ROLE_READ, on_message),
	METHOD("SetBandwidthProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("SetNVLinkProfiling", GS_HEAD_ROLE_CONTROL, on_message),
};

/* --- life --- */

static void begin_service(void *ctx, struct gs_head *head)
{
	struct gs_gswarm *g = ctx;

	g->head = head;
}

static void *open_service(struct gs_head_service *ret_service)
{
	struct gs_gswarm *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	for (size_t i = 0; i < GSWARM_METHODS; i++) {
		g->methods[i] = methods[i];
		g->methods[i].ctx = g;
	}
	*ret_service = (struct gs_head_service){.methods = g->methods,
						.n_methods = GSWARM_METHODS,
						.begin = begin_service,
						.ctx = g};
	return g;
}

void gs_gswarm_add(void)
{
	static const struct head_addition addition = {
		.open = open_service, .close = free, .http = &gswarm_http};
	static const struct gs_cmd_program gsprof = {"gsprof", gswarm_run_gsprof};

	head_set_addition(&addition);
	gs_uplink_set_other(&gswarm_uplink);
	gs_cmd_set_other(&gsprof);
}
