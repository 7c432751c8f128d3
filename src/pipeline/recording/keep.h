/*
 * The last seconds of a stream of records, in memory, and written as a .gst file when there is a reason to: what is
 * older goes, and so does the oldest part of what would not fit into the memory allowed. Records lie compressed as in
 * a file. The file holds the calls that ended in that time, says from when on it is whole, and how many calls before
 * that are not in it. One thread at a time; to write without holding up who pushes, write a copy in another thread.
 */
#ifndef GS_PIPELINE_RECORDING_KEEP_H
#define GS_PIPELINE_RECORDING_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/record.h"

#define GS_KEEP_BYTES_MIN (1u << 20)

struct gs_keep;

struct gs_keep_options {
	uint64_t keep_ns;   /* how far back; above 0 */
	uint64_t max_bytes; /* of memory for it, definitions included; GS_KEEP_BYTES_MIN at least */
};

/* What a file that was written holds. */
struct gs_keep_file {
	uint64_t from_ns, end_ns; /* boot clock: it is whole between them */
	uint64_t n_calls;         /* CALL records in it */
	uint64_t n_before;        /* calls before from_ns, which are not */
	bool is_short;            /* the memory did not hold all of the time asked for */
};

/* -EINVAL for options out of range, -ENOMEM. */
int gs_keep_new(const struct gs_keep_options *options, struct gs_keep **ret_keep);
void gs_keep_free(struct gs_keep **keep); /* NULL inside: nothing happens */

/* The sink to push to; lent as long as keep lives. push returns -ENOMEM, or -EINVAL for a malformed batch. */
const struct gs_sink *gs_keep_sink(struct gs_keep *keep);

/* Bytes of memory that are in use now, and the most so far. */
size_t gs_keep_bytes(const struct gs_keep *keep);
size_t gs_keep_peak_bytes(const struct gs_keep *keep);

/* What there is now, to be written by any thread: it shares the records and takes no more. -ENOMEM. */
int gs_keep_copy(const struct gs_keep *keep, struct gs_keep **ret_copy);

/* Writes what there is of the time before end_ns (boot clock), and keeps it. reason: why, for the file's END record,
 * where the stream has none of its own; NULL: not known. is_private: the file is for its owner alone. -ENODATA: nothing
 * was pushed yet, and nothing is written; or an error of writing, with err. */
int gs_keep_write(struct gs_keep *keep, const char *path, uint64_t end_ns, const char *reason,
		  bool is_private, struct gs_keep_file *ret_file, struct gs_err *err);

#endif
