/* Talking to a head of gpuscope: proto/gpuscope.proto, service Node. */
#include "net/uplink/uplink_int.h"

#include <errno.h>
#include <string.h>

#include "gpuscope.pb-c.h"

#define PATH        "/gpuscope.v1.Node/Link"
#define BLAMED_MOST 3 /* so often a stream may end at the same batch */

static int send_message(struct gs_uplink_line *l, const Gpuscope__V1__ToHead *m)
{
	size_t bytes = gpuscope__v1__to_head__get_packed_size(m);
	int r;

	gs_buf_reset(&l->out);
	r = gs_buf_reserve(&l->out, bytes);
	if (r < 0)
		return r;
	gpuscope__v1__to_head__pack(m, l->out.data);
	return gs_grpc_request_send(l->request, l->out.data, bytes);
}

/* --- what the head says --- */

/* Another node delivers our stream: our folder is a copy, or an older one. What waits is delivered
 * as a stream of its own, so that no number stands for two things. */
static void renew_stream(struct gs_uplink_line *l, uint64_t keep_seq, const char *why)
{
	struct gs_uplink_reply reply;
	int r = gs_uplink_ask(l, LINK_RENEW, keep_seq, &reply);

	gs_uplink_failed(l, GS_GRPC_ABORTED, r < 0 ? "cannot start a new stream in the spool" : why,
			 false);
}

static void on_config(struct gs_uplink_line *l, const Gpuscope__V1__Config *c)
{
	struct gs_uplink_config desired = {.interval_ns = c->interval_ns < UPLINK_INTERVAL_MAX_NS
								  ? c->interval_ns
								  : UPLINK_INTERVAL_MAX_NS,
					   .bandwidth = c->bandwidth,
					   .nvlink = c->nvlink,
					   .processes = c->processes};

	gs_uplink_report_config(l, &desired);
}

static void on_welcome(struct gs_uplink_line *l, const Gpuscope__V1__Welcome *w)
{
	struct gs_uplink_reply before, after;

	if (l->welcomed) {
		gs_uplink_failed(l, GS_GRPC_INTERNAL, "the head sent a second welcome", false);
		return;
	}
	(void)gs_uplink_ask(l, LINK_WAITING, 0, &before);
	l->next_send = w->last_seq + 1;
	l->max_batch = w->max_batch_bytes;
	l->state.state = GS_UPLINK_CONNECTED;
	l->state.is_other = false;
	l->state.connects++;
	/* Neither sent by this program nor by one that had the folder before. */
	if (w->last_seq > before.sent_seq && w->last_seq >= before.opened_seq) {
		renew_stream(
			l, before.opened_seq,
			"the spool looks like a copy or old backup (the head has later batches); starting a new stream");
		return;
	}
	/* Stored, but its Ack did not get here. */
	(void)gs_uplink_ask(l, LINK_RESUME, w->last_seq, &after);
	l->state.acked_batches += before.n_batches - after.n_batches;
	l->welcomed = true;
	gs_uplink_log(l, "connected to the head at %s", l->state.head);
	if (w->config)
		on_config(l, w->config);
}

/* What is on its way. Its bytes are known as a whole alone: none when all has arrived. */
static void count_flight(struct gs_uplink_line *l)
{
	struct gs_uplink_reply st;

	(void)gs_uplink_ask(l, LINK_WAITING, 0, &st);
	l->flight_batches =
		st.first_seq && st.first_seq < l->next_send ? l->next_send - st.first_seq : 0;
	if (l->flight_batches == 0)
		l->flight_bytes = 0;
}

/* The head takes no batch of this number. */
static void on_refused(struct gs_uplink_line *l, uint64_t seq, const char *why)
{
	char text[160];

	snprintf(text, sizeof(text), "the head refuses it: %s", why);
	gs_uplink_give_up(l, seq, text);
	count_flight(l);
}

static void on_ack(struct gs_uplink_line *l, uint64_t seq)
{
	struct gs_uplink_reply before, after;

	if (!l->welcomed || seq >= l->next_send) {
		gs_uplink_failed(l, GS_GRPC_INTERNAL,
				 "the head acknowledged a batch that was not sent", false);
		return;
	}
	(void)gs_uplink_ask(l, LINK_WAITING, 0, &before);
	(void)gs_uplink_ask(l, LINK_ACK, seq, &after);
	l->state.acked_batches += before.n_batches - after.n_batches;
	count_flight(l);
}

/* By the clocks that samples are stamped with: asked of their process, in the time of an answer. */
static void on_clock(struct gs_uplink_line *l, const Gpuscope__V1__Clock *c)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__ClockReply reply = GPUSCOPE__V1__CLOCK_REPLY__INIT;
	struct gs_uplink_reply now;

	(void)gs_uplink_ask(l, LINK_WAITING, 0, &now);
	reply.id = c->id;
	reply.receive_wall_ns = reply.send_wall_ns = (int64_t)now.wall_ns;
	reply.send_boot_ns = now.boot_ns;
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_CLOCK;
	m.clock = &reply;
	(void)send_message(l, &m); /* a head without an answer asks again */
}

/* A user of the head wants something of this node: the program says what it gets. */
static void on_question(struct gs_uplink_line *l, const Gpuscope__V1__Question *q)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Answer answer = GPUSCOPE__V1__ANSWER__INIT;
	struct gs_uplink_question asked = {.kind = (enum gs_uplink_question_kind)q->kind,
					   .offset = q->offset,
					   .max_bytes = q->max_bytes < GS_UPLINK_ANSWER_MAX
								? q->max_bytes
								: GS_UPLINK_ANSWER_MAX};
	struct gs_uplink_reply reply;
	char text[256];

	if (q->kind < GPUSCOPE__V1__QUESTION_KIND__QUESTION_KIND_RECORDER ||
	    q->kind > GPUSCOPE__V1__QUESTION_KIND__QUESTION_KIND_RECORDER_SAVE ||
	    strlen(q->name) >= sizeof(asked.name))
		return; /* of a later head */
	strcpy(asked.name, q->name);
	answer.id = q->id;
	answer.error = uplink_ask_question(l, &asked, &reply);
	answer.total_bytes = reply.batch.seq;
	if (answer.error < 0) {
		snprintf(text, sizeof(text), "%.*s", (int)reply.batch.bytes,
			 reply.batch.bytes ? (const char *)reply.batch.data : "");
		answer.text = text;
	} else {
		answer.data.data = (uint8_t *)reply.batch.data;
		answer.data.len = reply.batch.bytes;
	}
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_ANSWER;
	m.answer = &answer;
	(void)send_message(l, &m); /* no room: the head asks again, or gives up */
}

static void on_message(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes)
{
	struct gs_uplink_line *l = ctx;
	Gpuscope__V1__ToNode *m = gpuscope__v1__to_node__unpack(NULL, bytes, data);

	if (!m) {
		gs_uplink_failed(l, GS_GRPC_INTERNAL, "the head sent an invalid message", false);
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
	case GPUSCOPE__V1__TO_NODE__BODY_QUESTION:
		on_question(l, m->question);
		break;
	case GPUSCOPE__V1__TO_NODE__BODY_REJECT:
		if (m->reject->seq)
			on_refused(l, m->reject->seq, m->reject->reason);
		else
			gs_uplink_failed(l, GS_GRPC_FAILED_PRECONDITION, m->reject->reason,
					 m->reject->final);
		break;
	default: /* of a later head: nothing that we must know */
		break;
	}
	gpuscope__v1__to_node__free_unpacked(m, NULL);
}

static void on_writable(void *ctx, struct gs_grpc_request *request)
{
	((struct gs_uplink_line *)ctx)->blocked = false;
}

/* A head that cannot name the batch ends the stream: it is the oldest that it has not taken. Twice
 * may be chance, since others are on their way after it. */
static void blame_batch(struct gs_uplink_line *l, const char *why)
{
	struct gs_uplink_reply st;

	(void)gs_uplink_ask(l, LINK_WAITING, 0, &st);
	if (st.first_seq && st.first_seq < l->next_send) {
		l->n_blamed = l->blamed_seq == st.first_seq ? l->n_blamed + 1 : 1;
		l->blamed_seq = st.first_seq;
		if (l->n_blamed == BLAMED_MOST)
			gs_uplink_give_up(l, st.first_seq, why);
	}
}

static void on_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		     const char *text)
{
	struct gs_uplink_line *l = ctx;
	const bool welcomed = l->welcomed;

	l->request = NULL;
	if (status == GS_GRPC_ABORTED && welcomed) {
		renew_stream(
			l, 0,
			"another program delivers this stream: is the spool a copy? Starting a new stream; give one of them another --spool and --machine-id");
		return;
	}
	if (status == GS_GRPC_INVALID_ARGUMENT && welcomed)
		blame_batch(l, text);
	if (status == GS_GRPC_UNIMPLEMENTED && uplink_other()) {
		gs_uplink_switch(l, uplink_other());
		return;
	}
	gs_uplink_failed(l, status, text,
			 status == GS_GRPC_UNAUTHENTICATED || status == GS_GRPC_PERMISSION_DENIED ||
				 status == GS_GRPC_UNIMPLEMENTED ||
				 (status == GS_GRPC_INVALID_ARGUMENT && !welcomed));
}

/* --- what we say --- */

static void begin_line(struct gs_uplink_line *l)
{
	struct gs_grpc_request_options o = {
		.size = sizeof(o),
		.path = PATH,
		.events = {.message = on_message, .writable = on_writable, .ended = on_ended},
		.ctx = l,
	};
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Hello hello = GPUSCOPE__V1__HELLO__INIT;
	struct gs_uplink_reply st;
	int r = gs_grpc_client_call(l->client, &o, &l->request);

	if (r < 0) {
		gs_uplink_failed(l, GS_GRPC_UNAVAILABLE, strerror(-r), false);
		return;
	}
	(void)gs_uplink_ask(l, LINK_BEGIN, 0, &st);
	hello.stream = st.stream;
	hello.protocol = 1;
	hello.machine_id = l->machine_id;
	hello.instance = l->instance;
	hello.hostname = l->hostname;
	hello.kind = (Gpuscope__V1__StreamKind)l->kind;
	hello.title = l->title;
	hello.version = (char *)GS_VERSION;
	hello.first_seq = st.first_seq;
	hello.next_seq = st.next_seq;
	hello.run = l->run;
	hello.attempt = st.attempt;
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_HELLO;
	m.hello = &hello;
	r = send_message(l, &m);
	if (r < 0)
		gs_uplink_failed(l, GS_GRPC_UNAVAILABLE, strerror(-r), false);
}

static int send_batch(struct gs_uplink_line *l, const struct gs_queue_batch *b)
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

static void send_bye(struct gs_uplink_line *l)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Bye bye = GPUSCOPE__V1__BYE__INIT;

	bye.reason = (char *)"ended";
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_BYE;
	m.bye = &bye;
	l->ended_sent = send_message(l, &m) == 0;
}

static void pump_line(struct gs_uplink_line *l)
{
	struct gs_uplink_reply got, sent;
	const struct gs_queue_batch *b = &got.batch;
	int r = 0;

	if (!l->welcomed)
		return;
	while (l->flight_batches < LINK_FLIGHT_BATCHES && l->flight_bytes < LINK_FLIGHT_BYTES) {
		r = gs_uplink_ask(l, LINK_GET, l->next_send, &got);
		if (r == -EBADMSG || r == -EIO)
			continue; /* counted as lost by the spool: the next */
		if (r != 0)
			break;
		if (l->max_batch && b->raw_bytes > l->max_batch) {
			gs_uplink_give_up(l, b->seq, "it is larger than the head accepts");
			continue;
		}
		r = send_batch(l, b);
		if (r != 0)
			break;
		/* It goes out when this function has returned: the holder knows before, since this
		 * process may end at any time. */
		(void)gs_uplink_ask(l, LINK_SENT, b->seq, &sent);
		l->next_send = b->seq + 1;
		l->flight_batches++;
		l->flight_bytes += b->bytes;
		l->state.sent_batches++;
		l->state.sent_bytes += b->bytes;
	}
	l->blocked = r == -ENOBUFS;
	if (r == GS_QUEUE_END && l->news.stopping && l->news.ended && !l->ended_sent)
		send_bye(l);
}

static void end_line(struct gs_uplink_line *l)
{
	gs_grpc_request_end(l->request);
}

const struct gs_uplink_protocol link_node = {
	.begin = begin_line, .pump = pump_line, .end = end_line};
