/*
 * What the kernel side and user space share beside the ring: the constants of a run, the cells and
 * threads in arrays that both map, and how a function's arguments are read. Compiled by the BPF
 * compiler and by the host's, like model/trace/event.h.
 */
#ifndef GS_MODEL_TRACE_KERNEL_SIDE_H
#define GS_MODEL_TRACE_KERNEL_SIDE_H

#include "model/trace/account.h"
#include "model/trace/event.h"
#include "model/trace/first_side.h"
#include "model/gpu_queue/gpu_queue.h"
#include "model/trace/hist.h"
#include "model/trace/mpi.h"

/* What calls of CUDA and NCCL did under a function of a layer above, the innermost around them. */
struct gs_use {
	__u64 launches;    /* calls, as the next four */
	__u64 copies;      /* and fills */
	__u64 allocs;      /* not frees */
	__u64 collectives; /* and transfers between two */
	__u64 others;      /* of no sort above */
	__u64 total_ns;    /* of all these calls */
	__u64 bytes;       /* of those that succeeded */
};

/* What is counted of calls of a Python function beside their number and time. */
struct gs_py_use {
	__u64 self_ns;  /* in the function itself: not in scopes inside of it */
	__u64 launches; /* of kernels and graphs, in it and in what it called */
	__u64 resumes;  /* calls by which a generator or coroutine went on */
};

/*
 * What the kernel side adds up for one function in one thread: written only by that thread, read
 * by user space through a shared mapping, only ever growing until the cell is handed back.
 */
struct gs_cell {
	__u32 thread_slot; /* 0: free */
	__u32 func;        /* id */
	__u64 calls;       /* so far */
	__u64 errors;      /* of these, those that failed */
	__u64 total_ns;
	__u64 max_ns;
	__u64 bytes;        /* of calls that succeeded */
	__u64 returned_ns;  /* with gs_kernel_config.marks: when the last of calls did, */
	__u64 marked_calls; /* and calls at the last mark */
	__u64 inner;        /* calls that were part of the call around them (counted there) */
	__u64 skipped;      /* calls let pass because of the function's mode: only counted */
	__u64 refused;      /* calls that the filter of a described probe, or the patterns of
			* --python-calls, did not let pass */
	/* Single-stepped probes passed, whatever became of the call: at the entry, which is part of
	 * its time, and where the function is left. */
	__u64 stepped, stepped_exits;
	/* Calls of a function that is GS_COOKIE_WATCHED, and those of them that passed a single-stepped
	 * probe: for what they cost alone. */
	__u64 watched, watched_stepped;
	__s32 err_code[GS_ERR_CODES];  /* 0: unused */
	__u32 err_count[GS_ERR_CODES]; /* codes beyond these are in errors only */
	struct gs_use use;             /* of calls that were not sent as events */
	struct gs_py_use py;           /* of a Python function */
	__u32 hist[GS_HIST_N_BUCKETS]; /* wraps: read differences */
};
_Static_assert(sizeof(struct gs_cell) % 8 == 0, "gs_cell");

/* An open call. */
struct gs_frame {
	__u64 start_ns;
	__u64 sp;    /* stack pointer at entry */
	__u16 func;  /* id */
	__u8 flags;  /* enum gs_call_flag */
	__u8 jumps;  /* GS_COOKIE_JUMPS */
	__u16 abi;   /* of MPI: model/trace/mpi.h */
	__u8 inside; /* enum gs_account_inside */
	__u8 pad;
	__u64 v[16]; /* 0..5 registers, 6..12 words above the return address, 13 always 0, 14 of
		      * MPI: the peer */
};
_Static_assert(sizeof(struct gs_frame) == 152, "gs_frame");

#define GS_V_STACK 6
#define GS_V_NONE  13
#define GS_V_MAX   16

/* In n_stack: no words on the stack; bit n: only the low 32 bits of v[n] are an argument. */
#define GS_V_LOW 0x80

/* An open operator, Python function or user's probe: no arguments, so much lighter than a frame. */
struct gs_scope {
	__u64 start_ns;
	__u64 sp;     /* stack pointer at entry */
	__u16 func;   /* id */
	__u8 layer;   /* enum gs_layer */
	__u8 resumed; /* a generator or coroutine went on; or a described call's, scope.bpf.h */
	__u32 cell;   /* index into the cells; 0 not looked up yet */
	/* Only with gs_kernel_config.py_func: */
	__u64 inside_ns; /* in scopes inside of it that have ended */
	__u32 launches;  /* of kernels and graphs, in it and in these */
	__u32 frame;     /* of a Python function: bits of its frame's address */
};

/* Key of the map gs_cell_of. */
static inline __u64 gs_cell_key(__u32 thread_slot, __u32 func)
{
	return (__u64)thread_slot << 32 | func;
}

/* A followed thread. Slot 0 is never used. */
struct gs_thread {
	__u32 pid; /* 0: free */
	__u32 tid;
	__u32 depth;       /* calls that are open: of frame[] */
	__u32 ended;       /* 1: the thread is gone; user space takes the slot back */
	char comm[16];     /* its name */
	__u32 scope_depth; /* scopes that are open: of scope[] */
	__u32 turned; /* this hit was taken by a link that replaces another, see GS_TURN_BOTH */
	__u32 span_pending; /* id of the span that begins next, src/bpf/calls/span.bpf.c */
	__u32 untimed_id;   /* the last call was of this function, whose end is not seen */
	__u64 untimed_sp, untimed_ip; /* where it came in */
	__u64 cpu_first_ns;           /* time on processors when the thread was met */
	__u64 cpu_ns;                 /* the same as of its last hit, or at its end */
	__u64 mpi_row;                /* of its process, GS_MPI_SPAN; 0 not looked for yet */
	__u64 called;                 /* with gs_kernel_config.marks: as in gs_event_mark */
	__u64 covered_ns;             /* likewise */
	__u32 account;                /* its struct gs_account; 0: it has none */
	__u32 name_unread; /* 1: the kernel's name that its call asks for was not in memory yet */
	__u64 py_state;    /* address of the interpreter's state of this thread; 0 not known */
	__u64 py_retry_ns; /* when it is worth looking for it again */
	struct gs_first first;          /* of calls that may be first ones */
	struct gs_gpu_queue_thread gpu; /* its work for GPUs */
	__u16 cell[GS_FUNC_FIXED]; /* index into the cells; 0 none yet. Others: map gs_cell_of */
	struct gs_frame frame[GS_DEPTH_MAX]; /* the outermost first */
	struct gs_scope scope[GS_SCOPE_MAX]; /* likewise */
};
_Static_assert(sizeof(struct gs_thread) % 8 == 0, "gs_thread");

/* How a function's arguments become a gs_event_call; filled from the function table. Each index
 * points into gs_frame.v. */
struct gs_func_desc {
	__u8 layer;   /* enum gs_layer */
	__u8 op;      /* class, enum gs_func_class */
	__u8 post;    /* enum gs_post */
	__u8 n_stack; /* words to read above the return address: 0..7; or GS_V_LOW, see there */
	__u8 v_bytes;
	__u8 v_bytes2;    /* multiplied by it; GS_V_NONE: by one */
	__u8 v_stream;    /* as v_bytes: the word that has it; GS_V_NONE: none */
	__u8 v_aux;       /* likewise; of NCCL: op | root << 4 */
	__u8 v_arg[4];    /* likewise */
	__s32 not_error;  /* a return code beside 0 that is an answer, not a failure; 0 none */
	__u8 inside;      /* enum gs_account_inside: what the thread is in during the call */
	__u8 gpu, pad[2]; /* with gs_kernel_config.gpu_queue: enum gs_gpu_queue_role, and more */
};
_Static_assert(sizeof(struct gs_func_desc) == 20, "gs_func_desc");

/* What is done beyond copying saved words. "At v[n]" is memory of the traced process. */
enum gs_post {
	GS_POST_NONE = 0,
	GS_POST_LAUNCH_RT =
		1, /* dim3 in registers: v[1] gx|gy<<32, v[2] gz, v[3] bx|by<<32, v[4] bz */
	GS_POST_LAUNCH_DRV = 2, /* v[1..3] grid, v[4] bx, v[5] by, v[6] bz */
	GS_POST_LAUNCH_EXC = 3, /* cudaLaunchConfig_t at v[0] */
	GS_POST_LAUNCH_EX = 4,  /* CUlaunchConfig at v[0] */
	GS_POST_OUT_PTR = 5,    /* arg[0] is read at return from where v_arg[0] points */
	GS_POST_OUT_PTR32 = 6,  /* the same, 32 bits wide (cuMemAlloc of the first ABI) */
	GS_POST_OUT_STREAM = 7, /* stream is read at return from where v_stream points */
	GS_POST_PITCH = 8,      /* OUT_PTR, and bytes = the pitch returned at v[1], times v_bytes */
	GS_POST_PITCHED_PTR = 9, /* cudaMalloc3D: pointer and pitch of cudaPitchedPtr at v[0] */
	GS_POST_ARRAY = 10,      /* cudaMallocArray: element size from the descriptor at v[1] */
	GS_POST_COPY3D_RT = 11,  /* cudaMemcpy3DParms at v[0] */
	GS_POST_COPY2D_DRV = 12, /* CUDA_MEMCPY2D at v[0] */
	GS_POST_COPY3D_DRV = 13, /* CUDA_MEMCPY3D at v[0] */
	GS_POST_COPY_ANY = 14,   /* aux = the kind that these five name */
	GS_POST_COPY_HTOD = 15,
	GS_POST_COPY_DTOH = 16,
	GS_POST_COPY_DTOD = 17,
	GS_POST_COPY_PEER = 18,
	GS_POST_EXTENT3 = 19,    /* bytes also times arg[1], which then is 0 */
	GS_POST_FILL16 = 20,     /* bytes also times 2 */
	GS_POST_FILL32 = 21,     /* bytes also times 4 */
	GS_POST_NCCL = 22,       /* bytes = count * size of the datatype; v_aux = op | root << 4 */
	GS_POST_COPY_BATCH = 23, /* bytes: the sum of v_bytes2 sizes at v_bytes; arg[0] and
				  * arg[1] are read from where they point; arg[2] = v_bytes2 */
	GS_POST_COPY3D_BATCH = 24,    /* v_bytes2 structs cudaMemcpy3DBatchOp at v_bytes */
	GS_POST_COPY3D_PEER_RT = 25,  /* cudaMemcpy3DPeerParms at v[0] */
	GS_POST_COPY3D_PEER_DRV = 26, /* CUDA_MEMCPY3D_PEER at v[0] */
	GS_POST_COPY2D_V1 = 27,       /* CUDA_MEMCPY2D of the first ABI at v[0] */
	GS_POST_COPY3D_V1 = 28,       /* CUDA_MEMCPY3D of the first ABI at v[0] */
	GS_POST_PITCH32 = 29,         /* PITCH, pointer and pitch 32 bits wide */
	GS_POST_ARRAY3D = 30,         /* extent at v[6..8], descriptor at v[1], v_bytes2 levels */
	GS_POST_LAUNCH_GRID = 31,     /* v[1] gx, v[2] gy */
	/* These send a struct gs_event_comm too. */
	GS_POST_COMM_INIT = 32,          /* v[1] ranks, v[2] rank; the id by value on the stack */
	GS_POST_COMM_INIT_SCALABLE = 33, /* the same; ids at v[4] */
	GS_POST_COMM_INIT_ALL = 34,      /* v[1] handles at v[0], rank by rank */
	GS_POST_COMM_SPLIT = 35,         /* v[0] parent, v[1] color, v[2] key */
	GS_POST_COMM_SHRINK = 36,        /* v[0] parent, v[2] excluded ranks (int) at v[1] */
	GS_POST_COMM_RANK = 37,          /* the rank is read at return from v[1] */
	GS_POST_COMM_SIZE = 38,          /* the number of ranks, likewise */
	/* Nothing is read; the program's function that it is given may make the same call again. */
	GS_POST_CALLBACK = 39,
	GS_POST_MPI = 40, /* v_bytes elements of the datatype in v_bytes2; model/trace/mpi.h has the
			     rest */
	/* OUT_PTR, and the entry sends the text at v[2] in a struct gs_event_kernel. */
	GS_POST_KERNEL_NAME = 41,
	GS_POST_KERNEL_OF = 42,    /* OUT_PTR: a handle of the kernel that arg[1] is */
	GS_POST_GRAPH_KERNEL = 43, /* OUT_PTR: the function of a kernel node, of the graph arg[1] */
	/* The end sends the text that the pointer at v[0] leads to, likewise: of the handle arg[0]. */
	GS_POST_KERNEL_SAID = 44,
	/* Nothing is read; later calls may be first ones again: src/bpf/calls/first.bpf.h. */
	GS_POST_SET_DEVICE = 45,
	GS_POST_RESET = 46,
	GS_POST_UNLOAD = 47,
};

/*
 * The cookie of a probe on a scope: the function's id, and, where the probe stands on a way out of
 * the function, what shows that the function is left now. The way out is a ret, a jump or a call;
 * of a conditional one the condition decides (the low four bits of its opcode), by the flags
 * register.
 */
#define GS_COOKIE_EXIT      (1ull << 16)
#define GS_COOKIE_TAKEN     (1ull << 17) /* left when the condition holds */
#define GS_COOKIE_NOT_TAKEN (1ull << 18) /* left when it does not hold; both: always */
#define GS_COOKIE_STEPPED   (1ull << 19) /* the kernel single-steps the instruction there */
#define GS_COOKIE_CC_SHIFT  20
/* The stack pointer is at most so many bytes below that at the entry; 0: as at the entry. */
#define GS_COOKIE_FRAME_SHIFT 40
#define GS_COOKIE_FRAME_MAX   ((1u << 24) - 1)

/* The cookie of an entry: its end is seen by probes on ways out, or not at all (the call is counted
 * without its time). Neither: by a return probe. */
#define GS_COOKIE_BY_EXITS (1ull << 17)
#define GS_COOKIE_NO_END   (1ull << 18)
/* With BY_EXITS: or by a jump to a function that returns in its place. */
#define GS_COOKIE_JUMPS (1ull << 20)

/* Of an entry: the function was not chosen, its calls are not counted, but first calls come after it
 * again (src/bpf/calls/first.bpf.h). */
#define GS_COOKIE_WATCHED (1ull << 21)

/*
 * In every cookie: which group of probes it belongs to (0: to none that is ever replaced), and a
 * bit that says whether it is of the group's present links or of those that come in their place.
 * Both are attached for a moment: the group's turn says which of them count.
 */
#define GS_COOKIE_GROUP_SHIFT 24
#define GS_COOKIE_GROUP_MASK  0xffffull
#define GS_GROUP_MAX          4096

/* The cookies of the probes that see spans (src/bpf/calls/span.bpf.c). */
enum gs_span_site {
	GS_SPAN_NAME = 1,
	GS_SPAN_BEGIN = 2,
	GS_SPAN_END = 3,
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

/* Constants of a run, set before programs are loaded: the verifier drops what they rule out. */
struct gs_kernel_config {
	__u64 min_dur_ns;       /* shorter calls are aggregated, not sent */
	__u32 filter;           /* enum gs_filter, ored */
	__u32 uid;              /* GS_FILTER_UID */
	__u8 events;            /* 1: whole calls are sent; 0: all are aggregated */
	__u8 follow;            /* 1: children of followed processes are followed */
	__u8 task_storage;      /* 1: the kernel has it for tracing programs */
	__u8 py_stack_at;       /* enum gs_stack_at: when a Python stack is taken */
	__u8 native_stack_at;   /* likewise */
	__u8 native_units;      /* GS_STACK_UNITs copied of a native stack */
	__u8 scopes;            /* 1: functions of the layers above are traced too */
	__u8 modes;             /* 1: each function has a mode, struct gs_modes */
	char comm[16];          /* GS_FILTER_COMM, padded with zeros */
	__u64 slow_scope_ns;    /* GS_AT_SLOW_SCOPE */
	__u64 sample_period_ns; /* between two of the timer's samples on a processor; 0 none */
	__u32 span_first;       /* the first of GS_SPAN_NAMES ids of spans: of those without one */
	__u32 n_cells;          /* cells that there are: GS_CELL_MAX or GS_CELL_MAX_PYTHON */
	__u16 py_func;          /* Python functions are traced: all have the mode of this id; 0 */
	__u8 account;           /* 1: threads have a wall-clock account */
	__u8 first_calls;       /* 1: those are left alone that may be cancellation points */
	__u32 pid_namespace; /* inode of ours, whose process ids are reported; 0: the first one */
	__u8 marks;          /* 1: calls that are added up send marks: src/bpf/calls/mark.bpf.h */
	__u8 gpu_queue, pad[6]; /* 1: work for GPUs is added up: src/bpf/calls/gpu.bpf.h */
};
_Static_assert(sizeof(struct gs_kernel_config) == 80, "gs_kernel_config");

/* Flags, combined by or. */
enum gs_stack_at {
	GS_AT_SAMPLE = 1,
	GS_AT_LAUNCH = 2,
	GS_AT_COLLECTIVE = 4,
	GS_AT_ALLOC = 8,
	GS_AT_SLOW_SCOPE = 16, /* an operator or user's probe of at least slow_scope_ns */
	GS_AT_COPY = 32,
	GS_AT_SYNC = 64,
	GS_AT_PROBE = 128, /* a described probe that asks for it */
};

/* How a function is traced, from expensive to cheap; set by user space during a run. */
enum gs_mode {
	GS_MODE_EVENTS = 0,    /* as the run asks for */
	GS_MODE_AGGREGATE = 1, /* added up in the kernel, whatever the run asks for */
	GS_MODE_SAMPLE = 2,    /* the same for one call of GS_MODE_SAMPLE_N; others are counted */
	GS_MODE_COUNT = 3,     /* only counted */
	GS_MODE_OFF = 4,       /* its probes are taken off; counted until they are */
	GS_MODE_N
};
#define GS_MODE_SAMPLE_N 64 /* a power of two */

/* Of a group's turn: bit 0 says which of its links count, by the same bit of their cookies. While
 * GS_TURN_BOTH is set the others count too, unless those have taken the very hit: the new ones of a
 * place are asked first (kernel/events/uprobes.c, consumer_add()), so that none is missed, and none
 * counted twice, while the turn changes. */
#define GS_TURN_BOTH 2

struct gs_modes {
	__u8 mode[GS_FUNC_MAX];  /* enum gs_mode, by function */
	__u8 turn[GS_GROUP_MAX]; /* of groups of probes */
};

/* What both sides change during a run; one array element, mapped by user space. */
struct gs_kernel_state {
	__u32 stopped;     /* 1: the run is over, calls are let pass */
	__u32 filter_gen;  /* raised when the choice of processes changes: threads decide again */
	__u32 n_threads;   /* thread slots handed out so far, from 1 */
	__u32 n_cells;     /* cells handed out so far, from 1 */
	__u32 n_stacks;    /* stacks sent so far, from 1: their ids */
	__u32 n_native;    /* native stacks taken so far: their ids */
	__u32 n_pyfuncs;   /* numbers of Python functions handed out so far */
	__u32 n_accounts;  /* accounts of threads handed out so far, from 1 */
	__u32 context_gen; /* raised when a process gets or loses a context: threads look again */
	__u32 n_gpu_processes;                   /* handed out so far, from 1 */
	__u64 lost[GS_LAYER_MAX][GS_LOSS_COUNT]; /* by enum gs_layer and enum gs_loss */
};

/* Task storage of each thread that came by. */
struct gs_task_mark {
	__u32 slot;       /* its struct gs_thread; 0: not followed */
	__u32 filter_gen; /* when that was decided */
};

#endif
