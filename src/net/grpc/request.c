/* Calls on the client's connection, and what nghttp2 reports of them. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "net/grpc/client_int.h"

/* --- the end of a call --- */

static void detach_request(struct gs_grpc_request *r)
{
	struct gs_grpc_client *c = r->client;

	if (!c)
		return;
	*r->prev = r->next;
	if (r->next)
		r->next->prev = r->prev;
	c->n_requests--;
	gs_timer_set(&c->timers, &r->deadline, UINT64_MAX);
	gs_timer_set(&c->timers, &r->resume, UINT64_MAX);
	if (c->h2)
		nghttp2_session_set_stream_user_data(c->h2, r->stream, NULL);
	r->client = NULL;
}

static void release_request(struct gs_grpc_request *r)
{
	if (r->busy || r->client)
		return;
	gs_grpc_inbox_fini(&r->inbox);
	gs_grpc_outbox_fini(&r->out);
	gs_grpc_table_fini(&r->metadata);
	free(r);
}

static void end_request(struct gs_grpc_request *r, enum gs_grpc_status status, const char *text)
{
	if (!r->client)
		return;
	detach_request(r);
	r->busy++;
	if (r->events.ended)
		r->events.ended(r->ctx, r, status, text ? text : "");
	r->busy--;
	release_request(r);
}

/* End it before the server does. */
static void give_up(struct gs_grpc_request *r, uint32_t error_code, enum gs_grpc_status status,
		    const char *text)
{
	if (!r->closed)
		nghttp2_submit_rst_stream(r->client->h2, 0, r->stream, error_code);
	end_request(r, status, text);
}

static void end_closed(struct gs_grpc_request *r)
{
	if (r->status == GS_GRPC_OK && !gs_grpc_inbox_empty(&r->inbox))
		end_request(r, GS_GRPC_INTERNAL, "the last message was cut off");
	else
		end_request(r, r->status, r->text);
}

/* --- messages in --- */

static void refuse_message(struct gs_grpc_request *r, int why)
{
	char text[120];

	if (why == -EMSGSIZE) {
		snprintf(text, sizeof(text),
			 "a message of %zu bytes is larger than the limit of %zu",
			 r->inbox.message_bytes, r->inbox.max_message_bytes);
		give_up(r, NGHTTP2_CANCEL, GS_GRPC_RESOURCE_EXHAUSTED, text);
	} else if (why == -ENOMEM || why == -ENOBUFS) {
		give_up(r, NGHTTP2_CANCEL, GS_GRPC_RESOURCE_EXHAUSTED, "no memory for a message");
	} else {
		give_up(r, NGHTTP2_CANCEL, GS_GRPC_INTERNAL,
			why == -EOPNOTSUPP ? "the server compresses messages"
					   : "invalid gRPC framing");
	}
}

/* The caller holds it busy. */
static void take_messages(struct gs_grpc_request *r)
{
	const void *data;
	size_t bytes, used;
	int got = 1;

	while (r->client && !r->paused && got == 1) {
		got = gs_grpc_inbox_next(&r->inbox, &data, &bytes, &used);
		nghttp2_session_consume_stream(r->client->h2, r->stream, used);
		if (got < 0) {
			refuse_message(r, got);
		} else if (got == 1) {
			r->client->stats.messages_in++;
			r->client->stats.message_bytes_in += bytes;
			if (r->events.message)
				r->events.message(r->ctx, r, data, bytes);
		}
	}
	if (r->client && got == 0 && r->closed)
		end_closed(r);
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t bytes, void *user)
{
	struct gs_grpc_request *r = nghttp2_session_get_stream_user_data(h2, stream);
	int why;

	(void)flags, (void)user;
	nghttp2_session_consume_connection(h2, bytes);
	if (!r || !r->grpc) {
		nghttp2_session_consume_stream(h2, stream, bytes);
		return 0;
	}
	r->busy++;
	why = gs_grpc_inbox_put(&r->inbox, data, bytes);
	if (why == 0) {
		take_messages(r);
		why = r->client ? gs_grpc_inbox_keep(&r->inbox) : 0;
	}
	if (why < 0)
		refuse_message(r, why);
	r->busy--;
	release_request(r);
	return 0;
}

/* --- messages out --- */

static ssize_t read_data(nghttp2_session *h2, int32_t stream, uint8_t *out, size_t bytes,
			 uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct gs_grpc_request *r = nghttp2_session_get_stream_user_data(h2, stream);
	struct gs_grpc_client *c = user;
	uint64_t messages, message_bytes;
	size_t n;

	(void)source;
	if (!r) /* forgotten, its reset is on its way */
		return NGHTTP2_ERR_DEFERRED;
	n = gs_grpc_outbox_take(&r->out, out, bytes, &messages, &message_bytes);
	c->stats.messages_out += messages;
	c->stats.message_bytes_out += message_bytes;
	if (r->ending && !r->out.first)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (r->wants_writable && r->out.bytes <= c->o.max_queue_bytes / 2) {
		r->wants_writable = false;
		r->busy++;
		if (r->events.writable)
			r->events.writable(r->ctx, r);
		r->busy--;
		release_request(r);
	}
	return n || *flags & NGHTTP2_DATA_FLAG_EOF ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

int gs_grpc_request_send(struct gs_grpc_request *r, const void *data, size_t bytes)
{
	int e;

	if (!r->client || r->closed || r->ending)
		return -EPIPE;
	e = gs_grpc_outbox_put(&r->out, data, bytes, r->client->o.max_queue_bytes);
	if (e == 0)
		(void)nghttp2_session_resume_data(r->client->h2, r->stream);
	else if (e == -ENOBUFS)
		r->wants_writable = true;
	return e;
}

void gs_grpc_request_end(struct gs_grpc_request *r)
{
	if (!r->client || r->ending)
		return;
	r->ending = true;
	(void)nghttp2_session_resume_data(r->client->h2, r->stream);
}

void gs_grpc_request_cancel(struct gs_grpc_request **ref)
{
	struct gs_grpc_request *r = *ref;

	*ref = NULL;
	if (!r || !r->client)
		return;
	if (!r->closed)
		nghttp2_submit_rst_stream(r->client->h2, 0, r->stream, NGHTTP2_CANCEL);
	detach_request(r);
	release_request(r);
}

void gs_grpc_request_pause(struct gs_grpc_request *r)
{
	r->paused++;
}

void gs_grpc_request_resume(struct gs_grpc_request *r)
{
	if (r->paused && --r->paused == 0 && r->client && !r->resume.index) {
		/* Not here: callbacks run in gs_grpc_client_work() alone. */
		(void)gs_timer_set(&r->client->timers, &r->resume, 0);
	}
}

void gs_grpc_request_flow(const struct gs_grpc_request *r, struct gs_grpc_flow *ret_flow)
{
	int32_t window =
		r->client && r->client->h2
			? nghttp2_session_get_stream_remote_window_size(r->client->h2, r->stream)
			: 0;

	*ret_flow = (struct gs_grpc_flow){.queued_bytes = r->out.bytes,
					  .queued_messages = r->out.messages,
					  .window_bytes = window > 0 ? (size_t)window : 0};
}

const char *gs_grpc_request_metadata(const struct gs_grpc_request *r, const char *name)
{
	return gs_grpc_table_get(&r->metadata, name);
}

/* --- the server's headers --- */

static bool text_is(const uint8_t *name, size_t bytes, const char *wanted)
{
	return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
		     void *user)
{
	struct gs_grpc_request *r = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	char text[16] = "";

	(void)flags, (void)user;
	if (!r || frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (value_bytes < sizeof(text))
		memcpy(text, value, value_bytes);
	if (text_is(name, name_bytes, ":status")) {
		r->http_status = atoi(text);
	} else if (text_is(name, name_bytes, "content-type")) {
		r->grpc = r->http_status == 200 && value_bytes >= 16 &&
			  memcmp(value, "application/grpc", 16) == 0;
	} else if (text_is(name, name_bytes, "grpc-status")) {
		size_t digits = strspn(text, "0123456789");
		int status = atoi(text);

		r->has_status = true;
		r->status = digits && !text[digits] && status < GS_GRPC_STATUS_COUNT
				    ? (enum gs_grpc_status)status
				    : GS_GRPC_UNKNOWN;
	} else if (text_is(name, name_bytes, "grpc-message")) {
		gs_grpc_percent_decode((const char *)value, value_bytes, r->text, sizeof(r->text));
	} else if (name_bytes && name[0] != ':' &&
		   gs_grpc_table_add(&r->metadata, name, name_bytes, value, value_bytes) < 0) {
		give_up(r, NGHTTP2_CANCEL, GS_GRPC_RESOURCE_EXHAUSTED,
			"the server's metadata are too large");
	}
	return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t error_code, void *user)
{
	struct gs_grpc_request *r = nghttp2_session_get_stream_user_data(h2, stream);

	(void)user;
	if (!r || r->closed)
		return 0;
	nghttp2_session_set_stream_user_data(h2, stream, NULL);
	r->closed = true;
	if (!r->has_status) {
		bool http = r->http_status && !r->grpc;

		r->status = http ? gs_grpc_status_of_http(r->http_status)
			    : error_code != NGHTTP2_NO_ERROR ? gs_grpc_status_of_h2(error_code)
							     : GS_GRPC_INTERNAL;
		if (http)
			snprintf(r->text, sizeof(r->text), "the answer is HTTP %d, not gRPC",
				 r->http_status);
		else if (error_code != NGHTTP2_NO_ERROR)
			snprintf(r->text, sizeof(r->text), "the server reset the call: %s",
				 nghttp2_http2_strerror(error_code));
		else
			snprintf(r->text, sizeof(r->text), "the server ended without a status");
	}
	if (r->paused)
		return 0; /* what waits is delivered first */
	r->busy++;
	take_messages(r);
	r->busy--;
	release_request(r);
	return 0;
}

/* A call that could not even begin: the server has said GOAWAY before. */
static int on_not_sent(nghttp2_session *h2, const nghttp2_frame *frame, int error, void *user)
{
	struct gs_grpc_client *c = user;

	(void)h2;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	for (struct gs_grpc_request *r = c->requests; r; r = r->next)
		if (r->stream == frame->hd.stream_id) {
			r->closed = true;
			end_request(r, GS_GRPC_UNAVAILABLE, nghttp2_strerror(error));
			return 0;
		}
	return 0;
}

/* --- the connection's own frames --- */

static void going_away(struct gs_grpc_client *c, const nghttp2_goaway *g)
{
	char said[128];
	size_t n = g->opaque_data_len < sizeof(said) - 1 ? g->opaque_data_len : sizeof(said) - 1;

	for (size_t i = 0; i < n; i++)
		said[i] = g->opaque_data[i] >= 0x20 && g->opaque_data[i] <= 0x7e
				  ? (char)g->opaque_data[i]
				  : '?';
	said[n] = '\0';
	/* As grpc-core does: ask half as often from now on. */
	if (strcmp(said, "too_many_pings") == 0 && c->keepalive_ns < UINT64_MAX / 2)
		c->keepalive_ns *= 2;
	snprintf(c->why, sizeof(c->why), "the server is shutting down: %s%s%s",
		 nghttp2_http2_strerror(g->error_code), n ? ", " : "", said);
	if (c->going_away)
		return;
	c->going_away = true;
	if (c->state == GS_GRPC_GREETING) /* it was never here */
		return;
	if (c->o.events.going_away)
		c->o.events.going_away(c->o.ctx, c->why);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct gs_grpc_client *c = user;

	(void)h2;
	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		c->greeted = true;
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK && c->pinged_ns) {
			c->stats.round_trip_ns = gs_clock_mono_ns() - c->pinged_ns;
			c->pinged_ns = 0;
		}
		break;
	case NGHTTP2_GOAWAY:
		going_away(c, &frame->goaway);
		break;
	}
	return 0;
}

int gs_grpc_client_h2_new(struct gs_grpc_client *c)
{
	size_t window = c->o.window_bytes > NGHTTP2_MAX_WINDOW_SIZE / 4 ? NGHTTP2_MAX_WINDOW_SIZE
									: c->o.window_bytes * 4;
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)c->o.window_bytes},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)c->o.max_metadata_bytes},
	};
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *option = NULL;
	int r = -ENOMEM;

	if (window < NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE)
		window = NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE;
	if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0) {
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
		nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_not_sent);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
		nghttp2_option_set_no_auto_window_update(option, 1);
		nghttp2_option_set_no_closed_streams(option, 1);
		if (nghttp2_session_client_new2(&c->h2, cb, c, option) == 0 &&
		    nghttp2_submit_settings(c->h2, 0, settings, GS_ARRAY_LEN(settings)) == 0 &&
		    nghttp2_session_set_local_window_size(c->h2, 0, 0, (int32_t)window) == 0)
			r = 0;
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(option);
	return r;
}

/* --- a new call --- */

static void deadline_over(struct gs_timer *timer)
{
	struct gs_grpc_request *r =
		(void *)((char *)timer - offsetof(struct gs_grpc_request, deadline));

	give_up(r, NGHTTP2_CANCEL, GS_GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
}

static void resume_over(struct gs_timer *timer)
{
	struct gs_grpc_request *r =
		(void *)((char *)timer - offsetof(struct gs_grpc_request, resume));

	r->busy++;
	take_messages(r);
	r->busy--;
	release_request(r);
}

static int check_options(const struct gs_grpc_request_options *o)
{
	size_t n = o->path ? strlen(o->path) : 0;

	if (n < 2 || n > 500 || o->path[0] != '/' || !gs_grpc_value_valid(o->path, n))
		return -EINVAL;
	for (size_t i = 0; i < o->n_metadata; i++)
		if (!gs_grpc_name_valid(o->metadata[i].name) ||
		    !gs_grpc_value_valid(o->metadata[i].value, strlen(o->metadata[i].value)))
			return -EINVAL;
	return 0;
}

static int submit_request(struct gs_grpc_request *r, const struct gs_grpc_request_options *o)
{
	struct gs_grpc_client *c = r->client;
	nghttp2_data_provider provider = {.read_callback = read_data};
	GS_FREE nghttp2_nv *nv = calloc(o->n_metadata + 10, sizeof(*nv));
	char timeout[GS_GRPC_TIMEOUT_MAX];
	size_t n = 0;

	if (!nv)
		return -ENOMEM;
	nv[n++] = gs_grpc_nv(":method", "POST");
	nv[n++] = gs_grpc_nv(":scheme", c->tls ? "https" : "http");
	nv[n++] = gs_grpc_nv(":path", o->path);
	nv[n++] = gs_grpc_nv(":authority", c->authority);
	nv[n++] = gs_grpc_nv("te", "trailers");
	nv[n++] = gs_grpc_nv("content-type", "application/grpc");
	nv[n++] = gs_grpc_nv("user-agent", c->user_agent);
	nv[n++] = gs_grpc_nv("grpc-accept-encoding", "identity");
	if (o->timeout_ns) {
		gs_grpc_timeout_format(o->timeout_ns, timeout);
		nv[n++] = gs_grpc_nv("grpc-timeout", timeout);
	}
	if (c->bearer) {
		nv[n] = gs_grpc_nv("authorization", c->bearer);
		nv[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX; /* a secret: not into the table */
	}
	for (size_t i = 0; i < o->n_metadata; i++)
		nv[n++] = gs_grpc_nv(o->metadata[i].name, o->metadata[i].value);
	r->stream = nghttp2_submit_request(c->h2, NULL, nv, n, &provider, r);
	return r->stream > 0 ? 0 : r->stream == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ESHUTDOWN;
}

int gs_grpc_client_call(struct gs_grpc_client *c, const struct gs_grpc_request_options *o,
			struct gs_grpc_request **ret_request)
{
	struct gs_grpc_request *r;
	int e = check_options(o);

	if (e < 0)
		return e;
	if (c->state != GS_GRPC_UP)
		return -ENOTCONN;
	if (c->going_away || c->leaving)
		return -ESHUTDOWN;
	if (c->n_requests >= c->o.max_calls)
		return -EBUSY;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct gs_grpc_request){.client = c,
				      .events = o->events,
				      .ctx = o->ctx,
				      .deadline.fire = deadline_over,
				      .resume.fire = resume_over,
				      .metadata.max_bytes = c->o.max_metadata_bytes};
	gs_grpc_inbox_init(&r->inbox, &c->held, c->o.max_message_bytes);
	e = submit_request(r, o);
	if (e == 0 && o->timeout_ns) {
		uint64_t now = gs_clock_mono_ns();

		e = gs_timer_set(&c->timers, &r->deadline,
				 o->timeout_ns > UINT64_MAX - 1 - now ? UINT64_MAX
								      : now + o->timeout_ns);
		if (e < 0)
			nghttp2_submit_rst_stream(c->h2, 0, r->stream, NGHTTP2_CANCEL);
	}
	if (e < 0) {
		if (r->stream > 0)
			nghttp2_session_set_stream_user_data(c->h2, r->stream, NULL);
		r->client = NULL;
		release_request(r);
		return e;
	}
	r->next = c->requests;
	r->prev = &c->requests;
	if (r->next)
		r->next->prev = &r->next;
	c->requests = r;
	c->n_requests++;
	c->stats.calls++;
	*ret_request = r;
	return 0;
}

int gs_grpc_client_unary(struct gs_grpc_client *c, const struct gs_grpc_request_options *o,
			 const void *data, size_t bytes, struct gs_grpc_request **ret_request)
{
	struct gs_grpc_request *r = NULL;
	int e = gs_grpc_client_call(c, o, &r);

	if (e < 0)
		return e;
	e = gs_grpc_request_send(r, data, bytes);
	if (e < 0) {
		gs_grpc_request_cancel(&r);
		return e;
	}
	gs_grpc_request_end(r);
	if (ret_request)
		*ret_request = r;
	return 0;
}

/* --- all calls --- */

void gs_grpc_client_end_all(struct gs_grpc_client *c, enum gs_grpc_status status, const char *text)
{
	/* Those that an `ended` begins cannot: the state forbids it. */
	while (c->requests) {
		struct gs_grpc_request *r = c->requests;

		if (c->h2 && !r->closed)
			nghttp2_submit_rst_stream(c->h2, 0, r->stream, NGHTTP2_CANCEL);
		end_request(r, status, text);
	}
}

void gs_grpc_client_forget_all(struct gs_grpc_client *c)
{
	while (c->requests) {
		struct gs_grpc_request *r = c->requests;

		detach_request(r);
		release_request(r);
	}
}
