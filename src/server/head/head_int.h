/* Private to the room. */
#ifndef GS_SERVER_HEAD_HEAD_INT_H
#define GS_SERVER_HEAD_HEAD_INT_H

#include <protobuf-c/protobuf-c.h>
#include <pthread.h>

#include "core/base/buf.h"
#include "server/head/head.h"
#include "server/head/head_push.h"
#include "server/head/reply.h"
#include "server/head/session.h"
#include "server/head/stream.h"
#include "model/node/record.h"
#include "server/store/report.h"
#include "server/store/store.h"

/* --- streams, and the queue in front of the store: head_stream.c, head_store.c --- */

/* One stream of one node, as long as a node delivers it. Owned by references: the call's, and one
 * of each item in the queue. */
struct gs_head_stream {
	struct gs_head *head;
	/* Under the head's lock. */
	unsigned refs;
	struct gs_head_stream *previous, *next; /* of those that are delivered now */
	bool live, shown_connected, paused; /* paused: its call is not read, the queue is full */

	struct gs_grpc_call *call; /* referenced */
	bool is_mute;              /* of snapshots (stream.h): its node knows no answers */
	struct gs_store_node node;
	struct gs_store_stream stream; /* id 0: the store has not been asked yet. Of its thread */
	char address[64], version[32];
	char denied[256];      /* of the store's thread: why it may not be this node */
	uint64_t acked;        /* of the store's thread */
	uint64_t run, attempt; /* of its Hello */
	bool superseded,
		sent_superseded; /* likewise: another connection delivers it since; its node knows */
	_Atomic int64_t node_id; /* 0: the store has not been asked yet */
	/* Of the gRPC server's thread. */
	struct gs_node_decoder *decoder;
	struct gs_node_snapshot *early; /* mute: under the lock, the newest before node_id */
	uint64_t seq;                   /* mute: of its last snapshot */
	uint64_t clock_id, clock_sent_ns;
	int64_t clock_sent_wall_ns;
	uint64_t best_trip_ns;
	uint64_t best_at_ns;
	int64_t offset_ns;
	/* When offset_ns was found: the node's wall clock less its boot clock (0: not known), and
	 * this machine's less its monotonic one. What they are since shows that a clock was set. */
	int64_t node_base_ns, base_ns;
	uint64_t live_seq; /* from this number on batches are made while it is connected */
};

struct head_item {
	struct head_item *next;
	struct gs_head_stream *stream; /* referenced */
	enum { HEAD_HELLO, HEAD_BATCH, HEAD_END } kind;
	uint64_t taken_ns;              /* monotonic */
	struct gs_store_batch batch;    /* data after this struct */
	struct gs_store_report *report; /* owned; of a batch that is the report of a job */
	uint8_t data[];
};

struct head_question;

#define HEAD_QUEUE_MAX_BYTES (64u << 20)

#define HEAD_N_CONTROL 12

struct head_job;

struct head_jobs { /* under the head's lock */
	struct head_job *first, *last;
};

struct gs_head {
	struct gs_head_options o; /* retention: under the lock */
	struct gs_grpc_server *rpc;
	struct gs_grpc_method *methods; /* owned: our own, and those of o.service */
	_Atomic bool asked; /* whether the gRPC server's thread comes around; it says so by false */
	struct gs_registry *cluster;
	struct gs_store *store; /* of the store's thread */
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t more;
	struct head_item *first, *last;
	uint64_t n_queue, queue_bytes;
	struct head_question *questions; /* a list; each is on the stack of who waits */
	uint64_t last_question;          /* its id */
	pthread_cond_t answered;
	bool stopping;
	struct gs_head_stats stats;
	struct gs_head_stream *live; /* a list; each referenced by its call */
	size_t n_paused;
	struct head_jobs writes, reads;
	pthread_cond_t more_reads;
	bool jobs_ended;
	struct gs_store_session *active; /* n_active, newest first: a copy of the store's */
	size_t n_active;
	uint64_t wish_version;

	bool expiring, more_to_expire; /* a job for it waits or runs; it left some */
	bool reported_over;            /* of the store's thread: that nothing is left to remove */
	unsigned n_exports;            /* that run; more_reads reports their ends */

	uint64_t next_expire_ns; /* of the thread that ticks */
	struct gs_store *reader; /* of the reader's thread */
	pthread_t read_thread;
	bool has_read_thread;

	struct gs_buf raw; /* of the gRPC server's thread */

	struct gs_session_export_files *files; /* owned; NULL: none are written */
	struct head_fleet *fleet;              /* owned; it has a lock of its own */

	pthread_t coarse_thread;
	bool has_coarse_thread;
	pthread_cond_t coarse_wake;       /* with the lock, as what follows */
	bool coarse_stop, coarse_changed; /* changed: what is to be kept */

	pthread_mutex_t push_lock; /* of push: taken away before it is closed */
	struct gs_push_set *push;  /* owned; NULL: none */
	struct gs_head_pusher *pusher[GS_PUSH_PROTOCOLS]; /* each of its receiver's thread */
};

/* --- jobs: head_job.c --- */

/* Those that are there, on the thread of the store (NULL: the head ends). */
void head_jobs_run(struct gs_head *h, struct head_jobs *jobs, struct gs_store *store);
int head_reader_start(struct gs_head *h, struct gs_err *err);

/* No more jobs are taken; the reader's thread ends. */
void head_jobs_end(struct gs_head *h);

/* Now and then: what is too old is removed, a little at a time. head_retention.c */
void head_keep(struct gs_head *h);
void head_kept(struct gs_head *h,
	       struct gs_head_retention *ret_retention); /* a copy, as it is now */

/* Downsampling, on a thread of its own: head_rollup.c */
int head_rollup_start(struct gs_head *h, struct gs_err *err);
void head_rollup_stop(struct gs_head *h);

/* --- jobs over many nodes: head_fleet.c --- */

struct gs_fleet_counts;

int head_fleet_start(struct gs_head *h, struct gs_err *err);
void head_fleet_stop(struct gs_head *h); /* when neither gRPC nor the store has a thread */

/* What a batch of a trace says of ranks; offset_ns: the head's clock less the node's. The gRPC server's thread. */
void head_fleet_take(struct gs_head_stream *s, const struct gs_batch *records, int64_t offset_ns);

/* Now and then: ranks are compared, and what is found goes to the store. The thread that ticks. */
void head_fleet_tick(struct gs_head *h);

/* As of now. Any thread. */
void head_fleet_counts(struct gs_head *h, struct gs_fleet_counts *ret_counts);

/* --- sessions: head_session.c --- */

/* What a node of that host name shall measure: the head's switches and what sessions ask for. With
 * the lock held. */
void head_config_locked(const struct gs_head *h, const char *hostname,
			struct gs_head_switches *desired);

/* A text of a peer in a message: cut, and without what steers a terminal. */
struct head_shown {
	char text[64];
};
struct head_shown head_shown(const char *text);

/* --- the store's thread --- */

int head_store_start(struct gs_head *h, struct gs_err *err);
void head_store_stop(struct gs_head *h);

/* Put into the queue; takes the item over. Any thread. */
void head_store_put(struct gs_head *h, struct head_item *item);

/* An item of the stream (takes a reference), with room for data. NULL: no memory. */
struct head_item *head_item_new(struct gs_head_stream *stream, int kind, const void *data,
				size_t bytes);
void head_item_free(struct head_item *item);

/* Whether the queue is full; the stream's call is then paused until it is not. */
bool head_store_full(struct gs_head_stream *s);

/* A stream of this call, with one reference: the call's. NULL: no memory. */
struct gs_head_stream *head_stream_new(struct gs_head *h, struct gs_grpc_call *call);
void head_stream_unref(struct gs_head_stream **stream);
void head_stream_live(struct gs_head_stream *s); /* one of those that are delivered now */

/* --- the services --- */

/* What the store said of a stream: answered to the node. On the store's thread. r: 0 or why not. */
void head_node_welcome(struct gs_head_stream *s, int r);
void head_node_ack(struct gs_head_stream *s, uint64_t seq);
void head_node_reject(struct gs_head_stream *s, uint64_t seq, const char *reason);
/* A node's answer to gs_head_ask(); and that none will come over this stream. The gRPC server's thread. head_ask.c */
struct Gpuscope__V1__Answer;
void head_answer_take(struct gs_head_stream *s, const struct Gpuscope__V1__Answer *answer);
void head_answers_end(struct gs_head_stream *s);
/* Its call ends, because of a newer one with the same stream. */
void head_node_denied(struct gs_head_stream *s);
void head_node_superseded(struct gs_head_stream *s);
/* Packed and on its way, unless there is no memory. */
struct Gpuscope__V1__ToNode;
void head_node_send(struct gs_head_stream *s, const struct Gpuscope__V1__ToNode *m);

/* Whether a batch is such as a node makes: unpacked into raw, each record whole. ret_newest (the
 * caller's, may be NULL): its last snapshot, with what happened to GPUs (gpu->event) in all of them. */
struct Gpuscope__V1__Batch;
bool head_batch_check(const struct Gpuscope__V1__Batch *batch, unsigned kind,
		      struct gs_node_decoder *decoder, struct gs_buf *raw,
		      struct gs_node_snapshot **ret_newest);

/* Likewise of a batch that is the report of a job: what lists choose it by. head_report.c */
bool head_report_check(const struct Gpuscope__V1__Batch *batch, struct gs_buf *raw,
		       struct gs_store_report *ret_report);

/* The answer to ListJobReports, on the reader's thread (NULL: the head ends). */
void head_reports_list(const struct gs_head *h, struct gs_grpc_call *call, const void *query,
		       struct gs_store *store);

/* The answer to ListFindings, likewise. head_finding.c */
void head_findings_list(struct gs_grpc_call *call, const void *query, struct gs_store *store);

/* The answer to ListSteps. head_step.c */
void head_steps_list(struct gs_head *h, struct gs_grpc_call *call, const void *query);

/* What who makes the call may see of other people's commands. Any thread. */
enum gs_session_export_commands head_may_see(const struct gs_head *h,
					     const struct gs_grpc_call *call);

extern const struct gs_grpc_method head_node_method;

enum gs_grpc_status head_status_of(int r); /* that fits a negative errno */

/* Sends a session in a format of ExportRequest, from a thread of its own; it ends the call. */
int head_export_start(struct gs_head *h, struct gs_grpc_call *call,
		      const struct gs_store_session *s, unsigned format, struct gs_err *err);
void head_export_wake(struct gs_grpc_call *call); /* there is room to send, or the call is over */
void head_export_stop(struct gs_head *h);         /* waits for those that run */

extern const struct gs_grpc_method head_control_methods[HEAD_N_CONTROL];

/* What the head wants measured has changed: send it to all nodes. Any thread. */
void head_node_config(struct gs_head *h);

/* Nodes of earlier runs: their absence is shown. */
int head_know_node(void *head, const struct gs_store_node *node);
/* And what is stored of them, and what was lost. */
int head_know_stream(void *head, const struct gs_store_stream *stream);

void head_log(struct gs_head *h, const char *fmt, ...) GS_PRINTF(2, 3);

#endif
