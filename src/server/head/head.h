/*
 * The head of a cluster: nodes deliver to it over gRPC, it stores what they deliver, knows how they
 * are, and keeps sessions. Like the agent a command with a room of its own.
 *
 *   gRPC thread ───records──► cluster (newest snapshots)
 *        │  └──batches──► queue ──► store's thread ──commit──► acknowledgements
 *   main thread: health, sessions, retention
 *
 * A batch is acknowledged when its transaction is on the disk, never before. What cannot be stored
 * (the disk is full) stays in the queue; when that is full, nodes are read no further, and keep
 * what they measure themselves.
 */
#ifndef GS_SERVER_HEAD_HEAD_H
#define GS_SERVER_HEAD_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/session_export/session_export.h"
#include "core/base/err.h"
#include "server/registry/registry.h"
#include "net/grpc/grpc.h"

struct gs_head;

/* What a method needs. Who may control may read; who delivers can do nothing else. */
enum gs_head_role {
	GS_HEAD_ROLE_ANY = 0, /* any of them */
	GS_HEAD_ROLE_NODE = 1,
	GS_HEAD_ROLE_READ = 2,
	GS_HEAD_ROLE_CONTROL = 3,
};

#define GS_HEAD_LEVELS_MAX      8
#define GS_HEAD_COARSE_LEAST_NS 1000000000ull
#define GS_HEAD_COARSE_MOST_NS  600000000000ull

struct gs_head_level { /* of downsampling */
	uint64_t after_ns, interval_ns;
};

/* What is kept of what is stored, and how fine. */
struct gs_head_retention {
	/* What no session covers is removed when it is older, or when more is stored; 0: never. */
	uint64_t max_age_ns, max_bytes;
	struct gs_head_level level[GS_HEAD_LEVELS_MAX]; /* n_levels; both rise */
	size_t n_levels;
	bool coarse_sessions; /* also what sessions cover becomes coarser */
};

/* Calls of another protocol than ours, beside the head's own (compat/gswarm). */
struct gs_head_service {
	const struct gs_grpc_method *methods; /* lent until the stop */
	size_t n_methods;
	void (*begin)(void *ctx, struct gs_head *head); /* once, before the first call */
	void *ctx;                                      /* of begin and of the methods; borrowed */
};

struct gs_head_options {
	size_t size;      /* of this struct */
	const char *data; /* folder of the store */
	/* Addresses, n_listen of them; as gs_grpc_server_start() takes them. */
	const char *const *listen;
	size_t n_listen;
	const char *tls_cert, *tls_key, *tls_client_ca; /* PEM files, as of grpc.h; NULL: no TLS */
	gs_grpc_authorize_fn authorize;                 /* NULL: everybody */
	void *authorize_ctx; /* of authorize; borrowed, as the other _ctx */
	/* Whether who makes the call may deliver as the node of this host name; otherwise why not.
	 * Any thread. NULL: as any. */
	bool (*may_be)(void *ctx, const struct gs_grpc_call *call, const char *hostname, char *why,
		       size_t bytes);
	void *may_be_ctx;
	/* How much of command lines and users who makes the call may see in exports and reports;
	 * traces only with some of it. Any thread. NULL: none of it. */
	enum gs_session_export_commands (*may_see)(void *ctx, const struct gs_grpc_call *call);
	void *may_see_ctx;
	const char *denied;     /* the answer to a call that is not permitted; NULL: of its token */
	const char *output_dir; /* each stopped session is written to it; NULL or "": none is */
	uint64_t interval_ns;   /* between samples when no session asks for less; 0: 1 s */
	bool bandwidth, nvlink;
	struct gs_head_retention retention;
	struct gs_head_service service; /* n_methods 0: none */
	/* A call that ends the head came (gs_head_exit); any thread. NULL: it is refused. */
	void (*exit)(void *ctx);
	void *exit_ctx;
	/* One line about something that a person should know; any thread. May be NULL. */
	void (*on_message)(void *ctx, const char *text);
	void *on_message_ctx;
};

/* Opens the store, listens, starts the threads. A negative errno with err. */
int gs_head_start(const struct gs_head_options *options, struct gs_head **ret_head,
		  struct gs_err *err);

/* No more calls; what is in the queue is stored (unless it cannot be). */
void gs_head_stop(struct gs_head **head);

/* Now and then, from the thread that started it: health, clocks. */
void gs_head_tick(struct gs_head *head);

/* From now on. The thread that started it. */
void gs_head_set_retention(struct gs_head *head, const struct gs_head_retention *retention);

/* Certificate and key are read again. On failure the old ones stay: a negative errno with err. */
int gs_head_reload_tls(struct gs_head *head, struct gs_err *err);

/* This peer asked it to end. -EPERM: it is not ended by calls. Any thread. */
int gs_head_exit(struct gs_head *head, const char *peer);

const char *gs_head_address(const struct gs_head *head, size_t i); /* of gRPC */
/* A Unix socket as well, as gs_grpc_server_add_local(). Once; the thread that started it. */
int gs_head_add_local(struct gs_head *head, int fd, gid_t group);

struct gs_registry *gs_head_cluster(struct gs_head *head); /* lent until the stop */

struct gs_head_stats {
	uint64_t batches, samples, bytes;        /* stored */
	uint64_t reports;                        /* of the batches: reports of jobs */
	uint64_t duplicates;                     /* batches that were stored before */
	uint64_t refused;                        /* batches that no node could have made */
	uint64_t commits, commit_ns;             /* how many, and all their time */
	uint64_t waiting_batches, waiting_bytes; /* in the queue, as of now */
	uint64_t paused_streams;                 /* not read while the queue is full */
	uint64_t latency_ns;      /* of the last commit's oldest batch: taken to durable */
	uint64_t expired_batches; /* that retention took */
	/* Downsampling, in this head's life: what was there before, and what took its place. */
	uint64_t coarse_batches_before, coarse_batches_after;
	uint64_t coarse_samples_before, coarse_samples_after;
	uint64_t coarse_bytes_before, coarse_bytes_after;
	uint64_t coarse_damaged; /* batches that could not be read and stay as they are */
	char trouble[256];       /* what keeps it from storing; "" nothing */
};

/* False when the thread that serves gRPC has not come around since the last call, which must be
 * some time ago. The thread that started the head. */
bool gs_head_answers(struct gs_head *head);

struct gs_store_finding; /* server/store/finding.h */

/* What holds now of jobs over many nodes; its id is not set. Lent for the call of fn, in which the head waits: it
 * makes no call of the head. Any thread. */
void gs_head_holding(struct gs_head *head,
		     void (*fn)(void *ctx, const struct gs_store_finding *finding), void *ctx);

struct gs_fleet_steps; /* analysis/fleet/fleet.h */

/* Steps of ranks as they are now, by communicator: of the job (NULL or "": of any), with max_ranks ranks in all. Lent for the
 * call of fn, likewise. 0 or -ENOMEM. Any thread. */
int gs_head_steps(struct gs_head *head, const char *job, uint32_t max_ranks,
		  void (*fn)(void *ctx, const struct gs_fleet_steps *steps), void *ctx);

/* As in proto/gpuscope.proto. */
enum gs_head_question_kind {
	GS_HEAD_RECORDER = 1,
	GS_HEAD_RECORDER_FILE = 2,
	GS_HEAD_RECORDER_SAVE = 3,
};

#define GS_HEAD_ANSWER_MAX (256u << 10)

struct gs_head_question {
	enum gs_head_question_kind kind;
	const char *name;   /* of the file, or what is to be written; lent */
	uint64_t offset;    /* in the file */
	uint32_t max_bytes; /* of data: at most GS_HEAD_ANSWER_MAX */
};

struct gs_head_answer {
	struct gs_buf data; /* owned by who asks; what the node said, at most GS_HEAD_ANSWER_MAX */
	uint64_t total_bytes; /* of the file */
	char text[256];       /* why not, by the node: one line without control characters */
};

/* Ask the node of this number, and wait. 0; -ENOTCONN: it is not connected; -ETIME: no answer in time; or what the node
 * said. Any thread but those of the head. */
int gs_head_ask(struct gs_head *head, int64_t node, const struct gs_head_question *asked,
		uint64_t wait_ns, struct gs_head_answer *ret);

/* Since the start, and as of now. Any thread. */
void gs_head_stats(struct gs_head *head, struct gs_head_stats *ret_stats);

#endif
