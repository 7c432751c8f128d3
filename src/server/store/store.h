/*
 * What a head keeps: nodes, the streams of records that they send, and sessions, in one SQLite file
 * (head.db, write-ahead log). A batch is stored as it came, whole or not at all, and once: its
 * number is part of the same transaction. What gs_store_commit() returned 0 for is on the disk.
 *
 * A session does not hold data: it is an interval, nodes and values, read out of what is
 * stored anyway. So any number of them may overlap, and one that is resumed after the head was away
 * has what the nodes sent later, too.
 *
 * A gs_store is one connection and belongs to one thread; one may write, others read meanwhile.
 * Functions return 0 or a negative errno: -ENOSPC the disk is full (nothing of the transaction is
 * stored, and it can be tried again), -EUCLEAN the file is damaged, -EBUSY another program writes.
 */
#ifndef GS_SERVER_STORE_STORE_H
#define GS_SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/trace/record.h"

struct gs_store;

enum gs_store_mode {
	GS_STORE_WRITE = 1, /* one at a time; makes folder and file when they are not there */
	GS_STORE_READ = 2,
};

/* WRITE: makes the folder's file, brings it to this version, and keeps others from writing: -EBUSY.
 * READ: the file has to be there. A negative errno with err. */
int gs_store_open(const char *dir, enum gs_store_mode mode, struct gs_store **ret_store,
		  struct gs_err *err);
void gs_store_close(struct gs_store **store);

/* What went wrong last, in SQLite's words; lent until the next call. */
const char *gs_store_trouble(const struct gs_store *store);

/* Everything that follows, until the commit, is stored together or not at all. */
int gs_store_begin(struct gs_store *store);
int gs_store_commit(struct gs_store *store);
void gs_store_rollback(struct gs_store *store);

/* --- nodes and streams --- */

struct gs_store_node {
	int64_t id;                                      /* in this file, from 1 */
	char machine_id[64], instance[64], hostname[65]; /* as the node says */
	int64_t first_wall_ns, last_wall_ns;             /* of its batches; 0 none */
};

/* The node of machine_id and instance, made when it is new; its host name is brought up to date.
 * ret_id: its number. */
int gs_store_node(struct gs_store *store, const struct gs_store_node *node, int64_t *ret_id);

/* The node as it is known; -ENOENT: it is new. */
int gs_store_node_find(struct gs_store *store, const char *machine_id, const char *instance,
		       struct gs_store_node *ret_node);

/* Calls fn for each node, by number, until it returns other than 0, which is returned; not for
 * those that have sent nothing but reports of jobs. */
int gs_store_nodes(struct gs_store *store, int (*fn)(void *ctx, const struct gs_store_node *node),
		   void *ctx);

enum gs_store_kind { GS_STORE_SAMPLES = 1, GS_STORE_TRACE = 2, GS_STORE_JOBS = 3 }; /* report.h */

struct gs_store_stream {
	int64_t id;        /* in this file, from 1 */
	int64_t node;      /* id of its node */
	uint64_t stream;   /* as the node calls it */
	uint32_t kind;     /* enum gs_store_kind */
	char title[256];   /* of a trace; "" none */
	uint64_t last_seq; /* of what is stored; 0 nothing */
	uint64_t n_samples;
	uint64_t lost_batches, lost_samples; /* as the node reports, in total */
	uint64_t missed_samples;             /* likewise */
	int64_t first_wall_ns, last_wall_ns; /* 0 nothing */
	int64_t clock_low_ns, clock_high_ns; /* least and greatest offset of its batches; 0 none */
	bool ended;                          /* nothing more will come */
};

/* The stream that a node calls by that number, made when it is new (node, stream, kind and title
 * are read); what is known of it in ret_stream. */
int gs_store_stream(struct gs_store *store, const struct gs_store_stream *stream,
		    struct gs_store_stream *ret_stream);
int gs_store_stream_end(struct gs_store *store, int64_t stream);
int gs_store_streams(struct gs_store *store, int64_t node, /* 0 of all */
		     int (*fn)(void *ctx, const struct gs_store_stream *stream), void *ctx);

enum gs_store_codec { GS_STORE_PLAIN = 0, GS_STORE_ZSTD = 1 };

#define GS_STORE_BATCH_MAX (8u << 20) /* bytes of records in a batch, unpacked */

struct gs_store_batch {
	uint64_t seq;                        /* its number in the stream */
	int64_t first_wall_ns, last_wall_ns; /* by the node's clock */
	int64_t clock_offset_ns;             /* head's minus node's, as estimated when it came */
	uint32_t n_samples, raw_bytes;
	uint32_t codec;                      /* enum gs_store_codec */
	uint64_t lost_batches, lost_samples; /* of the stream so far */
	uint64_t missed_samples;             /* since the batch before */
	const void *data;                    /* packed by codec; lent */
	size_t bytes;                        /* of data */
};

/* In a transaction. -EEXIST: that number or a higher one is stored already: nothing is done.
 * -EINVAL: no batch that a node could have made. */
int gs_store_append(struct gs_store *store, int64_t stream, const struct gs_store_batch *batch);

/* --- reading --- */

struct gs_store_range {
	int64_t from_wall_ns, to_wall_ns; /* batches that reach into [from, to) */
	uint32_t kind;                    /* enum gs_store_kind; 0 any */
	int64_t stream;                   /* of one; 0 any */
	const int64_t *nodes;             /* of these, n_nodes; 0: of all. Lent for the open */
	size_t n_nodes;
	const int64_t *streams; /* likewise of streams */
	size_t n_streams;
	int64_t begin_wall_ns; /* 0, or: only those whose first_wall_ns is this or later */
};

struct gs_store_cursor;

struct gs_store_found {
	int64_t stream, node;        /* ids */
	struct gs_store_batch batch; /* data packed, lent until the next call */
	struct gs_batch records;     /* unpacked, likewise */
};

#define GS_STORE_END 1

/* Batches by first_wall_ns. A reader sees what was there when the first was read; while a cursor is
 * open the log of what is written meanwhile cannot be put away. 0, -ENOMEM, or an error of the
 * file. */
int gs_store_cursor_open(struct gs_store *store, const struct gs_store_range *range,
			 struct gs_store_cursor **ret_cursor);

/* 0, GS_STORE_END, or -EBADMSG: this one cannot be unpacked (records are empty), the next may. */
int gs_store_cursor_next(struct gs_store_cursor *cursor, struct gs_store_found *ret_found);
void gs_store_cursor_close(struct gs_store_cursor **cursor);

/* Unpack what a node sent, as the cursor does. -EBADMSG: not what it says. */
int gs_store_unpack(uint32_t codec, const void *data, size_t bytes, uint32_t raw_bytes,
		    struct gs_buf *buffer);

/* --- sessions --- */

/* The numbers are stored. */
enum gs_store_session_state {
	GS_STORE_SESSION_ACTIVE = 1,
	GS_STORE_SESSION_STOPPED = 2,
	GS_STORE_SESSION_RECOVERABLE = 3, /* the head ended while it was active */
};

const char *gs_store_session_state_name(unsigned state); /* "active", ...; "unknown" */

#define GS_STORE_SESSION_NAME_BYTES 129

struct gs_store_session {
	int64_t number;                         /* in this file, rising */
	char id[33];                            /* 32 hexadecimal digits */
	char name[GS_STORE_SESSION_NAME_BYTES]; /* unique among those that are not stopped */
	uint32_t state;                         /* enum gs_store_session_state */
	int64_t start_wall_ns, end_wall_ns;     /* by the head's clock; end 0: not yet */
	uint64_t interval_ns;                   /* between snapshots as exported; 0 as measured */
	bool bandwidth, nvlink;                 /* counters of PCIe and memory; of NVLink */
	char metrics[1024];                     /* keys of values, with commas; "" all */
	char nodes[1024];                       /* patterns of host names, with commas; "" all */
	char report_metrics[256];               /* with commas */
	uint64_t n_annotations;
};

/* Letters, digits, '.', '_', '-', ' ', ':', '+', '@' and what is beyond ASCII in right UTF-8, 1 to
 * 128 bytes, not beginning with '.': never a path, a control character or an option. */
bool gs_store_session_name_valid(const char *name);

/* Start: name, interval, metrics ... are read, the rest is filled in. -EINVAL the name, -EEXIST one
 * of that name is active or recoverable. */
int gs_store_session_start(struct gs_store *store, struct gs_store_session *session);

/* Whether a node of that host name belongs to it: one of its patterns, in which * is any text and
 * ? any character, fits. */
bool gs_store_session_has(const struct gs_store_session *session, const char *hostname);

struct gs_store_tally {
	uint64_t n_samples;                    /* snapshots in its time, of its nodes */
	uint64_t n_nodes;                      /* that delivered any */
	uint64_t lost_samples, missed_samples; /* in its time: gs_store_losses() */
};

struct gs_store_loss {
	int64_t stream;                        /* id */
	uint64_t lost_samples, missed_samples; /* as in struct gs_store_stream */
};

/* Calls fn for what streams lost in [from, to) of the head's clock, any number of times for one
 * stream, until it returns other than 0, which is returned. When exactly a sample is missing is not
 * known: those between two batches are spread evenly over that time. */
int gs_store_losses(struct gs_store *store, int64_t from_wall_ns, int64_t to_wall_ns,
		    int (*fn)(void *ctx, const struct gs_store_loss *loss), void *ctx);

/* What is stored of it. Looks at each batch of its time: for a thread that has the time. */
int gs_store_session_tally(struct gs_store *store, const struct gs_store_session *session,
			   struct gs_store_tally *ret_tally);

/* By id, or the newest of that name. -ENOENT. */
int gs_store_session_get(struct gs_store *store, const char *id_or_name,
			 struct gs_store_session *ret_session);

/* Newest first, after `after` (a number, 0: from the newest), in one state (0 any). */
int gs_store_sessions(struct gs_store *store, int64_t after, unsigned state,
		      int (*fn)(void *ctx, const struct gs_store_session *session), void *ctx);

/* To active (from recoverable or stopped: its time goes on, with what came meanwhile), or to
 * stopped at a time. -EALREADY it is. -EEXIST: another of its name is active. */
int gs_store_session_resume(struct gs_store *store, int64_t number);
int gs_store_session_stop(struct gs_store *store, int64_t number, int64_t end_wall_ns);

/* Its marks and name; what was measured stays until it is too old. -EBUSY it is active. */
int gs_store_session_delete(struct gs_store *store, int64_t number);

/* At the start of a head: what is active was interrupted. How many, or a negative errno. */
int gs_store_sessions_interrupted(struct gs_store *store);

/* Something that an application reports: the begin of an epoch, times of a request. */
struct gs_store_annotation {
	int64_t session; /* number */
	int64_t wall_ns;
	char kind[32];      /* "annotation", "request" */
	char name[256];     /* what it is called */
	const char *values; /* JSON object of numbers */
};

/* Part of the transaction that is open. */
int gs_store_annotation_add(struct gs_store *store, const struct gs_store_annotation *mark);
/* Each of the session, by time; lent for the call of fn, whose non-zero return ends it and is
 * returned. */
int gs_store_annotations(struct gs_store *store, int64_t session,
			 int (*fn)(void *ctx, const struct gs_store_annotation *mark), void *ctx);

/* --- keeping --- */

struct gs_store_usage {
	uint64_t file_bytes; /* of the file and its log */
	uint64_t free_bytes; /* in it, to be used again */
	uint64_t n_batches;
	int64_t first_wall_ns, last_wall_ns; /* 0 nothing */
};

/* Of the whole file. */
int gs_store_usage(struct gs_store *store, struct gs_store_usage *ret_usage);

/* What is stored takes, without what is free to be used again in the file, and without its log
 * (which holds the same, or what is old). A quick look. */
uint64_t gs_store_used_bytes(struct gs_store *store);

/* Of the oldest batch; 0: there is none. */
int gs_store_oldest(struct gs_store *store, int64_t *ret_wall_ns);

/* Remove at most max batches older than before_wall_ns that no session (but deleted ones) covers.
 * How many, or a negative errno. Outside of a transaction. */
int gs_store_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max);

#endif
