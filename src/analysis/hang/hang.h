/*
 * Hangs of a job whose ranks meet at collectives: which ranks have not arrived at one that others wait
 * in, which ended, and which made another call than the others.
 *
 * In come the ranks of communicators, their calls in the order in which they were made, and what
 * ended; gs_hang_check() says what time it is, and gs_hang_next() hands out what was found. The n-th
 * collective of one rank of a communicator belongs with the n-th of every other. All times are of one
 * clock. Ranks that are not put in (of other nodes) are not waited for. Nothing is guessed: where calls
 * of a rank were lost its communicators are left alone. Ranks that wait since some called something else are
 * part of that finding, and no other one.
 *
 * Ranks that have all made as many calls are idle, however long: that is no hang. Memory is bounded by
 * the limits below and never grows with the number of calls. One thread.
 */
#ifndef GS_ANALYSIS_HANG_HANG_H
#define GS_ANALYSIS_HANG_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_HANG_MAX_MEMBERS 4096
#define GS_HANG_MAX_FOUND   64 /* handed out in all; more are counted */
#define GS_HANG_KEPT        64 /* newest calls of a rank; a power of two */

/* The loss of a call is reported up to half a second after it, and a call that was made last may be
 * read as late: nothing is said of what is younger. */
#define GS_HANG_HOLD_NS 2000000000ull

struct gs_hang;

/* What all ranks must agree on. */
struct gs_hang_op {
	uint32_t function; /* id: model/trace/func.h; 0: no call */
	uint32_t aux;      /* type, operation and root, as of struct gs_event_call */
	uint64_t count;    /* elements */
};

/* What one rank called as a collective at which ranks differ, and after it; function 0: nothing yet. */
struct gs_hang_pair {
	struct gs_hang_op at[2];
};

struct gs_hang_call {
	struct gs_hang_op op; /* what must be alike on all ranks */
	uint64_t start_ns;    /* when the rank arrived; two calls of a rank differ in it */
	uint32_t tid;
};

enum gs_hang_kind {
	GS_HANG_WAITS = 1,   /* ranks wait for others that do not arrive */
	GS_HANG_DIFFERS = 2, /* ranks made different calls as the same collective */
	GS_HANG_JOINS = 3,   /* ranks wait for others to make a communicator together */
};

enum gs_hang_state {
	GS_HANG_ARRIVED = 1,
	GS_HANG_MISSING, /* it has not arrived, though it runs */
	GS_HANG_ENDED,   /* nor will it: its process ended */
	GS_HANG_LEFT,    /* likewise: it gave its communicator up */
	GS_HANG_ODD,     /* it made another call than most */
	GS_HANG_SKIPPED, /* likewise, and it is the one that most make next */
	GS_HANG_EXTRA,   /* likewise, and the one that most make here it makes next */
	GS_HANG_N_STATES
};

struct gs_hang_rank {
	int32_t rank;             /* in the communicator */
	uint32_t pid;             /* 0: not known, it has not been seen */
	uint32_t tid;             /* that made its last call; 0: none */
	enum gs_hang_state state; /* where it is */
	uint8_t end_signal;       /* that ended its process; 0: none, or not known */
	bool is_inside;           /* its last call has not returned */
	uint64_t n_calls;         /* so far */
	uint64_t last_ns;         /* when the last was made; 0: none */
	struct gs_hang_op last;   /* that call */
	struct gs_hang_op
		here; /* its call with the number of the finding; function 0: none, or not kept */
};

struct gs_hang_found {
	uint32_t number;        /* from 1; the same when it is handed out again, ended */
	enum gs_hang_kind kind; /* a hang, or calls that do not match */
	uint64_t id;            /* the same for all ranks of the communicator */
	int32_t n_ranks;        /* of it, with those that were not put in */
	uint64_t call; /* which collective of the communicator, from 1; 0: it is being made */
	uint64_t since_ns, found_ns;
	uint64_t ended_ns; /* no rank waits any more; 0: they do */
	bool has_arrived; /* because the last rank has arrived, and not because those that waited ended */
	struct gs_hang_op op; /* what most ranks called here */
	uint64_t n_odd;       /* ranks that are not GS_HANG_ARRIVED; 0: no call is that of most */
	struct gs_hang_rank *ranks; /* that were put in, by rank; those that matter first */
	size_t n_seen;
};

/* quiet_ns: how long ranks may wait for one that makes no call. NULL: no memory. */
struct gs_hang *gs_hang_new(uint64_t quiet_ns);
void gs_hang_free(struct gs_hang **hang);

/* A rank's communicator, by a number of the caller's below GS_HANG_MAX_MEMBERS (others are left out).
 * id: the same for all ranks of it. Only the first time counts. */
void gs_hang_set_member(struct gs_hang *hang, uint32_t member, uint32_t pid, uint64_t id,
			int32_t rank, int32_t n_ranks);

/* It called a collective. The same call may come twice, first as one that has not returned. */
void gs_hang_take_call(struct gs_hang *hang, uint32_t member, const struct gs_hang_call *call,
		       bool is_inside);

/* A call by which a rank makes a communicator with others, and which has not returned. */
struct gs_hang_join {
	uint64_t key; /* the same for all ranks of it, and of another one where that is known */
	int32_t rank, n_ranks;
	uint32_t pid, tid;
	uint32_t function; /* id */
	uint64_t start_ns;
};

#define GS_HANG_MAX_JOINS 64 /* communicators that are made at one time; of more nothing is said */

/* All such calls as of now. Ranks that are in one for quiet_ns since the last of them came are a finding. */
void gs_hang_take_joins(struct gs_hang *hang, const struct gs_hang_join *list, size_t n,
			uint64_t now_ns);

/* Is it time to put them in again? */
bool gs_hang_wants_joins(const struct gs_hang *hang, uint64_t now_ns);

/* It gave the communicator up. */
void gs_hang_end_member(struct gs_hang *hang, uint32_t member);

/* A process ended; signal: that ended it, 0 none or not known. */
void gs_hang_end_process(struct gs_hang *hang, uint32_t pid, uint8_t signal, uint64_t end_ns);

/* Calls of a process (0: of any) were lost: its communicators of now are left alone. */
void gs_hang_lose_calls(struct gs_hang *hang, uint32_t pid);

/* Does a rank wait for another for so long that calls which have not returned matter? */
bool gs_hang_is_quiet(const struct gs_hang *hang, uint64_t now_ns);

/* All that happened until now_ns has been put in, but for calls that have not returned. is_last: these too, and
 * all that was lost. */
void gs_hang_check(struct gs_hang *hang, uint64_t now_ns, bool is_last);

/* The next that was found, or found to have ended; lent until the next call of the room. NULL: none. */
const struct gs_hang_found *gs_hang_next(struct gs_hang *hang);

/* Findings that had no place. */
uint64_t gs_hang_n_left_out(const struct gs_hang *hang);

/* --- calls of ranks as one collective, wherever they are known from --- */

/* Do all ranks that make both calls as one collective get along? */
bool gs_hang_ops_agree(const struct gs_hang_op *a, const struct gs_hang_op *b);

/* The same for all calls that get along, and different for others. */
struct gs_hang_op gs_hang_op_normal(const struct gs_hang_op *op);

/* What more than half of the n ranks that called there called, and what one of these called next; function 0:
 * nothing is, not known. */
struct gs_hang_op gs_hang_op_of_most(const struct gs_hang_pair *pairs, size_t n,
				     struct gs_hang_op *ret_next);

/* Of a rank that called there: GS_HANG_ARRIVED, GS_HANG_ODD, GS_HANG_SKIPPED or GS_HANG_EXTRA. */
enum gs_hang_state gs_hang_state_of_pair(const struct gs_hang_pair *pair,
					 const struct gs_hang_op *most,
					 const struct gs_hang_op *next);

/* Did one rank skip a call or make one too many, so that numbers of ranks no longer belong together? */
bool gs_hang_has_shifted(const struct gs_hang_pair *pairs, size_t n);

/* "ncclAllReduce of 1,024 float32". Returns out. */
#define GS_HANG_TEXT_BYTES 320
const char *gs_hang_op_text(const struct gs_hang_op *op, char out[GS_HANG_TEXT_BYTES]);

/* One line each, without times of day; whom it is about first. Return out. */
const char *gs_hang_text(const struct gs_hang_found *found, char out[GS_HANG_TEXT_BYTES]);
const char *gs_hang_rank_text(const struct gs_hang_found *found, const struct gs_hang_rank *rank,
			      char out[GS_HANG_TEXT_BYTES]);

/* "missing": the word of a state in JSON. */
const char *gs_hang_state_name(enum gs_hang_state state);

#endif
