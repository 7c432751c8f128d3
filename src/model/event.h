/*
 * What crosses from the kernel to user space: raw events in the ring, and the cells of the arrays
 * that both sides map. Compiled by the BPF compiler and by the host's; fixed widths only, every
 * layout asserted. Nothing here reaches a disk or another machine (model/record.h does).
 *
 * Times are CLOCK_MONOTONIC ns; pid is the process (tgid), tid the thread, both in the initial pid
 * namespace.
 */
#ifndef GS_MODEL_EVENT_H
#define GS_MODEL_EVENT_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#include "model/hist.h"

#define GS_FUNC_MAX      512  /* ids of functions that can be traced: 1 .. GS_FUNC_MAX - 1 */
#define GS_THREAD_MAX    2048 /* threads followed at one time */
#define GS_CELL_MAX      8192 /* (thread, function) pairs aggregated at one time */
#define GS_DEPTH_MAX     16   /* traced calls open at one time in one thread */
#define GS_ERR_CODES     4    /* different error codes counted by cell */
#define GS_LAYER_MAX     16
#define GS_NCCL_ID_BYTES 128 /* sizeof(ncclUniqueId), nccl.h NCCL_UNIQUE_ID_BYTES */
#define GS_BATCH_MAX     128 /* copies of a batch whose bytes are added up */
#define GS_BATCH3D_MAX   32  /* the same of copies that a struct describes */
#define GS_COMM_LIST_MAX 16  /* communicators of ncclCommInitAll, ranks excluded by Shrink */

enum gs_event_kind {
	GS_EV_INVALID = 0,
	GS_EV_CALL = 1, /* struct gs_event_call */
	GS_EV_COMM = 2, /* struct gs_event_comm */
	GS_EV_TASK = 3, /* struct gs_event_task */
	GS_EV_COUNT
};

/* Layers: who owns a function. The numbers are stored. */
enum gs_layer {
	GS_LAYER_NONE = 0,
	GS_LAYER_CUDA_RUNTIME = 1,
	GS_LAYER_CUDA_DRIVER = 2,
	GS_LAYER_NCCL = 3,
	GS_LAYER_COUNT
};

/* Flags of a call. Stored. */
enum gs_call_flag {
	GS_CALL_DRIVER_SEEN = 1, /* the same operation also passed the exported driver entry */
	GS_CALL_UNFINISHED = 2,  /* had not returned when tracing ended; dur_ns is its age then */
	GS_CALL_ARGS_UNREAD = 4, /* an argument in memory could not be read: it is 0, or, where the
				  * bytes of many copies are added up, lacks some of them */
};

struct gs_event {
	__u16 kind;
	__u16 bytes; /* of the whole event */
	__u32 pad;
};

/*
 * One finished call. bytes, stream, aux and arg[] mean, by class of the function (model/func.h):
 *
 *   class        bytes           aux                     arg[0]       arg[1]      arg[2]     arg[3]
 *   launch       0               dynamic shared bytes    function     gx | gy<<32 gz | bx<<32 by |
 * bz<<32 graph launch 0               0                       graph exec alloc        of the block
 * flags                   pointer (of success: as returned) free         0 (unknown)     0 pointer
 *   copy         moved           enum gs_copy_kind       destination  source      copies of a batch
 *   memset       set             value                   pointer
 *   stream       0               flags or 0              event or function
 *   event        0               flags or 0              event        second event
 *   sync         0               0                       event
 *   device       0               device (int)
 *   module       0               0                       handle of success
 *   collective   count * size    dtype | op<<8 | root<<16 count       communicator send        recv
 *   p2p          count * size    dtype | peer<<16        count        communicator buffer
 *   group        0               0
 *   comm         0               0                       communicator
 *
 * stream is the handle (0 the default stream); a root or peer above 65,534 reads 65,535,
 * and so does that of a call without one; an op that a call does not have reads 255.
 */
struct gs_event_call {
	struct gs_event head;
	__u64 start_ns;
	__u64 dur_ns;
	__u32 pid;
	__u32 tid;
	__s32 ret;
	__u16 func;
	__u16 cpu;  /* where the call returned */
	__u8 depth; /* traced calls of this thread that were open around it */
	__u8 flags; /* enum gs_call_flag */
	__u16 pad;
	__u32 aux;
	__u64 bytes;
	__u64 stream;
	__u64 arg[4];
};
_Static_assert(sizeof(struct gs_event_call) == 96, "gs_event_call");

enum gs_copy_kind { /* cudaMemcpyKind of driver_types.h */
		    GS_COPY_H2H = 0,
		    GS_COPY_H2D = 1,
		    GS_COPY_D2H = 2,
		    GS_COPY_D2D = 3,
		    GS_COPY_DEFAULT = 4, /* the library finds out by the pointers */
		    GS_COPY_P2P = 5,     /* ours: a peer copy, named so by the call */
};

/* A communicator came into being; sent beside the call that made it. */
struct gs_event_comm {
	struct gs_event head;
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u16 func; /* which init call */
	__u16 n_list;
	__s32 ret;
	__u64 comm;    /* handle; 0 where the call left none (InitAll: see list) */
	__u64 parent;  /* Split and Shrink: the communicator it came from */
	__s32 n_ranks; /* as given; -1 unknown (Split) */
	__s32 rank;    /* as given; -1 unknown (Split, Shrink) */
	__s32 color;   /* Split */
	__s32 key;     /* Split */
	__u8 unique_id[GS_NCCL_ID_BYTES]; /* InitRank*: all of it; else zeros */
	/* InitAll: n_list handles, rank by rank. Shrink: n_list excluded ranks of the parent. */
	__u64 list[GS_COMM_LIST_MAX];
};
_Static_assert(sizeof(struct gs_event_comm) == 320, "gs_event_comm");

enum gs_task_change {
	GS_TASK_FORK = 1, /* pid: the new process, parent_pid: who made it */
	GS_TASK_EXEC = 2,
	GS_TASK_EXIT = 3, /* tid ended; when tid is pid, usually the process */
};

/* A followed task was born, changed its program or ended. */
struct gs_event_task {
	struct gs_event head;
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u32 parent_pid;
	__u32 change;      /* enum gs_task_change */
	__u32 thread_slot; /* of the ended thread, 0 when it had none */
	__u32 pad;
	char comm[16];
};
_Static_assert(sizeof(struct gs_event_task) == 56, "gs_event_task");

/*
 * What the kernel side adds up for one function in one thread: written only by that thread, read
 * by user space through a shared mapping, only ever growing until the cell is handed back.
 */
struct gs_cell {
	__u32 thread_slot; /* 0: free */
	__u32 func;
	__u64 calls;
	__u64 errors;
	__u64 total_ns;
	__u64 max_ns;
	__u64 bytes; /* of calls that succeeded */
	__u64 inner; /* driver calls that were part of a runtime call (counted there) */
	__s32 err_code[GS_ERR_CODES];  /* 0: unused */
	__u32 err_count[GS_ERR_CODES]; /* codes beyond these are in errors only */
	__u32 hist[GS_HIST_N_BUCKETS]; /* wraps: read differences */
};
_Static_assert(sizeof(struct gs_cell) % 8 == 0, "gs_cell");

/* An open call. */
struct gs_frame {
	__u64 start_ns;
	__u64 sp; /* stack pointer at entry */
	__u16 func;
	__u8 flags;
	__u8 pad;
	__u32 cpu;
	__u64 v[16]; /* 0..5 registers, 6..12 words above the return address, 13 always 0 */
};
_Static_assert(sizeof(struct gs_frame) == 152, "gs_frame");

#define GS_V_STACK 6
#define GS_V_NONE  13
#define GS_V_MAX   16

/* In n_stack: no words on the stack; bit n says that only the low 32 bits of v[n] are an argument.
 */
#define GS_V_LOW 0x80

/* A followed thread. Slot 0 is never used. */
struct gs_thread {
	__u32 pid; /* 0: free */
	__u32 tid;
	__u32 depth;
	__u32 ended; /* 1: the thread is gone; user space takes the slot back */
	char comm[16];
	__u16 cell[GS_FUNC_MAX]; /* index into the cells; 0 none yet */
	struct gs_frame frame[GS_DEPTH_MAX];
};
_Static_assert(sizeof(struct gs_thread) % 8 == 0, "gs_thread");

/* How a function's arguments become a gs_event_call; filled from the function table. Each index
 * points into gs_frame.v. */
struct gs_func_desc {
	__u8 layer;
	__u8 op;      /* class, enum gs_func_class */
	__u8 post;    /* enum gs_post */
	__u8 n_stack; /* words to read above the return address: 0..7; or GS_V_LOW, see there */
	__u8 v_bytes;
	__u8 v_bytes2; /* multiplied by it; GS_V_NONE: by one */
	__u8 v_stream;
	__u8 v_aux;
	__u8 v_arg[4];
	__s32 not_error; /* a return code beside 0 that is an answer, not a failure; 0 none */
};
_Static_assert(sizeof(struct gs_func_desc) == 16, "gs_func_desc");

/* What is done beyond copying saved words. "Behind v[n]" is memory of the traced process. */
enum gs_post {
	GS_POST_NONE = 0,
	GS_POST_LAUNCH_RT =
		1, /* dim3 in registers: v[1] gx|gy<<32, v[2] gz, v[3] bx|by<<32, v[4] bz */
	GS_POST_LAUNCH_DRV = 2,  /* v[1..3] grid, v[4] bx, v[5] by, v[6] bz */
	GS_POST_LAUNCH_EXC = 3,  /* cudaLaunchConfig_t behind v[0] */
	GS_POST_LAUNCH_EX = 4,   /* CUlaunchConfig behind v[0] */
	GS_POST_OUT_PTR = 5,     /* arg[0] is read at return from where v_arg[0] points */
	GS_POST_OUT_PTR32 = 6,   /* the same, 32 bits wide (cuMemAlloc of the first ABI) */
	GS_POST_OUT_STREAM = 7,  /* stream is read at return from where v_stream points */
	GS_POST_PITCH = 8,       /* OUT_PTR, and bytes = the pitch returned behind v[1] * v_bytes */
	GS_POST_PITCHED_PTR = 9, /* cudaMalloc3D: pointer and pitch of cudaPitchedPtr behind v[0] */
	GS_POST_ARRAY = 10,      /* cudaMallocArray: element size from the descriptor behind v[1] */
	GS_POST_COPY3D_RT = 11,  /* cudaMemcpy3DParms behind v[0] */
	GS_POST_COPY2D_DRV = 12, /* CUDA_MEMCPY2D behind v[0] */
	GS_POST_COPY3D_DRV = 13, /* CUDA_MEMCPY3D behind v[0] */
	GS_POST_COPY_ANY = 14,   /* aux = the kind that these five name */
	GS_POST_COPY_HTOD = 15,
	GS_POST_COPY_DTOH = 16,
	GS_POST_COPY_DTOD = 17,
	GS_POST_COPY_PEER = 18,
	GS_POST_EXTENT3 = 19,    /* bytes also times arg[1], which then is 0 */
	GS_POST_FILL16 = 20,     /* bytes also times 2 */
	GS_POST_FILL32 = 21,     /* bytes also times 4 */
	GS_POST_NCCL = 22,       /* bytes = count * size of the datatype; v_aux = op | root << 4 */
	GS_POST_COPY_BATCH = 23, /* bytes: the sum of v_bytes2 sizes behind v_bytes; arg[0] and
				  * arg[1] are read from where they point; arg[2] = v_bytes2 */
	GS_POST_COPY3D_BATCH = 24,    /* v_bytes2 structs cudaMemcpy3DBatchOp behind v_bytes */
	GS_POST_COPY3D_PEER_RT = 25,  /* cudaMemcpy3DPeerParms behind v[0] */
	GS_POST_COPY3D_PEER_DRV = 26, /* CUDA_MEMCPY3D_PEER behind v[0] */
	GS_POST_COPY2D_V1 = 27,       /* CUDA_MEMCPY2D of the first ABI behind v[0] */
	GS_POST_COPY3D_V1 = 28,       /* CUDA_MEMCPY3D of the first ABI behind v[0] */
	GS_POST_PITCH32 = 29,         /* PITCH, pointer and pitch 32 bits wide */
	GS_POST_ARRAY3D = 30,     /* extent at v[6..8], descriptor behind v[1], v_bytes2 levels */
	GS_POST_LAUNCH_GRID = 31, /* v[1] gx, v[2] gy */
	/* These send a struct gs_event_comm too. */
	GS_POST_COMM_INIT = 32,          /* v[1] ranks, v[2] rank; the id by value on the stack */
	GS_POST_COMM_INIT_SCALABLE = 33, /* the same; ids behind v[4] */
	GS_POST_COMM_INIT_ALL = 34,      /* v[1] handles behind v[0], rank by rank */
	GS_POST_COMM_SPLIT = 35,         /* v[0] parent, v[1] color, v[2] key */
	GS_POST_COMM_SHRINK = 36,        /* v[0] parent, v[2] excluded ranks (int) behind v[1] */
	GS_POST_COMM_RANK = 37,          /* the rank is read at return from behind v[1] */
	GS_POST_COMM_SIZE = 38,          /* the number of ranks, likewise */
};

/* Losses that the kernel side counts, by layer. The numbers are stored. */
enum gs_loss {
	GS_LOSS_NONE = 0,
	GS_LOSS_RING_FULL = 1, /* no room in the ring: in the summary, not in the trace */
	GS_LOSS_TOO_DEEP = 2,  /* more than GS_DEPTH_MAX calls open: not seen at all */
	GS_LOSS_NO_THREAD = 3, /* more than GS_THREAD_MAX threads: not seen at all */
	GS_LOSS_NO_CELL = 4,   /* no cell left: counted here only */
	GS_LOSS_UNMATCHED = 5, /* a return without its entry, or an entry overtaken (longjmp) */
	GS_LOSS_SHORT = 6,     /* under --min-duration: in the summary, not in the trace */
	GS_LOSS_LATE = 7,      /* user space: libraries in use before their probes were in place */
	GS_LOSS_SINK = 8,      /* user space: a record that an output could not take */
	GS_LOSS_EVENT_BAD = 9, /* user space: an event of unknown shape */
	GS_LOSS_MAPS = 10,     /* user space: notices of mapped libraries that were dropped */
	GS_LOSS_PROC = 11,     /* user space: processes that were gone before they could be read */
	GS_LOSS_BLOCKS = 12,   /* user space: allocations that could not be followed */
	GS_LOSS_COUNT
};

/* Which tasks are followed: those in the map of processes (chosen by pid, or born of one), and
 * those that meet every criterion asked for here. */
enum gs_filter {
	GS_FILTER_NONE = 0, /* the map of processes alone decides */
	GS_FILTER_ALL = 1,
	GS_FILTER_UID = 2,
	GS_FILTER_COMM = 4,   /* name of the process */
	GS_FILTER_CGROUP = 8, /* below a cgroup of the unified hierarchy */
};

/* Constants of a run, written before the programs are loaded: the verifier drops what they rule
 * out. */
struct gs_kernel_config {
	__u64 min_dur_ns;  /* shorter calls are aggregated, not sent */
	__u32 filter;      /* enum gs_filter, ored */
	__u32 uid;         /* GS_FILTER_UID */
	__u8 events;       /* 1: whole calls are sent; 0: all are aggregated */
	__u8 follow;       /* 1: children of followed processes are followed */
	__u8 task_storage; /* 1: the kernel has it for tracing programs */
	__u8 pad[5];
	char comm[16]; /* GS_FILTER_COMM, padded with zeros */
};
_Static_assert(sizeof(struct gs_kernel_config) == 40, "gs_kernel_config");

/* What both sides change during a run; one array element, mapped by user space. */
struct gs_kernel_state {
	__u32 stopped;    /* 1: the run is over, calls are let pass */
	__u32 filter_gen; /* raised when the choice of processes changes: threads decide anew */
	__u32 n_threads;  /* thread slots handed out so far, from 1 */
	__u32 n_cells;    /* cells handed out so far, from 1 */
	__u64 lost[GS_LAYER_MAX][GS_LOSS_COUNT];
};

/* Task storage of each thread that came by. */
struct gs_task_mark {
	__u32 slot;       /* its struct gs_thread; 0: not followed */
	__u32 filter_gen; /* when that was decided */
};

#endif
