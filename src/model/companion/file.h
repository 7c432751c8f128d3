/*
 * The file by which a traced process reports what is seen from inside of it (libgpuscope_companion.so):
 * one for each process, in a folder that gpuscope made for the run, mapped and written by the process,
 * read by gpuscope (sources/companion). Both sides compile this header; fixed widths only, every
 * layout asserted. Nothing here reaches a disk or another machine.
 *
 *   0                     struct gs_companion_head, one page
 *   GS_COMPANION_SLOTS_AT n_slots times struct gs_companion_slot: a thread each, its ring's positions,
 *                         losses, and the calls that are open in it
 *   rings_at              n_slots times ring_bytes: the records of that slot
 *   after them           n_slots times struct gs_companion_sums: its calls that found no room in the ring
 *
 * The name of the file is PID-START, both in hexadecimal: the process as it numbers itself, and when
 * it was made (monotonic ns), which distinguishes the programs that a process has run. A file appears
 * under its name when its head is whole.
 *
 * A ring has one writer, its thread, and one reader. Positions count bytes and only grow; a record
 * lies at position % ring_bytes, never around the end: what is left there is a record of kind PAD.
 * The writer fills a record and then moves written after it (release). The reader moves taken when
 * it has copied what is between the two. A record that finds no room is dropped and counted, a call is added up
 * instead; nothing ever waits. What a killed process has written stays readable.
 *
 * How a door (src/companion: calls, operators, Python, GPU activity, NCCL) writes a record:
 *
 *     struct gs_companion_call *r = companion_put(GS_COMPANION_CALL, sizeof(*r));
 *     if (r) {                 // NULL: dropped and counted, or this process is not followed
 *             r->start = ...;  // ticks of companion_now()
 *             ...              // every field: what lay there before is still there
 *             companion_publish(r);
 *     }
 *
 * Both are of companion/ring/ring.h, cost some ns, make no system call but in the first record of a
 * thread, and may be called from any thread and in signal handlers. A new kind is a number and a struct here, its size in
 * gs_companion_min_bytes(), and what becomes of it where gpuscope takes records. Times are ticks; the
 * reader makes ns of them.
 *
 * For the reader all of this is foreign: the process may write anything at any time, also while it is
 * read. Numbers are checked on a copy (gs_companion_head_check, gs_companion_next), and a record
 * repeats its position, so that what was not written as one is not taken for one.
 */
#ifndef GS_MODEL_COMPANION_FILE_H
#define GS_MODEL_COMPANION_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/kernel_side.h"

#define GS_COMPANION_MAGIC   0x6e6f69636f637367ull /* in the head of a process's file */
#define GS_COMPANION_PLAN    0x6e616c706f637367ull /* in that of the plan */
#define GS_COMPANION_VERSION 2

#define GS_COMPANION_SLOTS_AT   4096u
#define GS_COMPANION_SLOTS_MAX  128u /* threads that write at one time */
#define GS_COMPANION_RING_MIN   4096u
#define GS_COMPANION_RING_MAX   (16u << 20)
#define GS_COMPANION_RING_BYTES (512u << 10) /* as gpuscope asks for */
#define GS_COMPANION_RECORD_MAX 4096u        /* bytes of one record; less than any ring has */
#define GS_COMPANION_OPEN_MAX   GS_DEPTH_MAX /* calls open at one time in one thread */
#define GS_COMPANION_OPS_OPEN   GS_SCOPE_MAX /* operators open likewise */
#define GS_COMPANION_SUMS_MAX   512u         /* functions whose calls are added up, of one slot */
#define GS_COMPANION_NAME_BYTES 32           /* of PID-START, with its zero */
#define GS_COMPANION_PLAN_NAME  "plan"       /* the file beside them that says what is asked for */
#define GS_COMPANION_LATE_NAME                                                                     \
	"late" /* the file in which a process that was running says why it has none */
#define GS_COMPANION_BEGIN_NAME "attach.py"          /* what its interpreter is asked to run, */
#define GS_COMPANION_END_NAME   "leave.py"           /* and at the end */
#define GS_COMPANION_FOLDER_ENV "GPUSCOPE_COMPANION" /* names the folder in the environment */

/* What may be looked at from inside; bits 1 << door. */
enum gs_companion_door {
	GS_COMPANION_CALLS = 0, /* CUDA and NCCL */
	GS_COMPANION_OPS = 1,   /* operators of PyTorch */
	GS_COMPANION_PYTHON = 2,
	GS_COMPANION_GPU = 3, /* activity of GPUs */
	GS_COMPANION_NCCL = 4,
	GS_COMPANION_DOORS
};

/* Whether PyTorch's operators are seen from inside: of the door of that name. */
enum gs_companion_state {
	GS_COMPANION_WAITS = 0,   /* the process has no PyTorch yet */
	GS_COMPANION_SEES = 1,    /* from its first operator on */
	GS_COMPANION_OLD = 2,     /* PyTorch has no observer that can be used: older than 1.12 */
	GS_COMPANION_DIFFERS = 3, /* PyTorch's observer is not as it is known to be */
	GS_COMPANION_STATES
};

/* How companion_now() counts. */
enum gs_companion_clock {
	GS_COMPANION_MONOTONIC = 0, /* ns of CLOCK_MONOTONIC */
	GS_COMPANION_TSC = 1, /* the processor's counter, where it is the same on all of them */
};

/* Kinds of records. Numbers of a door begin at a multiple of 16. */
enum gs_companion_kind {
	GS_COMPANION_PAD = 0,    /* fills a ring's end: a head, and nothing after it */
	GS_COMPANION_CALL = 16,  /* struct gs_companion_call */
	GS_COMPANION_COMM = 17,  /* struct gs_companion_comm: beside the call that made it */
	GS_COMPANION_ASKED = 18, /* struct gs_companion_asked: a kernel is asked for by its name */
	/* Reserved: from here on each door's own. */
	GS_COMPANION_OPS_FIRST = 32,    /* operators: begin, end, name */
	GS_COMPANION_PYTHON_FIRST = 48, /* Python: begin, end, code object */
	GS_COMPANION_GPU_FIRST = 64,    /* kernels, copies, fills, graphs, waits, overhead, names */
	GS_COMPANION_NCCL_FIRST = 80,   /* collectives, transfers, channels */
	GS_COMPANION_KINDS = 96,
	/* With the kind: it is being written. Left behind by a jump out of the midst of it, or seen by the
	 * reader while a signal handler that came into the midst writes on. */
	GS_COMPANION_UNFINISHED = 0x8000,
};

/* What was not recorded, by cause. */
enum gs_companion_loss {
	GS_COMPANION_LOST_FULL = 0,    /* no room in the ring */
	GS_COMPANION_LOST_DEEP = 1,    /* more than GS_COMPANION_OPEN_MAX calls were open */
	GS_COMPANION_LOST_LEFT = 2,    /* open calls that never returned (longjmp, exceptions) */
	GS_COMPANION_LOST_SUM = 3,     /* calls that found no room in the ring, and no sum */
	GS_COMPANION_LOST_UNTIMED = 4, /* of Python: too many were open, only counted */
	GS_COMPANION_LOST_FUNC = 5,    /* of Python functions that got no number */
	GS_COMPANION_LOSSES
};

struct gs_companion_head {
	uint64_t magic;         /* GS_COMPANION_MAGIC */
	uint32_t version;       /* GS_COMPANION_VERSION: another one is not read */
	uint32_t pid;           /* as the process numbers itself */
	uint64_t start_ns;      /* monotonic: when the file was made */
	uint64_t pid_namespace; /* inode of that in which pid is its number */
	uint32_t clock;         /* enum gs_companion_clock */
	uint32_t doors;         /* that are open: bits 1 << enum gs_companion_door */
	uint32_t n_slots;
	uint32_t ring_bytes; /* a power of two */
	uint64_t rings_at;   /* offset of the first ring */
	uint64_t no_slot;    /* records of threads that got no slot. Grows */
	uint32_t stopped;    /* of the reader: 1 when tracing is over, nothing more is recorded */
	uint32_t state;      /* enum gs_companion_state */
	uint32_t
		left; /* 1: the process has taken back what recorded here, and has the file no more */
	uint32_t pad;
	uint64_t pad2[6];
};
_Static_assert(sizeof(struct gs_companion_head) == 128, "gs_companion_head");

/* An operator that is open. */
struct gs_companion_scope {
	uint64_t start;  /* ticks */
	uint64_t record; /* address of PyTorch's record of it; 0: it is over, those in it are not */
	uint32_t name;   /* number in the process, from 1 */
	uint32_t thrown; /* exceptions that were on their way when it began */
	uint32_t is_span; /* 1: the program marks it, it is no operator */
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_companion_scope) == 32, "gs_companion_scope");

/* A thread that writes. */
struct gs_companion_slot {
	/* Of the writer. tid: 0 free; taken by compare-and-swap, given back by the reader alone, when
	 * the thread is gone and its ring is read. */
	uint32_t tid;
	uint32_t n_open; /* of open[], or scope[] */
	uint64_t written;
	uint32_t has_sums; /* 1: calls were added up */
	uint32_t pad0;
	uint64_t pad1[5];
	/* Of the reader. */
	uint64_t taken;
	uint64_t pad2[7];
	/* Of the writer, only growing. */
	uint64_t lost[GS_COMPANION_LOSSES][GS_LAYER_MAX];
	/* Open calls, as their entries saved them: what a process that hangs or was killed is in. Their
	 * times are ticks. */
	struct gs_frame open[GS_COMPANION_OPEN_MAX];
	uint8_t pad3[4096 - 128 - 8 * GS_COMPANION_LOSSES * GS_LAYER_MAX -
		     sizeof(struct gs_frame) * GS_COMPANION_OPEN_MAX];
	union {
		uint32_t inner
			[GS_FUNC_FIXED]; /* by function: calls that were part of the call around them */
		struct gs_companion_scope scope[GS_COMPANION_OPS_OPEN]; /* of operators' door */
	};
};
_Static_assert(sizeof(struct gs_companion_slot) == 8192, "gs_companion_slot");
_Static_assert(offsetof(struct gs_companion_slot, taken) == 64, "gs_companion_slot.taken");
_Static_assert(offsetof(struct gs_companion_slot, lost) == 128, "gs_companion_slot.lost");

/* Calls of one function in one slot that found no room in the ring, added up. Only grows. */
struct gs_companion_sum {
	uint32_t func; /* id, below GS_FUNC_FIXED; number of the name of an operator */
	uint32_t pad;
	uint64_t calls, errors, total_ns, max_ns; /* that returned; of these, failed */
	uint64_t bytes;                           /* of calls that succeeded */
	int32_t err_code[GS_ERR_CODES];           /* 0: unused */
	uint32_t err_count[GS_ERR_CODES];         /* other codes are in errors only */
	uint32_t hist[GS_HIST_N_BUCKETS];         /* of durations: model/trace/hist.h */
};
_Static_assert(sizeof(struct gs_companion_sum) == 1424, "gs_companion_sum");

struct gs_companion_sums {
	uint32_t n; /* of sum[] */
	uint32_t pad[511];
	uint16_t of[GS_FUNC_FIXED]; /* by function: number in sum[] + 1; 0 none yet */
	struct gs_companion_sum sum[GS_COMPANION_SUMS_MAX]; /* in the order of their first calls */
};
_Static_assert(sizeof(struct gs_companion_sums) % 4096 == 0, "gs_companion_sums");

struct gs_companion_record {
	uint16_t kind;  /* enum gs_companion_kind */
	uint16_t bytes; /* of the whole record, a multiple of 8 */
	uint32_t at;    /* its position in the ring / 8, the low 32 bits */
};

/* A finished call. Fields as in struct gs_event_call (model/trace/event.h). */
struct gs_companion_call {
	struct gs_companion_record head;
	uint64_t start; /* ticks */
	uint64_t dur;   /* likewise */
	uint16_t func;
	uint16_t cpu; /* where it returned */
	uint8_t depth;
	uint8_t flags;
	uint16_t python; /* number of the Python function around it (python.h); 0: none is known */
	int32_t ret;
	uint32_t aux;
	uint64_t bytes;
	uint64_t stream;
	uint64_t arg[4];
};
_Static_assert(sizeof(struct gs_companion_call) == 88, "gs_companion_call");

/* A communicator came into being. Fields as in struct gs_event_comm. */
struct gs_companion_comm {
	struct gs_companion_record head;
	uint64_t time; /* ticks */
	uint16_t func;
	uint16_t n_list;
	int32_t ret;
	uint64_t comm;
	uint64_t parent;
	int32_t n_ranks;
	int32_t rank;
	int32_t color;
	int32_t key;
	uint8_t unique_id[GS_NCCL_ID_BYTES];
	uint64_t list[GS_COMM_LIST_MAX];
};
_Static_assert(sizeof(struct gs_companion_comm) == 312, "gs_companion_comm");

/* The process asks for a kernel by its name: before the record of that call. name: the bytes after the
 * struct up to the record's end, a zero or more at their end. */
struct gs_companion_asked {
	struct gs_companion_record head;
	uint64_t time; /* ticks */
	uint32_t func; /* the call that asks */
	uint32_t pad;
	char name[];
};
_Static_assert(sizeof(struct gs_companion_asked) == 24, "gs_companion_asked");

/* What the doors of one thread know of each other, as calls and Python are seen by two libraries. The one of calls has it, and
 * exports a function of the name GS_COMPANION_AROUND that returns it for the calling thread. */
struct gs_companion_around {
	uint32_t python;   /* number of the innermost Python function that is seen; 0 none */
	uint32_t launches; /* of kernels and graphs so far */
};
#define GS_COMPANION_AROUND "calls_gpuscope_around"

/* --- the plan: what gpuscope asks for, written by it, read by processes as they begin --- */

struct gs_companion_plan {
	uint64_t magic;      /* GS_COMPANION_PLAN */
	uint32_t version;    /* GS_COMPANION_VERSION */
	uint32_t doors;      /* that are to be opened */
	uint32_t clock;      /* enum gs_companion_clock */
	uint32_t n_slots;    /* of a process's file */
	uint32_t ring_bytes; /* likewise */
	uint32_t n_funcs;    /* rows after the head */
	uint32_t name_bytes; /* of names, after the rows */
	uint32_t pad1;
	uint64_t ns_per_tick; /* times 2^32, about */
	uint64_t pad2[2];
};
_Static_assert(sizeof(struct gs_companion_plan) == 64, "gs_companion_plan");

/* A function whose calls are wanted. */
struct gs_companion_func {
	uint32_t name_at; /* of its name, which ends with a zero, from the first name on */
	uint16_t id;      /* of the function */
	uint16_t pad;
	struct gs_func_desc desc; /* how its arguments are read */
};
_Static_assert(sizeof(struct gs_companion_func) == 28, "gs_companion_func");

/* --- what the reader asks of a copy --- */

/* The size of the file; n_slots and ring_bytes as they may be. doors: that of Python needs more (python.h). */
uint64_t gs_companion_file_bytes(uint32_t n_slots, uint32_t ring_bytes, uint32_t doors);

/* May a file of so many bytes be read by this head? 0; -EBADMSG: it is none, or damaged;
 * -EPROTONOSUPPORT: of another version. */
int gs_companion_head_check(const struct gs_companion_head *head, uint64_t file_bytes);

/* How long a record of the kind is at least; 0: no such kind is known. */
size_t gs_companion_min_bytes(unsigned kind);

/*
 * The record at *offset of a copy of bytes that were written from position on; moves *offset after it.
 * Records of kinds that are not known, and pads, are passed over. NULL at the end (*offset == bytes), or where
 * what lies there is no whole record (*offset stays): the rest of the copy is lost.
 */
const struct gs_companion_record *gs_companion_next(const void *copy, size_t bytes,
						    uint64_t position, size_t *offset);

#endif
