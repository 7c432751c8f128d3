/*
 * The node's half: what the collectives of each rank that is traced here add up to, as RANK records
 * (model/nccl/rank.h) about once a second. In come the ranks of communicators, their calls
 * in the order in which they were made, steps of their processes, and what ended. All times are of the boot clock. A rank
 * costs the same memory however many calls it makes; there are GS_FLEET_MAX_MEMBERS at most. One
 * thread.
 */
#ifndef GS_ANALYSIS_FLEET_SUMS_H
#define GS_ANALYSIS_FLEET_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/hang/hang.h"
#include "core/base/buf.h"

#define GS_FLEET_MAX_MEMBERS 4096 /* more are left out */
#define GS_FLEET_EVERY_NS    1000000000ull
/* When no rank has made a call for so long, calls that have not returned matter. */
#define GS_FLEET_QUIET_NS 2000000000ull

struct gs_fleet_sums;

struct gs_fleet_sums *gs_fleet_sums_new(void); /* NULL: no memory */

/* NULL inside: nothing happens. */
void gs_fleet_sums_free(struct gs_fleet_sums **sums);

/* The rank of a communicator, by a number of the caller's below GS_FLEET_MAX_MEMBERS. id: the same for all
 * ranks of it, not 0. Only the first time counts. job: of the process, copied; "" none. */
void gs_fleet_sums_set_member(struct gs_fleet_sums *sums, uint32_t member, uint32_t pid,
			      uint64_t id, int32_t rank, int32_t n_ranks, const char *job);

/* Is this member known already? */
bool gs_fleet_sums_has_member(const struct gs_fleet_sums *sums, uint32_t member);

/* It called a collective. The same call may come again, first as one that has not returned (dur_ns is not read
 * then). */
void gs_fleet_sums_take_call(struct gs_fleet_sums *sums, uint32_t member,
			     const struct gs_hang_call *call, uint64_t dur_ns, bool is_inside);

/* The number of its newest call, where that began at this time; else 0. */
uint64_t gs_fleet_sums_number_of(const struct gs_fleet_sums *sums, uint32_t member,
				 uint64_t start_ns);

/* It was called at entered_ns, and is known to have been over at left_ns. Only of collectives that no rank can leave
 * before the last has entered them. number: as above. */
void gs_fleet_sums_take_stay(struct gs_fleet_sums *sums, uint32_t member, uint64_t number,
			     uint64_t entered_ns, uint64_t left_ns);

/* It gave the communicator up; its process ended; calls of a process (0: of any) were lost. */
void gs_fleet_sums_end_member(struct gs_fleet_sums *sums, uint32_t member);
void gs_fleet_sums_end_process(struct gs_fleet_sums *sums, uint32_t pid);
void gs_fleet_sums_lose_calls(struct gs_fleet_sums *sums, uint32_t pid);

/* Has no rank made a call for GS_FLEET_QUIET_NS, though there are some that could? */
bool gs_fleet_sums_is_quiet(const struct gs_fleet_sums *sums, uint64_t now_ns);

#define GS_FLEET_STEP_SLOTS 16 /* of which steps come, as of gs_aggregate_set_step_receiver() */

struct gs_fleet_step { /* one that ended, with as many calls as most of its run */
	unsigned slot;
	uint32_t run; /* another one than before: what the slot had is void */
	uint32_t pid;
	uint64_t start_ns, dur_ns;
};

/* Without memory it is left out. */
void gs_fleet_sums_take_step(struct gs_fleet_sums *sums, const struct gs_fleet_step *step);

struct gs_fleet_step_figures { /* of the steps of a process */
	uint32_t pid;
	unsigned slot;
	uint32_t run;
	uint64_t n_steps, n_odd, median_ns, p95_ns; /* as in struct gs_rec_rank_steps */
};

/* Append the steps of the process that ended since the last time, and these figures of all, after gs_fleet_sums_put() made
 * records; nothing where none ended, or the process is in no communicator. */
void gs_fleet_sums_put_steps(struct gs_fleet_sums *sums,
			     const struct gs_fleet_step_figures *figures, uint64_t now_ns,
			     struct gs_buf *out);

/* Append a record of each rank, and one of a stay of it where there was one, when GS_FLEET_EVERY_NS have passed since the last time, or is_last:
 * tracing ends; of a rank that ended once more, and then no more. What the buffer refuses is left out, as a lost record is. False: it is not
 * time yet, and there are none. */
bool gs_fleet_sums_put(struct gs_fleet_sums *sums, uint64_t now_ns, int64_t wall_minus_boot_ns,
		       bool is_last, struct gs_buf *out);

#endif
