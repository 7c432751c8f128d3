/* Private to the room: the link's thread, and the two ways of talking to a head. */
#ifndef GS_LINK_LINK_INT_H
#define GS_LINK_LINK_INT_H

#include <pthread.h>

#include "base/buf.h"
#include "link/link.h"
#include "rpc/rpc_client.h"
#include "spool/spool.h"

/* At most so much is on its way to a head without an acknowledgement. */
#define LINK_FLIGHT_BATCHES 512
#define LINK_FLIGHT_BYTES   (4u << 20)

struct link_protocol {
	/* The connection stands: begin. */
	void (*begin)(struct gs_link *l);
	/* Send what can be sent. Called with the lock held, after every event. */
	void (*pump)(struct gs_link *l);
	/* Nothing more will come; called when the drain is over. */
	void (*end)(struct gs_link *l);
};

struct gs_link {
	struct gs_link_options o; /* texts owned, in `texts` */
	char *texts;
	char machine_id[64], instance[64], hostname[65], title[256], token[512];
	struct gs_rpc_client *client;
	struct gs_rpc_request *request; /* the stream; NULL not there */
	const struct link_protocol *protocol;
	pthread_t thread;
	bool joined; /* of whoever stops it */
	int wake_fd;

	/* Only of the thread. */
	struct gs_rpc_backoff backoff;
	uint64_t connected_ns; /* since when; 0 it is not */
	uint64_t next_send;    /* number of the next batch to send */
	uint64_t sent_seq;     /* the highest ever sent of this stream */
	uint64_t max_batch;    /* bytes of records that the head takes in one; 0 it does not say */
	uint64_t flight_bytes, flight_batches;
	uint64_t run, attempt; /* of Hello */
	uint64_t blamed_seq;   /* the stream ended at this one, as wrong, */
	unsigned n_blamed;     /* so often */
	bool welcomed, blocked, ended_sent, left;
	struct gs_buf out; /* of a message that is being made */

	pthread_mutex_t lock; /* what follows */
	struct gs_spool *spool;
	struct gs_buf packed;
	struct gs_link_stats stats;
	uint64_t retry_ns; /* monotonic; when to connect next, UINT64_MAX: not now */
	bool stopping, ended, done;
	struct link_given_up {
		uint64_t n, seq; /* how many, the last one's number */
		char why[200];
	} given_up; /* not told yet */
	uint64_t drain_until_ns;
};

extern const struct link_protocol link_node, link_gswarm;

void link_say(struct gs_link *l, const char *fmt, ...) GS_PRINTF(2, 3);

/* The stream ended: connect again later, or, final, not at all. The caller holds no lock. */
void link_failed(struct gs_link *l, enum gs_rpc_status status, const char *text, bool final);

/* The head will never take this batch: it is counted as lost, and told. With the lock held. */
void link_give_up(struct gs_link *l, uint64_t seq, const char *why);

/* Try the other protocol on the same connection. */
void link_switch(struct gs_link *l, const struct link_protocol *protocol);

#endif
