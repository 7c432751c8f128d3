/* What the collectives of one rank of a communicator add up to, about once a second while it is traced: the least
 * by which a head can compare ranks of several nodes. */
#ifndef GS_MODEL_NCCL_RANK_H
#define GS_MODEL_NCCL_RANK_H

#include "model/trace/record.h"

enum gs_rank_flag {
	GS_RANK_INSIDE = 1,    /* its last collective has not returned */
	GS_RANK_ENDED = 2,     /* its process ended */
	GS_RANK_LEFT = 4,      /* it gave the communicator up */
	GS_RANK_LOST = 8,      /* calls of it are missing: its numbers say nothing */
	GS_RANK_UNTRACED = 16, /* tracing ended: no more is known of it */
};

#define GS_RANK_NAME_BYTES 32 /* with the zero at their end */
#define GS_RANK_JOB_BYTES  48
#define GS_RANK_CALLS      64 /* newest ones of a rank that a record lists at most; a power of two */

/* What a rank called, as other ranks of its communicator must. */
struct gs_rank_call {
	uint64_t count; /* elements */
	uint32_t aux;   /* type, operation and root, as of struct gs_event_call */
	/* Of the function's name: the low half of gs_hash_bytes(). Numbers of functions differ between versions. */
	uint32_t function_hash;
};

/*
 * Collectives of a rank are numbered from 1, from the making of the communicator on. Sums are of its
 * calls up to mark, so that those of two ranks can be compared where their marks are the same: the mark
 * is the number, of those since the record before, that is divisible by the largest power of two. Sums
 * go on, whatever records are lost on the way; arrivals_ns wraps, and only differences of it mean
 * something.
 */
struct gs_rec_rank {
	struct gs_record head; /* flags: enum gs_rank_flag */
	uint64_t id_hash;      /* of the communicator, as in COMM; not 0 */
	int32_t rank, n_ranks; /* in it; of it */
	uint32_t pid;
	uint32_t n_listed; /* calls after the struct: the newest of those since the record before */
	uint64_t time_ns;  /* as of when */
	int64_t wall_minus_boot_ns;
	uint64_t calls;         /* collectives so far */
	uint64_t last_ns;       /* when the last was called; 0 none */
	uint64_t mark, mark_ns; /* number of a call, and when it was made; 0 none */
	uint64_t arrivals_ns;   /* sum of the times at which calls 1 to mark were made */
	uint64_t inside_ns;     /* spent in the calls before mark */
	/* Sum of a number made of what each of the calls 1 to mark was and of its own number; it wraps. */
	uint64_t calls_hash;
	char last_name[GS_RANK_NAME_BYTES]; /* function of the last call; "" none */
	char job[GS_RANK_JOB_BYTES];        /* of the process; "" none, or not known */
	struct gs_rank_call listed[];       /* the last is call number `calls` */
};
_Static_assert(sizeof(struct gs_rec_rank) == 184, "rank");

/*
 * One collective of a rank of which it is known that it was over: after RANK of the same rank, where there was one since the
 * record before. It is one that no rank can leave before the last has entered it, so it bounds how far the clocks of two
 * nodes are apart (analysis/fleet/clocks.h). Of several it is the one whose number is divisible by the largest power of two,
 * so that those of all ranks are the same.
 */
struct gs_rec_rank_stay {
	struct gs_record head;
	uint64_t id_hash;      /* of the communicator, as in RANK */
	int32_t rank, n_ranks; /* in it; of it */
	uint64_t number;       /* of the collective, from 1 */
	/* When it was called; and the end of the call by which the host learned that the GPU had done it. Boot clock. */
	uint64_t entered_ns, left_ns;
};
_Static_assert(sizeof(struct gs_rec_rank_stay) == 48, "stay in a collective");

#define GS_RANK_STEPS 16 /* of a rank that a record lists at most */

/* A step of a rank, and the collectives that were called in it. */
struct gs_rank_step {
	uint64_t call;    /* number of the first of them, as in RANK */
	uint32_t n_calls; /* so many; not 0 */
	uint32_t pad;     /* 0 */
	uint64_t start_ns, dur_ns;
	uint64_t arrivals_ns; /* sum of the times at which they were made; it wraps */
	uint64_t inside_ns;   /* spent in them */
};

/*
 * Steps of the process of a rank, at most once a second, after RANK of the same rank: figures of all, and those that ended since
 * the record before. Of each process they are in one communicator, that with most ranks. Where more ended than a record lists, it
 * has those in which a collective was called whose number is divisible by a power of two, the smallest with which they fit, so
 * that those of all ranks are the same.
 */
struct gs_rec_rank_steps {
	struct gs_record head;
	uint64_t id_hash;      /* of the communicator, as in RANK */
	int32_t rank, n_ranks; /* in it; of it */
	uint32_t pid, n_listed;
	uint32_t run, pad; /* another number than before: all steps so far are void; 0 */
	uint64_t time_ns;  /* as of when */
	/* As in struct gs_step_summary: of all steps of the run. */
	uint64_t n_steps, n_odd, median_ns, p95_ns;
	struct gs_rank_step listed[]; /* those with as many calls as most, the oldest first */
};
_Static_assert(sizeof(struct gs_rec_rank_steps) == 80, "steps of a rank");
_Static_assert(sizeof(struct gs_rank_step) == 48, "a step of a rank");

#endif
