/*
 * Between the files of the room. ingest.c has the batch and the sinks, entity.c the tables of
 * strings, processes and threads, comm.c that of communicators, stack.c those of code objects and
 * frames; event.c and open.c make records of events, cells and open calls.
 *
 * All tables live as long as struct gs_ingest and are bounded; their memory is had at the start or
 * grows while new entities turn up, never for an event of known ones.
 */
#ifndef GS_PIPELINE_INGEST_INGEST_INT_H
#define GS_PIPELINE_INGEST_INGEST_INT_H

#include <stdbool.h>

#include "core/base/map.h"
#include "pipeline/ingest/ingest.h"
#include "model/trace/func.h"
#include "model/trace/python.h"
#include "sources/cuda_visible/environ.h"

#define GS_INGEST_BATCH_BYTES (256u << 10) /* a batch is handed over when it has this much */
#define GS_INGEST_SPARE_BYTES                                                                      \
	(64u << 10)               /* as much as one call of ingest.h, or a record, can add to it */
#define GS_INGEST_CACHE      256  /* a power of two */
#define GS_INGEST_TEXT_BYTES 4096 /* of a file's or function's name in Python */

struct gs_ingest_sink {
	const char *name;
	struct gs_sink sink;
	int error;         /* negative errno of its failure; 0 none yet */
	bool is_reported;  /* by gs_ingest_sink_error() */
	unsigned order;    /* of failing, from 1 */
	uint64_t n_missed; /* CALL records since */
};

struct gs_ingest_process {
	uint32_t pid; /* 0: free */
	uint32_t id;
	uint32_t uid;
	uint64_t start_ns; /* 0 unknown */
	uint64_t made_ns;  /* when it was seen first; boot time */
	bool exited;       /* its pid may be another's by now */
	bool nameless;
	bool loss_reported;
	bool uses_gpu;     /* a call of CUDA or NCCL has come */
	uint32_t gpus_str; /* as announced; likewise the next */
	int only_device;
};

struct gs_ingest_thread {
	uint32_t pid; /* 0: free */
	uint32_t tid;
	uint32_t id;
	uint32_t process;    /* id */
	uint32_t uid;        /* of that */
	uint32_t ended_slot; /* of the kernel side, when it ended with one */
	bool ended;
	bool checked; /* seen again since the exit of its process was reported */
	bool nameless;
};

struct gs_ingest_seen { /* a thread lately looked up */
	uint32_t pid, tid, id;
	bool uses_gpu; /* its process is known to */
};

struct gs_ingest {
	struct gs_identity *place;       /* borrowed */
	const struct gs_func_set *funcs; /* borrowed, may be NULL */
	const struct gs_user_set *users; /* likewise */
	struct gs_reader *reader;
	struct gs_cuda_environ *environ; /* owned; NULL until it is needed */
	int64_t boot_minus_mono_ns;
	bool delivered; /* a batch has left */
	bool ended;

	struct gs_buf batch;
	struct gs_ingest_sink sinks[GS_INGEST_MAX_SINKS];
	unsigned n_sinks, n_failed;
	struct gs_sink outlet;                /* to all sinks */
	struct gs_sink stage;                 /* before it; the outlet itself when there is none */
	uint64_t pending_loss[GS_LOSS_COUNT]; /* found here, reported with the next flush */

	bool function_recorded[GS_FUNC_MAX];
	struct gs_ingest_seen seen[GS_INGEST_CACHE]; /* by the low bits of tid */

	struct gs_map strings;                       /* hash of the text -> id */
	size_t string_bytes;                         /* of all texts */
	struct gs_map text_of_uid, texts_of_uid;     /* bytes and number of names by user */
	struct gs_map process_of_pid, thread_of_key; /* -> index */
	struct gs_map
		begun; /* pids whose program was seen to begin; when full, no more are noted */
	struct gs_ingest_process *processes; /* owned */
	struct gs_ingest_thread *threads;    /* owned */
	uint32_t n_processes, n_threads;     /* slots ever used */
	uint32_t process_hand, thread_hand;  /* where the search for a slot goes on */
	uint32_t last_process_id, last_thread_id;

	struct gs_ingest_stacks *stacks;   /* owned; of stack.c */
	struct gs_ingest_pyfuncs *pyfuncs; /* owned; of pyfunc.c; NULL: none was called yet */
	struct gs_ingest_native *native;   /* owned; of native.c; NULL: none was taken yet */
	struct gs_ingest_kernels *kernels; /* owned; of kernel.c; NULL: nothing was launched yet */
	struct gs_map gpu_names;           /* process and its number -> two ids of strings */
	struct gs_map comm_of_key;         /* -> index */
	struct gs_rec_comm *comms;         /* owned; a ring: the oldest is overwritten */
	uint32_t n_comms, comm_hand;
};

/* A record in the batch, zeroed but for its head. Never NULL: the batch has room for all that one
 * call adds. What it is filled with must be interned before. */
void *gs_ingest_put(struct gs_ingest *feed, enum gs_record_kind kind, size_t struct_bytes,
		    size_t tail_bytes);

/* Hand the batch over when it is full: the last act of each call that puts records. */
void gs_ingest_settle(struct gs_ingest *feed);

void gs_ingest_put_loss(struct gs_ingest *feed, unsigned layer, enum gs_loss cause,
			const char *detail, uint64_t count);

int gs_ingest_entities_init(struct gs_ingest *feed);
void gs_ingest_entities_fini(struct gs_ingest *feed);

/* The id of a text, announced when it is new; 0 for "" and when there are too many. */
uint32_t gs_ingest_intern(struct gs_ingest *feed, const char *text);

/* The same of a text that this user has made up. */
uint32_t gs_ingest_intern_of(struct gs_ingest *feed, uint32_t uid, const char *text);

/* The function, announced when it is new; NULL when there is none with the id. Its own id is that
 * of records: of a Python function it is another one. */
const struct gs_func *gs_ingest_function(struct gs_ingest *feed, unsigned id);

/* The id of a thread, announced (and its process before it) when it is new; 0 when there are too
 * many: the caller counts a loss. comm_hint: 16 bytes or less, may be "". cell_slot: the thread's
 * slot when it is known, by which readings of an ended thread are distinguished from those of its successor. */
uint32_t gs_ingest_thread_find(struct gs_ingest *feed, uint32_t pid, uint32_t tid,
			       const char *comm_hint, uint32_t cell_slot);

static inline uint32_t gs_ingest_thread(struct gs_ingest *feed, uint32_t pid, uint32_t tid)
{
	const struct gs_ingest_seen *s = &feed->seen[tid % GS_INGEST_CACHE];

	return s->tid == tid && s->pid == pid ? s->id
					      : gs_ingest_thread_find(feed, pid, tid, "", 0);
}

/* The thread, which was just found, makes a call of CUDA or NCCL: the first of its process is when CUDA looks at
 * which GPUs it has. */
void gs_ingest_uses_gpu(struct gs_ingest *feed, uint32_t pid, uint32_t tid);

/* The id of a process of which a thread was just found. */
uint32_t gs_ingest_process_id(const struct gs_ingest *feed, uint32_t pid);

/* A Python function by the number that the kernel side gave it, announced when it is new; NULL when
 * the number is none. One whose name was lost is of "other Python functions". */
const struct gs_func *gs_ingest_pyfunc(struct gs_ingest *feed, unsigned number);
void gs_ingest_pyfuncs_fini(struct gs_ingest *feed);

/* A text of an event as UTF-8, with an end; a longer one is read from the process while it lives,
 * and believed when it still begins in the same way. */
void gs_ingest_python_text(uint32_t pid, const struct gs_py_text *text, const uint8_t *bytes,
			   size_t max_bytes, char out[GS_INGEST_TEXT_BYTES]);

/* These: false when the event is malformed. */
bool gs_ingest_pyfunc_named(struct gs_ingest *feed, const struct gs_event_code *event);
bool gs_ingest_code(struct gs_ingest *feed, const struct gs_event_code *event);
bool gs_ingest_stack(struct gs_ingest *feed, const struct gs_event_stack *event);
bool gs_ingest_sample(struct gs_ingest *feed, const struct gs_event_sample *event);
bool gs_ingest_wait(struct gs_ingest *feed, const struct gs_event_wait *event);
bool gs_ingest_native(struct gs_ingest *feed, const struct gs_event_stack_bytes *event);

/* The record of a call; false when the event is malformed. values: what stands before it; NULL. */
bool gs_ingest_call(struct gs_ingest *feed, const struct gs_event_call *event,
		    const struct gs_event_values *values);

/* A call with values. False when it is malformed. */
bool gs_ingest_values(struct gs_ingest *feed, const struct gs_event *event);

/* VALUES for the CALL that is put next. False when the event is malformed. */
bool gs_ingest_put_values(struct gs_ingest *feed, const struct gs_event_values *event);
bool gs_ingest_task(struct gs_ingest *feed, const struct gs_event_task *event);
bool gs_ingest_comm(struct gs_ingest *feed, const struct gs_event_comm *event);

/* The STACK of a capture that came before; 0 none. */
uint32_t gs_ingest_native_id(const struct gs_ingest *feed, uint32_t capture);
void gs_ingest_native_task(struct gs_ingest *feed, const struct gs_event_task *event);
/* Look again at stacks of processes that were not known; last: they have to be recorded now. */
void gs_ingest_native_retry(struct gs_ingest *feed, bool last);
void gs_ingest_native_fini(struct gs_ingest *feed);

/* What unwinds native stacks; NULL: there is no reader, or no memory. */
struct gs_native *gs_ingest_native_object(struct gs_ingest *feed);

/* A launch, whose thread is known: a KERNEL record when its function is new. */
void gs_ingest_launch(struct gs_ingest *feed, const struct gs_func *func,
		      const struct gs_event_call *event);
/* A call by which a program gets a handle of a kernel, and, false when the event is malformed, the name that
 * it asks for. */
void gs_ingest_kernel_handle(struct gs_ingest *feed, const struct gs_func *func,
			     const struct gs_event_call *event);
bool gs_ingest_kernel_asked(struct gs_ingest *feed, const struct gs_event_kernel *event);
void gs_ingest_kernels_task(struct gs_ingest *feed, const struct gs_event_task *event);
/* Look again for those that had no name; last: of all of them. */
void gs_ingest_kernels_retry(struct gs_ingest *feed, bool last);
/* At the end: read from their files what kernels need, and record it. */
void gs_ingest_kernels_needs(struct gs_ingest *feed);
void gs_ingest_kernels_fini(struct gs_ingest *feed);

/* The process's id, announced when it is new; 0: there are too many, counted. */
uint32_t gs_ingest_find_process(struct gs_ingest *feed, uint32_t pid);

void gs_ingest_gpu_init(struct gs_ingest *feed);
void gs_ingest_gpu_fini(struct gs_ingest *feed);

int gs_ingest_stacks_init(struct gs_ingest *feed);
void gs_ingest_stacks_fini(struct gs_ingest *feed);
int gs_ingest_comms_init(struct gs_ingest *feed);
void gs_ingest_comms_fini(struct gs_ingest *feed);

/* Fill bytes, stream, aux, arg and ARGS_UNREAD of an open call from what its entry saved: what
 * only the end of the call or the memory of the process has is 0. */
void gs_ingest_open_args(const struct gs_func_desc *desc, const struct gs_frame *frame,
			 struct gs_rec_call *call);

#endif
