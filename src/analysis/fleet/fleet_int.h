/* What is remembered of ranks and communicators. Inside the room only. */
#ifndef GS_ANALYSIS_FLEET_FLEET_INT_H
#define GS_ANALYSIS_FLEET_FLEET_INT_H

#include "analysis/fleet/fleet.h"
#include "core/base/map.h"

#define MARKS 16 /* newest ones of a rank */

struct mark {
	uint64_t number, arrivals_ns, inside_ns, at_ns;
	int64_t shift_ns; /* head's clock less the rank's, of mark and arrivals */
};

struct rank {
	uint64_t comm; /* index and 1; 0: the place is free */
	int32_t rank;
	uint32_t pid, flags; /* enum gs_rank_flag */
	int64_t node;
	uint64_t error_ns;         /* of its node's clock */
	int64_t as_of_ns, last_ns; /* head's clock */
	uint64_t calls;
	struct mark marks[MARKS]; /* by number, rising */
	uint32_t n_marks;
	char name[GS_FLEET_NAME_BYTES], last_name[GS_RANK_NAME_BYTES], job[GS_RANK_JOB_BYTES];
};

struct comm {
	uint64_t id;     /* 0: the place is free */
	int32_t n_ranks; /* of it */
	uint32_t *ranks; /* owned; places of its ranks */
	uint32_t n, n_room;
	uint64_t compared; /* the mark up to which ranks were compared; 0 none */
	/* Whom the last comparisons showed late, in how many one after the other, since when; and in how many the
	 * one of a finding was not. */
	int32_t late_rank; /* -1 none */
	uint32_t n_late, n_not;
	int64_t late_since_ns;
	uint64_t n_times;   /* comparisons since late_since_ns */
	uint32_t late_find; /* places of findings that hold, and 1; 0 none */
	uint32_t hang_find;
};

struct slot {
	struct gs_fleet_finding it;
	bool is_used, is_due; /* it is to be handed out */
};

struct gs_fleet {
	struct rank *ranks; /* owned */
	uint32_t n_ranks, n_ranks_room, n_used_ranks;
	struct comm *comms; /* owned */
	uint32_t n_comms, n_comms_room, n_used_comms;
	struct gs_map by_rank, by_comm; /* hash of what it is -> place */
	struct slot found[GS_FLEET_MAX_FINDINGS];
	uint64_t n_numbers, n_left_out;
	double *scratch; /* owned; n_scratch values */
	uint32_t n_scratch;
};

/* Is nothing more expected of it? */
static inline bool rank_is_over(const struct rank *r)
{
	return r->flags & (GS_RANK_ENDED | GS_RANK_LEFT);
}

/* --- fleet.c --- */

/* A new finding of the communicator, which holds. NULL: no place, which is counted. ret_place: and 1. */
struct gs_fleet_finding *fleet_add_finding(struct gs_fleet *fleet, const struct comm *comm,
					   enum gs_fleet_kind kind, int64_t begin_ns,
					   int64_t now_ns, uint32_t *ret_place);

/* It is handed out again. */
void fleet_touch_finding(struct gs_fleet *fleet, uint32_t place);

/* It ended; *place becomes 0. */
void fleet_end_finding(struct gs_fleet *fleet, uint32_t *place, int64_t end_ns);

/* List the rank in a finding, if there is room. */
void fleet_list_rank(struct gs_fleet_finding *finding, const struct rank *rank,
		     enum gs_fleet_state state);

/* --- late.c, hang.c --- */

void fleet_compare_ranks(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);
void fleet_seek_hang(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

#endif
