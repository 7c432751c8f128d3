/* Private to the room. */
#ifndef GS_HEAD_HEAD_INT_H
#define GS_HEAD_HEAD_INT_H

#include <pthread.h>

#include "base/buf.h"
#include "head/head.h"
#include "store/store.h"

/* --- the queue in front of the store: head_store.c --- */

/* One stream of one node, as long as somebody delivers it. Owned by references: the call's, and one
 * of each item in the queue. */
struct head_stream {
	struct gs_head *head;
	/* Under the head's lock. */
	unsigned refs;
	struct head_stream *before, *behind; /* of those that somebody delivers now */
	bool live, shown_connected, paused;  /* paused: its call is not read, the queue is full */

	struct gs_rpc_call *call; /* referenced; NULL: acknowledgements go nowhere (gswarm) */
	struct gs_store_node node;
	struct gs_store_stream stream; /* id 0: the store has not been asked yet. Of its thread */
	char address[64], version[32];
	uint64_t acked;          /* of the store's thread */
	uint64_t run, attempt;   /* of its Hello */
	bool superseded, told;   /* likewise: somebody else delivers it since; has been told so */
	_Atomic int64_t node_id; /* 0: the store has not been asked yet */
	/* Of the rpc's thread. */
	struct gs_node_decoder *decoder;
	uint64_t clock_id, clock_sent_ns;
	int64_t clock_sent_wall_ns;
	uint64_t best_trip_ns;
	uint64_t best_at_ns;
	int64_t offset_ns;
};

struct head_item {
	struct head_item *next;
	struct head_stream *stream; /* referenced */
	enum { HEAD_HELLO, HEAD_BATCH, HEAD_END } kind;
	uint64_t taken_ns;           /* monotonic */
	struct gs_store_batch batch; /* data behind this struct */
	uint8_t data[];
};

#define HEAD_QUEUE_MAX_BYTES (64u << 20)

struct gs_head {
	struct gs_head_options o;
	struct gs_rpc_server *rpc;
	struct gs_cluster *cluster;
	struct gs_store *store; /* of the store's thread */
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t more;
	struct head_item *first, *last;
	uint64_t n_queue, queue_bytes;
	bool stopping;
	struct gs_head_stats stats;
	struct head_stream *live; /* a list; each referenced by its call */
	size_t n_paused;

	struct gs_buf raw; /* of the rpc's thread */
};

int head_store_start(struct gs_head *h, struct gs_err *err);
void head_store_stop(struct gs_head *h);

/* Put into the queue; takes the item over. Any thread. */
void head_store_put(struct gs_head *h, struct head_item *item);

/* An item of the stream (takes a reference), with room for data. NULL: no memory. */
struct head_item *head_item_new(struct head_stream *stream, int kind, const void *data,
				size_t bytes);

/* Whether the queue is full; the stream's call is then paused until it is not. */
bool head_store_full(struct head_stream *s);

void head_stream_unref(struct head_stream **stream);

/* --- the services --- */

/* What the store said of a stream: answered to the node. On the store's thread. r: 0 or why not. */
void head_node_welcome(struct head_stream *s, int r);
void head_node_ack(struct head_stream *s, uint64_t seq);
void head_node_reject(struct head_stream *s, uint64_t seq, const char *reason);
/* Its call ends, because of a newer one with the same stream. */
void head_node_superseded(struct head_stream *s);

extern const struct gs_rpc_method head_node_method;

/* What the head wants measured has changed: tell all nodes. Any thread. */
void head_node_config(struct gs_head *h);

/* Nodes of earlier runs: their absence is shown. */
int head_know_node(void *head, const struct gs_store_node *node);

void head_say(struct gs_head *h, const char *fmt, ...) GS_PRINTF(2, 3);

#endif
