/*
 * What an engine remembers. Streams and contexts are in arrays and refer to each other by index,
 * 0 none. The pieces of work in a stream that are not known to be done are in segments:
 *
 *     stream -> segment -> segment -> segment      the oldest first; each is done as a whole
 *                 3           4          5          their numbers rise by one
 *
 * A segment is work of one thread with no event recorded inside and no wait for an event before any
 * but the first piece. So a position in a stream, which an event remembers and another stream's
 * segment waits for, is the number of a segment. Work in the legacy default stream and in those that
 * it orders is numbered too, by context (seq): "done up to that number" is what the rules of that
 * stream make of a wait.
 */
#ifndef GS_PIPELINE_GPU_ACTIVITY_GPU_ACTIVITY_INT_H
#define GS_PIPELINE_GPU_ACTIVITY_GPU_ACTIVITY_INT_H

#include "core/base/map.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define ACTIVITY_DEPS          4          /* events that a segment waits for */
#define ACTIVITY_PUSHED        6          /* contexts below a thread's current one */
#define ACTIVITY_CONTEXT_ENDED UINT32_MAX /* in the place of a handle's index */

/* cuda_runtime_api.h: cudaStreamLegacy, cudaStreamPerThread (the driver's are the same) and
 * cudaStreamNonBlocking (CU_STREAM_NON_BLOCKING). */
#define ACTIVITY_STREAM_LEGACY     1
#define ACTIVITY_STREAM_PER_THREAD 2
#define ACTIVITY_NON_BLOCKING      1

/* Up to where a stream of a context, and the work that the legacy default stream orders, is meant. */
struct activity_point {
	uint32_t stream, generation; /* stream 0: none */
	uint32_t context;
	uint64_t segment;
	uint64_t seq; /* 0 none */
};

struct activity_lane {
	uint64_t first_ns; /* begin of the first call */
	uint64_t n, bytes;
};

struct activity_segment {
	uint64_t number;
	uint64_t last_seq;   /* of its last piece, or as it was made */
	uint64_t legacy_seq; /* the last work of the legacy default stream that it waits for */
	uint64_t last_ns;    /* when its last call had queued */
	uint64_t threads;    /* sum over kernels */
	uint32_t n_pieces;
	uint32_t thread;
	uint32_t next;
	uint16_t lanes_used; /* by bit; lanes of others hold nothing */
	uint8_t n_deps;
	bool sealed; /* no more comes in */
	struct activity_point deps[ACTIVITY_DEPS];
	struct activity_lane lanes[GS_ACTIVITY_WORKS];
};

struct activity_stream {
	uint64_t handle;
	uint64_t next_number, done_number; /* of segments */
	uint64_t active_ns;                /* since when work is pending */
	uint64_t done_ns;                  /* when none was, last; 0 never */
	uint64_t span_ns, wait_ns;         /* where the last span of work, of waits ended */
	uint32_t context;                  /* 0: the slot is free */
	uint32_t generation;
	uint32_t thread;
	uint32_t nth;
	uint32_t head, tail, n_segments;
	uint32_t n_pending;
	uint32_t list_next, list_prev; /* of the context's streams with segments */
	uint32_t idle_next;            /* of those that ended and may make room */
	uint32_t capture, capture_generation;
	uint8_t blocking; /* enum gs_activity_blocking */
	bool is_legacy, ended, listed;
	struct gs_activity_totals totals;
};

/* A context, as a thread has chosen it. */
struct activity_place {
	uint32_t device;
	uint32_t own; /* index of struct activity_handle; 0: the device's primary context */
};

/* What is known of a handle of a context. */
struct activity_handle {
	uint64_t handle; /* 0: it was not seen */
	uint32_t device;
	uint32_t thread; /* that asked for it, the caller's number */
	uint32_t next;   /* of the same process, or free */
	bool is_primary;
	bool is_guessed; /* the handle came where one was to come that was not seen */
};

struct activity_context {
	uint32_t process;  /* index of struct activity_process */
	uint32_t own;      /* as in struct activity_place */
	uint32_t next;     /* of the same process */
	uint32_t list;     /* streams with segments */
	uint32_t n_active; /* streams with pending work */
	uint64_t active_ns, done_ns, min_ns;
	uint64_t seq;          /* last number given */
	uint64_t legacy_seq;   /* last of the legacy default stream */
	uint64_t blocking_seq; /* last of those that it waits for */
	uint64_t done_seq;     /* all up to it is done */
	struct gs_activity_context sums;
};

/* From the first call until it ends or runs another program. */
struct activity_process {
	uint32_t number; /* the caller's */
	uint32_t caller; /* the same; number is 0 when it has ended */
	uint32_t contexts;
	uint32_t handles;   /* of contexts */
	uint32_t graph_sum; /* of graphs that made room */
	uint64_t last_ns;
};

/* A graph, or an executable one, or that of a capture. */
struct activity_graph {
	uint64_t handle;  /* 0: not seen, or there is none yet */
	uint32_t process; /* index */
	uint32_t items;   /* its kernels, */
	uint32_t n_items; /* how many different ones */
	uint32_t next;    /* of those that ended, or are free */
	bool used, is_exec, is_capture, ended;
	uint64_t n_kernels;
	uint64_t launches; /* of an executable one; 1 of a sum */
	uint64_t n_merged; /* of a sum: launches */
};

struct activity_item {
	uint64_t function, count;
	uint32_t next;
};

struct activity_event {
	uint64_t handle;
	uint32_t process;
	uint32_t capture, capture_generation; /* recorded in a capture; 0 not */
	struct activity_point at;             /* stream 0: nothing is pending before it */
};

struct activity_thread {
	uint32_t process; /* index; 0 not seen yet */
	uint32_t context;
	struct activity_place at; /* its current context */
	uint64_t by_handle;       /* the handle that put it there; 0 none did */
	struct activity_place below[ACTIVITY_PUSHED];
	uint8_t n_below;
	bool lost_below;             /* there may be others below these */
	uint32_t chosen;             /* device, by the runtime */
	uint32_t stream, generation; /* the last one it used, of this handle */
	uint64_t handle;
};

struct activity_capture {
	uint32_t generation;
	uint32_t graph; /* that is made; 0: no room for it */
	bool open;
};

/* What is known of a process before its first call. */
struct activity_origin {
	uint32_t device; /* that its threads are on until they choose one */
	bool has_one;    /* it has one GPU alone */
	bool begun;      /* and no context was made unseen */
};

/* What a function of the followed records means. */
struct activity_function {
	bool is_known;
	struct gs_activity_function meaning;
};

struct gs_activity {
	struct gs_activity_config config;
	gs_activity_span_fn *span;
	void *span_ctx;
	gs_activity_busy_fn *busy;
	void *busy_ctx;
	struct activity_process *processes; /* owned, as all arrays; [0] is none */
	uint32_t n_processes, cap_processes;
	struct gs_map process_idx; /* caller's number -> index of the present one */
	struct activity_context *contexts;
	uint32_t n_contexts, cap_contexts;
	struct activity_handle *handles;
	uint32_t n_handles, cap_handles, free_handle;
	struct activity_stream *streams;
	uint32_t n_streams, cap_streams;
	struct gs_map stream_idx;
	uint32_t idle_first, idle_last; /* ended streams without work, the oldest first */
	struct activity_event *events;
	uint32_t n_events, cap_events, next_victim;
	uint32_t free_event; /* the next is in its capture */
	struct gs_map event_idx;
	struct activity_segment *segments;
	uint32_t n_segments, cap_segments, free_segment;
	struct activity_graph *graphs;
	uint32_t n_graphs, cap_graphs, free_graph, ended_first, ended_last;
	struct gs_map graph_idx;
	struct activity_item *items; /* kernels of graphs */
	uint32_t n_items, cap_items, free_item;
	struct activity_thread *threads; /* by the caller's number */
	uint32_t n_threads;
	struct activity_capture *captures; /* config.max_captures and one; [0] is none */
	uint32_t next_capture;
	struct activity_point *todo; /* what is known to be done and not yet taken out */
	uint32_t n_todo, cap_todo;
	struct activity_function *functions; /* by id */
	uint32_t n_functions;
	struct activity_origin *origins; /* by the caller's number */
	uint32_t n_origins;
	struct gs_activity_place last; /* of the call that was taken last */
	uint64_t n_limit[GS_ACTIVITY_LIMITS];
	uint64_t n_unread;
};

/* What makes work done, and when the host knew. */
struct activity_closing {
	uint64_t start_ns, end_ns; /* of the call */
	uint64_t limit_ns;         /* work that was queued later was not waited for */
	bool is_wait;              /* the host stood still for it */
	bool ended;                /* the process did */
	uint32_t stream;           /* that was asked for; 0 none */
	uint64_t n_pieces, n_own;  /* that are done now; of these in that stream */
};

/* How many pieces of work the call queued. */
static inline uint32_t activity_pieces(const struct gs_activity_call *call)
{
	return call->n_run ? call->n_run : 1;
}

/* --- context.c: which context a thread is in --- */

/* By a handle of the process. thread: the caller's number. */
struct activity_place activity_context_place(struct gs_activity *a, uint32_t process,
					     uint32_t thread, uint64_t handle);

/* A thread in a context of an unknown handle uses that stream: it is one of that context. */
void activity_context_learn(struct gs_activity *a, struct activity_thread *t, uint32_t stream);

/* SET_DEVICE and CONTEXT_*. */
void activity_context_take(struct gs_activity *a, struct activity_thread *t,
			   const struct gs_activity_call *call, struct activity_closing *closing);

/* Handles of an ended process. */
void activity_context_forget(struct gs_activity *a, uint32_t process);

/* All of the context is over: its work, its streams (gpu_activity.c). */
void activity_end_context(struct gs_activity *a, uint32_t context,
			  struct activity_closing *closing);

/* --- graph.c: kernels of graphs --- */

/* Functions of GRAPH_*. process: index. */
void activity_graph_take(struct gs_activity *a, uint32_t process,
			 const struct gs_activity_call *call);

/* into: the graph that the launch is captured into; 0: it runs. */
void activity_graph_launch(struct gs_activity *a, uint32_t process, uint64_t exec, uint32_t into);

/* The graph of a capture: made, given a kernel, got by the program (handle 0: not seen), or not. */
uint32_t activity_graph_begin(struct gs_activity *a, uint32_t process);
void activity_graph_add(struct gs_activity *a, uint32_t graph, uint64_t function, uint64_t count);
void activity_graph_finish(struct gs_activity *a, uint32_t graph, uint64_t handle);
void activity_graph_drop(struct gs_activity *a, uint32_t graph);

/* All of an ended process. */
void activity_graph_forget(struct gs_activity *a, uint32_t process);

/* --- entity.c: processes, contexts, streams, events --- */

/* 0: no room. */
uint32_t activity_context_find(struct gs_activity *a, uint32_t process,
			       struct activity_place place);

/* The state of a thread with its process; NULL: no room. */
struct activity_thread *activity_thread_reach(struct gs_activity *a,
					      const struct gs_activity_call *call);

/* The same with its context; what has no room is counted. */
struct activity_thread *activity_thread_of(struct gs_activity *a,
					   const struct gs_activity_call *call);

/* A stream by its handle, made when it is not there; 0: no room. */
uint32_t activity_stream_find(struct gs_activity *a, struct activity_thread *thread,
			      const struct gs_activity_call *call);

/* A new one with these flags; another of this handle has ended. */
void activity_stream_create(struct gs_activity *a, struct activity_thread *thread,
			    const struct gs_activity_call *call);

/* Its handle may come again for another. */
void activity_stream_end(struct gs_activity *a, uint32_t stream);

/* Nothing is pending in an ended stream: it may make room. */
void activity_stream_retire(struct gs_activity *a, uint32_t stream);

/* NULL: not there, or no room. */
struct activity_event *activity_event_find(struct gs_activity *a, uint32_t process, uint64_t handle,
					   bool make);
void activity_event_forget(struct gs_activity *a, uint32_t process, uint64_t handle);

/* --- work.c: what is pending --- */

void activity_work_add(struct gs_activity *a, uint32_t stream, const struct gs_activity_call *call,
		       uint64_t queued_ns);

/* Work of the stream up to the segment of this number is done, and all that it waited for. */
void activity_work_close(struct gs_activity *a, uint32_t stream, uint64_t number,
			 struct activity_closing *closing);

/* The same of all work of the context: of streams that the legacy default stream orders, or of all. */
void activity_work_close_context(struct gs_activity *a, uint32_t context, bool blocking_alone,
				 struct activity_closing *closing);

/* What an event remembers. */
void activity_work_close_point(struct gs_activity *a, const struct activity_point *at,
			       struct activity_closing *closing);

/* The point that all work of the stream so far is before; no more comes into its last segment. */
struct activity_point activity_work_mark(struct gs_activity *a, uint32_t stream);

/* What comes into the stream from now on waits for that point. */
void activity_work_wait(struct gs_activity *a, uint32_t stream, const struct activity_point *at);

bool activity_is_capturing(const struct gs_activity *a, uint32_t capture, uint32_t generation);

void activity_totals_add(struct gs_activity_totals *sum, const struct gs_activity_totals *more);

#endif
