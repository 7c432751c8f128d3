/*
 * What the GPU was asked to do, by stream, as far as the host can see it. In come the calls of
 * processes in the order in which they returned; out come, for each stream, how much was queued, when
 * work was pending in it at most and at least, when nothing was queued, and how long the host waited:
 *
 *     host      launch launch record e      launch            EventSynchronize e    StreamSynchronize
 *     at most   |======================================================|=====================|
 *     at least                                                |========|            |========|
 *
 * These are bounds: work is pending from the begin of the call that queued it, at the earliest, until
 * the end of the call by which the host learned that it is done, at the latest. While the host stood
 * in a wait for it, it was pending for sure; between that call's end and the next work, for sure not.
 *
 * Work that is known to be done makes all work done that it waited for: in its stream, after events
 * (cudaStreamWaitEvent), and by the rules of the legacy default stream, which waits for all streams of
 * its context that are not non-blocking ones, and they for it. A stream whose creation was not seen
 * counts as non-blocking: nothing is taken for done that might not be.
 *
 * A call costs O(1), amortised, but one that waits for the legacy default stream or the device: it
 * looks at each stream of the context that has work. Memory is bounded by struct gs_activity_config;
 * what a bound leaves out is counted. One thread.
 */
#ifndef GS_PIPELINE_GPU_ACTIVITY_GPU_ACTIVITY_H
#define GS_PIPELINE_GPU_ACTIVITY_GPU_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/summary/activity.h"
#include "model/trace/dict.h"
#include "model/trace/record.h"

/* What a function means for streams. */
enum gs_activity_kind {
	GS_ACTIVITY_NOTHING = 0,
	GS_ACTIVITY_WORK,
	GS_ACTIVITY_COPY, /* without a stream: the host may wait for it */
	GS_ACTIVITY_WAIT_STREAM,
	GS_ACTIVITY_WAIT_EVENT,
	GS_ACTIVITY_WAIT_DEVICE,
	GS_ACTIVITY_RECORD,       /* an event in a stream */
	GS_ACTIVITY_STREAM_WAITS, /* a stream, for an event */
	GS_ACTIVITY_ASK_STREAM,   /* cudaStreamQuery: "done" is as good as having waited */
	GS_ACTIVITY_ASK_EVENT,
	GS_ACTIVITY_ELAPSED, /* between two events: success says that both are done */
	GS_ACTIVITY_STREAM_NEW,
	GS_ACTIVITY_STREAM_END,
	GS_ACTIVITY_EVENT_END,
	GS_ACTIVITY_CAPTURE_BEGIN, /* what follows is remembered, not run */
	GS_ACTIVITY_CAPTURE_END,
	/* Of graphs: event[0] is made, changed or ended, event[1] is the graph of which it is. */
	GS_ACTIVITY_GRAPH_KERNEL, /* event[0]: the function */
	GS_ACTIVITY_GRAPH_CHILD,
	GS_ACTIVITY_GRAPH_COPY,
	GS_ACTIVITY_GRAPH_MAKE, /* an executable one, or it is updated */
	GS_ACTIVITY_GRAPH_END,
	GS_ACTIVITY_GRAPH_EXEC_END,
	GS_ACTIVITY_RESET, /* of the device: its work and streams are gone */
	/* Where the calling thread is from then on; what it was in does not matter. */
	GS_ACTIVITY_SET_DEVICE,
	GS_ACTIVITY_CONTEXT_SET,
	GS_ACTIVITY_CONTEXT_PUSH,
	GS_ACTIVITY_CONTEXT_POP,
	GS_ACTIVITY_CONTEXT_NEW, /* and pushed */
	GS_ACTIVITY_CONTEXT_END,
	GS_ACTIVITY_CONTEXT_PRIMARY, /* its handle is asked for */
	GS_ACTIVITY_KINDS
};

struct gs_activity_function {
	uint8_t kind;    /* enum gs_activity_kind */
	uint8_t work;    /* enum gs_activity_work; of copies the first */
	bool per_thread; /* takes the calling thread's own default stream for stream 0; of RESET: is
			  * of the calling thread's device */
};

/* By its layer, its class and its name. */
struct gs_activity_function gs_activity_function_of(unsigned layer, unsigned func_class,
						    const char *name);

/* Does a copy that is not asynchronous by its name return when it is done? As the host sees it: one
 * to the host does; one inside the device does not; a small one to the device returns when staged. */
bool gs_activity_copy_waits(unsigned copy_kind, uint64_t bytes);

/* Bounds. One that is 0 takes its default. */
struct gs_activity_config {
	uint32_t max_processes;       /* 4,096 */
	uint32_t max_contexts;        /* 4,096 */
	uint32_t max_streams;         /* 16,384 */
	uint32_t max_events;          /* 65,536 */
	uint32_t max_segments;        /* 65,536: runs of work between events that are pending */
	uint32_t max_stream_segments; /* 256 of them in a stream */
	uint32_t max_captures;        /* 256 open ones */
	uint32_t max_graphs;          /* 4,096, with executable ones */
	uint32_t max_graph_kernels;   /* 65,536: different ones of each, in all */
};

#define GS_ACTIVITY_BOUND_MAX (1u << 24)

/* Set one by its word: "streams=1000". 0, or -EINVAL: no such word, or no number from 1 to
 * GS_ACTIVITY_BOUND_MAX. */
int gs_activity_config_set(struct gs_activity_config *config, const char *text);

enum gs_activity_span_kind {
	GS_ACTIVITY_SPAN_WORK = 0, /* pieces of one sort that became done together */
	GS_ACTIVITY_SPAN_WAIT,     /* the host waited for the stream */
	GS_ACTIVITY_SPAN_GAP,      /* nothing was queued */
};

struct gs_activity_span {
	uint8_t kind;              /* enum gs_activity_span_kind */
	uint8_t work;              /* of SPAN_WORK: enum gs_activity_work */
	bool ended;                /* of SPAN_WORK: it ends because the process did */
	uint32_t process, context; /* as calls named them */
	uint32_t thread;           /* of a thread's own default stream; else 0 */
	uint32_t index;            /* of its stream, for gs_activity_read_stream() */
	uint64_t stream;           /* handle; 0 the legacy default stream */
	uint64_t start_ns, end_ns; /* at most */
	uint64_t n, bytes;         /* pieces of work, and what they move or fill */
	uint64_t threads;          /* of kernels: the mean of their grids' threads */
};

/* Called from inside gs_activity_take(), a stream's spans in their order. */
typedef void gs_activity_span_fn(void *ctx, const struct gs_activity_span *span);

enum gs_activity_bound {
	GS_ACTIVITY_AT_MOST,
	GS_ACTIVITY_AT_LEAST,
};

/* Called from inside gs_activity_take() when a stretch ends in which work of a context was pending. index: for
 * gs_activity_read_context(). Those of one context and bound do not overlap. */
typedef void gs_activity_busy_fn(void *ctx, uint32_t index, enum gs_activity_bound bound,
				 uint64_t start_ns, uint64_t end_ns);

/* One finished call, or a run of calls that queued work of one sort in one stream, with nothing else in
 * that stream between them. */
struct gs_activity_call {
	struct gs_activity_function function; /* what it is */
	bool failed;                          /* ret is an error of it */
	int32_t ret;                          /* what it returned */
	uint32_t process, thread;             /* numbers that the caller gives, from 1 */
	uint32_t flags; /* of a new stream its flags; of SET_DEVICE, RESET, CONTEXT_NEW and
			 * CONTEXT_PRIMARY the device */
	uint64_t start_ns, end_ns; /* of a run: begin of the first call, end of the last */
	uint64_t stream;
	uint64_t event[2]; /* of a kernel's launch [0] its function, of a graph's [0] that; of
			    * CAPTURE_END [0] the graph, 0 not seen; of CONTEXT_*: [0] the context, 0 not seen; of WAIT_DEVICE: [1] the
			    * context, 0 the thread's */
	uint64_t bytes;    /* that are moved or filled; of a run the sum */
	uint64_t threads;  /* of a kernel: of its grid; of a run, as bytes: the sum */
	uint32_t n_run;    /* calls of a run; 0: it is one call */
};

struct gs_activity;

struct gs_summary;

/* config NULL: the defaults. 0 or -ENOMEM. */
int gs_activity_new(const struct gs_activity_config *config, struct gs_activity **ret_activity);
void gs_activity_free(struct gs_activity **activity);

/* Other bounds, before the first call. 0 or -ENOMEM. */
int gs_activity_set_bounds(struct gs_activity *activity, const struct gs_activity_config *config);

/* The function that gets the spans; NULL: none are made, which costs less. */
void gs_activity_set_sink(struct gs_activity *activity, gs_activity_span_fn *span, void *ctx);

/* The function that gets stretches of contexts; NULL: none does. */
void gs_activity_set_busy_sink(struct gs_activity *activity, gs_activity_busy_fn *busy, void *ctx);

/* To that function what is pending now, until its process was last seen. Once, at the end. */
void gs_activity_report_busy(const struct gs_activity *activity);

/* In the order in which calls returned. What has no place is counted: gs_activity_limit_hits(). */
void gs_activity_take(struct gs_activity *activity, const struct gs_activity_call *call);

/* Where work is that was queued. */
struct gs_activity_place {
	uint32_t stream, generation; /* stream 0: none was */
	uint64_t segment;
};

/* Of the call that was taken last. */
struct gs_activity_place gs_activity_last_place(const struct gs_activity *activity);

/* Is it known to be done? Work that was queued right after it may have to be done as well. False: also when its stream has
 * been forgotten since. */
bool gs_activity_is_done(const struct gs_activity *activity, const struct gs_activity_place *place);

/* The same of a record. function: of the function that it names. */
void gs_activity_take_record(struct gs_activity *activity, uint32_t process,
			     const struct gs_rec_call *record,
			     struct gs_activity_function function);

/* Any record of a stream, before the dictionary takes it in: calls are taken, and a process that comes
 * again runs another program. */
void gs_activity_follow(struct gs_activity *activity, const struct gs_dict *dict,
			const struct gs_record *record);

/* The device that its threads are on until they choose one: 0 where its begin was seen, the only one where
 * it has or uses one alone, else GS_ACTIVITY_DEVICE_UNKNOWN: they may have chosen one unseen. */
uint32_t gs_activity_first_device(const struct gs_dict *dict, const struct gs_rec_process *process);

/* May that be another than 0? */
bool gs_activity_is_late(const struct gs_dict *dict, const struct gs_rec_process *process);

/* The process has ended, or runs a new program: what it had queued is over at that time, 0: at the
 * end of its last call. */
void gs_activity_end_process(struct gs_activity *activity, uint32_t process, uint64_t time_ns);

/* Threads of the process, which is new, are on GS_ACTIVITY_DEVICE_UNKNOWN until they choose a device:
 * they may have done so before it was traced. */
void gs_activity_begin_late(struct gs_activity *activity, uint32_t process);

/* The process was there at that time: what is pending then is not known to be done. */
void gs_activity_see_process(struct gs_activity *activity, uint32_t process, uint64_t time_ns);

/* Spans of what is pending, as if all processes ended at that time; nothing is changed. */
void gs_activity_report_pending(const struct gs_activity *activity, uint64_t end_ns);

/* --- what was found, at any time --- */

/* Indexes are below this; they may be given again to another stream when there are max_streams. */
uint32_t gs_activity_count_streams(const struct gs_activity *activity);

/* False: there is none at this index. */
bool gs_activity_read_stream(const struct gs_activity *activity, uint32_t index,
			     struct gs_activity_stream *ret_stream);

/* Work of a stream that is not known to be done. */
struct gs_activity_pending {
	uint32_t process, context; /* as in struct gs_activity_span */
	uint64_t start_ns;         /* where the next span of it begins at the earliest */
	uint64_t n_kernels;        /* of that work */
	uint64_t threads;          /* the mean of their grids' threads */
};

/* False: there is none at this index. Looks at each segment of the stream. */
bool gs_activity_read_pending(const struct gs_activity *activity, uint32_t index,
			      struct gs_activity_pending *ret_pending);

/* The context that the thread is on; GS_ACTIVITY_DEVICE_UNKNOWN also when it has made no call. */
uint32_t gs_activity_thread_context(const struct gs_activity *activity, uint32_t thread);

/* index: 0 to the count - 1; times of pending work until its process was last seen. */
uint32_t gs_activity_count_contexts(const struct gs_activity *activity);
void gs_activity_read_context(const struct gs_activity *activity, uint32_t index,
			      struct gs_activity_context *ret_context);

/* Executable graphs that were launched; indexes likewise. */
uint32_t gs_activity_count_graphs(const struct gs_activity *activity);
bool gs_activity_read_graph(const struct gs_activity *activity, uint32_t index,
			    struct gs_activity_graph *ret_graph);

/* One of its kernels after the other: *kernel is first_kernel at the begin. False: there are no more. */
bool gs_activity_next_graph_kernel(const struct gs_activity *activity, uint32_t *kernel,
				   uint64_t *ret_function, uint64_t *ret_count);

/* All of them, with their kernels' names, by launches. 0 or -ENOMEM. */
int gs_activity_fill_graphs(const struct gs_activity *activity, const struct gs_dict *dict,
			    struct gs_summary *summary, struct gs_activity_summary *ret_summary);

/* What found no room, so far. */
uint64_t gs_activity_limit_hits(const struct gs_activity *activity, enum gs_activity_limit limit);

/* Work whose stream could not be read. */
uint64_t gs_activity_unread(const struct gs_activity *activity);

#endif
