/*
 * One connection, a small machine of states that never blocks:
 *
 *   HANDSHAKE ─► READ ─► WRITE ─► READ ...            (the connection is kept)
 *                 │       ▲  └──► DRAIN ─► closed     (what the client still sends is thrown away,
 *                 ├► WAIT ┤                            so that it reads our answer before a reset)
 *                 ├► STREAM                           (a body out of a pipe)
 *                 └► EVENTS ─► closed                 (fed until the client goes, or is too slow)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "net/http/server_int.h"

#define DRAIN_NS        1000000000ULL
#define DRAIN_MAX_BYTES (1U << 20)
#define PER_TURN        8  /* requests of one connection before others have their turn */
#define PIECES_PER_TURN 16 /* likewise of a long body */
#define LATER_NS        300000000000ULL /* for an answer that another thread makes */

/* --- connections --- */

void http_conn_close(struct gs_http *h, struct conn *c)
{
	if (c->state == CLOSED)
		return;
	gs_tls_wire_fini(&c->wire);
	gs_buf_fini(&c->in);
	gs_buf_fini(&c->out);
	http_deferred_forget(c);
	gs_share_leave(&h->places, &c->place);
	gs_share_leave(&h->stream_places, &c->stream);
	h->n_turned_away -= c->turned_away;
	h->streams -= c->state == EVENTS;
	gs_http_reply_fini(&c->reply);
	c->state = CLOSED;
	h->open--;
}

/* True: it would block, and poll waits for what it wants. */
static bool would_block(struct conn *c, ssize_t r)
{
	if (r == -EAGAIN)
		c->events = c->wire.wants;
	return r == -EAGAIN;
}

/* --- requests --- */

/* Whether one more connection may be fed with events. */
static bool may_stream(struct gs_http *h, struct conn *c, struct gs_http_reply *reply)
{
	struct gs_share *victim;

	if (gs_shares_ask(&h->stream_places, c->peer, &victim) == GS_SHARE_FREE &&
	    gs_share_take(&h->stream_places, c->peer, &c->stream) == 0)
		return true;
	reply->topics = 0;
	gs_http_error(reply, 503, "too many clients listen for events already");
	return false;
}

void http_conn_answer(struct gs_http *h, struct conn *c, struct gs_http_reply *reply,
		      const char *more)
{
	enum gs_http_framing framing = GS_HTTP_WHOLE;
	int class;

	gs_http_reply_check(reply);
	if (reply->topics && may_stream(h, c, reply)) {
		framing = GS_HTTP_TO_END;
		c->topics = reply->topics;
	} else if (reply->has_source) {
		framing = c->shape.http_1_0 ? GS_HTTP_TO_END : GS_HTTP_CHUNKED;
	}
	if (framing == GS_HTTP_TO_END)
		c->shape.keep_alive = false;
	class = reply->status / 100;
	if (class >= 1 && class <= GS_HTTP_CLASSES)
		h->requests[class - 1]++;
	c->served = true;
	c->sent_bytes = 0;
	c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
	c->state = WRITE;
	gs_share_rest(&h->places, &c->place);
	if (gs_http_reply_write(&c->out, &c->shape, reply, more, framing) < 0) {
		http_conn_close(h, c);
	} else if (framing != GS_HTTP_WHOLE && !c->shape.head) {
		c->state = c->topics ? EVENTS : STREAM;
		gs_share_work(&h->places, &c->place);
		h->streams += c->state == EVENTS;
		/* What a stream has not read counts as being behind. */
		if (c->topics) {
			(void)gs_buf_put(&c->out, reply->body.data, reply->body.bytes);
			c->out.max_bytes = c->out.bytes + STREAM_MAX_BYTES;
		} else {
			c->reply.has_source = true;
			c->reply.source = reply->source;
			(void)fcntl(reply->source.fd, F_SETFL, O_NONBLOCK);
			reply->has_source = false;
			c->body_ended = c->wait_body = false;
		}
	}
	gs_http_reply_fini(reply);
}

static void refuse_with(struct gs_http *h, struct conn *c, int status, const char *text,
			const char *more)
{
	struct gs_http_reply reply = {.json_errors = h->settings->json_errors,
				      .body = GS_BUF_INIT(4096)};

	gs_http_error(&reply, status, text);
	gs_buf_reset(&c->in);
	c->shape = (struct gs_http_shape){0};
	http_conn_answer(h, c, &reply, more);
}

static void refuse_conn(struct gs_http *h, struct conn *c, int status, const char *text)
{
	refuse_with(h, c, status, text, "");
}

static void refuse_when_full(struct gs_http *h, struct conn *c)
{
	refuse_with(h, c, 503, "this server has no place for one more connection of this address",
		    "Retry-After: 1\r\n");
	if (c->state == CLOSED)
		return;
	c->deadline_ns = gs_clock_mono_ns() + DRAIN_NS;
	http_conn_step(h, c);
}

void http_conn_refuse(struct gs_http *h, struct conn *c)
{
	c->turned_away = true;
	h->n_turned_away++;
	refuse_when_full(h, c);
}

/* Whether that may be asked without a place too. */
static bool asks_vital(const struct gs_http *h, struct gs_http_request *q)
{
	for (size_t i = 0; i < h->n_routes; i++)
		if (h->routes[i].vital && gs_http_matches(h->routes[i].path, q))
			return true;
	return false;
}

void http_conn_admit_vital(struct gs_http *h, struct conn *c)
{
	bool vital = false;

	for (size_t i = 0; i < h->n_routes; i++)
		vital |= h->routes[i].vital;
	if (!vital) {
		http_conn_refuse(h, c);
		return;
	}
	c->turned_away = true;
	h->n_turned_away++;
	c->deadline_ns = gs_clock_mono_ns() + DRAIN_NS;
	http_conn_step(h, c);
}

/* The reply of a handler: at once, or when it comes. */
static void reply_made(struct gs_http *h, struct conn *c, const struct gs_http_request *q,
		       struct gs_http_reply *reply, const char *more)
{
	if (reply->later) {
		gs_http_reply_fini(reply);
		c->state = WAIT;
		gs_share_work(&h->places, &c->place);
		c->events = 0; /* but its end is reported */
		c->deadline_ns = gs_clock_mono_ns() + LATER_NS;
		http_deferred_bind(reply->later, c);
		return;
	}
	if (reply->status == 200 &&
	    gs_http_etag_known(gs_http_header(q, "if-none-match"), reply->etag)) {
		reply->status = 304;
		gs_buf_reset(&reply->body);
	}
	http_conn_answer(h, c, reply, more);
}

/* True: a request was answered or refused. False: more bytes are needed. */
static bool take_request(struct gs_http *h, struct conn *c)
{
	const struct settings *s = h->settings;
	struct gs_http_reply reply = {.status = 200,
				      .type = "text/plain; charset=utf-8",
				      .json_errors = s->json_errors,
				      .body = GS_BUF_INIT(REPLY_MAX_BYTES)};
	size_t bytes = c->in.bytes < s->max_head_bytes ? c->in.bytes : s->max_head_bytes;
	static __thread struct gs_http_request q; /* too large for a stack */
	char more[256] = "";
	ssize_t head;

	if (!bytes)
		return false;
	memcpy(h->scratch, c->in.data, bytes);
	head = gs_http_parse(h->scratch, bytes, &q);
	if (head == 0 && c->in.bytes < s->max_head_bytes)
		return false;
	if (head <= 0) {
		refuse_conn(h, c, head ? (int)-head : 431,
			    gs_http_refusal_reason(head ? (int)-head : 431));
		return true;
	}
	if (q.content_bytes > s->max_body_bytes) {
		refuse_conn(h, c, 413,
			    "the body of the request is larger than this server accepts");
		return true;
	}
	if (c->in.bytes < (size_t)head + q.content_bytes)
		return false;
	if (c->turned_away && !asks_vital(h, &q)) {
		refuse_when_full(h, c);
		return true;
	}
	q.body = c->in.data + head;
	q.gzip = gs_http_accepts_gzip(gs_http_header(&q, "accept-encoding"));
	q.local = c->local;
	c->shape = (struct gs_http_shape){
		.head = q.head,
		.gzip = q.gzip,
		.http_1_0 = q.http_1_0,
		.keep_alive = q.keep_alive && !h->stopping && !c->turned_away,
	};
	q.is_cross_origin = gs_http_origin_listed(s->origins, gs_http_header(&q, "origin"));
	if (q.is_cross_origin)
		snprintf(c->shape.origin, sizeof(c->shape.origin), "%s",
			 gs_http_header(&q, "origin"));
	gs_http_serve(&(struct gs_http_site){.routes = h->routes,
					     .n_routes = h->n_routes,
					     .ctx = h->ctx,
					     .auth = &s->auth,
					     .hosts = &s->hosts,
					     .tls = c->wire.ssl ? s->tls : NULL,
					     .client_ca = s->client_ca,
					     .anonymous = s->anonymous,
					     .guarded = s->guarded},
		      &q, &reply, more, sizeof(more));
	reply_made(h, c, &q, &reply, more);
	if (c->state != CLOSED) {
		size_t used = (size_t)head + q.content_bytes;

		memmove(c->in.data, c->in.data + used, c->in.bytes - used);
		c->in.bytes -= used;
	}
	return true;
}

/* --- the machine --- */

/* Each step returns true when there is more to do at once. */
static bool step_handshake(struct gs_http *h, struct conn *c)
{
	static const char plain[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
				    "400 Bad Request: this port speaks HTTPS\n";
	int r = gs_tls_wire_handshake(&c->wire);

	if (r == 0) {
		c->state = READ;
		return true;
	}
	if (would_block(c, r))
		return false;
	h->tls_failures++;
	if (c->wire.fault == GS_TLS_FAULT_PLAIN_HTTP)
		(void)!send(c->wire.fd, plain, sizeof(plain) - 1, MSG_NOSIGNAL);
	http_conn_close(h, c);
	return false;
}

static bool step_read(struct gs_http *h, struct conn *c)
{
	const struct settings *s = h->settings;
	size_t room = s->max_head_bytes + s->max_body_bytes;
	char piece[8192];
	ssize_t n;

	if (take_request(h, c))
		return true;
	room -= c->in.bytes < room ? c->in.bytes : room;
	if (room == 0) { /* the limits were lowered under a running request */
		http_conn_close(h, c);
		return false;
	}
	n = gs_tls_wire_read(&c->wire, piece, room < sizeof(piece) ? room : sizeof(piece));
	if (n > 0) {
		if (c->in.bytes == 0 && !c->turned_away) /* a request begins */
			c->deadline_ns = gs_clock_mono_ns() + s->timeout_ns;
		if (gs_buf_put(&c->in, piece, (size_t)n) == 0)
			return true;
	} else if (would_block(c, n)) {
		return false;
	}
	http_conn_close(h, c);
	return false;
}

/* What is in c->out. 1: all of it is sent; 0: more may follow at once; -1: it waits, or is closed.
 */
static int send_out(struct gs_http *h, struct conn *c)
{
	ssize_t n;

	if (c->sent_bytes >= c->out.bytes)
		return 1;
	n = gs_tls_wire_write(&c->wire, c->out.data + c->sent_bytes, c->out.bytes - c->sent_bytes);
	if (n > 0) {
		c->sent_bytes += (size_t)n;
		return 0;
	}
	if (!would_block(c, n))
		http_conn_close(h, c);
	return -1;
}

static bool step_write(struct gs_http *h, struct conn *c)
{
	int r = send_out(h, c);

	if (r <= 0)
		return r == 0;
	gs_buf_fini(&c->out); /* an idle connection holds no memory */
	if (c->in.bytes == 0)
		gs_buf_fini(&c->in);
	if (c->shape.keep_alive) {
		c->state = READ;
		gs_share_rest(&h->places, &c->place);
		c->deadline_ns = gs_clock_mono_ns() +
				 (c->in.bytes ? h->settings->timeout_ns : h->settings->idle_ns);
		return true;
	}
	gs_tls_wire_shut(&c->wire);
	c->state = DRAIN;
	c->deadline_ns = gs_clock_mono_ns() + DRAIN_NS;
	return true;
}

/* The next piece of the source into c->out. False: it waits for the source, or is closed. */
static bool fill_from_source(struct gs_http *h, struct conn *c)
{
	struct gs_http_source *source = &c->reply.source;
	bool chunked = !c->shape.http_1_0;
	char piece[32768];
	ssize_t n = read(source->fd, piece, sizeof(piece));
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (!c->wait_body)
			c->deadline_ns = gs_clock_mono_ns() + LATER_NS;
		c->wait_body = true;
		return false;
	}
	c->wait_body = false;
	c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
	gs_buf_reset(&c->out);
	c->sent_bytes = 0;
	if (n < 0 || (n == 0 && source->whole && !source->whole(source->ctx))) {
		h->cut++; /* a client sees it: the last chunk is missing */
		http_conn_close(h, c);
		return false;
	}
	if (chunked)
		r = n ? gs_buf_printf(&c->out, "%zx\r\n", (size_t)n)
		      : gs_buf_puts(&c->out, "0\r\n");
	if (r == 0 && n)
		r = gs_buf_put(&c->out, piece, (size_t)n);
	if (r == 0 && chunked)
		r = gs_buf_puts(&c->out, "\r\n");
	if (r < 0) {
		http_conn_close(h, c);
		return false;
	}
	c->body_ended = n == 0;
	return true;
}

static bool step_stream(struct gs_http *h, struct conn *c)
{
	int r = send_out(h, c);

	if (r <= 0)
		return r == 0;
	if (!c->body_ended)
		return fill_from_source(h, c);
	gs_http_reply_fini(&c->reply);
	c->state = WRITE;
	gs_share_rest(&h->places, &c->place);
	return true;
}

/* What the client still says does not matter; that it went does. */
static bool step_events(struct gs_http *h, struct conn *c)
{
	char piece[512];
	ssize_t n = gs_tls_wire_read(&c->wire, piece, sizeof(piece));
	int r;

	if (n >= 0 ? n == 0 : !would_block(c, n)) {
		http_conn_close(h, c);
		return false;
	}
	r = send_out(h, c);
	if (r == 0 || n > 0)
		return c->state == EVENTS;
	if (r < 0)
		return false;
	c->out.max_bytes = STREAM_MAX_BYTES;
	gs_buf_reset(&c->out);
	c->sent_bytes = 0;
	c->events = POLLIN;
	c->deadline_ns = gs_clock_mono_ns() + HEARTBEAT_NS;
	return false;
}

/* The client may go while it waits for an answer. What it sends meanwhile waits in the socket. */
static bool step_wait(struct gs_http *h, struct conn *c)
{
	char byte;
	ssize_t n = recv(c->wire.fd, &byte, 1, MSG_PEEK);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		http_conn_close(h, c);
	return false;
}

static bool step_drain(struct gs_http *h, struct conn *c)
{
	char piece[8192];
	ssize_t n = recv(c->wire.fd, piece, sizeof(piece), 0); /* also below TLS, which has ended */

	if (n > 0 && (c->drained_bytes += (size_t)n) < DRAIN_MAX_BYTES)
		return true;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		c->events = POLLIN;
		return false;
	}
	http_conn_close(h, c);
	return false;
}

void http_conn_step(struct gs_http *h, struct conn *c)
{
	unsigned answered = 0, pieces = 0;
	bool more = true;

	while (more && answered < PER_TURN) {
		enum conn_state before = c->state;

		switch (c->state) {
		case HANDSHAKE:
			more = step_handshake(h, c);
			break;
		case READ:
			more = step_read(h, c);
			break;
		case WAIT:
			more = step_wait(h, c);
			break;
		case WRITE:
			more = step_write(h, c);
			break;
		case STREAM:
			more = step_stream(h, c);
			break;
		case EVENTS:
			more = step_events(h, c);
			break;
		case DRAIN:
			more = step_drain(h, c);
			break;
		case CLOSED:
			return;
		}
		answered += before == READ && c->state != READ;
		/* A long body is not one turn either. */
		pieces += c->state == STREAM;
		if (pieces == PIECES_PER_TURN)
			break;
	}
	if (more && c->state != CLOSED)
		c->events = POLLIN | POLLOUT; /* its next turn is at once */
}

void http_conn_timed_out(struct gs_http *h, struct conn *c)
{
	bool idle = c->state == READ && c->in.bytes == 0 && c->served;

	if (c->state == EVENTS && c->sent_bytes >= c->out.bytes) {
		gs_buf_reset(&c->out);
		c->sent_bytes = 0;
		(void)gs_buf_puts(&c->out, ":\n\n"); /* a comment: the line is alive */
		c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
		http_conn_step(h, c);
		return;
	}
	if (c->turned_away && c->state == READ) {
		refuse_when_full(h, c);
		return;
	}
	if (!idle && c->state != DRAIN)
		h->timed_out++;
	if (c->state == WAIT) {
		http_deferred_forget(c);
		refuse_conn(h, c, 503, "the answer took too long");
		http_conn_step(h, c);
		return;
	}
	h->cut += c->state == STREAM;
	if (c->state == READ && c->in.bytes) {
		refuse_conn(h, c, 408, "the request did not come in time");
		http_conn_step(h, c);
		return;
	}
	http_conn_close(h, c);
}
