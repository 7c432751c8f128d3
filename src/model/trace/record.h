/*
 * The one form in which everything travels after ingest: on disk, to exporters, to aggregate. A
 * batch is a run of records; a record is a head and a body of fixed width, little endian, 8-byte
 * aligned. A reader that meets a kind it does not know skips it by its size; a record that is
 * shorter than its kind's struct is malformed, one that is longer comes from a newer writer and is
 * read by the part that is known. Names are interned: STRING gives a number to a text, and PROCESS,
 * THREAD and FUNCTION give numbers to entities, always before the first record that uses them. Ids
 * start at 1; 0 means none. doc/format.md describes the file around it.
 *
 * Times are CLOCK_BOOTTIME ns; SESSION ties them to the time of day.
 *
 * Fields that many have: id: by which others refer to it; calls, errors, count: since the last such
 * record, or of one; those ending in _str: id of a STRING, 0 none or not known; doc/format.md says
 * more of each.
 */
#ifndef GS_MODEL_TRACE_RECORD_H
#define GS_MODEL_TRACE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "model/trace/event.h"

#define GS_RECORD_VERSION   3
#define GS_RECORD_MAX_BYTES 65528

/* Ids of functions are below this; the same function has one id in a stream. */
#define GS_FUNCTION_ID_MAX 32768
/* Stored: numbers are never reused. */
enum gs_record_kind {
	GS_REC_INVALID = 0,
	GS_REC_SESSION = 1,
	GS_REC_STRING = 2,
	GS_REC_PROCESS = 3,
	GS_REC_THREAD = 4,
	GS_REC_FUNCTION = 5,
	GS_REC_CALL = 6,
	GS_REC_STATS = 7,
	GS_REC_LOSS = 8,
	GS_REC_ATTACH = 9,
	GS_REC_COMM = 10,
	GS_REC_COUNTER = 11,
	GS_REC_END = 12,
	GS_REC_FRAME = 13,
	GS_REC_STACK = 14,
	GS_REC_SAMPLE = 15,
	GS_REC_VALUES = 16,
	GS_REC_USE = 17,
	GS_REC_AGGREGATE = 18,
	GS_REC_ALLOCATOR = 19,
	/* of samples: model/trace/record_node.h */
	GS_REC_GPU_INFO = 20,
	GS_REC_GPU_SAMPLE = 21,
	GS_REC_GPU_PROCESS = 22,
	GS_REC_GPU_EVENT = 23,
	GS_REC_HOST_SAMPLE = 24,
	GS_REC_HOST_PROCESS = 25,
	GS_REC_LEAK = 26,         /* of PyTorch's allocator: model/trace/record_stack.h */
	GS_REC_HOST_JOB = 27,     /* of samples */
	GS_REC_ROLLUP = 28,       /* of samples: model/node/rollup.h */
	GS_REC_MPI = 29,          /* model/trace/record_mpi.h */
	GS_REC_ACCOUNT = 30,      /* model/trace/record_account.h */
	GS_REC_WAIT = 31,         /* model/trace/record_stack.h */
	GS_REC_KERNEL = 32,       /* model/trace/record_kernel.h */
	GS_REC_MARK = 33,         /* model/trace/record_mark.h */
	GS_REC_MEMORY = 34,       /* model/trace/record_memory.h */
	GS_REC_MEMORY_SITE = 35,  /* likewise */
	GS_REC_HOST_TIMES = 36,   /* of samples */
	GS_REC_GPU_WORK = 37,     /* model/gpu_work/record.h */
	GS_REC_GPU_WINDOW = 38,   /* likewise */
	GS_REC_NCCL_COMM = 39,    /* model/nccl/record.h */
	GS_REC_NCCL_OP = 40,      /* likewise */
	GS_REC_NCCL_CHANNEL = 41, /* likewise */
	GS_REC_HANG = 42,         /* model/trace/record_hang.h */
	GS_REC_RANK = 43,         /* model/nccl/rank.h */
	GS_REC_RANK_STAY = 44,    /* likewise */
	GS_REC_RANK_STEPS = 45,   /* likewise */
	GS_REC_COUNT
};

struct gs_record {
	uint16_t bytes; /* whole record, a multiple of 8 */
	uint16_t kind;  /* enum gs_record_kind */
	uint32_t flags; /* by kind; 0 where its struct says nothing else */
};

/* First of a stream. Strings may follow it: ids may be used here before they are defined. */
struct gs_rec_session {
	struct gs_record head;
	uint32_t version; /* GS_RECORD_VERSION of the writer */
	uint32_t mode;    /* enum gs_session_mode */
	uint64_t start_ns;
	int64_t wall_minus_boot_ns;
	uint32_t host_str;
	uint32_t command_str;     /* the traced command, or how the targets were chosen */
	uint32_t kernel_str;      /* release of the running kernel */
	uint32_t attach_mode_str; /* how calls were caught, as -v prints it */
};

/* The text of command_str where everything on the machine is traced: of no one job. */
#define GS_SESSION_OF_MACHINE "all processes"

enum gs_session_mode {
	GS_SESSION_EVENTS = 1,  /* whole events */
	GS_SESSION_SUMMARY = 2, /* aggregated in the kernel */
	GS_SESSION_SAMPLES = 3, /* no calls: how GPUs, machine and processes were over time */
};

/* text_bytes of text, not terminated, padded with zeros. */
struct gs_rec_string {
	struct gs_record head;
	uint32_t id;
	uint32_t text_bytes;
	char text[];
};

enum gs_process_flag {
	GS_PROCESS_BEGUN = 1, /* traced since its program began: nothing was missed before */
	GS_PROCESS_SAME = 2,  /* it came before and runs the same program: more is known of it */
};
#define GS_PROCESS_DEVICE_SHIFT                                                                    \
	8 /* in flags: 1 and the device that is the only one in use; 0 not known */

/* May come again for the same id, with what was learned since (exec changes comm, exe, cmdline). */
struct gs_rec_process {
	struct gs_record head; /* flags: enum gs_process_flag */
	uint32_t id;
	uint32_t pid;        /* as gpuscope's own namespace numbers it */
	uint32_t ns_pid;     /* in its own */
	uint32_t parent_pid; /* as pid */
	uint32_t uid;        /* UINT32_MAX unknown */
	uint32_t comm_str;
	uint32_t exe_str;
	uint32_t cmdline_str;
	uint32_t container_str; /* container id, 0 outside of one */
	uint32_t gpus_str;      /* UUIDs as CUDA numbers them for it, with commas; 0 not known */
	uint64_t start_ns;      /* when the process began, 0 unknown */
};

/* Does it run another program than before (NULL: it was not there)? Without names, they were only not known at
 * first. */
static inline bool gs_process_runs_another(const struct gs_rec_process *before,
					   const struct gs_rec_process *now)
{
	return before && (before->exe_str || before->cmdline_str) &&
	       !(now->head.flags & GS_PROCESS_SAME);
}

struct gs_rec_thread {
	struct gs_record head;
	uint32_t id;
	uint32_t process; /* id */
	uint32_t tid;
	uint32_t comm_str;
};

struct gs_rec_function {
	struct gs_record head;
	uint32_t id;
	uint16_t layer;      /* enum gs_layer */
	uint16_t func_class; /* enum gs_func_class */
	uint32_t name_str;
	uint32_t file_str; /* of a Python function: its source file; else 0 */
	uint32_t line;     /* its first line; 0 of others */
	uint32_t pad;
};

/* A call; see struct gs_event_call in model/trace/event.h for what bytes, aux and arg mean. What
 * the kernel could not know is filled in by correlate: bytes of a free. */
struct gs_rec_call {
	struct gs_record head;
	uint64_t start_ns;
	uint64_t dur_ns;
	uint32_t thread;   /* id */
	uint32_t function; /* id */
	int32_t ret;       /* what it returned */
	uint32_t aux;
	uint16_t cpu;       /* where it returned */
	uint8_t depth;      /* traced calls of this thread around it */
	uint8_t call_flags; /* enum gs_call_flag */
	uint8_t failed;     /* 1 when ret is an error of this function */
	uint8_t pad[3];
	uint64_t bytes;
	uint64_t stream; /* handle; 0 the default stream */
	uint64_t arg[4];
	uint32_t scope;        /* id of the innermost function of the layers above around it; 0 */
	uint32_t py_stack;     /* id of a STACK, which may come later; 0 none */
	uint32_t native_stack; /* likewise */
	uint32_t pad2;
	uint64_t flow; /* of a launch and the call that waited for it; 0 none. From correlate */
};

struct gs_rec_bucket {
	uint32_t bucket; /* model/trace/hist.h */
	uint32_t count;
};

/* Calls added up since the last such record of the same thread and function (a difference, not a
 * running total), n_buckets of struct gs_rec_bucket after it. */
struct gs_rec_stats {
	struct gs_record head;
	uint32_t thread;
	uint32_t function;
	uint64_t time_ns; /* end of the interval */
	uint64_t calls;
	uint64_t errors;
	uint64_t total_ns;
	uint64_t max_ns; /* so far, not of the interval */
	uint64_t bytes;  /* of calls that succeeded */
	uint64_t inner;  /* driver calls that were part of a runtime call and are counted there */
	int32_t err_code[4];   /* 0: unused */
	uint32_t err_count[4]; /* other codes are in errors only */
	uint32_t n_buckets;
	uint32_t stepped; /* single-stepped probes that the calls passed, without those where the
			   * function is left */
	struct gs_rec_bucket buckets[]; /* of the durations */
};

/* A number of things lost since the last such record. */
struct gs_rec_loss {
	struct gs_record head;
	uint16_t layer;      /* enum gs_layer, 0 all */
	uint16_t cause;      /* enum gs_loss */
	uint32_t detail_str; /* which library, file or process; 0 none */
	uint64_t count;
};

/* A library or executable was attached to, or could not be. */
struct gs_rec_attach {
	struct gs_record head;
	uint32_t path_str;
	uint32_t func_str;   /* one function that failed; 0: the whole file */
	int32_t status;      /* 0, or a negative errno */
	uint32_t reason_str; /* of a failure, or a remark; 0 none */
	uint32_t n_probes;   /* placed in this file */
	uint32_t n_moved;    /* of these, some bytes in, where the kernel need not single-step */
	uint32_t n_stepped;  /* of these, single-stepped */
	uint32_t layer;      /* of its functions, when they are of one; 0 several */
};

#define GS_COMM_NO_SPLIT INT32_MIN /* color of a communicator that no split made */

/* A communicator is known. May come again with more known. What the call that made it was given is
 * there from the start; rank, n_ranks and id_hash of a split or shrunk one are filled in by
 * correlate. A rank that takes part in a split without a color of its own (color < 0) gets no
 * communicator and sends one with comm 0: the others are counted against it. */
struct gs_rec_comm {
	struct gs_record head;
	uint32_t process;    /* id */
	int32_t rank;        /* -1 unknown */
	int32_t n_ranks;     /* -1 unknown */
	uint32_t origin_str; /* the call that made it */
	uint64_t comm;       /* handle, unique within the process while it lives */
	uint64_t id_hash;    /* the same for all ranks of the communicator; 0 unknown */
	uint64_t parent;     /* handle, 0 none */
	int32_t color;       /* of a split; else GS_COMM_NO_SPLIT */
	int32_t key;         /* of a split; else 0 */
	uint32_t n_excluded; /* of a shrink: how many; those past the array's end are not listed */
	uint32_t pad;
	int32_t excluded[GS_COMM_LIST_MAX]; /* ranks of the parent */
};

enum gs_unit {
	GS_UNIT_NONE = 0,
	GS_UNIT_BYTES = 1,
	GS_UNIT_COUNT = 2,
};

/* A value of a process at a time, as a counter track shows it. */
struct gs_rec_counter {
	struct gs_record head;
	uint32_t process; /* id; 0 the machine */
	uint32_t name_str;
	uint64_t time_ns;
	int64_t value;
	uint32_t unit; /* enum gs_unit */
	uint32_t pad;
};

/* Counters of the machine (process 0) about what tracing costs: the largest share of a thread's, a
 * process's or all processor time that went into probes since the last one, the share of all in the
 * run so far, what a call cost as the run began, and what a single-stepped probe cost more. */
#define GS_COUNTER_COST "tracing cost (millionths of processor time)"
#define GS_COUNTER_MEAN "tracing cost of the whole run (millionths of processor time)"
#define GS_COUNTER_CALL "tracing cost of a call (ns)"
#define GS_COUNTER_STEP "tracing cost of a single step (ns)"

/* Last of a stream that was closed in order. */
struct gs_rec_end {
	struct gs_record head;
	uint64_t end_ns;
	int32_t exit_status; /* of the traced command; -1 there was none */
	uint32_t reason_str; /* why tracing ended: "command exited", "interrupted", ... */
};

_Static_assert(sizeof(struct gs_rec_session) == 48, "session");
_Static_assert(sizeof(struct gs_rec_string) == 16, "string");
_Static_assert(sizeof(struct gs_rec_process) == 56, "process");
_Static_assert(sizeof(struct gs_rec_thread) == 24, "thread");
_Static_assert(sizeof(struct gs_rec_function) == 32, "function");
_Static_assert(sizeof(struct gs_rec_call) == 120, "call");
_Static_assert(sizeof(struct gs_rec_stats) == 112, "stats");
_Static_assert(sizeof(struct gs_rec_loss) == 24, "loss");
_Static_assert(sizeof(struct gs_rec_attach) == 40, "attach");
_Static_assert(sizeof(struct gs_rec_comm) == 128, "comm");
_Static_assert(sizeof(struct gs_rec_counter) == 40, "counter");
_Static_assert(sizeof(struct gs_rec_end) == 24, "end");

struct gs_batch {         /* a run of records, lent for the duration of a call */
	const void *data; /* the first record */
	size_t bytes;     /* of all of them */
};

/* Where records go. push borrows the batch and returns 0 or a negative errno; flush asks for
 * everything so far to be put where it can be seen (a file's bytes to the system). */
struct gs_sink {
	int (*push)(void *ctx, const struct gs_batch *batch);
	int (*flush)(void *ctx); /* may be NULL */
	void *ctx;               /* of both; borrowed, and given back to them */
};

/* Append a record of the kind with body_bytes (its struct without tail) plus tail_bytes, zeroed,
 * head filled. NULL when the buffer is at its maximum or the record would pass
 * GS_RECORD_MAX_BYTES. */
void *gs_record_put(struct gs_buf *buf, enum gs_record_kind kind, size_t struct_bytes,
		    size_t tail_bytes);

/* Append a STRING; texts are cut at 4,096 bytes. 0 or -ENOBUFS/-ENOMEM. */
int gs_record_put_string(struct gs_buf *buf, uint32_t id, const char *text, size_t text_bytes);

/* The record at *offset when it is whole and at least as long as its kind asks (tails included);
 * moves *offset after it. NULL at the end (*offset == bytes) or at a malformed record (*offset
 * stays before it: the rest of the batch cannot be read). */
const struct gs_record *gs_record_next(const struct gs_batch *batch, size_t *offset);

/* The record after r, or the first one when r is NULL; NULL as above. */
static inline const struct gs_record *gs_record_after(const struct gs_batch *batch,
						      const struct gs_record *r)
{
	size_t offset = r ? (size_t)((const char *)r - (const char *)batch->data) + r->bytes : 0;

	return gs_record_next(batch, &offset);
}

#define gs_records_for_each(batch, r)                                                              \
	for (const struct gs_record *r = gs_record_after((batch), NULL); r;                        \
	     r = gs_record_after((batch), r))
#endif
