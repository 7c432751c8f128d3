/*
 * One connection, on the server's thread:
 *
 *   SILENT ─► HANDSHAKE ─► UP ─► DRAIN ─► gone   (in DRAIN we have said our last, and wait a moment
 *                                                 for the client to read it: a close with unread
 *                                                 bytes of it would throw away what is still on
 *                                                 its way)
 *
 * A connection of which nothing has come holds neither TLS nor HTTP/2. One without a running call
 * gives its place to a new one when there are no more (core/base/share.h). A connection reads and
 * writes only so much in a turn.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/base/clock.h"
#include "core/base/local.h"
#include "net/grpc/conn_int.h"

#define READS_PER_TURN   4
#define RECORDS_PER_TURN 16     /* of TLS, 16 KiB each */
#define OUT_BYTES        131072 /* taken from a session at once */
#define WRITES_PER_TURN  4
#define OUT_MAX_BYTES    (OUT_BYTES + (1U << 20)) /* a header block may come on top */
#define DRAIN_NS         1000000000ULL

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t conn_due_ns(const struct conn *c)
{
	const struct gs_grpc_server_options *o = &c->server->core->o;
	uint64_t due;

	if (c->state == DRAIN)
		return gs_grpc_after(c->opened_ns, DRAIN_NS);
	if (c->state < UP || !c->session->greeted)
		return gs_grpc_after(c->opened_ns, o->handshake_ns);
	due = c->pinged_ns ? gs_grpc_after(c->pinged_ns, o->keepalive_timeout_ns)
			   : gs_grpc_after(c->received_ns, o->keepalive_ns);
	if (c->session->n_started == 0)
		due = earlier_of(due, gs_grpc_after(c->session->idle_since_ns, o->idle_ns));
	return due;
}

static void set_timer(struct conn *c)
{
	/* Being heard of only moves it away: that is seen when it fires. */
	uint64_t due = conn_due_ns(c);

	if (c->timer.index && c->timer.due_ns <= due)
		return;
	(void)gs_timer_set(&c->server->core->timers, &c->timer, due);
}

/* --- the ends of connections --- */

void gs_grpc_conn_close(struct conn *c)
{
	struct gs_grpc_server *s = c->server;

	if (c->state == CLOSED)
		return;
	c->state = CLOSED;
	gs_timer_set(&s->core->timers, &c->timer, UINT64_MAX);
	gs_grpc_session_free(&c->session);
	gs_tls_wire_fini(&c->wire); /* which takes it out of epoll */
	gs_buf_fini(&c->out);
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	gs_share_leave(&s->shares, &c->share);
	s->n_closed++;
	gs_grpc_count(&s->core->counters.connections_now, -1ULL);
	/* Events of this turn may still name it. */
	c->next = s->dead;
	s->dead = c;
}

void gs_grpc_conn_bury(struct gs_grpc_server *s)
{
	while (s->dead) {
		struct conn *c = s->dead;

		s->dead = c->next;
		free(c);
	}
}

static void refuse_conn(struct conn *c, enum gs_grpc_refusal why)
{
	gs_grpc_core_refuse(c->server->core, why);
	gs_grpc_conn_close(c);
}

static void want_events(struct conn *c, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	if (c->state == CLOSED || c->events == events)
		return;
	c->events = events;
	if (epoll_ctl(c->server->epoll_fd, EPOLL_CTL_MOD, c->wire.fd, &e) < 0)
		gs_grpc_conn_close(c);
}

static void start_drain(struct conn *c)
{
	gs_grpc_session_free(&c->session);
	gs_buf_fini(&c->out);
	gs_tls_wire_shut(&c->wire);
	c->state = DRAIN;
	c->opened_ns = gs_clock_mono_ns();
	(void)gs_timer_set(&c->server->core->timers, &c->timer, conn_due_ns(c));
	want_events(c, EPOLLIN);
}

/* Write what there is. False: the connection is gone or waits. */
static void conn_flush(struct conn *c)
{
	for (int i = 0; i < WRITES_PER_TURN; i++) {
		ssize_t n;

		if (c->sent_bytes == c->out.bytes) {
			c->sent_bytes = 0;
			gs_buf_reset(&c->out);
			if (gs_grpc_session_output(c->session, &c->out, OUT_BYTES) < 0) {
				gs_grpc_conn_close(c);
				return;
			}
			if (c->out.bytes == 0) {
				gs_buf_fini(&c->out); /* an idle connection holds no memory */
				if (gs_grpc_session_done(c->session))
					start_drain(c);
				else
					want_events(c, EPOLLIN);
				return;
			}
		}
		n = gs_tls_wire_write(&c->wire, c->out.data + c->sent_bytes,
				      c->out.bytes - c->sent_bytes);
		if (n < 0 && n != -EAGAIN) {
			gs_grpc_conn_close(c);
			return;
		}
		if (n < 0) {
			want_events(c, EPOLLIN | (uint32_t)c->wire.wants);
			return;
		}
		c->sent_bytes += (size_t)n;
	}
	want_events(c, EPOLLIN | EPOLLOUT);
}

/* A connection that waits for nothing of us may have to make room. */
static void note_work(struct conn *c)
{
	bool works = c->state == UP && c->session->n_started > 0;

	if (works)
		gs_share_work(&c->server->shares, &c->share);
	else if (!c->share.resting)
		gs_share_rest(&c->server->shares, &c->share);
}

static void note_received(struct conn *c)
{
	c->received_ns = gs_clock_mono_ns();
	c->pinged_ns = 0;
}

static void conn_read(struct conn *c)
{
	struct gs_grpc_server *s = c->server;

	for (int i = 0; i < (c->wire.ssl ? RECORDS_PER_TURN : READS_PER_TURN); i++) {
		ssize_t n = gs_tls_wire_read(&c->wire, s->in, GS_GRPC_READ_BYTES);

		if (n == -EAGAIN) {
			if (c->wire.wants & EPOLLOUT)
				want_events(c, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n <= 0) {
			gs_grpc_conn_close(c);
			return;
		}
		note_received(c);
		if (gs_grpc_session_input(c->session, s->in, (size_t)n) < 0) {
			/* Say GOAWAY if it can still be said. */
			conn_flush(c);
			if (c->state == UP)
				start_drain(c);
			return;
		}
		if (!c->wire.ssl && n < GS_GRPC_READ_BYTES)
			return;
	}
}

static void conn_up(struct conn *c, struct gs_grpc_peer *peer)
{
	gs_grpc_wire_identity(&c->wire, peer->identity, sizeof(peer->identity));
	gs_grpc_wire_names(&c->wire, peer->identity, peer->names, sizeof(peer->names));
	if (gs_grpc_session_new(c->server->core, peer, c, &c->session) < 0) {
		refuse_conn(c, GS_GRPC_REFUSED_MEMORY);
		return;
	}
	c->state = UP;
	note_received(c);
	if (c->server->stop)
		gs_grpc_session_leave(c->session, NGHTTP2_NO_ERROR, "the server is shutting down");
}

/* How the other end is called; true: it is a user who may do everything. */
static bool know_peer(int fd, gid_t group, char *out, size_t bytes)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);
	bool is_trusted;
	uid_t uid;

	if (gs_local_is(fd)) {
		is_trusted = gs_local_trusts(fd, group, &uid);
		snprintf(out, bytes, "user %u", uid);
		return is_trusted;
	}
	(void)getpeername(fd, (struct sockaddr *)&a, &n);
	gs_net_text(&a, out, bytes);
	return false;
}

static void conn_handshake(struct conn *c)
{
	struct gs_grpc_peer *peer;
	char text[GS_NET_TEXT_MAX];
	bool is_trusted;
	int r = gs_grpc_wire_handshake(&c->wire);

	if (r == -EAGAIN) {
		want_events(c, (uint32_t)c->wire.wants);
		return;
	}
	if (r < 0) {
		refuse_conn(c, GS_GRPC_REFUSED_HANDSHAKE);
		return;
	}
	is_trusted = know_peer(c->wire.fd, c->server->local_group, text, sizeof(text));
	peer = gs_grpc_peer_new(text);
	if (!peer) {
		refuse_conn(c, GS_GRPC_REFUSED_MEMORY);
		return;
	}
	peer->is_trusted = is_trusted;
	conn_up(c, peer);
}

/* A client that speaks HTTP/2 without TLS gets the alert protocol_version (RFC 8446, 6.2), which
 * OpenSSL does not send to what is no record of TLS: so it can say what is wrong. */
static void refuse_plain(struct conn *c)
{
	static const uint8_t alert[] = {21, 3, 1, 0, 2, 2, 70};

	gs_grpc_core_refuse(c->server->core, GS_GRPC_REFUSED_HANDSHAKE);
	(void)!send(c->wire.fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
	start_drain(c);
}

/* The first bytes are there. */
static void conn_begin(struct conn *c)
{
	struct gs_grpc_server *s = c->server;
	char first[4] = "";
	bool is_plain;
	int r;

	pthread_mutex_lock(&s->core->lock);
	is_plain = s->tls && recv(c->wire.fd, first, sizeof(first), MSG_PEEK) == 4 &&
		   memcmp(first, "PRI ", 4) == 0;
	r = is_plain ? 0 : gs_grpc_wire_start(&c->wire, s->tls, NULL);
	pthread_mutex_unlock(&s->core->lock);
	if (is_plain) {
		refuse_plain(c);
		return;
	}
	if (r < 0)
		refuse_conn(c, GS_GRPC_REFUSED_MEMORY);
	else
		c->state = HANDSHAKE;
}

static void conn_drain(struct conn *c)
{
	char piece[8192];

	for (int i = 0; i < READS_PER_TURN; i++) {
		ssize_t n = recv(c->wire.fd, piece, sizeof(piece), MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			gs_grpc_conn_close(c);
		if (n <= 0)
			return;
	}
}

void gs_grpc_conn_event(struct conn *c, uint32_t events)
{
	if (c->state == SILENT && events)
		conn_begin(c);
	if (c->state == HANDSHAKE)
		conn_handshake(c);
	if (c->state == UP && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		conn_read(c);
	if (c->state == UP)
		conn_flush(c);
	else if (c->state == DRAIN)
		conn_drain(c);
	if (c->state == CLOSED)
		return;
	note_work(c);
	set_timer(c);
}

static void conn_due(struct gs_timer *timer)
{
	struct conn *c = (void *)((char *)timer - offsetof(struct conn, timer));
	struct gs_grpc_core *core = c->server->core;
	const struct gs_grpc_server_options *o = &core->o;
	uint64_t now = gs_clock_mono_ns();

	if (conn_due_ns(c) > now) {
		set_timer(c);
		return;
	}
	if (c->state == DRAIN) {
		gs_grpc_conn_close(c);
		return;
	}
	if (c->state < UP || !c->session->greeted) {
		refuse_conn(c, GS_GRPC_REFUSED_SLOW);
		return;
	}
	if (c->pinged_ns) {
		refuse_conn(c, GS_GRPC_REFUSED_SILENT);
		return;
	}
	if (c->session->n_started == 0 &&
	    now >= gs_grpc_after(c->session->idle_since_ns, o->idle_ns)) {
		if (c->session->leaving) { /* it had time to take the hint */
			gs_grpc_conn_close(c);
			return;
		}
		gs_grpc_count(&core->counters.idle_closed, 1);
		gs_grpc_session_leave(c->session, NGHTTP2_NO_ERROR, "idle");
		c->session->idle_since_ns = now;
	} else {
		gs_grpc_session_ping(c->session);
		c->pinged_ns = now;
	}
	set_timer(c);
}

/* One of the greediest client has to go; it gets an answer, if it takes that at once. */
void gs_grpc_conn_evict(struct conn *c)
{
	gs_grpc_core_refuse(c->server->core, GS_GRPC_REFUSED_EVICTED);
	if (c->state == UP && c->session->greeted) {
		gs_grpc_session_leave(c->session, NGHTTP2_NO_ERROR, "closed for a new connection");
		conn_flush(c);
	}
	gs_grpc_conn_close(c);
}

void gs_grpc_conn_new(struct gs_grpc_server *s, int fd, uint64_t key)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
	int on = 1;

	if (!c || gs_share_take(&s->shares, key, &c->share) < 0) {
		close(fd);
		free(c);
		gs_grpc_core_refuse(s->core, GS_GRPC_REFUSED_MEMORY);
		return;
	}
	*c = (struct conn){.kind = CONN,
			   .state = SILENT,
			   .server = s,
			   .share = c->share,
			   .wire = {.fd = fd},
			   .events = EPOLLIN,
			   .opened_ns = gs_clock_mono_ns(),
			   .timer.fire = conn_due,
			   .out = GS_BUF_INIT(OUT_MAX_BYTES),
			   .next = s->conns,
			   .prev = &s->conns};
	if (s->conns)
		s->conns->prev = &c->next;
	s->conns = c;
	gs_grpc_count(&s->core->counters.connections, 1);
	gs_grpc_count(&s->core->counters.connections_now, 1);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ||
	    gs_timer_set(&s->core->timers, &c->timer, conn_due_ns(c)) < 0) {
		refuse_conn(c, GS_GRPC_REFUSED_MEMORY);
		return;
	}
	note_work(c);
}

void gs_grpc_conn_ready(struct conn *c)
{
	if (c->state == UP)
		conn_flush(c);
	if (c->state == CLOSED)
		return;
	note_work(c);
	set_timer(c);
}
