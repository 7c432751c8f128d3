/*
 * The server's thread: one epoll over listening sockets, a wake-up and all connections.
 *
 *   TLS ─► UP ─► DRAIN ─► gone      (in DRAIN we have said our last, and wait a moment for the
 *                                    client to read it: a close with unread bytes of it would
 *                                    throw away what is still on its way)
 *
 * Each turn: events of sockets, then what other threads asked for, then times, then all sessions
 * that have something to send. A connection reads and writes only so much in a turn.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/net.h"
#include "rpc/server_int.h"

#define READ_BYTES       65536
#define READS_PER_TURN   4
#define RECORDS_PER_TURN 16     /* of TLS, 16 KiB each */
#define OUT_BYTES        131072 /* taken from a session at once */
#define WRITES_PER_TURN  4
#define OUT_MAX_BYTES    (OUT_BYTES + (1U << 20)) /* a header block may come on top */
#define ACCEPTS          64
#define EVENTS           256
#define DRAIN_NS         1000000000ULL

enum kind { LISTENER, WAKE, CONN };

struct listener {
	enum kind kind;
	int fd;
	char address[GS_NET_TEXT_MAX];
};

enum state { HANDSHAKE, UP, DRAIN, CLOSED };

struct conn {
	enum kind kind;
	enum state state;
	struct gs_rpc_server *server;
	struct gs_rpc_wire wire;
	struct gs_rpc_session *session;
	struct conn *next, **prev;
	uint64_t address_key;
	uint32_t events;
	uint64_t opened_ns, heard_ns, pinged_ns; /* pinged_ns 0: nothing unanswered */
	struct gs_rpc_timer timer;
	struct gs_buf out;
	size_t sent_bytes;
};

struct gs_rpc_server {
	enum kind kind; /* WAKE */
	struct gs_rpc_core *core;
	pthread_t thread;
	struct listener listeners[GS_RPC_LISTEN_MAX];
	size_t n_listeners;
	char *cert, *key, *client_ca; /* owned copies, for reloading */
	struct gs_rpc_tls *tls;       /* under the core's lock */
	atomic_bool stop;
	_Atomic uint64_t grace_until_ns;
	/* Of the server's thread alone. */
	int epoll_fd;
	struct conn *conns, *dead;
	struct gs_map per_address;
	bool aborted;
	struct gs_rpc_timer accept_again, grace;
	uint8_t *in;
};

/* --- times of connections --- */

static uint64_t after(uint64_t start_ns, uint64_t ns)
{
	return ns > UINT64_MAX - 1 - start_ns ? UINT64_MAX : start_ns + ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t conn_due_ns(const struct conn *c)
{
	const struct gs_rpc_server_options *o = &c->server->core->o;
	uint64_t due;

	if (c->state == DRAIN)
		return after(c->opened_ns, DRAIN_NS);
	if (c->state == HANDSHAKE || !c->session->greeted)
		return after(c->opened_ns, o->handshake_ns);
	due = c->pinged_ns ? after(c->pinged_ns, o->keepalive_timeout_ns)
			   : after(c->heard_ns, o->keepalive_ns);
	if (c->session->n_calls == 0)
		due = earlier(due, after(c->session->idle_since_ns, o->idle_ns));
	return due;
}

static void set_timer(struct conn *c)
{
	/* Being heard of only moves it away: that is seen when it fires. */
	uint64_t due = conn_due_ns(c);

	if (c->timer.index && c->timer.due_ns <= due)
		return;
	(void)gs_rpc_timer_set(&c->server->core->timers, &c->timer, due);
}

/* --- connections --- */

static void forget_address(struct gs_rpc_server *s, uint64_t key)
{
	uint64_t n = 0;

	if (gs_map_get(&s->per_address, key, &n) && n > 1)
		(void)gs_map_put(&s->per_address, key, n - 1);
	else
		gs_map_del(&s->per_address, key);
}

static void conn_close(struct conn *c)
{
	struct gs_rpc_server *s = c->server;

	if (c->state == CLOSED)
		return;
	c->state = CLOSED;
	gs_rpc_timer_set(&s->core->timers, &c->timer, UINT64_MAX);
	gs_rpc_session_free(&c->session);
	gs_rpc_wire_fini(&c->wire); /* which takes it out of epoll */
	gs_buf_fini(&c->out);
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	forget_address(s, c->address_key);
	gs_rpc_count(&s->core->counters.connections_now, -1ULL);
	/* Events of this turn may still name it. */
	c->next = s->dead;
	s->dead = c;
}

static void bury(struct gs_rpc_server *s)
{
	while (s->dead) {
		struct conn *c = s->dead;

		s->dead = c->next;
		free(c);
	}
}

static void refuse(struct conn *c, enum gs_rpc_refusal why)
{
	gs_rpc_core_refuse(c->server->core, why);
	conn_close(c);
}

static void want(struct conn *c, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	if (c->state == CLOSED || c->events == events)
		return;
	c->events = events;
	if (epoll_ctl(c->server->epoll_fd, EPOLL_CTL_MOD, c->wire.fd, &e) < 0)
		conn_close(c);
}

static void start_drain(struct conn *c)
{
	gs_rpc_session_free(&c->session);
	gs_buf_fini(&c->out);
	gs_rpc_wire_shut(&c->wire);
	c->state = DRAIN;
	c->opened_ns = gs_clock_mono_ns();
	(void)gs_rpc_timer_set(&c->server->core->timers, &c->timer, conn_due_ns(c));
	want(c, EPOLLIN);
}

/* Write what there is. False: the connection is gone or waits. */
static void conn_flush(struct conn *c)
{
	for (int i = 0; i < WRITES_PER_TURN; i++) {
		ssize_t n;

		if (c->sent_bytes == c->out.bytes) {
			c->sent_bytes = 0;
			gs_buf_reset(&c->out);
			if (gs_rpc_session_output(c->session, &c->out, OUT_BYTES) < 0) {
				conn_close(c);
				return;
			}
			if (c->out.bytes == 0) {
				gs_buf_fini(&c->out); /* an idle connection holds no memory */
				if (gs_rpc_session_done(c->session))
					start_drain(c);
				else
					want(c, EPOLLIN);
				return;
			}
		}
		n = gs_rpc_wire_write(&c->wire, c->out.data + c->sent_bytes,
				      c->out.bytes - c->sent_bytes);
		if (n < 0 && n != -EAGAIN) {
			conn_close(c);
			return;
		}
		if (n < 0) {
			want(c, EPOLLIN | c->wire.wants);
			return;
		}
		c->sent_bytes += (size_t)n;
	}
	want(c, EPOLLIN | EPOLLOUT);
}

static void heard(struct conn *c)
{
	c->heard_ns = gs_clock_mono_ns();
	c->pinged_ns = 0;
}

static void conn_read(struct conn *c)
{
	struct gs_rpc_server *s = c->server;

	for (int i = 0; i < (c->wire.ssl ? RECORDS_PER_TURN : READS_PER_TURN); i++) {
		ssize_t n = gs_rpc_wire_read(&c->wire, s->in, READ_BYTES);

		if (n == -EAGAIN) {
			if (c->wire.wants & EPOLLOUT)
				want(c, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n <= 0) {
			conn_close(c);
			return;
		}
		heard(c);
		if (gs_rpc_session_input(c->session, s->in, (size_t)n) < 0) {
			/* Say GOAWAY if it can still be said. */
			conn_flush(c);
			if (c->state == UP)
				start_drain(c);
			return;
		}
		if (!c->wire.ssl && n < READ_BYTES)
			return;
	}
}

static void conn_up(struct conn *c, struct gs_rpc_peer *peer)
{
	gs_rpc_wire_identity(&c->wire, peer->identity, sizeof(peer->identity));
	if (gs_rpc_session_new(c->server->core, peer, c, &c->session) < 0) {
		refuse(c, GS_RPC_REFUSED_MEMORY);
		return;
	}
	c->state = UP;
	heard(c);
	if (c->server->stop)
		gs_rpc_session_leave(c->session, NGHTTP2_NO_ERROR, "the server stops");
}

static void peer_text(int fd, char *out, size_t bytes)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);

	(void)getpeername(fd, (struct sockaddr *)&a, &n);
	gs_net_text(&a, out, bytes);
}

static void conn_handshake(struct conn *c)
{
	struct gs_rpc_peer *peer;
	char text[GS_NET_TEXT_MAX];
	int r = gs_rpc_wire_handshake(&c->wire);

	if (r == -EAGAIN) {
		want(c, c->wire.wants);
		return;
	}
	if (r < 0) {
		refuse(c, GS_RPC_REFUSED_HANDSHAKE);
		return;
	}
	peer_text(c->wire.fd, text, sizeof(text));
	peer = gs_rpc_peer_new(c->server->core, text);
	if (!peer) {
		refuse(c, GS_RPC_REFUSED_MEMORY);
		return;
	}
	conn_up(c, peer);
}

static void conn_drain(struct conn *c)
{
	char piece[8192];

	for (int i = 0; i < READS_PER_TURN; i++) {
		ssize_t n = recv(c->wire.fd, piece, sizeof(piece), MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			conn_close(c);
		if (n <= 0)
			return;
	}
}

static void conn_event(struct conn *c, uint32_t events)
{
	if (c->state == HANDSHAKE)
		conn_handshake(c);
	if (c->state == UP && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		conn_read(c);
	if (c->state == UP)
		conn_flush(c);
	else if (c->state == DRAIN)
		conn_drain(c);
	if (c->state != CLOSED)
		set_timer(c);
}

static void conn_due(struct gs_rpc_timer *timer)
{
	struct conn *c = (void *)((char *)timer - offsetof(struct conn, timer));
	struct gs_rpc_core *core = c->server->core;
	const struct gs_rpc_server_options *o = &core->o;
	uint64_t now = gs_clock_mono_ns();

	if (conn_due_ns(c) > now) {
		set_timer(c);
		return;
	}
	if (c->state == DRAIN) {
		conn_close(c);
		return;
	}
	if (c->state == HANDSHAKE || !c->session->greeted) {
		refuse(c, GS_RPC_REFUSED_SLOW);
		return;
	}
	if (c->pinged_ns) {
		refuse(c, GS_RPC_REFUSED_SILENT);
		return;
	}
	if (c->session->n_calls == 0 && now >= after(c->session->idle_since_ns, o->idle_ns)) {
		gs_rpc_count(&core->counters.idle_closed, 1);
		gs_rpc_session_leave(c->session, NGHTTP2_NO_ERROR, "idle");
		c->session->idle_since_ns = now; /* should the client not take the hint */
	} else {
		gs_rpc_session_ping(c->session);
		c->pinged_ns = now;
	}
	set_timer(c);
}

/* --- new connections --- */

/* An IPv4 address, or the network of an IPv6 address: of these anybody has 2^64. */
static uint64_t address_key(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
	uint64_t key = 0;

	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		memcpy(&key, v6->sin6_addr.s6_addr + 12, 4);
	else
		memcpy(&key, v6->sin6_addr.s6_addr, 8);
	return key;
}

static enum gs_rpc_refusal room_for(struct gs_rpc_server *s, uint64_t key)
{
	const struct gs_rpc_server_options *o = &s->core->o;
	uint64_t n = 0;

	if (s->core->counters.connections_now >= o->max_connections)
		return GS_RPC_REFUSED_CONNECTIONS;
	(void)gs_map_get(&s->per_address, key, &n);
	if (o->max_connections_per_address && n >= o->max_connections_per_address)
		return GS_RPC_REFUSED_ADDRESS;
	return gs_map_put(&s->per_address, key, n + 1) < 0 ? GS_RPC_REFUSED_MEMORY : 0;
}

static void conn_new(struct gs_rpc_server *s, int fd, uint64_t key)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
	int on = 1, r = -ENOMEM;

	if (!c) {
		close(fd);
		forget_address(s, key);
		gs_rpc_core_refuse(s->core, GS_RPC_REFUSED_MEMORY);
		return;
	}
	*c = (struct conn){.kind = CONN,
			   .server = s,
			   .address_key = key,
			   .events = EPOLLIN,
			   .opened_ns = gs_clock_mono_ns(),
			   .timer.fire = conn_due,
			   .out = GS_BUF_INIT(OUT_MAX_BYTES),
			   .next = s->conns,
			   .prev = &s->conns};
	if (s->conns)
		s->conns->prev = &c->next;
	s->conns = c;
	gs_rpc_count(&s->core->counters.connections, 1);
	gs_rpc_count(&s->core->counters.connections_now, 1);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pthread_mutex_lock(&s->core->lock);
	r = gs_rpc_wire_init(&c->wire, fd, s->tls, NULL);
	pthread_mutex_unlock(&s->core->lock);
	if (r < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ||
	    gs_rpc_timer_set(&s->core->timers, &c->timer, conn_due_ns(c)) < 0) {
		refuse(c, GS_RPC_REFUSED_MEMORY);
		return;
	}
	conn_event(c, 0);
}

static void listen_again(struct gs_rpc_timer *timer)
{
	struct gs_rpc_server *s =
		(void *)((char *)timer - offsetof(struct gs_rpc_server, accept_again));

	for (size_t i = 0; i < s->n_listeners; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

		if (s->listeners[i].fd >= 0)
			(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i].fd, &e);
	}
}

/* No file descriptors: the socket would stay readable, and the thread would run in a circle. */
static void listen_later(struct gs_rpc_server *s)
{
	gs_rpc_core_refuse(s->core, GS_RPC_REFUSED_NO_FD);
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct epoll_event e = {.events = 0, .data.ptr = &s->listeners[i]};

		(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i].fd, &e);
	}
	(void)gs_rpc_timer_set(&s->core->timers, &s->accept_again, gs_clock_mono_ns() + 100000000);
}

static void accept_all(struct gs_rpc_server *s, struct listener *l)
{
	for (int i = 0; i < ACCEPTS && l->fd >= 0; i++) {
		struct sockaddr_storage a = {0};
		socklen_t n = sizeof(a);
		int fd = accept4(l->fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
		enum gs_rpc_refusal why;

		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				listen_later(s);
			return;
		}
		why = room_for(s, address_key(&a));
		if (why == 0) {
			conn_new(s, fd, address_key(&a));
			continue;
		}
		gs_rpc_core_refuse(s->core, why);
		close(fd);
	}
}

/* --- the loop --- */

static void close_listeners(struct gs_rpc_server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++)
		gs_close_p(&s->listeners[i].fd);
	gs_rpc_timer_set(&s->core->timers, &s->accept_again, UINT64_MAX);
}

static void grace_over(struct gs_rpc_timer *timer)
{
	struct gs_rpc_server *s = (void *)((char *)timer - offsetof(struct gs_rpc_server, grace));
	struct conn *next;

	if (s->aborted) {
		/* They had a moment to take what we said. */
		for (struct conn *c = s->conns; c; c = next) {
			next = c->next;
			conn_close(c);
		}
		return;
	}
	s->aborted = true;
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		if (c->session)
			gs_rpc_session_abort_calls(c->session, GS_RPC_UNAVAILABLE,
						   "the server stops");
	}
	(void)gs_rpc_timer_set(&s->core->timers, &s->grace, gs_clock_mono_ns() + DRAIN_NS);
}

static void begin_stop(struct gs_rpc_server *s)
{
	struct conn *next;

	s->core->stopping = true;
	close_listeners(s);
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		if (c->session)
			gs_rpc_session_leave(c->session, NGHTTP2_NO_ERROR, "the server stops");
		else if (c->state == HANDSHAKE)
			conn_close(c);
	}
	if (gs_rpc_timer_set(&s->core->timers, &s->grace, s->grace_until_ns) < 0)
		grace_over(&s->grace);
}

static void serve_ready(struct gs_rpc_server *s)
{
	struct gs_rpc_session *list = s->core->ready;

	/* Those that become ready meanwhile come in the next turn. */
	s->core->ready = NULL;
	while (list) {
		struct gs_rpc_session *session = list;
		struct conn *c = session->owner;

		list = session->next_ready;
		session->is_ready = false;
		session->next_ready = NULL;
		if (c->state == UP)
			conn_flush(c);
		if (c->state != CLOSED)
			set_timer(c);
	}
}

static int wait_ms(struct gs_rpc_server *s)
{
	uint64_t next = gs_rpc_timers_next_ns(&s->core->timers), now;

	if (s->core->ready || gs_rpc_core_pending(s->core))
		return 0;
	if (next == UINT64_MAX)
		return -1;
	now = gs_clock_mono_ns();
	if (next <= now)
		return 0;
	return next - now > 3600000000000ULL ? 3600000 : (int)((next - now + 999999) / 1000000);
}

static void take_wake(struct gs_rpc_server *s)
{
	uint64_t n;

	/* Before the lists are looked at: who adds to them behind it wakes us again. */
	pthread_mutex_lock(&s->core->lock);
	(void)!read(s->core->wake_fd, &n, sizeof(n));
	s->core->woken = false;
	pthread_mutex_unlock(&s->core->lock);
}

static void turn(struct gs_rpc_server *s)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(s->epoll_fd, events, EVENTS, wait_ms(s));

	for (int i = 0; i < n; i++) {
		enum kind *kind = events[i].data.ptr;

		if (*kind == WAKE)
			take_wake(s);
		else if (*kind == LISTENER)
			accept_all(s, events[i].data.ptr);
		else if (((struct conn *)events[i].data.ptr)->state != CLOSED)
			conn_event(events[i].data.ptr, events[i].events);
	}
	if (s->stop && !s->core->stopping)
		begin_stop(s);
	gs_rpc_core_run(s->core);
	gs_rpc_timers_run(&s->core->timers, gs_clock_mono_ns());
	serve_ready(s);
	bury(s);
}

static void *server_thread(void *arg)
{
	struct gs_rpc_server *s = arg;

	pthread_setname_np(pthread_self(), "rpc");
	pthread_mutex_lock(&s->core->lock);
	s->core->thread = pthread_self();
	pthread_mutex_unlock(&s->core->lock);
	while (!s->core->stopping || s->conns)
		turn(s);
	gs_rpc_timer_set(&s->core->timers, &s->grace, UINT64_MAX);
	gs_rpc_core_run(s->core);
	return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(struct gs_rpc_server *s)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&s->thread, NULL, server_thread, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* --- for the caller --- */

static void server_free(struct gs_rpc_server **ref)
{
	struct gs_rpc_server *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->n_listeners; i++)
		gs_close_p(&s->listeners[i].fd);
	gs_close_p(&s->epoll_fd);
	gs_rpc_tls_close(&s->tls);
	gs_map_fini(&s->per_address);
	gs_rpc_core_unref(&s->core);
	free(s->cert);
	free(s->key);
	free(s->client_ca);
	free(s->in);
	free(s);
}

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

static int open_tls(struct gs_rpc_server *s, struct gs_rpc_tls **ret_tls, struct gs_err *err)
{
	const struct gs_rpc_tls_options o = {
		.cert = s->cert, .key = s->key, .ca = s->client_ca, .server = true};

	return gs_rpc_tls_open(&o, ret_tls, err);
}

static int open_all(struct gs_rpc_server *s, const struct gs_rpc_server_options *o,
		    struct gs_err *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

	s->in = malloc(READ_BYTES);
	s->cert = copy(o->tls_cert);
	s->key = copy(o->tls_key);
	s->client_ca = copy(o->tls_client_ca);
	if (!s->in || !s->cert || !s->key || !s->client_ca)
		return -ENOMEM;
	if (s->cert[0] || s->key[0] || s->client_ca[0]) {
		int r = open_tls(s, &s->tls, err);

		if (r < 0)
			return r;
	}
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->core->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->core->wake_fd < 0 ||
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->core->wake_fd, &e) < 0)
		return -errno;
	for (size_t i = 0; i < o->n_listen; i++) {
		struct listener *l = &s->listeners[i];

		*l = (struct listener){.kind = LISTENER};
		l->fd = gs_net_listen(o->listen[i], "the listen address", l->address,
				      sizeof(l->address), err);
		if (l->fd < 0)
			return l->fd;
		s->n_listeners++;
		e.data.ptr = l;
		if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, l->fd, &e) < 0)
			return -errno;
	}
	return 0;
}

int gs_rpc_server_start(const struct gs_rpc_server_options *o, struct gs_rpc_server **ret_server,
			struct gs_err *err)
{
	GS_CLEANUP(server_free) struct gs_rpc_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->kind = WAKE;
	s->epoll_fd = -1;
	s->per_address = GS_MAP_INIT(1U << 22);
	s->accept_again.fire = listen_again;
	s->grace.fire = grace_over;
	if (o->n_listen < 1 || o->n_listen > GS_RPC_LISTEN_MAX)
		return gs_err_set(err, -EINVAL, "one to %d addresses to listen on are needed",
				  GS_RPC_LISTEN_MAX);
	r = gs_rpc_core_new(o, &s->core, err);
	if (r == 0)
		r = open_all(s, o, err);
	if (r == 0)
		r = start_thread(s);
	if (r < 0)
		return r;
	*ret_server = gs_take(s);
	return 0;
}

void gs_rpc_server_stop(struct gs_rpc_server **ref, uint64_t grace_ns)
{
	struct gs_rpc_server *s = *ref;

	if (!s)
		return;
	s->grace_until_ns = after(gs_clock_mono_ns(), grace_ns);
	s->stop = true;
	pthread_mutex_lock(&s->core->lock);
	gs_rpc_core_wake(s->core);
	pthread_mutex_unlock(&s->core->lock);
	pthread_join(s->thread, NULL);
	server_free(ref);
}

int gs_rpc_server_reload_tls(struct gs_rpc_server *s, struct gs_err *err)
{
	struct gs_rpc_tls *tls = NULL, *old;
	int r;

	if (!s->tls)
		return gs_err_set(err, -EINVAL, "the server was started without TLS");
	r = open_tls(s, &tls, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->core->lock);
	old = s->tls;
	s->tls = tls;
	pthread_mutex_unlock(&s->core->lock);
	gs_rpc_tls_close(&old);
	return 0;
}

int gs_rpc_server_post(struct gs_rpc_server *s, void (*fn)(void *arg), void *arg)
{
	return gs_rpc_core_post(s->core, fn, arg);
}

const char *gs_rpc_server_address(const struct gs_rpc_server *s, size_t i)
{
	return i < s->n_listeners ? s->listeners[i].address : NULL;
}

void gs_rpc_server_stats(const struct gs_rpc_server *s, struct gs_rpc_stats *ret_stats)
{
	gs_rpc_core_stats(s->core, ret_stats);
}
