/*
 * Shared by the files of this room: memory of what is returned to callers, how records become items, samples and results, and
 * the parts of a trace. "Lent" means owned by the handle and valid until the next call with it.
 */
#ifndef GS_LIBRARY_GPUSCOPE_LIBRARY_INT_H
#define GS_LIBRARY_GPUSCOPE_LIBRARY_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <gpuscope/gpuscope.h>

#include "core/base/err.h"
#include "model/node/host.h"
#include "model/node/record.h"
#include "model/trace/dict.h"
#include "model/trace/user_probe.h"
#include "output/findings/findings.h"
#include "pipeline/aggregate/aggregate.h"

/* --- memory.c: memory of what is lent --- */

/* Blocks that are freed together. Use one from one thread at a time. */
struct lent_memory {
	struct lent_block *first; /* owned; the block being filled */
	bool failed;              /* an allocation has failed since the last reset */
};

/* Zeroed memory, aligned to 16 bytes, valid until the next reset. NULL: out of memory. */
void *lent_alloc(struct lent_memory *memory, size_t bytes);

/* The same for a struct that begins with its size, which is set. */
#define LENT_NEW(memory, type) ((type *)lent_new_sized(memory, sizeof(type)))
void *lent_new_sized(struct lent_memory *memory, size_t bytes);

/* A copy of text; "" if text is NULL or there is no memory. */
const char *lent_text(struct lent_memory *memory, const char *text);

/* Invalidates everything; keeps one block for later. */
void lent_reset(struct lent_memory *memory);
/* Frees everything. */
void lent_fini(struct lent_memory *memory);

/* --- options.c --- */

/* Copies options of a caller, who may have been built with another version of the struct: members that it lacks become 0.
 * given: begins with its size; smallest: size of the first version of the struct; bytes: of this version. 0, or with err:
 * -EINVAL: given is NULL or its size is wrong; -E2BIG: it sets members that this version does not know. */
int options_take(const void *given, size_t smallest, void *ret_options, size_t bytes,
		 struct gs_err *err);

/* --- text.c --- */

/* Text that is written by a renderer. */
struct rendered {
	char *text; /* owned */
	size_t bytes;
	FILE *out; /* for the renderer, between begin and end */
};

/* Frees the last text and opens out. 0 or -ENOMEM. */
int rendered_begin(struct rendered *to);
/* Closes out; r: the result of the renderer. 0, or a negative errno: there is no text then. */
int rendered_end(struct rendered *to, int r);
void rendered_fini(struct rendered *to);

/* --- item.c --- */

/* Makes items of records, which refer to names and entities by number. */
struct item_maker {
	struct gs_dict *dict;            /* owned; names and entities so far */
	struct gs_node_decoder *decoder; /* owned; of samples */
	/* Of the last VALUES record, until its call comes. */
	struct gs_rec_value values[GS_USER_VALUE_MAX];
	uint32_t n_values;
	struct lent_memory memory;
	int64_t monotonic_minus_boot_ns;
};

/* "cuda-runtime", "nccl", ...; "" for GS_LAYER_NONE. A constant. */
const char *item_layer_word(unsigned layer);

/* 0 or -ENOMEM. */
int item_maker_init(struct item_maker *maker);
void item_maker_fini(struct item_maker *maker);

/* Whether item_make() with this record would free a string of an item that is still lent. */
bool item_replaces_text(const struct item_maker *maker, const struct gs_record *record);

/* Makes the item of a record in lent memory; *ret_item NULL: the record has none. 0 or -ENOMEM. */
int item_make(struct item_maker *maker, const struct gs_record *record,
	      const struct gs_item **ret_item);

/* --- sample.c --- */

/* Makes a sample in lent memory. flags: enum gs_monitor_flag, what the snapshot has. NULL: out of memory. */
const struct gs_sample *sample_make(struct lent_memory *memory, const struct gs_node_snapshot *node,
				    uint32_t flags);

/* --- output.c: files that are written during a trace --- */

#define OUTPUTS_MAX 4

struct output_file {
	char *path;                  /* owned */
	struct gs_export *export;    /* owned; NULL for a recording */
	struct gs_recording *record; /* owned; NULL for other formats */
};

struct output_files {
	struct output_file at[OUTPUTS_MAX];
	size_t n;
	struct gs_aggregate *view; /* borrowed; has the spans of streams for the files */
};

/* Opens n files. with_recordings: accept .gst; whole: a file appears under its name only when it is complete. The view must
 * outlive them. 0, or a negative errno with err. */
int output_files_open(struct output_files *files, const char *const *paths, size_t n,
		      bool with_recordings, bool whole, struct gs_aggregate *view,
		      struct gs_err *err);
/* Where the records of the trace go; owned by file. */
const struct gs_sink *output_file_sink(const struct output_file *file);
/* Completes and closes all files. 0, or the first error, with err. */
int output_files_close(struct output_files *files, struct gs_err *err);
/* Closes and frees all files without completing them. */
void output_files_abandon(struct output_files *files);

/* --- queue.c: records between the threads of a trace and the caller --- */

struct record_queue;

/* Creates a queue. max_items: how many calls, counters, sums and records of GPU work may wait; 0: the default. The functions
 * below may be called from any thread, record_queue_take() from one at a time. 0 or a negative errno. */
int record_queue_new(uint32_t max_items, struct record_queue **ret_queue);
void record_queue_free(struct record_queue **queue);
/* Readable when a batch may wait or the queue has ended; owned by the queue. */
int record_queue_fd(const struct record_queue *queue);

/* Copies the records that items are made of; those beyond max_items are dropped and counted. 0 or -ENOMEM. */
int record_queue_push(struct record_queue *queue, const struct gs_batch *batch);
/* Drops all records, also future ones. */
void record_queue_discard(struct record_queue *queue);
/* There will be no more records. */
void record_queue_end(struct record_queue *queue);

/* Waits for the next batch, valid until the next call. until_ns: monotonic; UINT64_MAX: no limit. *ret_lost: records that
 * were dropped before it. enum gs_next. */
int record_queue_take(struct record_queue *queue, uint64_t until_ns, struct gs_batch *ret_batch,
		      uint64_t *ret_lost);

/* --- live.c: tracing --- */

struct live_trace;

/* Starts tracing; probes are attached when it returns. 0, or a negative errno with err (gs_trace_start()). */
int live_trace_start(const struct gs_trace_options *options, struct live_trace **ret_live,
		     struct gs_err *err);
/* Stops tracing if it still runs, and frees *live. */
void live_trace_free(struct live_trace **live);
/* Stops tracing and waits until outputs are complete. 0, or the first error of an output, with err. Any thread. */
int live_trace_stop(struct live_trace *live, struct gs_err *err);
/* Waits until tracing has ended. until_ns as for record_queue_take(). GS_NEXT_END or GS_NEXT_TIMEOUT. Any thread. */
int live_trace_wait(struct live_trace *live, uint64_t until_ns);
/* Its records; owned by live. */
struct record_queue *live_trace_queue(struct live_trace *live);
/* What to add to a time of CLOCK_MONOTONIC to get one of the boot clock. */
int64_t live_trace_boot_minus_mono_ns(const struct live_trace *live);

/* --- live_output.c --- */

/* Locks the view and the findings, to be read until live_trace_unlock(). *ret_layers: the traced layers, as bits;
 * *ret_ended: there will be no more records. */
void live_trace_lock(struct live_trace *live, struct gs_aggregate **ret_view,
		     struct gs_findings **ret_findings, uint32_t *ret_layers, bool *ret_ended);
void live_trace_unlock(struct live_trace *live);

/* --- file.c: a recording --- */

struct file_trace;

/* Opens a recording and its outputs. 0, or a negative errno with err (gs_trace_open()). */
int file_trace_open(const char *path, const struct gs_open_options *options,
		    struct file_trace **ret_file, struct gs_err *err);
void file_trace_free(struct file_trace **file);
/* Reads the records of the next frame, valid until the next call. Outputs are complete at GS_NEXT_END. enum gs_next, or a
 * negative errno with err. */
int file_trace_take(struct file_trace *file, uint64_t until_ns, struct gs_batch *ret_batch,
		    struct gs_err *err);
/* Ends following the file. Any thread. */
void file_trace_stop(struct file_trace *file);
/* Gets the view and the findings, owned by file. *ret_ended: the file was read to its end. */
void file_trace_view(struct file_trace *file, struct gs_aggregate **ret_view,
		     struct gs_findings **ret_findings, bool *ret_ended);
const char *file_trace_path(const struct file_trace *file);

/* --- result.c --- */

/* The result of a trace. */
struct trace_outcome {
	struct gs_summary *summary;   /* owned */
	struct gs_explain_result all; /* its findings; memory of the struct gs_findings */
	bool has_findings;            /* all is valid: the trace has ended */
	struct lent_memory memory;
	struct rendered text;
};

/* Makes the summary of the view as it is now; with ended also the findings. 0 or -ENOMEM. */
int trace_outcome_take(struct trace_outcome *outcome, struct gs_aggregate *view,
		       struct gs_findings *findings, bool ended);
/* The result in lent memory. NULL: out of memory. */
const struct gs_result *trace_outcome_result(struct trace_outcome *outcome);
/* Writes the summary, or only the findings, as JSON into outcome->text. path: of the recording; "": none. 0 or a negative
 * errno. */
int trace_outcome_put(struct trace_outcome *outcome, struct gs_findings *findings, const char *path,
		      uint32_t layers, bool only_findings);
void trace_outcome_fini(struct trace_outcome *outcome);

/* --- version.c --- */

/* Settings for the whole process, made before the first handle: log lines of the rooms are dropped, and the size of the
 * heap is not tuned. Any thread. */
void library_begin(void);

/* The monotonic time at which a wait of timeout_ns ends; UINT64_MAX for GS_FOREVER. */
uint64_t library_until_ns(int64_t timeout_ns);

#endif
