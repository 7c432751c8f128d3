/*
 * A server's process: the server as it is everywhere (server.c, conn.c), with routes whose handlers
 * pass the request on to the holder of rights and values and have it answered later. It is started
 * from /proc/self/exe with its socket to the holder and the one that listens, learns settings, keys
 * and tokens from the holder, and gives up its rights before it accepts the first connection.
 *
 * Two threads: that of the server, and this one, which reads what the holder says.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "net/http/apart_int.h"
#include "net/tls/context.h"

#define MAX_MEMORY_BYTES (1ULL << 30)
#define SPARE_FILES      64
#define IN_FLIGHT_MAX                                                                              \
	2 /* requests at the holder at once, so that a vital one finds a short queue */
#define VITAL_NS  2000000000ULL
#define COUNTS_NS 500000000ULL
#define WORDS_MAX 256

struct passed { /* a request that the holder has, or gets */
	uint64_t id;
	uint64_t deadline_ns; /* of a vital one; 0 none */
	bool sent;
	struct gs_http_deferred *later;
	struct gs_buf message;
	char if_none_match[256];
	struct passed *next;
};

struct server_process;

struct passed_route {
	struct server_process *process;
	uint32_t number;
	bool vital;
};

struct server_process {
	int fd, wake_fd;
	struct gs_http *http;
	struct gs_http_route *routes;
	struct passed_route *passed_route;
	size_t n_routes;
	struct gs_http_stats sent;
	bool has_sent;
	pthread_mutex_t lock;        /* what follows, and writing to fd */
	struct passed *first, *last; /* in the order in which they came */
	uint64_t next_id;
	unsigned n_in_flight;  /* at the holder, vital ones left out */
	char *word[WORDS_MAX]; /* texts that replies name for ever */
	size_t n_words;
};

bool gs_http_apart_is_called(int argc, char **argv)
{
	return argc == 2 && strcmp(argv[1], HTTP_APART_ARGUMENT) == 0;
}

/* --- to the holder --- */

/* Without a holder there is nothing to serve. */
static void send_bytes(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		done += (size_t)n;
	}
}

/* The lock is held. */
static void send_counts(struct server_process *p)
{
	struct gs_buf buf = GS_BUF_INIT(HTTP_APART_MESSAGE_MAX);
	struct gs_wire_out out = {&buf, 0};
	struct gs_http_stats now;

	gs_http_stats(p->http, &now);
	if (!p->has_sent || memcmp(&now, &p->sent, offsetof(struct gs_http_stats, pid)) != 0) {
		http_apart_put_counts(&out, &now);
		if (out.r == 0)
			send_bytes(p->fd, buf.data, buf.bytes);
		p->sent = now;
		p->has_sent = true;
	}
	gs_buf_fini(&buf);
}

static void send_word(struct server_process *p, enum http_apart_kind kind, uint32_t value)
{
	struct gs_buf buf = GS_BUF_INIT(64);
	struct gs_wire_out out = {&buf, 0};
	size_t at = http_apart_begin(&out);

	if (kind == HTTP_APART_HELLO)
		gs_wire_put_u32(&out, value);
	http_apart_end(&out, at, kind);
	pthread_mutex_lock(&p->lock);
	send_bytes(p->fd, buf.data, buf.bytes);
	pthread_mutex_unlock(&p->lock);
	gs_buf_fini(&buf);
}

/* What may go now goes: vital ones at once, others a few at a time. The lock is held. */
static void send_passed(struct server_process *p)
{
	for (struct passed *r = p->first; r; r = r->next) {
		if (r->sent || (!r->deadline_ns && p->n_in_flight >= IN_FLIGHT_MAX))
			continue;
		send_bytes(p->fd, r->message.data, r->message.bytes);
		gs_buf_fini(&r->message);
		r->sent = true;
		p->n_in_flight += !r->deadline_ns;
	}
}

/* --- requests, on the server's thread --- */

static void passed_free(struct passed **ref)
{
	if (!*ref)
		return;
	gs_buf_fini(&(*ref)->message);
	gs_free_p(ref);
}

static void pass_on(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	struct passed_route *route = ctx;
	struct server_process *p = route->process;
	GS_CLEANUP(passed_free) struct passed *r = calloc(1, sizeof(*r));
	const char *known = gs_http_header(q, "if-none-match");
	uint64_t one = 1;

	if (!r) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	r->message = GS_BUF_INIT(sizeof(struct http_apart_head) + HTTP_APART_MESSAGE_MAX);
	pthread_mutex_lock(&p->lock);
	r->id = ++p->next_id;
	pthread_mutex_unlock(&p->lock);
	if (!http_apart_put_request(&(struct gs_wire_out){&r->message, 0}, r->id, route->number,
				    q)) {
		gs_http_error(
			reply, 400,
			"the path or the query is too long, or has characters that must be written with %");
		return;
	}
	r->later = gs_http_defer(reply);
	if (!r->later) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	snprintf(r->if_none_match, sizeof(r->if_none_match), "%s", known ? known : "");
	r->deadline_ns = route->vital ? gs_clock_mono_ns() + VITAL_NS : 0;
	pthread_mutex_lock(&p->lock);
	if (p->last)
		p->last->next = r;
	else
		p->first = r;
	p->last = gs_take(r);
	send_counts(p); /* those before this request */
	send_passed(p);
	pthread_mutex_unlock(&p->lock);
	(void)!write(p->wake_fd, &one, sizeof(one)); /* deadlines and counts are watched from now */
}

/* --- what the holder says --- */

/* The same text for ever: answers name a few. NULL: NULL, or there are too many. */
static const char *keep_word(struct server_process *p, const char *text)
{
	for (size_t i = 0; text && i < p->n_words; i++)
		if (strcmp(p->word[i], text) == 0)
			return p->word[i];
	if (!text || p->n_words == WORDS_MAX)
		return NULL;
	p->word[p->n_words] = strdup(text);
	return p->word[p->n_words] ? p->word[p->n_words++] : NULL;
}

/* Out of the list. The lock is held; NULL: it was answered already. */
static struct passed *take_passed(struct server_process *p, uint64_t id)
{
	struct passed *before = NULL;

	for (struct passed *r = p->first; r; before = r, r = r->next) {
		if (r->id != id)
			continue;
		*(before ? &before->next : &p->first) = r->next;
		if (p->last == r)
			p->last = before;
		p->n_in_flight -= r->sent && !r->deadline_ns;
		return r;
	}
	return NULL;
}

static void take_answer(struct server_process *p, struct gs_wire_in *in)
{
	uint64_t id = gs_wire_u64(in);
	GS_CLEANUP(passed_free) struct passed *r = NULL;
	struct gs_http_reply reply;
	const char *type, *name;
	const void *body;
	uint32_t bytes;

	pthread_mutex_lock(&p->lock);
	r = take_passed(p, id);
	send_passed(p);
	pthread_mutex_unlock(&p->lock);
	if (!r)
		return;
	reply = gs_http_reply_new(r->later);
	reply.status = (int)gs_wire_u32(in);
	reply.topics = gs_wire_u32(in);
	reply.no_compression = gs_wire_u8(in);
	reply.is_gzip = gs_wire_u8(in);
	type = keep_word(p, gs_wire_text(in));
	reply.type = type ? type : reply.type;
	reply.etag = keep_word(p, gs_wire_text(in));
	reply.policy = keep_word(p, gs_wire_text(in));
	name = gs_wire_text(in);
	snprintf(reply.file_name, sizeof(reply.file_name), "%s", name ? name : "");
	bytes = gs_wire_u32(in);
	body = gs_wire_bytes(in, bytes);
	if (in->bad || (body && gs_buf_put(&reply.body, body, bytes) < 0)) {
		reply.topics = 0;
		gs_http_error(&reply, 503, "no memory for the answer");
	} else if (reply.status == 200 && gs_http_etag_known(r->if_none_match, reply.etag)) {
		reply.status = 304;
		gs_buf_reset(&reply.body);
	}
	gs_http_answer(&r->later, &reply);
}

static void take_news(struct server_process *p, struct gs_wire_in *in)
{
	while (!in->bad && in->at < in->end) {
		uint32_t topics = gs_wire_u32(in), bytes = gs_wire_u32(in);
		const char *text = gs_wire_bytes(in, bytes);

		if (text)
			(void)gs_http_publish(p->http, topics, text, bytes);
	}
}

static void take_message(struct server_process *p, enum http_apart_kind kind, struct gs_wire_in *in)
{
	struct settings *s;

	switch (kind) {
	case HTTP_APART_ANSWER:
		take_answer(p, in);
		return;
	case HTTP_APART_NEWS:
		take_news(p, in);
		return;
	case HTTP_APART_SETTINGS:
		s = http_apart_take_settings(in);
		if (!s) /* the next one has the new ones from the start */
			_exit(1);
		http_settings_hand_in(p->http, &s);
		return;
	case HTTP_APART_PING:
		if (gs_http_answers(p->http))
			send_word(p, HTTP_APART_PONG, 0);
		return;
	default:
		_exit(1);
	}
}

/* --- the loop --- */

/* Vital requests that were not answered in time. */
static void answer_late(struct server_process *p, uint64_t now)
{
	for (;;) {
		GS_CLEANUP(passed_free) struct passed *late = NULL;
		struct gs_http_reply reply;

		pthread_mutex_lock(&p->lock);
		for (struct passed *r = p->first; r && !late; r = r->next)
			if (r->deadline_ns && r->deadline_ns <= now)
				late = r;
		if (late)
			(void)take_passed(p, late->id);
		pthread_mutex_unlock(&p->lock);
		if (!late)
			return;
		reply = gs_http_reply_new(late->later);
		gs_http_error(&reply, 503, "the main process did not answer in time");
		gs_http_answer(&late->later, &reply);
	}
}

static int loop_wait_ms(struct server_process *p)
{
	bool vital = false, sent_open;

	pthread_mutex_lock(&p->lock);
	for (struct passed *r = p->first; r && !vital; r = r->next)
		vital = r->deadline_ns;
	sent_open = p->sent.open;
	pthread_mutex_unlock(&p->lock);
	/* Counts change while a client is connected. */
	return vital ? 100 : p->http->open || sent_open ? (int)(COUNTS_NS / 1000000) : -1;
}

static void read_holder(struct server_process *p, struct gs_buf *in)
{
	struct http_apart_head head;
	size_t at = 0;
	ssize_t n;

	if (gs_buf_reserve(in, 65536) < 0)
		_exit(1);
	n = recv(p->fd, in->data + in->bytes, in->capacity_bytes - in->bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		_exit(0);
	in->bytes += (size_t)n;
	while (http_apart_next(in, at, UINT32_MAX, &head) == 1) {
		struct gs_wire_in message = GS_WIRE_IN(in->data + at + sizeof(head), head.bytes);

		take_message(p, head.kind, &message);
		at += sizeof(head) + head.bytes;
	}
	memmove(in->data, in->data + at, in->bytes - at);
	in->bytes -= at;
	if (!in->bytes) /* keys and tokens, or a large answer */
		gs_tls_file_forget(in);
}

static void serve_loop(struct server_process *p)
{
	struct gs_buf in = GS_BUF_INIT(SIZE_MAX);

	for (;;) {
		struct pollfd fds[2] = {{p->fd, POLLIN, 0}, {p->wake_fd, POLLIN, 0}};
		uint64_t woken;

		if (poll(fds, 2, loop_wait_ms(p)) < 0 && errno != EINTR)
			_exit(1);
		if (fds[1].revents)
			(void)!read(p->wake_fd, &woken, sizeof(woken));
		if (fds[0].revents)
			read_holder(p, &in);
		answer_late(p, gs_clock_mono_ns());
		pthread_mutex_lock(&p->lock);
		send_counts(p);
		pthread_mutex_unlock(&p->lock);
	}
}

/* --- the start --- */

static bool receive_whole(int fd, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = recv(fd, (char *)to + done, bytes - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool take_routes(struct server_process *p, struct gs_wire_in *in)
{
	p->n_routes = gs_wire_count(in, 12);
	p->routes = calloc(p->n_routes + 1, sizeof(*p->routes));
	p->passed_route = calloc(p->n_routes + 1, sizeof(*p->passed_route));
	for (uint32_t i = 0; p->routes && p->passed_route && i < p->n_routes; i++) {
		struct gs_http_route *r = &p->routes[i];
		const char *path = gs_wire_text(in);

		r->path = path ? strdup(path) : NULL;
		r->methods = gs_wire_u32(in);
		r->open = gs_wire_u8(in);
		r->harmless = gs_wire_u8(in);
		r->control = gs_wire_u8(in);
		r->vital = gs_wire_u8(in);
		r->serve = pass_on;
		r->ctx = &p->passed_route[i];
		p->passed_route[i] = (struct passed_route){p, i, r->vital};
		if (!r->path)
			return false;
	}
	return p->routes && p->passed_route && gs_wire_is_done(in);
}

/* Settings and routes, from the holder. */
static bool take_start(struct server_process *p, struct settings **ret_settings)
{
	struct gs_buf data = GS_BUF_INIT(SIZE_MAX);
	struct http_apart_head head;
	struct gs_wire_in in;
	void *room;
	bool ok;

	if (!receive_whole(p->fd, &head, sizeof(head)) || head.kind != HTTP_APART_START)
		return false;
	room = gs_buf_extend(&data, head.bytes);
	if (!room || !receive_whole(p->fd, room, head.bytes))
		return false;
	in = GS_WIRE_IN(data.data, data.bytes);
	*ret_settings = http_apart_take_settings(&in);
	ok = *ret_settings && take_routes(p, &in);
	gs_tls_file_forget(&data);
	return ok;
}

int gs_http_apart_main(void)
{
	static struct server_process p = {.fd = HTTP_APART_SOCKET,
					  .lock = PTHREAD_MUTEX_INITIALIZER};
	struct gs_sandbox box = {
		.profile = GS_SANDBOX_SERVER, .own_user = true, .max_bytes = MAX_MEMORY_BYTES};
	struct settings *s = NULL;
	unsigned held;

	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	p.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p.wake_fd < 0 || !take_start(&p, &s))
		return 1;
	s->listen_fd = HTTP_APART_LISTEN;
	box.max_files = s->max_connections + SPARE_FILES;
	held = gs_sandbox_enter(&box);
	send_word(&p, HTTP_APART_HELLO, held); /* before the first request */
	pthread_mutex_lock(&p.lock);           /* the first request waits until p.http is known */
	if (http_server_start(&s, p.routes, p.n_routes, &p.http) < 0)
		return 1;
	pthread_mutex_unlock(&p.lock);
	serve_loop(&p);
	return 0;
}
