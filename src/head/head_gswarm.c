/*
 * The interface of gswarm-profiler (proto/gswarm_profiler.proto), for its clients and scripts: what
 * they send becomes moments like those of our own nodes, and sessions are the same sessions.
 *
 * Their stream says who it is by a host name alone, and a host may run several clients, or one that
 * comes back before its old stream has ended. So a client is its host name, the address it comes
 * from, and a number; a new stream gets the least number whose stream has ended, or has been silent
 * for so long that a client which samples would not have been.
 */
#include "head/head_gswarm.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "node/record.h"

#define SILENT_SAMPLES  3
#define SILENT_LEAST_NS 3000000000ull
#define CLIENTS_MAX     64 /* of one host and address */

static void refuse(struct gs_rpc_call *call, const char *text)
{
	gs_rpc_call_finish(call, GS_RPC_INVALID_ARGUMENT, text);
}

static bool hostname_valid(const char *name)
{
	if (!name[0] || strlen(name) >= 64)
		return false;
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return false;
	return true;
}

/* --- streams of metrics --- */

/* The address without the port. */
static void host_of(const char *peer, char *out, size_t bytes)
{
	const char *colon = strrchr(peer, ':');

	snprintf(out, bytes, "%.*s", colon ? (int)(colon - peer) : 40, peer);
}

/* Silent for longer than a client at work would be. With the lock held. */
static bool silent(const struct gs_head *h, const struct head_stream *s)
{
	uint64_t limit = SILENT_SAMPLES * h->o.interval_ns;

	if (limit < SILENT_LEAST_NS)
		limit = SILENT_LEAST_NS;
	return gs_clock_mono_ns() - s->heard_ns > limit;
}

/* Its number among those of its host and address; 0: there are too many. A stream that is silent
 * and whose number is taken over is returned, to be ended. With the lock held. */
static unsigned number_of(struct gs_head *h, const char *hostname, const char *host,
			  struct gs_rpc_call **ret_old)
{
	*ret_old = NULL;
	for (unsigned n = 1; n <= CLIENTS_MAX; n++) {
		struct head_stream *taken = NULL;

		for (struct head_stream *s = h->live; s; s = s->behind)
			if (s->gswarm == n && strcmp(s->node.hostname, hostname) == 0 &&
			    strncmp(s->address, host, strlen(host)) == 0 &&
			    s->address[strlen(host)] == ':')
				taken = s;
		if (!taken)
			return n;
		if (silent(h, taken)) {
			taken->gswarm = CLIENTS_MAX + 1; /* no longer of that number */
			*ret_old = gs_rpc_call_ref(taken->call);
			return n;
		}
	}
	return 0;
}

static struct head_stream *begin(struct gs_head *h, struct gs_rpc_call *call, const char *hostname)
{
	struct head_stream *s = calloc(1, sizeof(*s));
	struct gs_rpc_call *old = NULL;
	struct head_item *item;
	char host[48];

	if (!s || getrandom(&s->stream.stream, sizeof(s->stream.stream), 0) !=
			  (ssize_t)sizeof(s->stream.stream)) {
		free(s);
		return NULL;
	}
	s->refs = 1;
	s->head = h;
	s->call = gs_rpc_call_ref(call);
	s->is_gswarm = true;
	s->heard_ns = gs_clock_mono_ns();
	s->stream.kind = GS_STORE_SAMPLES;
	snprintf(s->node.hostname, sizeof(s->node.hostname), "%s", hostname);
	snprintf(s->node.machine_id, sizeof(s->node.machine_id), "%s", hostname);
	snprintf(s->address, sizeof(s->address), "%s", gs_rpc_call_peer(call));
	snprintf(s->version, sizeof(s->version), "gswarm");
	host_of(s->address, host, sizeof(host));
	pthread_mutex_lock(&h->lock);
	s->gswarm = number_of(h, hostname, host, &old);
	if (s->gswarm) {
		snprintf(s->node.instance, sizeof(s->node.instance), "gswarm %s %u", host,
			 s->gswarm);
		s->live = true;
		s->behind = h->live;
		if (h->live)
			h->live->before = s;
		h->live = s;
	}
	pthread_mutex_unlock(&h->lock);
	if (old) {
		gs_rpc_call_finish(old, GS_RPC_ABORTED, "the client has come back on another call");
		gs_rpc_call_unref(&old);
	}
	item = s->gswarm ? head_item_new(s, HEAD_HELLO, NULL, 0) : NULL;
	if (s->gswarm)
		gs_rpc_call_set_user(call, s);
	else
		head_stream_unref(&s);
	if (!item)
		return NULL;
	head_store_put(h, item);
	return s;
}

/* The newest moment; until the store knows the stream it waits for head_store.c. */
static void show(struct head_stream *s, struct gs_node_snapshot **moment)
{
	int64_t id;

	pthread_mutex_lock(&s->head->lock);
	id = s->node_id;
	if (!id) {
		gs_node_snapshot_free(&s->early);
		s->early = gs_take(*moment);
	}
	pthread_mutex_unlock(&s->head->lock);
	if (id)
		gs_cluster_apply(s->head->cluster, id, moment);
}

static int take_update(struct gs_head *h, struct head_stream *s,
		       const GswarmProfiler__MetricsUpdate *m)
{
	struct gs_node_snapshot *node;
	struct gs_head_switches wish;
	struct head_item *item;
	int r;

	gs_head_wish(h, s->node.hostname, &wish);
	node = head_gswarm_moment(m, (int64_t)gs_clock_wall_ns(), &wish);
	if (!node)
		return -ENOMEM;
	gs_buf_reset(&h->raw);
	r = gs_node_encode(&h->raw, node);
	item = r < 0 ? NULL : head_item_new(s, HEAD_BATCH, h->raw.data, h->raw.bytes);
	if (item) {
		item->batch.seq = ++s->seq;
		item->batch.first_wall_ns = item->batch.last_wall_ns = node->wall_ns;
		item->batch.n_samples = 1;
		item->batch.raw_bytes = (uint32_t)h->raw.bytes;
		item->batch.codec = GS_STORE_PLAIN;
	}
	if (item)
		show(s, &node);
	gs_node_snapshot_free(&node);
	if (!item)
		return r < 0 ? r : -ENOMEM;
	head_store_put(h, item);
	(void)head_store_full(s);
	return 0;
}

static void on_update(void *ctx, struct gs_rpc_call *call, const void *data, size_t bytes)
{
	struct gs_head *h = ctx;
	struct head_stream *s = gs_rpc_call_user(call);
	GswarmProfiler__MetricsUpdate *m = head_gswarm_update(data, bytes);

	if (!m || !hostname_valid(m->hostname)) {
		refuse(call,
		       m ? "a host's name has 1 to 63 bytes and no blanks" : "no MetricsUpdate");
	} else if (s && strcmp(s->node.hostname, m->hostname) != 0) {
		refuse(call, "a stream is of one host");
	} else {
		if (!s)
			s = begin(h, call, m->hostname);
		if (s)
			s->heard_ns = gs_clock_mono_ns();
		if (!s || take_update(h, s, m) < 0)
			gs_rpc_call_finish(call, GS_RPC_RESOURCE_EXHAUSTED,
					   "too many clients of this host, or no memory");
	}
	if (m)
		gswarm_profiler__metrics_update__free_unpacked(m, NULL);
}

static void on_updates_end(void *ctx, struct gs_rpc_call *call)
{
	struct head_stream *s = gs_rpc_call_user(call);
	struct head_item *item = s ? head_item_new(s, HEAD_END, NULL, 0) : NULL;

	if (item)
		head_store_put(ctx, item);
	gs_rpc_call_reply(call, "", 0); /* Empty has no bytes */
}

/* --- asking and steering --- */

struct ask {
	struct gs_head *head;
	struct gs_rpc_call *call; /* referenced */
	void *message;
	char stopped[256];
	size_t n;
};

static void on_connect(void *ctx, struct gs_rpc_call *call, const void *data, size_t bytes)
{
	GswarmProfiler__InitialInfo *m = gswarm_profiler__initial_info__unpack(NULL, bytes, data);
	GswarmProfiler__ConnectResponse out = GSWARM_PROFILER__CONNECT_RESPONSE__INIT;

	if (!m) {
		refuse(call, "no InitialInfo");
		return;
	}
	out.success = hostname_valid(m->hostname);
	out.message = out.success ? "Connected" : "a host's name has 1 to 63 bytes and no blanks";
	head_reply(call, &out.base);
	gswarm_profiler__initial_info__free_unpacked(m, NULL);
}

static void start_profiling(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__StartProfilingRequest *m = a->message;
	GswarmProfiler__StartProfilingResponse out =
		GSWARM_PROFILER__START_PROFILING_RESPONSE__INIT;
	struct gs_store_session s = {.number = 0};
	char text[256], file[GS_STORE_SESSION_NAME_BYTES + 8];
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
	snprintf(file, sizeof(file), "%s.json", s.name);
	snprintf(text, sizeof(text), "%s", r < 0 ? gs_err_text(&err, r) : "Profiling started");
	out.success = r == 0;
	out.message = text;
	out.output_file = r == 0 ? file : "";
	head_reply(a->call, &out.base);
}

static void add_stopped(void *ctx, const struct gs_store_session *s)
{
	struct ask *a = ctx;
	size_t at = strlen(a->stopped);

	snprintf(a->stopped + at, sizeof(a->stopped) - at, "%s%s", a->n++ ? ", " : "", s->name);
}

static void stop_profiling(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__StopProfilingRequest *m = a->message;
	GswarmProfiler__StopProfilingResponse out = GSWARM_PROFILER__STOP_PROFILING_RESPONSE__INIT;
	struct gs_err err = {{0}};
	int r = gs_head_session_stop(a->head, store, m->name, add_stopped, a, &err);
	char text[320];

	if (r == 0 && a->n)
		snprintf(text, sizeof(text), "Profiling stopped: %s", a->stopped);
	else
		snprintf(text, sizeof(text), "%s",
			 r < 0 ? gs_err_text(&err, r) : "No session is active");
	out.success = r == 0 && a->n;
	out.message = text;
	head_reply(a->call, &out.base);
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
	head_reply(a->call, &out.base);
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
	if (!a->head->o.exit) {
		gs_rpc_call_finish(
			a->call, GS_RPC_PERMISSION_DENIED,
			"this head is not ended by calls: start it with --allow-exit for "
			"that, or end it where it runs");
		return;
	}
	gs_rpc_call_reply(a->call, "", 0);
	head_say(a->head, "told to end by %s", gs_rpc_call_peer(a->call));
	a->head->o.exit(a->head->o.exit_ctx);
}

static void get_status(struct ask *a, struct gs_store *store)
{
	head_gswarm_status(a->head, a->call);
}

static void read_cluster(struct ask *a, struct gs_store *store)
{
	head_gswarm_cluster(a->head, a->call);
}

static void read_node(struct ask *a, struct gs_store *store)
{
	const GswarmProfiler__ReadNodeStatusRequest *m = a->message;

	head_gswarm_node(a->head, a->call, m->node_id);
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

static size_t row_of(const struct gs_rpc_call *call)
{
	size_t i = 0;

	while (strcmp(rows[i].path, gs_rpc_call_method(call)->path) != 0)
		i++;
	return i;
}

static void ask_free(struct ask *a)
{
	gs_rpc_call_unref(&a->call);
	protobuf_c_message_free_unpacked(a->message, NULL);
	free(a);
}

static void work(void *ctx, struct gs_store *store)
{
	struct ask *a = ctx;

	if (store)
		rows[row_of(a->call)].run(a, store);
	else
		gs_rpc_call_finish(a->call, GS_RPC_UNAVAILABLE, "the head ends");
	ask_free(a);
}

static void on_message(void *ctx, struct gs_rpc_call *call, const void *data, size_t bytes)
{
	size_t i = row_of(call);
	struct ask *a = calloc(1, sizeof(*a));

	if (a)
		a->message = protobuf_c_message_unpack(rows[i].in, NULL, bytes, data);
	if (!a || !a->message) {
		refuse(call, "no message of this method");
		free(a);
		return;
	}
	a->head = ctx;
	a->call = gs_rpc_call_ref(call);
	if ((rows[i].writes ? gs_head_write : gs_head_read)(a->head, work, a) < 0) {
		gs_rpc_call_finish(call, GS_RPC_RESOURCE_EXHAUSTED, "the head has no memory");
		ask_free(a);
	}
}

#define METHOD(name, needs, handler)                                                               \
	{                                                                                          \
		.path = PATH name, .kind = GS_RPC_UNARY, .role = needs,                            \
		.max_message_bytes = 1 << 20, .message = handler                                   \
	}

const struct gs_rpc_method head_gswarm_methods[HEAD_N_GSWARM] = {
	METHOD("Connect", GS_HEAD_ROLE_NODE, on_connect),
	{.path = PATH "StreamMetrics",
	 .kind = GS_RPC_STREAM,
	 .role = GS_HEAD_ROLE_NODE,
	 .max_message_bytes = 1 << 20,
	 .message = on_update,
	 .half_closed = on_updates_end,
	 .closed = head_node_closed},
	METHOD("GetStatus", GS_HEAD_ROLE_ANY, on_message),
	METHOD("StartProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("StopProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("Exit", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("ReadClusterStatus", GS_HEAD_ROLE_READ, on_message),
	METHOD("ReadNodeStatus", GS_HEAD_ROLE_READ, on_message),
	METHOD("SetBandwidthProfiling", GS_HEAD_ROLE_CONTROL, on_message),
	METHOD("SetNVLinkProfiling", GS_HEAD_ROLE_CONTROL, on_message),
};
