/*
 * What a summary says of streams of GPUs, of which pipeline/gpu_activity has the rules. Times are bounds
 * as the host sees them.
 */
#ifndef GS_MODEL_SUMMARY_ACTIVITY_H
#define GS_MODEL_SUMMARY_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/event.h"

/* Sorts of work. The copies are in the order of enum gs_copy_kind. */
enum gs_activity_work {
	GS_ACTIVITY_KERNELS = 0,
	GS_ACTIVITY_GRAPHS,
	GS_ACTIVITY_COLLECTIVES,
	GS_ACTIVITY_MEMSETS,
	GS_ACTIVITY_HOST_FUNCTIONS, /* run on the host, in the order of the stream */
	GS_ACTIVITY_COPIES,
	GS_ACTIVITY_WORKS = GS_ACTIVITY_COPIES + GS_COPY_P2P + 1
};

/* "kernels", "copies HtoD". */
const char *gs_activity_work_name(enum gs_activity_work work);

/* What happened because of a bound, or because there was no memory. */
enum gs_activity_limit {
	GS_ACTIVITY_LIMIT_PROCESSES, /* calls of processes or contexts beyond: left out */
	GS_ACTIVITY_LIMIT_STREAMS, /* work of streams beyond: only counted, in the context's rest */
	GS_ACTIVITY_LIMIT_EVENTS,  /* the oldest was forgotten: a wait for it says nothing */
	GS_ACTIVITY_LIMIT_SEGMENTS, /* two runs of work became one: it is done when both are */
	GS_ACTIVITY_LIMIT_WAITS,    /* a stream waited for more events than are remembered */
	GS_ACTIVITY_LIMIT_CAPTURES, /* the oldest was taken for ended */
	GS_ACTIVITY_LIMIT_GRAPHS,   /* graphs, or kernels of them, that found no room */
	GS_ACTIVITY_LIMITS
};

/* Words for people: "work of streams that found no room". */
const char *gs_activity_limit_text(enum gs_activity_limit limit);

/* One word: "streams"; a key in JSON. */
const char *gs_activity_limit_name(enum gs_activity_limit limit);

/* Of a stream, of a context, or of what is left of those that ended. */
struct gs_activity_totals {
	uint64_t n[GS_ACTIVITY_WORKS];     /* pieces of work that were queued */
	uint64_t bytes[GS_ACTIVITY_WORKS]; /* copied, set, or counted by a collective */
	uint64_t threads;                  /* sum over kernels of the threads of their grids */
	uint64_t n_captured;               /* pieces of work that went into a graph instead */
	uint64_t n_failed;                 /* that the library refused */
	uint64_t n_records, n_event_waits; /* events in it; waits of it for events */
	uint64_t n_syncs; /* calls by which the host waited for it, or for an event in it */
	uint64_t wait_ns; /* in these, and in others after which work of it was done */
	uint64_t call_ns; /* in the calls that queued work in it or waited for it */
	uint64_t busy_max_ns, busy_min_ns;   /* bounds of the time in which work was pending */
	uint64_t n_spans;                    /* stretches of it */
	uint64_t n_gaps, gap_ns, gap_max_ns; /* between these, nothing queued */
	uint64_t depth_max, depth_sum; /* pieces pending as each was queued, itself among them */
	uint64_t first_ns, last_ns; /* begin of the first call that queued work, end of the last */
};

/* The sum over sorts of work. */
uint64_t gs_activity_totals_work(const struct gs_activity_totals *totals);

#define GS_ACTIVITY_DEVICE_UNKNOWN UINT32_MAX /* chosen before the trace began */

enum gs_activity_blocking {
	GS_ACTIVITY_BLOCKING_UNKNOWN = 0, /* its creation was not seen */
	GS_ACTIVITY_BLOCKING,             /* the legacy default stream waits for it */
	GS_ACTIVITY_NON_BLOCKING,
};

struct gs_activity_stream {
	/* process: id, of a summary its pid; context: the device as the process numbers it, or
	 * GS_ACTIVITY_DEVICE_UNKNOWN. */
	uint32_t process, context;
	uint32_t thread;                  /* of a thread's own default stream; else 0 */
	uint32_t nth;                     /* how many streams had this handle before */
	uint64_t stream;                  /* handle; 0 the legacy default stream */
	uint64_t context_handle;          /* as in struct gs_activity_context */
	uint64_t n_pending;               /* pieces not known to be done */
	uint8_t blocking;                 /* enum gs_activity_blocking */
	bool ended;                       /* it was destroyed, or its process ended */
	struct gs_activity_totals totals; /* pending work counts until its process was last seen */
};

struct gs_activity_context {
	uint32_t process, context;         /* as in struct gs_activity_stream */
	uint64_t handle;                   /* of a context of its own (cuCtxCreate), or one that is
					    * not known to be the device's primary one; else 0 */
	const char *gpu;                   /* of a summary: its UUID; "" not known */
	uint64_t n_streams;                /* so far */
	uint64_t n_rest;                   /* of these, in the rest below */
	struct gs_activity_totals rest;    /* streams that ended and made room, or found none */
	uint64_t n_syncs;                  /* of the whole device */
	uint64_t wait_ns;                  /* the host waited for it or for one of its streams */
	uint64_t busy_max_ns, busy_min_ns; /* work was pending in any stream */
	uint64_t n_gaps, gap_ns, gap_max_ns;
	uint64_t first_ns, last_ns; /* of calls that queued work */
};

/* An executable graph that was launched, or the sum of some that were destroyed. */
struct gs_activity_graph {
	uint32_t process;   /* id; of a summary: pid */
	uint64_t graph;     /* handle; 0 not seen, or a sum */
	uint64_t launches;  /* so far */
	uint64_t n_kernels; /* that each launch runs; of a sum: all ran; 0: not known, or none */
	bool destroyed, is_sum;          /* is_sum: of several that were destroyed */
	uint32_t first_kernel;           /* of pipeline/gpu_activity alone */
	struct gs_graph_kernel *kernels; /* of a summary: the most frequent first */
	size_t n_different;
};

struct gs_graph_kernel {
	const char *name;         /* short form; "" not known */
	uint64_t function, count; /* its handle; how often each launch runs it */
};

/* Of struct gs_summary, where process is a pid and thread a tid. */
struct gs_activity_summary {
	struct gs_activity_stream *streams; /* those that were given work, by time pending */
	size_t n_streams;
	struct gs_activity_context *contexts; /* by process and device */
	size_t n_contexts;
	struct gs_activity_graph *graphs; /* by launches */
	size_t n_graphs;
	uint64_t limit_hits[GS_ACTIVITY_LIMITS]; /* by enum gs_activity_limit: what found no room */
	uint64_t n_unread;
};

/* Why what calls say of a GPU was not compared with what the GPU says. */
enum gs_gpu_compared {
	GS_GPU_COMPARED = 0,
	GS_GPU_UNCOMPARED_NO_COUNTER, /* its utilisation is not known */
	GS_GPU_UNCOMPARED_OTHERS,     /* other processes used it all the time */
	GS_GPU_UNCOMPARED_UNPLACED,   /* on which GPU some of the work ran is not known */
	GS_GPU_UNCOMPARED_SHORT,      /* there was no second to compare */
	GS_GPU_UNCOMPARED_NO_ROOM,    /* too many GPUs, processes, or contexts */
	GS_GPU_COMPARED_COUNT
};

/* "other processes used it"; "" of GS_GPU_COMPARED. */
const char *gs_activity_compared_text(enum gs_gpu_compared why);

/* One word, a key in JSON; "" of GS_GPU_COMPARED. */
const char *gs_activity_compared_name(enum gs_gpu_compared why);

/* A GPU of which samples stand beside the calls: measured by the device, as its driver reads it, and how far the bounds
 * that calls give were from it. */
struct gs_gpu_summary {
	const char *uuid, *name, *number; /* number: by the driver, "0", "0:7" a part */
	uint64_t n_samples;
	double busy_ratio;         /* share of the time in which a kernel ran; -1 not known */
	double power_watts;        /* mean; -1 not known */
	int64_t memory_peak_bytes; /* of all processes; -1 not known */
	uint8_t why; /* enum gs_gpu_compared; the ratios below are there when it is 0 */
	uint8_t others_hidden; /* the driver's numbers of processes are others: who else uses it is not known */
	uint64_t compared_ns;           /* time in which both were known, */
	uint64_t others_ns;             /* without that in which other processes used it */
	double compared_busy_ratio;     /* the GPU's own, of that time */
	double least_ratio, most_ratio; /* bounds, of that time, of how long work was pending */
};

#endif
