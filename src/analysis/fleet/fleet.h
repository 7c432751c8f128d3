/*
 * The head's half: ranks of jobs over many nodes, compared by what each adds up to (RANK records,
 * model/nccl/rank.h). Found are a rank that arrives late at collectives, again and again,
 * ranks that wait for others that do not arrive, and ranks that called something else than the others as
 * the same collective, and ranks that all became slower, whichever node they are on. What a mismatch leads to is no finding of its own.
 *
 * Steps of ranks are put side by side: two are the same step where the same collective was made in them.
 *
 * In come records of nodes, as checked bytes; gs_fleet_tick() says what time it is, and
 * gs_fleet_next() hands out what has begun, changed or ended. Ranks of one communicator are those of one
 * hash and size. All times in findings are ns of the head's clock since 1970.
 *
 * Times of nodes are compared with what is known of their clocks: the head's estimate of each, and bounds between two from
 * collectives that ranks of both were in (clocks.h), whichever is less wrong. Where ranks are on several nodes a
 * rank is late only by more than that can be wrong; what it may explain is not known, and findings say so. Ranks that are not heard of are not
 * waited for, and where calls of a rank were lost its communicator is left alone.
 *
 * Memory is bounded by the limits below, whatever nodes send. One thread at a time.
 */
#ifndef GS_ANALYSIS_FLEET_FLEET_H
#define GS_ANALYSIS_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/hang/hang.h"
#include "core/base/buf.h"
#include "model/nccl/rank.h"

#define GS_FLEET_MAX_RANKS    16384 /* of all communicators; more are counted */
#define GS_FLEET_MAX_COMMS    4096
#define GS_FLEET_MAX_FINDINGS 256  /* that hold at one time; more are counted */
#define GS_FLEET_MAX_LISTED   16   /* ranks that a finding lists */
#define GS_FLEET_MAX_CLOCKS   4096 /* pairs of nodes whose clocks are bounded by collectives */
#define GS_FLEET_NAME_BYTES   66
#define GS_FLEET_TEXT_BYTES   384

#define GS_FLEET_UNKNOWN_NS                                                                        \
	3600e9 /* an error of a clock that is so large says that it is not known */

#define GS_FLEET_HANG_NS  5000000000ull   /* so long without a call, while ranks wait */
#define GS_FLEET_STALE_NS 15000000000ull  /* of which nothing came for so long is silent */
#define GS_FLEET_GONE_NS  600000000000ull /* and after so long forgotten */

/* A rank is late when it is this much of the time from one collective to the next later than the median rank, in
 * this many comparisons one after the other that span so much time; likewise it is so no more. */
#define GS_FLEET_LATE_RATIO 0.03
#define GS_FLEET_LATE_TIMES 4
#define GS_FLEET_LATE_NS    3000000000ull

/* Of the detector of change points that follows the time from one collective to the next, a comparison a sample: what is
 * taken as usual first, the smallest change that is looked for, and after how many it is usual. */
#define GS_FLEET_SLOW_TRAINING 64
#define GS_FLEET_SLOW_CHANGE   0.05
#define GS_FLEET_SLOW_USUAL    600
#define GS_FLEET_MAX_PACES     256 /* communicators that are followed so */

struct gs_fleet;

struct gs_fleet_source {   /* of whom a record came */
	int64_t node;      /* any number of its own, not 0 */
	const char *name;  /* of the node; copied */
	int64_t offset_ns; /* the head's clock less the node's */
	uint64_t error_ns; /* by which that may be wrong */
};

enum gs_fleet_kind {
	GS_FLEET_LATE = 1,    /* a rank arrives late at collectives */
	GS_FLEET_HANG = 2,    /* ranks wait for others */
	GS_FLEET_DIFFERS = 3, /* ranks made different calls as the same collective */
	GS_FLEET_SLOW = 4,    /* collectives come in longer intervals, and no rank is late */
};

enum gs_fleet_state {
	GS_FLEET_MISSING = 1, /* it runs, and has not arrived */
	GS_FLEET_ENDED = 2,   /* its process ended */
	GS_FLEET_LEFT = 3,    /* it gave the communicator up */
	GS_FLEET_SILENT = 4,  /* its node sends nothing */
	/* Of a mismatch, as in analysis/hang: */
	GS_FLEET_ODD = 5,     /* it made another call than most */
	GS_FLEET_SKIPPED = 6, /* likewise, and it is the one that most make next */
	GS_FLEET_EXTRA = 7,   /* likewise, and the one that most make here it makes next */
};

struct gs_fleet_rank {             /* as a finding lists it */
	int32_t rank;              /* in the communicator, from 0 */
	uint32_t pid;              /* on its node */
	enum gs_fleet_state state; /* of a hang or a mismatch; else 0 */
	uint64_t calls;            /* so far */
	struct gs_hang_op here; /* of a mismatch, its call there; function 0: none, or not known */
	char node[GS_FLEET_NAME_BYTES];     /* its name */
	char last_name[GS_RANK_NAME_BYTES]; /* the function of its last collective; "" none */
};

struct gs_fleet_finding {
	uint64_t number;                    /* from 1; the same when it comes again */
	enum gs_fleet_kind kind;            /* a late rank, or a hang */
	uint64_t id;                        /* of the communicator */
	int32_t n_ranks, n_seen;            /* of it; of these, heard of */
	char job[GS_RANK_JOB_BYTES];        /* of its processes; "" none */
	int64_t begin_ns, found_ns, end_ns; /* end 0: it holds */
	/* Whom it is about: the late rank, or those that have not arrived, GS_FLEET_MAX_LISTED at most of n_about. */
	struct gs_fleet_rank about[GS_FLEET_MAX_LISTED];
	uint32_t n_about;

	/* Of a late rank, as of the last comparison in which it was late. */
	double late_ns; /* after the median rank, a collective */
	double ratio;   /* of the time from one collective to the next */
	double error_ns; /* by which late_ns may be wrong; of a slowdown: by which any rank's lateness may be */
	bool has_clocks; /* that is from collectives, rather than from the head's estimates */
	/* Of a late rank: the newest comparison shows whether it is late. Of a slowdown: whether any rank is. */
	bool is_known;
	/* Time inside of collectives, of all time: of the rank, and of the median rank. */
	double inside_ratio, others_inside_ratio;
	uint64_t n_late, n_compared; /* comparisons since it began */

	/* Of a hang and of a mismatch. */
	uint64_t call; /* which collective, from 1 */

	/* Of a hang. */
	uint32_t n_waiting; /* ranks that wait */
	char last_name
		[GS_RANK_NAME_BYTES]; /* the function that was called last by one that waits */

	/* Of a slowdown: median time from one collective to the next, of all ranks, and the detector's score. */
	double before_ns, after_ns, score, score_limit;

	/* Of a mismatch. */
	uint64_t last_call;   /* it is among these; the same as call: which one is known */
	struct gs_hang_op op; /* what most ranks called; function 0: nothing is, or not known */
	bool has_majority; /* n_about are those that are not like most; else all that were seen */
};

struct gs_fleet *gs_fleet_new(void); /* NULL: no memory */

/* And all that it has handed out. NULL inside: nothing happens. */
void gs_fleet_free(struct gs_fleet **fleet);

/* now_ns: of the head's clock. 0; -EINVAL: not what a node makes; -ENOBUFS: no place for it, which is counted;
 * -EEXIST: a rank that another node has, which is counted likewise; -ENOMEM. */
int gs_fleet_take(struct gs_fleet *fleet, const struct gs_fleet_source *source,
		  const struct gs_rec_rank *record, int64_t now_ns);

/* Likewise, after the rank's own record. -ENOENT: the rank is not known, or is another node's. */
int gs_fleet_take_stay(struct gs_fleet *fleet, const struct gs_fleet_source *source,
		       const struct gs_rec_rank_stay *record);

/* Compare what has come, and look for hangs. About once a second. */
void gs_fleet_tick(struct gs_fleet *fleet, int64_t now_ns);

/* The next finding that has begun, changed or ended since it was handed out last; lent until the next call.
 * NULL: none. */
const struct gs_fleet_finding *gs_fleet_next(struct gs_fleet *fleet);

/* Those that hold; lent for the calls. */
void gs_fleet_each_holding(const struct gs_fleet *fleet,
			   void (*fn)(void *ctx, const struct gs_fleet_finding *finding),
			   void *ctx);

/* --- steps of ranks, side by side --- */

#define GS_FLEET_SLOW_STEPS 8 /* of a communicator that are kept, the slowest */

/* Which rank was the slowest in a step: the one whose collectives came last, by the measures of a late rank. */
enum gs_fleet_slowest {
	GS_FLEET_SLOWEST_UNKNOWN = 0, /* clocks may explain it, or ranks begin steps elsewhere */
	GS_FLEET_SLOWEST_NONE = 1,    /* no rank stands out */
	GS_FLEET_SLOWEST_RANK = 2,
};

/* A step of several ranks: those in which they made the same collective. */
struct gs_fleet_slow_step {
	uint64_t call,
		n_calls;  /* its first collective, from 1, and how many it has; of one of them */
	int64_t begin_ns; /* likewise; of the head's clock */
	double dur_ns, spread_ns; /* median of the ranks; the longest less the shortest */
	enum gs_fleet_slowest slowest;
	/* How much later than the median rank the last one called its collectives, in the mean; by which that may be wrong.
	 * Not known: 0 and GS_FLEET_UNKNOWN_NS. */
	double late_ns, error_ns;
	int32_t rank; /* it, where it is known; else -1 */
	uint32_t pid;
	char node[GS_FLEET_NAME_BYTES];
};

struct gs_fleet_step_rank {
	int32_t rank;
	uint32_t pid;
	const char *node;
	uint64_t n_steps, n_odd, median_ns, p95_ns; /* as the trace of its node has them */
	uint64_t n_compared,
		n_slowest; /* steps with those of the other ranks; in which it was the slowest */
	double late_ns; /* after the median rank, mean of the steps where that is known; NAN: none */
	double inside_ratio; /* of the time of compared steps, in calls of collectives; NAN: none */
};

struct gs_fleet_steps { /* of a communicator */
	uint64_t id;
	int32_t n_ranks, n_seen; /* of it; of these, heard of */
	uint32_t n_with;         /* of these, with steps */
	const char *job;         /* "" none */
	int64_t since_ns;        /* steps are compared since then */
	uint64_t n_compared,
		n_known;   /* steps; of these, where it is known whether a rank is the slowest */
	uint64_t n_unlike; /* left out: ranks made another number of collectives in them */
	uint64_t least_median_ns, most_median_ns; /* of the ranks */
	uint64_t spread_median_ns,
		spread_p95_ns; /* of compared steps, the longest less the shortest */
	double error_ns; /* by which late_ns of ranks may be wrong, as of the last step where that is known */
	const struct gs_fleet_slow_step *slow; /* n_slow of them, the slowest first */
	uint32_t n_slow;
	/* n_listed of them: those that were the slowest most often, then the latest, then the longest steps. */
	const struct gs_fleet_step_rank *ranks;
	uint32_t n_listed;
};

/* After the rank's own record. 0; -EINVAL: not what a node makes; -ENOENT: the rank is not known, or another process; -ENOMEM. */
int gs_fleet_take_steps(struct gs_fleet *fleet, const struct gs_fleet_source *source,
			const struct gs_rec_rank_steps *record);

/* Of each communicator of the job (NULL or "": of any) of which steps are known, with max_ranks ranks in all; lent for the call.
 * 0 or -ENOMEM. */
int gs_fleet_each_steps(const struct gs_fleet *fleet, const char *job, uint32_t max_ranks,
			void (*fn)(void *ctx, const struct gs_fleet_steps *steps), void *ctx);

/* As a table. now_ns: of the head's clock. What the buffer refuses is in its r. */
void gs_fleet_put_steps_text(struct gs_buf *out, const struct gs_fleet_steps *steps,
			     int64_t now_ns);

struct gs_fleet_counts {
	uint32_t n_ranks, n_comms, n_holding; /* that are known now; findings that hold */
	uint64_t n_left_out;                  /* records and findings without a place */
	uint32_t n_clocks; /* pairs of nodes whose clocks are bounded by collectives */
};

/* As of now. */
void gs_fleet_counts(const struct gs_fleet *fleet, struct gs_fleet_counts *ret_counts);

/* One line: "rank 3 of 8 (node b) arrives last at collectives: ...". Returns out. */
const char *gs_fleet_text(const struct gs_fleet_finding *finding, char out[GS_FLEET_TEXT_BYTES]);

/* "late_rank", "hang", "mismatch", "slowdown"; "missing", "ended", "left", "silent", "differs", "skipped", "extra": words of
 * data. "" of none. */
const char *gs_fleet_kind_name(enum gs_fleet_kind kind);
const char *gs_fleet_state_name(enum gs_fleet_state state);

#endif
