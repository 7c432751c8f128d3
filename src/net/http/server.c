/*
 * The server's thread: one poll(2) over the listening socket, a wake-up and all connections. What a
 * connection does is in conn.c; what other threads hand in comes by deferred.c.
 *
 * A settings object (socket, certificate, secrets, limits) is read and built by the caller's thread
 * and handed over whole; the server's thread owns it from then on.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/net.h"
#include "core/base/secret.h"
#include "core/base/vec.h"
#include "net/http/server_int.h"

void http_settings_free(struct settings **ref)
{
	struct settings *s = *ref;

	if (!s)
		return;
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	gs_http_tls_close(&s->tls);
	gs_http_pem_forget(&s->pem);
	explicit_bzero(&s->auth, sizeof(s->auth));
	free(s);
	*ref = NULL;
}

/* --- new connections --- */

#define TURNED_AWAY_MAX 32 /* at once; more are closed without a word */

/* One that was accepted a moment ago, many others after it: its request may be there, unread. */
static bool has_sent_bytes(const struct conn *c)
{
	char byte;

	return !c->wire.ssl && recv(c->wire.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Who asks for a place when there is none left, or none of its share, gets that of a connection
 * that waits for its client: for a handshake, for the rest of a request, for the next one, for a
 * reply to be taken. False: no such is there. */
static bool make_room(struct gs_http *h, uint64_t peer)
{
	struct gs_share *victim;
	struct conn *c;

	switch (gs_shares_ask(&h->places, peer, &victim)) {
	case GS_SHARE_FREE:
		return true;
	case GS_SHARE_EVICT:
		c = (struct conn *)((char *)victim - offsetof(struct conn, place));
		h->evicted++;
		gs_share_leave(&h->places, &c->place);
		if (c->state != READ || h->n_turned_away >= TURNED_AWAY_MAX)
			http_conn_close(h, c);
		else if (c->in.bytes)
			http_conn_refuse(h, c);
		else if (has_sent_bytes(c))
			http_conn_admit_vital(h, c);
		else
			http_conn_close(h, c);
		return true;
	case GS_SHARE_OWNER_FULL:
	case GS_SHARE_FULL:
		break;
	}
	return false;
}

/* Both ends have the same address, or the other one a loopback's. */
static bool is_local(int fd)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);

	if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) < 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) < 0 ||
	    own.ss_family != peer.ss_family)
		return false;
	if (peer.ss_family == AF_INET)
		return ntohl(((struct sockaddr_in *)&peer)->sin_addr.s_addr) >> 24 == 127 ||
		       ((struct sockaddr_in *)&peer)->sin_addr.s_addr ==
			       ((struct sockaddr_in *)&own)->sin_addr.s_addr;
	return peer.ss_family == AF_INET6 &&
	       memcmp(&((struct sockaddr_in6 *)&peer)->sin6_addr,
		      &((struct sockaddr_in6 *)&own)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Takes fd over; NULL, and it is closed: no memory. */
static struct conn *conn_new(struct gs_http *h, int fd, uint64_t peer, bool has_place)
{
	struct conn *c = calloc(1, sizeof(*c));
	bool has_room = gs_vec_reserve(&h->conns, &h->room_conns, h->n_conns + 1);

	if (c)
		c->wire = GS_TLS_WIRE(fd);
	if (!c || !has_room || gs_tls_wire_start(&c->wire, h->settings->tls, true, NULL) < 0 ||
	    (has_place && gs_share_take(&h->places, peer, &c->place) < 0)) {
		if (c)
			gs_tls_wire_fini(&c->wire);
		else
			close(fd);
		free(c);
		return NULL;
	}
	c->peer = peer;
	c->local = is_local(fd);
	c->state = c->wire.ssl ? HANDSHAKE : READ;
	c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
	c->in = GS_BUF_INIT(h->settings->max_head_bytes + h->settings->max_body_bytes);
	c->out = GS_BUF_INIT(REPLY_MAX_BYTES + 4096);
	h->conns[h->n_conns++] = c;
	h->open++;
	gs_share_rest(&h->places, &c->place);
	return c;
}

static void accept_all(struct gs_http *h)
{
	/* Not endlessly: those who are connected have their turn as well. */
	for (int i = 0; i < 64; i++) {
		uint64_t peer;
		int fd = gs_net_accept(h->settings->listen_fd, &peer);
		struct conn *c = NULL;
		bool room;

		if (fd < 0) {
			if (fd != -EAGAIN)
				h->accept_after_ns = gs_clock_mono_ns() + GS_NET_ACCEPT_WAIT_NS;
			return;
		}
		h->connections++;
		room = make_room(h, peer);
		h->refused += !room;
		/* What can be said without a handshake. */
		if (room || (!h->settings->tls && h->n_turned_away < TURNED_AWAY_MAX))
			c = conn_new(h, fd, peer, room);
		else
			close(fd);
		if (c && room)
			http_conn_step(h, c);
		else if (c)
			http_conn_admit_vital(h, c);
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

static void set_shares(struct gs_http *h)
{
	const struct settings *s = h->settings;

	h->places.max = s->max_connections;
	h->places.max_per_owner = (s->max_connections + 1) / 2;
	h->stream_places.max = s->max_streams;
	h->stream_places.max_per_owner = (s->max_streams + 1) / 2;
}

void http_settings_take(struct gs_http *h)
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
	http_settings_free(&h->settings);
	h->settings = s;
	set_shares(h);
	if (!h->scratch)
		abort(); /* of no memory for some kilobytes nothing can be reported either */
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

static struct pollfd poll_of(const struct conn *c)
{
	if (c->state == STREAM && c->wait_body)
		return (struct pollfd){c->reply.source.fd, POLLIN, 0};
	return (struct pollfd){c->wire.fd, c->events, 0};
}

/* One turn. */
static void turn_server(struct gs_http *h, struct pollfd *fds)
{
	uint64_t now = gs_clock_mono_ns(), woken;
	size_t n = h->n_conns;

	fds[0] = (struct pollfd){h->wake_fd, POLLIN, 0};
	fds[1] = (struct pollfd){h->accept_after_ns > now ? -1 : h->settings->listen_fd, POLLIN, 0};
	for (size_t i = 0; i < n; i++)
		fds[i + 2] = poll_of(h->conns[i]);
	if (poll(fds, (nfds_t)n + 2, wait_ms(h, now)) < 0)
		return;
	if (fds[0].revents && read(h->wake_fd, &woken, sizeof(woken)) == sizeof(woken)) {
		uint64_t asked = h->asked; /* before: what is asked for after it is not done */

		http_settings_take(h);
		h->answered = asked;
		http_completions_deliver(h);
		http_events_deliver(h);
	}
	for (size_t i = 0; i < n; i++)
		if (fds[i + 2].revents)
			http_conn_step(h, h->conns[i]);
	now = gs_clock_mono_ns();
	for (size_t i = 0; i < n; i++)
		if (h->conns[i]->state != CLOSED && h->conns[i]->deadline_ns <= now)
			http_conn_timed_out(h, h->conns[i]);
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
	http_deferred_serving(h);
	while (!h->stopping) {
		if (!gs_vec_reserve(&fds, &room, h->n_conns + 2))
			break;
		turn_server(h, fds);
	}
	free(fds);
	return NULL;
}

/* --- for the caller --- */

static int settings_new(const struct gs_http_options *o, const char *listening,
			struct settings **ret_settings, struct gs_err *err)
{
	GS_CLEANUP(http_settings_free) struct settings *s = calloc(1, sizeof(*s));
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
	s->json_errors = o->json_errors;
	s->max_streams = o->max_streams ? o->max_streams : s->max_connections / 2;
	s->anonymous = o->anonymous;
	s->guarded = o->guarded;
	s->client_ca = tls && o->tls_client_ca && o->tls_client_ca[0];
	gs_http_hosts_load(&s->hosts, o->listen, o->hosts);
	snprintf(s->origins, sizeof(s->origins), "%s", o->origins ? o->origins : "");
	r = gs_http_auth_load(&s->auth, o->token_file, o->basic_file, err);
	if (o->token_role) {
		s->auth.tokens = true;
		s->auth.token_role = o->token_role;
		s->auth.token_ctx = o->token_ctx;
	}
	if (r == 0 && tls)
		r = gs_http_pem_read(&s->pem, o->tls_cert, o->tls_key ? o->tls_key : "",
				     o->tls_client_ca, err);
	if (r == 0 && tls)
		r = gs_http_tls_open(&s->pem, &s->tls, err);
	if (r == 0 && tls)
		r = gs_secret_check(s->pem.name[1], "the key", err);
	if (o->apart) /* it was only tried */
		gs_http_tls_close(&s->tls);
	else
		gs_http_pem_forget(&s->pem);
	if (r == 0 && (!listening || strcmp(listening, o->listen) != 0)) {
		int fd = listening ? -ENOENT
				   : gs_http_listen_inherited(s->address, sizeof(s->address), err);

		s->inherited = fd >= 0;
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
	GS_CLEANUP(http_settings_free) struct settings *s = NULL;

	return settings_new(o, o->listen, &s, err); /* "listening there already" */
}

/* The thread with every signal blocked: they are the program's business, and SIGPIPE (OpenSSL's
 * write(2) to a client that went) not wanted. */
static int start_thread(struct gs_http *h, void *(*run)(void *))
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&h->thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

/* Takes the settings over, also on failure. */
static int start_server(struct settings **settings, const struct gs_http_options *o,
			struct gs_http **ret_http)
{
	struct gs_http *h = calloc(1, sizeof(*h));
	int r = 0;

	if (!h) {
		http_settings_free(settings);
		return -ENOMEM;
	}
	pthread_mutex_init(&h->lock, NULL);
	h->routes = o->routes;
	h->n_routes = o->n_routes;
	h->ctx = o->ctx;
	h->listen_again_fd = -1;
	h->settings = gs_take(*settings);
	h->inherited = h->settings->inherited;
	memcpy(h->listen, h->settings->listen, sizeof(h->listen));
	memcpy(h->address, h->settings->address, sizeof(h->address));
	h->news = GS_BUF_INIT(NEWS_MAX_BYTES);
	h->places = h->stream_places = GS_SHARES_INIT(0, 0);
	set_shares(h);
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->wake_fd < 0)
		r = -errno;
	if (r == 0 && !(h->scratch = malloc(h->settings->max_head_bytes + 1)))
		r = -ENOMEM;
	if (r == 0 && !(h->mail = http_completions_new(h->wake_fd)))
		r = -ENOMEM;
	if (r == 0 && o->apart)
		r = http_apart_new(h, o);
	/* A client may be served before this returns: who serves it looks for the server there. */
	*ret_http = h;
	if (r == 0)
		r = start_thread(h, o->apart ? http_apart_thread : server_thread);
	if (r < 0) {
		*ret_http = NULL;
		http_settings_free(&h->settings);
		http_completions_close(&h->mail);
		http_apart_free(&h->apart);
		gs_close_p(&h->wake_fd);
		free(h->scratch);
		free(h);
	}
	return r;
}

int gs_http_start(const struct gs_http_options *o, struct gs_http **ret_http, struct gs_err *err)
{
	struct settings *s = NULL;
	int r = settings_new(o, NULL, &s, err);

	return r < 0 ? r : start_server(&s, o, ret_http);
}

int http_server_start(struct settings **settings, const struct gs_http_route *routes,
		      size_t n_routes, struct gs_http **ret_http)
{
	const struct gs_http_options o = {.routes = routes, .n_routes = n_routes};

	return start_server(settings, &o, ret_http);
}

static void wake_server(struct gs_http *h)
{
	uint64_t one = 1;

	(void)!write(h->wake_fd, &one, sizeof(one));
}

/* Wait until the thread has come around. */
static void come_around(struct gs_http *h)
{
	h->asked++;
	wake_server(h);
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

void http_settings_hand_in(struct gs_http *h, struct settings **settings)
{
	struct settings *s = gs_take(*settings);

	pthread_mutex_lock(&h->lock);
	/* One that the thread has not even taken: its socket may be the one to keep. */
	if (h->pending && s->listen_fd < 0)
		s->listen_fd = gs_take_fd(&h->pending->listen_fd);
	http_settings_free(&h->pending);
	h->pending = s;
	pthread_mutex_unlock(&h->lock);
	wake_server(h);
}

int gs_http_reload(struct gs_http *h, const struct gs_http_options *o, struct gs_err *err)
{
	struct settings *s = NULL;
	/* Where systemd listens for us is not ours to change. */
	int r = settings_new(o, h->inherited ? o->listen : h->listen, &s, err);

	if (r == -EADDRINUSE && same_port(o->listen, h->address))
		r = swap_address(h, o, &s, err);
	if (r < 0)
		return r;
	if (s->listen_fd >= 0) {
		memcpy(h->listen, s->listen, sizeof(h->listen));
		memcpy(h->address, s->address, sizeof(h->address));
	}
	http_settings_hand_in(h, &s);
	return 0;
}

void gs_http_stop(struct gs_http **ref)
{
	struct gs_http *h = *ref;

	if (!h)
		return;
	h->stopping = true;
	wake_server(h);
	pthread_join(h->thread, NULL);
	for (size_t i = 0; i < h->n_conns; i++) {
		http_conn_close(h, h->conns[i]);
		free(h->conns[i]);
	}
	http_completions_close(&h->mail);
	http_apart_free(&h->apart);
	gs_shares_fini(&h->places);
	gs_shares_fini(&h->stream_places);
	free(h->conns);
	http_settings_free(&h->settings);
	http_settings_free(&h->pending);
	gs_close_p(&h->listen_again_fd);
	close(h->wake_fd);
	gs_buf_fini(&h->news);
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
	wake_server(h);
	return came;
}

void gs_http_stats(const struct gs_http *h, struct gs_http_stats *s)
{
	for (int i = 0; i < GS_HTTP_CLASSES; i++)
		s->requests[i] = h->requests[i];
	s->connections = h->connections;
	s->refused = h->refused;
	s->evicted = h->evicted;
	s->timed_out = h->timed_out;
	s->tls_failures = h->tls_failures;
	s->open = h->open;
	s->streams = h->streams;
	s->slow = h->slow;
	s->unpublished = h->unpublished;
	s->cut = h->cut;
	http_apart_stats(h->apart, s);
}
