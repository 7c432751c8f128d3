/*
 * What a view remembers, shared by the file that counts (aggregate.c) and the one that adds up
 * (summary.c) alone.
 *
 * threads[thread id].cell[function id] is an index into accs: three loads and no hashing for a
 * call. Index 0 means none yet; thread 0 and function 0 stand for all that have no place of their
 * own.
 *
 * Fields that many have are those of the records and of the summary: calls, bytes, errors, inner,
 * stepped, count, launches, copies, allocs, collectives, others, failed, unsized: sums; process,
 * thread and function: ids; kind; layer, cause; rank, comm, id_hash and parent: as in COMM; depth;
 * uid, parent_pid, ended, end_signal: as in ACCOUNT.
 */
#ifndef GS_PIPELINE_AGGREGATE_TALLY_H
#define GS_PIPELINE_AGGREGATE_TALLY_H

#include <stdbool.h>

#include "core/base/map.h"
#include "model/trace/dict.h"
#include "model/trace/func.h"
#include "model/trace/record_mpi.h"
#include "model/trace/record_account.h"
#include "model/trace/record_stack.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/gpu_accuracy/accuracy.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "pipeline/hangs/hangs.h"
#include "pipeline/holders/holders.h"
#include "pipeline/gpu_time/gpu_time.h"
#include "pipeline/nccl_ops/nccl_ops.h"

struct acc {
	uint64_t calls;
	uint64_t total_ns;
	uint64_t max_ns;
	uint64_t bytes;
	uint64_t errors;
	uint64_t inner;
	uint64_t stepped;
	uint64_t *hist; /* owned; GS_HIST_N_BUCKETS; NULL only in an empty sum */
};

struct view_thread {
	uint32_t *cell; /* owned */
	uint32_t n_cells;
};

struct err_count {
	int32_t code; /* 0: others */
	uint64_t count;
};

/* What a call of the function means beyond its numbers. */
enum func_kind {
	FUNC_NEW = 0, /* not looked at yet, or not announced */
	FUNC_PLAIN,
	FUNC_COMM_USE,   /* arg[1] is a communicator, */
	FUNC_COLLECTIVE, /* whose ranks all make this call */
	FUNC_COMM_END,   /* arg[0] is one that ceases to be */
	FUNC_STAY,       /* a group of NCCL's, or a wait for work of a GPU */
	FUNC_PYTHON,     /* arg[0] is the time in itself, arg[1] launches */
};

struct view_use {
	uint64_t launches, copies, allocs, collectives, others;
	uint64_t total_ns, bytes;
};

struct view_func {
	enum func_kind kind;
	struct view_use use;                          /* of CUDA and NCCL, by calls under it */
	uint64_t py_self_ns, py_launches, py_resumes; /* as in USE */
	uint64_t calls;
	struct err_count *errs; /* owned; n_errs used, room at powers of two */
	uint32_t n_errs;
	uint64_t n_other_errs;
};

struct view_comm {
	uint32_t process;
	int32_t rank, n_ranks;
	int32_t color, key; /* of a split; color GS_COMM_NO_SPLIT: of none */
	uint32_t origin_str;
	uint64_t comm, id_hash, parent;
	uint64_t calls;
	uint64_t bytes;
	uint32_t member; /* of collectives; 0: it has no place there */
	bool announced;  /* false: only its calls were seen */
	bool ended;      /* the handle may name another one next */
};

struct view_lost {
	uint16_t layer;
	uint16_t cause;
	uint32_t detail_str;
	uint64_t count;
};

struct view_open {
	uint32_t thread;
	uint32_t function;
	uint64_t age_ns;
	uint8_t depth;
};

/* A thread's account as of its last record. */
struct view_account {
	uint32_t pid, tid, uid, parent_pid, comm_str, process_str;
	bool ended;
	uint8_t end_signal;
	uint64_t born_ns, time_ns;
	uint64_t ns[GS_STATE_COUNT][GS_INSIDE_COUNT];          /* as in ACCOUNT: so far */
	uint64_t start_up_ns[GS_STATE_COUNT][GS_INSIDE_COUNT]; /* until its process launched work */
};

/* A growable array of any element; see grow() in aggregate.c. */
struct array {
	void *items; /* owned */
	size_t n;    /* items */
	size_t n_room;
};

/* Of a described probe, by process. */
struct view_aggregate {
	uint32_t process, function;
	uint64_t *hist;              /* owned; GS_HIST_N_BUCKETS */
	struct gs_rec_aggregate sum; /* its head, thread and buckets unused; ends in an array */
};

/* Of MPI, by process, communicator, peer and direction. */
struct view_mpi {
	uint32_t process;
	int32_t peer;
	uint64_t comm;
	uint32_t direction; /* enum gs_mpi_direction */
	uint64_t calls, bytes, unsized;
	uint64_t first_ns, last_ns; /* of GS_MPI_SPAN */
};

/* A function of a process that was launched, as the kernel that it then was; sums over its launches. */
struct view_kernel {
	uint32_t process;
	uint32_t name_str, short_str, symbol_str, file_str; /* 0 not known */
	uint32_t how;                                       /* enum gs_kernel_how */
	uint64_t function;
	uint64_t launches, failed, host_ns;
	uint64_t graph_runs;      /* for the summary that is made */
	uint64_t blocks, threads; /* of a grid, of a block */
	uint64_t shared_bytes;    /* dynamic */
};

struct gs_aggregate {
	struct gs_sink sink;         /* for who pushes; its ctx is this */
	struct gs_dict *dict;        /* owned */
	struct view_thread *threads; /* owned, by id */
	uint32_t n_threads;
	struct acc *accs; /* owned; [0] is never used */
	uint32_t n_accs, n_accs_room;
	struct array comms;               /* struct view_comm */
	struct gs_map comm_idx;           /* comm_key() -> index into comms, the newest */
	struct array lost;                /* struct view_lost */
	struct array attached;            /* struct gs_rec_attach */
	struct array open;                /* struct view_open */
	struct array aggregates;          /* struct view_aggregate */
	struct array allocators;          /* struct gs_rec_allocator */
	struct array leaks;               /* struct gs_rec_leak */
	struct gs_holders *holders;       /* owned; who holds memory */
	struct gs_hangs hangs;            /* found while the stream was recorded */
	struct array mpi;                 /* struct view_mpi */
	struct gs_map mpi_idx;            /* hash of who and where -> index into mpi */
	struct gs_activity *activity;     /* owned; what streams were asked for */
	struct gs_accuracy *accuracy;     /* owned; what GPUs said meanwhile */
	struct gs_gpu_times *gpu_times;   /* owned; NULL until a GPU's own times come */
	struct gs_nccl_ops *nccl_ops;     /* owned; NULL until NCCL says something */
	struct array kernels;             /* struct view_kernel */
	struct gs_map kernel_idx;         /* of them, by process and function */
	uint64_t n_left_out;              /* records that had no place */
	struct array accounts;            /* struct view_account */
	struct gs_map account_idx;        /* of them, by thread and birth */
	struct view_account account_rest; /* threads that found no room */
	uint64_t n_account_rest;
	uint64_t n_lost_calls;
	struct gs_native_count native; /* native stacks, and what they lack */
	/* What tracing cost: by the counters of that. */
	uint64_t cost_last_ns, cost_worst_ppm, cost_ppm,
		/* GS_COUNT_UNKNOWN: not known */ call_cost_ns, step_ns;
	uint64_t last_ns;
	uint32_t n_funcs;         /* one more than the largest id that calls, errors or uses had */
	struct gs_rec_end end;    /* valid when ended */
	bool ended, has_cost;     /* cost_ppm is known */
	struct view_lines *lines; /* owned; of line.c, NULL until needed */
	struct view_steps *steps; /* owned; of step.c, likewise */
	struct {
		gs_aggregate_step_fn take; /* NULL: free */
		void *ctx;
	} step_receivers[GS_AGGREGATE_STEP_RECEIVERS];
	struct gs_aggregate_collectives receiver; /* of collectives; all NULL: none */
	struct gs_collectives *collectives;       /* owned; NULL until there is a communicator */
	uint32_t arrived;                   /* member whose collective is being taken; 0 none */
	struct gs_collectives_stays *stays; /* owned; NULL until one is asked for */
	struct view_func funcs[GS_AGGREGATE_MAX_FUNCTIONS]; /* by id */
};

/* Room for one more of item_bytes; returns it zeroed, or NULL at max or without memory. */
void *gs_aggregate_grow(struct array *a, size_t item_bytes, size_t max);

/* --- probed.c: AGGREGATE, ALLOCATOR and LEAK --- */

/* 0, or -ENOMEM: it is not counted. What fini frees is of all three. */
int gs_aggregate_take_aggregate(struct gs_aggregate *v, const struct gs_rec_aggregate *record);
void gs_aggregate_probed_fini(struct gs_aggregate *v);

/* 0 or -ENOMEM. */
int gs_aggregate_add_probed(struct gs_aggregate *v, struct gs_summary *summary);

/* --- account.c: where the time of threads went --- */

/* 0 or -ENOMEM. Threads beyond GS_AGGREGATE_MAX_ACCOUNTS are counted as one. */
int gs_aggregate_take_account(struct gs_aggregate *v, const struct gs_rec_account *record);

/* After the calls were added. 0 or -ENOMEM. */
int gs_aggregate_add_account(struct gs_aggregate *v, struct gs_summary *summary);

/* Add one of a view, or a sum that is not empty, to a sum; 0 or -ENOMEM. */
int gs_aggregate_acc_add(struct acc *sum, const struct acc *more);

/* --- stream.c: what was asked of each stream --- */

/* 0 or -ENOMEM. */
int gs_aggregate_add_streams(struct gs_aggregate *v, struct gs_summary *summary);

/* --- kernel.c: launches by kernel --- */

/* Other calls are passed over. */
void gs_aggregate_take_launch(struct gs_aggregate *v, const struct gs_rec_call *call);

/* 0 or -ENOMEM. */
int gs_aggregate_add_kernels(struct gs_aggregate *v, struct gs_summary *summary);

/* --- step.c: what a program does again and again --- */

struct gs_rec_mark;

/* Each call or mark, in the order in which they returned; without memory no steps are found. */
void gs_aggregate_take_step(struct gs_aggregate *v, const struct gs_rec_call *call);
void gs_aggregate_take_mark(struct gs_aggregate *v, const struct gs_rec_mark *mark);
void gs_aggregate_steps_fini(struct gs_aggregate *v);

/* After the accounts were added. */
void gs_aggregate_add_steps(struct gs_aggregate *v, struct gs_summary *summary);

/* --- arrival.c: collectives of the ranks of a communicator --- */

/* What is known of it, when it was announced. */
void gs_aggregate_take_member(struct gs_aggregate *v, struct view_comm *comm);

/* It was destroyed. */
void gs_aggregate_take_member_end(struct gs_aggregate *v, struct view_comm *comm);

/* A collective on it, finished or not. */
void gs_aggregate_take_arrival(struct gs_aggregate *v, const struct view_comm *comm,
			       const struct gs_rec_call *call);

/* By when ranks had left collectives: any call, after pipeline/gpu_activity took it. */
void gs_aggregate_take_stay(struct gs_aggregate *v, const struct gs_rec_call *call);

/* Collectives among the calls of STATS, and what LOSS says of others. */
void gs_aggregate_take_added_up(struct gs_aggregate *v, const struct gs_rec_stats *stats);
void gs_aggregate_take_lost_calls(struct gs_aggregate *v, const struct gs_rec_loss *loss);

/* 0 or -ENOMEM. */
int gs_aggregate_add_arrivals(struct gs_aggregate *v, struct gs_summary *summary);

/* --- mpi.c --- */

/* What has no place is counted in n_left_out. is_mpi_comm: made by a call of MPI. */
void gs_aggregate_mpi_init(struct gs_aggregate *v);
void gs_aggregate_mpi_fini(struct gs_aggregate *v);
void gs_aggregate_take_mpi(struct gs_aggregate *v, const struct gs_rec_mpi *record);
bool gs_aggregate_is_mpi_comm(const struct gs_aggregate *v, const struct view_comm *comm);

/* When processes are in the summary; 0 or -ENOMEM. */
int gs_aggregate_add_mpi(struct gs_aggregate *v, struct gs_summary *summary);

/* --- line.c: 0 or -ENOMEM --- */
int gs_aggregate_line_sample(struct gs_aggregate *view, const struct gs_rec_sample *sample);
int gs_aggregate_line_wait(struct gs_aggregate *view, const struct gs_rec_wait *wait);
int gs_aggregate_line_call(struct gs_aggregate *view,
			   const struct gs_rec_call *call); /* with a stack */
int gs_aggregate_lines(struct gs_aggregate *view, struct gs_summary *summary);
void gs_aggregate_lines_free(struct gs_aggregate *view);

#endif
