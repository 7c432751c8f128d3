/* Queues and workers: one of each for a receiver. */
#include "output/notify/notify.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "output/notify/notify_int.h"

#define PAUSE_FIRST_NS   500000000ull
#define PAUSE_CLOSING_NS 250000000ull
#define PAUSE_MOST_NS    60000000000ull

struct waiting {
	struct gs_alert_message message;
	uint64_t queued_ns;
};

struct receiver {
	struct gs_notify_sender sender;
	struct waiting *queue; /* owned; ring */
	size_t max, first, n;
	uint64_t give_up_ns;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* on the monotonic clock */
	pthread_t thread;
	bool started, closing;
	atomic_bool stop; /* what is being sent shall end too */
	struct gs_notify_stats stats;
};

struct gs_notify {
	struct receiver receiver[GS_NOTIFY_RECEIVERS_MAX];
	size_t n;
};

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* Wait for a time. Closing ends it early, for one more attempt, and makes the next ones short. The
 * caller holds the lock. */
static void rest_receiver(struct receiver *r, uint64_t ns)
{
	bool was_closing = r->closing;
	struct timespec until;

	if (was_closing && ns > PAUSE_CLOSING_NS)
		ns = PAUSE_CLOSING_NS;
	until = timespec_of(gs_clock_mono_ns() + ns);
	while (!atomic_load(&r->stop) && r->closing == was_closing &&
	       pthread_cond_timedwait(&r->changed, &r->lock, &until) != ETIMEDOUT)
		;
}

/* The first message has got somewhere, or nowhere. */
static void pop_message(struct receiver *r)
{
	r->first = (r->first + 1) % r->max;
	r->n--;
	pthread_cond_broadcast(&r->changed);
}

static void *run_receiver(void *ctx)
{
	struct receiver *r = ctx;
	uint64_t pause_ns = PAUSE_FIRST_NS;

	pthread_mutex_lock(&r->lock);
	while (!atomic_load(&r->stop)) {
		struct waiting w;
		struct gs_err err = {{0}};
		int sent;

		if (!r->n) {
			if (r->closing)
				break;
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		w = r->queue[r->first];
		pthread_mutex_unlock(&r->lock);
		sent = r->sender.send(r->sender.ctx, &w.message, &r->stop, &err);
		pthread_mutex_lock(&r->lock);
		if (sent == -ECANCELED && atomic_load(&r->stop))
			break;
		r->stats.last_failed = sent != 0;
		if (sent == 0) {
			r->stats.sent++;
			pause_ns = PAUSE_FIRST_NS;
			pop_message(r);
			continue;
		}
		r->stats.failed_attempts++;
		snprintf(r->stats.last_error, sizeof(r->stats.last_error), "%.199s",
			 gs_err_text(&err, sent < 0 ? sent : -EIO));
		gs_log(GS_LOG_INFO, GS_LOG_ALERTS, "alerts: %s: %s", r->sender.name,
		       r->stats.last_error);
		if (sent == GS_NOTIFY_REFUSED) {
			r->stats.dropped_refused++;
			pop_message(r);
		} else if (gs_clock_mono_ns() - w.queued_ns >= r->give_up_ns) {
			r->stats.dropped_given_up++;
			pop_message(r);
		} else {
			rest_receiver(r, pause_ns);
			pause_ns = pause_ns < PAUSE_MOST_NS / 2 ? 2 * pause_ns : PAUSE_MOST_NS;
		}
	}
	r->started = false;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static int start_receiver(struct receiver *r, const struct gs_notify_sender *sender,
			  const struct gs_alert_conf *c, struct gs_err *err)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	int code;

	r->sender = *sender;
	r->max = (size_t)c->queue;
	r->give_up_ns = c->give_up_ns;
	r->stats.name = sender->name;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->changed, &attr);
	pthread_condattr_destroy(&attr);
	r->queue = calloc(r->max, sizeof(*r->queue));
	if (!r->queue)
		return -ENOMEM;
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r->started = true;
	code = pthread_create(&r->thread, NULL, run_receiver, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code == 0)
		return 0;
	r->started = false;
	free(r->queue);
	r->queue = NULL;
	return gs_err_set(err, -code, "cannot start a thread for alerts: %s", strerror(code));
}

static int add_receiver(struct gs_notify *n, const struct gs_notify_sender *sender,
			const struct gs_alert_conf *c, struct gs_err *err)
{
	struct receiver *r = &n->receiver[n->n];
	int code = start_receiver(r, sender, c, err);

	if (code < 0) {
		pthread_mutex_destroy(&r->lock);
		pthread_cond_destroy(&r->changed);
		sender->free(sender->ctx);
		return code;
	}
	n->n++;
	return 0;
}

int gs_notify_open(const struct gs_alert_conf *c, const char *host, struct gs_notify **ret,
		   struct gs_err *err)
{
	struct gs_notify *n = calloc(1, sizeof(*n));
	struct gs_notify_sender s;
	int r = n ? 0 : -ENOMEM;

	if (r == 0 && c->webhook.url[0]) {
		r = gs_notify_webhook_open(c, &s, err);
		r = r == 0 ? add_receiver(n, &s, c, err) : r;
	}
	if (r == 0 && c->email[0].enabled && c->email[0].server[0]) {
		r = gs_notify_email_open(c, host, &s, err);
		r = r == 0 ? add_receiver(n, &s, c, err) : r;
	}
	if (r == 0 && c->log.enabled) {
		r = gs_notify_logfile_open(c, &s, err);
		r = r == 0 ? add_receiver(n, &s, c, err) : r;
	}
	if (r < 0) {
		gs_notify_close(&n, 0);
		return r;
	}
	*ret = n;
	return 0;
}

static void drain_one(struct receiver *r, uint64_t until_ns)
{
	struct timespec until = timespec_of(until_ns);

	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_cond_broadcast(&r->changed);
	while (r->started && r->n &&
	       pthread_cond_timedwait(&r->changed, &r->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&r->lock);
}

static void close_one(struct receiver *r)
{
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->stop, true);
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	r->sender.free(r->sender.ctx);
	free(r->queue);
}

void gs_notify_drain(struct gs_notify *n, uint64_t wait_ns)
{
	uint64_t until_ns = gs_clock_mono_ns() + wait_ns;

	for (size_t i = 0; i < n->n; i++)
		drain_one(&n->receiver[i], until_ns);
}

void gs_notify_close(struct gs_notify **ref, uint64_t wait_ns)
{
	struct gs_notify *n = *ref;

	if (!n)
		return;
	gs_notify_drain(n, wait_ns);
	for (size_t i = 0; i < n->n; i++)
		close_one(&n->receiver[i]);
	free(n);
	*ref = NULL;
}

/* A repeat that still waits says the same. The caller holds the lock. */
static bool waits_already(const struct receiver *r, const struct gs_alert_message *m)
{
	for (size_t i = 0; m->event == GS_ALERT_STILL && i < r->n; i++)
		if (strcmp(r->queue[(r->first + i) % r->max].message.key, m->key) == 0)
			return true;
	return false;
}

static void queue_message(struct receiver *r, const struct gs_alert_message *m)
{
	if (m->severity < r->sender.min_severity ||
	    (m->event == GS_ALERT_STILL && !r->sender.wants_still))
		return;
	pthread_mutex_lock(&r->lock);
	if (waits_already(r, m)) {
		/* sent soon */
	} else if (r->n == r->max) {
		r->stats.dropped_full++;
	} else {
		r->queue[(r->first + r->n) % r->max] = (struct waiting){*m, gs_clock_mono_ns()};
		r->n++;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
}

void gs_notify_push(struct gs_notify *n, const struct gs_alert_message *m)
{
	for (size_t i = 0; i < n->n; i++)
		queue_message(&n->receiver[i], m);
}

void gs_notify_push_all(struct gs_notify *n, const struct gs_alert_message *m, size_t n_messages)
{
	GS_FREE bool *taken = calloc(n_messages ? n_messages : 1, sizeof(*taken));
	struct gs_alert_message joined;

	for (size_t i = 0; i < n->n; i++)
		for (size_t k = 0; k < n_messages; k++)
			if (!taken || n->receiver[i].sender.wants_each)
				queue_message(&n->receiver[i], &m[k]);
	for (size_t k = 0; taken && k < n_messages; k++) {
		if (taken[k])
			continue;
		gs_alert_join(m, n_messages, taken, &joined);
		for (size_t i = 0; i < n->n; i++)
			if (!n->receiver[i].sender.wants_each)
				queue_message(&n->receiver[i], &joined);
	}
}

size_t gs_notify_stats(struct gs_notify *n, struct gs_notify_stats ret[GS_NOTIFY_RECEIVERS_MAX])
{
	for (size_t i = 0; i < n->n; i++) {
		struct receiver *r = &n->receiver[i];

		pthread_mutex_lock(&r->lock);
		ret[i] = r->stats;
		ret[i].waiting = r->n;
		pthread_mutex_unlock(&r->lock);
	}
	return n->n;
}
