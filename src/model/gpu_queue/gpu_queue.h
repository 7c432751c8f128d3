/*
 * Work that calls of CUDA queue, added up in the kernel by process, stream and sort: what crosses to user
 * space is a run (how many calls, from when to when) ahead of each call that may say what is done, and
 * that call. Compiled by the BPF compiler and by the host's (src/bpf/calls/gpu.bpf.h).
 */
#ifndef GS_MODEL_GPU_QUEUE_GPU_QUEUE_H
#define GS_MODEL_GPU_QUEUE_GPU_QUEUE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* What becomes of calls of a function: gs_func_desc.gpu. It is asked for by function
 * (gs_uprobe_options.gpu_role). */
enum gs_gpu_queue_role {
	GS_GPU_QUEUE_NOTHING = 0,
	GS_GPU_QUEUE_SENT = 1,   /* sent whole */
	GS_GPU_QUEUE_ORDERS = 2, /* the same, after what its process has queued */
	GS_GPU_QUEUE_ADDED =
		3, /* added up; and its sort of work: GS_GPU_QUEUE_ADDED + a number below
			    * GS_GPU_QUEUE_SORTS */
};
#define GS_GPU_QUEUE_SORTS      16
#define GS_GPU_QUEUE_PER_THREAD 0x80 /* or-ed: takes the thread's own default stream for stream 0 */
#define GS_GPU_QUEUE_COPIES     0x40 /* or-ed to ADDED: the sort of the first kind of copies */
#define GS_GPU_QUEUE_ROLE_MASK  0x3f
/* Of 64 launches one is sent whole, too, with GS_CALL_ADDED_UP; after the first 65,536 of a row one of 512. */
#define GS_GPU_QUEUE_SAMPLE_BITS  6
#define GS_GPU_QUEUE_SELDOM_BITS  9
#define GS_GPU_QUEUE_SELDOM_AFTER 65536

#define GS_GPU_QUEUE_PROCESS_MAX                                                                   \
	512                  /* that queue work at one time; calls of others are sent whole */
#define GS_GPU_QUEUE_ROWS 32 /* of a process; a power of two. Beyond, one makes room for another */
#define GS_GPU_QUEUE_SEEN 4  /* rows that a thread remembers; a power of two */

/* What calls of one sort have queued in one stream. Written by all threads of its process. */
struct gs_gpu_queue_row {
	__u64 stream; /* 0 the legacy default stream, 2 that of thread */
	__u32 device; /* as the thread chose it by cudaSetDevice; 0: or not at all */
	__u16 sort;   /* and 1; 0: the row is free */
	__u16 pad;
	__u32 thread; /* of its own default stream: its tid; else 0 */
	__u32 tid;    /* that called last */
	/* n: calls; amount: threads of their grids, or bytes. Both only grow, whatever stream the
	 * row is of. */
	__u64 n, amount;
	__u64 sent_n;            /* calls that user space has been sent */
	__u64 first_ns, last_ns; /* of those that it has not: begin of the first, end of the last */
};
_Static_assert(sizeof(struct gs_gpu_queue_row) == 64, "gs_gpu_queue_row");

struct gs_gpu_queue_process {
	__u32 pid;
	__u32 ended;  /* 1: user space takes it back */
	__u32 n_rows; /* that were used */
	__u32 victim; /* how often a row was looked for */
	__u32 legacy; /* the last work went into the legacy default stream */
	__u32 pad;
	struct gs_gpu_queue_row rows[GS_GPU_QUEUE_ROWS]; /* the first n_rows were used */
};
_Static_assert(sizeof(struct gs_gpu_queue_process) == 24 + 64 * GS_GPU_QUEUE_ROWS,
	       "gs_gpu_queue_process");

/* A part of struct gs_thread. */
struct gs_gpu_queue_thread {
	__u32 process; /* index of its struct gs_gpu_queue_process; 0 not looked up yet */
	__u32 device;  /* chosen last by cudaSetDevice; 0: or not at all */
	__u8 seen[GS_GPU_QUEUE_SEEN]; /* rows; each is asked whether it is the one */
	__u32 pad;
};
_Static_assert(sizeof(struct gs_gpu_queue_thread) == 16, "gs_gpu_queue_thread");

/* A row as it was; sums are those of the row. */
struct gs_event_gpu {
	__u16 kind, bytes; /* these as in struct gs_event */
	__u32 pad;
	__u32 process; /* index */
	__u32 row;
	__u32 pid;
	__u32 unused;               /* 0 */
	struct gs_gpu_queue_row is; /* as of now */
};
_Static_assert(sizeof(struct gs_event_gpu) == 88, "gs_event_gpu");

/* What user space makes of it: calls that have queued work since the run before. */
struct gs_gpu_queue_run {
	__u32 pid, tid;   /* tid: that called last */
	__u32 device;     /* as in the row */
	__u32 sort;       /* likewise */
	__u32 per_thread; /* 1: in the thread's own default stream */
	__u32 n;          /* calls */
	__u64 stream;     /* as in the row */
	__u64 amount;     /* of these calls */
	__u64 first_ns, last_ns;
};

#endif
