/*
 * The server's thread: one epoll over listening sockets, a wake-up and all connections.
 *
 * Each turn: events of sockets, then what other threads asked for, then times, then all sessions
 * that have something to send. What a connection does is in conn.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/base/shrink.h"
#include "net/grpc/conn_int.h"

#define ACCEPTS     64
#define EVENTS      256
#define ABORT_NS    1000000000ULL /* to take what was said */
#define SPARE_FILES 1024

/* --- new connections --- */

/* 0: there is room for one more of this client. */
static enum gs_grpc_refusal make_room(struct gs_grpc_server *s, uint64_t key)
{
	struct gs_share *victim;

	switch (gs_shares_ask(&s->shares, key, &victim)) {
	case GS_SHARE_EVICT:
		gs_grpc_conn_evict((struct conn *)((char *)victim - offsetof(struct conn, share)));
		return 0;
	case GS_SHARE_OWNER_FULL:
		return GS_GRPC_REFUSED_ADDRESS;
	case GS_SHARE_FULL:
		return GS_GRPC_REFUSED_CONNECTIONS;
	case GS_SHARE_FREE:
		break;
	}
	return 0;
}

static void listen_again(struct gs_timer *timer)
{
	struct gs_grpc_server *s =
		(void *)((char *)timer - offsetof(struct gs_grpc_server, accept_again));

	for (size_t i = 0; i < s->n_listeners; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

		if (s->listeners[i].fd >= 0)
			(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i].fd, &e);
	}
}

/* No file descriptors: the socket would stay readable, and the thread would run in a circle. */
static void listen_later(struct gs_grpc_server *s)
{
	gs_grpc_core_refuse(s->core, GS_GRPC_REFUSED_NO_FD);
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct epoll_event e = {.events = 0, .data.ptr = &s->listeners[i]};

		(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i].fd, &e);
	}
	(void)gs_timer_set(&s->core->timers, &s->accept_again,
			   gs_clock_mono_ns() + GS_NET_ACCEPT_WAIT_NS);
}

static void accept_all(struct gs_grpc_server *s, struct listener *l)
{
	for (int i = 0; i < ACCEPTS && l->fd >= 0; i++) {
		uint64_t key;
		int fd = gs_net_accept(l->fd, &key);
		enum gs_grpc_refusal why;

		if (fd < 0) {
			if (fd != -EAGAIN)
				listen_later(s);
			return;
		}
		why = make_room(s, key);
		if (why == 0) {
			gs_grpc_conn_new(s, fd, key);
			continue;
		}
		gs_grpc_core_refuse(s->core, why);
		close(fd);
	}
}

/* --- the loop --- */

static void close_listeners(struct gs_grpc_server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++)
		gs_close_p(&s->listeners[i].fd);
	gs_timer_set(&s->core->timers, &s->accept_again, UINT64_MAX);
}

static void grace_over(struct gs_timer *timer)
{
	struct gs_grpc_server *s = (void *)((char *)timer - offsetof(struct gs_grpc_server, grace));
	struct conn *next;

	if (s->aborted) {
		/* They had a moment to take what we said. */
		for (struct conn *c = s->conns; c; c = next) {
			next = c->next;
			gs_grpc_conn_close(c);
		}
		return;
	}
	s->aborted = true;
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		if (c->session)
			gs_grpc_session_abort_calls(c->session, GS_GRPC_UNAVAILABLE,
						    "the server is shutting down");
	}
	(void)gs_timer_set(&s->core->timers, &s->grace, gs_clock_mono_ns() + ABORT_NS);
}

static void begin_stop(struct gs_grpc_server *s)
{
	struct conn *next;

	s->core->stopping = true;
	close_listeners(s);
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		if (c->session)
			gs_grpc_session_leave(c->session, NGHTTP2_NO_ERROR,
					      "the server is shutting down");
		else if (c->state < UP)
			gs_grpc_conn_close(c);
	}
	if (gs_timer_set(&s->core->timers, &s->grace, s->grace_until_ns) < 0)
		grace_over(&s->grace);
}

static void serve_ready(struct gs_grpc_server *s)
{
	struct gs_grpc_session *list = s->core->ready;

	/* Those that become ready meanwhile come in the next turn. */
	s->core->ready = NULL;
	while (list) {
		struct gs_grpc_session *session = list;
		struct conn *c = session->owner;

		list = session->next_ready;
		session->is_ready = false;
		session->next_ready = NULL;
		gs_grpc_conn_ready(c);
	}
}

/* --- memory --- */

/* Many connections at once leave a heap full of holes. */
#define SHRINK_CONNECTIONS 1000
#define SHRINK_NS          1000000000ULL

static void shrink_heap(struct gs_timer *timer)
{
	struct gs_grpc_server *s =
		(void *)((char *)timer - offsetof(struct gs_grpc_server, shrink));

	s->n_closed = 0;
	gs_shrink_heap();
}

static void note_closed(struct gs_grpc_server *s)
{
	if (s->n_closed >= SHRINK_CONNECTIONS && !s->shrink.index)
		(void)gs_timer_set(&s->core->timers, &s->shrink, gs_clock_mono_ns() + SHRINK_NS);
}

static int wait_ms(struct gs_grpc_server *s)
{
	uint64_t next = gs_timers_next_ns(&s->core->timers), now;

	if (s->core->ready || gs_grpc_core_pending(s->core))
		return 0;
	if (next == UINT64_MAX)
		return -1;
	now = gs_clock_mono_ns();
	if (next <= now)
		return 0;
	return next - now > 3600000000000ULL ? 3600000 : (int)((next - now + 999999) / 1000000);
}

static void take_wake(struct gs_grpc_server *s)
{
	uint64_t n;

	/* Before the lists are looked at: who adds to them after it wakes us again. */
	pthread_mutex_lock(&s->core->lock);
	(void)!read(s->core->wake_fd, &n, sizeof(n));
	s->core->woken = false;
	pthread_mutex_unlock(&s->core->lock);
}

static void turn_server(struct gs_grpc_server *s)
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
			gs_grpc_conn_event(events[i].data.ptr, events[i].events);
	}
	if (s->stop && !s->core->stopping)
		begin_stop(s);
	gs_grpc_core_run(s->core);
	gs_timers_run(&s->core->timers, gs_clock_mono_ns());
	serve_ready(s);
	gs_grpc_conn_bury(s);
	note_closed(s);
}

static void *server_thread(void *arg)
{
	struct gs_grpc_server *s = arg;

	pthread_setname_np(pthread_self(), "rpc");
	pthread_mutex_lock(&s->core->lock);
	s->core->thread = pthread_self();
	pthread_mutex_unlock(&s->core->lock);
	while (!s->core->stopping || s->conns)
		turn_server(s);
	gs_timer_set(&s->core->timers, &s->grace, UINT64_MAX);
	gs_timer_set(&s->core->timers, &s->shrink, UINT64_MAX);
	gs_grpc_core_run(s->core);
	return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(struct gs_grpc_server *s)
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

static void server_free(struct gs_grpc_server **ref)
{
	struct gs_grpc_server *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->n_listeners; i++)
		gs_close_p(&s->listeners[i].fd);
	gs_close_p(&s->local_fd);
	gs_close_p(&s->epoll_fd);
	gs_grpc_tls_close(&s->tls);
	gs_shares_fini(&s->shares);
	gs_grpc_core_unref(&s->core);
	free(s->cert);
	free(s->key);
	free(s->client_ca);
	free(s->in);
	free(s);
}

static char *copy_text(const char *text)
{
	return strdup(text ? text : "");
}

static int open_tls(struct gs_grpc_server *s, struct gs_grpc_tls **ret_tls, struct gs_err *err)
{
	const struct gs_grpc_tls_options o = {
		.cert = s->cert, .key = s->key, .ca = s->client_ca, .server = true};

	return gs_grpc_tls_open(&o, ret_tls, err);
}

static int open_all(struct gs_grpc_server *s, const struct gs_grpc_server_options *o,
		    struct gs_err *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

	s->in = malloc(GS_GRPC_READ_BYTES);
	s->cert = copy_text(o->tls_cert);
	s->key = copy_text(o->tls_key);
	s->client_ca = copy_text(o->tls_client_ca);
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

/* More connections than descriptors would be refused by the kernel, without a choice of which. Part
 * of them is for files and for others who listen. */
static unsigned connections_possible(unsigned wanted)
{
	struct rlimit limit;
	rlim_t spare;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return wanted;
	if (limit.rlim_cur < (rlim_t)wanted + SPARE_FILES) {
		limit.rlim_cur = limit.rlim_max < (rlim_t)wanted + SPARE_FILES
					 ? limit.rlim_max
					 : (rlim_t)wanted + SPARE_FILES;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
		(void)getrlimit(RLIMIT_NOFILE, &limit);
	}
	spare = limit.rlim_cur / 4 < SPARE_FILES ? limit.rlim_cur / 4 : SPARE_FILES;
	return limit.rlim_cur - spare < wanted ? (unsigned)(limit.rlim_cur - spare) : wanted;
}

static void set_shares(struct gs_grpc_server *s)
{
	const struct gs_grpc_server_options *o = &s->core->o;
	unsigned n = connections_possible(o->max_connections);

	s->shares = GS_SHARES_INIT(
		n, o->max_connections_per_address ? o->max_connections_per_address : (n + 1) / 2);
}

int gs_grpc_server_start(const struct gs_grpc_server_options *o, struct gs_grpc_server **ret_server,
			 struct gs_err *err)
{
	GS_CLEANUP(server_free) struct gs_grpc_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->kind = WAKE;
	s->epoll_fd = s->local_fd = -1;
	s->local_group = (gid_t)-1;
	s->accept_again.fire = listen_again;
	s->grace.fire = grace_over;
	s->shrink.fire = shrink_heap;
	if (o->n_listen < 1 || o->n_listen > GS_GRPC_LISTEN_MAX)
		return gs_err_set(err, -EINVAL, "one to %d addresses to listen on are needed",
				  GS_GRPC_LISTEN_MAX);
	r = gs_grpc_core_new(o, &s->core, err);
	if (r == 0) {
		set_shares(s);
		r = open_all(s, o, err);
	}
	if (r == 0)
		r = start_thread(s);
	if (r < 0)
		return r;
	*ret_server = gs_take(s);
	return 0;
}

void gs_grpc_server_stop(struct gs_grpc_server **ref, uint64_t grace_ns)
{
	struct gs_grpc_server *s = *ref;

	if (!s)
		return;
	s->grace_until_ns = gs_grpc_after(gs_clock_mono_ns(), grace_ns);
	s->stop = true;
	pthread_mutex_lock(&s->core->lock);
	gs_grpc_core_wake(s->core);
	pthread_mutex_unlock(&s->core->lock);
	pthread_join(s->thread, NULL);
	server_free(ref);
}

int gs_grpc_server_reload_tls(struct gs_grpc_server *s, struct gs_err *err)
{
	struct gs_grpc_tls *tls = NULL, *old;
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
	gs_grpc_tls_close(&old);
	return 0;
}

/* On the server's thread. */
static void add_local(void *arg)
{
	struct gs_grpc_server *s = arg;
	struct listener *l = &s->listeners[s->n_listeners];
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};

	*l = (struct listener){.kind = LISTENER, .fd = s->local_fd};
	s->local_fd = -1;
	if (s->core->stopping || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, l->fd, &e) < 0)
		gs_close_p(&l->fd);
	else
		s->n_listeners++;
}

int gs_grpc_server_add_local(struct gs_grpc_server *s, int fd, gid_t group)
{
	s->local_fd = fd;
	s->local_group = group;
	return gs_grpc_core_post(s->core, add_local, s);
}

int gs_grpc_server_post(struct gs_grpc_server *s, void (*fn)(void *arg), void *arg)
{
	return gs_grpc_core_post(s->core, fn, arg);
}

const char *gs_grpc_server_address(const struct gs_grpc_server *s, size_t i)
{
	return i < s->n_listeners ? s->listeners[i].address : NULL;
}

void gs_grpc_server_stats(const struct gs_grpc_server *s, struct gs_grpc_stats *ret_stats)
{
	gs_grpc_core_stats(s->core, ret_stats);
}
