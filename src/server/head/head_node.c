/* The service Node of proto/gpuscope.proto: streams of batches. */
#include "server/head/head_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/clocks.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "gpuscope.pb-c.h"
#include "model/node/record.h"

#define CLOCK_FIRST_NS  1000000000ull /* between the first few questions */
#define CLOCK_EVERY_NS  30000000000ull
#define CLOCK_TRACE_NS  2000000000ull   /* of traces, whose ranks are compared (head_fleet.c) */
#define CLOCK_FORGET_NS 600000000000ull /* clocks drift: an estimate that old is made again */
#define CLOCK_SET_NS    100000000ll     /* what is slewed in the time of an estimate is less */

void head_node_send(struct gs_head_stream *s, const Gpuscope__V1__ToNode *m)
{
	uint8_t small[1024];
	size_t bytes = gpuscope__v1__to_node__get_packed_size(m);
	GS_FREE uint8_t *large = bytes > sizeof(small) ? malloc(bytes) : NULL;
	uint8_t *out = bytes > sizeof(small) ? large : small;

	if (!out)
		return;
	gpuscope__v1__to_node__pack(m, out);
	/* A node that does not read its acknowledgements gets the next one, which covers them. */
	(void)gs_grpc_call_send(s->call, out, bytes);
}

/* --- answers --- */

/* With the lock held. */
static void fill_config(const struct gs_head *h, const char *hostname, Gpuscope__V1__Config *c)
{
	struct gs_head_switches desired;

	head_config_locked(h, hostname, &desired);
	gpuscope__v1__config__init(c);
	c->version = h->wish_version;
	c->interval_ns = desired.interval_ns;
	c->bandwidth = desired.bandwidth;
	c->nvlink = desired.nvlink;
	c->processes = true;
}

void head_node_welcome(struct gs_head_stream *s, int r)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Welcome welcome = GPUSCOPE__V1__WELCOME__INIT;
	Gpuscope__V1__Config config;

	if (r < 0) {
		gs_grpc_call_finish(s->call, GS_GRPC_INVALID_ARGUMENT, "no batch of a node");
		return;
	}
	if (s->is_mute)
		return;
	pthread_mutex_lock(&s->head->lock);
	fill_config(s->head, s->node.hostname, &config);
	pthread_mutex_unlock(&s->head->lock);
	gs_log(GS_LOG_INFO, GS_LOG_HEAD,
	       "node %s: connected from %s, gpuscope %s; stored up to batch %llu", s->node.hostname,
	       s->address, s->version[0] ? s->version : "of an unknown version",
	       (unsigned long long)s->stream.last_seq);
	welcome.last_seq = s->stream.last_seq;
	welcome.max_batch_bytes = GS_STORE_BATCH_MAX;
	welcome.config = &config;
	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_WELCOME;
	m.welcome = &welcome;
	head_node_send(s, &m);
}

void head_node_ack(struct gs_head_stream *s, uint64_t seq)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Ack ack = GPUSCOPE__V1__ACK__INIT;

	if (s->is_mute)
		return;
	ack.seq = seq;
	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_ACK;
	m.ack = &ack;
	head_node_send(s, &m);
}

void head_node_reject(struct gs_head_stream *s, uint64_t seq, const char *reason)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Reject reject = GPUSCOPE__V1__REJECT__INIT;

	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "node %s: batch %llu is refused: %s", s->node.hostname,
	       (unsigned long long)seq, reason);
	if (!s->call)
		return;
	reject.seq = seq;
	reject.reason = (char *)reason;
	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_REJECT;
	m.reject = &reject;
	head_node_send(s, &m);
}

void head_node_denied(struct gs_head_stream *s)
{
	if (!s->call)
		return;
	head_log(s->head, "%s, from %s, is refused: %s", s->node.hostname, s->address, s->denied);
	gs_grpc_call_finish(s->call, GS_GRPC_PERMISSION_DENIED, s->denied);
}

void head_node_superseded(struct gs_head_stream *s)
{
	if (s->call)
		gs_grpc_call_finish(s->call, GS_GRPC_ABORTED, "delivered over a newer connection");
}

void head_node_config(struct gs_head *h)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Config config;

	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_CONFIG;
	m.config = &config;
	pthread_mutex_lock(&h->lock);
	for (struct gs_head_stream *s = h->live; s; s = s->next)
		if (!s->is_mute && s->node_id) {
			fill_config(h, s->node.hostname, &config);
			head_node_send(s, &m);
		}
	pthread_mutex_unlock(&h->lock);
}

/* Clocks are asked for when something came: a node that is silent has none to set right. */
static void ask_clock(struct gs_head_stream *s)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Clock clock = GPUSCOPE__V1__CLOCK__INIT;

	uint64_t every_ns = s->clock_id < 5                    ? CLOCK_FIRST_NS
			    : s->stream.kind == GS_STORE_TRACE ? CLOCK_TRACE_NS
							       : CLOCK_EVERY_NS;

	if (s->clock_sent_ns && gs_clock_mono_ns() - s->clock_sent_ns < every_ns)
		return;
	clock.id = ++s->clock_id;
	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_CLOCK;
	m.clock = &clock;
	s->clock_sent_wall_ns = (int64_t)gs_clock_wall_ns();
	s->clock_sent_ns = gs_clock_mono_ns();
	head_node_send(s, &m);
}

/* Snapshots are placed by times that should jump seldom; ranks of traces are compared by times that should be right. */
static uint64_t known_error(const struct gs_head_stream *s, uint64_t now)
{
	return s->stream.kind == GS_STORE_TRACE
		       ? gs_fleet_clock_aged_error(s->best_trip_ns / 2, now - s->best_at_ns)
		       : s->best_trip_ns / 2;
}

/* The offset of the quickest round trip is the least wrong: half of the trip at most. */
static void on_clock(struct gs_head_stream *s, const Gpuscope__V1__ClockReply *c)
{
	uint64_t now = gs_clock_mono_ns(), trip, away;
	int64_t offset_ns;
	bool was_set;

	if (c->id != s->clock_id || c->send_wall_ns < c->receive_wall_ns)
		return; /* late, or of a clock that was set meanwhile */
	trip = now - s->clock_sent_ns;
	away = (uint64_t)(c->send_wall_ns - c->receive_wall_ns);
	if (away > trip)
		return;
	trip -= away;
	offset_ns = s->clock_sent_wall_ns + (int64_t)(trip / 2) - c->receive_wall_ns;
	/* Further away than both can be wrong: a clock was set, and the better one is of before. */
	was_set = llabs(offset_ns - s->offset_ns) >
		  (int64_t)(trip / 2 + s->best_trip_ns / 2) + CLOCK_SET_NS;
	if (s->best_at_ns && !was_set && trip / 2 > known_error(s, now) &&
	    now - s->best_at_ns < CLOCK_FORGET_NS)
		return;
	s->best_trip_ns = trip;
	s->best_at_ns = now;
	s->offset_ns = offset_ns;
	s->base_ns = s->clock_sent_wall_ns - (int64_t)s->clock_sent_ns;
	s->node_base_ns = c->send_boot_ns ? c->send_wall_ns - (int64_t)c->send_boot_ns : 0;
	gs_registry_clock(s->head->cluster, s->node_id, s->offset_ns, trip / 2);
}

/* What is to be added to the node's times in this batch, whose newest snapshot has this base (0: not
 * known): as was found, unless a clock was set since. Then it is asked for again. */
static int64_t offset_of(struct gs_head_stream *s, uint64_t seq, int64_t node_base_ns)
{
	int64_t node = 0, own;

	if (!s->best_at_ns)
		return s->offset_ns;
	/* What waited may be of another boot. */
	if (seq >= s->live_seq && node_base_ns && s->node_base_ns)
		node = node_base_ns - s->node_base_ns;
	own = (int64_t)gs_clock_wall_ns() - (int64_t)gs_clock_mono_ns() - s->base_ns;
	node = llabs(node) < CLOCK_SET_NS ? 0 : node;
	own = llabs(own) < CLOCK_SET_NS ? 0 : own;
	if (node || own)
		s->clock_sent_ns = 0;
	return s->offset_ns - node + own;
}

/* --- messages of a node --- */

static void refuse_node(struct gs_grpc_call *call, const char *text)
{
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "a connection is refused: %s", text);
	gs_grpc_call_finish(call, GS_GRPC_INVALID_ARGUMENT, text);
}

/* Names that are shown and stored: no control characters, not longer than their fields. */
static bool name_valid(const char *text, size_t bytes, bool may_be_empty)
{
	if (strlen(text) >= bytes || (!text[0] && !may_be_empty))
		return false;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return true;
}

static void on_hello(struct gs_head *h, struct gs_grpc_call *call, const Gpuscope__V1__Hello *m)
{
	struct gs_head_stream *s;
	struct head_item *item;

	if (gs_grpc_call_user(call)) {
		refuse_node(call, "a second Hello");
		return;
	}
	if (m->protocol != 1 || !m->stream ||
	    (m->kind != GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_SAMPLES &&
	     m->kind != GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_TRACE &&
	     m->kind != GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_JOBS)) {
		refuse_node(call,
			    "invalid Hello message: is the node's gpuscope newer than this head?");
		return;
	}
	if (!name_valid(m->machine_id, sizeof(s->node.machine_id), false) ||
	    !name_valid(m->instance, sizeof(s->node.instance), true) ||
	    !name_valid(m->hostname, sizeof(s->node.hostname), false) ||
	    !name_valid(m->title, sizeof(s->stream.title), true)) {
		refuse_node(call, "a name is too long, or has control characters");
		return;
	}
	s = head_stream_new(h, call);
	if (s)
		s->decoder = gs_node_decoder_new();
	if (!s || !s->decoder) {
		if (s)
			head_stream_unref(&s);
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "the head has no memory");
		return;
	}
	strcpy(s->node.machine_id, m->machine_id);
	strcpy(s->node.instance, m->instance);
	strcpy(s->node.hostname, m->hostname);
	strcpy(s->stream.title, m->title);
	s->stream.stream = m->stream;
	s->run = m->run;
	s->attempt = m->attempt;
	s->stream.kind = (uint32_t)m->kind; /* the same numbers */
	s->live_seq = m->next_seq;
	snprintf(s->version, sizeof(s->version), "%s",
		 name_valid(m->version, sizeof(s->version), true) ? m->version : "");
	gs_grpc_call_set_user(call, s);
	head_stream_live(s);
	/* The answer comes before the first batch, so that each one has an estimate. */
	ask_clock(s);
	item = head_item_new(s, HEAD_HELLO, NULL, 0);
	if (item)
		head_store_put(h, item);
	else
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "the head has no memory");
}

/* What happened to GPUs in the older samples of a batch: it is reported once, by the sample in which
 * it was seen, so that the newest one has to bring it along. A batch's bytes bound it. */
struct earlier_events {
	struct gs_gpu_event *event; /* owned */
	uint32_t n;
};

static void events_fini(struct earlier_events *e)
{
	free(e->event);
}

static bool events_append(struct earlier_events *e, const struct gs_gpu_event *event, uint32_t n)
{
	struct gs_gpu_event *more = n ? reallocarray(e->event, e->n + n, sizeof(*more)) : NULL;

	if (!more)
		return !n;
	memcpy(more + e->n, event, n * sizeof(*more));
	e->event = more;
	e->n += n;
	return true;
}

/* Put them before its own. False: there is no memory for them. */
static bool events_hand_on(struct earlier_events *e, struct gs_gpu_snapshot *gpu)
{
	if (!e->n)
		return true;
	if (!events_append(e, gpu->event, gpu->n_events))
		return false;
	free(gpu->event);
	gpu->event = gs_take(e->event);
	gpu->n_events = e->n;
	return true;
}

bool head_batch_check(const struct Gpuscope__V1__Batch *b, unsigned kind,
		      struct gs_node_decoder *decoder, struct gs_buf *raw,
		      struct gs_node_snapshot **ret_newest)
{
	GS_CLEANUP(events_fini) struct earlier_events earlier = {0};
	struct gs_node_snapshot *snapshot = NULL;
	struct gs_batch records;
	size_t offset = 0;
	const struct gs_record *r;
	bool whole = true;

	*ret_newest = NULL;
	if (!b->seq || b->first_wall_ns > b->last_wall_ns ||
	    gs_store_unpack((uint32_t)b->codec, b->records.data, b->records.len, b->raw_bytes,
			    raw) < 0)
		return false;
	records = (struct gs_batch){raw->data, raw->bytes};
	while ((r = gs_record_next(&records, &offset)))
		if (kind == GS_STORE_SAMPLES &&
		    gs_node_decode(decoder, r, &snapshot) == GS_NODE_WHOLE) {
			const struct gs_gpu_snapshot *before =
				*ret_newest ? (*ret_newest)->gpu : NULL;

			whole &=
				!before || events_append(&earlier, before->event, before->n_events);
			gs_node_snapshot_free(ret_newest);
			*ret_newest = gs_take(snapshot);
		}
	gs_node_decoder_reset(decoder);
	whole &= !*ret_newest || events_hand_on(&earlier, (*ret_newest)->gpu);
	if (!whole)
		gs_log(GS_LOG_WARNING, GS_LOG_HEAD,
		       "no memory for the GPU events of a batch: they are stored, and not shown");
	return offset == records.bytes;
}

/* The newest snapshot is shown, with the events of all. False: it is not what a node makes. ret_base_ns: the snapshot's wall
 * clock less its boot clock; 0 there is none. */
static bool accept_snapshots(struct gs_head_stream *s, const Gpuscope__V1__Batch *b,
			     struct gs_store_report **ret_report, int64_t *ret_base_ns)
{
	struct gs_node_snapshot *newest;
	bool ok;

	*ret_report = NULL;
	*ret_base_ns = 0;
	if (s->stream.kind == GS_STORE_JOBS) {
		*ret_report = malloc(sizeof(**ret_report));
		return *ret_report && head_report_check(b, &s->head->raw, *ret_report);
	}
	ok = head_batch_check(b, s->stream.kind, s->decoder, &s->head->raw, &newest);
	if (ok && newest && newest->time_ns)
		*ret_base_ns = newest->wall_ns - (int64_t)newest->time_ns;
	if (ok && newest)
		gs_registry_apply(s->head->cluster, s->node_id, &newest);
	gs_node_snapshot_free(&newest);
	return ok;
}

static void on_batch(struct gs_head_stream *s, struct gs_grpc_call *call,
		     const Gpuscope__V1__Batch *b)
{
	GS_FREE struct gs_store_report *report = NULL;
	struct head_item *item;
	int64_t base_ns, offset_ns;

	if (!s->node_id) {
		refuse_node(call, "a batch before Welcome");
		return;
	}
	if (!b->seq) {
		refuse_node(call, "a batch without a number");
		return;
	}
	if (!accept_snapshots(s, b, &report, &base_ns)) {
		pthread_mutex_lock(&s->head->lock);
		s->head->stats.refused++;
		pthread_mutex_unlock(&s->head->lock);
		head_node_reject(s, b->seq, "not a batch that a node makes");
		return;
	}
	offset_ns = offset_of(s, b->seq, base_ns);
	ask_clock(s);
	if (s->stream.kind == GS_STORE_TRACE)
		head_fleet_take(s, &(struct gs_batch){s->head->raw.data, s->head->raw.bytes},
				offset_ns);
	item = head_item_new(s, HEAD_BATCH, b->records.data, b->records.len);
	if (!item) {
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "the head has no memory");
		return;
	}
	item->batch.seq = b->seq;
	item->batch.first_wall_ns = b->first_wall_ns;
	item->batch.last_wall_ns = b->last_wall_ns;
	item->batch.clock_offset_ns = offset_ns;
	item->batch.n_samples = b->sample_count;
	item->batch.raw_bytes = b->raw_bytes;
	item->batch.codec = (uint32_t)b->codec; /* the same numbers */
	item->batch.lost_batches = b->lost_batches;
	item->batch.lost_samples = b->lost_samples;
	item->batch.missed_samples = b->missed_samples;
	item->report = gs_take(report);
	gs_log(GS_LOG_DEBUG, GS_LOG_HEAD, "node %s: batch %llu, %u samples, %zu bytes",
	       s->node.hostname, (unsigned long long)b->seq, b->sample_count, b->records.len);
	head_store_put(s->head, item);
	(void)head_store_full(s);
}

static void on_message(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct gs_head *h = ctx;
	struct gs_head_stream *s = gs_grpc_call_user(call);
	Gpuscope__V1__ToHead *m = gpuscope__v1__to_head__unpack(NULL, bytes, data);
	struct head_item *item;

	if (!m) {
		refuse_node(call, "no message of this service");
		return;
	}
	if (m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_HELLO)
		on_hello(h, call, m->hello);
	else if (!s)
		refuse_node(call, "Hello comes first");
	else if (m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BATCH)
		on_batch(s, call, m->batch);
	else if (m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_CLOCK)
		on_clock(s, m->clock);
	else if (m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_ANSWER)
		head_answer_take(s, m->answer);
	else if (m->body_case == GPUSCOPE__V1__TO_HEAD__BODY_BYE &&
		 (item = head_item_new(s, HEAD_END, NULL, 0)))
		head_store_put(h, item);
	gpuscope__v1__to_head__free_unpacked(m, NULL);
}

static void on_half_closed(void *ctx, struct gs_grpc_call *call)
{
	gs_grpc_call_finish(call, GS_GRPC_OK, NULL);
}

static void on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	struct gs_head_stream *s = gs_grpc_call_user(call);

	if (!s)
		return;
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "node %s: connection ended, gRPC status %d",
	       s->node.hostname, (int)status);
	head_answers_end(s);
	gs_head_stream_close(&s);
}

const struct gs_grpc_method head_node_method = {
	.path = "/gpuscope.v1.Node/Link",
	.kind = GS_GRPC_STREAM,
	.role = GS_HEAD_ROLE_NODE,
	.max_message_bytes = GS_STORE_BATCH_MAX + 4096,
	.message = on_message,
	.half_closed = on_half_closed,
	.closed = on_closed,
};
