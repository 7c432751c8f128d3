/*
 * The side of a server's process that holds the rights: it starts the server (apart_server.c),
 * answers what that passes on, and starts it again when it ends, hangs or lies. Nothing here reads
 * a byte of a client: what comes over the socket was made by the server from what it understood,
 * and is checked again as if a stranger had written it.
 *
 * The listening socket stays open here, so that clients wait while there is no server.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "net/http/apart_int.h"

#define OUT_MAX_BYTES (REPLY_MAX_BYTES + (8U << 20))
#define OUT_FULL_BYTES                                                                             \
	(1U << 20) /* then the server takes what it asked for before it asks more             \
			 */
#define PER_TURN 8 /* requests, before others have their turn */
#define PING_NS  5000000000ULL
#define HUNG_NS  15000000000ULL

struct http_apart {
	void (*report)(void *ctx, const char *text);
	void *report_ctx;
	struct gs_sandbox_child server;
	_Atomic int pid; /* of server, for threads that ask */
	bool said_hello;
	struct gs_buf in, out;
	size_t sent_bytes;
	uint64_t started_ns, start_after_ns; /* monotonic, as all of these */
	uint64_t received_ns;                /* when it last answered, or took something */
	uint64_t ping_ns;                    /* when to ask it again */
	unsigned n_failures;                 /* ends soon after the start, in a row */
	struct gs_http_stats before, now;    /* of servers that ended; of this one */
	_Atomic uint64_t restarts, hung, lied;
};

static void report_words(const struct http_apart *a, const char *fmt, ...) GS_PRINTF(2, 3);

static void report_words(const struct http_apart *a, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (a->report)
		a->report(a->report_ctx, text);
}

int http_apart_new(struct gs_http *h, const struct gs_http_options *o)
{
	struct http_apart *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->report = o->report;
	a->report_ctx = o->ctx;
	a->server = GS_SANDBOX_NO_CHILD;
	a->in = GS_BUF_INIT(sizeof(struct http_apart_head) + 2 * HTTP_APART_MESSAGE_MAX);
	a->out = GS_BUF_INIT(OUT_MAX_BYTES);
	h->apart = a;
	return 0;
}

void http_apart_free(struct http_apart **apart)
{
	if (!*apart)
		return;
	gs_buf_fini(&(*apart)->in);
	gs_buf_fini(&(*apart)->out);
	gs_free_p(apart);
}

void http_apart_stats(struct http_apart *a, struct gs_http_stats *s)
{
	if (!a)
		return;
	s->restarts = a->restarts;
	s->hung = a->hung;
	s->lied = a->lied;
	s->pid = a->pid;
}

/* --- the process --- */

/* What it counted is kept; what it held is gone. */
static void keep_counts(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	struct gs_http_stats sum = a->before;

	http_apart_add_counts(&sum, &a->now);
	for (int i = 0; i < GS_HTTP_CLASSES; i++)
		h->requests[i] = sum.requests[i];
	h->connections = sum.connections;
	h->refused = sum.refused;
	h->evicted = sum.evicted;
	h->timed_out = sum.timed_out;
	h->tls_failures = sum.tls_failures;
	h->slow = sum.slow;
	h->cut = sum.cut;
	h->open = a->now.open;
	h->streams = a->now.streams;
}

/* As gs_sandbox_end_child(). */
static int end_server(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	int status;

	if (!a->server.pid)
		return 0;
	status = gs_sandbox_end_child(&a->server);
	a->pid = 0;
	http_apart_add_counts(&a->before, &a->now);
	a->now = (struct gs_http_stats){0};
	keep_counts(h);
	gs_buf_reset(&a->in);
	gs_buf_fini(&a->out);
	a->out = GS_BUF_INIT(OUT_MAX_BYTES);
	a->sent_bytes = 0;
	return status;
}

static void lose_server(struct gs_http *h, const char *why)
{
	struct http_apart *a = h->apart;
	uint64_t now = gs_clock_mono_ns();
	uint64_t wait = gs_sandbox_restart_wait_ns(&a->n_failures, now - a->started_ns);

	a->start_after_ns = now + wait;
	report_words(a, "the process that serves HTTP %s; it is restarted%s", why,
		     wait > 1000000000 ? " in a few seconds" : "");
}

static void server_ended(struct gs_http *h)
{
	int status = end_server(h);
	char why[80] = "closed its socket";

	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "was killed by signal %d", WTERMSIG(status));
	else if (WIFEXITED(status))
		snprintf(why, sizeof(why), "ended with status %d", WEXITSTATUS(status));
	h->apart->restarts++;
	lose_server(h, why);
}

static void put_ping(struct http_apart *a)
{
	struct gs_wire_out out = {&a->out, 0};

	http_apart_end(&out, http_apart_begin(&out), HTTP_APART_PING);
}

static int start_server(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	const struct gs_sandbox_program program = {.name = "process that serves HTTP",
						   .arguments = {HTTP_APART_ARGUMENT},
						   .fds = &h->settings->listen_fd,
						   .n_fds = 1};
	struct gs_wire_out out = {&a->out, 0};
	int r = gs_sandbox_start_child(&program, &a->server, NULL);
	size_t at;

	if (r < 0)
		return r;
	a->pid = a->server.pid;
	(void)fcntl(a->server.fd, F_SETFL, O_NONBLOCK);
	a->said_hello = false;
	a->started_ns = a->received_ns = gs_clock_mono_ns();
	a->ping_ns = a->started_ns + PING_NS;
	at = http_apart_begin(&out);
	http_apart_put_settings(&out, h->settings);
	http_apart_put_routes(&out, h->routes, h->n_routes);
	http_apart_end(&out, at, HTTP_APART_START);
	return out.r;
}

/* --- what it says --- */

static void answer_request(struct gs_http *h, uint64_t id, uint32_t route,
			   const struct gs_http_request *q)
{
	const struct gs_http_route *r = &h->routes[route];
	struct gs_http_reply reply = {.status = 200,
				      .type = "text/plain; charset=utf-8",
				      .json_errors = h->settings->json_errors,
				      .body = GS_BUF_INIT(REPLY_MAX_BYTES)};
	struct gs_wire_out out = {&h->apart->out, 0};
	uint64_t began_ns = gs_clock_mono_ns();

	r->serve(r->ctx ? r->ctx : h->ctx, q, &reply);
	gs_http_reply_check(&reply);
	gs_log(GS_LOG_DEBUG, GS_LOG_HTTP, "%s: %d, %zu bytes, made in %.1f ms", r->path,
	       reply.status, reply.body.bytes, (double)(gs_clock_mono_ns() - began_ns) / 1e6);
	http_apart_put_answer(&out, id, &reply);
	gs_http_reply_fini(&reply);
	if (out.r == 0)
		return;
	gs_http_error(&reply, 503, "no memory for the answer");
	out.r = 0;
	http_apart_put_answer(&out, id, &reply);
	gs_http_reply_fini(&reply);
}

/* False: it says what it may not say. */
static bool take_message(struct gs_http *h, enum http_apart_kind kind, struct gs_wire_in *in)
{
	static __thread struct gs_http_request q; /* too large for a stack */
	struct http_apart *a = h->apart;
	uint64_t id;
	uint32_t route;

	switch (kind) {
	case HTTP_APART_HELLO:
		a->said_hello =
			gs_sandbox_trusts_child("serves HTTP", gs_wire_u32(in), GS_LOG_HTTP) &&
			gs_wire_is_done(in);
		return a->said_hello;
	case HTTP_APART_REQUEST:
		if (!a->said_hello ||
		    !http_apart_take_request(in, h->routes, h->n_routes, &id, &route, &q))
			return false;
		answer_request(h, id, route, &q);
		return true;
	case HTTP_APART_COUNTS:
		if (!http_apart_take_counts(in, &a->now, &a->now))
			return false;
		keep_counts(h);
		return true;
	case HTTP_APART_PONG:
		return gs_wire_is_done(in);
	default:
		return false;
	}
}

static void server_lied(struct gs_http *h)
{
	h->apart->lied++;
	(void)end_server(h);
	lose_server(h, "violated the protocol and was killed");
}

static void take_messages(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	struct http_apart_head head;
	size_t at = 0;
	int r = 0;

	/* Those that wait here are taken as soon as what they asked for is gone. */
	for (unsigned n = 0; n < PER_TURN && a->out.bytes - a->sent_bytes < OUT_FULL_BYTES; n++) {
		struct gs_wire_in in;

		r = http_apart_next(&a->in, at, HTTP_APART_MESSAGE_MAX, &head);
		if (r <= 0)
			break;
		in = GS_WIRE_IN(a->in.data + at + sizeof(head), head.bytes);
		if (!take_message(h, head.kind, &in)) {
			r = -EBADMSG;
			break;
		}
		at += sizeof(head) + head.bytes;
		a->received_ns = gs_clock_mono_ns();
	}
	if (r < 0) {
		server_lied(h);
		return;
	}
	if (at)
		memmove(a->in.data, a->in.data + at, a->in.bytes - at);
	a->in.bytes -= at;
}

static void read_socket(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	size_t room = a->in.max_bytes - a->in.bytes;
	ssize_t n;

	if (!room || gs_buf_reserve(&a->in, room) < 0)
		return;
	n = recv(a->server.fd, a->in.data + a->in.bytes, room, 0);
	if (n > 0)
		a->in.bytes += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		server_ended(h);
}

static void write_socket(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	ssize_t n;

	while (a->sent_bytes < a->out.bytes) {
		n = send(a->server.fd, a->out.data + a->sent_bytes, a->out.bytes - a->sent_bytes,
			 MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			server_ended(h);
			return;
		}
		a->sent_bytes += (size_t)n;
		a->received_ns = gs_clock_mono_ns();
	}
	/* Keys and tokens may have been in it, and an answer can be large. */
	if (a->out.bytes) {
		explicit_bzero(a->out.data, a->out.bytes);
		gs_buf_fini(&a->out);
		a->out = GS_BUF_INIT(OUT_MAX_BYTES);
		a->sent_bytes = 0;
	}
}

/* --- what the rest of the program hands in --- */

static void pass_news(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	struct gs_buf news = http_events_take(h);
	struct gs_wire_out out = {&a->out, 0};
	size_t at;

	if (news.bytes && a->server.pid && a->out.bytes - a->sent_bytes < NEWS_MAX_BYTES) {
		at = http_apart_begin(&out);
		gs_wire_put(&out, news.data, news.bytes);
		http_apart_end(&out, at, HTTP_APART_NEWS);
	} else if (news.bytes && a->server.pid) {
		h->unpublished++;
	}
	gs_buf_fini(&news);
}

static void take_settings(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	const struct settings *old = h->settings;
	int fd = old->listen_fd;
	bool tls = old->pem.cert.bytes != 0, leave, given;
	unsigned max_connections = old->max_connections;
	struct gs_wire_out out = {&a->out, 0};
	size_t at;

	pthread_mutex_lock(&h->lock);
	leave = h->leave;
	given = h->pending != NULL;
	pthread_mutex_unlock(&h->lock);
	if (leave) /* it has that socket as well */
		(void)end_server(h);
	http_settings_take(h);
	if (!a->server.pid || !given)
		return;
	/* A server cannot be given another socket, nor open what OpenSSL reads at its start. */
	if (h->settings->listen_fd != fd || (h->settings->pem.cert.bytes != 0) != tls ||
	    h->settings->max_connections != max_connections) {
		(void)end_server(h);
		return;
	}
	at = http_apart_begin(&out);
	http_apart_put_settings(&out, h->settings);
	http_apart_end(&out, at, HTTP_APART_SETTINGS);
}

static void take_handed_in(struct gs_http *h)
{
	uint64_t asked, woken;

	if (read(h->wake_fd, &woken, sizeof(woken)) != sizeof(woken))
		return;
	asked = h->asked; /* before: what is asked for after it is not done */
	take_settings(h);
	pass_news(h);
	h->answered = asked;
}

/* --- the loop --- */

static void check_server(struct gs_http *h, uint64_t now)
{
	struct http_apart *a = h->apart;
	int r;

	if (a->server.pid && now - a->received_ns > HUNG_NS) {
		a->hung++;
		(void)end_server(h);
		lose_server(h, "did not answer and was killed");
	}
	if (a->server.pid && now >= a->ping_ns) {
		a->ping_ns = now + PING_NS;
		put_ping(a);
	}
	if (a->server.pid || now < a->start_after_ns || h->settings->listen_fd < 0)
		return;
	r = start_server(h);
	if (r < 0) {
		(void)end_server(h);
		a->started_ns = now;
		a->restarts++;
		lose_server(h, "could not be started");
	}
}

static int turn_wait_ms(const struct gs_http *h, uint64_t now)
{
	const struct http_apart *a = h->apart;
	uint64_t next = a->server.pid ? a->ping_ns : a->start_after_ns;

	if (!a->server.pid && h->settings->listen_fd < 0)
		return -1;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static void apart_step(struct gs_http *h)
{
	struct http_apart *a = h->apart;
	bool full = a->out.bytes - a->sent_bytes >= OUT_FULL_BYTES;
	struct http_apart_head head;
	bool more = !full && a->server.pid && http_apart_next(&a->in, 0, UINT32_MAX, &head) == 1;
	struct pollfd fds[2] = {{h->wake_fd, POLLIN, 0},
				{a->server.fd,
				 (short)((full || more ? 0 : POLLIN) |
					 (a->sent_bytes < a->out.bytes ? POLLOUT : 0)),
				 0}};

	if (poll(fds, 2, more ? 0 : turn_wait_ms(h, gs_clock_mono_ns())) < 0)
		return;
	if (fds[0].revents)
		take_handed_in(h);
	if (a->server.pid && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)))
		read_socket(h);
	if (a->server.pid)
		take_messages(h);
	check_server(h, gs_clock_mono_ns());
	if (a->server.pid)
		write_socket(h);
}

void *http_apart_thread(void *http)
{
	struct gs_http *h = http;

	pthread_setname_np(pthread_self(), "http");
	http_deferred_serving(h);
	check_server(h, gs_clock_mono_ns());
	while (!h->stopping)
		apart_step(h);
	(void)end_server(h);
	return NULL;
}
