/*
 * Downsampling while the head runs. A thread looks for what is old enough and makes what shall take
 * its place, with a connection of its own; the store's thread only replaces, a few stretches at a
 * time, between its transactions. So what comes in is stored meanwhile.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "server/store/downsample.h"

#define EVERY_NS    5000000000ull
#define ALL_NS      (6 * 3600000000000ull) /* what came late is looked for as often */
#define GATHER_NS   50000000ull            /* of making, until what is made is put in */
#define GATHER_MAX  64                     /* pieces */
#define BATCHES_MAX 4000                   /* that go, in one transaction */

struct replacing {
	struct gs_head *head;
	struct gs_store_piece *piece[GATHER_MAX];
	size_t n;
	size_t n_batches; /* that go */
	bool done;        /* under the head's lock */
	int r;
};

/* False: the head ends. */
static bool wait_ns(struct gs_head *h, uint64_t ns)
{
	uint64_t until = gs_clock_mono_ns() + ns;
	struct timespec at = {(time_t)(until / 1000000000ull), (long)(until % 1000000000ull)};
	bool go_on;

	pthread_mutex_lock(&h->lock);
	while (!h->coarse_stop && !h->coarse_changed && gs_clock_mono_ns() < until)
		pthread_cond_timedwait(&h->coarse_wake, &h->lock, &at);
	go_on = !h->coarse_stop;
	pthread_mutex_unlock(&h->lock);
	return go_on;
}

static bool should_end(struct gs_head *h)
{
	bool stop;

	pthread_mutex_lock(&h->lock);
	stop = h->coarse_stop || h->coarse_changed;
	pthread_mutex_unlock(&h->lock);
	return stop;
}

/* --- on the store's thread --- */

static void count_replaced(struct gs_head *h, const struct replacing *w)
{
	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < w->n; i++) {
		const struct gs_store_piece *p = w->piece[i];

		h->stats.coarse_batches_before += p->n_ids;
		h->stats.coarse_batches_after += p->n_batches;
		h->stats.coarse_samples_before += p->samples_before;
		h->stats.coarse_samples_after += p->samples_after;
		h->stats.coarse_bytes_before += p->bytes_before;
		h->stats.coarse_bytes_after += p->bytes_after;
	}
	pthread_mutex_unlock(&h->lock);
}

static void replace_batches(void *ctx, struct gs_store *store)
{
	struct replacing *w = ctx;
	struct gs_head *h = w->head;
	int r = store ? gs_store_begin(store) : -ESHUTDOWN;
	bool begun = r == 0;

	for (size_t i = 0; r == 0 && i < w->n; i++)
		r = gs_store_replace(store, w->piece[i]);
	if (r == 0)
		r = gs_store_commit(store);
	else if (begun)
		gs_store_rollback(store);
	if (r == 0)
		count_replaced(h, w);
	pthread_mutex_lock(&h->lock);
	w->r = r;
	w->done = true;
	pthread_cond_broadcast(&h->coarse_wake);
	pthread_mutex_unlock(&h->lock);
}

/* --- on the thread of its own --- */

/* What was made is put in; 0 or why not. */
static int put_in(struct gs_head *h, struct replacing *w)
{
	int r = 0;

	if (w->n) {
		w->done = false;
		r = gs_head_write(h, replace_batches, w);
		pthread_mutex_lock(&h->lock);
		while (r == 0 && !w->done)
			pthread_cond_wait(&h->coarse_wake, &h->lock);
		pthread_mutex_unlock(&h->lock);
		if (r == 0)
			r = w->r;
	}
	for (size_t i = 0; i < w->n; i++)
		gs_store_piece_free(&w->piece[i]);
	w->n = w->n_batches = 0;
	return r;
}

/* One level, as far as there is anything. */
static int scan_level(struct gs_head *h, struct gs_store *reader,
		      const struct gs_store_scan_options *o)
{
	struct replacing w = {.head = h};
	struct gs_store_scan *s = NULL;
	uint64_t began = gs_clock_mono_ns(), took;
	int r = gs_store_scan_new(reader, o, &s), e;

	while (r == 0 && !should_end(h)) {
		struct gs_store_piece *p = NULL;

		r = gs_store_scan_next(s, &p);
		if (r == 0) {
			w.piece[w.n++] = p;
			w.n_batches += p->n_ids;
		}
		took = gs_clock_mono_ns() - began;
		if (r == 0 && took < GATHER_NS && w.n < GATHER_MAX && w.n_batches < BATCHES_MAX)
			continue;
		e = put_in(h, &w);
		/* What was removed meanwhile, as too old, is found so by the next scan. */
		r = e < 0 && e != -ESTALE ? e : r;
		/* Half of the time at most. */
		if (r == 0 && !wait_ns(h, took))
			break;
		began = gs_clock_mono_ns();
	}
	for (size_t i = 0; i < w.n; i++)
		gs_store_piece_free(&w.piece[i]);
	if (s) {
		pthread_mutex_lock(&h->lock);
		h->stats.coarse_damaged += gs_store_scan_damaged(s);
		pthread_mutex_unlock(&h->lock);
	}
	gs_store_scan_free(&s);
	return r == GS_STORE_END ? 0 : r;
}

static int scan_levels(struct gs_head *h, const struct gs_head_retention *retention,
		       struct gs_store *reader, int64_t from[GS_HEAD_LEVELS_MAX])
{
	int64_t now = (int64_t)gs_clock_wall_ns();
	int r = 0;

	/* The coarsest first: what is that old is made so at once. */
	for (size_t i = retention->n_levels; r == 0 && i-- > 0;) {
		struct gs_store_scan_options o = {
			.size = sizeof(o),
			.from_wall_ns = from[i],
			.to_wall_ns = now - (int64_t)retention->level[i].after_ns,
			.interval_ns = retention->level[i].interval_ns,
			.sessions = retention->coarse_sessions,
		};
		int64_t older = i + 1 < retention->n_levels
					? now - (int64_t)retention->level[i + 1].after_ns -
						  8 * (int64_t)retention->level[i + 1].interval_ns
					: INT64_MIN;

		if (o.from_wall_ns < older)
			o.from_wall_ns = older;
		r = scan_level(h, reader, &o);
		if (r == 0 && !should_end(h))
			from[i] = o.to_wall_ns - 16 * (int64_t)o.interval_ns;
	}
	return r;
}

static bool is_same_retention(const struct gs_head_retention *a, const struct gs_head_retention *b)
{
	return a->max_age_ns == b->max_age_ns && a->max_bytes == b->max_bytes &&
	       a->n_levels == b->n_levels && a->coarse_sessions == b->coarse_sessions &&
	       memcmp(a->level, b->level, sizeof(a->level)) == 0;
}

static void *run_rollups(void *arg)
{
	struct gs_head *h = arg;
	int64_t from[GS_HEAD_LEVELS_MAX];
	struct gs_head_retention before = {0}, retention;
	uint64_t all_ns = 0;
	int reported = 0;

	do {
		GS_CLEANUP(gs_store_close) struct gs_store *reader = NULL;
		struct gs_err err = {{0}};
		int r;

		pthread_mutex_lock(&h->lock);
		h->coarse_changed = false;
		retention = h->o.retention;
		pthread_mutex_unlock(&h->lock);
		if (!retention.n_levels)
			continue;
		if (!is_same_retention(&before, &retention) || gs_clock_mono_ns() >= all_ns) {
			all_ns = gs_clock_mono_ns() + ALL_NS;
			for (size_t i = 0; i < GS_HEAD_LEVELS_MAX; i++)
				from[i] = INT64_MIN;
		}
		before = retention;
		r = gs_head_reader(h, &reader, &err);
		if (r == 0)
			r = scan_levels(h, &retention, reader, from);
		if (r < 0 && r != -ESHUTDOWN && r != reported)
			head_log(h, "cannot downsample: %s; it is tried again",
				 err.text[0] ? err.text : strerror(-r));
		reported = r;
	} while (wait_ns(h, EVERY_NS));
	return NULL;
}

int head_rollup_start(struct gs_head *h, struct gs_err *err)
{
	pthread_condattr_t attr;
	int r;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->coarse_wake, &attr);
	pthread_condattr_destroy(&attr);
	r = -pthread_create(&h->coarse_thread, NULL, run_rollups, h);
	h->has_coarse_thread = r == 0;
	return r < 0 ? gs_err_set(err, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

void head_rollup_stop(struct gs_head *h)
{
	if (!h->has_coarse_thread)
		return;
	pthread_mutex_lock(&h->lock);
	h->coarse_stop = true;
	pthread_cond_broadcast(&h->coarse_wake);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->coarse_thread, NULL);
	h->has_coarse_thread = false;
}
