/*
 * The node's end of the line to a head: takes runs of records, keeps them in a spool until the head
 * has stored them, and delivers them whenever the head can be reached. A thread of its own
 * connects, sends and tries again; the measuring thread never waits for the network.
 *
 * A head of gpuscope acknowledges what it stored (proto/gpuscope.proto); what it has not is sent
 * again, also after this program, its sender or the head was killed. A head that speaks another
 * protocol (uplink_line.h) may know no acknowledgements: what it was sent counts as delivered.
 */
#ifndef GS_NET_UPLINK_UPLINK_H
#define GS_NET_UPLINK_UPLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/trace/record.h"

struct gs_uplink;

/* As in proto/gpuscope.proto. */
enum gs_uplink_kind {
	GS_UPLINK_SAMPLES = 1,
	GS_UPLINK_TRACE = 2,
	GS_UPLINK_JOBS = 3, /* a run is the report of a job, not records */
};

/* What the head wants measured. */
struct gs_uplink_config {
	uint64_t interval_ns;              /* 0: as the node likes */
	bool bandwidth, nvlink, processes; /* counters of PCIe and memory; of NVLink; processes */
};

/* As in proto/gpuscope.proto. */
enum gs_uplink_question_kind {
	GS_UPLINK_RECORDER = 1,      /* a JSON document of it */
	GS_UPLINK_RECORDER_FILE = 2, /* bytes of a file of it */
	GS_UPLINK_RECORDER_SAVE = 3, /* write one now */
};

#define GS_UPLINK_ANSWER_MAX (256u << 10) /* bytes of data */

/* What a user of the head wants of this node. */
struct gs_uplink_question {
	enum gs_uplink_question_kind kind;
	char name[256];     /* of a file, or what is to be written; any bytes of who asks */
	uint64_t offset;    /* in the file */
	uint32_t max_bytes; /* of the answer: at most GS_UPLINK_ANSWER_MAX */
};

struct gs_uplink_options {
	size_t size; /* of this struct */
	/* Of the head: "host:port"; several are tried in turn. */
	const char *const *addresses;
	size_t n_addresses;
	bool tls;
	const char *tls_ca, *tls_cert, *tls_key,
		*server_name; /* files and name, as of grpc_client.h */
	const char *token;

	enum gs_uplink_kind kind; /* what the records are */
	const char *machine_id;   /* NULL: of /etc/machine-id */
	const char *instance;     /* "" or NULL: the usual one */
	const char *hostname;     /* NULL: the machine's */
	const char *title;        /* of a trace */

	const char *spool_dir;     /* NULL: in memory alone */
	uint64_t spool_max_bytes;  /* 0: 256 MiB */
	uint64_t memory_max_bytes; /* 0: 32 MiB */
	bool keep_oldest;          /* full: what comes is refused, what waits stays */

	/* On the link's thread, when the head says what it wants, first after each connect. May be
	 * NULL. */
	void (*desired)(void *ctx, const struct gs_uplink_config *desired);
	/* On the link's thread, one line about each change: connected, lost, refused. May be NULL.
	 */
	void (*on_message)(void *ctx, const char *text);
	/* On the link's thread. Appends the answer to out, or one line why not; *ret_total_bytes: of the
	 * file. 0 or a negative errno. NULL: nothing is answered but that it is not. */
	int (*question)(void *ctx, const struct gs_uplink_question *asked, struct gs_buf *out,
			uint64_t *ret_total_bytes);
	void *ctx;
};

/* Opens the spool and starts the thread. -EBUSY: another program has the spool. */
int gs_uplink_start(const struct gs_uplink_options *options, struct gs_uplink **ret_link,
		    struct gs_err *err);

/* Times of what is in a run of records, by this machine's clock. */
struct gs_uplink_span {
	int64_t first_wall_ns, last_wall_ns;
	uint32_t n_samples;      /* snapshots; of a trace: records */
	uint64_t missed_samples; /* that could not be taken, since the run before */
};

/* Pack and keep; any thread. When it returns 0 the records outlive this program. Others than 0:
 * they are lost and counted, as of gs_queue_put(). */
int gs_uplink_push(struct gs_uplink *link, const struct gs_batch *records,
		   const struct gs_uplink_span *span);

enum gs_uplink_state {
	GS_UPLINK_CONNECTING = 1,
	GS_UPLINK_CONNECTED = 2,
	GS_UPLINK_WAITING = 3, /* lost or refused: tries again */
	GS_UPLINK_REFUSED =
		4, /* wrong token, a head that will not have us: tries again each minute */
};

struct gs_uplink_stats {
	unsigned state;       /* enum gs_uplink_state */
	bool is_other;        /* the head speaks another protocol than ours (uplink_line.h) */
	char head[128];       /* address connected to; "" none */
	char trouble[256];    /* why it is not connected; "" nothing */
	uint64_t retry_in_ns; /* GS_UPLINK_WAITING */
	uint64_t connects;    /* so far */
	/* So far, by this program; acked: that the head has stored. */
	uint64_t sent_batches, sent_bytes, acked_batches;
	uint64_t waiting_batches, waiting_samples, waiting_bytes; /* in the spool */
	uint64_t memory_samples; /* of those that wait: in no file, gone with this program */
	uint64_t lost_batches, lost_samples; /* over all runs of the stream */
	int spool_error; /* why the spool's disk is not used: a negative errno; 0 */
};

/* As of now. Any thread. */
void gs_uplink_stats(struct gs_uplink *link, struct gs_uplink_stats *ret_stats);

/* The first half of gs_uplink_stop(): the link still has its stats, and takes nothing more. */
uint64_t gs_uplink_drain(struct gs_uplink *link, uint64_t drain_ns, bool ended);

/* Deliver what waits for at most drain_ns (a connection that is not there is tried once), then end.
 * What is left stays in the spool for the next start; how many samples that are is returned. ended:
 * the stream is over, nothing will ever follow (a trace). */
uint64_t gs_uplink_stop(struct gs_uplink **link, uint64_t drain_ns, bool ended);

/* Of a process that was started to deliver (gs_sender_is_called() with "link"). An exit status. */
int gs_uplink_sender_main(void);

/* The machine's own number, as in /etc/machine-id, of its firmware where there is none, else
 * "host-" and its name. -ENOENT: none of these. */
int gs_uplink_machine_id(char *out, size_t bytes);

#endif
