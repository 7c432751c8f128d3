/*
 * What crosses from the kernel to user space: raw events in the ring, and the cells of the arrays
 * that both sides map. Compiled by the BPF compiler and by the host's; fixed widths only, every
 * layout asserted. Nothing here reaches a disk or another machine (model/trace/record.h does).
 *
 * Times are CLOCK_MONOTONIC ns; pid (tgid) and tid are as gpuscope's own pid namespace numbers them.
 */
#ifndef GS_MODEL_TRACE_EVENT_H
#define GS_MODEL_TRACE_EVENT_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define GS_FUNC_MAX 8192 /* ids of functions that can be traced: 1 .. GS_FUNC_MAX - 1 */
/* Ids below are rows of model/trace/func.c, others are given during a run (func_set.h). */
#define GS_FUNC_FIXED      1024
#define GS_PYFUNC_MAX      (65536 - GS_FUNC_MAX)
#define GS_PYFUNC_KERNEL   32768 /* numbers of the kernel side; others are given from inside */
#define GS_THREAD_MAX      2048  /* threads followed at one time */
#define GS_CELL_MAX        8192  /* (thread, function) pairs aggregated at one time */
#define GS_CELL_MAX_PYTHON 32768 /* the same where Python functions are among them */
#define GS_DEPTH_MAX       16    /* traced calls open at one time in one thread */
#define GS_SCOPE_MAX       128   /* operators, Python functions and user's probes open likewise */
#define GS_STACK_MAX       128   /* frames of one stack */
#define GS_ERR_CODES       4     /* different error codes counted by cell */
#define GS_LAYER_MAX       16
#define GS_NCCL_ID_BYTES   128 /* sizeof(ncclUniqueId), nccl.h NCCL_UNIQUE_ID_BYTES */
#define GS_BATCH_MAX       128 /* copies of a batch whose bytes are added up */
#define GS_BATCH3D_MAX     32  /* the same of copies that a struct describes */
#define GS_COMM_LIST_MAX   16  /* communicators of ncclCommInitAll, ranks excluded by Shrink */

enum gs_event_kind {
	GS_EV_INVALID = 0,
	GS_EV_CALL = 1,        /* struct gs_event_call */
	GS_EV_COMM = 2,        /* struct gs_event_comm */
	GS_EV_TASK = 3,        /* struct gs_event_task, of an exec struct gs_event_exec: exec.h */
	GS_EV_STACK = 4,       /* struct gs_event_stack */
	GS_EV_SAMPLE = 5,      /* struct gs_event_sample */
	GS_EV_CODE = 6,        /* a Python code object: src/bpf/calls/python.bpf.h */
	GS_EV_VALUES = 7,      /* a call and what a user's probe read: model/trace/user_probe.h */
	GS_EV_STACK_BYTES = 8, /* a native stack, to be unwound: src/bpf/calls/native.bpf.h */
	GS_EV_NAME = 9,        /* struct gs_event_name */
	GS_EV_PYFUNC = 10,     /* a Python function got its number: struct gs_event_code */
	GS_EV_WAIT = 11,       /* struct gs_event_wait */
	GS_EV_KERNEL = 12,     /* struct gs_event_kernel */
	GS_EV_MARK = 13,       /* struct gs_event_mark: model/trace/mark.h */
	GS_EV_GPU = 14,        /* struct gs_event_gpu: model/gpu_queue/gpu_queue.h */
	GS_EV_COUNT
};

/* Layers: who owns a function. The numbers are stored. */
enum gs_layer {
	GS_LAYER_NONE = 0,
	GS_LAYER_CUDA_RUNTIME = 1,
	GS_LAYER_CUDA_DRIVER = 2,
	GS_LAYER_NCCL = 3,
	GS_LAYER_TORCH = 4,     /* operators of PyTorch */
	GS_LAYER_TORCH_MEM = 5, /* its caching allocator */
	GS_LAYER_PYTHON = 6,    /* functions, garbage collection, waits for the interpreter lock */
	GS_LAYER_USER = 7,      /* probes that the user described */
	GS_LAYER_MPI = 8,
	GS_LAYER_COUNT
};

/* Flags of a call. Stored. */
enum gs_call_flag {
	GS_CALL_DRIVER_SEEN = 1, /* the same operation also passed the exported driver entry */
	GS_CALL_UNFINISHED = 2,  /* had not returned when tracing ended; dur_ns is its age then */
	GS_CALL_ARGS_UNREAD = 4, /* an argument in memory is not known: 0, or bytes lack some */
	GS_CALL_WAITED = 8,      /* it waited for the work that shares its flow; set by correlate */
	GS_CALL_INSTANT = 16,    /* a place that was passed, not a call: it has no duration */
	GS_CALL_UNTIMED = 64,    /* its end was not looked at: time and result are not known */
	GS_CALL_RESUMED = 32,    /* of a Python function: a generator or coroutine went on */
	GS_CALL_ADDED_UP = 128,  /* it is in the sums: sent to say when its rank arrived */
};

struct gs_event {
	__u16 kind;  /* enum gs_event_kind */
	__u16 bytes; /* of the whole event */
	__u32 pad;
};

/*
 * One finished call. bytes, stream, aux and arg[] mean, by class of the function
 * (model/trace/func.h):
 *
 *   class        bytes           aux                     arg[0]       arg[1]       arg[2]            arg[3]
 *   launch       0               dynamic shared bytes    function     gx | gy<<32  gz | bx<<32       by | bz<<32
 *   graph launch 0               0                       graph exec
 *   alloc        of the block    flags                   pointer (of success: as returned)
 *   free         0 (unknown)     0                       pointer
 *   copy         moved           enum gs_copy_kind       destination  source       copies of a batch
 *   memset       set             value                   pointer
 *   stream       0               flags or 0              event or function
 *   event        0               flags or 0              event        second event
 *   sync         0               0                       event
 *   device       0               device (int)
 *   module       0               0                       handle of success
 *   context      0               device (int) or 0       context      not 0: aux is the device
 *   collective   count * size    dtype | op<<8 | root<<16 count       communicator send buffer      receive buffer
 *   p2p          count * size    dtype | peer<<16        count        communicator buffer
 *   group        0               0
 *   comm         0               0                       communicator
 *   python       0               0                       ns in itself launches in it and below
 *
 * stream is the handle (0 the default stream); a root or peer above 65,534 reads 65,535,
 * and so does that of a call without one; an op that a call does not have reads 255.
 */
struct gs_event_call {
	struct gs_event head;
	__u64 start_ns; /* when it was entered */
	__u64 dur_ns;
	__u32 pid;
	__u32 tid;
	__s32 ret;   /* what it returned: its low 32 bits */
	__u16 func;  /* id: model/trace/func.h, func_set.h */
	__u16 cpu;   /* where the call returned */
	__u8 depth;  /* traced calls of this thread that were open around it */
	__u8 flags;  /* enum gs_call_flag */
	__u16 scope; /* id of the innermost operator, Python function or user's probe around the
		      * call; 0 none */
	__u32 aux;
	__u64 bytes;
	__u64 stream;
	__u64 arg[4];
	__u32 py_stack;     /* id of a struct gs_event_stack; 0 none was taken */
	__u32 native_stack; /* likewise */
};
_Static_assert(sizeof(struct gs_event_call) == 104, "gs_event_call");

/* The numbers are stored. */
enum gs_stack_kind {
	GS_STACK_PYTHON = 1,
	GS_STACK_NATIVE = 2,
};

/* The numbers are stored. */
enum gs_stack_flag {
	GS_STACK_TRUNCATED = 1, /* deeper than GS_STACK_MAX: the outermost frames are missing */
	GS_STACK_PARTIAL = 2,   /* reading stopped at memory that could not be read */
};

struct gs_raw_frame {
	__u64 code; /* native: 0; Python: address of the code object */
	__u64 at;   /* native: address; Python: offset of the instruction in bytes from the code's
		     * first */
};

/* A stack that was not seen before in its process; n_frames follow, the innermost first. The id is
 * used by calls and samples from then on (by those of other processors perhaps just before). */
struct gs_event_stack {
	struct gs_event head;
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u32 id;
	__u16 n_frames;
	__u8 kind;                    /* enum gs_stack_kind */
	__u8 flags;                   /* enum gs_stack_flag */
	struct gs_raw_frame frames[]; /* n_frames */
};
_Static_assert(sizeof(struct gs_event_stack) == 32, "gs_event_stack");

#define GS_NATIVE_RETURNS 24           /* return addresses that probes have replaced in a stack */
#define GS_NATIVE_LINKS   GS_STACK_MAX /* frame pointers that are followed */
#define GS_STACK_UNIT     512          /* copies of stacks are a multiple of it */

struct gs_native_word { /* a word of the stack */
	__u64 at;       /* address */
	__u64 value;    /* what stands there */
};

/*
 * A native stack to be unwound in user space: the registers that calls preserve, n_bytes copied
 * from the stack pointer upward, and what the copy alone does not show. A probe on a function's
 * return replaces the return address on the stack by one of the kernel's: returns[] says where and
 * what stood there. links[] are frame pointers found by following bp, also beyond the copy: at is
 * where one lies, value the return address in the word above it; the next frame pointer is the next
 * at. The id is that of this capture alone: user space gives stacks ids of their own.
 */
struct gs_event_stack_bytes {
	struct gs_event head;
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u32 id;
	__u32 n_bytes;
	__u64 ip, sp, bp, bx, r12, r13, r14, r15; /* registers, by their names */
	__u16 n_returns;
	__u16 n_links;
	__u8 after_call; /* 1: ip is where a call returned to */
	__u8 pad[3];
	struct gs_native_word returns[GS_NATIVE_RETURNS];
	struct gs_native_word links[GS_NATIVE_LINKS];
	__u8 bytes[]; /* n_bytes: the stack from sp upward */
};
_Static_assert(sizeof(struct gs_event_stack_bytes) ==
		       104 + 16 * (GS_NATIVE_RETURNS + GS_NATIVE_LINKS),
	       "gs_event_stack_bytes");

#define GS_NATIVE_ID 0x80000000u /* set in the ids of native stacks in records */

/* A thread was found running by the timer. */
struct gs_event_sample {
	struct gs_event head;
	__u64 time_ns;
	__u64 period_ns; /* the time that the sample stands for */
	__u32 pid;
	__u32 tid;
	__u32 py_stack;     /* as in gs_event_call */
	__u32 native_stack; /* likewise */
	__u16 cpu;          /* where it ran */
	__u16 scope;        /* as in gs_event_call */
	__u32 pad;
};
_Static_assert(sizeof(struct gs_event_sample) == 48, "gs_event_sample");

/* A thread of a Python interpreter was off its processor until then. */
struct gs_event_wait {
	struct gs_event head;
	__u64 time_ns; /* its end */
	__u64 wait_ns;
	__u32 pid;
	__u32 tid;
	__u32 py_stack; /* 0: in no Python function, or not looked at: several waits in one */
	__u32 cause;    /* enum gs_wait_cause, model/trace/account.h */
};
_Static_assert(sizeof(struct gs_event_wait) == 40, "gs_event_wait");

#define GS_SPAN_NAME_BYTES 96  /* of a span's name, with its zero: what is beyond is cut off */
#define GS_SPAN_NAMES      256 /* different ones; the rest share one */

/* Is that function a span's name? first: the first id of those, 0: there are none. Operators that are
 * found later have ids on both sides of them. */
static inline __attribute__((always_inline)) int gs_is_span(unsigned func, unsigned first)
{
	return first && func >= first && func < first + GS_SPAN_NAMES;
}

/* A span's name that was not seen before: the function of this id has it. */
struct gs_event_name {
	struct gs_event head;
	__u32 func; /* id */
	__u32 pad;
	char name[GS_SPAN_NAME_BYTES];
};
_Static_assert(sizeof(struct gs_event_name) == 112, "gs_event_name");

#define GS_KERNEL_NAME_BYTES 2048 /* with its zero: what is beyond is cut off */

/* A program asks for a kernel by its name: sent as that call begins, before its own event. */
struct gs_event_kernel {
	struct gs_event head;
	__u32 pid;
	__u32 tid;
	__u32 func; /* the call that asks */
	__u32 pad;
	char name[GS_KERNEL_NAME_BYTES]; /* as the compiler mangled it */
};
_Static_assert(sizeof(struct gs_event_kernel) == 24 + GS_KERNEL_NAME_BYTES, "gs_event_kernel");

/* CudaMemcpyKind of driver_types.h. */
enum gs_copy_kind {
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
	__s32 ret;     /* what that call returned */
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
	__u32 parent_pid;  /* of its process */
	__u32 change;      /* enum gs_task_change */
	__u32 thread_slot; /* of the ended thread, 0 when it had none */
	__u32 pad;
	char comm[16]; /* its name as of now */
};
_Static_assert(sizeof(struct gs_event_task) == 56, "gs_event_task");

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
	GS_LOSS_STACK = 13,    /* stacks that could not be read, or found no room */
	GS_LOSS_FRAME = 14,    /* user space: frames without a name */
	GS_LOSS_BUDGET = 15,   /* user space: calls only counted, for --max-overhead */
	GS_LOSS_THINNED = 16,  /* for --max-overhead: in the summary, not in the trace */
	GS_LOSS_OFF = 17,      /* user space: functions taken off, for --max-overhead */
	GS_LOSS_UNTIMED = 18,  /* Python calls below GS_SCOPE_MAX open functions, or of 3.11, and
				* functions  whose end is not seen: only counted */
	GS_LOSS_PYFUNC = 19,   /* calls of Python functions that got no number: not seen at all */
	GS_LOSS_FULL = 20, /* a .gst file's: calls left out of it, which had reached --max-size */
	GS_LOSS_REFUSED = 21, /* user space: what was left out to bound what one user can cost */
	GS_LOSS_NOTICE = 22, /* notices of processes, threads, communicators: no room in the ring */
	GS_LOSS_SIZE = 23,   /* calls of MPI whose bytes are not known */
	GS_LOSS_PEERS = 24,  /* transfers of MPI counted for no peer: too many */
	GS_LOSS_ACCOUNT = 25, /* threads without a wall-clock account: too many at one time */
	GS_LOSS_FIRST = 26,   /* calls without their times: the first of a process, of a function's
			       * launches (src/bpf/calls/first.bpf.h) */
	GS_LOSS_MARK = 27, /* marks that found no room in the ring: steps are not found by them */
	GS_LOSS_KEPT = 28, /* of --keep-last: calls before the part of the run that the file has */
	GS_LOSS_COUNT
};

#endif
