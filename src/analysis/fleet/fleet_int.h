/* What is remembered of ranks and communicators. Inside the room only. */
#ifndef GS_ANALYSIS_FLEET_FLEET_INT_H
#define GS_ANALYSIS_FLEET_FLEET_INT_H

#include "analysis/fleet/clocks.h"
#include "analysis/fleet/fleet.h"
#include "analysis/detect/detect.h"
#include "core/base/map.h"
#include "model/trace/hist.h"

#define MARKS         16 /* newest ones of a rank */
#define FUNCTIONS_MAX 32
#define STAYS         4 /* newest ones of a rank */

struct mark {
	uint64_t number, arrivals_ns, inside_ns, at_ns, calls_hash;
	int64_t shift_ns; /* head's clock less the rank's, of mark and arrivals */
};

#define STEPS 32 /* newest ones of a rank */

struct rank_steps {
	uint32_t run, n;
	uint64_t n_steps, n_odd, median_ns, p95_ns; /* as they were sent */
	struct gs_rank_step steps[STEPS];           /* by call, rising */
	/* Sums over the steps that were compared; n_late: where lateness is known. */
	uint64_t n_compared, n_slowest, n_late;
	double late_sum_ns, inside_sum_ns, dur_sum_ns;
};

/* A rank's part of a step that is compared. */
struct side {
	struct rank *rank;
	const struct gs_rank_step *step;
	double error_ns; /* of its clock */
};

/* What comparing steps of a communicator adds up to. */
struct comm_steps {
	uint64_t compared; /* up to this call; 0 none */
	int64_t since_ns;
	uint64_t n_compared, n_known, n_unlike;
	double error_ns;
	uint64_t spread_max_ns, spreads[GS_HIST_N_BUCKETS];
	struct gs_fleet_slow_step slow[GS_FLEET_SLOW_STEPS]; /* n_slow of them, the slowest first */
	uint32_t n_slow;
};

/* Of a rank; or of those of one node, then from when the last was in to when the first was out. */
struct stay {
	uint64_t number; /* of the collective; 0 none */
	struct gs_fleet_stay it;
};

/* The clock of a node against that of the one to which a communicator refers. */
struct pair {
	int64_t one, other; /* nodes; 0: the place is free */
	int64_t heard_ns;   /* head's clock */
	struct gs_fleet_clock clock;
};

struct rank {
	uint64_t comm; /* index and 1; 0: the place is free */
	int32_t rank;
	uint32_t pid, flags; /* enum gs_rank_flag */
	int64_t node;
	uint64_t error_ns;         /* of its node's clock */
	int64_t shift_ns;          /* head's clock less the rank's, as of the newest record */
	int64_t as_of_ns, last_ns; /* head's clock */
	uint64_t calls;
	struct mark marks[MARKS]; /* by number, rising */
	uint32_t n_marks;
	struct stay stays[STAYS];  /* by number, modulo what is kept */
	struct rank_steps *steps;  /* owned; NULL: none are known */
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
	int64_t one; /* the node whose clock those of others are compared with; 0 none yet */
	struct stay stays[STAYS]; /* of its ranks */
	struct gs_detect *pace;   /* owned; NULL: not followed */
	struct comm_steps *steps; /* owned; NULL: no steps are known */
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
	struct pair *pairs; /* owned */
	uint32_t n_pairs, n_pairs_room, n_used_pairs;
	struct gs_map by_rank, by_comm, by_pair; /* hash of what it is -> place */
	struct slot found[GS_FLEET_MAX_FINDINGS];
	uint64_t n_numbers, n_left_out;
	double *scratch; /* owned; n_scratch values */
	uint32_t n_scratch;
	struct side *sides; /* owned; of the step that is compared */
	uint32_t n_sides_room;
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

/* The rank of that communicator. NULL: it is not known. */
struct rank *fleet_find_rank(const struct gs_fleet *fleet, uint64_t id, int32_t n_ranks,
			     int32_t rank);

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

/* What a comparison says of the rank that arrives last. */
struct verdict {
	struct rank *rank;
	double period_ns; /* from one collective to the next */
	double late_ns, ratio, error_ns, inside_ratio, others_inside_ratio;
	bool is_late, has_clocks;
	bool is_known; /* what clocks may explain decides nothing: it is late, or no rank is */
};

/* A time from one collective to the next. */
void fleet_follow_pace(struct gs_fleet *fleet, struct comm *comm, const struct verdict *verdict,
		       int64_t now_ns);

/* What was usual is void. */
void fleet_forget_pace(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

/* --- steps.c --- */

/* Put steps of ranks side by side. */
void fleet_compare_steps(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

/* What was compared is void. */
void fleet_forget_compared(struct gs_fleet *fleet, struct comm *comm);

/* --- meet.c --- */

/* How times of the ranks of a communicator are compared. */
struct timing {
	bool has_clocks;   /* by bounds from collectives */
	int64_t shift_ns;  /* then: head's clock less that of the communicator's node */
	int64_t at_ns;     /* likewise: of which time, of that node's clock */
	uint64_t error_ns; /* likewise: by which shift_ns may be wrong, which all have in common */
};

/* What is to be added to the rank's times of that mark, and by how much that may be wrong. */
int64_t fleet_shift_of_rank(const struct gs_fleet *fleet, const struct comm *comm,
			    const struct timing *timing, const struct rank *rank,
			    const struct mark *mark, double *ret_error_ns);

/* Whichever is less wrong for the two worst nodes. to: a mark that all have. */
struct timing fleet_choose_timing(const struct gs_fleet *fleet, const struct comm *comm,
				  uint64_t to);

/* Of the pairs that were not heard of for long. */
void fleet_forget_pairs(struct gs_fleet *fleet, int64_t now_ns);

/* --- late.c, hang.c --- */

/* The mark of that number. NULL: it is not kept. */
const struct mark *fleet_find_mark(const struct rank *rank, uint64_t number);

/* Why it makes no call. */
enum gs_fleet_state fleet_state_of_rank(const struct rank *rank, int64_t now_ns);

/* The lower one of the middle two; they are put in order. n: not 0. */
double fleet_median_of(double *values, uint32_t n);

void fleet_compare_ranks(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);
void fleet_seek_hang(struct gs_fleet *fleet, struct comm *comm, int64_t now_ns);

#endif
