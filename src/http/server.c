/*
 * The server's thread: one poll(2) over the listening socket, a wake-up and all connections, each a
 * small machine of states that never blocks:
 *
 *   HANDSHAKE ─► READ ─► WRITE ─► READ ...            (the connection is kept)
 *                            └──► DRAIN ─► closed     (what the client still sends is thrown away,
 *                                                      so that it reads our answer before a reset)
 *
 * A settings object (socket, certificate, secrets, limits) is read and built by the caller's thread
 * and handed over whole; the server's thread owns it from then on.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/http_int.h"

#define REPLY_MAX_BYTES (256U << 20)
#define DRAIN_NS        1000000000ULL
#define DRAIN_MAX_BYTES (1U << 20)
#define PER_TURN        8 /* requests of one connection before others have their turn */

struct settings {
	int listen_fd; /* -1: take over that of the settings before */
	char listen[280], address[80];
	struct gs_tls *tls; /* NULL: none */
	struct gs_http_auth auth;
	unsigned max_connections;
	size_t max_head_bytes, max_body_bytes;
	uint64_t timeout_ns, idle_ns;
};

enum conn_state { HANDSHAKE, READ, WRITE, DRAIN, CLOSED };

struct conn {
	int fd;
	struct gs_tls_conn *tls; /* NULL: none */
	enum conn_state state;
	short events;         /* what poll waits for */
	uint64_t deadline_ns; /* monotonic */
	bool keep, served;
	size_t drained_bytes;
	struct gs_buf in, out;
	size_t sent_bytes;
};

struct gs_http {
	pthread_t thread;
	int wake_fd;
	const struct gs_http_route *routes;
	size_t n_routes;
	void *ctx;
	pthread_mutex_t lock;          /* of pending */
	struct settings *pending;      /* handed over, not taken yet */
	bool leave;                    /* the thread shall close its socket ... */
	int listen_again_fd;           /* ... or take this one; -1: none */
	char listen[280], address[80]; /* the caller's copies */
	atomic_bool stopping;
	_Atomic uint64_t asked, answered;
	_Atomic uint64_t requests[GS_HTTP_CLASSES], connections, refused, timed_out, tls_failures,
		open;
	/* Of the server's thread alone. */
	struct settings *settings;
	struct conn **conns;
	size_t n_conns, room_conns;
	uint64_t accept_after_ns; /* no file descriptors: not before */
	char *scratch;            /* the head that is being read, with terminators */
};

static void settings_free(struct settings **ref)
{
	struct settings *s = *ref;

	if (!s)
		return;
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	gs_tls_close(&s->tls);
	explicit_bzero(&s->auth, sizeof(s->auth));
	free(s);
	*ref = NULL;
}

/* --- connections --- */

static void conn_close(struct gs_http *h, struct conn *c)
{
	if (c->state == CLOSED)
		return;
	gs_tls_conn_free(&c->tls);
	close(c->fd);
	gs_buf_fini(&c->in);
	gs_buf_fini(&c->out);
	c->state = CLOSED;
	h->open--;
}

static ssize_t raw_result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? GS_TLS_WANT_READ : GS_TLS_FAILED;
}

static ssize_t conn_read(struct conn *c, void *data, size_t bytes)
{
	return c->tls ? gs_tls_conn_read(c->tls, data, bytes)
		      : raw_result(recv(c->fd, data, bytes, 0));
}

static ssize_t conn_write(struct conn *c, const void *data, size_t bytes)
{
	ssize_t n;

	if (c->tls)
		return gs_tls_conn_write(c->tls, data, bytes);
	n = raw_result(send(c->fd, data, bytes, MSG_NOSIGNAL));
	return n == GS_TLS_WANT_READ ? GS_TLS_WANT_WRITE : n;
}

/* True: it would block, and poll waits for what it wants. */
static bool would_block(struct conn *c, ssize_t r)
{
	if (r == GS_TLS_WANT_READ)
		c->events = POLLIN;
	else if (r == GS_TLS_WANT_WRITE)
		c->events = POLLOUT;
	return r == GS_TLS_WANT_READ || r == GS_TLS_WANT_WRITE;
}

/* --- requests --- */

/* The answer as bytes in c->out; the connection then writes. */
static void answer(struct gs_http *h, struct conn *c, const struct gs_http_request *q,
		   struct gs_http_reply *reply, const char *more, bool keep)
{
	bool gzip = gs_http_accepts_gzip(gs_http_header(q, "accept-encoding"));
	int class = reply->status / 100;

	c->keep = keep;
	c->served = true;
	c->state = WRITE;
	c->sent_bytes = 0;
	c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
	if (class >= 1 && class <= GS_HTTP_CLASSES)
		h->requests[class - 1]++;
	if (gs_http_reply_write(&c->out, q, reply, more, gzip, keep) < 0)
		conn_close(h, c);
}

static void refuse(struct gs_http *h, struct conn *c, int status, const char *text)
{
	struct gs_http_reply reply = {.body = GS_BUF_INIT(4096)};
	struct gs_http_request none = {.query = ""};

	gs_http_say(&reply, status, text);
	gs_buf_reset(&c->in);
	answer(h, c, &none, &reply, "", false);
	gs_buf_fini(&reply.body);
}

/* True: a request was answered or refused. False: more bytes are needed. */
static bool take_request(struct gs_http *h, struct conn *c)
{
	const struct settings *s = h->settings;
	struct gs_http_reply reply = {.status = 200,
				      .type = "text/plain; charset=utf-8",
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
		refuse(h, c, head ? (int)-head : 431, gs_http_why_refused(head ? (int)-head : 431));
		return true;
	}
	if (q.content_bytes > s->max_body_bytes) {
		refuse(h, c, 413, "the body of the request is larger than this server takes");
		return true;
	}
	if (c->in.bytes < (size_t)head + q.content_bytes)
		return false;
	q.body = c->in.data + head;
	gs_http_serve(&(struct gs_http_site){h->routes, h->n_routes, h->ctx, &s->auth}, &q, &reply,
		      more, sizeof(more));
	answer(h, c, &q, &reply, more, q.keep_alive && !h->stopping);
	gs_buf_fini(&reply.body);
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
	int r = gs_tls_conn_accept(c->tls);

	if (r == 0) {
		c->state = READ;
		return true;
	}
	if (would_block(c, r))
		return false;
	h->tls_failures++;
	if (r == GS_TLS_PLAIN_HTTP)
		(void)!send(c->fd, plain, sizeof(plain) - 1, MSG_NOSIGNAL);
	conn_close(h, c);
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
		conn_close(h, c);
		return false;
	}
	n = conn_read(c, piece, room < sizeof(piece) ? room : sizeof(piece));
	if (n > 0) {
		if (c->in.bytes == 0) /* a request begins */
			c->deadline_ns = gs_clock_mono_ns() + s->timeout_ns;
		if (gs_buf_put(&c->in, piece, (size_t)n) == 0)
			return true;
	} else if (would_block(c, n)) {
		return false;
	}
	conn_close(h, c);
	return false;
}

static bool step_write(struct gs_http *h, struct conn *c)
{
	ssize_t n;

	if (c->sent_bytes < c->out.bytes) {
		n = conn_write(c, c->out.data + c->sent_bytes, c->out.bytes - c->sent_bytes);
		if (n > 0)
			c->sent_bytes += (size_t)n;
		else if (!would_block(c, n))
			conn_close(h, c);
		return n > 0;
	}
	gs_buf_fini(&c->out); /* an idle connection holds no memory */
	if (c->in.bytes == 0)
		gs_buf_fini(&c->in);
	if (c->keep) {
		c->state = READ;
		c->deadline_ns = gs_clock_mono_ns() +
				 (c->in.bytes ? h->settings->timeout_ns : h->settings->idle_ns);
		return true;
	}
	if (c->tls)
		gs_tls_conn_shutdown(c->tls);
	shutdown(c->fd, SHUT_WR);
	c->state = DRAIN;
	c->deadline_ns = gs_clock_mono_ns() + DRAIN_NS;
	return true;
}

static bool step_drain(struct gs_http *h, struct conn *c)
{
	char piece[8192];
	ssize_t n = raw_result(recv(c->fd, piece, sizeof(piece), 0));

	if (n > 0 && (c->drained_bytes += (size_t)n) < DRAIN_MAX_BYTES)
		return true;
	if (n <= 0 && would_block(c, n))
		return false;
	conn_close(h, c);
	return false;
}

static void step(struct gs_http *h, struct conn *c)
{
	unsigned answered = 0;
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
		case WRITE:
			more = step_write(h, c);
			break;
		case DRAIN:
			more = step_drain(h, c);
			break;
		case CLOSED:
			return;
		}
		answered += before == READ && c->state == WRITE;
	}
	if (more && c->state != CLOSED)
		c->events = POLLIN | POLLOUT; /* its next turn is at once */
}

static void time_out(struct gs_http *h, struct conn *c)
{
	bool idle = c->state == READ && c->in.bytes == 0 && c->served;

	if (!idle && c->state != DRAIN)
		h->timed_out++;
	if (c->state == READ && c->in.bytes) {
		refuse(h, c, 408, "the request did not come in time");
		step(h, c);
		return;
	}
	conn_close(h, c);
}

/* --- new connections --- */

/* Room for one more: a connection that only waits for its next request goes first. */
static bool make_room(struct gs_http *h)
{
	struct conn *oldest = NULL;
	size_t n = 0;

	for (size_t i = 0; i < h->n_conns; i++) {
		struct conn *c = h->conns[i];

		n += c->state != CLOSED;
		if (c->state == READ && c->in.bytes == 0 && c->served &&
		    (!oldest || c->deadline_ns < oldest->deadline_ns))
			oldest = c;
	}
	if (n < h->settings->max_connections)
		return true;
	if (!oldest)
		return false;
	conn_close(h, oldest);
	return true;
}

static struct conn *conn_new(struct gs_http *h, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct conn **more;

	if (c && h->n_conns == h->room_conns) {
		more = realloc(h->conns, (h->room_conns * 2 + 16) * sizeof(*more));
		if (more) {
			h->conns = more;
			h->room_conns = h->room_conns * 2 + 16;
		}
	}
	if (c && h->settings->tls)
		c->tls = gs_tls_conn_new(h->settings->tls, fd);
	if (!c || h->n_conns == h->room_conns || (h->settings->tls && !c->tls)) {
		if (c)
			gs_tls_conn_free(&c->tls);
		free(c);
		return NULL;
	}
	c->fd = fd;
	c->state = c->tls ? HANDSHAKE : READ;
	c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
	c->in = GS_BUF_INIT(h->settings->max_head_bytes + h->settings->max_body_bytes);
	c->out = GS_BUF_INIT(REPLY_MAX_BYTES + 4096);
	h->conns[h->n_conns++] = c;
	h->open++;
	return c;
}

static void accept_all(struct gs_http *h)
{
	/* Not endlessly: those who are connected have their turn as well. */
	for (int i = 0; i < 64; i++) {
		int fd = accept4(h->settings->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct conn *c;

		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				h->accept_after_ns = gs_clock_mono_ns() + 100000000;
			return;
		}
		h->connections++;
		c = make_room(h) ? conn_new(h, fd) : NULL;
		if (!c) {
			h->refused++;
			close(fd);
			continue;
		}
		step(h, c);
	}
}

/* --- the loop --- */

static void forget_closed(struct gs_http *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_conns; i++)
		if (h->conns[i]->state == CLOSED)
			free(h->conns[i]);
		else
			h->conns[n++] = h->conns[i];
	h->n_conns = n;
}

/* Take over what the caller's thread handed in. */
static void take_settings(struct gs_http *h)
{
	struct settings *s;

	pthread_mutex_lock(&h->lock);
	s = gs_take(h->pending);
	if (h->leave)
		gs_close_p(&h->settings->listen_fd);
	h->leave = false;
	if (h->listen_again_fd >= 0)
		h->settings->listen_fd = gs_take_fd(&h->listen_again_fd);
	pthread_mutex_unlock(&h->lock);
	if (!s)
		return;
	if (s->listen_fd < 0)
		s->listen_fd = gs_take_fd(&h->settings->listen_fd);
	free(h->scratch);
	h->scratch = malloc(s->max_head_bytes + 1);
	settings_free(&h->settings);
	h->settings = s;
	if (!h->scratch)
		abort(); /* of no memory for some kilobytes nothing can be told either */
	/* Running requests are measured with the new limits; their buffers may grow to them. */
	for (size_t i = 0; i < h->n_conns; i++)
		h->conns[i]->in.max_bytes = s->max_head_bytes + s->max_body_bytes;
}

static int wait_ms(const struct gs_http *h, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < h->n_conns; i++)
		if (h->conns[i]->deadline_ns < next)
			next = h->conns[i]->deadline_ns;
	if (h->accept_after_ns > now_ns && h->accept_after_ns < next)
		next = h->accept_after_ns;
	if (next == UINT64_MAX)
		return -1;
	if (next <= now_ns)
		return 0;
	return next - now_ns > 3600000000000ULL ? 3600000 : (int)((next - now_ns) / 1000000 + 1);
}

/* One turn. */
static void turn(struct gs_http *h, struct pollfd *fds)
{
	uint64_t now = gs_clock_mono_ns(), woken;
	size_t n = h->n_conns;

	fds[0] = (struct pollfd){h->wake_fd, POLLIN, 0};
	fds[1] = (struct pollfd){h->accept_after_ns > now ? -1 : h->settings->listen_fd, POLLIN, 0};
	for (size_t i = 0; i < n; i++)
		fds[i + 2] = (struct pollfd){h->conns[i]->fd, h->conns[i]->events, 0};
	if (poll(fds, (nfds_t)n + 2, wait_ms(h, now)) < 0)
		return;
	if (fds[0].revents && read(h->wake_fd, &woken, sizeof(woken)) == sizeof(woken)) {
		uint64_t asked = h->asked; /* before: what is asked for behind it is not done */

		take_settings(h);
		h->answered = asked;
	}
	for (size_t i = 0; i < n; i++)
		if (fds[i + 2].revents)
			step(h, h->conns[i]);
	now = gs_clock_mono_ns();
	for (size_t i = 0; i < n; i++)
		if (h->conns[i]->state != CLOSED && h->conns[i]->deadline_ns <= now)
			time_out(h, h->conns[i]);
	if (fds[1].revents)
		accept_all(h);
	forget_closed(h);
}

static void *server_thread(void *arg)
{
	struct gs_http *h = arg;
	struct pollfd *fds = NULL;
	size_t room = 0;

	pthread_setname_np(pthread_self(), "http");
	while (!h->stopping) {
		if (!fds || room < h->n_conns + 2) {
			struct pollfd *more = realloc(fds, (h->n_conns * 2 + 32) * sizeof(*more));

			if (!more)
				break;
			fds = more;
			room = h->n_conns * 2 + 32;
		}
		turn(h, fds);
	}
	free(fds);
	return NULL;
}

/* --- for the caller --- */

static int settings_new(const struct gs_http_options *o, const char *listening,
			struct settings **ret_settings, struct gs_err *err)
{
	GS_CLEANUP(settings_free) struct settings *s = calloc(1, sizeof(*s));
	bool tls = o->tls_cert && o->tls_cert[0];
	int r;

	if (!s)
		return -ENOMEM;
	s->listen_fd = -1;
	s->max_connections = o->max_connections ? o->max_connections : 64;
	s->max_head_bytes = o->max_head_bytes ? o->max_head_bytes : 16384;
	s->max_body_bytes = o->max_body_bytes;
	s->timeout_ns = o->timeout_ns ? o->timeout_ns : 10000000000ULL;
	s->idle_ns = o->idle_ns ? o->idle_ns : 90000000000ULL;
	snprintf(s->listen, sizeof(s->listen), "%s", o->listen);
	r = gs_http_auth_load(&s->auth, o->token_file, o->basic_file, err);
	if (r == 0 && tls)
		r = gs_tls_open(o->tls_cert, o->tls_key ? o->tls_key : "", o->tls_client_ca,
				&s->tls, err);
	if (r == 0 && (!listening || strcmp(listening, o->listen) != 0)) {
		int fd = listening ? -ENOENT
				   : gs_http_listen_inherited(s->address, sizeof(s->address), err);

		if (fd == -ENOENT)
			fd = gs_http_listen(o->listen, s->address, sizeof(s->address), err);
		s->listen_fd = fd;
		r = s->listen_fd < 0 ? s->listen_fd : 0;
	}
	if (r == 0)
		*ret_settings = gs_take(s);
	return r;
}

int gs_http_check(const struct gs_http_options *o, struct gs_err *err)
{
	GS_CLEANUP(settings_free) struct settings *s = NULL;

	return settings_new(o, o->listen, &s, err); /* "listening there already" */
}

/* The thread with every signal blocked: they are the program's business, and SIGPIPE (OpenSSL's
 * write(2) to a client that went) nobody's. */
static int start_thread(struct gs_http *h)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&h->thread, NULL, server_thread, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int gs_http_start(const struct gs_http_options *o, struct gs_http **ret_http, struct gs_err *err)
{
	struct gs_http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	pthread_mutex_init(&h->lock, NULL);
	h->routes = o->routes;
	h->n_routes = o->n_routes;
	h->ctx = o->ctx;
	h->listen_again_fd = -1;
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = h->wake_fd < 0 ? -errno : settings_new(o, NULL, &h->settings, err);
	if (r == 0 && !(h->scratch = malloc(h->settings->max_head_bytes + 1)))
		r = -ENOMEM;
	if (r == 0) {
		memcpy(h->listen, h->settings->listen, sizeof(h->listen));
		memcpy(h->address, h->settings->address, sizeof(h->address));
		r = start_thread(h);
	}
	if (r < 0) {
		settings_free(&h->settings);
		gs_close_p(&h->wake_fd);
		free(h->scratch);
		free(h);
		return r;
	}
	*ret_http = h;
	return 0;
}

static void wake(struct gs_http *h)
{
	uint64_t one = 1;

	(void)!write(h->wake_fd, &one, sizeof(one));
}

/* Wait until the thread has come around. */
static void come_around(struct gs_http *h)
{
	h->asked++;
	wake(h);
	for (int i = 0; i < 2000 && h->answered != h->asked; i++)
		usleep(1000);
}

/* From 127.0.0.1 to * on the same port: our own socket is in the way. Leave it, and take it again
 * when the new one cannot be had. */
static int swap_address(struct gs_http *h, const struct gs_http_options *o,
			struct settings **ret_settings, struct gs_err *err)
{
	char address[80];
	int r, fd;

	pthread_mutex_lock(&h->lock);
	if (h->pending)
		gs_close_p(&h->pending->listen_fd);
	h->leave = true;
	pthread_mutex_unlock(&h->lock);
	come_around(h);
	r = settings_new(o, h->listen, ret_settings, err);
	if (r == 0)
		return 0;
	fd = gs_http_listen(h->address, address, sizeof(address), NULL);
	pthread_mutex_lock(&h->lock);
	h->listen_again_fd = fd < 0 ? -1 : fd;
	pthread_mutex_unlock(&h->lock);
	come_around(h);
	return r;
}

static bool same_port(const char *listen, const char *address)
{
	const char *a = strrchr(listen, ':'), *b = strrchr(address, ':');

	return a && b && strcmp(a, b) == 0;
}

int gs_http_reload(struct gs_http *h, const struct gs_http_options *o, struct gs_err *err)
{
	struct settings *s = NULL;
	int r = settings_new(o, h->listen, &s, err);

	if (r == -EADDRINUSE && same_port(o->listen, h->address))
		r = swap_address(h, o, &s, err);
	if (r < 0)
		return r;
	if (s->listen_fd >= 0) {
		memcpy(h->listen, s->listen, sizeof(h->listen));
		memcpy(h->address, s->address, sizeof(h->address));
	}
	pthread_mutex_lock(&h->lock);
	/* One that the thread has not even taken: its socket may be the one to keep. */
	if (h->pending && s->listen_fd < 0)
		s->listen_fd = gs_take_fd(&h->pending->listen_fd);
	settings_free(&h->pending);
	h->pending = s;
	pthread_mutex_unlock(&h->lock);
	wake(h);
	return 0;
}

void gs_http_stop(struct gs_http **ref)
{
	struct gs_http *h = *ref;

	if (!h)
		return;
	h->stopping = true;
	wake(h);
	pthread_join(h->thread, NULL);
	for (size_t i = 0; i < h->n_conns; i++) {
		conn_close(h, h->conns[i]);
		free(h->conns[i]);
	}
	free(h->conns);
	settings_free(&h->settings);
	settings_free(&h->pending);
	gs_close_p(&h->listen_again_fd);
	close(h->wake_fd);
	pthread_mutex_destroy(&h->lock);
	free(h->scratch);
	free(h);
	*ref = NULL;
}

const char *gs_http_address(const struct gs_http *h)
{
	return h->address;
}

bool gs_http_answers(struct gs_http *h)
{
	bool came = h->answered == h->asked;

	h->asked++;
	wake(h);
	return came;
}

void gs_http_stats(const struct gs_http *h, struct gs_http_stats *s)
{
	for (int i = 0; i < GS_HTTP_CLASSES; i++)
		s->requests[i] = h->requests[i];
	s->connections = h->connections;
	s->refused = h->refused;
	s->timed_out = h->timed_out;
	s->tls_failures = h->tls_failures;
	s->open = h->open;
}
