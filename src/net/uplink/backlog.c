/* The thread that looks for what streams left. */
#include "net/uplink/backlog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "net/uplink/outbox.h"

#define EVERY_NS 60000000000ull
#define FIRST_NS 1000000000ull
#define DRAIN_NS 10000000000ull

static const struct {
	enum gs_uplink_kind kind;
	const char *folder, *name;
} kinds[] = {
	{GS_UPLINK_TRACE, "traces", "trace"},
	{GS_UPLINK_JOBS, "reports", "measurement"},
};

struct gs_backlog {
	struct gs_backlog_options o;
	struct gs_uplink_options like;
	char base[512], token[512];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
};

/* False: it ends. */
static bool wait_ns(struct gs_backlog *l, uint64_t ns)
{
	const uint64_t until = gs_clock_mono_ns() + ns;
	const struct timespec at = {(time_t)(until / 1000000000ull), (long)(until % 1000000000ull)};
	bool go_on;

	pthread_mutex_lock(&l->lock);
	while (!l->stopping && gs_clock_mono_ns() < until)
		pthread_cond_timedwait(&l->wake, &l->lock, &at);
	go_on = !l->stopping;
	pthread_mutex_unlock(&l->lock);
	return go_on;
}

static void deliver_backlog(struct gs_backlog *l)
{
	const uint64_t until = gs_clock_mono_ns() + DRAIN_NS;

	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
		struct gs_uplink_options like = l->like;
		char folder[600], text[800];
		unsigned n_sent = 0, n_left = 0;

		snprintf(folder, sizeof(folder), "%s/%s", l->base, kinds[i].folder);
		like.kind = kinds[i].kind;
		gs_uplink_outbox_deliver(&like, folder, until, true, &n_sent, &n_left);
		if (n_sent) {
			snprintf(text, sizeof(text), "%u earlier %s%s delivered to the head, too",
				 n_sent, kinds[i].name, n_sent == 1 ? "" : "s");
			l->o.on_message(l->o.ctx, text);
		}
		if (n_left) {
			snprintf(text, sizeof(text), "%u earlier %s%s still wait%s in %s", n_left,
				 kinds[i].name, n_left == 1 ? "" : "s", n_left == 1 ? "s" : "",
				 folder);
			l->o.on_message(l->o.ctx, text);
		}
	}
}

static void *run_delivery(void *arg)
{
	struct gs_backlog *l = arg;
	uint64_t next_ns = 0;

	while (wait_ns(l, FIRST_NS)) {
		struct gs_uplink_stats st;

		if (gs_clock_mono_ns() < next_ns)
			continue;
		gs_uplink_stats(l->o.link, &st);
		if (st.state != GS_UPLINK_CONNECTED || st.is_other)
			continue;
		deliver_backlog(l);
		next_ns = gs_clock_mono_ns() + EVERY_NS;
	}
	return NULL;
}

void gs_backlog_start(const struct gs_backlog_options *options, struct gs_backlog **ret_left)
{
	struct gs_backlog *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;

	if (!l)
		return;
	l->o = *options;
	l->like = *options->like;
	l->like.instance = NULL; /* streams that end deliver as that */
	l->like.desired = NULL;
	l->like.on_message = NULL;
	if (l->like.token) {
		snprintf(l->token, sizeof(l->token), "%s", l->like.token);
		l->like.token = l->token;
	}
	snprintf(l->base, sizeof(l->base), "%s", options->base);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&l->lock, NULL);
	if (pthread_create(&l->thread, NULL, run_delivery, l) != 0) {
		explicit_bzero(l->token, sizeof(l->token));
		free(l);
		return;
	}
	*ret_left = l;
}

void gs_backlog_stop(struct gs_backlog **left)
{
	struct gs_backlog *l = *left;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->wake);
	explicit_bzero(l->token, sizeof(l->token));
	gs_free_p(left);
}
