/* Talking to a head of gpuscope: proto/gpuscope.proto, service Node. */
#include "link/link_int.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "gpuscope.pb-c.h"

#define PATH             "/gpuscope.v1.Node/Link"
#define INTERVAL_MOST_NS 3600000000000ull
#define BLAMED_MOST      3 /* so often a stream may end at the same batch */

static int send_message(struct gs_link *l, const Gpuscope__V1__ToHead *m)
{
	size_t bytes = gpuscope__v1__to_head__get_packed_size(m);
	int r;

	gs_buf_reset(&l->out);
	r = gs_buf_reserve(&l->out, bytes);
	if (r < 0)
		return r;
	gpuscope__v1__to_head__pack(m, l->out.data);
	return gs_rpc_request_send(l->request, l->out.data, bytes);
}

/* --- what the head says --- */

/* Somebody else delivers our stream: our folder is a copy, or an older one. What waits is delivered
 * as a stream of its own, so that nobody's numbers stand for two things. */
static void renew(struct gs_link *l, uint64_t keep_seq, const char *why)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = gs_spool_renew(l->spool, keep_seq);
	l->sent_seq = 0;
	pthread_mutex_unlock(&l->lock);
	link_failed(l, GS_RPC_ABORTED, r < 0 ? "the spool cannot be begun anew" : why, false);
}

static void on_config(struct gs_link *l, const Gpuscope__V1__Config *c)
{
	struct gs_link_wish wish = {.interval_ns = c->interval_ns < INTERVAL_MOST_NS
							   ? c->interval_ns
							   : INTERVAL_MOST_NS,
				    .bandwidth = c->bandwidth,
				    .nvlink = c->nvlink,
				    .processes = c->processes};

	if (l->o.wish)
		l->o.wish(l->o.ctx, &wish);
}

static void on_welcome(struct gs_link *l, const Gpuscope__V1__Welcome *w)
{
	struct gs_spool_stats st, after;
	bool ahead;

	if (l->welcomed) {
		link_failed(l, GS_RPC_INTERNAL, "the head welcomes us twice", false);
		return;
	}
	pthread_mutex_lock(&l->lock);
	gs_spool_stats(l->spool, &st);
	/* Neither sent by this program nor by one that had the folder before. */
	ahead = w->last_seq > l->sent_seq && w->last_seq >= st.opened_seq;
	if (!ahead) {
		/* Stored, but its Ack did not get here. */
		gs_spool_resume(l->spool, w->last_seq);
		gs_spool_stats(l->spool, &after);
		l->stats.acked_batches += st.n_batches - after.n_batches;
	}
	l->next_send = w->last_seq + 1;
	l->max_batch = w->max_batch_bytes;
	l->welcomed = !ahead;
	l->stats.state = GS_LINK_CONNECTED;
	l->stats.gswarm = false;
	l->stats.connects++;
	pthread_mutex_unlock(&l->lock);
	if (ahead) {
		renew(l, st.opened_seq,
		      "the head has numbers of this stream that we did not send: is the spool a "
		      "copy, or an old one? Begun anew");
		return;
	}
	link_say(l, "connected to the head at %s", l->stats.head);
	if (w->config)
		on_config(l, w->config);
}

/* What is on its way. Its bytes are known as a whole alone: let go when all has arrived. */
static void count_flight(struct gs_link *l)
{
	struct gs_spool_stats st;

	gs_spool_stats(l->spool, &st);
	l->flight_batches =
		st.first_seq && st.first_seq < l->next_send ? l->next_send - st.first_seq : 0;
	if (l->flight_batches == 0)
		l->flight_bytes = 0;
}

/* The head takes no batch of this number. */
static void on_refused(struct gs_link *l, uint64_t seq, const char *why)
{
	char text[160];

	snprintf(text, sizeof(text), "the head refuses it: %s", why);
	pthread_mutex_lock(&l->lock);
	link_give_up(l, seq, text);
	count_flight(l);
	pthread_mutex_unlock(&l->lock);
}

static void on_ack(struct gs_link *l, uint64_t seq)
{
	struct gs_spool_stats before, after;

	if (!l->welcomed || seq >= l->next_send) {
		link_failed(l, GS_RPC_INTERNAL, "the head acknowledges what it was not sent",
			    false);
		return;
	}
	pthread_mutex_lock(&l->lock);
	gs_spool_stats(l->spool, &before);
	gs_spool_ack(l->spool, seq);
	gs_spool_stats(l->spool, &after);
	l->stats.acked_batches += before.n_batches - after.n_batches;
	count_flight(l);
	pthread_mutex_unlock(&l->lock);
}

static void on_clock(struct gs_link *l, const Gpuscope__V1__Clock *c)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__ClockReply reply = GPUSCOPE__V1__CLOCK_REPLY__INIT;

	reply.id = c->id;
	reply.receive_wall_ns = (int64_t)gs_clock_wall_ns();
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_CLOCK;
	m.clock = &reply;
	reply.send_wall_ns = (int64_t)gs_clock_wall_ns();
	reply.send_boot_ns = gs_clock_boot_ns();
	(void)send_message(l, &m); /* a head without an answer asks again */
}

static void on_message(void *ctx, struct gs_rpc_request *request, const void *data, size_t bytes)
{
	struct gs_link *l = ctx;
	Gpuscope__V1__ToNode *m = gpuscope__v1__to_node__unpack(NULL, bytes, data);

	if (!m) {
		link_failed(l, GS_RPC_INTERNAL, "the head sends what is no message", false);
		return;
	}
	switch (m->body_case) {
	case GPUSCOPE__V1__TO_NODE__BODY_WELCOME:
		on_welcome(l, m->welcome);
		break;
	case GPUSCOPE__V1__TO_NODE__BODY_ACK:
		on_ack(l, m->ack->seq);
		break;
	case GPUSCOPE__V1__TO_NODE__BODY_CONFIG:
		on_config(l, m->config);
		break;
	case GPUSCOPE__V1__TO_NODE__BODY_CLOCK:
		on_clock(l, m->clock);
		break;
	case GPUSCOPE__V1__TO_NODE__BODY_REJECT:
		if (m->reject->seq)
			on_refused(l, m->reject->seq, m->reject->reason);
		else
			link_failed(l, GS_RPC_FAILED_PRECONDITION, m->reject->reason,
				    m->reject->final);
		break;
	default: /* of a later head: nothing that we must know */
		break;
	}
	gpuscope__v1__to_node__free_unpacked(m, NULL);
}

static void on_writable(void *ctx, struct gs_rpc_request *request)
{
	((struct gs_link *)ctx)->blocked = false;
}

/* A head that cannot name the batch ends the stream: it is the oldest that it has not taken. Twice
 * may be chance, since others are on their way behind it. */
static void blame(struct gs_link *l, const char *why)
{
	struct gs_spool_stats st;

	pthread_mutex_lock(&l->lock);
	gs_spool_stats(l->spool, &st);
	if (st.first_seq && st.first_seq < l->next_send) {
		l->n_blamed = l->blamed_seq == st.first_seq ? l->n_blamed + 1 : 1;
		l->blamed_seq = st.first_seq;
		if (l->n_blamed == BLAMED_MOST)
			link_give_up(l, st.first_seq, why);
	}
	pthread_mutex_unlock(&l->lock);
}

static void on_ended(void *ctx, struct gs_rpc_request *request, enum gs_rpc_status status,
		     const char *text)
{
	struct gs_link *l = ctx;
	const bool welcomed = l->welcomed;

	l->request = NULL;
	if (status == GS_RPC_ABORTED && welcomed) {
		renew(l, 0,
		      "another program delivers this stream: is the spool a copy? Begun anew; give "
		      "one of them another --spool and --machine-id");
		return;
	}
	if (status == GS_RPC_INVALID_ARGUMENT && welcomed)
		blame(l, text);
	if (status == GS_RPC_UNIMPLEMENTED) {
		link_switch(l, &link_gswarm);
		return;
	}
	link_failed(l, status, text,
		    status == GS_RPC_UNAUTHENTICATED || status == GS_RPC_PERMISSION_DENIED ||
			    (status == GS_RPC_INVALID_ARGUMENT && !welcomed));
}

/* --- what we say --- */

static void begin(struct gs_link *l)
{
	struct gs_rpc_request_options o = {
		.size = sizeof(o),
		.path = PATH,
		.events = {.message = on_message, .writable = on_writable, .ended = on_ended},
		.ctx = l,
	};
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Hello hello = GPUSCOPE__V1__HELLO__INIT;
	struct gs_spool_stats st;
	int r = gs_rpc_client_call(l->client, &o, &l->request);

	if (r < 0) {
		link_failed(l, GS_RPC_UNAVAILABLE, strerror(-r), false);
		return;
	}
	pthread_mutex_lock(&l->lock);
	gs_spool_stats(l->spool, &st);
	hello.stream = gs_spool_stream(l->spool);
	pthread_mutex_unlock(&l->lock);
	hello.protocol = 1;
	hello.machine_id = l->machine_id;
	hello.instance = l->instance;
	hello.hostname = l->hostname;
	hello.kind = (Gpuscope__V1__StreamKind)l->o.kind;
	hello.title = l->title;
	hello.version = (char *)GS_VERSION;
	hello.first_seq = st.first_seq;
	hello.next_seq = st.next_seq;
	hello.run = l->run;
	hello.attempt = ++l->attempt;
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_HELLO;
	m.hello = &hello;
	r = send_message(l, &m);
	if (r < 0)
		link_failed(l, GS_RPC_UNAVAILABLE, strerror(-r), false);
}

static int send_batch(struct gs_link *l, const struct gs_spool_batch *b)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Batch batch = GPUSCOPE__V1__BATCH__INIT;

	batch.seq = b->seq;
	batch.first_wall_ns = b->first_wall_ns;
	batch.last_wall_ns = b->last_wall_ns;
	batch.sample_count = b->n_samples;
	batch.codec = (Gpuscope__V1__Codec)b->codec;
	batch.raw_bytes = b->raw_bytes;
	batch.records.data = (uint8_t *)b->data;
	batch.records.len = b->bytes;
	batch.lost_batches = b->lost_batches;
	batch.lost_samples = b->lost_samples;
	batch.missed_samples = b->missed_samples;
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_BATCH;
	m.batch = &batch;
	return send_message(l, &m);
}

static void send_bye(struct gs_link *l)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Bye bye = GPUSCOPE__V1__BYE__INIT;

	bye.reason = (char *)"ended";
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_BYE;
	m.bye = &bye;
	l->ended_sent = send_message(l, &m) == 0;
}

static void pump(struct gs_link *l)
{
	struct gs_spool_batch b;
	int r = 0;

	if (!l->welcomed)
		return;
	while (l->flight_batches < LINK_FLIGHT_BATCHES && l->flight_bytes < LINK_FLIGHT_BYTES) {
		r = gs_spool_get(l->spool, l->next_send, &b);
		if (r == -EBADMSG || r == -EIO)
			continue; /* counted as lost by the spool: the next */
		if (r != 0)
			break;
		if (l->max_batch && b.raw_bytes > l->max_batch) {
			link_give_up(l, b.seq, "it is larger than the head takes");
			continue;
		}
		r = send_batch(l, &b);
		if (r != 0)
			break;
		l->next_send = b.seq + 1;
		if (b.seq > l->sent_seq)
			l->sent_seq = b.seq;
		gs_spool_sent(l->spool, b.seq);
		l->flight_batches++;
		l->flight_bytes += b.bytes;
		l->stats.sent_batches++;
		l->stats.sent_bytes += b.bytes;
	}
	l->blocked = r == -ENOBUFS;
	if (r == GS_SPOOL_END && l->stopping && l->ended && !l->ended_sent)
		send_bye(l);
}

static void end(struct gs_link *l)
{
	gs_rpc_request_end(l->request);
}

const struct link_protocol link_node = {.begin = begin, .pump = pump, .end = end};
