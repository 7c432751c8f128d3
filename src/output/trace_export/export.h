/*
 * Trace files. A writer takes records as they come and leaves a file of a format that others read.
 * Each format is one file and one row in a table.
 */
#ifndef GS_OUTPUT_TRACE_EXPORT_EXPORT_H
#define GS_OUTPUT_TRACE_EXPORT_EXPORT_H

#include <stdbool.h>

#include "core/base/err.h"
#include "pipeline/flamegraph/flame.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "model/trace/record.h"

struct gs_export; /* an open trace file */

struct gs_export_options {
	size_t size; /* of this struct */
	uint64_t
		max_bytes; /* of the file (compressed); 0 no limit. When reached, later calls are left out and
			     * counted, and the file is still closed in order */
	enum gs_flame_by flame_by; /* what .folded and .svg show */
	bool is_private;           /* the file is for its owner alone */
	bool when_whole; /* it takes its place when it is closed, and not if it shows nothing: of a
			  * conversion. Otherwise it can be read while it grows */
};

/* True when the path ends in the suffix of a trace writer: ".pftrace", ".json", ".json.gz", ".csv",
 * ".folded", ".svg". */
bool gs_export_knows(const char *path);

bool gs_export_is_flame(const char *path);      /* a flame graph */
bool gs_export_shows_streams(const char *path); /* spans of GPU work, by stream */

/* Standard output: "-" or "/dev/stdout" as CSV, or "-" and a suffix of another format. */
bool gs_export_is_stdout(const char *path);

/* The suffixes, for messages: ".pftrace, .json, ...". */
#define GS_EXPORT_SUFFIXES ".pftrace, .json, .json.gz, .csv, .folded, .svg"

/* Creates (or replaces) the file in the format of its suffix. -EINVAL: no format has it; with
 * err. */
int gs_export_open(const char *path, const struct gs_export_options *options,
		   struct gs_export **ret_export, struct gs_err *err);

/* The sink to push to; lent as long as the file is open. */
const struct gs_sink *gs_export_sink(struct gs_export *export);

/* What calls of the batch that is pushed next made known of a stream. Copied; a format without streams leaves
 * it out. */
void gs_export_take_span(struct gs_export *export, const struct gs_activity_span *span);

/* The latest time in what was pushed. */
uint64_t gs_export_now_ns(const struct gs_export *export);

/* Writes what the format needs at its end; nothing may be pushed after it. Closing does it too. */
void gs_export_end(struct gs_export *export);

/* Calls left out for max_bytes, so far; of a flame graph, lines or frames, after its end. */
uint64_t gs_export_left_out(const struct gs_export *export);

/* After its end: why the file shows nothing of the recording; NULL: it shows something. */
const char *gs_export_is_empty(const struct gs_export *export);

/* Writes what is pending and what the format needs at its end, and closes; the object is gone
 * whatever is returned. 0, or the first error of writing, with err. */
int gs_export_close(struct gs_export **export, struct gs_err *err);

/* Closes without that: a file that has no place yet is removed, what stood there stays. */
void gs_export_abandon(struct gs_export **export);

#endif
