/*
 * .gst files: an append-only run of independent, checksummed zstd frames, each holding whole
 * records. A torn tail loses the frame that was being written and nothing else; a damaged frame in
 * the middle is skipped to the next whole one and told. doc/format.md has the layout.
 */
#ifndef GS_JOURNAL_JOURNAL_H
#define GS_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/record.h"

struct gs_journal; /* a file being written */

struct gs_journal_options {
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
 * -EINVAL for a frame size or level out of range, or what the system says: err tells. */
int gs_journal_create(const char *path, const struct gs_journal_options *options,
		      struct gs_journal **ret_journal, struct gs_err *err);

/* The sink to push to; lent as long as the journal is open. push returns -ENOSPC and the like as
 * the system gives them; the file stays readable up to its last whole frame, and every later push,
 * flush and the close return the same. -EINVAL for a malformed batch: the records before the
 * malformed one are taken, and nothing is remembered. The caller ignores SIGXFSZ and SIGPIPE. */
const struct gs_sink *gs_journal_sink(struct gs_journal *journal);

/* Records left out for max_bytes, so far. */
uint64_t gs_journal_left_out(const struct gs_journal *journal);

/* Writes what is pending and closes; the object is gone whatever is returned. */
int gs_journal_close(struct gs_journal **journal, struct gs_err *err);

struct gs_journal_reader;

struct gs_journal_stats {   /* what reading found so far */
	uint64_t n_frames;  /* handed out */
	uint64_t n_records; /* in them */
	uint64_t file_bytes;
	uint64_t cut_bytes;        /* behind the last whole frame, not readable; known at the end */
	uint64_t skipped_bytes;    /* of damage in the middle */
	uint64_t n_skipped_frames; /* missing by their sequence numbers, in front of a whole one */
	uint64_t vain_bytes;       /* looked at as frames that were none; the measure of work */
};

#define GS_JOURNAL_EOF 1 /* outcome of gs_journal_next(): no more whole frames */

/* -EBADMSG: not a .gst file, or of a later, incompatible version (err says which). */
int gs_journal_open(const char *path, struct gs_journal_reader **ret_reader, struct gs_err *err);

/* The records of the next whole frame, lent until the next call. After a gap definitions may come
 * again, the same as before. 0, GS_JOURNAL_EOF (asked again later, it looks whether a file that is
 * still being written has grown), or negative errno of the system (reading failed). */
int gs_journal_next(struct gs_journal_reader *reader, struct gs_batch *ret_batch);

/* A place in a file: in front of a frame. */
struct gs_journal_place {
	uint64_t off, sequence;
};

/* The place of the frame that gs_journal_next() would hand out next. */
void gs_journal_tell(const struct gs_journal_reader *reader, struct gs_journal_place *ret_place);

/* Go on at a place that gs_journal_tell() gave for the same file. Definitions are not repeated: for
 * readers of records that need none. What is read again is counted again. -ESPIPE: a pipe. */
int gs_journal_seek(struct gs_journal_reader *reader, const struct gs_journal_place *place);

void gs_journal_stats(const struct gs_journal_reader *reader, struct gs_journal_stats *ret_stats);
void gs_journal_reader_close(struct gs_journal_reader **reader);

#endif
