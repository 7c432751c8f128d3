/*
 * For code that speaks with a head: node.c, and one other protocol, which a room above may set. A
 * line is the sender's half of a link and runs in a process without rights. The holder has the spool;
 * gs_uplink_ask() asks the holder for what is in it.
 */
#ifndef GS_NET_UPLINK_UPLINK_LINE_H
#define GS_NET_UPLINK_UPLINK_LINE_H

#include "core/base/buf.h"
#include "core/queue/queue.h"
#include "net/grpc/grpc_client.h"
#include "net/uplink/uplink.h"

/* --- messages; as the holder and the sender are the same program, they have no version --- */

enum gs_uplink_message {
	/* of the sender; the holder answers none of these */
	LINK_HELLO = 1, /* what protects it */
	LINK_STATE,     /* uplink_put_state(): when it changes, and after a PING */
	LINK_SAY,       /* a line for who runs the program */
	LINK_CONFIG,    /* what the head wants */
	LINK_DONE,      /* everything is delivered, or the time is up */
	/* and asked: the holder answers with REPLY. A number each. */
	LINK_BEGIN,    /* 0: the stream and the number of the attempt to deliver it */
	LINK_WAITING,  /* 0: what waits */
	LINK_GET,      /* gs_queue_get() */
	LINK_SENT,     /* gs_queue_sent(): before it goes out */
	LINK_ACK,      /* gs_queue_ack() */
	LINK_RESUME,   /* gs_queue_resume() */
	LINK_DROP,     /* gs_queue_drop() */
	LINK_RENEW,    /* gs_queue_renew() */
	LINK_QUESTION, /* not a number but uplink_put_question() */
	LINK_CONNECT,  /* to the socket of this machine that is address number N */
	/* of the holder */
	LINK_START,
	LINK_NEWS, /* something waits, or the end has come: stopping, ended, until when */
	LINK_PING,
	LINK_REPLY, /* uplink_put_reply() */
};

struct gs_uplink_reply {
	int r; /* what the holder returns: 0, GS_QUEUE_END, or a negative errno */
	uint64_t stream, attempt; /* number of the stream; which connection this is */
	uint64_t first_seq, next_seq, opened_seq, n_batches; /* as of struct gs_queue_stats */
	uint64_t wall_ns, boot_ns;                           /* the clocks of who measures */
	uint64_t sent_seq; /* the highest of the stream that any sender of this run sent */
	struct gs_queue_batch batch; /* of LINK_GET; data lent */
};

struct gs_uplink_news {
	bool stopping, ended; /* the line is to end by drain_until_ns; nothing more will be put */
	uint64_t drain_until_ns;
};

struct gs_uplink_line_state { /* of one sender */
	unsigned state;       /* enum gs_uplink_state */
	bool is_other;        /* the head speaks the other protocol, gs_uplink_set_other() */
	char head[128], trouble[256]; /* as in struct gs_uplink_stats */
	uint64_t retry_ns;            /* monotonic; when it connects next, UINT64_MAX: not now */
	uint64_t connects, sent_batches, sent_bytes, acked_batches; /* of this sender */
};

#define UPLINK_INTERVAL_MAX_NS 3600000000000ull /* longest interval that a head can ask for */

struct gs_uplink_line;

struct gs_uplink_protocol {
	/* The connection stands: begin. */
	void (*begin)(struct gs_uplink_line *l);
	/* Send what can be sent. Called after every event. */
	void (*pump)(struct gs_uplink_line *l);
	/* Nothing more will come; called when the drain is over. */
	void (*end)(struct gs_uplink_line *l);
};

struct gs_uplink_line {
	enum gs_uplink_kind kind;                                    /* what the records are */
	char machine_id[64], instance[64], hostname[65], title[256]; /* who the node is */
	uint64_t run;                                                /* of Hello */
	struct gs_grpc_client *client;                               /* owned */
	struct gs_grpc_request *request;           /* the stream; NULL not there */
	const struct gs_uplink_protocol *protocol; /* that the head speaks */
	struct gs_grpc_backoff backoff;            /* when to try again */
	uint64_t connected_ns;                     /* since when; 0 it is not */
	uint64_t next_send;                        /* number of the next batch to send */
	uint64_t max_batch; /* bytes of records that the head takes in one; 0 it does not say */
	uint64_t flight_bytes, flight_batches; /* sent and not acknowledged */
	uint64_t blamed_seq;                   /* the stream ended at this one, as wrong, */
	unsigned n_blamed;                     /* so often */
	bool welcomed;                         /* the head took the stream */
	bool blocked;                          /* no more fits into the call's queue */
	bool ended_sent;                       /* it was said that nothing more comes */
	bool left;                             /* not to connect again */
	struct gs_buf out;                     /* of a message to the head that is being made */
	struct gs_uplink_line_state state, reported; /* now; as the holder was given it last */
	bool pinged;                /* the state is to be reported even if it is the same */
	struct gs_uplink_news news; /* of the holder, the last */
	struct gs_uplink_given_up {
		uint64_t n, seq; /* how many, the last one's number */
		char why[200];   /* of the last one */
	} given_up;              /* not reported yet */
	struct gs_buf in, ask;   /* to and from the holder */
};

/* One line for the holder to show. */
void gs_uplink_log(struct gs_uplink_line *l, const char *fmt, ...) GS_PRINTF(2, 3);

/* The stream ended: connect again later, or, final, not at all. */
void gs_uplink_failed(struct gs_uplink_line *l, enum gs_grpc_status status, const char *text,
		      bool final);

/* The head will never take this batch: it is counted as lost, and reported. */
void gs_uplink_give_up(struct gs_uplink_line *l, uint64_t seq, const char *why);

/* What is tried on the connection to a head that does not know our protocol; static. Once, before
 * any link is started; a sender is the same program, and sets it too. */
void gs_uplink_set_other(const struct gs_uplink_protocol *protocol);

/* Go on with this protocol on the same connection. */
void gs_uplink_switch(struct gs_uplink_line *l, const struct gs_uplink_protocol *protocol);

/* --- supply.c: the holder's spool, asked; the process ends when the holder is gone --- */

/* One of LINK_BEGIN to LINK_RENEW; the reply's r. A batch's data are lent until the next call. */
int gs_uplink_ask(struct gs_uplink_line *l, enum gs_uplink_message what, uint64_t number,
		  struct gs_uplink_reply *ret);
void gs_uplink_report_config(struct gs_uplink_line *l, const struct gs_uplink_config *desired);

#endif
