/*
 * The client's connection, one state after the other, none of which waits:
 *
 *   IDLE ─connect()─► START ─► RESOLVING ─► CONNECTING ─► HANDSHAKE ─► GREETING ─► UP
 *    ▲                  ▲ next address          └─────────────┴──failed──┘          │
 *    └── all failed ────┴───────────────────────────────────────────────── lost ────┘
 *
 * An epoll of its own holds whatever it waits for, so that its owner has one file descriptor for
 * the client's whole life.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/base/clock.h"
#include "net/grpc/client_int.h"

#define READ_BYTES    65536
#define READS_AT_ONCE 16
#define OUT_BYTES     131072
#define OUT_MAX_BYTES (OUT_BYTES + (1U << 20))

static uint64_t time_after(uint64_t start_ns, uint64_t ns)
{
	return ns > UINT64_MAX - 1 - start_ns ? UINT64_MAX : start_ns + ns;
}

/* --- making one --- */

#define DEFAULT(field, value) (o->field = o->field ? o->field : (value))

static void fill_in(struct gs_grpc_client_options *o)
{
	DEFAULT(max_message_bytes, 4U << 20);
	DEFAULT(max_metadata_bytes, 16384);
	DEFAULT(max_queue_bytes, 4U << 20);
	DEFAULT(window_bytes, 1U << 20);
	DEFAULT(max_calls, 1024);
	DEFAULT(connect_ns, 5000000000ULL);
	DEFAULT(keepalive_ns, 20000000000ULL);
	DEFAULT(keepalive_timeout_ns, 10000000000ULL);
	if (o->window_bytes > NGHTTP2_MAX_WINDOW_SIZE)
		o->window_bytes = NGHTTP2_MAX_WINDOW_SIZE;
}

/* "unix:/PATH": a socket of this machine. */
static bool take_local_target(struct gs_grpc_target *t, const char *text)
{
	const char *path = text + 5;

	if (strncmp(text, "unix:/", 6) != 0 || strlen(path) >= sizeof(t->socket.sun_path))
		return false;
	t->socket.sun_family = AF_UNIX;
	strcpy(t->socket.sun_path, path);
	t->local = (struct addrinfo){.ai_family = AF_UNIX,
				     .ai_socktype = SOCK_STREAM,
				     .ai_addr = (struct sockaddr *)&t->socket,
				     .ai_addrlen = sizeof(t->socket)};
	strcpy(t->host, "localhost"); /* for a certificate, where no other name is given */
	return true;
}

static int read_targets(struct gs_grpc_client *c, struct gs_err *err)
{
	if (c->o.n_addresses < 1 || c->o.n_addresses > GS_GRPC_LISTEN_MAX)
		return gs_err_set(err, -EINVAL, "one to %d addresses to connect to are needed",
				  GS_GRPC_LISTEN_MAX);
	c->targets = calloc(c->o.n_addresses, sizeof(*c->targets));
	if (!c->targets)
		return -ENOMEM;
	for (size_t i = 0; i < c->o.n_addresses; i++) {
		struct gs_grpc_target *t = &c->targets[i];

		snprintf(t->text, sizeof(t->text), "%s", c->o.addresses[i]);
		if (take_local_target(t, c->o.addresses[i]))
			continue;
		if (!gs_net_split(c->o.addresses[i], t->host, sizeof(t->host), t->port,
				  sizeof(t->port)) ||
		    strcmp(t->host, "*") == 0)
			return gs_err_set(
				err, -EINVAL,
				"cannot connect to \"%s\": an address is HOST:PORT, [IPv6]:PORT or unix:/PATH",
				c->o.addresses[i]);
	}
	return 0;
}

static int copy_texts(struct gs_grpc_client *c, struct gs_err *err)
{
	const struct gs_grpc_client_options *o = &c->o;

	if (o->token && o->token[0]) {
		if (!gs_grpc_value_valid(o->token, strlen(o->token)))
			return gs_err_set(err, -EINVAL,
					  "the token holds characters that cannot be sent");
		if (asprintf(&c->bearer, "Bearer %s", o->token) < 0)
			return -ENOMEM;
	}
	if (o->user_agent && !gs_grpc_value_valid(o->user_agent, strlen(o->user_agent)))
		return gs_err_set(err, -EINVAL,
				  "the user agent holds characters that cannot be sent");
	c->user_agent = strdup(o->user_agent ? o->user_agent : "gpuscope/" GS_VERSION);
	if (o->server_name && o->server_name[0])
		c->server_name = strdup(o->server_name);
	if (!c->user_agent || (o->server_name && o->server_name[0] && !c->server_name))
		return -ENOMEM;
	/* Lent by the caller for the call alone. */
	c->o.addresses = NULL;
	c->o.token = c->o.user_agent = c->o.server_name = NULL;
	return 0;
}

int gs_grpc_client_new(const struct gs_grpc_client_options *o, struct gs_grpc_client **ret_client,
		       struct gs_err *err)
{
	const struct gs_grpc_tls_options tls = {
		.ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key};
	GS_CLEANUP(gs_grpc_client_free) struct gs_grpc_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->wire.fd = -1;
	c->epoll_fd = -1;
	memcpy(&c->o, o, o->size < sizeof(c->o) ? o->size : sizeof(c->o));
	fill_in(&c->o);
	c->keepalive_ns = c->o.keepalive_ns;
	c->held.max_bytes = UINT64_MAX; /* bounded by max_calls and max_message_bytes */
	c->out = GS_BUF_INIT(OUT_MAX_BYTES);
	r = read_targets(c, err);
	if (r == 0)
		r = copy_texts(c, err);
	if (r == 0 && o->tls)
		r = gs_grpc_tls_open(&tls, &c->tls, err);
	if (r < 0)
		return r;
	c->in = malloc(READ_BYTES);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!c->in || c->epoll_fd < 0)
		return c->in ? -errno : -ENOMEM;
	*ret_client = gs_take(c);
	return 0;
}

/* Whatever an attempt or a connection holds. */
static void drop_connection(struct gs_grpc_client *c)
{
	gs_grpc_resolve_drop(&c->resolve);
	if (c->found)
		freeaddrinfo(c->found);
	c->found = c->candidate = NULL;
	nghttp2_session_del(c->h2);
	c->h2 = NULL;
	gs_tls_wire_fini(&c->wire);
	gs_buf_fini(&c->out);
	c->sent_bytes = 0;
	c->events = 0;
	c->greeted = c->going_away = c->leaving = c->closing = c->lost = false;
	c->pinged_ns = 0;
}

void gs_grpc_client_free(struct gs_grpc_client **ref)
{
	struct gs_grpc_client *c = *ref;

	*ref = NULL;
	if (!c)
		return;
	gs_grpc_client_forget_all(c);
	drop_connection(c);
	gs_grpc_tls_close(&c->tls);
	gs_close_p(&c->epoll_fd);
	free(c->timers.heap);
	free(c->targets);
	if (c->bearer)
		explicit_bzero(c->bearer, strlen(c->bearer));
	free(c->bearer);
	free(c->user_agent);
	free(c->server_name);
	free(c->in);
	free(c);
}

/* --- the end of an attempt or a connection --- */

static void go_idle(struct gs_grpc_client *c, enum gs_grpc_status status, const char *why)
{
	char text[sizeof(c->why)];

	snprintf(text, sizeof(text), "%s", why);
	gs_grpc_client_end_all(c, status == GS_GRPC_OK ? GS_GRPC_CANCELLED : status, text);
	drop_connection(c);
	c->state = GS_GRPC_IDLE;
	if (c->o.events.disconnected)
		c->o.events.disconnected(c->o.ctx, status, text);
}

static enum gs_grpc_status failed_status(const struct gs_grpc_client *c)
{
	return c->wrong_tls ? GS_GRPC_FAILED_PRECONDITION : GS_GRPC_UNAVAILABLE;
}

static void lose_connection(struct gs_grpc_client *c, const char *why)
{
	bool left = c->leaving;

	c->target = (c->target + 1) % c->o.n_addresses;
	go_idle(c, left ? GS_GRPC_OK : failed_status(c), why);
}

static void watch_socket(struct gs_grpc_client *c, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events};

	if (c->events == events)
		return;
	(void)epoll_ctl(c->epoll_fd, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
	c->events = events;
}

/* The address did not work: another of the same name, or of the list. */
static void next_candidate(struct gs_grpc_client *c, const char *why)
{
	const struct gs_grpc_target *t = &c->targets[c->target];
	char text[sizeof(c->why)];

	c->stats.connect_failures++;
	snprintf(c->why, sizeof(c->why), "cannot connect to %s%s%s%s: %s", t->text,
		 c->address[0] ? " (" : "", c->address, c->address[0] ? ")" : "", why);
	nghttp2_session_del(c->h2);
	c->h2 = NULL;
	gs_tls_wire_fini(&c->wire);
	gs_buf_fini(&c->out);
	c->sent_bytes = 0;
	c->events = 0;
	c->state = GS_GRPC_START;
	if (c->candidate)
		c->candidate = c->candidate->ai_next;
	if (c->candidate)
		return;
	if (c->found)
		freeaddrinfo(c->found);
	c->found = NULL;
	c->target = (c->target + 1) % c->o.n_addresses;
	if (++c->n_tried < c->o.n_addresses)
		return;
	memcpy(text, c->why, sizeof(text));
	go_idle(c, failed_status(c), text);
}

/* --- the steps; true: go on at once --- */

static bool start_address(struct gs_grpc_client *c)
{
	const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM,
					 .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};
	struct gs_grpc_target *t = &c->targets[c->target];
	int r;

	c->address[0] = '\0';
	c->started_ns = gs_clock_mono_ns();
	if (t->local.ai_family) {
		c->candidate = &t->local;
		return true;
	}
	if (getaddrinfo(t->host, t->port, &numeric, &c->found) == 0) {
		c->candidate = c->found;
		return true;
	}
	c->found = NULL;
	r = gs_grpc_resolve_start(t->host, t->port, &c->resolve);
	if (r < 0) {
		next_candidate(c, strerror(-r));
		return true;
	}
	watch_socket(c, gs_grpc_resolve_fd(c->resolve), EPOLLIN);
	c->state = GS_GRPC_RESOLVING;
	return true;
}

static bool step_resolving(struct gs_grpc_client *c)
{
	char why[300];
	int r = gs_grpc_resolve_result(c->resolve, &c->found, why, sizeof(why));

	if (r == -EAGAIN)
		return false;
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, gs_grpc_resolve_fd(c->resolve), NULL);
	c->events = 0;
	gs_grpc_resolve_drop(&c->resolve);
	if (r < 0) {
		next_candidate(c, why);
	} else {
		c->candidate = c->found;
		c->state = GS_GRPC_START;
	}
	return true;
}

static bool start_connect(struct gs_grpc_client *c)
{
	const struct addrinfo *a = c->candidate;
	const struct gs_grpc_target *t = &c->targets[c->target];
	struct sockaddr_storage address = {0};
	bool by_owner = a == &t->local && c->o.connect_local;
	int fd = by_owner ? c->o.connect_local(c->o.ctx, c->target)
			  : socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	memcpy(&address, a->ai_addr, a->ai_addrlen);
	if (a == &t->local) {
		strcpy(c->authority, t->host);
	} else {
		gs_net_text(&address, c->address, sizeof(c->address));
		snprintf(c->authority, sizeof(c->authority),
			 strchr(t->host, ':') ? "[%s]:%s" : "%s:%s", t->host, t->port);
	}
	c->started_ns = gs_clock_mono_ns();
	if (fd < 0) {
		next_candidate(c, strerror(by_owner ? -fd : errno));
		return true;
	}
	if (a->ai_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!by_owner && connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) {
		int saved = errno;

		close(fd);
		next_candidate(c, strerror(saved));
		return true;
	}
	c->wire = GS_TLS_WIRE(fd);
	if (gs_grpc_wire_start(&c->wire, c->tls, c->server_name ? c->server_name : t->host) < 0) {
		next_candidate(c, "no memory for TLS");
		return true;
	}
	watch_socket(c, c->wire.fd, EPOLLOUT);
	c->state = GS_GRPC_CONNECTING;
	return true;
}

static bool step_connecting(struct gs_grpc_client *c)
{
	struct pollfd p = {.fd = c->wire.fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int error = 0;

	if (poll(&p, 1, 0) <= 0)
		return false;
	if (getsockopt(c->wire.fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
		error = errno;
	if (error)
		next_candidate(c, strerror(error));
	else
		c->state = GS_GRPC_HANDSHAKE;
	return true;
}

static const char *wire_why(struct gs_grpc_client *c, ssize_t r)
{
	const struct gs_tls_wire *w = &c->wire;

	switch (w->fault) {
	case GS_TLS_FAULT_CERTIFICATE:
		snprintf(c->wire_why, sizeof(c->wire_why),
			 "the peer's certificate is not accepted: %s", w->reason);
		return c->wire_why;
	case GS_TLS_FAULT_PLAIN_HTTP:
	case GS_TLS_FAULT_NO_TLS:
		return "the head does not speak TLS: leave out --tls";
	case GS_TLS_FAULT_OTHER:
		snprintf(c->wire_why, sizeof(c->wire_why), "TLS: %s", w->reason);
		return c->wire_why;
	case GS_TLS_FAULT_NONE:
		break;
	}
	if (r == -EPROTONOSUPPORT)
		return "the peer speaks TLS, but not HTTP/2 (ALPN \"h2\")";
	return r == 0 ? "the peer closed the connection" : strerror((int)-r);
}

static bool step_handshake(struct gs_grpc_client *c)
{
	int r = gs_grpc_wire_handshake(&c->wire);

	if (r == -EAGAIN) {
		watch_socket(c, c->wire.fd, (uint32_t)c->wire.wants);
		return false;
	}
	if (r == 0)
		r = gs_grpc_client_h2_new(c);
	if (r < 0) {
		c->wrong_tls = c->wire.fault == GS_TLS_FAULT_PLAIN_HTTP ||
			       c->wire.fault == GS_TLS_FAULT_NO_TLS;
		next_candidate(c, wire_why(c, r));
		return true;
	}
	c->received_ns = gs_clock_mono_ns();
	c->state = GS_GRPC_GREETING;
	return true;
}

/* --- the connection --- */

/* 0, or why it is at its end (words in ret_why). */
static int read_some(struct gs_grpc_client *c, const char **ret_why)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		ssize_t n = gs_tls_wire_read(&c->wire, c->in, READ_BYTES), used;

		if (n == -EAGAIN)
			return 0;
		if (n <= 0) {
			*ret_why = wire_why(c, n);
			return -ECONNRESET;
		}
		c->received_ns = gs_clock_mono_ns();
		c->stats.wire_bytes_in += (uint64_t)n;
		/* An alert of TLS in place of the first frame, which would be of more than a MiB.
		 */
		if (!c->wire.ssl && !c->greeted && n >= 2 && c->in[0] == 21 && c->in[1] == 3) {
			*ret_why = "the head requires TLS: use --tls";
			c->wrong_tls = true;
			return -EPROTO;
		}
		used = nghttp2_session_mem_recv(c->h2, c->in, (size_t)n);
		if (used < 0) {
			*ret_why = "the peer does not speak HTTP/2";
			return -EPROTO;
		}
	}
	return 0;
}

static int write_some(struct gs_grpc_client *c, const char **ret_why)
{
	for (;;) {
		ssize_t n;

		if (c->sent_bytes == c->out.bytes) {
			size_t before;

			c->sent_bytes = 0;
			gs_buf_reset(&c->out);
			before = c->out.bytes;
			if (gs_grpc_pull(c->h2, &c->out, OUT_BYTES) < 0) {
				*ret_why = "out of memory, or an HTTP/2 protocol error";
				return -EPROTO;
			}
			c->stats.wire_bytes_out += c->out.bytes - before;
			if (c->out.bytes == 0) {
				gs_buf_fini(&c->out);
				watch_socket(c, c->wire.fd, EPOLLIN);
				return 0;
			}
		}
		n = gs_tls_wire_write(&c->wire, c->out.data + c->sent_bytes,
				      c->out.bytes - c->sent_bytes);
		if (n == -EAGAIN) {
			watch_socket(c, c->wire.fd, EPOLLIN | (uint32_t)c->wire.wants);
			return 0;
		}
		if (n < 0) {
			*ret_why = wire_why(c, n);
			return (int)n;
		}
		c->sent_bytes += (size_t)n;
	}
}

static bool h2_done(const struct gs_grpc_client *c)
{
	return !nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2) &&
	       c->sent_bytes == c->out.bytes;
}

/* A PING is out, and nothing at all has come since. */
static bool waits_for_life(const struct gs_grpc_client *c)
{
	return c->pinged_ns && c->received_ns < c->pinged_ns;
}

static uint64_t keepalive_due_ns(const struct gs_grpc_client *c)
{
	if (waits_for_life(c))
		return time_after(c->pinged_ns, c->o.keepalive_timeout_ns);
	return c->n_requests || c->o.keepalive_idle ? time_after(c->received_ns, c->keepalive_ns)
						    : UINT64_MAX;
}

static void keep_alive(struct gs_grpc_client *c, uint64_t now)
{
	if (c->state != GS_GRPC_UP || waits_for_life(c) || now < keepalive_due_ns(c))
		return;
	nghttp2_submit_ping(c->h2, 0, NULL);
	c->pinged_ns = now;
}

static bool step_connection(struct gs_grpc_client *c)
{
	char said[sizeof(c->why)];
	const char *why = NULL;
	uint64_t now;
	int r = read_some(c, &why);

	if (r == 0 && c->greeted && !c->going_away && c->state == GS_GRPC_GREETING) {
		c->state = GS_GRPC_UP;
		c->stats.connects++;
		if (c->o.events.connected)
			c->o.events.connected(c->o.ctx, c->address);
	}
	now = gs_clock_mono_ns();
	gs_timers_run(&c->timers, now);
	if (r == 0 && waits_for_life(c) && now >= keepalive_due_ns(c)) {
		why = "the peer does not answer any more";
		r = -ETIMEDOUT;
	}
	if (r == 0 && c->leaving && !c->closing && !c->n_requests) {
		c->closing = true;
		nghttp2_session_terminate_session(c->h2, NGHTTP2_NO_ERROR);
	}
	keep_alive(c, now);
	if (r == 0)
		r = write_some(c, &why);
	if (r == 0 && h2_done(c)) {
		why = c->leaving ? "left" : "HTTP/2 protocol error";
		gs_tls_wire_shut(&c->wire);
		r = -ECONNRESET;
	}
	if (r == 0)
		return false;
	if (c->going_away && !c->leaving) {
		snprintf(said, sizeof(said), "%s", c->why); /* which both overwrite */
		why = said;
	}
	if (c->state == GS_GRPC_GREETING)
		next_candidate(c, why);
	else
		lose_connection(c, why);
	return true;
}

static bool step_client(struct gs_grpc_client *c)
{
	bool early =
		c->state != GS_GRPC_IDLE && c->state != GS_GRPC_UP && c->state != GS_GRPC_START;

	if (early && gs_clock_mono_ns() >= time_after(c->started_ns, c->o.connect_ns)) {
		if (c->resolve) {
			(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, gs_grpc_resolve_fd(c->resolve),
					NULL);
			gs_grpc_resolve_drop(&c->resolve);
		}
		next_candidate(c, "no answer in time");
		return true;
	}
	switch (c->state) {
	case GS_GRPC_IDLE:
		return false;
	case GS_GRPC_START:
		return c->candidate ? start_connect(c) : start_address(c);
	case GS_GRPC_RESOLVING:
		return step_resolving(c);
	case GS_GRPC_CONNECTING:
		return step_connecting(c);
	case GS_GRPC_HANDSHAKE:
		return step_handshake(c);
	case GS_GRPC_GREETING:
	case GS_GRPC_UP:
		return step_connection(c);
	}
	return false;
}

/* --- for the owner --- */

int gs_grpc_client_connect(struct gs_grpc_client *c)
{
	if (c->state != GS_GRPC_IDLE)
		return -EALREADY;
	c->n_tried = 0;
	c->wrong_tls = false;
	c->state = GS_GRPC_START;
	return 0;
}

void gs_grpc_client_disconnect(struct gs_grpc_client *c, bool wait_for_calls)
{
	if (c->state == GS_GRPC_IDLE)
		return;
	c->leaving = true;
	if (c->state != GS_GRPC_UP)
		c->lost = true;
	else if (!wait_for_calls)
		gs_grpc_client_end_all(c, GS_GRPC_CANCELLED, "the client is shutting down");
}

int gs_grpc_client_fd(const struct gs_grpc_client *c)
{
	return c->epoll_fd;
}

uint64_t gs_grpc_client_next_ns(const struct gs_grpc_client *c)
{
	uint64_t next = gs_timers_next_ns(&c->timers), due = UINT64_MAX;

	if (c->state == GS_GRPC_IDLE)
		return UINT64_MAX;
	if (c->state == GS_GRPC_START || c->lost)
		return 0;
	if (c->state != GS_GRPC_UP) {
		due = time_after(c->started_ns, c->o.connect_ns);
	} else {
		bool blocked = c->events & EPOLLOUT;

		if ((!blocked && nghttp2_session_want_write(c->h2)) ||
		    (c->leaving && !c->closing && !c->n_requests))
			return 0;
		due = keepalive_due_ns(c);
	}
	return due < next ? due : next;
}

void gs_grpc_client_work(struct gs_grpc_client *c)
{
	/* Not endlessly: all addresses may be refused at once, and be tried again by callbacks. */
	for (int i = 0; i < 64; i++) {
		if (c->lost) {
			go_idle(c, GS_GRPC_OK, "left");
			return;
		}
		if (!step_client(c))
			return;
	}
}

void gs_grpc_client_wait(struct gs_grpc_client *c, uint64_t timeout_ns)
{
	struct pollfd p = {.fd = c->epoll_fd, .events = POLLIN};
	uint64_t now = gs_clock_mono_ns(), until = time_after(now, timeout_ns);
	uint64_t next = gs_grpc_client_next_ns(c), ns;

	if (next < until)
		until = next;
	ns = until > now ? until - now : 0;
	(void)poll(&p, 1, ns > 3600000000000ULL ? 3600000 : (int)((ns + 999999) / 1000000));
	gs_grpc_client_work(c);
}

bool gs_grpc_client_connected(const struct gs_grpc_client *c)
{
	return c->state == GS_GRPC_UP;
}

void gs_grpc_client_stats(const struct gs_grpc_client *c, struct gs_grpc_client_stats *ret_stats)
{
	*ret_stats = c->stats;
	ret_stats->calls_now = c->n_requests;
}
