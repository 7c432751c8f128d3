/*
 * The thread that stores. It takes what has come meanwhile as one transaction: while one is written
 * the next gathers, so that a slow disk makes larger transactions, not longer queues.
 */
#include "server/head/head_int.h"
#include "core/base/log.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "server/store/finding.h"

#define GATHER_NS       100000000ull /* at least between two transactions */
#define RETRY_NS        1000000000ull
#define TRANSACTION_MAX 4096 /* batches */

static void read_on(struct gs_head *h)
{
	pthread_mutex_lock(&h->lock);
	if (h->n_paused && h->queue_bytes < HEAD_QUEUE_MAX_BYTES / 2)
		for (struct gs_head_stream *s = h->live; s; s = s->next)
			if (s->paused) {
				s->paused = false;
				h->n_paused--;
				gs_grpc_call_resume(s->call);
			}
	pthread_mutex_unlock(&h->lock);
}

/* --- one transaction --- */

/* The newest connection of a stream has it: what comes over older ones from now on is not stored,
 * since this one now learns where to go on. */
static void supersede_streams(struct gs_head *h, struct gs_head_stream *by)
{
	pthread_mutex_lock(&h->lock);
	for (struct gs_head_stream *s = h->live; s; s = s->next) {
		if (s == by || s->stream.id != by->stream.id)
			continue;
		/* What a connection that was given up had still under way comes late. */
		if (s->run == by->run && s->attempt > by->attempt)
			by->superseded = true;
		else
			s->superseded = true;
	}
	pthread_mutex_unlock(&h->lock);
}

static void report_superseded(struct gs_head *h)
{
	pthread_mutex_lock(&h->lock);
	for (struct gs_head_stream *s = h->live; s; s = s->next)
		if (s->superseded && !s->sent_superseded) {
			s->sent_superseded = true;
			head_node_superseded(s);
		}
	pthread_mutex_unlock(&h->lock);
}

/* A node is who its token or certificate says: by its name, and by the name that its machine id has
 * here, so that it takes the place of no other. */
static int check_node(struct gs_head *h, struct gs_head_stream *s)
{
	struct gs_store_node known;
	char why[sizeof(s->denied)];
	int r;

	if (!h->o.may_be)
		return 0;
	if (!h->o.may_be(h->o.may_be_ctx, s->call, s->node.hostname, s->denied, sizeof(s->denied)))
		return -EPERM;
	r = gs_store_node_find(h->store, s->node.machine_id, s->node.instance, &known);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (h->o.may_be(h->o.may_be_ctx, s->call, known.hostname, why, sizeof(why)))
		return 0;
	snprintf(s->denied, sizeof(s->denied), "machine id %.40s is that of node %s here: %.100s",
		 known.machine_id, known.hostname, why);
	return -EPERM;
}

static int open_stream(struct gs_head *h, struct gs_head_stream *s)
{
	struct gs_registry_node node = {.id = 0};
	int r = check_node(h, s);

	if (r == 0)
		r = gs_store_node(h->store, &s->node, &node.id);
	if (r < 0)
		return r;
	s->stream.node = node.id;
	r = gs_store_stream(h->store, &s->stream, &s->stream);
	if (r < 0)
		return r;
	s->acked = s->stream.last_seq;
	s->node.id = node.id;
	memcpy(node.machine_id, s->node.machine_id, sizeof(node.machine_id));
	memcpy(node.instance, s->node.instance, sizeof(node.instance));
	memcpy(node.hostname, s->node.hostname, sizeof(node.hostname));
	supersede_streams(h, s);
	/* Who only sends reports of jobs is no node to be watched: most of them come once. */
	if (s->stream.kind == GS_STORE_JOBS)
		return 0;
	node.last_wall_ns = s->stream.last_wall_ns;
	return gs_registry_put(h->cluster, &node);
}

static int store_one(struct gs_head *h, struct head_item *i)
{
	struct gs_head_stream *s = i->stream;

	switch (i->kind) {
	case HEAD_HELLO:
		return s->superseded ? -ESTALE : open_stream(h, s);
	case HEAD_END:
		return s->stream.id ? gs_store_stream_end(h->store, s->stream.id) : 0;
	case HEAD_BATCH:
		if (s->superseded)
			return -ESTALE;
		if (!s->stream.id)
			return -EINVAL;
		/* The kind that the stream has in the store, whatever its Hello says now. */
		if (s->stream.kind != GS_STORE_JOBS)
			return i->report ? -EINVAL
					 : gs_store_append(h->store, s->stream.id, &i->batch);
		return i->report ? gs_store_report_put(h->store, s->stream.id, &i->batch, i->report)
				 : -EINVAL;
	}
	return -EINVAL;
}

/* What one node must not do to others: a wrong item is not a store that fails. */
static bool is_its_own(int r)
{
	return r == -EEXIST || r == -EINVAL || r == -ESTALE || r == -EPERM;
}

/* Everything of the list, or nothing. results: of each item. */
static int store_all(struct gs_head *h, struct head_item *list, int *results)
{
	int r = gs_store_begin(h->store);
	size_t n = 0;

	for (struct head_item *i = list; i && r == 0; i = i->next, n++) {
		r = store_one(h, i);
		results[n] = r;
		if (is_its_own(r))
			r = 0;
	}
	if (r == 0)
		return gs_store_commit(h->store);
	gs_store_rollback(h->store);
	return r;
}

/* The node is there, unless its call ended before the store came to it. */
static void show_connected(struct gs_head *h, struct gs_head_stream *s)
{
	struct gs_node_snapshot *early;

	pthread_mutex_lock(&h->lock);
	if (s->live && s->stream.kind != GS_STORE_JOBS) {
		gs_registry_connected(h->cluster, s->node.id, s->address, s->version);
		s->shown_connected = true;
	}
	s->node_id = s->node.id;
	early = gs_take(s->early);
	pthread_mutex_unlock(&h->lock);
	if (early)
		gs_registry_apply(h->cluster, s->node.id, &early);
	gs_registry_counts(h->cluster, s->node.id, 0, s->stream.lost_samples, 0);
}

/* It is on the disk: the nodes may forget it. */
static void acknowledge_items(struct gs_head *h, struct head_item *list, const int *results)
{
	size_t n = 0;

	for (struct head_item *i = list; i; i = i->next, n++) {
		struct gs_head_stream *s = i->stream;
		const struct gs_store_batch *b = &i->batch;

		if (results[n] == -ESTALE)
			continue;
		if (results[n] == -EPERM && i->kind == HEAD_HELLO) {
			head_node_denied(s);
		} else if (results[n] == -EINVAL && i->kind == HEAD_BATCH) {
			head_node_reject(s, b->seq, "not a batch that a node makes");
		} else if (results[n] == -EINVAL) {
			head_node_welcome(s, -EINVAL);
		} else if (i->kind == HEAD_HELLO) {
			show_connected(h, s);
			head_node_welcome(s, 0);
		} else if (i->kind == HEAD_BATCH) {
			if (results[n] == 0)
				gs_registry_counts(h->cluster, s->node.id,
						   i->report ? 0 : b->n_samples, b->lost_samples,
						   b->missed_samples);
			if (b->seq > s->acked)
				s->acked = b->seq;
		}
	}
	/* One acknowledgement a stream: for its last batch here. */
	for (struct head_item *i = list; i; i = i->next)
		if (i->kind == HEAD_BATCH && i->batch.seq == i->stream->acked)
			head_node_ack(i->stream, i->stream->acked);
	report_superseded(h);
}

static void count_items(struct gs_head *h, struct head_item *list, const int *results,
			uint64_t began_ns)
{
	uint64_t now = gs_clock_mono_ns();
	size_t n = 0;

	pthread_mutex_lock(&h->lock);
	for (struct head_item *i = list; i; i = i->next, n++) {
		h->n_queue--;
		h->queue_bytes -= sizeof(*i) + i->batch.bytes;
		if (i->kind != HEAD_BATCH)
			continue;
		h->stats.duplicates += results[n] == -EEXIST;
		h->stats.refused += results[n] == -EINVAL;
		if (results[n] == 0) {
			h->stats.batches++;
			h->stats.reports += i->report != NULL;
			h->stats.samples += i->report ? 0 : i->batch.n_samples;
			h->stats.bytes += i->batch.bytes;
		}
	}
	h->stats.commits++;
	h->stats.commit_ns += now - began_ns;
	h->stats.latency_ns = now - list->taken_ns;
	h->stats.trouble[0] = 0;
	pthread_mutex_unlock(&h->lock);
	gs_log(GS_LOG_DEBUG, GS_LOG_HEAD, "store: %zu messages of nodes committed in %.1f ms", n,
	       (double)(now - began_ns) / 1e6);
}

static void set_trouble(struct gs_head *h, int r)
{
	bool is_new;

	pthread_mutex_lock(&h->lock);
	is_new = !h->stats.trouble[0];
	snprintf(h->stats.trouble, sizeof(h->stats.trouble), "cannot store: %s (%s)", strerror(-r),
		 gs_store_trouble(h->store));
	pthread_mutex_unlock(&h->lock);
	if (is_new)
		head_log(
			h,
			"cannot store data from nodes: %s (%s); nodes buffer it until this is fixed",
			strerror(-r), gs_store_trouble(h->store));
}

/* --- the thread --- */

/* Up to a transaction's worth from the front; it stays counted until it is stored. */
static struct head_item *take_items(struct gs_head *h, uint64_t wait_until_ns, bool *ret_stop)
{
	struct head_item *list, *last;
	struct timespec at = {(time_t)(wait_until_ns / 1000000000ull),
			      (long)(wait_until_ns % 1000000000ull)};
	bool early;

	pthread_mutex_lock(&h->lock);
	while (!h->stopping && !h->writes.first && gs_clock_mono_ns() < wait_until_ns)
		pthread_cond_timedwait(&h->more, &h->lock, &at);
	while (!h->stopping && !h->writes.first && !h->first)
		pthread_cond_wait(&h->more, &h->lock);
	*ret_stop = h->stopping && !h->first;
	/* Woken for a job alone: what gathers goes on to gather. */
	early = !h->stopping && gs_clock_mono_ns() < wait_until_ns;
	list = last = early ? NULL : h->first;
	for (unsigned n = 1; last && last->next && n < TRANSACTION_MAX; n++)
		last = last->next;
	if (last) {
		h->first = last->next;
		last->next = NULL;
		if (!h->first)
			h->last = NULL;
	}
	pthread_mutex_unlock(&h->lock);
	return list;
}

static bool is_stopping(struct gs_head *h)
{
	bool stop;

	pthread_mutex_lock(&h->lock);
	stop = h->stopping;
	pthread_mutex_unlock(&h->lock);
	return stop;
}

/* Until it is worth trying again; meanwhile jobs are done, or answered with the reason. */
static void wait_for_room(struct gs_head *h)
{
	static const struct timespec step = {0, RETRY_NS / 10};

	for (int i = 0; i < 10 && !is_stopping(h); i++) {
		head_jobs_run(h, &h->writes, h->store);
		nanosleep(&step, NULL);
	}
}

static void *run_store(void *arg)
{
	struct gs_head *h = arg;
	int results[TRANSACTION_MAX];
	uint64_t next_ns = 0;
	bool stop = false;

	while (!stop) {
		struct head_item *list = take_items(h, next_ns, &stop);
		uint64_t began = gs_clock_mono_ns();
		bool had_list = list;
		int r = list ? store_all(h, list, results) : 0;

		while (r < 0 && !is_stopping(h)) {
			set_trouble(h, r);
			wait_for_room(h);
			r = store_all(h, list, results);
		}
		if (list && r == 0) {
			acknowledge_items(h, list, results);
			count_items(h, list, results, began);
		}
		while (list) {
			struct head_item *next = list->next;

			head_item_free(list);
			list = next;
		}
		read_on(h);
		head_jobs_run(h, &h->writes, h->store);
		if (had_list)
			next_ns = began + GATHER_NS;
	}
	return NULL;
}

int head_store_start(struct gs_head *h, struct gs_err *err)
{
	pthread_condattr_t attr;
	int r = gs_store_open(h->o.data, GS_STORE_WRITE, &h->store, err);

	if (r < 0)
		return r;
	r = gs_store_sessions_interrupted(h->store);
	if (r < 0)
		return gs_err_set(err, r, "cannot read the sessions: %s",
				  gs_store_trouble(h->store));
	if (r > 0)
		head_log(
			h,
			"%d session%s interrupted when this head last ended: `gpuscope session list`, then `session resume NAME` or `session export NAME`",
			r, r == 1 ? " was" : "s were");
	r = gs_store_findings_interrupted(h->store);
	if (r < 0)
		return gs_err_set(err, r, "cannot read the findings: %s",
				  gs_store_trouble(h->store));
	r = gs_store_nodes(h->store, head_know_node, h);
	if (r >= 0)
		r = gs_store_streams(h->store, 0, head_know_stream, h);
	if (r < 0)
		return gs_err_set(err, r, "cannot read the nodes: %s", gs_store_trouble(h->store));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->more, &attr);
	pthread_cond_init(&h->answered, &attr);
	pthread_condattr_destroy(&attr);
	r = -pthread_create(&h->thread, NULL, run_store, h);
	h->has_thread = r == 0;
	return r < 0 ? gs_err_set(err, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

void head_store_stop(struct gs_head *h)
{
	if (h->has_thread) {
		pthread_mutex_lock(&h->lock);
		h->stopping = true;
		pthread_cond_signal(&h->more);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
		h->has_thread = false;
	}
	/* What was asked for after the thread's last look. */
	head_jobs_run(h, &h->writes, NULL);
	gs_store_close(&h->store);
}
