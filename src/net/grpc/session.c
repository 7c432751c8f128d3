/*
 * One connection's HTTP/2, without any socket: bytes go in, callbacks of nghttp2 make calls of
 * them, bytes come out. What a client sends as headers is in headers.c, and when it has sent too
 * much of something in flood.c.
 *
 * Windows: the connection's is opened again as data come, so that a call that is paused does not
 * stop the others; a call's own only as its messages are used up.
 */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "net/grpc/session_int.h"

static void make_ready(struct gs_grpc_session *s)
{
	if (s->is_ready)
		return;
	s->is_ready = true;
	s->next_ready = s->core->ready;
	s->core->ready = s;
}

static void *ctx_of(const struct gs_grpc_call *call)
{
	return call->method->ctx ? call->method->ctx : call->core->o.ctx;
}

/* --- the end of a call --- */

static void call_over(struct gs_grpc_call *call, enum gs_grpc_status status)
{
	struct gs_grpc_core *c = call->core;
	struct gs_grpc_session *s = call->session;

	*call->prev = call->next;
	if (call->next)
		call->next->prev = call->prev;
	call->session = NULL;
	gs_timer_set(&c->timers, &call->deadline, UINT64_MAX);
	gs_grpc_inbox_fini(&call->inbox);
	pthread_mutex_lock(&c->lock);
	call->over = true;
	gs_grpc_count(&c->counters.queued_bytes_now, -(uint64_t)call->out.bytes);
	gs_grpc_outbox_fini(&call->out);
	pthread_mutex_unlock(&c->lock);
	if (call->started) {
		if (--s->n_started == 0)
			s->idle_since_ns = gs_clock_mono_ns();
		gs_grpc_count(&c->counters.calls_now, -1ULL);
		gs_grpc_count(&c->counters.calls_by_status[status], 1);
		if (call->method->closed)
			call->method->closed(ctx_of(call), call, status);
	}
	gs_grpc_call_unref(&call);
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t error_code, void *user)
{
	struct gs_grpc_call *call = nghttp2_session_get_stream_user_data(h2, stream);

	(void)error_code, (void)user;
	if (!call)
		return 0;
	nghttp2_session_set_stream_user_data(h2, stream, NULL);
	call_over(call, call->ended_out ? call->status : GS_GRPC_CANCELLED);
	return 0;
}

/* --- what goes out --- */

struct fields {
	nghttp2_nv *nv; /* owned */
	size_t n;
	char status[4];
};

static void fields_free(struct fields *f)
{
	free(f->nv);
}

static void put_field(struct fields *f, const char *name, const char *value)
{
	f->nv[f->n++] = gs_grpc_nv(name, value);
}

static void put_table(struct fields *f, const struct gs_grpc_table *t)
{
	struct gs_grpc_metadata m;

	for (size_t i = 0; gs_grpc_table_at(t, i, &m); i++)
		put_field(f, m.name, m.value);
}

static void put_status(struct fields *f, const struct gs_grpc_call *call)
{
	snprintf(f->status, sizeof(f->status), "%u", (unsigned)call->status % 100);
	put_field(f, "grpc-status", f->status);
	if (call->text)
		put_field(f, "grpc-message", call->text);
	put_table(f, &call->trailers);
}

static int submit_trailers(struct gs_grpc_call *call)
{
	GS_CLEANUP(fields_free)
	struct fields f = {.nv = calloc(call->trailers.n + 2, sizeof(nghttp2_nv))};

	if (!f.nv)
		return NGHTTP2_ERR_NOMEM;
	put_status(&f, call);
	call->ended_out = true;
	return nghttp2_submit_trailer(call->session->h2, call->stream, f.nv, f.n);
}

static void report_writable(struct gs_grpc_call *call)
{
	if (call->method->writable)
		call->method->writable(ctx_of(call), call);
}

static ssize_t read_data(nghttp2_session *h2, int32_t stream, uint8_t *out, size_t bytes,
			 uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct gs_grpc_call *call = source->ptr;
	struct gs_grpc_core *c = call->core;
	uint64_t messages, message_bytes;
	bool end, writable;
	size_t n;

	(void)user;
	pthread_mutex_lock(&c->lock);
	n = gs_grpc_outbox_take(&call->out, out, bytes, &messages, &message_bytes);
	end = call->finished && !call->out.first;
	writable = call->wants_writable && call->out.bytes <= c->o.max_queue_bytes / 2;
	if (writable)
		call->wants_writable = false;
	pthread_mutex_unlock(&c->lock);
	call->window_bytes = (size_t)nghttp2_session_get_stream_remote_window_size(h2, stream) - n;
	gs_grpc_count(&c->counters.queued_bytes_now, -(uint64_t)n);
	gs_grpc_count(&c->counters.messages_out, messages);
	gs_grpc_count(&c->counters.message_bytes_out, message_bytes);
	if (writable)
		report_writable(call);
	if (end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_trailers(call) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		return (ssize_t)n;
	}
	return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

/* The head of the answer; the whole of it when there is nothing but a status. */
static int submit_response(struct gs_grpc_call *call, bool alone)
{
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_data};
	GS_CLEANUP(fields_free)
	struct fields f = {
		.nv = calloc(call->headers.n + call->trailers.n + 8, sizeof(nghttp2_nv))};
	char http[8];

	if (!f.nv)
		return NGHTTP2_ERR_NOMEM;
	snprintf(http, sizeof(http), "%d", call->http_status ? call->http_status : 200);
	put_field(&f, ":status", http);
	put_field(&f, "content-type", "application/grpc");
	put_field(&f, "grpc-accept-encoding", "identity");
	put_table(&f, &call->headers);
	if (alone) {
		put_status(&f, call);
		call->ended_out = true;
	}
	call->responded = true;
	return nghttp2_submit_response(call->session->h2, call->stream, f.nv, f.n,
				       alone ? NULL : &provider);
}

void gs_grpc_session_end_call(struct gs_grpc_call *call, enum gs_grpc_status status,
			      const char *text)
{
	struct gs_grpc_session *s = call->session;

	if (call->ended_out)
		return;
	gs_grpc_call_settle(call, status, text);
	if (!call->responded) {
		if (submit_response(call, true) != 0)
			nghttp2_submit_rst_stream(s->h2, 0, call->stream, NGHTTP2_INTERNAL_ERROR);
	} else if (nghttp2_session_get_stream_remote_window_size(s->h2, call->stream) <= 0 ||
		   nghttp2_session_get_remote_window_size(s->h2) <= 0) {
		/* Its window is shut, so trailers would wait after it for ever. */
		call->ended_out = true;
		nghttp2_submit_rst_stream(s->h2, 0, call->stream, NGHTTP2_CANCEL);
	} else {
		nghttp2_session_resume_data(s->h2, call->stream);
	}
	make_ready(s);
}

static void refuse_call(struct gs_grpc_call *call, enum gs_grpc_refusal why,
			enum gs_grpc_status status, const char *text)
{
	gs_grpc_core_refuse(call->core, why);
	gs_grpc_session_end_call(call, status, text);
}

/* --- messages --- */

static void refuse_message(struct gs_grpc_call *call, int r)
{
	char text[120];

	switch (r) {
	case -EMSGSIZE:
		snprintf(text, sizeof(text),
			 "a message of %zu bytes is larger than the limit of %zu",
			 call->inbox.message_bytes, call->inbox.max_message_bytes);
		refuse_call(call, GS_GRPC_REFUSED_MESSAGE, GS_GRPC_RESOURCE_EXHAUSTED, text);
		return;
	case -EOPNOTSUPP:
		refuse_call(call, GS_GRPC_REFUSED_ENCODING, GS_GRPC_INTERNAL,
			    "a compressed message without grpc-encoding");
		return;
	case -EPROTO:
		refuse_call(call, GS_GRPC_REFUSED_FRAMING, GS_GRPC_INTERNAL,
			    "invalid gRPC framing");
		return;
	}
	refuse_call(call, GS_GRPC_REFUSED_MEMORY, GS_GRPC_RESOURCE_EXHAUSTED,
		    "the server has no memory for more messages now");
}

/* False: not now. */
static bool rate_allows(struct gs_grpc_call *call)
{
	struct gs_grpc_session *s = call->session;
	const struct gs_grpc_server_options *o = &call->core->o;

	if (o->messages_per_second <= 0)
		return true;
	if (s->throttle.index)
		return false;
	if (s->message_ns == 0) {
		s->message_ns = gs_clock_mono_ns();
		s->message_tokens = o->message_burst;
	}
	if (gs_grpc_flood_take_token(&s->message_tokens, &s->message_ns, o->message_burst,
				     o->messages_per_second))
		return true;
	if (call->method->kind == GS_GRPC_UNARY) {
		refuse_call(call, GS_GRPC_REFUSED_RATE, GS_GRPC_RESOURCE_EXHAUSTED,
			    "too many messages a second");
		return false;
	}
	gs_grpc_count(&call->core->counters.throttled, 1);
	gs_timer_set(&call->core->timers, &s->throttle,
		     gs_clock_mono_ns() + (uint64_t)(1e9 / o->messages_per_second) + 1000000);
	return false;
}

static void deliver_message(struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct gs_grpc_core *c = call->core;

	if (call->method->kind == GS_GRPC_UNARY && call->n_messages == 1) {
		refuse_call(call, GS_GRPC_REFUSED_FRAMING, GS_GRPC_INTERNAL,
			    "this method takes one message, two were received");
		return;
	}
	call->n_messages++;
	gs_grpc_count(&c->counters.messages_in, 1);
	gs_grpc_count(&c->counters.message_bytes_in, bytes);
	call->method->message(ctx_of(call), call, data, bytes);
}

/* The client has sent everything, and everything was delivered. */
static void half_closed(struct gs_grpc_call *call)
{
	call->handler_saw_end = true;
	if (!gs_grpc_inbox_empty(&call->inbox))
		refuse_call(call, GS_GRPC_REFUSED_FRAMING, GS_GRPC_INTERNAL,
			    "the last message was cut off");
	else if (call->method->kind == GS_GRPC_UNARY && call->n_messages == 0)
		refuse_call(call, GS_GRPC_REFUSED_FRAMING, GS_GRPC_INTERNAL,
			    "this method takes one message, none was received");
	else if (call->method->kind == GS_GRPC_STREAM && call->method->half_closed)
		call->method->half_closed(ctx_of(call), call);
}

/* Deliver what is there, unless it is not wanted now. */
static void take_messages(struct gs_grpc_call *call)
{
	nghttp2_session *h2 = call->session->h2;
	const void *data;
	size_t bytes, used;
	int r = 0;

	while (!call->paused && !gs_grpc_call_over(call)) {
		/* A message costs its token before it is known to be whole: one that is not gives
		 * it back. */
		if (!rate_allows(call))
			return;
		r = gs_grpc_inbox_next(&call->inbox, &data, &bytes, &used);
		nghttp2_session_consume_stream(h2, call->stream, used);
		if (r != 1)
			call->session->message_tokens += 1;
		if (r < 0)
			refuse_message(call, r);
		if (r != 1)
			break;
		deliver_message(call, data, bytes);
	}
	if (r == 0 && call->peer_ended && !call->handler_saw_end && !call->paused &&
	    !gs_grpc_call_over(call))
		half_closed(call);
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t bytes, void *user)
{
	struct gs_grpc_call *call = nghttp2_session_get_stream_user_data(h2, stream);
	struct gs_grpc_session *s = user;
	int r;

	(void)flags;
	nghttp2_session_consume_connection(h2, bytes);
	s->ping_strikes = 0;
	if (!call || !call->started || gs_grpc_call_over(call)) {
		nghttp2_session_consume_stream(h2, stream, bytes);
		return 0;
	}
	r = gs_grpc_inbox_put(&call->inbox, data, bytes);
	if (r == 0) {
		take_messages(call);
		r = gs_grpc_inbox_keep(&call->inbox);
	}
	if (r < 0 && !gs_grpc_call_over(call))
		refuse_message(call, r);
	return 0;
}

/* The first call goes to the end, so that each has its turn at the tokens. */
static void rotate_calls(struct gs_grpc_session *s)
{
	struct gs_grpc_call *first = s->calls, **end = &s->calls;

	if (!first->next)
		return;
	s->calls = first->next;
	s->calls->prev = &s->calls;
	while (*end)
		end = &(*end)->next;
	*end = first;
	first->prev = end;
	first->next = NULL;
}

static void throttle_over(struct gs_timer *timer)
{
	struct gs_grpc_session *s =
		(void *)((char *)timer - offsetof(struct gs_grpc_session, throttle));

	if (s->calls)
		rotate_calls(s);
	for (struct gs_grpc_call *call = s->calls, *next; call; call = next) {
		next = call->next;
		if (call->started)
			take_messages(call);
	}
	make_ready(s);
}

void gs_grpc_session_update(struct gs_grpc_call *call)
{
	struct gs_grpc_session *s = call->session;
	bool queued, finished;

	if (!s)
		return;
	pthread_mutex_lock(&call->core->lock);
	queued = call->out.first != NULL;
	finished = call->finished;
	pthread_mutex_unlock(&call->core->lock);
	if (!call->responded && (queued || finished)) {
		if (submit_response(call, !queued) != 0)
			nghttp2_submit_rst_stream(s->h2, 0, call->stream, NGHTTP2_INTERNAL_ERROR);
	} else if (call->responded && !call->ended_out) {
		nghttp2_session_resume_data(s->h2, call->stream);
	}
	if (call->started)
		take_messages(call);
	make_ready(s);
}

/* --- the start of a call --- */

static void deadline_over(struct gs_timer *timer)
{
	struct gs_grpc_call *call =
		(void *)((char *)timer - offsetof(struct gs_grpc_call, deadline));

	gs_grpc_session_end_call(call, GS_GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct gs_grpc_session *s = user;
	struct gs_grpc_call *call;

	s->ping_strikes = 0;
	s->block_bytes = 0;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = gs_grpc_call_new(s->core, s->peer);
	if (!call) {
		gs_grpc_core_refuse(s->core, GS_GRPC_REFUSED_MEMORY);
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	call->session = s;
	call->stream = frame->hd.stream_id;
	call->deadline.fire = deadline_over;
	call->window_bytes = 65535;
	call->next = s->calls;
	call->prev = &s->calls;
	if (s->calls)
		s->calls->prev = &call->next;
	s->calls = call;
	nghttp2_session_set_stream_user_data(h2, call->stream, call);
	return 0;
}

/* nghttp2 drops it, but has looked at each of its bytes. */
static int on_invalid_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
			     size_t name_bytes, const uint8_t *value, size_t value_bytes,
			     uint8_t flags, void *user)
{
	(void)h2, (void)frame, (void)name, (void)value, (void)flags;
	return gs_grpc_flood_header(user, name_bytes, value_bytes);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
		     void *user)
{
	struct gs_grpc_call *call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	int r = gs_grpc_flood_header(user, name_bytes, value_bytes);

	(void)flags;
	if (r == 0 && call && !call->started && frame->hd.type == NGHTTP2_HEADERS &&
	    frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		gs_grpc_header_take(call, (const char *)name, name_bytes, (const char *)value,
				    value_bytes);
	return r;
}

static void begin_call(struct gs_grpc_call *call)
{
	struct gs_grpc_core *c = call->core;
	const char *text = NULL;
	enum gs_grpc_status status = gs_grpc_header_check(call, &text);
	size_t max;

	if (status != GS_GRPC_OK) {
		gs_grpc_session_end_call(call, status, text);
		return;
	}
	max = call->method->max_message_bytes;
	gs_grpc_inbox_init(&call->inbox, &c->held, max ? max : c->o.max_message_bytes);
	call->started = true;
	call->session->n_started++;
	gs_grpc_count(&c->counters.calls, 1);
	gs_grpc_count(&c->counters.calls_now, 1);
	if (call->deadline_ns != UINT64_MAX &&
	    gs_timer_set(&c->timers, &call->deadline, call->deadline_ns) < 0) {
		refuse_call(call, GS_GRPC_REFUSED_MEMORY, GS_GRPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	if (call->method->start)
		call->method->start(ctx_of(call), call);
}

/* --- frames --- */

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct gs_grpc_session *s = user;
	struct gs_grpc_call *call =
		frame->hd.stream_id ? nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id)
				    : NULL;

	if (gs_grpc_flood_frame(s, frame))
		return 0;
	if (frame->hd.type == NGHTTP2_SETTINGS)
		s->greeted = true;
	if (!call)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		begin_call(call);
	if (frame->hd.type == NGHTTP2_WINDOW_UPDATE)
		call->window_bytes =
			(size_t)nghttp2_session_get_stream_remote_window_size(h2, call->stream);
	if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		call->peer_ended = true;
		if (call->started)
			take_messages(call);
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *h2, const nghttp2_frame *frame, int error, void *user)
{
	struct gs_grpc_session *s = user;

	(void)h2, (void)frame;
	if (error == NGHTTP2_ERR_REFUSED_STREAM)
		gs_grpc_core_refuse(s->core, GS_GRPC_REFUSED_STREAMS);
	else if (error == NGHTTP2_ERR_HTTP_HEADER || error == NGHTTP2_ERR_HTTP_MESSAGING)
		gs_grpc_core_refuse(s->core, GS_GRPC_REFUSED_REQUEST);
	return 0;
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct gs_grpc_session *s = user;
	struct gs_grpc_call *call;

	if (frame->hd.type == NGHTTP2_PING || frame->hd.type == NGHTTP2_SETTINGS)
		return 0;
	s->ping_strikes = 0;
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR &&
	    !s->blamed) {
		s->blamed = true;
		gs_grpc_core_refuse(s->core, frame->goaway.error_code == NGHTTP2_ENHANCE_YOUR_CALM
						     ? GS_GRPC_REFUSED_FLOOD
						     : GS_GRPC_REFUSED_PROTOCOL);
	}
	if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	/* The call is answered while the client still sends: it shall stop (RFC 9113, 8.1). */
	call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	if (call && !call->peer_ended)
		nghttp2_submit_rst_stream(h2, 0, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

/* --- sessions --- */

static int new_h2(struct gs_grpc_session *s)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *option = NULL;
	int r = -ENOMEM;

	if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_invalid_header_callback(cb, on_invalid_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
		nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
		nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
		nghttp2_option_set_no_auto_window_update(option, 1);
		nghttp2_option_set_no_closed_streams(option, 1);
		nghttp2_option_set_max_outbound_ack(option, 1000);
		/* A client that ends may cancel all its calls at once. */
		nghttp2_option_set_stream_reset_rate_limit(option, s->core->o.max_streams + 1000,
							   200);
		r = nghttp2_session_server_new2(&s->h2, cb, s, option) == 0 ? 0 : -ENOMEM;
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(option);
	return r;
}

static int greet_peer(struct gs_grpc_session *s)
{
	const struct gs_grpc_server_options *o = &s->core->o;
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, GS_GRPC_HPACK_BYTES},
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->max_streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)o->window_bytes},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)o->max_metadata_bytes},
	};
	size_t window = o->window_bytes > NGHTTP2_MAX_WINDOW_SIZE / 4 ? NGHTTP2_MAX_WINDOW_SIZE
								      : o->window_bytes * 4;

	if (window < NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE)
		window = NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE;
	if (nghttp2_submit_settings(s->h2, 0, settings, GS_ARRAY_LEN(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(s->h2, 0, 0, (int32_t)window) != 0)
		return -ENOMEM;
	return 0;
}

int gs_grpc_session_new(struct gs_grpc_core *core, struct gs_grpc_peer *peer, void *owner,
			struct gs_grpc_session **ret_session)
{
	struct gs_grpc_session *s = calloc(1, sizeof(*s));
	int r = -ENOMEM;

	if (s) {
		*s = (struct gs_grpc_session){.core = core,
					      .peer = peer,
					      .owner = owner,
					      .idle_since_ns = gs_clock_mono_ns(),
					      .control_ns = gs_clock_mono_ns(),
					      .control_tokens = GS_GRPC_CONTROL_BURST,
					      .throttle.fire = throttle_over};
		r = new_h2(s);
		if (r == 0)
			r = greet_peer(s);
	} else {
		gs_grpc_peer_unref(&peer);
	}
	if (r < 0) {
		gs_grpc_session_free(&s);
		return r;
	}
	make_ready(s);
	*ret_session = s;
	return 0;
}

void gs_grpc_session_free(struct gs_grpc_session **ref)
{
	struct gs_grpc_session *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	while (s->calls) {
		nghttp2_session_set_stream_user_data(s->h2, s->calls->stream, NULL);
		call_over(s->calls, s->calls->ended_out ? s->calls->status : GS_GRPC_CANCELLED);
	}
	gs_timer_set(&s->core->timers, &s->throttle, UINT64_MAX);
	for (struct gs_grpc_session **p = &s->core->ready; *p; p = &(*p)->next_ready)
		if (*p == s) {
			*p = s->next_ready;
			break;
		}
	nghttp2_session_del(s->h2);
	gs_grpc_peer_unref(&s->peer);
	free(s);
}

int gs_grpc_session_input(struct gs_grpc_session *s, const uint8_t *data, size_t bytes)
{
	ssize_t r;

	gs_grpc_count(&s->core->counters.wire_bytes_in, bytes);
	if (s->broken)
		return 0;
	r = nghttp2_session_mem_recv(s->h2, data, bytes);
	make_ready(s);
	if (r >= 0)
		return 0;
	if (!s->blamed)
		gs_grpc_core_refuse(s->core, r == NGHTTP2_ERR_BAD_CLIENT_MAGIC
						     ? GS_GRPC_REFUSED_HANDSHAKE
					     : r == NGHTTP2_ERR_FLOODED ? GS_GRPC_REFUSED_FLOOD
					     : r == NGHTTP2_ERR_NOMEM   ? GS_GRPC_REFUSED_MEMORY
									: GS_GRPC_REFUSED_PROTOCOL);
	s->blamed = true;
	return r == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

int gs_grpc_session_output(struct gs_grpc_session *s, struct gs_buf *out, size_t up_to)
{
	size_t before = out->bytes;
	int r = gs_grpc_pull(s->h2, out, up_to);

	gs_grpc_count(&s->core->counters.wire_bytes_out, out->bytes - before);
	return r;
}

bool gs_grpc_session_done(const struct gs_grpc_session *s)
{
	return (s->broken || !nghttp2_session_want_read(s->h2)) &&
	       !nghttp2_session_want_write(s->h2);
}

void gs_grpc_session_ping(struct gs_grpc_session *s)
{
	nghttp2_submit_ping(s->h2, 0, NULL);
	make_ready(s);
}

void gs_grpc_session_leave(struct gs_grpc_session *s, uint32_t error_code, const char *why)
{
	if (s->leaving && error_code == NGHTTP2_NO_ERROR)
		return;
	s->leaving = true;
	nghttp2_submit_goaway(s->h2, 0, nghttp2_session_get_last_proc_stream_id(s->h2), error_code,
			      (const uint8_t *)why, strlen(why));
	make_ready(s);
}

void gs_grpc_session_abort_calls(struct gs_grpc_session *s, enum gs_grpc_status status,
				 const char *text)
{
	for (struct gs_grpc_call *call = s->calls; call; call = call->next)
		gs_grpc_session_end_call(call, status, text);
}

struct gs_grpc_peer *gs_grpc_peer_new(const char *address)
{
	struct gs_grpc_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->refs = 1;
	snprintf(p->address, sizeof(p->address), "%s", address);
	return p;
}

void gs_grpc_peer_unref(struct gs_grpc_peer **ref)
{
	struct gs_grpc_peer *p = *ref;

	*ref = NULL;
	if (p && atomic_fetch_sub(&p->refs, 1) == 1)
		free(p);
}
