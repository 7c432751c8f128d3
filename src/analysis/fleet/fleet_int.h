/* What is remembered of ranks and communicators. Inside the room only. */
#ifndef GS_ANALYSIS_FLEET_FLEET_INT_H
#define GS_ANALYSIS_FLEET_FLEET_INT_H

#include "analysis/fleet/fleet.h"
#include "analysis/detect/detect.h"
#include "core/base/map.h"

#define MARKS         16 /* newest ones of a rank */
#define FUNCTIONS_MAX 32

struct mark {
	uint64_t number, arrivals_ns, inside_ns, at_ns, calls_hash;
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
	struct gs_hang_op *ops;    /* owned; call number n at n & (GS_RANK_CALLS - 1); NULL: none */
	uint64_t ops_from, ops_to; /* of these are known */
	struct gs_hang_pair pair;  /* at the difference of its communicator */
	bool is_odd;               /* its sums of what was called are not those of most */
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
	uint32_t hang_find, differs_find, slow_find;
	struct gs_detect *pace; /* owned; NULL: not followed */
	struct {
		uint64_t number; /* of the call */
		struct gs_hang_op op;
	} * first; /* owned; what the first rank called, GS_RANK_CALLS of them by number; NULL: none yet */
	/* Calls from..to, among which the first is that ranks made differently; 0 none. Found when. */
	uint64_t differs_from, differs_to;
	int64_t differs_ns;
	bool has_said_differs;
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
	uint32_t n_paces;
	struct {
		uint32_t hash, function;
	} functions[FUNCTIONS_MAX]; /* collectives that this version knows */
	uint32_t n_functions;
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

/* Forget what ranks have called, and end what was found in it. */
void fleet_forget_calls(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

/* --- differ.c --- */

/* Of the function's name; 0: there is none. */
uint32_t fleet_function_hash(uint32_t function);

void fleet_learn_functions(struct gs_fleet *fleet);

/* Those that the record lists, of which it has been checked. */
void fleet_take_calls(struct gs_fleet *fleet, struct rank *rank, const struct gs_rec_rank *record,
		      int64_t now_ns);

/* Between two marks that all have. */
void fleet_compare_calls(struct gs_fleet *fleet, struct comm *comm, uint64_t from, uint64_t to,
			 int64_t now_ns);

/* Hand out what has waited for long enough for ranks that come later. */
void fleet_seek_mismatch(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

/* Does what happens at this collective come of a mismatch before it? */
bool fleet_is_consequence(const struct gs_fleet *fleet, const struct comm *comm, uint64_t call);

/* --- pace.c --- */

/* A time from one collective to the next. */
void fleet_follow_pace(struct gs_fleet *fleet, struct comm *comm, double period_ns, int64_t now_ns);

/* What was usual is void. */
void fleet_forget_pace(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

/* --- late.c, hang.c --- */

/* The mark of that number. NULL: it is not kept. */
const struct mark *fleet_find_mark(const struct rank *rank, uint64_t number);

/* Why it makes no call. */
enum gs_fleet_state fleet_state_of_rank(const struct rank *rank, int64_t now_ns);

void fleet_compare_ranks(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);
void fleet_seek_hang(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

#endif
