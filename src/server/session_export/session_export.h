/*
 * A session out of a head's store as a file: what was measured in its time, of its nodes, by each
 * sample's own time (the node's clock, set right by what the head knew of it). Nothing is held but
 * what is open at one time, however long the session is.
 *
 * JSON has frames: a grid of the session's interval, in which each sample of a node stands in the
 * frame that is nearest to it, once; of several in one frame the mean is written. A GPU or node of
 * which a frame has no sample has null, and false in "available". doc/cluster.md has the keys.
 * CSV has a row for each sample of each GPU; .gst has whole snapshots, on one time line.
 */
#ifndef GS_SERVER_SESSION_EXPORT_SESSION_EXPORT_H
#define GS_SERVER_SESSION_EXPORT_SESSION_EXPORT_H

#include "core/base/err.h"
#include "model/node/host.h"
#include "model/node/rollup.h"
#include "server/store/store.h"

enum gs_session_export_format {
	GS_SESSION_EXPORT_JSON = 0, /* numbers, percent, GB/s */
	GS_SESSION_EXPORT_GSWARM =
		1, /* as gswarm-profiler wrote it: texts, shares, KiB/s; "nan" for what
				  is missing */
	GS_SESSION_EXPORT_CSV = 2,
	GS_SESSION_EXPORT_GST = 3,
};

/* "json", "gswarm", "csv", "gst"; -1: none of them. */
int gs_session_export_format(const char *name);

/* What a file of the format is called: "NAME.json". */
const char *gs_session_export_suffix(enum gs_session_export_format format);

enum gs_session_export_commands {
	GS_SESSION_EXPORT_COMMANDS_STORED = 0,
	GS_SESSION_EXPORT_COMMANDS_SCRUBBED = 1, /* also those of nodes that keep them in full */
	GS_SESSION_EXPORT_COMMANDS_NONE = 2,     /* nor users */
};

struct gs_session_export_options {
	size_t size;                            /* of this struct */
	struct gs_store *store;                 /* lent; of the calling thread */
	const struct gs_store_session *session; /* lent */
	enum gs_session_export_format format;   /* of the file */
	int64_t now_wall_ns; /* where a session that has no end yet ends; 0: now */
	int64_t node;        /* only what this one measured, by its number; 0: all of them */
	enum gs_session_export_commands commands; /* of processes, in .gst and traces */
};

struct gs_session_export_stats {
	uint64_t n_samples; /* snapshots in the file */
	uint64_t n_frames;  /* JSON */
	uint64_t n_late;    /* JSON: samples too far out of order for a frame; in CSV they are */
	uint64_t n_damaged; /* batches that could not be read */
	/* Of the snapshots, those that stand for several (downsampling), for how many, and how far
	 * apart they are at most. */
	uint64_t n_coarse, n_coarse_of, coarse_ns;
	uint64_t n_nodes, n_gpus;
};

/* Write it to fd (a file or a pipe; it stays open). What the system says, or of the store: err
 * says which. */
int gs_session_export_write(const struct gs_session_export_options *options, int fd,
			    struct gs_session_export_stats *ret_stats, struct gs_err *err);

/* What a snapshot and what it stands for are handed to, lent; 0, or a negative errno, which ends it. */
typedef int (*gs_session_export_sample_fn)(void *ctx, const struct gs_node_snapshot *snapshot,
					   const struct gs_rollup_mark *mark);

/* Each snapshot of the session, nearly by time, with the head's clock as its time of day; format does
 * not matter. What fn returns is handed on. */
int gs_session_export_samples(const struct gs_session_export_options *options,
			      gs_session_export_sample_fn fn, void *ctx,
			      struct gs_session_export_stats *ret_stats, struct gs_err *err);

/* The traces that nodes of the session delivered and that reach into its time; each is a .gst file
 * of its own, called name. options->commands does not matter here. */
int gs_session_export_traces(const struct gs_session_export_options *options,
			     int (*fn)(void *ctx, int64_t stream, const char *name), void *ctx);
/* The one of this number. By options->commands its texts are as they were stored, or without what
 * looks like a secret; -EACCES where no commands may be shown: a trace is full of them. */
int gs_session_export_trace(const struct gs_session_export_options *options, int64_t stream, int fd,
			    struct gs_err *err);

#endif
