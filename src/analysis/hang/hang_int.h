/* What is remembered of ranks and of the groups that they form. Inside the room only. */
#ifndef GS_ANALYSIS_HANG_HANG_INT_H
#define GS_ANALYSIS_HANG_HANG_INT_H

#include "analysis/hang/hang.h"
#include "core/base/map.h"

struct call {
	struct gs_hang_op op;
	uint64_t start_ns;
};

struct member {
	uint32_t pid, tid;
	int32_t rank;
	uint32_t group; /* index; 0: not known yet, what it calls is passed over */
	bool is_inside, has_left, has_ended;
	uint8_t end_signal;
	uint64_t ended_ns;
	uint64_t n_calls;
	struct call
		*calls; /* owned; call number n at n & (GS_HANG_KEPT - 1); NULL until the first */
	struct gs_hang_pair pair; /* at the group's difference */
};

struct group {
	uint64_t id;
	int32_t n_ranks;
	uint32_t next;     /* another one of the same id; 0 none */
	uint32_t *members; /* owned */
	uint32_t n_members;
	bool is_lost;       /* its calls have no numbers */
	uint64_t newest_ns; /* call */
	struct {
		uint64_t number; /* of the call */
		struct gs_hang_op op;
	} first[GS_HANG_KEPT];           /* what the first rank called, by number */
	uint64_t differs_at, differs_ns; /* number of the first call that differs, 0 none; when */
	bool has_said_differs;           /* it was handed out */
	bool has_said_crash;             /* that a rank was killed, after which the others ended */
	uint32_t waits;                  /* place of the finding that holds, and 1; 0 none */
};

struct join { /* a communicator that ranks are making */
	uint64_t key;
	int32_t n_ranks, n_inside;        /* of it; of these, in the call now */
	uint64_t newest_ns, oldest_ns;    /* when these called it */
	uint32_t found;                   /* place of its finding, and 1; 0 none */
	bool is_said, has_ended, is_made; /* has_ended: a process of it */
};

struct found {
	struct gs_hang_found it;
	bool is_due; /* to be handed out */
};

struct gs_hang {
	uint64_t quiet_ns;
	struct member *members; /* owned; by the caller's number */
	uint32_t n_members;
	struct group *groups; /* owned; [0] is never used */
	uint32_t n_groups, n_groups_room;
	struct gs_map by_id; /* -> index of the first group */
	struct join joins[GS_HANG_MAX_JOINS];
	uint32_t n_joins;
	uint64_t joined_ns; /* when they were put in last */
	struct found found[GS_HANG_MAX_FOUND];
	uint32_t n_found;
	uint64_t n_left_out;
};

/* The call of a rank by its number, from 1. NULL: not made yet, or no longer kept. */
const struct call *hang_member_call(const struct member *member, uint64_t number);

/* --- join.c --- */

/* A process has a communicator of so many ranks now. */
void hang_make_joins(struct gs_hang *hang, uint32_t pid, int32_t n_ranks);

/* What ranks waited for has come. */
void hang_check_joins(struct gs_hang *hang, uint64_t now_ns);

/* A process ended. */
void hang_end_joins(struct gs_hang *hang, uint32_t pid);

/* --- found.c --- */

/* Make a finding of a group as of now. NULL: no place or no memory, which is counted. */
struct found *hang_add_found(struct gs_hang *hang, const struct group *group,
			     enum gs_hang_kind kind, uint64_t call, uint64_t since_ns,
			     uint64_t now_ns);

#endif
