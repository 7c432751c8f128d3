/*
 * .gst files: an append-only run of independent, checksummed zstd frames, each holding whole
 * records. A torn tail loses the frame that was being written and nothing else; a damaged frame in
 * the middle is skipped to the next whole one and counted. doc/format.md has the layout.
 */
#ifndef GS_PIPELINE_RECORDING_RECORDING_H
#define GS_PIPELINE_RECORDING_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/record.h"

struct gs_recording; /* a file being written */

struct gs_recording_options {
	size_t size;            /* of this struct */
	uint64_t max_bytes;     /* of the file; 0 no limit. When reached, later CALL and COUNTER
				 * records are left out, the rest is still written */
	uint32_t frame_bytes;   /* of records before a frame is closed; 0: 256 KiB; at most 4 MiB */
	uint32_t sync_every_ms; /* what is pending is written and synced at least so often, as long
				 * as something is pushed or flushed; 0: never but at close */
	int compression_level;  /* of zstd; 0: 1 */
	bool is_private;        /* the file is for its owner alone */
};

/* Creates (or replaces) the file; a pipe or device is written to as it is. options may be NULL.
 * -EINVAL for a frame size or level out of range, or what the system says: err says. */
int gs_recording_create(const char *path, const struct gs_recording_options *options,
			struct gs_recording **ret_journal, struct gs_err *err);

/* The sink to push to; lent as long as the journal is open. push returns -ENOSPC and the like as
 * the system gives them; the file stays readable up to its last whole frame, and every later push,
 * flush and the close return the same. -EINVAL for a malformed batch: the records before the
 * malformed one are taken, and nothing is remembered. The caller ignores SIGXFSZ and SIGPIPE. */
const struct gs_sink *gs_recording_sink(struct gs_recording *journal);

/* Records left out for max_bytes, so far. */
uint64_t gs_recording_left_out(const struct gs_recording *journal);

/* Writes what is pending and closes; the object is gone whatever is returned. 0, or the first error
 * of writing, with err. */
int gs_recording_close(struct gs_recording **journal, struct gs_err *err);

/* What a recording that has samples and no calls begins with. */
struct gs_recording_samples {
	uint64_t start_ns;          /* boot clock */
	int64_t wall_minus_boot_ns; /* 0: that clock is the time of day, as of samples of many nodes */
	const char *host, *command; /* where it was made; what made it, or the session's name */
	const char *kernel;         /* its release; NULL: of no one machine */
};

/* The records before the first sample, and those after the last. -ENOMEM, -ENOBUFS. */
int gs_recording_put_samples_begin(struct gs_buf *out, const struct gs_recording_samples *about);
int gs_recording_put_samples_end(struct gs_buf *out, uint64_t end_ns);

struct gs_recording_reader;

struct gs_recording_stats { /* what reading found so far */
	uint64_t n_frames;  /* handed out */
	uint64_t n_records; /* in them */
	uint64_t file_bytes;
	uint64_t cut_bytes;        /* after the last whole frame, not readable; known at the end */
	uint64_t skipped_bytes;    /* of damage in the middle */
	uint64_t n_skipped_frames; /* missing by their sequence numbers, in front of a whole one */
	uint64_t vain_bytes;       /* looked at as frames that were none; the measure of work */
};

#define GS_RECORDING_EOF 1 /* outcome of gs_recording_next(): no more whole frames */

/* -EBADMSG: not a .gst file, or of a later, incompatible version (err says which). */
int gs_recording_open(const char *path, struct gs_recording_reader **ret_reader,
		      struct gs_err *err);

/* The records of the next whole frame, lent until the next call. After a gap definitions may come
 * again, the same as before. 0, GS_RECORDING_EOF (asked again later, it looks whether a file that is
 * still being written has grown), or negative errno of the system (reading failed). */
int gs_recording_next(struct gs_recording_reader *reader, struct gs_batch *ret_batch);

/* A place in a file: in front of a frame. */
struct gs_recording_place {
	uint64_t off, sequence; /* in bytes; number of the frame */
};

/* The place of the frame that gs_recording_next() would hand out next. */
void gs_recording_position(const struct gs_recording_reader *reader,
			   struct gs_recording_place *ret_place);

/* Go on at a place that gs_recording_position() gave for the same file. Definitions are not repeated: for
 * readers of records that need none. What is read again is counted again. -ESPIPE: a pipe. */
int gs_recording_seek(struct gs_recording_reader *reader, const struct gs_recording_place *place);

/* What was read and skipped so far. */
void gs_recording_stats(const struct gs_recording_reader *reader,
			struct gs_recording_stats *ret_stats);
void gs_recording_reader_close(struct gs_recording_reader **reader);

#endif
