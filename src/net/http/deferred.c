/*
 * What other threads hand to the server's thread: answers of requests that it did not wait for, and
 * pieces of events. A mailbox outlives the server as long as a thread may still answer.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "net/http/server_int.h"

struct gs_http_completions {
	pthread_mutex_t lock; /* what follows */
	unsigned refs;
	int wake_fd; /* of the server; -1: it is gone */
	struct gs_http_deferred *first, *last;
};

struct gs_http_deferred {
	struct gs_http_completions *mail; /* referenced */
	bool json_errors;
	struct conn *conn;             /* of the server's thread; NULL: it is gone */
	struct gs_http_deferred *next; /* in the mailbox */
	struct gs_http_reply answer;   /* there */
};

struct gs_http_completions *http_completions_new(int wake_fd)
{
	struct gs_http_completions *m = calloc(1, sizeof(*m));

	if (m) {
		pthread_mutex_init(&m->lock, NULL);
		m->refs = 1;
		m->wake_fd = wake_fd;
	}
	return m;
}

/* The lock is held, and is released. */
static void unref_locked(struct gs_http_completions *m)
{
	bool last = --m->refs == 0;

	pthread_mutex_unlock(&m->lock);
	if (last) {
		pthread_mutex_destroy(&m->lock);
		free(m);
	}
}

static void later_free(struct gs_http_deferred *l)
{
	struct gs_http_completions *m = l->mail;

	gs_http_reply_fini(&l->answer);
	free(l);
	pthread_mutex_lock(&m->lock);
	unref_locked(m);
}

void http_completions_close(struct gs_http_completions **mail)
{
	struct gs_http_completions *m = *mail;
	struct gs_http_deferred *list;

	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->wake_fd = -1;
	list = m->first;
	m->first = m->last = NULL;
	unref_locked(m);
	while (list) {
		struct gs_http_deferred *next = list->next;

		if (list->conn)
			list->conn->later = NULL;
		later_free(list);
		list = next;
	}
	*mail = NULL;
}

/* Which server's thread this is, while it calls a handler. */
static __thread struct gs_http *serving;

void http_deferred_serving(struct gs_http *h)
{
	serving = h;
}

struct gs_http_deferred *gs_http_defer(struct gs_http_reply *reply)
{
	struct gs_http_deferred *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->mail = serving->mail;
	l->json_errors = reply->json_errors;
	pthread_mutex_lock(&l->mail->lock);
	l->mail->refs++;
	pthread_mutex_unlock(&l->mail->lock);
	reply->later = l;
	return l;
}

struct gs_http_reply gs_http_reply_new(const struct gs_http_deferred *later)
{
	return (struct gs_http_reply){.status = 200,
				      .type = "application/json",
				      .json_errors = later->json_errors,
				      .body = GS_BUF_INIT(REPLY_MAX_BYTES)};
}

void gs_http_answer(struct gs_http_deferred **later, struct gs_http_reply *reply)
{
	struct gs_http_deferred *l = gs_take(*later);
	struct gs_http_completions *m = l->mail;
	uint64_t one = 1;

	l->answer = *reply;
	*reply = (struct gs_http_reply){0};
	pthread_mutex_lock(&m->lock);
	if (m->wake_fd < 0) {
		pthread_mutex_unlock(&m->lock);
		later_free(l);
		return;
	}
	if (m->last)
		m->last->next = l;
	else
		m->first = l;
	m->last = l;
	(void)!write(m->wake_fd, &one, sizeof(one));
	pthread_mutex_unlock(&m->lock);
}

void http_deferred_bind(struct gs_http_deferred *later, struct conn *c)
{
	later->conn = c;
	c->later = later;
}

void http_deferred_forget(struct conn *c)
{
	if (c->later)
		c->later->conn = NULL;
	c->later = NULL;
}

void http_completions_deliver(struct gs_http *h)
{
	struct gs_http_deferred *list;

	pthread_mutex_lock(&h->mail->lock);
	list = h->mail->first;
	h->mail->first = h->mail->last = NULL;
	pthread_mutex_unlock(&h->mail->lock);
	while (list) {
		struct gs_http_deferred *next = list->next;
		struct conn *c = list->conn;

		if (c) {
			c->later = NULL;
			http_conn_answer(h, c, &list->answer, "");
			if (c->state != CLOSED)
				http_conn_step(h, c);
		}
		later_free(list);
		list = next;
	}
}

/* --- events --- */

int gs_http_publish(struct gs_http *h, unsigned topics, const char *text, size_t bytes)
{
	struct http_piece p = {topics, (uint32_t)bytes};
	uint64_t one = 1;
	int r;

	if (!h->streams)
		return 0;
	pthread_mutex_lock(&h->lock);
	r = gs_buf_reserve(&h->news, sizeof(p) + bytes);
	if (r == 0) {
		(void)gs_buf_put(&h->news, &p, sizeof(p));
		(void)gs_buf_put(&h->news, text, bytes);
	} else {
		h->unpublished++;
	}
	pthread_mutex_unlock(&h->lock);
	(void)!write(h->wake_fd, &one, sizeof(one));
	return r;
}

static void feed_stream(struct gs_http *h, struct conn *c, const struct gs_buf *news)
{
	bool was_idle = c->sent_bytes >= c->out.bytes;
	struct http_piece p;

	if (was_idle) {
		gs_buf_reset(&c->out);
		c->sent_bytes = 0;
	}
	for (size_t at = 0; at < news->bytes; at += sizeof(p) + p.bytes) {
		memcpy(&p, news->data + at, sizeof(p));
		if (!(p.topics & c->topics))
			continue;
		if (gs_buf_put(&c->out, news->data + at + sizeof(p), p.bytes) < 0) {
			h->slow++;
			http_conn_close(h, c);
			return;
		}
	}
	if (was_idle && c->out.bytes) {
		c->deadline_ns = gs_clock_mono_ns() + h->settings->timeout_ns;
		http_conn_step(h, c);
	}
}

struct gs_buf http_events_take(struct gs_http *h)
{
	struct gs_buf news;

	pthread_mutex_lock(&h->lock);
	news = h->news;
	h->news = GS_BUF_INIT(NEWS_MAX_BYTES);
	pthread_mutex_unlock(&h->lock);
	return news;
}

void http_events_deliver(struct gs_http *h)
{
	struct gs_buf news = http_events_take(h);

	for (size_t i = 0; news.bytes && i < h->n_conns; i++)
		if (h->conns[i]->state == EVENTS)
			feed_stream(h, h->conns[i], &news);
	gs_buf_fini(&news);
}
