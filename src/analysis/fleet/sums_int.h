/* What is added up of each rank on its node: what sums.c and sum_steps.c share. */
#ifndef GS_ANALYSIS_FLEET_SUMS_INT_H
#define GS_ANALYSIS_FLEET_SUMS_INT_H

#include "analysis/fleet/sums.h"
#include "model/nccl/rank.h"

#define SUM_TIMES 2048 /* newest calls whose times are kept for steps; a power of two */
#define SUM_STEPS 256  /* newest steps of a slot between two records */

/* Of a call, and of all until it. */
struct call_time {
	uint64_t start_ns, arrivals_ns, inside_ns; /* the last as of the next call */
};

/* Steps of one slot that no record has yet, the oldest first. */
struct step_queue {
	uint32_t run, pid, n;
	uint64_t put; /* n_steps of the last record */
	struct {
		uint64_t start_ns, dur_ns;
	} steps[SUM_STEPS];
};

struct sum {
	uint64_t id; /* 0: the place is free */
	int32_t rank, n_ranks;
	uint32_t pid, flags; /* enum gs_rank_flag */
	uint32_t function;   /* of the last call */
	bool is_over;        /* its last record was made */
	uint64_t calls, last_ns, arrivals_ns, inside_ns, calls_hash;
	uint64_t n_put; /* calls up to the last record */
	struct gs_rank_call
		*newest; /* owned; call number n at n & (GS_RANK_CALLS - 1); NULL: none yet */
	/* Owned; as of call number n at n & (SUM_TIMES - 1), those from times_from on; NULL: no steps are known. */
	struct call_time *times;
	uint64_t times_from;
	/* As of mark; taken since the last record when has_mark. */
	uint64_t mark, mark_ns, mark_arrivals_ns, mark_inside_ns, mark_calls_hash;
	bool has_mark;
	/* The roundest since the last record; number 0: none. */
	uint64_t stay_number, stay_entered_ns, stay_left_ns;
	char job[GS_RANK_JOB_BYTES];
};

struct gs_fleet_sums {
	struct sum *sums; /* owned; by the caller's number */
	uint32_t n_sums;
	uint64_t put_ns; /* when the last records were made; 0 never */
	struct step_queue
		*queues; /* owned; GS_FLEET_STEP_SLOTS of them, by slot; NULL: no steps yet */
};

/* Keep the time of the call that was counted last, where steps of its process are known; again when it returned. */
void fleet_sum_keep_time(struct sum *sum);

#endif
