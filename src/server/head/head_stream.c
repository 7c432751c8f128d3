/* Streams: what a node delivers over one call, as items for the store's thread. */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/clock.h"

struct gs_head_stream *head_stream_new(struct gs_head *h, struct gs_grpc_call *call)
{
	struct gs_head_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	s->head = h;
	s->call = gs_grpc_call_ref(call);
	snprintf(s->address, sizeof(s->address), "%s", gs_grpc_call_peer(call));
	return s;
}

void head_stream_unref(struct gs_head_stream **stream)
{
	struct gs_head_stream *s = *stream;
	unsigned refs;

	*stream = NULL;
	pthread_mutex_lock(&s->head->lock);
	refs = --s->refs;
	pthread_mutex_unlock(&s->head->lock);
	if (refs)
		return;
	if (s->call)
		gs_grpc_call_unref(&s->call);
	gs_node_decoder_free(&s->decoder);
	gs_node_snapshot_free(&s->early);
	free(s);
}

void head_stream_live(struct gs_head_stream *s)
{
	struct gs_head *h = s->head;

	pthread_mutex_lock(&h->lock);
	s->live = true;
	s->next = h->live;
	if (h->live)
		h->live->previous = s;
	h->live = s;
	pthread_mutex_unlock(&h->lock);
}

void gs_head_stream_close(struct gs_head_stream **stream)
{
	struct gs_head_stream *s = *stream;
	struct gs_head *h = s->head;

	gs_node_decoder_free(&s->decoder); /* what still waits in the queue needs none */
	pthread_mutex_lock(&h->lock);
	s->live = false;
	h->n_paused -= s->paused;
	*(s->previous ? &s->previous->next : &h->live) = s->next;
	if (s->next)
		s->next->previous = s->previous;
	if (s->shown_connected)
		gs_registry_gone(h->cluster, s->node_id);
	pthread_mutex_unlock(&h->lock);
	head_stream_unref(stream);
}

/* --- items --- */

struct head_item *head_item_new(struct gs_head_stream *stream, int kind, const void *data,
				size_t bytes)
{
	struct head_item *i = malloc(sizeof(*i) + bytes);

	if (!i)
		return NULL;
	*i = (struct head_item){.stream = stream, .kind = kind, .taken_ns = gs_clock_mono_ns()};
	if (bytes)
		memcpy(i->data, data, bytes);
	i->batch.data = i->data;
	i->batch.bytes = bytes;
	pthread_mutex_lock(&stream->head->lock);
	stream->refs++;
	pthread_mutex_unlock(&stream->head->lock);
	return i;
}

void head_item_free(struct head_item *i)
{
	head_stream_unref(&i->stream);
	free(i->report);
	free(i);
}

void head_store_put(struct gs_head *h, struct head_item *item)
{
	pthread_mutex_lock(&h->lock);
	item->next = NULL;
	if (h->last)
		h->last->next = item;
	else
		h->first = item;
	h->last = item;
	h->n_queue++;
	h->queue_bytes += sizeof(*item) + item->batch.bytes;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
}

bool head_store_full(struct gs_head_stream *s)
{
	struct gs_head *h = s->head;
	bool pause = false, full;

	pthread_mutex_lock(&h->lock);
	full = h->queue_bytes >= HEAD_QUEUE_MAX_BYTES;
	if (full && !s->paused && s->live) {
		s->paused = pause = true;
		h->n_paused++;
	}
	pthread_mutex_unlock(&h->lock);
	if (pause)
		gs_grpc_call_pause(s->call);
	return full;
}

/* --- streams of snapshots --- */

struct gs_head_stream *gs_head_stream_open(struct gs_head *head, struct gs_grpc_call *call,
					   const struct gs_store_node *node, const char *version)
{
	struct gs_head_stream *s = head_stream_new(head, call);
	struct head_item *item;

	if (!s)
		return NULL;
	s->is_mute = true;
	s->stream.kind = GS_STORE_SAMPLES;
	memcpy(s->node.machine_id, node->machine_id, sizeof(s->node.machine_id));
	memcpy(s->node.instance, node->instance, sizeof(s->node.instance));
	memcpy(s->node.hostname, node->hostname, sizeof(s->node.hostname));
	snprintf(s->version, sizeof(s->version), "%s", version);
	/* No node gave it a number: one that no other has. */
	item = getrandom(&s->stream.stream, sizeof(s->stream.stream), 0) ==
			       (ssize_t)sizeof(s->stream.stream)
		       ? head_item_new(s, HEAD_HELLO, NULL, 0)
		       : NULL;
	if (!item) {
		head_stream_unref(&s);
		return NULL;
	}
	head_stream_live(s);
	head_store_put(head, item);
	return s;
}

/* The newest snapshot; until the store knows the stream it waits for head_store.c. */
static void show_newest(struct gs_head_stream *s, struct gs_node_snapshot **snapshot)
{
	int64_t id;

	pthread_mutex_lock(&s->head->lock);
	id = s->node_id;
	if (!id) {
		gs_node_snapshot_free(&s->early);
		s->early = gs_take(*snapshot);
	}
	pthread_mutex_unlock(&s->head->lock);
	if (id)
		gs_registry_apply(s->head->cluster, id, snapshot);
}

int gs_head_stream_sample(struct gs_head_stream *s, struct gs_node_snapshot **snapshot)
{
	struct gs_buf *raw = &s->head->raw;
	struct head_item *item = NULL;
	int r;

	gs_buf_reset(raw);
	r = gs_node_encode(raw, *snapshot);
	if (r == 0 && !(item = head_item_new(s, HEAD_BATCH, raw->data, raw->bytes)))
		r = -ENOMEM;
	if (item) {
		item->batch.seq = ++s->seq;
		item->batch.first_wall_ns = item->batch.last_wall_ns = (*snapshot)->wall_ns;
		item->batch.n_samples = 1;
		item->batch.raw_bytes = (uint32_t)raw->bytes;
		item->batch.codec = GS_STORE_PLAIN;
		show_newest(s, snapshot);
		head_store_put(s->head, item);
		(void)head_store_full(s);
	}
	gs_node_snapshot_free(snapshot);
	return r;
}

void gs_head_stream_end(struct gs_head_stream *s)
{
	struct head_item *item = head_item_new(s, HEAD_END, NULL, 0);

	if (item)
		head_store_put(s->head, item);
}
